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
//! for it before it has the block. The slots cost 16 bytes a block, 0.4 % of what the table holds.
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
//! still held count no longer, so the cache may have more memory than its capacity, by what readers
//! hold and by about a megabyte for each thread that inserts.
//!
//! **Who may change what.** A slot goes from null to a block and back under the lock of its shard
//! alone; which shard that is depends on the table and the number of the block, and never changes.
//! A table that ends takes its blocks out.

use crate::block::Block;
use crate::key::Comparator;
use crate::memtable::mapping::prefetch;
use crate::table::TableReads;
use keyrack_concurrent::{Counter, Era, Guard, Retired, birth, pin};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// The least bytes of a shard, unless it is the only one.
const SHARD_BYTES_MIN: usize = 4 << 20;
const SHARDS_MAX: usize = 32;

/// A block in memory, in the cache or not.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) block: Block,
    /// Asked for since the hand came by.
    referenced: AtomicBool,
    /// Where it is in the ring. Written before it is linked, used under the lock.
    place: AtomicUsize,
}

impl Cached {
    /// A block that is in no cache.
    pub(crate) fn new(block: Block) -> Arc<Self> {
        let (referenced, place) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Cached { block, referenced, place })
    }

    /// Bytes that the cache counts for it.
    fn charge(&self) -> usize {
        self.block.memory_bytes() + size_of::<Self>() + size_of::<Place>()
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

/// The blocks of one table that are in the cache.
struct Slots {
    blocks: Box<[Slot]>,
    /// Which shard has the first block. The others follow in turn.
    shard: usize,
}

/// A block in a ring.
struct Place {
    slots: Arc<Slots>,
    index: usize,
    /// The reference that the slot stands for.
    cached: Arc<Cached>,
    charge: usize,
    /// The era before it was linked.
    birth: Era,
}

#[derive(Default)]
struct Ring {
    places: Vec<Place>,
    hand: usize,
    bytes: usize,
    evicted: u64,
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
}

/// A bounded number of bytes of blocks, shared by tables.
pub(crate) struct BlockCache {
    rings: Box<[Mutex<Ring>]>,
    ring_bytes_max: usize,
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
    /// An empty cache. One of 0 bytes stays empty.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        BlockCache {
            rings: (0..shards).map(|_| Mutex::default()).collect(),
            ring_bytes_max: capacity_bytes / shards,
            hits: Counter::new(),
            misses: Counter::new(),
            reads: TableReads::default(),
        }
    }

    /// Reads of files so far.
    pub(crate) fn reads(&self) -> &TableReads {
        &self.reads
    }

    /// Exact when nobody uses the cache meanwhile. O(shards).
    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            hits: self.hits.sum().unsigned_abs(),
            misses: self.misses.sum().unsigned_abs(),
            ..CacheStats::default()
        };
        for ring in &self.rings {
            let ring = lock(ring);
            stats.evicted += ring.evicted;
            stats.blocks += ring.places.len() as u64;
            stats.bytes += ring.bytes as u64;
        }
        stats
    }

    fn ring_of(&self, slots: &Slots, index: usize) -> &Mutex<Ring> {
        &self.rings[slots.shard.wrapping_add(index) % self.rings.len()]
    }
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    // No panic leaves a ring half changed.
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    /// Puts a block in, at the hand if others had to go for it. Those are pushed to `evicted`, for
    /// the caller to retire. O(blocks) in the worst case, constant on average.
    fn link(&mut self, new: Place, bytes_max: usize, evicted: &mut Vec<Place>) {
        self.make_room(new.charge, bytes_max, evicted);
        self.bytes += new.charge;
        // Release: who finds the block by the Acquire of `peek` finds it whole.
        let word = Arc::as_ptr(&new.cached).cast_mut();
        let slot = &new.slots.blocks[new.index];
        slot.prefixes.store(new.cached.block.prefixes_at().cast_mut(), Ordering::Relaxed);
        slot.bytes.store(new.cached.block.bytes_at().cast_mut(), Ordering::Relaxed);
        slot.cached.store(word, Ordering::Release);
        let last = self.places.len();
        self.places.push(new);
        self.places[last].cached.place.store(last, Ordering::Relaxed);
        if !evicted.is_empty() {
            // The hand is at a place that has been freed, or behind the last one.
            self.places.swap(self.hand, last);
            self.places[last].cached.place.store(last, Ordering::Relaxed);
            self.places[self.hand].cached.place.store(self.hand, Ordering::Relaxed);
            self.hand += 1;
        }
    }

    /// Evicts blocks until there is room for `bytes` more.
    fn make_room(&mut self, bytes: usize, bytes_max: usize, evicted: &mut Vec<Place>) {
        // A bit that is set again and again does not keep the hand turning.
        let mut mercy = 2 * self.places.len();
        while self.bytes + bytes > bytes_max && !self.places.is_empty() {
            self.hand = if self.hand < self.places.len() { self.hand } else { 0 };
            // Relaxed: a hint. A hit that comes just now may come too late.
            let is_asked_for =
                self.places[self.hand].cached.referenced.swap(false, Ordering::Relaxed);
            if is_asked_for && mercy > 0 {
                mercy -= 1;
                self.hand += 1;
            } else {
                evicted.push(self.unlink(self.hand));
            }
        }
        self.evicted += evicted.len() as u64;
    }

    /// Takes a block out of the ring and out of its slot. The last one gets its place.
    fn unlink(&mut self, at: usize) -> Place {
        let taken = self.places.swap_remove(at);
        if let Some(moved) = self.places.get(at) {
            moved.cached.place.store(at, Ordering::Relaxed);
        }
        self.bytes -= taken.charge;
        // Relaxed: who finds null follows nothing.
        taken.slots.blocks[taken.index].cached.store(ptr::null_mut(), Ordering::Relaxed);
        taken
    }
}

