//! The memory budget of a store: who holds how much of it, and what is left for the block cache.
//!
//! ```text
//!   budget   | memtables | tables: index, filter, state | cursors | writers | fixed | margin |
//!            '-------------- they take what they need -------------------------------'        |
//!            | block cache: at most what the others leave                             <-------'
//! ```
//!
//! **Charges.** A table charges what it keeps in memory when it is opened, a cursor its buffer of
//! bytes read ahead, a table in work its buffers. A [`Charge`] gives its bytes back when it is
//! dropped. So what an iterator keeps alive counts for as long as it is there.
//!
//! **Memtables** grow with every write, too often for a charge. They are listed here and asked for
//! their size. The active one counts from its beginning with what it takes when it is full, and so
//! does a second one, whether it is there or not. So the cache need not give way when a memtable
//! begins while one is flushed, and no writer waits for that. Memory that waits for the next
//! memtable ([`MemtablePool`]) counts as one.
//!
//! **Blocks** are in the cache, or evicted while readers may still look at them, or outside: held
//! by cursors and reads, or on the way. Those outside take from what is left for the cache, but for
//! a few that are always there. Evicted ones do not, see [`crate::cache`].
//!
//! **Shedding.** Whoever charges more than is left has the cache evict blocks at once
//! ([`BlockCache::settle`]). When somebody gives memory back, the cache may grow again. The cache
//! follows in steps of a part of the budget, so that small changes do not move it.
//!
//! [`BlockCache::settle`]: crate::cache::BlockCache::settle

use crate::cache::BlockCache;
use crate::memtable::{Memtable, MemtableMemory, MemtablePool};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The cache follows in steps of this part of the budget.
const STEPS: usize = 128;

/// What a memtable takes when it is full, in halves of the bytes of its entries: hash table, index
/// and sorted runs are beside them. Entries of 136 bytes take 1.3 times their bytes.
pub(crate) const FULL_HALVES: usize = 3;

/// The same of entries of 40 bytes.
const SMALL_ENTRIES_HALVES: usize = 4;

/// Blocks outside of the cache that do not take from it, in steps.
const OUTSIDE_STEPS: usize = 2;

/// Full memtables that count always: the active one, and the one that is flushed.
pub(crate) const MEMTABLES_RESERVED: usize = 2;

/// A cursor reads ahead at most this part of the budget.
const READAHEAD_PARTS: usize = 256;

/// Bytes of a few blocks: less is not read ahead.
const READAHEAD_BYTES_MIN: usize = 16 << 10;

/// Who has charged memory. Memtables and blocks are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Indexes of tables, with their range tombstones and their slots of the cache.
    Indexes,
    Filters,
    /// What is known of each table: bounds, path, places in versions and read states.
    TableStates,
    /// Bytes that cursors have read ahead.
    Cursors,
    /// Tables that are being written.
    Writers,
    /// What does not change while the store is open.
    Fixed,
}

impl Holder {
    const COUNT: usize = Holder::Fixed as usize + 1;
}

