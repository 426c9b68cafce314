//! The thread of a server that works with the others: splits, renames.
//!
//! Loops that serve clients never wait for another server; two of them could wait for each other.
//! They leave work here. What cannot be done now, because the other is away or the disk is full, is
//! tried again until it is done.

use super::core::{Core, Work};
use crate::error::{Error, Result};
use crate::rpc::client::connection::{Client, ClientOptions};
use crate::rpc::txn::record::Step;
use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// After so long what could not be done is tried again.
const RETRY: Duration = Duration::from_millis(20);
/// What the store has refused waits for so many times as long.
const REFUSED_TURNS: u32 = 25;

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    /// Again, in a while.
    Later,
}

/// What the thread has.
pub(crate) struct Backstage {
    pub(crate) core: Arc<Core>,
    pub(crate) peers: Client,
    /// With the turns that it waits.
    later: Vec<(Work, u32)>,
    /// What the store of this server refused last, until it is done.
    trouble: Option<(Work, Error)>,
}

/// The thread, as its server holds it.
#[derive(Debug)]
pub(crate) struct Hand {
    core: Arc<Core>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Hand {
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
    ) -> std::result::Result<Option<Hand>, Box<dyn std::error::Error + Send + Sync>> {
        if core.parts.has_all || core.space.is_none() {
            return Ok(None);
        }
        let (sender, receiver) = channel();
        core.work.set(sender).expect("a server meets the others once");
        let stage = Backstage::new(core, Client::new(servers, options))?;
        let thread = thread::Builder::new().name("backstage".to_owned());
        let thread = thread
            .spawn(move || stage.run(&receiver))
            .map_err(|error| format!("cannot start the thread for other servers: {error}"))?;
        Ok(Some(Hand { core: Arc::clone(core), thread: Some(thread) }))
    }

    /// Ends it.
    ///
    /// # Errors
    /// What the store refused last and was not done since.
    ///
    /// # Panics
    /// If the thread did.
    pub(crate) fn end(mut self) -> Result<()> {
        self.core.tell(Work::End);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.core.tell(Work::End);
            // There is nobody to tell. `Hand::end` tells.
            let _ = thread.join();
        }
    }
}

impl Backstage {
    /// With what was left undone before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn new(core: &Arc<Core>, peers: Client) -> Result<Backstage> {
        let mut later = Vec::new();
        for dir in core.unfinished()? {
            later.push((Work::Look(dir), 0));
        }
        for (number, held) in core.renames.held().iter() {
            let work = match held.step {
                Step::Prepared => Work::Ask(*number),
                Step::Begun | Step::Decided => Work::Settle(*number),
            };
            later.push((work, 0));
        }
        Ok(Backstage { core: Arc::clone(core), peers, later, trouble: None })
    }

    fn run(mut self, receiver: &Receiver<Work>) -> Result<()> {
        let clock = Clock::vdso();
        let mut tried = clock.ticks();
        loop {
            let work = match self.later.is_empty() {
                true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => receiver.recv_timeout(RETRY),
            };
            match work {
                Ok(Work::End) | Err(RecvTimeoutError::Disconnected) => {
                    return self.trouble.map_or(Ok(()), |(_, error)| Err(error));
                }
                Ok(work) => self.perform(work),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let waited_ns = clock.ns_between(tried, clock.ticks());
            if !self.later.is_empty() && u128::from(waited_ns) >= RETRY.as_nanos() {
                self.again();
                tried = clock.ticks();
            }
        }
    }

    /// Tries what could not be done before.
    pub(crate) fn again(&mut self) {
        for (work, turns) in std::mem::take(&mut self.later) {
            match turns {
                0 => self.perform(work),
                _ => self.wait(work, turns - 1),
            }
        }
    }

    pub(crate) fn perform(&mut self, work: Work) {
        let next: Result<Next> = match &work {
            Work::Look(dir) => self.look(*dir),
            Work::Rename(errand, order, tries) => self.rename(*errand, order, *tries),
            Work::Settle(number) => self.settle(*number),
            Work::Ask(number) => self.inquire(*number),
            Work::End => Ok(Next::Done),
        };
        self.note(next, work);
    }

    /// What came of something. What the store refuses it refuses to every caller too; names may be
    /// held until it is done, so it is tried again. If it is not done by then, the end tells.
    pub(crate) fn note(&mut self, next: Result<Next>, work: Work) {
        match next {
            Ok(next) => {
                self.trouble = self.trouble.take().filter(|(refused, _)| *refused != work);
                if next == Next::Later {
                    self.later(work);
                }
            }
            Err(error) => {
                self.trouble = Some((work.clone(), error));
                self.wait(work, REFUSED_TURNS);
            }
        }
    }

    /// Something to be tried again.
    pub(crate) fn later(&mut self, work: Work) {
        self.wait(work, 0);
    }

    fn wait(&mut self, work: Work, turns: u32) {
        if !self.later.iter().any(|waiting| waiting.0 == work) {
            self.later.push((work, turns));
        }
    }
}
