//! Messages over a connection: four bytes of length, most significant first, then JSON.
//!
//! **Invariants:** a length is held against a limit before anything is taken for it; the limit is
//! small until the other side has proved who it is. Nothing here waits longer than it was told to.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::message::Message;

/// Bytes of a message before the other side is known.
pub(super) const STRANGER_BYTES_MAX: usize = 4 << 10;
/// Bytes of a message from then on: a hundred histograms of each second of a long run.
pub(super) const FRIEND_BYTES_MAX: usize = 64 << 20;
const HEAD_BYTES: usize = 4;
const READ_BYTES: usize = 64 << 10;

/// A connection that carries messages.
#[derive(Debug)]
pub(super) struct MessageStream {
    stream: TcpStream,
    input: Vec<u8>,
    message_bytes_max: usize,
    clock: Clock,
    last_heard: u64,
    last_sent: u64,
}

impl MessageStream {
    pub(super) fn connect(endpoint: &Endpoint, timeout: Duration) -> io::Result<MessageStream> {
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for place in endpoint.resolve().map_err(io::Error::other)? {
            let Endpoint::Ip(address) = place else { continue };
            for address in address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => return MessageStream::over(stream, timeout),
                    Err(cause) => failure = cause,
                }
            }
        }
        Err(failure)
    }

    /// Takes a connection over. What the other side does not read within `timeout` is an error.
    pub(super) fn over(stream: TcpStream, timeout: Duration) -> io::Result<MessageStream> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(timeout))?;
        // Reads follow a poll that has found something.
        stream.set_read_timeout(Some(timeout))?;
        let clock = Clock::vdso();
        let now = clock.ticks();
        Ok(MessageStream {
            stream,
            input: Vec::new(),
            message_bytes_max: STRANGER_BYTES_MAX,
            clock,
            last_heard: now,
            last_sent: now,
        })
    }

    /// The other side is known: it may say more.
    pub(super) fn trust(&mut self) {
        self.message_bytes_max = FRIEND_BYTES_MAX;
    }

    pub(super) fn peer(&self) -> String {
        self.stream.peer_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string())
    }

    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut bytes = vec![0; HEAD_BYTES];
        serde_json::to_writer(&mut bytes, message)?;
        let length = bytes.len() - HEAD_BYTES;
        if length > FRIEND_BYTES_MAX {
            let words = format!("a message of {length} bytes, at most {FRIEND_BYTES_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        bytes[..HEAD_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
        self.stream.write_all(&bytes)?;
        self.last_sent = self.clock.ticks();
        Ok(())
    }

    /// Says that we are alive, if nothing was said for `beat`.
    pub(super) fn beat(&mut self, beat: Duration, ops: u64) -> io::Result<()> {
        let quiet_ns = self.clock.ns_between(self.last_sent, self.clock.ticks());
        if u128::from(quiet_ns) < beat.as_nanos() {
            return Ok(());
        }
        self.send(&Message::Beat { ops })
    }

    /// How long the other side has said nothing.
    pub(super) fn silence(&self) -> Duration {
        Duration::from_nanos(self.clock.ns_between(self.last_heard, self.clock.ticks()))
    }

    /// The next message that has come; `None` when none has come within `patience`.
    pub(super) fn receive(&mut self, patience: Duration) -> io::Result<Option<Message>> {
        if let Some(message) = self.next_message()? {
            return Ok(Some(message));
        }
        if wait([self.as_fd()], patience) {
            self.fill()?;
            return self.next_message();
        }
        Ok(None)
    }

    /// Says that nothing more will come, and waits until the other side has closed too, but not
    /// longer than `patience`. Closed with bytes unread, the kernel would reset the connection, and
    /// the last words might be lost.
    pub(super) fn part(&mut self, patience: Duration) {
        let start = self.clock.ticks();
        // What fails here is a connection that is gone already.
        if self.stream.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        loop {
            let passed = Duration::from_nanos(self.clock.ns_between(start, self.clock.ticks()));
            let left = patience.saturating_sub(passed);
            if left.is_zero() || self.receive(left).is_err() {
                return;
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[start..]);
        self.input.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed the connection")),
            Ok(_) => {
                self.last_heard = self.clock.ticks();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes a whole message from what has come.
    fn next_message(&mut self) -> io::Result<Option<Message>> {
        let Some(head) = self.input.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        let refuse = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
        if length > self.message_bytes_max {
            return Err(refuse(format!("announced a message of {length} bytes")));
        }
        let Some(body) = self.input.get(HEAD_BYTES..HEAD_BYTES + length) else { return Ok(None) };
        let message = serde_json::from_slice(body);
        let message = message.map_err(|error| refuse(format!("sent what is no message: {error}")));
        self.input.drain(..HEAD_BYTES + length);
        message.map(Some)
    }
}

impl AsFd for MessageStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Waits until one of these has something to read; false when the time is over.
pub(super) fn wait<'a>(
    places: impl IntoIterator<Item = BorrowedFd<'a>>,
    patience: Duration,
) -> bool {
    let mut places: Vec<PollFd<'a>> =
        places.into_iter().map(|place| PollFd::from_borrowed_fd(place, PollFlags::IN)).collect();
    let timeout =
        Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos() as _ };
    // An interruption is as good as the end of the time: whoever waits looks around and waits on.
    matches!(poll(&mut places, Some(&timeout)), Ok(found) if found > 0)
}
