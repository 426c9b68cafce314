//! Holds the writing of tables to so many bytes a second.
//!
//! A flush or a compaction pays for the bytes of its tables after they were written, piece by
//! piece. A flush takes them out of the bucket and goes on, since writers wait for it. A compaction
//! waits until neither it nor a flush owes anything.

use super::lock;
use super::token_bucket::TokenBucket;
use keyrack_measure::Clock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Who waits looks so often whether he still has to.
const LOOK_AGAIN_NS: u64 = 10_000_000;

pub(crate) struct RateLimiter {
    /// 0 is no limit.
    bytes_per_ms: u64,
    bucket: TokenBucket,
    /// Held while the bucket is filled.
    filling: Mutex<()>,
    /// Never told: a wait ends by its time.
    passed: Condvar,
}

impl RateLimiter {
    /// None, if it is 0 bytes.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        RateLimiter {
            bytes_per_ms: bytes_per_second.div_ceil(1000),
            bucket: TokenBucket::new(Clock::vdso()),
            filling: Mutex::new(()),
            passed: Condvar::new(),
        }
    }

    /// Pays for bytes that were written, and then, if that `waits`, waits for its turn to write
    /// more, unless `is_over` says not to.
    pub(crate) fn request(&self, bytes: u64, waits: bool, is_over: impl Fn() -> bool) {
        if self.bytes_per_ms == 0 || self.bucket.take(bytes) || !waits {
            return;
        }
        let mut held = lock(&self.filling);
        while let Some(wait_ns) = self.bucket.fill(self.bytes_per_ms) {
            if is_over() {
                return;
            }
            let pause = Duration::from_nanos(wait_ns.min(LOOK_AGAIN_NS));
            let woken = self.passed.wait_timeout(held, pause);
            held = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_compaction_waits_for_what_a_flush_wrote_and_a_flush_does_not() {
        // Its debts last for 36 years.
        let limiter = RateLimiter::new(1);
        limiter.request(1 << 50, false, || unreachable!("a flush asks nobody"));
        let asked = Cell::new(0);
        limiter.request(1, true, || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        });
        assert_eq!(asked.get(), 3, "it waits as long as nobody says that it is over");
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let limiter = RateLimiter::new(0);
        limiter.request(u64::MAX, true, || unreachable!("there is nothing to wait for"));
    }
}
