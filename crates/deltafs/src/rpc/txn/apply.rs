//! The part that a server does of a committed transaction. Doing it again does nothing: each part
//! first looks whether it was done.

use super::record::{Role, damaged, large_of};
use crate::caller::{Caller, Found, Stat};
use crate::dirs::{DirInfo, DirState};
use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::inner::Dir;
use crate::name::check_name;
use crate::namespace::Namespace;
use crate::record::{DirNode, Entry, Key, Node};
use crate::remove::LockedDirs;
use crate::rename::IfTaken;
use crate::rpc::codec::{Action, Transaction};
use crate::rpc::server::core::Core;
use crate::user::{PASS, WRITE};
use keyrack_flodb::{Batch, WriteOptions};
use std::sync::Arc;

impl Core {
    pub(crate) fn apply(&self, space: &Namespace, txn: &Transaction, role: Role) -> Result<()> {
        let caller = space.as_root();
        if txn.action == Action::Mkdir {
            return make_dir(&caller, txn);
        }
        let path = space.inner.store_path();
        let entry = Entry::read(path, txn.from, &txn.name, &txn.entry)?;
        match (role, Found::of(entry)) {
            (Role::Both, Some(Found::Dir(id))) => change_dir(&caller, txn, id),
            (Role::Source, Some(Found::Other(stat))) => remove_source(&caller, txn, &stat),
            (Role::Target, Some(Found::Other(_))) => put_target(&caller, txn),
            // Two servers take part for a file, all for a directory; an entry is one of them.
            (_, _) => Err(damaged(path)),
        }
    }
}

/// Makes a directory under the number that the coordinator has given it.
fn make_dir(caller: &Caller<'_>, txn: &Transaction) -> Result<()> {
    let inner = caller.inner;
    let (id, name) = (txn.to, &txn.name[..]);
    let node = Node::read(inner.store_path(), id, &txn.entry)?;
    let Node::Dir(node, _) = node else { return Err(damaged(inner.store_path())) };
    let node = DirNode { parent: txn.from, name: name.to_vec(), ..node };
    check_name(name)?;
    if id.inode().is_file() || id <= DirId::ROOT {
        return Err(Error::Invalid(format!("'{}': not the number of a directory", shown(name))));
    }
    let dir = inner.dir(txn.from)?;
    // One that was removed a moment ago may be held by somebody: it comes to life again.
    let Some(state) = inner.dirs.peek(id) else {
        let mut info = dir.state.write();
        let Some(state) = make_dir_in(caller, &dir, &mut info, (id, node))? else {
            drop(info);
            return inner.dir(id).map(|_| ());
        };
        inner.dirs.add(&inner.layers, &state)?;
        inner.names.insert(txn.from, name, id);
        return Ok(());
    };
    if id == txn.from {
        return Err(Error::Invalid(format!("'{}': a directory is not in itself", shown(name))));
    }
    let old = Dir { state };
    let mut locked = LockedDirs::new([&dir, &old]);
    let [mut info, mut child] = locked.guards();
    if let Some(made) = make_dir_in(caller, &dir, &mut info, (id, node))? {
        *child = made.read().clone();
        old.state.touch_and_store(inner.time.now_ns());
        inner.names.insert(txn.from, name, id);
    }
    Ok(())
}

/// Writes the records. `None` if the directory is there already.
fn make_dir_in(
    caller: &Caller<'_>,
    dir: &Dir,
    info: &mut DirInfo,
    (id, node): (DirId, DirNode),
) -> Result<Option<Arc<DirState>>> {
    caller.check(info, PASS | WRITE, &node.name)?;
    match caller.lookup(dir.state.id, &node.name)? {
        Some(Found::Dir(there)) if there == id => return Ok(None),
        Some(_) => return Err(Error::Exists(shown(&node.name))),
        None => {}
    }
    let made = caller.write_dir(dir, info, id, node)?;
    caller.inner.name_count.add(1);
    Ok(Some(made))
}

/// Removes or renames the directory `id`.
fn change_dir(caller: &Caller<'_>, txn: &Transaction, id: DirId) -> Result<()> {
    let inner = caller.inner;
    let found = caller.lookup(txn.from, &txn.name)?;
    // It was done before.
    if !matches!(found, Some(Found::Dir(here)) if here == id) {
        return Ok(());
    }
    let from = inner.dir(txn.from)?;
    if txn.action == Action::Rmdir {
        return caller.rmdir_at(&from, &txn.name);
    }
    let to = inner.dir(txn.to)?;
    caller.rename_at(&from, &txn.name, &to, &txn.to_name, IfTaken::Replace)
}

/// Removes the old name of a file.
fn remove_source(caller: &Caller<'_>, txn: &Transaction, stat: &Stat) -> Result<()> {
    let inner = caller.inner;
    let now_ns = inner.time.now_ns();
    let found = caller.lookup(txn.from, &txn.name)?;
    // It was done before.
    if !matches!(found, Some(Found::Other(here)) if here.inode == stat.inode) {
        return Ok(());
    }
    let from = inner.dir(txn.from)?;
    let info = from.state.read();
    let mut batch = Batch::new();
    inner.hide(&mut batch, txn.from, &txn.name)?;
    let large = large_of(&txn.entry);
    if large.is_some() {
        inner.contents.mark()?;
    }
    inner.top("a rename")?.write(&batch, WriteOptions::default())?;
    inner.name_count.release(1);
    caller.touch(&from, &info, now_ns)?;
    drop(info);
    large.map_or(Ok(()), |inode| inner.contents.remove(inode))
}

/// Writes the new name of a file.
fn put_target(caller: &Caller<'_>, txn: &Transaction) -> Result<()> {
    let inner = caller.inner;
    let now_ns = inner.time.now_ns();
    let to = inner.dir(txn.to)?;
    let received = large_of(&txn.entry);
    if let Some(inode) = received {
        inner.contents.keep_received(inode)?;
    }
    let info = to.state.read();
    let there = caller.lookup(txn.to, &txn.to_name)?;
    let replaced = match there {
        Some(Found::Other(there)) if !there.has_data => Some(there.inode),
        _ => None,
    };
    inner.top("a rename")?.put(&Key::entry(txn.to, &txn.to_name), &txn.entry)?;
    inner.name_count.add(u64::from(there.is_none()));
    caller.touch(&to, &info, now_ns)?;
    drop(info);
    let replaced = replaced.filter(|inode| Some(*inode) != received);
    replaced.map_or(Ok(()), |inode| inner.contents.remove(inode))
}
