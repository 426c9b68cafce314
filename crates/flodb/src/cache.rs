//! Decompressed blocks in memory, for all tables together.
//!
//! ```text
//!   table 7   slots: [ . * . . * . ]     one word a block: null, or the block
//!   table 9   slots: [ * . * ]
//!                      |   |
//!   shard 0   ring:  [ a   c   -   d ]   who is in, in circular order; a lock for changes
//!   shard 1   ring:  [ b   -   e ]             ^ hand
//! ```
//!
//! A lookup neither hashes nor takes a lock: the index of a table says which block it is, and the
//! table's slot of that number has the block or null. So a hit is one load, and cannot return
//! another block. A slot also says where the prefix index of the block is, so that a reader can ask
//! for it before it has the block. The slots cost 32 bytes a block, 0.8 % of what the table holds.
//!
//! A block that is found twice gets a prefix index, which makes searches in it cheaper and counts
//! as a part of it. Most blocks of a cache that is too small are evicted before that.
//!
//! **Replacement** is CLOCK, in each shard alone. A hit sets the block's reference bit, if it is
//! not set. An insertion takes the shard's lock and moves its hand over the ring. It clears the
//! bits that are set, and evicts the blocks whose bit was clear, until there is room. The new block
//! comes in where the hand stands, with its bit clear, so it stays for a turn of the hand, and for
//! longer if it is asked for again.
//!
//! **Who frees.** The ring owns one reference of each block in it. To evict is to take the block
//! out of its slot and to retire that reference. A reader who got the block from the slot under a
//! guard may look at it until the guard ends ([`TableCache::get`]), or count up a reference of its
//! own meanwhile and keep it for as long as it likes ([`TableCache::pin`]). Evicted blocks that are
//! still held are not in the cache, so there are more blocks than its capacity says.
//!
//! **Capacity.** The cache has what the others leave of the budget, see [`crate::memory_budget`].
//! When they take more, [`BlockCache::settle`] lowers the capacity and evicts in all shards before
//! it returns. When they give back, it raises the capacity.
//!
//! **A reader that stands still** holds back every block that was there when it began, evicted or
//! not: guards know times, not blocks. So what is evicted meanwhile frees no memory. Then the cache
//! does not evict for new blocks, as long as more than a sixteenth of the budget waits to be freed:
//! reads get blocks that the cache does not keep. Blocks that are in the cache stay, and are found.
//! The capacity does not depend on what waits, or the cache would give up all that it has for
//! nothing. So the store has at most its budget and this sixteenth, and beyond that what memtables,
//! tables and cursors take while the reader stands: the blocks that give way to them are freed when
//! it goes on.
//!
//! **What waits** belongs to no thread. Evicted blocks are put in one list. The thread that makes
//! it long enough retires all of them, frees what nobody holds, and hands over the rest, so that a
//! thread that goes idle keeps nothing.
//!
//! **Who may change what.** A slot goes from null to a block and back under the lock of its shard
//! alone; which shard that is depends on the table and the number of the block, and never changes.
//! A table that ends takes its blocks out.

use crate::block::Block;
use crate::key::Comparator;
use crate::memory_budget::{CountedBlock, MemoryBudget};
use crate::memtable::mapping::prefetch;
use crate::table::TableReads;
use keyrack_concurrent::{Counter, Guard, Retired, birth, free_or_hand_over, pin};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use ring::{Place, Ring};

mod ring;
#[cfg(test)]
mod tests;

/// The least bytes of a shard, unless it is the only one.
const SHARD_BYTES_MIN: usize = 4 << 20;
const SHARDS_MAX: usize = 32;

/// The part of the cache that may be lists of blocks which are being freed, all at once.
const FREEING_PARTS: usize = 32;

/// How often a thread tries to free the blocks of tables that are gone before it goes on.
const FREE_ATTEMPTS: usize = 16;

/// Evicted blocks are freed when they are this part of the cache.
const EVICTED_STEPS: usize = 128;

/// And at least and at most so many bytes. To free takes a fence, and one read is to pay for few.
const EVICTED_STEP_MIN: usize = 64 << 10;
const EVICTED_STEP_MAX: usize = 1 << 20;

