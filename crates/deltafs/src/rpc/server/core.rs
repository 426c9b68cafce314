//! The state that all threads of a server share.

use super::error::{RpcError, RpcResult};
use super::leases::{Leases, Revoked};
use super::parts::{Part, Parts};
use super::worker::Work;
use crate::id::{DirId, Inode};
use crate::namespace::Namespace;
use crate::rpc::txn::operations::Operations;
use crate::rpc::txn::table::Transactions;
use keyrack_flodb::{Db, Durability, WriteOptions};
use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Names and values as they are in the log.
pub(crate) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// An incoming partition, in memory until it is installed.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) attempt: u64,
    pub(crate) records: Records,
    /// What the records take in a batch, at most.
    pub(crate) bytes: usize,
    /// Large files whose bytes have come.
    pub(crate) contents: Vec<Inode>,
}

/// Incoming partitions, by directory and number.
pub(crate) type StagedParts = HashMap<(DirId, u32), Staged>;

/// The name space of a server and what its handlers share.
#[derive(Debug)]
pub(crate) struct Core {
    /// A dummy server has none.
    pub(crate) space: Option<Namespace>,
    pub(crate) parts: Parts,
    staged: Mutex<StagedParts>,
    /// To the background worker, once the servers know each other.
    pub(crate) work: OnceLock<Sender<Work>>,
    pub(crate) txns: Transactions,
    pub(crate) operations: Operations,
    /// Only the first server grants leases.
    pub(crate) leases: Leases,
}

impl Core {
    pub(crate) fn new(space: Option<Namespace>, parts: Parts, leases: Leases) -> Core {
        let epoch = space.as_ref().map_or(0, Namespace::epoch);
        Core {
            space,
            parts,
            staged: Mutex::default(),
            work: OnceLock::new(),
            txns: Transactions::default(),
            operations: Operations::new(epoch),
            leases,
        }
    }

    /// The name space; only servers that have one split partitions or take part in transactions.
    pub(crate) fn space(&self) -> &Namespace {
        self.space.as_ref().expect("a dummy has no partitions")
    }

    pub(crate) fn staged(&self) -> MutexGuard<'_, StagedParts> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partition map of a directory, for clients.
    pub(crate) fn map_of(&self, part: &Part) -> Vec<u8> {
        if self.parts.has_all { self.parts.widest() } else { part.read().map.to_bytes() }
    }

    /// Revokes all leases on directories that are about to change, but those of `client`. No lease
    /// on them is granted while the guard lives.
    ///
    /// # Errors
    /// `EAGAIN` while another client has a lease, or another change is in progress.
    pub(crate) fn revoke<'a>(
        &'a self,
        dirs: &'a [DirId],
        client: Option<[u8; 16]>,
    ) -> RpcResult<Revoked<'a>> {
        // The other servers grant no leases.
        let dirs = if self.parts.server == 0 { dirs } else { &[] };
        self.leases.revoke_all(dirs, client).ok_or_else(|| {
            let message = "leases on the directory are called back, or somebody changes it";
            RpcError::new("EAGAIN", message)
        })
    }

    /// Hands work to the background worker. Before the servers know each other there is no worker,
    /// and nothing for it to do.
    pub(crate) fn enqueue(&self, work: Work) {
        if let Some(sender) = self.work.get() {
            // The worker ends only when its server does.
            let _ = sender.send(work);
        }
    }
}

/// The options of a write that must survive a power loss before another server hears of it. Without
/// a log no write does, and a flush for each would cost more than it saves.
pub(crate) fn durable_write(top: &Db) -> WriteOptions {
    WriteOptions { sync: top.options().durability != Durability::None }
}
