//! Connections that break, and what was under way on them; connections that are made, and made
//! again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyrack_net::{ConnectOptions, Endpoint, Stream};

use super::connection::{Trouble, flags};
use super::lane::NEVER;
use super::{RECONNECT_PAUSE_NS, Worker};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::target::{self, Credentials, ErrorClass, Protocol};

impl Worker<'_> {
    /// A connection is gone: what was under way on it is not answered any more.
    pub(super) fn lose(&mut self, at: usize, trouble: Trouble) {
        let connection = &mut self.connections[at];
        let name = &self.plan.servers[connection.server].name;
        let (class, words) = match trouble {
            Trouble::Closed => {
                (ErrorClass::Closed, format!("{name}: the server closed the connection"))
            }
            Trouble::Broken(cause) => (ErrorClass::Reset, format!("{name}: {cause}")),
            Trouble::Malformed(what) => (
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
        connection.flights.drain(..).for_each(|flight| self.kept.release(&flight));
        connection.queue.drain(..).for_each(|flight| self.kept.release(&flight));
        connection.unstamped = 0;
        let server = connection.server;
        if let Some(stream) = connection.stream.take() {
            self.poller.remove(&stream, at);
        }
        if !self.done.troubles.contains(&words) {
            self.done.troubles.push(words);
        }
        if self.plan.settings.reconnect && (self.is_drawing || self.phase.is_load) {
            self.remake(at, server);
        }
    }

    /// Makes a connection again, in a thread that may wait.
    fn remake(&mut self, at: usize, server: usize) {
        let plan = self.plan;
        let (endpoint, options) =
            (plan.servers[server].endpoint.clone(), plan.connect[server].clone());
        let (protocol, credentials) = (plan.settings.protocol, plan.settings.credentials.clone());
        let nodelay = plan.settings.nodelay;
        let (sender, clock) = (self.remade.0.clone(), self.clock.clone());
        let stop = Arc::clone(&self.stop);
        let give_up = self.phase.start.saturating_add(clock.ticks_of_ns(self.phase.length_ns));
        let attempts = move || {
            loop {
                let opened =
                    open_with(&endpoint, &options, protocol, credentials.as_ref(), nodelay);
                let is_over = clock.ticks() >= give_up || stop.load(Ordering::Relaxed);
                if opened.is_ok() || is_over {
                    // Nobody listens any more when the run is over.
                    let _ = sender.send((at, opened));
                    return;
                }
                clock.wait_until(clock.ticks() + clock.ticks_of_ns(RECONNECT_PAUSE_NS));
            }
        };
        match std::thread::Builder::new().name("reconnect".to_owned()).spawn(attempts) {
            Ok(_) => self.remaking += 1,
            Err(cause) => self.account.errors.add(ErrorClass::Connect, 1, || cause.to_string()),
        }
    }

    pub(super) fn take_over(&mut self, at: usize, remade: io::Result<Stream>) {
        let watched = remade.and_then(|stream| self.poller.add(&stream, at).map(|()| stream));
        match watched {
            Ok(stream) => {
                self.connections[at].renew(stream);
                self.account.counts.reconnects += 1;
                self.pump(at);
            }
            Err(cause) => {
                self.account.errors.add(ErrorClass::Connect, 1, || cause.to_string());
                self.live.errors.add(1);
            }
        }
    }

    /// Accounts for what will not be answered any more.
    pub(super) fn give_up(&mut self, now: u64) {
        let is_open = self.is_open();
        for at in 0..self.connections.len() {
            let flights = std::mem::take(&mut self.connections[at].flights);
            for flight in flights.iter().filter(|flight| flight.flags & flags::DONE == 0) {
                if flight.flags & (flags::LOAD | flags::PURGE) != 0 {
                    let words = || "no reply while records were written or removed".to_owned();
                    self.account.errors.add(ErrorClass::Timeout, 1, words);
                    continue;
                }
                self.account.counts.unanswered += 1;
                let from = if is_open { flight.intended } else { flight.sent };
                let response_ns = self.clock.ns_between(from, now);
                let tally = self.account.tally_mut(flight.kind.class());
                tally.response.record(response_ns);
                tally.service.record(self.clock.ns_between(flight.sent, now));
            }
            flights.iter().for_each(|flight| self.kept.release(flight));
            // A later phase must not take the replies for its own.
            if !flights.is_empty() {
                self.abandon(at);
            }
            let mut unsent = 0;
            while self.lanes[at].due != NEVER && !self.is_spent() {
                let due = self.lanes[at].due;
                let class = self.lanes[at].draw(self.plan, due).kind.class();
                let tally = self.account.tally_mut(class);
                tally.response.record(self.clock.ns_between(due, now));
                self.lanes[at].advance(&self.phase, &self.clock);
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

    /// Makes connections that earlier phases closed again, before a further phase.
    ///
    /// # Errors
    /// A server that does not let us.
    pub(crate) fn mend(&mut self) -> Result<()> {
        for at in 0..self.connections.len() {
            if self.connections[at].is_alive() {
                continue;
            }
            let server = self.connections[at].server;
            let stream = open(self.plan, server).map_err(|cause| Error::Server {
                server: self.plan.servers[server].name.clone(),
                cause,
            })?;
            self.poller.add(&stream, at).map_err(Error::machine("watch a socket"))?;
            self.connections[at].renew(stream);
        }
        Ok(())
    }
}

/// A connection to a server of the plan that has been greeted and does not block.
pub(super) fn open(plan: &Plan, server: usize) -> io::Result<Stream> {
    let settings = &plan.settings;
    let (endpoint, options) = (&plan.servers[server].endpoint, &plan.connect[server]);
    let credentials = settings.credentials.as_ref();
    open_with(endpoint, options, settings.protocol, credentials, settings.nodelay)
}

fn open_with(
    endpoint: &Endpoint,
    options: &ConnectOptions,
    protocol: Protocol,
    credentials: Option<&Credentials>,
    nodelay: bool,
) -> io::Result<Stream> {
    let mut stream = Stream::connect(endpoint, options).map_err(|error| match error {
        keyrack_net::Error::Endpoint { cause, .. } => {
            io::Error::new(cause.kind(), format!("cannot connect: {cause}"))
        }
        other => io::Error::other(other.to_string()),
    })?;
    if !nodelay {
        stream.set_nodelay(false)?;
    }
    target::greet(&mut stream, protocol, credentials).map_err(|cause| match cause.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "connected, but there is no answer in time")
        }
        _ => cause,
    })?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
