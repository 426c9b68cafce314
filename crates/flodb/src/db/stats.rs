//! What the store counts, and the numbers that it reports by name.

use super::{Db, Inner, NS_PER_SECOND};
use crate::cache::CacheStats;
use crate::compaction::debt;
use crate::memory_budget::{Holder, MemoryBudget};
use crate::read_state::Tables;
use crate::version::{LEVELS, Version};
use keyrack_concurrent::Counter;
use std::sync::atomic::{AtomicU64, Ordering};

/// What has been done, in bytes and times.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes_read: AtomicU64,
    pub(crate) compaction_bytes_written: AtomicU64,
    /// Writes of the files of tables, by flushes and compactions.
    pub(crate) table_writes: AtomicU64,
    pub(crate) trivial_moves: AtomicU64,
    /// Of blob files, by flushes and compactions.
    pub(crate) blob_bytes_written: AtomicU64,
    /// Of values that compactions wrote anew to empty their blob files.
    pub(crate) blob_bytes_collected: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) filtered: AtomicU64,
    /// Values that had expired, in tables that were read. Those of tables that were not count, too.
    pub(crate) expired: AtomicU64,
    pub(crate) writer_sorts: AtomicU64,
    pub(crate) levels: [LevelCounters; LEVELS],
    /// Where point reads are counted.
    pub(crate) reads: Option<Box<ReadCounters>>,
}

/// Point reads by the level that answered them.
#[derive(Default)]
pub(crate) struct ReadCounters {
    pub(crate) hash: Counter,
    pub(crate) ordered: Counter,
    pub(crate) tables: Counter,
    pub(crate) nowhere: Counter,
}

/// What flushes and compactions into a level have moved, and how long they took.
#[derive(Default)]
pub(crate) struct LevelCounters {
    pub(crate) runs: AtomicU64,
    /// Tables that compactions took from the level above, and from this one.
    pub(crate) upper_tables: AtomicU64,
    pub(crate) lower_tables: AtomicU64,
    pub(crate) written_tables: AtomicU64,
    pub(crate) ns: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn new(counts_reads: bool) -> Counters {
        Counters { reads: counts_reads.then(Box::default), ..Counters::default() }
    }

    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

impl Db {
    /// Numbers of the store, by name.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// let mut entries = 0.0;
    /// db.stats(&mut |name, number| {
    ///     if name == "memory_entries" {
    ///         entries = number;
    ///     }
    /// });
    /// assert_eq!(entries, 1.0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let inner = &self.owner.inner;
        let read_state = inner.read_state();
        let memory: usize = read_state.memtables.iter().map(|g| g.bytes()).sum();
        visit("memory_bytes", memory as f64);
        let entries: usize = read_state.memtables.iter().map(|g| g.entries()).sum();
        visit("memory_entries", entries as f64);
        visit("generations", read_state.memtables.len() as f64);
        visit_levels(&read_state.levels, &inner.counters, visit);
        visit_blobs(&read_state.version, visit);
        let debt_bytes = debt(&read_state.version, &inner.options.compaction());
        visit("compaction_debt_bytes", debt_bytes as f64);
        // Not within the call: whoever is called may ask the store for more.
        let in_progress = inner.compaction.in_progress.lock().count();
        visit("compactions_running", in_progress as f64);
        // Immutable memtables: each is flushed, or will be next.
        visit("flushes_running", (read_state.memtables.len() - 1) as f64);
        let counters = &inner.counters;
        for (name, counter) in [
            ("flushes", &counters.flushes),
            ("flush_bytes", &counters.flush_bytes),
            ("compactions", &counters.compactions),
            ("compaction_bytes_read", &counters.compaction_bytes_read),
            ("compaction_bytes_written", &counters.compaction_bytes_written),
            ("table_writes", &counters.table_writes),
            ("trivial_moves", &counters.trivial_moves),
            ("blob_bytes_written", &counters.blob_bytes_written),
            ("blob_bytes_collected", &counters.blob_bytes_collected),
            ("writer_waits", &counters.waits),
            ("writer_sorts", &counters.writer_sorts),
            ("filtered_entries", &counters.filtered),
            ("expired_entries", &counters.expired),
        ] {
            visit(name, counter.load(Ordering::Relaxed) as f64);
        }
        let reads = inner.tables.reader.cache.reads();
        for (name, count) in [
            ("table_reads", reads.random.calls()),
            ("table_bytes_read", reads.random.bytes()),
            ("table_reads_ahead", reads.ahead.calls()),
            ("table_bytes_read_ahead", reads.ahead.bytes()),
        ] {
            visit(name, count as f64);
        }
        if let Some(reads) = &counters.reads {
            visit("reads_hash", reads.hash.sum() as f64);
            visit("reads_ordered", reads.ordered.sum() as f64);
            visit("reads_tables", reads.tables.sum() as f64);
            visit("reads_nowhere", reads.nowhere.sum() as f64);
        }
        visit_if_used(inner, visit);
        let cache = inner.tables.reader.cache.stats();
        visit("cache_blocks", cache.blocks as f64);
        visit("cache_bytes", cache.bytes as f64);
        visit("cache_hits", cache.hits as f64);
        visit("cache_misses", cache.misses as f64);
        if let Some(files) = &inner.tables.reader.files {
            visit("table_files_open", files.open_files() as f64);
        }
        visit_memory(inner.memory(), &cache, visit);
        visit("snapshots", inner.read_path.snapshots.len() as f64);
        visit("log_kept_bytes", inner.write_path.log.stats().kept_bytes as f64);
        visit("log_recovered_records", inner.write_path.recovered.records as f64);
        // The end that a crash tore off, or that somebody has damaged: it was never synced.
        visit("log_dropped_bytes", inner.write_path.recovered.dropped_bytes as f64);
    }
}

