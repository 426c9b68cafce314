//! A table, walked from its first entry to its last.
//!
//! ```text
//!   table  = data blocks | filter | metaindex | index | footer
//!   block  = contents | codec: u8 | masked checksum of both: u32
//!   handle = offset: varint | bytes of the contents: varint
//!   footer = handle of the metaindex | handle of the index | zeros up to 40 bytes | magic: u64
//!   index  = a block; for each data block an internal key that is not before its last one and
//!            before the first one of the next, and its handle
//! ```
//!
//! Filter and metaindex serve lookups, and are not read here. What the manifest says of the table,
//! its length and its first and last key, must be so.

use crate::block::Block;
use crate::coding::{Bytes, masked_crc};
use crate::error::{Error, Lost, Result};
use crate::key::{self, Parsed};
use crate::manifest::TableMeta;
use keyrack_vfs::{File, Fs, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOOTER_BYTES: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const TRAILER_BYTES: u64 = 5;

/// Bytes of the largest block, decompressed: 1 GiB.
const BLOCK_BYTES_MAX: usize = 1 << 30;

/// More than Snappy can shrink anything by: three bytes stand for at most 64.
const SNAPPY_RATIO_MAX: usize = 22;

#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    bytes: u64,
}

impl Handle {
    fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Handle { offset: bytes.varint()?, bytes: bytes.varint()? })
    }
}

/// A walk over the entries of a table. It starts before the first.
pub(crate) struct TableCursor {
    path: PathBuf,
    file: Arc<dyn File>,
    meta: TableMeta,
    index: Block,
    /// The data block here, and where it begins.
    block: Block,
    block_at: u64,
    /// The last key met, to which all others must be larger.
    last: Vec<u8>,
    /// Whether all entries so far were read.
    whole: bool,
}

/// What a step of a walk came to.
pub(crate) enum Step {
    Entry,
    End,
    /// A part could not be read. The walk goes on behind it.
    Lost(Lost),
}

