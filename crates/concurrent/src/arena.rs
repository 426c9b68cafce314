//! Memory of one owner, in units of 64 bytes with numbers of 32 bits.
//!
//! ```text
//!   range of the process   chunks of 2 MiB
//!         |                                        common: what stripes have too much of
//!   chunks of the arena    spans of 64 KiB            ^ |  half a list at a time
//!         |                                           | v
//!   stripe 0 .. 63:  [ lock | of each kind: rest of a span, free blocks ]
//! ```
//!
//! A **handle** is the number of a block's first unit in the one range of the process, so a node
//! can name another in 4 bytes, whatever arena that is from: its address is that of unit 0 plus
//! 64 times the handle. Handle 0 is never given out.
//!
//! Blocks come in a few **kinds**, each of a fixed size in units. A block keeps its kind, and its
//! memory stays mapped, for as long as the arena lives. So a reader may look at a block that was
//! freed under it and will see the fields of some block of the same kind; whether it is still the
//! one that it looked for, a version in the block has to say.
//!
//! A thread takes and frees blocks under the lock of its stripe, which it rarely shares. A stripe
//! cuts new blocks from a span of 64 KiB, which it gets from the arena; the arena takes chunks from
//! the range of the process. A span has blocks of one kind: who prefetches lines beyond the end of
//! a block gets those of a block that changes as rarely. The first chunk has plain pages, so that a
//! small tree costs the pages that it touches; all others ask for huge ones. A stripe that has
//! gathered more than [`FREE_BLOCKS_MAX`] free blocks of a kind gives half of them to a common
//! list, where stripes that have none look before they cut a new one. The end of a span that is too
//! short for the next block is lost.
//!
//! Order of locks: a stripe's, then the common list's or the spans', then the range's.

use crate::part::Part;
use crate::range::{Base, CHUNK_BYTES, CHUNK_UNITS, Chunk, Pages, Range, UNIT_BYTES};
use crate::stripe::{STRIPES, stripe};
use crossbeam_utils::CachePadded;
use std::array;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SPAN_UNITS: u32 = 1024;
const SPAN_BYTES: u64 = SPAN_UNITS as u64 * UNIT_BYTES as u64;
const SPANS_PER_CHUNK: u32 = CHUNK_UNITS / SPAN_UNITS;

/// Free blocks of one kind that a stripe keeps for itself.
const FREE_BLOCKS_MAX: usize = 256;

/// Memory of one owner (a tree). Handles are units of one reserved address range of the whole
/// process; 0 is never handed out.
///
/// Dropping the arena gives its memory back to the process, so nothing may follow its handles any
/// more.
///
/// ```
/// use keyrack_concurrent::{Arena, UNIT_BYTES};
///
/// let arena = Arena::new([5, 1]);
/// let handle = arena.allocate(0);
/// let address = arena.base().wrapping_add(handle as usize * UNIT_BYTES);
/// assert!(address.addr().is_multiple_of(UNIT_BYTES));
/// arena.free(0, handle);
/// assert_eq!(arena.live(0), 0);
/// ```
pub struct Arena<const KINDS: usize> {
    base: Base,
    units: [u32; KINDS],
    stripes: [CachePadded<Mutex<Stripe<KINDS>>>; STRIPES],
    // Apart from what every operation reads.
    common: CachePadded<Common<KINDS>>,
    spans: CachePadded<Mutex<Spans>>,
}

struct Stripe<const KINDS: usize> {
    rest: [Rest; KINDS],
    free: [Vec<u32>; KINDS],
    /// Allocated minus freed here. A block may be freed in another stripe.
    live: [i64; KINDS],
}

/// The rest of a span: its first unit and how many there are. Never used before.
#[derive(Clone, Copy)]
struct Rest {
    next: u32,
    left: u32,
}

struct Common<const KINDS: usize> {
    lists: Mutex<[Vec<u32>; KINDS]>,
    /// Lengths of the lists, changed under the lock. A reader without the lock may see an old
    /// length; it then cuts a new block although a free one exists.
    lengths: [AtomicUsize; KINDS],
}

struct Spans {
    range: &'static Range,
    chunks: Vec<Chunk>,
    /// Spans of the last chunk that are taken.
    taken: u32,
}

