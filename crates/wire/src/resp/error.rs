//! Why bytes are no request or no reply. The words are Redis' own where it has any, since clients
//! and people look for them.

/// Bytes that cannot be understood, now or with more behind them: the connection is of no use any
/// more. A server answers with [`super::Writer::protocol_error`] and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The count behind `*` is no number, or too large.
    #[error("invalid multibulk length")]
    MultibulkLength,
    /// More arguments than a peer may send before it has authenticated.
    #[error("unauthenticated multibulk length")]
    UnauthenticatedMultibulk,
    /// The length behind `$` is no number, negative, too large, or not where the string ends.
    #[error("invalid bulk length")]
    BulkLength,
    /// A longer string than a peer may send before it has authenticated.
    #[error("unauthenticated bulk length")]
    UnauthenticatedBulk,
    /// An argument that is no bulk string.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    ExpectedBulk(u8),
    /// No end in sight behind `*`.
    #[error("too big mbulk count string")]
    MultibulkCountString,
    /// No end in sight behind `$`.
    #[error("too big bulk count string")]
    BulkCountString,
    /// A line without an end.
    #[error("too big inline request")]
    InlineTooLong,
    /// A quote that is not closed, or something right behind a closing one.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
    /// All arguments together are too long.
    #[error("too big request")]
    RequestTooLong,
    /// A browser was talked into sending commands.
    #[error("this is no HTTP server")]
    Http,
    /// A reply of no known type.
    #[error("unknown type of reply '{}'", .0.escape_ascii())]
    ReplyType(u8),
    /// A number, truth value or null in a reply that is none.
    #[error("malformed {0} in reply")]
    Malformed(&'static str),
    /// A token where it has no meaning, such as the end of a stream outside of one.
    #[error("misplaced {0} in reply")]
    Misplaced(&'static str),
    /// A reply beyond the limits, or nested too deeply.
    #[error("reply exceeds the limit of {0}")]
    ReplyTooLarge(&'static str),
}
