//! An allocator that counts: what one thread asks for, and the largest piece that anybody does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The largest piece since it was last set to 0, and what is allocated, now and at most.
static LARGEST: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Allocations of this thread. Needs neither memory nor a destructor, so the allocator may use
    /// it.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    LARGEST.fetch_max(bytes, Ordering::Relaxed);
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator with the same arguments, and nothing else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        note(bytes);
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

/// How often this thread allocates in `work`.
pub(crate) fn allocations_in(work: impl FnOnce()) -> u64 {
    let count = || COUNT.with(Cell::get);
    let before = count();
    work();
    count() - before
}

/// What `work` asked for: the largest piece, and the most beyond what was there before, in bytes.
/// Other threads count, too.
pub(crate) fn bytes_in(work: impl FnOnce()) -> (usize, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    LARGEST.store(0, Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    (LARGEST.load(Ordering::Relaxed), PEAK.load(Ordering::Relaxed).saturating_sub(before))
}

/// Only one test counts at a time.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn allocations_are_counted() {
    let _turn = turn();
    assert_eq!(allocations_in(|| drop(Box::new(1))), 1);
    assert_eq!(allocations_in(|| assert!(Vec::<u8>::new().is_empty())), 0);
    // What other threads free meanwhile makes a peak smaller, so one of many has to be whole.
    let is_seen = (0..1000).any(|_| {
        let (largest, peak) = bytes_in(|| drop(std::hint::black_box(vec![0_u8; 123_456])));
        assert!(largest >= 123_456, "{largest}");
        peak >= 123_456
    });
    assert!(is_seen, "no peak");
}
