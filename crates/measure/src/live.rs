//! Counters that one thread writes while another looks: the worker's histogram and the sampler.
//!
//! Every field is an `AtomicU64` that only its owner stores to, so an increment is a load and a
//! store without a locked instruction (0.2 ns instead of 5). Recording into [`LiveHistogram`]
//! costs 1 to 2 ns: the branch-free index of `layout`, one bucket, and the sum and extremes, which
//! share a cache line.
//!
//! ```text
//! writer:   sum, min, max (relaxed)   ->   bucket (release)
//! sampler:  buckets (acquire)         ->   sum, min, max (relaxed)
//! ```
//!
//! **Invariant:** a snapshot may miss the newest values, but for every value that it counts, its
//! sum, minimum and maximum already include that value: the acquiring load of a bucket sees the
//! releasing store that counted it, and with it the stores before. On x86 both are plain moves.
//!
//! Two threads that write to one of these lose counts. That is all: no memory is at risk.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::histogram::Histogram;
use crate::layout::{BUCKETS, index_of};

/// A count with a single writer, readable by any thread.
#[derive(Debug, Default)]
pub struct LiveCounter(AtomicU64);

impl LiveCounter {
    /// A counter at 0.
    pub const fn new() -> LiveCounter {
        LiveCounter(AtomicU64::new(0))
    }

    /// Adds `n`, wrapping. For the owning thread alone.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed: the count publishes nothing but itself.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The count as last seen by this thread.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A [`Histogram`] with a single writer, which other threads may copy while it is written to.
pub struct LiveHistogram {
    /// Stored by the owner only, as is everything here.
    ends: Ends,
    buckets: Box<[AtomicU64; BUCKETS]>,
}

/// Kept on one cache line, apart from what the neighbours in memory write.
#[repr(align(64))]
struct Ends {
    sum: AtomicU64,
    /// `u64::MAX` while empty.
    min: AtomicU64,
    /// 0 while empty.
    max: AtomicU64,
}

impl LiveHistogram {
    /// An empty histogram.
    pub fn new() -> LiveHistogram {
        LiveHistogram {
            ends: Ends {
                sum: AtomicU64::new(0),
                min: AtomicU64::new(u64::MAX),
                max: AtomicU64::new(0),
            },
            buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]),
        }
    }

    /// Counts one value in nanoseconds. For the owning thread alone.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts a value in nanoseconds `n` times, of which there is at least one. For the owning
    /// thread alone.
    #[inline]
    pub fn record_n(&self, ns: u64, n: u64) {
        let Ends { sum, min, max } = &self.ends;
        sum.store(sum.load(Relaxed).wrapping_add(ns.wrapping_mul(n)), Relaxed);
        min.store(min.load(Relaxed).min(ns), Relaxed);
        max.store(max.load(Relaxed).max(ns), Relaxed);
        let bucket = &self.buckets[index_of(ns)];
        // Release, paired with the acquiring load in `snapshot_into`: who sees this count sees the
        // three stores above.
        bucket.store(bucket.load(Relaxed).wrapping_add(n), Release);
    }

    /// Copies the present state into `snapshot`, replacing what it held. Any thread. O(buckets).
    pub fn snapshot_into(&self, snapshot: &mut Histogram) {
        snapshot.refill(|buckets| {
            for (copy, bucket) in buckets.iter_mut().zip(self.buckets.iter()) {
                // Acquire, paired with the releasing store in `record`.
                *copy = bucket.load(Acquire);
            }
            let Ends { sum, min, max } = &self.ends;
            (sum.load(Relaxed), min.load(Relaxed), max.load(Relaxed))
        });
    }

    /// Forgets everything. For the owning thread alone; a snapshot taken meanwhile is a mixture.
    pub fn reset(&self) {
        for bucket in self.buckets.iter() {
            bucket.store(0, Relaxed);
        }
        self.ends.sum.store(0, Relaxed);
        self.ends.min.store(u64::MAX, Relaxed);
        self.ends.max.store(0, Relaxed);
    }
}

impl Default for LiveHistogram {
    fn default() -> LiveHistogram {
        LiveHistogram::new()
    }
}

impl fmt::Debug for LiveHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut snapshot = Histogram::new();
        self.snapshot_into(&mut snapshot);
        f.debug_tuple("LiveHistogram").field(&snapshot).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_counter_adds_up() {
        let counter = LiveCounter::new();
        counter.add(3);
        counter.add(4);
        assert_eq!(counter.get(), 7);
        assert_eq!(LiveCounter::default().get(), 0);
    }

    #[test]
    fn a_reset_forgets_everything() {
        let live = LiveHistogram::new();
        live.record(12);
        live.record(1 << 41);
        live.reset();
        let mut snapshot = Histogram::new();
        snapshot.record(9);
        live.snapshot_into(&mut snapshot);
        assert_eq!(snapshot, Histogram::new());
        live.record(5);
        live.snapshot_into(&mut snapshot);
        assert_eq!((snapshot.count(), snapshot.sum(), snapshot.min()), (1, 5, Some(5)));
    }

    #[test]
    fn every_snapshot_of_a_busy_histogram_is_consistent() {
        const RECORDS: u64 = 200_000;
        let live = LiveHistogram::new();
        let done = AtomicBool::new(false);
        let snapshots = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut earlier = Histogram::new();
                let mut later = Histogram::new();
                let mut snapshots = 0u64;
                loop {
                    let last = done.load(Acquire);
                    live.snapshot_into(&mut later);
                    assert!(later.count() >= earlier.count());
                    let interval = later.subtract(&earlier);
                    assert_eq!(interval.count(), later.count() - earlier.count());
                    if let (Some(min), Some(max)) = (later.min(), later.max()) {
                        // All values are below 256, so buckets are values.
                        assert!(later.buckets().all(|(low, high, _)| min <= low && high <= max));
                        let counted: u64 = later.buckets().map(|(low, _, n)| low * n).sum();
                        assert!(later.sum() >= counted);
                    }
                    std::mem::swap(&mut earlier, &mut later);
                    snapshots += 1;
                    if last {
                        assert_eq!(earlier.count(), RECORDS);
                        return snapshots;
                    }
                }
            });
            for value in 0..RECORDS {
                // Widens in both directions from 128, so that late values set new extremes.
                let reach = value * 127 / RECORDS + 1;
                live.record(if value % 2 == 0 { 128 - reach } else { 128 + reach });
            }
            done.store(true, Release);
            sampler.join().unwrap()
        });
        assert!(snapshots > 0);
    }
}