/// # Safety
/// The word is the exposed address of what `Arc::into_raw` returned, used once.
unsafe fn drop_cached(word: u64) {
    let cached = ptr::with_exposed_provenance::<Cached>(word as usize);
    // SAFETY: the caller says so.
    drop(unsafe { Arc::from_raw(cached) });
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
            self.index_prefixes(index, cached, guard);
        }
        Some(cached)
    }

    /// Gives a block a prefix index that was found twice: it will be found again, as a rule. Takes
    /// the lock of a shard, to count the memory.
    #[cold]
    fn index_prefixes(&self, index: usize, cached: &Cached, guard: &Guard) {
        let before = cached.block.memory_bytes();
        if !cached.block.index_prefixes() {
            // Another thread was faster.
            return;
        }
        let charge = cached.block.memory_bytes() - before;
        let mut evicted = Vec::new();
        let mut ring = lock(self.cache.ring_of(&self.slots, index));
        let slot = &self.slots.blocks[index];
        // Another block, or none, if this one was evicted meanwhile.
        if ptr::eq(slot.cached.load(Ordering::Relaxed), cached) {
            slot.prefixes.store(cached.block.prefixes_at().cast_mut(), Ordering::Relaxed);
            let at = cached.place.load(Ordering::Relaxed);
            ring.places[at].charge += charge;
            ring.bytes += charge;
            ring.make_room(0, self.cache.ring_bytes_max, &mut evicted);
        }
        drop(ring);
        evicted.into_iter().for_each(|place| retire(guard, place));
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
    /// block that is larger than a shard is returned and not put in. Takes the lock of a shard.
    pub(crate) fn insert(&self, index: usize, block: Block) -> Arc<Cached> {
        let cached = Cached::new(block);
        let charge = cached.charge();
        if charge > self.cache.ring_bytes_max {
            return cached;
        }
        let guard = pin();
        let mut evicted = Vec::new();
        let mut ring = lock(self.cache.ring_of(&self.slots, index));
        if let Some(other) = self.own(index, &guard) {
            return other;
        }
        let slots = Arc::clone(&self.slots);
        let place = Place { slots, index, cached: Arc::clone(&cached), charge, birth: birth() };
        ring.link(place, self.cache.ring_bytes_max, &mut evicted);
        drop(ring);
        evicted.into_iter().for_each(|place| retire(&guard, place));
        cached
    }
}

impl Drop for TableCache {
    /// Takes the blocks of the table out. O(blocks of the table); each shard is locked once.
    fn drop(&mut self) {
        let guard = pin();
        let blocks = self.slots.blocks.len();
        for first in 0..self.cache.rings.len().min(blocks) {
            let mut taken = Vec::new();
            let mut ring = lock(self.cache.ring_of(&self.slots, first));
            for index in (first..blocks).step_by(self.cache.rings.len()) {
                if let Some(cached) = self.own(index, &guard) {
                    let at = cached.place.load(Ordering::Relaxed);
                    taken.push(ring.unlink(at));
                }
            }
            drop(ring);
            taken.into_iter().for_each(|place| retire(&guard, place));
        }
    }
}
