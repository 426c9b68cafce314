//! The engines behind one trait: the same keys, values, memtable, cache, filter and durability (a
//! commit is in the page cache before it returns; nothing is synced).

use fjall::{OptimisticTxDatabase, OptimisticTxKeyspace, Readable as _};
use keyrack_flodb::{Db, Error as FlodbError, Options};
use std::path::Path;

pub const MEMTABLE_BYTES: usize = 64 << 20;
pub const CACHE_BYTES: usize = 512 << 20;
pub const FILTER_BITS: u32 = 10;

/// A transaction has not been committed: something that it has read has changed.
pub struct Conflict;

pub trait Engine: Sync + Sized {
    const NAME: &'static str;
    const VERSION: &'static str;
    type Txn<'a>: Txn
    where
        Self: 'a;
    fn open(dir: &Path) -> Self;
    /// A plain put, without a transaction.
    fn put(&self, key: &[u8], value: &[u8]);
    /// Many puts, to load.
    fn put_all(&self, entries: &[([u8; 16], [u8; 100])]);
    /// Flushes, and compacts all.
    fn settle(&self);
    fn begin(&self) -> Self::Txn<'_>;
}

pub trait Txn {
    /// A read that the commit validates. Lends the value.
    fn get<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Option<R>;
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn commit(self) -> Result<(), Conflict>;
}

pub struct Flodb(Db);

impl Engine for Flodb {
    const NAME: &'static str = "flodb";
    const VERSION: &'static str = "keyrack-flodb";
    type Txn<'a> = keyrack_flodb::Transaction;

    fn open(dir: &Path) -> Self {
        let options = Options::new()
            .memtable_bytes(MEMTABLE_BYTES)
            .cache_bytes(CACHE_BYTES)
            .filter_bits_per_key(FILTER_BITS)
            .compaction_threads(2);
        Flodb(Db::open(dir, options).unwrap())
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.put(key, value).unwrap();
    }

    fn put_all(&self, entries: &[([u8; 16], [u8; 100])]) {
        let mut batch = keyrack_flodb::Batch::new();
        for (key, value) in entries {
            batch.put(key, value);
        }
        self.0.write(&batch, keyrack_flodb::WriteOptions::default()).unwrap();
    }

    fn settle(&self) {
        self.0.compact_range(None, None).unwrap();
    }

    fn begin(&self) -> Self::Txn<'_> {
        // Serializable by default.
        self.0.transaction()
    }
}

impl Txn for keyrack_flodb::Transaction {
    fn get<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.get_with(key, visit).unwrap()
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        keyrack_flodb::Transaction::put(self, key, value).unwrap();
    }

    fn commit(self) -> Result<(), Conflict> {
        match keyrack_flodb::Transaction::commit(self) {
            Ok(()) => Ok(()),
            Err(FlodbError::Conflict { .. }) => Err(Conflict),
            Err(error) => panic!("{error}"),
        }
    }
}

pub struct Fjall {
    db: OptimisticTxDatabase,
    keyspace: OptimisticTxKeyspace,
}

impl Engine for Fjall {
    const NAME: &'static str = "fjall";
    const VERSION: &'static str = "fjall 3.1.13, OptimisticTxDatabase";
    type Txn<'a> = FjallTxn<'a>;

    fn open(dir: &Path) -> Self {
        let db = OptimisticTxDatabase::builder(dir)
            .cache_size(CACHE_BYTES as u64)
            .worker_threads(2)
            .open()
            .unwrap();
        let options = || {
            let policy = fjall::config::BloomConstructionPolicy::BitsPerKey(FILTER_BITS as f32);
            fjall::KeyspaceCreateOptions::default()
                .max_memtable_size(MEMTABLE_BYTES as u64)
                .filter_policy(fjall::config::FilterPolicy::all(
                    fjall::config::FilterPolicyEntry::Bloom(policy),
                ))
        };
        let keyspace = db.keyspace("bench", options).unwrap();
        Fjall { db, keyspace }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        // The keyspace without conflict detection: its plain put.
        self.keyspace.inner().insert(key, value).unwrap();
    }

    fn put_all(&self, entries: &[([u8; 16], [u8; 100])]) {
        let mut batch = self.db.inner().batch();
        for (key, value) in entries {
            batch.insert(self.keyspace.inner(), key, value);
        }
        batch.commit().unwrap();
    }

    fn settle(&self) {
        self.keyspace.inner().rotate_memtable_and_wait().unwrap();
        self.keyspace.inner().major_compact().unwrap();
    }

    fn begin(&self) -> Self::Txn<'_> {
        FjallTxn { txn: self.db.write_tx().unwrap(), keyspace: &self.keyspace }
    }
}

pub struct FjallTxn<'a> {
    txn: fjall::OptimisticWriteTx,
    keyspace: &'a OptimisticTxKeyspace,
}

impl Txn for FjallTxn<'_> {
    fn get<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.txn.get(self.keyspace, key).unwrap().map(|value| visit(&value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.txn.insert(self.keyspace, key, value);
    }

    fn commit(self) -> Result<(), Conflict> {
        self.txn.commit().unwrap().map_err(|fjall::Conflict| Conflict)
    }
}
