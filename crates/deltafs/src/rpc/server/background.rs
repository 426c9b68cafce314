//! The thread of a server that works with the others: splits, renames.
//!
//! Loops that serve clients never wait for another server; two of them could wait for each other.
//! They leave work here. What cannot be done now, because the other is away or the disk is full, is
//! tried again until it is done.

use super::core::{Core, Work};
use crate::error::{Error, Result};
use crate::rpc::client::connection::{Client, ClientOptions};
use crate::rpc::txn::record::Phase;
use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// After so long what could not be done is tried again.
const RETRY: Duration = Duration::from_millis(20);
/// What the store has refused waits for so many times as long.
const FAILED_ROUNDS: u32 = 25;

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    /// Again, in a while.
    Later,
}

/// What the thread has.
pub(crate) struct BackgroundWorker {
    pub(crate) core: Arc<Core>,
    pub(crate) peers: Client,
    /// With the turns that it waits.
    retry: Vec<(Work, u32)>,
    /// What the store of this server refused last, until it is done.
    last_failure: Option<(Work, Error)>,
}

/// The thread, as its server holds it.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    core: Arc<Core>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl BackgroundThread {
    /// Starts it. `None` if there is nothing to be done with others.
    ///
    /// # Errors
    /// What was left undone cannot be read; the thread cannot be started.
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
        core.work.set(sender).expect("a server meets the others once");
        let worker = BackgroundWorker::new(core, Client::new(servers, options))?;
        let thread = thread::Builder::new().name("fs-background".to_owned());
        let thread = thread
            .spawn(move || worker.run(&receiver))
            .map_err(|error| format!("cannot start the thread for other servers: {error}"))?;
        Ok(Some(BackgroundThread { core: Arc::clone(core), thread: Some(thread) }))
    }

    /// Ends it.
    ///
    /// # Errors
    /// What the store refused last and was not done since.
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
            // There is nobody to tell. `Hand::end` tells.
            let _ = thread.join();
        }
    }
}

impl BackgroundWorker {
    /// With what was left undone before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn new(core: &Arc<Core>, peers: Client) -> Result<BackgroundWorker> {
        let mut retry = Vec::new();
        for dir in core.unfinished()? {
            retry.push((Work::CheckSplit(dir), 0));
        }
        for (id, pending) in core.txns.pending().iter() {
            let work = match pending.phase {
                Phase::Prepared => Work::AskOutcome(*id),
                Phase::Begun | Phase::Decided => Work::SendDecision(*id),
            };
            retry.push((work, 0));
        }
        Ok(BackgroundWorker { core: Arc::clone(core), peers, retry, last_failure: None })
    }

    fn run(mut self, receiver: &Receiver<Work>) -> Result<()> {
        let clock = Clock::vdso();
        let mut tried = clock.ticks();
        loop {
            let work = match self.retry.is_empty() {
                true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => receiver.recv_timeout(RETRY),
            };
            match work {
                Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return self.last_failure.map_or(Ok(()), |(_, error)| Err(error));
                }
                Ok(work) => self.perform(work),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let waited_ns = clock.ns_between(tried, clock.ticks());
            if !self.retry.is_empty() && u128::from(waited_ns) >= RETRY.as_nanos() {
                self.retry_waiting();
                tried = clock.ticks();
            }
        }
    }

    /// Tries what could not be done before.
    pub(crate) fn retry_waiting(&mut self) {
        for (work, rounds) in std::mem::take(&mut self.retry) {
            match rounds {
                0 => self.perform(work),
                _ => self.wait(work, rounds - 1),
            }
        }
    }

    pub(crate) fn perform(&mut self, work: Work) {
        let next: Result<Progress> = match &work {
            Work::CheckSplit(dir) => self.check_split(*dir),
            Work::Coordinate(operation, txn, tries) => self.coordinate(*operation, txn, *tries),
            Work::SendDecision(id) => self.send_decision(*id),
            Work::AskOutcome(id) => self.ask_outcome(*id),
            Work::Stop => Ok(Progress::Done),
        };
        self.record_outcome(next, work);
    }

    /// What came of something. What the store refuses it refuses to every caller too; names may be
    /// held until it is done, so it is tried again. If it is not done by then, the end tells.
    pub(crate) fn record_outcome(&mut self, next: Result<Progress>, work: Work) {
        match next {
            Ok(next) => {
                self.last_failure =
                    self.last_failure.take().filter(|(refused, _)| *refused != work);
                if next == Progress::Later {
                    self.retry(work);
                }
            }
            Err(error) => {
                self.last_failure = Some((work.clone(), error));
                self.wait(work, FAILED_ROUNDS);
            }
        }
    }

    /// Something to be tried again.
    pub(crate) fn retry(&mut self, work: Work) {
        self.wait(work, 0);
    }

    fn wait(&mut self, work: Work, rounds: u32) {
        if !self.retry.iter().any(|waiting| waiting.0 == work) {
            self.retry.push((work, rounds));
        }
    }
}
