//! The part that a server does of a committed transaction. Doing it again does nothing: each part
//! first looks whether it was done.

use super::record::{Role, Transaction, damaged, large_of};
use crate::caller::{Caller, Found, Stat};
use crate::error::Result;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::record::{Entry, Key, Node};
use crate::rename::IfTaken;
use crate::rpc::codec::Action;
use crate::rpc::server::core::Core;
use crate::rpc::server::replica::Original;
use crate::user::User;
use keyrack_flodb::{Batch, WriteOptions};

impl Core {
    pub(crate) fn apply(&self, space: &Namespace, txn: &Transaction, role: Role) -> Result<()> {
        let root = User::root();
        let caller = space.by(&root);
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

fn make_dir(caller: &Caller<'_>, txn: &Transaction) -> Result<()> {
    let inner = caller.inner;
    let node = Node::read(inner.store_path(), txn.to, &txn.entry)?;
    let Node::Dir(node, _) = node else { return Err(damaged(inner.store_path())) };
    let (mode, uid, gid) = (node.mode, node.uid, node.gid);
    let original = Original { mode, uid, gid, inode: txn.to.0 };
    caller.mkdir_as(&inner.dir(txn.from)?, &txn.name, &original).map(|_| ())
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
    large.map_or(Ok(()), |inode| inner.contents.remove(inode))?;
    caller.touch(&from, &info, now_ns)
}

/// Writes the new name of a file.
fn put_target(caller: &Caller<'_>, txn: &Transaction) -> Result<()> {
    let inner = caller.inner;
    let now_ns = inner.time.now_ns();
    let to = inner.dir(txn.to)?;
    let info = to.state.read();
    let there = caller.lookup(txn.to, &txn.to_name)?;
    let replaced = match there {
        Some(Found::Other(there)) if !there.has_data => Some(there.inode),
        _ => None,
    };
    let received = large_of(&txn.entry);
    if let Some(inode) = received {
        inner.contents.keep_received(inode)?;
    }
    inner.top("a rename")?.put(&Key::entry(txn.to, &txn.to_name), &txn.entry)?;
    inner.name_count.add(u64::from(there.is_none()));
    if let Some(inode) = replaced.filter(|inode| Some(*inode) != received) {
        inner.contents.remove(inode)?;
    }
    caller.touch(&to, &info, now_ns)
}