/// What options have a store do beside the rest.
fn visit_if_used(inner: &Inner, visit: &mut dyn FnMut(&str, f64)) {
    if let Some(prefixes) = &inner.tables.reader.prefixes {
        let (asked, refused) = prefixes.counts();
        visit("prefix_filters_asked", asked as f64);
        visit("prefix_filters_refused", refused as f64);
    }
    if let Some((panics, lost)) = inner.events.counts() {
        visit("listener_panics", panics as f64);
        visit("events_lost", lost as f64);
    }
}

/// The blob files.
fn visit_blobs(version: &Version, visit: &mut dyn FnMut(&str, f64)) {
    let blobs = || version.blobs().values();
    visit("blob_files", blobs().len() as f64);
    visit("blob_bytes", blobs().map(|blob| blob.meta.file_bytes()).sum::<u64>() as f64);
    visit("blob_dead_bytes", blobs().map(|blob| blob.dead_bytes()).sum::<u64>() as f64);
}

/// Who holds the memory of the store.
fn visit_memory(budget: &MemoryBudget, cache: &CacheStats, visit: &mut dyn FnMut(&str, f64)) {
    let memtables = budget.memtable_memory();
    let held = |holder| budget.held(holder);
    let parts = [
        ("memtable_bytes", memtables.bytes()),
        ("index_bytes", held(Holder::Indexes)),
        ("filter_bytes", held(Holder::Filters)),
        ("table_state_bytes", held(Holder::TableStates)),
        ("readahead_bytes", held(Holder::Cursors)),
        ("table_writer_bytes", held(Holder::Writers)),
        ("fixed_bytes", held(Holder::Fixed)),
        ("block_bytes", budget.blocks()),
        ("cache_place_bytes", cache.place_bytes as usize),
    ];
    parts.iter().for_each(|(name, bytes)| visit(name, *bytes as f64));
    let all: usize = parts.iter().map(|(_, bytes)| bytes).sum();
    visit("memory_counted_bytes", all as f64);
    visit("memory_budget_bytes", budget.bytes() as f64);
    visit("memtable_mapped_bytes", memtables.mapped_bytes as f64);
    visit("cache_capacity_bytes", cache.capacity as f64);
    // Of the blocks: what left the cache while readers were looking, and what readers have.
    visit("block_evicted_bytes", budget.evicted() as f64);
    visit("block_outside_bytes", budget.outside() as f64);
}

/// What is in each level, and what flushes and compactions into it have done.
fn visit_levels(levels: &[Tables; LEVELS], counters: &Counters, visit: &mut dyn FnMut(&str, f64)) {
    for (level, tables) in levels.iter().enumerate() {
        if !tables.is_empty() {
            let bytes: u64 = tables.iter().map(|table| table.file().bytes).sum();
            visit(&format!("level{level}_tables"), tables.len() as f64);
            visit(&format!("level{level}_bytes"), bytes as f64);
            let entries: u64 = tables.iter().map(|table| table.file().entries).sum();
            visit(&format!("level{level}_entries"), entries as f64);
        }
    }
    for (level, counters) in counters.levels.iter().enumerate() {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let seconds = counted(&counters.ns) / NS_PER_SECOND;
        if seconds > 0.0 {
            visit(&format!("into_level{level}_seconds"), seconds);
            for (what, counter) in [
                ("runs", &counters.runs),
                ("upper_tables", &counters.upper_tables),
                ("lower_tables", &counters.lower_tables),
                ("written_tables", &counters.written_tables),
                ("read_bytes", &counters.read_bytes),
                ("written_bytes", &counters.written_bytes),
            ] {
                visit(&format!("into_level{level}_{what}"), counted(counter));
            }
        }
    }
}
