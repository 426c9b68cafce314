//! Rank 0 in the middle, a TCP connection to each other rank.
//!
//! ```text
//!   hello   leaf to root    "KRS1" | token: 16 bytes | rank: u32 | size: u32
//!   frame   both ways       kind: u8 | step: u32 | length: u32 | bytes        little-endian
//! ```
//!
//! A collective is a frame from each leaf to the root, and one back. Both count their steps, so
//! that ranks which are not at the same step find out instead of mixing up their numbers.
//!
//! The root reads leaves in the order of ranks. One that is dead closes its connection, which the
//! root sees when its turn comes; it then tells all others, and everybody fails with that rank's
//! number.

use super::error::{Error, Result};
use keyrack_measure::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Ranks of a job, at most: the root holds a connection for each.
pub(super) const RANKS_MAX: u32 = 16_384;
/// Bytes of one frame, at most.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes of the words with which a rank gives up, at most.
const WHY_BYTES_MAX: usize = 4096;
const MAGIC: &[u8; 4] = b"KRS1";
const HELLO_BYTES: usize = 28;
const HEAD_BYTES: usize = 9;
const KIND_DATA: u8 = 1;
const KIND_ABORT: u8 = 2;
/// Between two attempts to reach rank 0.
const RETRY_NS: u64 = 20_000_000;

/// The connections of one rank.
#[derive(Debug)]
pub(super) struct Collectives {
    links: Links,
    step: u32,
}

#[derive(Debug)]
enum Links {
    Alone,
    /// Of ranks 1, 2, and so on.
    Root(Vec<TcpStream>),
    Leaf(TcpStream),
}

impl Collectives {
    pub(super) fn alone() -> Collectives {
        Collectives { links: Links::Alone, step: 0 }
    }

