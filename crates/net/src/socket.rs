//! A connected socket, TCP or Unix, that never blocks.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::sockopt;

/// A silent peer is probed after this time, so that one that is gone does not stay for ever. Other
/// systems have a time of their own.
#[cfg(target_os = "linux")]
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The outcome of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Bytes of the connection's stream.
    pub(crate) count: usize,
    /// The state of the socket after them.
    pub(crate) rest: Rest,
}

/// What remains in a socket after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Perhaps more: the read was full.
    More,
    /// Nothing, or the end: the read was short. The kernel announces what comes.
    Short,
    /// Nothing: the kernel has said so.
    Nothing,
    /// The end.
    End,
}

impl Socket {
    /// Small replies leave at once; dead peers are found.
    pub(crate) fn set_up(&self) {
        if let Socket::Tcp(stream) = self {
            // A socket that is closed already has no options any more; the first read tells.
            let _ = stream.set_nodelay(true);
            if sockopt::set_socket_keepalive(stream, true).is_ok() {
                #[cfg(target_os = "linux")]
                let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
            }
        }
    }

    /// The address of this side, where it has one.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            // A socket that is closed already has none; the first read tells.
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// One read into the spare memory of `target`, which has some.
    ///
    /// A read that brings less than there was room for has emptied the socket. An end that comes
    /// with the last bytes is announced by its own event, so the caller reads on then.
    pub(crate) fn fill(&self, target: &mut Vec<u8>) -> io::Result<Filled> {
        let room = target.capacity() - target.len();
        debug_assert!(room > 0, "a read into nothing looks like the end");
        loop {
            match rustix::io::read(self, rustix::buffer::spare_capacity(target)) {
                Ok(0) => return Ok(Filled { count: 0, rest: Rest::End }),
                Ok(count) => {
                    let rest = if count < room { Rest::Short } else { Rest::More };
                    return Ok(Filled { count, rest });
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Filled { count: 0, rest: Rest::Nothing }),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// One write; `None` when the socket is full.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.try_to_write(|socket| socket.write(bytes))
    }

    /// One write of several pieces; `None` when the socket is full.
    pub(crate) fn send_many(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.try_to_write(|socket| socket.write_vectored(pieces))
    }

    fn try_to_write(
        &mut self,
        mut write: impl FnMut(&mut Self) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        loop {
            match write(self) {
                Ok(count) => return Ok(Some(count)),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Tells the peer that nothing more will come.
    pub(crate) fn shutdown_write(&self) {
        // A peer that is gone knows.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write_vectored(parts),
            Socket::Unix(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, at: Token, what: Interest) -> io::Result<()> {
        self.source().register(registry, at, what)
    }

    fn reregister(&mut self, registry: &Registry, at: Token, what: Interest) -> io::Result<()> {
        self.source().reregister(registry, at, what)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
