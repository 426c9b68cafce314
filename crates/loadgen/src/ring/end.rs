//! One side of a connection in shared memory: it reads, writes, sleeps and is woken.
//!
//! Orderings. A writer's bytes are stored before its position: a release fence stands between them,
//! and pairs with the acquire fence behind the reader's load of that position. A reader's loads of
//! bytes are over before its position says so: the same pair, the other way. Between "here is
//! something" and the look at the sleeper's word, and between "I sleep" and the last look at the
//! positions, stand fences that are sequentially consistent: one of the two sees the other.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use keyrack_vfs::{Fs, Mapping, OpenOptions, RealFs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    FILE_BYTES, GREETING, HEAD_BYTES, LINE_BYTES_MAX, MAGIC, REFUSAL, RING_BYTES, of_file,
};

/// A sleeper is to be woken when there are bytes for it.
const WANTS_BYTES: u64 = 1;
/// A sleeper is to be woken when there is room for its bytes.
const WANTS_ROOM: u64 = 2;

/// Who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Responder,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Bytes to read.
    pub(crate) bytes: bool,
    /// Room for bytes to write.
    pub(crate) room: bool,
}

/// One ring, as one side sees it.
#[derive(Debug)]
struct Half {
    /// Where its bytes begin.
    ring: u64,
    /// Where our position is told, and theirs.
    own_word: u64,
    other_word: u64,
    /// Our position.
    position: u64,
}

/// One side of a connection.
#[derive(Debug)]
pub(crate) struct End {
    memory: Box<dyn Mapping>,
    socket: UnixStream,
    output: Half,
    input: Half,
    own_sleep: u64,
    other_sleep: u64,
    /// The other side is gone.
    is_closed: bool,
    /// How long a read or a write may wait; `None` does not wait at all.
    patience: Option<Duration>,
    /// The name of the file, which the client removes.
    name: Option<PathBuf>,
}

impl End {
    pub(super) fn new(
        memory: Box<dyn Mapping>,
        socket: UnixStream,
        side: Side,
        name: Option<PathBuf>,
    ) -> io::Result<End> {
        socket.set_nonblocking(true)?;
        let half = |ring, own_word, other_word| Half { ring, own_word, other_word, position: 0 };
        let (requests, replies) = (HEAD_BYTES, HEAD_BYTES + RING_BYTES);
        let (output, input, own_sleep, other_sleep) = match side {
            Side::Client => (half(requests, 128, 256), half(replies, 512, 384), 640, 768),
            Side::Responder => (half(replies, 384, 512), half(requests, 256, 128), 768, 640),
        };
        let (is_closed, patience) = (false, None);
        Ok(End { memory, socket, output, input, own_sleep, other_sleep, is_closed, patience, name })
    }

