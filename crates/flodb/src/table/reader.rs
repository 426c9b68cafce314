//! A table in use.
//!
//! Opening reads the footer, the properties, the index, the filter and the list of range deletes,
//! and checks them; data blocks are checked whenever they are read. A lookup touches one cache line
//! of the filter, a few of the index, and one block: separators are such that a key that is not in
//! its block is nowhere in the table.

use super::calls::ReadCount;
use super::cursor::{ReadOptions, TableCursor};
use super::format::{
    BlockType, FOOTER_BYTES, Handle, decode_block, footer, read_block, read_block_with, read_footer,
};
use super::index::Index;
use super::properties::{FilterBlock, PrefixFilterBlock, Properties, TableMeta, decode_ranges};
use crate::block::{Block, Damage};
use crate::cache::{BlockCache, Cached, TableCache};
use crate::error::{Error, Result};
use crate::file_cache::{FileCache, TableFile};
use crate::filter_policy::{FilterPolicy, KeyFilter};
use crate::key::{self, Comparator, Kind, SEQUENCE_MAX};
use crate::memory_budget::{Charge, Holder};
use crate::prefix_filter::{PrefixFilter, PrefixQuestion, PrefixReads};
use crate::range_tombstones::RangeTombstoneIndex;
use keyrack_vfs::{File, Fs, OpenOptions};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// What tables are opened with.
#[derive(Clone, Debug)]
pub(crate) struct ReaderOptions {
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) comparator: Comparator,
    /// By which rule filters are read that are no Bloom filters. Those of other rules are not used.
    pub(crate) filter_policy: FilterPolicy,
    /// By which prefixes tables are asked. Filters that another extractor made are not used.
    pub(crate) prefixes: Option<Arc<PrefixReads>>,
    /// What limits the open files; without, that of each table stays open.
    pub(crate) files: Option<Arc<FileCache>>,
}

impl ReaderOptions {
    /// For a table by itself: without a cache, a rule for filters, and an extractor.
    pub(crate) fn alone(comparator: Comparator) -> Self {
        let cache = Arc::new(BlockCache::new(0));
        ReaderOptions {
            cache,
            comparator,
            filter_policy: FilterPolicy::Bloom,
            prefixes: None,
            files: None,
        }
    }
}

/// An open table. Any number of threads may use it at once.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) index: Index,
    pub(super) cached: TableCache,
    pub(super) comparator: Comparator,
    pub(super) file: TableFile,
    #[cfg(test)]
    number: u64,
    pub(super) data_bytes: u64,
    /// The blocks after the data, in their order; those that there are not have no bytes.
    parts: [Handle; 5],
    pub(super) meta: TableMeta,
    /// Whether the range deletes are among the entries, too.
    pub(super) ranges_among_entries: bool,
    pub(super) range_tombstones: Option<Arc<RangeTombstoneIndex>>,
    pub(super) filter: Option<KeyFilter>,
    pub(super) prefix_filter: Option<PrefixFilter>,
    /// Filters by a rule, or of an extractor, that the table was opened without.
    pub(super) unused_filters: Vec<Handle>,
    /// The sequence number of all entries, which have 0 in the file.
    pub(super) sequence: Option<u64>,
    /// What index and filters take of the memory budget.
    _memory: [Charge; 2],
}

/// The memory of an index, with the slots of the cache and the range tombstones.
fn index_charge(
    cached: &TableCache,
    index: &Index,
    ranges: Option<&RangeTombstoneIndex>,
) -> Charge {
    let tombstones = ranges.map_or(0, |ranges| ranges.memory_bytes());
    let bytes = index.memory_bytes() + cached.slots_bytes() + tombstones;
    Charge::new(cached.cache(), Holder::Indexes, bytes)
}

/// The filters of a table that is being opened.
#[derive(Default)]
struct Filters {
    keys: Option<KeyFilter>,
    prefixes: Option<PrefixFilter>,
    unused: Vec<Handle>,
    /// Of those that are used.
    bytes: usize,
}

