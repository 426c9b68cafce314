//! What others may look at while a thread measures: counters and one histogram that it alone
//! writes.

use keyrack_measure::{Histogram, LiveCounter, LiveHistogram};

/// The figures of one thread, for whoever draws the line of the present second.
#[derive(Debug, Default)]
pub struct Live {
    /// Replies.
    pub ops: LiveCounter,
    /// Lookups that missed.
    pub misses: LiveCounter,
    /// Failures.
    pub errors: LiveCounter,
    /// The headline latency of all classes.
    pub latency: LiveHistogram,
}

/// Those figures of all threads, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// Replies.
    pub ops: u64,
    /// Lookups that missed.
    pub misses: u64,
    /// Failures.
    pub errors: u64,
    /// The headline latency.
    pub latency: Histogram,
}

impl Sampled {
    /// Looks at all threads.
    pub fn of<'a>(threads: impl Iterator<Item = &'a Live>) -> Sampled {
        let mut sampled = Sampled::default();
        let mut one = Histogram::new();
        for live in threads {
            sampled.ops += live.ops.get();
            sampled.misses += live.misses.get();
            sampled.errors += live.errors.get();
            live.latency.snapshot_into(&mut one);
            sampled.latency.merge(&one);
        }
        sampled
    }

    /// What came since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Sampled) -> Sampled {
        Sampled {
            ops: self.ops.saturating_sub(earlier.ops),
            misses: self.misses.saturating_sub(earlier.misses),
            errors: self.errors.saturating_sub(earlier.errors),
            latency: self.latency.subtract(&earlier.latency),
        }
    }
}
