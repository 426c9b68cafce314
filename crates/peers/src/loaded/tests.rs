//! What the loaded engines promise beside the contract: durability, options, caveats, errors. Where
//! the machine has no library the test says so and is skipped.

use super::*;
use crate::trial::{damaged, fill, gives, options, options_with, stat};
use keyrack_vfs::{Fs as _, RealFs};

/// The engines whose libraries are here.
fn engines(test: &str) -> Vec<Engine> {
    let is_here = |engine: &Engine| {
        let directory = tempfile::tempdir().unwrap();
        match (engine.open)(&options(directory.path(), None)) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.to_string().contains("install it"), "{error}");
                println!("SKIPPED {test} of {}: {error}", engine.name);
                false
            }
        }
    };
    [ROCKSDB, LEVELDB].into_iter().filter(is_here).collect()
}

#[test]
fn every_durability_is_given_as_it_was_asked_for() {
    for engine in engines("durabilities") {
        gives(
            &engine,
            &[
                (None, Durability::Os),
                (Some(Durability::None), Durability::None),
                (Some(Durability::Interval(5)), Durability::Interval(5)),
                (Some(Durability::Sync), Durability::Sync),
            ],
        );
        let directory = tempfile::tempdir().unwrap();
        let version = (engine.open)(&options(directory.path(), None)).unwrap().info().version;
        assert!(version.starts_with(engine.name), "{version}");
        let none = options(directory.path(), Some(Durability::None));
        assert!(!(engine.open)(&none).unwrap().info().syncs_single_puts, "{}", engine.name);
    }
}

/// Without a log, and without `close`, what is in memory is lost.
#[test]
fn rocksdb_without_a_log_forgets() {
    for engine in engines("the log").into_iter().filter(|engine| engine.name == "rocksdb") {
        for (durability, is_there) in [(Durability::None, false), (Durability::Os, true)] {
            let directory = tempfile::tempdir().unwrap();
            let store = (engine.open)(&options(directory.path(), Some(durability))).unwrap();
            store.session().unwrap().put(b"key", b"find-me-in-the-log").unwrap();
            let log = RealFs.list(directory.path()).unwrap().into_iter();
            let mut log = log.filter(|entry| entry.name.to_string_lossy().ends_with(".log"));
            let log = RealFs.read(&directory.path().join(log.next().unwrap().name)).unwrap();
            let found = log.windows(18).any(|window| window == b"find-me-in-the-log");
            assert_eq!(found, is_there, "{durability}");
        }
    }
}

#[test]
fn options_reach_the_library_and_are_checked() {
    for engine in engines("options") {
        let directory = tempfile::tempdir().unwrap();
        let with =
            |key: &str, value: &str| (engine.open)(&options_with(directory.path(), key, value));
        for (key, value) in [("compression", "best"), ("filter_bits", "x"), ("lib", "/no/lib.so")] {
            let error = with(key, value).err().unwrap().to_string();
            assert!(error.contains(key) && error.contains(value), "{error}");
        }
        for (key, value) in
            [("compression", "none"), ("filter_bits", "0"), ("cache_bytes", "0"), ("lib", "")]
        {
            assert!(with(key, value).is_ok(), "{} {key}={value}", engine.name);
        }
        if engine.name == "rocksdb" {
            let error = with("num_lovels", "5").err().unwrap().to_string();
            assert!(error.contains("num_lovels=5"), "{error}");
            let store = with("block_based_table_factory", "{block_cache=3M}").unwrap();
            let capacity = stat(store.as_ref(), "block_cache_capacity");
            assert_eq!(capacity, Some(f64::from(3 << 20)), "the option string was passed through");
        } else {
            assert!(with("files_max", "0").is_err());
            assert!(with("block_bytes", "16K").is_ok());
        }
    }
}

/// Debian builds both with assertions; a library without says nothing.
#[test]
fn a_library_with_assertions_has_a_caveat() {
    for engine in engines("caveats") {
        let directory = tempfile::tempdir().unwrap();
        let store = (engine.open)(&options(directory.path(), None)).unwrap();
        let loaded = library::load(
            if engine.name == "rocksdb" { library::Kind::Rocks } else { library::Kind::Level },
            None,
            &RealFs,
        );
        let caveats = store.info().caveats;
        assert_eq!(caveats.is_empty(), !loaded.unwrap().has_assertions);
        assert!(caveats.iter().all(|text| text.contains("assertions")), "{caveats:?}");
    }
}

#[test]
fn numbers_are_told_while_tables_come_into_being() {
    for engine in engines("statistics") {
        let directory = tempfile::tempdir().unwrap();
        let options = options_with(directory.path(), "memory_bytes", "64K");
        let store = (engine.open)(&options).unwrap();
        let mut session = store.session().unwrap();
        let number = |name: &str| stat(store.as_ref(), name);
        let tables = || {
            let levels = (0..7).filter_map(|level| number(&format!("level{level}_tables")));
            levels.sum::<f64>()
        };
        fill(session.as_mut(), || tables() >= 2.0);
        assert!(number("memory_bytes").is_some_and(|bytes| bytes > 0.0), "{}", engine.name);
    }
}

#[test]
fn errors_keep_their_kind() {
    for engine in engines("errors") {
        damaged(&engine, "CURRENT", b"nonsense");
    }
}
