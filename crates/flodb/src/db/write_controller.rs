//! Where writers are slowed down when the background falls behind.
//!
//! | state | when | a writer |
//! |---|---|---|
//! | open | mostly | passes with one load |
//! | paced | the background begins to fall behind | takes its bytes out of a bucket; when that is empty, it waits |
//! | shut | the memory is full and its tables are not written, or level 0 is full | waits until it is not |
//! | halted | the disk is full | passes, and asks why it must not write |
//!
//! The background sets the state whenever the read state changes. It paces writers by what it
//! achieves itself, so that the write controller is not shut: many waits of a millisecond, and none
//! of a hundred.

use super::lock;
use super::token_bucket::TokenBucket;
use keyrack_measure::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const RELEASED: u64 = 0;
const STOPPED: u64 = u64::MAX;
const REFUSED: u64 = u64::MAX - 1;

/// A writer looks again after so long, should nobody wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// And so often when it is paced: the pace changes.
const PAUSE_NS_MAX: u64 = 10_000_000;

pub(crate) struct WriteController {
    /// [`RELEASED`], [`STOPPED`], [`REFUSED`], or bytes a millisecond.
    state: AtomicU64,
    bucket: TokenBucket,
    fixed: Mutex<Fixed>,
    changed: Condvar,
}

/// Whether it stays as it is, whatever the read state asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fixed {
    Not,
    /// Until [`Gate::resume`].
    Refused,
    Disabled,
}

impl WriteController {
    pub(crate) fn new() -> Self {
        WriteController {
            state: AtomicU64::new(RELEASED),
            bucket: TokenBucket::new(Clock::vdso()),
            fixed: Mutex::new(Fixed::Not),
            changed: Condvar::new(),
        }
    }

    /// Returns when a writer of so many bytes may go on. Whether it had to wait, or has to ask
    /// whether it may write at all.
    #[inline]
    pub(crate) fn admit(&self, bytes: u64) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state == RELEASED || (state < REFUSED && self.bucket.take(bytes)) {
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
                RELEASED | REFUSED => return,
                STOPPED => LOOK_AGAIN,
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
        if matches!(self.state.swap(state, Ordering::Relaxed), RELEASED | STOPPED) {
            self.bucket.restart();
        }
        self.changed.notify_all();
    }

    pub(crate) fn release(&self) {
        self.set(RELEASED);
    }

    /// Writers together pass with so many bytes a millisecond.
    pub(crate) fn slow_down(&self, bytes_per_ms: u64) {
        self.set(bytes_per_ms.clamp(RELEASED + 1, REFUSED - 1));
    }

    pub(crate) fn stop(&self) {
        self.set(STOPPED);
    }

    /// Nobody waits any more: writes fail by themselves now.
    pub(crate) fn disable(&self) {
        let mut fixed = lock(&self.fixed);
        *fixed = Fixed::Disabled;
        self.state.store(RELEASED, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Nobody waits until [`Gate::resume`]: writes are refused for a while.
    pub(crate) fn refuse(&self) {
        let mut fixed = lock(&self.fixed);
        if *fixed == Fixed::Not {
            *fixed = Fixed::Refused;
            self.state.store(REFUSED, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// It is open, and follows the read state again.
    pub(crate) fn resume(&self) {
        let mut fixed = lock(&self.fixed);
        if *fixed == Fixed::Refused {
            *fixed = Fixed::Not;
            self.state.store(RELEASED, Ordering::Relaxed);
        }
    }
}
