//! Connections that break, with their requests in flight, and connections that replace them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connect::{BackgroundEvent, open};
use super::connection::ConnectionError;
use super::in_flight::{InFlight, flags};
use super::transport::Transport;
use super::workload::NEVER;
use super::{RECONNECT_PAUSE_NS, Worker};
use crate::error::{Error, Result};
use crate::target::{Class, ErrorClass};

/// Requests without a reply.
fn unanswered(in_flight: &VecDeque<InFlight>) -> u64 {
    in_flight.iter().filter(|request| request.flags & flags::DONE == 0).count() as u64
}

impl Worker<'_> {
    /// A connection is gone: what was under way on it is not answered any more.
    pub(super) fn lose(&mut self, at: usize, trouble: ConnectionError) {
        let connection = &mut self.connections[at];
        let name = &self.nodes[connection.server].server.name;
        let closed = || (ErrorClass::Closed, format!("{name}: the server closed the connection"));
        let (class, words) = match trouble {
            ConnectionError::Closed => closed(),
            // The same, found out by a write before a read.
            ConnectionError::Broken(cause) if cause.kind() == io::ErrorKind::BrokenPipe => closed(),
            ConnectionError::Broken(cause) => (ErrorClass::Reset, format!("{name}: {cause}")),
            ConnectionError::Malformed(what) => (
                ErrorClass::Protocol,
                format!(
                    "{name}: the server does not speak {}: it sent {} that is none",
                    self.plan.settings.protocol.name(),
                    what.0
                ),
            ),
        };
        let lost = connection.outstanding() as u64 + connection.queue.len() as u64;
        self.account.errors.add(class, lost.max(1), || words.clone());
        self.live.errors.add(lost.max(1));
        self.account.counts.broken += 1;
        self.live.completed.add(unanswered(&connection.in_flight));
        connection.in_flight.drain(..).for_each(|request| self.trace_keys.release(&request));
        connection.queue.drain(..).for_each(|request| self.trace_keys.release(&request));
        connection.unstamped = 0;
        if let Some(stream) = connection.stream.take() {
            self.poller.remove(&stream, at);
        }
        if !self.done.troubles.contains(&words) {
            self.done.troubles.push(words);
        }
        if self.plan.settings.reconnect && (self.is_drawing || self.phase.is_load) {
            self.reconnect(at);
        }
        self.ask_others();
    }

    /// Makes a connection again, in a thread that may wait.
    pub(super) fn reconnect(&mut self, at: usize) {
        let plan = self.plan;
        let node = self.nodes[self.connections[at].server].clone();
        let settings = plan.settings.clone();
        let (sender, clock) = (self.events.0.clone(), self.clock.clone());
        let stop = Arc::clone(&self.stop);
        // A connection to a node that came up is tried once, one that broke to the end.
        let give_up = if settings.reconnect {
            self.phase.start.saturating_add(clock.ticks_of_ns(self.phase.length_ns))
        } else {
            0
        };
        let attempts = move || {
            loop {
                let opened = open(&node, &settings);
                let is_over = clock.ticks() >= give_up || stop.load(Ordering::Relaxed);
                if opened.is_ok() || is_over {
                    // Nobody listens any more when the run is over.
                    let _ = sender.send(BackgroundEvent::Reconnected(at, opened));
                    return;
                }
                clock.wait_until(clock.ticks() + clock.ticks_of_ns(RECONNECT_PAUSE_NS));
            }
        };
        match std::thread::Builder::new().name("reconnect".to_owned()).spawn(attempts) {
            Ok(_) => {
                self.reconnecting += 1;
                self.connections[at].is_awaited = true;
            }
            Err(cause) => self.account.errors.add(ErrorClass::Connect, 1, || cause.to_string()),
        }
    }

    pub(super) fn install(&mut self, at: usize, made: io::Result<Transport>) {
        let watched = made.and_then(|stream| self.poller.add(&stream, at).map(|()| stream));
        match watched {
            Ok(stream) => {
                self.connections[at].renew(stream);
                self.account.counts.reconnects += 1;
                self.pump(at);
            }
            Err(cause) => {
                let connection = &mut self.connections[at];
                connection.is_awaited = false;
                // What waited for it fails with it.
                let lost = (connection.queue.len() as u64).max(1);
                connection.queue.drain(..).for_each(|request| self.trace_keys.release(&request));
                let name = &self.nodes[connection.server].server.name;
                self.account.errors.add(ErrorClass::Connect, lost, || format!("{name}: {cause}"));
                self.live.errors.add(lost);
                self.wake(at);
            }
        }
    }

    /// Accounts for what will not be answered any more.
    pub(super) fn count_unanswered(&mut self, now: u64) {
        let is_open = self.is_open();
        self.count_unplaced();
        for at in 0..self.connections.len() {
            let in_flight = std::mem::take(&mut self.connections[at].in_flight);
            self.live.completed.add(unanswered(&in_flight));
            let is_unanswered = |request: &&InFlight| {
                request.flags & (flags::DONE | flags::ASKING | flags::COPY) == 0
            };
            for request in in_flight.iter().filter(is_unanswered) {
                if request.flags & (flags::LOAD | flags::PURGE) != 0 {
                    let words = || "no reply while records were written or removed".to_owned();
                    self.account.errors.add(ErrorClass::Timeout, 1, words);
                    continue;
                }
                self.account.counts.unanswered += 1;
                let from = if is_open { request.intended } else { request.sent };
                let response_ns = self.clock.ns_between(from, now);
                let tally = self.account.tally_mut(Class::of(request.kind));
                tally.response.record(response_ns);
                tally.service.record(self.clock.ns_between(request.sent, now));
            }
            in_flight.iter().for_each(|request| self.trace_keys.release(request));
            // A later phase must not take the replies for its own.
            if !in_flight.is_empty() {
                self.abandon(at);
            }
            let mut unsent = 0;
            while self.workloads[at].due != NEVER && !self.is_spent() {
                let due = self.workloads[at].due;
                let class = Class::of(self.workloads[at].draw(self.plan, due).kind);
                let tally = self.account.tally_mut(class);
                tally.response.record(self.clock.ns_between(due, now));
                self.workloads[at].advance(&self.phase, &self.clock);
                unsent += 1;
            }
            self.account.counts.unsent += unsent;
            self.account.counts.offered += unsent;
        }
    }

    /// Closes a connection that owes replies.
    fn abandon(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        connection.queue.clear();
        connection.unstamped = 0;
        if let Some(stream) = connection.stream.take() {
            self.poller.remove(&stream, at);
        }
    }

    pub(super) fn open(&self, node: usize) -> Result<Transport> {
        let node = &self.nodes[node];
        let server = node.server.name.clone();
        open(node, &self.plan.settings).map_err(|cause| Error::Server { server, cause })
    }

    /// Makes connections that earlier phases closed again, before a further phase.
    ///
    /// # Errors
    /// A server that does not let us.
    pub(crate) fn reopen_closed(&mut self) -> Result<()> {
        for at in 0..self.connections.len() {
            if self.connections[at].is_alive() {
                continue;
            }
            let stream = self.open(self.connections[at].server)?;
            self.poller.add(&stream, at).map_err(Error::machine("watch a socket"))?;
            self.connections[at].renew(stream);
        }
        Ok(())
    }
}
