//! An allocator that counts what the process has, with what memtables have mapped beside it.
//!
//! Memtables map their memory themselves, so the test says how much that is ([`set_mapped`]). The
//! peak is that of the sum, taken at each allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static HEAP: AtomicUsize = AtomicUsize::new(0);
static MAPPED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static MAPPED_PEAK: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    let heap = HEAP.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(heap + MAPPED.load(Ordering::Relaxed), Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator with the same arguments, and nothing else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HEAP.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Where it moves, both are there for a moment.
        add(bytes);
        // SAFETY: the caller keeps the promises of `realloc`.
        let moved = unsafe { System.realloc(memory, layout, bytes) };
        HEAP.fetch_sub(layout.size(), Ordering::Relaxed);
        moved
    }
}

/// Bytes on the heap.
pub(crate) fn heap() -> usize {
    HEAP.load(Ordering::Relaxed)
}

/// Says what memtables have mapped.
pub(crate) fn set_mapped(bytes: usize) {
    MAPPED.store(bytes, Ordering::Relaxed);
    MAPPED_PEAK.fetch_max(bytes, Ordering::Relaxed);
    PEAK.fetch_max(heap() + bytes, Ordering::Relaxed);
}

/// The most bytes since [`restart_peak`].
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// The most that memtables had mapped since then.
pub(crate) fn mapped_peak() -> usize {
    MAPPED_PEAK.load(Ordering::Relaxed)
}

/// Begins again with what there is.
pub(crate) fn restart_peak() {
    PEAK.store(heap() + MAPPED.load(Ordering::Relaxed), Ordering::Relaxed);
    MAPPED_PEAK.store(0, Ordering::Relaxed);
}
