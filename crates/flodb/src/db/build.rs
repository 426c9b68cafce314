//! Turning a sorted sequence of entries into tables, without what nobody can see any more.
//!
//! Of a key, everything stays that is newer than the oldest moment in use, and the newest version
//! up to there. If that version is a tombstone and no level below has the key, it is dropped too.
//! Nothing stays that is older than a range tombstone over it, if that is not newer than the oldest
//! moment. An entry that the drop filter names is dropped, or becomes a tombstone where a level
//! below may have the key, and so does one that the compaction filter removes (`filtered`). So does
//! a value that has expired for everybody; nothing is said of a table whose values are all expired,
//! and below which nothing of its keys lies: it is not read, see `compact`.
//!
//! ```text
//!   entries          a   c   d       k   m      q         z
//!   range tombstones       [c .............. p)       [s ..... )
//!   tables        [ a  c    d | k    m     p )( p q   s       z ]
//! ```
//!
//! **Range tombstones** come beside the entries. Of those up to the oldest moment only the newest
//! of each place stays, and that only where a level below has something. A range lies in all tables
//! whose keys it removes: where a table ends it is cut, so that each table says itself what of it
//! is removed, and its bounds include that. What ends a table may come between two entries: where a
//! range begins, and where a table of the level below does, so that a wide range becomes no table
//! that shares keys with all of that level.
//!
//! **Operands** up to the oldest moment are put together with what is below them, see `fold`.
//!
//! **Blob files** take the values that are large enough, see `blob_output`. The values of blob
//! files that are mostly dead are written anew, wherever their entries come along.

use super::blob_output::BlobOutput;
use super::fold::Operand;
use super::stats::Counters;
use super::{DropFilter, Inner};
use crate::blob::{BlobIndex, Due};
use crate::compaction::OutputSplits;
use crate::compaction_filter::CompactionFilter;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::event::Outputs;
use crate::expiry;
use crate::key::{Comparator, Kind, Parsed, SEQUENCE_MAX, TRAILER_BYTES, append, parse};
use crate::manifest::FileNumber;
use crate::memory_budget::{Charge, Holder};
use crate::open_blob::{BlobFiles, OpenBlob};
use crate::open_table::{OpenTable, table_path};
use crate::range_tombstones::{RangeTombstone, RangeTombstoneIndex};
use crate::table::TableWriter;
use crate::version::FileMeta;
use keyrack_vfs::OpenOptions;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to write, and what may go.
pub(crate) struct BuildOptions<'a> {
    /// The level that the tables are for.
    pub(crate) level: usize,
    /// The level that level 0 is merged into.
    pub(crate) base: usize,
    /// Whether writers wait for it, so that it does not wait for its turn to write.
    pub(crate) is_urgent: bool,
    /// Bytes after which the next table begins.
    pub(crate) table_bytes: u64,
    /// The oldest moment in use.
    pub(crate) oldest: u64,
    /// What has expired by this time is seen by nobody; 0 if nothing can have.
    pub(crate) expired_ms: u64,
    /// Where else the next table begins, so that none shares keys with too much of the level below.
    pub(crate) splits: Option<OutputSplits<'a>>,
    /// What else is removed, besides the entries that remove a key.
    pub(crate) ranges: Vec<RangeTombstone>,
    /// What may be in a level below.
    pub(crate) below: &'a dyn LowerLevels,
    /// What else may go, if no snapshot is older than this.
    pub(crate) dropped: Option<&'a DropFilter>,
    /// What may go or change, if nobody looks at a moment.
    pub(crate) filter: Option<&'a dyn CompactionFilter>,
    /// Where the values are that the entries do not have, and which of them are written anew.
    pub(crate) values: Option<(&'a BlobFiles, &'a Due)>,
}

/// Whether something older may lie below, that a tombstone has to hide.
pub(crate) trait LowerLevels {
    /// Of this key.
    fn has(&self, key: &[u8]) -> bool;
    /// Of the keys from `low` up to but not with `high`.
    fn has_any(&self, low: &[u8], high: &[u8]) -> bool;
}

