//! The memory of the rows, and which of them were read recently.
//!
//! Bytes are an estimate: key, row, and a constant for nodes and allocator. A session collects its
//! changes and adds them to the sum from time to time, so that writes share no word. The sum may be
//! off by [`UNREPORTED_BYTES_MAX`] a session.
//!
//! The *clock* needs to know which rows were read since its hand passed. A bit for each key would
//! have to be in the row. Here keys share reference bits by their hash. If two keys share a bit, a
//! read of one also protects the other, which only makes the choice slightly worse.

use crate::options::{Eviction, Options};
use crate::watermarks::hash;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The estimate for a row's share of tree nodes, blob header and allocator rounding.
const ROW_OVERHEAD_BYTES: usize = 64;
/// The bytes that a session may keep unreported.
pub(crate) const UNREPORTED_BYTES_MAX: i64 = 64 << 10;
/// Bytes of memory for each reference bit.
const BYTES_PER_BIT: u64 = 64;
const BITS_LOG2_MIN: u32 = 12;
const BITS_LOG2_MAX: u32 = 30;

/// The memory of a row.
#[inline]
pub(crate) fn cost(key_bytes: usize, row_bytes: usize) -> i64 {
    (key_bytes + row_bytes + ROW_OVERHEAD_BYTES) as i64
}

#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicI64,
    /// The number of rows with an expiry.
    volatile: AtomicI64,
    /// `i64::MAX` without a limit.
    max: i64,
    /// `None` if rows are not evicted.
    reads: Option<ReferenceBits>,
    /// The key at the clock's hand.
    pub(crate) hand: Mutex<Vec<u8>>,
}

impl Memory {
    pub(crate) fn new(options: &Options) -> Self {
        let is_limited = options.memory_max > 0;
        let evicts = is_limited && options.eviction == Eviction::Clock;
        let max = i64::try_from(options.memory_max).unwrap_or(i64::MAX);
        Memory {
            used: AtomicI64::new(0),
            volatile: AtomicI64::new(0),
            max: if is_limited { max } else { i64::MAX },
            reads: evicts.then(|| ReferenceBits::new(options.memory_max)),
            hand: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn max(&self) -> i64 {
        self.max
    }

    /// Whether rows are evicted to make room.
    #[inline]
    pub(crate) fn evicts(&self) -> bool {
        self.reads.is_some()
    }

    #[inline]
    pub(crate) fn used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: i64) {
        if bytes != 0 {
            self.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn volatile(&self) -> i64 {
        self.volatile.load(Ordering::Relaxed)
    }

    /// Returns whether these are the first rows with an expiry.
    pub(crate) fn add_volatile(&self, rows: i64) -> bool {
        rows != 0 && self.volatile.fetch_add(rows, Ordering::Relaxed) <= 0 && rows > 0
    }

    /// Records a read of `key`.
    #[inline]
    pub(crate) fn note_read(&self, key: &[u8]) {
        if let Some(reads) = &self.reads {
            reads.set(hash(key));
        }
    }

    /// Whether `key` was read since the last call. Clears its reference bit.
    pub(crate) fn test_and_clear_read(&self, key: &[u8]) -> bool {
        self.reads.as_ref().is_some_and(|reads| reads.test_and_clear(hash(key)))
    }
}

/// Reference bits, by the hash of the key.
#[derive(Debug)]
struct ReferenceBits {
    words: Box<[AtomicU64]>,
    mask: u64,
}

impl ReferenceBits {
    fn new(memory_max: u64) -> Self {
        let wanted = (memory_max / BYTES_PER_BIT).max(1).ilog2();
        let bits = 1_u64 << wanted.clamp(BITS_LOG2_MIN, BITS_LOG2_MAX);
        ReferenceBits { words: (0..bits / 64).map(|_| AtomicU64::new(0)).collect(), mask: bits - 1 }
    }

    fn word_of(&self, hash: u64) -> (&AtomicU64, u64) {
        let bit = hash & self.mask;
        (&self.words[(bit / 64) as usize], 1 << (bit % 64))
    }

    #[inline]
    fn set(&self, hash: u64) {
        let (word, bit) = self.word_of(hash);
        // A bit that is set already is not written, so that readers do not take the line from each
        // other.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn test_and_clear(&self, hash: u64) -> bool {
        let (word, bit) = self.word_of(hash);
        word.load(Ordering::Relaxed) & bit != 0
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_remembered_once() {
        let options =
            Options { memory_max: 1 << 20, eviction: Eviction::Clock, ..Options::default() };
        let memory = Memory::new(&options);
        assert!(memory.evicts() && memory.max() == 1 << 20);
        memory.note_read(b"a");
        memory.note_read(b"a");
        assert!(!memory.test_and_clear_read(b"b"));
        assert!(memory.test_and_clear_read(b"a") && !memory.test_and_clear_read(b"a"));
    }

    #[test]
    fn without_a_limit_nothing_is_remembered() {
        let memory = Memory::new(&Options::default());
        memory.note_read(b"a");
        assert!(!memory.test_and_clear_read(b"a") && !memory.evicts());
        assert_eq!(memory.max(), i64::MAX);
        assert!(memory.add_volatile(2) && !memory.add_volatile(1) && !memory.add_volatile(-3));
    }
}
