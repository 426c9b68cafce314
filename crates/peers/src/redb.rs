//! `redb`: a copy-on-write B+-tree in one file, by its own means.
//!
//! One table of byte strings in `DATA_DIR/redb.db`. Every write of the contract is one write
//! transaction, a batch too; every read is one read transaction. So scans and batches are one point
//! in time to everybody, snapshots cost nothing, and writers wait for each other.
//!
//! | contract | here |
//! |---|---|
//! | durability `sync` (the default) | `Durability::Immediate`: a commit returns after its sync |
//! | durability `none` | `Durability::None`: a commit is lost unless a durable one follows |
//! | `os`, `interval:MS` | redb has neither; refused rather than approximated |
//! | `remove` of an absent key, `update` that keeps | aborted: nothing is written, nothing synced |
//! | `close` | one durable commit, so that a clean end keeps what `none` left open |
//!
//! Departures from the contract: files are opened by redb itself, so the file system of the
//! options is used for statistics only and fault injection does not reach the engine. redb does
//! not tell the offset of damage; errors give 0. An `update` closure runs inside the write
//! transaction and a visitor inside a read transaction: a closure that writes to the same store
//! waits for itself.

use crate::contract::{Decide, RowVisitor, ValueVisitor, option};
use ::redb::{
    Builder, Database, Durability as RedbDurability, Error as RedbError, ReadOnlyTable,
    ReadableDatabase as _, ReadableTable as _, Table, TableDefinition,
};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Snapshot,
    Store, StoreInfo, Update, WriteOptions,
};
use keyrack_vfs::Fs;
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ENGINE: Engine = Engine {
    name: "redb",
    about: "a copy-on-write B+-tree in one file; durability sync or none",
    persistent: true,
    stores: true,
    options: &[option("cache_bytes", "1G", "page cache of the engine, in bytes")],
    open,
};

const VERSION: &str = "redb 4.4.0";
const FILE_NAME: &str = "redb.db";
const CACHE_BYTES_DEFAULT: u64 = 1 << 30;
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("keyrack");

type Writable<'txn> = Table<'txn, &'static [u8], &'static [u8]>;
type Readable = ReadOnlyTable<&'static [u8], &'static [u8]>;
type RedbResult<T> = std::result::Result<T, RedbError>;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let durability = match options.durability.unwrap_or(Durability::Sync) {
        durability @ (Durability::Sync | Durability::None) => durability,
        other => {
            return Err(Error::usage(format!(
                "redb has no durability '{other}': it offers sync and none"
            )));
        }
    };
    let cache_bytes = options.size("cache_bytes", CACHE_BYTES_DEFAULT)?;
    let cache_bytes = usize::try_from(cache_bytes)
        .map_err(|_| Error::usage(format!("cache_bytes: {cache_bytes} is more than memory")))?;
    let data_dir = options.required_data_dir()?.clone();
    let path = data_dir.join(FILE_NAME);
    let database = Builder::new()
        .set_cache_size(cache_bytes)
        .create(&path)
        .map_err(|error| convert(&path, "open", error.into()))?;
    let store = RedbStore { database, durability, data_dir, path, fs: Arc::clone(&options.fs) };
    // The table comes into being when it is first opened for writing; readers need it.
    store.write_with(RedbDurability::Immediate, "create the table", |_| Ok(((), true)))?;
    Ok(Box::new(store))
}

struct RedbStore {
    database: Database,
    durability: Durability,
    data_dir: PathBuf,
    path: PathBuf,
    fs: Arc<dyn Fs>,
}