/// Anything may be below.
pub(crate) struct AnyLowerLevels;

impl LowerLevels for AnyLowerLevels {
    fn has(&self, _key: &[u8]) -> bool {
        true
    }

    fn has_any(&self, _low: &[u8], _high: &[u8]) -> bool {
        true
    }
}

/// Tables that are written, and in no version yet.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) tables: Vec<Arc<OpenTable>>,
    /// What the tables refer to.
    pub(crate) blobs: Vec<Arc<OpenBlob>>,
    /// Of the tables.
    pub(crate) bytes: u64,
    /// Of the blob files.
    pub(crate) blob_bytes: u64,
    /// Writes of their files.
    pub(crate) writes: u64,
    /// Entries that the compaction filter has removed or changed.
    pub(crate) changed: u64,
    /// Keep the files from being taken for left-overs until a version names them.
    _numbers: Vec<FileNumber>,
}

impl Built {
    /// As a listener is told.
    pub(crate) fn outputs(&self) -> Outputs {
        Outputs {
            tables: self.tables.iter().map(|table| table.file().number).collect(),
            table_bytes: self.bytes,
            blobs: self.blobs.iter().map(|blob| blob.meta().number).collect(),
            blob_bytes: self.blob_bytes,
        }
    }

    /// Gives up what was written: no version will name it.
    pub(crate) fn discard(self) {
        self.tables.iter().for_each(|table| table.set_obsolete());
        self.blobs.iter().for_each(|blob| blob.set_obsolete());
    }
}

impl Inner {
    /// Writes what `entries` gives, from its first entry on. The tables are synced, and so is the
    /// directory.
    pub(crate) fn build(
        &self,
        entries: &mut dyn Cursor,
        mut options: BuildOptions<'_>,
    ) -> Result<Built> {
        let order = &self.options.comparator;
        let ranges = std::mem::take(&mut options.ranges);
        let (seen, stay): (Vec<_>, Vec<_>) =
            ranges.into_iter().partition(|range| range.sequence <= options.oldest);
        let hiding = RangeTombstoneIndex::new(seen, order);
        let tombstones = PendingTombstones::new(stay, hiding.as_ref(), options.below, order);
        let (built, numbers) = (Vec::new(), Vec::new());
        let (writer, charged, writes) = (None, 0, 0);
        let memory = Charge::new(&self.tables.reader.cache, Holder::Writers, 0);
        let (blobs, value) = (BlobOutput::new(self), Vec::new());
        let mut output = Output {
            inner: self,
            options,
            tombstones,
            writer,
            memory,
            charged,
            writes,
            built,
            numbers,
            blobs,
            value,
            operands: Vec::new(),
            changed: 0,
            is_under_operands: false,
        };
        let result = output
            .write(entries, hiding.as_ref())
            .and_then(|()| output.end(None))
            .and_then(|()| output.blobs.end());
        if let Err(error) = result {
            output.discard();
            return Err(error);
        }
        if !output.built.is_empty() {
            self.fs.sync_dir(&self.dir)?;
        }
        let bytes = output.built.iter().map(|table| table.file().bytes).sum();
        let blobs = output.blobs.finish();
        let blob_bytes = blobs.built.iter().map(|blob| blob.meta().file_bytes()).sum();
        let (writes, mut _numbers) = (output.writes + blobs.writes, output.numbers);
        _numbers.extend(blobs.numbers);
        let (tables, blobs, changed) = (output.built, blobs.built, output.changed);
        Ok(Built { tables, blobs, bytes, blob_bytes, writes, changed, _numbers })
    }

    pub(crate) fn open_table(&self, file: Arc<FileMeta>) -> Result<Arc<OpenTable>> {
        let tables = &self.tables;
        OpenTable::open(&*self.fs, &tables.deleter, &self.dir, file, &tables.reader)
    }
}

/// Bytes that a table grows by before it is paid for.
const CHARGE_BYTES: u64 = 64 << 10;

