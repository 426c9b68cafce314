//! How much a peer may send at once, in one table.

/// What one message may hold. All counts are held against these before anything is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of a request; elements of a reply, at all depths together.
    pub elements_max: u64,
    /// Bytes of one string.
    pub bulk_bytes_max: u64,
    /// Bytes of a string above [`Limits::bulk_bytes_max`] that are dropped as they come, so that
    /// the connection can go on behind its refused request. A longer one ends the connection.
    pub skip_bytes_max: u64,
    /// Bytes of a whole request or reply, framing included.
    pub message_bytes_max: u64,
    /// Bytes of a line: of a request without framing, its end included, and of a simple reply.
    pub line_bytes_max: u64,
    /// Whether the peer may use them all. It only chooses the words of an error.
    pub authenticated: bool,
}

impl Limits {
    /// What a peer may send before it has said who it is: ten arguments, 16 KiB together.
    #[must_use]
    pub const fn before_authentication() -> Self {
        let bytes = 16 << 10;
        Self {
            elements_max: 10,
            bulk_bytes_max: bytes,
            skip_bytes_max: 0,
            message_bytes_max: bytes,
            line_bytes_max: bytes,
            authenticated: false,
        }
    }
}

impl Default for Limits {
    /// Redis' own: 2^20 elements, strings of 512 MiB, lines of 64 KiB; and 1 GiB together.
    fn default() -> Self {
        Self {
            elements_max: 1 << 20,
            bulk_bytes_max: 512 << 20,
            skip_bytes_max: 512 << 20,
            message_bytes_max: 1 << 30,
            line_bytes_max: 64 << 10,
            authenticated: true,
        }
    }
}
