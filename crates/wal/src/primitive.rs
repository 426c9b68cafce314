//! The atomics and locks of the three protocols of this crate (`allocator`, `sequencer`,
//! `group_commit`): the standard ones, loom's under `--cfg loom`, or shuttle's under `--cfg
//! shuttle`. The other modules use the standard library.

use std::sync::PoisonError;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

/// Locks, also after a panic under the lock: every section that can panic leaves the state
/// consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits to be notified.
pub(crate) fn wait<'a, T>(event: &Condvar, held: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    event.wait(held).unwrap_or_else(PoisonError::into_inner)
}

/// Gives a value cache lines of its own, to avoid false sharing. 128 bytes: processors fetch lines
/// in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);
