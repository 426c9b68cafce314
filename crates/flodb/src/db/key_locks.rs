//! Locks on keys, for updates that read before they write.
//!
//! A key has one of many locks, by its hash. Single writes hold it for the moment of the write, so
//! an update that holds it sees no other write between its own read and write. Nobody holds two but
//! batches, which take theirs in order, and range tombstones, which take all.
//!
//! A range has more keys than can be hashed. An update of one of them that has read must write
//! before the range tombstone, or it would bring back what it read. So a range tombstone takes
//! every lock. That costs a rare write some microseconds. A lock that all updates share would cost
//! each of them a cache line that all write to.

use super::ranked_lock::HeldRank;
use super::{LockRank, lock};
use crossbeam_utils::CachePadded;
use std::sync::{Mutex, MutexGuard};

const LOCKS: usize = 256;

pub(crate) struct KeyLocks {
    locks: Box<[CachePadded<Mutex<()>>]>,
}

/// The lock of one key.
pub(crate) struct KeyGuard<'a> {
    _guard: MutexGuard<'a, ()>,
    _held: HeldRank,
}

/// The locks of several keys.
pub(crate) struct KeyGuards<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
    _held: HeldRank,
}

impl KeyLocks {
    pub(crate) fn new() -> Self {
        KeyLocks { locks: (0..LOCKS).map(|_| CachePadded::default()).collect() }
    }

    #[inline]
    fn lock_index(&self, index: usize) -> MutexGuard<'_, ()> {
        lock(&self.locks[index])
    }

    /// The lock of the key with this hash.
    #[inline]
    pub(crate) fn lock(&self, hash: u64) -> KeyGuard<'_> {
        let held = HeldRank::take(LockRank::Keys);
        KeyGuard { _guard: self.lock_index(hash as usize % LOCKS), _held: held }
    }

    /// The locks of all keys there may be: no write is under way while they are held.
    pub(crate) fn lock_every(&self) -> KeyGuards<'_> {
        self.lock_where(|_| true)
    }

    /// The locks of all these keys.
    pub(crate) fn lock_all(&self, hashes: impl Iterator<Item = u64>) -> KeyGuards<'_> {
        let mut wanted = [false; LOCKS];
        hashes.for_each(|hash| wanted[hash as usize % LOCKS] = true);
        self.lock_where(|index| wanted[index])
    }

    fn lock_where(&self, is_wanted: impl Fn(usize) -> bool) -> KeyGuards<'_> {
        let held = HeldRank::take(LockRank::Keys);
        let wanted = (0..LOCKS).filter(|index| is_wanted(*index));
        KeyGuards { _guards: wanted.map(|index| self.lock_index(index)).collect(), _held: held }
    }
}