impl RedbStore {
    /// Runs `work` on the table in one write transaction. `work` returns its result and whether
    /// there is anything to commit.
    fn write<T>(
        &self,
        action: &str,
        work: impl FnOnce(&mut Writable<'_>) -> RedbResult<(T, bool)>,
    ) -> Result<T> {
        let durability = match self.durability {
            Durability::None => RedbDurability::None,
            _ => RedbDurability::Immediate,
        };
        self.write_with(durability, action, work)
    }

    fn write_with<T>(
        &self,
        durability: RedbDurability,
        action: &str,
        work: impl FnOnce(&mut Writable<'_>) -> RedbResult<(T, bool)>,
    ) -> Result<T> {
        let transaction = || -> RedbResult<T> {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(durability)?;
            let (result, changed) = work(&mut transaction.open_table(TABLE)?)?;
            if changed {
                transaction.commit()?;
            } else {
                transaction.abort()?;
            }
            Ok(result)
        };
        transaction().map_err(|error| convert(&self.path, action, error))
    }

    fn read<T>(&self, action: &str, work: impl FnOnce(&Readable) -> RedbResult<T>) -> Result<T> {
        let transaction = || work(&self.database.begin_read()?.open_table(TABLE)?);
        transaction().map_err(|error| convert(&self.path, action, error))
    }
}

impl Store for RedbStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { store: self, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(VERSION, self.durability).with_synced_puts(true)
    }

    /// O(1); old pages stay in the file as long as the snapshot lives.
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        let open =
            || -> RedbResult<Readable> { Ok(self.database.begin_read()?.open_table(TABLE)?) };
        let table = open().map_err(|error| convert(&self.path, "take a snapshot", error))?;
        Ok(Some(Box::new(RedbSnapshot { table, path: &self.path })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let cache = self.database.cache_stats();
        visit("cache_evictions", cache.evictions() as f64);
        if let Ok(metadata) = self.fs.metadata(&self.path) {
            visit("file_bytes", metadata.len as f64);
        }
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.durability == Durability::None {
            self.write_with(RedbDurability::Immediate, "close", |_| Ok(((), true)))?;
        }
        Ok(())
    }
}

struct RedbSession<'a> {
    store: &'a RedbStore,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl Session for RedbSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store.read("get", |table| get(table, key, visit))
    }

    /// All keys in one read transaction.
    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        self.store.read("multi_get", |table| {
            for (index, key) in keys.iter().enumerate() {
                let value = table.get(*key)?;
                visit(index, value.as_ref().map(|value| value.value()));
            }
            Ok(())
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.write("put", |table| {
            table.insert(key, value)?;
            Ok(((), true))
        })
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if !options.sync {
            return self.put(key, value);
        }
        self.store.write_with(RedbDurability::Immediate, "put", |table| {
            table.insert(key, value)?;
            Ok(((), true))
        })
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        self.store.write("remove", |table| {
            let existed = table.remove(key)?.is_some();
            Ok((if existed { Removed::Existed } else { Removed::Absent }, existed))
        })
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let buffer = &mut self.buffer;
        self.store.write("update", |table| {
            buffer.clear();
            let decision = {
                let current = table.get(key)?;
                decide(current.as_ref().map(|value| value.value()), buffer)
            };
            let changed = match decision {
                Update::Keep => false,
                Update::Put => {
                    table.insert(key, buffer.as_slice())?;
                    true
                }
                Update::Remove => table.remove(key)?.is_some(),
            };
            Ok(((), changed))
        })
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        self.store.read("scan", |table| scan(table, low, high, false, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        self.store.read("scan_rev", |table| scan(table, low, high, true, visit))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.store.write("apply", |table| {
            for op in batch.iter() {
                match op {
                    BatchOp::Put(key, value) => {
                        table.insert(key, value)?;
                    }
                    BatchOp::Remove(key) => {
                        table.remove(key)?;
                    }
                }
            }
            Ok(((), !batch.is_empty()))
        })
    }
}

struct RedbSnapshot<'a> {
    table: Readable,
    path: &'a Path,
}

impl Snapshot for RedbSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(&self.table, key, visit).map_err(|error| convert(self.path, "get", error))
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        scan(&self.table, low, high, false, visit)
            .map_err(|error| convert(self.path, "scan", error))
    }
}

