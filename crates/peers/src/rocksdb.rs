//! `rocksdb-bundled`: the log-structured merge tree that people compare with, through the crate
//! `rocksdb`, which builds the library from its source.
//!
//! The default column family of one database in the data directory. A write of the contract is one
//! record of the write-ahead log.
//!
//! | contract | here |
//! |---|---|
//! | durability `os` (the default) | the log is written before the reply |
//! | durability `none` | no log: what was not written out by `close` is lost |
//! | durability `interval:MS` | `os`, and a thread of ours that syncs the log |
//! | durability `sync`, synced put | the log is synced (`fdatasync`) before the reply |
//! | `remove` | writes a tombstone and does not look: `Removed::Unknown` |
//! | `update` | reads and writes under a lock of ours that writers of the key respect |
//! | `apply` | one record of the log; one moment to every reader |
//! | scans, `multi_get` | one point in time |
//! | snapshots | a sequence number; costs what it keeps from being dropped |
//! | `close` | with `none`, the memory tables are written out |
//!
//! The options of [`crate::common`] mean here: the size of a memory table, of which there are three
//! as in `flodb`; the capacity of the block cache, which is a HyperClockCache as RocksDB has it by
//! default (0 for none); bits of full Bloom filters; compression by level; background jobs,
//! of flushes and compactions together. Indexes and filters are kept outside of the cache. All else
//! is as RocksDB sets it, its own log of events apart, which keeps one file.
//!
//! Files are opened by RocksDB itself, so fault injection does not reach it. It does not tell the
//! place of damage apart from its text: errors name the directory and offset 0. An `update` closure
//! that writes to the same store waits for itself.

use crate::common::{self, Common};
use crate::contract::{Decide, RowVisitor, ValueVisitor, option};
use crate::stripes::Stripes;
use crate::ticker::Ticker;
use ::rocksdb::properties::{
    BLOCK_CACHE_USAGE, CUR_SIZE_ALL_MEM_TABLES, ESTIMATE_NUM_KEYS,
    ESTIMATE_PENDING_COMPACTION_BYTES, NUM_RUNNING_COMPACTIONS, NUM_RUNNING_FLUSHES, PropName,
    TOTAL_SST_FILES_SIZE,
};
use ::rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, DB, DBAccess, DBCompressionType,
    DBRawIteratorWithThreadMode, Error as RocksError, ErrorKind as RocksKind, Options, ReadOptions,
    SnapshotWithThreadMode, WriteBatch, WriteOptions,
};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Snapshot,
    Store, StoreInfo, Update,
};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ENGINE: Engine = Engine {
    name: "rocksdb-bundled",
    about: "RocksDB compiled in from its source; durability os, none, interval or sync",
    persistent: true,
    stores: true,
    options: &[
        common::MEMORY_BYTES,
        common::CACHE_BYTES,
        common::FILTER_BITS,
        option(
            "compression",
            common::COMPRESSION_DEFAULT,
            "of the tables of each level, the last for those below: none, snappy, lz4, \
                    zstd",
        ),
        common::DURABILITY,
        common::THREADS,
    ],
    open,
};

const VERSION: &str = "rocksdb 11.8.1 (rocksdb 0.25.0)";
const FAMILY: &str = "default";
/// One that is written to and two that wait.
const MEMORY_TABLES: i32 = 3;
const LEVELS: usize = 7;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let durability = common::durability(options)?;
    let common = Common::read(options)?;
    let mut compression = common::compression(
        options,
        &[
            ("none", DBCompressionType::None),
            ("snappy", DBCompressionType::Snappy),
            ("lz4", DBCompressionType::Lz4),
            ("zstd", DBCompressionType::Zstd),
        ],
    )?;
    let last = compression[compression.len() - 1];
    compression.resize(LEVELS, last);
    let data_dir = options.required_data_dir()?.clone();
    let settings = settings(common, &compression);
    // Opened by its name, so that there is a handle of it for reading many keys.
    let families = [(FAMILY, settings.clone())];
    let database = DB::open_cf_with_opts(&settings, &data_dir, families);
    let database = Arc::new(database.map_err(|error| convert(&data_dir, "open", error))?);
    let ticker = Ticker::of(durability, || {
        let database = Arc::clone(&database);
        Ok(move || database.flush_wal(true).map_err(RocksError::into_string))
    })?;
    let mut how = WriteOptions::default();
    how.disable_wal(durability == Durability::None);
    how.set_sync(durability == Durability::Sync);
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    let stripes = Stripes::new();
    Ok(Box::new(RocksStore { ticker, database, how, synced, durability, data_dir, stripes }))
}

