//! Deadlines of connections, coarse on purpose.
//!
//! A ring of buckets, one for each tick of 2^26 ns (67 ms). A deadline beyond the ring (17 s) is
//! put at its far end and looked at again there. An entry is only a reminder: when it comes due,
//! the loop asks the connection when it really ends, and enters it anew. So a message costs the
//! store of a time and no more, and a connection has one entry, whatever its deadlines are.
//!
//! **Invariant:** an entry comes out at or after its tick, never before.

use std::time::Duration;

use crate::slab::Key;

const TICK_NS_LOG2: u32 = 26;
const BUCKETS: u64 = 256;

/// The tick that no deadline has.
pub(crate) const NEVER: u64 = u64::MAX;

/// The first tick at which a deadline has passed.
pub(crate) fn tick_after(deadline_ns: u64) -> u64 {
    (deadline_ns >> TICK_NS_LOG2) + 1
}

/// A reminder: a connection, and the tick that it was entered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reminder {
    pub(crate) key: Key,
    pub(crate) tick: u64,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Wheel {
    buckets: Box<[Vec<Reminder>]>,
    /// All ticks up to this one have come out.
    done: u64,
    /// No entry is before this tick.
    next: u64,
}

impl Wheel {
    pub(crate) fn new(now_ns: u64) -> Self {
        let buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        Wheel { buckets, done: now_ns >> TICK_NS_LOG2, next: NEVER }
    }

    /// The tick at which a deadline would be entered now.
    pub(crate) fn place(&self, deadline_ns: u64) -> u64 {
        tick_after(deadline_ns).clamp(self.done + 1, self.done + BUCKETS - 1)
    }

    /// Enters a reminder at a tick that [`Wheel::place`] gave.
    pub(crate) fn enter(&mut self, key: Key, tick: u64) {
        debug_assert!(tick > self.done && tick < self.done + BUCKETS);
        self.buckets[bucket(tick)].push(Reminder { key, tick });
        self.next = self.next.min(tick);
    }

    pub(crate) fn advance(&mut self, now_ns: u64, due: &mut Vec<Reminder>) {
        let now = now_ns >> TICK_NS_LOG2;
        if now < self.next {
            self.done = self.done.max(now);
            return;
        }
        // Entries lie within one round of the ring, so one round finds them all.
        for tick in self.next..=now.min(self.next + BUCKETS - 1) {
            due.append(&mut self.buckets[bucket(tick)]);
        }
        self.done = now;
        let mut ahead = (now + 1)..(now + BUCKETS);
        self.next = ahead.find(|tick| !self.buckets[bucket(*tick)].is_empty()).unwrap_or(NEVER);
    }

    /// How long until the next entry can be due; `None` when there is none.
    pub(crate) fn wait(&self, now_ns: u64) -> Option<Duration> {
        let next_ns = self.next.checked_mul(1 << TICK_NS_LOG2)?;
        Some(Duration::from_nanos(next_ns.saturating_sub(now_ns)))
    }
}

fn bucket(tick: u64) -> usize {
    // The remainder is below 256.
    (tick % BUCKETS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    const TICK_NS: u64 = 1 << TICK_NS_LOG2;

    #[test]
    fn reminders_come_out_in_time_and_once() {
        let mut slab = Slab::new();
        let start_ns = 1_000 * TICK_NS + 5;
        let mut wheel = Wheel::new(start_ns);
        let mut expected = Vec::new();
        for step in [0, 1, 2, 3, 100, 254] {
            let key = slab.insert(()).unwrap();
            let deadline_ns = start_ns + step * TICK_NS;
            let tick = wheel.place(deadline_ns);
            wheel.enter(key, tick);
            expected.push((deadline_ns, Reminder { key, tick }));
        }
        let mut now_ns = start_ns;
        let mut seen = Vec::new();
        while let Some(wait) = wheel.wait(now_ns) {
            assert!(!wait.is_zero(), "a wait of nothing makes a busy loop");
            now_ns += u64::try_from(wait.as_nanos()).unwrap();
            let mut due = Vec::new();
            wheel.advance(now_ns, &mut due);
            assert!(!due.is_empty(), "woken for nothing");
            seen.extend(due.iter().map(|reminder| (now_ns, *reminder)));
        }
        assert_eq!(seen.len(), expected.len());
        for ((at_ns, reminder), (deadline_ns, entered)) in seen.iter().zip(&expected) {
            assert_eq!(reminder, entered);
            assert!(at_ns >= deadline_ns && *at_ns <= deadline_ns + TICK_NS);
        }
    }

    #[test]
    fn a_far_deadline_is_looked_at_at_the_end_of_the_ring() {
        let key = Slab::new().insert(()).unwrap();
        let mut wheel = Wheel::new(0);
        let tick = wheel.place(u64::MAX);
        assert_eq!(tick, BUCKETS - 1);
        wheel.enter(key, tick);
        let mut due = Vec::new();
        wheel.advance((BUCKETS - 1) * TICK_NS - 1, &mut due);
        assert_eq!(due, []);
        // A loop that slept for many rounds finds everything at once.
        wheel.advance(u64::MAX >> 1, &mut due);
        assert_eq!(due, [Reminder { key, tick }]);
        assert_eq!(wheel.wait(0), None);
    }
}
