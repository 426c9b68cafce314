//! `tidesdb`: a log-structured merge tree in C whose large values lie in a log of their own, by the
//! crate `tidesdb`, which compiles it from its source (with cmake).
//!
//! One column family in the data directory. Every operation of the contract is a transaction, as it
//! has no other way; a batch is one.
//!
//! | contract | here, in TidesDB's words |
//! |---|---|
//! | durability `os` (the default) | sync mode `INTERVAL`, which waits until the log is with the kernel, with an interval that does not come |
//! | durability `none` | sync mode `NONE`: a commit waits for nothing; tables are not synced either |
//! | durability `interval:MS` | `os`, and a thread of ours that syncs the log |
//! | durability `sync` | sync mode `FULL` |
//! | synced put | the log is synced after the put; refused with `none`, whose tables are not synced |
//! | `remove` | writes a tombstone and does not look: `Removed::Unknown` |
//! | `update` | reads and writes under a lock of ours that writers of the key respect |
//! | `apply` | one transaction; one moment to scans, but two `get`s see two moments |
//! | scans | one point in time: a transaction with isolation `snapshot`; keys and values are copied |
//! | snapshots | a sequence number; costs what it keeps from being dropped |
//! | `close` | syncs the log |
//!
//! What TidesDB refuses for the moment (another held what it needed, or committed first) is tried
//! again, up to [`RETRIES_MAX`] times. Its options are in [`settings`].
//!
//! An empty key, which TidesDB does not have, is stored under another name (see [`crate::escape`]).
//! Files are opened by TidesDB itself, so fault injection does not reach it. It does not tell the
//! place of damage: errors name the directory and offset 0. An `update` closure that writes to the
//! same store waits for itself.

mod settings;

use crate::common;
use crate::contract::{Decide, RowVisitor};
use crate::escape::{escape, unescape};
use crate::stripes::Stripes;
use crate::ticker::Ticker;
use ::tidesdb::{
    ColumnFamily, Error as TidesError, ErrorCode, IsolationLevel, Result as TidesResult,
    Snapshot as Moment, TidesDB, Transaction,
};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Snapshot,
    Store, StoreInfo, Update, WriteOptions,
};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub(crate) const ENGINE: Engine = Engine {
    name: "tidesdb",
    about: "TidesDB: a log-structured merge tree in C; durability os, none, interval or sync",
    persistent: true,
    stores: true,
    options: settings::OPTIONS,
    open,
};

const CRATE_VERSION: &str = "tidesdb 1.0.0";
const FAMILY: &str = "keyrack";
/// How often what was refused for the moment is tried again.
const RETRIES_MAX: usize = 100_000;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let options = &settings::in_our_names(options)?;
    let durability = common::durability(options)?;
    let data_dir = options.required_data_dir()?.clone();
    let (database, family, isolation) = settings::read(options, durability, &data_dir)?;
    let opened = || -> TidesResult<TidesDB> {
        let database = TidesDB::open(database)?;
        if !database.list_column_families()?.iter().any(|name| name == FAMILY) {
            database.create_column_family(FAMILY, family)?;
        }
        Ok(database)
    };
    let database = Arc::new(opened().map_err(|error| convert(&data_dir, "open", &error))?);
    let ticker = Ticker::of(durability, || {
        let database = Arc::clone(&database);
        Ok(move || database.sync_wal().map_err(|error| error.to_string()))
    })?;
    Ok(Box::new(TidesStore {
        ticker,
        database,
        failure: OnceLock::new(),
        durability,
        isolation,
        data_dir,
        stripes: Stripes::new(),
        retries_max: RETRIES_MAX,
    }))
}

// The thread that syncs ends before the database does.
struct TidesStore {
    ticker: Option<Ticker>,
    database: Arc<TidesDB>,
    /// The first sync that failed.
    failure: OnceLock<String>,
    durability: Durability,
    /// Of transactions that write.
    isolation: IsolationLevel,
    data_dir: PathBuf,
    stripes: Stripes,
    /// [`RETRIES_MAX`], but in tests.
    retries_max: usize,
}

