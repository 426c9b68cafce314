//! Where writers are slowed down when the background falls behind.
//!
//! | state | when | a writer |
//! |---|---|---|
//! | open | mostly | passes with one load |
//! | paced | the background begins to fall behind | takes its bytes out of a bucket; when that is empty, it waits |
//! | shut | the memory is full and its tables are not written, or level 0 is full | waits until it is not |
//! | halted | the disk is full | passes, and asks why it must not write |
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
const HALTED: u64 = u64::MAX - 1;

/// A writer looks again after so long, should nobody wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// And so often when it is paced: the pace changes.
const PAUSE_NS_MAX: u64 = 10_000_000;

pub(crate) struct Gate {
    /// [`OPEN`], [`SHUT`], [`HALTED`], or bytes a millisecond.
    state: AtomicU64,
    bucket: Bucket,
    fixed: Mutex<Fixed>,
    changed: Condvar,
}

/// Whether it stays as it is, whatever the view asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixed {
    Not,
    /// Until [`Gate::resume`].
    Halted,
    OpenForGood,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate {
            state: AtomicU64::new(OPEN),
            bucket: Bucket::new(Clock::vdso()),
            fixed: Mutex::new(Fixed::Not),
            changed: Condvar::new(),
        }
    }

    /// Returns when a writer of so many bytes may go on. Whether it had to wait, or has to ask
    /// whether it may write at all.
    #[inline]
    pub(crate) fn pass(&self, bytes: u64) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state == OPEN || (state < HALTED && self.bucket.take(bytes)) {
            return false;
        }
        self.wait();
        true
    }

    #[cold]
    fn wait(&self) {
        let mut held = lock(&self.fixed);
        loop {
            let pause = match self.state.load(Ordering::Relaxed) {
                OPEN | HALTED => return,
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
        let fixed = lock(&self.fixed);
        if *fixed != Fixed::Not || self.state.load(Ordering::Relaxed) == state {
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
        self.set(bytes_per_ms.clamp(OPEN + 1, HALTED - 1));
    }

    pub(crate) fn shut(&self) {
        self.set(SHUT);
    }

    /// Nobody waits any more: writes fail by themselves now.
    pub(crate) fn open_for_good(&self) {
        let mut fixed = lock(&self.fixed);
        *fixed = Fixed::OpenForGood;
        self.state.store(OPEN, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Nobody waits until [`Gate::resume`]: writes are refused for a while.
    pub(crate) fn halt(&self) {
        let mut fixed = lock(&self.fixed);
        if *fixed == Fixed::Not {
            *fixed = Fixed::Halted;
            self.state.store(HALTED, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// It is open, and follows the view again.
    pub(crate) fn resume(&self) {
        let mut fixed = lock(&self.fixed);
        if *fixed == Fixed::Halted {
            *fixed = Fixed::Not;
            self.state.store(OPEN, Ordering::Relaxed);
        }
    }
}
