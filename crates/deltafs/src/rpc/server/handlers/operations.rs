//! Requests that take a transaction of several servers: the client gets the id of an operation.

use super::context::Context;
use super::names::if_taken;
use crate::rpc::codec::{Action, Reply, Transaction};
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::session::Opened;
use crate::rpc::server::worker::Work;

impl Context<'_> {
    pub(crate) fn mkdir_across(&mut self, (dir, name): (u32, &[u8]), mode: u32) -> RpcResult {
        let at = self.at(dir)?;
        let alone = |this: &Self| Ok(this.caller.mkdir_at(&at.dir, name, mode).map(|_| ())?);
        self.start(self.transaction(Action::Mkdir, at, name, mode), alone)
    }

    pub(crate) fn rmdir_across(&mut self, dir: u32, name: &[u8]) -> RpcResult {
        let at = self.at(dir)?;
        self.start(self.transaction(Action::Rmdir, at, name, 0), |this| this.rmdir(at, name))
    }

    /// Renames a file whose new name the server `target` has, or a directory.
    pub(crate) fn rename_across(
        &mut self,
        (dir, name): (u32, &[u8]),
        (to_dir, to_name): (u32, &[u8]),
        (replace, target): (bool, u32),
    ) -> RpcResult {
        let (from, to) = (self.at(dir)?, self.at(to_dir)?);
        let action = if replace { Action::Replace } else { Action::Rename };
        let txn = Transaction {
            to: to.part.dir,
            to_name: to_name.to_vec(),
            ..self.transaction(action, from, name, target)
        };
        let if_taken = if_taken(replace);
        self.start(txn, |this| {
            Ok(this.caller.rename_at(&from.dir, name, &to.dir, to_name, if_taken)?)
        })
    }

    /// Hands a transaction to the coordinator. A server that has all names does it at once.
    fn start(&mut self, txn: Transaction, alone: impl FnOnce(&Self) -> RpcResult) -> RpcResult {
        let core = self.core;
        let id = if core.parts.has_all {
            alone(self)?;
            let id = core.operations.begin()?;
            core.operations.finish(id, Ok(()));
            id
        } else if core.work.get().is_none() {
            return Err(RpcError::new("EBUSY", "the servers are still meeting: ask again"));
        } else {
            let id = core.operations.begin()?;
            core.enqueue(Work::Coordinate(id, txn, 0));
            id
        };
        self.reply(&Reply::Count(id))
    }

    /// A transaction on a name. The coordinator adds the entry.
    fn transaction(&self, action: Action, at: &Opened, name: &[u8], target: u32) -> Transaction {
        let dir = at.part.dir;
        Transaction {
            user: self.session.user.clone(),
            from: dir,
            name: name.to_vec(),
            to: dir,
            to_name: name.to_vec(),
            action,
            target,
            entry: Vec::new(),
        }
    }
}
