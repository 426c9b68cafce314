//! TidesDB's options, a closed set, and its statistics.
//!
//! What all log-structured engines have goes by the names of [`crate::common`]; the rest by those
//! of TidesDB 10, without the `memtable_` that some begin with. [`OWN_NAMES`] has TidesDB's names
//! of the former, and the longer ones of the latter, so that a section written for TidesDB works as
//! it is. An option under both of its names is refused.
//!
//! | option | in TidesDB's words |
//! |---|---|
//! | `memory_bytes`, `cache_bytes` | `memtable_write_buffer_size`, `block_cache_size`; there is no doing without a cache |
//! | `filter_bits` | `enable_bloom_filter` and `bloom_fpr`, which is 0.6185 to the power of the bits |
//! | `compression` | the encoding of all tables and of large values; this build of TidesDB knows `none` |
//! | `durability` | `memtable_sync_mode` |
//! | `threads` | `num_compaction_threads` |

use crate::common::{self, Common};
use crate::contract::option;
use ::tidesdb::{
    ColumnFamilyConfig, CompressionAlgorithm, Config, IsolationLevel, LogLevel, SyncMode, TidesDB,
};
use keyrack_store::{Durability, EngineOption, Error, OpenOptions, Result};
use std::path::Path;

pub(super) const OPTIONS: &[EngineOption] = &[
    common::MEMORY_BYTES,
    common::CACHE_BYTES,
    common::FILTER_BITS,
    option(
        "compression",
        "none",
        "of all tables: none, snappy, lz4, lz4_fast or zstd, as it was built",
    ),
    common::DURABILITY,
    common::THREADS,
    option("num_flush_threads", "2", "threads that write out memory tables"),
    option("max_open_sstables", "1024", "tables whose files are open at once"),
    option("log_level", "none", "what it says on standard error: none, trace, info, warn, error"),
    option("skip_list_max_level", "12", "levels of a memory table's skip list"),
    option("skip_list_probability", "0.25", "of a node to be in the next level too"),
    option(
        "l0_queue_stall_threshold",
        "16",
        "memory tables that wait before writers do; 0 for never",
    ),
    option(
        "idle_flush_seconds",
        "30",
        "after which an idle memory table is written out; 0 for never",
    ),
    option("txn_timeout_seconds", "0", "after which a transaction is ended; 0 for never"),
    option("value_separation_threshold", "1K", "bytes from which a value is in the log of values"),
    option("vlog_segment_size", "256M", "bytes of a file of the log of values"),
    option("level_size_ratio", "10", "how many times larger each level is"),
    option("min_levels", "1", "levels that there are at least"),
    option("dividing_level_offset", "1", "how far above the largest level the dividing level is"),
    option("keep_values_inline", "no", "whether all values stay with their keys"),
    option("btree_klog_block_size", "4K", "bytes of a node of a table"),
    option(
        "isolation",
        "read_committed",
        "of writes: read_uncommitted, read_committed, repeatable_read, snapshot, serializable",
    ),
    option("l1_file_count_trigger", "4", "tables of level 1 from which they are merged"),
    option("tombstone_density_trigger", "0.5", "share of tombstones from which a table is merged"),
    option("tombstone_density_min_entries", "4K", "entries from which that share counts"),
    option("enable_bloom_filter", "", "TidesDB's: 0 is filter_bits = 0"),
    option("bloom_fpr", "", "TidesDB's: share of false positives, instead of filter_bits"),
    option("sync_mode", "", "TidesDB's: none, interval or full, for durability none, os and sync"),
    option("write_buffer_size", "", "TidesDB's name of memory_bytes"),
    option("memtable_write_buffer_size", "", "TidesDB's name of memory_bytes"),
    option("block_cache_size", "", "TidesDB's name of cache_bytes"),
    option("num_compaction_threads", "", "TidesDB's name of threads"),
    option("default_isolation_level", "", "TidesDB's name of isolation"),
    option("memtable_sync_mode", "", "TidesDB's name of sync_mode"),
    option("memtable_skip_list_max_level", "", "TidesDB's name of skip_list_max_level"),
    option("memtable_skip_list_probability", "", "TidesDB's name of skip_list_probability"),
    option("memtable_l0_queue_stall_threshold", "", "TidesDB's name of l0_queue_stall_threshold"),
    option("memtable_idle_flush_seconds", "", "TidesDB's name of idle_flush_seconds"),
];

