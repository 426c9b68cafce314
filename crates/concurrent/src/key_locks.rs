//! Locks on keys, by their hashes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for more keys than can have one each: a key has the lock that its hash names, and shares
/// it with other keys.
///
/// A thread holds the locks of one call at a time. Those of several keys are taken in the order of
/// their numbers, so threads do not wait for each other in a circle. The locks guard no data: a
/// panic of a holder releases its locks and has no other effect.
///
/// Where `t` other threads hold the locks of `k` keys each, a thread that asks for as many waits
/// with a probability of about `t * k * k / count`.
///
/// ```
/// use keyrack_concurrent::KeyLocks;
///
/// let locks = KeyLocks::new(1 << 10);
/// let one = locks.lock(7);
/// drop(one);
/// let two_keys = locks.lock_all([7, 8]);
/// # drop(two_keys);
/// ```
#[derive(Debug)]
pub struct KeyLocks {
    locks: Box<[Mutex<()>]>,
}

/// Locks of several keys, held until this is dropped.
#[derive(Debug)]
pub struct KeyGuards<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
}

impl KeyLocks {
    /// So many locks, of 8 bytes each on Linux.
    ///
    /// # Panics
    /// When `count` is 0.
    #[must_use]
    pub fn new(count: usize) -> Self {
        assert!(count > 0, "a key has a lock");
        KeyLocks { locks: (0..count).map(|_| Mutex::default()).collect() }
    }

    /// Takes the lock of the key with this hash.
    #[inline]
    pub fn lock(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.lock_number(self.number(hash))
    }

    /// Takes the locks of the keys with these hashes. O(n log n) for n keys.
    pub fn lock_all(&self, hashes: impl IntoIterator<Item = u64>) -> KeyGuards<'_> {
        let mut numbers: Vec<usize> = hashes.into_iter().map(|hash| self.number(hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.lock_in_order(numbers)
    }

    /// Takes every lock, which excludes all other holders. O(count).
    pub fn lock_every(&self) -> KeyGuards<'_> {
        self.lock_in_order(0..self.locks.len())
    }

    #[inline]
    fn number(&self, hash: u64) -> usize {
        (hash % self.locks.len() as u64) as usize
    }

    #[inline]
    fn lock_number(&self, number: usize) -> MutexGuard<'_, ()> {
        self.locks[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_in_order(&self, numbers: impl IntoIterator<Item = usize>) -> KeyGuards<'_> {
        let guards = numbers.into_iter().map(|number| self.lock_number(number));
        KeyGuards { _guards: guards.collect() }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::thread;

    fn is_free(locks: &KeyLocks, hash: u64) -> bool {
        locks.locks[locks.number(hash)].try_lock().is_ok()
    }

    #[test]
    fn keys_without_a_common_lock_are_held_side_by_side() {
        let locks = KeyLocks::new(8);
        let held = locks.lock_all([1, 2, 9]);
        assert!([1, 2, 9, 10].iter().all(|&hash| !is_free(&locks, hash)));
        let others = locks.lock_all([3, 8]);
        assert!((4..8).all(|hash| is_free(&locks, hash)));
        drop(held);
        assert!(is_free(&locks, 1) && is_free(&locks, 2) && !is_free(&locks, 3));
        drop(others);
        drop(locks.lock_every());
    }

    #[test]
    fn a_panic_releases_its_locks() {
        let locks = KeyLocks::new(4);
        thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _held = locks.lock_all([0, 1]);
                panic!("on purpose");
            });
            assert!(panicked.join().is_err());
        });
        drop(locks.lock(0));
        drop(locks.lock_every());
    }

    /// The threads name their keys in opposite orders: with the locks taken in those, they would
    /// wait for each other in a circle.
    #[test]
    fn orders_of_keys_do_not_matter() {
        const TURNS: u64 = 20_000;
        let (locks, sum) = (KeyLocks::new(16), Mutex::new(0));
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (locks, sum) = (&locks, &sum);
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let keys = [turn, turn + 5, turn + 3];
                        let ordered = (0..3).map(|at| keys[((at + thread) % 3) as usize]);
                        let _held = locks.lock_all(ordered);
                        *sum.lock().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock().unwrap(), 4 * TURNS);
    }
}
