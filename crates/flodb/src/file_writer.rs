//! A file that is written from its front to its end, in large writes.

use crate::error::Result;
use keyrack_vfs::File;
use std::sync::Arc;

/// Bytes that are gathered for one write.
const WRITE_BYTES: usize = 256 << 10;

/// See the module. After an error the file is unknown behind what was written before.
#[derive(Debug)]
pub(crate) struct FileWriter {
    file: Arc<dyn File>,
    /// What comes behind `written` bytes of the file.
    gathered: Vec<u8>,
    written: u64,
    writes: u64,
}

impl FileWriter {
    /// For a file that is empty and open for writing.
    pub(crate) fn new(file: Arc<dyn File>) -> Self {
        FileWriter { file, gathered: Vec::new(), written: 0, writes: 0 }
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    /// Bytes of memory for what is gathered.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.gathered.capacity()
    }

    /// Gathers what `put` appends to the buffer that it is given, for the offset that it is given.
    /// Nothing is written before [`FileWriter::write_full`].
    pub(crate) fn gather<R>(&mut self, put: impl FnOnce(&mut Vec<u8>, u64) -> R) -> R {
        let offset = self.offset();
        put(&mut self.gathered, offset)
    }

    /// Writes what is gathered, if that is enough.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write_full(&mut self) -> Result<()> {
        if self.gathered.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_at(self.written, &self.gathered)?;
        self.written += self.gathered.len() as u64;
        self.writes += 1;
        self.gathered.clear();
        Ok(())
    }

    /// Writes the rest and syncs the data. The bytes of the file, and the number of writes.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn finish(mut self) -> Result<(u64, u64)> {
        self.write()?;
        self.file.sync_data()?;
        Ok((self.written, self.writes))
    }
}
