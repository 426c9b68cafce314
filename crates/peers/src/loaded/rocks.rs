//! RocksDB's options and statistics.
//!
//! The options of [`crate::common`] are put into RocksDB's own text of options: the size of a
//! memory table, of which there are three as in `flodb`; a block cache (0 for none); full Bloom
//! filters; compression by level; background jobs, of flushes and compactions together. Indexes
//! and filters are kept outside of the cache. All else is as the library sets it, its own log of
//! events apart, which keeps one file.
//!
//! Any other key of the section goes to RocksDB as it is, one by one, after ours: `num_levels = 5`,
//! `block_based_table_factory = {block_size=16K}` (which replaces cache and filter, since it names
//! a whole factory). Codecs may be given by RocksDB's names, `kZSTD`. A key or a value that the
//! library does not know is refused.

use super::functions::Rocks;
use super::library::{Kind, Own, load};
use super::objects::{Database, OpenOptions as Settings};
use super::{LIB, open as open_with};
use crate::common::{self, Common};
use crate::contract::option;
use keyrack_store::{ANY_KEY, Engine, Error, OpenOptions, Result, Store};
use std::ffi::{CStr, CString};

pub(super) const ENGINE: Engine = Engine {
    name: "rocksdb",
    about: "a log-structured merge tree in C++, from the system's librocksdb or --rocksdb-lib; \
            durability os, none, interval or sync",
    persistent: true,
    stores: true,
    options: &[
        LIB,
        common::MEMORY_BYTES,
        common::CACHE_BYTES,
        common::FILTER_BITS,
        option(
            "compression",
            common::COMPRESSION_DEFAULT,
            "of the tables of each level, the last for those below: none, snappy, lz4, \
                    zstd, zlib, or RocksDB's names",
        ),
        common::DURABILITY,
        common::THREADS,
        option(
            ANY_KEY,
            "RocksDB's",
            "any other key is an option of RocksDB, as its own option strings have it",
        ),
    ],
    open,
};

/// One that is written to and two that wait.
const MEMORY_TABLES: u32 = 3;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let durability = common::durability(options)?;
    let text = own_text(options)?;
    options.required_data_dir()?;
    let lib = options.text("lib").filter(|path| !path.is_empty());
    let loaded = load(Kind::Rocks, lib, &*options.fs)?;
    let Own::Rocks(rocks) = &loaded.own else { unreachable!("it was loaded as RocksDB") };
    let mut settings = Settings::new(loaded);
    let refuse = |text: &str, why: String| Error::usage(format!("{text}: {why}"));
    settings.set_text(rocks, &text).map_err(|why| refuse(&text, why))?;
    for (key, value) in &options.options {
        if !ENGINE.names(key) {
            let text = format!("{key}={value}");
            settings.set_text(rocks, &text).map_err(|why| refuse(&text, why))?;
        }
    }
    open_with(options, durability, settings)
}

/// Our options in RocksDB's words.
fn own_text(options: &OpenOptions) -> Result<String> {
    let Common { memory_bytes, cache_bytes, filter_bits, threads } = Common::read(options)?;
    let compression = compression(options)?;
    let mut blocks = match cache_bytes {
        0 => "no_block_cache=true".to_owned(),
        bytes => format!("block_cache={bytes}"),
    };
    if filter_bits > 0 {
        blocks += &format!(";filter_policy=bloomfilter:{filter_bits}:false");
    }
    Ok(format!(
        "create_if_missing=true;write_buffer_size={memory_bytes};\
         max_write_buffer_number={MEMORY_TABLES};max_background_jobs={threads};keep_log_file_num=1;\
         compression_per_level={compression};block_based_table_factory={{{blocks}}}"
    ))
}

/// Codecs in RocksDB's words, by level.
fn compression(options: &OpenOptions) -> Result<String> {
    let list = options.text("compression").unwrap_or(common::COMPRESSION_DEFAULT);
    if list.split(',').all(|codec| codec.trim().starts_with('k')) {
        let codecs: Vec<&str> = list.split(',').map(str::trim).collect();
        return Ok(codecs.join(":"));
    }
    let known = [
        ("none", "kNoCompression"),
        ("snappy", "kSnappyCompression"),
        ("lz4", "kLZ4Compression"),
        ("zstd", "kZSTD"),
        ("zlib", "kZlibCompression"),
    ];
    Ok(common::compression(options, &known)?.join(":"))
}

