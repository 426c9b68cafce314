//! `fjall`: a log-structured merge tree in Rust, with a journal, tables in levels and threads that
//! merge them.
//!
//! One keyspace in the data directory. A write of the contract is one record of the journal.
//!
//! | contract | here |
//! |---|---|
//! | durability `os` (the default) | the journal is handed to the kernel before the reply |
//! | durability `none` | the journal stays in a buffer of 8 KiB; there is no doing without it |
//! | durability `interval:MS` | `os`, and a thread of ours that syncs the journal |
//! | durability `sync`, synced put | the journal is synced (`fdatasync`) before the reply |
//! | `remove` | writes a tombstone and does not look: `Removed::Unknown` |
//! | `update` | reads and writes under a lock of ours that writers of the key respect |
//! | `apply` | one record of the journal; one moment to scans, but `get` may see half of it |
//! | scans | one point in time |
//! | snapshots | a sequence number; costs what it keeps from being dropped |
//! | `close` | syncs the journal |
//!
//! The options of [`crate::common`] mean here: the size of the memory table, of the block cache,
//! bits of the filters of all levels, LZ4 or nothing, worker threads. `filter_bits`
//! departs from what fjall does by itself in level 0, where it has filters of twice the size.
//!
//! Keys have at most 65,535 bytes; longer ones are refused. An empty key, which fjall does not
//! have, is stored under another name (see [`crate::escape`]). Files are opened by fjall itself, so
//! fault injection does not reach it. It does not tell the place of damage: errors name the
//! directory and offset 0. An `update` closure that writes to the same store waits for itself.

use crate::common::{self, Common};
use crate::contract::{Decide, RowVisitor, option};
use crate::escape::{escape, unescape};
use crate::stripes::Stripes;
use crate::ticker::Ticker;
use ::fjall::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use ::fjall::{
    CompressionType, Database, Error as FjallError, Keyspace, KeyspaceCreateOptions, LsmError,
    PersistMode, Readable as _, Result as FjallResult, Snapshot as Moment,
};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Snapshot,
    Store, StoreInfo, Update, WriteOptions,
};
use std::borrow::Cow;
use std::ops::Bound;
use std::path::{Path, PathBuf};

pub(crate) const ENGINE: Engine = Engine {
    name: "fjall",
    about: "a log-structured merge tree in Rust; durability os, none, interval or sync",
    persistent: true,
    stores: true,
    options: &[
        common::MEMORY_BYTES,
        common::CACHE_BYTES,
        common::FILTER_BITS,
        option(
            "compression",
            common::COMPRESSION_DEFAULT,
            "of the tables of each level, the last for those below: none or lz4",
        ),
        common::DURABILITY,
        common::THREADS,
    ],
    open,
};

const VERSION: &str = "fjall 3.1.13";
const KEYSPACE: &str = "keyrack";
const KEY_BYTES_MAX: usize = u16::MAX as usize;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let durability = common::durability(options)?;
    let is_manual = durability == Durability::None;
    let common = Common::read(options)?;
    let compression = common::compression(
        options,
        &[("none", CompressionType::None), ("lz4", CompressionType::Lz4)],
    )?;
    let data_dir = options.required_data_dir()?.clone();
    let filters = match common.filter_bits {
        0 => FilterPolicy::disabled(),
        bits => FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(
            f32::from(bits),
        ))),
    };
    let keyspace_options = || {
        KeyspaceCreateOptions::default()
            .manual_journal_persist(is_manual)
            .max_memtable_size(common.memory_bytes as u64)
            .filter_policy(filters.clone())
            .data_block_compression_policy(CompressionPolicy::new(compression.clone()))
    };
    let opened = || -> FjallResult<(Database, Keyspace)> {
        let database = Database::builder(&data_dir)
            .cache_size(common.cache_bytes as u64)
            .worker_threads(common.threads.into())
            .manual_journal_persist(is_manual)
            .open()?;
        let keyspace = database.keyspace(KEYSPACE, keyspace_options)?;
        Ok((database, keyspace))
    };
    let (database, keyspace) = opened().map_err(|error| convert(&data_dir, "open", error))?;
    let ticker = Ticker::of(durability, || {
        let database = database.clone();
        Ok(move || database.persist(PersistMode::SyncData).map_err(|error| error.to_string()))
    })?;
    let stripes = Stripes::new();
    Ok(Box::new(FjallStore { ticker, keyspace, database, durability, data_dir, stripes }))
}