impl TidesStore {
    fn family(&self) -> Result<ColumnFamily<'_>> {
        let family = self.database.get_column_family(FAMILY);
        family.map_err(|error| self.convert("find its column family", &error))
    }

    /// Commits what `fill` writes into a transaction, which it may do several times.
    fn write(
        &self,
        action: &str,
        mut fill: impl FnMut(&Transaction<'_>) -> TidesResult<()>,
    ) -> Result<()> {
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        if let Some(cause) = self.failure.get() {
            return Err(Error::poisoned(cause));
        }
        self.retried(action, || {
            let mut transaction = self.database.begin_transaction_with_isolation(self.isolation)?;
            fill(&transaction)?;
            transaction.commit()
        })
    }

    /// Runs `work` until it is not refused for the moment.
    fn retried<T>(&self, action: &str, mut work: impl FnMut() -> TidesResult<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            match work() {
                Ok(done) => return Ok(done),
                Err(error)
                    if (error.is_locked() || error.is_conflict()) && tries < self.retries_max =>
                {
                    tries += 1;
                    std::thread::yield_now();
                }
                Err(error) => return Err(self.convert(action, &error)),
            }
        }
    }

    /// After a sync that failed nothing is known to be safe: all later writes are refused.
    fn sync(&self) -> Result<()> {
        self.database.sync_wal().map_err(|error| {
            let place = self.data_dir.display();
            let cause = format!("tidesdb cannot sync its log in '{place}': {error}");
            Error::poisoned(self.failure.get_or_init(|| cause))
        })
    }

    fn get(
        &self,
        transaction: &Transaction<'_>,
        family: &ColumnFamily<'_>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        self.retried("get", || match transaction.get_notrack(family, key) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// At the moment that the transaction sees.
    fn scan(
        &self,
        transaction: &Transaction<'_>,
        family: &ColumnFamily<'_>,
        (low, high): (&[u8], Option<&[u8]>),
        reverse: bool,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        if high.is_some_and(|high| high <= low) {
            return Ok(0);
        }
        let (low, high) = (escape(low), high.map(escape));
        let mut rows = self.retried("scan", || match &high {
            Some(high) => transaction.new_range_iterator(family, &low, high),
            None => transaction.new_iterator(family),
        })?;
        self.retried("scan", || match (&high, reverse) {
            (_, false) => rows.seek(&low),
            (Some(high), true) => rows.seek_for_prev(high),
            (None, true) => rows.seek_to_last(),
        })?;
        let mut visited = 0;
        while rows.is_valid() {
            let (key, value) = self.retried("scan", || rows.key_value())?;
            let is_above = high.as_ref().is_some_and(|high| key[..] >= high[..]);
            let is_over = if reverse { key[..] < low[..] } else { is_above };
            if is_over {
                break;
            }
            // Backwards the search may have ended on the bound, which is not a part.
            if !is_above {
                visited += 1;
                if visit(unescape(&key), &value).is_break() {
                    break;
                }
            }
            self.retried("scan", || if reverse { rows.prev() } else { rows.next() })?;
        }
        Ok(visited)
    }

    /// For a scan: nothing that is committed later is seen.
    fn still(&self) -> Result<Transaction<'_>> {
        let begun = self.database.begin_transaction_with_isolation(IsolationLevel::Snapshot);
        begun.map_err(|error| self.convert("scan", &error))
    }

    fn convert(&self, action: &str, error: &TidesError) -> Error {
        convert(&self.data_dir, action, error)
    }
}