impl TableCursor {
    /// Opens the table, and reads its index.
    pub(crate) fn open(fs: &dyn Fs, path: &Path, meta: TableMeta) -> Result<Self> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let len = file.len()?;
        if len != meta.bytes {
            let what = format!("it has {len} bytes, and the manifest says {}", meta.bytes);
            return Err(Error::corruption(path, len.min(meta.bytes), what));
        }
        let Some(footer_at) = len.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Error::corruption(path, 0, "a table without its footer"));
        };
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(footer_at, &mut footer)?;
        let damaged = |what: &str| Error::corruption(path, footer_at, what);
        let (handles, magic) = footer.split_at(FOOTER_BYTES - size_of::<u64>());
        if Bytes::new(magic).u64() != Some(MAGIC) {
            return Err(damaged("not the footer of a table of LevelDB"));
        }
        let mut handles = Bytes::new(handles);
        let index = Handle::decode(&mut handles).and_then(|_| Handle::decode(&mut handles));
        let index =
            index.ok_or_else(|| damaged("a footer that does not say where the index is"))?;
        let mut cursor = TableCursor {
            path: path.to_owned(),
            file,
            meta,
            index: Block::default(),
            block: Block::default(),
            block_at: 0,
            last: Vec::new(),
            whole: true,
        };
        cursor.index = cursor.read_block(index).map_err(|what| match what {
            Failure::Damage(what) => Error::corruption(path, index.offset, what),
            Failure::Io(error) => error.into(),
        })?;
        Ok(cursor)
    }

    /// The entry here. Only behind a [`Step::Entry`].
    pub(crate) fn entry(&self) -> Option<(Parsed<'_>, &[u8])> {
        key::parse(&self.last).map(|key| (key, self.block.value()))
    }

    /// Goes to the next entry.
    pub(crate) fn advance(&mut self) -> Result<Step> {
        match self.block.advance() {
            Ok(true) => return Ok(self.accept()),
            Ok(false) => {}
            Err(what) => return Ok(self.lose(self.block_at, 0, what)),
        }
        loop {
            match self.index.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(self.end()),
                Err(what) => return Ok(self.lose(self.meta.bytes, 0, what)),
            }
            let mut value = Bytes::new(self.index.value());
            let Some(handle) = Handle::decode(&mut value).filter(|_| value.is_empty()) else {
                return Ok(self.lose(self.meta.bytes, 0, "an index entry that is no handle"));
            };
            match self.read_block(handle) {
                Ok(block) => (self.block, self.block_at) = (block, handle.offset),
                Err(Failure::Io(error)) => return Err(error.into()),
                Err(Failure::Damage(what)) => {
                    return Ok(self.lose(handle.offset, handle.bytes, what));
                }
            }
            match self.block.advance() {
                Ok(true) => return Ok(self.accept()),
                Ok(false) => {}
                Err(what) => return Ok(self.lose(handle.offset, handle.bytes, what)),
            }
        }
    }

    /// Checks the key that the block stands on: against the one before, the index, the manifest.
    fn accept(&mut self) -> Step {
        let key = self.block.key();
        let is_first = self.last.is_empty();
        let is_foreign = is_first && self.whole && key != self.meta.smallest;
        let wrong = if key::parse(key).is_none() {
            Some("an entry whose key is of no known kind")
        } else if !is_first && key::compare(&self.last, key).is_ge() {
            Some("an entry that is not behind the one before it")
        } else if key::compare(key, self.index.key()).is_gt() {
            Some("an entry that is behind the end of its block in the index")
        } else if is_foreign {
            Some("the first entry is not the one that the manifest says: another table?")
        } else {
            None
        };
        if let Some(what) = wrong {
            // Nothing of the block can be trusted, nor of another table.
            self.block = Block::default();
            if is_foreign {
                self.index = Block::default();
            }
            return self.lose(self.block_at, 0, what);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        Step::Entry
    }

    fn end(&mut self) -> Step {
        if self.whole && self.last != self.meta.largest {
            let what = "the last entry is not the one that the manifest says: another table?";
            return self.lose(self.meta.bytes, 0, what);
        }
        Step::End
    }

    fn lose(&mut self, offset: u64, bytes: u64, what: &str) -> Step {
        self.whole = false;
        let (path, what) = (self.path.clone(), what.to_owned());
        Step::Lost(Lost { path, offset, bytes, what, is_cut_tail: false })
    }

    fn read_block(&self, handle: Handle) -> Result<Block, Failure> {
        let Handle { offset, bytes } = handle;
        let end = offset.checked_add(bytes).and_then(|end| end.checked_add(TRAILER_BYTES));
        let within = end.is_some_and(|end| end <= self.meta.bytes);
        let Some(stored_len) = usize::try_from(bytes + TRAILER_BYTES).ok().filter(|_| within)
        else {
            return Err(Failure::Damage("a block that ends beyond the table"));
        };
        let mut stored = vec![0; stored_len];
        self.file.read_exact_at(offset, &mut stored).map_err(Failure::Io)?;
        let (covered, crc) = stored.split_at(stored_len - size_of::<u32>());
        if Bytes::new(crc).u32() != Some(masked_crc(covered)) {
            return Err(Failure::Damage("a block with a wrong checksum"));
        }
        let codec = stored[stored_len - TRAILER_BYTES as usize];
        stored.truncate(stored_len - TRAILER_BYTES as usize);
        let contents = match codec {
            0 => stored,
            1 => unsnappy(&stored).map_err(Failure::Damage)?,
            2 => unzstd(&stored).map_err(Failure::Damage)?,
            _ => return Err(Failure::Damage("a block of an unknown codec")),
        };
        Block::new(contents).map_err(Failure::Damage)
    }
}

/// Why a block could not be read.
enum Failure {
    Io(keyrack_vfs::Error),
    Damage(&'static str),
}

pub(crate) fn unsnappy(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    const WRONG: &str = "a block that Snappy does not decompress";
    let length = snap::raw::decompress_len(bytes).map_err(|_| WRONG)?;
    if length > bytes.len().saturating_mul(SNAPPY_RATIO_MAX) {
        return Err("a block of an impossible length");
    }
    snap::raw::Decoder::new().decompress_vec(bytes).map_err(|_| WRONG)
}

pub(crate) fn unzstd(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    const WRONG: &str = "a block that Zstandard does not decompress";
    let mut contents = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(|_| WRONG)?;
    let most = BLOCK_BYTES_MAX as u64 + 1;
    decoder.take(most).read_to_end(&mut contents).map_err(|_| WRONG)?;
    if contents.len() > BLOCK_BYTES_MAX { Err("a block of more than 1 GiB") } else { Ok(contents) }
}
