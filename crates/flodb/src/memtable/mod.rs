//! The memory of the engine: one memtable of writes that are in the log and in no table yet.
//!
//! ```text
//!   write:   room for all its entries (one fetch_add)
//!   entry:   copy -> slot or version chain (one swap) -> index
//!   get:     hash -> slot -> entry; older versions by links         no lock, no allocation
//!   order:   tail of the index -> sorted run -> merged runs         when somebody asks
//!   flush:   all published -> immutable -> cursor -> table of level 0
//!   end:     the memory goes to the next memtable
//! ```
//!
//! This is FloDB's idea of a hash level in front of a sorted one (EuroSys 2017, section 3), turned
//! around: entries do not move from one structure into the other, they stay where they were written
//! and the levels are two orders over them. The hash level has no order and is always complete; the
//! sorted one is made of runs, when an iterator or the flush needs it.
//!
//! - Versions of a key are kept apart, each with its own sequence and kind. What a key held at a
//!   sequence never changes, in whatever order its versions arrive and however often runs are made
//!   in between. FloDB overwrites in place and leaves the kind behind: a delete that followed a
//!   drained put came back as a put.
//! - A reader at a sequence relies on the caller's order of publication: everything up to that
//!   sequence was inserted before. Newer entries may be there or not.
//! - Nothing is ever removed. A memtable is dropped as a whole, and its memory is used again
//!   (`pool`).
//!
//! An insert of 16 + 100 bytes touches the line of the slot, the three of the entry, and the ends
//! of index and arena, which the insert before has touched; a get the lines of the slot and the
//! entry. Figures are in `docs/engines/flodb-memory.md`.

mod arena;
mod cursor;
mod hash_table;
pub(crate) mod mapping;
mod pool;
mod range_tombstones;
mod rank;
mod run;
mod sorted_runs;

#[cfg(test)]
mod tests;

pub(crate) use arena::Size;
pub(crate) use cursor::MemtableCursor;
pub(crate) use pool::MemtablePool;

use crate::key::{Comparator, Kind, SEQUENCE_MAX, trailer};
use crate::range_tombstones::{RangeTombstone, RangeTombstoneIndex};
use arena::{Arena, Entry};
use hash_table::HashTable;
use keyrack_concurrent::Backoff;
use keyrack_concurrent::atomic::{AtomicU64, Ordering};
use pool::{Memory, mapped_bytes};
use range_tombstones::RangeTombstones;
use rank::Rank;
use sorted_runs::SortedRuns;
use std::sync::Arc;

/// The first sequence number is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Versions of one key that a get visits one by one before it looks for its own in the runs.
const CHAIN_VERSIONS_MAX: usize = 64;

/// Bytes of an entry in a sorted run, and of its part of the samples.
const RUN_ENTRY_BYTES: usize = 13;

/// Bytes of an entry while it is sorted: a pair, and its handle.
const SORT_ENTRY_BYTES: usize = 20;

/// The memory that memtables take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemtableMemory {
    /// Bytes of pages of mappings: entries, index and slots.
    pub(crate) mapped_bytes: usize,
    /// Bytes of sorted runs.
    pub(crate) run_bytes: usize,
    /// Bytes of indexes of range tombstones.
    pub(crate) range_bytes: usize,
}

impl MemtableMemory {
    pub(crate) fn bytes(self) -> usize {
        self.mapped_bytes + self.run_bytes + self.range_bytes
    }
}

impl std::iter::Sum for MemtableMemory {
    fn sum<I: Iterator<Item = MemtableMemory>>(memories: I) -> MemtableMemory {
        memories.fold(MemtableMemory::default(), |sum, memory| MemtableMemory {
            mapped_bytes: sum.mapped_bytes + memory.mapped_bytes,
            run_bytes: sum.run_bytes + memory.run_bytes,
            range_bytes: sum.range_bytes + memory.range_bytes,
        })
    }
}

/// The memtable takes no more: it has no room for this write, or it is made immutable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// How a memtable is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemtableOptions {
    /// Entries in no run beyond which [`Memtable::needs_sort`].
    pub(crate) tail_entries_max: usize,
    /// Whether to have a hash table. Without it inserts are cheaper, and each get makes order
    /// first: for loads that nobody reads.
    pub(crate) hash: bool,
}

