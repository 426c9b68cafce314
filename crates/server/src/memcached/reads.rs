//! When an item was last read by a meta command, for the flags `h` and `l`. Rows do not say: a read
//! writes nothing.
//!
//! ```text
//!   hash of the key  -->  [ tag 32 bits | seconds 32 bits ]    one word, the newest reader's
//! ```
//!
//! A table of fixed size: an item whose place was taken by another one counts as not read. Wrong
//! the other way round it is once in 2^32 lookups of a place that is taken.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Items whose last read is remembered, at most.
const READS_MAX: usize = 1 << 16;

/// The table.
pub(crate) struct Reads {
    /// Keyed at random, so that clients cannot choose their places.
    hasher: RandomState,
    words: Box<[AtomicU64]>,
    /// Whether anything was ever noted: where nobody uses meta commands, writes need not look.
    is_used: AtomicBool,
}

impl Reads {
    pub(crate) fn new() -> Self {
        Reads {
            hasher: RandomState::new(),
            words: (0..READS_MAX).map(|_| AtomicU64::new(0)).collect(),
            is_used: AtomicBool::new(false),
        }
    }

    /// Whether there is anything to forget.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    /// Seconds since `key` was last read; nothing when that is not known.
    pub(crate) fn before(&self, key: &[u8], now_ms: u64) -> Option<u64> {
        let (place, tag) = self.place(key);
        // Relaxed: a word says all there is to say.
        let word = self.words[place].load(Relaxed);
        let read_s = word & u64::from(u32::MAX);
        (word >> 32 == tag).then(|| (now_ms / 1000).saturating_sub(read_s))
    }

    /// Notes that `key` is read.
    pub(crate) fn note(&self, key: &[u8], now_ms: u64) {
        let (place, tag) = self.place(key);
        let word = tag << 32 | ((now_ms / 1000) & u64::from(u32::MAX));
        if !self.is_used() {
            self.is_used.store(true, Relaxed);
        }
        // A line that says so already stays with whoever has it.
        if self.words[place].load(Relaxed) != word {
            self.words[place].store(word, Relaxed);
        }
    }

    /// Forgets `key`, whose item is another one now.
    pub(crate) fn forget(&self, key: &[u8]) {
        let (place, tag) = self.place(key);
        if self.words[place].load(Relaxed) >> 32 == tag {
            self.words[place].store(0, Relaxed);
        }
    }

    /// The place of a key, and a tag that is not 0.
    fn place(&self, key: &[u8]) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        ((hash as usize) % READS_MAX, (hash >> 32) | 1)
    }
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
        assert_eq!(reads.before(b"k", 5000), None);
        reads.note(b"k", 5000);
        assert_eq!(reads.before(b"k", 5999), Some(0));
        assert_eq!(reads.before(b"k", 8000), Some(3));
        reads.forget(b"other");
        reads.forget(b"k");
        assert_eq!(reads.before(b"k", 8000), None);
    }
}
