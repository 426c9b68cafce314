//! The thread of a server that works with the others: splits, renames.
//!
//! Loops that serve clients never wait for another server; two of them could wait for each other.
//! They leave work here. What cannot be done now, because the other is away or the disk is full, is
//! tried again until it is done.

use super::client::{Client, ClientOptions};
use super::core::{Core, Work};
use super::orders::Step;
use crate::error::Result;
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
pub(super) enum Next {
    Done,
    /// Again, in a while.
    Later,
}

/// What the thread has.
pub(super) struct Backstage {
    pub(super) core: Arc<Core>,
    pub(super) peers: Client,
    /// With the turns that it waits.
    later: Vec<(Work, u32)>,
}

/// The thread, as its server holds it.
#[derive(Debug)]
pub(super) struct Hand {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Hand {
    /// Starts it. `None` if there is nothing to be done with others, or it was started before.
    pub(super) fn start(
        core: &Arc<Core>,
        servers: Vec<Endpoint>,
        options: ClientOptions,
    ) -> Option<Hand> {
        if core.parts.has_all || core.space.is_none() {
            return None;
        }
        let (sender, receiver) = channel();
        core.work.set(sender).ok()?;
        let stage = Backstage::new(core, Client::new(servers, options));
        let thread = thread::Builder::new().name("backstage".to_owned());
        let thread = thread.spawn(move || stage.run(&receiver)).ok()?;
        Some(Hand { core: Arc::clone(core), thread: Some(thread) })
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.core.tell(Work::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Backstage {
    /// With what was left undone before.
    pub(super) fn new(core: &Arc<Core>, peers: Client) -> Backstage {
        let mut later = Vec::new();
        // A store that cannot be read tells its callers too.
        for dir in core.unfinished().unwrap_or_default() {
            later.push((Work::Look(dir), 0));
        }
        for (number, held) in core.renames.held().iter() {
            let work = match held.step {
                Step::Prepared => Work::Ask(*number),
                Step::Begun | Step::Decided => Work::Settle(*number),
            };
            later.push((work, 0));
        }
        Backstage { core: Arc::clone(core), peers, later }
    }

    fn run(mut self, receiver: &Receiver<Work>) {
        let clock = Clock::vdso();
        let mut tried = clock.ticks();
        loop {
            let work = match self.later.is_empty() {
                true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => receiver.recv_timeout(RETRY),
            };
            match work {
                Ok(Work::End) | Err(RecvTimeoutError::Disconnected) => return,
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
    pub(super) fn again(&mut self) {
        for (work, turns) in std::mem::take(&mut self.later) {
            match turns {
                0 => self.perform(work),
                _ => self.wait(work, turns - 1),
            }
        }
    }

    pub(super) fn perform(&mut self, work: Work) {
        let next: Result<Next> = match &work {
            Work::Look(dir) => self.look(*dir),
            Work::Rename(errand, order, tries) => self.rename(*errand, order, *tries),
            Work::Settle(number) => self.settle(*number),
            Work::Ask(number) => self.inquire(*number),
            Work::End => Ok(Next::Done),
        };
        self.note(next, work);
    }

    /// What came of something. What the store refuses it refuses to every caller too; here there is
    /// nobody to tell, but names may be held until it is done.
    pub(super) fn note(&mut self, next: Result<Next>, work: Work) {
        match next {
            Ok(Next::Done) => {}
            Ok(Next::Later) => self.later(work),
            Err(_) => self.wait(work, REFUSED_TURNS),
        }
    }

    /// Something to be tried again.
    pub(super) fn later(&mut self, work: Work) {
        self.wait(work, 0);
    }

    fn wait(&mut self, work: Work, turns: u32) {
        if !self.later.iter().any(|waiting| waiting.0 == work) {
            self.later.push((work, turns));
        }
    }
}
