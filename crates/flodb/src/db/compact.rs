//! Running a compaction that was chosen: tables of a level and those that they overlap in the level
//! below become new tables there, one part after the other (`compaction`).

use super::background_error::{Work, is_retryable};
use super::build::{BuildOptions, LowerLevels};
use super::stats::Counters;
use super::{Db, Inner};
use crate::blob::{DEAD_PERCENT_MAX, Due};
use crate::compaction::{
    Compaction, CompactionId, CompactionOptions, InProgressCompactions, Manual, pick, pick_expired,
    pick_range, pick_table, targets,
};
use crate::compaction_filter::CompactionFilter;
use crate::error::{Error, Result};
use crate::event::{CompactionReason, Event, Outputs};
use crate::iterator::{BoundedCursor, Child, LevelCursor, Merge};
use crate::open_table::OpenTable;
use crate::options::Options;
use crate::range_tombstones::{RangeTombstone, RangeTombstoneIndex};
use crate::table::ReadOptions;
use crate::version::{FileMeta, LAST_LEVEL, LEVELS, Version, VersionEdit};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A table that is written anew in its place may be larger than others by this part.
const IN_PLACE_SLACK_PART: u64 = 4;
/// How many times `level_base_bytes` the level may have that level 0 is merged into.
const BASE_TIMES: u64 = 4;

/// How long the threads that compact wait for what is due already, and a snapshot keeps.
const EXPIRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// How long they wait at most while anything is going to expire: the clock may be set.
const EXPIRY_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How many times larger a level is than the one above it.
const LEVEL_FACTOR: u64 = 10;

impl Options {
    pub(crate) fn compaction(&self) -> CompactionOptions {
        CompactionOptions {
            level0_tables: self.level0_tables,
            level0_bytes: (self.memtable_bytes as u64).saturating_mul(self.level0_tables as u64),
            level_base_bytes: self.level_base_bytes,
            base_times: BASE_TIMES,
            level_factor: LEVEL_FACTOR,
            table_bytes: self.table_bytes,
        }
    }
}

impl Db {
    /// Compacts the tables that have keys from `low` to `high`, both included, down to the last
    /// level that has any of them; nothing is an open end. What was removed or replaced there, and
    /// is looked at by no snapshot, is gone from disk afterwards. What is in memory goes to tables
    /// first.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// db.delete(b"key")?;
    /// db.compact_range(None, None)?;
    /// assert_eq!(db.property("keyrack.estimate-num-keys"), Some("0".to_owned()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read or written. The store only reads then, but for a full disk: what was
    /// compacted until then stays so, and the store takes writes.
    pub fn compact_range(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        let inner = self.inner();
        self.flush()?;
        for level in 0..LAST_LEVEL {
            while let Some(job) = CompactionJob::of_range(inner, level, (low, high))? {
                run_manual(job)?;
            }
        }
        // What a snapshot had held back when it was written, and nothing above has come to.
        for (level, number) in with_obsolete_entries(inner, low, high) {
            if let Some(job) = CompactionJob::of_table(inner, level, number)? {
                run_manual(job)?;
            }
        }
        // What that has made of the blob files.
        while let Some((level, number)) = first_with_garbage(inner, low, high) {
            if let Some(job) = CompactionJob::of_table(inner, level, number)? {
                run_manual(job)?;
            }
        }
        inner.garbage.wait();
        Ok(())
    }
}

