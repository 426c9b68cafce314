//! Group commit: one sync for all who wait.
//!
//! ```text
//!   thread 1   sync(to) leads: flush ................. done
//!   thread 2        sync(to) waits ................... leads: flush ....... done
//!   thread 3           sync(to) waits ................ covered by that one: done
//! ```
//!
//! Whoever comes while nobody flushes leads: it flushes all that is published and tells everybody.
//! Those who come meanwhile wait; when the flush is over, those that it covered return, and one of
//! the others leads the next one. Their records came while the first flush ran, so the next covers
//! them all, and the number of flushes does not grow with the number of threads.
//!
//! Left to itself that makes two groups that take turns: those who were covered come back a moment
//! after the next flush has begun. So a leader first waits for those who were there last time:
//! half as long as that flush took and 0.5 ms at most, giving the processor away meanwhile. Where
//! they do not come back, it does without for a while. A thread that is alone never waits.
//!
//! A flush that fails is the last one. **Invariant:** `synced` is the end of a flush that
//! succeeded, and no flush is begun after one that failed.

use crate::primitive::{
    AtomicU64, Condvar, Line, Mutex, MutexGuard, Ordering, lock, wait, yield_now,
};
use keyrack_measure::Clock;

/// A leader waits no longer than this.
const GATHER_NS_MAX: u64 = 500_000;

/// So many flushes do without waiting, after one that has waited for less than half.
const ALONE: u32 = 64;

#[derive(Debug)]
struct State<F> {
    flushing: bool,
    /// Threads that wait for the end of a flush.
    waiting: usize,
    /// Why the last flush failed.
    failure: Option<F>,
    /// How many have come so far.
    came: u64,
    /// How many of them had when the last flush began: it covered them.
    began: u64,
    /// How many it had covered, and how many waited when it was over.
    known: u64,
    /// What it took.
    flush_ns: u64,
    /// Flushes to come that do not wait.
    alone: u32,
}

impl<F> State<F> {
    /// Those whom no flush has covered.
    fn here(&self) -> u64 {
        self.came - self.began
    }
}

/// What was synced, and who syncs next.
#[derive(Debug)]
pub(crate) struct Group<F> {
    synced: Line<AtomicU64>,
    state: Mutex<State<F>>,
    /// A flush is over.
    over: Condvar,
    clock: Clock,
}

impl<F: Clone> Group<F> {
    /// Everything below `synced` is durable.
    pub(crate) fn new(synced: u64) -> Self {
        Group {
            synced: Line(AtomicU64::new(synced)),
            state: Mutex::new(State {
                flushing: false,
                waiting: 0,
                failure: None,
                came: 0,
                began: 0,
                known: 0,
                flush_ns: 0,
                alone: 0,
            }),
            over: Condvar::new(),
            clock: Clock::vdso(),
        }
    }

    /// The end of what is durable.
    #[inline]
    pub(crate) fn synced(&self) -> u64 {
        // Acquire pairs with the Release in `advance`: the flush is over.
        self.synced.0.load(Ordering::Acquire)
    }

    /// Why no flush will come any more.
    pub(crate) fn failure(&self) -> Option<F> {
        lock(&self.state).failure.clone()
    }

    /// Makes a failure final. The first one stays.
    pub(crate) fn fail(&self, failure: F) -> F {
        lock(&self.state).failure.get_or_insert(failure).clone()
    }

    /// Everything below `to` turned out to be durable.
    pub(crate) fn advance(&self, to: u64) {
        // Release pairs with the Acquire in `synced`.
        self.synced.0.fetch_max(to, Ordering::Release);
    }

