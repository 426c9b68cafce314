//! Transactions that a crash interrupted: at its start a server locks their names again.

use super::locks::LockedParts;
use super::record::{PendingTxn, Role, damaged, decode_record};
use crate::caller::Found;
use crate::error::Result;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::record::{Entry, Key, parse_key};
use crate::rpc::codec::Action;
use crate::rpc::server::core::Core;

impl Core {
    /// Reads the records of pending transactions, and locks their names.
    pub(crate) fn restore_txns(&self) -> Result<()> {
        // A server that has all names to itself has no transactions.
        let Some(space) = self.space.as_ref().filter(|_| !self.parts.has_all) else {
            return Ok(());
        };
        for (id, mut pending) in records(space)? {
            let (role, replaced) = (pending.role(), replaced(space, &pending)?);
            let dirs = pending.txn.locked_dirs(role, replaced);
            let parts = self.parts.get_all(space, &dirs)?;
            LockedParts::new(&parts).lock_names(id, &pending.txn, role, replaced);
            pending.replaced = replaced;
            self.txns.pending().insert(id, pending);
        }
        Ok(())
    }
}

fn records(space: &Namespace) -> Result<Vec<(u128, PendingTxn)>> {
    let mut found = Vec::new();
    let mut iter = space.inner.top("renames")?.iter()?;
    iter.seek(&Key::entry(DirId::SYSTEM, b"move"))?;
    while let Some((key, value)) = iter.entry() {
        let Some((DirId::SYSTEM, name)) = parse_key(key) else { break };
        let Some(id) = name.strip_prefix(b"move") else { break };
        let record = decode_record(value).zip(<[u8; 16]>::try_from(id).ok());
        let Some((pending, id)) = record else {
            return Err(damaged(space.inner.store_path()));
        };
        found.push((u128::from_be_bytes(id), pending));
        iter.next()?;
    }
    Ok(found)
}

/// The directory that the transaction replaces or removes, if it is still there.
fn replaced(space: &Namespace, pending: &PendingTxn) -> Result<Option<DirId>> {
    let txn = &pending.txn;
    // Only directories are replaced or removed by all servers.
    if pending.role() != Role::Both || txn.action == Action::Mkdir {
        return Ok(None);
    }
    let (dir, name) = txn.removed_name();
    let is_moved = |found| Entry::decode(&txn.entry) == Some(Entry::Dir(found));
    Ok(match space.as_root().lookup(dir, name)? {
        // A directory that has moved there already replaces nothing.
        Some(Found::Dir(found)) if txn.action == Action::Rmdir || !is_moved(found) => Some(found),
        _ => None,
    })
}
