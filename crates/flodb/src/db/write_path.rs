//! What a write passes on its way: the write controller, the locks of its keys, the log. Its last
//! station, the memtable, is part of the read state, and a flush makes a table of that.

use super::LockRank;
use super::events::Events;
use super::key_locks::KeyLocks;
use super::ranked_lock::RankedMutex;
use super::write_controller::WriteController;
use keyrack_wal::{Log, Recovered};

/// The state of the write path.
pub(crate) struct WritePath {
    /// Slows writers down, or stops them, when flushes or compactions fall behind.
    pub(crate) controller: WriteController,
    pub(crate) key_locks: KeyLocks,
    pub(crate) log: Log,
    /// What the log held when the store was opened, and what it had lost.
    pub(crate) recovered: Recovered,
    /// The last sequence number in the log when the store was opened.
    pub(crate) last_replayed: u64,
    /// Held while a memtable is flushed.
    pub(crate) flush_lock: RankedMutex<()>,
}

impl WritePath {
    /// The write path of a store whose log was just replayed.
    pub(crate) fn new(log: Log, recovered: Recovered, last_replayed: u64, events: Events) -> Self {
        WritePath {
            controller: WriteController::new(events),
            key_locks: KeyLocks::new(),
            log,
            recovered,
            last_replayed,
            flush_lock: RankedMutex::new(LockRank::Flush, ()),
        }
    }
}
