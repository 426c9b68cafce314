//! The state of the background worker: connections to the other servers, and work to retry.

use super::core::Core;
use crate::error::{Error, Result};
use crate::id::DirId;
use crate::rpc::client::connection::Client;
use crate::rpc::codec::{Peer, Reply, Request, Transaction};
use std::sync::Arc;

/// Something that takes calls to other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A directory may have grown enough to split, or has a split to finish.
    CheckSplit(DirId),
    /// Run a transaction: the id of its operation, and how often it was tried.
    Coordinate(u64, Transaction, u32),
    /// Other servers may not know the decision on a transaction of this server.
    SendDecision(u128),
    /// Another server coordinates a transaction and has not sent its decision.
    AskOutcome(u128),
    /// End the worker.
    Stop,
}

/// Rounds that work waits after the store refused it, or another server was away.
const FAILED_ROUNDS: u32 = 25;

/// Whether work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    /// It is to be retried in the next round.
    Later,
    /// Another server was away: it is to be retried after as many rounds as a failure.
    Paused,
}

/// The background worker of a server.
pub(crate) struct BackgroundWorker {
    pub(crate) core: Arc<Core>,
    pub(crate) peers: Client,
    /// Work to retry, and the rounds that it still waits.
    waiting: Vec<(Work, u32)>,
    /// The work that the store refused last, until it is done.
    last_failure: Option<(Work, Error)>,
}

impl BackgroundWorker {
    /// A worker that begins with what an earlier run of the server left unfinished.
    pub(crate) fn new(core: Arc<Core>, peers: Client, unfinished: Vec<Work>) -> BackgroundWorker {
        let waiting = unfinished.into_iter().map(|work| (work, 0)).collect();
        BackgroundWorker { core, peers, waiting, last_failure: None }
    }

    /// Sends one request to another server.
    pub(crate) fn ask<R>(
        &mut self,
        server: usize,
        peer: Peer<'_>,
        take: impl FnOnce(Reply<'_>) -> R,
    ) -> crate::rpc::error::Result<R> {
        self.peers.call(server, &Request::Peer(peer), take)
    }

    /// Notes the outcome of work. What the store refuses is retried, as names may be locked until
    /// it is done. [`BackgroundWorker::end`] reports what was never done.
    pub(crate) fn record_outcome(&mut self, outcome: Result<Progress>, work: Work) {
        match outcome {
            Ok(progress) => {
                self.last_failure = self.last_failure.take().filter(|(failed, _)| *failed != work);
                match progress {
                    Progress::Done => {}
                    Progress::Later => self.retry(work),
                    Progress::Paused => self.wait(work, FAILED_ROUNDS),
                }
            }
            Err(error) => {
                self.last_failure = Some((work.clone(), error));
                self.wait(work, FAILED_ROUNDS);
            }
        }
    }

    /// Retries work in the next round.
    pub(crate) fn retry(&mut self, work: Work) {
        self.wait(work, 0);
    }

    fn wait(&mut self, work: Work, rounds: u32) {
        if !self.waiting.iter().any(|waiting| waiting.0 == work) {
            self.waiting.push((work, rounds));
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Begins a round: the work that has waited long enough. The rest waits on.
    pub(crate) fn due(&mut self) -> Vec<Work> {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, rounds)| *rounds == 0);
        self.waiting = rest.into_iter().map(|(work, rounds)| (work, rounds - 1)).collect();
        due.into_iter().map(|(work, _)| work).collect()
    }

    /// Ends the worker.
    ///
    /// # Errors
    /// The store refused work, and it was not done since.
    pub(crate) fn end(self) -> Result<()> {
        self.last_failure.map_or(Ok(()), |(_, error)| Err(error))
    }
}
