//! The first phase of a transaction: a server checks whether it can do its part, and locks the
//! names, so that its answer stays true. The name space does not change.

use super::commit::put_record;
use super::locks::LockedParts;
use super::record::{PendingTxn, Phase, Role, encode_record};
use crate::caller::{Caller, Found};
use crate::error::{Error, shown};
use crate::id::DirId;
use crate::inner::Dir;
use crate::namespace::Namespace;
use crate::record::Entry;
use crate::rpc::codec::{Action, Transaction};
use crate::rpc::server::core::Core;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::parts::{Access, Redirect};
use crate::rpc::server::worker::Work;
use crate::user::{PASS, WRITE};

impl Core {
    /// Checks whether this server can do its part. If so, it writes the record, and the names stay
    /// locked until the transaction is over. At the coordinator, whose phase is
    /// [`Phase::Begun`], the transaction gets its entry.
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
        if phase == Phase::Begun {
            (txn.to, txn.entry) = self.source(space, txn)?;
        }
        let txn = &*txn;
        let role = Role::of(txn, phase);
        let check = Check { space, caller: space.by(&txn.user), txn, phase, role };
        let replaced = check.replaced()?;
        let parts = self.parts.get_all(space, &txn.locked_dirs(role, replaced))?;
        let mut locked = LockedParts::new(&parts);
        if check.replaced()? != replaced {
            return Err(RpcError::new("EAGAIN", "the new name changed meanwhile: ask again"));
        }
        check.names(&mut locked, replaced)?;
        check.part(replaced)?;
        let changed = txn.changed_dirs(replaced);
        let revoked = self.revoke(&changed, None)?;
        // After a power loss the coordinator may forget what it has begun: nobody has heard of it.
        let is_durable = txn.is_rename() && phase == Phase::Prepared;
        put_record(space, id, &encode_record(phase, coordinator, txn), is_durable)?;
        // From here on leases are granted again when the names are unlocked.
        revoked.keep();
        locked.lock_names(id, txn, role, replaced);
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

    /// The directory of the new name and the entry of what is renamed, made or removed.
    fn source(&self, space: &Namespace, txn: &Transaction) -> RpcResult<(DirId, Vec<u8>)> {
        let caller = space.by(&txn.user);
        let from = open(space, txn.from, &txn.name)?;
        let part = self.parts.get(space, txn.from)?;
        let state = part.read();
        let redirect = state.admit(txn.from, &txn.name, Access::Write);
        // While a name moves, its entry here may be old: the other server may have it already.
        if let Some(retry @ Redirect::Retry(_)) = redirect {
            return Err(RpcError::redirect(txn.from, retry));
        }
        match txn.action {
            Action::Mkdir => Ok(caller.dir_to_make(&from, &txn.name, txn.target)?),
            Action::Rmdir => {
                let entry = entry(&caller, &from, &txn.name)?;
                match Entry::decode(&entry) {
                    Some(Entry::Dir(child)) => Ok((child, entry)),
                    _ => Err(Error::NotDir(shown(&txn.name)).into()),
                }
            }
            Action::Rename | Action::Replace => {
                let entry = entry(&caller, &from, &txn.name);
                // The file of a name that is not here may have gone to another server.
                let or_redirect = |error| match redirect {
                    Some(redirect) => RpcError::redirect(txn.from, redirect),
                    None => error,
                };
                Ok((txn.to, entry.map_err(or_redirect)?))
            }
        }
    }
}

fn stale(name: &[u8]) -> RpcError {
    RpcError::from(Error::Stale(shown(name)))
}

fn open(space: &Namespace, dir: DirId, name: &[u8]) -> RpcResult<Dir> {
    let inner = &space.inner;
    let state = inner.dirs.get(&inner.layers, dir)?.ok_or_else(|| stale(name))?;
    Ok(Dir { state })
}

/// The record of what is renamed.
fn entry(caller: &Caller<'_>, from: &Dir, name: &[u8]) -> RpcResult<Vec<u8>> {
    crate::name::check_name(name)?;
    caller.check(&from.state.read(), PASS, name)?;
    let now_ns = caller.inner.time.now_ns();
    let entry = caller.inner.layers.find(from.state.id, name, |entry| entry.at(now_ns).encode())?;
    let entry = entry.filter(|entry| Entry::decode(entry).is_some_and(|e| e != Entry::Whiteout));
    entry.ok_or_else(|| RpcError::from(Error::NotFound(shown(name))))
}

