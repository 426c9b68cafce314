//! One call of a client on a directory that it has open: the name is looked for here, held while it
//! is changed, and what came of it is answered.

use super::core::{Core, RpcError, RpcResult, Work};
use super::dispatch::{alone, opened};
use super::pages::page;
use super::parts::{Access, State};
use super::session::{Opened, Session};
use crate::attributes::{SetAttributes, SetTime};
use crate::caller::{Caller, Found, Kind};
use crate::id::DirId;
use crate::inner::Dir;
use crate::make::IfExists;
use crate::namespace::Namespace;
use crate::rename::IfTaken;
use crate::rpc::codec::{Action, Facts, HOW_OPEN, HOW_UNCHECKED, Reply, Request, SetFields};
use crate::rpc::errno::code_of;
use crate::rpc::txn::record::Transaction;
use std::sync::RwLockReadGuard;

/// Bytes of a file in an answer, at most.
const READ_BYTES_MAX: usize = 512 << 10;

/// Whether a name is here. As long as what comes back is held, it stays.
fn admitted<'a>(
    at: &'a Opened,
    name: &[u8],
    access: Access,
) -> RpcResult<RwLockReadGuard<'a, State>> {
    let state = at.part.read();
    match state.admit(at.part.dir, name, access) {
        None => Ok(state),
        Some(redirect) => Err(RpcError::redirect(at.part.dir, redirect)),
    }
}

/// A call, who makes it, and for whom.
pub(crate) struct Call<'a> {
    core: &'a Core,
    caller: Caller<'a>,
    session: &'a Session,
}

impl<'a> Call<'a> {
    pub(crate) fn new(core: &'a Core, space: &'a Namespace, session: &'a Session) -> Call<'a> {
        Call { core, caller: space.by(&session.user), session }
    }
}

impl Call<'_> {
    fn at(&self, dir: u32) -> RpcResult<&Opened> {
        opened(self.session, dir)
    }

    /// Files were made in a directory.
    fn made(&self, at: &Opened, files: usize) {
        if files > 0 && at.part.made(i64::try_from(files).unwrap_or(i64::MAX)) {
            self.core.enqueue(Work::CheckSplit(at.part.dir));
        }
    }