/// Bytes of a range tombstone in a table, beside its keys, or a few more.
const RANGE_BYTES: u64 = 16;

/// The range tombstones on their way into tables.
struct PendingTombstones {
    order: Comparator,
    /// By their beginnings.
    all: Vec<RangeTombstone>,
    /// How many have begun.
    begun: usize,
    /// Those that the table in work has so far: the rest of those that were cut where it begins,
    /// and those that begin in it.
    here: Vec<RangeTombstone>,
    /// The furthest end of these.
    reach: Vec<u8>,
    /// About how many bytes those take that begin in it. The others would fill each table anew.
    bytes: u64,
}

impl PendingTombstones {
    /// Those that `stay` whatever is below, and the pieces of those that hide from everybody.
    fn new(
        stay: Vec<RangeTombstone>,
        hiding: Option<&RangeTombstoneIndex>,
        below: &dyn LowerLevels,
        order: &Comparator,
    ) -> Self {
        let pieces = hiding.into_iter().flat_map(RangeTombstoneIndex::pieces);
        let needed = pieces.filter(|piece| below.has_any(&piece.begin, &piece.end));
        let mut all: Vec<RangeTombstone> = stay.into_iter().chain(needed).collect();
        all.retain(|range| !range.is_empty(order));
        all.sort_by(|a, b| order.user(&a.begin, &b.begin));
        let (here, reach) = (Vec::new(), Vec::new());
        PendingTombstones { order: order.clone(), all, begun: 0, here, reach, bytes: 0 }
    }

    /// The key with which the next one begins.
    fn next_begin(&self) -> Option<&[u8]> {
        self.all.get(self.begun).map(|range| &*range.begin)
    }

    /// Begins those that begin with `key`, or before it.
    fn begin(&mut self, key: &[u8]) {
        while let Some(range) = self.all.get(self.begun)
            && self.order.user(&range.begin, key).is_le()
        {
            self.begun += 1;
            self.bytes += (range.begin.len() + range.end.len()) as u64 + RANGE_BYTES;
            self.push(range.clone());
        }
    }

    fn push(&mut self, range: RangeTombstone) {
        if self.here.is_empty() || self.order.user(&self.reach, &range.end).is_lt() {
            self.reach.clone_from(&range.end);
        }
        self.here.push(range);
    }

    /// Whether the table in work has any.
    fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    /// Whether one of those goes on at `key`.
    fn reaches(&self, key: &[u8]) -> bool {
        !self.is_empty() && self.order.user(key, &self.reach).is_lt()
    }

    /// The tombstones of the table that ends before `key`, or of the last table without `key`. The
    /// rest belongs to the next table.
    fn cut(&mut self, key: Option<&[u8]>) -> Vec<RangeTombstone> {
        let mut cut = std::mem::take(&mut self.here);
        self.bytes = 0;
        if let Some(key) = key {
            for range in &mut cut {
                if self.order.user(key, &range.end).is_lt() {
                    let end = std::mem::replace(&mut range.end, key.to_vec());
                    let (begin, sequence) = (key.to_vec(), range.sequence);
                    self.push(RangeTombstone { begin, end, sequence });
                }
            }
        }
        cut
    }
}

pub(super) struct Output<'a> {
    pub(super) inner: &'a Inner,
    pub(super) options: BuildOptions<'a>,
    tombstones: PendingTombstones,
    writer: Option<(u64, PathBuf, TableWriter)>,
    /// The memory of the table in work.
    memory: Charge,
    /// Bytes of the table in work that the limit knows of.
    charged: u64,
    /// Writes of the tables before it.
    writes: u64,
    built: Vec<Arc<OpenTable>>,
    numbers: Vec<FileNumber>,
    blobs: BlobOutput<'a>,
    /// The value of a blob file that was read last.
    pub(super) value: Vec<u8>,
    /// See `fold`.
    pub(super) operands: Vec<Operand>,
    /// See [`Built::changed`].
    pub(super) changed: u64,
    /// Whether an operand of the key in work was written: what comes below it is no value of its
    /// own, and no filter is asked of it.
    pub(super) is_under_operands: bool,
}