/// A table of the range that is worth writing anew for the sake of its blob files.
fn first_with_garbage(
    inner: &Inner,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> Option<(usize, u64)> {
    let version = &inner.read_state().version;
    let due = due(inner, version, CompactionReason::Caller);
    let order = &inner.options.comparator;
    let is_within = |file: &FileMeta| {
        high.is_none_or(|high| order.user(file.first(), high).is_le())
            && low.is_none_or(|low| !file.ends_before(low, order))
    };
    let mut tables = tables_with_garbage(version, &due).filter(|(_, file)| is_within(file));
    tables.next().map(|(level, file)| (level, file.number))
}

impl Db {
    /// Compacts everything as [`Db::compact_range`] does, and writes every table anew that was
    /// there before. All tables then have the compression, blocks and filters of the options, and
    /// values are in blob files as the options say.
    ///
    /// ```
    /// # use keyrack_flodb::{Compression, Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let plain = Options::new().compression([Compression::None]);
    /// Db::open_in(fs.clone(), "/store".as_ref(), plain)?.put(b"key", b"value")?;
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.rewrite()?;
    /// assert!(db.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::compact_range`].
    pub fn rewrite(&self) -> Result<()> {
        let inner = self.inner();
        self.flush()?;
        let first_new = inner.tables.manifest.lock().numbers().next();
        self.compact_range(None, None)?;
        // A table may change its level between the look and the compaction: one is looked up at a
        // time, until none is left.
        let is_old = |file: &FileMeta| {
            file.number < first_new || file.blobs.iter().any(|share| share.file < first_new)
        };
        let old_table = || {
            let version = &inner.read_state().version;
            let files = |level| version.files(level).iter().map(move |file| (level, file));
            let mut old = (1..LEVELS).flat_map(files).filter(|(_, file)| is_old(file));
            old.next().map(|(level, file)| (level, file.number))
        };
        while let Some((level, number)) = old_table() {
            if let Some(mut job) = CompactionJob::of_table(inner, level, number)? {
                let blobs = job.version.blobs().keys().copied();
                job.due = Due::all(blobs.filter(|number| *number < first_new));
                run_manual(job)?;
            }
        }
        inner.garbage.wait();
        Ok(())
    }
}

/// Runs what somebody asked for. Nobody waits for it but the caller, so that a full disk is an
/// error for the caller alone.
fn run_manual(job: CompactionJob<'_>) -> Result<()> {
    let inner = job.inner;
    job.run().inspect_err(|error| {
        if !is_retryable(error) {
            inner.poison(error);
        }
    })?;
    drop(job);
    inner.tables.reader.cache.free_evicted_patiently();
    Ok(())
}

/// The tables from level 1 on with keys from `low` to `high` that may hold what nobody sees any
/// more, each with its level: versions that were replaced, tombstones where nothing lies below, and
/// values that have expired. The last level first, so that less lies below those above it.
fn with_obsolete_entries(
    inner: &Inner,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> Vec<(usize, u64)> {
    let read_state = inner.read_state();
    let oldest = inner.read_path.snapshots.oldest(|| inner.visible());
    let expired_ms = inner.expired_ms();
    let mut found = Vec::new();
    for level in (1..LEVELS).rev() {
        let files: HashSet<u64> =
            read_state.version.overlapping(level, low, high).map(|file| file.number).collect();
        for table in read_state.levels[level].iter() {
            let (file, meta) = (table.file(), table.table().meta());
            let (first, last) = (Some(file.first()), Some(file.last()));
            let is_over =
                || file.deletes > 0 && !read_state.version.overlaps_below(level, first, last);
            let is_last = || !read_state.version.overlaps_below(level, first, last);
            let may_have = meta.replaced > 0 || is_over() || meta.operands > 0 && is_last();
            // Of a table from outside, all entries are of one moment, and none is replaced.
            let is_seen = file.sequence_min > oldest || file.sequence.is_some();
            let is_expired = file.expiries.has_expired(expired_ms);
            if files.contains(&file.number) && (may_have && !is_seen || is_expired) {
                found.push((level, file.number));
            }
        }
    }
    found
}

/// The blob files that a compaction should empty now. A caller wants the space; the background
/// leaves some garbage.
fn due(inner: &Inner, version: &Version, reason: CompactionReason) -> Due {
    let tables = (0..LEVELS).map(|level| version.files(level).len()).sum();
    let dead_percent = if reason == CompactionReason::Caller { 0 } else { DEAD_PERCENT_MAX };
    Due::of(version.blobs().values(), tables, inner.options.blob_file_bytes(), dead_percent)
}

/// The tables from level 1 on that are worth writing anew for the sake of their blob files, and
/// their levels. Those of level 0 go soon in any case.
fn tables_with_garbage<'a>(
    version: &'a Version,
    due: &'a Due,
) -> impl Iterator<Item = (usize, &'a Arc<FileMeta>)> {
    let files = move |level| version.files(level).iter().map(move |file| (level, file));
    (1..LEVELS).flat_map(files).filter(move |(_, file)| due.is_worth(&file.blobs))
}

/// Does the most urgent compaction. `false` if none is due.
pub(crate) fn compact_once(inner: &Inner) -> Result<bool> {
    let job = CompactionJob::of_most_urgent(inner)
        .or_else(|| CompactionJob::of_garbage(inner))
        .or_else(|| CompactionJob::of_expired(inner));
    let Some(job) = job else {
        inner.background_succeeded(Work::Compaction);
        return Ok(false);
    };
    job.run().inspect_err(|error| inner.background_failed(Work::Compaction, error))?;
    // With it go the tables that it replaced, and their blocks.
    drop(job);
    inner.tables.reader.cache.free_evicted_patiently();
    inner.background_succeeded(Work::Compaction);
    Ok(true)
}

/// A compaction whose tables nobody else takes meanwhile.
struct CompactionJob<'a> {
    inner: &'a Inner,
    /// The version that it was chosen in. Of tables, it holds the names alone: their files go when
    /// their part is done.
    version: Arc<Version>,
    compaction: Compaction,
    /// The oldest moment in use, when it was chosen.
    oldest: u64,
    /// What had expired for everybody then.
    expired_ms: u64,
    /// Whether that was the newest, so that no snapshot saw what the filter may drop.
    is_unpinned: bool,
    reason: CompactionReason,
    /// The blob files whose values are written anew.
    due: Due,
    id: Option<CompactionId>,
}

