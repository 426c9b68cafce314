//! A token bucket: so many bytes a millisecond may pass, and a writer that comes too early is told
//! how long to wait.
//!
//! A writer takes its bytes out, whether the bucket has them or not, and waits afterwards. So a
//! large write passes at once like a small one, and the writes behind it wait.

use keyrack_measure::Clock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What may gather in an idle time passes at once afterwards.
const BURST_NS: u64 = 1_000_000;

/// Who has to wait at all waits so long: a shorter sleep costs more than it is worth.
const WAIT_NS_MIN: u64 = 500_000;

const NS_PER_MS: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct TokenBucket {
    /// Bytes that may pass; below 0, bytes that have passed too early.
    bytes: AtomicI64,
    /// When it was last filled.
    filled_ns: AtomicU64,
    clock: Clock,
}

impl TokenBucket {
    pub(super) fn new(clock: Clock) -> Self {
        TokenBucket { bytes: AtomicI64::new(0), filled_ns: AtomicU64::new(clock.ticks()), clock }
    }

    /// Takes bytes out. Whether they were there.
    #[inline]
    pub(super) fn take(&self, bytes: u64) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        // Relaxed: a count, which orders nothing.
        self.bytes.fetch_sub(bytes, Ordering::Relaxed) >= bytes
    }

    /// Fills it at `bytes_per_ms`, and says how long to wait until nothing is owed; `None` when
    /// nothing is. One caller at a time.
    pub(super) fn fill(&self, bytes_per_ms: u64) -> Option<u64> {
        let now_ns = self.clock.ticks();
        // Relaxed: callers hold a lock.
        let passed_ns = now_ns.saturating_sub(self.filled_ns.swap(now_ns, Ordering::Relaxed));
        let full = bytes_in(BURST_NS, bytes_per_ms);
        let gained = bytes_in(passed_ns, bytes_per_ms);
        let before = self.bytes.fetch_add(gained, Ordering::Relaxed);
        let after = before.saturating_add(gained);
        if after > full {
            self.bytes.fetch_sub(after - full, Ordering::Relaxed);
        }
        let owed = u128::from(after.min(0).unsigned_abs());
        let wait_ns = owed * u128::from(NS_PER_MS) / u128::from(bytes_per_ms.max(1));
        (owed > 0).then(|| u64::try_from(wait_ns).unwrap_or(u64::MAX).max(WAIT_NS_MIN))
    }

    /// Empties it, whatever it holds or is owed.
    pub(super) fn restart(&self) {
        self.filled_ns.store(self.clock.ticks(), Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// Bytes that so many a millisecond are in a time. At most a 64th of what a counter can hold, so
/// that sums of some do not overflow.
fn bytes_in(ns: u64, bytes_per_ms: u64) -> i64 {
    let bytes = u128::from(ns) * u128::from(bytes_per_ms) / u128::from(NS_PER_MS);
    i64::try_from(bytes).unwrap_or(i64::MAX).min(i64::MAX / 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_more_than_there_is_waits_for_it() {
        // Each reading of the clock is a millisecond later.
        let bucket = TokenBucket::new(Clock::fake(NS_PER_MS));
        assert!(!bucket.take(250));
        assert_eq!(bucket.fill(100), Some(1_500_000), "150 bytes at 100 a millisecond");
        assert_eq!(bucket.fill(100), Some(WAIT_NS_MIN));
        assert_eq!(bucket.fill(100), None);
        assert!(bucket.take(50) && !bucket.take(50));
    }

    #[test]
    fn an_idle_time_does_not_gather_more_than_a_burst() {
        let bucket = TokenBucket::new(Clock::fake(1_000 * NS_PER_MS));
        assert_eq!(bucket.fill(100), None);
        assert!(bucket.take(100), "a millisecond's worth");
        assert!(!bucket.take(1), "and no more");
    }

    #[test]
    fn it_begins_anew_without_debts() {
        let bucket = TokenBucket::new(Clock::fake(0));
        bucket.take(u64::MAX);
        bucket.restart();
        assert_eq!(bucket.fill(1), None);
        assert!(!bucket.take(1));
    }
}
