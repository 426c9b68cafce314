//! What a connection goes over: a socket of any kind, or memory that a responder shares.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use keyrack_net::{Endpoint, Stream};

use super::node::Node;
use crate::ring::End;

/// A connection's transport.
#[derive(Debug)]
pub(super) enum Transport {
    Socket(Stream),
    Memory(Box<End>),
}

impl Transport {
    /// Connects to a node, and blocks for as long as the plan says.
    pub(super) fn connect(node: &Node, patience: Duration) -> io::Result<Transport> {
        let told =
            |cause: io::Error| io::Error::new(cause.kind(), format!("cannot connect: {cause}"));
        if let (true, Endpoint::Unix(path)) = (node.server.is_shared, &node.server.endpoint) {
            let end = End::connect(path, patience).map_err(|cause| match cause.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => unheard(cause),
                _ => told(cause),
            })?;
            return Ok(Transport::Memory(Box::new(end)));
        }
        let stream = Stream::connect(&node.server.endpoint, &node.options);
        stream.map(Transport::Socket).map_err(|error| match error {
            keyrack_net::Error::Endpoint { cause, .. } => told(cause),
            other => io::Error::other(other.to_string()),
        })
    }

    /// From now on nothing waits.
    pub(super) fn set_nonblocking(&mut self) -> io::Result<()> {
        match self {
            Transport::Socket(stream) => stream.set_nonblocking(true),
            Transport::Memory(end) => {
                end.set_nonblocking();
                Ok(())
            }
        }
    }

    pub(super) fn set_nodelay(&self, is_nodelay: bool) -> io::Result<()> {
        match self {
            Transport::Socket(stream) => stream.set_nodelay(is_nodelay),
            Transport::Memory(_) => Ok(()),
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Transport::Socket(stream) if stream.is_tls())
    }

    pub(super) fn wants_write(&self) -> bool {
        matches!(self, Transport::Socket(stream) if stream.wants_write())
    }

    /// The memory, where it is that.
    #[inline]
    pub(super) fn memory(&mut self) -> Option<&mut End> {
        match self {
            Transport::Socket(_) => None,
            Transport::Memory(end) => Some(end),
        }
    }
}

impl Read for Transport {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Socket(stream) => stream.read(bytes),
            Transport::Memory(end) => end.read(bytes),
        }
    }
}

impl Write for Transport {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Socket(stream) => stream.write(bytes),
            Transport::Memory(end) => end.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Socket(stream) => stream.flush(),
            Transport::Memory(end) => end.flush(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Socket(stream) => stream.as_fd(),
            Transport::Memory(end) => end.as_fd(),
        }
    }
}

/// The error for a server that accepts a connection and does not answer.
pub(super) fn unheard(cause: io::Error) -> io::Error {
    match cause.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "connected, but there is no answer in time")
        }
        _ => cause,
    }
}
