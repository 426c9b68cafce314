//! Options of a database.
//!
//! | option | here |
//! |---|---|
//! | `comparator`, `filter_policy`, `create_if_missing`, `error_if_exists`, `paranoid_checks` | as in LevelDB |
//! | `write_buffer_size`, `max_open_files`, `block_size`, `max_file_size` | `flodb`'s option, within LevelDB's bounds; what was not set is `flodb`'s default |
//! | `block_restart_interval` | `flodb`'s option, at least 1 |
//! | `cache` | its capacity, for each database that is opened with it |
//! | `compression` | 0 is none; anything else is what `flodb` has by default |
//! | `env`, `info_log` | without effect |
//!
//! A setter that gets a null pointer in place of the options does nothing.

use crate::comparator::{Comparator, Order, Rule, store_order};
use crate::filter::{FilterPolicy, Filters, SharedRule};
use crate::lifetime::Use;
use crate::status::Failure;
use crate::utility::{Cache, Env, Logger};
use keyrack_ffi::{destroy, give};
use keyrack_flodb::{Compression, FilterPolicy as StoreFilters, Options as StoreOptions};
use std::ffi::c_int;
use std::sync::Arc;

/// Tables are not compressed.
#[expect(non_upper_case_globals, reason = "the name in LevelDB's interface")]
pub const leveldb_no_compression: c_int = 0;
/// Tables are compressed: here as `flodb` does it by default, with LZ4.
#[expect(non_upper_case_globals, reason = "the name in LevelDB's interface")]
pub const leveldb_snappy_compression: c_int = 1;

/// Bytes of records in a segment of the log, at least and at most. No batch is larger. A segment
/// takes space on disk only as far as it is written.
const SEGMENT_BYTES_MIN: u64 = 64 << 20;
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// How many times as large as the memtable a segment is: callers with large batches make it large.
const SEGMENT_MEMTABLES: u64 = 4;

/// Options that a database is opened, repaired or destroyed with.
#[derive(Debug)]
pub struct Options {
    rule: Option<Arc<Rule>>,
    filters: Option<Filters>,
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    paranoid_checks: bool,
    write_buffer_size: Option<usize>,
    max_open_files: Option<c_int>,
    cache_bytes: Option<usize>,
    block_size: Option<usize>,
    block_restart_interval: Option<c_int>,
    max_file_size: Option<usize>,
    compression: c_int,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rule: None,
            filters: None,
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            write_buffer_size: None,
            max_open_files: None,
            cache_bytes: None,
            block_size: None,
            block_restart_interval: None,
            max_file_size: None,
            compression: leveldb_snappy_compression,
        }
    }
}

impl Options {
    /// The order of the caller's, new for each database; `None` for that of bytes.
    ///
    /// # Errors
    /// The comparator lacks a function.
    pub(crate) fn order(&self) -> Result<Option<Arc<Order>>, Failure> {
        if let Some(rule) = &self.rule {
            rule.check()?;
        }
        Ok(self.rule.as_ref().map(Order::new))
    }

    /// Keeps what the caller gave for the time that a database is open.
    ///
    /// # Errors
    /// The comparator or the filter policy was destroyed.
    pub(crate) fn keep(&self) -> Result<Vec<Use>, Failure> {
        let order = self.rule.as_ref().map(|rule| &rule.state);
        let filters = self.filters.as_ref().and_then(|filters| match filters {
            Filters::Custom(rule) => Some(&rule.state),
            Filters::Bloom { .. } => None,
        });
        order.into_iter().chain(filters).map(|state| state.keep()).collect()
    }

    /// The name of the order here.
    pub(crate) fn order_name(&self) -> &str {
        self.rule.as_ref().map_or("leveldb.BytewiseComparator", |rule| rule.name())
    }

