//! The second phase of a transaction: the decision is written, and each server does its part.

use super::locks::LockedParts;
use super::record::{PendingTxn, Phase, Role, encode_record, large_of, record_key};
use crate::error::Result;
use crate::namespace::Namespace;
use crate::record::Entry;
use crate::rpc::server::core::{Core, durable_write};
use crate::rpc::server::error::{RpcError, RpcResult};
use keyrack_flodb::{Batch, WriteOptions};

/// Writes the record of a transaction.
pub(crate) fn put_record(
    space: &Namespace,
    id: u128,
    record: &[u8],
    is_durable: bool,
) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(&record_key(id), record);
    write(space, &batch, is_durable)
}

fn write(space: &Namespace, batch: &Batch, is_durable: bool) -> Result<()> {
    let top = space.inner.top("a rename")?;
    let options = if is_durable { durable_write(top) } else { WriteOptions::default() };
    Ok(top.write(batch, options)?)
}

impl Core {
    /// Takes bytes of the large file that a prepared rename brings.
    pub(crate) fn receive_contents(
        &self,
        space: &Namespace,
        id: u128,
        offset: u64,
        data: &[u8],
    ) -> RpcResult {
        let all = self.txns.pending();
        let pending = all.get(&id).filter(|pending| pending.phase == Phase::Prepared);
        let entry = pending.and_then(|pending| Entry::decode(&pending.txn.entry));
        let Some(Entry::Sized(attributes)) = entry else {
            return Err(RpcError::new("ESTALE", "no rename of a large file is prepared here"));
        };
        Ok(space.inner.contents.receive(attributes.inode, offset, data)?)
    }

    /// The coordinator decides to commit: from here on the transaction will be done.
    pub(crate) fn decide(&self, space: &Namespace, id: u128) -> Result<()> {
        let mut all = self.txns.pending();
        let pending = all.get_mut(&id).expect("a transaction is pending until it is decided");
        let decided = encode_record(Phase::Decided, pending.coordinator, &pending.txn);
        let written = put_record(space, id, &decided, pending.txn.is_rename());
        match &written {
            Ok(()) => pending.phase = Phase::Decided,
            Err(_) => pending.is_uncertain = true,
        }
        written
    }

    /// Retracts a decision that the store refused: it may be in the log all the same. No other
    /// server hears of an outcome before that.
    pub(crate) fn retract_decision(&self, space: &Namespace, id: u128) -> Result<()> {
        let mut all = self.txns.pending();
        let pending = all.get_mut(&id).expect("a transaction is pending until it is over");
        let begun = encode_record(Phase::Begun, pending.coordinator, &pending.txn);
        put_record(space, id, &begun, pending.txn.is_rename())?;
        pending.is_uncertain = false;
        Ok(())
    }

    /// Commits or aborts this server's part, and unlocks the names. A second call does nothing. The
    /// coordinator keeps the record until the participants have done their parts.
    pub(crate) fn finish_txn(&self, space: &Namespace, id: u128, commits: bool) -> Result<()> {
        // It was finished before.
        let Some(pending) = self.txns.pending().get(&id).cloned() else { return Ok(()) };
        let txn = &pending.txn;
        let role = pending.role();
        if commits {
            self.apply(space, txn, role)?;
        } else if let (Role::Target, Some(inode)) = (role, large_of(&txn.entry)) {
            space.inner.contents.remove(inode)?;
        }
        let is_over = pending.phase == Phase::Prepared || !commits;
        if is_over {
            let mut batch = Batch::new();
            batch.delete(&record_key(id));
            // This makes everything durable that was done before.
            write(space, &batch, commits && txn.is_rename())?;
        }
        self.unlock(space, id, &pending)?;
        if is_over {
            self.txns.pending().remove(&id);
        }
        Ok(())
    }

    /// All servers have done their parts.
    pub(crate) fn forget_txn(&self, space: &Namespace, id: u128) -> Result<()> {
        space.inner.top("a rename")?.delete(&record_key(id))?;
        self.txns.pending().remove(&id);
        Ok(())
    }

    fn unlock(&self, space: &Namespace, id: u128, pending: &PendingTxn) -> Result<()> {
        let dirs = pending.txn.locked_dirs(pending.role(), pending.replaced);
        let parts = self.parts.get_all(space, &dirs)?;
        let mut locked = LockedParts::new(&parts);
        // A coordinator calls this until all have heard; by then another change may have revoked
        // the leases.
        if locked.unlock_names(id) {
            let changed = pending.txn.changed_dirs(pending.replaced);
            changed.into_iter().for_each(|dir| self.leases.change_done(dir));
        }
        Ok(())
    }
}
