//! The clock of leases: a server grants them by it, and a client lets them run out by it.

use keyrack_measure::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What tells how much of a lease is left.
#[derive(Clone, Debug, Default)]
pub enum LeaseClock {
    /// The machine's clock that never goes back.
    #[default]
    Machine,
    /// Nanoseconds that somebody else moves: for tests.
    Given(Arc<AtomicU64>),
}

/// A clock in use.
#[derive(Debug)]
pub(crate) enum LeaseTimer {
    Machine(Clock, u64),
    Given(Arc<AtomicU64>),
}

impl LeaseClock {
    pub(crate) fn start(&self) -> LeaseTimer {
        match self {
            LeaseClock::Machine => {
                let clock = Clock::vdso();
                let began = clock.ticks();
                LeaseTimer::Machine(clock, began)
            }
            LeaseClock::Given(now) => LeaseTimer::Given(Arc::clone(now)),
        }
    }
}

impl LeaseTimer {
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            LeaseTimer::Machine(clock, began) => clock.ns_between(*began, clock.ticks()),
            // Relaxed: the number is all there is.
            LeaseTimer::Given(now) => now.load(Ordering::Relaxed),
        }
    }
}
