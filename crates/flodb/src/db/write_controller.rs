//! The write controller: it slows writers down, or stops them, when flushes or compactions fall
//! behind.
//!
//! | state | when | a writer |
//! |---|---|---|
//! | released | flushes and compactions keep up | passes with one load |
//! | slowdown | they begin to fall behind | takes its bytes from a token bucket; if it is empty, it waits |
//! | stop | too many memtables are immutable, or level 0 is full | waits until that changes |
//! | refused | the disk is full | passes, and asks why it must not write |
//!
//! Each change of the read state sets the state (`install`). In a slowdown, every writer that waits
//! asks for the rate of the moment (`pacing`).

use super::lock;
use super::pacing::Pace;
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

/// And this often in a slowdown, since the rate changes.
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
    /// Until [`WriteController::resume`].
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
    /// whether it may write at all. `pace` tells what the read state allows now.
    #[inline]
    pub(super) fn admit(&self, bytes: u64, pace: impl Fn() -> Pace) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        if state == RELEASED || (state < REFUSED && self.bucket.take(bytes)) {
            return false;
        }
        self.wait(&pace);
        true
    }

    #[cold]
    fn wait(&self, pace: &dyn Fn() -> Pace) {
        let mut held = lock(&self.fixed);
        loop {
            let pause = match self.state.load(Ordering::Relaxed) {
                RELEASED | REFUSED => return,
                STOPPED => LOOK_AGAIN,
                bytes_per_ms => match self.bucket.fill(rate_of(pace(), bytes_per_ms)) {
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

    #[cfg(test)]
    pub(super) fn is_released(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RELEASED
    }

    /// No writer waits any more: every write fails from now on.
    pub(crate) fn disable(&self) {
        let mut fixed = lock(&self.fixed);
        *fixed = Fixed::Disabled;
        self.state.store(RELEASED, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Until [`WriteController::resume`], no writer waits: writes are refused.
    pub(crate) fn refuse(&self) {
        let mut fixed = lock(&self.fixed);
        if *fixed == Fixed::Not {
            *fixed = Fixed::Refused;
            self.state.store(REFUSED, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// Writers pass, and the state follows the read state again.
    pub(crate) fn resume(&self) {
        let mut fixed = lock(&self.fixed);
        if *fixed == Fixed::Refused {
            *fixed = Fixed::Not;
            self.state.store(RELEASED, Ordering::Relaxed);
        }
    }
}

/// The rate of a slowdown. What the read state asks for instead of one comes with its next change:
/// until then, `last` counts.
fn rate_of(pace: Pace, last: u64) -> u64 {
    match pace {
        Pace::Rate(bytes_per_ms) => bytes_per_ms.clamp(RELEASED + 1, REFUSED - 1),
        Pace::Free | Pace::Stop => last,
    }
}
