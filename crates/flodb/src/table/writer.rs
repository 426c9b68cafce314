//! Making a table.
//!
//! Entries go into the block in work; a full block is compressed and framed into a buffer, and a
//! full buffer is written. The separator of a block is known with the first key of the next one, so
//! the index entry of the last block waits for that. The filter is built at the end, when the
//! number of keys is known; until then the writer keeps eight bytes for each user key. Range
//! deletes are kept until the end, too: whoever cuts a table ends them there.

use super::format::{BlockType, Handle, append_block, footer};
use super::index::{IndexBuilder, separator};
use super::properties::{FilterBlock, PrefixFilterBlock, Properties, TableMeta, encode_ranges};
use crate::blob::{BlobIndex, add_share};
use crate::block::BlockBuilder;
use crate::compress::{BLOCK_BYTES_MAX, Codec, Compression, Compressor};
use crate::error::{Error, Result};
use crate::expiry;
use crate::file_writer::FileWriter;
use crate::filter_policy::{FilterPolicy, KeyCollector};
use crate::key::{self, Comparator, Kind, Parsed};
use crate::prefix_extractor::PrefixExtractor;
use crate::prefix_filter::{PrefixCollector, StoreExtractor};
use crate::range_tombstones::RangeTombstone;
use keyrack_vfs::File;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

/// How a table is made. A reader needs none of it but the comparator.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// A data block ends with the entry that brings it to this size, uncompressed.
    pub(crate) block_bytes: usize,
    /// Entries from one whole key of a block to the next.
    pub(crate) restart_interval: usize,
    pub(crate) compression: Compression,
    /// Bits of the filter for each user key; 0 for no filter.
    pub(crate) filter_bits_per_key: u32,
    pub(crate) filter_policy: FilterPolicy,
    /// By which prefixes there is a second filter, of as many bits for each.
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    pub(crate) comparator: Comparator,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::default(),
            filter_bits_per_key: 10,
            filter_policy: FilterPolicy::Bloom,
            prefix_extractor: None,
            comparator: Comparator::default(),
        }
    }
}

/// A table that is being written. Dropped before [`TableWriter::finish`], it leaves a file that is
/// no table.
#[derive(Debug)]
pub(crate) struct TableWriter {
    /// Complete blocks.
    out: FileWriter,
    options: TableOptions,
    compressor: Compressor,
    block: BlockBuilder,
    index: IndexBuilder,
    /// The last block, if its index entry is still to come.
    unindexed: Option<Handle>,
    filter: KeyCollector,
    prefixes: Option<PrefixCollector>,
    ranges: Vec<RangeTombstone>,
    /// The last internal key.
    last: Vec<u8>,
    meta: TableMeta,
    /// The first failure is final: the file is unknown behind it.
    failed: Option<Error>,
}

impl TableWriter {
    /// A table in `file`, which is empty and open for writing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the compression is refused.
    pub(crate) fn new(file: Arc<dyn File>, options: TableOptions) -> Result<Self> {
        let bits = options.filter_bits_per_key;
        let extractor = options.prefix_extractor.as_ref();
        let extractor = extractor.map(|it| StoreExtractor::new(it, &options.comparator));
        Ok(TableWriter {
            prefixes: extractor.map(|extractor| PrefixCollector::new(extractor, bits)),
            out: FileWriter::new(file),
            compressor: Compressor::new(options.compression)?,
            block: BlockBuilder::new(options.restart_interval),
            filter: KeyCollector::new(&options.filter_policy, options.filter_bits_per_key),
            options,
            index: IndexBuilder::default(),
            unindexed: None,
            ranges: Vec::new(),
            last: Vec::new(),
            meta: TableMeta { sequence_min: u64::MAX, ..TableMeta::default() },
            failed: None,
        })
    }