fn settings(common: Common, compression: &[DBCompressionType]) -> Options {
    let mut blocks = BlockBasedOptions::default();
    if common.cache_bytes == 0 {
        blocks.disable_cache();
    } else {
        // 0: the cache finds out how large its entries are.
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(common.cache_bytes, 0));
    }
    if common.filter_bits > 0 {
        blocks.set_bloom_filter(common.filter_bits.into(), false);
    }
    let mut settings = Options::default();
    settings.create_if_missing(true);
    settings.set_write_buffer_size(common.memory_bytes);
    settings.set_max_write_buffer_number(MEMORY_TABLES);
    settings.set_block_based_table_factory(&blocks);
    settings.set_compression_per_level(compression);
    settings.set_max_background_jobs(common.threads.into());
    settings.set_keep_log_file_num(1);
    settings
}

// The thread that syncs ends before the database does.
struct RocksStore {
    ticker: Option<Ticker>,
    database: Arc<DB>,
    how: WriteOptions,
    synced: WriteOptions,
    durability: Durability,
    data_dir: PathBuf,
    stripes: Stripes,
}

impl RocksStore {
    /// # Errors
    /// Those of the thread that syncs, which come before every write.
    fn write(
        &self,
        action: &str,
        write: impl FnOnce() -> std::result::Result<(), RocksError>,
    ) -> Result<()> {
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        write().map_err(|error| self.convert(action, error))
    }

    fn convert(&self, action: &str, error: RocksError) -> Error {
        convert(&self.data_dir, action, error)
    }
}

impl Store for RocksStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // Every database has it.
        let Some(family) = self.database.cf_handle(FAMILY) else {
            return Err(Error::corruption(&self.data_dir, 0, "no default column family"));
        };
        let reads = ReadOptions::default();
        Ok(Box::new(RocksSession { store: self, family, reads, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        // Without a log nothing can be synced.
        StoreInfo::new(VERSION, self.durability)
            .with_synced_puts(self.durability != Durability::None)
            .with_blind_removals()
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(RocksSnapshot { store: self, moment: self.database.snapshot() })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let properties: [(&str, &PropName); 7] = [
            ("memory_bytes", CUR_SIZE_ALL_MEM_TABLES),
            ("cache_used_bytes", BLOCK_CACHE_USAGE),
            ("tables_bytes", TOTAL_SST_FILES_SIZE),
            ("compaction_debt_bytes", ESTIMATE_PENDING_COMPACTION_BYTES),
            ("compactions_running", NUM_RUNNING_COMPACTIONS),
            ("flushes_running", NUM_RUNNING_FLUSHES),
            ("keys", ESTIMATE_NUM_KEYS),
        ];
        for (name, property) in properties {
            if let Ok(Some(value)) = self.database.property_int_value(property) {
                visit(name, value as f64);
            }
        }
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.ticker = None;
        if self.durability == Durability::None {
            self.database.flush().map_err(|error| self.convert("close", error))?;
        }
        Ok(())
    }
}

struct RocksSession<'a> {
    store: &'a RocksStore,
    family: &'a ColumnFamily,
    reads: ReadOptions,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl Session for RocksSession<'_> {
    fn compact(&mut self) -> Result<bool> {
        self.store.database.compact_range::<&[u8], &[u8]>(None, None);
        Ok(true)
    }

    fn property(&mut self, name: &str) -> Option<String> {
        // A name that the library refuses is no property.
        self.store.database.property_value(&format!("rocksdb.{name}")).ok().flatten()
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.store.database.get_pinned_opt(key, &self.reads);
        let found = found.map_err(|error| self.store.convert("get", error))?;
        Ok(found.map(|value| visit(&value)).is_some())
    }

    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        let keys = keys.iter().copied();
        let all =
            self.store.database.batched_multi_get_cf_opt(self.family, keys, false, &self.reads);
        for (index, found) in all.into_iter().enumerate() {
            let found = found.map_err(|error| self.store.convert("multi_get", error))?;
            visit(index, found.as_deref());
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let _shared = self.store.stripes.share(key);
        self.store.write("put", || self.store.database.put_opt(key, value, &self.store.how))
    }

    fn put_with(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: keyrack_store::WriteOptions,
    ) -> Result<()> {
        if options.sync && self.store.durability == Durability::None {
            return Err(Error::usage("with durability none there is no log to sync"));
        }
        let how = if options.sync { &self.store.synced } else { &self.store.how };
        let _shared = self.store.stripes.share(key);
        self.store.write("put", || self.store.database.put_opt(key, value, how))
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let _shared = self.store.stripes.share(key);
        self.store.write("remove", || self.store.database.delete_opt(key, &self.store.how))?;
        Ok(Removed::Unknown)
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let store = self.store;
        let _own = store.stripes.own(key);
        let current = store.database.get_pinned_opt(key, &self.reads);
        let current = current.map_err(|error| store.convert("update", error))?;
        self.buffer.clear();
        let decision = decide(current.as_deref(), &mut self.buffer);
        drop(current);
        match decision {
            Update::Keep => Ok(()),
            Update::Put => {
                let put = || store.database.put_opt(key, &self.buffer, &store.how);
                store.write("update", put)
            }
            Update::Remove => store.write("update", || store.database.delete_opt(key, &store.how)),
        }
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let iterator = self.store.database.raw_iterator_opt(bounds(low, high));
        scan(iterator, low, high, false, visit).map_err(|error| self.store.convert("scan", error))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        let iterator = self.store.database.raw_iterator_opt(bounds(low, high));
        scan(iterator, low, high, true, visit)
            .map_err(|error| self.store.convert("scan_rev", error))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let mut writes = WriteBatch::default();
        let keys = batch.iter().map(BatchOp::key);
        let _shared = self.store.stripes.share_all(keys);
        for op in batch.iter() {
            match op {
                BatchOp::Put(key, value) => writes.put(key, value),
                BatchOp::Remove(key) => writes.delete(key),
            }
        }
        self.store.write("apply", || self.store.database.write_opt(writes, &self.store.how))
    }
}