impl Default for MemtableOptions {
    fn default() -> Self {
        MemtableOptions { tail_entries_max: 64 * 1024, hash: true }
    }
}

pub(crate) struct Memtable {
    arena: Arena,
    table: Option<HashTable>,
    range_tombstones: RangeTombstones,
    runs: SortedRuns,
    comparator: Comparator,
    tail_entries_max: usize,
    /// The first sequence number of its writes, or [`UNKNOWN`].
    first_sequence: AtomicU64,
    /// Where the memory goes, and its capacity in bytes.
    pool: Option<(Arc<MemtablePool>, usize)>,
}

impl Memtable {
    /// A memtable for `capacity_bytes` of entries, at most 16 GiB; [`Size`] is what each takes.
    /// Memory is taken as it is needed.
    ///
    /// The order has to be total, and only equal bytes may be equal in it.
    pub(crate) fn new(
        capacity_bytes: usize,
        comparator: Comparator,
        options: MemtableOptions,
    ) -> Self {
        let memory = Memory::new(capacity_bytes, capacity_bytes, options.hash);
        Self::with_memory(memory, comparator, options, None)
    }

    fn with_memory(
        Memory { arena, table }: Memory,
        comparator: Comparator,
        options: MemtableOptions,
        pool: Option<(Arc<MemtablePool>, usize)>,
    ) -> Self {
        Memtable {
            arena,
            table,
            range_tombstones: RangeTombstones::new(),
            runs: SortedRuns::default(),
            comparator,
            tail_entries_max: options.tail_entries_max,
            first_sequence: AtomicU64::new(UNKNOWN),
            pool,
        }
    }

    /// Says which sequence number its writes begin with, once it takes writes.
    pub(crate) fn set_first_sequence(&self, sequence: u64) {
        // Pairs with `first_sequence`.
        self.first_sequence.store(sequence, Ordering::Release);
    }

