//! What readers look at: the current read state, and the snapshots that keep old versions alive.

use super::LockRank;
use super::ranked_lock::{RankedGuard, RankedMutex};
use crate::read_state::ReadState;
use crate::snapshot::Snapshots;
use keyrack_concurrent::{Exchanged, Guard, Swap};
use std::sync::Arc;

/// The state of the read path.
pub(crate) struct ReadPath {
    current: Swap<Arc<ReadState>>,
    exchange: RankedMutex<()>,
    pub(crate) snapshots: Arc<Snapshots>,
}

/// Proof that the read state does not change: the exchange lock is held.
pub(crate) type Exchange<'a> = RankedGuard<'a, ()>;

impl ReadPath {
    pub(crate) fn new(read_state: ReadState) -> Self {
        ReadPath {
            current: Swap::new(Arc::new(read_state)),
            exchange: RankedMutex::new(LockRank::ReadState, ()),
            snapshots: Arc::new(Snapshots::default()),
        }
    }

    /// The current read state, for as long as the guard lives. Takes no lock.
    #[inline]
    pub(crate) fn load<'g>(&'g self, guard: &'g Guard) -> &'g Arc<ReadState> {
        self.current.load(guard)
    }

    /// Waits until nobody else exchanges the read state, and keeps others from it.
    pub(crate) fn lock_exchange(&self) -> Exchange<'_> {
        self.exchange.lock()
    }

    /// Makes `next` the current read state, and returns the one before, from which it was made
    /// under `_exchange`. Readers may still look at that.
    pub(crate) fn replace(
        &self,
        next: ReadState,
        _exchange: &Exchange<'_>,
    ) -> Exchanged<Arc<ReadState>> {
        self.current.exchange(Arc::new(next))
    }
}
