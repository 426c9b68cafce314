//! A server on one thread that sends replies when they are due.
//!
//! ```text
//!   turn:  wait for sockets or the next due reply -> accept -> read -> requests -> parcels
//!                                                 -> send what is due, in order
//! ```
//!
//! Waiting is `poll`, whose timeout has nanoseconds where the kernel has them; the last 150 us
//! before a reply is due are spent looking, because a timer is late by about as much. `poll` looks
//! at every socket in every turn, which is fair for the tens of connections that tests have.
//!
//! **Invariant:** replies of a connection leave in the order of its requests, each not before it is
//! due. A connection has bounded memory: it is not read while 1 MiB waits to be sent.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use keyrack_vfs::{Fs, RealFs};
use keyrack_workload::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use super::answer::{Answered, Answerer, ConnectionProtocol};
use super::counts::LiveCounts;
use super::error::Error;
use super::faults::Faults;
use super::queue::QueueModel;
use super::settings::{ResponderKind, Settings};
use super::shm;
use super::timed_reply::{AfterSend, TimedReply};
use crate::arrival::{Purpose, Stream};
use crate::ring;

/// Before a reply is due by less than this, the loop does not sleep.
const LOOK_NS: u64 = 150_000;
/// For so long after a client in memory was heard the loop does not sleep: it may write at any
/// moment, and a wake-up would be in its response times. Longer than gaps of a load are.
const WATCH_NS: u64 = 1_000_000_000;
/// The longest sleep, so that an order to stop is seen.
const SLEEP_NS_MAX: u64 = 20_000_000;
const READ_BYTES: usize = 64 << 10;
/// A connection is not read while so much waits to be sent.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
enum Behaviour {
    Faults(Faults),
    Queue(Box<QueueModel>),
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    Memory(ring::Listener),
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    Memory(Box<ring::End>),
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    protocol: ConnectionProtocol,
    skip: u64,
    input: Vec<u8>,
    replies: VecDeque<TimedReply>,
    replies_bytes: usize,
    /// Bytes of the first reply that are sent.
    sent: usize,
    /// The kernel takes no more at the moment.
    is_full: bool,
    /// The client has ended its side.
    is_ended: bool,
    /// No more requests are served.
    is_leaving: bool,
}

#[derive(Debug)]
pub(super) struct DelayedServer {
    listeners: Vec<Listener>,
    connections: Vec<Connection>,
    answerer: Answerer,
    behaviour: Behaviour,
    rng: Rng,
    counts: Arc<LiveCounts>,
    clock: Clock,
    /// When a client in memory was heard last.
    heard_ns: u64,
    scratch: Vec<u8>,
}

