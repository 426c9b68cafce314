//! `sqlite`: a B-tree in one file with a write-ahead log, through the crate `rusqlite`, which
//! compiles SQLite from its source.
//!
//! One table without row ids in `DATA_DIR/sqlite.db`, so that a row is in the tree of its key.
//! Every session is a connection, for SQLite lets one thread at a time into a connection. Every
//! write of the contract is one write transaction, a batch too; every read is one read transaction.
//! Readers wait for nobody; writers wait for each other, at a lock of ours: SQLite's own way to
//! wait is to sleep and to try again.
//!
//! | contract | here, in SQLite's words |
//! |---|---|
//! | durability `sync` (the default) | `synchronous=FULL`: the log is synced before the reply |
//! | durability `os` | `synchronous=NORMAL`: the log is with the kernel; synced before a checkpoint |
//! | durability `interval:MS` | `os`, and a thread of ours that syncs the log |
//! | durability `none` | `synchronous=OFF`: nothing is synced before the end |
//! | synced put | by a second connection with `FULL`; refused with `none`, whose checkpoints are not synced |
//! | `remove` of an absent key, `update` that keeps | nothing is written, nothing synced |
//! | `close` | a checkpoint, and one sync |
//!
//! | option | default | meaning |
//! |---|---|---|
//! | `cache_bytes` | `64M` | pages that each session keeps; `cache_size`, 2M in SQLite itself |
//! | `page_bytes` | `4K` | of a new file: 512 to 64K, a power of two; `page_size` |
//! | `map_bytes` | `0` | bytes of the file that are read through a map; `mmap_size` |
//! | `checkpoint_pages` | `1000` | pages of log after which a writer checkpoints, 0 never; `wal_autocheckpoint` |
//!
//! A cache belongs to one connection, so that eight threads have eight of them, each with the
//! pages that its own thread reads.
//!
//! Files are opened by SQLite itself, so the file system of the options serves the thread that
//! syncs and the statistics, and fault injection does not reach the engine. SQLite has no checksums
//! and does not tell the place of what it finds damaged; errors give offset 0. An `update` closure
//! runs inside the write transaction: one that writes to the same store waits for itself. Keys and
//! values have at most 1,000,000,000 bytes.

use crate::contract::{Decide, RowVisitor, ValueVisitor, option};
use crate::ticker::Ticker;
use ::rusqlite::types::ValueRef;
use ::rusqlite::{
    Connection, Error as RusqliteError, ErrorCode, OpenFlags, Row, Transaction,
    TransactionBehavior, ffi,
};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Snapshot,
    Store, StoreInfo, Update, WriteOptions,
};
use keyrack_vfs::{File, Fs, OpenOptions as FileOptions};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

pub(crate) const ENGINE: Engine = Engine {
    name: "sqlite",
    about: "SQLite: a B-tree in one file with a log; durability sync, os, interval or none",
    persistent: true,
    stores: true,
    options: &[
        option("cache_bytes", "64M", "bytes of pages that each session keeps in memory"),
        option("page_bytes", "4K", "bytes of a page of a new file, a power of two from 512 to 64K"),
        option("map_bytes", "0", "bytes of the file that are read through a memory map"),
        option(
            "checkpoint_pages",
            "1000",
            "pages of log after which a writer moves them into the file; 0 for never",
        ),
    ],
    open,
};

const RUSQLITE_VERSION: &str = "rusqlite 0.41.1";
const FILE_NAME: &str = "sqlite.db";
const LOG_NAME: &str = "sqlite.db-wal";
const CACHE_BYTES_DEFAULT: u64 = 64 << 20;
const PAGE_BYTES_DEFAULT: u64 = 4 << 10;
const CHECKPOINT_PAGES_DEFAULT: u64 = 1000;
/// What SQLite counts in 32 bits with a sign.
const COUNT_MAX: u64 = i32::MAX as u64;
/// How long a connection waits for other processes, which have no part in our lock.
const BUSY_MAX: Duration = Duration::from_secs(60);

const CREATE: &str = "CREATE TABLE IF NOT EXISTS rows \
                      (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL) WITHOUT ROWID";
const GET: &str = "SELECT value FROM rows WHERE key = ?1";
const PUT: &str = "REPLACE INTO rows (key, value) VALUES (?1, ?2)";
const REMOVE: &str = "DELETE FROM rows WHERE key = ?1";
const SCAN: &str = "SELECT key, value FROM rows WHERE key >= ?1 AND key < ?2 ORDER BY key";
const SCAN_OPEN: &str = "SELECT key, value FROM rows WHERE key >= ?1 ORDER BY key";
const SCAN_REV: &str = "SELECT key, value FROM rows WHERE key >= ?1 AND key < ?2 ORDER BY key DESC";
const SCAN_REV_OPEN: &str = "SELECT key, value FROM rows WHERE key >= ?1 ORDER BY key DESC";

