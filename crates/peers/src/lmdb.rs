//! `lmdb`: a copy-on-write B+-tree in a memory map, through the crate `heed`.
//!
//! The unnamed database of one environment: `data.mdb` and `lock.mdb` in the data directory. Every
//! write of the contract is one write transaction, a batch too; every read is one read transaction.
//! So scans and batches are one point in time to everybody, readers wait for nobody, and writers
//! wait for each other.
//!
//! | contract | here |
//! |---|---|
//! | durability `sync` (the default) | a commit returns after its syncs |
//! | durability `os` | `MDB_NOSYNC`: a commit is in the page cache |
//! | durability `none` | as `os`: there is nothing cheaper without a writable map |
//! | `interval:MS` | refused: between two syncs pages reach the disk in any order, so that a power loss may leave a damaged file and not an older one |
//! | synced put | with `sync` alone, for the same reason |
//! | `remove` of an absent key, `update` that keeps | aborted: nothing is written, nothing synced |
//! | `close` | one sync |
//!
//! | option | default | meaning |
//! |---|---|---|
//! | `map_bytes` | `64G` | address space of the map: the most that the file can grow to |
//!
//! There is no cache to size: the page cache of the kernel is the cache.
//!
//! **Transactions of readers.** A visitor may read through another session of its thread, so
//! readers are not bound to threads (`MDB_NOTLS`). Each read then takes a slot of the reader table
//! under a lock and gives it back, some tens of nanoseconds that a program with one long read
//! transaction does not pay. That many visitors and snapshots can be open at once: 1022.
//!
//! **Keys.** LMDB has keys of 1 to 511 bytes. An empty key is stored under another name (see
//! [`crate::escape`]). Keys of 511 bytes or more that agree in their first 511 share one record
//! (see [`bucket`]): right and in order, though each write copies what shares it.
//!
//! Files are opened by LMDB itself, so the file system of the options is used for statistics only
//! and fault injection does not reach the engine. LMDB has no checksums and does not tell the place
//! of what it finds damaged; errors give offset 0. An `update` closure runs inside the write
//! transaction: one that writes to the same store waits for itself.
#![expect(unsafe_code, reason = "opening a memory map relies on nobody else changing the file")]

mod bucket;

use crate::contract::{Decide, RowVisitor, ValueVisitor, option};
use crate::escape::{escape, unescape};
use ::heed::types::Bytes;
use ::heed::{
    AnyTls, Database, Env, EnvFlags, EnvOpenOptions, Error as HeedError, MdbError, RoTxn, RwTxn,
    WithoutTls,
};
use bucket::Damage;
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Snapshot,
    Store, StoreInfo, Update, WriteOptions,
};
use keyrack_vfs::Fs;
use std::io::{Error as IoError, ErrorKind};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ENGINE: Engine = Engine {
    name: "lmdb",
    about: "a copy-on-write B+-tree in a memory map; durability sync, os or none",
    persistent: true,
    stores: true,
    options: &[option(
        "map_bytes",
        "64G",
        "address space of the map: the most that the file can grow to, in bytes",
    )],
    open,
};

const HEED_VERSION: &str = "heed 0.22.1";
const FILE_NAME: &str = "data.mdb";
const MAP_BYTES_DEFAULT: u64 = 64 << 30;
/// The size of the map is a multiple of the page size of every machine.
const MAP_BYTES_UNIT: u64 = 64 << 10;
const READERS_MAX: u32 = 1022;

/// Keys from this length on are in buckets. It is the longest key that LMDB takes.
const LONG: usize = 511;

type Table = Database<Bytes, Bytes>;

/// What may go wrong inside a transaction.
enum Trouble {
    Lmdb(HeedError),
    Bucket(Damage),
}

type LmdbResult<T> = std::result::Result<T, Trouble>;

