//! What came of the requests: latencies by class, counts, errors by class.
//!
//! ```text
//!   intended ------- delay -------> sent ------- service -------> received
//!      \-------------------------- response ------------------------/
//! ```
//!
//! A request that was never answered is *censored*: all that is known is that its response time is
//! longer than what had passed when we gave up. It is in the histogram of response times with that
//! bound, and it is counted apart.
//!
//! **Invariant:** accounts merge by adding, so the order of threads and agents means nothing.

mod live;
mod report;

pub use live::{Live, Sampled};
pub use report::{AgentRate, Report, Second, ThreadUse, Window};

use keyrack_measure::Histogram;

use crate::target::{Class, ErrorClass};

/// Latencies of one class, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// From the intended start to the reply. In a closed loop there is no intention but to send,
    /// and this is the service time.
    pub response: Histogram,
    /// From the send to the reply.
    pub service: Histogram,
}

/// Counts of one thread, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Replies to requests of the workload: removals half-way are not among them.
    pub ops: u64,
    /// Those that came before the end of the measurement.
    pub ops_in_time: u64,
    /// Requests that a rate or a budget called for, sent or not.
    pub offered: u64,
    /// Keys that were looked up.
    pub gets: u64,
    /// Of those, the ones that were not there.
    pub misses: u64,
    /// Stores of any kind that were answered.
    pub sets: u64,
    /// Stores that did not happen, since their condition did not hold.
    pub not_stored: u64,
    /// Stores because a lookup missed; among `sets`.
    pub fills: u64,
    /// Removals half-way.
    pub purged: u64,
    /// Arrivals that were left out on purpose.
    pub skipped: u64,
    /// Sent, and not answered when we gave up.
    pub unanswered: u64,
    /// Due, and not sent when we gave up.
    pub unsent: u64,
    /// Due before the end of the measurement and not sent then: the queue as it was.
    pub backlog: u64,
    /// Values that were checked.
    pub verified: u64,
    /// Bytes from servers.
    pub received_bytes: u64,
    /// Bytes to servers.
    pub sent_bytes: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Connections that were made again.
    pub reconnects: u64,
    /// Requests that a cluster sent elsewhere for good, each time.
    pub moved: u64,
    /// Requests that a cluster sent elsewhere this once, each time.
    pub asked: u64,
    /// Lookups that the first of two tiers missed.
    pub tier_misses: u64,
    /// Stores in a tier of what the other one had.
    pub copies: u64,
}

impl Counts {
    /// Counts with their names, which travel between agents.
    pub(crate) fn fields(&mut self) -> [(&'static str, &mut u64); 22] {
        [
            ("ops", &mut self.ops),
            ("ops_in_time", &mut self.ops_in_time),
            ("offered", &mut self.offered),
            ("gets", &mut self.gets),
            ("misses", &mut self.misses),
            ("sets", &mut self.sets),
            ("not_stored", &mut self.not_stored),
            ("fills", &mut self.fills),
            ("purged", &mut self.purged),
            ("skipped", &mut self.skipped),
            ("unanswered", &mut self.unanswered),
            ("unsent", &mut self.unsent),
            ("backlog", &mut self.backlog),
            ("verified", &mut self.verified),
            ("received_bytes", &mut self.received_bytes),
            ("sent_bytes", &mut self.sent_bytes),
            ("broken", &mut self.broken),
            ("reconnects", &mut self.reconnects),
            ("moved", &mut self.moved),
            ("asked", &mut self.asked),
            ("tier_misses", &mut self.tier_misses),
            ("copies", &mut self.copies),
        ]
    }

    fn merge(&mut self, other: &Counts) {
        for ((_, mine), (_, theirs)) in self.fields().into_iter().zip(other.clone().fields()) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// Failures by class, with the words of the first of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    counts: [u64; ErrorClass::ALL.len()],
    words: [Option<String>; ErrorClass::ALL.len()],
}

impl Default for Errors {
    fn default() -> Errors {
        Errors {
            counts: [0; ErrorClass::ALL.len()],
            words: [const { None }; ErrorClass::ALL.len()],
        }
    }
}

impl Errors {
    /// Counts `count` failures of a class; `words` is asked for the first alone.
    pub fn add(&mut self, class: ErrorClass, count: u64, words: impl FnOnce() -> String) {
        let at = class.index();
        self.counts[at] = self.counts[at].saturating_add(count);
        if count > 0 && self.words[at].is_none() {
            self.words[at] = Some(words());
        }
    }

    /// How many of a class.
    #[must_use]
    pub fn count(&self, class: ErrorClass) -> u64 {
        self.counts[class.index()]
    }

    /// How many of all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The classes that there are: class, count, words.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorClass, u64, &str)> {
        ErrorClass::ALL.into_iter().filter(|class| self.count(*class) > 0).map(|class| {
            (class, self.count(class), self.words[class.index()].as_deref().unwrap_or_default())
        })
    }

    /// Adds what another thread counted; words of its own come first.
    pub fn merge(&mut self, other: &Errors) {
        for (class, count, words) in other.iter() {
            self.add(class, count, || words.to_owned());
        }
    }
}

/// Everything that one thread counts during a phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    tallies: [Tally; Class::ALL.len()],
    /// From the intended start to the send, of all classes.
    pub delay: Histogram,
    /// Requests under way on a connection, counted when one is added.
    pub depth: Histogram,
    /// Plain counts.
    pub counts: Counts,
    /// Failures.
    pub errors: Errors,
}

