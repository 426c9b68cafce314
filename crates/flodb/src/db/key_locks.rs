//! Locks on keys, for updates that read before they write.
//!
//! Single writes hold the lock of their key for the moment of the write, so an update that holds it
//! sees no other write between its own read and write. Nobody holds two but batches, and range
//! tombstones, which take all.
//!
//! A range has more keys than can be hashed. An update of one of them that has read must write
//! before the range tombstone, or it would bring back what it read. So a range tombstone takes
//! every lock. That costs a rare write some microseconds. A lock that all updates share would cost
//! each of them a cache line that all write to.

use super::LockRank;
use super::ranked_lock::HeldRank;
use keyrack_concurrent::KeyGuards;
use std::sync::{Mutex, MutexGuard};

const LOCKS: usize = 1 << 10;

/// Locks on keys that know their rank among the locks of the store.
pub(crate) struct KeyLocks(keyrack_concurrent::KeyLocks);

/// Locks that are held, and their rank.
pub(crate) struct Held<G> {
    _guard: G,
    _rank: HeldRank,
}

impl KeyLocks {
    pub(crate) fn new() -> Self {
        KeyLocks(keyrack_concurrent::KeyLocks::new(LOCKS))
    }

    pub(crate) fn memory_bytes() -> usize {
        LOCKS * size_of::<Mutex<()>>()
    }

    /// The lock of the key with this hash.
    #[inline]
    pub(crate) fn lock(&self, hash: u64) -> Held<MutexGuard<'_, ()>> {
        held(|| self.0.lock(hash))
    }

    /// The locks of all keys there may be: no write is under way while they are held.
    pub(crate) fn lock_every(&self) -> Held<KeyGuards<'_>> {
        held(|| self.0.lock_every())
    }

    /// The locks of all these keys.
    pub(crate) fn lock_all(&self, hashes: impl Iterator<Item = u64>) -> Held<KeyGuards<'_>> {
        held(|| self.0.lock_all(hashes))
    }
}

/// Takes the rank, and then the locks: a violation panics, and does not wait.
#[inline]
fn held<G>(take: impl FnOnce() -> G) -> Held<G> {
    let rank = HeldRank::take(LockRank::Keys);
    Held { _guard: take(), _rank: rank }
}