impl Filters {
    fn read(
        properties: &Properties,
        options: &ReaderOptions,
        read: impl Fn(Handle) -> Result<Vec<u8>>,
        damage: impl Fn(Handle, &'static str) -> Error,
    ) -> Result<Self> {
        let mut filters = Filters::default();
        let policy = &options.filter_policy;
        match &properties.filter {
            Some(FilterBlock { rule, stored }) if policy.knows(rule.as_deref()) => {
                let bytes = read(*stored)?;
                let parsed = policy.parse(&bytes, rule.is_some());
                let parsed = parsed.ok_or_else(|| damage(*stored, "a filter of no known form"))?;
                filters.bytes += bytes.len();
                filters.keys = Some(parsed);
            }
            other => filters.unused.extend(other.as_ref().map(|it| it.stored)),
        }
        let Some(PrefixFilterBlock { extractor, stored }) = &properties.prefix_filter else {
            return Ok(filters);
        };
        match options.prefixes.as_ref().filter(|prefixes| prefixes.is_named(extractor)) {
            None => filters.unused.push(*stored),
            Some(prefixes) => {
                let bytes = read(*stored)?;
                let what = "a prefix filter of no known form";
                let parsed = PrefixFilter::parse(&bytes, prefixes);
                filters.prefixes = Some(parsed.ok_or_else(|| damage(*stored, what))?);
                filters.bytes += bytes.len();
            }
        }
        Ok(filters)
    }
}

/// Refuses a table that is sorted by another comparator.
fn check_order(path: &Path, stored: &str, comparator: &Comparator) -> Result<()> {
    let order = comparator.name();
    if stored == order {
        return Ok(());
    }
    let place = path.display();
    let what = format!("{place}: sorted by the comparator '{stored}', not by '{order}'");
    Err(Error::Usage(what))
}

impl Table {
    /// Opens the table at `path`. The number names it in what is printed and spreads its blocks
    /// over the cache. Memory and time are O(keys + blocks); no data block is read.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is not a whole table; [`Error::Usage`] if it has another
    /// comparator or a later format; [`Error::UnsupportedCompression`]; errors of the file system.
    pub(crate) fn open(
        fs: &dyn Fs,
        path: &Path,
        number: u64,
        options: &ReaderOptions,
    ) -> Result<Self> {
        let ReaderOptions { cache, comparator, files, .. } = options;
        let file = TableFile::open(fs, path, files.as_ref())?;
        let reads = &cache.reads().random;
        let (handle, properties) = file.with(|file| read_properties(file, reads))?;
        let damage = |handle: Handle, what| Error::corruption(path, handle.offset, what);
        check_order(path, &properties.comparator, comparator)?;
        properties.codecs.check_built_in(path)?;
        let read = |part: Handle, block_type| {
            if part.offset < properties.data_bytes || part.end() > handle.offset {
                return Err(damage(handle, "a property that is a block outside of its place"));
            }
            reads.add(part.framed_bytes());
            file.with(|file| read_block(file, part, block_type))
        };
        let stored = read(properties.index, BlockType::Index)?;
        let parsed = Index::parse(&stored, properties.data_bytes, comparator);
        let index = parsed.map_err(|what| damage(properties.index, what))?;
        let parse_tombstones = |part| {
            let stored = read(part, BlockType::RangeDeletes)?;
            parse_range_tombstones(&stored, comparator).map_err(|what| damage(part, what))
        };
        let read_filter = |part| read(part, BlockType::Filter);
        let Filters { keys: filter, prefixes: prefix_filter, unused: unused_filters, bytes } =
            Filters::read(&properties, options, read_filter, damage)?;
        let filter_charge = Charge::new(cache, Holder::Filters, bytes);
        let range_tombstones =
            properties.range_deletes.map(parse_tombstones).transpose()?.flatten().map(Arc::new);
        if let Some(ranges) = range_tombstones.as_ref().filter(|_| !properties.ranges_among_entries)
            && !reaches_over(&properties.meta, ranges, comparator)
        {
            return Err(damage(handle, "bounds that do not reach over the ranges"));
        }
        let (parts, comparator) = (parts_of(&properties, handle), comparator.clone());
        let meta = TableMeta {
            range_deletes: range_tombstones.as_ref().map_or(0, |index| index.len() as u64),
            checksum: handle.checksum,
            ..properties.meta
        };
        let cached = TableCache::new(Arc::clone(cache), number, index.len()).in_order(&comparator);
        Ok(Table {
            filter,
            prefix_filter,
            unused_filters,
            _memory: [index_charge(&cached, &index, range_tombstones.as_deref()), filter_charge],
            cached,
            index,
            comparator,
            file,
            #[cfg(test)]
            number,
            data_bytes: properties.data_bytes,
            parts,
            meta,
            ranges_among_entries: properties.ranges_among_entries,
            range_tombstones,
            sequence: None,
        })
    }

