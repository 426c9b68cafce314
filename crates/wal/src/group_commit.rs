//! Group commit: one sync for all threads that wait.
//!
//! ```text
//!   thread 1   sync(to) leads: flush ................. done
//!   thread 2        sync(to) waits ................... leads: flush ....... done
//!   thread 3           sync(to) waits ................ covered by that one: done
//! ```
//!
//! A thread that comes while no flush runs is the leader: it flushes everything that is published
//! and notifies the followers. Threads that come meanwhile wait. When the flush is done, the
//! threads that it covered return, and one of the others leads the next flush. Their records came
//! while the first flush ran, so the next one covers them all. The number of flushes does not grow
//! with the number of threads.
//!
//! Without more, that makes two groups that alternate: the covered threads come back a moment after
//! the next flush has begun. So a leader first waits for the threads of the last flush. It waits
//! half as long as that flush took, at most 0.5 ms, and yields the processor meanwhile. If they do
//! not come back, the next flushes begin without a wait. A thread that is alone never waits.
//!
//! A flush that fails is the last one. **Invariant:** `synced` is the end of a flush that
//! succeeded, and no flush begins after one that failed.

use crate::primitive::{
    AtomicU64, CachePadded, Condvar, Mutex, MutexGuard, Ordering, lock, wait, yield_now,
};
use keyrack_measure::Clock;

/// A leader waits at most this long for followers.
const GATHER_NS_MAX: u64 = 500_000;

/// After a wait that brought less than half of the followers, this many flushes do not wait.
const FLUSHES_WITHOUT_WAIT: u32 = 64;

#[derive(Debug)]
struct State<F> {
    flushing: bool,
    /// Threads that wait for the end of a flush.
    waiting: usize,
    /// Why the last flush failed.
    failure: Option<F>,
    /// Calls of `sync` so far that found something to do.
    arrived: u64,
    /// The value of `arrived` when the last flush began: it covered these.
    covered: u64,
    /// How many threads the last flush covered, plus how many waited when it was done.
    expected: u64,
    /// How long the last flush took.
    flush_ns: u64,
    /// The number of coming flushes that do not wait.
    without_wait: u32,
}

impl<F> State<F> {
    /// Arrivals that no flush has covered.
    fn uncovered(&self) -> u64 {
        self.arrived - self.covered
    }
}

/// What is synced, and which thread syncs next.
#[derive(Debug)]
pub(crate) struct GroupCommit<F> {
    synced: CachePadded<AtomicU64>,
    state: Mutex<State<F>>,
    /// Signalled when a flush is done.
    flush_done: Condvar,
    clock: Clock,
}

impl<F: Clone> GroupCommit<F> {
    /// Everything below `synced` is durable.
    pub(crate) fn new(synced: u64) -> Self {
        GroupCommit {
            synced: CachePadded(AtomicU64::new(synced)),
            state: Mutex::new(State {
                flushing: false,
                waiting: 0,
                failure: None,
                arrived: 0,
                covered: 0,
                expected: 0,
                flush_ns: 0,
                without_wait: 0,
            }),
            flush_done: Condvar::new(),
            clock: Clock::vdso(),
        }
    }

    /// The end of what is durable.
    #[inline]
    pub(crate) fn synced(&self) -> u64 {
        // Acquire pairs with the Release in `advance`: the flush is done.
        self.synced.0.load(Ordering::Acquire)
    }

    /// Why no further flush will run.
    pub(crate) fn failure(&self) -> Option<F> {
        lock(&self.state).failure.clone()
    }

    /// Makes a failure final. The first one stays.
    pub(crate) fn fail(&self, failure: F) -> F {
        lock(&self.state).failure.get_or_insert(failure).clone()
    }

    /// Records that everything below `to` is durable.
    pub(crate) fn advance(&self, to: u64) {
        // Release pairs with the Acquire in `synced`.
        self.synced.0.fetch_max(to, Ordering::Release);
    }

