//! What a transaction has read and written, in memory that the next one of the thread gets.
//!
//! A transaction allocates nothing then, if it is no larger than those before it. What is handed on
//! is one pointer.

use super::read_set::ReadSet;
use super::write_buffer::WriteBuffer;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A thread keeps so many bytes of reads, and of writes, for its next transaction.
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Empty sets with the memory of a transaction that has ended.
    static SPARE: Cell<Option<Box<Sets>>> = const { Cell::new(None) };
}

#[derive(Debug, Default)]
pub(super) struct Sets {
    pub(super) reads: ReadSet,
    pub(super) writes: WriteBuffer,
}

/// The sets of one transaction. There are some until it is dropped.
#[derive(Debug)]
pub(super) struct OwnSets(Option<Box<Sets>>);

impl OwnSets {
    /// Empty ones.
    #[inline]
    pub(super) fn new() -> Self {
        // A thread that ends has no spare any more.
        OwnSets(Some(SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()))
    }
}

impl Deref for OwnSets {
    type Target = Sets;

    #[inline]
    fn deref(&self) -> &Sets {
        self.0.as_deref().expect("there are sets until the drop")
    }
}

impl DerefMut for OwnSets {
    #[inline]
    fn deref_mut(&mut self) -> &mut Sets {
        self.0.as_deref_mut().expect("there are sets until the drop")
    }
}

impl Drop for OwnSets {
    fn drop(&mut self) {
        if let Some(mut sets) = self.0.take()
            && sets.reads.kept_bytes().max(sets.writes.kept_bytes()) <= SPARE_BYTES_MAX
        {
            sets.reads.clear();
            sets.writes.clear();
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(sets)));
        }
    }
}