impl<const KINDS: usize> Arena<KINDS> {
    /// An arena that holds nothing yet. `units` are the sizes of a block of each kind.
    ///
    /// Reserves the range of the process if this is its first arena. Where not even 1 GiB of
    /// addresses is granted, this ends the process as a failed allocation does.
    ///
    /// # Panics
    /// If a size is 0 or more than 1024 units.
    #[must_use]
    pub fn new(units: [u32; KINDS]) -> Self {
        Self::within(Range::of_process(), units)
    }

    fn within(range: &'static Range, units: [u32; KINDS]) -> Self {
        let fits = |units: &u32| (1..=SPAN_UNITS).contains(units);
        assert!(units.iter().all(fits), "a block is 1 to {SPAN_UNITS} units: {units:?}");
        Arena {
            base: range.base(),
            units,
            stripes: array::from_fn(|_| CachePadded::new(Mutex::new(Stripe::new()))),
            common: CachePadded::new(Common {
                lists: Mutex::new(array::from_fn(|_| Vec::new())),
                lengths: array::from_fn(|_| AtomicUsize::new(0)),
            }),
            spans: CachePadded::new(Mutex::new(Spans {
                range,
                chunks: Vec::new(),
                taken: SPANS_PER_CHUNK,
            })),
        }
    }

    /// A block. One that was never used before is all zero; one that was freed holds what its last
    /// user left, and was of the same kind.
    ///
    /// When the range is used up, or the system refuses memory, this ends the process as a
    /// failed allocation does.
    ///
    /// # Panics
    /// If there is no such kind.
    #[must_use]
    pub fn allocate(&self, kind: usize) -> u32 {
        let units = self.units[kind];
        let mut stripe = lock(&self.stripes[stripe().number]);
        stripe.live[kind] += 1;
        if let Some(handle) = stripe.free[kind].pop() {
            return handle;
        }
        // Relaxed: the list itself is read under its lock.
        if self.common.lengths[kind].load(Ordering::Relaxed) > 0
            && let Some(handle) = self.common.refill(kind, &mut stripe.free[kind])
        {
            return handle;
        }
        let rest = &mut stripe.rest[kind];
        if rest.left < units {
            *rest = Rest { next: lock(&self.spans).allocate(), left: SPAN_UNITS };
        }
        let handle = rest.next;
        *rest = Rest { next: handle + units, left: rest.left - units };
        handle
    }

    /// Takes a block back. Its memory stays as it is until somebody allocates it.
    ///
    /// The handle is one of this arena and kind, and is freed once; else two users will get the
    /// same block, or one block two kinds.
    ///
    /// # Panics
    /// If there is no such kind.
    pub fn free(&self, kind: usize, handle: u32) {
        debug_assert!(handle >= CHUNK_UNITS, "handle {handle} was never given out");
        let mut stripe = lock(&self.stripes[stripe().number]);
        stripe.live[kind] -= 1;
        let free = &mut stripe.free[kind];
        free.push(handle);
        if free.len() > FREE_BLOCKS_MAX {
            // The oldest go: the newest are still in the cache.
            self.common.push(kind, free.drain(..FREE_BLOCKS_MAX / 2));
        }
    }

    /// Bytes taken from the range, in whole spans.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let spans = lock(&self.spans);
        let untaken = u64::from(SPANS_PER_CHUNK - spans.taken) * SPAN_BYTES;
        (spans.chunks.len() * CHUNK_BYTES) as u64 - untaken
    }

    /// Blocks of this kind that are allocated and not freed. Exact when nobody does either
    /// meanwhile. O(stripes).
    ///
    /// # Panics
    /// If there is no such kind.
    #[must_use]
    pub fn live(&self, kind: usize) -> i64 {
        self.stripes.iter().map(|stripe| lock(stripe).live[kind]).sum()
    }

    /// Where it keeps its own data.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let stripes = self.stripes.iter().map(|stripe| Part::of("arena: lock of a stripe", stripe));
        let rest = [
            Part::of("arena: base", &self.base),
            Part::of("arena: sizes", &self.units),
            Part::of("arena: common lists", &self.common),
            Part::of("arena: spans", &self.spans),
        ];
        stripes.chain(rest).collect()
    }

    /// Address of unit 0, the same for all arenas.
    #[inline(always)]
    #[must_use]
    pub fn base(&self) -> *const u8 {
        self.base.get()
    }
}

