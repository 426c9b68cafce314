//! What a client has of the world: ways to servers, and time.
//!
//! The machine's own is sockets and a clock. Tests put another in its place, which keeps all
//! servers and clients in one thread, and decides by a seed what becomes of each message.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// One way to a server: bytes in their order, or datagrams.
pub(crate) trait Line: std::fmt::Debug + Send {
    /// Sends all of it; of datagrams it is one.
    ///
    /// # Errors
    /// Those of a socket.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits for bytes, or for one datagram. How many are at the beginning of `buffer`.
    ///
    /// # Errors
    /// Those of a socket: `WouldBlock` or `TimedOut` when nothing came for too long.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// How long [`Line::receive`] waits.
    ///
    /// # Errors
    /// Those of a socket.
    fn set_patience(&mut self, patience: Duration) -> io::Result<()>;
}

impl Line for UdpSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        UdpSocket::send(self, bytes).map(|_| ())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }

    fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

/// A world in place of the machine's.
pub(crate) trait Network: std::fmt::Debug + Send + Sync {
    /// A way to the server of that number.
    ///
    /// # Errors
    /// Those of a socket.
    fn connect(&self, server: usize, is_datagrams: bool) -> io::Result<Box<dyn Line>>;

    /// Nanoseconds since some moment.
    fn now_ns(&self) -> u64;

    /// Lets so much time go by.
    fn pause(&self, pause: Duration);
}
