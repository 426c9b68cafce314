//! Mappings of real files that cannot fault, as far as this process is concerned.
//!
//! A store to a mapped page raises SIGBUS in two cases: the file has been cut below it, or it is a
//! hole and the disk is full. The second is excluded by reserving the range before mapping it. For
//! the first, one table for the whole process remembers which files are mapped, and up to where:
//!
//! ```text
//!   (device, inode) -> [end of mapping, end of mapping, ...]
//! ```
//!
//! Order matters. A mapper enters its end *first* and looks at the length *then*; a cutter looks at
//! the table and cuts under the table's lock. Whoever comes second sees the first. At the end, the
//! memory goes first, then the entry of the table, then the file: as long as the file is open, no
//! other one has its number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{Mapping, check_range};
use crate::raw::{ALIGN, Region};

/// Device and inode number: the identity of a file whatever its names.
pub(crate) type Identity = (u64, u64);

type Table = BTreeMap<Identity, Vec<u64>>;

/// Ends of live mappings, by file. Changed by [`Claim`] alone; read by [`cut`] under the lock.
static TABLE: Mutex<Table> = Mutex::new(BTreeMap::new());

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry of the table, removed on drop.
#[derive(Debug)]
struct Claim {
    identity: Identity,
    end: u64,
}

impl Claim {
    fn new(identity: Identity, end: u64) -> Self {
        table().entry(identity).or_default().push(end);
        Self { identity, end }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = table();
        if let Some(ends) = table.get_mut(&self.identity) {
            if let Some(index) = ends.iter().position(|end| *end == self.end) {
                ends.swap_remove(index);
            }
            if ends.is_empty() {
                table.remove(&self.identity);
            }
        }
    }
}

/// Sets the length of a file unless a live mapping would lose its bytes.
pub(crate) fn cut(file: &fs::File, identity: Identity, path: &Path, len: u64) -> Result<()> {
    let table = table();
    let mapped_end = table.get(&identity).and_then(|ends| ends.iter().copied().max()).unwrap_or(0);
    if len < mapped_end {
        return Err(Error::Mapped { path: path.to_owned(), len, mapped_end });
    }
    file.set_len(len).map_err(|cause| Error::io(Operation::SetLen, path, cause))
}

/// A mapping of a real file.
#[derive(Debug)]
pub(crate) struct RealMapping {
    path: PathBuf,
    /// Dropped before `_claim`, so the memory is gone before the file may be cut.
    region: Region,
    /// Bytes of the region before the first one asked for, from rounding the offset down.
    lead: u64,
    len: u64,
    _claim: Claim,
    /// Dropped after `_claim`. Otherwise a new file could get the inode number while the table has
    /// the claim. Systems whose flush is weaker than a sync also sync it.
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux syncs through the mapping"))]
    file: Arc<fs::File>,
}

impl RealMapping {
    /// Maps `len` bytes at `offset`; `reserve` makes sure of the space behind the range.
    pub(crate) fn new(
        file: Arc<fs::File>,
        identity: Identity,
        path: &Path,
        offset: u64,
        len: u64,
        reserve: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let failed = |cause: std::io::Error| Error::io(Operation::Map, path, cause);
        let claim = Claim::new(identity, offset.saturating_add(len));
        let file_len = file.metadata().map_err(failed)?.len();
        check_range(Operation::Map, path, offset, len, file_len)?;
        if len == 0 {
            let end = file_len;
            return Err(Error::OutOfRange {
                operation: Operation::Map,
                path: path.to_owned(),
                offset,
                len,
                end,
            });
        }
        reserve()?;
        let lead = offset % ALIGN;
        let mapped = usize::try_from(lead + len).map_err(|_| failed(Errno::NOMEM.into()))?;
        let region = Region::map(&file, offset - lead, mapped).map_err(failed)?;
        Ok(Self { path: path.to_owned(), region, lead, len, _claim: claim, file })
    }

    /// The place in the region of a range that has been checked against `len`.
    fn place(&self, offset: u64) -> usize {
        usize::try_from(self.lead + offset).expect("the mapped length fits, so its offsets do")
    }
}

impl Mapping for RealMapping {
    fn len(&self) -> u64 {
        self.len
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(Operation::Write, &self.path, offset, bytes.len() as u64, self.len)?;
        self.region.copy_in(self.place(offset), bytes);
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(Operation::Read, &self.path, offset, buf.len() as u64, self.len)?;
        self.region.copy_out(self.place(offset), buf);
        Ok(())
    }

    fn touch(&self, offset: u64) {
        if offset < self.len {
            self.region.touch(self.place(offset));
        }
    }

    /// On Linux a synchronous `msync` is a range `fdatasync`, device cache included. Elsewhere it
    /// may stop at the device, so a full sync of the file follows.
    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        check_range(Operation::Flush, &self.path, offset, len, self.len)?;
        let failed = |cause| Error::io(Operation::Flush, &self.path, cause);
        let start = self.place(offset);
        self.region.sync(start, self.place(offset + len) - start).map_err(failed)?;
        #[cfg(not(target_os = "linux"))]
        self.file.sync_data().map_err(failed)?;
        Ok(())
    }
}
