//! Whether a server can take part in what several do to a name: it looks, and then holds the names,
//! so that its answer stays true. Nothing of the name space changes.

use super::record::{PendingTxn, Phase, Role, Transaction, encode_record};
use super::table::{LockedParts, put_record};
use crate::caller::{Caller, Found};
use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::inner::Dir;
use crate::namespace::Namespace;
use crate::record::Entry;
use crate::rpc::codec::Action;
use crate::rpc::server::core::{Core, RpcError, RpcResult, Work};
use crate::rpc::server::parts::{Access, Redirect};
use crate::user::{PASS, WRITE};

impl Core {
    /// Looks whether this server can do its part; if so it holds the names from here on, and the
    /// record is written. The coordinator gets the entry into its order.
    pub(crate) fn prepare(
        &self,
        space: &Namespace,
        id: u128,
        (phase, coordinator): (Phase, u32),
        txn: &mut Transaction,
    ) -> RpcResult {
        if self.txns.pending().contains_key(&id) {
            return Ok(());
        }
        let inner = &space.inner;
        let caller = space.by(&txn.user);
        let stale = |name: &[u8]| RpcError::from(Error::Stale(shown(name)));
        let open = |dir: DirId, name: &[u8]| -> RpcResult<Dir> {
            let state = inner.dirs.get(&inner.layers, dir)?.ok_or_else(|| stale(name))?;
            Ok(Dir { state })
        };
        if phase == Phase::Begun {
            let from = open(txn.from, &txn.name)?;
            let part = self.parts.get(space, txn.from)?;
            let state = part.read();
            let redirect = state.admit(txn.from, &txn.name, Access::Write);
            // What is here of a name that moves may be old: the other server may have it already.
            if let Some(later @ Redirect::Retry(_)) = redirect {
                return Err(RpcError::redirect(txn.from, later));
            }
            (txn.to, txn.entry) = match txn.action {
                Action::Mkdir => caller.dir_to_make(&from, &txn.name, txn.target)?,
                Action::Rmdir => (txn.to, self.source_entry(&caller, &from, &txn.name)?),
                Action::Rename | Action::Replace => {
                    let entry = self.source_entry(&caller, &from, &txn.name);
                    // The file of a name that is not here may have gone to another server.
                    let or_elsewhere = |error| match redirect {
                        Some(redirect) => RpcError::redirect(txn.from, redirect),
                        None => error,
                    };
                    (txn.to, entry.map_err(or_elsewhere)?)
                }
            };
            match (txn.action, Entry::decode(&txn.entry)) {
                (Action::Rmdir, Some(Entry::Dir(child))) => txn.to = child,
                (Action::Rmdir, _) => return Err(Error::NotDir(shown(&txn.name)).into()),
                _ => {}
            }
        }
        let role = match (txn.is_dir(), phase) {
            (true, _) => Role::Both,
            (false, Phase::Prepared) => Role::Target,
            (false, _) => Role::Source,
        };
        let replaced_now = || -> Result<Option<DirId>> {
            let (dir, name) = txn.removed_name();
            match caller.lookup(dir, name)? {
                Some(Found::Dir(id)) if role == Role::Both && txn.action != Action::Mkdir => {
                    Ok(Some(id))
                }
                _ => Ok(None),
            }
        };
        let replaced = replaced_now()?;
        let dirs: Vec<DirId> =
            txn.locked_names(role).iter().map(|name| name.0).chain(replaced).collect();
        let parts = self.parts_of(space, &dirs)?;
        let mut locked = LockedParts::new(&parts);
        if replaced_now()? != replaced {
            return Err(RpcError::new("EAGAIN", "the new name changed meanwhile: ask again"));
        }
        for (dir, name) in txn.locked_names(role) {
            match locked.state(dir).admit(dir, name, Access::Write) {
                // Whoever has a directory's name, all take part.
                Some(Redirect::Elsewhere(_)) if role == Role::Both => {}
                Some(redirect) => return Err(RpcError::redirect(dir, redirect)),
                None => {}
            }
        }
        if let Some(replaced) = replaced {
            let state = locked.state(replaced);
            // What is here of a part that moves may be old, too, and is no entry then.
            if !state.pins.is_empty() || state.closed.is_some() || state.is_sealed {
                let words = "something comes into the directory, or leaves it: ask again";
                return Err(RpcError::new("EAGAIN", words));
            }
        }
        match role {
            Role::Both if txn.action == Action::Mkdir => {
                let from = open(txn.from, &txn.name)?;
                caller.may_make_as(&from, &txn.name, txn.to)?;
            }
            Role::Both if txn.action == Action::Rmdir => {
                let from = open(txn.from, &txn.name)?;
                match replaced {
                    Some(here) if here == txn.to => {
                        caller.rmdir_or_check(&from, &txn.name, true)?;
                    }
                    // It is gone here already.
                    None if phase == Phase::Prepared => {}
                    _ => return Err(stale(&txn.name)),
                }
            }
            Role::Source => {
                let from = open(txn.from, &txn.name)?;
                self.check_source(&caller, &from, &txn.name)?;
            }
            Role::Target => {
                let to = open(txn.to, &txn.to_name)?;
                if txn.to_name != txn.name {
                    inner.name_count.check_length(&txn.to_name)?;
                }
                self.check_target(&caller, &to, &txn.to_name, txn.action == Action::Replace)?;
            }
            Role::Both => {
                let (from, to) = (open(txn.from, &txn.name)?, open(txn.to, &txn.to_name)?);
                let found = caller.lookup(txn.from, &txn.name)?;
                let is_same = match (found, Entry::decode(&txn.entry)) {
                    (Some(Found::Dir(here)), Some(Entry::Dir(there))) => here == there,
                    _ => false,
                };
                if !is_same {
                    return Err(stale(&txn.name));
                }
                let how = (txn.if_taken(), true);
                caller.rename_or_check(&from, &txn.name, &to, &txn.to_name, how)?;
            }
        }
        let changed = txn.changed_dirs(replaced);
        for (taken, dir) in changed.iter().enumerate() {
            if let Err(error) = self.revoke(*dir, None) {
                changed[..taken].iter().for_each(|dir| self.leases.change_done(*dir));
                return Err(error);
            }
        }
        // The coordinator begins nothing that others would have to know of after a power loss.
        let lasts = txn.is_rename() && phase == Phase::Prepared;
        let written = put_record(space, id, &encode_record(phase, coordinator, txn), lasts);
        if let Err(error) = written {
            changed.iter().for_each(|dir| self.leases.change_done(*dir));
            return Err(error.into());
        }
        self.lock_names(&mut locked, id, txn, (role, replaced));
        drop(locked);
        let txn = txn.clone();
        let pending =
            PendingTxn { phase, coordinator, txn, replaced, rounds: 0, is_uncertain: false };
        self.txns.pending().insert(id, pending);
        if phase == Phase::Prepared {
            self.enqueue(Work::AskOutcome(id));
        }
        Ok(())
    }

