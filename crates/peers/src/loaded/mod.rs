//! `rocksdb` and `leveldb`: the C++ log-structured merge trees, through the C interface of a shared
//! library that is loaded when a store is opened. Nothing of them is compiled in.
//!
//! | option | meaning |
//! |---|---|
//! | `lib` | the library; empty looks for the highest version that the system has |
//!
//! The default column family of one database in the data directory. A write of the contract is one
//! record of the write-ahead log.
//!
//! | contract | `rocksdb` | `leveldb` |
//! |---|---|---|
//! | durability `os` (the default) | the log is written before the reply | the same |
//! | durability `none` | no log: what was not written out by `close` is lost | as `os`: there is no doing without |
//! | durability `interval:MS` | `os`, and a thread of ours that syncs the log | the same, by an empty write that is synced |
//! | durability `sync`, synced put | the log is synced before the reply | the same |
//! | `remove` | writes a tombstone and does not look: `Removed::Unknown` | the same |
//! | `update` | reads and writes under a lock of ours that writers of the key respect | the same |
//! | `apply` | one record of the log; one moment to every reader | the same |
//! | scans | one point in time | the same |
//! | `multi_get` | one lookup after the other | the same |
//! | snapshots | a sequence number; costs what it keeps from being dropped | the same |
//! | `get` | lends the value where it is | allocates a copy, as the C interface has it |
//!
//! What the options of [`crate::common`] mean here is in [`rocks`] and [`level`].
//!
//! **Caveat.** A library that was built with assertions, as Debian builds these, checks itself in
//! ways that others pay nothing for. It is known by what it imports; every report says so.
//!
//! Files are opened by the library, so fault injection does not reach it. It does not tell the
//! place of damage apart from its text: errors name the directory and offset 0. An `update` closure
//! that writes to the same store waits for itself.

mod functions;
mod level;
mod library;
mod objects;
mod rocks;
#[cfg(test)]
mod tests;

use self::library::{Loaded, Own};
use self::objects::{Database, Moment, ReadOptions, Rows, WriteBatch, WriteOptions};
use crate::contract::{Decide, RowVisitor, option};
use crate::stripes::Stripes;
use crate::ticker::Ticker;
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, EngineOption, Error, OpenOptions, Removed, Result, Session,
    Snapshot, Store, StoreInfo, Update,
};
use std::ffi::CString;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ROCKSDB: Engine = rocks::ENGINE;
pub(crate) const LEVELDB: Engine = level::ENGINE;

/// The row of `lib`.
const LIB: EngineOption = option(
    "lib",
    "",
    "path of the shared library; by itself the highest version that the system has",
);

/// Opens a database whose options have been set.
fn open(
    options: &OpenOptions,
    durability: Durability,
    settings: objects::OpenOptions,
) -> Result<Box<dyn Store>> {
    let data_dir = options.required_data_dir()?.clone();
    let Some(path) = data_dir.to_str() else {
        let place = data_dir.display();
        return Err(Error::usage(format!("'{place}' is not UTF-8, which the library asks for")));
    };
    let database = Database::open(settings, path);
    let database = Arc::new(database.map_err(|text| convert(&data_dir, "open", &text))?);
    let loaded = database.loaded;
    let ticker = Ticker::of(durability, || {
        let database = Arc::clone(&database);
        Ok(move || sync(&database))
    })?;
    let stripes = Stripes::new();
    Ok(Box::new(LoadedStore { ticker, database, loaded, durability, data_dir, stripes }))
}

/// Syncs the log. LevelDB has no call for it, but a write that is synced syncs all before it.
fn sync(database: &Database) -> std::result::Result<(), String> {
    match &database.loaded.own {
        Own::Rocks(rocks) => database.sync_log(rocks),
        Own::Level(_) => {
            let loaded = database.loaded;
            database.write(&WriteOptions::new(loaded, true, true), &WriteBatch::new(loaded))
        }
    }
}

// The thread that syncs ends before the database does.
struct LoadedStore {
    ticker: Option<Ticker>,
    database: Arc<Database>,
    loaded: &'static Loaded,
    durability: Durability,
    data_dir: PathBuf,
    stripes: Stripes,
}

impl LoadedStore {
    fn convert(&self, action: &str, text: &str) -> Error {
        convert(&self.data_dir, action, text)
    }

    /// How writes are made where nothing else is said.
    fn how(&self) -> WriteOptions {
        let has_log = self.durability != Durability::None;
        WriteOptions::new(self.loaded, self.durability == Durability::Sync, has_log)
    }
}

impl Store for LoadedStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LoadedSession {
            store: self,
            how: self.how(),
            synced: WriteOptions::new(self.loaded, true, true),
            reads: ReadOptions::new(self.loaded),
            batch: WriteBatch::new(self.loaded),
            buffer: Vec::new(),
        }))
    }

    fn info(&self) -> StoreInfo {
        let version = self.loaded.version.clone();
        let caveats = if self.loaded.has_assertions {
            vec![format!(
                "{version} was built with assertions: it checks itself in ways that a release \
                 build does not, and is slower for it"
            )]
        } else {
            Vec::new()
        };
        // Without a log nothing can be synced.
        let info = StoreInfo::new(version, self.durability)
            .with_synced_puts(self.durability != Durability::None)
            .with_blind_removals();
        StoreInfo { caveats, ..info }
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(LoadedSnapshot { store: self, moment: Moment::now(&self.database) })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        match &self.loaded.own {
            Own::Rocks(own) => rocks::stats(&self.database, own, visit),
            Own::Level(_) => level::stats(&self.database, visit),
        }
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.ticker = None;
        match &self.loaded.own {
            Own::Rocks(rocks) if self.durability == Durability::None => {
                self.database.flush(rocks).map_err(|text| self.convert("close", &text))
            }
            _ => Ok(()),
        }
    }
}