// The thread that syncs ends before the database does.
struct FjallStore {
    ticker: Option<Ticker>,
    keyspace: Keyspace,
    database: Database,
    durability: Durability,
    data_dir: PathBuf,
    stripes: Stripes,
}

impl FjallStore {
    /// Runs `write` and then what the durability asks for.
    fn write(&self, action: &str, write: impl FnOnce() -> FjallResult<()>) -> Result<()> {
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        let durable = || {
            write()?;
            match self.durability {
                Durability::Sync => self.database.persist(PersistMode::SyncData),
                Durability::None | Durability::Os | Durability::Interval(_) => Ok(()),
            }
        };
        durable().map_err(|error| self.convert(action, error))
    }

    fn sync(&self) -> Result<()> {
        let synced = self.database.persist(PersistMode::SyncData);
        synced.map_err(|error| self.convert("sync", error))
    }

    fn read(&self, key: &[u8]) -> Result<Option<::fjall::Slice>> {
        self.keyspace.get(key).map_err(|error| self.convert("get", error))
    }

    fn convert(&self, action: &str, error: FjallError) -> Error {
        convert(&self.data_dir, action, error)
    }
}

impl Store for FjallStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession { store: self, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(VERSION, self.durability).with_synced_puts(true).with_blind_removals()
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(FjallSnapshot { store: self, moment: self.database.snapshot() })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        visit("memory_bytes", self.database.write_buffer_size() as f64);
        visit("cache_used_bytes", self.database.cache_size() as f64);
        visit("tables", self.keyspace.table_count() as f64);
        visit("level0_tables", self.keyspace.l0_table_count() as f64);
        visit("tables_bytes", self.keyspace.disk_space() as f64);
        visit("compactions_running", self.database.active_compactions() as f64);
        visit("compactions", self.database.compactions_completed() as f64);
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(|error| self.convert("close", error))
    }
}

struct FjallSession<'a> {
    store: &'a FjallStore,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl Session for FjallSession<'_> {
    fn compact(&mut self) -> Result<bool> {
        let compacted = self.store.keyspace.major_compact();
        compacted.map(|()| true).map_err(|error| self.store.convert("compact", error))
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.store.read(&written(key)?)?;
        Ok(lend(found.as_deref(), visit))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = written(key)?;
        check_value(value)?;
        let _shared = self.store.stripes.share(&key);
        self.store.write("put", || self.store.keyspace.insert(&*key, value))
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        self.put(key, value)?;
        if options.sync { self.store.sync() } else { Ok(()) }
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let key = written(key)?;
        let _shared = self.store.stripes.share(&key);
        self.store.write("remove", || self.store.keyspace.remove(&*key))?;
        Ok(Removed::Unknown)
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let key = written(key)?;
        let _own = self.store.stripes.own(&key);
        let current = self.store.read(&key)?;
        self.buffer.clear();
        match decide(current.as_deref(), &mut self.buffer) {
            Update::Keep => Ok(()),
            Update::Put => {
                check_value(&self.buffer)?;
                let insert = || self.store.keyspace.insert(&*key, self.buffer.as_slice());
                self.store.write("update", insert)
            }
            Update::Remove => self.store.write("update", || self.store.keyspace.remove(&*key)),
        }
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        scan(self.store, &self.store.database.snapshot(), low, high, false, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        scan(self.store, &self.store.database.snapshot(), low, high, true, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let mut writes = self.store.database.batch();
        let mut keys = Vec::with_capacity(batch.len());
        for op in batch.iter() {
            match op {
                BatchOp::Put(key, value) => {
                    let key = written(key)?;
                    check_value(value)?;
                    writes.insert(&self.store.keyspace, &*key, value);
                    keys.push(key);
                }
                BatchOp::Remove(key) => {
                    let key = written(key)?;
                    writes.remove(&self.store.keyspace, &*key);
                    keys.push(key);
                }
            }
        }
        let _shared = self.store.stripes.share_all(keys.iter().map(|key| &**key));
        self.store.write("apply", || writes.commit())
    }
}

struct FjallSnapshot<'a> {
    store: &'a FjallStore,
    moment: Moment,
}

impl Snapshot for FjallSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.moment.get(&self.store.keyspace, written(key)?);
        let found = found.map_err(|error| self.store.convert("get", error))?;
        Ok(lend(found.as_deref(), visit))
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        scan(self.store, &self.moment, low, high, false, visit)
    }
}