type SqlResult<T> = std::result::Result<T, RusqliteError>;

/// The options that a connection is made with.
#[derive(Clone, Copy, Debug)]
struct Settings {
    cache_kib: u64,
    page_bytes: u64,
    map_bytes: u64,
    checkpoint_pages: u64,
    durability: Durability,
}

impl Settings {
    fn read(options: &OpenOptions) -> Result<Self> {
        let at_most = |key: &str, value: u64, most: u64| match value {
            value if value <= most => Ok(value),
            value => Err(Error::usage(format!("{key}: {value} is more than {most}"))),
        };
        let cache_bytes = options.size("cache_bytes", CACHE_BYTES_DEFAULT)?;
        let cache_kib = at_most("cache_bytes", cache_bytes, COUNT_MAX << 10)? >> 10;
        let page_bytes = options.size("page_bytes", PAGE_BYTES_DEFAULT)?;
        if !page_bytes.is_power_of_two() || !(512..=64 << 10).contains(&page_bytes) {
            return Err(Error::usage(format!(
                "page_bytes: {page_bytes} is not a power of two from 512 to 64K"
            )));
        }
        let map_bytes = at_most("map_bytes", options.size("map_bytes", 0)?, COUNT_MAX << 10)?;
        let pages = options.size("checkpoint_pages", CHECKPOINT_PAGES_DEFAULT)?;
        let checkpoint_pages = at_most("checkpoint_pages", pages, COUNT_MAX)?;
        let durability = options.durability.unwrap_or(Durability::Sync);
        Ok(Settings { cache_kib, page_bytes, map_bytes, checkpoint_pages, durability })
    }

    /// A connection whose commits are as durable as asked.
    fn connect(&self, path: &Path, durability: Durability) -> SqlResult<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_MAX)?;
        let synchronous = match durability {
            Durability::None => "OFF",
            Durability::Os | Durability::Interval(_) => "NORMAL",
            Durability::Sync => "FULL",
        };
        // A negative size of the cache is in KiB and not in pages.
        connection.execute_batch(&format!(
            "PRAGMA page_size={}; PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; \
             PRAGMA cache_size=-{}; PRAGMA mmap_size={}; PRAGMA wal_autocheckpoint={}",
            self.page_bytes, self.cache_kib, self.map_bytes, self.checkpoint_pages,
        ))?;
        Ok(connection)
    }
}

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let settings = Settings::read(options)?;
    let data_dir = options.required_data_dir()?.clone();
    let path = data_dir.join(FILE_NAME);
    let create = || -> SqlResult<(Connection, String)> {
        let connection = settings.connect(&path, settings.durability)?;
        let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        connection.execute_batch(CREATE)?;
        Ok((connection, mode))
    };
    let (connection, mode) = create().map_err(|error| convert(&path, "open", error))?;
    if mode != "wal" {
        let place = data_dir.display();
        return Err(Error::usage(format!(
            "'{place}' is on a file system that cannot hold SQLite's log, which needs shared memory"
        )));
    }
    let fs = Arc::clone(&options.fs);
    let ticker = Ticker::of(settings.durability, || {
        let log = open_file(fs.as_ref(), &data_dir.join(LOG_NAME))?;
        fs.sync_dir(&data_dir).map_err(|error| from_fs("cannot sync", error))?;
        Ok(move || log.sync_data().map_err(|error| error.to_string()))
    })?;
    let keeper = Mutex::new(connection);
    let (writers, failure) = (Mutex::new(()), OnceLock::new());
    Ok(Box::new(SqliteStore { ticker, keeper, writers, failure, settings, data_dir, path, fs }))
}

fn open_file(fs: &dyn Fs, path: &Path) -> Result<Arc<dyn File>> {
    fs.open(path, &FileOptions::new().read(true)).map_err(|error| from_fs("cannot open", error))
}

/// The file system's error names the path itself.
fn from_fs(action: &str, error: keyrack_vfs::Error) -> Error {
    Error::io(format!("sqlite {action} a file"), IoError::other(error))
}

// The thread that syncs ends before the log goes.
struct SqliteStore {
    ticker: Option<Ticker>,
    /// Stays open as long as the store: the last connection that closes removes the log.
    keeper: Mutex<Connection>,
    /// Whoever writes holds it.
    writers: Mutex<()>,
    /// The first sync that failed.
    failure: OnceLock<String>,
    settings: Settings,
    data_dir: PathBuf,
    path: PathBuf,
    fs: Arc<dyn Fs>,
}