impl<'a> CompactionJob<'a> {
    fn of_most_urgent(inner: &'a Inner) -> Option<Self> {
        let mut in_progress = inner.compaction.in_progress.lock();
        let read_state = inner.read_state();
        let oldest = inner.read_path.snapshots.oldest(|| inner.visible());
        let compaction =
            pick(&read_state.version, &inner.options.compaction(), &in_progress, oldest)?;
        let version = Arc::clone(&read_state.version);
        let chosen = (compaction, CompactionReason::Levels);
        Some(CompactionJob::start(inner, &mut in_progress, version, chosen, oldest))
    }

    /// Writes a table anew whose blob files are mostly dead. `None` if there is none that is free.
    fn of_garbage(inner: &'a Inner) -> Option<Self> {
        let mut in_progress = inner.compaction.in_progress.lock();
        let read_state = inner.read_state();
        let due = due(inner, &read_state.version, CompactionReason::BlobGarbage);
        if due.is_empty() {
            return None;
        }
        let oldest = inner.read_path.snapshots.oldest(|| inner.visible());
        // The one that refers to most of it first: each table is rewritten once for all of it.
        let mut tables: Vec<_> = tables_with_garbage(&read_state.version, &due).collect();
        tables.sort_by_key(|(_, file)| Reverse(due.bytes_of(&file.blobs)));
        let compaction = tables.into_iter().find_map(|(level, file)| {
            let options = inner.options.compaction();
            match pick_table(&read_state.version, &options, &in_progress, level, file.number) {
                Manual::Run(compaction) => Some(*compaction),
                Manual::Busy | Manual::Done => None,
            }
        })?;
        let version = Arc::clone(&read_state.version);
        let chosen = (compaction, CompactionReason::BlobGarbage);
        Some(CompactionJob::start(inner, &mut in_progress, version, chosen, oldest))
    }

