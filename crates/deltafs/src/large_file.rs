//! The bytes of one large file, held against their checksums as they are read.

use crate::error::{Error, Result};
use crate::sums::{BLOCK_BYTES, Sums, blocks_of};
use keyrack_vfs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// The bytes of a file that are not in its record. A handle reads on when the file is removed.
#[derive(Clone, Debug)]
pub struct LargeFile {
    file: Arc<dyn File>,
    sums: Arc<Mutex<Sums>>,
}

impl LargeFile {
    pub(crate) fn new(file: Arc<dyn File>, sums: Arc<Mutex<Sums>>) -> LargeFile {
        LargeFile { file, sums }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the bytes are.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Its length.
    ///
    /// # Errors
    /// The machine's.
    pub fn len(&self) -> Result<u64> {
        Ok(self.file.len()?)
    }

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// The machine's.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a block is not what was written, or the file has fewer bytes; the
    /// machine's.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let end = offset + buf.len() as u64;
        let mut scratch = Vec::new();
        let (first, last) = blocks_of(offset, buf.len() as u64);
        for block in first..=last {
            let start = block * BLOCK_BYTES;
            let (from, to) = (offset.max(start), end.min(start + BLOCK_BYTES));
            let out = &mut buf[(from - offset) as usize..(to - offset) as usize];
            let Some(covered) = self.known(block) else {
                self.read_exact(from, out)?;
                continue;
            };
            let has = start + covered;
            if to > has {
                return Err(self.damaged(format!("it has {has} of at least {to} bytes")));
            }
            if (from, to) == (start, has) {
                self.read_exact(from, out)?;
                self.check(block, out)?;
            } else {
                scratch.resize(covered as usize, 0);
                self.read_exact(start, &mut scratch)?;
                self.check(block, &scratch)?;
                out.copy_from_slice(&scratch[(from - start) as usize..(to - start) as usize]);
            }
        }
        Ok(())
    }

    /// Bytes of a block that have a checksum; `None` if it has none.
    fn known(&self, block: u64) -> Option<u64> {
        let sums = self.sums();
        sums.is_known(block).then(|| sums.covered(block))
    }

    fn check(&self, block: u64, bytes: &[u8]) -> Result<()> {
        if self.sums().fits(block, bytes) {
            return Ok(());
        }
        let start = block * BLOCK_BYTES;
        Err(self
            .damaged(format!("the {} bytes from {start} on are not what was written", bytes.len())))
    }

    fn damaged(&self, what: String) -> Error {
        Error::Corruption { path: self.path().to_owned(), what }
    }

    fn read_exact(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let count = self.file.read_at(offset, buf)?;
        if count == buf.len() {
            return Ok(());
        }
        let (end, has) = (offset + buf.len() as u64, offset + count as u64);
        Err(self.damaged(format!("it ends at {has} of at least {end} bytes")))
    }

    /// Refuses a file that is shorter than its record says.
    pub(crate) fn check_len(&self, size: u64) -> Result<()> {
        let has = self.len()?.min(self.covered());
        if has < size { Err(self.damaged(format!("it has {has} of {size} bytes"))) } else { Ok(()) }
    }

    fn covered(&self) -> u64 {
        self.sums().size()
    }

    /// Whether a seal would have to read all bytes, because nothing is known about them.
    pub(crate) fn is_unknown(&self) -> bool {
        self.sums().is_unknown()
    }

    /// Writes bytes from `offset` on. What a block has beside them is held against its checksum
    /// before: damage does not get a new one.
    ///
    /// # Errors
    /// As for [`LargeFile::read_at`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        let partly = self.sums().partly(offset, len);
        self.open_up(&partly)?;
        if let Err(error) = self.file.write_at(offset, bytes) {
            self.sums().spoil(offset, len);
            return Err(error.into());
        }
        self.sums().wrote(offset, bytes);
        Ok(())
    }

    /// Whether the file can be cut there: the block that is cut in two is held against its
    /// checksum. Asked before the record says so.
    pub(crate) fn check_cut(&self, size: u64) -> Result<()> {
        if size < self.covered() && !size.is_multiple_of(BLOCK_BYTES) {
            self.open_up(&[size / BLOCK_BYTES])
        } else {
            Ok(())
        }
    }

    /// Cuts the file, or extends it by zeros.
    ///
    /// # Errors
    /// As for [`LargeFile::read_at`].
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.check_cut(size)?;
        self.file.set_len(size)?;
        self.sums().resize(size);
        Ok(())
    }

    /// Blocks are about to change in part.
    fn open_up(&self, blocks: &[u64]) -> Result<()> {
        for block in blocks {
            if let Some(covered) = self.known(*block) {
                let mut bytes = vec![0; covered as usize];
                self.read_exact(block * BLOCK_BYTES, &mut bytes)?;
                self.check(*block, &bytes)?;
                self.sums().forget(*block);
            }
        }
        Ok(())
    }

    /// Makes the bytes durable.
    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.file.sync_all()?)
    }

    /// Computes the checksums that are missing. The bytes have to be durable before the checksums.
    pub(crate) fn seal(&self) -> Result<Sums> {
        let mut sums = self.sums();
        let mut bytes = Vec::new();
        for block in sums.changed() {
            bytes.resize(sums.covered(block) as usize, 0);
            self.read_exact(block * BLOCK_BYTES, &mut bytes)?;
            sums.computed(block, &bytes);
        }
        sums.complete();
        Ok(sums.clone())
    }

    /// Copies the first `size` bytes into an empty file.
    pub(crate) fn copy_to(&self, to: &LargeFile, size: u64) -> Result<()> {
        self.each_chunk(size, &mut |at, bytes| to.write_at(at, bytes))
    }

    /// Shows the first `size` bytes in pieces, with their offsets.
    pub(crate) fn each_chunk(
        &self,
        size: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.check_len(size)?;
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        while at < size {
            let count = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
            self.read_at(at, &mut chunk[..count])?;
            visit(at, &chunk[..count])?;
            at += count as u64;
        }
        Ok(())
    }
}