impl SqliteStore {
    fn connect(&self, action: &str, durability: Durability) -> Result<Connection> {
        let connected = self.settings.connect(&self.path, durability);
        connected.map_err(|error| self.convert(action, error))
    }

    /// Runs `work` while nobody else writes.
    fn write<T>(&self, action: &str, work: impl FnOnce() -> SqlResult<T>) -> Result<T> {
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        if let Some(cause) = self.failure.get() {
            return Err(Error::poisoned(cause));
        }
        // Whoever panicked under the lock left a transaction that was rolled back.
        let _alone = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        work().map_err(|error| self.convert(action, error))
    }

    fn convert(&self, action: &str, error: RusqliteError) -> Error {
        let error = convert(&self.path, action, error);
        if let Error::Poisoned { cause } = &error {
            self.failure.get_or_init(|| cause.clone());
        }
        error
    }

    fn keeper(&self) -> MutexGuard<'_, Connection> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for SqliteStore {
    /// Opens a connection: some 100 µs.
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let connection = self.connect("open a session", self.settings.durability)?;
        Ok(Box::new(SqliteSession { store: self, connection, synced: None, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        let version = format!("sqlite {} ({RUSQLITE_VERSION})", ::rusqlite::version());
        let durability = self.settings.durability;
        // A sync of the log saves nothing where the file under it was never synced.
        StoreInfo::new(version, durability).with_synced_puts(durability != Durability::None)
    }

    /// A read transaction; the log cannot be emptied as long as it lives.
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        let action = "take a snapshot";
        let connection = self.connect(action, self.settings.durability)?;
        // The moment is that of the first read.
        let begun = connection.execute_batch("BEGIN; SELECT 1 FROM rows LIMIT 1");
        begun.map_err(|error| self.convert(action, error))?;
        Ok(Some(Box::new(SqliteSnapshot { store: self, connection })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let keeper = self.keeper();
        for (name, pragma) in
            [("pages", "PRAGMA page_count"), ("free_pages", "PRAGMA freelist_count")]
        {
            let found = keeper.prepare_cached(pragma);
            if let Ok(pages) = found.and_then(|mut found| found.query_row([], |row| row.get(0))) {
                visit(name, pages);
            }
        }
        for (name, file) in [("file_bytes", FILE_NAME), ("wal_bytes", LOG_NAME)] {
            if let Ok(metadata) = self.fs.metadata(&self.data_dir.join(file)) {
                visit(name, metadata.len as f64);
            }
        }
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let SqliteStore { ticker, keeper, failure, path, fs, .. } = *self;
        drop(ticker);
        let keeper = keeper.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The last connection empties the log into the file and removes it.
        keeper.close().map_err(|(_, error)| convert(&path, "close", error))?;
        if let Some(cause) = failure.get() {
            return Err(Error::poisoned(cause));
        }
        let file = open_file(fs.as_ref(), &path)?;
        file.sync_data().map_err(|error| {
            Error::poisoned(format!("sqlite cannot sync '{}': {error}", path.display()))
        })
    }
}

struct SqliteSession<'a> {
    store: &'a SqliteStore,
    connection: Connection,
    /// The connection of synced puts, opened by the first one.
    synced: Option<Connection>,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl SqliteSession<'_> {
    fn read<T>(&self, action: &str, work: impl FnOnce(&Connection) -> SqlResult<T>) -> Result<T> {
        work(&self.connection).map_err(|error| self.store.convert(action, error))
    }
}

impl Session for SqliteSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.read("get", |connection| get(connection, key, visit))
    }

    /// All keys in one read transaction.
    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        self.read("multi_get", |connection| {
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
            for (index, key) in keys.iter().enumerate() {
                if !get(&transaction, key, &mut |value| visit(index, Some(value)))? {
                    visit(index, None);
                }
            }
            transaction.commit()
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.write("put", || put(&self.connection, key, value))
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        match self.store.settings.durability {
            _ if !options.sync => return self.put(key, value),
            Durability::Sync => return self.put(key, value),
            Durability::None => {
                return Err(Error::usage("sqlite has no synced puts with durability none"));
            }
            Durability::Os | Durability::Interval(_) => {}
        }
        let connection = match self.synced.take() {
            Some(connection) => connection,
            None => self.store.connect("open a session", Durability::Sync)?,
        };
        let connection = self.synced.insert(connection);
        self.store.write("put", || put(connection, key, value))
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let existed = self.store.write("remove", || remove(&self.connection, key))?;
        Ok(if existed { Removed::Existed } else { Removed::Absent })
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let (connection, buffer) = (&self.connection, &mut self.buffer);
        self.store.write("update", || {
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            buffer.clear();
            let mut decision = None;
            get(&transaction, key, &mut |value| decision = Some(decide(Some(value), buffer)))?;
            match decision.unwrap_or_else(|| decide(None, buffer)) {
                Update::Keep => return transaction.rollback(),
                Update::Put => put(&transaction, key, buffer)?,
                Update::Remove => {
                    remove(&transaction, key)?;
                }
            }
            transaction.commit()
        })
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        self.read("scan", |connection| scan(connection, low, high, false, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        self.read("scan_rev", |connection| scan(connection, low, high, true, visit))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let connection = &self.connection;
        self.store.write("apply", || {
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            for op in batch.iter() {
                match op {
                    BatchOp::Put(key, value) => put(&transaction, key, value)?,
                    BatchOp::Remove(key) => {
                        remove(&transaction, key)?;
                    }
                }
            }
            transaction.commit()
        })
    }
}

struct SqliteSnapshot<'a> {
    store: &'a SqliteStore,
    connection: Connection,
}

impl Snapshot for SqliteSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(&self.connection, key, visit).map_err(|error| self.store.convert("get", error))
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        scan(&self.connection, low, high, false, visit)
            .map_err(|error| self.store.convert("scan", error))
    }
}

