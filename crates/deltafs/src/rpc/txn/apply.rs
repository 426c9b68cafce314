//! The part that a server does of what several do to a name. Doing it again does nothing: each way
//! looks first whether it was done.

use super::record::{Order, Side, damaged, large_of};
use crate::caller::Found;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::record::{Entry, Key, Node};
use crate::rename::IfTaken;
use crate::rpc::codec::What;
use crate::rpc::server::core::Core;
use crate::rpc::server::replica::Original;
use crate::user::User;
use keyrack_flodb::{Batch, WriteOptions};

impl Core {
    pub(crate) fn apply(&self, space: &Namespace, order: &Order, side: Side) -> Result<()> {
        let inner = &space.inner;
        let root = User::root();
        let caller = space.by(&root);
        let now_ns = inner.time.now_ns();
        if order.what == What::Mkdir {
            let node = Node::read(inner.store_path(), order.to, &order.entry)?;
            let Node::Dir(node, _) = node else { return Err(damaged(inner.store_path())) };
            let (mode, uid, gid) = (node.mode, node.uid, node.gid);
            let original = Original { mode, uid, gid, inode: order.to.0 };
            return caller.mkdir_as(&inner.dir(order.from)?, &order.name, &original).map(|_| ());
        }
        let entry = Entry::read(inner.store_path(), order.from, &order.name, &order.entry)?;
        match (side, Found::of(entry)) {
            (Side::Both, Some(Found::Dir(id))) if order.what == What::Rmdir => {
                match caller.lookup(order.from, &order.name)? {
                    Some(Found::Dir(here)) if here == id => {
                        caller.rmdir_at(&inner.dir(order.from)?, &order.name)
                    }
                    _ => Ok(()),
                }
            }
            (Side::Both, Some(Found::Dir(id))) => {
                let found = caller.lookup(order.from, &order.name)?;
                if !matches!(found, Some(Found::Dir(here)) if here == id) {
                    return Ok(());
                }
                let (from, to) = (inner.dir(order.from)?, inner.dir(order.to)?);
                caller.rename_at(&from, &order.name, &to, &order.to_name, IfTaken::Replace)
            }
            (Side::Source, Some(Found::Other(stat))) => {
                let found = caller.lookup(order.from, &order.name)?;
                if !matches!(found, Some(Found::Other(here)) if here.inode == stat.inode) {
                    return Ok(());
                }
                let from = inner.dir(order.from)?;
                let info = from.state.read();
                let mut batch = Batch::new();
                inner.hide(&mut batch, order.from, &order.name)?;
                let large = large_of(&order.entry);
                if large.is_some() {
                    inner.contents.mark()?;
                }
                inner.top("a rename")?.write(&batch, WriteOptions::default())?;
                inner.room.give(1);
                large.map_or(Ok(()), |inode| inner.contents.remove(inode))?;
                caller.touch(&from, &info, now_ns)
            }
            (Side::Target, Some(Found::Other(_))) => {
                let to = inner.dir(order.to)?;
                let info = to.state.read();
                let there = caller.lookup(order.to, &order.to_name)?;
                let replaced = match there {
                    Some(Found::Other(there)) if !there.has_data => Some(there.inode),
                    _ => None,
                };
                let come = large_of(&order.entry);
                if let Some(inode) = come {
                    inner.contents.settle_received(inode)?;
                }
                let top = inner.top("a rename")?;
                top.put(&Key::entry(order.to, &order.to_name), &order.entry)?;
                inner.room.add(u64::from(there.is_none()));
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
