//! flodb as an engine of redb-bench: its traits over `Db::transaction_with`.
//!
//! | of redb-bench | of flodb |
//! |---|---|
//! | write transaction | a serializable transaction, synced if the benchmark asks for it |
//! | read transaction | a snapshot, `get_at` and `range_at` |
//! | `len` | a walk over all keys, as for RocksDB |
//! | `pop_first`, `pop_last` | a new range for each call, and a delete |
//! | `retain`, `extract_if` | keys are collected, then deleted, as for RocksDB and fjall |
//! | `compact` | `compact_range` of all keys |
//!
//! The writes of a transaction are one record of the log, which its segments limit. So a large
//! transaction is committed in parts, as for RocksDB, each with the durability of the whole.

use keyrack_flodb::{
    Db, Durability, Options, Range, Snapshot, Transaction, TransactionOptions, WriteOptions,
};
use redb_bench::*;
use std::mem;
use std::ops::Bound;
use std::path::Path;

/// Writes of a part of a large transaction. The same number as for RocksDB.
const WRITES_PER_PART: u64 = 100_000;

type Entry = (Vec<u8>, Vec<u8>);

pub struct FlodbBenchDatabase {
    db: Db,
}

impl FlodbBenchDatabase {
    /// A new store in `dir`, with the cache of the benchmark for memtables and blocks together.
    pub fn create(dir: &Path, cache_bytes: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let options = Options::new()
            .durability(Durability::Os)
            .memory_budget(cache_bytes)
            .segment_bytes(32 << 20)
            .compaction_threads(threads);
        Self { db: Db::open(dir, options).unwrap() }
    }
}

impl BenchDatabase for FlodbBenchDatabase {
    type C<'db> = FlodbBenchDatabaseConnection;

    fn db_type_name() -> &'static str {
        "flodb"
    }

    fn connect(&self) -> Self::C<'_> {
        FlodbBenchDatabaseConnection { db: self.db.clone(), sync: true }
    }

    fn compact(&mut self) -> bool {
        // It flushes the memtables first, as RocksDB's does.
        self.db.compact_range(None, None).unwrap();
        true
    }
}

pub struct FlodbBenchDatabaseConnection {
    db: Db,
    sync: bool,
}

impl BenchDatabaseConnection for FlodbBenchDatabaseConnection {
    type W<'db> = FlodbBenchWriteTransaction;
    type R<'db> = FlodbBenchReadTransaction;

    fn set_sync(&mut self, sync: bool) -> bool {
        self.sync = sync;
        true
    }

    fn write_transaction(&self) -> Self::W<'_> {
        let options = TransactionOptions {
            write: WriteOptions { sync: self.sync },
            ..TransactionOptions::default()
        };
        FlodbBenchWriteTransaction {
            txn: self.db.transaction_with(options),
            db: self.db.clone(),
            options,
            counter: 0,
        }
    }

    fn read_transaction(&self) -> Self::R<'_> {
        FlodbBenchReadTransaction { db: self.db.clone(), snapshot: self.db.snapshot() }
    }
}

pub struct FlodbBenchWriteTransaction {
    txn: Transaction,
    db: Db,
    options: TransactionOptions,
    counter: u64,
}

impl FlodbBenchWriteTransaction {
    /// Commits what there is, with the durability of the whole, and goes on with another.
    fn count_write(&mut self) -> Result<(), ()> {
        self.counter += 1;
        if self.counter == WRITES_PER_PART {
            let next = self.db.transaction_with(self.options);
            mem::replace(&mut self.txn, next).commit().map_err(|_| ())?;
            // The next one begins after the commit, or it would not see it.
            self.txn = self.db.transaction_with(self.options);
            self.counter = 0;
        }
        Ok(())
    }
}

impl BenchWriteTransaction for FlodbBenchWriteTransaction {
    type W<'txn> = FlodbBenchInserter<'txn>;

    fn get_inserter(&mut self) -> Self::W<'_> {
        FlodbBenchInserter { txn: self }
    }

    fn commit(self) -> Result<(), ()> {
        self.txn.commit().map_err(|_| ())
    }
}