impl<const KINDS: usize> fmt::Debug for Arena<KINDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("units", &self.units)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl<const KINDS: usize> Stripe<KINDS> {
    fn new() -> Self {
        let rest = [Rest { next: 0, left: 0 }; KINDS];
        Stripe { rest, free: array::from_fn(|_| Vec::new()), live: [0; KINDS] }
    }
}

impl<const KINDS: usize> Common<KINDS> {
    /// Adds blocks to the common list.
    fn push(&self, kind: usize, blocks: impl Iterator<Item = u32>) {
        let mut lists = lock(&self.lists);
        lists[kind].extend(blocks);
        self.lengths[kind].store(lists[kind].len(), Ordering::Relaxed);
    }

    /// Moves some blocks from the common list to `free`, which is empty, and returns one of them.
    fn refill(&self, kind: usize, free: &mut Vec<u32>) -> Option<u32> {
        let mut lists = lock(&self.lists);
        let rest = lists[kind].len().saturating_sub(FREE_BLOCKS_MAX / 2);
        free.extend(lists[kind].drain(rest..));
        self.lengths[kind].store(rest, Ordering::Relaxed);
        free.pop()
    }
}

impl Spans {
    /// Allocates a span that was never used. Returns its first unit.
    fn allocate(&mut self) -> u32 {
        if self.taken == SPANS_PER_CHUNK {
            let pages = if self.chunks.is_empty() { Pages::Plain } else { Pages::Huge };
            self.chunks.push(self.range.allocate(pages));
            self.taken = 0;
        }
        let first = self.chunks.last().map_or(0, Chunk::first_unit);
        let span = first + self.taken * SPAN_UNITS;
        self.taken += 1;
        span
    }
}

