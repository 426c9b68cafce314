//! How much of each thing a message may hold. Each limit is checked as soon as a length has been
//! read, before a byte is waited for or kept.

/// Bytes of the longest key, in all of memcached's protocols.
pub const KEY_BYTES_MAX: usize = 250;

/// Limits that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line of text, its end included. Retrievals of many keys have their own limit.
    pub line_bytes_max: usize,
    /// Bytes of a line that begins with `get`, `gets`, `gat` or `gats`.
    pub keys_line_bytes_max: usize,
    /// Bytes of a value; of what a binary message has besides key and extras.
    pub value_bytes_max: usize,
    /// Bytes of a value above [`Limits::value_bytes_max`] that are read over after the refusal, so
    /// that the connection can go on. A message with more closes it.
    pub skip_bytes_max: u64,
}

impl Limits {
    /// Those that memcached has; its lines of keys have no limit of their own.
    pub const DEFAULT: Limits = Limits {
        line_bytes_max: 2048,
        keys_line_bytes_max: 1 << 20,
        value_bytes_max: 1 << 20,
        skip_bytes_max: 64 << 20,
    };

    /// Those for a peer that has not said who it is: a password fits, little more does.
    pub const UNAUTHENTICATED: Limits = Limits {
        line_bytes_max: 2048,
        keys_line_bytes_max: 2048,
        value_bytes_max: 8 << 10,
        skip_bytes_max: 0,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
