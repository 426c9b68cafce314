//! A part of a checkpoint: rows of a range of keys, in their order, in blocks.
//!
//! ```text
//!   block   +----------+---------+------+------+------------+--------+-------------------------+
//!           | checksum | payload | rows | part | generation | offset | key bytes, row bytes,   |
//!           |   u32    |  u32    | u32  | u32  |    u64     |  u64   |   key, row; ...         |
//!           +----------+---------+------+------+------------+--------+-------------------------+
//!             of all that follows in the block
//! ```
//!
//! The head contains the place of the block, so that a misplaced block is recognised. How
//! many bytes and rows the part has stands in the manifest, with a checksum of the checksums of its
//! blocks: a part that was cut, or that is of another store, is damaged.
//!
//! A block is written when it has [`BLOCK_BYTES`], so the writer holds one block and the row that
//! went over. What was written is synced every [`SYNC_BYTES`]: so much lies between the checkpoint
//! and the disk, and writers of logs do not queue behind more.

use crate::Row;
use crate::error::{Failure, of_files};
use crate::manifest::PartEntry;
use crc_fast::crc32_iscsi;
use keyrack_store::{Error, Result};
use keyrack_vfs::{File, Fs, OpenOptions};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a block, when rows are small.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// Bytes after which a writer waits for the disk.
const SYNC_BYTES: u64 = 32 << 20;
pub(crate) const HEAD_BYTES: usize = 32;
/// Lengths of key and row.
const LENGTHS_BYTES: usize = 8;
const PREFIX: &str = "checkpoint-";
const SUFFIX: &str = ".rows";

/// The path of part `part` of checkpoint `generation`.
pub(crate) fn path_of(dir: &Path, generation: u64, part: usize) -> PathBuf {
    dir.join(name_of(generation, part))
}

/// The name of part `part` of checkpoint `generation`.
pub(crate) fn name_of(generation: u64, part: usize) -> String {
    format!("{PREFIX}{generation:016x}-{part:04}{SUFFIX}")
}

/// Whether a name is one that [`name_of`] gives.
pub(crate) fn is_part(name: &OsStr) -> bool {
    let middle = name
        .to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .and_then(|name| name.strip_suffix(SUFFIX));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    middle.and_then(|middle| middle.split_once('-')).is_some_and(|(generation, part)| {
        generation.len() == 16 && part.len() == 4 && digits(generation) && digits(part)
    })
}

/// Writes a part.
#[derive(Debug)]
pub(crate) struct PartWriter {
    file: Arc<dyn File>,
    generation: u64,
    part: usize,
    /// The block, with room for its head.
    block: Vec<u8>,
    block_rows: u32,
    offset: u64,
    rows: u64,
    checksum: u32,
    synced: u64,
}

impl PartWriter {
    /// Creates the file, in place of what may be there.
    pub(crate) fn create(fs: &dyn Fs, dir: &Path, generation: u64, part: usize) -> Result<Self> {
        let path = path_of(dir, generation, part);
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let file = fs.open(&path, &options).map_err(|error| of_files(&error))?;
        let block = vec![0; HEAD_BYTES];
        Ok(PartWriter {
            file,
            generation,
            part,
            block,
            block_rows: 0,
            offset: 0,
            rows: 0,
            checksum: 0,
            synced: 0,
        })
    }

