//! A table in use.
//!
//! Opening reads the footer, the properties, the index, the filter and the list of range deletes,
//! and checks them; data blocks are checked whenever they are read. A lookup touches one cache line
//! of the filter, a few of the index, and one block: separators are such that a key that is not in
//! its block is nowhere in the table.

use super::cursor::{ReadOptions, TableCursor};
use super::format::{BlockType, FOOTER_BYTES, Handle, decode_block, read_block, read_footer};
use super::index::Index;
#[cfg(test)]
use super::properties::TableMeta;
use super::properties::{Properties, RangeDelete, decode_ranges};
use crate::block::{Block, Damage};
use crate::cache::{BlockCache, Cached, TableCache};
use crate::checksum::hash as hash_of;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::key::{self, Comparator, Kind};
use keyrack_concurrent::pin;
use keyrack_vfs::{File, Fs, OpenOptions};
#[cfg(test)]
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// An open table. Any number of threads may use it at once.
#[derive(Debug)]
pub(crate) struct Table {
    filter: Option<Filter>,
    pub(super) index: Index,
    pub(super) cached: TableCache,
    pub(super) comparator: Comparator,
    pub(super) file: Arc<dyn File>,
    #[cfg(test)]
    number: u64,
    data_bytes: u64,
    #[cfg(test)]
    meta: TableMeta,
    range_deletes: Box<[RangeDelete]>,
}

