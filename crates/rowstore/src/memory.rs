//! What the rows take, and which of them were read lately.
//!
//! Bytes are an estimate: key, row, and a share of nodes and allocator that is the same for every
//! row. Sessions gather their changes and hand them in now and then, so that they share no word for
//! each write; the sum may be off by what they have not handed in yet ([`UNREPORTED_BYTES_MAX`]
//! each).
//!
//! The *clock* needs to know what was read since its hand came by. A bit for each key would have to
//! be in the row; here keys share bits by their hash, some for each expected row. Two keys of one
//! bit keep each other a little longer, which costs nothing but a worse choice.

use crate::options::{Eviction, Options};
use crate::watermarks::hash;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A row's share of the tree's nodes, of its blob's head, and of what the allocator rounds up.
const ROW_OVERHEAD_BYTES: usize = 64;
/// Bytes that a session may keep to itself.
pub(crate) const UNREPORTED_BYTES_MAX: i64 = 64 << 10;
/// Bytes of memory for which there is one bit.
const BYTES_PER_BIT: u64 = 64;
const BITS_LOG2_MIN: u32 = 12;
const BITS_LOG2_MAX: u32 = 30;

/// What a row takes.
#[inline]
pub(crate) fn cost(key_bytes: usize, row_bytes: usize) -> i64 {
    (key_bytes + row_bytes + ROW_OVERHEAD_BYTES) as i64
}

#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicI64,
    /// Rows that will expire.
    volatile: AtomicI64,
    /// Largest where there is no limit.
    max: i64,
    /// Present where rows are evicted.
    reads: Option<ReferenceBits>,
    /// Where the clock's hand points.
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

    /// Whether rows are removed to make room.
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

    /// Returns whether these are the first.
    pub(crate) fn add_volatile(&self, rows: i64) -> bool {
        rows != 0 && self.volatile.fetch_add(rows, Ordering::Relaxed) <= 0 && rows > 0
    }

    /// `key` was read.
    #[inline]
    pub(crate) fn note_read(&self, key: &[u8]) {
        if let Some(reads) = &self.reads {
            reads.set(hash(key));
        }
    }

    /// Whether `key` was read since the last time that this was asked.
    pub(crate) fn test_and_clear_read(&self, key: &[u8]) -> bool {
        self.reads.as_ref().is_some_and(|reads| reads.take(hash(key)))
    }
}

/// A bit for each hash.
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

    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let bit = hash & self.mask;
        (&self.words[(bit / 64) as usize], 1 << (bit % 64))
    }

    #[inline]
    fn set(&self, hash: u64) {
        let (word, bit) = self.place(hash);
        // A row that is read all the time shares its line with readers only.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn take(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
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