    /// Writes a table without its expired values, if these are a large part of it.
    fn of_expired(inner: &'a Inner) -> Option<Self> {
        if !inner.expiries.is_used() {
            return None;
        }
        let mut in_progress = inner.compaction.in_progress.lock();
        let read_state = inner.read_state();
        let oldest = inner.read_path.snapshots.oldest(|| inner.visible());
        let (version, options) = (&read_state.version, inner.options.compaction());
        let compaction = pick_expired(version, &options, &in_progress, inner.expired_ms())?;
        let version = Arc::clone(version);
        let chosen = (compaction, CompactionReason::Expired);
        Some(CompactionJob::start(inner, &mut in_progress, version, chosen, oldest))
    }

    /// `None` when the level has nothing to give. Waits while others have what is wanted.
    fn of_range(
        inner: &'a Inner,
        level: usize,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Option<Self>> {
        let options = inner.options.compaction();
        CompactionJob::of_choice(inner, |version, in_progress| {
            pick_range(version, &options, in_progress, level, range)
        })
    }

    /// `None` when the table is not there any more. Waits while others have it.
    fn of_table(inner: &'a Inner, level: usize, number: u64) -> Result<Option<Self>> {
        let options = inner.options.compaction();
        CompactionJob::of_choice(inner, |version, in_progress| {
            pick_table(version, &options, in_progress, level, number)
        })
    }

    fn of_choice(
        inner: &'a Inner,
        choose: impl Fn(&Version, &InProgressCompactions) -> Manual,
    ) -> Result<Option<Self>> {
        loop {
            inner.check_poison()?;
            let seen = inner.signal.now();
            let mut in_progress = inner.compaction.in_progress.lock();
            let read_state = inner.read_state();
            match choose(&read_state.version, &in_progress) {
                Manual::Done => return Ok(None),
                Manual::Run(compaction) => {
                    let oldest = inner.read_path.snapshots.oldest(|| inner.visible());
                    let version = Arc::clone(&read_state.version);
                    let chosen = (*compaction, CompactionReason::Caller);
                    let job =
                        CompactionJob::start(inner, &mut in_progress, version, chosen, oldest);
                    return Ok(Some(job));
                }
                Manual::Busy => {}
            }
            drop(in_progress);
            if inner.is_stopping() {
                return Err(Error::Closed);
            }
            inner.signal.sleep(seen);
        }
    }

    fn start(
        inner: &'a Inner,
        in_progress: &mut InProgressCompactions,
        version: Arc<Version>,
        (compaction, reason): (Compaction, CompactionReason),
        oldest: u64,
    ) -> Self {
        // After `oldest` was asked for: what was pinned since is not older than that.
        let is_unpinned = inner.read_path.snapshots.len() == 0;
        let id = Some(in_progress.start(&compaction, &inner.options.comparator));
        let due = due(inner, &version, reason);
        let expired_ms = inner.expired_ms();
        CompactionJob {
            inner,
            version,
            compaction,
            oldest,
            expired_ms,
            is_unpinned,
            reason,
            due,
            id,
        }
    }

    fn run(&self) -> Result<()> {
        let CompactionJob { inner, compaction, reason, .. } = self;
        let (job, begin_ns) = (inner.events.begin_job(), inner.compaction.throughput.now_ns());
        let Compaction { level, output_level, .. } = *compaction;
        inner.events.tell(|| Event::CompactionBegun {
            job,
            reason: *reason,
            level,
            output_level,
            tables: compaction.files().map(|file| file.number).collect(),
            table_bytes: compaction.files().map(|file| file.bytes).sum(),
        });
        let result = self.merge_or_move();
        let duration = inner.compaction.throughput.since(begin_ns);
        inner.events.tell(|| {
            let result = result.clone();
            Event::CompactionEnded { job, level, output_level, duration, result }
        });
        result.map(drop)
    }

    fn merge_or_move(&self) -> Result<Outputs> {
        let CompactionJob { inner, compaction, .. } = self;
        if compaction.trivial_move {
            inner.install(&compaction.move_edit(), (&[], &[]), None)?;
            Counters::add(&inner.counters.trivial_moves, 1);
            let tables = compaction.files().map(|file| file.number).collect();
            return Ok(Outputs { tables, ..Outputs::default() });
        }
        let begin_ns = inner.compaction.throughput.now_ns();
        let ranges = self.range_tombstones();
        let seen = ranges.iter().filter(|range| range.sequence <= self.oldest);
        let hiding = RangeTombstoneIndex::new(seen.cloned(), &inner.options.comparator);
        let parts = self.parts();
        let mut outputs = Outputs::default();
        for part in &parts {
            outputs.add(self.run_part(part, &ranges, hiding.as_ref())?);
        }
        if compaction.level == 0 && compaction.output_level > 0 {
            inner.compaction.throughput.record_level0(begin_ns, self.upper_bytes());
        }
        let counters = &inner.counters;
        Counters::add(&counters.compactions, 1);
        let level = &counters.levels[compaction.output_level];
        Counters::add(&level.runs, 1);
        Counters::add(&level.upper_tables, compaction.inputs[0].len() as u64);
        Counters::add(&level.lower_tables, compaction.inputs[1].len() as u64);
        Counters::add(&level.ns, inner.compaction.throughput.now_ns().saturating_sub(begin_ns));
        Ok(outputs)
    }

    /// The filter, if it may be asked.
    fn filter(&self) -> Option<&'a dyn CompactionFilter> {
        self.inner.options.compaction_filter.as_deref().filter(|_| self.is_unpinned)
    }