/// The checks of one server.
struct Check<'a> {
    space: &'a Namespace,
    caller: Caller<'a>,
    txn: &'a Transaction,
    phase: Phase,
    role: Role,
}

impl Check<'_> {
    /// The directory that the transaction replaces or removes here.
    fn replaced(&self) -> RpcResult<Option<DirId>> {
        let (dir, name) = self.txn.removed_name();
        match self.caller.lookup(dir, name)? {
            Some(Found::Dir(id)) if self.role == Role::Both && self.txn.action != Action::Mkdir => {
                Ok(Some(id))
            }
            _ => Ok(None),
        }
    }

    /// Refuses names that another server has, or that something else uses.
    fn names(&self, locked: &mut LockedParts<'_>, replaced: Option<DirId>) -> RpcResult {
        for (dir, name) in self.txn.locked_names(self.role) {
            match locked.state(dir).admit(dir, name, Access::Write) {
                // All servers take part, whichever has the directory's name.
                Some(Redirect::Elsewhere(_)) if self.role == Role::Both => {}
                Some(redirect) => return Err(RpcError::redirect(dir, redirect)),
                None => {}
            }
        }
        if let Some(replaced) = replaced {
            let state = locked.state(replaced);
            // While a partition moves, its entries here may be old, and count for nothing.
            if !state.pins.is_empty() || state.closed.is_some() || state.is_sealed {
                let message = "something comes into the directory, or leaves it: ask again";
                return Err(RpcError::new("EAGAIN", message));
            }
        }
        Ok(())
    }

    /// Refuses what the user may not do, or what the name space does not allow.
    fn part(&self, replaced: Option<DirId>) -> RpcResult {
        let Check { space, caller, txn, .. } = self;
        match self.role {
            Role::Both if txn.action == Action::Mkdir => {
                let from = open(space, txn.from, &txn.name)?;
                Ok(caller.may_make_as(&from, &txn.name, txn.to)?)
            }
            Role::Both if txn.action == Action::Rmdir => {
                let from = open(space, txn.from, &txn.name)?;
                match replaced {
                    Some(here) if here == txn.to => {
                        Ok(caller.rmdir_or_check(&from, &txn.name, true)?)
                    }
                    // It is gone here already.
                    None if self.phase == Phase::Prepared => Ok(()),
                    _ => Err(stale(&txn.name)),
                }
            }
            Role::Source => check_source(caller, &open(space, txn.from, &txn.name)?, &txn.name),
            Role::Target => {
                let to = open(space, txn.to, &txn.to_name)?;
                if txn.to_name != txn.name {
                    space.inner.name_count.check_length(&txn.to_name)?;
                }
                check_target(caller, &to, &txn.to_name, txn.action == Action::Replace)
            }
            Role::Both => {
                let from = open(space, txn.from, &txn.name)?;
                let to = open(space, txn.to, &txn.to_name)?;
                let found = caller.lookup(txn.from, &txn.name)?;
                let is_same = match (found, Entry::decode(&txn.entry)) {
                    (Some(Found::Dir(here)), Some(Entry::Dir(there))) => here == there,
                    _ => false,
                };
                if !is_same {
                    return Err(stale(&txn.name));
                }
                let how = (txn.if_taken(), true);
                Ok(caller.rename_or_check(&from, &txn.name, &to, &txn.to_name, how)?)
            }
        }
    }
}

/// Whether the file may leave its old name.
fn check_source(caller: &Caller<'_>, from: &Dir, name: &[u8]) -> RpcResult {
    let info = from.state.read();
    caller.check(&info, WRITE | PASS, name)?;
    match caller.lookup(from.state.id, name)? {
        Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
        // It was something else a moment ago.
        _ => Err(RpcError::from(Error::NotFound(shown(name)))),
    }
}

/// Whether the file may get its new name.
fn check_target(caller: &Caller<'_>, to: &Dir, name: &[u8], replace: bool) -> RpcResult {
    crate::name::check_name(name)?;
    let info = to.state.read();
    caller.check(&info, WRITE | PASS, name)?;
    match caller.lookup(to.state.id, name)? {
        None => Ok(caller.inner.name_count.check_free(name)?),
        Some(_) if !replace => Err(RpcError::from(Error::Exists(shown(name)))),
        Some(Found::Dir(_)) => Err(RpcError::from(Error::IsDir(shown(name)))),
        Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
    }
}
