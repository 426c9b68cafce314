//! Where writers are slowed down when the background falls behind.
//!
//! | state | when | a writer |
//! |---|---|---|
//! | open | mostly | passes with one load |
//! | paced | the background begins to fall behind | takes its bytes out of a bucket; when that is empty, it waits |
//! | shut | the memory is full and its tables are not written, or level 0 is full | waits until it is not |
//!
//! The background sets the state whenever the view changes. It paces writers by what it achieves
//! itself, so that the gate is not shut: many waits of a millisecond, and none of a hundred.

use super::bucket::Bucket;
use super::lock;
use keyrack_measure::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const OPEN: u64 = 0;
const SHUT: u64 = u64::MAX;

/// A writer looks again after so long, should nobody wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// And so often when it is paced: the pace changes.
const PAUSE_NS_MAX: u64 = 10_000_000;

pub(crate) struct Gate {
    /// [`OPEN`], [`SHUT`], or bytes a millisecond.
    state: AtomicU64,
    bucket: Bucket,
    /// Whether it stays open whatever comes.
    for_good: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate {
            state: AtomicU64::new(OPEN),
            bucket: Bucket::new(Clock::vdso()),
            for_good: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Returns when a writer of so many bytes may go on. Whether it had to wait.
    #[inline]
    pub(crate) fn pass(&self, bytes: u64) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state == OPEN || (state != SHUT && self.bucket.take(bytes)) {
            return false;
        }
        self.wait();
        true
    }

    #[cold]
    fn wait(&self) {
        let mut held = lock(&self.for_good);
        loop {
            let pause = match self.state.load(Ordering::Relaxed) {
                OPEN => return,
                SHUT => LOOK_AGAIN,
                bytes_per_ms => match self.bucket.fill(bytes_per_ms) {
                    None => return,
                    Some(wait_ns) => Duration::from_nanos(wait_ns.min(PAUSE_NS_MAX)),
                },
            };
            let woken = self.changed.wait_timeout(held, pause);
            held = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn set(&self, state: u64) {
        let for_good = lock(&self.for_good);
        if *for_good || self.state.load(Ordering::Relaxed) == state {
            return;
        }
        if matches!(self.state.swap(state, Ordering::Relaxed), OPEN | SHUT) {
            self.bucket.restart();
        }
        self.changed.notify_all();
    }

    pub(crate) fn open(&self) {
        self.set(OPEN);
    }

    /// Writers together pass with so many bytes a millisecond.
    pub(crate) fn pace(&self, bytes_per_ms: u64) {
        self.set(bytes_per_ms.clamp(OPEN + 1, SHUT - 1));
    }

    pub(crate) fn shut(&self) {
        self.set(SHUT);
    }

    /// Nobody waits any more: writes fail by themselves now.
    pub(crate) fn open_for_good(&self) {
        let mut for_good = lock(&self.for_good);
        *for_good = true;
        self.state.store(OPEN, Ordering::Relaxed);
        self.changed.notify_all();
    }
}