/// Names that TidesDB has for options, and ours.
const OWN_NAMES: &[(&str, &str)] = &[
    ("write_buffer_size", "memory_bytes"),
    ("memtable_write_buffer_size", "memory_bytes"),
    ("block_cache_size", "cache_bytes"),
    ("num_compaction_threads", "threads"),
    ("default_isolation_level", "isolation"),
    ("memtable_sync_mode", "sync_mode"),
    ("memtable_skip_list_max_level", "skip_list_max_level"),
    ("memtable_skip_list_probability", "skip_list_probability"),
    ("memtable_l0_queue_stall_threshold", "l0_queue_stall_threshold"),
    ("memtable_idle_flush_seconds", "idle_flush_seconds"),
];

/// Durability by the names of TidesDB's modes. Its interval is a second, after which what was
/// written survives a power loss; until then it survives the process.
const SYNC_MODES: &[(&str, &str)] = &[("none", "none"), ("interval", "os"), ("full", "sync")];

/// The same options under our names.
///
/// # Errors
/// [`Error::Usage`] where one is given under two names, or a mode is none of TidesDB's.
pub(super) fn in_our_names(options: &OpenOptions) -> Result<OpenOptions> {
    let mut renamed: Vec<(String, String)> = Vec::new();
    for (key, value) in &options.options {
        let ours = OWN_NAMES.iter().find(|(own, _)| own == key).map_or(key.as_str(), |row| row.1);
        let (ours, value) = match ours {
            "sync_mode" => ("durability", chosen_of("sync_mode", value, SYNC_MODES)?.to_owned()),
            other => (other, value.clone()),
        };
        let other = options
            .options
            .iter()
            .zip(&renamed)
            .find(|((other, _), (name, _))| name == ours && other != key);
        if let Some(((other, _), _)) = other {
            return Err(Error::usage(format!("{key}: is the same option as {other}, give one")));
        }
        renamed.push((ours.to_owned(), value));
    }
    Ok(OpenOptions { options: renamed, ..options.clone() })
}

const COMPRESSIONS: &[(&str, CompressionAlgorithm)] = &[
    ("none", CompressionAlgorithm::None),
    ("snappy", CompressionAlgorithm::Snappy),
    ("lz4", CompressionAlgorithm::Lz4),
    ("lz4_fast", CompressionAlgorithm::Lz4Fast),
    ("zstd", CompressionAlgorithm::Zstd),
];
const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("none", LogLevel::None),
    ("trace", LogLevel::Trace),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
];
const ISOLATIONS: &[(&str, IsolationLevel)] = &[
    ("read_uncommitted", IsolationLevel::ReadUncommitted),
    ("read_committed", IsolationLevel::ReadCommitted),
    ("repeatable_read", IsolationLevel::RepeatableRead),
    ("snapshot", IsolationLevel::Snapshot),
    ("serializable", IsolationLevel::Serializable),
];

/// An interval of syncs that does not come: a year.
const NEVER_US: u64 = 365 * 86_400 * 1_000_000;
/// How much a bit for each key lowers the share of false positives.
const FILTER_BIT: f64 = 0.618_5;

/// The settings of the database, those of its column family, and how its writes are isolated.
///
/// # Errors
/// [`Error::Usage`] that names the option and its value.
pub(super) fn read(
    options: &OpenOptions,
    durability: Durability,
    data_dir: &Path,
) -> Result<(Config, ColumnFamilyConfig, IsolationLevel)> {
    let common = Common::read(options)?;
    if data_dir.to_str().is_none() {
        let place = data_dir.display();
        return Err(Error::usage(format!("'{place}' is not UTF-8, which tidesdb asks for")));
    }
    if common.cache_bytes == 0 {
        return Err(Error::usage("cache_bytes: 0: tidesdb has no way without a cache"));
    }
    let compression = compression(options)?;
    let mode = match durability {
        Durability::None => SyncMode::None,
        Durability::Os | Durability::Interval(_) => SyncMode::Interval,
        Durability::Sync => SyncMode::Full,
    };
    let database = Config::new(data_dir)
        .memtable_write_buffer_size(common.memory_bytes)
        .block_cache_size(common.cache_bytes)
        .num_compaction_threads(common.threads.into())
        .num_flush_threads(count(options, "num_flush_threads", 1)?)
        .max_open_sstables(count(options, "max_open_sstables", 1)? as usize)
        .log_level(chosen(options, "log_level", LOG_LEVELS)?)
        .memtable_skip_list_max_level(count(options, "skip_list_max_level", 1)?)
        .memtable_skip_list_probability(share(options, "skip_list_probability")? as f32)
        .memtable_sync_mode(mode)
        .memtable_sync_interval_us(NEVER_US)
        .memtable_l0_queue_stall_threshold(count(options, "l0_queue_stall_threshold", 0)?)
        .memtable_idle_flush_seconds(count(options, "idle_flush_seconds", 0)?)
        .txn_timeout_seconds(count(options, "txn_timeout_seconds", 0)?.into())
        .value_separation_threshold(bytes(options, "value_separation_threshold", 1)?)
        .vlog_segment_size(bytes(options, "vlog_segment_size", 1 << 20)?);
    let has_filter = common.filter_bits > 0 && options.flag("enable_bloom_filter", true)?;
    let pipeline = match compression {
        CompressionAlgorithm::None => Vec::new(),
        other => vec![other],
    };
    let mut family = ColumnFamilyConfig::new()
        .level_size_ratio(count(options, "level_size_ratio", 2)? as usize)
        .min_levels(count(options, "min_levels", 1)?)
        .dividing_level_offset(count(options, "dividing_level_offset", 0)?)
        .keep_values_inline(options.flag("keep_values_inline", false)?)
        .btree_klog_block_size(bytes(options, "btree_klog_block_size", 512)?)
        .encoding_pipeline(pipeline)
        .enable_bloom_filter(has_filter)
        .l1_file_count_trigger(count(options, "l1_file_count_trigger", 1)?)
        .tombstone_density_trigger(share(options, "tombstone_density_trigger")?)
        .tombstone_density_min_entries(bytes(options, "tombstone_density_min_entries", 0)? as u64);
    if has_filter {
        family = family.bloom_fpr(match options.text("bloom_fpr") {
            Some(_) => share(options, "bloom_fpr")?,
            None => FILTER_BIT.powi(common.filter_bits.into()),
        });
    }
    Ok((database, family, chosen(options, "isolation", ISOLATIONS)?))
}