    /// Adds a row. Returns whether the block is full: then [`PartWriter::write`] comes next.
    pub(crate) fn push(&mut self, key: &[u8], row: &[u8]) -> bool {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("shorter than 4 GiB");
        let lengths = [key, row].map(length);
        self.block.extend_from_slice(&lengths[0].to_le_bytes());
        self.block.extend_from_slice(&lengths[1].to_le_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(row);
        self.block_rows += 1;
        self.block.len() >= BLOCK_BYTES
    }

    /// Writes the block out, if there is anything in it.
    pub(crate) fn write(&mut self) -> Result<()> {
        if self.block_rows == 0 {
            return Ok(());
        }
        let payload = u32::try_from(self.block.len() - HEAD_BYTES);
        let payload = payload.expect("a block is shorter than 4 GiB");
        let head = &mut self.block[..HEAD_BYTES];
        head[4..8].copy_from_slice(&payload.to_le_bytes());
        head[8..12].copy_from_slice(&self.block_rows.to_le_bytes());
        head[12..16].copy_from_slice(&(self.part as u32).to_le_bytes());
        head[16..24].copy_from_slice(&self.generation.to_le_bytes());
        head[24..32].copy_from_slice(&self.offset.to_le_bytes());
        let checksum = crc32_iscsi(&self.block[4..]);
        self.block[..4].copy_from_slice(&checksum.to_le_bytes());
        self.checksum = chained(self.checksum, checksum);
        self.file.write_at(self.offset, &self.block).map_err(|error| of_files(&error))?;
        self.offset += self.block.len() as u64;
        self.rows += u64::from(self.block_rows);
        self.block_rows = 0;
        self.block.truncate(HEAD_BYTES);
        self.block.shrink_to(2 * BLOCK_BYTES);
        if self.offset - self.synced >= SYNC_BYTES {
            self.file.sync_data().map_err(|error| of_files(&error))?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Makes the part durable, but for its name. The entry has no directory yet.
    pub(crate) fn finish(mut self) -> Result<PartEntry> {
        self.write()?;
        self.file.sync_all().map_err(|error| of_files(&error))?;
        let dir = PathBuf::new();
        Ok(PartEntry { dir, bytes: self.offset, rows: self.rows, checksum: self.checksum })
    }
}

/// The checksum of a part with one block more. Never 0.
pub(crate) fn chained(sum: u32, block: u32) -> u32 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes[4..].copy_from_slice(&block.to_le_bytes());
    crc32_iscsi(&bytes).max(1)
}

/// Reads a part, block by block.
#[derive(Debug)]
pub(crate) struct PartReader {
    file: Arc<dyn File>,
    path: PathBuf,
    generation: u64,
    part: usize,
    entry: PartEntry,
    offset: u64,
    rows: u64,
    checksum: u32,
    block: Vec<u8>,
}

impl PartReader {
    pub(crate) fn open(
        fs: &dyn Fs,
        dir: &Path,
        generation: u64,
        part: usize,
        entry: &PartEntry,
    ) -> Result<Self> {
        let path = path_of(dir, generation, part);
        let file = match fs.open(&path, &OpenOptions::new().read(true)) {
            Err(error) if error.is_not_found() => {
                return Err(Error::corruption(&path, 0, "a part of the checkpoint is missing"));
            }
            file => file.map_err(|error| of_files(&error))?,
        };
        let bytes = file.len().map_err(|error| of_files(&error))?;
        if bytes != entry.bytes {
            let what = format!("the file has {bytes} bytes, the manifest says {}", entry.bytes);
            return Err(Error::corruption(&path, bytes.min(entry.bytes), what));
        }
        let (offset, rows, checksum, block) = (0, 0, 0, Vec::new());
        let entry = entry.clone();
        Ok(PartReader { file, path, generation, part, entry, offset, rows, checksum, block })
    }

    fn damage<T>(&self, within: usize, what: impl Into<String>) -> Result<T> {
        Err(Error::corruption(&self.path, self.offset + within as u64, what))
    }

    /// Reads and checks the next block, and gives its rows. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<(&[u8], Row<'_>)>>> {
        if self.offset == self.entry.bytes {
            if self.rows != self.entry.rows {
                let what = format!("{} rows, the manifest says {}", self.rows, self.entry.rows);
                return self.damage(0, what);
            }
            if ![0, self.checksum].contains(&self.entry.checksum) {
                return self.damage(0, "whole blocks, but not those that the manifest tells of");
            }
            return Ok(None);
        }
        let start = self.offset;
        let rows = self.load()?;
        self.offset = start + self.block.len() as u64;
        self.rows += u64::from(rows);
        match parse(&self.block, rows) {
            Ok(rows) => Ok(Some(rows)),
            Err((at, what)) => Err(Error::corruption(&self.path, start + at as u64, what)),
        }
    }

    /// Reads a block. Returns how many rows it has.
    fn load(&mut self) -> Result<u32> {
        let left = self.entry.bytes - self.offset;
        if left < HEAD_BYTES as u64 {
            return self.damage(0, "the file ends in the head of a block");
        }
        let mut head = [0; HEAD_BYTES];
        self.read(0, &mut head)?;
        let payload = u64::from(u32_at(&head, 4));
        if payload > left - HEAD_BYTES as u64 {
            return self.damage(4, format!("a block of {payload} bytes, where {left} are left"));
        }
        self.block.clear();
        self.block.extend_from_slice(&head);
        self.block.resize(HEAD_BYTES + payload as usize, 0);
        let mut block = std::mem::take(&mut self.block);
        let read = self.read(HEAD_BYTES as u64, &mut block[HEAD_BYTES..]);
        self.block = block;
        read?;
        let (wanted, found) = (u32_at(&head, 0), crc32_iscsi(&self.block[4..]));
        if wanted != found {
            let what = format!("checksum {wanted:#x}, but that of the block is {found:#x}");
            return self.damage(0, what);
        }
        let is_here = u32_at(&head, 12) as usize == self.part
            && head[16..24] == self.generation.to_le_bytes()
            && head[24..32] == self.offset.to_le_bytes();
        if !is_here {
            return self.damage(12, "a block that belongs elsewhere");
        }
        self.checksum = chained(self.checksum, wanted);
        Ok(u32_at(&head, 8))
    }

    fn read(&self, within: u64, out: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(self.offset + within, out);
        read.map_err(|error| Failure::from(error).0)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |n| u32::from_le_bytes(*n))
}

/// The rows of a whole block.
fn parse(block: &[u8], rows: u32) -> std::result::Result<Vec<(&[u8], Row<'_>)>, (usize, String)> {
    let mut at = HEAD_BYTES;
    let room = (block.len() - HEAD_BYTES) / LENGTHS_BYTES;
    let mut found = Vec::with_capacity(room.min(rows as usize));
    while at < block.len() {
        let rest = &block[at..];
        if rest.len() < LENGTHS_BYTES {
            return Err((at, "a row ends in its lengths".to_owned()));
        }
        let (key_bytes, row_bytes) = (u64::from(u32_at(rest, 0)), u64::from(u32_at(rest, 4)));
        let end = LENGTHS_BYTES as u64 + key_bytes + row_bytes;
        if end > rest.len() as u64 {
            return Err((at, "a row ends behind its block".to_owned()));
        }
        let (key, row) = rest[LENGTHS_BYTES..end as usize].split_at(key_bytes as usize);
        let Some(row) = Row::check(row) else {
            return Err((at, "bytes that are no row".to_owned()));
        };
        found.push((key, row));
        at += end as usize;
    }
    if found.len() != rows as usize {
        return Err((8, format!("{} rows, the head says {rows}", found.len())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowBuf;
    use keyrack_vfs::MemFs;

    fn write(fs: &MemFs) -> PartEntry {
        let mut writer = PartWriter::create(fs, Path::new("/"), 3, 1).unwrap();
        let (mut buf, mut row) = (RowBuf::new(), Vec::new());
        for n in 0..100_u32 {
            buf.set_value(&vec![n as u8; n as usize * 100]);
            row.clear();
            buf.encode(u64::from(n) + 1, &mut row);
            if writer.push(&n.to_be_bytes(), &row) {
                writer.write().unwrap();
            }
        }
        writer.finish().unwrap()
    }

    fn read(fs: &MemFs, entry: &PartEntry) -> Result<u64> {
        let mut reader = PartReader::open(fs, Path::new("/"), 3, 1, entry)?;
        let mut rows = 0;
        while let Some(block) = reader.next()? {
            for (key, row) in block {
                assert_eq!(*key, (rows as u32).to_be_bytes());
                assert_eq!((row.version(), row.value().len()), (rows + 1, rows as usize * 100));
                rows += 1;
            }
        }
        Ok(rows)
    }

    #[test]
    fn rows_come_back_block_by_block() {
        let fs = MemFs::new();
        let entry = write(&fs);
        assert!(entry.bytes > BLOCK_BYTES as u64, "more than one block");
        assert_eq!(read(&fs, &entry).unwrap(), 100);
        let name = path_of(Path::new("/"), 3, 1);
        assert!(is_part(name.file_name().unwrap()));
        for name in ["checkpoint-3-0001.rows", "log", "checkpoint-0000000000000003-0001.row"] {
            assert!(!is_part(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn damage_is_reported_with_the_file_and_the_offset() {
        let fs = MemFs::new();
        let entry = write(&fs);
        let path = path_of(Path::new("/"), 3, 1);
        let whole = fs.read(&path).unwrap();
        let file = fs.open(&path, &OpenOptions::new().read(true).write(true)).unwrap();
        for at in (0..whole.len()).step_by(611).chain(0..200) {
            file.write_at(at as u64, &[whole[at] ^ 4]).unwrap();
            let error = read(&fs, &entry).unwrap_err();
            assert!(
                matches!(&error, Error::Corruption { path: found, .. } if *found == path),
                "byte {at}: {error}"
            );
            file.write_at(at as u64, &[whole[at]]).unwrap();
        }
        assert!(read(&fs, &PartEntry { rows: 101, ..entry.clone() }).is_err());
        assert!(read(&fs, &PartEntry { bytes: entry.bytes + 1, ..entry.clone() }).is_err());
        file.set_len(entry.bytes - 1).unwrap();
        assert!(read(&fs, &entry).is_err());
    }
}
