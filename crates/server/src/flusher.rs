//! The flushes of one loop, and the iterations whose replies wait for them.
//!
//! ```text
//!   end_iteration   flush --durable--> the replies are sent
//!                     |  --position--> the syncer is asked; the replies wait
//!                     |  --disk full-> the replies wait; `poll` tries again
//!   poll            removes from the queue what is durable now
//! ```
//!
//! **Invariant:** iterations leave the queue in their order. One that leaves it is as durable as
//! the store promises. A flush that fails for good ends the server, and no iteration from that one
//! on leaves the queue.

use crate::metrics::LoopMetrics;
use crate::state::State;
use keyrack_net::{IterationEnd, Waker};
use keyrack_rowstore::{Position, RowSession};
use keyrack_store::Error;
use std::collections::VecDeque;

/// An iteration whose replies wait.
#[derive(Debug)]
struct Waiting {
    token: u64,
    /// The position that must be durable; `None` until a flush succeeds.
    position: Option<Position>,
}

/// The flushes of one loop.
#[derive(Debug)]
pub(crate) struct Flusher<'a> {
    state: &'a State,
    metrics: &'a LoopMetrics,
    index: usize,
    waker: Waker,
    /// The token of the last iteration.
    token: u64,
    waiting: VecDeque<Waiting>,
    /// Whether the last flush failed.
    is_failing: bool,
}

impl<'a> Flusher<'a> {
    /// For loop `index`, which `waker` wakes.
    pub(crate) fn new(state: &'a State, index: usize, waker: Waker) -> Self {
        Flusher {
            state,
            metrics: &state.loops[index],
            index,
            waker,
            token: 0,
            waiting: VecDeque::new(),
            is_failing: false,
        }
    }

    /// Flushes what an iteration wrote.
    pub(crate) fn end_iteration(&mut self, session: &mut dyn RowSession) -> IterationEnd {
        self.retry(session);
        self.token += 1;
        let position = match flush(session) {
            Ok(None) => return IterationEnd::Durable,
            Ok(Some(position)) => {
                self.state.syncer.want(self.index, position, &self.waker);
                Some(position)
            }
            Err(error) => {
                self.flush_failed(&error);
                None
            }
        };
        self.metrics.iterations_waited.add(1);
        self.waiting.push_back(Waiting { token: self.token, position });
        IterationEnd::Wait(self.token)
    }

    /// Tries a failed flush again, and removes durable iterations from the queue.
    pub(crate) fn poll(&mut self, session: &mut dyn RowSession) {
        self.retry(session);
        while let Some(Waiting { position: Some(position), .. }) = self.waiting.front()
            && session.is_durable(*position)
        {
            self.waiting.pop_front();
        }
    }

    /// Whether the iteration with this token has left the queue.
    pub(crate) fn is_done(&self, token: u64) -> bool {
        self.waiting.front().is_none_or(|waiting| waiting.token > token)
    }

    /// Flushes again after a failure. The iterations that wait learn what they wait for.
    fn retry(&mut self, session: &mut dyn RowSession) {
        if !self.is_failing {
            return;
        }
        match flush(session) {
            Ok(position) => {
                self.is_failing = false;
                self.state.control.disk_full_ended();
                for waiting in &mut self.waiting {
                    waiting.position = waiting.position.or(Some(position.unwrap_or_default()));
                }
                if let Some(position) = position {
                    self.state.syncer.want(self.index, position, &self.waker);
                }
            }
            Err(error) => self.flush_failed(&error),
        }
    }

    /// A full disk is tried again; any other failure ends the server.
    fn flush_failed(&mut self, error: &Error) {
        self.metrics.flushes_failed.add(1);
        if matches!(error, Error::Io { .. }) {
            if !std::mem::replace(&mut self.is_failing, true) {
                self.state.control.disk_full(error);
            }
            self.state.syncer.retry(&self.waker);
        } else {
            self.state.control.fail(error.to_string());
        }
    }
}

/// Flushes. The position that replies must wait for, unless it is durable already.
fn flush(session: &mut dyn RowSession) -> Result<Option<Position>, Error> {
    let position = session.flush()?;
    Ok((!session.is_durable(position)).then_some(position))
}
