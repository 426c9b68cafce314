//! Counters of commands: one set for each loop, summed up on request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::redis::table;

/// Counters of one loop. Only that loop writes them: a load and a store, no locked instruction.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) calls: [AtomicU64; table::COUNT],
    /// Time that each command took, in nanoseconds.
    pub(crate) spent_ns: [AtomicU64; table::COUNT],
    /// Calls of each command that failed.
    pub(crate) failed_calls: [AtomicU64; table::COUNT],
    /// Calls of each command that were refused before they were carried out.
    pub(crate) rejected_calls: [AtomicU64; table::COUNT],
    pub(crate) failed: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) protocol_errors: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            calls: [const { AtomicU64::new(0) }; table::COUNT],
            spent_ns: [const { AtomicU64::new(0) }; table::COUNT],
            failed_calls: [const { AtomicU64::new(0) }; table::COUNT],
            rejected_calls: [const { AtomicU64::new(0) }; table::COUNT],
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            protocol_errors: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }
}

/// Adds to a counter of the calling loop.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

fn add(sums: &mut [u64; table::COUNT], counters: &[AtomicU64; table::COUNT]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Relaxed);
    }
}

/// Sums of counters.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) calls: [u64; table::COUNT],
    pub(crate) spent_ns: [u64; table::COUNT],
    pub(crate) failed_calls: [u64; table::COUNT],
    pub(crate) rejected_calls: [u64; table::COUNT],
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    pub(crate) protocol_errors: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Totals {
            calls: [0; table::COUNT],
            spent_ns: [0; table::COUNT],
            failed_calls: [0; table::COUNT],
            rejected_calls: [0; table::COUNT],
            failed: 0,
            rejected: 0,
            protocol_errors: 0,
            hits: 0,
            misses: 0,
        }
    }
}

impl Totals {
    /// The sums over all loops.
    pub(crate) fn of(loops: &[Counters]) -> Totals {
        let mut totals = Totals::default();
        for counters in loops {
            add(&mut totals.calls, &counters.calls);
            add(&mut totals.spent_ns, &counters.spent_ns);
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
        self.failed -= earlier.failed;
        self.rejected -= earlier.rejected;
        self.protocol_errors -= earlier.protocol_errors;
        self.hits -= earlier.hits;
        self.misses -= earlier.misses;
    }
}
