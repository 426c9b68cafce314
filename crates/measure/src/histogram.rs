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

use crate::layout::{BUCKETS, CLAMP_MIN, CLAMPED_INDEX, high_of, index_of, low_of};
use crate::stats::{self, Interval};

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

/// The content of a histogram, without what is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramParts {
    /// The sum of the values.
    pub sum: u64,
    /// The least value; `u64::MAX` when there is none.
    pub min: u64,
    /// The greatest value; 0 when there is none.
    pub max: u64,
    /// The lowest value of each bucket in use and its count, ascending.
    pub buckets: Vec<(u64, u64)>,
}

impl Histogram {
    /// The least value that is clamped: 2^40.
    pub const CLAMP_MIN: u64 = CLAMP_MIN;

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
        self.at_rank(nearest_rank(p, self.count))
    }

    /// The value at a rank, 1 being the least value; `None` when there is no such rank. As exact as
    /// [`Histogram::percentile`].
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        if rank == 0 || rank > self.count {
            return None;
        }
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
                return Some(low.midpoint(high).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// A confidence interval for percentile `p` of whatever the values are a sample of, by order
    /// statistics: the values at the ranks `n p -+ z sqrt(n p (1 - p))`, outwards. Nothing is
    /// assumed of the values but that they are independent. `None` when a rank does not exist, so
    /// when there are too few values to say, or when `p` or `level` is not between its bounds.
    pub fn percentile_interval(&self, p: f64, level: f64) -> Option<Interval> {
        let (low, high) = stats::percentile_ranks(self.count, p, level)?;
        Some(Interval { low: self.at_rank(low)? as f64, high: self.at_rank(high)? as f64 })
    }

    /// The buckets in use, in order: lowest value, highest value (inclusive), count. The highest
    /// value of the bucket of clamped values is the maximum.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().enumerate().filter(|&(_, &n)| n > 0).map(|(index, &n)| {
            let high = high_of(index);
            (low_of(index), if index == CLAMPED_INDEX { self.max } else { high }, n)
        })
    }

    /// Everything that the histogram holds, to be sent or stored: [`Histogram::of_parts`] makes an
    /// equal one of it.
    pub fn parts(&self) -> HistogramParts {
        let used = self.buckets.iter().enumerate().filter(|&(_, &n)| n > 0);
        let buckets = used.map(|(index, &n)| (low_of(index), n)).collect();
        HistogramParts { sum: self.sum, min: self.min, max: self.max, buckets }
    }

    /// The histogram of these parts; `None` when they are not those of any: a value that begins no
    /// bucket, buckets out of order, ends that lie outside.
    pub fn of_parts(parts: &HistogramParts) -> Option<Histogram> {
        let mut histogram = Histogram::new();
        let mut last = None;
        for &(low, n) in &parts.buckets {
            let index = index_of(low);
            if low_of(index) != low || n == 0 || last.is_some_and(|last| index <= last) {
                return None;
            }
            last = Some(index);
            histogram.buckets[index] = n;
            histogram.count = histogram.count.saturating_add(n);
        }
        let (Some(&(first, _)), Some(last)) = (parts.buckets.first(), last) else {
            return ((parts.sum, parts.min, parts.max) == EMPTY).then_some(histogram);
        };
        if index_of(parts.min) != index_of(first) || index_of(parts.max) != last {
            return None;
        }
        (histogram.sum, histogram.min, histogram.max) = (parts.sum, parts.min, parts.max);
        Some(histogram)
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
