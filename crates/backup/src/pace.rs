//! A limit of bytes per second, for copies beside a program that needs the disk and the network.

use keyrack_measure::Clock;
use std::cell::Cell;

/// Lets at most so many bytes pass in a second, since it was made.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Clock,
    /// 0 for no limit.
    bytes_per_second: u64,
    begun: u64,
    passed: Cell<u64>,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u64) -> Pace {
        Pace::by(Clock::vdso(), bytes_per_second)
    }

    fn by(clock: Clock, bytes_per_second: u64) -> Pace {
        let begun = clock.ticks();
        Pace { clock, bytes_per_second, begun, passed: Cell::new(0) }
    }

    /// Waits until `bytes` more may have passed.
    pub(crate) fn wait_for(&self, bytes: usize) {
        if self.bytes_per_second == 0 {
            return;
        }
        let passed = self.passed.get().saturating_add(bytes as u64);
        self.passed.set(passed);
        let due_ns = u128::from(passed) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let due_ns = u64::try_from(due_ns).unwrap_or(u64::MAX);
        self.clock.wait_until(self.begun.saturating_add(self.clock.ticks_of_ns(due_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let clock = Clock::fake(0);
        let pace = Pace::by(clock.share(), 1000);
        pace.wait_for(500);
        assert_eq!(clock.ticks(), 500_000_000);
        pace.wait_for(0);
        pace.wait_for(1500);
        assert_eq!(clock.ticks(), 2_000_000_000);
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let clock = Clock::fake(0);
        Pace::by(clock.share(), 0).wait_for(usize::MAX);
        assert_eq!(clock.ticks(), 0);
    }
}
