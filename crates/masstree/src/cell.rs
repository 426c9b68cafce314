//! Cells: the value of a long key, with the end of the key.
//!
//! A block of one word, the value, and the bytes that follow slice and tail of the key. The value
//! may be exchanged as long as the cell is linked; then, where values may be pointers, it becomes
//! 0. That is under the lock of the node that linked the cell: after it, others may find the value
//! in another cell and retire it, and a reader that still holds this one must not find it here.

use crate::block;
use keyrack_concurrent::Guard;
use keyrack_concurrent::atomic::{AtomicU64, Ordering};

const WORDS: usize = 1;

/// A cell that somebody has found.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'g> {
    raw: u64,
    suffix: &'g [u8],
}

impl<'g> Cell<'g> {
    /// A new cell. It leaks until it is freed.
    pub(crate) fn make(suffix: &[u8], value: u64) -> u64 {
        let raw = block::make(WORDS, suffix);
        // SAFETY: made above.
        unsafe { Cell::of(raw) }.set_value(value);
        raw
    }

    /// The cell behind a word.
    ///
    /// # Safety
    /// The word came from [`Cell::make`] and is not freed during `'g`.
    #[inline]
    pub(crate) unsafe fn of(raw: u64) -> Self {
        // SAFETY: as the caller promises.
        Cell { raw, suffix: unsafe { block::bytes(raw, WORDS) } }
    }

    /// What follows slice and tail of the key.
    pub(crate) fn suffix(self) -> &'g [u8] {
        self.suffix
    }

    fn word(self) -> &'g AtomicU64 {
        // SAFETY: the word of a cell is used as an atomic by everyone.
        unsafe { &*block::word(self.raw, 0).cast::<AtomicU64>() }
    }

    /// Pairs with [`Cell::set_value`]: what the value points to was made before.
    #[inline]
    pub(crate) fn value(self) -> u64 {
        self.word().load(Ordering::Acquire)
    }

    pub(crate) fn set_value(self, value: u64) {
        self.word().store(value, Ordering::Release);
    }

    /// Frees the cell, not its value, once nobody can look at it any more.
    ///
    /// # Safety
    /// It is unlinked by this thread, and retired once.
    pub(crate) unsafe fn retire(self, guard: &Guard) {
        // SAFETY: it lives, and is a cell.
        let retired = unsafe { block::retired(self.raw, WORDS, Cell::free) };
        // SAFETY: as the caller promises; a cell is plain memory.
        unsafe { guard.retire(retired) };
    }

    /// Frees a cell, not its value.
    ///
    /// # Safety
    /// The word came from [`Cell::make`], and nobody uses it any more.
    pub(crate) unsafe fn free(raw: u64) {
        // SAFETY: as the caller promises.
        unsafe { block::free(raw, WORDS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_changes_and_the_suffix_stays() {
        let raw = Cell::make(b"the end of a key", 7);
        // SAFETY: made above, freed below.
        let cell = unsafe { Cell::of(raw) };
        assert_eq!((cell.suffix(), cell.value()), (&b"the end of a key"[..], 7));
        cell.set_value(u64::MAX);
        assert_eq!((cell.suffix(), cell.value()), (&b"the end of a key"[..], u64::MAX));
        // SAFETY: made above, and not used again.
        unsafe { Cell::free(raw) };
    }
}
