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
//! A flush that fails is the last one. **Invariant:** `synced` is the end of a flush that
//! succeeded, and no flush is begun after one that failed.

use crate::primitive::{AtomicU64, Condvar, Line, Mutex, Ordering, lock, wait};

#[derive(Debug)]
struct State<F> {
    flushing: bool,
    /// Why the last flush failed.
    failure: Option<F>,
}

/// What was synced, and who syncs next.
#[derive(Debug)]
pub(crate) struct Group<F> {
    synced: Line<AtomicU64>,
    state: Mutex<State<F>>,
    /// A flush is over.
    over: Condvar,
}

impl<F: Clone> Group<F> {
    /// Everything below `synced` is durable.
    pub(crate) fn new(synced: u64) -> Self {
        Group {
            synced: Line(AtomicU64::new(synced)),
            state: Mutex::new(State { flushing: false, failure: None }),
            over: Condvar::new(),
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
        loop {
            if self.synced() >= to {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.flushing {
                state = wait(&self.over, state);
                continue;
            }
            state.flushing = true;
            drop(state);
            let flushed = flush(self.synced());
            state = lock(&self.state);
            state.flushing = false;
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
            self.over.notify_all();
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
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
