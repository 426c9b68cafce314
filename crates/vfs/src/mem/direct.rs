//! A file of the simulated disk as [`File::map_direct`](crate::File::map_direct) maps it: memory
//! that a flush writes past the page cache.
//!
//! ```text
//!   write                 memory of the mapping: no reader of the file sees it
//!   flush, first half     whole pages -> live view: a power loss may tear them
//!          second half    the same pages -> disk, and the length as far as they reach
//! ```
//!
//! The halves take the lock of the disk one after the other, so another thread may take an image
//! between them. In one thread, [`FaultFs`](crate::FaultFs) makes the moment between them: its
//! watcher is told there, and there the power goes out.
//!
//! No space is reserved and no cut is refused, as on a real disk: a flush after a cut extends the
//! file again. The memory is not the file, so [`State`] does not know of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{Mapping, check_range};
use crate::mem::Handle;
use crate::mem::content::PAGE_BYTES;
use crate::mem::state::{Raw, State};

/// The first bytes of a file as memory of its own.
pub(super) struct DirectMapping {
    path: PathBuf,
    handle: Handle,
    memory: Mutex<Vec<u8>>,
}

impl std::fmt::Debug for DirectMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectMapping").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DirectMapping {
    /// `None` where a real file system would say so: for a length that is no multiple of a page,
    /// and for a file that has another name now. And where the test wants it.
    pub(super) fn new(path: &Path, file: &Handle, len: u64) -> Result<Option<Self>> {
        let mut state = file.state();
        let is_whole = len > 0 && len.is_multiple_of(PAGE_BYTES as u64);
        if !state.maps_direct || !is_whole || state.find(path) != Ok(file.id) {
            return Ok(None);
        }
        let len =
            usize::try_from(len).map_err(|_| Error::io(Operation::Map, path, Errno::NOMEM))?;
        state.hold(file.id);
        drop(state);
        let handle = Handle { disk: Arc::clone(&file.disk), id: file.id };
        let memory = Mutex::new(vec![0; len]);
        Ok(Some(DirectMapping { path: path.to_owned(), handle, memory }))
    }

    fn memory(&self) -> MutexGuard<'_, Vec<u8>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<()> {
        check_range(operation, &self.path, offset, len, self.len())
    }

    /// Writes the pages around a range to the live view, as many as have space. Returns where they
    /// begin and end.
    fn write_pages(&self, state: &mut State, offset: u64, len: u64) -> (u64, Raw<u64>) {
        let page = PAGE_BYTES as u64;
        let (from, to) = (offset / page * page, (offset + len).next_multiple_of(page));
        let pages = self.memory()[place(from)..place(to)].to_vec();
        if pages.is_empty() {
            return (from, Ok(from));
        }
        (from, state.write(self.handle.id, from, &pages).map(|count| from + count as u64))
    }
}

/// An offset that was checked against the length, which fits.
fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("the length fits, so its offsets do")
}

impl Mapping for DirectMapping {
    fn len(&self) -> u64 {
        self.memory().len() as u64
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check(Operation::Write, offset, bytes.len() as u64)?;
        self.memory()[place(offset)..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check(Operation::Read, offset, buf.len() as u64)?;
        buf.copy_from_slice(&self.memory()[place(offset)..][..buf.len()]);
        Ok(())
    }

    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        self.check(Operation::Flush, offset, len)?;
        let failed = |errno| Error::io(Operation::Flush, &self.path, errno);
        let (from, written) = self.write_pages(&mut self.handle.state(), offset, len);
        let to = written.map_err(failed)?;
        self.handle.state().sync_pages(self.handle.id, from, to);
        // What came before the disk was full is there.
        if to < offset + len { Err(failed(Errno::NOSPC)) } else { Ok(()) }
    }

    fn begin_flush(&self, offset: u64, len: u64) {
        if self.check(Operation::Flush, offset, len).is_ok() {
            // On a full disk the flush itself reports it.
            let _ = self.write_pages(&mut self.handle.state(), offset, len);
        }
    }
}
