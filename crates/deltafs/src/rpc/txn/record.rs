//! A transaction, and its record in the log.
//!
//! The key is `move` and the id of the transaction, among the records about the log:
//!
//! ```text
//!   phase: u8 (0 prepared, 1 begun, 2 decided) | coordinator: u32 | the fields of a rename
//! ```

use crate::error::{Error, Result};
use crate::id::{DirId, Inode};
use crate::record::{Entry, KIND_DIR, KIND_ENTRY, Key};
use crate::rename::IfTaken;
use crate::rpc::codec::{Action, Peer, Transaction};
use std::path::Path;

/// The part of a server in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has the file under the old name.
    Source,
    /// It gets the file.
    Target,
    /// It has the directory, as all servers have.
    Both,
}

impl Role {
    /// The part of a server whose record is in this phase.
    pub(crate) fn of(txn: &Transaction, phase: Phase) -> Role {
        match (txn.is_dir(), phase) {
            (true, _) => Role::Both,
            (false, Phase::Prepared) => Role::Target,
            (false, _) => Role::Source,
        }
    }
}

/// How far a transaction has come at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// A participant is ready to commit, and waits for the decision.
    Prepared = 0,
    /// The coordinator has asked the participants.
    Begun = 1,
    /// The coordinator has decided to commit.
    Decided = 2,
}

/// A transaction that has locked names on this server.
#[derive(Clone, Debug)]
pub(crate) struct PendingTxn {
    pub(crate) phase: Phase,
    pub(crate) coordinator: u32,
    pub(crate) txn: Transaction,
    /// The directory that a commit replaces or removes.
    pub(crate) replaced: Option<DirId>,
    /// Rounds of the background worker since it was prepared. A participant that has waited for
    /// long asks the coordinator.
    pub(crate) rounds: u32,
    /// The store refused the decision, which may be in the log all the same.
    pub(crate) is_uncertain: bool,
}

impl PendingTxn {
    pub(crate) fn role(&self) -> Role {
        Role::of(&self.txn, self.phase)
    }
}

impl Transaction {
    pub(crate) fn is_dir(&self) -> bool {
        matches!(self.entry.first(), Some(&(KIND_ENTRY | KIND_DIR)))
    }

    pub(crate) fn if_taken(&self) -> IfTaken {
        if self.action == Action::Replace { IfTaken::Replace } else { IfTaken::Fail }
    }

    /// Directories whose path or rights change: no client may have a lease on them.
    pub(crate) fn changed_dirs(&self, replaced: Option<DirId>) -> Vec<DirId> {
        match (self.action, Entry::decode(&self.entry)) {
            (Action::Rename | Action::Replace, Some(Entry::Dir(moved))) => {
                // A rename onto itself has one directory.
                replaced.filter(|replaced| *replaced != moved).into_iter().chain([moved]).collect()
            }
            (Action::Rmdir, _) => replaced.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The name whose directory is replaced or removed.
    pub(crate) fn removed_name(&self) -> (DirId, &[u8]) {
        match self.action {
            Action::Rmdir => (self.from, &self.name),
            _ => (self.to, &self.to_name),
        }
    }

    /// Whether it moves something from one name to another. What was durable under the old name
    /// must then survive a power loss of any server.
    pub(crate) fn is_rename(&self) -> bool {
        matches!(self.action, Action::Rename | Action::Replace)
    }

    /// The directories of the names that a server locks, and the one that is replaced.
    pub(crate) fn locked_dirs(&self, role: Role, replaced: Option<DirId>) -> Vec<DirId> {
        self.locked_names(role).iter().map(|name| name.0).chain(replaced).collect()
    }

    /// The names that a server locks.
    pub(crate) fn locked_names(&self, role: Role) -> Vec<(DirId, &[u8])> {
        let (old, new) = ((self.from, &self.name[..]), (self.to, &self.to_name[..]));
        match role {
            Role::Source => vec![old],
            Role::Target => vec![new],
            Role::Both if matches!(self.action, Action::Mkdir | Action::Rmdir) => vec![old],
            Role::Both => vec![old, new],
        }
    }
}

pub(crate) fn record_key(id: u128) -> Key {
    let mut name = [0; 20];
    name[..4].copy_from_slice(b"move");
    name[4..].copy_from_slice(&id.to_be_bytes());
    Key::entry(DirId::SYSTEM, &name)
}

pub(crate) fn encode_record(phase: Phase, coordinator: u32, txn: &Transaction) -> Vec<u8> {
    let mut out = vec![phase as u8];
    out.extend_from_slice(&coordinator.to_le_bytes());
    txn.fields(&mut out);
    out
}

pub(crate) fn decode_record(record: &[u8]) -> Option<PendingTxn> {
    let (&phase, rest) = record.split_first()?;
    let (coordinator, rest) = rest.split_first_chunk::<4>()?;
    let phase = match phase {
        0 => Phase::Prepared,
        1 => Phase::Begun,
        2 => Phase::Decided,
        _ => return None,
    };
    let txn = Transaction::read(rest)?;
    Some(PendingTxn {
        phase,
        coordinator: u32::from_le_bytes(*coordinator),
        txn,
        replaced: None,
        rounds: 0,
        is_uncertain: false,
    })
}

/// The number of a large file, if that is what is renamed.
pub(crate) fn large_of(entry: &[u8]) -> Option<Inode> {
    match Entry::decode(entry) {
        Some(Entry::Sized(attributes)) => Some(attributes.inode),
        _ => None,
    }
}

/// The error of a record of a rename that cannot be read.
pub(crate) fn damaged(store: &Path) -> Error {
    let what = "the record of a rename is damaged".to_owned();
    Error::Corruption { path: store.to_owned(), what }
}

/// The large file that the record of a rename has: its bytes may be here before its entry.
///
/// # Errors
/// [`Error::Corruption`]: what a damaged record names must not be taken for nobody's.
pub(crate) fn large_in_record(store: &Path, record: &[u8]) -> Result<Option<Inode>> {
    let pending = decode_record(record).ok_or_else(|| damaged(store))?;
    Ok(large_of(&pending.txn.entry))
}

/// The request that a coordinator sends.
pub(crate) fn prepare_request(id: u128, coordinator: u32, txn: &Transaction) -> Peer<'static> {
    Peer::Prepare { id, coordinator, txn: txn.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was taken for one without a large file: the file's bytes were removed as nobody's.
    #[test]
    fn a_damaged_record_of_a_rename_is_damage_and_not_a_record_without_bytes() {
        for record in [&b""[..], b"junk", &[9; 40]] {
            let error = large_in_record(Path::new("/log"), record).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
            assert!(error.to_string().starts_with("/log: "), "{error}");
        }
    }
}
