//! How much a peer may send at once, in one table.

use crate::msgpack::ScanLimits;

/// What one message may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key, as the handshake agreed on.
    pub key_bytes_max: usize,
    /// Bytes of one value.
    pub value_bytes_max: usize,
    /// One more than the highest number of a column.
    pub columns_max: u32,
    /// Elements of a message, at all levels together.
    pub elements_max: u64,
    /// Bytes of a whole message.
    pub message_bytes_max: u64,
}

impl Limits {
    /// What may come before the handshake: nothing but the handshake.
    #[must_use]
    pub const fn before_handshake() -> Self {
        Self {
            key_bytes_max: 255,
            value_bytes_max: 255,
            columns_max: 1,
            elements_max: 32,
            message_bytes_max: 1 << 10,
        }
    }

    /// What a client takes from a server that it chose: answers of scans, up to 64 MiB of them.
    #[must_use]
    pub const fn replies() -> Self {
        Self {
            key_bytes_max: 1 << 20,
            value_bytes_max: 64 << 20,
            columns_max: u32::MAX,
            elements_max: 16 << 20,
            message_bytes_max: 64 << 20,
        }
    }

    pub(super) fn scan(&self) -> ScanLimits {
        ScanLimits {
            str_bytes_max: self.key_bytes_max.max(self.value_bytes_max) as u64,
            elements_max: self.elements_max,
            bytes_max: self.message_bytes_max,
        }
    }
}

impl Default for Limits {
    /// Keys of 255 bytes, values of 1 MiB, 1,024 columns; messages of 16 MiB.
    fn default() -> Self {
        Self {
            key_bytes_max: 255,
            value_bytes_max: 1 << 20,
            columns_max: 1 << 10,
            elements_max: 4 << 10,
            message_bytes_max: 16 << 20,
        }
    }
}
