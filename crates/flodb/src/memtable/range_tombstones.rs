//! The range tombstones of a memtable, and what they delete.
//!
//! ```text
//!   last ---> r9 ---> r8 ---> r7 ---> r6 ---> ...  ---> r1        every one, linked by its entry
//!             `-- tail --'    `-- made: [ r7 r6 .. r3 ][ r2 r1 ]   indexes, the smallest last
//! ```
//!
//! The chain is complete at every moment: a deletion is in it before it is published. A writer that
//! finds the tail long makes an index of it, and merges it with the last ones while they are not
//! much longer; so there are O(log n) of them, and a reader looks at those and at a few links. It
//! takes no lock and allocates nothing.
//!
//! A reader takes what is made first and then the end of the chain: from there the links lead to
//! where the indexes begin. Whatever is linked or made meanwhile, nothing is missed.

use super::arena::{Arena, Entry, Handle, Link};
use crate::key::Comparator;
use crate::range_tombstones::{RangeTombstone, RangeTombstoneIndex};
use keyrack_concurrent::atomic::{AtomicIsize, Mutex, Ordering as AtomicOrdering};
use keyrack_concurrent::{Swap, free_or_hand_over, pin};
use std::cmp::Ordering;
use std::sync::Arc;

/// Deletions in no index beyond which a writer makes one.
const TAIL_MAX: isize = 16;

/// Bytes of indexes that are freed at once when they are merged into a larger one. All of them
/// would be several times what there is.
const FREED_BYTES_MIN: usize = 64 << 10;

pub(super) struct RangeTombstones {
    /// The one linked last.
    last: Link,
    /// How many are in no index: a hint, and below zero for moments.
    tail: AtomicIsize,
    made: Swap<Made>,
    /// Held while an index is made.
    making: Mutex<()>,
}

/// The indexes of the deletions from one on, in the order of links.
#[derive(Default)]
struct Made {
    from: Option<Handle>,
    indexes: Vec<Arc<RangeTombstoneIndex>>,
    /// Bytes of memory of the indexes.
    bytes: usize,
}

impl RangeTombstones {
    pub(super) fn new() -> Self {
        RangeTombstones {
            last: Link::default(),
            tail: AtomicIsize::new(0),
            made: Swap::new(Made::default()),
            making: Mutex::new(()),
        }
    }

    /// Whether there are any. One load.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.last.get().is_none()
    }

    /// Bytes of memory of the indexes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.made.load(&pin()).bytes
    }

    /// Adds one that is written.
    pub(super) fn link(&self, arena: &Arena, order: &Comparator, handle: Handle) {
        let other = arena.entry(handle).other_range();
        let mut last = self.last.get();
        loop {
            other.set(last);
            match self.last.swap(last, handle) {
                Ok(()) => break,
                Err(found) => last = found,
            }
        }
        // Relaxed: a hint.
        if self.tail.fetch_add(1, AtomicOrdering::Relaxed) + 1 >= TAIL_MAX {
            self.make(arena, order);
        }
    }

    /// The newest up to `upto` that deletes `key`. O(log^2 n), O(n) if a newer one does. No lock,
    /// no allocation.
    pub(super) fn newest(
        &self,
        arena: &Arena,
        order: &Comparator,
        key: &[u8],
        upto: u64,
    ) -> Option<u64> {
        let guard = pin();
        let made = self.made.load(&guard);
        let linked = linked(arena, self.last.get(), made.from)
            .filter(|entry| entry.sequence() <= upto)
            .filter(|entry| {
                order.user(entry.key(), key) != Ordering::Greater
                    && order.user(key, entry.value()) == Ordering::Less
            })
            .map(Entry::sequence)
            .max();
        let indexed = made.indexes.iter().filter_map(|index| index.newest(key, upto)).max();
        linked.max(indexed)
    }

    /// Indexes of all that were linked before the call.
    pub(super) fn indexes(
        &self,
        arena: &Arena,
        order: &Comparator,
    ) -> Vec<Arc<RangeTombstoneIndex>> {
        let guard = pin();
        let made = self.made.load(&guard);
        let tail = RangeTombstoneIndex::new(
            linked(arena, self.last.get(), made.from).map(range_of),
            order,
        );
        made.indexes.iter().cloned().chain(tail.map(Arc::new)).collect()
    }

    /// All of them, the one linked last first.
    pub(super) fn all(&self, arena: &Arena) -> Vec<RangeTombstone> {
        linked(arena, self.last.get(), None).map(range_of).collect()
    }

    /// Makes an index of the tail, unless somebody is about it.
    #[cold]
    fn make(&self, arena: &Arena, order: &Comparator) {
        // Somebody else makes it.
        let Ok(_making) = self.making.try_lock() else { return };
        let guard = pin();
        let made = self.made.load(&guard);
        let from = self.last.get();
        let tail: Vec<RangeTombstone> = linked(arena, from, made.from).map(range_of).collect();
        let count = tail.len() as isize;
        let mut indexes = made.indexes.clone();
        let mut replaced_bytes = 0;
        if let Some(mut index) = RangeTombstoneIndex::new(tail, order) {
            while let Some(before) = indexes.pop_if(|before| index.len() >= before.len() / 2) {
                let both = index.ranges().chain(before.ranges());
                index = RangeTombstoneIndex::new(both, order).expect("neither of the two is empty");
                replaced_bytes += before.memory_bytes();
            }
            indexes.push(Arc::new(index));
        }
        let bytes = indexes.iter().map(|index| index.memory_bytes()).sum();
        self.made.store(Made { from, indexes, bytes }, &guard);
        self.tail.fetch_sub(count, AtomicOrdering::Relaxed);
        drop(guard);
        if replaced_bytes >= FREED_BYTES_MIN {
            free_or_hand_over();
        }
    }
}

/// The deletions from the one `last` on, before the one `from`.
fn linked(
    arena: &Arena,
    last: Option<Handle>,
    from: Option<Handle>,
) -> impl Iterator<Item = Entry<'_>> {
    let mut next = last;
    std::iter::from_fn(move || {
        let entry = arena.entry(next.filter(|handle| Some(*handle) != from)?);
        next = entry.other_range().get();
        Some(entry)
    })
}

fn range_of(entry: Entry<'_>) -> RangeTombstone {
    RangeTombstone {
        begin: entry.key().to_vec(),
        end: entry.value().to_vec(),
        sequence: entry.sequence(),
    }
}