    /// Connects to a responder. Reads and writes wait so long at most, until
    /// [`End::set_nonblocking`].
    ///
    /// # Errors
    /// Nobody there, somebody else there, a file that cannot be mapped.
    pub(crate) fn connect(path: &Path, patience: Duration) -> io::Result<End> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(patience))?;
        let name = greeting(&mut socket)?;
        let path = path.with_file_name(&name);
        let file = RealFs.open(&path, &OpenOptions::new().read(true).write(true));
        let file = file.map_err(of_file)?;
        let memory = file.map(0, FILE_BYTES).map_err(of_file)?;
        // From here on nobody can find it, cut it, or leave it behind.
        RealFs.remove_file(&path).map_err(of_file)?;
        if load(&*memory, 0)? != MAGIC {
            return Err(foreign("a file that is none of a responder"));
        }
        let mut end = End::new(memory, socket, Side::Client, None)?;
        end.patience = Some(patience);
        Ok(end)
    }

    /// From now on nothing waits.
    pub(crate) fn set_nonblocking(&mut self) {
        self.patience = None;
    }

    /// Bytes that can be read.
    ///
    /// # Errors
    /// A position that cannot be.
    #[inline]
    fn filled(&self) -> io::Result<u64> {
        let written = load(&*self.memory, self.input.other_word)?;
        // Acquire: pairs with the release fence of `End::write_available`.
        fence(Ordering::Acquire);
        within(written.wrapping_sub(self.input.position))
    }

    /// Bytes that can be written.
    #[inline]
    fn room(&self) -> io::Result<u64> {
        let read = load(&*self.memory, self.output.other_word)?;
        // Acquire: pairs with the release fence of `End::read_available`.
        fence(Ordering::Acquire);
        within(self.output.position.wrapping_sub(read)).map(|used| RING_BYTES - used)
    }

    /// Is there any of what is wanted, bytes or room for some, or the end? A damaged position is
    /// something too: who reads or writes then learns of it.
    #[inline]
    pub(crate) fn is_ready(&self, wants: Wants) -> bool {
        self.is_closed
            || (wants.bytes && self.filled().map_or(true, |bytes| bytes > 0))
            || (wants.room && self.room().map_or(true, |bytes| bytes > 0))
    }

    /// Asks to be woken through the socket. False when there is something to do at once; then, and
    /// after the sleep, [`End::wake`] takes the wish back.
    pub(crate) fn sleep(&self, wants: Wants) -> bool {
        let wish = (u64::from(wants.bytes) * WANTS_BYTES) | (u64::from(wants.room) * WANTS_ROOM);
        let told = store(&*self.memory, self.own_sleep, wish);
        // Pairs with the fence of `End::nudge`.
        fence(Ordering::SeqCst);
        told.is_ok() && !self.is_ready(wants)
    }

    /// Is awake.
    pub(crate) fn wake(&self) {
        // A word inside of the head can always be written.
        let _ = store(&*self.memory, self.own_sleep, 0);
    }

    /// Wakes the other side if it sleeps for this.
    #[inline]
    fn nudge(&mut self, reason: u64) -> io::Result<()> {
        // Pairs with the fence of `End::sleep`.
        fence(Ordering::SeqCst);
        if load(&*self.memory, self.other_sleep)? & reason != 0 {
            store(&*self.memory, self.other_sleep, 0)?;
            match self.socket.write(&[0]) {
                Ok(_) => {}
                // Wake-ups that nobody has heard yet are enough.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.is_closed = true,
            }
        }
        Ok(())
    }

    /// Takes what the socket has: wake-ups, or the end.
    pub(crate) fn drain_wakeups(&mut self) {
        let mut bytes = [0; 64];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => self.is_closed = true,
                Ok(count) if count == bytes.len() => continue,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.is_closed = true,
            }
            return;
        }
    }

    /// Copies out what there is, and says so.
    fn read_available(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.filled()?.min(buffer.len() as u64);
        if count == 0 {
            return Ok(0);
        }
        let place = self.input.position % RING_BYTES;
        let first = count.min(RING_BYTES - place);
        let (front, back) = buffer[..count as usize].split_at_mut(first as usize);
        self.memory.read(self.input.ring + place, front).map_err(of_file)?;
        self.memory.read(self.input.ring, back).map_err(of_file)?;
        self.input.position += count;
        // Release: pairs with the acquire fence of `End::room`.
        fence(Ordering::Release);
        store(&*self.memory, self.input.own_word, self.input.position)?;
        self.nudge(WANTS_ROOM)?;
        Ok(count as usize)
    }

    /// Copies in what there is room for, and says so.
    fn write_available(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.room()?.min(bytes.len() as u64);
        if count == 0 {
            return Ok(0);
        }
        let place = self.output.position % RING_BYTES;
        let first = count.min(RING_BYTES - place);
        let (front, back) = bytes[..count as usize].split_at(first as usize);
        self.memory.write(self.output.ring + place, front).map_err(of_file)?;
        self.memory.write(self.output.ring, back).map_err(of_file)?;
        self.output.position += count;
        // Release: pairs with the acquire fence of `End::filled`.
        fence(Ordering::Release);
        store(&*self.memory, self.output.own_word, self.output.position)?;
        self.nudge(WANTS_BYTES)?;
        Ok(count as usize)
    }

    /// Waits for the other side, as long as we may.
    fn wait(&mut self, wants: Wants) -> io::Result<()> {
        let patience = self.patience.ok_or(io::ErrorKind::WouldBlock)?;
        let mut count = 1;
        if self.sleep(wants) {
            let timeout = Timespec {
                tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: patience.subsec_nanos().into(),
            };
            count = match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => 1,
                other => other?,
            };
        }
        self.wake();
        if count == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Read for End {
    /// `Ok(0)` is the end: the other side is gone, and all that it had written is read.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // What was written before the end was seen is there now.
            let was_closed = self.is_closed;
            let count = self.read_available(buffer)?;
            if count > 0 || was_closed || buffer.is_empty() {
                return Ok(count);
            }
            self.drain_wakeups();
            if !self.is_closed {
                self.wait(Wants { bytes: true, room: false })?;
            }
        }
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.is_closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let count = self.write_available(bytes)?;
            if count > 0 || bytes.is_empty() {
                return Ok(count);
            }
            self.drain_wakeups();
            if !self.is_closed {
                self.wait(Wants { bytes: false, room: true })?;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for End {
    /// The socket that wakes.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The client has removed it, unless it never came so far.
            let _ = RealFs.remove_file(name);
        }
    }
}

/// The name in the line of a responder.
fn greeting(socket: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') {
        if socket.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.push(byte[0]);
        if line.len() > LINE_BYTES_MAX {
            return Err(foreign("a line without end"));
        }
    }
    let line = String::from_utf8_lossy(&line);
    if let Some(reason) = line.strip_prefix(REFUSAL) {
        return Err(io::Error::other(format!("the responder refuses: {}", reason.trim_end())));
    }
    let name = line.strip_prefix(GREETING).map(str::trim_end);
    let name = name.filter(|name| !name.is_empty() && !name.contains('/') && *name != "..");
    name.map(str::to_owned).ok_or_else(|| foreign("another greeting"))
}

fn foreign(what: &str) -> io::Error {
    let text = format!("no responder with shared memory listens there: it sent {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A distance between positions that can be.
#[inline]
fn within(bytes: u64) -> io::Result<u64> {
    if bytes <= RING_BYTES {
        return Ok(bytes);
    }
    let text = "the other side has damaged the shared memory";
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

#[inline]
fn load(memory: &dyn Mapping, offset: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    memory.read(offset, &mut word).map_err(of_file)?;
    Ok(u64::from_le_bytes(word))
}

#[inline]
fn store(memory: &dyn Mapping, offset: u64, word: u64) -> io::Result<()> {
    memory.write(offset, &word.to_le_bytes()).map_err(of_file)
}

#[cfg(test)]
impl End {
    /// Tells the other side a position that is not ours.
    pub(super) fn lie(&self, position: u64) {
        store(&*self.memory, self.output.own_word, position).unwrap();
    }
}
