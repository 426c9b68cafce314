//! The store behind the contract: engine `flodb`.
//!
//! | contract | here |
//! |---|---|
//! | durability `os` (the default), `none`, `interval:MS`, `sync` | that of the log |
//! | `remove` | writes a tombstone and does not look: `Removed::Unknown` |
//! | `update` | other writers of the key wait; the closure must not write to the store |
//! | `apply` | one record of the log: all or nothing after a crash, and to every reader |
//! | scans, `multi_get` | one point in time |
//! | snapshots | a sequence number; costs what it keeps from being dropped |
//! | `close` | with `none`, what is in memory goes to tables first |

use crate::batch::Batch as Writes;
use crate::compress::Compression;
use crate::db::{Db, Snapshot as Moment};
use crate::error::Error as DbError;
use crate::iterator::Iter;
use crate::options::{MEMTABLE_BYTES_MIN, Options};
use keyrack_concurrent::Change;
use keyrack_store::{
    Batch, BatchOp, DropFilter, Durability, Engine, EngineOption, Error, OpenOptions, Removed,
    Result, Session, Snapshot, Store, StoreInfo, Update, WriteOptions,
};
use std::ops::ControlFlow;
use std::path::Path;

/// The engine's descriptor.
///
/// ```
/// # use keyrack_flodb::engine;
/// assert_eq!(keyrack_flodb::engine().name, "flodb");
/// ```
#[must_use]
pub fn engine() -> Engine {
    Engine {
        name: "flodb",
        about: "hash level, sorted runs, log and leveled tables on disk",
        persistent: true,
        stores: true,
        options: OPTIONS,
        open,
    }
}

/// In place of a size: what the memory budget has for it.
const AUTO: &str = "auto";

const OPTIONS: &[EngineOption] = &[
    EngineOption {
        key: "memory_budget",
        default: AUTO,
        about: "bytes of memory for memtables, blocks, indexes and filters together; auto: a \
                quarter of the memory, at most 1G",
    },
    EngineOption {
        key: "memory_bytes",
        default: AUTO,
        about: "bytes of a memtable; auto: a sixteenth of memory_budget, at most 64M",
    },
    EngineOption {
        key: "cache_bytes",
        default: AUTO,
        about: "bytes of blocks kept in memory; auto: what the others leave of memory_budget",
    },
    EngineOption {
        key: "unordered_max",
        default: "64k",
        about: "entries of the hash level without order",
    },
    EngineOption {
        key: "hash_level",
        default: "yes",
        about: "whether there is a hash level before the order",
    },
    EngineOption {
        key: "segment_bytes",
        default: "16M",
        about: "bytes of a piece of the log, a power of two; no batch is larger",
    },
    EngineOption {
        key: "block_bytes",
        default: "4k",
        about: "bytes of data in a block of a table",
    },
    EngineOption {
        key: "table_bytes",
        default: "32M",
        about: "bytes of a table that a compaction writes",
    },
    EngineOption {
        key: "files_max",
        default: "512",
        about: "files of tables that are open at once; 0 for no limit",
    },
    EngineOption { key: "compaction_threads", default: "1", about: "threads that compact" },
    EngineOption {
        key: "compression",
        default: if cfg!(feature = "lz4") { "none,none,lz4" } else { "none" },
        about: "of level 0, the level it goes into, ..., the last level: none, snappy, \
                lz4, zstd or zstd:LEVEL",
    },
    EngineOption {
        key: "table_bytes_per_second",
        default: "0",
        about: "bytes that flushes and compactions write in a second, at most; 0 for no \
                limit",
    },
    EngineOption {
        key: "filter_bits",
        default: "10",
        about: "bits of a table's filter for each key; 0 for no filter",
    },
    EngineOption {
        key: "blob_bytes_min",
        default: "0",
        about: "bytes from which on a value goes to a blob file, at least 1k; 0 for none",
    },
    EngineOption {
        key: "discard",
        default: "no",
        about: "yes drops full memtables: the memory component alone, with durability none",
    },
    EngineOption {
        key: "count_reads",
        default: "no",
        about: "whether reads are counted by the level that answered",
    },
    EngineOption {
        key: "durability",
        default: "os",
        about: "what a write survives: none, os, interval:MS, sync; as --durability",
    },
];