    /// The parts. There is one where upper tables have operands: between two parts, a reader would
    /// find an operand above a value that it is part of already. There is one with a filter, too:
    /// a version would be above its change.
    fn parts(&self) -> Vec<Range<usize>> {
        let lower = self.compaction.inputs[1].len();
        let [upper, _] = self.inputs(&(lower..lower));
        let has_operands = upper.iter().any(|table| table.table().meta().operands > 0);
        if has_operands || self.filter().is_some() {
            return std::iter::once(0..lower).collect();
        }
        self.compaction.parts(&self.inner.options.compaction())
    }

    /// Merges a part, and installs it. Without the filter, if there is one and somebody looks at a
    /// moment by then.
    fn run_part(
        &self,
        part: &Range<usize>,
        ranges: &[RangeTombstone],
        hiding: Option<&RangeTombstoneIndex>,
    ) -> Result<Outputs> {
        if let Some(outputs) = self.run_part_with(part, ranges, hiding, self.filter())? {
            return Ok(outputs);
        }
        let outputs = self.run_part_with(part, ranges, hiding, None)?;
        Ok(outputs.expect("what no filter has changed is installed"))
    }

    fn run_part_with(
        &self,
        part: &Range<usize>,
        ranges: &[RangeTombstone],
        hiding: Option<&RangeTombstoneIndex>,
        filter: Option<&dyn CompactionFilter>,
    ) -> Result<Option<Outputs>> {
        let CompactionJob { inner, compaction, version, .. } = self;
        let begin_ns = inner.compaction.throughput.now_ns();
        let order = &inner.options.comparator;
        let blobs = Arc::clone(&inner.read_state().blobs);
        let inputs = self.inputs(part);
        let is_last = part.end == compaction.inputs[1].len();
        if inner.options.paranoid_checks {
            // The upper tables once, before anything is written.
            let skipped = usize::from(part.start > 0);
            inputs.iter().skip(skipped).flatten().try_for_each(|table| table.table().verify())?;
        }
        let read = self.not_fully_expired(not_fully_deleted(inputs, hiding));
        // Each part reads a piece of the upper tables. They count once.
        let counted = read.iter().skip(usize::from(!is_last)).flatten();
        let bytes_read: u64 = counted.map(|table| table.file().bytes).sum();
        let bounds = compaction.part_bounds(part);
        let merged = Merge::new(self.children(read), order.clone());
        let mut entries = BoundedCursor::new(merged, order, bounds);
        let within = compaction.output_level == 0;
        // A table that is written anew in its place may grow a little, and is no two tables for it.
        let is_in_place = compaction.level == compaction.output_level;
        let slack = if is_in_place { inner.options.table_bytes / IN_PLACE_SLACK_PART } else { 0 };
        let options = BuildOptions {
            level: compaction.output_level,
            base: targets(version, &inner.options.compaction()).base,
            is_urgent: false,
            table_bytes: if within { u64::MAX } else { inner.options.output_table_bytes() + slack },
            // Not an older one than the choice was made for, or it would be made again.
            oldest: self.oldest,
            expired_ms: self.expired_ms,
            // One table is the point of a compaction within level 0.
            splits: (!within).then(|| compaction.splits(&inner.options.compaction())),
            ranges: ranges.iter().filter_map(|range| range.within(bounds, order)).collect(),
            below: &LevelsBelowOutput { compaction, version },
            dropped: inner.compaction.drop_filter.get().filter(|_| self.is_unpinned),
            filter,
            values: Some((&*blobs, &self.due)),
        };
        let built = inner.build(&mut entries, options)?;
        drop(entries);
        let files = built.tables.iter().map(|table| Arc::clone(table.file()));
        let new_blobs = built.blobs.iter().map(|blob| *blob.meta()).collect();
        let edit = VersionEdit { blobs: new_blobs, ..compaction.part_edit(part, files) };
        let added = (&built.tables[..], &built.blobs[..]);
        if built.changed == 0 {
            inner.install(&edit, added, None)?;
        } else if !inner.install_unpinned(&edit, added)? {
            built.discard();
            return Ok(None);
        }
        let (counters, throughput) = (&inner.counters, &inner.compaction.throughput);
        throughput.record_compaction(begin_ns, bytes_read.max(built.bytes));
        Counters::add(&counters.compaction_bytes_read, bytes_read);
        Counters::add(&counters.compaction_bytes_written, built.bytes);
        Counters::add(&counters.blob_bytes_written, built.blob_bytes);
        Counters::add(&counters.table_writes, built.writes);
        Counters::add(&counters.filtered, built.changed);
        let level = &counters.levels[compaction.output_level];
        Counters::add(&level.written_tables, built.tables.len() as u64);
        Counters::add(&level.read_bytes, bytes_read);
        Counters::add(&level.written_bytes, built.bytes);
        Ok(Some(built.outputs()))
    }