    /// Returns once everything below `to` is durable. `flush` makes everything from a position on
    /// durable, up to an end that it returns and that is not below `to`.
    pub(crate) fn sync(&self, to: u64, flush: &dyn Fn(u64) -> Result<u64, F>) -> Result<(), F> {
        if self.synced() >= to {
            return Ok(());
        }
        let mut state = lock(&self.state);
        state.came += 1;
        loop {
            if self.synced() >= to {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.flushing {
                state.waiting += 1;
                state = wait(&self.over, state);
                state.waiting -= 1;
                continue;
            }
            state.flushing = true;
            state = self.gather(state);
            if let Some(failure) = &state.failure {
                let failure = failure.clone();
                state.flushing = false;
                self.tell(&state);
                return Err(failure);
            }
            let (came, covers) = (state.came, state.here());
            drop(state);
            let ticks = self.clock.ticks();
            let flushed = flush(self.synced());
            let flush_ns = self.clock.ns_between(ticks, self.clock.ticks());
            state = lock(&self.state);
            state.flushing = false;
            state.began = came;
            state.known = covers + state.here();
            state.flush_ns = flush_ns;
            // Whoever has flushed returns: with what it covered, or with a failure.
            let failed = match flushed {
                Ok(end) if state.failure.is_none() => {
                    self.advance(end);
                    None
                }
                // What failed elsewhere meanwhile may be part of what this flush took for done.
                Ok(_) => state.failure.clone(),
                Err(failure) => Some(state.failure.get_or_insert(failure).clone()),
            };
            self.tell(&state);
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
    }

    /// Tells those who wait that a flush is over. That is a system call, also where nobody waits.
    fn tell(&self, state: &State<F>) {
        if state.waiting > 0 {
            self.over.notify_all();
        }
    }

    /// Waits for those who are likely to come.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State<F>>) -> MutexGuard<'a, State<F>> {
        let missing = state.known.saturating_sub(state.here());
        // Models have no time.
        if missing == 0 || cfg!(any(loom, shuttle)) {
            return state;
        }
        if state.alone > 0 {
            state.alone -= 1;
            return state;
        }
        let patience = self.clock.ticks_of_ns((state.flush_ns / 2).min(GATHER_NS_MAX));
        let (until, here) = (self.clock.ticks() + patience, state.here());
        while state.here() < state.known && self.clock.ticks() < until {
            drop(state);
            yield_now();
            state = lock(&self.state);
        }
        if 2 * (state.here() - here) < missing {
            state.alone = ALONE;
        }
        state
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    #[test]
    fn nothing_is_flushed_for_what_is_durable() {
        let group = Group::<()>::new(100);
        group.sync(100, &|_| panic!("flushed")).unwrap();
    }

    #[test]
    fn a_flush_starts_where_the_last_one_ended() {
        let group = Group::<()>::new(10);
        for (from, to) in [(10, 20), (20, 50)] {
            group
                .sync(to, &|at| {
                    assert_eq!(at, from);
                    Ok(to)
                })
                .unwrap();
            assert_eq!(group.synced(), to);
        }
    }

    /// One flush is held open while others come to wait: the next flush is for all of them.
    #[test]
    fn those_who_come_during_a_flush_share_the_next() {
        const OTHERS: u64 = 5;
        let group = Group::<()>::new(0);
        let flushes = AtomicUsize::new(0);
        let (begun, first_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        std::thread::scope(|scope| {
            let (group, flushes) = (&group, &flushes);
            scope.spawn(move || {
                let flush = |_| {
                    flushes.fetch_add(1, Ordering::Relaxed);
                    begun.send(()).unwrap();
                    released.recv().unwrap();
                    Ok(1)
                };
                group.sync(1, &flush).unwrap();
            });
            first_begun.recv().unwrap();
            for other in 0..OTHERS {
                scope.spawn(move || {
                    let flush = |from| {
                        assert_eq!(from, 1, "only after the first one");
                        flushes.fetch_add(1, Ordering::Relaxed);
                        Ok(2 + OTHERS)
                    };
                    group.sync(2 + other, &flush).unwrap();
                });
            }
            release.send(()).unwrap();
        });
        assert_eq!(flushes.into_inner(), 2);
        assert_eq!(group.synced(), 2 + OTHERS);
    }

    /// Calls for each flush, when threads come back as soon as they were covered.
    fn shared(threads: u64) -> f64 {
        const ROUNDS: u64 = 50;
        let group = Group::<()>::new(0);
        let (published, flushes) = (AtomicU64::new(0), AtomicUsize::new(0));
        let clock = Clock::vdso();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let end = published.fetch_add(1, Ordering::AcqRel) + 1;
                        let flush = |_| {
                            flushes.fetch_add(1, Ordering::Relaxed);
                            let end = published.load(Ordering::Acquire);
                            // As long as a disk takes.
                            let until = clock.ticks() + clock.ticks_of_ns(200_000);
                            while clock.ticks() < until {
                                yield_now();
                            }
                            Ok(end)
                        };
                        group.sync(end, &flush).expect("a flush that works");
                    }
                });
            }
        });
        assert_eq!(group.synced(), threads * ROUNDS);
        (threads * ROUNDS) as f64 / flushes.into_inner() as f64
    }

    /// Two groups of two in turns share 2.3 (the ends are shared by more); all four together, 4. A
    /// machine that does other things may keep them apart, but not again and again.
    #[test]
    fn those_who_come_back_do_not_make_two_groups() {
        let mut found = Vec::new();
        while found.len() < 40 && found.iter().all(|shared| *shared < 3.0) {
            found.push(shared(4));
        }
        assert!(found.iter().any(|shared| *shared > 3.0), "{found:.2?}");
    }

    /// Nobody comes back: it is tried once, and then not for a while.
    #[test]
    fn a_leader_that_waits_in_vain_does_without() {
        let group = Group::<()>::new(0);
        // The last flush took long, and there were nine.
        lock(&group.state).known = 9;
        lock(&group.state).flush_ns = 1_000_000;
        group.sync(1, &|_| Ok(1)).unwrap();
        assert_eq!(lock(&group.state).alone, ALONE);
        lock(&group.state).known = 9;
        group.sync(2, &|_| Ok(2)).unwrap();
        assert_eq!(lock(&group.state).alone, ALONE - 1, "it did not wait");
        group.sync(3, &|_| Ok(3)).unwrap();
        let state = lock(&group.state);
        assert_eq!((state.alone, state.known), (ALONE - 1, 1));
    }

    #[test]
    fn a_failed_flush_is_the_last_one() {
        let group = Group::new(5);
        assert_eq!(group.sync(9, &|_| Err("broken")), Err("broken"));
        assert_eq!(group.sync(9, &|_| panic!("flushed again")), Err("broken"));
        assert_eq!(group.fail("later"), "broken");
        assert_eq!(group.failure(), Some("broken"));
        group.sync(5, &|_| panic!("flushed again")).expect("durable before");
        assert_eq!(group.synced(), 5);
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A disk: what is published, what was flushed, and how often.
    struct Disk {
        group: Group<()>,
        published: AtomicU64,
        durable: AtomicU64,
        flushes: AtomicUsize,
        /// The number of the flush that fails, from 1.
        fails: usize,
    }

    impl Disk {
        fn new(fails: usize) -> Arc<Self> {
            Arc::new(Disk {
                group: Group::new(0),
                published: AtomicU64::new(0),
                durable: AtomicU64::new(0),
                flushes: AtomicUsize::new(0),
                fails,
            })
        }

        fn append_and_sync(&self) -> Result<(), ()> {
            let end = self.published.fetch_add(1, Ordering::AcqRel) + 1;
            let result = self.group.sync(end, &|_| {
                let number = self.flushes.fetch_add(1, Ordering::AcqRel) + 1;
                assert!(self.fails == 0 || number <= self.fails, "flushed after a failure");
                let end = self.published.load(Ordering::Acquire);
                if number == self.fails {
                    return Err(());
                }
                self.durable.store(end, Ordering::Release);
                Ok(end)
            });
            if result.is_ok() {
                assert!(self.durable.load(Ordering::Acquire) >= end, "synced and not durable");
            }
            result
        }
    }

    fn run(fails: usize, check: impl Fn(&Disk, Vec<Result<(), ()>>) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.check(move || {
            let disk = Disk::new(fails);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let disk = Arc::clone(&disk);
                    thread::spawn(move || disk.append_and_sync())
                })
                .collect();
            let mut results = vec![disk.append_and_sync()];
            results.extend(others.into_iter().map(|other| other.join().unwrap()));
            check(&disk, results);
        });
    }

    #[test]
    fn whoever_returns_is_durable() {
        run(0, |disk, results| {
            assert!(results.iter().all(Result::is_ok));
            assert!(disk.flushes.load(Ordering::Acquire) <= 3);
            assert_eq!(disk.group.synced(), 3);
        });
    }

    #[test]
    fn nobody_covered_by_a_failed_flush_is_told_that_it_is_durable() {
        run(1, |disk, results| {
            assert!(results.iter().all(Result::is_err));
            assert_eq!(disk.group.synced(), 0);
        });
    }
}