    /// The first sequence number of its writes. Waits for the thread that is about to set it.
    pub(crate) fn first_sequence(&self) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            match self.first_sequence.load(Ordering::Acquire) {
                UNKNOWN => backoff.wait(),
                sequence => return sequence,
            }
        }
    }

    /// Whether all of its writes are newer than `sequence`, which was published before the memtable
    /// was looked up. One load, of a line that writers leave alone.
    #[inline]
    pub(crate) fn begins_after(&self, sequence: u64) -> bool {
        // UNKNOWN as well: an insert waits until the number is known, so nothing was published.
        self.first_sequence.load(Ordering::Acquire) > sequence
    }

    /// Takes room for the entries of a write, from any thread. One atomic addition.
    ///
    /// # Errors
    /// [`Full`]: nothing was taken. An empty memtable of so many bytes has room for any write but
    /// one with a key or a value of 4 GiB, or of 16 GiB in all.
    #[inline]
    pub(crate) fn reserve(&self, size: Size) -> Result<MemtableReservation<'_>, Full> {
        Ok(MemtableReservation { memtable: self, entries: self.arena.reserve(size)? })
    }

    /// A write of one entry: [`Self::reserve`] and [`MemtableReservation::insert`].
    ///
    /// # Errors
    /// As for [`Self::reserve`].
    pub(crate) fn insert(
        &self,
        sequence: u64,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        hash: u64,
    ) -> Result<(), Full> {
        let mut room = self.reserve(Size::of(key.len(), value.len(), kind))?;
        room.insert(sequence, kind, key, value, hash);
        Ok(())
    }

    /// Asks for the line of memory that an insert or a get of the key begins with.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.prefetch(hash);
        }
    }

    /// Asks for the entry that a get of the key reads, if it is in the slot that a get begins with.
    #[inline]
    pub(crate) fn prefetch_newest(&self, hash: u64) {
        if let Some(table) = &self.table {
            table.prefetch_newest(&self.arena, hash);
        }
    }

    /// The newest version of `key` up to `sequence`. No lock and no allocation, unless more than
    /// 64 versions of the key are newer than that: then it looks in the runs, and makes order.
    ///
    /// `sequence` is published, or [`SEQUENCE_MAX`]. At one that is not, an entry may be missed.
    ///
    /// A range tombstone is a version of the key it begins with, and of no other.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        hash: u64,
        sequence: u64,
        visit: impl FnOnce(Kind, u64, &[u8]) -> R,
    ) -> Option<R> {
        let (kind, written, value) = self.find(key, hash, sequence)?;
        Some(visit(kind, written, value))
    }

    /// As [`Self::get`]: kind, sequence and value, which is lent as long as the memtable lives.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], hash: u64, sequence: u64) -> Option<(Kind, u64, &[u8])> {
        let entry = match &self.table {
            Some(table) => {
                let newest = table.find(&self.arena, key, hash);
                if table.has_overflow() {
                    let other = table.find_overflow(&self.arena, key, hash);
                    let versions = [newest, other].into_iter().flatten();
                    let found = versions.filter_map(|newest| self.upto(newest, sequence));
                    found.max_by_key(|entry| entry.trailer())?
                } else {
                    self.upto(newest?, sequence)?
                }
            }
            None => self.search(key, sequence)?,
        };
        Some((entry.kind(), entry.sequence(), entry.value()))
    }

    /// Bytes of the capacity that are used.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// The memory that it takes, entries and all ways to find them.
    pub(crate) fn memory(&self) -> MemtableMemory {
        let entries = self.entries();
        let sorted = entries.saturating_sub(self.runs.tail(entries as u32));
        MemtableMemory {
            mapped_bytes: mapped_bytes(&self.arena, self.table.as_ref()),
            run_bytes: sorted * RUN_ENTRY_BYTES,
            range_bytes: self.range_tombstones.memory_bytes(),
        }
    }

    /// Bytes that sorting its tail would take beside that, until the runs before are freed.
    pub(crate) fn sort_bytes(&self) -> usize {
        let (entries, tail) = (self.entries(), self.runs.tail(self.arena.count()));
        if tail == 0 { 0 } else { 2 * entries * RUN_ENTRY_BYTES + tail * SORT_ENTRY_BYTES }
    }

    /// Entries inserted or about to be, of all kinds.
    pub(crate) fn entries(&self) -> usize {
        self.arena.count() as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    #[cfg(test)]
    pub(crate) fn has_overflow(&self) -> bool {
        self.table.as_ref().is_some_and(HashTable::has_overflow)
    }

    pub(crate) fn has_hash_level(&self) -> bool {
        self.table.is_some()
    }

    /// Sorts what was inserted since the last time into a run, unless there is nothing new. Stops
    /// no writer. O(n log n) of the new entries, and O(log n) for each over the life of the
    /// memtable.
    pub(crate) fn sort_tail(&self) {
        self.runs.runs(self.rank(), SEQUENCE_MAX);
    }

    /// Whether so many entries are in no run that someone should [`Self::sort_tail`], so that the
    /// next cursor need not. One load: for each write.
    #[inline]
    pub(crate) fn needs_sort(&self) -> bool {
        self.runs.tail(self.arena.count()) > self.tail_entries_max
    }

    /// Whether somebody should call [`Self::make_ahead`]. One load: for each write.
    #[inline]
    pub(crate) fn wants_ahead(&self) -> bool {
        self.arena.wants_ahead()
    }

    /// Makes memory that the next inserts would otherwise make. Any thread.
    pub(crate) fn make_ahead(&self) {
        self.arena.make_ahead();
    }

    /// A cursor over all entries up to `upto`, if that is a published sequence, and in any case
    /// over all that were inserted before the call. Newer entries may appear as well. Sorts the
    /// tail first, unless a cursor of this sequence or a later one has done so. The cursor reads
    /// the runs of this moment, and stays the same while writers go on.
    pub(crate) fn cursor(self: &Arc<Self>, upto: u64) -> MemtableCursor {
        let runs = self.runs.runs(self.rank(), upto);
        MemtableCursor::new(self.clone(), runs)
    }

    /// Refuses inserts from now on. Does not wait: those that have their room finish.
    pub(crate) fn make_immutable(&self) {
        self.arena.make_immutable();
    }

    #[cfg(test)]
    pub(crate) fn is_immutable(&self) -> bool {
        self.arena.is_immutable()
    }

    /// Waits until the inserts that had begun are done. After [`Self::make_immutable`], what a
    /// cursor shows from then on is all there will ever be. O(entries). The engine need not: it
    /// waits until the log has published them.
    #[cfg(test)]
    pub(crate) fn wait_for_inserts(&self) {
        self.arena.wait_for_inserts();
    }

    /// Whether there are range tombstones at all. One load.
    #[inline]
    pub(crate) fn has_range_tombstones(&self) -> bool {
        !self.range_tombstones.is_empty()
    }

    /// The newest range tombstone up to `sequence` that removes `key`. O(log^2 n) of them, and O(n)
    /// if a newer one removes it. No lock, no allocation.
    #[inline(never)]
    pub(crate) fn newest_range_tombstone(&self, key: &[u8], sequence: u64) -> Option<u64> {
        self.range_tombstones.newest(&self.arena, &self.comparator, key, sequence)
    }

    /// The first sequence whose versions of `key` no range tombstone up to `sequence` removes. 0 if
    /// none does; that is one load where there are none.
    #[inline]
    pub(crate) fn floor(&self, key: &[u8], sequence: u64) -> u64 {
        if self.has_range_tombstones() {
            return self.newest_range_tombstone(key, sequence).map_or(0, |newest| newest + 1);
        }
        0
    }

    /// All range tombstones, in no order.
    pub(crate) fn range_tombstones(&self) -> Vec<RangeTombstone> {
        self.range_tombstones.all(&self.arena)
    }

    /// Indexes of all range tombstones up to any published sequence.
    pub(crate) fn range_indexes(&self) -> Vec<Arc<RangeTombstoneIndex>> {
        self.range_tombstones.indexes(&self.arena, &self.comparator)
    }

    /// The first version up to `sequence` of a chain.
    #[inline]
    fn upto<'a>(&'a self, newest: Entry<'a>, sequence: u64) -> Option<Entry<'a>> {
        if newest.sequence() <= sequence { Some(newest) } else { self.older(newest, sequence) }
    }

    fn older<'a>(&'a self, newer: Entry<'a>, sequence: u64) -> Option<Entry<'a>> {
        let mut entry = newer;
        for _ in 0..CHAIN_VERSIONS_MAX {
            entry = self.arena.entry(entry.prev().get()?);
            if entry.sequence() <= sequence {
                return Some(entry);
            }
        }
        self.search(newer.key(), sequence)
    }

    /// The newest version of `key` up to `sequence`, by order. O(log^2 n) and the order itself.
    fn search(&self, key: &[u8], sequence: u64) -> Option<Entry<'_>> {
        let rank = self.rank();
        let target = trailer(sequence, Kind::LAST);
        let runs = self.runs.runs(rank, sequence);
        runs.iter()
            .filter_map(|run| run.handle(run.lower_bound(rank, key, target)))
            .map(|handle| self.arena.entry(handle))
            .filter(|entry| entry.key() == key)
            .max_by_key(|entry| entry.trailer())
    }

    fn rank(&self) -> Rank<'_> {
        Rank { arena: &self.arena, comparator: &self.comparator }
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        if let Some((pool, capacity_bytes)) = self.pool.take() {
            // What takes its place is two pages that nobody touches.
            let arena = std::mem::replace(&mut self.arena, Arena::new(0, false));
            let table = self.table.take();
            pool.give_back(Memory { arena, table }, capacity_bytes);
        }
    }
}

/// Room for the entries of one write, which cannot fail any more. What is left of it when it is
/// dropped stays empty.
pub(crate) struct MemtableReservation<'m> {
    memtable: &'m Memtable,
    entries: arena::Reservation<'m>,
}

impl MemtableReservation<'_> {
    /// Adds an entry, in any order of sequences. `hash` is a hash of the key, good in all of its
    /// bits, and the same at each call. Lock-free; allocates nothing, but for a range tombstone now
    /// and then. That has its end as value, which is behind the key.
    ///
    /// O(1) if the sequence is the newest of its key, or nearly.
    ///
    /// # Panics
    /// If the room was not taken for this entry.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        sequence: u64,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        hash: u64,
    ) {
        let memtable = self.memtable;
        if let Some(table) = &memtable.table {
            // The newest version of the key comes while the entry is copied.
            table.prefetch_newest(&memtable.arena, hash);
        }
        let written = self.entries.write(sequence, kind, key, value);
        if let Some(table) = &memtable.table {
            table.insert(&memtable.arena, &written, hash);
        }
        if kind == Kind::DeleteRange {
            memtable.range_tombstones.link(&memtable.arena, &memtable.comparator, written.handle);
        }
        memtable.arena.announce(written);
    }
}
