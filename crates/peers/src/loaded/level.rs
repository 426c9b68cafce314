//! LevelDB's options and statistics.
//!
//! | option | here |
//! |---|---|
//! | `memory_bytes` | `write_buffer_size`: one memory table is written to, one is written out |
//! | `cache_bytes` | an LRU cache of blocks; 0 is LevelDB's own, of 8 MiB, since it has none without |
//! | `filter_bits` | a Bloom filter a table; LevelDB has none by itself |
//! | `compression` | `none` or `snappy`, in all levels: LevelDB does not tell them apart |
//! | `block_bytes`, `block_restarts`, `table_bytes`, `files_max` | as LevelDB names them: `block_size`, `block_restart_interval`, `max_file_size`, `max_open_files` |
//!
//! LevelDB has one thread that writes out and merges; there is no `threads`.

use super::library::{Kind, Own, load};
use super::objects::{Database, OpenOptions as Settings};
use super::{LIB, open as open_with};
use crate::common::{self, Common};
use crate::contract::option;
use keyrack_store::{Engine, Error, OpenOptions, Result, Store};
use std::ffi::CString;

pub(super) const ENGINE: Engine = Engine {
    name: "leveldb",
    about: "LevelDB, from the system's libleveldb or --leveldb-lib; durability os, none, interval \
            or sync",
    persistent: true,
    stores: true,
    options: &[
        LIB,
        common::MEMORY_BYTES,
        common::CACHE_BYTES,
        common::FILTER_BITS,
        option("compression", "snappy", "of all tables: none or snappy"),
        common::DURABILITY,
        option("block_bytes", "4K", "bytes of a block of a table"),
        option("block_restarts", "16", "keys from one that is stored whole to the next"),
        option("table_bytes", "2M", "bytes of a table"),
        option("files_max", "1000", "files that are open at once, a table each"),
    ],
    open,
};

const LEVELS: u32 = 7;

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let durability = common::durability(options)?;
    let Common { memory_bytes, cache_bytes, filter_bits, .. } = Common::read(options)?;
    let number = |key: &str, default: u64| -> Result<usize> {
        let value = options.size(key, default)?;
        // What the library counts in an int.
        match i32::try_from(value) {
            Ok(_) if value > 0 => Ok(value as usize),
            _ => Err(Error::usage(format!("{key}: {value} is not between 1 and {}", i32::MAX))),
        }
    };
    let compression = match options.text("compression").map(str::trim) {
        None | Some("snappy") => 1,
        Some("none") => 0,
        Some(other) => {
            let why = format!("compression: '{other}' is not one of none, snappy, for all levels");
            return Err(Error::usage(why));
        }
    };
    let (block, table) = (number("block_bytes", 4 << 10)?, number("table_bytes", 2 << 20)?);
    let restarts = number("block_restarts", 16)?;
    let files = number("files_max", 1000)?;
    options.required_data_dir()?;
    let lib = options.text("lib").filter(|path| !path.is_empty());
    let loaded = load(Kind::Level, lib, &*options.fs)?;
    let Own::Level(level) = &loaded.own else { unreachable!("it was loaded as LevelDB") };
    let mut settings = Settings::new(loaded);
    settings.set_size(level.options_set_write_buffer_size, memory_bytes);
    if cache_bytes > 0 {
        settings.set_cache(level, cache_bytes);
    }
    if filter_bits > 0 {
        settings.set_filter(level, filter_bits);
    }
    settings.set_number(level.options_set_compression, compression);
    settings.set_size(level.options_set_block_size, block);
    settings.set_size(level.options_set_max_file_size, table);
    // In range: checked above.
    settings.set_number(level.options_set_block_restart_interval, restarts as i32);
    settings.set_number(level.options_set_max_open_files, files as i32);
    open_with(options, durability, settings)
}

/// Gives the numbers to `visit`: what LevelDB tells, which is little.
pub(super) fn stats(database: &Database, visit: &mut dyn FnMut(&str, f64)) {
    let number = |property: String| {
        let name = CString::new(property).ok()?;
        database.property(&name)?.parse::<f64>().ok()
    };
    if let Some(bytes) = number("leveldb.approximate-memory-usage".to_owned()) {
        visit("memory_bytes", bytes);
    }
    for level in 0..LEVELS {
        if let Some(files) = number(format!("leveldb.num-files-at-level{level}")) {
            visit(&format!("level{level}_tables"), files);
        }
    }
}