impl DelayedServer {
    /// Listens; nobody is served before [`DelayedServer::run`].
    pub(super) fn bind(
        settings: &Settings,
        counts: Arc<LiveCounts>,
    ) -> Result<(DelayedServer, Vec<Endpoint>), Error> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for endpoint in &settings.endpoints {
            for place in endpoint.resolve()? {
                let (listener, address) = listen(&place).map_err(|cause| {
                    let action = format!("listen on {place}");
                    Error::Machine { action, cause }
                })?;
                listeners.push(listener);
                addresses.push(address);
            }
        }
        for path in &settings.shared {
            listeners.push(Listener::Memory(shm::bind(path)?));
        }
        let of = |connection| Stream { seed: settings.seed, agent: 0, thread: 0, connection };
        let behaviour = match &settings.kind {
            ResponderKind::Queue(distribution) => {
                let rng = of(1).rng(Purpose::Faults);
                Behaviour::Queue(Box::new(QueueModel::new(distribution.clone(), rng)))
            }
            ResponderKind::Fault(faults) => Behaviour::Faults(faults.clone()),
            ResponderKind::Null => Behaviour::Faults(Faults::default()),
        };
        let misses = of(0).rng(Purpose::Faults);
        let server = DelayedServer {
            listeners,
            connections: Vec::new(),
            answerer: Answerer::new(settings.value_bytes, settings.miss_share, misses),
            behaviour,
            rng: of(2).rng(Purpose::Faults),
            counts,
            clock: Clock::vdso(),
            heard_ns: 0,
            scratch: vec![0; READ_BYTES],
        };
        Ok((server, addresses))
    }

    /// Serves until it is told to stop.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let start_ns = self.clock.ticks();
        // Acquire: pairs with the releasing store of whoever ends the responder.
        while !stop.load(Ordering::Acquire) {
            let now_ns = self.clock.ticks();
            if let Behaviour::Faults(faults) = &self.behaviour
                && let Some(until_ns) = faults.frozen_until_ns(now_ns - start_ns)
            {
                // In slices, so that an order to stop is seen.
                let slice_ns = (start_ns + until_ns).min(now_ns + SLEEP_NS_MAX);
                self.clock.wait_until(slice_ns);
                continue;
            }
            let is_called = self.wait(now_ns);
            self.iterate(is_called);
        }
    }

    /// Sleeps until a socket has something, or until shortly before the next reply is due. Is
    /// somebody at a listener?
    fn wait(&mut self, now_ns: u64) -> bool {
        let due_ns = self.connections.iter().filter(|connection| !connection.is_full);
        let due_ns = due_ns.filter_map(|connection| connection.replies.front()).map(|p| p.due_ns);
        let until_ns = due_ns.min().unwrap_or(u64::MAX);
        let sleep_ns = until_ns.saturating_sub(now_ns.saturating_add(LOOK_NS)).min(SLEEP_NS_MAX);
        let is_watching = now_ns.saturating_sub(self.heard_ns) < WATCH_NS;
        let may_sleep = !is_watching && self.connections.iter().all(Connection::may_sleep);
        let sleep_ns = if may_sleep { sleep_ns } else { 0 };
        let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns as _ };
        let listeners = self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN));
        let sockets = self.connections.iter().map(|connection| {
            let mut flags = PollFlags::empty();
            // Memory wakes through bytes that come, whatever for.
            let is_memory = matches!(connection.socket, Socket::Memory(_));
            flags.set(PollFlags::OUT, connection.is_full && !is_memory);
            flags.set(PollFlags::IN, connection.wants_input() || is_memory);
            PollFd::new(&connection.socket, flags)
        });
        let mut places: Vec<PollFd<'_>> = listeners.chain(sockets).collect();
        // An interruption is as good as a timeout: every connection is looked at in any case. The
        // listeners are not: the kernel makes a socket before it finds nobody to accept, and frees
        // thousands of them at once, which takes milliseconds.
        let _ = poll(&mut places, Some(&timeout));
        let is_called =
            places[..self.listeners.len()].iter().any(|listener| !listener.revents().is_empty());
        let is_heard: Vec<bool> = places[self.listeners.len()..]
            .iter()
            .map(|place| !place.revents().is_empty())
            .collect();
        drop(places);
        for (connection, is_heard) in self.connections.iter_mut().zip(is_heard) {
            connection.wake(is_heard);
        }
        is_called
    }

    fn iterate(&mut self, is_called: bool) {
        let listeners = if is_called { self.listeners.len() } else { 0 };
        for index in 0..listeners {
            while let Some(socket) = self.listeners[index].accept() {
                LiveCounts::add(&self.counts.connections, 1);
                self.connections.push(Connection::new(socket));
            }
        }
        let mut index = 0;
        while index < self.connections.len() {
            let mut connection = self.connections.swap_remove(index);
            let stays = self.step(&mut connection);
            if stays {
                self.connections.push(connection);
                // It was put at the end, and the one that was there has its place.
                let last = self.connections.len() - 1;
                self.connections.swap(index, last);
                index += 1;
            }
        }
    }

    /// Reads, serves and sends; false when the connection is over.
    fn step(&mut self, connection: &mut Connection) -> bool {
        let mut now_ns = self.clock.ticks();
        if connection.wants_input() {
            match connection.socket.read(&mut self.scratch) {
                Ok(0) => connection.is_ended = true,
                Ok(bytes) => {
                    connection.input.extend_from_slice(&self.scratch[..bytes]);
                    // Not the moment before it: then a reply would leave too early.
                    now_ns = self.clock.ticks();
                    if matches!(connection.socket, Socket::Memory(_)) {
                        self.heard_ns = now_ns;
                    }
                }
                Err(error) if is_nothing(&error) => {}
                Err(_) => return false,
            }
        }
        self.serve(connection, now_ns);
        connection.send(now_ns)
    }

    fn serve(&mut self, connection: &mut Connection, now_ns: u64) {
        let mut consumed = 0;
        while !connection.is_leaving {
            let mut reply = Vec::new();
            let Connection { protocol, skip, input, .. } = connection;
            let taken = self.answerer.answer(protocol, skip, &input[consumed..], &mut reply);
            match taken {
                Answered::Request(bytes) => consumed += bytes,
                Answered::Skip(bytes) => {
                    consumed += bytes;
                    continue;
                }
                Answered::Partial => break,
                Answered::Close => {
                    let last = TimedReply { after: AfterSend::Close, ..TimedReply::now(reply) };
                    connection.put(last);
                    break;
                }
            }
            LiveCounts::add(&self.counts.requests, 1);
            match &mut self.behaviour {
                Behaviour::Queue(queue) => {
                    let due_ns = queue.departure_ns(now_ns);
                    connection.put(TimedReply::at(due_ns, reply));
                }
                Behaviour::Faults(faults) => {
                    let is_binary = matches!(connection.protocol, ConnectionProtocol::Binary);
                    let is_resp = matches!(connection.protocol, ConnectionProtocol::Resp { .. });
                    let put = &mut |reply| connection.put(reply);
                    if faults.inject(now_ns, reply, is_binary, is_resp, &mut self.rng, put) {
                        LiveCounts::add(&self.counts.faults, 1);
                    }
                }
            }
        }
        connection.input.drain(..consumed);
    }
}

