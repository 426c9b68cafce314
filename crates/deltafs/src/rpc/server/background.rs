//! The background thread of a server: splits, and transactions with other servers.
//!
//! Event loops never wait for another server: two servers could wait for each other. They hand work
//! to this thread. What fails because another server is away or the disk is full is retried until
//! it is done.

use super::core::Core;
use super::worker::{BackgroundWorker, Progress, Work};
use crate::error::Result;
use crate::rpc::client::connection::{Client, ClientOptions};
use crate::rpc::txn::record::Phase;
use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The length of a round: how long work waits before it is retried.
const RETRY: Duration = Duration::from_millis(20);

/// The running thread.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    core: Arc<Core>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl BackgroundThread {
    /// Starts the thread. `None` if the server has nothing to do with others.
    ///
    /// # Errors
    /// The unfinished work cannot be read; the thread cannot be started.
    ///
    /// # Panics
    /// If it was started before.
    pub(crate) fn start(
        core: &Arc<Core>,
        servers: Vec<Endpoint>,
        options: ClientOptions,
    ) -> std::result::Result<Option<BackgroundThread>, Box<dyn std::error::Error + Send + Sync>>
    {
        if core.parts.has_all || core.space.is_none() {
            return Ok(None);
        }
        let (sender, receiver) = channel();
        core.work.set(sender).expect("the map of servers is set once");
        let peers = Client::new(servers, options);
        let worker = BackgroundWorker::new(Arc::clone(core), peers, unfinished(core)?);
        let thread = thread::Builder::new().name("fs-background".to_owned());
        let thread = thread
            .spawn(move || run(worker, &receiver))
            .map_err(|error| format!("cannot start the thread for other servers: {error}"))?;
        Ok(Some(BackgroundThread { core: Arc::clone(core), thread: Some(thread) }))
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// The store refused work, and it was not done since.
    ///
    /// # Panics
    /// If the thread did.
    pub(crate) fn end(mut self) -> Result<()> {
        self.core.enqueue(Work::Stop);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.core.enqueue(Work::Stop);
            // A drop cannot report errors; `BackgroundThread::end` does.
            let _ = thread.join();
        }
    }
}

/// The work that an earlier run of the server left unfinished.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn unfinished(core: &Core) -> Result<Vec<Work>> {
    let mut unfinished: Vec<Work> =
        core.unfinished_splits()?.into_iter().map(Work::CheckSplit).collect();
    for (id, pending) in core.txns.pending().iter() {
        unfinished.push(match pending.phase {
            Phase::Prepared => Work::AskOutcome(*id),
            Phase::Begun | Phase::Decided => Work::SendDecision(*id),
        });
    }
    Ok(unfinished)
}

fn run(mut worker: BackgroundWorker, receiver: &Receiver<Work>) -> Result<()> {
    let clock = Clock::vdso();
    let mut round_start = clock.ticks();
    loop {
        let work = if worker.is_idle() {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            receiver.recv_timeout(RETRY)
        };
        match work {
            Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => return worker.end(),
            Ok(work) => worker.perform(work),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let waited_ns = clock.ns_between(round_start, clock.ticks());
        if !worker.is_idle() && u128::from(waited_ns) >= RETRY.as_nanos() {
            worker.retry_waiting();
            round_start = clock.ticks();
        }
    }
}

impl BackgroundWorker {
    /// Retries the work that is due.
    pub(crate) fn retry_waiting(&mut self) {
        for work in self.due() {
            self.perform(work);
        }
    }

    pub(crate) fn perform(&mut self, work: Work) {
        let outcome = match &work {
            Work::CheckSplit(dir) => self.check_split(*dir),
            Work::Coordinate(operation, txn, tries) => self.coordinate(*operation, txn, *tries),
            Work::SendDecision(id) => self.send_decision(*id),
            Work::AskOutcome(id) => self.ask_outcome(*id),
            Work::Stop => Ok(Progress::Done),
        };
        self.record_outcome(outcome, work);
    }
}