impl<E: Into<HeedError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Trouble::Lmdb(error.into())
    }
}

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let durability = match options.durability.unwrap_or(Durability::Sync) {
        durability @ (Durability::Sync | Durability::Os | Durability::None) => durability,
        other @ Durability::Interval(_) => {
            return Err(Error::usage(format!(
                "lmdb has no durability '{other}': it offers sync, os and none"
            )));
        }
    };
    let map_bytes = options.size("map_bytes", MAP_BYTES_DEFAULT)?;
    let map_bytes = map_bytes
        .max(1)
        .checked_next_multiple_of(MAP_BYTES_UNIT)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| Error::usage(format!("map_bytes: {map_bytes} is more than memory")))?;
    let data_dir = options.required_data_dir()?.clone();
    let path = data_dir.join(FILE_NAME);
    let opened = || -> LmdbResult<(Env<WithoutTls>, Table)> {
        let mut builder = EnvOpenOptions::new().read_txn_without_tls();
        builder.map_size(map_bytes).max_readers(READERS_MAX);
        if durability != Durability::Sync {
            // SAFETY: the flag leaves out syncs, which costs durability and no memory safety as
            // long as the machine runs.
            unsafe { builder.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory is the store's own, as the contract asks; nobody else writes to
        // the file or cuts it while it is mapped, and LMDB's own lock file keeps out other LMDBs.
        let env = unsafe { builder.open(&data_dir) }?;
        let mut transaction = env.write_txn()?;
        let table = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok((env, table))
    };
    let (env, table) = opened().map_err(|trouble| convert(&path, "open", trouble))?;
    let fs = Arc::clone(&options.fs);
    Ok(Box::new(LmdbStore { env, table, durability, data_dir, path, fs }))
}

struct LmdbStore {
    env: Env<WithoutTls>,
    table: Table,
    durability: Durability,
    data_dir: PathBuf,
    path: PathBuf,
    fs: Arc<dyn Fs>,
}

impl LmdbStore {
    /// Runs `work` in one write transaction. `work` returns its result and whether there is
    /// anything to commit.
    fn write<T>(
        &self,
        action: &str,
        work: impl FnOnce(&mut RwTxn<'_>) -> LmdbResult<(T, bool)>,
    ) -> Result<T> {
        let transaction = || -> LmdbResult<T> {
            let mut transaction = self.env.write_txn()?;
            let (result, changed) = work(&mut transaction)?;
            if changed {
                transaction.commit()?;
            } else {
                transaction.abort();
            }
            Ok(result)
        };
        transaction().map_err(|trouble| convert(&self.path, action, trouble))
    }

    fn read<T>(
        &self,
        action: &str,
        work: impl FnOnce(&RoTxn<'_, AnyTls>) -> LmdbResult<T>,
    ) -> Result<T> {
        let transaction = || work(&*self.env.read_txn()?);
        transaction().map_err(|trouble| convert(&self.path, action, trouble))
    }
}

impl Store for LmdbStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { store: self, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        let linked = ::heed::lmdb_version();
        let version =
            format!("lmdb {}.{}.{} ({HEED_VERSION})", linked.major, linked.minor, linked.patch);
        // After a synced commit, later ones without a sync may damage what it wrote.
        StoreInfo::new(version, self.durability)
            .with_synced_puts(self.durability == Durability::Sync)
    }

    /// O(1); old pages stay in the file as long as the snapshot lives.
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        let transaction = self
            .env
            .read_txn()
            .map_err(|error| convert(&self.path, "take a snapshot", error.into()))?;
        Ok(Some(Box::new(LmdbSnapshot { store: self, transaction })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let info = self.env.info();
        visit("map_bytes", info.map_size as f64);
        visit("pages", info.last_page_number as f64 + 1.0);
        visit("reader_slots", f64::from(info.number_of_readers));
        if let Ok(metadata) = self.fs.metadata(&self.path) {
            visit("file_bytes", metadata.len as f64);
        }
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync().map_err(|error| convert(&self.path, "close", error.into()))
    }
}

struct LmdbSession<'a> {
    store: &'a LmdbStore,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl Session for LmdbSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.store.table;
        self.store.read("get", |transaction| {
            let found = find(table, transaction, &escape(key))?;
            Ok(found.map(visit).is_some())
        })
    }

    /// All keys in one read transaction.
    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        let table = self.store.table;
        self.store.read("multi_get", |transaction| {
            for (index, key) in keys.iter().enumerate() {
                visit(index, find(table, transaction, &escape(key))?);
            }
            Ok(())
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.store.table;
        self.store.write("put", |transaction| {
            insert(table, transaction, &escape(key), value)?;
            Ok(((), true))
        })
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if options.sync && self.store.durability != Durability::Sync {
            return Err(Error::usage("lmdb has synced puts with durability sync alone"));
        }
        self.put(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let table = self.store.table;
        self.store.write("remove", |transaction| {
            let existed = delete(table, transaction, &escape(key))?;
            Ok((if existed { Removed::Existed } else { Removed::Absent }, existed))
        })
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let (table, buffer) = (self.store.table, &mut self.buffer);
        let key = escape(key);
        self.store.write("update", |transaction| {
            buffer.clear();
            let decision = decide(find(table, transaction, &key)?, buffer);
            let changed = match decision {
                Update::Keep => false,
                Update::Put => {
                    insert(table, transaction, &key, buffer)?;
                    true
                }
                Update::Remove => delete(table, transaction, &key)?,
            };
            Ok(((), changed))
        })
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let table = self.store.table;
        self.store.read("scan", |transaction| scan(table, transaction, low, high, false, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        let table = self.store.table;
        self.store.read("scan_rev", |transaction| scan(table, transaction, low, high, true, visit))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let table = self.store.table;
        self.store.write("apply", |transaction| {
            for op in batch.iter() {
                match op {
                    BatchOp::Put(key, value) => {
                        insert(table, transaction, &escape(key), value)?;
                    }
                    BatchOp::Remove(key) => {
                        delete(table, transaction, &escape(key))?;
                    }
                }
            }
            Ok(((), !batch.is_empty()))
        })
    }
}

struct LmdbSnapshot<'a> {
    store: &'a LmdbStore,
    transaction: RoTxn<'a, WithoutTls>,
}

impl Snapshot for LmdbSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = find(self.store.table, &self.transaction, &escape(key))
            .map_err(|trouble| convert(&self.store.path, "get", trouble))?;
        Ok(found.map(visit).is_some())
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        scan(self.store.table, &self.transaction, low, high, false, visit)
            .map_err(|trouble| convert(&self.store.path, "scan", trouble))
    }
}

/// The record of a written key, and the rest of the key when that record is a bucket.
fn place(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match key.split_at_checked(LONG) {
        None => (key, None),
        Some((beginning, rest)) => (beginning, Some(rest)),
    }
}

fn find<'t>(
    table: Table,
    transaction: &'t RoTxn<'_, AnyTls>,
    key: &[u8],
) -> LmdbResult<Option<&'t [u8]>> {
    let (record, rest) = place(key);
    match (table.get(transaction, record)?, rest) {
        (Some(bytes), Some(rest)) => bucket::get(bytes, rest).map_err(Trouble::Bucket),
        (found, _) => Ok(found),
    }
}