fn lend(found: Option<&[u8]>, visit: &mut dyn FnMut(&[u8])) -> bool {
    found.map(visit).is_some()
}

/// The key as fjall gets it.
fn written(key: &[u8]) -> Result<Cow<'_, [u8]>> {
    let written = escape(key);
    if written.len() <= KEY_BYTES_MAX {
        return Ok(written);
    }
    let bytes = key.len();
    Err(Error::usage(format!("a key of {bytes} bytes: fjall has keys of up to {KEY_BYTES_MAX}")))
}

fn check_value(value: &[u8]) -> Result<()> {
    match u32::try_from(value.len()) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::usage(format!("a value of {} bytes: too long for fjall", value.len())))
        }
    }
}

fn scan(
    store: &FjallStore,
    moment: &Moment,
    low: &[u8],
    high: Option<&[u8]>,
    reverse: bool,
    visit: &mut RowVisitor<'_>,
) -> Result<u64> {
    if high.is_some_and(|high| high <= low) {
        return Ok(0);
    }
    let (low, high) = (escape(low), high.map(escape));
    // No key is longer than the limit, so a bound that is has the same keys on either side of it as
    // its longest beginning.
    let low = match low.get(..KEY_BYTES_MAX) {
        Some(beginning) if low.len() > KEY_BYTES_MAX => Bound::Excluded(beginning),
        _ => Bound::Included(&*low),
    };
    let high = match &high {
        None => Bound::Unbounded,
        Some(high) => match high.get(..KEY_BYTES_MAX) {
            Some(beginning) if high.len() > KEY_BYTES_MAX => Bound::Included(beginning),
            _ => Bound::Excluded(&**high),
        },
    };
    if let (Bound::Excluded(low), Bound::Included(high)) = (low, high)
        && low >= high
    {
        return Ok(0);
    }
    let mut rows = moment.range::<&[u8], _>(&store.keyspace, (low, high));
    let mut visited = 0;
    while let Some(row) = if reverse { rows.next_back() } else { rows.next() } {
        let (key, value) = row.into_inner().map_err(|error| store.convert("scan", error))?;
        visited += 1;
        if visit(unescape(&key), &value).is_break() {
            break;
        }
    }
    Ok(visited)
}

/// Sorts fjall's errors into the kinds of the contract.
fn convert(data_dir: &Path, action: &str, error: FjallError) -> Error {
    let place = || format!("fjall cannot {action} in '{}'", data_dir.display());
    match error {
        FjallError::Io(source) | FjallError::Storage(LsmError::Io(source)) => {
            Error::io(place(), source)
        }
        FjallError::Poisoned => Error::poisoned(format!("{}: {error}", place())),
        FjallError::Storage(_)
        | FjallError::JournalRecovery(_)
        | FjallError::InvalidVersion(_)
        | FjallError::Decompress(_)
        | FjallError::InvalidTrailer
        | FjallError::InvalidTag(_)
        | FjallError::Unrecoverable => Error::corruption(data_dir, 0, error.to_string()),
        FjallError::Locked | FjallError::KeyspaceDeleted => {
            Error::usage(format!("{}: {error}", place()))
        }
        // What nobody has a name for is no mistake of the caller.
        error => Error::io(place(), std::io::Error::other(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