impl Table {
    /// Opens the table at `path`. The number names it in what is printed and spreads its blocks
    /// over the cache. Memory and time are O(keys + blocks); no data block is read.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is not a whole table; [`Error::Usage`] if it has another
    /// comparator or a later format; errors of the file system.
    pub(crate) fn open(
        fs: &dyn Fs,
        path: &Path,
        number: u64,
        cache: Arc<BlockCache>,
        comparator: Comparator,
    ) -> Result<Self> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let (handle, footer_at) = read_footer(&*file)?;
        let damage = |handle: Handle, what| Error::corruption(path, handle.offset, what);
        let stored = read_block(&*file, handle, BlockType::Properties)?;
        let properties = Properties::decode(&stored, footer_at + FOOTER_BYTES as u64)
            .map_err(|what| damage(handle, what))?;
        if properties.comparator != comparator.name() {
            return Err(Error::Usage(format!(
                "{}: sorted by the comparator '{}', not by '{}'",
                path.display(),
                properties.comparator,
                comparator.name()
            )));
        }
        let read = |part: Handle, block_type| {
            if part.offset < properties.data_bytes || part.end() > handle.offset {
                return Err(damage(handle, "a property that is a block outside of its place"));
            }
            read_block(&*file, part, block_type)
        };
        let index = read(properties.index, BlockType::Index)?;
        let index = Index::parse(&index, properties.data_bytes, &comparator)
            .map_err(|what| damage(properties.index, what))?;
        let parse_filter = |part| {
            let bits = read(part, BlockType::Filter)?;
            Filter::parse(&bits).ok_or_else(|| damage(part, "a filter of no known form"))
        };
        let parse_ranges = |part| {
            let ranges = read(part, BlockType::RangeDeletes)?;
            decode_ranges(&ranges).ok_or_else(|| damage(part, "a list of ranges that is cut"))
        };
        let filter = properties.filter.map(parse_filter).transpose()?;
        let range_deletes = properties.range_deletes.map(parse_ranges).transpose()?;
        Ok(Table {
            filter,
            cached: TableCache::new(cache, number, index.len()),
            index,
            comparator,
            file,
            #[cfg(test)]
            number,
            data_bytes: properties.data_bytes,
            #[cfg(test)]
            meta: properties.meta,
            range_deletes: range_deletes.unwrap_or_default().into(),
        })
    }

    /// Gives the newest entry of the user key with a sequence of at most `sequence` to `visit`.
    /// `None` if there is no such entry. `hash` is [`crate::checksum::hash`] of the key.
    ///
    /// Range deletes count only where they begin: see [`Table::range_deletes`]. O(log entries). No
    /// allocation and no lock if the block is in the cache.
    ///
    /// # Errors
    /// [`Error::Corruption`]; errors of the file system.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        user_key: &[u8],
        hash: u64,
        sequence: u64,
        visit: impl FnOnce(Kind, u64, &[u8]) -> R,
    ) -> Result<Option<R>> {
        debug_assert_eq!(hash, hash_of(user_key), "the hash of another key");
        if !self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash)) {
            return Ok(None);
        }
        let trailer = key::trailer(sequence, Kind::LAST);
        let index = self.index.find(&self.comparator, user_key, trailer);
        if index == self.index.len() {
            return Ok(None);
        }
        let guard = pin();
        let loaded;
        let block = match self.cached.get(index, &guard) {
            Some(cached) => &cached.block,
            None => {
                loaded = self.load(index)?;
                &loaded.block
            }
        };
        let found = block.find(&self.comparator, user_key, trailer);
        let Some(found) = found.map_err(|damage| self.damage(index, damage))? else {
            return Ok(None);
        };
        if !found.is_same_user {
            return Ok(None);
        }
        let Some(kind) = Kind::from_byte(found.trailer as u8) else {
            return Err(self.corrupt_block(index, "an entry of an unknown kind"));
        };
        Ok(Some(visit(kind, found.trailer >> 8, block.value(&found))))
    }

    /// A cursor over all entries, nowhere yet.
    pub(crate) fn cursor(self: &Arc<Self>, options: ReadOptions) -> TableCursor {
        TableCursor::new(Arc::clone(self), options)
    }

    /// About where in the file the first entry is that is not before the internal key: the offset
    /// of its block, or the end of the data. For estimates of how much lies between keys.
    pub(crate) fn approximate_offset(&self, internal_key: &[u8]) -> u64 {
        let trailer = key::parse(internal_key)
            .map_or(u64::MAX, |parsed| key::trailer(parsed.sequence, parsed.kind));
        let index = self.index.find(&self.comparator, key::user_of(internal_key), trailer);
        if index < self.index.len() { self.index.block(index).offset } else { self.data_bytes }
    }

    /// What the levels need to know.
    #[cfg(test)]
    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The number given to [`Table::open`].
    #[cfg(test)]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The path of the file when it was opened.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// All range deletes of the table, in the order of the entries, where they are too.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "ranges are deleted key by key in this version")
    )]
    pub(crate) fn range_deletes(&self) -> &[RangeDelete] {
        &self.range_deletes
    }

    /// Reads every block, past the cache, and checks everything that is known about the entries.
    /// O(bytes).
    ///
    /// # Errors
    /// [`Error::Corruption`] with the first thing that is wrong; errors of the file system.
    #[cfg(test)]
    pub(crate) fn verify(&self) -> Result<()> {
        let mut seen = TableMeta { sequence_min: u64::MAX, ..TableMeta::default() };
        let mut ranges = Vec::new();
        for index in 0..self.index.len() {
            let block = self.read(index)?;
            let mut first = true;
            block
                .verify(&self.comparator, |internal_key, value| {
                    let wrong = |what| BlockError::Table(self.corrupt_block(index, what));
                    if std::mem::take(&mut first) && !self.begins(index, internal_key) {
                        return Err(wrong(
                            "a block that begins before the separator in front of it",
                        ));
                    }
                    self.see(internal_key, value, &mut seen, &mut ranges).map_err(wrong)
                })
                .map_err(|error| match error {
                    BlockError::Table(error) => error,
                    BlockError::Block(damage) => self.damage(index, damage),
                })?;
            let separator = self.index.separator(index);
            if self.comparator.internal(&seen.largest, separator) == Ordering::Greater {
                return Err(self.corrupt_block(index, "a block that ends behind its separator"));
            }
        }
        seen.bytes = self.meta.bytes;
        let end = |what| Err(Error::corruption(self.path(), self.data_bytes, what));
        if seen != self.meta {
            return end("properties of other entries than there are");
        }
        if ranges[..] != self.range_deletes[..] {
            return end("a list of other range deletes than there are");
        }
        Ok(())
    }

    /// Is a key behind the separator of the block before?
    #[cfg(test)]
    fn begins(&self, index: usize, internal_key: &[u8]) -> bool {
        let before = index.checked_sub(1).map(|before| self.index.separator(before));
        before.is_none_or(|it| self.comparator.internal(it, internal_key) == Ordering::Less)
    }

    /// Counts an entry as the writer did.
    #[cfg(test)]
    fn see(
        &self,
        internal_key: &[u8],
        value: &[u8],
        seen: &mut TableMeta,
        ranges: &mut Vec<RangeDelete>,
    ) -> std::result::Result<(), &'static str> {
        let parsed = key::parse(internal_key).ok_or("an entry of an unknown kind")?;
        if !self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash_of(parsed.user))) {
            return Err("a key that the filter does not have");
        }
        if seen.entries == 0 {
            seen.smallest = internal_key.to_vec();
        }
        seen.largest.clear();
        seen.largest.extend_from_slice(internal_key);
        seen.entries += 1;
        seen.deletes += u64::from(parsed.kind != Kind::Put);
        seen.sequence_min = seen.sequence_min.min(parsed.sequence);
        seen.sequence_max = seen.sequence_max.max(parsed.sequence);
        seen.raw_bytes += (internal_key.len() + value.len()) as u64;
        if parsed.kind == Kind::DeleteRange {
            let (begin, end) = (parsed.user.to_vec(), value.to_vec());
            ranges.push(RangeDelete { begin, end, sequence: parsed.sequence });
        }
        Ok(())
    }

    /// Reads a block and puts it into the cache.
    #[cold]
    pub(super) fn load(&self, index: usize) -> Result<Arc<Cached>> {
        Ok(self.cached.insert(index, self.read(index)?))
    }

    /// Reads a block past the cache.
    pub(super) fn read(&self, index: usize) -> Result<Block> {
        let bytes = read_block(&*self.file, self.index.block(index), BlockType::Data)?;
        Block::new(bytes).map_err(|damage| self.damage(index, damage))
    }

    /// Makes a block of its framed bytes, in the memory of `bytes`.
    pub(super) fn decode(&self, index: usize, framed: &[u8], mut bytes: Vec<u8>) -> Result<Block> {
        let handle = self.index.block(index);
        decode_block(&*self.file, framed, handle, BlockType::Data, &mut bytes)?;
        Block::new(bytes).map_err(|damage| self.damage(index, damage))
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    #[cold]
    pub(super) fn damage(&self, index: usize, damage: Damage) -> Error {
        self.corrupt_block(index, format!("{} at its byte {}", damage.what, damage.at))
    }

    fn corrupt_block(&self, index: usize, what: impl Into<String>) -> Error {
        Error::corruption(self.path(), self.index.block(index).offset, what)
    }
}

/// What can be wrong while a block is verified: the block, or its place in the table.
#[cfg(test)]
enum BlockError {
    Block(Damage),
    Table(Error),
}

#[cfg(test)]
impl From<Damage> for BlockError {
    fn from(damage: Damage) -> Self {
        BlockError::Block(damage)
    }
}