    /// Returns once everything below `to` is durable. `flush` makes everything from an LSN on
    /// durable, up to an end that it returns and that is not below `to`.
    pub(crate) fn sync(&self, to: u64, flush: &dyn Fn(u64) -> Result<u64, F>) -> Result<(), F> {
        if self.synced() >= to {
            return Ok(());
        }
        let mut state = lock(&self.state);
        state.arrived += 1;
        loop {
            if self.synced() >= to {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.flushing {
                state.waiting += 1;
                state = wait(&self.flush_done, state);
                state.waiting -= 1;
                continue;
            }
            state.flushing = true;
            state = self.gather(state);
            if let Some(failure) = &state.failure {
                let failure = failure.clone();
                state.flushing = false;
                self.notify_followers(&state);
                return Err(failure);
            }
            let (arrived, covers) = (state.arrived, state.uncovered());
            drop(state);
            let ticks = self.clock.ticks();
            let flushed = flush(self.synced());
            let flush_ns = self.clock.ns_between(ticks, self.clock.ticks());
            state = lock(&self.state);
            state.flushing = false;
            state.covered = arrived;
            state.expected = covers + state.uncovered();
            state.flush_ns = flush_ns;
            // A leader returns after its flush, with success or with a failure.
            let failed = match flushed {
                Ok(end) if state.failure.is_none() => {
                    self.advance(end);
                    None
                }
                // Another sync failed meanwhile. It may be part of what this flush covers.
                Ok(_) => state.failure.clone(),
                Err(failure) => Some(state.failure.get_or_insert(failure).clone()),
            };
            self.notify_followers(&state);
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
    }

    /// Wakes the waiting threads after a flush. Without waiting threads it saves the system call.
    fn notify_followers(&self, state: &State<F>) {
        if state.waiting > 0 {
            self.flush_done.notify_all();
        }
    }

    /// Waits for the threads that are likely to come.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State<F>>) -> MutexGuard<'a, State<F>> {
        let missing = state.expected.saturating_sub(state.uncovered());
        // Models have no time.
        if missing == 0 || cfg!(any(loom, shuttle)) {
            return state;
        }
        if state.without_wait > 0 {
            state.without_wait -= 1;
            return state;
        }
        let wait_ticks = self.clock.ticks_of_ns((state.flush_ns / 2).min(GATHER_NS_MAX));
        let (deadline, present) = (self.clock.ticks() + wait_ticks, state.uncovered());
        while state.uncovered() < state.expected && self.clock.ticks() < deadline {
            drop(state);
            yield_now();
            state = lock(&self.state);
        }
        if 2 * (state.uncovered() - present) < missing {
            state.without_wait = FLUSHES_WITHOUT_WAIT;
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
        let group = GroupCommit::<()>::new(100);
        group.sync(100, &|_| panic!("flushed")).unwrap();
    }

    #[test]
    fn a_flush_starts_where_the_last_one_ended() {
        let group = GroupCommit::<()>::new(10);
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

    /// One flush is held open while other threads come: the next flush covers them all.
    #[test]
    fn threads_that_come_during_a_flush_share_the_next() {
        const OTHERS: u64 = 5;
        let group = GroupCommit::<()>::new(0);
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

    /// Calls per flush, when threads come back as soon as they were covered.
    fn shared(threads: u64) -> f64 {
        const ROUNDS: u64 = 50;
        let group = GroupCommit::<()>::new(0);
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

    /// Two alternating groups of two give 2.3 calls per flush, one group of four gives 4. A busy
    /// machine may keep the threads apart, but not in every round.
    #[test]
    fn threads_that_come_back_do_not_make_two_groups() {
        let mut found = Vec::new();
        while found.len() < 40 && found.iter().all(|shared| *shared < 3.0) {
            found.push(shared(4));
        }
        assert!(found.iter().any(|shared| *shared > 3.0), "{found:.2?}");
    }

    /// No thread comes back: the leader waits once, and then not for a while.
    #[test]
    fn a_leader_that_waits_in_vain_stops_waiting() {
        let group = GroupCommit::<()>::new(0);
        // The last flush took 1 ms and covered nine threads.
        lock(&group.state).expected = 9;
        lock(&group.state).flush_ns = 1_000_000;
        group.sync(1, &|_| Ok(1)).unwrap();
        assert_eq!(lock(&group.state).without_wait, FLUSHES_WITHOUT_WAIT);
        lock(&group.state).expected = 9;
        group.sync(2, &|_| Ok(2)).unwrap();
        assert_eq!(lock(&group.state).without_wait, FLUSHES_WITHOUT_WAIT - 1, "it did not wait");
        group.sync(3, &|_| Ok(3)).unwrap();
        let state = lock(&group.state);
        assert_eq!((state.without_wait, state.expected), (FLUSHES_WITHOUT_WAIT - 1, 1));
    }

    #[test]
    fn a_failed_flush_is_the_last_one() {
        let group = GroupCommit::new(5);
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
        group: GroupCommit<()>,
        published: AtomicU64,
        durable: AtomicU64,
        flushes: AtomicUsize,
        /// The number of the flush that fails, from 1.
        fails: usize,
    }

    impl Disk {
        fn new(fails: usize) -> Arc<Self> {
            Arc::new(Disk {
                group: GroupCommit::new(0),
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
    fn a_sync_that_returns_is_durable() {
        run(0, |disk, results| {
            assert!(results.iter().all(Result::is_ok));
            assert!(disk.flushes.load(Ordering::Acquire) <= 3);
            assert_eq!(disk.group.synced(), 3);
        });
    }

    #[test]
    fn no_thread_of_a_failed_flush_gets_a_success() {
        run(1, |disk, results| {
            assert!(results.iter().all(Result::is_err));
            assert_eq!(disk.group.synced(), 0);
        });
    }
}
