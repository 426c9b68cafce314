//! Reading blob files: one value by its index, or all records.
//!
//! Opening reads the header and the footer. A value is read with its record by one call, checked,
//! decompressed, and lent from the caller's buffer; the block cache does not hold it. The page
//! cache of the system does, and a second copy in memory would save one call of a microsecond.

use super::format::{
    BlobIndex, BlobMeta, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, read_exact, read_footer,
    read_header,
};
use crate::checksum::Growing;
use crate::compress::{Codec, Unrestored, decompress};
use crate::error::{Error, Result};
use crate::file_cache::{FileCache, TableFile};
use keyrack_vfs::{File, Fs};
use std::path::Path;
use std::sync::Arc;

/// Bytes that are read at once where all records are read.
const WINDOW_BYTES: u64 = 1 << 20;

/// A record of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) offset: u64,
    pub(crate) user_key: &'a [u8],
    pub(crate) sequence: u64,
    pub(crate) value: &'a [u8],
}

/// A blob file that is open. Any number of threads may use it at once.
#[derive(Debug)]
pub(crate) struct BlobReader {
    file: TableFile,
    number: u64,
    /// Of the file, footer included.
    bytes: u64,
}

impl BlobReader {
    /// Opens the blob file at `path`, as one of the files of `cache` if there is one, and reads
    /// what it says of itself.
    ///
    /// # Errors
    /// [`Error::Corruption`]; [`Error::Usage`] if a later program wrote it; those of the file
    /// system.
    pub(crate) fn open(
        fs: &dyn Fs,
        path: &Path,
        cache: Option<&Arc<FileCache>>,
    ) -> Result<(Self, BlobMeta)> {
        let (reader, meta) = BlobReader::open_damaged(fs, path, cache)?;
        Ok((reader, meta?))
    }

    /// As [`BlobReader::open`], also if the footer is damaged: records are found by their indexes.
    ///
    /// # Errors
    /// As for [`BlobReader::open`]. The inner ones are those of the footer.
    pub(crate) fn open_damaged(
        fs: &dyn Fs,
        path: &Path,
        cache: Option<&Arc<FileCache>>,
    ) -> Result<(Self, Result<BlobMeta>)> {
        let file = TableFile::open(fs, path, cache)?;
        let (number, bytes) = file.with(|file| Ok((read_header(file)?, file.len()?)))?;
        let meta = file.with(|file| Ok(read_footer(file, number)))?;
        Ok((BlobReader { file, number, bytes }, meta))
    }