    /// Adds an entry behind the last one.
    ///
    /// # Errors
    /// [`Error::Usage`] if the key is not behind the last one, or is no internal key of a single
    /// key, or the entry is larger than about 1 GiB; the entry is not added then. After any other
    /// error the table cannot be completed, and every later call returns it.
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let parsed = self.check(internal_key, value)?;
        let is_full = !self.block.is_empty()
            && self.block.bytes() + BlockBuilder::entry_bytes_max(internal_key, value)
                > BLOCK_BYTES_MAX;
        if is_full || self.block.bytes() >= self.options.block_bytes && !self.block.is_empty() {
            self.end_block().inspect_err(|error| self.failed = Some(error.clone()))?;
        }
        if let Some(block) = self.unindexed.take() {
            let separator = separator(&self.options.comparator, &self.last, internal_key);
            self.index.add(&separator, block);
        }
        self.block.add(internal_key, value);
        self.count(parsed, value);
        self.last.clear();
        self.last.extend_from_slice(internal_key);
        Ok(())
    }

    /// Adds a range delete, in any order and beside any entries.
    ///
    /// # Errors
    /// [`Error::Usage`] if the range is empty; it is not added then.
    pub(crate) fn add_range(&mut self, range: RangeTombstone) -> Result<()> {
        if range.is_empty(&self.options.comparator) || range.sequence > key::SEQUENCE_MAX {
            return Err(Error::Usage("a range delete of a table must delete something".into()));
        }
        self.ranges.push(range);
        Ok(())
    }

    /// Bytes of the file so far, without range deletes, and with the block in work as it is in
    /// memory.
    pub(crate) fn written_bytes(&self) -> u64 {
        let block = if self.block.is_empty() { 0 } else { self.block.bytes() };
        self.out.offset() + block as u64
    }

    /// Bytes of memory that the table takes while it is written.
    pub(crate) fn memory_bytes(&self) -> usize {
        let blocks = 2 * self.block.bytes().max(self.options.block_bytes);
        let kept = self.out.memory_bytes() + self.compressor.memory_bytes();
        let prefixes = self.prefixes.as_ref().map_or(0, PrefixCollector::memory_bytes);
        kept + self.index.memory_bytes() + self.filter.memory_bytes() + prefixes + blocks
    }

    /// Bytes that [`TableWriter::finish`] takes, and the opening of the table after it: filter and
    /// index are there as they are made, as they are stored and as they are used.
    pub(crate) fn finish_bytes(&self) -> usize {
        let filter = self.filter.stored_bytes();
        let prefixes = self.prefixes.as_ref().map_or(0, PrefixCollector::stored_bytes);
        self.memory_bytes() + 4 * (filter + prefixes + self.index.memory_bytes())
    }

    /// Entries and range deletes so far.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> u64 {
        self.meta.entries + self.ranges.len() as u64
    }

    /// Completes the table and syncs the data of its file. The directory is the caller's to sync.
    /// O(keys) for the filter.
    ///
    /// # Errors
    /// [`Error::Usage`] for a table without anything, or with an index or a list of range deletes
    /// beyond 1 GiB; any error of writing. The file is not a table then.
    pub(crate) fn finish(self) -> Result<TableMeta> {
        self.finish_counted().map(|(meta, _)| meta)
    }

    /// As [`TableWriter::finish`], with the number of writes that the file took.
    pub(crate) fn finish_counted(mut self) -> Result<(TableMeta, u64)> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.meta.entries == 0 && self.ranges.is_empty() {
            return Err(Error::Usage("a table needs an entry".into()));
        }
        if !self.block.is_empty() {
            self.end_block()?;
        }
        if let Some(block) = self.unindexed.take() {
            self.index.add(&self.last, block);
        }
        let data_bytes = self.out.offset();
        let filter = self.put_filter()?;
        let prefix_filter = self.put_prefix_filter()?;
        self.meta.largest = std::mem::take(&mut self.last);
        self.count_ranges();
        let ranges = (!self.ranges.is_empty()).then(|| encode_ranges(&self.ranges));
        let range_deletes = ranges
            .map(|ranges| self.put_compressed(BlockType::RangeDeletes, &ranges))
            .transpose()?;
        let index = std::mem::take(&mut self.index);
        let index = self.put_compressed(BlockType::Index, index.bytes())?;
        let mut properties = Properties {
            index,
            filter,
            prefix_filter,
            range_deletes,
            ranges_among_entries: false,
            comparator: self.options.comparator.name().to_owned(),
            data_bytes,
            codecs: self.compressor.used(),
            meta: std::mem::take(&mut self.meta),
        };
        let handle = self.put(BlockType::Properties, Codec::Raw, &properties.encode())?;
        self.out.gather(|out, _| out.extend_from_slice(&footer(handle, handle.end())));
        let (bytes, writes) = self.out.finish()?;
        (properties.meta.bytes, properties.meta.checksum) = (bytes, handle.checksum);
        Ok((properties.meta, writes))
    }

    fn check<'a>(&self, internal_key: &'a [u8], value: &[u8]) -> Result<Parsed<'a>> {
        let parsed = key::parse(internal_key)
            .filter(|parsed| parsed.kind != Kind::DeleteRange)
            .ok_or_else(|| Error::Usage("a key without a sequence and a kind".into()))?;
        if parsed.kind == Kind::Blob && BlobIndex::take(value).is_none() {
            return Err(Error::Usage("a value in a blob file without its place".into()));
        }
        if parsed.kind == Kind::PutExpiring && expiry::split(value).is_none() {
            return Err(Error::Usage("a value that expires without its expiry".into()));
        }
        // The tail of the block has a restart and the count.
        if BlockBuilder::entry_bytes_max(internal_key, value) > BLOCK_BYTES_MAX - 8 {
            let bytes = internal_key.len() + value.len();
            return Err(Error::Usage(format!(
                "an entry of {bytes} bytes is too large for a table"
            )));
        }
        let is_ascending = self.meta.entries == 0
            || self.options.comparator.internal(&self.last, internal_key) == Ordering::Less;
        if is_ascending {
            Ok(parsed)
        } else {
            Err(Error::Usage("keys of a table must ascend".into()))
        }
    }

    fn count(&mut self, parsed: Parsed<'_>, value: &[u8]) {
        let meta = &mut self.meta;
        if meta.entries == 0 {
            key::append(&mut meta.smallest, parsed.user, parsed.sequence, parsed.kind);
        }
        // Versions of one key are neighbours.
        let is_new_user = meta.entries == 0 || key::user_of(&self.last) != parsed.user;
        if is_new_user {
            self.filter.add(parsed.user);
            if let Some(prefixes) = &mut self.prefixes {
                let before = (meta.entries > 0).then(|| key::user_of(&self.last));
                prefixes.add(parsed.user, before);
            }
        }
        meta.replaced += u64::from(!is_new_user);
        meta.entries += 1;
        meta.deletes += u64::from(parsed.kind.is_removal());
        meta.operands += u64::from(parsed.kind == Kind::Merge);
        if parsed.kind == Kind::Blob
            && let Some(index) = BlobIndex::take(value)
        {
            add_share(&mut meta.blobs, index, parsed.user);
        }
        if parsed.kind == Kind::PutExpiring
            && let Some((expires_ms, _)) = expiry::split(value)
        {
            meta.expiries.add(expires_ms);
        }
        meta.sequence_min = meta.sequence_min.min(parsed.sequence);
        meta.sequence_max = meta.sequence_max.max(parsed.sequence);
        meta.raw_bytes += (parsed.user.len() + key::TRAILER_BYTES + value.len()) as u64;
    }

    /// By their beginnings, the newest first.
    fn count_ranges(&mut self) {
        let order = &self.options.comparator;
        self.ranges.sort_by(|a, b| {
            order
                .user(&a.begin, &b.begin)
                .then_with(|| Reverse(a.sequence).cmp(&Reverse(b.sequence)))
        });
        self.ranges.iter().for_each(|range| self.meta.count_range(range, order));
    }

    fn end_block(&mut self) -> Result<()> {
        let (codec, stored) = self.compressor.compress(self.block.finish());
        let add = |out: &mut Vec<u8>, at| append_block(out, at, BlockType::Data, codec, stored);
        self.unindexed = Some(self.out.gather(add));
        self.block.clear();
        self.out.write_full()
    }

    fn put_filter(&mut self) -> Result<Option<FilterBlock>> {
        let Some(stored) = self.filter.finish() else { return Ok(None) };
        let stored = self.put_noise(&stored)?;
        Ok(Some(FilterBlock { rule: self.filter.rule_name().map(str::to_owned), stored }))
    }

    fn put_prefix_filter(&mut self) -> Result<Option<PrefixFilterBlock>> {
        let Some(prefixes) = self.prefixes.take() else { return Ok(None) };
        let Some(stored) = prefixes.finish() else { return Ok(None) };
        let stored = self.put_noise(&stored)?;
        Ok(Some(PrefixFilterBlock { extractor: prefixes.name(), stored }))
    }

    /// Puts a filter, which is as good as noise: no codec makes it smaller.
    fn put_noise(&mut self, filter: &[u8]) -> Result<Handle> {
        if filter.len() > BLOCK_BYTES_MAX {
            return Err(Error::Usage(format!("a filter of {} bytes", filter.len())));
        }
        self.put(BlockType::Filter, Codec::Raw, filter)
    }

    fn put_compressed(&mut self, block_type: BlockType, contents: &[u8]) -> Result<Handle> {
        if contents.len() > BLOCK_BYTES_MAX {
            return Err(Error::Usage("a table with too many blocks or range deletes".into()));
        }
        let (codec, stored) = self.compressor.compress(contents);
        Ok(self.out.gather(|out, at| append_block(out, at, block_type, codec, stored)))
    }

    fn put(&mut self, block_type: BlockType, codec: Codec, contents: &[u8]) -> Result<Handle> {
        let handle = self.out.gather(|out, at| append_block(out, at, block_type, codec, contents));
        self.out.write_full()?;
        Ok(handle)
    }
}
