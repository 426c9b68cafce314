//! Mutexes that are taken in the order of their ranks.
//!
//! Debug builds remember the ranks that each thread holds, and panic when a thread takes a lock
//! whose rank is not above all of them. So a test finds a pair of locks that two threads could take
//! in opposite orders, even if no two threads meet. Release builds keep and check nothing: a
//! [`RankedMutex`] is a [`Mutex`] with a byte more there, and a [`HeldRank`] has no size.

use super::{LockRank, lock};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// A mutex with a place in the order of locks.
#[derive(Debug)]
pub(crate) struct RankedMutex<T> {
    rank: LockRank,
    mutex: Mutex<T>,
}

impl<T> RankedMutex<T> {
    pub(crate) fn new(rank: LockRank, value: T) -> Self {
        RankedMutex { rank, mutex: Mutex::new(value) }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock whose rank is not below this one's.
    #[inline]
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        // Before the lock is taken: a violation panics, and does not wait.
        let held = HeldRank::take(self.rank);
        RankedGuard { guard: lock(&self.mutex), _held: held }
    }

    /// Takes the lock without its rank: for a test that plays another thread.
    #[cfg(test)]
    pub(crate) fn lock_unranked(&self) -> MutexGuard<'_, T> {
        lock(&self.mutex)
    }
}

/// The lock of a [`RankedMutex`]. Dropping it gives the lock back.
pub(crate) struct RankedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: HeldRank,
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A rank that the thread holds.
pub(crate) struct HeldRank {
    #[cfg(debug_assertions)]
    rank: LockRank,
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::RefCell<Vec<LockRank>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl HeldRank {
    /// Takes a rank for locks of which one thread may hold several, in an order of their own.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a rank that is not below this one.
    #[inline]
    #[cfg_attr(
        not(debug_assertions),
        expect(unused_variables, reason = "release builds keep no ranks")
    )]
    pub(crate) fn take(rank: LockRank) -> Self {
        #[cfg(debug_assertions)]
        HELD.with_borrow_mut(|held| {
            let above = held.iter().find(|held| **held >= rank);
            assert!(above.is_none(), "{rank:?} is taken while {above:?} is held");
            held.push(rank);
        });
        HeldRank {
            #[cfg(debug_assertions)]
            rank,
        }
    }
}

/// Runs a function of the user while locks are held. It may use other stores, whose locks have the
/// same ranks, so it begins with no rank held.
#[inline]
pub(crate) fn without_ranks<T>(run: impl FnOnce() -> T) -> T {
    #[cfg(debug_assertions)]
    let _aside = SetAside(HELD.take());
    run()
}

/// The ranks that the thread holds again when this is dropped.
#[cfg(debug_assertions)]
struct SetAside(Vec<LockRank>);

#[cfg(debug_assertions)]
impl Drop for SetAside {
    fn drop(&mut self) {
        HELD.set(std::mem::take(&mut self.0));
    }
}

#[cfg(debug_assertions)]
impl Drop for HeldRank {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| {
            let at = held.iter().rposition(|held| *held == self.rank);
            held.swap_remove(at.expect("a rank is held until its guard is dropped"));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_upward_and_given_back_in_any_order() {
        let first = RankedMutex::new(LockRank::Flush, 1);
        let second = RankedMutex::new(LockRank::Manifest, 2);
        let (one, two) = (first.lock(), second.lock());
        drop(one);
        drop(two);
        let two = second.lock();
        assert_eq!(*two, 2);
        drop(two);
        assert_eq!(*first.lock() + *second.lock(), 3);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Flush is taken while Some(Manifest) is held")]
    fn a_lock_of_a_lower_rank_is_refused() {
        let first = RankedMutex::new(LockRank::Flush, ());
        let second = RankedMutex::new(LockRank::Manifest, ());
        let _two = second.lock();
        let _one = first.lock();
    }
}