/// Numbers that all engines have under one name, and RocksDB's name of each.
const NAMED: [(&str, &str); 7] = [
    ("memory_bytes", "cur-size-all-mem-tables"),
    ("cache_used_bytes", "block-cache-usage"),
    ("tables_bytes", "total-sst-files-size"),
    ("compaction_debt_bytes", "estimate-pending-compaction-bytes"),
    ("compactions_running", "num-running-compactions"),
    ("flushes_running", "num-running-flushes"),
    ("keys", "estimate-num-keys"),
];

/// All of RocksDB's numbers, under its names with underscores. A version that lacks one is asked in
/// vain.
const PROPERTIES: [&str; 43] = [
    "num-immutable-mem-table",
    "mem-table-flush-pending",
    "compaction-pending",
    "background-errors",
    "cur-size-active-mem-table",
    "cur-size-all-mem-tables",
    "size-all-mem-tables",
    "num-entries-active-mem-table",
    "num-entries-imm-mem-tables",
    "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables",
    "estimate-num-keys",
    "estimate-table-readers-mem",
    "is-file-deletions-enabled",
    "num-snapshots",
    "oldest-snapshot-time",
    "oldest-snapshot-sequence",
    "num-live-versions",
    "current-super-version-number",
    "estimate-live-data-size",
    "min-log-number-to-keep",
    "min-obsolete-sst-number-to-keep",
    "total-sst-files-size",
    "live-sst-files-size",
    "obsolete-sst-files-size",
    "base-level",
    "estimate-pending-compaction-bytes",
    "num-running-compactions",
    "num-running-flushes",
    "num-running-compaction-sorted-runs",
    "actual-delayed-write-rate",
    "is-write-stopped",
    "estimate-oldest-key-time",
    "block-cache-capacity",
    "block-cache-usage",
    "block-cache-pinned-usage",
    "num-blob-files",
    "total-blob-file-size",
    "live-blob-file-size",
    "live-blob-file-garbage-size",
    "blob-cache-capacity",
    "blob-cache-usage",
    "blob-cache-pinned-usage",
];

/// Gives the numbers to `visit`.
pub(super) fn stats(database: &Database, rocks: &Rocks, visit: &mut dyn FnMut(&str, f64)) {
    let value = |property: &str| {
        let name = CString::new(format!("rocksdb.{property}")).ok()?;
        database.property_int(rocks, &name)
    };
    for (name, property) in NAMED {
        if let Some(value) = value(property) {
            visit(name, value as f64);
        }
    }
    for property in PROPERTIES {
        if let Some(value) = value(property) {
            visit(&property.replace('-', "_"), value as f64);
        }
    }
    let mut name = *b"rocksdb.num-files-at-level0\0";
    for level in b'0'..=b'6' {
        let last = name.len() - 2;
        name[last] = level;
        let text = CStr::from_bytes_with_nul(&name).ok().and_then(|name| database.property(name));
        if let Some(files) = text.and_then(|text| text.parse::<f64>().ok()) {
            visit(&format!("level{}_tables", level - b'0'), files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::RealFs;
    use std::sync::Arc;

    #[test]
    fn our_options_are_put_into_its_words() {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        let text = own_text(&options).unwrap();
        assert!(text.contains(";write_buffer_size=67108864;"), "{text}");
        let levels = "compression_per_level=kNoCompression:kNoCompression:kLZ4Compression;";
        assert!(text.contains(levels), "{text}");
        assert!(text.ends_with("={block_cache=67108864;filter_policy=bloomfilter:10:false}"));
        let set = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        options.options =
            set(&[("cache_bytes", "0"), ("filter_bits", "0"), ("compression", "kZSTD, kXpress")]);
        let text = own_text(&options).unwrap();
        assert!(text.ends_with("={no_block_cache=true}"), "{text}");
        assert!(text.contains("compression_per_level=kZSTD:kXpress;"), "{text}");
        options.options = set(&[("compression", "best")]);
        assert!(own_text(&options).is_err());
    }

    #[test]
    fn no_number_is_told_twice_under_one_name() {
        let named = NAMED.iter().map(|(name, _)| (*name).to_owned());
        let names = named.chain(PROPERTIES.iter().map(|name| name.replace('-', "_")));
        let mut names: Vec<String> = names.collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
