//! The address range of the process that arenas take their memory from.
//!
//! ```text
//!   0         1         2         3                               count
//!   +---------+---------+---------+---------+-- ... --+-----------+
//!   | never   | plain   | huge    | huge    |         | fresh     |   2 MiB each
//!   +---------+---------+---------+---------+-- ... --+-----------+
//!   ^ unit 0: address zero of all handles
//! ```
//!
//! The range is reserved once, without access and without memory behind it: 256 GiB, so that a unit
//! of 64 bytes has a number of 32 bits. Where so much address space is refused (a limit on it),
//! half of it is tried, and so on down to 1 GiB. The range is cut into chunks of 2 MiB, aligned to
//! their size, which is that of a huge page. A [`Chunk`] is made accessible when it is taken for
//! the first time; its pages come to life when they are touched.
//!
//! - Chunk 0 is never taken: no block has the number zero, and following it faults.
//! - The last chunk of a full range is never taken either: the end of any block is a 32-bit number.
//! - A taken chunk is all zero. One that is given back loses its pages, keeps its access, and is
//!   taken again before a fresh one.
//! - Chunks that were advised to use huge pages stay so, and are kept apart: who asks for plain
//!   pages gets a huge chunk only when there is nothing else.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a unit, the grain of handles: one cache line.
pub const UNIT_BYTES: usize = 64;

pub(crate) const CHUNK_BYTES: usize = 2 << 20;
pub(crate) const CHUNK_UNITS: u32 = (CHUNK_BYTES / UNIT_BYTES) as u32;

const RANGE_BYTES_MAX: usize = UNIT_BYTES << 32;
const RANGE_BYTES_MIN: usize = 1 << 30;

/// Address of unit 0. Reading and writing through it is up to who holds a handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base(*mut u8);

// SAFETY: it is an address; the range that it begins is never unmapped, and what lies there is
// guarded by those who follow handles.
unsafe impl Send for Base {}
// SAFETY: as above; the address itself never changes.
unsafe impl Sync for Base {}

impl Base {
    #[inline(always)]
    pub(crate) fn get(self) -> *mut u8 {
        self.0
    }
}

/// What kind of pages the memory of a chunk consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// As small as the machine has them: a chunk costs what is touched.
    Plain,
    /// Huge where the machine can: the first touch of a chunk may cost all of it.
    Huge,
}

/// A reserved range of addresses. It is never given back.
pub(crate) struct Range {
    base: Base,
    chunks: u32,
    state: Mutex<State>,
}

struct State {
    /// The first chunk that was never taken.
    fresh: u32,
    /// Chunks that were given back, zeroed.
    plain: Vec<u32>,
    huge: Vec<u32>,
}

impl State {
    /// The next chunk for such pages: its number, what its pages are, whether it is fresh.
    fn next(&mut self, pages: Pages, chunks: u32) -> Option<(u32, Pages, bool)> {
        let preferred = match pages {
            Pages::Plain => self.plain.pop().map(|chunk| (chunk, Pages::Plain, false)),
            Pages::Huge => (self.huge.pop().map(|chunk| (chunk, Pages::Huge, false)))
                .or_else(|| self.plain.pop().map(|chunk| (chunk, Pages::Plain, false))),
        };
        let mut fresh = || {
            let chunk = self.fresh;
            self.fresh += u32::from(chunk < chunks);
            (chunk < chunks).then_some((chunk, Pages::Plain, true))
        };
        preferred
            .or_else(&mut fresh)
            .or_else(|| self.huge.pop().map(|chunk| (chunk, Pages::Huge, false)))
    }
}

