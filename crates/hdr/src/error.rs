//! What can go wrong when a stored histogram is read back. Writing one cannot fail. The error names
//! the byte or the reason.

/// Why a text is not an encoded histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not standard base64.
    #[error("invalid base64 at byte {offset}")]
    Base64 {
        /// Offset in bytes of the first character that does not fit.
        offset: usize,
    },
    /// The bytes are not a histogram in the HdrHistogram V2 format.
    #[error("invalid encoded histogram: {reason}")]
    Encoding {
        /// What the decoder found wrong.
        reason: String,
    },
}