impl Output<'_> {
    fn write(
        &mut self,
        entries: &mut dyn Cursor,
        hiding: Option<&RangeTombstoneIndex>,
    ) -> Result<()> {
        let order = &self.inner.options.comparator;
        // The last key, whether a version of it up to the oldest moment was met, and the newest
        // tombstone that hides from everybody.
        let mut last: Vec<u8> = Vec::new();
        let (mut first, mut covered, mut tombstone) = (true, false, None);
        let mut last_sequence = 0;
        entries.seek_first()?;
        while let Some((key, value)) = entries.entry() {
            let entry = parse(key).ok_or_else(|| {
                Error::corruption(&self.inner.dir, 0, "an entry of an unknown kind")
            })?;
            let same = !first && order.user(entry.user, &last) == Ordering::Equal;
            if !same {
                self.end_operands(&last, tombstone.is_some())?;
                last.clear();
                last.extend_from_slice(entry.user);
                (first, covered, self.is_under_operands) = (false, false, false);
                tombstone = hiding.and_then(|hiding| hiding.newest(entry.user, SEQUENCE_MAX));
                self.stop(entry.user)?;
            }
            // A compaction that ended before its last part has left it in two levels.
            let repeated = same && entry.sequence == last_sequence;
            last_sequence = entry.sequence;
            let is_old = entry.sequence <= self.options.oldest;
            let mut hidden = covered || repeated || tombstone > Some(entry.sequence);
            if !hidden && !self.operands.is_empty() && entry.kind != Kind::Merge {
                hidden = self.fold_over(&entry, value)?;
            }
            covered |= is_old && entry.kind != Kind::Merge;
            if !hidden {
                match entry.kind {
                    Kind::Put | Kind::Blob => self.add_unless_dropped(&entry, key, value)?,
                    Kind::PutExpiring => self.add_unless_expired(&entry, key, value)?,
                    Kind::Delete => self.add_tombstone(&entry)?,
                    Kind::Merge if is_old => self.gather(&entry, value)?,
                    Kind::Merge => {
                        self.is_under_operands = true;
                        self.add(key, value)?;
                    }
                    // It comes with the ranges.
                    Kind::DeleteRange => {}
                }
            }
            entries.next()?;
        }
        self.end_operands(&last, tombstone.is_some())?;
        self.stop_between(None)
    }

    /// Comes to a key: ends the table before it, or anywhere on the way, if it is due.
    #[inline]
    fn stop(&mut self, key: &[u8]) -> Result<()> {
        if self.tombstones.all.is_empty() {
            return self.cut(key);
        }
        self.stop_between(Some(key))?;
        self.cut(key)?;
        self.tombstones.begin(key);
        Ok(())
    }

    /// Stops where ranges begin, and where tables of the level below begin within them, before
    /// `key` or up to the end.
    fn stop_between(&mut self, key: Option<&[u8]>) -> Result<()> {
        let order = &self.inner.options.comparator;
        loop {
            let begin = self.tombstones.next_begin();
            let below = self.options.splits.as_ref().and_then(OutputSplits::next_table);
            let below = below.filter(|below| self.tombstones.reaches(below));
            let stops = begin.into_iter().chain(below);
            // Nothing is left to stop at.
            let Some(next) = stops.min_by(|a, b| order.user(a, b)) else { return Ok(()) };
            if key.is_some_and(|key| order.user(next, key).is_ge()) {
                return Ok(());
            }
            let next = next.to_vec();
            self.cut(&next)?;
            self.tombstones.begin(&next);
        }
    }

    /// Ends the table before `key` if it is large enough, or shares keys with enough of the level
    /// below. Only between keys, so that a key is in one table of a level.
    fn cut(&mut self, key: &[u8]) -> Result<()> {
        let order = &self.inner.options.comparator;
        let is_due = self.options.splits.as_mut().is_some_and(|splits| splits.is_due(key, order));
        let entries = self.writer.as_ref().map_or(0, |(_, _, writer)| writer.written_bytes());
        let is_begun = self.writer.is_some() || !self.tombstones.is_empty();
        if is_begun {
            if !is_due && entries + self.tombstones.bytes < self.options.table_bytes {
                return Ok(());
            }
            self.end(Some(key))?;
        }
        if let Some(splits) = &mut self.options.splits {
            splits.restart();
        }
        Ok(())
    }

    /// Adds the tombstone of a key with the sequence number of an entry, as long as it may hide
    /// something, or somebody looks at an older moment.
    pub(super) fn add_tombstone(&mut self, entry: &Parsed<'_>) -> Result<()> {
        if entry.sequence <= self.options.oldest && !self.options.below.has(entry.user) {
            return Ok(());
        }
        let mut key = Vec::with_capacity(entry.user.len() + TRAILER_BYTES);
        append(&mut key, entry.user, entry.sequence, Kind::Delete);
        self.add(&key, &[])
    }

    /// Adds a value that expires and is not hidden, or its tombstone when it has expired for
    /// everybody. A key with several such values has one tombstone for each, at its number.
    fn add_unless_expired(&mut self, entry: &Parsed<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let (expires_ms, _) = expiry::split(value).ok_or_else(|| {
            Error::corruption(&self.inner.dir, 0, "a value that expires without its expiry")
        })?;
        if expires_ms > self.options.expired_ms {
            return self.add_unless_dropped(entry, key, value);
        }
        Counters::add(&self.inner.counters.expired, 1);
        self.add_tombstone(entry)
    }

    /// Adds an entry that is not hidden, or what the filters leave of it.
    #[inline]
    pub(super) fn add_unless_dropped(
        &mut self,
        entry: &Parsed<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let is_filtered = self.options.dropped.is_some() || self.options.filter.is_some();
        let is_seen_by_all = entry.kind.is_value() && entry.sequence <= self.options.oldest;
        if is_filtered && is_seen_by_all && !self.is_under_operands {
            return self.add_filtered(entry, key, value);
        }
        self.add_value(entry, key, value)
    }

    /// Adds an entry. A value that is large enough goes to a blob file, and so does one that is in
    /// a blob file which is to be emptied; that is, if it is large enough by now.
    #[inline]
    pub(super) fn add_value(&mut self, entry: &Parsed<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        match entry.kind {
            Kind::Put if self.blobs.takes(value) => self.add_apart(entry, value),
            Kind::Blob => self.add_blob(entry, key, value),
            _ => self.add(key, value),
        }
    }

    fn add_apart(&mut self, entry: &Parsed<'_>, value: &[u8]) -> Result<()> {
        let mut key = Vec::with_capacity(entry.user.len() + TRAILER_BYTES);
        append(&mut key, entry.user, entry.sequence, Kind::Blob);
        let (index, bytes) = self.blobs.add(entry, value)?;
        self.charge_memory();
        self.request(bytes);
        self.add(&key, &index)
    }

    #[inline(never)]
    fn add_blob(&mut self, entry: &Parsed<'_>, key: &[u8], index: &[u8]) -> Result<()> {
        let due = self.options.values.map(|(_, due)| due);
        let file = BlobIndex::take(index).map(|index| index.file);
        if !due.zip(file).is_some_and(|(due, file)| due.has(file)) {
            return self.add(key, index);
        }
        let mut buffer = std::mem::take(&mut self.value);
        let value = self.read_value(entry, index, &mut buffer)?;
        Counters::add(&self.inner.counters.blob_bytes_collected, value.len() as u64);
        if self.blobs.takes(value) {
            self.add_apart(entry, value)?;
        } else {
            let mut key = Vec::with_capacity(key.len());
            append(&mut key, entry.user, entry.sequence, Kind::Put);
            self.add(&key, value)?;
        }
        self.value = buffer;
        self.charge_memory();
        Ok(())
    }

    /// The value of an entry that has the blob index `index`.
    pub(super) fn read_value<'b>(
        &self,
        entry: &Parsed<'_>,
        index: &[u8],
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let (files, _) = self.options.values.expect("only tables have values in blob files");
        files.value(index, (entry.user, entry.sequence), true, buffer)
    }

    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = self.begin()?;
        writer.add(key, value)?;
        let written = writer.written_bytes();
        // A block that is compressed makes it fewer.
        if written.saturating_sub(self.charged) >= CHARGE_BYTES {
            self.charge_memory();
            self.charge(written);
        }
        Ok(())
    }

    /// Counts the memory of table and blob file in work.
    fn charge_memory(&mut self) {
        let table = self.writer.as_ref().map_or(0, |(_, _, writer)| writer.memory_bytes());
        self.memory.set(table + self.blobs.memory_bytes() + self.value.capacity());
    }

    /// Tells the limit that the table in work has so many bytes.
    fn charge(&mut self, written: u64) {
        let bytes = written.saturating_sub(self.charged);
        self.charged = written;
        if self.options.is_urgent {
            self.inner.compaction.throughput.set_flush_written(written);
        }
        self.request(bytes);
    }

    /// Waits until so many bytes may be written.
    fn request(&self, bytes: u64) {
        let Output { inner, options, .. } = self;
        let is_over = || inner.is_stopping() || inner.errors.fatal.get().is_some();
        inner.compaction.rate_limiter.request(bytes, !options.is_urgent, is_over);
    }

    /// The writer of the table in work, which begins if there is none.
    #[inline]
    fn begin(&mut self) -> Result<&mut TableWriter> {
        if self.writer.is_none() {
            self.create()?;
        }
        let (_, _, writer) = self.writer.as_mut().expect("it was just created");
        Ok(writer)
    }

    /// Begins a table.
    fn create(&mut self) -> Result<()> {
        let issued = self.inner.tables.numbers.issue();
        let number = issued.get();
        self.numbers.push(issued);
        let path = table_path(&self.inner.dir, number);
        let create = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let file = self.inner.fs.open(&path, &create)?;
        let options = self.inner.options.table(self.options.level, self.options.base);
        self.writer = Some((number, path, TableWriter::new(file, options)?));
        Ok(())
    }

    /// Ends the table in work, if there is one, before `key`.
    fn end(&mut self, key: Option<&[u8]>) -> Result<()> {
        let ranges = self.tombstones.cut(key);
        if !ranges.is_empty() {
            self.begin()?;
        }
        // No table is in work.
        let Some((number, path, mut writer)) = self.writer.take() else { return Ok(()) };
        self.charge(writer.written_bytes());
        self.charged = 0;
        self.memory.set(writer.finish_bytes() + self.blobs.memory_bytes() + self.value.capacity());
        let added = ranges.into_iter().try_for_each(|range| writer.add_range(range));
        let meta = match added.and_then(|()| writer.finish_counted()) {
            Ok((meta, writes)) => {
                self.writes += writes;
                meta
            }
            Err(error) => {
                remove(self.inner, &path);
                return Err(error);
            }
        };
        let is_paranoid = self.inner.options.paranoid_checks;
        let opened = self.inner.open_table(Arc::new(FileMeta::new(number, meta)));
        let checked = opened.and_then(|table| {
            if is_paranoid { table.table().verify().map(|()| table) } else { Ok(table) }
        });
        self.charge_memory();
        match checked {
            Ok(table) => self.built.push(table),
            Err(error) => {
                remove(self.inner, &path);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes what was written. If that fails, the next opening does it: no version names it.
    fn discard(&mut self) {
        if let Some((_, path, writer)) = self.writer.take() {
            drop(writer);
            remove(self.inner, &path);
        }
        self.built.iter().for_each(|table| table.set_obsolete());
        self.blobs.discard();
    }
}

fn remove(inner: &Inner, path: &Path) {
    let _ = inner.fs.remove_file(path);
}
