//! The bytes of a blob file, and what tables and the manifest know of it.
//!
//! ```text
//!   header   magic: 8 bytes | version: u32 | flags: u32 | number: u64 | checksum: u64
//!   record   checksum: u64 | key bytes: u32 | stored bytes: u32 | trailer: u64 | key | value
//!   footer   records: u64 | record bytes: u64 | digest: u64 | checksum: u64 | magic: 8 bytes
//! ```
//!
//! The trailer is that of the internal key, with kind `put`; four bits beside the kind name the
//! codec that made the stored bytes of the value. A checksum covers the number of the file and the
//! offset in it. The digest is the checksum of all checksums of records, so it tells the file from
//! every other one.

use crate::checksum::checksum;
use crate::coding::{Reader, put_varint};
use crate::compress::{Codec, Compression};
use crate::error::{Error, Result};
use crate::key::{Kind, SEQUENCE_MAX, trailer};
use keyrack_vfs::File;
use std::path::Path;

/// The first bytes of a blob file, and the last.
const MAGIC: [u8; 8] = *b"KRblob\0\n";
/// All values are as they are.
const VERSION_PLAIN: u32 = 1;
/// Values may be compressed.
const VERSION: u32 = 2;
/// Where the codec stands in the lowest byte of a trailer. The kind is below.
const CODEC_SHIFT: u32 = 4;

pub(super) const HEADER_BYTES: u64 = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 24;
pub(super) const FOOTER_BYTES: u64 = 40;

/// Bytes of the longest blob index: two numbers of 64 bits and one of 32.
pub(crate) const BLOB_INDEX_BYTES_MAX: usize = 25;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobIndex {
    /// The number of the blob file.
    pub(crate) file: u64,
    /// Of the record in the file.
    pub(crate) offset: u64,
    /// Of the value, as the record has it: compressed or not.
    pub(crate) stored_bytes: u32,
}

impl BlobIndex {
    /// Appends the value of an entry of kind blob.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.file);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.stored_bytes));
    }

    /// Reads the value of an entry of kind blob. `None` if it is none.
    pub(crate) fn take(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (file, offset) = (reader.varint()?, reader.varint()?);
        let stored_bytes = u32::try_from(reader.varint()?).ok()?;
        let is_whole = reader.is_empty() && offset >= HEADER_BYTES;
        is_whole.then_some(BlobIndex { file, offset, stored_bytes })
    }

    /// Bytes of the record, which has this user key.
    pub(crate) fn record_bytes(self, user_key: &[u8]) -> u64 {
        record_bytes(user_key.len(), self.stored_bytes as usize)
    }
}

/// What the manifest has of a blob file. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlobMeta {
    /// Of the file's name.
    pub(crate) number: u64,
    pub(crate) records: u64,
    /// Bytes of the records, without header and footer.
    pub(crate) record_bytes: u64,
    pub(crate) digest: u64,
}

impl BlobMeta {
    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.end().saturating_add(FOOTER_BYTES)
    }

    /// Where the records end, and the footer begins.
    pub(super) fn end(&self) -> u64 {
        HEADER_BYTES.saturating_add(self.record_bytes)
    }
}

/// How much of a blob file a table refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobShare {
    pub(crate) file: u64,
    pub(crate) records: u64,
    /// Of these records.
    pub(crate) bytes: u64,
}

/// Counts a record. `shares` ascend by their files.
pub(crate) fn add_share(shares: &mut Vec<BlobShare>, index: BlobIndex, user_key: &[u8]) {
    let bytes = index.record_bytes(user_key);
    match shares.binary_search_by_key(&index.file, |share| share.file) {
        Ok(at) => {
            shares[at].records += 1;
            shares[at].bytes += bytes;
        }
        Err(at) => shares.insert(at, BlobShare { file: index.file, records: 1, bytes }),
    }
}

fn record_bytes(key_bytes: usize, stored_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + key_bytes + stored_bytes) as u64
}

/// What a checksum covers beside the bytes: the file and the place in it.
pub(super) fn place(number: u64, offset: u64) -> u64 {
    number.rotate_left(32) ^ offset
}

