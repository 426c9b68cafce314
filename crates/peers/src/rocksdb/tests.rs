//! What the engine promises beside the contract: durability, options, errors.

use super::*;
use crate::trial::{damaged, fill, gives, needs_a_directory, options, options_with, stat};
use keyrack_vfs::{Fs as _, RealFs};

#[test]
fn every_durability_is_given_as_it_was_asked_for() {
    gives(
        &ENGINE,
        &[
            (None, Durability::Os),
            (Some(Durability::None), Durability::None),
            (Some(Durability::Os), Durability::Os),
            (Some(Durability::Interval(5)), Durability::Interval(5)),
            (Some(Durability::Sync), Durability::Sync),
        ],
    );
    let none = options(tempfile::tempdir().unwrap().path(), Some(Durability::None));
    assert!(!open(&none).unwrap().info().syncs_single_puts);
}

/// Without a log, and without `close`, what is in memory is lost; with a log it is not.
#[test]
fn without_a_log_a_store_that_is_not_closed_forgets() {
    for (durability, is_there) in [(Durability::None, false), (Durability::Os, true)] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&options(directory.path(), Some(durability))).unwrap();
        store.session().unwrap().put(b"key", b"find-me-in-the-log").unwrap();
        let logs = RealFs.list(directory.path()).unwrap().into_iter();
        let mut logs = logs.filter(|entry| entry.name.to_string_lossy().ends_with(".log"));
        let log = RealFs.read(&directory.path().join(logs.next().unwrap().name)).unwrap();
        let found = log.windows(18).any(|window| window == b"find-me-in-the-log");
        assert_eq!(found, is_there, "{durability}");
    }
}

#[test]
fn options_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let with = |key: &str, value: &str| open(&options_with(directory.path(), key, value));
    for (key, value) in [("compression", "best"), ("threads", "0"), ("filter_bits", "x")] {
        let error = with(key, value).err().unwrap().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
    for (key, value) in [
        ("compression", "none"),
        ("compression", "snappy"),
        ("compression", "zstd"),
        ("filter_bits", "0"),
        ("cache_bytes", "0"),
        ("memory_bytes", "1M"),
    ] {
        assert!(with(key, value).is_ok(), "{key}={value}");
    }
    needs_a_directory(&ENGINE);
}

#[test]
fn tables_come_into_being_and_are_read() {
    for compression in ["lz4", "snappy", "zstd", "none"] {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(directory.path(), Some(Durability::None));
        options.options = vec![
            ("memory_bytes".to_owned(), "64K".to_owned()),
            ("compression".to_owned(), compression.to_owned()),
        ];
        let store = open(&options).unwrap();
        let mut session = store.session().unwrap();
        fill(session.as_mut(), || stat(store.as_ref(), "tables_bytes").unwrap() >= 400_000.0);
    }
}

#[test]
fn errors_keep_their_kind() {
    damaged(&ENGINE, "CURRENT", b"nonsense");
}

#[test]
fn the_version_is_the_one_that_is_linked() {
    let lock = include_str!("../../../../Cargo.lock");
    assert!(lock.contains("name = \"rocksdb\"\nversion = \"0.25.0\"\n"), "{VERSION}");
    assert!(lock.contains("name = \"librocksdb-sys\"\nversion = \"0.19.0+11.8.1\"\n"), "{VERSION}");
}