/// While evicted blocks of more than this part of the cache are not freed, none is evicted for a
/// new one.
const EVICTED_PARTS: usize = 16;

/// A block in memory, in the cache or not.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) block: Block,
    counted: CountedBlock,
    /// Asked for since the hand came by.
    referenced: AtomicBool,
    /// Where it is in the ring. Written before it is linked, used under the lock.
    place: AtomicUsize,
}

impl Cached {
    /// A block that is in no cache.
    pub(crate) fn new(block: Block, budget: &Arc<MemoryBudget>) -> Arc<Self> {
        let counted = budget.count_block(block.memory_bytes() + size_of::<Self>() + COUNTS_BYTES);
        let (referenced, place) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Cached { block, counted, referenced, place })
    }

    /// Bytes that the cache counts for it: also two places, since a ring that grows doubles.
    fn charge(&self) -> usize {
        self.counted.bytes() + 2 * size_of::<Place>()
    }
}

/// The place of a block that may be in the cache.
#[derive(Default)]
#[repr(align(32))]
struct Slot {
    /// Null, or the block.
    cached: AtomicPtr<Cached>,
    /// Where the prefix index of the block is, or was: to be asked for, and never followed.
    prefixes: AtomicPtr<u64>,
    /// The same of the bytes of the block.
    bytes: AtomicPtr<u8>,
}

impl Slot {
    /// Asks for what a search in the block reads first. Nothing of it is known from the other, so
    /// all of it is asked for at once.
    #[inline]
    fn prefetch(&self, cached: *const Cached) {
        prefetch(cached.cast());
        // Relaxed: an address of another block does no harm.
        let prefixes = self.prefixes.load(Ordering::Relaxed).cast_const();
        for line in 0..PREFETCHED_LINES {
            prefetch(prefixes.cast::<u8>().wrapping_add(64 * line));
        }
    }
}

/// Cache lines of a prefix index that are asked for: those of a block of 4 KiB.
const PREFETCHED_LINES: usize = 6;

/// A block of 4 KiB lies in two pages at most.
const PAGE_BYTES: usize = 4096;

/// Bytes of the counts in front of what an `Arc` has.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// The blocks of one table that are in the cache.
struct Slots {
    blocks: Box<[Slot]>,
    /// Which shard has the first block. The others follow in turn.
    shard: usize,
}

/// Blocks that have left their rings and are not retired yet.
#[derive(Default)]
struct Evicted {
    places: Vec<Place>,
    bytes: usize,
}

/// What a cache has done and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Lookups that found their block.
    pub(crate) hits: u64,
    /// Lookups that did not.
    pub(crate) misses: u64,
    /// Blocks that made room for others.
    pub(crate) evicted: u64,
    /// Blocks in the cache.
    pub(crate) blocks: u64,
    /// Their bytes, with what the cache needs for each.
    pub(crate) bytes: u64,
    /// Bytes of their places, with room for more.
    pub(crate) place_bytes: u64,
    /// The most bytes that there may be now.
    pub(crate) capacity: u64,
}

/// A bounded number of bytes of blocks, shared by tables.
pub(crate) struct BlockCache {
    rings: Box<[Mutex<Ring>]>,
    /// Changed while `settling` is held.
    ring_bytes_max: AtomicUsize,
    /// The largest capacity.
    bytes_max: usize,
    budget: Arc<MemoryBudget>,
    settling: Mutex<()>,
    /// Somebody has asked for it since the capacity was last set.
    is_due_again: AtomicBool,
    evicted: Mutex<Evicted>,
    /// Bytes of evicted blocks that are freed at once.
    evicted_step: usize,
    /// Bytes of them beyond which none is evicted for a new one.
    evicted_max: usize,
    /// Bytes of new blocks since somebody has last looked at the budget.
    inserted_bytes: AtomicUsize,
    hits: Counter,
    misses: Counter,
    /// Of the files of the tables that share the cache.
    reads: TableReads,
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl BlockCache {
    /// An empty cache of its own budget. One of 0 bytes stays empty.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        BlockCache::within(capacity_bytes, Arc::new(MemoryBudget::unlimited()))
    }