/// How blocks are compressed, if TidesDB was built with it.
fn compression(options: &OpenOptions) -> Result<CompressionAlgorithm> {
    let compression = chosen(options, "compression", COMPRESSIONS)?;
    if compression.is_available() {
        return Ok(compression);
    }
    let available = COMPRESSIONS.iter().filter(|(_, algorithm)| algorithm.is_available());
    let built: Vec<&str> = available.map(|(name, _)| *name).collect();
    let wanted = options.text("compression").unwrap_or_default();
    Err(Error::usage(format!(
        "compression: '{wanted}' was not built into tidesdb (has: {})",
        built.join(", ")
    )))
}

/// The text of an option, or its default.
fn text<'a>(options: &'a OpenOptions, key: &str) -> &'a str {
    let default = OPTIONS.iter().find(|row| row.key == key).map_or("", |row| row.default);
    options.text(key).unwrap_or(default).trim()
}

fn chosen<T: Copy>(options: &OpenOptions, key: &str, known: &[(&str, T)]) -> Result<T> {
    chosen_of(key, text(options, key), known)
}

fn chosen_of<T: Copy>(key: &str, wanted: &str, known: &[(&str, T)]) -> Result<T> {
    known.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Error::usage(format!("{key}: '{wanted}' is not one of {}", names.join(", ")))
    })
}

/// A number that fits into an `int`, at least `least`.
fn count(options: &OpenOptions, key: &str, least: i32) -> Result<i32> {
    let value = size(options, key)?;
    i32::try_from(value).ok().filter(|value| *value >= least).ok_or_else(|| {
        Error::usage(format!("{key}: {value} is not between {least} and {}", i32::MAX))
    })
}

fn bytes(options: &OpenOptions, key: &str, least: u64) -> Result<usize> {
    let value = size(options, key)?;
    let most = usize::MAX as u64 / 4;
    if (least..=most).contains(&value) {
        return Ok(value as usize);
    }
    Err(Error::usage(format!("{key}: {value} is not between {least} and {most}")))
}

fn size(options: &OpenOptions, key: &str) -> Result<u64> {
    // Its default is one that can be read; a test says so.
    let default = keyrack_store::parse_size(text(&OpenOptions::in_memory(options.fs.clone()), key));
    options.size(key, default.unwrap_or(0))
}

/// A number from 0 to 1.
fn share(options: &OpenOptions, key: &str) -> Result<f64> {
    let text = text(options, key);
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| Error::usage(format!("{key}: '{text}' is not between 0 and 1")))
}

