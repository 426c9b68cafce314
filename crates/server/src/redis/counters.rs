//! Counters of commands: one set for each loop, summed up on request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::durations::{BUCKETS, Kind, Sum, bucket_of};
use crate::redis::table;

/// Counters of one loop. Only that loop writes them: a load and a store, no locked instruction.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub(crate) struct Counters<N = AtomicU64> {
    pub(crate) calls: [N; table::COUNT],
    /// Time that each command took, in nanoseconds.
    pub(crate) spent_ns: [N; table::COUNT],
    /// How many calls of each command took how long.
    pub(crate) buckets: [[N; BUCKETS]; table::COUNT],
    /// Calls of each command that failed.
    pub(crate) failed_calls: [N; table::COUNT],
    /// Calls of each command that were refused before they were carried out.
    pub(crate) rejected_calls: [N; table::COUNT],
    pub(crate) failed: N,
    pub(crate) rejected: N,
    pub(crate) protocol_errors: N,
    pub(crate) hits: N,
    pub(crate) misses: N,
}

/// Sums of counters.
pub(crate) type Totals = Counters<u64>;

impl<N: Default> Default for Counters<N> {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| N::default());
        Counters {
            calls: zeros(),
            spent_ns: zeros(),
            buckets: std::array::from_fn(|_| std::array::from_fn(|_| N::default())),
            failed_calls: zeros(),
            rejected_calls: zeros(),
            failed: N::default(),
            rejected: N::default(),
            protocol_errors: N::default(),
            hits: N::default(),
            misses: N::default(),
        }
    }
}

/// Adds to a counter of the calling loop.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

impl Counters {
    /// Counts calls of a command that took `ns` each.
    #[inline]
    pub(crate) fn took(&self, index: u16, ns: u64, calls: u64) {
        bump(&self.buckets[usize::from(index)][bucket_of(ns)], calls);
    }
}

fn add(sums: &mut [u64; table::COUNT], counters: &[AtomicU64; table::COUNT]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Relaxed);
    }
}

impl Totals {
    /// The sums over all loops.
    pub(crate) fn of(loops: &[Counters]) -> Totals {
        let mut totals = Totals::default();
        for counters in loops {
            add(&mut totals.calls, &counters.calls);
            add(&mut totals.spent_ns, &counters.spent_ns);
            for (sums, buckets) in totals.buckets.iter_mut().zip(&counters.buckets) {
                sums.iter_mut().zip(buckets).for_each(|(sum, bucket)| *sum += bucket.load(Relaxed));
            }
            add(&mut totals.failed_calls, &counters.failed_calls);
            add(&mut totals.rejected_calls, &counters.rejected_calls);
            totals.failed += counters.failed.load(Relaxed);
            totals.rejected += counters.rejected.load(Relaxed);
            totals.protocol_errors += counters.protocol_errors.load(Relaxed);
            totals.hits += counters.hits.load(Relaxed);
            totals.misses += counters.misses.load(Relaxed);
        }
        totals
    }

    /// The durations of all commands, by kind.
    pub(crate) fn durations(&self) -> [Sum; Kind::COUNT] {
        let mut sums = [Sum::default(); Kind::COUNT];
        for (index, command) in table::COMMANDS.iter().enumerate() {
            let sum = &mut sums[command.kind() as usize];
            sum.add(self.buckets[index].iter().copied(), self.spent_ns[index]);
        }
        sums
    }

    /// Takes earlier sums off.
    pub(crate) fn subtract(&mut self, earlier: &Totals) {
        for (sums, before) in [
            (&mut self.calls, &earlier.calls),
            (&mut self.spent_ns, &earlier.spent_ns),
            (&mut self.failed_calls, &earlier.failed_calls),
            (&mut self.rejected_calls, &earlier.rejected_calls),
        ] {
            sums.iter_mut().zip(before).for_each(|(sum, before)| *sum -= before);
        }
        for (sums, before) in self.buckets.iter_mut().zip(&earlier.buckets) {
            sums.iter_mut().zip(before).for_each(|(sum, before)| *sum -= before);
        }
        self.failed -= earlier.failed;
        self.rejected -= earlier.rejected;
        self.protocol_errors -= earlier.protocol_errors;
        self.hits -= earlier.hits;
        self.misses -= earlier.misses;
    }
}