fn open(given: &OpenOptions) -> Result<Box<dyn Store>> {
    let dir = given.required_data_dir()?;
    let durability = durability_of(given)?;
    // An option that is not given has the value that the store keeps.
    let defaults = Options { durability, ..Options::default() };
    let defaults = defaults.with_stored(&*given.fs, dir).map_err(convert)?;
    let size = |key: &str, default: usize| -> Result<usize> {
        let value = given.size(key, default as u64)?;
        usize::try_from(value)
            .map_err(|_| Error::usage(format!("{key}: {value} is more than memory")))
    };
    let of_budget = |key: &str| match given.text(key) {
        None => Ok(None),
        Some(text) if text.trim() == AUTO => Ok(None),
        Some(_) => size(key, 0).map(Some),
    };
    let memtable_bytes = of_budget("memory_bytes")?.unwrap_or(Options::BY_BUDGET);
    let memtable_bytes = at_least("memory_bytes", memtable_bytes, MEMTABLE_BYTES_MIN)?;
    let options = Options {
        memtable_bytes,
        memory_budget: of_budget("memory_budget")?,
        cache_bytes: of_budget("cache_bytes")?.unwrap_or(Options::BY_BUDGET),
        unordered_max: size("unordered_max", defaults.unordered_max)?,
        hash_level: given.flag("hash_level", defaults.hash_level)?,
        segment_bytes: given.size("segment_bytes", defaults.segment_bytes)?,
        block_bytes: at_least(
            "block_bytes",
            size("block_bytes", defaults.block_bytes)?,
            BLOCK_BYTES_MIN,
        )?,
        table_bytes: at_least(
            "table_bytes",
            given.size("table_bytes", defaults.table_bytes)?,
            TABLE_BYTES_MIN,
        )?,
        table_files_max: size("files_max", defaults.table_files_max)?,
        compaction_threads: size("compaction_threads", defaults.compaction_threads)?,
        table_bytes_per_second: given
            .size("table_bytes_per_second", defaults.table_bytes_per_second)?,
        compression: match given.text("compression") {
            Some(list) => compression_of(list)?,
            None => defaults.compression.clone(),
        },
        filter_bits_per_key: filter_bits(given, defaults.filter_bits_per_key)?,
        blob_bytes_min: size("blob_bytes_min", defaults.blob_bytes_min)?,
        discards_memtables: given.flag("discard", defaults.discards_memtables)?,
        counts_reads: given.flag("count_reads", defaults.counts_reads)?,
        ..defaults
    };
    let db = Db::open_in(given.fs.clone(), dir, options).map_err(convert)?;
    Ok(Box::new(FloStore { db, durability }))
}

/// Smaller blocks and tables are mostly their own indexes.
const BLOCK_BYTES_MIN: usize = 256;
const TABLE_BYTES_MIN: u64 = 64 << 10;

fn at_least<T: PartialOrd + std::fmt::Display>(key: &str, value: T, least: T) -> Result<T> {
    if value < least {
        return Err(Error::usage(format!("{key} must be at least {least} (got {value})")));
    }
    Ok(value)
}

/// More than this no filter gains from.
const FILTER_BITS_MAX: u32 = 64;

/// That of the run, or that of the engine's section.
fn durability_of(given: &OpenOptions) -> Result<Durability> {
    let own = given.text("durability").map(str::parse::<Durability>).transpose();
    match (given.durability, own?) {
        (Some(run), Some(own)) if run != own => Err(Error::usage(format!(
            "durability: {own} contradicts that of the run, {run}; give one"
        ))),
        // Neither of the two asked for another.
        (run, own) => Ok(run.or(own).unwrap_or_default()),
    }
}

fn filter_bits(given: &OpenOptions, default: u32) -> Result<u32> {
    let bits = given.size("filter_bits", default.into())?;
    u32::try_from(bits)
        .ok()
        .filter(|bits| *bits <= FILTER_BITS_MAX)
        .ok_or_else(|| Error::usage(format!("filter_bits: {bits} is more than {FILTER_BITS_MAX}")))
}

/// Codecs by name, one for each level.
fn compression_of(list: &str) -> Result<Vec<Compression>> {
    let codec = |name: &str| {
        Compression::parse(name.trim()).ok_or_else(|| {
            Error::usage(format!(
                "compression: '{name}' is not one of none, snappy, lz4, zstd, zstd:LEVEL"
            ))
        })
    };
    list.split(',').map(codec).collect()
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Error {
        convert(error)
    }
}

fn convert(error: DbError) -> Error {
    match error {
        DbError::Usage(message) => Error::usage(message),
        DbError::Io(error) | DbError::NoSpace(error) => Error::io(error.attempt(), error.cause()),
        DbError::Corruption { path, offset, what } => Error::corruption(&path, offset, what),
        DbError::Poisoned(cause) => Error::Poisoned { cause },
        DbError::Closed => Error::Closed,
        DbError::Thread(error) => {
            let cause = std::io::Error::new(error.kind(), error.to_string());
            Error::io("cannot start a background thread", cause)
        }
        refused @ (DbError::Locked(_)
        | DbError::UnsupportedCompression { .. }
        | DbError::Conflict { .. }
        | DbError::Deadlock { .. }
        | DbError::NotKept { .. }
        | DbError::NotWritten { .. }) => Error::usage(refused.to_string()),
    }
}

