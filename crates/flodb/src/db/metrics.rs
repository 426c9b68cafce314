//! All numbers of the store, each with what it means.
//!
//! [`Db::stats`] visits names and numbers. The table here says of each name what it counts, in
//! which unit, and whether it only grows. A test has every name that a store shows described here,
//! and every description in `docs/engines/flodb.md`.

use super::Db;

/// A number of a store, see [`Db::metrics`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, as [`Db::stats`] and [`Db::property`] have it.
    pub name: String,
    /// What it is now.
    pub value: f64,
    /// Whether it only grows.
    pub kind: MetricKind,
    /// What it is counted in: `bytes`, `seconds`, or what it counts.
    pub unit: &'static str,
    /// What it is, in a sentence without a full stop.
    pub help: &'static str,
}

/// How a [`Metric`] moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It counts from the opening of the store, and only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

use MetricKind::{Counter, Gauge};

/// Of each name: kind, unit and help. `N` in a name stands for a level.
const DESCRIBED: &[(&str, MetricKind, &str, &str)] = &[
    ("memory_bytes", Gauge, "bytes", "entries of all memtables"),
    ("memory_entries", Gauge, "entries", "entries of all memtables"),
    ("generations", Gauge, "memtables", "memtables, the active one and those to be flushed"),
    ("levelN_tables", Gauge, "tables", "tables of the level"),
    ("levelN_bytes", Gauge, "bytes", "files of the tables of the level"),
    ("levelN_entries", Gauge, "entries", "entries of the tables of the level"),
    ("into_levelN_seconds", Counter, "seconds", "time of flushes and compactions into the level"),
    ("into_levelN_runs", Counter, "runs", "flushes and compactions into the level"),
    ("into_levelN_upper_tables", Counter, "tables", "inputs from the level above"),
    ("into_levelN_lower_tables", Counter, "tables", "inputs from the level itself"),
    ("into_levelN_written_tables", Counter, "tables", "tables written to the level"),
    ("into_levelN_read_bytes", Counter, "bytes", "inputs of compactions into the level"),
    ("into_levelN_written_bytes", Counter, "bytes", "tables written to the level"),
    ("blob_files", Gauge, "files", "blob files"),
    ("blob_bytes", Gauge, "bytes", "blob files"),
    ("blob_dead_bytes", Gauge, "bytes", "values in blob files that no table refers to"),
    ("compaction_debt_bytes", Gauge, "bytes", "what compactions have to read and write by now"),
    ("compactions_running", Gauge, "compactions", "compactions in progress"),
    ("flushes_running", Gauge, "memtables", "memtables that wait for their flush, or are flushed"),
    ("flushes", Counter, "flushes", "memtables written to tables"),
    ("flush_bytes", Counter, "bytes", "tables that flushes wrote"),
    ("compactions", Counter, "compactions", "compactions that merged tables"),
    ("compaction_bytes_read", Counter, "bytes", "inputs of compactions"),
    ("compaction_bytes_written", Counter, "bytes", "tables that compactions wrote"),
    ("table_writes", Counter, "calls", "writes to files of tables"),
    ("trivial_moves", Counter, "tables", "tables that went down a level without being written"),
    ("blob_bytes_written", Counter, "bytes", "blob files that flushes and compactions wrote"),
    ("blob_bytes_collected", Counter, "bytes", "values written anew to empty their blob files"),
    ("writer_waits", Counter, "waits", "writes that waited for flushes or compactions"),
    ("writer_sorts", Counter, "sorts", "unsorted tails of memtables that were sorted ahead"),
    ("filtered_entries", Counter, "entries", "entries that the drop filter removed"),
    ("expired_entries", Counter, "entries", "expired values that were removed"),
    ("table_reads", Counter, "calls", "reads of files of tables for lookups"),
    ("table_bytes_read", Counter, "bytes", "what those reads read"),
    ("table_reads_ahead", Counter, "calls", "reads of files of tables for scans and compactions"),
    ("table_bytes_read_ahead", Counter, "bytes", "what those reads read"),
    ("reads_hash", Counter, "reads", "point reads answered by the hash level of a memtable"),
    ("reads_ordered", Counter, "reads", "point reads answered by the order of a memtable"),
    ("reads_tables", Counter, "reads", "point reads answered by tables"),
    ("reads_nowhere", Counter, "reads", "point reads of keys that are nowhere"),
    ("prefix_filters_asked", Counter, "tables", "tables whose prefix filter a scan asked"),
    ("prefix_filters_refused", Counter, "tables", "tables that a scan left out by their filter"),
    ("listener_panics", Counter, "panics", "panics of the listener"),
    ("events_lost", Counter, "events", "events that came while too many waited for the listener"),
    ("cache_blocks", Gauge, "blocks", "blocks in the cache"),
    ("cache_bytes", Gauge, "bytes", "blocks in the cache"),
    ("cache_hits", Counter, "blocks", "blocks that were found in the cache"),
    ("cache_misses", Counter, "blocks", "blocks that were read from files"),
    ("table_files_open", Gauge, "files", "files of tables that are open"),
    ("memtable_bytes", Gauge, "bytes", "memory of memtables"),
    ("index_bytes", Gauge, "bytes", "indexes of tables in memory"),
    ("filter_bytes", Gauge, "bytes", "filters of tables in memory"),
    ("table_state_bytes", Gauge, "bytes", "what else is in memory of each table"),
    ("readahead_bytes", Gauge, "bytes", "buffers of iterators and compactions"),
    ("table_writer_bytes", Gauge, "bytes", "tables that are being written"),
    ("fixed_bytes", Gauge, "bytes", "what does not depend on the data"),
    ("block_bytes", Gauge, "bytes", "blocks in memory, cached or with readers"),
    ("cache_place_bytes", Gauge, "bytes", "places of the cache, used or not"),
    ("memory_counted_bytes", Gauge, "bytes", "the sum of the nine parts of the budget"),
    ("memory_budget_bytes", Gauge, "bytes", "the memory budget"),
    ("memtable_mapped_bytes", Gauge, "bytes", "addresses that memtables have reserved"),
    ("cache_capacity_bytes", Gauge, "bytes", "what the cache may have now"),
    ("block_evicted_bytes", Gauge, "bytes", "blocks that left the cache while readers have them"),
    ("block_outside_bytes", Gauge, "bytes", "blocks that readers have outside of the cache"),
    ("snapshots", Gauge, "snapshots", "moments in use by snapshots, iterators and transactions"),
    ("log_kept_bytes", Gauge, "bytes", "log that is kept for feeds alone"),
    ("log_recovered_records", Gauge, "records", "records of the log that the opening replayed"),
    ("log_dropped_bytes", Gauge, "bytes", "the torn end of the log that the opening dropped"),
];

