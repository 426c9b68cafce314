//! A histogram of latencies in nanoseconds, owned by one thread.
//!
//! 4353 counters (34 KiB) in the log-linear layout of `layout`, plus the exact sum, minimum and
//! maximum. Values below 256 read back exactly, others within 1/128; values of 2^40 ns and more
//! share one bucket, whose count is [`Histogram::clamped`].
//!
//! Percentiles are nearest-rank: the value at rank `ceil(p/100 * count)`, at least 1, of the
//! sorted values. The first and last rank are the exact minimum and maximum; any other is the
//! midpoint of its bucket, clamped to lie between them. No value is invented between two buckets.
//!
//! **Invariants:** `count` is the sum of the buckets; an empty histogram has sum 0 and neither
//! minimum nor maximum; counters saturate instead of wrapping.
//!
//! Histograms merge by addition, in any order. A later state minus an earlier state of the same
//! histogram is the histogram of what came between ([`Histogram::subtract`]).

use std::fmt;

use crate::layout::{BUCKETS, CLAMPED_INDEX, high_of, index_of, low_of};

/// Counts of values in nanoseconds: exact below 256, within 1/128 up to 2^40 (18 minutes), clamped
/// above. 34 KiB.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u64,
    /// `u64::MAX` while empty.
    min: u64,
    /// 0 while empty.
    max: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram { buckets: Box::new([0; BUCKETS]), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let bucket = &mut self.buckets[index_of(value)];
        *bucket = bucket.saturating_add(n);
        self.count = self.count.saturating_add(n);
        self.sum = self.sum.saturating_add(value.saturating_mul(n));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that `other` has counted. O(buckets), as are the functions below that read them.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// What was counted since `earlier`, a previous state of this same histogram.
    ///
    /// Counts and sum are exact. The minimum and maximum are exact when the interval set a new one;
    /// otherwise they are the bounds of the outermost buckets used, within 1/128. If `earlier` is
    /// not a previous state, each counter stops at 0.
    #[must_use]
    pub fn subtract(&self, earlier: &Histogram) -> Histogram {
        let mut interval = Histogram::new();
        let pairs = self.buckets.iter().zip(earlier.buckets.iter());
        for (bucket, (later, earlier)) in interval.buckets.iter_mut().zip(pairs) {
            *bucket = later.saturating_sub(*earlier);
        }
        interval.count = interval.buckets.iter().fold(0, |sum, &n| sum.saturating_add(n));
        let first = interval.buckets.iter().position(|&n| n > 0);
        let last = interval.buckets.iter().rposition(|&n| n > 0);
        if let (Some(first), Some(last)) = (first, last) {
            interval.sum = self.sum.saturating_sub(earlier.sum);
            let new_min = self.min < earlier.min;
            let new_max = self.max > earlier.max;
            interval.min = if new_min { self.min } else { low_of(first).max(self.min) };
            interval.max = if new_max { self.max } else { high_of(last).min(self.max) };
        }
        interval
    }

    /// The number of values. O(1), as are `sum`, `min`, `max`, `mean`, `clamped` and `is_empty`.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the values, exact.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The least value, exact.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// The greatest value, exact even when it was clamped.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// The mean of the values, exact up to the precision of the type.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.count as f64)
    }

    /// The number of values of 2^40 or more, whose size is known only through `sum` and `max`.
    pub fn clamped(&self) -> u64 {
        self.buckets[CLAMPED_INDEX]
    }

    /// True when nothing has been counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value at percentile `p`, by nearest rank; `None` when empty or `p` is not in 0..=100.
    ///
    /// Exact below 256 and at both ends; otherwise within 1/128 of the true value.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.is_empty() || !(0.0..=100.0).contains(&p) {
            return None;
        }
        let rank = nearest_rank(p, self.count);
        if rank == 1 {
            return Some(self.min);
        }
        if rank == self.count {
            return Some(self.max);
        }
        let mut seen = 0u64;
        for (low, high, n) in self.buckets() {
            seen = seen.saturating_add(n);
            if seen >= rank {
                return Some(midpoint(low, high).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// The buckets in use, in order: lowest value, highest value (inclusive), count. The highest
    /// value of the bucket of clamped values is the maximum.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().enumerate().filter(|&(_, &n)| n > 0).map(|(index, &n)| {
            let high = high_of(index);
            (low_of(index), if index == CLAMPED_INDEX { self.max } else { high }, n)
        })
    }

    /// Replaces the whole content: `fill` writes every bucket, then returns sum, minimum, maximum.
    pub(crate) fn refill(&mut self, fill: impl FnOnce(&mut [u64; BUCKETS]) -> (u64, u64, u64)) {
        let (sum, min, max) = fill(&mut self.buckets);
        self.count = self.buckets.iter().fold(0, |sum, &n| sum.saturating_add(n));
        (self.sum, self.min, self.max) = if self.count > 0 { (sum, min, max) } else { EMPTY };
    }
}

/// Sum, minimum and maximum of nothing.
const EMPTY: (u64, u64, u64) = (0, u64::MAX, 0);

/// `ceil(p/100 * count)` in 1..=count, forgiving the rounding of the product: 99.9 % of 1000 is
/// rank 999 although 99.9 is not a binary fraction.
fn nearest_rank(p: f64, count: u64) -> u64 {
    if p >= 100.0 {
        return count;
    }
    let exact = p * count as f64 / 100.0;
    let rank = (exact * (1.0 - 4.0 * f64::EPSILON)).ceil() as u64;
    rank.clamp(1, count)
}

/// The middle of `low..=high`, rounded down.
pub(crate) fn midpoint(low: u64, high: u64) -> u64 {
    low + high.saturating_sub(low) / 2
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("sum", &self.sum)
            .field("min", &self.min())
            .field("max", &self.max())
            .field("p50", &self.percentile(50.0))
            .field("p99", &self.percentile(99.0))
            .finish()
    }
}

#[cfg(test)]
mod tests;
