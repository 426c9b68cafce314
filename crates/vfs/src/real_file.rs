//! A file of the operating system.
//!
//! All calls are positional, so no cursor is shared. Space is reserved with `fallocate` on Linux.
//! Where the file system knows no reservation, [`fill`] writes zeros over everything that reads as
//! zeros: bytes that are data have space already, and holes get it.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{File, Mapping};
use crate::real_map::{Identity, RealMapping, cut};

/// Granularity at which the fallback tells holes from data; no file system allocates less.
const PIECE: usize = 512;
/// Bytes that the fallback reads at once.
const CHUNK: usize = 65_536;

/// An open file. `append_turn` guards nothing but the order of appends.
#[derive(Debug)]
pub(crate) struct RealFile {
    path: PathBuf,
    file: Arc<fs::File>,
    identity: Identity,
    append_turn: Mutex<()>,
}

impl RealFile {
    /// Takes over an opened file; refuses directories, which open for reading but hold no bytes.
    pub(crate) fn new(path: &Path, file: fs::File) -> Result<Self> {
        let failed = |cause| Error::io(Operation::Open, path, cause);
        let found = file.metadata().map_err(failed)?;
        if found.is_dir() {
            return Err(failed(Errno::ISDIR.into()));
        }
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            identity: (found.dev(), found.ino()),
            append_turn: Mutex::new(()),
        })
    }

    fn failed(&self, operation: Operation) -> impl Fn(std::io::Error) -> Error {
        move |cause| Error::io(operation, &self.path, cause)
    }

    /// Reserves a range. With `keep_len` the file is never extended.
    fn reserve(&self, operation: Operation, offset: u64, len: u64, keep_len: bool) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let Some(end) = offset.checked_add(len) else {
            return Err(self.failed(operation)(Errno::FBIG.into()));
        };
        match reserve_fast(&self.file, offset, len, keep_len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(self, offset, end),
            Err(errno) => Err(self.failed(operation)(errno.into())),
            Ok(()) => Ok(()),
        }
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_some_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.read_at(buf, offset).map_err(self.failed(Operation::Read))
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.file.write_at(bytes, offset).map_err(self.failed(Operation::Write))
    }

    fn append_turn(&self) -> &Mutex<()> {
        &self.append_turn
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(self.failed(Operation::Metadata))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        cut(&self.file, self.identity, &self.path, len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.reserve(Operation::Allocate, offset, len, false)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed(Operation::Sync))
    }

    fn sync_all(&self) -> Result<()> {
        self.file.sync_all().map_err(self.failed(Operation::Sync))
    }

    fn map(&self, offset: u64, len: u64) -> Result<Box<dyn Mapping>> {
        let reserve = || self.reserve(Operation::Map, offset, len, true);
        let file = Arc::clone(&self.file);
        Ok(Box::new(RealMapping::new(file, self.identity, &self.path, offset, len, reserve)?))
    }

    #[cfg(target_os = "linux")]
    fn map_direct(&self, len: u64) -> Result<Option<Box<dyn Mapping>>> {
        let mapping = crate::real_direct::DirectMapping::new(&self.path, self.identity, len)?;
        Ok(mapping.map(|mapping| Box::new(mapping) as Box<dyn Mapping>))
    }
}

#[cfg(target_os = "linux")]
fn reserve_fast(
    file: &fs::File,
    offset: u64,
    len: u64,
    keep_len: bool,
) -> std::result::Result<(), Errno> {
    use rustix::fs::FallocateFlags;
    let flags = if keep_len { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, len))
}

#[cfg(not(target_os = "linux"))]
fn reserve_fast(
    _file: &fs::File,
    _offset: u64,
    _len: u64,
    _keep_len: bool,
) -> std::result::Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Writes zeros to all of `offset..end` that reads as zeros or lies beyond the end of the file.
/// O(range).
fn fill(file: &dyn File, offset: u64, end: u64) -> Result<()> {
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    let mut chunk = vec![0; CHUNK];
    let mut at = offset;
    while at < end {
        let count = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        chunk[..count].fill(0);
        file.read_at(at, &mut chunk[..count])?;
        let mut run_start = None;
        let mut done = 0;
        while done < count {
            let piece = &chunk[done..count.min(done + PIECE)];
            match (run_start, piece.iter().all(|byte| *byte == 0)) {
                (None, true) => run_start = Some(done),
                (Some(start), false) => {
                    file.write_at(at + start as u64, &ZEROS[..done - start])?;
                    run_start = None;
                }
                _ => {}
            }
            done += piece.len();
        }
        if let Some(start) = run_start {
            file.write_at(at + start as u64, &ZEROS[..count - start])?;
        }
        at += count as u64;
    }
    // The last piece may hold data and still end early: its space is there, its length is not.
    if file.len()? < end {
        file.write_at(end - 1, &[0])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fs, OpenOptions, RealFs};

    fn scratch(dir: &tempfile::TempDir) -> Arc<dyn File> {
        let options = OpenOptions::new().read(true).write(true).create(true);
        RealFs.open(&dir.path().join("f"), &options).unwrap()
    }

    #[test]
    fn fill_gives_holes_space_and_leaves_data_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = scratch(&dir);
        file.write_at(100_000, b"data").unwrap();
        file.set_len(300_000).unwrap();
        fill(&*file, 10, 400_000).unwrap();
        assert_eq!(file.len().unwrap(), 400_000);
        let mut all = vec![1; 400_000];
        file.read_exact_at(0, &mut all).unwrap();
        assert_eq!(&all[100_000..100_004], b"data");
        assert_eq!(all.iter().filter(|byte| **byte != 0).count(), 4);
        file.sync_all().unwrap();
        let blocks = dir.path().join("f").metadata().unwrap().blocks();
        assert!(blocks * 512 >= 399_990, "holes remain: {blocks} blocks of 512 bytes");
    }

    #[test]
    fn fill_of_a_short_file_extends_it_to_the_exact_byte() {
        let dir = tempfile::tempdir().unwrap();
        let file = scratch(&dir);
        file.write_at(0, b"ab").unwrap();
        for end in [10, 700] {
            fill(&*file, 1, end).unwrap();
            assert_eq!(file.len().unwrap(), end);
            let mut head = [9; 3];
            file.read_exact_at(0, &mut head).unwrap();
            assert_eq!(&head, b"ab\0");
        }
    }
}
