//! When an item was last read or written through memcached's protocols, for the flags `h` and `l`
//! and for `me`. Rows do not say: a read writes nothing.
//!
//! ```text
//!   hash of the key  -->  [ tag 31 bits | read 1 bit | seconds 32 bits ]    the newest access
//! ```
//!
//! A table of fixed size: an item whose place was taken by another one counts as not read. Wrong
//! the other way round it is once in 2^31 lookups of a place that is taken. An access costs a hash
//! of its key (20 ns) and, once a second and key, a store to a line that all loops share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Items whose last access is remembered, at most.
const READS_MAX: usize = 1 << 16;

/// The part of a word that is the time, in seconds since 1970.
const SECONDS: u64 = (1 << 32) - 1;

/// The bit of a word that says that the access was a read.
const READ: u64 = 1 << 32;

/// Where the tag of a key begins.
const TAG_SHIFT: u32 = 33;

/// The table.
pub(crate) struct Reads {
    /// Keyed at random, so that clients cannot choose their places.
    hasher: RandomState,
    words: Box<[AtomicU64]>,
}

impl Reads {
    pub(crate) fn new() -> Self {
        Reads {
            hasher: RandomState::new(),
            words: (0..READS_MAX).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The last access to `key`, whose item was written or read lately.
    pub(crate) fn last(&self, key: &[u8], now_ms: u64) -> LastAccess {
        let (place, tag) = self.place(key);
        // Relaxed: a word says all there is to say.
        let word = self.words[place].load(Relaxed);
        if word >> TAG_SHIFT != tag {
            return LastAccess::default();
        }
        let access_s = word & SECONDS;
        LastAccess { was_read: word & READ != 0, idle_s: (now_ms / 1000).saturating_sub(access_s) }
    }

    pub(crate) fn read(&self, key: &[u8], now_ms: u64) {
        self.note(key, READ, now_ms);
    }

    /// Notes that the item of `key` is new and unread.
    pub(crate) fn written(&self, key: &[u8], now_ms: u64) {
        self.note(key, 0, now_ms);
    }

    fn note(&self, key: &[u8], read: u64, now_ms: u64) {
        let (place, tag) = self.place(key);
        let word = tag << TAG_SHIFT | read | ((now_ms / 1000) & SECONDS);
        // A line that says so already stays with whoever has it.
        if self.words[place].load(Relaxed) != word {
            self.words[place].store(word, Relaxed);
        }
    }

    /// The place of a key, and a tag that is not 0.
    fn place(&self, key: &[u8]) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        ((hash as usize) % READS_MAX, (hash >> TAG_SHIFT) | 1)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastAccess {
    /// Whether it was read since it was written.
    pub(crate) was_read: bool,
    /// Seconds since it was written or read; 0 when that is not known.
    pub(crate) idle_s: u64,
}

impl std::fmt::Debug for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reads").field("places", &self.words.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_remembered_until_the_item_is_another() {
        let reads = Reads::new();
        assert_eq!(reads.last(b"k", 5000), LastAccess::default());
        reads.written(b"k", 1000);
        assert_eq!(reads.last(b"k", 5000), LastAccess { was_read: false, idle_s: 4 });
        reads.read(b"k", 5000);
        assert_eq!(reads.last(b"k", 5999), LastAccess { was_read: true, idle_s: 0 });
        assert_eq!(reads.last(b"k", 8000), LastAccess { was_read: true, idle_s: 3 });
        reads.written(b"k", 9000);
        assert_eq!(reads.last(b"k", 9000), LastAccess { was_read: false, idle_s: 0 });
    }
}