    /// An empty cache of what the others leave of `budget`, and at most `bytes_max`.
    pub(crate) fn within(bytes_max: usize, budget: Arc<MemoryBudget>) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let capacity = budget.left().min(bytes_max);
        let evicted_step = budget.bytes().min(bytes_max) / EVICTED_STEPS;
        let evicted_step = evicted_step.clamp(EVICTED_STEP_MIN, EVICTED_STEP_MAX);
        let is_limited = budget.bytes() < usize::MAX;
        let evicted_max = (budget.bytes().min(bytes_max) / EVICTED_PARTS).max(2 * evicted_step);
        let evicted_max = if is_limited { evicted_max } else { usize::MAX };
        BlockCache {
            rings: (0..shards).map(|_| Mutex::default()).collect(),
            ring_bytes_max: AtomicUsize::new(capacity / shards),
            bytes_max,
            budget,
            settling: Mutex::new(()),
            is_due_again: AtomicBool::new(false),
            evicted: Mutex::default(),
            evicted_step,
            evicted_max,
            inserted_bytes: AtomicUsize::new(0),
            hits: Counter::new(),
            misses: Counter::new(),
            reads: TableReads::default(),
        }
    }

    /// Reads of files so far.
    pub(crate) fn reads(&self) -> &TableReads {
        &self.reads
    }

    /// The budget that the cache has a part of.
    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// The most bytes of blocks that there may be now.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.ring_bytes_max() * self.rings.len()
    }

    /// Bytes of the cache without blocks.
    pub(crate) fn own_bytes(&self) -> usize {
        size_of::<Self>() + self.rings.len() * size_of::<Mutex<Ring>>()
    }

    #[inline]
    fn ring_bytes_max(&self) -> usize {
        // Relaxed: who still sees the old capacity inserts one block by it.
        self.ring_bytes_max.load(Ordering::Relaxed)
    }

    /// Follows the budget if what is left has changed by enough. A few loads, if it has not.
    #[inline]
    pub(crate) fn follow(&self) {
        if self.next_capacity() != self.capacity_bytes() {
            self.settle();
        }
    }

    /// The capacity that fits what is left now. It is a step less than that, and a part for lists
    /// of what is being freed. It stays as it is while it fits and a larger one would be no more
    /// than a step larger.
    fn next_capacity(&self) -> usize {
        let (now, left, step) = (self.capacity_bytes(), self.budget.left(), self.budget.step());
        let most = self.whole(self.bytes_max);
        let fitting = (left - left / FREEING_PARTS).saturating_sub(step);
        let fitting = self.whole(fitting).min(most);
        let is_too_much = now > left;
        let is_too_little = fitting > now && (fitting == most || fitting - now > step);
        if is_too_much || is_too_little { fitting } else { now }
    }

    /// So many bytes, as the shards divide them.
    fn whole(&self, bytes: usize) -> usize {
        bytes / self.rings.len() * self.rings.len()
    }

    /// Asks the memtables for their sizes, and gives the cache what the others leave. Blocks beyond
    /// that are evicted, and freed if no reader holds them back. O(shards + evicted blocks).
    pub(crate) fn settle(&self) {
        // Whoever is about it begins again. That may be this thread: what it frees can charge.
        self.is_due_again.store(true, Ordering::SeqCst);
        while self.is_due_again.load(Ordering::SeqCst)
            && let Some(settling) = try_lock(&self.settling)
        {
            self.is_due_again.store(false, Ordering::SeqCst);
            let evicted = self.fit();
            drop(settling);
            if !evicted.is_empty() {
                self.give_up(evicted);
                self.free_evicted();
            }
        }
    }

    /// Sets the capacity that fits, and takes out what is beyond it. `settling` is held.
    fn fit(&self) -> Vec<Place> {
        self.budget.look_at_memtables();
        let (before, capacity) = (self.capacity_bytes(), self.next_capacity());
        let ring_bytes_max = capacity / self.rings.len();
        self.ring_bytes_max.store(ring_bytes_max, Ordering::Relaxed);
        let mut evicted = Vec::new();
        if capacity < before {
            for ring in &self.rings {
                lock(ring).make_room(0, ring_bytes_max, &mut evicted);
            }
        }
        evicted
    }

    /// Takes over blocks that have left their rings. No ring is locked.
    fn give_up(&self, places: Vec<Place>) {
        if places.is_empty() {
            return;
        }
        let bytes: usize = places.iter().map(|place| place.cached.counted.leave_cache()).sum();
        let is_enough = {
            let mut evicted = lock(&self.evicted);
            evicted.places.extend(places);
            evicted.bytes += bytes;
            evicted.bytes >= self.evicted_step
        };
        if is_enough {
            self.free_evicted();
        }
    }

    /// Frees what has been evicted and no reader holds back. The rest is left to the next thread
    /// that frees.
    fn free_evicted(&self) {
        let evicted = std::mem::take(&mut *lock(&self.evicted));
        {
            let guard = pin();
            evicted.places.into_iter().for_each(|place| retire(&guard, place));
        }
        free_or_hand_over();
    }

    /// Frees the blocks of tables that are gone, if that takes a moment only. For threads that
    /// nobody waits for.
    pub(crate) fn free_evicted_patiently(&self) {
        for _ in 0..FREE_ATTEMPTS {
            if self.budget.evicted() == 0 {
                return;
            }
            self.free_evicted();
            std::thread::yield_now();
        }
    }

    /// Whether so much is evicted and not freed that nothing is evicted for a new block.
    #[inline]
    fn is_held_back(&self) -> bool {
        self.budget.evicted() > self.evicted_max
    }

    /// After a new block of so many bytes, in the cache or not: now and then follows the budget,
    /// and frees what was left before.
    fn look_around(&self, bytes: usize) {
        let before = self.inserted_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) >= self.evicted_step {
            self.inserted_bytes.store(0, Ordering::Relaxed);
            if self.budget.evicted() > 2 * self.evicted_step {
                self.free_evicted();
            }
            self.settle();
        }
    }

    /// Exact when nobody uses the cache meanwhile. O(shards).
    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            hits: self.hits.sum().unsigned_abs(),
            misses: self.misses.sum().unsigned_abs(),
            capacity: self.capacity_bytes() as u64,
            ..CacheStats::default()
        };
        for ring in &self.rings {
            let ring = lock(ring);
            stats.evicted += ring.evicted;
            stats.blocks += ring.places.len() as u64;
            stats.bytes += ring.bytes as u64;
            stats.place_bytes += (ring.places.capacity() * size_of::<Place>()) as u64;
        }
        stats
    }

    fn ring_of(&self, slots: &Slots, index: usize) -> &Mutex<Ring> {
        &self.rings[slots.shard.wrapping_add(index) % self.rings.len()]
    }
}