struct RocksSnapshot<'a> {
    store: &'a RocksStore,
    moment: SnapshotWithThreadMode<'a, DB>,
}

impl Snapshot for RocksSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.moment.get_pinned(key);
        let found = found.map_err(|error| self.store.convert("get", error))?;
        Ok(found.map(|value| visit(&value)).is_some())
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let iterator = self.moment.raw_iterator_opt(bounds(low, high));
        scan(iterator, low, high, false, visit).map_err(|error| self.store.convert("scan", error))
    }
}

/// With the bounds the iterator skips tables and ends by itself.
fn bounds(low: &[u8], high: Option<&[u8]>) -> ReadOptions {
    let mut reads = ReadOptions::default();
    reads.set_iterate_lower_bound(low);
    if let Some(high) = high {
        reads.set_iterate_upper_bound(high);
    }
    reads
}

/// The rows of an iterator with these bounds.
fn scan(
    mut iterator: DBRawIteratorWithThreadMode<'_, impl DBAccess>,
    low: &[u8],
    high: Option<&[u8]>,
    reverse: bool,
    visit: &mut RowVisitor<'_>,
) -> std::result::Result<u64, RocksError> {
    if high.is_some_and(|high| high <= low) {
        return Ok(0);
    }
    if reverse {
        iterator.seek_to_last();
    } else {
        iterator.seek(low);
    }
    let mut visited = 0;
    while let Some((key, value)) = iterator.item() {
        visited += 1;
        if visit(key, value).is_break() {
            return Ok(visited);
        }
        if reverse {
            iterator.prev();
        } else {
            iterator.next();
        }
    }
    iterator.status()?;
    Ok(visited)
}

/// Sorts RocksDB's errors into the kinds of the contract.
fn convert(data_dir: &Path, action: &str, error: RocksError) -> Error {
    let place = format!("rocksdb cannot {action} in '{}'", data_dir.display());
    let text = error.as_ref().to_owned();
    match error.kind() {
        RocksKind::Corruption => Error::corruption(data_dir, 0, text),
        // The lock of a database that is open already is told as an input-output error, too.
        RocksKind::IOError if text.contains("lock") => Error::usage(format!("{place}: {text}")),
        RocksKind::IOError => {
            let is_full = text.contains("No space left on device");
            let kind = if is_full { ErrorKind::StorageFull } else { ErrorKind::Other };
            Error::io(place, IoError::new(kind, text))
        }
        RocksKind::InvalidArgument | RocksKind::NotSupported => {
            Error::usage(format!("{place}: {text}"))
        }
        RocksKind::ShutdownInProgress => Error::Closed,
        // What nobody has a name for is no mistake of the caller.
        _ => Error::io(place, IoError::other(text)),
    }
}

#[cfg(test)]
mod tests;
