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

use keyrack_measure::LiveCounter;

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

/// The kind of a command in metrics, whichever protocol it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Set,
    Delete,
    HashRead,
    HashWrite,
    Scan,
    Other,
}

impl Kind {
    /// Names, in the order of the variants.
    pub(crate) const NAMES: [&'static str; Kind::COUNT] =
        ["get", "set", "delete", "hash_read", "hash_write", "scan", "other"];

    pub(crate) const COUNT: usize = 7;
}

/// Durations that were added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) sum_ns: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, buckets: impl Iterator<Item = u64>, sum_ns: u64) {
        for (sum, bucket) in self.buckets.iter_mut().zip(buckets) {
            *sum += bucket;
        }
        self.sum_ns += sum_ns;
    }
}

/// The durations of the commands of one loop and one protocol, by kind.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    kinds: [OfKind; Kind::COUNT],
}

#[derive(Debug, Default)]
struct OfKind {
    buckets: [LiveCounter; BUCKETS],
    sum_ns: LiveCounter,
}

impl Durations {
    /// Counts a batch of requests that took `ns` together: as many of each kind as `counts` says.
    #[inline]
    pub(crate) fn record(&self, counts: &[u32; Kind::COUNT], ns: u64) {
        let all: u64 = counts.iter().copied().map(u64::from).sum();
        if all == 0 {
            return;
        }
        let mean = ns / all;
        for (kind, &count) in self.kinds.iter().zip(counts) {
            if count > 0 {
                kind.buckets[bucket_of(mean)].add(count.into());
                kind.sum_ns.add(mean * u64::from(count));
            }
        }
    }

    /// Adds what was counted to a sum for each kind.
    pub(crate) fn add_to(&self, sums: &mut [Sum; Kind::COUNT]) {
        for (sum, kind) in sums.iter_mut().zip(&self.kinds) {
            sum.add(kind.buckets.iter().map(LiveCounter::get), kind.sum_ns.get());
        }
    }
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

    #[test]
    fn a_batch_is_counted_by_its_mean() {
        let durations = Durations::default();
        let mut counts = [0; Kind::COUNT];
        durations.record(&counts, 5);
        counts[Kind::Get as usize] = 3;
        counts[Kind::Set as usize] = 1;
        durations.record(&counts, 8_000);
        let mut sums = [Sum::default(); Kind::COUNT];
        durations.add_to(&mut sums);
        let get = sums[Kind::Get as usize];
        assert_eq!((get.buckets[1], get.buckets.iter().sum(), get.sum_ns), (3, 3_u64, 6_000));
        assert_eq!(sums[Kind::Set as usize].sum_ns, 2_000);
        assert_eq!(sums[Kind::Other as usize], Sum::default());
    }
}