/// No lock is held while anything runs that could leave a half-made change behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::range::tests::small_range;
    use std::collections::BTreeSet;

    /// The words of a block as its users would see them.
    fn block<const KINDS: usize>(arena: &Arena<KINDS>, kind: usize, handle: u32) -> *mut u8 {
        assert!(kind < KINDS);
        arena.base().cast_mut().wrapping_add(handle as usize * UNIT_BYTES)
    }

    fn fill<const KINDS: usize>(arena: &Arena<KINDS>, kind: usize, handle: u32, byte: u8) {
        let bytes = arena.units[kind] as usize * UNIT_BYTES;
        // SAFETY: the block is allocated and belongs to the calling thread.
        unsafe { block(arena, kind, handle).write_bytes(byte, bytes) };
    }

    fn holds<const KINDS: usize>(arena: &Arena<KINDS>, kind: usize, handle: u32, byte: u8) -> bool {
        let bytes = arena.units[kind] as usize * UNIT_BYTES;
        // SAFETY: the block is mapped, and nobody writes to it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(block(arena, kind, handle), bytes) };
        bytes.iter().all(|found| *found == byte)
    }

    #[test]
    fn first_use_is_zero_and_blocks_do_not_overlap() {
        let arena = Arena::new([1, 3, 16]);
        let mut blocks = Vec::new();
        // About five chunks, so that spans and chunks end in the middle of blocks.
        for round in 0..10_000 {
            for kind in 0..3 {
                let handle = arena.allocate(kind);
                assert_ne!(handle, 0);
                assert!(block(&arena, kind, handle).addr().is_multiple_of(UNIT_BYTES));
                assert!(holds(&arena, kind, handle, 0), "first use is all zero");
                let byte = (round * 3 + kind) as u8 | 1;
                fill(&arena, kind, handle, byte);
                blocks.push((kind, handle, byte));
            }
        }
        assert!(blocks.iter().all(|(kind, handle, byte)| holds(&arena, *kind, *handle, *byte)));
        let units = 10_000 * (1 + 3 + 16);
        let bytes = arena.bytes();
        assert!(bytes >= units * UNIT_BYTES as u64 && bytes < units * UNIT_BYTES as u64 * 11 / 10);
        assert!(bytes.is_multiple_of(SPAN_BYTES));
        assert_eq!([0, 1, 2].map(|kind| arena.live(kind)), [10_000; 3]);
    }

    #[test]
    fn an_arena_takes_nothing_before_it_is_used() {
        let arena = Arena::new([4]);
        assert_eq!(arena.bytes(), 0);
        let _block = arena.allocate(0);
        assert_eq!(arena.bytes(), SPAN_BYTES);
        assert_eq!(format!("{arena:?}"), "Arena { units: [4], bytes: 65536, .. }");
    }

    #[test]
    fn a_freed_block_comes_back_for_its_kind_with_what_it_held() {
        let arena = Arena::new([2, 2]);
        let first = arena.allocate(0);
        fill(&arena, 0, first, 7);
        arena.free(0, first);
        assert_ne!(arena.allocate(1), first, "kinds are never mixed, whatever their sizes");
        assert_eq!(arena.allocate(0), first);
        assert!(holds(&arena, 0, first, 7));
        assert_eq!([arena.live(0), arena.live(1)], [1, 1]);
    }

    #[test]
    fn what_one_thread_frees_another_one_uses() {
        const BLOCKS: usize = 10_000;
        let arena = Arena::new([3, 1]);
        for _ in 0..20 {
            let blocks: Vec<u32> = (0..BLOCKS).map(|_| arena.allocate(0)).collect();
            let free = |handle: &u32| arena.free(0, *handle);
            std::thread::scope(|scope| {
                scope.spawn(|| blocks.iter().for_each(free));
            });
        }
        assert_eq!(arena.live(0), 0);
        let once = (BLOCKS * 3 * UNIT_BYTES) as u64;
        // A stripe keeps up to 256 free blocks, and each of the threads may have had another.
        let kept = (STRIPES * FREE_BLOCKS_MAX * 3 * UNIT_BYTES) as u64;
        assert!(arena.bytes() <= once + kept + 2 * SPAN_BYTES, "{} bytes", arena.bytes());
    }

    #[test]
    fn threads_never_get_the_same_block() {
        const BLOCKS: usize = 20_000;
        let arena = Arena::new([1, 5]);
        let kept: Vec<Vec<(usize, u32)>> = std::thread::scope(|scope| {
            let run = |thread: usize| {
                let arena = &arena;
                move || {
                    let mut mine = Vec::new();
                    let mut state = thread as u64 + 1;
                    for _ in 0..BLOCKS {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let kind = (state >> 40) as usize % 2;
                        if state >> 62 == 0 && !mine.is_empty() {
                            let (kind, handle) =
                                mine.swap_remove((state >> 33) as usize % mine.len());
                            assert!(holds(arena, kind, handle, thread as u8 + 1));
                            arena.free(kind, handle);
                        } else {
                            let handle = arena.allocate(kind);
                            fill(arena, kind, handle, thread as u8 + 1);
                            mine.push((kind, handle));
                        }
                    }
                    mine
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(run(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut units = BTreeSet::new();
        for (thread, mine) in kept.iter().enumerate() {
            for (kind, handle) in mine {
                assert!(holds(&arena, *kind, *handle, thread as u8 + 1));
                assert!((0..arena.units[*kind]).all(|unit| units.insert(handle + unit)));
            }
        }
        let live = kept.iter().map(Vec::len).sum::<usize>();
        assert_eq!(arena.live(0) + arena.live(1), live as i64);
    }

    #[test]
    fn a_dropped_arena_gives_its_memory_back_zeroed() {
        let range = small_range();
        let mut handles = BTreeSet::new();
        for round in 0..4 {
            let arena = Arena::within(range, [16]);
            for _ in 0..6_144 {
                let handle = arena.allocate(0);
                assert!(holds(&arena, 0, handle, 0), "round {round}");
                fill(&arena, 0, handle, 0xFF);
                assert!(handles.insert(handle) || round > 0);
            }
        }
        assert_eq!(handles.len(), 6_144, "the same three chunks each time");
    }

    #[test]
    fn a_block_may_be_as_large_as_a_span() {
        let arena = Arena::new([SPAN_UNITS, 1]);
        let handles = [arena.allocate(0), arena.allocate(1), arena.allocate(0), arena.allocate(1)];
        assert_eq!(handles.iter().collect::<BTreeSet<_>>().len(), 4);
        let sizes = std::panic::catch_unwind(|| Arena::new([1, SPAN_UNITS + 1]));
        assert!(sizes.is_err());
    }
}