struct FloStore {
    db: Db,
    durability: Durability,
}

impl Store for FloStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FloSession { db: &self.db, writes: Writes::new(), buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        // Without a log nothing can be synced.
        let info = StoreInfo::new(concat!("flodb ", env!("CARGO_PKG_VERSION")), self.durability)
            .with_synced_puts(self.durability != Durability::None)
            .with_blind_removals();
        // The limit is that of a log record without the count at its start.
        StoreInfo { batch_bytes_max: self.db.batch_bytes_max(), ..info }
    }

    fn set_drop_filter(&self, filter: DropFilter) -> bool {
        self.db.set_drop_filter(filter)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(FloSnapshot { db: &self.db, moment: self.db.snapshot() })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        self.db.stats(visit);
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(self.db.dir())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.close().map_err(convert)
    }
}

struct FloSession<'a> {
    db: &'a Db,
    writes: Writes,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

struct FloSnapshot<'a> {
    db: &'a Db,
    moment: Moment,
}

fn ascend(
    mut iter: Iter,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<u64> {
    let mut visited = 0;
    iter.seek(low).map_err(convert)?;
    while let Some((key, value)) = iter.entry() {
        if high.is_some_and(|high| key >= high) {
            break;
        }
        visited += 1;
        if visit(key, value).is_break() {
            break;
        }
        iter.next().map_err(convert)?;
    }
    Ok(visited)
}

impl FloSession<'_> {
    fn add(&mut self, batch: &Batch) {
        for op in batch.iter() {
            match op {
                BatchOp::Put(key, value) => self.writes.put(key, value),
                BatchOp::Remove(key) => self.writes.delete(key),
            }
        }
    }
}

impl Session for FloSession<'_> {
    fn compact(&mut self) -> Result<bool> {
        self.db.compact_range(None, None).map(|()| true).map_err(convert)
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.db.property(&format!("leveldb.{name}")).or_else(|| self.db.property(name))
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.db.get_with(key, |value| visit(value)).map_err(convert)?;
        Ok(found.is_some())
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.db.multi_get(keys, visit).map_err(convert)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put(key, value).map_err(convert)
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if options.sync && self.db.options().durability == Durability::None {
            return Err(Error::usage("with durability none there is no log to sync"));
        }
        self.db.put_with(key, value, options).map_err(convert)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        self.db.delete(key).map_err(convert)?;
        Ok(Removed::Unknown)
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        let buffer = &mut self.buffer;
        buffer.clear();
        let decide = |current: Option<&[u8]>| match decide(current, buffer) {
            Update::Keep => Change::Keep,
            Update::Put => Change::Put(std::mem::take(buffer)),
            Update::Remove => Change::Remove,
        };
        self.db.update(key, WriteOptions::default(), decide).map_err(convert)
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        ascend(self.db.iter().map_err(convert)?, low, high, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut iter = self.db.iter().map_err(convert)?;
        match high {
            None => iter.seek_last().map_err(convert)?,
            Some(high) => {
                iter.seek_back(high).map_err(convert)?;
                if iter.entry().is_some_and(|(key, _)| key >= high) {
                    iter.prev().map_err(convert)?;
                }
            }
        }
        let mut visited = 0;
        while let Some((key, value)) = iter.entry() {
            // No key is before the empty one. To compare with it costs more than the step where the
            // library reads masked: its address is that of no memory.
            if !low.is_empty() && key < low {
                break;
            }
            visited += 1;
            if visit(key, value).is_break() {
                break;
            }
            iter.prev().map_err(convert)?;
        }
        Ok(visited)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.writes.clear();
        self.add(batch);
        self.db.write(&self.writes, WriteOptions::default()).map_err(convert)
    }

    /// One record: a range tombstone up to the last key there is, and the batch.
    fn replace_all(&mut self, batch: &Batch) -> Result<()> {
        self.writes.clear();
        let mut iter = self.db.iter().map_err(convert)?;
        iter.seek_last().map_err(convert)?;
        if let Some((last, _)) = iter.entry() {
            self.writes.delete_range(b"", &[last, b"\0"].concat());
        }
        drop(iter);
        self.add(batch);
        self.db.write(&self.writes, WriteOptions::default()).map_err(convert)
    }
}

impl Snapshot for FloSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.db.get_at(&self.moment, key, |value| visit(value)).map_err(convert)?;
        Ok(found.is_some())
    }

    fn scan(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        ascend(self.db.iter_at(&self.moment).map_err(convert)?, low, high, visit)
    }
}