/// The bytes in a column that holds nothing else.
fn bytes<'r>(row: &'r Row<'_>, column: usize) -> SqlResult<&'r [u8]> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(bytes),
        other => Err(RusqliteError::InvalidColumnType(column, "a row".into(), other.data_type())),
    }
}

fn get(connection: &Connection, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> SqlResult<bool> {
    let mut statement = connection.prepare_cached(GET)?;
    let mut rows = statement.query([key])?;
    match rows.next()? {
        None => Ok(false),
        Some(row) => {
            visit(bytes(row, 0)?);
            Ok(true)
        }
    }
}

fn put(connection: &Connection, key: &[u8], value: &[u8]) -> SqlResult<()> {
    connection.prepare_cached(PUT)?.execute([key, value]).map(|_| ())
}

/// Whether the key was there.
fn remove(connection: &Connection, key: &[u8]) -> SqlResult<bool> {
    Ok(connection.prepare_cached(REMOVE)?.execute([key])? > 0)
}

fn scan(
    connection: &Connection,
    low: &[u8],
    high: Option<&[u8]>,
    reverse: bool,
    visit: &mut RowVisitor<'_>,
) -> SqlResult<u64> {
    if high.is_some_and(|high| high <= low) {
        return Ok(0);
    }
    let mut statement = connection.prepare_cached(match (high, reverse) {
        (Some(_), false) => SCAN,
        (None, false) => SCAN_OPEN,
        (Some(_), true) => SCAN_REV,
        (None, true) => SCAN_REV_OPEN,
    })?;
    let mut rows = match high {
        Some(high) => statement.query([low, high])?,
        None => statement.query([low])?,
    };
    let mut visited = 0;
    while let Some(row) = rows.next()? {
        visited += 1;
        if visit(bytes(row, 0)?, bytes(row, 1)?).is_break() {
            break;
        }
    }
    Ok(visited)
}

/// Sorts SQLite's errors into the kinds of the contract.
fn convert(path: &Path, action: &str, error: RusqliteError) -> Error {
    let place = || format!("sqlite cannot {action} in '{}'", path.display());
    let RusqliteError::SqliteFailure(failure, _) = &error else {
        return match error {
            RusqliteError::InvalidColumnType(..) => Error::corruption(path, 0, error.to_string()),
            RusqliteError::InvalidPath(_) => Error::usage(format!("{}: {error}", place())),
            error => Error::io(place(), IoError::other(error.to_string())),
        };
    };
    let text = error.to_string();
    match (failure.code, failure.extended_code) {
        (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => {
            Error::poisoned(format!("{}: {text}", place()))
        }
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => {
            Error::corruption(path, 0, text)
        }
        (ErrorCode::DiskFull, _) => Error::io(place(), IoError::new(ErrorKind::StorageFull, text)),
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            Error::io(place(), IoError::new(ErrorKind::ResourceBusy, text))
        }
        (ErrorCode::ReadOnly | ErrorCode::PermissionDenied, _) => {
            Error::io(place(), IoError::new(ErrorKind::PermissionDenied, text))
        }
        (ErrorCode::OutOfMemory, _) => {
            Error::io(place(), IoError::new(ErrorKind::OutOfMemory, text))
        }
        (ErrorCode::TooBig | ErrorCode::ParameterOutOfRange, _) => {
            Error::usage(format!("{}: {text}", place()))
        }
        // What nobody has a name for is no mistake of the caller.
        _ => Error::io(place(), IoError::other(text)),
    }
}

#[cfg(test)]
mod tests;
