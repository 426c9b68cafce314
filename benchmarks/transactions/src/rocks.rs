//! RocksDB by `OptimisticTransactionDB`.

use crate::engines::{CACHE_BYTES, Conflict, Engine, FILTER_BITS, MEMTABLE_BYTES, Txn};
use rocksdb::{
    BlockBasedOptions, Cache, ErrorKind, OptimisticTransactionDB, OptimisticTransactionOptions,
    WriteBatchWithTransaction, WriteOptions,
};
use std::path::Path;

pub struct Rocks(OptimisticTransactionDB);

thread_local! {
    /// Made once a thread: they cannot be shared, and are not to be made for each transaction.
    static OPTIONS: (WriteOptions, OptimisticTransactionOptions) =
        (WriteOptions::default(), OptimisticTransactionOptions::default());
}

impl Engine for Rocks {
    const NAME: &'static str = "rocksdb";
    const VERSION: &'static str = "rust-rocksdb 0.54.0, RocksDB 11.12.0, OptimisticTransactionDB";
    type Txn<'a> = rocksdb::Transaction<'a, OptimisticTransactionDB>;

    fn open(dir: &Path) -> Self {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(CACHE_BYTES, 0));
        blocks.set_bloom_filter(f64::from(FILTER_BITS), false);
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(MEMTABLE_BYTES);
        options.set_max_write_buffer_number(3);
        options.set_block_based_table_factory(&blocks);
        options.set_max_background_jobs(2);
        options.set_compression_type(rocksdb::DBCompressionType::Lz4);
        Rocks(OptimisticTransactionDB::open(&options, dir).unwrap())
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        OPTIONS.with(|(write, _)| self.0.put_opt(key, value, write).unwrap());
    }

    fn put_all(&self, entries: &[([u8; 16], [u8; 100])]) {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        self.0.write(&batch).unwrap();
    }

    fn settle(&self) {
        self.0.compact_range(None::<&[u8]>, None::<&[u8]>);
    }

    fn begin(&self) -> Self::Txn<'_> {
        // Without a snapshot: `get_for_update` reads the newest value and its commit fails if that
        // has changed. Cheaper than one with a snapshot, and serializable as well.
        OPTIONS.with(|(write, begin)| self.0.transaction_opt(write, begin))
    }
}

impl Txn for rocksdb::Transaction<'_, OptimisticTransactionDB> {
    fn get<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.get_pinned_for_update(key, false).unwrap().map(|value| visit(&value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        rocksdb::Transaction::put(self, key, value).unwrap();
    }

    fn commit(self) -> Result<(), Conflict> {
        match rocksdb::Transaction::commit(self) {
            Ok(()) => Ok(()),
            // TryAgain: the history of the memtables does not reach back far enough.
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Err(Conflict)
            }
            Err(error) => panic!("{error}"),
        }
    }
}