    /// The record of what is to be renamed.
    fn source_entry(&self, caller: &Caller<'_>, from: &Dir, name: &[u8]) -> RpcResult<Vec<u8>> {
        crate::check_name(name)?;
        caller.check(&from.state.read(), PASS, name)?;
        let now_ns = caller.inner.time.now_ns();
        let entry =
            caller.inner.layers.find(from.state.id, name, |entry| entry.at(now_ns).encode())?;
        let entry =
            entry.filter(|entry| Entry::decode(entry).is_some_and(|e| e != Entry::Whiteout));
        entry.ok_or_else(|| RpcError::from(Error::NotFound(shown(name))))
    }

    fn check_source(&self, caller: &Caller<'_>, from: &Dir, name: &[u8]) -> RpcResult {
        let info = from.state.read();
        caller.check(&info, WRITE | PASS, name)?;
        match caller.lookup(from.state.id, name)? {
            Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
            // It was something else a moment ago.
            _ => Err(RpcError::from(Error::NotFound(shown(name)))),
        }
    }

    fn check_target(&self, caller: &Caller<'_>, to: &Dir, name: &[u8], replace: bool) -> RpcResult {
        crate::check_name(name)?;
        let info = to.state.read();
        caller.check(&info, WRITE | PASS, name)?;
        match caller.lookup(to.state.id, name)? {
            None => Ok(caller.inner.name_count.check_free(name)?),
            Some(_) if !replace => Err(RpcError::from(Error::Exists(shown(name)))),
            Some(Found::Dir(_)) => Err(RpcError::from(Error::IsDir(shown(name)))),
            Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
        }
    }
}