fn insert(table: Table, transaction: &mut RwTxn<'_>, key: &[u8], value: &[u8]) -> LmdbResult<()> {
    let (record, rest) = place(key);
    let Some(rest) = rest else { return Ok(table.put(transaction, record, value)?) };
    let old = table.get(transaction, record)?.unwrap_or_default();
    let new = bucket::with(old, rest, value).map_err(Trouble::Bucket)?;
    Ok(table.put(transaction, record, &new)?)
}

/// Whether the key was there.
fn delete(table: Table, transaction: &mut RwTxn<'_>, key: &[u8]) -> LmdbResult<bool> {
    let (record, rest) = place(key);
    let Some(rest) = rest else { return Ok(table.delete(transaction, record)?) };
    let old = table.get(transaction, record)?.unwrap_or_default();
    let Some(new) = bucket::without(old, rest).map_err(Trouble::Bucket)? else { return Ok(false) };
    if new.is_empty() {
        table.delete(transaction, record)?;
    } else {
        table.put(transaction, record, &new)?;
    }
    Ok(true)
}

fn scan(
    table: Table,
    transaction: &RoTxn<'_, AnyTls>,
    low: &[u8],
    high: Option<&[u8]>,
    reverse: bool,
    visit: &mut RowVisitor<'_>,
) -> LmdbResult<u64> {
    if high.is_some_and(|high| high <= low) {
        return Ok(0);
    }
    let (low, high) = (escape(low), high.map(escape));
    // The bucket that a bound would be in may hold keys on both sides of it.
    let first = Bound::Included(place(&low).0);
    let last = match high.as_deref().map(place) {
        None => Bound::Unbounded,
        Some((high, None)) => Bound::Excluded(high),
        Some((beginning, Some(_))) => Bound::Included(beginning),
    };
    let range: (Bound<&[u8]>, Bound<&[u8]>) = (first, last);
    let mut rows = Rows { low: &low, high: high.as_deref(), visited: 0, visit };
    if reverse {
        for record in table.rev_range(transaction, &range)? {
            let (key, value) = record?;
            if rows.take(key, value, true)?.is_break() {
                break;
            }
        }
    } else {
        for record in table.range(transaction, &range)? {
            let (key, value) = record?;
            if rows.take(key, value, false)?.is_break() {
                break;
            }
        }
    }
    Ok(rows.visited)
}

