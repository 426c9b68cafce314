//! The client's side: a wire for each server, and what is under way on it.
//!
//! ```text
//!   submit, submit, submit   append to the wire's output, keep the bytes
//!   flush                    one write
//!   drain                    one read, then all answers that it brought
//! ```
//!
//! A connection that breaks is made again, and what is under way is sent again under its old
//! numbers: the server answers from memory what it has carried out already. Datagrams are sent
//! again after a silence. So a call is carried out once, or its error says that nobody knows.

use super::network::Network;
use super::wire::{RESEND, Transport, Wire};
use crate::job::random_token;
use crate::rpc::codec::{FRAME_BYTES_MAX, Frame, Protocol, REVOKED_BIT, Reply, Request, WINDOW};
use crate::rpc::errno::name_of;
use crate::rpc::error::{Error, Result};
use crate::rpc::lease_clock::LeaseClock;
use crate::user::User;
use keyrack_measure::Clock;
use keyrack_net::{ConnectOptions, Endpoint};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Calls under way to one server, at most.
const DEPTH_MAX: usize = WINDOW / 2;
/// How often a broken connection is made again without an answer in between.
const ATTEMPTS_MAX: u32 = 3;

/// How a client connects.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// By which way.
    pub transport: Transport,
    /// On whose behalf.
    pub user: User,
    /// What the servers ask for.
    pub token: Vec<u8>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Timeouts are those of `timeout`; TLS where it is wanted.
    pub connect: ConnectOptions,
    /// What tells how much of a lease is left.
    pub lease_clock: LeaseClock,
    /// How many creates of a tree go with one call, written behind; without, each is waited for.
    pub write_behind: Option<usize>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let timeout = Duration::from_secs(30);
        ClientOptions {
            transport: Transport::Stream,
            user: User::root(),
            token: Vec::new(),
            timeout,
            connect: ConnectOptions::with_timeout(timeout),
            lease_clock: LeaseClock::Machine,
            write_behind: None,
        }
    }
}

/// What a call came to.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// What was handed in with the call.
    pub ticket: u64,
    /// The operation.
    pub tag: u8,
    /// 0, or an error.
    code: u8,
    fields: &'a [u8],
    peer: &'a Endpoint,
}

impl<'a> Answer<'a> {
    /// Whether it was done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.code == 0
    }

    /// The reply.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Protocol`] if it makes no sense.
    pub fn reply(&self) -> Result<Reply<'a>> {
        if name_of(self.code) == "EREMOTE" {
            return Err(self.elsewhere().unwrap_or_else(|| self.senseless()));
        }
        if self.code != 0 {
            let text = String::from_utf8_lossy(self.fields).into_owned();
            return Err(Error::Refused { errno: name_of(self.code), text });
        }
        Reply::decode(self.tag, self.fields).ok_or_else(|| self.senseless())
    }

    fn elsewhere(&self) -> Option<Error> {
        let (dir, map) = self.fields.split_first_chunk::<16>()?;
        let map = crate::partition::SplitMap::from_bytes(map)?;
        Some(Error::Elsewhere { dir: u128::from_le_bytes(*dir), map })
    }

    fn senseless(&self) -> Error {
        let (peer, what) = (self.peer.to_string(), Request::name(self.tag).to_owned());
        Error::Protocol { peer, what }
    }
}

/// A call that was not answered yet.
#[derive(Debug)]
struct Pending {
    call: u64,
    ticket: u64,
    tag: u8,
    request: Vec<u8>,
}

/// One server.
#[derive(Debug)]
struct Server {
    endpoint: Endpoint,
    wire: Option<Wire>,
    pending: VecDeque<Pending>,
    /// Vectors of requests that were answered.
    spare: Vec<Vec<u8>>,
    calls: u64,
    /// The server revokes leases of this client.
    has_revoked: bool,
}

/// Connections to servers of one name space.
#[derive(Debug)]
pub struct Client {
    id: [u8; 16],
    options: ClientOptions,
    servers: Vec<Server>,
    clock: Clock,
    began: u64,
    /// In place of the machine's sockets and clock.
    network: Option<Arc<dyn Network>>,
}