    /// The name of the order that the table at `path` says it is sorted by. Reads its end alone.
    ///
    /// # Errors
    /// As for [`Table::open`].
    pub(crate) fn stored_order(fs: &dyn Fs, path: &Path) -> Result<String> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let (_, properties) = read_properties(&*file, &ReadCount::default())?;
        Ok(properties.comparator)
    }

    /// The same table, all of whose entries are writes of this sequence number: the file has 0 in
    /// its place. Nothing leaves the table as it is.
    #[must_use]
    pub(crate) fn with_sequence(mut self, sequence: Option<u64>) -> Self {
        self.sequence = sequence;
        self
    }

    /// The trailer to look for in the file.
    pub(super) fn stored_trailer(&self, trailer: u64) -> u64 {
        match self.sequence.map(|own| own.cmp(&(trailer >> 8))) {
            None => trailer,
            // All entries of the key are visible.
            Some(Ordering::Less) => key::trailer(SEQUENCE_MAX, Kind::LAST),
            Some(Ordering::Equal) => trailer & 0xff,
            // None of them: the end of the key.
            Some(Ordering::Greater) => 0,
        }
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

    /// What the levels need to know, as the file has it.
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

    /// Whether the table certainly has no key of the prefix in question. One cache line.
    pub(crate) fn refuses(&self, question: PrefixQuestion<'_>) -> bool {
        question.is_refused_by(self.prefix_filter.as_ref())
    }

    /// The blocks of the file from the first to the last, which is the properties.
    pub(super) fn stored_block(&self, index: usize) -> Option<Handle> {
        if index < self.index.len() {
            return Some(self.index.block(index));
        }
        let mut there = self.parts.into_iter().filter(|part| *part != Handle::default());
        there.nth(index - self.index.len())
    }

    /// The footer, and where it is.
    pub(super) fn stored_footer(&self) -> ([u8; FOOTER_BYTES], u64) {
        let properties = self.parts[self.parts.len() - 1];
        (footer(properties, properties.end()), properties.end())
    }

    /// All range deletes of the table, if there are any.
    #[inline]
    pub(crate) fn range_tombstones(&self) -> Option<&Arc<RangeTombstoneIndex>> {
        self.range_tombstones.as_ref()
    }

    /// How many range deletes are not among the entries.
    pub(crate) fn ranges_apart(&self) -> u64 {
        if self.ranges_among_entries { 0 } else { self.meta.range_deletes }
    }

    /// The first sequence whose entries of the user key no range delete up to `sequence` removes. 0
    /// if none does; that is one load where there are none. Else O(log n) of them, and O(n) if a
    /// newer one removes it. No lock, no allocation.
    #[inline]
    pub(crate) fn floor(&self, user_key: &[u8], sequence: u64) -> u64 {
        match &self.range_tombstones {
            None => 0,
            Some(index) => index.newest(user_key, sequence).map_or(0, |newest| newest + 1),
        }
    }

    /// Reads a block, and puts it into the cache if the options say so.
    #[cold]
    pub(super) fn load(&self, index: usize, options: &ReadOptions) -> Result<Arc<Cached>> {
        let block = self.read(index, options.verify_checksums)?;
        if options.fills_cache() {
            return Ok(self.cached.insert(index, block));
        }
        Ok(self.cached.lend(block))
    }

    /// Reads a block past the cache. Whether its checksum is computed is `verify`.
    pub(super) fn read(&self, index: usize, verify: bool) -> Result<Block> {
        let handle = self.index.block(index);
        self.cached.reads().random.add(handle.framed_bytes());
        let bytes =
            self.file.with(|file| read_block_with(file, handle, BlockType::Data, verify))?;
        Block::new(bytes).map_err(|damage| self.damage(index, damage))
    }

    /// Makes a block of its framed bytes, in the memory of `bytes`.
    pub(super) fn decode(
        &self,
        index: usize,
        framed: &[u8],
        verify: bool,
        mut bytes: Vec<u8>,
    ) -> Result<Block> {
        let handle = self.index.block(index);
        decode_block(self.path(), framed, handle, BlockType::Data, verify, &mut bytes)?;
        Block::new(bytes).map_err(|damage| self.damage(index, damage))
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    #[cold]
    pub(super) fn damage(&self, index: usize, damage: Damage) -> Error {
        self.corrupt_block(index, format!("{} at its byte {}", damage.what, damage.at))
    }

    pub(super) fn corrupt_block(&self, index: usize, what: impl Into<String>) -> Error {
        Error::corruption(self.path(), self.index.block(index).offset, what)
    }
}

/// Reads the footer, and the properties in the block that it names.
fn read_properties(file: &dyn File, reads: &ReadCount) -> Result<(Handle, Properties)> {
    let (handle, footer_at) = read_footer(file)?;
    reads.add(FOOTER_BYTES);
    reads.add(handle.framed_bytes());
    let stored = read_block(file, handle, BlockType::Properties)?;
    let properties = Properties::decode(&stored, footer_at + FOOTER_BYTES as u64)
        .map_err(|what| Error::corruption(file.path(), handle.offset, what))?;
    Ok((handle, properties))
}

/// The blocks after the data, in their order.
fn parts_of(properties: &Properties, own: Handle) -> [Handle; 5] {
    let Properties { filter, prefix_filter, range_deletes, index, .. } = properties;
    let filter = filter.as_ref().map(|filter| filter.stored);
    let prefix_filter = prefix_filter.as_ref().map(|filter| filter.stored);
    let mut parts = [filter, prefix_filter, *range_deletes, Some(*index), Some(own)]
        .map(Option::unwrap_or_default);
    parts.sort_by_key(|part| part.offset);
    parts
}

/// Whether the bounds of the table include those of its range tombstones.
fn reaches_over(meta: &TableMeta, ranges: &RangeTombstoneIndex, comparator: &Comparator) -> bool {
    comparator.user(ranges.low(), key::user_of(&meta.smallest)).is_ge()
        && comparator.user(ranges.high(), key::user_of(&meta.largest)).is_le()
}

/// The range tombstones in their block, or what is wrong with it.
fn parse_range_tombstones(
    stored: &[u8],
    comparator: &Comparator,
) -> std::result::Result<Option<RangeTombstoneIndex>, &'static str> {
    let ranges = decode_ranges(stored).ok_or("a list of ranges that is cut")?;
    if ranges.is_empty() || ranges.iter().any(|range| range.is_empty(comparator)) {
        return Err("a range that is empty");
    }
    Ok(RangeTombstoneIndex::new(ranges, comparator))
}
