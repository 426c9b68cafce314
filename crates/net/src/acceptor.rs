//! The listening sockets of one loop.
//!
//! The kernel reports an accept that fails for want of descriptors again and again, or never.
//! So a loop has a spare descriptor: it gives that up, accepts, tells the client, closes, and takes
//! the spare back. Meanwhile no other loop accepts, or it would take the descriptor. Where even
//! that fails, since another part of the process has taken it, the loop does not accept for
//! [`RETRY_NS`], and tries as often to get its spare back.
//!
//! **Invariant:** a client that cannot be served is told and closed, not left to hang, while the
//! loop has its spare.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use crate::socket::Socket;

/// How long nothing is accepted when the machine has run out of something.
const RETRY_NS: u64 = 100_000_000;

#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// One of them, for one loop.
#[derive(Debug)]
pub(crate) struct LoopListener {
    pub(crate) socket: ListenSocket,
    /// Index into the options' list.
    pub(crate) listener: usize,
    /// May a client wait there?
    pub(crate) is_ready: bool,
}

#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection.
    Client(Socket, Option<SocketAddr>),
    /// The machine has run out of descriptors or memory: a client may wait, to be refused.
    Exhausted,
    /// No client waits.
    Nobody,
    /// An error of the client's.
    Failed,
}

/// The listeners of one loop.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<LoopListener>,
    spare: Option<OwnedFd>,
    /// Nothing is accepted before.
    paused_ns: Option<u64>,
    /// When to try again to get a spare.
    regain_ns: Option<u64>,
}

impl Acceptor {
    pub(crate) fn new(listeners: Vec<LoopListener>) -> Self {
        let spare = listeners.first().and_then(|listener| spare(&listener.socket));
        Acceptor { listeners, spare, paused_ns: None, regain_ns: None }
    }

    /// Is there something to accept now?
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_paused() && self.listeners.iter().any(|listener| listener.is_ready)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_ns.is_some()
    }

    /// When there is something to try again.
    pub(crate) fn retry_ns(&self) -> Option<u64> {
        [self.paused_ns, self.regain_ns].into_iter().flatten().min()
    }

    /// Tries again what it is time for.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if self.paused_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.paused_ns = None;
        }
        if self.regain_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.restore(now_ns);
        }
    }

    pub(crate) fn accept(&mut self, index: usize) -> Accepted {
        let listener = &mut self.listeners[index];
        let cause = match listener.socket.accept() {
            Ok((socket, address)) => return Accepted::Client(socket, address),
            Err(cause) => cause,
        };
        if cause.kind() == io::ErrorKind::WouldBlock {
            listener.is_ready = false;
            return Accepted::Nobody;
        }
        match Errno::from_io_error(&cause) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
            // The client has gone before it was accepted; the next one may be there.
            _ => Accepted::Failed,
        }
    }

    /// Accepts a waiting client with the spare descriptor, to refuse it; [`Acceptor::restore`]
    /// follows. `None` if no client waits, or if the accept fails: then accepting pauses.
    pub(crate) fn accept_by_spare(&mut self, index: usize, now_ns: u64) -> Option<Socket> {
        let listener = &mut self.listeners[index];
        if self.spare.take().is_some() {
            match listener.socket.accept() {
                Ok((socket, _)) => return Some(socket),
                // Some kernels look for a descriptor before they look for a client.
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    listener.is_ready = false;
                    return None;
                }
                Err(_) => {}
            }
        }
        self.paused_ns = Some(now_ns.saturating_add(RETRY_NS));
        None
    }

    /// Takes the spare descriptor back, after the surplus connection is closed.
    pub(crate) fn restore(&mut self, now_ns: u64) {
        if self.spare.is_none() {
            self.spare = self.listeners.first().and_then(|listener| spare(&listener.socket));
        }
        let is_missing = self.spare.is_none() && !self.listeners.is_empty();
        self.regain_ns = is_missing.then(|| now_ns.saturating_add(RETRY_NS));
    }
}

fn spare(socket: &ListenSocket) -> Option<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(socket, 0).ok()
}

impl ListenSocket {
    fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            ListenSocket::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                Ok((Socket::Tcp(stream), Some(address)))
            }
            ListenSocket::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Socket::Unix(stream), None))
            }
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            ListenSocket::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            ListenSocket::Unix(listener) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListenSocket::Tcp(listener) => listener.as_fd(),
            ListenSocket::Unix(listener) => listener.as_fd(),
        }
    }
}