/// The header of a file whose values are compressed like this. Without compression it is the first
/// version, which earlier programs read.
pub(super) fn header(number: u64, compression: Compression) -> [u8; HEADER_BYTES as usize] {
    let version = if compression == Compression::None { VERSION_PLAIN } else { VERSION };
    let mut header = [0; HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(&header[..24], place(number, 0));
    header[24..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The headers that a file of this number may have.
pub(super) fn headers(number: u64) -> [[u8; HEADER_BYTES as usize]; 2] {
    [Compression::None, Compression::Lz4].map(|compression| header(number, compression))
}

pub(super) fn footer(meta: &BlobMeta) -> [u8; FOOTER_BYTES as usize] {
    let mut footer = [0; FOOTER_BYTES as usize];
    footer[..8].copy_from_slice(&meta.records.to_le_bytes());
    footer[8..16].copy_from_slice(&meta.record_bytes.to_le_bytes());
    footer[16..24].copy_from_slice(&meta.digest.to_le_bytes());
    let sum = checksum(&footer[..24], place(meta.number, meta.end()));
    footer[24..32].copy_from_slice(&sum.to_le_bytes());
    footer[32..].copy_from_slice(&MAGIC);
    footer
}

/// Appends a record that begins at `offset` of file `number`, with a value that `codec` has made
/// into `stored`. Returns its checksum.
pub(super) fn append_record(
    out: &mut Vec<u8>,
    (number, offset): (u64, u64),
    user_key: &[u8],
    sequence: u64,
    (codec, stored): (Codec, &[u8]),
) -> u64 {
    let trailer = trailer(sequence, Kind::Put) | u64::from(codec as u8) << CODEC_SHIFT;
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&(user_key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    out.extend_from_slice(&trailer.to_le_bytes());
    out.extend_from_slice(user_key);
    out.extend_from_slice(stored);
    let sum = checksum(&out[at + 8..], place(number, offset));
    out[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) checksum: u64,
    pub(super) key_bytes: usize,
    pub(super) stored_bytes: usize,
    pub(super) sequence: u64,
    /// What made the stored bytes of the value.
    pub(super) codec: Codec,
}

impl RecordHeader {
    /// Of the bytes that a record begins with. `None` if no record begins with them.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (checksum, key_bytes) = (reader.u64()?, reader.u32()? as usize);
        let (stored_bytes, trailer) = (reader.u32()? as usize, reader.u64()?);
        let (sequence, low) = (trailer >> 8, trailer as u8);
        let codec = Codec::from_byte(low >> CODEC_SHIFT)?;
        let is_put = low & ((1 << CODEC_SHIFT) - 1) == Kind::Put as u8;
        (is_put && sequence <= SEQUENCE_MAX).then_some(RecordHeader {
            checksum,
            key_bytes,
            stored_bytes,
            sequence,
            codec,
        })
    }

    /// Of the whole record.
    pub(super) fn record_bytes(&self) -> u64 {
        record_bytes(self.key_bytes, self.stored_bytes)
    }

    /// Whether `record`, which begins at `offset` of file `number`, is as it was written.
    pub(super) fn is_sound(&self, record: &[u8], number: u64, offset: u64) -> bool {
        checksum(&record[8..], place(number, offset)) == self.checksum
    }
}

/// Reads the header of a blob file: the number of the file.
///
/// # Errors
/// [`Error::Corruption`], or [`Error::Usage`] for a file of a later format.
pub(super) fn read_header(file: &dyn File) -> Result<u64> {
    let mut header = [0; HEADER_BYTES as usize];
    read_exact(file, 0, &mut header)?;
    let damage = |what| Error::corruption(file.path(), 0, what);
    if header[..8] != MAGIC {
        return Err(damage("not a blob file"));
    }
    let mut reader = Reader::new(&header[8..]);
    let (Some(version), Some(flags), Some(number), Some(sum)) =
        (reader.u32(), reader.u32(), reader.u64(), reader.u64())
    else {
        return Err(damage("a header with a wrong checksum"));
    };
    if sum != checksum(&header[..24], place(number, 0)) {
        return Err(damage("a header with a wrong checksum"));
    }
    if !(VERSION_PLAIN..=VERSION).contains(&version) || flags != 0 {
        return Err(Error::Usage(format!(
            "{}: a blob file of format version {version}, flags {flags:#x}; this program reads \
             versions up to {VERSION} without flags",
            file.path().display()
        )));
    }
    Ok(number)
}

/// Reads the footer of blob file `number`.
///
/// # Errors
/// [`Error::Corruption`]; those of the file system.
pub(super) fn read_footer(file: &dyn File, number: u64) -> Result<BlobMeta> {
    let len = file.len()?;
    let offset = len.checked_sub(FOOTER_BYTES).filter(|offset| *offset >= HEADER_BYTES);
    let Some(offset) = offset else {
        return Err(Error::corruption(file.path(), len, "a file too short to be a blob file"));
    };
    let mut footer = [0; FOOTER_BYTES as usize];
    read_exact(file, offset, &mut footer)?;
    let damage = |what| Error::corruption(file.path(), offset, what);
    if footer[32..] != MAGIC {
        return Err(damage("the file does not end as a blob file"));
    }
    let mut reader = Reader::new(&footer);
    let numbers = [reader.u64(), reader.u64(), reader.u64(), reader.u64()];
    let [Some(records), Some(record_bytes), Some(digest), Some(sum)] = numbers else {
        return Err(damage("a footer with a wrong checksum"));
    };
    if sum != checksum(&footer[..24], place(number, offset)) {
        return Err(damage("a footer with a wrong checksum"));
    }
    let meta = BlobMeta { number, records, record_bytes, digest };
    if meta.end() != offset {
        return Err(damage("a footer of a file of another length"));
    }
    Ok(meta)
}

/// Reads bytes that must be there.
pub(super) fn read_exact(file: &dyn File, offset: u64, buf: &mut [u8]) -> Result<()> {
    file.read_exact_at(offset, buf).map_err(|error| match error {
        keyrack_vfs::Error::UnexpectedEnd { .. } => missing(file.path(), offset),
        other => other.into(),
    })
}

fn missing(path: &Path, offset: u64) -> Error {
    Error::corruption(path, offset, "the file ends within a record")
}

/// Appends the shares of a table.
pub(crate) fn put_shares(out: &mut Vec<u8>, shares: &[BlobShare]) {
    for share in shares {
        put_varint(out, share.file);
        put_varint(out, share.records);
        put_varint(out, share.bytes);
    }
}

/// Reads what [`put_shares`] wrote. `None` if these are not the shares of a table.
pub(crate) fn take_shares(bytes: &[u8]) -> Option<Vec<BlobShare>> {
    let mut reader = Reader::new(bytes);
    let mut shares: Vec<BlobShare> = Vec::new();
    while !reader.is_empty() {
        let (file, records) = (reader.varint()?, reader.varint()?);
        let share = BlobShare { file, records, bytes: reader.varint()? };
        let ascends = shares.last().is_none_or(|last| last.file < file);
        if !ascends || records == 0 {
            return None;
        }
        shares.push(share);
    }
    Some(shares)
}