struct LoadedSession<'a> {
    store: &'a LoadedStore,
    how: WriteOptions,
    synced: WriteOptions,
    reads: ReadOptions,
    batch: WriteBatch,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl LoadedSession<'_> {
    /// Writes what `fill` puts into the batch of the session. A batch that stays costs less than
    /// one for each write, which is what the calls for single keys make.
    ///
    /// # Errors
    /// Those of the thread that syncs, which come before every write.
    fn write(&mut self, action: &str, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        self.batch.clear();
        fill(&mut self.batch);
        self.write_batch(action, &self.how)
    }

    fn write_batch(&self, action: &str, how: &WriteOptions) -> Result<()> {
        if let Some(ticker) = &self.store.ticker {
            ticker.check()?;
        }
        let written = self.store.database.write(how, &self.batch);
        written.map_err(|text| self.store.convert(action, &text))
    }
}

impl Session for LoadedSession<'_> {
    fn compact(&mut self) -> Result<bool> {
        self.store.database.compact();
        Ok(true)
    }

    fn property(&mut self, name: &str) -> Option<String> {
        let name = format!("{}.{name}", self.store.loaded.kind.name());
        self.store.database.property(&CString::new(name).ok()?)
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.store.database.get(&self.reads, key, visit);
        found.map_err(|text| self.store.convert("get", &text))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let store = self.store;
        let _shared = store.stripes.share(key);
        self.write("put", |batch| batch.put(key, value))
    }

    fn put_with(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: keyrack_store::WriteOptions,
    ) -> Result<()> {
        if !options.sync {
            return self.put(key, value);
        }
        if self.store.durability == Durability::None {
            return Err(Error::usage("with durability none there is no log to sync"));
        }
        let store = self.store;
        let _shared = store.stripes.share(key);
        self.batch.clear();
        self.batch.put(key, value);
        self.write_batch("put", &self.synced)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let store = self.store;
        let _shared = store.stripes.share(key);
        self.write("remove", |batch| batch.delete(key))?;
        Ok(Removed::Unknown)
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let store = self.store;
        let _own = store.stripes.own(key);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut decision = None;
        let found = store.database.get(&self.reads, key, &mut |value| {
            decision = Some(decide(Some(value), &mut buffer));
        });
        found.map_err(|text| store.convert("update", &text))?;
        let decision = decision.unwrap_or_else(|| decide(None, &mut buffer));
        let written = match decision {
            Update::Keep => Ok(()),
            Update::Put => self.write("update", |batch| batch.put(key, &buffer)),
            Update::Remove => self.write("update", |batch| batch.delete(key)),
        };
        self.buffer = buffer;
        written
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let rows = Rows::between(&self.store.database, low, high);
        scan(rows, low, high, false, visit).map_err(|text| self.store.convert("scan", &text))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        let rows = Rows::between(&self.store.database, low, high);
        scan(rows, low, high, true, visit).map_err(|text| self.store.convert("scan_rev", &text))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let keys = batch.iter().map(BatchOp::key);
        let store = self.store;
        let _shared = store.stripes.share_all(keys);
        self.write("apply", |own| {
            for op in batch.iter() {
                match op {
                    BatchOp::Put(key, value) => own.put(key, value),
                    BatchOp::Remove(key) => own.delete(key),
                }
            }
        })
    }
}

struct LoadedSnapshot<'a> {
    store: &'a LoadedStore,
    moment: Moment<'a>,
}

impl Snapshot for LoadedSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.store.database.get(&self.moment.how, key, visit);
        found.map_err(|text| self.store.convert("get", &text))
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let rows = Rows::at(&self.moment);
        scan(rows, low, high, false, visit).map_err(|text| self.store.convert("scan", &text))
    }
}

/// The rows from `low` up to below `high`, or from there down.
fn scan(
    mut rows: Rows<'_>,
    low: &[u8],
    high: Option<&[u8]>,
    reverse: bool,
    visit: &mut RowVisitor<'_>,
) -> std::result::Result<u64, String> {
    if high.is_some_and(|high| high <= low) {
        return Ok(0);
    }
    match high {
        _ if !reverse => rows.seek(low),
        None => rows.seek_to_last(),
        Some(high) => {
            rows.seek(high);
            if rows.is_at_row() {
                rows.back();
            } else {
                rows.status()?;
                // Beyond the last row there is none to step back from.
                rows.seek_to_last();
            }
        }
    }
    let mut visited = 0;
    while rows.is_at_row() {
        let (key, value) = rows.row();
        let is_over = if reverse { key < low } else { high.is_some_and(|high| key >= high) };
        if is_over {
            return Ok(visited);
        }
        visited += 1;
        if visit(key, value).is_break() {
            return Ok(visited);
        }
        if reverse {
            rows.back();
        } else {
            rows.forth();
        }
    }
    rows.status().map(|()| visited)
}

/// Sorts errors, which are texts, into the kinds of the contract.
fn convert(data_dir: &Path, action: &str, text: &str) -> Error {
    let place = format!("cannot {action} in '{}'", data_dir.display());
    if text.starts_with("Corruption") {
        return Error::corruption(data_dir, 0, text);
    }
    // The lock of a database that is open already is told as an input-output error, too.
    let is_refused = ["Invalid argument", "Not implemented"].iter().any(|s| text.starts_with(s));
    let is_locked = text.starts_with("IO error") && text.contains("lock");
    if !is_refused && !is_locked {
        let is_full = text.contains("No space left on device");
        let kind = if is_full { ErrorKind::StorageFull } else { ErrorKind::Other };
        return Error::io(place, IoError::new(kind, text.to_owned()));
    }
    Error::usage(format!("{place}: {text}"))
}
