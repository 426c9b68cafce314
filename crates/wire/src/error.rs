//! What a client can be told about bytes that are no reply. A server never sees these: what it
//! reads and cannot use has a reply of its own in each protocol.

/// Bytes of a server that break its protocol. Nothing after them can be read: the connection is to
/// be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no message of the protocol.
    #[error("malformed {protocol} reply: {what}")]
    Malformed {
        /// The protocol that was expected.
        protocol: &'static str,
        /// What is wrong, in words.
        what: &'static str,
    },
    /// A length or a count is above its limit.
    #[error("{protocol} reply too large: {what} of {count} is above {count_max}")]
    TooLarge {
        /// The protocol.
        protocol: &'static str,
        /// What is being counted.
        what: &'static str,
        /// The length or count that was read.
        count: u64,
        /// Its limit.
        count_max: u64,
    },
}

/// What the readers of replies give.
pub type Result<T> = std::result::Result<T, Error>;
