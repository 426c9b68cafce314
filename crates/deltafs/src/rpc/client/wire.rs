//! One server as a client reaches it: a connection, or datagrams.
//!
//! Both send the requests that were appended, and return the frames that arrived. The caller knows
//! the calls in flight and sends lost requests again.

use super::network::Line;
use crate::rpc::codec::{DATAGRAM_HEAD_BYTES, DATAGRAM_MAGIC, FRAME_BYTES_MAX, Frame, frame};
use keyrack_net::{ConnectOptions, Endpoint, Link};
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// How a client reaches servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// A connection that stays: TCP, or a Unix socket.
    #[default]
    Stream,
    /// Datagrams of at most so many bytes.
    Datagrams {
        /// With their head.
        bytes_max: usize,
    },
}

/// After so much silence datagrams are sent again: at first, and after that twice as much each
/// time, up to [`RESEND`]. One that was lost costs little, and a busy server is not asked faster.
const RESEND_FIRST: Duration = Duration::from_millis(20);

/// After so much silence datagrams are sent again, at most.
pub(crate) const RESEND: Duration = Duration::from_millis(200);

/// Bytes that are taken from a stream that is no socket at once.
const PIPED_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) enum Wire {
    Stream(Box<Link>),
    Datagrams(Datagrams),
    /// A stream that is no socket.
    Piped(Piped),
}

/// What is to be sent, and what has come.
#[derive(Debug)]
pub(crate) struct Piped {
    line: Box<dyn Line>,
    output: Vec<u8>,
    input: Vec<u8>,
    taken: usize,
}

