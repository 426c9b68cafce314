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
//! asks for the rate of the moment (`pacing`). A listener is told of the states, not of the rates.

use super::events::Events;
use super::lock;
use super::pacing::Pace;
use super::token_bucket::TokenBucket;
use crate::event::{Event, Stall};
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
    held: Mutex<Held>,
    changed: Condvar,
    events: Events,
}

/// What changes under the lock, and `state` with it.
struct Held {
    fixed: Fixed,
    /// What was told last.
    stall: Stall,
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
    pub(crate) fn new(events: Events) -> Self {
        WriteController {
            state: AtomicU64::new(RELEASED),
            bucket: TokenBucket::new(Clock::vdso()),
            held: Mutex::new(Held { fixed: Fixed::Not, stall: Stall::None }),
            changed: Condvar::new(),
            events,
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
        let mut held = lock(&self.held);
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

    /// Writers go on, are slowed down, or stop.
    pub(super) fn set(&self, pace: Pace) {
        let state = match pace {
            Pace::Free => RELEASED,
            Pace::Rate(bytes_per_ms, _) => bytes_per_ms.clamp(RELEASED + 1, REFUSED - 1),
            Pace::Stop(_) => STOPPED,
        };
        let mut held = lock(&self.held);
        if held.fixed != Fixed::Not {
            return;
        }
        self.tell(&mut held, pace.stall());
        if self.state.load(Ordering::Relaxed) == state {
            return;
        }
        if matches!(self.state.swap(state, Ordering::Relaxed), RELEASED | STOPPED) {
            self.bucket.restart();
        }
        self.changed.notify_all();
    }

    fn tell(&self, held: &mut Held, stall: Stall) {
        if held.stall != stall {
            held.stall = stall;
            self.events.tell(|| Event::WriteStall { stall });
        }
    }

    #[cfg(test)]
    pub(super) fn is_released(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RELEASED
    }

    /// No writer waits any more: every write fails from now on.
    pub(crate) fn disable(&self) {
        let mut held = lock(&self.held);
        held.fixed = Fixed::Disabled;
        self.tell(&mut held, Stall::None);
        self.state.store(RELEASED, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Until [`WriteController::resume`], no writer waits: writes are refused.
    pub(crate) fn refuse(&self) {
        let mut held = lock(&self.held);
        if held.fixed == Fixed::Not {
            held.fixed = Fixed::Refused;
            self.tell(&mut held, Stall::None);
            self.state.store(REFUSED, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// Writers pass, and the state follows the read state again.
    pub(crate) fn resume(&self) {
        let mut held = lock(&self.held);
        if held.fixed == Fixed::Refused {
            held.fixed = Fixed::Not;
            self.state.store(RELEASED, Ordering::Relaxed);
        }
    }
}

/// The rate of a slowdown. What the read state asks for instead of one comes with its next change:
/// until then, `last` counts.
fn rate_of(pace: Pace, last: u64) -> u64 {
    match pace {
        Pace::Rate(bytes_per_ms, _) => bytes_per_ms.clamp(RELEASED + 1, REFUSED - 1),
        Pace::Free | Pace::Stop(_) => last,
    }
}