fn get(table: &Readable, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> RedbResult<bool> {
    Ok(match table.get(key)? {
        Some(value) => {
            visit(value.value());
            true
        }
        None => false,
    })
}

fn scan(
    table: &Readable,
    low: &[u8],
    high: Option<&[u8]>,
    reverse: bool,
    visit: &mut RowVisitor<'_>,
) -> RedbResult<u64> {
    if high.is_some_and(|high| high <= low) {
        return Ok(0);
    }
    let high = high.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rows = table.range::<&[u8]>((Bound::Included(low), high))?;
    let mut visited = 0;
    while let Some(row) = if reverse { rows.next_back() } else { rows.next() } {
        let (key, value) = row?;
        visited += 1;
        if visit(key.value(), value.value()).is_break() {
            break;
        }
    }
    Ok(visited)
}

/// Sorts redb's errors into the kinds of the contract.
fn convert(path: &Path, action: &str, error: RedbError) -> Error {
    let words =
        |error: &RedbError| format!("redb cannot {action} in '{}': {error}", path.display());
    match error {
        // How redb answers a file that is none of its own.
        RedbError::Io(source) if source.kind() == ErrorKind::InvalidData => {
            Error::corruption(path, 0, source.to_string())
        }
        RedbError::Io(source) => {
            Error::io(format!("redb cannot {action} in '{}'", path.display()), source)
        }
        RedbError::Corrupted(detail) => Error::corruption(path, 0, detail),
        RedbError::DatabaseClosed => Error::Closed,
        RedbError::PreviousIo | RedbError::TransactionPoisoned | RedbError::LockPoisoned(_) => {
            Error::poisoned(words(&error))
        }
        RedbError::DatabaseAlreadyOpen
        | RedbError::UpgradeRequired(_)
        | RedbError::ValueTooLarge(_) => Error::usage(words(&error)),
        // What nobody has a name for is no mistake of the caller.
        error => {
            let place = format!("redb cannot {action} in '{}'", path.display());
            Error::io(place, std::io::Error::other(error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{damaged, gives, is_linked, needs_a_directory, options, options_with, stat};

    #[test]
    fn a_durability_that_redb_lacks_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for durability in [Durability::Os, Durability::Interval(50)] {
            let error = open(&options(directory.path(), Some(durability))).err().unwrap();
            assert!(matches!(error, Error::Usage { .. }), "{error:?}");
            let error = error.to_string();
            assert!(error.contains(&format!("'{durability}'")), "{error}");
            assert!(error.contains("sync and none"), "{error}");
        }
        gives(
            &ENGINE,
            &[
                (None, Durability::Sync),
                (Some(Durability::Sync), Durability::Sync),
                (Some(Durability::None), Durability::None),
            ],
        );
    }

    #[test]
    fn options_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let with = |value| open(&options_with(directory.path(), "cache_bytes", value));
        let error = with("lots").err().unwrap().to_string();
        assert!(error.contains("cache_bytes") && error.contains("'lots'"), "{error}");
        assert!(with("8M").is_ok());
        needs_a_directory(&ENGINE);
    }

    #[test]
    fn errors_keep_their_kind() {
        let damaged = damaged(&ENGINE, FILE_NAME, &[0x5a; 1 << 16]);
        assert!(damaged.to_string().contains(FILE_NAME), "{damaged}");
        let path = Path::new(FILE_NAME);
        let poisoned = convert(path, "put", RedbError::PreviousIo);
        assert!(matches!(poisoned, Error::Poisoned { .. }), "{poisoned:?}");
        let closed = convert(path, "put", RedbError::DatabaseClosed);
        assert!(matches!(closed, Error::Closed), "{closed:?}");
        let other = convert(path, "open", RedbError::RepairAborted);
        assert!(matches!(other, Error::Io { .. }), "{other:?}");
        let large = convert(path, "put", RedbError::ValueTooLarge(1 << 40));
        assert!(matches!(large, Error::Usage { .. }), "{large:?}");
    }

    #[test]
    fn statistics_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&options(directory.path(), None)).unwrap();
        assert!(stat(store.as_ref(), "file_bytes").unwrap() > 0.0);
    }

    #[test]
    fn the_version_is_the_one_that_is_linked() {
        is_linked("redb", VERSION.trim_start_matches("redb "));
    }
}
