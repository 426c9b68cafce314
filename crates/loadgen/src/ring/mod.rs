//! A connection in shared memory, to a responder of our own: two rings in a mapped file, and a Unix
//! socket that wakes whoever sleeps.
//!
//! ```text
//!   client --connect--> PATH, a Unix socket
//!          <-- "keyrack-ring 1 NAME\n"        the responder has made the file NAME beside PATH
//!          maps NAME, removes the name        so nobody else finds it, and nothing stays behind
//!
//!   file:    0  magic                          64-bit words, little-endian, 128 bytes apart
//!          128  requests written (client)      256  requests read (responder)
//!          384  replies written (responder)    512  replies read (client)
//!          640  client sleeps, for what        768  responder sleeps, for what
//!         4096  ring of requests, then ring of replies, RING_BYTES each
//! ```
//!
//! Positions count bytes from the start of the connection and never go back; a place in a ring is
//! the position modulo its size. Each word has one writer, but for those of sleep. A side that
//! wants to sleep sets its word, looks once more, and sleeps on the socket. A side that has
//! written or read anything looks at the other's word, and if it is set clears it and sends one
//! byte. Between two that do not sleep there is no system call at all.
//!
//! **Invariant:** nothing of the other side is believed. Its positions are checked against ours, so
//! a damaged one is an error and no access outside the ring. When it dies the kernel closes its
//! socket: what it had written can be read to the end, then the connection is closed.

mod end;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use keyrack_vfs::{FileKind, Fs, Metadata, OpenOptions, RealFs};

use end::Side;
pub(crate) use end::{End, Wants};

/// Bytes of each ring, a power of two.
const RING_BYTES: u64 = 256 << 10;
/// Bytes in front of the rings.
const HEAD_BYTES: u64 = 4096;
const FILE_BYTES: u64 = HEAD_BYTES + 2 * RING_BYTES;
/// What a file begins with: `KRRING01`.
const MAGIC: u64 = u64::from_be_bytes(*b"KRRING01");
/// What the line of the responder begins with.
const GREETING: &str = "keyrack-ring 1 ";
/// What it begins with when there is no file.
const REFUSAL: &str = "keyrack-ring refused: ";
const LINE_BYTES_MAX: usize = 1024;

const _: () = assert!(RING_BYTES.is_power_of_two());

/// An error of a file, as one of a connection.
fn of_file(error: keyrack_vfs::Error) -> io::Error {
    io::Error::other(error)
}

/// Where a responder takes connections in shared memory.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens at a path. One that a responder left behind that was killed is taken over.
    ///
    /// # Errors
    /// Somebody listens there, or what is there is no socket.
    pub(crate) fn bind(path: &Path) -> io::Result<Listener> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                match UnixStream::connect(path) {
                    Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                        let is_socket = |found: Metadata| found.kind == FileKind::Other;
                        if !RealFs.metadata(path).is_ok_and(is_socket) {
                            return Err(error);
                        }
                    }
                    _ => return Err(error),
                }
                RealFs.remove_file(path).map_err(of_file)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        listener.set_nonblocking(true)?;
        Ok(Listener { listener, path: path.to_owned() })
    }

    /// The next connection, if there is one. A client that cannot have one is told.
    pub(crate) fn accept(&self) -> Option<End> {
        let (mut socket, _) = self.listener.accept().ok()?;
        match self.make(&socket) {
            Ok(end) => Some(end),
            Err(error) => {
                // Who is gone already does not mind.
                let _ = writeln!(socket, "{REFUSAL}{error}");
                None
            }
        }
    }

    fn make(&self, socket: &UnixStream) -> io::Result<End> {
        let socket = socket.try_clone()?;
        let own = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{own}.{:016x}", RealFs.unique_number());
        let path = self.path.with_file_name(&name);
        let options = OpenOptions::new().read(true).write(true).create_new(true);
        let file = RealFs.open(&path, &options).map_err(of_file)?;
        let memory = file.allocate(0, FILE_BYTES).and_then(|()| file.map(0, FILE_BYTES));
        let memory = memory.and_then(|memory| {
            memory.write(0, &MAGIC.to_le_bytes())?;
            Ok(memory)
        });
        let end = memory.map_err(of_file).and_then(|memory| {
            // The line is short, and the first that goes there: the socket takes it.
            (&socket).write_all(format!("{GREETING}{name}\n").as_bytes())?;
            End::new(memory, socket, Side::Responder, Some(path.clone()))
        });
        if end.is_err() {
            // The first error is the one to report.
            let _ = RealFs.remove_file(&path);
        }
        end
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Nobody minds a name that is gone already.
        let _ = RealFs.remove_file(&self.path);
    }
}