impl Drop for DelayedServer {
    fn drop(&mut self) {
        for listener in &self.listeners {
            if let Listener::Unix(_, path) = listener {
                // Nobody minds a name that is gone already.
                let _ = RealFs.remove_file(path);
            }
        }
    }
}

impl Connection {
    fn new(socket: Socket) -> Connection {
        Connection {
            socket,
            protocol: ConnectionProtocol::default(),
            skip: 0,
            input: Vec::new(),
            replies: VecDeque::new(),
            replies_bytes: 0,
            sent: 0,
            is_full: false,
            is_ended: false,
            is_leaving: false,
        }
    }

    fn wants_input(&self) -> bool {
        !self.is_ended && !self.is_leaving && self.replies_bytes < OUTPUT_BYTES_MAX
    }

    /// May the loop sleep, as far as this connection knows without a socket that says so?
    fn may_sleep(&self) -> bool {
        match &self.socket {
            Socket::Memory(end) => {
                end.sleep(ring::Wants { bytes: self.wants_input(), room: self.is_full })
            }
            _ => true,
        }
    }

    /// The loop is awake; `is_heard`: the socket has something.
    fn wake(&mut self, is_heard: bool) {
        if let Socket::Memory(end) = &mut self.socket {
            end.wake();
            if is_heard {
                end.drain_wakeups();
            }
        }
    }

    fn put(&mut self, reply: TimedReply) {
        self.replies_bytes += reply.bytes.len();
        self.is_leaving |= reply.after != AfterSend::Nothing;
        self.replies.push_back(reply);
    }

    /// Sends what is due; false when the connection is over.
    fn send(&mut self, now_ns: u64) -> bool {
        self.is_full = false;
        while let Some(reply) = self.replies.front() {
            if reply.due_ns > now_ns {
                return true;
            }
            while self.sent < reply.bytes.len() {
                match self.socket.write(&reply.bytes[self.sent..]) {
                    Ok(bytes) => self.sent += bytes,
                    Err(error) if is_nothing(&error) => {
                        self.is_full = true;
                        return true;
                    }
                    Err(_) => return false,
                }
            }
            self.replies_bytes -= reply.bytes.len();
            match reply.after {
                AfterSend::Nothing => {}
                AfterSend::Close => return false,
                AfterSend::Reset => {
                    self.socket.make_reset();
                    return false;
                }
            }
            self.sent = 0;
            self.replies.pop_front();
        }
        !self.is_ended
    }
}

impl Listener {
    fn accept(&self) -> Option<Socket> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                stream.set_nodelay(true).ok()?;
                Some(Socket::Tcp(stream))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some(Socket::Unix(stream))
            }
            Listener::Memory(listener) => {
                listener.accept().map(|end| Socket::Memory(Box::new(end)))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Memory(listener) => listener.as_fd(),
        }
    }
}

impl Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Unix(stream) => stream.read(bytes),
            Socket::Memory(end) => end.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Memory(end) => end.write(bytes),
        }
    }

    /// Lets the close that follows be a reset. Unix sockets and memory have none; they are just
    /// closed.
    fn make_reset(&self) {
        if let Socket::Tcp(stream) = self {
            // A socket that is gone already has been reset by the other side.
            let _ = sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Memory(end) => end.as_fd(),
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn listen(place: &Endpoint) -> io::Result<(Listener, Endpoint)> {
    match place {
        Endpoint::Ip(address) => {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((Listener::Tcp(listener), Endpoint::Ip(address)))
        }
        Endpoint::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok((Listener::Unix(listener, path.clone()), place.clone()))
        }
        // Names are resolved before.
        _ => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}
