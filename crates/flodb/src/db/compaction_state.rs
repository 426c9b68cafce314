//! What compactions share: which ones are in progress, how fast they are, how fast they may be, and
//! what they may drop.

use super::ranked_lock::RankedMutex;
use super::rate_limiter::RateLimiter;
use super::throughput::Throughput;
use super::{DropFilter, LockRank};
use crate::compaction::InProgressCompactions;
use std::sync::OnceLock;

pub(crate) struct CompactionState {
    /// Held while a compaction is chosen.
    pub(crate) in_progress: RankedMutex<InProgressCompactions>,
    /// Limits the bytes that flushes and compactions write in a second.
    pub(crate) rate_limiter: RateLimiter,
    /// How fast flushes and compactions are: the rate of writers that are slowed down.
    pub(crate) throughput: Throughput,
    /// Set once, see [`Db::set_drop_filter`](super::Db::set_drop_filter).
    pub(crate) drop_filter: OnceLock<DropFilter>,
}

impl CompactionState {
    /// Without any compaction. Tables are written at `bytes_per_second` at most; 0 is no limit.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        CompactionState {
            in_progress: RankedMutex::new(LockRank::Compactions, InProgressCompactions::default()),
            rate_limiter: RateLimiter::new(bytes_per_second),
            throughput: Throughput::new(),
            drop_filter: OnceLock::new(),
        }
    }
}