/// A connected socket, the datagram that is being filled, and the one that came last.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: Box<dyn Line>,
    bytes_max: usize,
    output: Vec<u8>,
    /// Bytes that the answers of what is in `output` may have.
    answers: usize,
    /// How long silence lasts before it is one.
    patience: Duration,
    head: [u8; DATAGRAM_HEAD_BYTES],
    input: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Wire {
    pub(crate) fn connect(
        endpoint: &Endpoint,
        transport: Transport,
        options: &ConnectOptions,
        client: &[u8; 16],
    ) -> io::Result<Wire> {
        let bytes_max = match transport {
            Transport::Stream => {
                let link = Link::connect(endpoint, options, FRAME_BYTES_MAX + 64);
                return link.map(|link| Wire::Stream(Box::new(link))).map_err(io::Error::other);
            }
            Transport::Datagrams { bytes_max } => bytes_max,
        };
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for endpoint in endpoint.resolve().map_err(io::Error::other)? {
            let Endpoint::Ip(address) = endpoint else { continue };
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let connected = UdpSocket::bind(any).and_then(|socket| {
                socket.connect(address)?;
                socket.set_read_timeout(Some(RESEND_FIRST))?;
                Ok(socket)
            });
            match connected {
                Ok(socket) => return Ok(Wire::datagrams(Box::new(socket), bytes_max, client)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Over a line that was made already. Its patience is that of a stream.
    pub(crate) fn over(
        mut line: Box<dyn Line>,
        transport: Transport,
        patience: Duration,
        client: &[u8; 16],
    ) -> io::Result<Wire> {
        match transport {
            Transport::Stream => {
                line.set_patience(patience)?;
                let (output, input) = (Vec::new(), Vec::new());
                Ok(Wire::Piped(Piped { line, output, input, taken: 0 }))
            }
            Transport::Datagrams { bytes_max } => {
                line.set_patience(RESEND_FIRST)?;
                Ok(Wire::datagrams(line, bytes_max, client))
            }
        }
    }

    fn datagrams(socket: Box<dyn Line>, bytes_max: usize, client: &[u8; 16]) -> Wire {
        let mut head = [0; DATAGRAM_HEAD_BYTES];
        head[..4].copy_from_slice(DATAGRAM_MAGIC);
        head[4..].copy_from_slice(client);
        Wire::Datagrams(Datagrams {
            socket,
            bytes_max,
            output: Vec::with_capacity(bytes_max),
            answers: 0,
            patience: RESEND_FIRST,
            head,
            input: vec![0; 64 << 10],
            taken: 0,
            filled: 0,
        })
    }

    /// Appends a request whose answer has at most `answer` bytes. A datagram that is full goes.
    pub(crate) fn append(&mut self, request: &[u8], answer: usize) -> io::Result<()> {
        match self {
            Wire::Stream(link) => {
                link.output().extend_from_slice(request);
                Ok(())
            }
            Wire::Piped(piped) => {
                piped.output.extend_from_slice(request);
                Ok(())
            }
            Wire::Datagrams(datagrams) => {
                let is_full = datagrams.output.len() + request.len() > datagrams.bytes_max
                    || datagrams.answers + answer > datagrams.bytes_max;
                if is_full {
                    datagrams.send()?;
                }
                if datagrams.output.is_empty() {
                    datagrams.output.extend_from_slice(&datagrams.head);
                }
                datagrams.output.extend_from_slice(request);
                datagrams.answers += answer;
                Ok(())
            }
        }
    }

    /// Bytes of the longest request that can be sent.
    pub(crate) fn request_bytes_max(&self) -> usize {
        match self {
            Wire::Stream(_) | Wire::Piped(_) => FRAME_BYTES_MAX + 4,
            Wire::Datagrams(datagrams) => datagrams.bytes_max.saturating_sub(DATAGRAM_HEAD_BYTES),
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Stream(link) => link.flush(),
            Wire::Piped(piped) => {
                if piped.output.is_empty() {
                    Ok(())
                } else {
                    piped.line.send(&std::mem::take(&mut piped.output))
                }
            }
            Wire::Datagrams(datagrams) => datagrams.send(),
        }
    }

    /// Waits for more. A timeout of datagrams is short: the caller sends again what is under way.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        match self {
            Wire::Stream(link) => link.fill(),
            Wire::Piped(piped) => piped.fill(),
            Wire::Datagrams(datagrams) => {
                datagrams.taken = 0;
                datagrams.filled = 0;
                let patience = datagrams.patience;
                let received = datagrams.socket.receive(&mut datagrams.input);
                let next = match &received {
                    Ok(_) => RESEND_FIRST,
                    Err(_) => (2 * patience).min(RESEND),
                };
                if next != patience {
                    datagrams.socket.set_patience(next)?;
                    datagrams.patience = next;
                }
                datagrams.filled = received?;
                Ok(())
            }
        }
    }

    /// The frame that came first.
    pub(crate) fn frame(&self) -> Frame<'_> {
        match self {
            Wire::Stream(link) => frame(link.input()),
            Wire::Piped(piped) => frame(&piped.input[piped.taken..]),
            Wire::Datagrams(datagrams) => {
                match frame(&datagrams.input[datagrams.taken..datagrams.filled]) {
                    // The rest of a datagram that makes no sense is dropped with it.
                    Frame::Broken => Frame::Partial(0),
                    other => other,
                }
            }
        }
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        match self {
            Wire::Stream(link) => link.consume(bytes),
            Wire::Piped(piped) => piped.taken += bytes,
            Wire::Datagrams(datagrams) => datagrams.taken += bytes,
        }
    }

    pub(crate) fn is_datagrams(&self) -> bool {
        matches!(self, Wire::Datagrams(_))
    }
}

impl Piped {
    fn fill(&mut self) -> io::Result<()> {
        self.input.drain(..self.taken);
        self.taken = 0;
        let before = self.input.len();
        self.input.resize(before + PIPED_BYTES, 0);
        let received = self.line.receive(&mut self.input[before..]);
        self.input.truncate(before + received.as_ref().map_or(0, |count| *count));
        match received? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl Datagrams {
    fn send(&mut self) -> io::Result<()> {
        self.answers = 0;
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = self.socket.send(&self.output);
        self.output.clear();
        match sent {
            // A full buffer, or a server that was not there a moment ago: as if it were lost.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}
