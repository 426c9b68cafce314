//! Durations of commands, in buckets that are powers of two of a microsecond.
//!
//! ```text
//!   index          0      1      2 ...    24        25
//!   at most     1 us   2 us   4 us ... 16.8 s   any more
//! ```
//!
//! What is read for them: Redis' commands take the two readings of the clock that INFO commandstats
//! has anyway, a run of GETs one pair for all. memcached and Masstree take one pair for all
//! requests that a connection has in an iteration. A pipeline of n such requests counts as n of the
//! mean. At depth 1 each duration is that of its request.
//!
//! **Invariant:** each loop has its own counters and is their only writer: a load and a store, no
//! locked instruction. A reader adds them up, and may miss the newest.

/// How many buckets there are, with the last, which has no bound.
pub(crate) const BUCKETS: usize = 26;

/// The bucket of a duration.
#[inline]
pub(crate) fn bucket_of(ns: u64) -> usize {
    let us = ns.div_ceil(1000).max(1);
    ((u64::BITS - (us - 1).leading_zeros()) as usize).min(BUCKETS - 1)
}

/// The bound of a bucket in microseconds; `None` for the last.
pub(crate) fn bound_us(bucket: usize) -> Option<u64> {
    (bucket < BUCKETS - 1).then(|| 1 << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for ns in
            [0, 1, 999, 1000, 1001, 2000, 2001, 4_000_000, 1 << 34, (1 << 24) * 1000, u64::MAX]
        {
            let bucket = bucket_of(ns);
            assert!(bound_us(bucket).is_none_or(|bound| ns <= bound * 1000), "{ns}");
            assert!(bucket == 0 || bound_us(bucket - 1).is_some_and(|b| ns > b * 1000), "{ns}");
        }
        assert_eq!(bucket_of((1 << 24) * 1000 + 1), BUCKETS - 1);
    }
}