    /// Waits for all other ranks.
    pub(super) fn root(
        listener: TcpListener,
        size: u32,
        token: [u8; 16],
        timeout: Duration,
    ) -> Result<Collectives> {
        let clock = Clock::vdso();
        let deadline = clock.ticks().saturating_add(timeout.as_nanos() as u64);
        listener.set_nonblocking(true).map_err(Error::io("wait for the ranks of the job"))?;
        let mut leaves: Vec<Option<TcpStream>> = (1..size).map(|_| None).collect();
        while leaves.iter().any(Option::is_none) {
            let left_ns = deadline.saturating_sub(clock.ticks());
            if left_ns == 0 {
                return Err(Error::Missing { ranks: missing(&leaves), seconds: timeout.as_secs() });
            }
            wait_readable(&listener, left_ns).map_err(Error::io("wait for ranks of the job"))?;
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_fleeting(&error) => continue,
                Err(error) => return Err(Error::io("accept a rank of the job")(error)),
            };
            // Whoever says nothing, or something else, is none of ours.
            if let Ok(Some((rank, stream))) = welcome(stream, size, token) {
                leaves[rank as usize - 1] = Some(stream);
            }
        }
        Ok(Collectives { links: Links::Root(leaves.into_iter().flatten().collect()), step: 0 })
    }

    /// Connects to rank 0, which may not be there yet.
    pub(super) fn leaf(
        address: &str,
        rank: u32,
        size: u32,
        token: [u8; 16],
        timeout: Duration,
    ) -> Result<Collectives> {
        let clock = Clock::vdso();
        let deadline = clock.ticks().saturating_add(timeout.as_nanos() as u64);
        loop {
            let tried = resolve(address).and_then(|all| {
                let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
                for address in all {
                    match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                        Ok(stream) => return Ok(stream),
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            });
            match tried {
                Ok(mut stream) => {
                    let mut hello = Vec::with_capacity(HELLO_BYTES);
                    hello.extend_from_slice(MAGIC);
                    hello.extend_from_slice(&token);
                    hello.extend_from_slice(&rank.to_le_bytes());
                    hello.extend_from_slice(&size.to_le_bytes());
                    let said = stream.set_nodelay(true).and_then(|()| stream.write_all(&hello));
                    said.map_err(Error::io(format!("greet rank 0 at {address}")))?;
                    return Ok(Collectives { links: Links::Leaf(stream), step: 0 });
                }
                Err(_) if clock.ticks() < deadline => {
                    clock.wait_until((clock.ticks() + RETRY_NS).min(deadline));
                }
                Err(cause) => {
                    return Err(Error::Lost { rank: 0, why: format!("{address}: {cause}") });
                }
            }
        }
    }

    /// Waits until all ranks are in touch with this root, which is then known to be theirs.
    pub(super) fn greet(&mut self, timeout: Duration) -> Result<()> {
        let waits = |links: &Links, timeout| match links {
            Links::Leaf(root) => root.set_read_timeout(timeout).map_err(|cause| lost(0, &cause)),
            Links::Alone | Links::Root(_) => Ok(()),
        };
        waits(&self.links, Some(timeout))?;
        self.gather(&[])?;
        self.broadcast(&[])?;
        waits(&self.links, None)
    }

    /// What all have, at the root.
    pub(super) fn gather(&mut self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        self.step = self.step.wrapping_add(1);
        let step = self.step;
        match &mut self.links {
            Links::Alone => Ok(Some(vec![mine.to_vec()])),
            Links::Leaf(root) => {
                send(root, KIND_DATA, step, mine).map_err(|cause| lost(0, &cause))?;
                Ok(None)
            }
            Links::Root(leaves) => {
                let mut all = vec![mine.to_vec()];
                let received = each(leaves, |rank, leaf| {
                    all.push(receive(leaf, step, rank)?);
                    Ok(())
                });
                self.checked(received).map(|()| Some(all))
            }
        }
    }

    /// The last frame of each leaf, which goes without an answer; at the root, for which it waits
    /// so long in all.
    pub(super) fn last_words(
        &mut self,
        mine: &[u8],
        patience: Duration,
    ) -> Option<Vec<Result<Vec<u8>>>> {
        self.step = self.step.wrapping_add(1);
        let step = self.step;
        match &mut self.links {
            Links::Alone => Some(vec![Ok(mine.to_vec())]),
            Links::Leaf(root) => {
                // If the root is gone, nobody wants to know.
                let _ = send(root, KIND_DATA, step, mine);
                None
            }
            Links::Root(leaves) => {
                let clock = Clock::vdso();
                let deadline = clock.ticks().saturating_add(patience.as_nanos() as u64);
                let mut all = vec![Ok(mine.to_vec())];
                for (rank, leaf) in (1..).zip(leaves.iter_mut()) {
                    // A socket does not wait for no time at all.
                    let left = deadline.saturating_sub(clock.ticks()).max(1_000_000);
                    let waits = leaf.set_read_timeout(Some(Duration::from_nanos(left)));
                    let told = waits.map_err(|cause| lost(rank, &cause));
                    all.push(told.and_then(|()| receive(leaf, step, rank)));
                }
                Some(all)
            }
        }
    }

    /// What the root has, for all.
    pub(super) fn broadcast(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        let step = self.step;
        match &mut self.links {
            Links::Alone => Ok(mine.to_vec()),
            Links::Leaf(root) => receive(root, step, 0),
            Links::Root(leaves) => {
                let sent = each(leaves, |rank, leaf| {
                    send(leaf, KIND_DATA, step, mine).map_err(|cause| lost(rank, &cause))
                });
                self.checked(sent).map(|()| mine.to_vec())
            }
        }
    }

    /// Tells all leaves of one that failed.
    fn checked(&mut self, done: std::result::Result<(), (u32, Error)>) -> Result<()> {
        done.map_err(|(rank, error)| {
            self.report_loss(rank, &error);
            error
        })
    }

    /// Tells the others why nothing more will come. There is nobody to hear that it failed.
    pub(super) fn abort(&mut self, rank: u32, why: &str) {
        let why = why.get(..WHY_BYTES_MAX).unwrap_or(why);
        let text = [&rank.to_le_bytes()[..], &[0], why.as_bytes()].concat();
        self.send_to_others(&text);
    }

    /// The root tells everybody whom it has lost.
    pub(super) fn report_loss(&mut self, rank: u32, error: &Error) {
        let (how, why) = match error {
            Error::Aborted { why, .. } => (0, why.clone()),
            Error::Lost { why, .. } => (1, why.clone()),
            Error::Protocol { .. } => (2, String::new()),
            other => (0, other.to_string()),
        };
        let text = [&rank.to_le_bytes()[..], &[how], why.as_bytes()].concat();
        self.send_to_others(&text);
    }

    fn send_to_others(&mut self, text: &[u8]) {
        let step = self.step;
        match &mut self.links {
            Links::Alone => {}
            Links::Leaf(root) => {
                // A rank that is gone sees the end of the connection.
                let _ = send(root, KIND_ABORT, step, text);
            }
            Links::Root(leaves) => {
                for leaf in leaves {
                    // As above.
                    let _ = send(leaf, KIND_ABORT, step, text);
                }
            }
        }
    }
}