impl Range {
    /// The range of the process, reserved at the first call.
    pub(crate) fn of_process() -> &'static Range {
        static RANGE: OnceLock<Range> = OnceLock::new();
        RANGE.get_or_init(|| {
            Range::reserve(map_nothing).unwrap_or_else(|| out_of_memory(RANGE_BYTES_MIN))
        })
    }

    /// Reserves as much as `map` grants. It is asked for a number of bytes and answers with the
    /// address of as many that nobody else uses.
    pub(crate) fn reserve(mut map: impl FnMut(usize) -> Option<*mut u8>) -> Option<Range> {
        let mut bytes = RANGE_BYTES_MAX;
        while bytes >= RANGE_BYTES_MIN {
            if let Some(start) = map(bytes) {
                // What lies before the first multiple of a chunk is lost, one chunk in all.
                let base = Base(start.wrapping_add(start.align_offset(CHUNK_BYTES)));
                let chunks = (bytes / CHUNK_BYTES) as u32 - 1;
                let state = Mutex::new(State { fresh: 1, plain: Vec::new(), huge: Vec::new() });
                return Some(Range { base, chunks, state });
            }
            bytes /= 2;
        }
        None
    }

    pub(crate) fn base(&self) -> Base {
        self.base
    }

    /// Allocates a chunk. Ends the process like any failed allocation when there is none.
    pub(crate) fn allocate(&'static self, pages: Pages) -> Chunk {
        let next = self.state().next(pages, self.chunks);
        let Some((index, was, fresh)) = next else { out_of_memory(CHUNK_BYTES) };
        let mut chunk = Chunk { range: self, index, pages: was };
        if fresh && !chunk.permit() {
            out_of_memory(CHUNK_BYTES);
        }
        if pages == Pages::Huge && was == Pages::Plain {
            chunk.advise_huge();
        }
        chunk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

/// A chunk that is taken: readable, writable and all zero at first. Dropping it gives it back and
/// loses what it holds, so whoever holds addresses inside must be done with them.
#[derive(Debug)]
pub(crate) struct Chunk {
    range: &'static Range,
    index: u32,
    pages: Pages,
}

impl Chunk {
    pub(crate) fn first_unit(&self) -> u32 {
        self.index * CHUNK_UNITS
    }

    fn address(&self) -> *mut c_void {
        self.range.base.get().wrapping_add(self.index as usize * CHUNK_BYTES).cast()
    }

    fn permit(&self) -> bool {
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the chunk is part of a reserved mapping and belongs to `self` alone.
        unsafe { rustix::mm::mprotect(self.address(), CHUNK_BYTES, access) }.is_ok()
    }

    /// Asks for huge pages. A refusal changes nothing: the pages stay plain.
    fn advise_huge(&mut self) {
        #[cfg(target_os = "linux")]
        {
            let advice = rustix::mm::Advice::LinuxHugepage;
            // SAFETY: the chunk is mapped; the advice does not change what it holds.
            let advised = unsafe { rustix::mm::madvise(self.address(), CHUNK_BYTES, advice) };
            if advised.is_ok() {
                self.pages = Pages::Huge;
            }
        }
    }

    /// Takes the pages away, so that the chunk is zero again. Whether it worked.
    fn clear(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        {
            let advice = rustix::mm::Advice::LinuxDontNeed;
            // SAFETY: the chunk belongs to `self`, and nobody reads it any more.
            let cleared = unsafe { rustix::mm::madvise(self.address(), CHUNK_BYTES, advice) };
            if cleared.is_ok() {
                return true;
            }
        }
        // Elsewhere the advice does not promise zeros; locked pages refuse it. A new mapping in
        // place of the old one does both, and forgets the advice about huge pages.
        self.pages = Pages::Plain;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the chunk is mapped and belongs to `self`, and nobody reads it any more.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.address(),
                CHUNK_BYTES,
                access,
                reserving().union(MapFlags::FIXED),
            )
        }
        .is_ok()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // A chunk that cannot be cleared is never taken again.
        if self.clear() {
            let mut state = self.range.state();
            match self.pages {
                Pages::Plain => state.plain.push(self.index),
                Pages::Huge => state.huge.push(self.index),
            }
        }
    }
}

/// Flags of a mapping that has no memory set aside for it.
fn reserving() -> MapFlags {
    #[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
    return MapFlags::PRIVATE;
    #[cfg(not(any(target_os = "freebsd", target_os = "dragonfly")))]
    MapFlags::PRIVATE.union(MapFlags::NORESERVE)
}

/// Reserves `bytes` of addresses without access.
fn map_nothing(bytes: usize) -> Option<*mut u8> {
    // SAFETY: a null address without MAP_FIXED lets the kernel choose free addresses, so no memory
    // that anybody uses is replaced.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), reserving())
    };
    mapped.ok().map(<*mut c_void>::cast)
}

