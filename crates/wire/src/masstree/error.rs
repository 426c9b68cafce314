//! Why bytes are no message.

use crate::msgpack::FormatError;

/// Bytes that are no message of this protocol, now or with more behind them. The connection is of
/// no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not msgpack, or too much of it.
    #[error("malformed message: {0}")]
    Format(#[from] FormatError),
    /// The first byte begins no array.
    #[error("a message begins with an array, not with byte {0:#04x}")]
    NoArray(u8),
    /// The array's first element is no number to be echoed.
    #[error("a message begins with its sequence number")]
    NoSequence,
    /// A datagram that ends before its message does, or is longer than any may be.
    #[error("a datagram holds one whole message")]
    Datagram,
    /// A reply of no known shape.
    #[error("malformed reply")]
    Reply,
}