pub struct FlodbBenchInserter<'txn> {
    txn: &'txn mut FlodbBenchWriteTransaction,
}

impl BenchInserter for FlodbBenchInserter<'_> {
    type Output<'out>
        = Vec<u8>
    where
        Self: 'out;
    type ExtractIfIterator<'out, F>
        = VecBenchIterator<Vec<u8>>
    where
        Self: 'out,
        F: for<'f> FnMut(&'f [u8], &'f [u8]) -> bool + 'out;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), ()> {
        self.txn.count_write()?;
        self.txn.txn.put(key, value).map_err(|_| ())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), ()> {
        self.txn.count_write()?;
        self.txn.txn.delete(key).map_err(|_| ())
    }

    fn pop_first(&mut self) -> BenchPopResult<'_, Self> {
        let entry = self.txn.txn.range(..).next().transpose().map_err(|_| ())?;
        if let Some((key, _)) = &entry {
            self.remove(key)?;
        }
        Ok(entry)
    }

    fn pop_last(&mut self) -> BenchPopResult<'_, Self> {
        let entry = self.txn.txn.range(..).next_back().transpose().map_err(|_| ())?;
        if let Some((key, _)) = &entry {
            self.remove(key)?;
        }
        Ok(entry)
    }

    fn retain<F: FnMut(&[u8], &[u8]) -> bool>(&mut self, mut predicate: F) -> Result<u64, ()> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        {
            let mut range = self.txn.txn.range(..);
            while let Some((k, v)) = range.next_entry().map_err(|_| ())? {
                if !predicate(k, v) {
                    keys.push(k.to_vec());
                }
            }
        }
        let count = keys.len() as u64;
        for key in &keys {
            self.remove(key)?;
        }
        Ok(count)
    }

    fn extract_if<'a, F>(
        &'a mut self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        mut predicate: F,
    ) -> BenchExtractIfResult<'a, Self, F>
    where
        F: for<'f> FnMut(&'f [u8], &'f [u8]) -> bool + 'a,
    {
        // Collected, then deleted: as for RocksDB and fjall.
        let mut entries: Vec<Entry> = Vec::new();
        {
            let mut range = self.txn.txn.range(range);
            while let Some((k, v)) = range.next_entry().map_err(|_| ())? {
                if predicate(k, v) {
                    entries.push((k.to_vec(), v.to_vec()));
                }
            }
        }
        for (key, _) in &entries {
            self.remove(key)?;
        }
        Ok(VecBenchIterator::new(entries))
    }
}

pub struct FlodbBenchReadTransaction {
    db: Db,
    snapshot: Snapshot,
}

impl BenchReadTransaction for FlodbBenchReadTransaction {
    type T<'txn> = FlodbBenchReader<'txn>;

    fn get_reader(&self) -> Self::T<'_> {
        FlodbBenchReader { db: &self.db, snapshot: &self.snapshot }
    }
}

pub struct FlodbBenchReader<'txn> {
    db: &'txn Db,
    snapshot: &'txn Snapshot,
}

impl BenchReader for FlodbBenchReader<'_> {
    type Output<'out>
        = Vec<u8>
    where
        Self: 'out;
    type Iterator<'out>
        = FlodbBenchIterator
    where
        Self: 'out;

    fn get<'a>(&'a mut self, key: &[u8]) -> Option<Self::Output<'a>> {
        self.db.get_at(self.snapshot, key, <[u8]>::to_vec).unwrap()
    }

    fn range_from<'a>(&'a mut self, start: &'a [u8]) -> Self::Iterator<'a> {
        FlodbBenchIterator { range: self.db.range_at(self.snapshot, start..) }
    }

    fn len(&mut self) -> u64 {
        let (mut range, mut len) = (self.db.range_at(self.snapshot, ..), 0);
        while range.next_entry().unwrap().is_some() {
            len += 1;
        }
        len
    }
}

pub struct FlodbBenchIterator {
    range: Range,
}

impl BenchIterator for FlodbBenchIterator {
    type Output<'out> = &'out [u8];

    fn next(&mut self) -> Option<(Self::Output<'_>, Self::Output<'_>)> {
        self.range.next_entry().unwrap()
    }
}
