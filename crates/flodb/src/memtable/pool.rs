//! Where memtables come from, and where their memory goes: one that is flushed leaves its memory to
//! the next.
//!
//! ```text
//!   active memtable full: the new one takes the spare, or memory whose pages are still to come
//!   flushed memtable:     after its last reader, slots and index become zero, and it is the spare
//!   before that is due:   a thread makes a spare, pages and all
//! ```
//!
//! The kernel takes a fraction of a millisecond to clear a huge page, or several milliseconds where
//! the host of a virtual machine has to find the memory first. The slots of an empty memtable are
//! seven such pages, which the first few writes would meet. Memory that is used again has its
//! pages. Only what has to be zero is cleared, a fifth of it.
//!
//! **Limit.** The memtables that live and the spare are at most as many as the memtables would be
//! without it ([`MemtablePool::new`]). A store at rest gives the spare back
//! ([`MemtablePool::trim`]).
//!
//! **What it takes.** Memory has the pages that any use has touched, so a memtable counts at least
//! those of the uses before it. The spare counts as well, and so does memory that is being cleared
//! or unmapped ([`MemtablePool::bytes`]).

use super::arena::Arena;
use super::hash_table::HashTable;
use super::{Memtable, MemtableOptions};
use crate::key::Comparator;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Smaller memtables have plain pages.
const HUGE_PAGES_BYTES_MIN: usize = 8 << 20;

/// The slots are laid out for this part more than a full memtable has, since a few writes come
/// after it is full.
const ROOM_SHARE: usize = 5;

/// The memory of one memtable, without entries.
pub(super) struct Memory {
    pub(super) arena: Arena,
    pub(super) table: Option<HashTable>,
}

impl Memory {
    /// Room for `capacity_bytes` of entries, laid out for `full_bytes` of them. The others cost
    /// more memory each.
    pub(super) fn new(capacity_bytes: usize, full_bytes: usize, has_hash: bool) -> Self {
        let huge = full_bytes >= HUGE_PAGES_BYTES_MIN;
        let arena = Arena::new(capacity_bytes, huge);
        let room = full_bytes.saturating_add(full_bytes / ROOM_SHARE).min(capacity_bytes);
        let table = has_hash.then(|| HashTable::new(room, arena.entries_max(), huge));
        Memory { arena, table }
    }

    /// Makes the pages that the first writes need, if they are huge.
    fn populate(&mut self) {
        self.arena.populate_first();
        if let Some(table) = &mut self.table {
            table.populate();
        }
    }

    /// Forgets the entries. O(slots + entries).
    fn clear(&mut self) {
        self.arena.clear();
        if let Some(table) = &mut self.table {
            table.clear();
        }
    }

    /// Bytes of pages that it has.
    fn bytes(&self) -> usize {
        mapped_bytes(&self.arena, self.table.as_ref())
    }
}

/// Bytes of pages of arena and slots.
pub(super) fn mapped_bytes(arena: &Arena, table: Option<&HashTable>) -> usize {
    arena.memory_bytes() + table.map_or(0, |table| table.memory_bytes(arena.count() as usize))
}

/// Makes memtables of one kind.
pub(crate) struct MemtablePool {
    full_bytes: usize,
    slack_bytes: usize,
    memtables_max: usize,
    comparator: Comparator,
    options: MemtableOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Memtables of this pool that live.
    live: usize,
    /// Memory of the usual capacity.
    spare: Option<Memory>,
    /// Bytes of pages of memory that is being cleared or unmapped.
    leaving_bytes: usize,
}

