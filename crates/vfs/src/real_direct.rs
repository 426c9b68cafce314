//! Memory that is written to a file past the page cache: for a log whose every record is synced.
//!
//! ```text
//!   write   copy into memory
//!   flush   whole blocks of 4 KiB around the range -> bounce buffer -> a write with
//!           O_DIRECT and O_DSYNC: the bytes and the device's cache, in one system call
//!           for each MiB
//! ```
//!
//! A mapping of the page cache costs more for each record that is synced: a page fault, since the
//! page was made read-only when it was written, and the writing of a page that others may use.
//!
//! The bounce buffer keeps the bytes still while the device reads them: threads write the bytes
//! behind the range meanwhile, and a file system may compute checksums or parity of the block.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{Mapping, check_range};
use crate::raw::Region;
use crate::real_map::Identity;

/// A multiple of the block of any device in use, and of what its controller needs of addresses.
pub(crate) const BLOCK_BYTES: usize = 4_096;

/// Bytes that are written at once, at most: each write waits for the device.
const BOUNCE_BYTES_MAX: usize = 1 << 20;

/// Bytes that begin at a multiple of [`BLOCK_BYTES`] in memory: as many as were needed so far.
#[derive(Default)]
struct Bounce {
    bytes: Vec<u8>,
}

impl Bounce {
    fn first(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + BLOCK_BYTES {
            self.bytes = vec![0; len + BLOCK_BYTES];
        }
        let from = self.bytes.as_ptr().align_offset(BLOCK_BYTES);
        &mut self.bytes[from..from + len]
    }
}

/// The first bytes of a file as memory.
pub(crate) struct DirectMapping {
    path: PathBuf,
    memory: Region,
    len: u64,
    file: fs::File,
    bounce: Mutex<Bounce>,
}

impl DirectMapping {
    /// For the first `len` bytes of the file at `path`. `None` where the file system cannot do it,
    /// or the file has another name now.
    pub(crate) fn new(path: &Path, identity: Identity, len: u64) -> Result<Option<Self>> {
        let failed = |cause: std::io::Error| Error::io(Operation::Map, path, cause);
        if len == 0 || !len.is_multiple_of(BLOCK_BYTES as u64) {
            return Ok(None);
        }
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let Ok(file) = opened.map(fs::File::from) else { return Ok(None) };
        let found = file.metadata().map_err(failed)?;
        let mut bounce = Bounce::default();
        // A file system that takes the flag may need larger blocks.
        let can_read = file.read_at(bounce.first(BLOCK_BYTES), 0).is_ok();
        if !can_read || (found.dev(), found.ino()) != identity {
            return Ok(None);
        }
        let mapped = usize::try_from(len).map_err(|_| failed(Errno::NOMEM.into()))?;
        // Pages of a file count to no limit of memory that is promised.
        let Ok(memory) = Region::anonymous(mapped) else { return Ok(None) };
        let (path, bounce) = (path.to_owned(), Mutex::new(bounce));
        Ok(Some(DirectMapping { path, memory, len, file, bounce }))
    }
}

impl std::fmt::Debug for DirectMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectMapping").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An offset that was checked against the length, which fits.
fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("the length fits, so its offsets do")
}

impl Mapping for DirectMapping {
    fn len(&self) -> u64 {
        self.len
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(Operation::Write, &self.path, offset, bytes.len() as u64, self.len)?;
        self.memory.copy_in(place(offset), bytes);
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(Operation::Read, &self.path, offset, buf.len() as u64, self.len)?;
        self.memory.copy_out(place(offset), buf);
        Ok(())
    }

    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        check_range(Operation::Flush, &self.path, offset, len, self.len)?;
        let failed = |cause| Error::io(Operation::Flush, &self.path, cause);
        let end = place(offset + len).next_multiple_of(BLOCK_BYTES);
        let mut at = place(offset) / BLOCK_BYTES * BLOCK_BYTES;
        let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
        while at < end {
            let piece = bounce.first((end - at).min(BOUNCE_BYTES_MAX));
            self.memory.copy_out(at, piece);
            self.file.write_all_at(piece, at as u64).map_err(failed)?;
            at += piece.len();
        }
        Ok(())
    }
}