    /// The inputs without those of which everything has expired, for everybody, and below which
    /// nothing lies that would come back: they need not be read. Nothing lies below the tables of
    /// the lower level, as far as the levels below it say so; nor below one that is written anew
    /// in its place. A reader of a moment before the newest of these values still has to find that
    /// the key was written since.
    fn not_fully_expired(&self, inputs: [Vec<Arc<OpenTable>>; 2]) -> [Vec<Arc<OpenTable>>; 2] {
        let CompactionJob { inner, compaction, version, .. } = self;
        let is_expired = |table: &Arc<OpenTable>| {
            let file = table.file();
            file.expiries.are_all(file.entries, self.expired_ms)
                && file.sequence_max <= self.oldest
                && !compaction.may_hide_range(version, file.first(), file.last())
        };
        let drop_expired = |tables: &mut Vec<Arc<OpenTable>>| {
            tables.retain(|table| {
                let is_expired = is_expired(table);
                if is_expired {
                    Counters::add(&inner.counters.expired, table.file().entries);
                }
                !is_expired
            });
        };
        let [mut upper, mut lower] = inputs;
        if compaction.level == compaction.output_level {
            drop_expired(&mut upper);
        }
        drop_expired(&mut lower);
        [upper, lower]
    }

    fn upper_bytes(&self) -> u64 {
        self.compaction.inputs[0].iter().map(|file| file.bytes).sum()
    }

    /// The range tombstones of all inputs.
    fn range_tombstones(&self) -> Vec<RangeTombstone> {
        let inputs = self.inputs(&(0..self.compaction.inputs[1].len()));
        let tables = inputs.iter().flatten();
        // Most tables have no range tombstones.
        let indexes = tables.filter_map(|table| table.table().range_tombstones());
        indexes.flat_map(|index| index.ranges()).collect()
    }