    /// As `flodb` takes them, with an order from [`Options::order`].
    pub(crate) fn of_store(&self, order: Option<&Arc<Order>>) -> StoreOptions {
        let mut options = StoreOptions {
            comparator: store_order(order),
            create_if_missing: self.create_if_missing,
            error_if_exists: self.error_if_exists,
            paranoid_checks: self.paranoid_checks,
            segment_bytes: SEGMENT_BYTES_MIN,
            ..StoreOptions::default()
        };
        match &self.filters {
            None => {}
            Some(Filters::Bloom { bits_per_key }) => options.filter_bits_per_key = *bits_per_key,
            Some(Filters::Custom(rule)) => {
                let rule = Arc::new(SharedRule(Arc::clone(rule)));
                options.filter_policy = StoreFilters::Custom(rule);
            }
        }
        if let Some(bytes) = self.write_buffer_size {
            options.memtable_bytes = bytes.clamp(64 << 10, 1 << 30);
            let segment = SEGMENT_MEMTABLES.saturating_mul(options.memtable_bytes as u64);
            options.segment_bytes =
                segment.next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        }
        if let Some(files) = self.max_open_files {
            // Of the first ten LevelDB uses none for tables.
            options.table_files_max = files.clamp(74, 50_000).unsigned_abs() as usize - 10;
        }
        if let Some(bytes) = self.cache_bytes {
            options.cache_bytes = bytes;
        }
        if let Some(bytes) = self.block_size {
            options.block_bytes = bytes.clamp(1 << 10, 4 << 20);
        }
        if let Some(entries) = self.block_restart_interval {
            options.restart_interval = entries.max(1).unsigned_abs() as usize;
        }
        if let Some(bytes) = self.max_file_size {
            options.table_bytes = bytes.clamp(1 << 20, 1 << 30) as u64;
        }
        if self.compression == leveldb_no_compression {
            options.compression = vec![Compression::None];
        }
        options
    }
}

/// Makes options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> *mut Options {
    give(Options::default())
}

/// Frees options. Databases that were opened with them go on.
///
/// # Safety
/// `options` is null or from [`leveldb_options_create`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_destroy(options: *mut Options) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(options) });
}

/// The order of keys; null for that of bytes.
///
/// # Safety
/// Both are null or handles; no other thread uses the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_comparator(
    options: *mut Options,
    comparator: *mut Comparator,
) {
    // SAFETY: the caller promises the same.
    let rule = unsafe { comparator.as_ref() }.map(|comparator| Arc::clone(&comparator.rule));
    // SAFETY: as above.
    unsafe { set(options, |options| options.rule = rule) };
}

/// Which filters tables get; null for the Bloom filters that tables have by default.
///
/// # Safety
/// Both are null or handles; no other thread uses the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_filter_policy(
    options: *mut Options,
    policy: *mut FilterPolicy,
) {
    // SAFETY: the caller promises the same.
    let filters = unsafe { policy.as_ref() }.map(|policy| policy.filters.clone());
    // SAFETY: as above.
    unsafe { set(options, |options| options.filters = filters) };
}

/// How many blocks are kept in memory, in the bytes of a cache; null for the default.
///
/// # Safety
/// Both are null or handles; no other thread uses the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache) {
    // SAFETY: the caller promises the same.
    let bytes = unsafe { cache.as_ref() }.map(|cache| cache.capacity_bytes);
    // SAFETY: as above.
    unsafe { set(options, |options| options.cache_bytes = bytes) };
}

/// Has no effect: files are those of the system.
///
/// # Safety
/// None is needed: nothing is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_env(_options: *mut Options, _env: *mut Env) {}

/// Has no effect: nothing is logged.
///
/// # Safety
/// None is needed: nothing is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_info_log(_options: *mut Options, _log: *mut Logger) {}

/// Sets what a handle of options holds.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
pub(crate) unsafe fn set<T>(options: *mut T, change: impl FnOnce(&mut T)) {
    // SAFETY: as the caller promises, it is null or a handle of this thread's.
    if let Some(options) = unsafe { options.as_mut() } {
        change(options);
    }
}

/// Whether a database is made where there is none: no.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_create_if_missing(options: *mut Options, value: u8) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.create_if_missing = value != 0) };
}

/// Whether a database that is there is refused: no.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_error_if_exists(options: *mut Options, value: u8) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.error_if_exists = value != 0) };
}

/// Whether all tables are read and checked when the database is opened, and when they are written:
/// no. Blocks are checked when they are read in any case.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_paranoid_checks(options: *mut Options, value: u8) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.paranoid_checks = value != 0) };
}

/// Bytes of a memtable, 64 KiB to 1 GiB.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_write_buffer_size(
    options: *mut Options,
    value: usize,
) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.write_buffer_size = Some(value)) };
}

/// Files that are open at once, 74 to 50,000.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_open_files(options: *mut Options, value: c_int) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.max_open_files = Some(value)) };
}

/// Bytes of a block of a table, 1 KiB to 4 MiB.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_size(options: *mut Options, value: usize) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.block_size = Some(value)) };
}

/// Keys in a block from one that is stored whole to the next, at least 1.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_restart_interval(
    options: *mut Options,
    value: c_int,
) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.block_restart_interval = Some(value)) };
}

/// Bytes of a table, 1 MiB to 1 GiB.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_file_size(options: *mut Options, value: usize) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.max_file_size = Some(value)) };
}

/// 0 for tables without compression; for anything else they are compressed by LZ4.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_compression(options: *mut Options, value: c_int) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.compression = value) };
}
