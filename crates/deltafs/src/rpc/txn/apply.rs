//! The part that a server does of what several do to a name. Doing it again does nothing: each way
//! looks first whether it was done.

use super::record::{Role, Transaction, damaged, large_of};
use crate::caller::Found;
use crate::error::Result;
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
        let inner = &space.inner;
        let root = User::root();
        let caller = space.by(&root);
        let now_ns = inner.time.now_ns();
        if txn.action == Action::Mkdir {
            let node = Node::read(inner.store_path(), txn.to, &txn.entry)?;
            let Node::Dir(node, _) = node else { return Err(damaged(inner.store_path())) };
            let (mode, uid, gid) = (node.mode, node.uid, node.gid);
            let original = Original { mode, uid, gid, inode: txn.to.0 };
            return caller.mkdir_as(&inner.dir(txn.from)?, &txn.name, &original).map(|_| ());
        }
        let entry = Entry::read(inner.store_path(), txn.from, &txn.name, &txn.entry)?;
        match (role, Found::of(entry)) {
            (Role::Both, Some(Found::Dir(id))) if txn.action == Action::Rmdir => {
                match caller.lookup(txn.from, &txn.name)? {
                    Some(Found::Dir(here)) if here == id => {
                        caller.rmdir_at(&inner.dir(txn.from)?, &txn.name)
                    }
                    _ => Ok(()),
                }
            }
            (Role::Both, Some(Found::Dir(id))) => {
                let found = caller.lookup(txn.from, &txn.name)?;
                if !matches!(found, Some(Found::Dir(here)) if here == id) {
                    return Ok(());
                }
                let (from, to) = (inner.dir(txn.from)?, inner.dir(txn.to)?);
                caller.rename_at(&from, &txn.name, &to, &txn.to_name, IfTaken::Replace)
            }
            (Role::Source, Some(Found::Other(stat))) => {
                let found = caller.lookup(txn.from, &txn.name)?;
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
            (Role::Target, Some(Found::Other(_))) => {
                let to = inner.dir(txn.to)?;
                let info = to.state.read();
                let there = caller.lookup(txn.to, &txn.to_name)?;
                let replaced = match there {
                    Some(Found::Other(there)) if !there.has_data => Some(there.inode),
                    _ => None,
                };
                let come = large_of(&txn.entry);
                if let Some(inode) = come {
                    inner.contents.keep_received(inode)?;
                }
                let top = inner.top("a rename")?;
                top.put(&Key::entry(txn.to, &txn.to_name), &txn.entry)?;
                inner.name_count.add(u64::from(there.is_none()));
                if let Some(inode) = replaced.filter(|inode| Some(*inode) != come) {
                    inner.contents.remove(inode)?;
                }
                caller.touch(&to, &info, now_ns)
            }
            // A file has two sides, a directory one; what is renamed is one of them.
            (_, _) => Err(damaged(inner.store_path())),
        }
    }
}