/// The rows of a scan, on their way from records to the visitor.
struct Rows<'a, 'v> {
    low: &'a [u8],
    high: Option<&'a [u8]>,
    visited: u64,
    visit: &'a mut RowVisitor<'v>,
}

impl Rows<'_, '_> {
    fn take(&mut self, record: &[u8], value: &[u8], reverse: bool) -> LmdbResult<ControlFlow<()>> {
        if record.len() < LONG {
            return Ok(self.give(record, value));
        }
        let mut entries = bucket::entries(value).map_err(Trouble::Bucket)?;
        if reverse {
            entries.reverse();
        }
        for (rest, value) in entries {
            let key = [record, rest].concat();
            let is_inside = *key >= *self.low && self.high.is_none_or(|high| *key < *high);
            if is_inside && self.give(&key, value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn give(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        self.visited += 1;
        (self.visit)(unescape(key), value)
    }
}

/// Sorts LMDB's errors into the kinds of the contract.
fn convert(path: &Path, action: &str, trouble: Trouble) -> Error {
    let error = match trouble {
        Trouble::Lmdb(error) => error,
        Trouble::Bucket(damage) => return Error::corruption(path, 0, damage.to_string()),
    };
    let place = || format!("lmdb cannot {action} in '{}'", path.display());
    match error {
        HeedError::Io(source) => Error::io(place(), source),
        HeedError::Mdb(MdbError::MapFull) => {
            let full = "the map is full; a larger one is opened with map_bytes";
            Error::io(place(), IoError::new(ErrorKind::StorageFull, full))
        }
        HeedError::Mdb(MdbError::ReadersFull) => {
            let full = "all slots of the reader table are taken";
            Error::io(place(), IoError::new(ErrorKind::ResourceBusy, full))
        }
        HeedError::Mdb(
            error @ (MdbError::PageNotFound
            | MdbError::Corrupted
            | MdbError::Invalid
            | MdbError::VersionMismatch),
        ) => Error::corruption(path, 0, error.to_string()),
        HeedError::Mdb(MdbError::Panic) => Error::poisoned(format!("{}: {error}", place())),
        HeedError::Mdb(MdbError::BadValSize) | HeedError::EnvAlreadyOpened => {
            Error::usage(format!("{}: {error}", place()))
        }
        // What nobody has a name for is no mistake of the caller.
        error => Error::io(place(), std::io::Error::other(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
