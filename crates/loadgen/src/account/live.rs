//! What others may look at while a thread measures: counters and one histogram that it alone
//! writes.

use keyrack_measure::{Histogram, LiveCounter, LiveHistogram};

use crate::target::Class;

/// The figures of one thread, for whoever draws the line of the present second.
#[derive(Debug, Default)]
pub struct Live {
    /// Replies.
    pub ops: LiveCounter,
    /// Lookups that missed.
    pub misses: LiveCounter,
    /// Failures.
    pub errors: LiveCounter,
    /// The headline latency of each class, in the order of [`Class::ALL`].
    pub latency: [LiveHistogram; Class::ALL.len()],
    /// Requests of any kind that went out.
    pub sent: LiveCounter,
    /// Those that will get no reply any more: answered, or lost with their connection.
    pub completed: LiveCounter,
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
    /// That of each class, in the order of [`Class::ALL`].
    pub classes: [Histogram; Class::ALL.len()],
    /// Requests under way, those of the loader included.
    pub outstanding: u64,
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
            for (class, latency) in sampled.classes.iter_mut().zip(&live.latency) {
                latency.snapshot_into(&mut one);
                class.merge(&one);
            }
            // What was completed is read first: a request cannot be completed before it was sent.
            let completed = live.completed.get();
            sampled.outstanding += live.sent.get().saturating_sub(completed);
        }
        sampled.classes.iter().for_each(|class| sampled.latency.merge(class));
        sampled
    }

    /// What came since an earlier look; what is outstanding is that of this one.
    #[must_use]
    pub fn since(&self, earlier: &Sampled) -> Sampled {
        Sampled {
            ops: self.ops.saturating_sub(earlier.ops),
            misses: self.misses.saturating_sub(earlier.misses),
            errors: self.errors.saturating_sub(earlier.errors),
            latency: self.latency.subtract(&earlier.latency),
            classes: std::array::from_fn(|at| self.classes[at].subtract(&earlier.classes[at])),
            outstanding: self.outstanding,
        }
    }
}
