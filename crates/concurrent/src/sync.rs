//! The atomics of this crate: the standard ones, loom's under `--cfg loom`, or those of `atomic`
//! under `--cfg shuttle`. Only what these explore takes them from here: the version lock,
//! and the reservations and eras of the epochs. Counters and arenas are plain.

#[cfg(loom)]
pub(crate) use loom::{
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};
#[cfg(shuttle)]
pub(crate) use {
    crate::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    shuttle::{sync::Mutex, thread::yield_now},
};

/// A fence that has a place in the one order of all such fences.
#[inline(always)]
pub(crate) fn full_fence() {
    // Loom changes threads where two of them touch the same atomic, and a fence is none. A word
    // that all fences touch makes it explore their orders, too.
    #[cfg(loom)]
    {
        loom::lazy_static! {
            static ref TURN: AtomicUsize = AtomicUsize::new(0);
        }
        TURN.fetch_add(0, Ordering::Relaxed);
    }
    fence(Ordering::SeqCst);
}