impl MemtablePool {
    /// For memtables that are full with `full_bytes`, with room for `slack_bytes` more. There is no
    /// spare beside `memtables_max` of them.
    pub(crate) fn new(
        (full_bytes, slack_bytes): (usize, usize),
        memtables_max: usize,
        comparator: Comparator,
        options: MemtableOptions,
    ) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(MemtablePool {
            full_bytes,
            slack_bytes,
            memtables_max,
            comparator,
            options,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The usual capacity, or that for one write of so many bytes if it is more.
    fn capacity_bytes(&self, write_bytes: usize) -> usize {
        self.full_bytes.max(write_bytes).saturating_add(self.slack_bytes)
    }

    fn new_memory(&self, capacity_bytes: usize) -> Memory {
        Memory::new(capacity_bytes, self.full_bytes, self.options.hash)
    }

    /// An empty memtable that also has room for one write of so many bytes.
    pub(crate) fn memtable(self: &Arc<Self>, write_bytes: usize) -> Memtable {
        let capacity_bytes = self.capacity_bytes(write_bytes);
        let spare = {
            let mut state = self.state();
            state.live += 1;
            if capacity_bytes == self.capacity_bytes(0) { state.spare.take() } else { None }
        };
        let memory = spare.unwrap_or_else(|| self.new_memory(capacity_bytes));
        let pool = Some((Arc::clone(self), capacity_bytes));
        Memtable::with_memory(memory, self.comparator.clone(), self.options, pool)
    }

    /// Takes the memory of a memtable that nobody uses any more.
    pub(super) fn give_back(&self, mut memory: Memory, capacity_bytes: usize) {
        let bytes = memory.bytes();
        let is_wanted = {
            let mut state = self.state();
            state.live -= 1;
            state.leaving_bytes += bytes;
            capacity_bytes == self.capacity_bytes(0) && self.wants_spare(&state)
        };
        if is_wanted {
            memory.clear();
            self.keep(memory, bytes);
        } else {
            drop(memory);
            self.state().leaving_bytes -= bytes;
        }
    }

    /// Makes a spare with its pages, unless there is one, or would be one too many. If `is_urgent`
    /// is false, also not where a flush is to give one back. Whether it did.
    pub(crate) fn prepare(&self, is_urgent: bool) -> bool {
        {
            let state = self.state();
            if !self.wants_spare(&state) || !(is_urgent || state.live == 1) {
                return false;
            }
        }
        let mut memory = self.new_memory(self.capacity_bytes(0));
        memory.populate();
        self.keep(memory, 0);
        true
    }

    /// Whether there is a spare.
    pub(crate) fn has_spare(&self) -> bool {
        self.state().spare.is_some()
    }

    /// Bytes of pages of the spare, and of memory that is on its way to be one or to be unmapped.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state();
        state.leaving_bytes + state.spare.as_ref().map_or(0, Memory::bytes)
    }

    /// Gives the spare back to the system.
    pub(crate) fn trim(&self) {
        let spare = self.state().spare.take();
        drop(spare);
    }

    fn wants_spare(&self, state: &State) -> bool {
        state.spare.is_none() && state.live < self.memtables_max
    }

    /// Makes it the spare. So many of its bytes counted as leaving.
    fn keep(&self, memory: Memory, leaving_bytes: usize) {
        let mut state = self.state();
        state.leaving_bytes -= leaving_bytes;
        // Somebody may have been faster.
        let unused =
            if self.wants_spare(&state) { state.spare.replace(memory) } else { Some(memory) };
        drop(state);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Cursor;
    use crate::key::{Kind, SEQUENCE_MAX};
    use crate::memtable::Size;

    const CAPACITY_BYTES: usize = 1 << 16;

    fn pool(memtables_max: usize, hash: bool) -> Arc<MemtablePool> {
        let options = MemtableOptions { hash, ..MemtableOptions::default() };
        MemtablePool::new((CAPACITY_BYTES, 0), memtables_max, Comparator::Bytewise, options)
    }

    /// Fills it with entries of `bytes` of key and value, which also go to the overflow.
    fn fill(memtable: &Memtable, bytes: usize) -> u64 {
        let mut sequence = 1_u64;
        loop {
            let key = format!("{sequence:0bytes$}");
            let kind = if sequence.is_multiple_of(10) { Kind::DeleteRange } else { Kind::Put };
            let hash = xxhash_rust::xxh3::xxh3_64(key.as_bytes());
            let value = format!("{key}~");
            if memtable.insert(sequence, kind, key.as_bytes(), value.as_bytes(), hash).is_err() {
                return sequence;
            }
            sequence += 1;
        }
    }

    /// Entries of other lengths lie where those of before did: what is left of them must not show.
    #[test]
    fn memory_that_is_used_again_is_empty() {
        for hash in [true, false] {
            let pool = pool(2, hash);
            let first = Arc::new(pool.memtable(0));
            let entries = fill(&first, 4);
            assert!(first.has_range_tombstones() && first.has_overflow() == hash);
            first.make_immutable();
            drop(first);
            assert!(pool.has_spare());
            let second = Arc::new(pool.memtable(0));
            assert!(!pool.has_spare(), "the second has it");
            assert!(second.is_empty() && !second.has_range_tombstones());
            assert_eq!((second.bytes(), second.has_overflow()), (0, false));
            for sequence in 1..entries {
                let key = format!("{sequence:04}");
                let found = xxhash_rust::xxh3::xxh3_64(key.as_bytes());
                let found = second.get(key.as_bytes(), found, SEQUENCE_MAX, |_, at, _| at);
                assert_eq!(found, None, "{key}");
            }
            // Writes that have their room and have written nothing yet: a scan does not take what
            // the index and the room held before for theirs.
            let size: Size = (0..100).map(|_| Size::of(4, 5, Kind::Put)).sum();
            let room = second.reserve(size).unwrap();
            let mut cursor = second.cursor(SEQUENCE_MAX);
            cursor.seek_first().unwrap();
            assert_eq!(cursor.entry(), None);
            drop((cursor, room));
            let entries = fill(&second, 9);
            assert_eq!(second.range_tombstones().len() as u64, (entries - 1) / 10);
            for sequence in 1..entries {
                let key = format!("{sequence:09}");
                let found = xxhash_rust::xxh3::xxh3_64(key.as_bytes());
                let get = |upto| second.get(key.as_bytes(), found, upto, |_, at, _| at);
                assert_eq!((get(SEQUENCE_MAX), get(sequence - 1)), (Some(sequence), None));
            }
            let mut cursor = second.cursor(SEQUENCE_MAX);
            cursor.seek_first().unwrap();
            for sequence in 1..entries {
                let (key, _) = cursor.entry().expect("as many entries as were written");
                assert_eq!(key[..9], format!("{sequence:09}").into_bytes());
                cursor.next().unwrap();
            }
            assert_eq!(cursor.entry(), None);
        }
    }

    #[test]
    fn there_is_one_spare_and_not_beyond_the_limit() {
        let pool = pool(2, true);
        let first = pool.memtable(0);
        assert!(pool.prepare(false) && !pool.prepare(true), "one");
        let second = pool.memtable(0);
        assert!(!pool.has_spare() && !pool.prepare(true), "two live already");
        drop(first);
        assert!(pool.has_spare());
        drop(second);
        pool.trim();
        assert!(!pool.has_spare());
        let pool = self::pool(3, true);
        let both = (pool.memtable(0), pool.memtable(0));
        assert!(!pool.prepare(false), "one of the two will be flushed");
        assert!(pool.prepare(true));
        drop(both);
        pool.trim();
        // A larger one is made for one write.
        drop(pool.memtable(2 * CAPACITY_BYTES));
        assert!(!pool.has_spare());
    }
}