    /// The tables that a part merges: of the upper level and of the lower one.
    fn inputs(&self, part: &Range<usize>) -> [Vec<Arc<OpenTable>>; 2] {
        let Compaction { level, output_level, inputs: [upper, lower], .. } = &self.compaction;
        let read_state = self.inner.read_state();
        let open = |level: usize, file: &Arc<FileMeta>| {
            let found =
                read_state.levels[level].iter().find(|table| table.file().number == file.number);
            Arc::clone(found.expect("a compaction is chosen among the open tables of the store"))
        };
        [(*level, &upper[..]), (*output_level, &lower[part.clone()])]
            .map(|(level, files)| files.iter().map(|file| open(level, file)).collect())
    }

    /// Cursors over these of the inputs.
    fn children(&self, inputs: [Vec<Arc<OpenTable>>; 2]) -> Vec<Child> {
        // What is read once is not worth a place in the cache.
        let options = ReadOptions { fill_cache: false, ..ReadOptions::default() };
        let Compaction { level, output_level, .. } = self.compaction;
        let mut children = Vec::new();
        for (level, tables) in [level, output_level].into_iter().zip(inputs) {
            if level == 0 {
                let cursors = tables.iter().map(|table| table.table().cursor(options));
                children.extend(cursors.map(Child::Table));
            } else if !tables.is_empty() {
                let order = self.inner.options.comparator.clone();
                children.push(Child::Level(LevelCursor::new(tables.into(), order, options)));
            }
        }
        children
    }
}

/// How long to wait for the next table that is due, about. `None` if none will be.
pub(super) fn wait_for_expiry(inner: &Inner) -> Option<Duration> {
    if !inner.expiries.is_used() {
        return None;
    }
    let version = &inner.read_state().version;
    let files = (0..LEVELS).flat_map(|level| version.files(level));
    // Tables without such values are never due.
    let due_ms = files.filter_map(|file| file.expiries.due_ms(file.entries)).min()?;
    let left_ms = due_ms.saturating_sub(inner.expiries.now_ms());
    Some(Duration::from_millis(left_ms).clamp(EXPIRY_PAUSE_MIN, EXPIRY_PAUSE_MAX))
}

/// Runs a compaction whatever the version says of it.
#[cfg(test)]
pub(super) fn run_chosen(inner: &Inner, compaction: Compaction) -> Result<()> {
    let mut in_progress = inner.compaction.in_progress.lock();
    let version = Arc::clone(&inner.read_state().version);
    let chosen = (compaction, CompactionReason::Levels);
    let job = CompactionJob::start(inner, &mut in_progress, version, chosen, 0);
    drop(in_progress);
    job.run()
}

impl Drop for CompactionJob<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.inner.compaction.in_progress.lock().finish(id);
        }
        self.inner.wake_background();
    }
}

/// The inputs without those of which everything is removed, for everybody: they need not be read.
fn not_fully_deleted(
    inputs: [Vec<Arc<OpenTable>>; 2],
    tombstones: Option<&RangeTombstoneIndex>,
) -> [Vec<Arc<OpenTable>>; 2] {
    let Some(tombstones) = tombstones else { return inputs };
    inputs.map(|mut tables| {
        tables.retain(|table| {
            let file = table.file();
            !tombstones.covers_all(file.first(), file.last(), file.sequence_max)
        });
        tables
    })
}

/// What lies below the output of a compaction.
struct LevelsBelowOutput<'a> {
    compaction: &'a Compaction,
    version: &'a Version,
}

impl LowerLevels for LevelsBelowOutput<'_> {
    fn has(&self, key: &[u8]) -> bool {
        self.compaction.may_hide(self.version, key)
    }

    fn has_any(&self, low: &[u8], high: &[u8]) -> bool {
        self.compaction.may_hide_range(self.version, low, high)
    }
}