/// Gives the numbers to `visit`; what TidesDB does not tell is left out.
pub(super) fn stats(database: &TidesDB, family: &str, visit: &mut dyn FnMut(&str, f64)) {
    if let Ok(stats) = database.get_column_family(family).and_then(|family| family.get_stats()) {
        visit("keys", stats.total_keys as f64);
        visit("levels", f64::from(stats.num_levels));
        visit("data_bytes", stats.total_data_size as f64);
        visit("avg_key_size", stats.avg_key_size);
        visit("avg_value_size", stats.avg_value_size);
        visit("read_amp", stats.read_amp);
        visit("tombstones", stats.total_tombstones as f64);
        visit("tombstone_ratio", stats.tombstone_ratio);
        let levels = stats.level_num_sstables.iter().zip(&stats.level_sizes);
        for ((tables, bytes), level) in levels.zip(1..) {
            visit(&format!("level{level}_sstables"), f64::from(*tables));
            visit(&format!("level{level}_bytes"), *bytes as f64);
        }
    }
    if let Ok(stats) = database.get_db_stats() {
        visit("sstables", f64::from(stats.total_sstable_count));
        visit("memory_bytes", stats.memtable_bytes as f64);
        visit("waiting_memtables", f64::from(stats.immutable_memtable_count));
        visit("user_bytes", stats.user_bytes_written as f64);
        visit("wal_bytes", stats.wal_bytes_written as f64);
        visit("flush_bytes", stats.flush_bytes_written as f64);
        visit("compaction_bytes", stats.compaction_bytes_written as f64);
        visit("compaction_bytes_read", stats.compaction_bytes_read as f64);
        visit("compactions", stats.compaction_count as f64);
        visit("vlog_bytes", stats.vlog_bytes_written as f64);
        visit("vlog_live_bytes", stats.vlog_live_bytes as f64);
        visit("vlog_dead_bytes", stats.vlog_dead_bytes as f64);
        visit("writes_throttled", stats.writes_throttled as f64);
        visit("writes_blocked", stats.writes_blocked as f64);
        visit("write_stall_us", stats.write_stall_us as f64);
    }
    if let Ok(stats) = database.get_cache_stats() {
        visit("cache_used_bytes", stats.total_bytes as f64);
        visit("cache_hits", stats.hits as f64);
        visit("cache_misses", stats.misses as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::RealFs;
    use std::sync::Arc;

    fn options(pairs: &[(&str, &str)]) -> OpenOptions {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        options.options =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        options
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let (database, family, isolation) =
            read(&options(&[]), Durability::None, Path::new("d")).unwrap();
        let own = Config::new("d").log_level(LogLevel::None).memtable_sync_interval_us(NEVER_US);
        assert_eq!(format!("{database:?}"), format!("{own:?}"));
        let own = ColumnFamilyConfig::new().bloom_fpr(family.bloom_fpr);
        assert_eq!(family, own);
        assert!((family.bloom_fpr - 0.0082).abs() < 0.0001, "{}", family.bloom_fpr);
        assert_eq!(isolation, own.default_isolation_level);
    }

    #[test]
    fn a_section_in_the_names_of_tidesdb_means_the_same() {
        let own = options(&[
            ("write_buffer_size", "1M"),
            ("block_cache_size", "2M"),
            ("num_compaction_threads", "3"),
            ("memtable_skip_list_max_level", "9"),
            ("enable_bloom_filter", "0"),
            ("memtable_sync_mode", "full"),
        ]);
        let ours = options(&[
            ("memory_bytes", "1M"),
            ("cache_bytes", "2M"),
            ("threads", "3"),
            ("skip_list_max_level", "9"),
            ("filter_bits", "0"),
            ("durability", "sync"),
        ]);
        let own = in_our_names(&own).unwrap();
        assert_eq!(own.text("durability"), Some("sync"));
        let read =
            |options| format!("{:?}", read(options, Durability::Sync, Path::new("d")).unwrap());
        assert_eq!(read(&own), read(&ours));
        let twice = options(&[("threads", "2"), ("num_compaction_threads", "2")]);
        let error = in_our_names(&twice).err().unwrap().to_string();
        assert!(error.contains("is the same option as threads"), "{error}");
        let error = in_our_names(&options(&[("sync_mode", "half")])).err().unwrap().to_string();
        assert!(error.starts_with("sync_mode: 'half' is not one of none, interval"), "{error}");
        let (_, family, _) =
            super::read(&options(&[("bloom_fpr", "0.25")]), Durability::Os, Path::new("d"))
                .unwrap();
        assert!((family.bloom_fpr - 0.25).abs() < 1e-9, "{}", family.bloom_fpr);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        for (key, value) in [
            ("compression", "best"),
            ("compression", "zstd"),
            ("cache_bytes", "0"),
            ("isolation", "chaos"),
            ("log_level", "loud"),
            ("skip_list_probability", "2"),
            ("tombstone_density_trigger", "half"),
            ("min_levels", "0"),
            ("level_size_ratio", "3G"),
            ("vlog_segment_size", "1"),
        ] {
            let error = read(&options(&[(key, value)]), Durability::Os, Path::new("d"));
            let error = error.err().unwrap_or_else(|| panic!("{key} = {value} is taken"));
            assert!(matches!(error, Error::Usage { .. }), "{error:?}");
            assert!(error.to_string().starts_with(key), "{error}");
        }
    }
}