/// `None` if somebody has the lock, who may be this thread.
fn try_lock(settling: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match settling.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic leaves a ring, or the list of evicted blocks, half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// The word is the exposed address of what `Arc::into_raw` returned, used once.
unsafe fn drop_cached(word: u64) {
    let cached = ptr::with_exposed_provenance::<Cached>(word as usize);
    // SAFETY: the caller says so.
    let cached = unsafe { Arc::from_raw(cached) };
    // Who still has a reference has said so.
    cached.counted.end_wait();
}

fn retire(guard: &Guard, place: Place) {
    let word = Arc::into_raw(place.cached).expose_provenance() as u64;
    let object = Retired { word, bytes: place.charge, birth: place.birth, free: drop_cached };
    // SAFETY: the slot was set to null before, and was the only way to the block for who has no
    // reference; a place leaves its ring once. The birth was read before the block was linked. The
    // word is a reference that nobody else drops, and blocks may be dropped in any thread.
    unsafe { guard.retire(object) };
}

/// What one table has in the cache. Blocks are named by their number in the table.
pub(crate) struct TableCache {
    cache: Arc<BlockCache>,
    slots: Arc<Slots>,
    /// Whether the keys are in the order of bytes, so that blocks can have prefix indexes.
    is_bytewise: bool,
}

impl fmt::Debug for TableCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCache").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl TableCache {
    /// Room for `blocks` blocks of the table with this number, which spreads the tables over the
    /// shards.
    pub(crate) fn new(cache: Arc<BlockCache>, number: u64, blocks: usize) -> Self {
        let blocks = (0..blocks).map(|_| Slot::default()).collect();
        let slots = Arc::new(Slots { blocks, shard: number as usize });
        TableCache { cache, slots, is_bytewise: false }
    }

    /// The same for a table in this order.
    pub(crate) fn in_order(mut self, order: &Comparator) -> Self {
        self.is_bytewise = order.is_bytewise();
        self
    }

    /// Where reads of the file are counted.
    pub(crate) fn reads(&self) -> &TableReads {
        self.cache.reads()
    }

    /// The block, if it is there; good until the guard ends. No lock, no allocation.
    #[inline]
    pub(crate) fn get<'g>(&self, index: usize, guard: &'g Guard) -> Option<&'g Cached> {
        let Some(found) = self.peek(index, guard) else {
            self.cache.misses.add(1);
            return None;
        };
        self.slots.blocks[index].prefetch(found.as_ptr());
        self.cache.hits.add(1);
        // SAFETY: as `peek` promises; nobody has the block exclusively.
        let cached = unsafe { found.as_ref() };
        if !cached.referenced.load(Ordering::Relaxed) {
            cached.referenced.store(true, Ordering::Relaxed);
        } else if self.is_bytewise && !cached.block.has_prefixes() {
            self.index_prefixes(index, cached);
        }
        Some(cached)
    }

    /// Gives a block a prefix index that was found twice: it will be found again, as a rule. Takes
    /// the lock of a shard, so that the index is made of blocks in the cache alone and counts.
    #[cold]
    fn index_prefixes(&self, index: usize, cached: &Cached) {
        if self.cache.is_held_back() {
            return;
        }
        let mut evicted = Vec::new();
        let mut ring = lock(self.cache.ring_of(&self.slots, index));
        let slot = &self.slots.blocks[index];
        // Another block, or none, if this one was evicted meanwhile.
        if !ptr::eq(slot.cached.load(Ordering::Relaxed), cached) {
            return;
        }
        let before = cached.block.memory_bytes();
        // Another thread may have been faster.
        if cached.block.index_prefixes() {
            slot.prefixes.store(cached.block.prefixes_at().cast_mut(), Ordering::Relaxed);
            let grown = cached.block.memory_bytes() - before;
            let at = cached.place.load(Ordering::Relaxed);
            ring.places[at].charge += grown;
            ring.bytes += grown;
            cached.counted.grow_in_cache(grown);
            ring.make_room(0, self.cache.ring_bytes_max(), &mut evicted);
        }
        drop(ring);
        self.cache.give_up(evicted);
    }

    /// The block, if it is there, to keep. No lock, no allocation.
    pub(crate) fn pin(&self, index: usize) -> Option<Arc<Cached>> {
        let guard = pin();
        self.get(index, &guard)?;
        self.own(index, &guard)
    }

    /// As [`Self::pin`], and counts nothing if the block is not there: the caller asks again later.
    pub(crate) fn pin_if_there(&self, index: usize) -> Option<Arc<Cached>> {
        let guard = pin();
        self.peek(index, &guard)?;
        self.get(index, &guard)?;
        self.own(index, &guard)
    }

    /// Asks for the slot of a block.
    #[inline]
    pub(crate) fn prefetch_slot(&self, index: usize) {
        prefetch(ptr::from_ref(&self.slots.blocks[index]).cast());
    }

    /// Has the processor look up the pages of the block, which takes as long as a line from memory.
    /// Otherwise it does so when the search among the prefixes has told the entry. The lines that
    /// are asked for are hardly those that the search will read.
    #[inline]
    pub(crate) fn prefetch_pages(&self, index: usize) {
        // Relaxed: an address of another block does no harm.
        let bytes = self.slots.blocks[index].bytes.load(Ordering::Relaxed).cast_const();
        prefetch(bytes);
        prefetch(bytes.wrapping_add(PAGE_BYTES - 1));
    }

    /// Asks for what says where the block is, and for its prefix index.
    #[inline]
    pub(crate) fn prefetch_header(&self, index: usize) {
        // Relaxed: the block is not looked at.
        let slot = &self.slots.blocks[index];
        let header = slot.cached.load(Ordering::Relaxed).cast_const();
        slot.prefetch(header);
        prefetch(header.cast::<u8>().wrapping_add(size_of::<Cached>() - 1));
    }

    /// The block, if it is there. It is not dropped before the guard ends: it was in its slot
    /// during the last load under protection, and the reference of its ring is retired after it
    /// left the slot.
    #[inline]
    fn peek(&self, index: usize, guard: &Guard) -> Option<NonNull<Cached>> {
        let slot = &self.slots.blocks[index];
        NonNull::new(guard.protect(|| slot.cached.load(Ordering::Acquire)))
    }

    /// A reference of one's own to the block, if it is there.
    fn own(&self, index: usize, guard: &Guard) -> Option<Arc<Cached>> {
        let word = self.peek(index, guard)?.as_ptr().cast_const();
        // SAFETY: slots have what `Arc::as_ptr` returned, and the guard keeps a reference alive.
        unsafe { Arc::increment_strong_count(word) };
        // SAFETY: the reference that was just counted.
        Some(unsafe { Arc::from_raw(word) })
    }

    /// Puts a block in, and returns it; or the one that another thread has put there meanwhile. A
    /// block is returned and not put in if it is larger than a shard, or if readers hold back what
    /// was evicted before. Takes the lock of a shard.
    pub(crate) fn insert(&self, index: usize, block: Block) -> Arc<Cached> {
        let cached = Cached::new(block, &self.cache.budget);
        let bytes = cached.counted.bytes();
        let kept = self.link(index, &cached).unwrap_or(cached);
        // Also if it was not put in: there may be room again that nobody has noticed.
        self.cache.look_around(bytes);
        kept
    }

    /// Puts a block in, if it may be. Returns the one that is there already.
    fn link(&self, index: usize, cached: &Arc<Cached>) -> Option<Arc<Cached>> {
        let (charge, ring_bytes_max) = (cached.charge(), self.cache.ring_bytes_max());
        if charge > ring_bytes_max || self.cache.is_held_back() {
            return None;
        }
        let mut evicted = Vec::new();
        {
            let guard = pin();
            let mut ring = lock(self.cache.ring_of(&self.slots, index));
            if let Some(other) = self.own(index, &guard) {
                return Some(other);
            }
            let (slots, birth) = (Arc::clone(&self.slots), birth());
            let place = Place { slots, index, cached: Arc::clone(cached), charge, birth };
            cached.counted.enter_cache();
            ring.link(place, ring_bytes_max, &mut evicted);
        }
        self.cache.give_up(evicted);
        None
    }

    /// The cache that it is a part of.
    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// A block that stays outside of the cache.
    pub(crate) fn lend(&self, block: Block) -> Arc<Cached> {
        Cached::new(block, &self.cache.budget)
    }

    /// Bytes of the slots of the table.
    pub(crate) fn slots_bytes(&self) -> usize {
        size_of::<Slots>() + COUNTS_BYTES + size_of_val(&*self.slots.blocks)
    }
}

impl Drop for TableCache {
    /// Takes the blocks of the table out. O(blocks of the table); each shard is locked once.
    fn drop(&mut self) {
        let blocks = self.slots.blocks.len();
        let mut taken = Vec::new();
        for first in 0..self.cache.rings.len().min(blocks) {
            let guard = pin();
            let mut ring = lock(self.cache.ring_of(&self.slots, first));
            for index in (first..blocks).step_by(self.cache.rings.len()) {
                if let Some(cached) = self.own(index, &guard) {
                    let at = cached.place.load(Ordering::Relaxed);
                    taken.push(ring.unlink(at));
                }
            }
        }
        self.cache.give_up(taken);
    }
}
