//! The values that a flush or a compaction takes out of its entries, on their way into blob files.
//!
//! The blob files of one run have nothing to do with where its tables end: a file ends when it has
//! as many bytes as two tables. It is synced when it ends, before the manifest names it. Values are
//! compressed as the last level is: they stay where they are until most of their file is dead.

use super::Inner;
use crate::blob::{BLOB_INDEX_BYTES_MAX, BlobWriter};
use crate::error::Result;
use crate::key::Parsed;
use crate::manifest::FileNumber;
use crate::open_blob::{OpenBlob, blob_path};
use crate::options::Options;
use crate::version::LAST_LEVEL;
use keyrack_vfs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;

impl Options {
    /// Bytes at which a blob file ends.
    pub(crate) fn blob_file_bytes(&self) -> u64 {
        self.table_bytes.saturating_mul(2)
    }
}

/// See the module.
pub(super) struct BlobOutput<'a> {
    inner: &'a Inner,
    writer: Option<(PathBuf, BlobWriter)>,
    written: Written,
}

/// Blob files that are in no version yet.
#[derive(Default)]
pub(super) struct Written {
    pub(super) built: Vec<Arc<OpenBlob>>,
    /// Writes of their files.
    pub(super) writes: u64,
    /// Keep the files from being taken for left-overs until a version has them.
    pub(super) numbers: Vec<FileNumber>,
}

impl<'a> BlobOutput<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        BlobOutput { inner, writer: None, written: Written::default() }
    }

    /// Whether a value goes to a blob file.
    #[inline]
    pub(super) fn takes(&self, value: &[u8]) -> bool {
        let least = self.inner.options.blob_bytes_min;
        least > 0 && value.len() >= least
    }

    /// Writes the value of an entry. Returns its blob index, and the bytes of its record.
    pub(super) fn add(&mut self, entry: &Parsed<'_>, value: &[u8]) -> Result<(Vec<u8>, u64)> {
        if self.writer.is_none() {
            self.create()?;
        }
        let (_, writer) = self.writer.as_mut().expect("it was just created");
        let index = writer.add(entry.user, entry.sequence, value)?;
        let is_full = writer.record_bytes() >= self.inner.options.blob_file_bytes();
        if is_full {
            self.end()?;
        }
        let mut encoded = Vec::with_capacity(BLOB_INDEX_BYTES_MAX);
        index.put(&mut encoded);
        Ok((encoded, index.record_bytes(entry.user)))
    }

    /// Bytes of memory of the file in work.
    pub(super) fn memory_bytes(&self) -> usize {
        self.writer.as_ref().map_or(0, |(_, writer)| writer.memory_bytes())
    }

    fn create(&mut self) -> Result<()> {
        let issued = self.inner.tables.numbers.issue();
        let number = issued.get();
        self.written.numbers.push(issued);
        let path = blob_path(&self.inner.dir, number);
        let create = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let file = self.inner.fs.open(&path, &create)?;
        let compression = self.inner.options.compression_of(LAST_LEVEL, LAST_LEVEL);
        self.writer = Some((path, BlobWriter::new(file, number, compression)?));
        Ok(())
    }

    /// Completes the file in work, if there is one.
    pub(super) fn end(&mut self) -> Result<()> {
        // No file is in work.
        let Some((path, writer)) = self.writer.take() else { return Ok(()) };
        let inner = self.inner;
        let tables = &inner.tables;
        let opened = writer.finish().and_then(|(meta, writes)| {
            self.written.writes += writes;
            let files = tables.reader.files.as_ref();
            let blob = OpenBlob::open(&*inner.fs, &tables.deleter, &inner.dir, meta, files)?;
            if inner.options.paranoid_checks {
                blob.verify()?;
            }
            Ok(blob)
        });
        // If the file stays, the next opening removes it: no version has it.
        let remove = || drop(inner.fs.remove_file(&path));
        self.written.built.push(opened.inspect_err(|_| remove())?);
        Ok(())
    }

    /// The complete files.
    pub(super) fn finish(self) -> Written {
        debug_assert!(self.writer.is_none(), "the last file was ended");
        self.written
    }

    /// Removes what was written. If that fails, the next opening does it.
    pub(super) fn discard(&mut self) {
        if let Some((path, writer)) = self.writer.take() {
            drop(writer);
            let _ = self.inner.fs.remove_file(&path);
        }
        self.written.built.iter().for_each(|blob| blob.set_obsolete());
    }
}