/// The memory of one store.
pub(crate) struct MemoryBudget {
    bytes: usize,
    held: [AtomicUsize; Holder::COUNT],
    /// Bytes of decoded blocks. Each is counted once: in the cache,
    cached: AtomicUsize,
    /// evicted, and not freed, since a reader without a reference may look at it,
    evicted: AtomicUsize,
    /// or neither: whoever has it has a reference.
    outside: AtomicUsize,
    /// Those that there are, and some that there were; the last one is active.
    memtables: Mutex<Vec<Weak<Memtable>>>,
    /// Where they come from.
    pool: Weak<MemtablePool>,
    /// What they were to be counted with when they were last looked at.
    memtables_reserved: AtomicUsize,
    /// Bytes of entries of a full memtable.
    memtable_bytes: usize,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl MemoryBudget {
    /// For memtables of `memtable_bytes` of entries.
    pub(crate) fn new(bytes: usize, memtable_bytes: usize) -> Self {
        MemoryBudget {
            bytes,
            held: Default::default(),
            cached: AtomicUsize::new(0),
            evicted: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
            memtables: Mutex::default(),
            pool: Weak::new(),
            memtables_reserved: AtomicUsize::new(0),
            memtable_bytes,
        }
    }

    /// The same, and counts what the pool has for the next memtable.
    pub(crate) fn with_spare_of(mut self, pool: &Arc<MemtablePool>) -> Self {
        self.pool = Arc::downgrade(pool);
        self
    }

    /// Without a limit.
    pub(crate) fn unlimited() -> Self {
        MemoryBudget::new(usize::MAX, 0)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// By how much what is left changes before the cache follows.
    pub(crate) fn step(&self) -> usize {
        self.bytes / STEPS
    }

    /// The most bytes that a cursor reads ahead.
    pub(crate) fn readahead_bytes_max(&self) -> usize {
        (self.bytes / READAHEAD_PARTS).max(READAHEAD_BYTES_MIN)
    }

    /// Lists a memtable, which is active from now on.
    pub(crate) fn add_memtable(&self, memtable: &Arc<Memtable>) {
        let mut memtables = self.memtables();
        memtables.retain(|known| known.strong_count() > 0);
        memtables.push(Arc::downgrade(memtable));
        drop(memtables);
        self.look_at_memtables();
    }

    /// What the memtables take now, those included that only iterators still have, and what waits
    /// for the next one.
    pub(crate) fn memtable_memory(&self) -> MemtableMemory {
        let alive = self.alive();
        // After the others, which cannot end meanwhile: nothing is counted twice.
        let spare = MemtableMemory { mapped_bytes: self.spare_bytes(), ..Default::default() };
        alive.iter().map(|memtable| memtable.memory()).chain([spare]).sum()
    }

    fn spare_bytes(&self) -> usize {
        self.pool.upgrade().map_or(0, |pool| pool.bytes())
    }

    /// What somebody has charged.
    pub(crate) fn held(&self, holder: Holder) -> usize {
        self.held[holder as usize].load(Ordering::Relaxed)
    }

    /// Bytes of decoded blocks, in the cache or not.
    pub(crate) fn blocks(&self) -> usize {
        self.cached.load(Ordering::Relaxed) + self.evicted() + self.outside()
    }

    /// Bytes of blocks that left the cache and are not freed, since readers may look at them.
    #[inline]
    pub(crate) fn evicted(&self) -> usize {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Bytes of blocks that somebody has who is not the cache.
    pub(crate) fn outside(&self) -> usize {
        self.outside.load(Ordering::Relaxed)
    }

    /// What is left for the cache, by the last look at the memtables.
    pub(crate) fn left(&self) -> usize {
        if self.bytes == usize::MAX {
            return usize::MAX;
        }
        let held: usize = self.held.iter().map(|held| held.load(Ordering::Relaxed)).sum();
        let others = held
            + self.memtables_reserved.load(Ordering::Relaxed)
            + self.outside().saturating_sub(OUTSIDE_STEPS * self.step());
        self.bytes.saturating_sub(others)
    }

    /// Whether nothing is left beyond what so many full memtables may take, by the last look at the
    /// memtables.
    pub(crate) fn is_short_of(&self, memtables: usize) -> bool {
        self.left() <= memtables.saturating_mul(self.memtable_bytes / 2 * SMALL_ENTRIES_HALVES)
    }

    /// Asks the memtables for their sizes.
    pub(crate) fn look_at_memtables(&self) {
        if self.bytes == usize::MAX {
            return;
        }
        let alive = self.alive();
        let full = self.memtable_bytes / 2 * FULL_HALVES;
        let reserved = alive.iter().enumerate().map(|(at, memtable)| {
            let now = memtable.memory().bytes() + memtable.sort_bytes();
            if at + 1 == alive.len() { now.max(full) } else { now }
        });
        // The cache gives way while the spare is made, and not when it becomes the active memtable:
        // a writer would wait for that.
        let spare = self.spare_bytes();
        let spare = if spare > 0 { spare.max(full) } else { 0 };
        let reserved = reserved.sum::<usize>() + spare;
        let reserved = reserved.max(MEMTABLES_RESERVED * full);
        self.memtables_reserved.store(reserved, Ordering::Relaxed);
    }

    /// Counts a decoded block for as long as the result lives. It begins outside of the cache.
    pub(crate) fn count_block(self: &Arc<Self>, bytes: usize) -> CountedBlock {
        self.outside.fetch_add(bytes, Ordering::Relaxed);
        CountedBlock { budget: Arc::clone(self), bytes: AtomicUsize::new(bytes) }
    }

    fn alive(&self) -> Vec<Arc<Memtable>> {
        self.memtables().iter().filter_map(Weak::upgrade).collect()
    }

    fn memtables(&self) -> MutexGuard<'_, Vec<Weak<Memtable>>> {
        // No panic leaves the list half changed.
        self.memtables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A decoded block that is counted. It enters the cache once at most, leaves it and ends its wait.
#[derive(Debug)]
pub(crate) struct CountedBlock {
    budget: Arc<MemoryBudget>,
    bytes: AtomicUsize,
}

impl CountedBlock {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// It is in the cache from now on.
    pub(crate) fn enter_cache(&self) {
        self.move_between(&self.budget.outside, &self.budget.cached);
    }

    /// It has become larger. Only while it is in the cache and cannot leave it.
    pub(crate) fn grow_in_cache(&self, bytes: usize) {
        self.budget.cached.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It is evicted. Returns its bytes.
    pub(crate) fn leave_cache(&self) -> usize {
        self.move_between(&self.budget.cached, &self.budget.evicted)
    }

    /// Nobody looks at it any more who has no reference.
    pub(crate) fn end_wait(&self) {
        self.move_between(&self.budget.evicted, &self.budget.outside);
    }

    fn move_between(&self, from: &AtomicUsize, to: &AtomicUsize) -> usize {
        let bytes = self.bytes();
        // First there: who adds them up may see it twice for a moment, and seldom misses it.
        to.fetch_add(bytes, Ordering::Relaxed);
        from.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }
}

impl Drop for CountedBlock {
    fn drop(&mut self) {
        self.budget.outside.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// Bytes that somebody holds, and that the cache therefore does not have.
pub(crate) struct Charge {
    cache: Arc<BlockCache>,
    holder: Holder,
    bytes: usize,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Charge").field(&self.holder).field(&self.bytes).finish()
    }
}

impl Charge {
    /// Takes bytes from the budget of `cache`, which evicts blocks if so many are not left.
    pub(crate) fn new(cache: &Arc<BlockCache>, holder: Holder, bytes: usize) -> Self {
        let mut charge = Charge { cache: Arc::clone(cache), holder, bytes: 0 };
        charge.set(bytes);
        charge
    }

    /// Changes how many bytes it is. Cheap, unless the cache has to follow.
    pub(crate) fn set(&mut self, bytes: usize) {
        let held = &self.cache.budget().held[self.holder as usize];
        if bytes >= self.bytes {
            held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        self.cache.follow();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Comparator, Kind};
    use crate::memtable::MemtableOptions;

    fn memtable() -> Arc<Memtable> {
        let order = Comparator::Bytewise;
        Arc::new(Memtable::new(1 << 20, order, MemtableOptions::default()))
    }

    #[test]
    fn charges_are_taken_from_what_is_left_and_given_back() {
        let budget = Arc::new(MemoryBudget::new(1 << 20, 0));
        let cache = Arc::new(BlockCache::within(1 << 20, Arc::clone(&budget)));
        let mut index = Charge::new(&cache, Holder::Indexes, 1000);
        let filter = Charge::new(&cache, Holder::Filters, 500);
        assert_eq!(budget.left(), (1 << 20) - 1500);
        index.set(200);
        assert_eq!((budget.held(Holder::Indexes), budget.held(Holder::Filters)), (200, 500));
        drop(filter);
        index.set(2 << 20);
        assert_eq!(budget.left(), 0, "more than there is leaves nothing");
        drop(index);
        assert_eq!(budget.left(), 1 << 20);
    }

    #[test]
    fn two_memtables_count_in_full_and_others_as_they_are() {
        const BUDGET: usize = 64 << 20;
        let budget = MemoryBudget::new(BUDGET, 1 << 20);
        let full = 3 << 19;
        let mut memtables = vec![memtable()];
        budget.add_memtable(&memtables[0]);
        assert_eq!(budget.left(), BUDGET - 2 * full, "the one that is flushed, too");
        let write = |memtable: &Memtable| {
            for number in 0..900_u64 {
                let key = number.to_be_bytes();
                memtable.insert(number, Kind::Put, &key, &[0; 1000], number << 56).unwrap();
            }
        };
        write(&memtables[0]);
        budget.look_at_memtables();
        assert_eq!(budget.left(), BUDGET - 2 * full);
        memtables.push(memtable());
        budget.add_memtable(&memtables[1]);
        assert_eq!(budget.left(), BUDGET - 2 * full, "one is less than full, the other counts so");
        write(&memtables[1]);
        memtables.push(memtable());
        budget.add_memtable(&memtables[2]);
        let left = budget.left() / (2 << 20);
        assert_eq!([left, left + 1].map(|more| budget.is_short_of(more)), [false, true]);
        let taken = BUDGET - full - budget.left();
        assert!((1_800_000..2_800_000).contains(&taken), "{taken}");
        assert!(budget.memtable_memory().bytes() >= 1_800_000);
        memtables.drain(..2);
        budget.look_at_memtables();
        assert_eq!(budget.left(), BUDGET - 2 * full);
    }

    /// The spare has the pages of its former use, and the next memtable has them at once.
    #[test]
    fn memory_that_waits_for_the_next_memtable_counts() {
        const BUDGET: usize = 64 << 20;
        let full = 3 << 19;
        let pool = MemtablePool::new(
            (1 << 20, 1 << 18),
            3,
            Comparator::Bytewise,
            MemtableOptions::default(),
        );
        let budget = MemoryBudget::new(BUDGET, 1 << 20).with_spare_of(&pool);
        let memtable = || {
            let memtable = Arc::new(pool.memtable(0));
            budget.add_memtable(&memtable);
            memtable
        };
        let mapped = || budget.memtable_memory().mapped_bytes;
        let first = memtable();
        // Without values: slots and index are more than the entries.
        let mut number = 0_u64;
        while first.insert(number, Kind::Put, &number.to_be_bytes(), b"", number << 50).is_ok() {
            number += 1;
        }
        let of_first = mapped();
        assert!(of_first > full, "{of_first}");
        let second = memtable();
        drop(first);
        assert!(pool.has_spare());
        let now = mapped();
        assert!((of_first..of_first + (1 << 19)).contains(&now), "{of_first}, and then {now}");
        budget.look_at_memtables();
        assert_eq!(BUDGET - budget.left(), full + pool.bytes(), "beyond the two that count always");
        let of_spare = pool.bytes();
        let third = memtable();
        assert_eq!((pool.bytes(), third.memory().mapped_bytes), (0, of_spare), "touched before");
        drop((second, third));
        pool.trim();
        assert_eq!(mapped(), 0);
        budget.look_at_memtables();
        assert_eq!(budget.left(), BUDGET - 2 * full);
    }

    #[test]
    fn a_block_is_counted_once_wherever_it_is() {
        let budget = Arc::new(MemoryBudget::new(8 << 20, 0));
        let of = |budget: &MemoryBudget| {
            let counts =
                (budget.outside(), budget.cached.load(Ordering::Relaxed), budget.evicted());
            assert_eq!(budget.blocks(), counts.0 + counts.1 + counts.2);
            counts
        };
        let block = budget.count_block(1000);
        assert_eq!(of(&budget), (1000, 0, 0));
        block.enter_cache();
        block.grow_in_cache(24);
        assert_eq!(of(&budget), (0, 1024, 0));
        assert_eq!(block.leave_cache(), 1024);
        assert_eq!(of(&budget), (0, 0, 1024));
        block.end_wait();
        assert_eq!(of(&budget), (1024, 0, 0));
        let large = budget.count_block(2 << 20);
        assert_eq!(
            budget.left(),
            (8 << 20) - (2 << 20) - 1024 + 2 * budget.step(),
            "some are usual"
        );
        drop((block, large));
        assert_eq!((of(&budget), budget.left()), ((0, 0, 0), 8 << 20));
    }

    #[test]
    fn without_a_limit_everything_is_left() {
        let budget = Arc::new(MemoryBudget::unlimited());
        let cache = Arc::new(BlockCache::within(10_000, Arc::clone(&budget)));
        let _index = Charge::new(&cache, Holder::Indexes, 1 << 40);
        assert_eq!(budget.left(), usize::MAX);
        assert_eq!(cache.capacity_bytes(), 10_000);
        assert!(!budget.is_short_of(1000));
    }
}