    /// Opens the file of which something else says that it is blob file `number`.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open_headless(fs: &dyn Fs, path: &Path, number: u64) -> Result<Self> {
        let file = TableFile::open(fs, path, None)?;
        let bytes = file.with(|file| Ok(file.len()?))?;
        Ok(BlobReader { file, number, bytes })
    }

    /// As the file says.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads the value of `user_key` that was written with `sequence`, into `buffer`, and lends it
    /// from there. Without `verify`, the checksum is not computed; that the record is the one of
    /// this key and sequence number is checked in any case. One read of the file.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the record is damaged or another one; those of the file system.
    pub(crate) fn value<'b>(
        &self,
        index: BlobIndex,
        (user_key, sequence): (&[u8], u64),
        verify: bool,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        self.read(index, index.record_bytes(user_key), buffer)?;
        let header = self.check_header(index, (user_key, sequence), buffer)?;
        if verify && !header.is_sound(buffer, self.number, index.offset) {
            return Err(self.damage(index.offset, "a record with a wrong checksum"));
        }
        let at = RECORD_HEADER_BYTES + user_key.len();
        if header.codec == Codec::Raw {
            return Ok(&buffer[at..]);
        }
        let record = std::mem::take(buffer);
        decompress(header.codec, &record[at..], buffer)
            .map_err(|why| why.at(self.path(), index.offset))?;
        Ok(buffer)
    }

    /// Checks that there is a record of `user_key` and `sequence` at the index, without a look at
    /// the value.
    ///
    /// # Errors
    /// As for [`BlobReader::value`].
    pub(crate) fn check(
        &self,
        index: BlobIndex,
        (user_key, sequence): (&[u8], u64),
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let bytes = (RECORD_HEADER_BYTES + user_key.len()) as u64;
        self.read(index, bytes, buffer)?;
        self.check_header(index, (user_key, sequence), buffer).map(drop)
    }

    fn read(&self, index: BlobIndex, bytes: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let end = index.offset.checked_add(bytes);
        // Before there is memory for it.
        let fits = index.file == self.number && end.is_some_and(|end| end <= self.bytes);
        let bytes = usize::try_from(bytes).ok().filter(|_| fits);
        let Some(bytes) = bytes else {
            return Err(self.damage(index.offset, "no record of this length"));
        };
        buffer.resize(bytes, 0);
        self.file.with(|file| read_exact(file, index.offset, buffer))
    }

    fn check_header(
        &self,
        index: BlobIndex,
        (user_key, sequence): (&[u8], u64),
        record: &[u8],
    ) -> Result<RecordHeader> {
        let header = RecordHeader::read(record).filter(|header| {
            header.key_bytes == user_key.len()
                && header.stored_bytes == index.stored_bytes as usize
                && header.sequence == sequence
                && record[RECORD_HEADER_BYTES..].starts_with(user_key)
        });
        header
            .ok_or_else(|| self.damage(index.offset, "a record that is not the one expected here"))
    }

    fn damage(&self, offset: u64, what: &str) -> Error {
        Error::corruption(self.path(), offset, what)
    }

    /// Reads every record, and compares their number, bytes and checksums with `meta`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with the first thing that is wrong; those of the file system.
    pub(crate) fn verify(&self, meta: &BlobMeta) -> Result<()> {
        let mut first = None;
        self.inspect(meta, &mut |_| Ok(()), &mut |offset, what| {
            first.get_or_insert((offset, what));
        })?;
        first.map_or(Ok(()), |(offset, what)| Err(self.damage(offset, what)))
    }

    /// Gives every sound record to `record`, in the order of the file, and what is wrong to
    /// `unsound`. Behind a record with a wrong checksum it goes on, if a sound one follows.
    /// O(bytes).
    ///
    /// # Errors
    /// Those of the file system, and of `record`; a codec that is not built in. Damage is none.
    pub(crate) fn inspect(
        &self,
        meta: &BlobMeta,
        record: &mut dyn FnMut(Record<'_>) -> Result<()>,
        unsound: &mut dyn FnMut(u64, &'static str),
    ) -> Result<()> {
        let mut window = Window { bytes: Vec::new(), at: 0, end: meta.end() };
        let (mut offset, mut seen) = (HEADER_BYTES, BlobMeta { number: meta.number, ..*meta });
        (seen.records, seen.record_bytes) = (0, 0);
        let (mut digest, mut is_whole) = (Growing::new(0), true);
        let mut restored = Vec::new();
        while offset < meta.end() {
            let Some((header, bytes)) = self.record_at(&mut window, offset)? else {
                unsound(offset, "no sound record from here on");
                return Ok(());
            };
            let (user_key, stored) = bytes[RECORD_HEADER_BYTES..].split_at(header.key_bytes);
            let value = if header.is_sound(bytes, self.number, offset) {
                value_of(header.codec, stored, &mut restored)
            } else {
                Err("a record with a wrong checksum".into())
            };
            match value {
                Ok(value) => {
                    record(Record { offset, user_key, sequence: header.sequence, value })?;
                }
                Err(Unrestored::Damaged(what)) => {
                    is_whole = false;
                    unsound(offset, what);
                }
                Err(missing) => return Err(missing.at(self.path(), offset)),
            }
            digest.add(&header.checksum.to_le_bytes());
            seen.records += 1;
            seen.record_bytes += header.record_bytes();
            offset += header.record_bytes();
        }
        seen.digest = digest.checksum();
        if is_whole && seen != *meta {
            unsound(meta.end(), "a footer of other records than there are");
        }
        Ok(())
    }

    /// The record at `offset`, sound or not. `None` if nothing there can be one.
    fn record_at<'w>(
        &self,
        window: &'w mut Window,
        offset: u64,
    ) -> Result<Option<(RecordHeader, &'w [u8])>> {
        let Some(header) = self.slice(window, offset, RECORD_HEADER_BYTES as u64)? else {
            return Ok(None);
        };
        let Some(header) = RecordHeader::read(header) else { return Ok(None) };
        let record = self.slice(window, offset, header.record_bytes())?;
        Ok(record.map(|record| (header, record)))
    }

    /// Bytes of the records. `None` if they do not reach as far.
    fn slice<'w>(&self, window: &'w mut Window, offset: u64, len: u64) -> Result<Option<&'w [u8]>> {
        if len > window.end.saturating_sub(offset) {
            return Ok(None);
        }
        let held = window.at + window.bytes.len() as u64;
        if offset < window.at || offset + len > held {
            let bytes = len.max(WINDOW_BYTES).min(window.end - offset);
            let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
            window.bytes.resize(bytes, 0);
            window.at = offset;
            let read = |file: &dyn File| read_exact(file, offset, &mut window.bytes);
            self.file.with(read).inspect_err(|_| window.bytes.clear())?;
        }
        let from = (offset - window.at) as usize;
        Ok(Some(&window.bytes[from..from + len as usize]))
    }
}

/// The value that a record has as `stored`, restored if `codec` has made it.
fn value_of<'b>(
    codec: Codec,
    stored: &'b [u8],
    restored: &'b mut Vec<u8>,
) -> std::result::Result<&'b [u8], Unrestored> {
    if codec == Codec::Raw {
        return Ok(stored);
    }
    decompress(codec, stored, restored)?;
    Ok(restored)
}

/// Bytes of the file that were read ahead.
struct Window {
    bytes: Vec<u8>,
    at: u64,
    /// Where the records end.
    end: u64,
}
