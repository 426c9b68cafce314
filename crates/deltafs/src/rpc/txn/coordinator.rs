//! The coordinator's side of renames, in the thread that works with other servers: see `renames`.

use super::record::{Phase, Transaction, prepare_request};
use crate::error::Result;
use crate::rpc::codec::{Peer, Reply};
use crate::rpc::error::{Error as CallError, Result as CallResult};
use crate::rpc::server::background::{BackgroundWorker, Progress};
use crate::rpc::server::core::{RpcError, RpcResult, Work};
use crate::rpc::server::split::each_chunk;
use std::sync::Arc;

/// How often a rename is tried whose names are in use, every 20 ms.
const TRIES_MAX: u32 = 250;
/// How long a prepared rename is waited for before its coordinator is asked, in such turns.
const PATIENCE_ROUNDS: u32 = 25;

impl BackgroundWorker {
    /// Renames something, from the beginning.
    pub(crate) fn coordinate(
        &mut self,
        operation: u64,
        txn: &Transaction,
        tries: u32,
    ) -> Result<Progress> {
        let core = Arc::clone(&self.core);
        let outcome = self.run_txn(txn);
        match outcome {
            Err(error) if error.is_retryable() && tries < TRIES_MAX => {
                self.retry(Work::Coordinate(operation, txn.clone(), tries + 1));
            }
            outcome => core.txns.finish_operation(operation, outcome),
        }
        Ok(Progress::Done)
    }

    fn run_txn(&mut self, txn: &Transaction) -> RpcResult {
        let core = Arc::clone(&self.core);
        let space = core.space();
        let me = core.parts.server;
        let id = space.inner.number().to_u128();
        let mut txn = txn.clone();
        core.prepare(space, id, (Phase::Begun, me), &mut txn)?;
        for server in self.participants(&txn) {
            let prepared = self
                .ask(server, prepare_request(id, me, &txn), |_| ())
                .and_then(|()| self.send_contents(server, id, &txn));
            if let Err(error) = prepared {
                self.finish(id);
                return Err(RpcError::from_peer(&error));
            }
        }
        let decided = core.decide(space, id);
        self.finish(id);
        Ok(decided?)
    }

    /// Settles a rename of ours; what cannot be done now is done later. It is under way in any
    /// case, so this is no matter of who asked for it.
    fn finish(&mut self, id: u128) {
        let next = self.send_decision(id);
        self.record_outcome(next, Work::SendDecision(id));
    }

    /// Sends the bytes of a large file that gets a name of another server.
    fn send_contents(&mut self, server: usize, id: u128, txn: &Transaction) -> CallResult<()> {
        let core = Arc::clone(&self.core);
        let sent = each_chunk(&core, &txn.entry, &mut |_, offset, data| {
            self.ask(server, Peer::RenameContents { id, offset, data }, |_| ())
        });
        sent.map_err(CallError::from_store)?
    }

    /// Who takes part beside this server.
    fn participants(&self, txn: &Transaction) -> Vec<usize> {
        let parts = &self.core.parts;
        let all = 0..parts.placement.servers() as usize;
        let is_part = |server: &usize| txn.is_dir() || *server == txn.target as usize;
        all.filter(|server| *server != parts.server as usize && is_part(server)).collect()
    }

    /// Tells the others what became of a rename of ours, until all know.
    pub(crate) fn send_decision(&mut self, id: u128) -> Result<Progress> {
        let core = Arc::clone(&self.core);
        let Some(space) = &core.space else { return Ok(Progress::Done) };
        let Some(pending) = core.txns.pending().get(&id).cloned() else {
            return Ok(Progress::Done);
        };
        let commits = pending.phase == Phase::Decided;
        if commits {
            core.finish_txn(space, id, true)?;
        } else if pending.is_uncertain {
            core.retract_decision(space, id)?;
        }
        let mut all_know = true;
        for server in self.participants(&pending.txn) {
            all_know &= self.ask(server, Peer::Decision { id, commits }, |_| ()).is_ok();
        }
        if !all_know {
            return Ok(Progress::Later);
        }
        match commits {
            true => core.forget_txn(space, id)?,
            false => core.finish_txn(space, id, false)?,
        }
        Ok(Progress::Done)
    }

    /// A rename of another was prepared here some time ago: what became of it?
    pub(crate) fn ask_outcome(&mut self, id: u128) -> Result<Progress> {
        let core = Arc::clone(&self.core);
        let Some(space) = &core.space else { return Ok(Progress::Done) };
        let coordinator = {
            let mut all = core.txns.pending();
            let Some(pending) = all.get_mut(&id) else { return Ok(Progress::Done) };
            pending.rounds += 1;
            if pending.rounds < PATIENCE_ROUNDS {
                return Ok(Progress::Later);
            }
            pending.coordinator as usize
        };
        let asked = self.ask(coordinator, Peer::Outcome { id }, |reply| match reply {
            Reply::Count(count) => count,
            _ => 1,
        });
        match asked {
            Ok(0) => core.finish_txn(space, id, false)?,
            Ok(2) => core.finish_txn(space, id, true)?,
            _ => return Ok(Progress::Later),
        }
        Ok(Progress::Done)
    }
}
