//! Where writers are slowed down when the background falls behind.
//!
//! | state | when | a writer |
//! |---|---|---|
//! | open | mostly | passes with one load |
//! | slow | many tables of level 0 | waits some microseconds, more the more there are |
//! | shut | the memory is full and its tables are not written, or level 0 is full | waits until it is not |
//!
//! The background sets the state whenever the view changes.

use super::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const SHUT: u64 = u64::MAX;
/// A writer looks again after so long, should nobody wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Gate {
    /// 0 open, [`SHUT`], or microseconds to wait.
    state: AtomicU64,
    /// Whether it stays open whatever comes.
    for_good: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate { state: AtomicU64::new(0), for_good: Mutex::new(false), changed: Condvar::new() }
    }

    /// Returns when the writer may go on. Whether it had to wait.
    #[inline]
    pub(crate) fn pass(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state == 0 {
            return false;
        }
        self.wait(state);
        true
    }

    #[cold]
    fn wait(&self, state: u64) {
        let mut held = lock(&self.for_good);
        if state != SHUT {
            // Nobody wakes it but a change of the state, so it is a pause.
            drop(self.changed.wait_timeout(held, Duration::from_micros(state)));
            return;
        }
        while self.state.load(Ordering::Relaxed) == SHUT {
            held = self
                .changed
                .wait_timeout(held, LOOK_AGAIN)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn set(&self, state: u64) {
        let for_good = lock(&self.for_good);
        if !*for_good {
            self.state.store(state, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    pub(crate) fn open(&self) {
        self.set(0);
    }

    /// Each writer waits so many microseconds.
    pub(crate) fn slow(&self, micros: u64) {
        self.set(micros.min(SHUT - 1));
    }

    pub(crate) fn shut(&self) {
        self.set(SHUT);
    }

    /// Nobody waits any more: writes fail by themselves now.
    pub(crate) fn open_for_good(&self) {
        let mut for_good = lock(&self.for_good);
        *for_good = true;
        self.state.store(0, Ordering::Relaxed);
        self.changed.notify_all();
    }
}
