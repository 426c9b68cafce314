//! Making a blob file.
//!
//! Each value is compressed, and stays as it is where that saves too little. Records are gathered
//! in a buffer, and a full buffer is written. The file counts once
//! [`BlobWriter::finish`] has synced it and the manifest names it.

use super::format::{BlobIndex, BlobMeta, append_record, footer, header};
use crate::checksum::Growing;
use crate::compress::{BLOCK_BYTES_MAX, Codec, Compression, Compressor};
use crate::error::{Error, Result};
use crate::file_writer::FileWriter;
use keyrack_vfs::File;
use std::fmt;
use std::sync::Arc;

/// A blob file that is being written. Dropped before [`BlobWriter::finish`], it leaves a file that
/// is no blob file.
pub(crate) struct BlobWriter {
    /// Complete records.
    out: FileWriter,
    meta: BlobMeta,
    /// Of the checksums of all records.
    digest: Growing,
    compressor: Compressor,
}

impl BlobWriter {
    /// Blob file `number` in `file`, which is empty and open for writing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the compression is refused.
    pub(crate) fn new(file: Arc<dyn File>, number: u64, compression: Compression) -> Result<Self> {
        let mut out = FileWriter::new(file);
        out.gather(|out, _| out.extend_from_slice(&header(number, compression)));
        Ok(BlobWriter {
            out,
            meta: BlobMeta { number, ..BlobMeta::default() },
            digest: Growing::new(0),
            compressor: Compressor::new(compression)?,
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
        let file = self.meta.number;
        let (offset, sum) = self.out.gather(|out, offset| {
            (offset, append_record(out, (file, offset), user_key, sequence, stored))
        });
        self.digest.add(&sum.to_le_bytes());
        let index = BlobIndex { file, offset, stored_bytes };
        self.meta.records += 1;
        self.meta.record_bytes += index.record_bytes(user_key);
        self.out.write_full()?;
        Ok(index)
    }

    /// Bytes of memory that the file takes while it is written.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.out.memory_bytes() + self.compressor.memory_bytes()
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
        self.out.gather(|out, _| out.extend_from_slice(&footer(&self.meta)));
        let (_, writes) = self.out.finish()?;
        Ok((self.meta, writes))
    }
}

impl fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobWriter").field("meta", &self.meta).finish_non_exhaustive()
    }
}