impl Account {
    /// The latencies of a class.
    #[inline]
    #[must_use]
    pub fn tally(&self, class: Class) -> &Tally {
        &self.tallies[class as usize]
    }

    /// The latencies of a class, to add to.
    #[inline]
    pub fn tally_mut(&mut self, class: Class) -> &mut Tally {
        &mut self.tallies[class as usize]
    }

    /// The latencies of all classes but removals half-way, which have none.
    #[must_use]
    pub fn all(&self) -> Tally {
        let mut all = Tally::default();
        for tally in &self.tallies {
            all.response.merge(&tally.response);
            all.service.merge(&tally.service);
        }
        all
    }

    /// Adds what another thread or agent counted.
    pub fn merge(&mut self, other: &Account) {
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.response.merge(&theirs.response);
            mine.service.merge(&theirs.service);
        }
        self.delay.merge(&other.delay);
        self.depth.merge(&other.depth);
        self.counts.merge(&other.counts);
        self.errors.merge(&other.errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(seed: u64) -> Account {
        let mut account = Account::default();
        for step in 0..50 {
            let ns = seed * 1000 + step * 37;
            account.tally_mut(Class::Read).response.record(ns);
            account.tally_mut(Class::Update).service.record(ns * 2);
            account.delay.record(step);
        }
        account.counts.ops = u64::from(u32::MAX) + seed;
        account.counts.reconnects = seed;
        account.errors.add(ErrorClass::Busy, seed, || format!("words {seed}"));
        account
    }

    #[test]
    fn merging_adds_in_any_order() {
        let (a, b, c) = (account(1), account(2), account(3));
        let merged = |order: [&Account; 3]| {
            let mut all = Account::default();
            order.iter().for_each(|account| all.merge(account));
            all
        };
        let all = merged([&a, &b, &c]);
        let mut nested = b.clone();
        nested.merge(&c);
        let mut other = a.clone();
        other.merge(&nested);
        assert_eq!(all, other);
        assert_eq!(all.counts, merged([&c, &b, &a]).counts);
        assert_eq!(all.counts.ops, 3 * u64::from(u32::MAX) + 6, "counts go beyond 32 bits");
        assert_eq!(all.counts.reconnects, 6);
        assert_eq!(all.errors.total(), 6);
        assert_eq!(all.errors.iter().next(), Some((ErrorClass::Busy, 6, "words 1")));
        assert_eq!(all.tally(Class::Read).response.count(), 150);
        assert_eq!(all.all().service.count(), 150);
    }
}