/// Of a name that is missing above. A test excludes that.
const UNDESCRIBED: (&str, MetricKind, &str, &str) = ("", Gauge, "number", "");

impl Db {
    /// All numbers of the store by name, each with its kind, unit and meaning: what
    /// [`Db::stats`] visits, for a page of metrics. Levels that are empty, counters of reads that
    /// are not counted, and those of a listener that is not there, are left out.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, MetricKind, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// let metrics = db.metrics();
    /// let flushes = metrics.iter().find(|metric| metric.name == "flushes").unwrap();
    /// assert_eq!((flushes.value, flushes.kind), (1.0, MetricKind::Counter));
    /// assert_eq!(flushes.help, "memtables written to tables");
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        self.stats(&mut |name, value| {
            let pattern = pattern_of(name);
            let described = DESCRIBED.iter().find(|(known, ..)| *known == pattern);
            let (_, kind, unit, help) = described.unwrap_or(&UNDESCRIBED);
            metrics.push(Metric { name: name.to_owned(), value, kind: *kind, unit, help });
        });
        metrics
    }
}

/// The name with `N` for the number of a level.
fn pattern_of(name: &str) -> String {
    match name.split_once("level") {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{before}levelN{rest}")
        }
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::options::Options;
    use crate::prefix_extractor::PrefixExtractor;
    use keyrack_vfs::MemFs;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    const PAGE: &str = include_str!("../../../../docs/engines/flodb.md");

    #[test]
    fn every_number_of_a_store_is_described_once() {
        let names: BTreeSet<_> = DESCRIBED.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), DESCRIBED.len(), "a name is described twice");
        let options = Options::new().counts_reads(true).blob_bytes_min(1024);
        let options = options.prefix_extractor(PrefixExtractor::Fixed(1)).listener(|_: &Event| ());
        let db = Db::open_in(Arc::new(MemFs::new()), Path::new("/store"), options).unwrap();
        for round in 0..3_u8 {
            db.put(&[round], &[7; 4_000]).unwrap();
            db.put(b"", &[round]).unwrap();
            db.flush().unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.put(b"again", b"").unwrap();
        db.flush().unwrap();
        let found = db.metrics();
        let shown: BTreeSet<_> = found.iter().map(|metric| pattern_of(&metric.name)).collect();
        let missing: Vec<_> = names.iter().filter(|name| !shown.contains(**name)).collect();
        assert!(missing.is_empty(), "described, and not shown: {missing:?}");
        let undescribed: Vec<_> = shown.iter().filter(|name| !names.contains(&name[..])).collect();
        assert!(undescribed.is_empty(), "shown, and not described: {undescribed:?}");
        for metric in &found {
            let text = db.property(&format!("keyrack.{}", metric.name));
            assert!(text.is_some(), "{} is a property", metric.name);
            assert!(!metric.help.ends_with('.') && !metric.unit.is_empty());
        }
    }

    #[test]
    fn the_page_has_every_number() {
        for (name, kind, unit, help) in DESCRIBED {
            let kind = if *kind == Counter { "counter" } else { "gauge" };
            let row = format!("| `{name}` | {kind} | {unit} | {help} |");
            assert!(PAGE.contains(&row), "docs/engines/flodb.md needs the row\n{row}");
        }
    }
}
