//! What can go wrong when a stored histogram is read back.
//!
//! Measuring itself cannot fail: clocks fall back, histograms clamp, and statistics without an
//! answer are `None`. Only text that came from a file can be wrong, and there the error names the
//! byte or the reason.

/// The errors of this crate; all of them are about encoded histograms.
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