/// Visits the leaves in the order of ranks, up to the first that fails.
fn each(
    leaves: &mut [TcpStream],
    mut visit: impl FnMut(u32, &mut TcpStream) -> Result<()>,
) -> std::result::Result<(), (u32, Error)> {
    (1..).zip(leaves).try_for_each(|(rank, leaf)| visit(rank, leaf).map_err(|error| (rank, error)))
}

fn lost(rank: u32, cause: &io::Error) -> Error {
    let why = match cause.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "it closed its connection".to_owned()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it said nothing".to_owned(),
        _ => cause.to_string(),
    };
    Error::Lost { rank, why }
}

fn is_fleeting(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

/// Waits until something can be read, at most so long.
fn wait_readable(listener: &TcpListener, ns: u64) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the hello of a connection. `None` if it is none of this job.
fn welcome(stream: TcpStream, size: u32, token: [u8; 16]) -> io::Result<Option<(u32, TcpStream)>> {
    let mut stream = stream;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut hello = [0; HELLO_BYTES];
    stream.read_exact(&mut hello)?;
    stream.set_read_timeout(None)?;
    let number = |at: usize| hello[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
    let (rank, their_size) = (number(20), number(24));
    let is_ours = hello[..4] == *MAGIC
        && hello[4..20] == token
        && their_size == size
        && (1..size).contains(&rank);
    Ok(is_ours.then_some((rank, stream)))
}

fn missing(leaves: &[Option<TcpStream>]) -> String {
    let absent: Vec<String> = (1..)
        .zip(leaves)
        .filter(|(_, leaf)| leaf.is_none())
        .map(|(rank, _): (u32, _)| rank.to_string())
        .collect();
    match absent.len() {
        1 => format!("rank {}", absent[0]),
        count if count <= 16 => format!("ranks {}", absent.join(", ")),
        count => format!("{count} ranks, {} among them,", absent[0]),
    }
}

fn send(stream: &mut TcpStream, kind: u8, step: u32, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut frame = Vec::with_capacity(HEAD_BYTES + bytes.len());
    frame.push(kind);
    frame.extend_from_slice(&step.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    stream.write_all(&frame)
}

fn receive(stream: &mut TcpStream, step: u32, rank: u32) -> Result<Vec<u8>> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).map_err(|cause| lost(rank, &cause))?;
    let number = |at: usize| head[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
    let (kind, their_step, length) = (head[0], number(1), number(5) as usize);
    if length > FRAME_BYTES_MAX {
        return Err(Error::Protocol { rank });
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).map_err(|cause| lost(rank, &cause))?;
    match kind {
        KIND_DATA if their_step == step => Ok(bytes),
        KIND_ABORT => {
            let Some((who, rest)) = bytes.split_first_chunk::<4>() else {
                return Err(Error::Protocol { rank });
            };
            let who = u32::from_le_bytes(*who);
            let (how, why) = rest.split_first().unwrap_or((&0, &[]));
            let why = String::from_utf8_lossy(why).into_owned();
            Err(match how {
                2 => Error::Protocol { rank: who },
                0 => Error::Aborted { rank: who, why },
                _ => Error::Lost { rank: who, why },
            })
        }
        _ => Err(Error::Protocol { rank }),
    }
}

pub(super) fn listen(address: &str) -> Result<TcpListener> {
    resolve(address)
        .and_then(|all| TcpListener::bind(&all[..]))
        .map_err(Error::io(format!("listen on {address} for the ranks of the job")))
}

fn resolve(address: &str) -> io::Result<Vec<std::net::SocketAddr>> {
    Ok(address.to_socket_addrs()?.collect())
}

pub(super) fn port_of(listener: &TcpListener) -> Result<u16> {
    let address = listener.local_addr().map_err(Error::io("see where rank 0 listens"))?;
    Ok(address.port())
}

/// What others call this machine.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Parts one behind the other, each behind its length.
pub(super) fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut joined = Vec::new();
    for part in parts {
        joined.extend_from_slice(&(part.len() as u64).to_le_bytes());
        joined.extend_from_slice(part);
    }
    joined
}

/// The reverse of [`join`].
pub(super) fn split(joined: &[u8], count: u32) -> Option<Vec<Vec<u8>>> {
    let mut rest = joined;
    let mut parts = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, behind) = behind.split_at_checked(length)?;
        parts.push(part.to_vec());
        rest = behind;
    }
    (rest.is_empty() && parts.len() == count as usize).then_some(parts)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
