//! Options one by one: each method takes the options, and gives them with one set.
//!
//! What an option means, its unit and its default are said where the field is.

use super::Options;
use crate::compaction_filter::CompactionFilter;
use crate::compress::Compression;
use crate::event::EventListener;
use crate::expiry::Clock;
use crate::filter_policy::FilterPolicy;
use crate::key::Comparator;
use crate::merge::MergeOperator;
use crate::prefix_extractor::PrefixExtractor;
use keyrack_store::Durability;
use std::sync::Arc;

impl Options {
    /// Sets [`comparator`](field@Options::comparator).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options};
    /// let options = Options::new().comparator(Comparator::Bytewise);
    /// ```
    #[must_use]
    pub fn comparator(self, comparator: Comparator) -> Self {
        Options { comparator, ..self }
    }

    /// Sets [`create_if_missing`](field@Options::create_if_missing).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().create_if_missing(false);
    /// assert!(!options.create_if_missing);
    /// ```
    #[must_use]
    pub fn create_if_missing(self, create_if_missing: bool) -> Self {
        Options { create_if_missing, ..self }
    }

    /// Sets [`error_if_exists`](field@Options::error_if_exists).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().error_if_exists(true);
    /// assert!(options.error_if_exists);
    /// ```
    #[must_use]
    pub fn error_if_exists(self, error_if_exists: bool) -> Self {
        Options { error_if_exists, ..self }
    }

