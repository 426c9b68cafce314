//! Making a blob file.
//!
//! Each value is compressed, and stays as it is where that saves too little. Records are gathered
//! in a buffer, and a full buffer is written. The file counts once
//! [`BlobWriter::finish`] has synced it and the manifest names it.

use super::format::{BlobIndex, BlobMeta, append_record, footer, header};
use crate::checksum::Growing;
use crate::compress::{BLOCK_BYTES_MAX, Codec, Compression, Compressor};
use crate::error::{Error, Result};
use keyrack_vfs::File;
use std::fmt;
use std::sync::Arc;

/// Bytes that are gathered for one write.
const WRITE_BYTES: usize = 256 << 10;

/// A blob file that is being written. Dropped before [`BlobWriter::finish`], it leaves a file that
/// is no blob file.
pub(crate) struct BlobWriter {
    file: Arc<dyn File>,
    meta: BlobMeta,
    /// Of the checksums of all records.
    digest: Growing,
    compressor: Compressor,
    /// Complete records from `written` of the file on.
    out: Vec<u8>,
    written: u64,
    /// Writes of the file.
    writes: u64,
}

impl BlobWriter {
    /// Blob file `number` in `file`, which is empty and open for writing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the compression is refused.
    pub(crate) fn new(file: Arc<dyn File>, number: u64, compression: Compression) -> Result<Self> {
        Ok(BlobWriter {
            file,
            meta: BlobMeta { number, ..BlobMeta::default() },
            digest: Growing::new(0),
            compressor: Compressor::new(compression)?,
            out: header(number, compression).to_vec(),
            written: 0,
            writes: 0,
        })
    }

    /// Adds a value.
    ///
    /// # Errors
    /// [`Error::Usage`] if key or value has 4 GiB or more. Those of the file system, and then the
    /// file cannot be completed.
    pub(crate) fn add(
        &mut self,
        user_key: &[u8],
        sequence: u64,
        value: &[u8],
    ) -> Result<BlobIndex> {
        let stored = match value.len() {
            0..=BLOCK_BYTES_MAX => self.compressor.compress(value),
            _ => (Codec::Raw, value),
        };
        let lengths = (u32::try_from(user_key.len()), u32::try_from(stored.1.len()));
        let (Ok(_), Ok(stored_bytes)) = lengths else {
            let what = format!("a value of {} bytes is too large for a blob file", value.len());
            return Err(Error::Usage(what));
        };
        let offset = self.written + self.out.len() as u64;
        let place = (self.meta.number, offset);
        let sum = append_record(&mut self.out, place, user_key, sequence, stored);
        self.digest.add(&sum.to_le_bytes());
        let index = BlobIndex { file: self.meta.number, offset, stored_bytes };
        self.meta.records += 1;
        self.meta.record_bytes += index.record_bytes(user_key);
        if self.out.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(index)
    }

    /// Bytes of memory of what is gathered.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.out.capacity()
    }

    /// Bytes of the records so far.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.meta.record_bytes
    }

    /// Completes the file and syncs its data. The directory is the caller's to sync. Also returns
    /// the number of writes that the file took.
    ///
    /// # Errors
    /// Those of the file system. The file is not a blob file then.
    pub(crate) fn finish(mut self) -> Result<(BlobMeta, u64)> {
        self.meta.digest = self.digest.checksum();
        self.out.extend_from_slice(&footer(&self.meta));
        self.flush()?;
        self.file.sync_data()?;
        Ok((self.meta, self.writes))
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(self.written, &self.out)?;
        self.written += self.out.len() as u64;
        self.writes += 1;
        self.out.clear();
        Ok(())
    }
}

impl fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobWriter").field("meta", &self.meta).finish_non_exhaustive()
    }
}
