//! The coordinator of transactions, in the background worker.

use super::record::{Phase, prepare_request};
use crate::error::Result;
use crate::rpc::codec::{Peer, Reply, Transaction};
use crate::rpc::error::{Error as CallError, Result as CallResult};
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::split::records::each_chunk;
use crate::rpc::server::worker::{BackgroundWorker, Progress, Work};
use std::sync::Arc;

/// How often a transaction is tried whose names are in use, every 20 ms.
const TRIES_MAX: u32 = 250;
/// Rounds that a participant waits before it asks the coordinator.
const PATIENCE_ROUNDS: u32 = 25;

impl BackgroundWorker {
    /// Runs a transaction from the beginning, and notes the outcome of its operation.
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
            outcome => core.operations.finish(operation, outcome),
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

    /// Sends the decision; what fails now is retried. The outcome is fixed by then, so the client
    /// need not wait for this.
    fn finish(&mut self, id: u128) {
        let next = self.send_decision(id);
        self.record_outcome(next, Work::SendDecision(id));
    }

    /// Sends the bytes of a large file to the server of its new name.
    fn send_contents(&mut self, server: usize, id: u128, txn: &Transaction) -> CallResult<()> {
        let core = Arc::clone(&self.core);
        let sent = each_chunk(&core, &txn.entry, &mut |_, offset, data| {
            self.ask(server, Peer::RenameContents { id, offset, data }, |_| ())
        });
        sent.map_err(CallError::from_store)?
    }

    /// The other servers that take part.
    fn participants(&self, txn: &Transaction) -> Vec<usize> {
        let parts = &self.core.parts;
        let all = 0..parts.placement.servers() as usize;
        let is_part = |server: &usize| txn.is_dir() || *server == txn.target as usize;
        all.filter(|server| *server != parts.server as usize && is_part(server)).collect()
    }

    /// Sends the decision on a transaction of this server to the participants, until all have it.
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
        if commits {
            core.forget_txn(space, id)?;
        } else {
            core.finish_txn(space, id, false)?;
        }
        Ok(Progress::Done)
    }

    /// Asks the coordinator for its decision, once a transaction has been prepared here for long.
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