impl Store for TidesStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(TidesSession { store: self, family: self.family()?, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        // The version of the system's library where it has one of this major version.
        let version = format!("tidesdb {} ({CRATE_VERSION})", ::tidesdb::TIDESDB_LINKED_VERSION);
        // A sync of the log saves nothing where tables are never synced.
        StoreInfo::new(version, self.durability)
            .with_synced_puts(self.durability != Durability::None)
            .with_blind_removals()
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        let moment = self.database.snapshot();
        let moment = moment.map_err(|error| self.convert("take a snapshot", &error))?;
        Ok(Some(Box::new(TidesSnapshot { store: self, family: self.family()?, moment })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        settings::stats(&self.database, FAMILY, visit);
    }

    fn data_dir(&self) -> Option<&Path> {
        Some(&self.data_dir)
    }

    fn close(self: Box<Self>) -> Result<()> {
        if let Some(cause) = self.failure.get() {
            return Err(Error::poisoned(cause));
        }
        self.sync()
    }
}

struct TidesSession<'a> {
    store: &'a TidesStore,
    family: ColumnFamily<'a>,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl TidesSession<'_> {
    /// The newest value.
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.store.database.begin_transaction();
        let transaction = transaction.map_err(|error| self.store.convert("get", &error))?;
        self.store.get(&transaction, &self.family, key)
    }
}

impl Session for TidesSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.read(&escape(key))?;
        Ok(found.as_deref().map(visit).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = escape(key);
        let _shared = self.store.stripes.share(&key);
        self.store.write("put", |writes| writes.put(&self.family, &key, value))
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if options.sync && self.store.durability == Durability::None {
            return Err(Error::usage("tidesdb has no synced puts with durability none"));
        }
        self.put(key, value)?;
        if options.sync && self.store.durability != Durability::Sync {
            self.store.sync()?;
        }
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let key = escape(key);
        let _shared = self.store.stripes.share(&key);
        self.store.write("remove", |writes| writes.delete(&self.family, &key))?;
        Ok(Removed::Unknown)
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let key = escape(key);
        let _own = self.store.stripes.own(&key);
        let current = self.read(&key)?;
        self.buffer.clear();
        match decide(current.as_deref(), &mut self.buffer) {
            Update::Keep => Ok(()),
            Update::Put => {
                self.store.write("update", |writes| writes.put(&self.family, &key, &self.buffer))
            }
            Update::Remove => {
                self.store.write("update", |writes| writes.delete(&self.family, &key))
            }
        }
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        self.store.scan(&self.store.still()?, &self.family, (low, high), false, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        self.store.scan(&self.store.still()?, &self.family, (low, high), true, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let keys: Vec<_> = batch.iter().map(|op| escape(op.key())).collect();
        let _shared = self.store.stripes.share_all(keys.iter().map(|key| &**key));
        self.store.write("apply", |writes| {
            batch.iter().zip(&keys).try_for_each(|(op, key)| match op {
                BatchOp::Put(_, value) => writes.put(&self.family, key, value),
                BatchOp::Remove(_) => writes.delete(&self.family, key),
            })
        })
    }
}

struct TidesSnapshot<'a> {
    store: &'a TidesStore,
    family: ColumnFamily<'a>,
    moment: Moment<'a>,
}

impl TidesSnapshot<'_> {
    fn transaction(&self) -> Result<Transaction<'_>> {
        let begun = self.store.database.begin_transaction_at_snapshot(&self.moment);
        begun.map_err(|error| self.store.convert("read a snapshot", &error))
    }
}

impl Snapshot for TidesSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.store.get(&self.transaction()?, &self.family, &escape(key))?;
        Ok(found.as_deref().map(visit).is_some())
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        self.store.scan(&self.transaction()?, &self.family, (low, high), false, visit)
    }
}

/// Sorts TidesDB's errors into the kinds of the contract.
fn convert(data_dir: &Path, action: &str, error: &TidesError) -> Error {
    let place = format!("tidesdb cannot {action} in '{}'", data_dir.display());
    let text = error.to_string();
    let io = |kind: ErrorKind| Error::io(place.clone(), IoError::new(kind, text.clone()));
    match error.code() {
        Some(ErrorCode::Corruption) => Error::corruption(data_dir, 0, text),
        Some(ErrorCode::NoSpace) => io(ErrorKind::StorageFull),
        Some(ErrorCode::Memory | ErrorCode::MemoryLimit) => io(ErrorKind::OutOfMemory),
        Some(ErrorCode::Locked | ErrorCode::Conflict) => io(ErrorKind::ResourceBusy),
        Some(ErrorCode::ReadOnly) => io(ErrorKind::PermissionDenied),
        Some(ErrorCode::TxnExpired) => io(ErrorKind::TimedOut),
        Some(ErrorCode::InvalidDb) => Error::Closed,
        Some(ErrorCode::InvalidArgs | ErrorCode::TooLarge | ErrorCode::Exists) => {
            Error::usage(format!("{place}: {text}"))
        }
        // What nobody has a name for is no mistake of the caller.
        _ => io(ErrorKind::Other),
    }
}

#[cfg(test)]
mod tests;
