//! What the loaded engines promise beside the contract: durability, options, caveats, errors. Where
//! the machine has no library the test says so and is skipped.

use super::*;
use crate::trial::options;
use keyrack_store::WriteOptions;
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

fn has(store: &dyn Store, key: &[u8]) -> bool {
    store.session().unwrap().get(key, &mut |_| {}).unwrap()
}

#[test]
fn every_durability_is_given_as_it_was_asked_for() {
    for engine in engines("durabilities") {
        for (asked, given) in [
            (None, Durability::Os),
            (Some(Durability::None), Durability::None),
            (Some(Durability::Interval(5)), Durability::Interval(5)),
            (Some(Durability::Sync), Durability::Sync),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let store = (engine.open)(&options(directory.path(), asked)).unwrap();
            assert_eq!(store.info().durability, given);
            assert!(store.info().version.starts_with(engine.name), "{}", store.info().version);
            store.session().unwrap().put(b"kept", b"1").unwrap();
            let synced = store.session().unwrap().put_with(b"synced", b"3", WriteOptions::SYNC);
            assert_eq!(synced.is_ok(), given != Durability::None, "{}", engine.name);
            store.close().unwrap();
            let store = (engine.open)(&options(directory.path(), asked)).unwrap();
            assert!(has(store.as_ref(), b"kept"), "{} {given}", engine.name);
        }
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
        let with = |key: &str, value: &str| {
            let mut options = options(directory.path(), None);
            options.options = vec![(key.to_owned(), value.to_owned())];
            (engine.open)(&options)
        };
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
            let mut capacity = 0.0;
            store.stats(&mut |name, value| {
                if name == "block_cache_capacity" {
                    capacity = value;
                }
            });
            assert_eq!(capacity, f64::from(3 << 20), "the option string was passed through");
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
        let mut options = options(directory.path(), None);
        options.options = vec![("memory_bytes".to_owned(), "64K".to_owned())];
        let store = (engine.open)(&options).unwrap();
        let mut session = store.session().unwrap();
        let number = |wanted: &str| {
            let mut found = None;
            store.stats(&mut |name, value| {
                if name == wanted {
                    found = Some(value);
                }
            });
            found
        };
        let tables = || {
            let levels = (0..7).filter_map(|level| number(&format!("level{level}_tables")));
            levels.sum::<f64>()
        };
        let mut count = 0u32;
        while tables() < 2.0 {
            let value: Vec<u8> = (0..1000u32)
                .map(|n| ((n * 1000 + count).wrapping_mul(0x9e37_79b1) >> 24) as u8)
                .collect();
            session.put(&count.to_be_bytes(), &value).unwrap();
            count += 1;
        }
        assert!(number("memory_bytes").is_some_and(|bytes| bytes > 0.0), "{}", engine.name);
        let visit = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        assert_eq!(session.scan(b"", None, visit).unwrap(), u64::from(count));
        assert_eq!(session.scan_rev(b"", None, visit).unwrap(), u64::from(count));
    }
}

#[test]
fn errors_keep_their_kind() {
    for engine in engines("errors") {
        let directory = tempfile::tempdir().unwrap();
        let store = (engine.open)(&options(directory.path(), None)).unwrap();
        let again = (engine.open)(&options(directory.path(), None)).err().unwrap();
        assert!(matches!(again, Error::Usage { .. }), "{again:?}");
        drop(store);
        RealFs.write_atomic(&directory.path().join("CURRENT"), b"nonsense").unwrap();
        let damaged = (engine.open)(&options(directory.path(), None)).err().unwrap();
        assert!(matches!(damaged, Error::Corruption { .. }), "{damaged:?}");
    }
}
