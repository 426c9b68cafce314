//! Names that a transaction locks until it is over.

use super::record::Role;
use crate::id::DirId;
use crate::rpc::codec::{Action, Transaction};
use crate::rpc::server::parts::{Part, State};
use std::sync::{Arc, RwLockWriteGuard};

/// The partitions of several directories, locked in the order of the directories' numbers.
pub(crate) struct LockedParts<'a>(Vec<(DirId, RwLockWriteGuard<'a, State>)>);

impl<'a> LockedParts<'a> {
    /// Locks partitions that are sorted, as [`get_all`] returns them.
    ///
    /// [`get_all`]: crate::rpc::server::parts::Parts::get_all
    pub(crate) fn new(parts: &'a [Arc<Part>]) -> LockedParts<'a> {
        LockedParts(parts.iter().map(|part| (part.dir, part.write())).collect())
    }

    pub(crate) fn state(&mut self, dir: DirId) -> &mut State {
        let at = self.0.iter().position(|locked| locked.0 == dir);
        &mut self.0[at.expect("the directory was locked")].1
    }

    /// Keeps other calls from the names, and from the directories that they stand for.
    pub(crate) fn lock_names(
        &mut self,
        id: u128,
        txn: &Transaction,
        role: Role,
        replaced: Option<DirId>,
    ) {
        for (dir, name) in txn.locked_names(role) {
            self.state(dir).locked.push((name.to_vec(), id));
        }
        match txn.action {
            Action::Rmdir => {}
            Action::Mkdir => self.state(txn.from).pins.push(id),
            Action::Rename | Action::Replace if role == Role::Source => {}
            Action::Rename | Action::Replace => self.state(txn.to).pins.push(id),
        }
        if let Some(replaced) = replaced {
            self.state(replaced).closed = Some(id);
        }
    }

    /// Releases everything that [`LockedParts::lock_names`] locked. Returns whether it locked a
    /// name until now.
    pub(crate) fn unlock_names(&mut self, id: u128) -> bool {
        let mut was_locked = false;
        for (_, state) in &mut self.0 {
            let before = state.locked.len();
            state.locked.retain(|locked| locked.1 != id);
            was_locked |= state.locked.len() < before;
            state.pins.retain(|pin| *pin != id);
            state.closed = state.closed.filter(|closed| *closed != id);
        }
        was_locked
    }
}