fn out_of_memory(bytes: usize) -> ! {
    let layout = Layout::from_size_align(bytes, CHUNK_BYTES);
    handle_alloc_error(layout.unwrap_or(Layout::new::<u64>()))
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// Ranges are for ever. Those of tests are kept here, for the checker of leaks to find.
    static SMALL: Mutex<Vec<&'static Range>> = Mutex::new(Vec::new());

    /// A small range of its own for a test.
    pub(crate) fn small_range() -> &'static Range {
        let map = |bytes| if bytes > RANGE_BYTES_MIN { None } else { map_nothing(bytes) };
        let range = Box::leak(Box::new(Range::reserve(map).expect("1 GiB of addresses")));
        SMALL.lock().unwrap_or_else(PoisonError::into_inner).push(range);
        range
    }

    fn bytes_of(chunk: &Chunk) -> &[u8] {
        // SAFETY: a taken chunk is readable, and the test writes nothing meanwhile.
        unsafe { std::slice::from_raw_parts(chunk.address().cast(), CHUNK_BYTES) }
    }

    fn fill(chunk: &Chunk) {
        // SAFETY: a taken chunk is writable and belongs to the test.
        unsafe { chunk.address().write_bytes(0xA5, CHUNK_BYTES) };
    }

    #[test]
    fn half_is_tried_where_a_range_is_refused() {
        let mut asked = Vec::new();
        let range = Range::reserve(|bytes| {
            asked.push(bytes);
            (bytes <= 3 << 30).then(|| ptr::without_provenance_mut(CHUNK_BYTES + 4096))
        })
        .unwrap();
        assert_eq!(
            asked,
            [256 << 30, 128 << 30, 64 << 30, 32 << 30, 16 << 30, 8 << 30, 4 << 30, 2 << 30]
        );
        assert_eq!(range.base().get().addr(), 2 * CHUNK_BYTES);
        assert_eq!(range.chunks, 1023, "the end of the range is lost to alignment");

        let mut asked = 0;
        let refused = Range::reserve(|bytes| {
            assert!(bytes >= RANGE_BYTES_MIN);
            asked += 1;
            None
        });
        assert!(refused.is_none());
        assert_eq!(asked, 9);
    }

    #[test]
    fn every_unit_of_a_full_range_has_a_number() {
        let range = Range::reserve(|_| Some(ptr::without_provenance_mut(CHUNK_BYTES))).unwrap();
        assert!(range.chunks.checked_mul(CHUNK_UNITS).is_some(), "{range:?}");
    }

    #[test]
    fn a_chunk_is_zero_when_taken_and_when_taken_again() {
        let range = small_range();
        let chunk = range.allocate(Pages::Plain);
        assert_eq!(chunk.first_unit(), CHUNK_UNITS, "chunk 0 is never taken");
        assert!(chunk.address().addr().is_multiple_of(CHUNK_BYTES));
        assert!(bytes_of(&chunk).iter().all(|byte| *byte == 0));
        fill(&chunk);
        let other = range.allocate(Pages::Huge);
        assert_eq!(other.first_unit(), 2 * CHUNK_UNITS);
        fill(&other);
        drop((chunk, other));
        for pages in [Pages::Huge, Pages::Plain] {
            let again = range.allocate(pages);
            assert!(again.first_unit() <= 2 * CHUNK_UNITS, "given back and used again");
            assert!(bytes_of(&again).iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn plain_and_huge_chunks_are_kept_apart() {
        let mut state = State { fresh: 5, plain: vec![1, 2], huge: vec![3, 4] };
        assert_eq!(state.next(Pages::Plain, 6), Some((2, Pages::Plain, false)));
        assert_eq!(state.next(Pages::Huge, 6), Some((4, Pages::Huge, false)));
        assert_eq!(state.next(Pages::Plain, 6), Some((1, Pages::Plain, false)));
        assert_eq!(state.next(Pages::Plain, 6), Some((5, Pages::Plain, true)), "rather than huge");
        assert_eq!(state.next(Pages::Plain, 6), Some((3, Pages::Huge, false)), "nothing else left");
        assert_eq!(state.next(Pages::Huge, 6), None);
        state.plain.push(1);
        assert_eq!(state.next(Pages::Huge, 6), Some((1, Pages::Plain, false)));
    }

    #[test]
    fn a_chunk_that_is_mapped_anew_is_zero() {
        let range = small_range();
        let mut chunk = range.allocate(Pages::Huge);
        fill(&chunk);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = reserving().union(MapFlags::FIXED);
        // SAFETY: the chunk belongs to the test.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(chunk.address(), CHUNK_BYTES, access, flags) };
        assert!(mapped.is_ok() && chunk.clear());
        assert!(bytes_of(&chunk).iter().all(|byte| *byte == 0));
    }
}