    /// Sets [`durability`](field@Options::durability).
    ///
    /// ```
    /// # use keyrack_flodb::{Durability, Options};
    /// let options = Options::new().durability(Durability::Sync);
    /// assert_eq!(options.durability, Durability::Sync);
    /// ```
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Options { durability, ..self }
    }

    /// Sets [`memory_budget`](field@Options::memory_budget).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().memory_budget(256 << 20);
    /// assert_eq!(options.memory_budget, Some(256 << 20));
    /// ```
    #[must_use]
    pub fn memory_budget(self, memory_budget: usize) -> Self {
        Options { memory_budget: Some(memory_budget), ..self }
    }

    /// Sets [`memtable_bytes`](field@Options::memtable_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().memtable_bytes(16 << 20);
    /// assert_eq!(options.memtable_bytes, 16 << 20);
    /// ```
    #[must_use]
    pub fn memtable_bytes(self, memtable_bytes: usize) -> Self {
        Options { memtable_bytes, ..self }
    }

    /// Sets [`immutable_memtables_max`](field@Options::immutable_memtables_max).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().immutable_memtables_max(4);
    /// assert_eq!(options.immutable_memtables_max, 4);
    /// ```
    #[must_use]
    pub fn immutable_memtables_max(self, immutable_memtables_max: usize) -> Self {
        Options { immutable_memtables_max, ..self }
    }

    /// Sets [`unordered_max`](field@Options::unordered_max).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().unordered_max(16 << 10);
    /// assert_eq!(options.unordered_max, 16 << 10);
    /// ```
    #[must_use]
    pub fn unordered_max(self, unordered_max: usize) -> Self {
        Options { unordered_max, ..self }
    }

    /// Sets [`hash_level`](field@Options::hash_level).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().hash_level(false);
    /// assert!(!options.hash_level);
    /// ```
    #[must_use]
    pub fn hash_level(self, hash_level: bool) -> Self {
        Options { hash_level, ..self }
    }

    /// Sets [`segment_bytes`](field@Options::segment_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().segment_bytes(64 << 20);
    /// assert_eq!(options.segment_bytes, 64 << 20);
    /// ```
    #[must_use]
    pub fn segment_bytes(self, segment_bytes: u64) -> Self {
        Options { segment_bytes, ..self }
    }

    /// Sets [`log_retention_bytes`](field@Options::log_retention_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().log_retention_bytes(1 << 30);
    /// assert_eq!(options.log_retention_bytes, 1 << 30);
    /// ```
    #[must_use]
    pub fn log_retention_bytes(self, log_retention_bytes: u64) -> Self {
        Options { log_retention_bytes, ..self }
    }

    /// Sets [`log_retention_seconds`](field@Options::log_retention_seconds).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().log_retention_seconds(24 * 3600);
    /// assert_eq!(options.log_retention_seconds, 86_400);
    /// ```
    #[must_use]
    pub fn log_retention_seconds(self, log_retention_seconds: u64) -> Self {
        Options { log_retention_seconds, ..self }
    }

    /// Sets [`feed_hold_bytes`](field@Options::feed_hold_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().feed_hold_bytes(1 << 30);
    /// assert_eq!(options.feed_hold_bytes, 1 << 30);
    /// ```
    #[must_use]
    pub fn feed_hold_bytes(self, feed_hold_bytes: u64) -> Self {
        Options { feed_hold_bytes, ..self }
    }

    /// Sets [`block_bytes`](field@Options::block_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().block_bytes(16 << 10);
    /// assert_eq!(options.block_bytes, 16 << 10);
    /// ```
    #[must_use]
    pub fn block_bytes(self, block_bytes: usize) -> Self {
        Options { block_bytes, ..self }
    }

    /// Sets [`restart_interval`](field@Options::restart_interval).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().restart_interval(8);
    /// assert_eq!(options.restart_interval, 8);
    /// ```
    #[must_use]
    pub fn restart_interval(self, restart_interval: usize) -> Self {
        Options { restart_interval, ..self }
    }

    /// Sets [`compression`](field@Options::compression).
    ///
    /// ```
    /// # use keyrack_flodb::{Compression, Options};
    /// let options = Options::new().compression([Compression::None, Compression::Lz4]);
    /// assert_eq!(options.compression.len(), 2);
    /// ```
    #[must_use]
    pub fn compression(self, compression: impl Into<Vec<Compression>>) -> Self {
        Options { compression: compression.into(), ..self }
    }

    /// Sets [`blob_bytes_min`](field@Options::blob_bytes_min).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().blob_bytes_min(16 << 10);
    /// assert_eq!(options.blob_bytes_min, 16 << 10);
    /// ```
    #[must_use]
    pub fn blob_bytes_min(self, blob_bytes_min: usize) -> Self {
        Options { blob_bytes_min, ..self }
    }

    /// Sets [`filter_bits_per_key`](field@Options::filter_bits_per_key).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().filter_bits_per_key(14);
    /// assert_eq!(options.filter_bits_per_key, 14);
    /// ```
    #[must_use]
    pub fn filter_bits_per_key(self, filter_bits_per_key: u32) -> Self {
        Options { filter_bits_per_key, ..self }
    }

    /// Sets [`filter_policy`](field@Options::filter_policy).
    ///
    /// ```
    /// # use keyrack_flodb::{FilterPolicy, Options};
    /// let options = Options::new().filter_policy(FilterPolicy::Bloom);
    /// ```
    #[must_use]
    pub fn filter_policy(self, filter_policy: FilterPolicy) -> Self {
        Options { filter_policy, ..self }
    }

    /// Sets [`prefix_extractor`](field@Options::prefix_extractor).
    ///
    /// ```
    /// # use keyrack_flodb::{Options, PrefixExtractor};
    /// let options = Options::new().prefix_extractor(PrefixExtractor::Fixed(8));
    /// assert!(options.prefix_extractor.is_some());
    /// ```
    #[must_use]
    pub fn prefix_extractor(self, prefix_extractor: PrefixExtractor) -> Self {
        Options { prefix_extractor: Some(prefix_extractor), ..self }
    }

    /// Sets [`cache_bytes`](field@Options::cache_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().cache_bytes(128 << 20);
    /// assert_eq!(options.cache_bytes, 128 << 20);
    /// ```
    #[must_use]
    pub fn cache_bytes(self, cache_bytes: usize) -> Self {
        Options { cache_bytes, ..self }
    }

    /// Sets [`table_files_max`](field@Options::table_files_max).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().table_files_max(1_000);
    /// assert_eq!(options.table_files_max, 1_000);
    /// ```
    #[must_use]
    pub fn table_files_max(self, table_files_max: usize) -> Self {
        Options { table_files_max, ..self }
    }

    /// Sets [`table_bytes`](field@Options::table_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().table_bytes(64 << 20);
    /// assert_eq!(options.table_bytes, 64 << 20);
    /// ```
    #[must_use]
    pub fn table_bytes(self, table_bytes: u64) -> Self {
        Options { table_bytes, ..self }
    }

    /// Sets [`level0_tables`](field@Options::level0_tables).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().level0_tables(2);
    /// assert_eq!(options.level0_tables, 2);
    /// ```
    #[must_use]
    pub fn level0_tables(self, level0_tables: usize) -> Self {
        Options { level0_tables, ..self }
    }

    /// Sets [`level0_slow`](field@Options::level0_slow).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().level0_slow(20);
    /// assert_eq!(options.level0_slow, 20);
    /// ```
    #[must_use]
    pub fn level0_slow(self, level0_slow: usize) -> Self {
        Options { level0_slow, ..self }
    }

    /// Sets [`level0_stop`](field@Options::level0_stop).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().level0_stop(40);
    /// assert_eq!(options.level0_stop, 40);
    /// ```
    #[must_use]
    pub fn level0_stop(self, level0_stop: usize) -> Self {
        Options { level0_stop, ..self }
    }

    /// Sets [`level_base_bytes`](field@Options::level_base_bytes).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().level_base_bytes(64 << 20);
    /// assert_eq!(options.level_base_bytes, 64 << 20);
    /// ```
    #[must_use]
    pub fn level_base_bytes(self, level_base_bytes: u64) -> Self {
        Options { level_base_bytes, ..self }
    }

    /// Sets [`table_bytes_per_second`](field@Options::table_bytes_per_second).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().table_bytes_per_second(100 << 20);
    /// assert_eq!(options.table_bytes_per_second, 100 << 20);
    /// ```
    #[must_use]
    pub fn table_bytes_per_second(self, table_bytes_per_second: u64) -> Self {
        Options { table_bytes_per_second, ..self }
    }

    /// Sets [`compaction_threads`](field@Options::compaction_threads).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().compaction_threads(2);
    /// assert_eq!(options.compaction_threads, 2);
    /// ```
    #[must_use]
    pub fn compaction_threads(self, compaction_threads: usize) -> Self {
        Options { compaction_threads, ..self }
    }

    /// Sets [`paranoid_checks`](field@Options::paranoid_checks).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().paranoid_checks(true);
    /// assert!(options.paranoid_checks);
    /// ```
    #[must_use]
    pub fn paranoid_checks(self, paranoid_checks: bool) -> Self {
        Options { paranoid_checks, ..self }
    }

    /// Sets [`discards_memtables`](field@Options::discards_memtables).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().discards_memtables(true);
    /// assert!(options.discards_memtables);
    /// ```
    #[must_use]
    pub fn discards_memtables(self, discards_memtables: bool) -> Self {
        Options { discards_memtables, ..self }
    }

    /// Sets [`merge_operator`](field@Options::merge_operator).
    ///
    /// ```
    /// # use keyrack_flodb::{Counter, Options};
    /// let options = Options::new().merge_operator(Counter);
    /// assert!(options.merge_operator.is_some());
    /// ```
    #[must_use]
    pub fn merge_operator(self, operator: impl MergeOperator + 'static) -> Self {
        Options { merge_operator: Some(Arc::new(operator)), ..self }
    }

    /// Sets [`compaction_filter`](field@Options::compaction_filter).
    ///
    /// ```
    /// use keyrack_flodb::{CompactionFilter, Db, Decision, Options};
    ///
    /// struct Tenants;
    ///
    /// impl CompactionFilter for Tenants {
    ///     fn name(&self) -> &str {
    ///         "tenants"
    ///     }
    ///
    ///     fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> Decision {
    ///         match key.first() {
    ///             // Gone for good.
    ///             Some(b'a') => Decision::Remove,
    ///             Some(b'b') => Decision::Change(value.to_ascii_uppercase()),
    ///             _ => Decision::Keep,
    ///         }
    ///     }
    /// }
    ///
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new().compaction_filter(Tenants))?;
    /// db.put(b"a/1", b"one")?;
    /// db.put(b"b/1", b"one")?;
    /// db.compact_range(None, None)?;
    /// assert_eq!(db.get(b"a/1")?, None);
    /// assert_eq!(db.get(b"b/1")?, Some(b"ONE".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn compaction_filter(self, filter: impl CompactionFilter + 'static) -> Self {
        Options { compaction_filter: Some(Arc::new(filter)), ..self }
    }

    /// Sets [`clock`](field@Options::clock).
    ///
    /// ```
    /// use keyrack_flodb::{Clock, Db, Options};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    ///
    /// // A clock that a test moves.
    /// let now_ms = Arc::new(AtomicU64::new(1_000));
    /// let of_store = Arc::clone(&now_ms);
    /// let clock = Clock::Custom(Arc::new(move || of_store.load(Ordering::Relaxed)));
    /// # let fs = Arc::new(keyrack_vfs::MemFs::new());
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new().clock(clock))?;
    /// db.put_with_ttl(b"key", b"value", Duration::from_secs(60))?;
    /// now_ms.store(61_000, Ordering::Relaxed);
    /// assert_eq!(db.get(b"key")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        Options { clock, ..self }
    }

    /// Sets [`listener`](field@Options::listener).
    ///
    /// ```
    /// use keyrack_flodb::{Db, Event, Options};
    ///
    /// let listener = |event: &Event| match event {
    ///     Event::WriteStall { stall, .. } => eprintln!("write stall: {stall:?}"),
    ///     Event::BackgroundErrorRaised { error, .. } => eprintln!("no more writes: {error}"),
    ///     _ => {}
    /// };
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new().listener(listener))?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn listener(self, listener: impl EventListener + 'static) -> Self {
        Options { listener: Some(Arc::new(listener)), ..self }
    }

    /// Sets [`counts_reads`](field@Options::counts_reads).
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().counts_reads(true);
    /// assert!(options.counts_reads);
    /// ```
    #[must_use]
    pub fn counts_reads(self, counts_reads: bool) -> Self {
        Options { counts_reads, ..self }
    }
}
