//! The header, made of the sources by cbindgen. `KEYRACK_REWRITE=1` writes it instead of comparing.

use keyrack_testkit::c::Header;

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

#[test]
fn the_header_is_what_the_sources_say() {
    let header = Header {
        folder: env!("CARGO_MANIFEST_DIR"),
        path: "include/leveldb/c.h",
        guard: "KEYRACK_LEVELDB_C_H",
        about: ABOUT,
        after_includes: Some(UNUSED),
        sources: &SOURCES,
        types: &TYPES,
    };
    header.check(|_| ());
}