    /// Carries it out and appends the fields of its reply.
    pub(crate) fn run(
        &self,
        space: &Namespace,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> RpcResult {
        let caller = &self.caller;
        match request {
            Request::Create { dir, name, mode, how } => {
                let at = self.at(*dir)?;
                let held = admitted(at, name, Access::Write)?;
                let (is_new, inode) = create(caller, &at.dir, name, *mode, *how)?;
                drop(held);
                self.made(at, usize::from(is_new));
                Reply::Made { is_new, inode }.fields(out);
            }
            Request::CreateMany { dir, mode, how, names } => {
                let at = self.at(*dir)?;
                let state = at.part.read();
                let mut made = 0;
                let codes: Vec<u8> = names
                    .iter()
                    .map(|name| match state.admit(at.part.dir, name, Access::Write) {
                        Some(redirect) => RpcError::redirect(at.part.dir, redirect).code,
                        None => match create(caller, &at.dir, name, *mode, *how) {
                            Ok((is_new, _)) => {
                                made += usize::from(is_new);
                                0
                            }
                            Err(error) => code_of(error.errno()),
                        },
                    })
                    .collect();
                drop(state);
                self.made(at, made);
                Reply::Codes(&codes).fields(out);
            }
            Request::CreateWith { dir, name, mode, data } => {
                let at = self.at(*dir)?;
                let held = admitted(at, name, Access::Write)?;
                let made = caller.create_with_at(&at.dir, name, *mode, data)?;
                drop(held);
                self.made(at, usize::from(made.is_new));
                let inode = made.stat.inode.to_u128();
                Reply::Made { is_new: made.is_new, inode }.fields(out);
            }
            Request::Lookup { dir, name } | Request::Stat { dir, name } => {
                let at = self.at(*dir)?;
                let stat = match name.is_empty() {
                    true => caller.stat_dir(&at.dir)?,
                    false => {
                        let _held = admitted(at, name, Access::Read)?;
                        caller.stat_at(&at.dir, name)?
                    }
                };
                Reply::Facts(Facts(stat)).fields(out);
            }
            Request::StatDir { dir } => {
                Reply::Facts(Facts(caller.stat_dir(&self.at(*dir)?.dir)?)).fields(out);
            }
            Request::SetAttributes { dir, name, set } => {
                let (at, set) = (self.at(*dir)?, attributes(set));
                let changes_way = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
                let (held, dir) = match name.is_empty() {
                    true => (None, Some(at.part.dir)),
                    false => {
                        let held = admitted(at, name, Access::Write)?;
                        (Some(held), self.dir_id(at, name)?)
                    }
                };
                let dir = dir.filter(|_| changes_way);
                let stat = self.with_leases(dir.as_slice(), || match name.is_empty() {
                    true => caller.set_dir_attributes(&at.dir, &set),
                    false => caller.set_attributes_at(&at.dir, name, &set),
                })?;
                drop(held);
                Reply::Facts(Facts(stat)).fields(out);
            }
            Request::ReadDir { dir, after, count, plus } => {
                page((self.core, caller), self.at(*dir)?, after, *count, *plus, out)?;
            }
            Request::Unlink { dir, name } => {
                let at = self.at(*dir)?;
                let _held = admitted(at, name, Access::Write)?;
                caller.unlink_at(&at.dir, name)?;
            }
            Request::Rmdir { dir, name } => self.rmdir(self.at(*dir)?, name)?,
            Request::MkdirAcross { dir, name, mode } => {
                let at = self.at(*dir)?;
                let alone = || Ok(caller.mkdir_at(&at.dir, name, *mode).map(|_| ())?);
                self.start_operation(self.new_txn(Action::Mkdir, at, name, *mode), alone, out)?;
            }
            Request::RmdirAcross { dir, name } => {
                let at = self.at(*dir)?;
                let alone = || self.rmdir(at, name);
                self.start_operation(self.new_txn(Action::Rmdir, at, name, 0), alone, out)?;
            }
            Request::Rename { dir, name, to_dir, to_name, replace } => {
                let if_taken = if *replace { IfTaken::Replace } else { IfTaken::Fail };
                let (from, to) = (self.at(*dir)?, self.at(*to_dir)?);
                // In one order, so that two renames do not wait for each other behind a split.
                let is_one = from.part.dir == to.part.dir;
                let mut both = [(from, name), (to, to_name)];
                if from.part.dir > to.part.dir {
                    both.reverse();
                }
                let _first = admitted(both[0].0, both[0].1, Access::Write)?;
                let _second = match is_one {
                    // The lock is held already.
                    true => match _first.admit(to.part.dir, both[1].1, Access::Write) {
                        None => None,
                        Some(redirect) => return Err(RpcError::redirect(to.part.dir, redirect)),
                    },
                    false => Some(admitted(both[1].0, both[1].1, Access::Write)?),
                };
                if !self.core.parts.has_all {
                    let found = caller.stat_at(&from.dir, name)?;
                    if found.kind == Kind::Dir {
                        let words = "a directory on several servers is renamed by all of them";
                        return Err(RpcError::new("EXDEV", words));
                    }
                }
                let moved = self.dir_id(from, name)?;
                let replaced = self.dir_id(to, to_name)?.filter(|_| moved.is_some());
                let mut dirs: Vec<DirId> = moved.into_iter().chain(replaced).collect();
                // Onto itself, it is one.
                dirs.dedup();
                self.with_leases(&dirs, || {
                    caller.rename_at(&from.dir, name, &to.dir, to_name, if_taken)
                })?;
                self.made(to, 1);
            }
            Request::RenameAcross { dir, name, to_dir, to_name, replace, target } => {
                let (from, to) = (self.at(*dir)?, self.at(*to_dir)?);
                let what = if *replace { Action::Replace } else { Action::Rename };
                let txn = Transaction {
                    to: to.part.dir,
                    to_name: to_name.to_vec(),
                    ..self.new_txn(what, from, name, *target)
                };
                let if_taken = if *replace { IfTaken::Replace } else { IfTaken::Fail };
                let alone = || Ok(caller.rename_at(&from.dir, name, &to.dir, to_name, if_taken)?);
                self.start_operation(txn, alone, out)?;
            }
            Request::Operation { number } => self.core.txns.operation_outcome(*number)?,
            Request::Symlink { dir, name, target } => {
                let at = self.at(*dir)?;
                let held = admitted(at, name, Access::Write)?;
                let stat = caller.symlink_at(target, &at.dir, name)?;
                drop(held);
                self.made(at, 1);
                Reply::Facts(Facts(stat)).fields(out);
            }
            Request::ReadLink { dir, name } => {
                let at = self.at(*dir)?;
                let _held = admitted(at, name, Access::Read)?;
                Reply::Data(&caller.read_link_at(&at.dir, name)?).fields(out);
            }
            Request::Read { dir, name, offset, count } => {
                let at = self.at(*dir)?;
                let _held = admitted(at, name, Access::Read)?;
                let count = (*count as usize).min(READ_BYTES_MAX);
                Reply::Data(&caller.read_at(&at.dir, name, *offset, count)?).fields(out);
            }
            Request::Write { dir, name, offset, data } => {
                let at = self.at(*dir)?;
                let _held = admitted(at, name, Access::Write)?;
                let stat = caller.write_at(&at.dir, name, *offset, data)?;
                Reply::Facts(Facts(stat)).fields(out);
            }
            Request::BulkIn { dir, entries, paths } => {
                let at = self.at(*dir)?;
                let state = at.part.read();
                let mut redirect = None;
                let is_here = &mut |name: &[u8]| {
                    redirect = state.admit(at.part.dir, name, Access::Write);
                    redirect.is_none()
                };
                let taken = caller.bulk_in(&at.dir, *entries, paths, is_here);
                if let Some(redirect) = redirect {
                    return Err(RpcError::redirect(at.part.dir, redirect));
                }
                let count = taken?;
                drop(state);
                self.made(at, usize::try_from(count).unwrap_or(usize::MAX));
                Reply::Count(count).fields(out);
            }
            Request::Revoked => {
                Reply::Inodes(self.core.leases.return_revoked(&self.session.client)).fields(out);
            }
            Request::Flush => space.flush()?,
            Request::Ping => {}
            Request::Partitions { dir } => {
                Reply::Data(&self.core.map_of(&self.at(*dir)?.part)).fields(out);
            }
            Request::Spread { dir } => {
                let part = &self.at(*dir)?.part;
                let mut state = part.write();
                if !self.core.parts.has_all && !state.shards.is_empty() {
                    state.spreads = true;
                    self.core.enqueue(Work::CheckSplit(part.dir));
                }
            }
            // Those above have their own ways.
            Request::Hello { .. }
            | Request::Map
            | Request::OpenDir { .. }
            | Request::CloseDir { .. }
            | Request::Mkdir { .. }
            | Request::Peer(_) => return Err(RpcError::new("EPROTO", "out of place")),
        }
        Ok(())
    }

    /// The directory of that name, if it is one.
    fn dir_id(&self, at: &Opened, name: &[u8]) -> RpcResult<Option<DirId>> {
        crate::check_name(name)?;
        Ok(match self.caller.lookup(at.part.dir, name)? {
            Some(Found::Dir(id)) => Some(id),
            _ => None,
        })
    }

    /// Changes directories once nobody has a lease on them.
    fn with_leases<R>(
        &self,
        dirs: &[DirId],
        change: impl FnOnce() -> crate::error::Result<R>,
    ) -> RpcResult<R> {
        let core = self.core;
        let mut taken = 0;
        let all = dirs.iter().try_for_each(|dir| {
            core.revoke(*dir, Some(self.session.client))?;
            taken += 1;
            Ok(())
        });
        let changed = all.and_then(|()| Ok(change()?));
        dirs[..taken].iter().for_each(|dir| core.leases.change_done(*dir));
        changed
    }

    fn rmdir(&self, at: &Opened, name: &[u8]) -> RpcResult {
        alone(self.core)?;
        let child = self.dir_id(at, name)?;
        self.with_leases(child.as_slice(), || self.caller.rmdir_at(&at.dir, name))
    }

    /// Hands over what several servers do together. Where there is one, or nothing changes, it is
    /// done at once.
    fn start_operation(
        &self,
        txn: Transaction,
        alone: impl FnOnce() -> RpcResult,
        out: &mut Vec<u8>,
    ) -> RpcResult {
        let core = self.core;
        if core.parts.has_all {
            alone()?;
            let operation = core.txns.begin_operation()?;
            core.txns.finish_operation(operation, Ok(()));
            Reply::Count(operation).fields(out);
            return Ok(());
        }
        if core.work.get().is_none() {
            return Err(RpcError::new("EBUSY", "the servers are still meeting: ask again"));
        }
        let operation = core.txns.begin_operation()?;
        core.enqueue(Work::Coordinate(operation, txn, 0));
        Reply::Count(operation).fields(out);
        Ok(())
    }

    /// What is done to a directory; the number of one comes later.
    fn new_txn(&self, action: Action, at: &Opened, name: &[u8], mode: u32) -> Transaction {
        let dir = at.part.dir;
        Transaction {
            user: self.session.user.clone(),
            from: dir,
            name: name.to_vec(),
            to: dir,
            to_name: name.to_vec(),
            action,
            target: mode,
            entry: Vec::new(),
        }
    }
}

fn create(
    caller: &Caller<'_>,
    dir: &Dir,
    name: &[u8],
    mode: u32,
    how: u8,
) -> crate::error::Result<(bool, u128)> {
    if how == HOW_UNCHECKED {
        return caller.create_unchecked_at(dir, name, mode).map(|()| (true, 0));
    }
    let if_exists = if how == HOW_OPEN { IfExists::Open } else { IfExists::Fail };
    let made = caller.create_at(dir, name, mode, if_exists)?;
    Ok((made.is_new, made.stat.inode.to_u128()))
}

fn attributes(set: &SetFields) -> SetAttributes {
    SetAttributes {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        mtime: set.mtime_ns.map(SetTime::Ns),
    }
}
