//! The header, made of the sources by cbindgen. `KEYRACK_REWRITE=1` writes it instead of comparing.

use super::source;
use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use std::{env, fs};

const ABOUT: &str = "/*
 * LevelDB's interface for C, version 1.23, of a library that stores in flodb. docs/leveldb-c.md
 * says how to build with it, and what differs from LevelDB.
 *
 * Made by cbindgen from crates/leveldb-c: change the sources, not this file.
 *
 * A call that can fail gets the address of a text: a null pointer, or a text of malloc(). On
 * success it stays as it is; on failure the old text is freed, and a new one of malloc() is put
 * there. Results of malloc() are freed by leveldb_free(). Any number of threads may use a database,
 * a comparator or a filter policy at once; other handles belong to one thread at a time.
 */";

/// Types that the interface names and no call uses.
const UNUSED: &str = "
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;";

/// Where the interface is, in the order of the header.
const SOURCES: [&str; 11] = [
    "options",
    "database",
    "db",
    "manage",
    "iterator",
    "batch",
    "comparator",
    "filter",
    "access",
    "snapshot",
    "utility",
];

/// Names in the header for types of the crate.
const TYPES: [(&str, &str); 12] = [
    ("Database", "leveldb_t"),
    ("Cache", "leveldb_cache_t"),
    ("Comparator", "leveldb_comparator_t"),
    ("Env", "leveldb_env_t"),
    ("FilterPolicy", "leveldb_filterpolicy_t"),
    ("Cursor", "leveldb_iterator_t"),
    ("Logger", "leveldb_logger_t"),
    ("Options", "leveldb_options_t"),
    ("ReadOptions", "leveldb_readoptions_t"),
    ("Snapshot", "leveldb_snapshot_t"),
    ("WriteBatch", "leveldb_writebatch_t"),
    ("WriteOptions", "leveldb_writeoptions_t"),
];

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        header: Some(ABOUT.to_owned()),
        after_includes: Some(UNUSED.to_owned()),
        include_guard: Some("KEYRACK_LEVELDB_C_H".to_owned()),
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        no_includes: true,
        cpp_compat: true,
        style: Style::Both,
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        tab_width: 4,
        ..Config::default()
    };
    let names = TYPES.map(|(here, there)| (here.to_owned(), there.to_owned()));
    config.export.rename = names.into_iter().collect();
    config
}

fn generate() -> String {
    let builder = SOURCES.iter().fold(Builder::new().with_config(config()), |builder, name| {
        builder.with_src(source(&format!("src/{name}.rs")))
    });
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    without_safety(&String::from_utf8(text).unwrap())
}

/// What callers in Rust promise about pointers goes without saying in C.
fn without_safety(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in text.lines() {
        if line.trim() == "// # Safety" {
            is_safety = true;
            // The empty line before it.
            kept.pop();
        }
        is_safety &= line.trim_start().starts_with("//");
        if !is_safety {
            kept.push(line.trim_end());
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = source("include/leveldb/c.h");
    let found = generate();
    if env::var_os("KEYRACK_REWRITE").is_some() {
        fs::write(&path, found).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "c.h:{}; KEYRACK_REWRITE=1 accepts it", number + 1);
    }
    assert_eq!(found, expected, "KEYRACK_REWRITE=1 accepts it");
}
