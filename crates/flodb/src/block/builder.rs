//! Making a block.

use super::RESTART_BYTES;
use crate::coding::{common_prefix, put_varint};
use crate::key;

/// A block that grows by entries in ascending order. The order is the caller's to keep.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    /// The last user key.
    last: Vec<u8>,
    interval: usize,
    since_restart: usize,
}

impl BlockBuilder {
    /// An empty block with a restart every `interval` entries, at least 1.
    pub(crate) fn new(interval: usize) -> Self {
        BlockBuilder {
            bytes: Vec::new(),
            restarts: Vec::new(),
            last: Vec::new(),
            interval: interval.max(1),
            since_restart: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Bytes of the block if it ended now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + (self.restarts.len() + 1) * RESTART_BYTES
    }

    /// The most bytes that an entry adds.
    pub(crate) fn entry_bytes_max(key: &[u8], value: &[u8]) -> usize {
        // Three lengths of at most five bytes, and a restart.
        3 * 5 + RESTART_BYTES + key.len() + value.len()
    }

    /// Adds an entry. The block must stay below 4 GiB.
    #[inline]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) {
        let user = key::user_of(internal_key);
        let shared = if self.restarts.is_empty() || self.since_restart == self.interval {
            self.restarts.push(self.bytes.len() as u32);
            self.since_restart = 0;
            0
        } else {
            common_prefix(&self.last, user)
        };
        self.since_restart += 1;
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, (user.len() - shared) as u64);
        put_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(&internal_key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.truncate(shared);
        self.last.extend_from_slice(&user[shared..]);
    }

    /// Ends the block and lends its bytes. [`BlockBuilder::clear`] begins the next.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let restarts = self.restarts.iter().flat_map(|restart| restart.to_le_bytes());
        self.bytes.extend(restarts);
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.bytes
    }

    /// Begins a new block in the memory of this one.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.last.clear();
        self.since_restart = 0;
    }
}