impl Client {
    /// A client of these servers, in their order. Connections are made when they are needed.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>, options: ClientOptions) -> Client {
        let mut options = options;
        options.connect.connect_timeout = Some(options.timeout);
        options.connect.read_timeout = Some(options.timeout);
        options.connect.write_timeout = Some(options.timeout);
        let server = |endpoint| Server {
            endpoint,
            wire: None,
            pending: VecDeque::new(),
            spare: Vec::new(),
            calls: 0,
            has_revoked: false,
        };
        let servers = endpoints.into_iter().map(server).collect();
        let clock = Clock::vdso();
        let began = clock.ticks();
        Client { id: random_token(), options, servers, clock, began, network: None }
    }

    /// A client in another world than the machine's.
    #[cfg(test)]
    pub(crate) fn over(
        network: Arc<dyn Network>,
        endpoints: Vec<Endpoint>,
        options: ClientOptions,
    ) -> Client {
        Client { network: Some(network), ..Client::new(endpoints, options) }
    }

    fn now_ns(&self) -> u64 {
        match &self.network {
            Some(network) => network.now_ns(),
            None => self.clock.ns_between(self.began, self.clock.ticks()),
        }
    }

    /// How many servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Waits before something is asked again.
    pub fn pause(&self, pause: Duration) {
        if let Some(network) = &self.network {
            return network.pause(pause);
        }
        let ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        self.clock.wait_until(self.clock.ticks() + self.clock.ticks_of_ns(ns));
    }

    /// Whether a server has revoked leases since the last call.
    pub(crate) fn poll_revoked(&mut self, server: usize) -> bool {
        std::mem::take(&mut self.servers[server].has_revoked)
    }

    pub(crate) fn transport(&self) -> Transport {
        self.options.transport
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Calls under way to a server.
    #[must_use]
    pub fn in_flight(&self, server: usize) -> usize {
        self.servers[server].pending.len()
    }

    /// Appends a call. Nothing is sent before [`Client::flush`], but for what fills a datagram.
    ///
    /// # Errors
    /// [`Error::Usage`] if it cannot be sent, or too many are under way; [`Error::Peer`].
    ///
    /// # Panics
    /// If there is no such server.
    pub fn submit(&mut self, server: usize, request: &Request<'_>, ticket: u64) -> Result<()> {
        if self.servers[server].pending.len() >= DEPTH_MAX {
            return Err(Error::Usage(format!("more than {DEPTH_MAX} calls to one server")));
        }
        self.connected(server, request.tag())?;
        let at = &mut self.servers[server];
        // A new buffer if none is left over.
        let mut bytes = at.spare.pop().unwrap_or_default();
        bytes.clear();
        let call = at.calls + 1;
        request.encode(call, &mut bytes);
        let wire = at.wire.as_mut().expect("it was connected just now");
        if bytes.len() > wire.request_bytes_max() {
            return Err(Error::Usage(format!(
                "a {} request of {} bytes does not fit: {} at most; use TCP, or smaller batches",
                Request::name(request.tag()),
                bytes.len(),
                wire.request_bytes_max()
            )));
        }
        at.calls = call;
        let tag = request.tag();
        let appended = wire.append(&bytes, answer_bytes(request));
        at.pending.push_back(Pending { call, ticket, tag, request: bytes });
        match appended {
            Ok(()) => Ok(()),
            Err(cause) => self.reconnect(server, cause),
        }
    }

    /// Sends what was appended.
    ///
    /// # Errors
    /// [`Error::Peer`].
    pub fn flush(&mut self, server: usize) -> Result<()> {
        // Without a connection nothing is under way.
        let Some(wire) = &mut self.servers[server].wire else { return Ok(()) };
        match wire.flush() {
            Ok(()) => Ok(()),
            Err(cause) => self.reconnect(server, cause),
        }
    }

    /// Waits for answers of a server, and shows all that came.
    ///
    /// # Errors
    /// [`Error::Peer`] if none comes in time; [`Error::Protocol`].
    pub fn drain(&mut self, server: usize, visit: &mut dyn FnMut(Answer<'_>)) -> Result<()> {
        self.flush(server)?;
        let mut attempts = 0;
        let began_ns = self.now_ns();
        while !self.servers[server].pending.is_empty() {
            if self.deliver(server, visit)? > 0 {
                return Ok(());
            }
            let Some(wire) = &mut self.servers[server].wire else {
                self.connected(server, 3)?;
                continue;
            };
            let Err(cause) = wire.fill() else { continue };
            use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
            let is_datagrams = wire.is_datagrams();
            match cause.kind() {
                Interrupted => continue,
                TimedOut | WouldBlock if !is_datagrams => {
                    return Err(self.give_up_silent(server, cause));
                }
                TimedOut | WouldBlock | ConnectionRefused if is_datagrams => {
                    let waited_ns = self.now_ns() - began_ns;
                    if u128::from(waited_ns) > self.options.timeout.as_nanos() {
                        return Err(self.give_up_silent(server, cause));
                    }
                    if cause.kind() == ConnectionRefused {
                        // The kernel answers at once for a port where nobody is.
                        self.pause(RESEND);
                    }
                    self.resend(server).map_err(|cause| self.give_up_silent(server, cause))?;
                }
                _ if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    self.reconnect(server, cause)?;
                }
                _ => return Err(self.give_up_silent(server, cause)),
            }
        }
        Ok(())
    }

    /// One call, to its end. Nothing else may be under way to that server.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Peer`], [`Error::Protocol`], [`Error::Usage`].
    pub fn call<R>(
        &mut self,
        server: usize,
        request: &Request<'_>,
        take: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R> {
        let tag = self.begin(server, request)?;
        self.finish(server, tag, take)
    }

    /// Sends a call that [`Client::finish`] waits for. Nothing else may be under way to that
    /// server. Which operation it is.
    ///
    /// # Errors
    /// As for [`Client::call`].
    pub(crate) fn begin(&mut self, server: usize, request: &Request<'_>) -> Result<u8> {
        if !self.servers[server].pending.is_empty() {
            return Err(Error::Usage("other calls are under way".to_owned()));
        }
        let begun = self.submit(server, request, 0).and_then(|()| self.flush(server));
        begun.inspect_err(|_| self.abandon(server))?;
        Ok(request.tag())
    }

    /// It is given up: the next call begins anew.
    fn abandon(&mut self, server: usize) {
        self.servers[server].pending.clear();
        self.servers[server].wire = None;
    }

    /// Waits for the answer to [`Client::begin`].
    ///
    /// # Errors
    /// As for [`Client::call`].
    pub(crate) fn finish<R>(
        &mut self,
        server: usize,
        tag: u8,
        take: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R> {
        let mut take = Some(take);
        let mut result = None;
        let mut done = Ok(());
        while done.is_ok() && self.in_flight(server) > 0 {
            done = self.drain(server, &mut |answer| {
                let take = take.take();
                result = Some(answer.reply().map(|reply| take.map(|take| take(reply))));
            });
        }
        if let Err(error) = done {
            self.abandon(server);
            return Err(error);
        }
        match result {
            Some(Ok(Some(taken))) => Ok(taken),
            Some(Err(error)) => Err(error),
            _ => Err(self.protocol(server, tag)),
        }
    }

    /// Shows the answers that are here. How many.
    fn deliver(&mut self, server: usize, visit: &mut dyn FnMut(Answer<'_>)) -> Result<usize> {
        let mut count = 0;
        loop {
            let Server { endpoint, wire, pending, spare, has_revoked, .. } =
                &mut self.servers[server];
            let Some(wire) = wire else { return Ok(count) };
            let (call, code, fields, bytes) = match wire.frame() {
                Frame::Whole { call, tag, fields, bytes } => (call, tag, fields, bytes),
                Frame::Partial(_) => return Ok(count),
                Frame::Broken => {
                    let tag = pending.front().map_or(0, |pending| pending.tag);
                    return Err(self.protocol(server, tag));
                }
            };
            *has_revoked |= code & REVOKED_BIT != 0;
            let code = code & !REVOKED_BIT;
            if wire.is_datagrams() && name_of(code) == "ENOTCONN" {
                // The server was started anew, and does not know this client.
                self.reconnect(server, io::ErrorKind::NotConnected.into())?;
                continue;
            }
            // Answers of a connection come in order; of datagrams in any.
            let place = pending.iter().position(|pending| pending.call == call);
            if let Some(done) = place.and_then(|place| pending.remove(place)) {
                let Pending { ticket, tag, request, .. } = done;
                spare.push(request);
                visit(Answer { ticket, tag, code, fields, peer: endpoint });
                count += 1;
            }
            wire.consume(bytes);
        }
    }

    /// A connection, with a hello that was answered.
    fn connected(&mut self, server: usize, tag: u8) -> Result<()> {
        if self.servers[server].wire.is_some() {
            return Ok(());
        }
        match self.connect(server) {
            Ok(wire) => {
                self.servers[server].wire = Some(wire?);
                Ok(())
            }
            Err(cause) => Err(self.peer_error(server, tag, cause)),
        }
    }

    fn connect(&mut self, server: usize) -> io::Result<Result<Wire>> {
        let options = &self.options;
        let endpoint = &self.servers[server].endpoint;
        let mut wire = match &self.network {
            None => Wire::connect(endpoint, options.transport, &options.connect, &self.id)?,
            Some(network) => {
                let is_datagrams = options.transport != Transport::Stream;
                let line = network.connect(server, is_datagrams)?;
                Wire::over(line, options.transport, options.timeout, &self.id)?
            }
        };
        let mut hello = Vec::new();
        let request = Request::Hello {
            protocol: Protocol,
            client: self.id,
            user: options.user.clone(),
            token: &options.token,
        };
        request.encode(0, &mut hello);
        let began_ns = self.now_ns();
        loop {
            wire.append(&hello, answer_bytes(&request))?;
            wire.flush()?;
            let filled = loop {
                match wire.frame() {
                    Frame::Whole { call: 0, tag, fields, bytes } => {
                        let answer =
                            Answer { ticket: 0, tag: 1, code: tag, fields, peer: endpoint };
                        let reply = answer.reply().map(|_| ());
                        wire.consume(bytes);
                        return Ok(reply.map(|()| wire));
                    }
                    Frame::Whole { bytes, .. } => wire.consume(bytes),
                    Frame::Partial(_) => match wire.fill() {
                        Ok(()) => {}
                        Err(cause) => break cause,
                    },
                    Frame::Broken => {
                        let what = "hello".to_owned();
                        return Ok(Err(Error::Protocol { peer: endpoint.to_string(), what }));
                    }
                }
            };
            let waited_ns = self.now_ns() - began_ns;
            let is_over = u128::from(waited_ns) > options.timeout.as_nanos();
            if !wire.is_datagrams() || is_over {
                return Err(filled);
            }
            if filled.kind() == io::ErrorKind::ConnectionRefused {
                self.pause(RESEND);
            }
        }
    }

    /// Makes a broken connection again, and sends what is under way.
    fn reconnect(&mut self, server: usize, cause: io::Error) -> Result<()> {
        self.servers[server].wire = None;
        if cause.kind() == io::ErrorKind::TimedOut {
            return Err(self.give_up_silent(server, cause));
        }
        let tag = self.servers[server].pending.front().map_or(3, |pending| pending.tag);
        self.connected(server, tag)?;
        self.resend(server).map_err(|cause| self.give_up_silent(server, cause))
    }

    fn resend(&mut self, server: usize) -> io::Result<()> {
        let Server { wire, pending, .. } = &mut self.servers[server];
        let wire = wire.as_mut().expect("it was connected just now");
        for pending in pending {
            // Few in a datagram: the server may have had no room for the answers.
            wire.append(&pending.request, ANSWER_BYTES)?;
        }
        wire.flush()
    }

    /// The server does not answer: what is under way is given up.
    fn give_up_silent(&mut self, server: usize, cause: io::Error) -> Error {
        let at = &mut self.servers[server];
        let tag = at.pending.front().map_or(3, |pending| pending.tag);
        at.pending.clear();
        at.wire = None;
        self.peer_error(server, tag, cause)
    }

    fn peer_error(&self, server: usize, tag: u8, cause: io::Error) -> Error {
        let peer = self.servers[server].endpoint.to_string();
        let cause = match cause.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = self.options.timeout.as_secs();
                io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {seconds} s"))
            }
            _ => cause,
        };
        Error::Peer { peer, what: Request::name(tag).to_owned(), cause: Arc::new(cause) }
    }

    fn protocol(&self, server: usize, tag: u8) -> Error {
        let peer = self.servers[server].endpoint.to_string();
        Error::Protocol { peer, what: Request::name(tag).to_owned() }
    }
}

/// Bytes of an answer with facts, and of an error with usual words.
const ANSWER_BYTES: usize = 128;

/// About how many bytes the answer has: so many calls go into one datagram as their answers do.
fn answer_bytes(request: &Request<'_>) -> usize {
    match request {
        Request::Create { .. } => 32,
        Request::CreateMany { names, .. } => 32 + names.len(),
        Request::ReadDir { .. } => FRAME_BYTES_MAX,
        Request::Read { count, .. } => 32 + *count as usize,
        _ => ANSWER_BYTES,
    }
}
