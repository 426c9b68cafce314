//! The atomics of this crate: the standard ones, or loom's under `--cfg loom`. Only what the
//! version lock needs is here; epochs and counters are not part of what loom explores.

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicU64, Ordering, fence},
    thread::yield_now,
};
