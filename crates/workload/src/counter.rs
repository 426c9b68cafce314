//! A count of keys that the workers of a run share.
//!
//! Workers that insert take the next index from it; workers that read ask it how many keys exist.
//! An index that was taken is not yet a key that can be read: its `put` is still under way. A
//! reader that draws the newest index then misses, and a workload that prefers recent keys does so
//! often. A counter can therefore track acknowledgements, and show readers only the indexes below
//! which every insert has finished:
//!
//! ```text
//!            start            get()             issued()
//!   ... loaded  |  all finished  |  some finished   |  not taken
//!                                 ^ the first insert that is still under way
//! ```
//!
//! Finished inserts above `get()` are remembered in a ring of [`WINDOW`] slots; slot `i % WINDOW`
//! holds `i + 1` once index `i` has finished. Nothing blocks: a worker that stalls for longer than
//! a whole window is passed over, and readers may then miss its one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of inserts that may be under way before the oldest is no longer waited for.
const WINDOW: u64 = 1 << 14;

/// A shared counter of keys. Clones share one count.
#[derive(Clone, Debug)]
pub struct Counter {
    shared: Arc<Shared>,
}

/// Each half sits in its own pair of cache lines: every insert writes both, every read needs one.
#[derive(Debug)]
struct Shared {
    issued: Padded,
    visible: Padded,
    /// Empty when acknowledgements are not tracked.
    finished: Box<[AtomicU64]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Counter {
    /// A counter at `start` whose indexes count as readable as soon as they are taken.
    #[must_use]
    pub fn new(start: u64) -> Counter {
        Counter::with_slots(start, 0)
    }

    /// A counter at `start` whose indexes become readable by [`Counter::complete`].
    ///
    /// Every index taken must be completed, also when its insert failed.
    #[must_use]
    pub fn acknowledged(start: u64) -> Counter {
        Counter::with_slots(start, WINDOW)
    }

    fn with_slots(start: u64, slots: u64) -> Counter {
        Counter {
            shared: Arc::new(Shared {
                issued: Padded(AtomicU64::new(start)),
                visible: Padded(AtomicU64::new(start)),
                finished: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            }),
        }
    }

    /// Takes the next index. No index is handed out twice.
    #[inline]
    pub fn next(&self) -> u64 {
        // Relaxed: the number alone is shared; the data of the key goes through the store.
        self.shared.issued.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of keys that may be read: all indexes below it are taken, and finished if
    /// tracked.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        let source =
            if self.is_acknowledged() { &self.shared.visible } else { &self.shared.issued };
        // Acquire pairs with the exchange in `advance`: a reader that sees the count sees the keys.
        source.0.load(Ordering::Acquire)
    }

    /// The next index that [`Counter::next`] will return.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.shared.issued.0.load(Ordering::Relaxed)
    }

    /// Whether indexes wait for [`Counter::complete`] before they are readable.
    #[inline]
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        !self.shared.finished.is_empty()
    }

    /// Says that the insert of `index` has finished. Does nothing when the counter does not track
    /// it.
    ///
    /// Takes amortised constant time.
    pub fn complete(&self, index: u64) {
        let finished = &self.shared.finished;
        if finished.is_empty() {
            return;
        }
        let slots = finished.len() as u64;
        if index >= slots {
            // The slot of `index` may still be needed by an insert one window older: give that one
            // up.
            self.shared.visible.0.fetch_max(index - slots + 1, Ordering::SeqCst);
        }
        // The maximum: an insert that was given up and ends after all must not take the place of
        // the one that has its slot by now.
        finished[(index % slots) as usize].fetch_max(index.wrapping_add(1), Ordering::SeqCst);
        self.advance();
    }

    /// Moves the visible count over every finished index that follows it.
    ///
    /// Two workers may finish neighbours at the same time. The stores and loads of the slots are
    /// sequentially consistent, so at least one of the two sees both and moves over both.
    fn advance(&self) {
        let finished = &self.shared.finished;
        let slots = finished.len() as u64;
        let mut visible = self.shared.visible.0.load(Ordering::SeqCst);
        while finished[(visible % slots) as usize].load(Ordering::SeqCst) == visible + 1 {
            let moved = self.shared.visible.0.compare_exchange(
                visible,
                visible + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            visible = match moved {
                Ok(_) => visible + 1,
                Err(current) => current,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_counter_shows_what_it_issued() {
        let counter = Counter::new(10);
        let clone = counter.clone();
        assert_eq!((counter.next(), clone.next(), counter.get()), (10, 11, 12));
        counter.complete(10);
        assert_eq!((clone.get(), clone.issued()), (12, 12));
    }

    #[test]
    fn an_unfinished_insert_hides_all_later_ones() {
        let counter = Counter::acknowledged(5);
        let taken: Vec<u64> = (0..4).map(|_| counter.next()).collect();
        assert_eq!(taken, [5, 6, 7, 8]);
        assert_eq!((counter.get(), counter.issued()), (5, 9));
        counter.complete(6);
        counter.complete(8);
        assert_eq!(counter.get(), 5);
        counter.complete(5);
        assert_eq!(counter.get(), 7);
        counter.complete(7);
        assert_eq!(counter.get(), 9);
    }

    #[test]
    fn a_lost_insert_is_passed_over_after_a_window() {
        let counter = Counter::acknowledged(0);
        let lost = counter.next();
        for _ in 0..WINDOW - 1 {
            counter.complete(counter.next());
        }
        assert_eq!(counter.get(), lost);
        counter.complete(counter.next());
        assert_eq!(counter.get(), WINDOW + 1);
    }

    #[test]
    fn an_insert_that_ends_after_it_was_given_up_hides_no_later_one() {
        let counter = Counter::acknowledged(0);
        let taken: Vec<u64> = (0..=WINDOW + 1).map(|_| counter.next()).collect();
        let (late, slow) = (taken[0], taken[5]);
        // One window on, the slot of `late` belongs to another insert.
        for &index in taken.iter().filter(|index| ![late, slow].contains(index)) {
            counter.complete(index);
        }
        assert_eq!(counter.get(), slow);
        counter.complete(late);
        counter.complete(slow);
        assert_eq!(counter.get(), WINDOW + 2);
    }

    #[test]
    fn threads_never_share_an_index_and_all_become_visible() {
        // Fewer inserts than a window in all, so that a thread that is not scheduled is never given
        // up.
        let counter = Counter::acknowledged(100);
        let mut taken: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    let counter = counter.clone();
                    scope.spawn(move || {
                        let mut taken = Vec::new();
                        for _ in 0..3_000 {
                            let index = counter.next();
                            assert!(counter.get() <= index, "readable before it was finished");
                            counter.complete(index);
                            taken.push(index);
                        }
                        taken
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (100..12_100).collect::<Vec<u64>>());
        assert_eq!(counter.get(), 12_100);
    }
}
