//! What LevelDB wrote is read as LevelDB reads it.

use crate::support::{Files, expected, file, fixture, listing, read};
use keyrack_leveldb_reader::{Error, Mode};

#[track_caller]
fn is_as_listed(name: &str, files: &Files) -> keyrack_leveldb_reader::Stats {
    for mode in [Mode::Lenient, Mode::Strict] {
        let outcome = read(files, mode).unwrap();
        assert_eq!(outcome.lost, [], "{name}");
        assert!(listing(&outcome.entries) == expected(name), "{name}: other entries");
    }
    read(files, Mode::Strict).unwrap().stats
}

/// Tables on levels 0 to 2 compressed by Snappy; versions, removals, a batch and keys of odd bytes
/// in a log that is in no table.
#[test]
fn several_levels_and_a_log() {
    let stats = is_as_listed("levels", &fixture("levels"));
    assert_eq!((stats.tables, stats.logs, stats.log_records), (5, 1, 18));
    assert_eq!(stats.last_sequence, 528);
}

/// The same shape without compression, with small blocks, and with Bloom filters.
#[test]
fn raw_blocks_and_filters() {
    let stats = is_as_listed("raw", &fixture("raw"));
    assert_eq!((stats.tables, stats.logs), (5, 1));
}

/// Opened and closed, and nothing written.
#[test]
fn an_empty_store() {
    let stats = is_as_listed("empty", &fixture("empty"));
    assert_eq!((stats.tables, stats.log_records, stats.last_sequence), (0, 0, 0));
}

/// A record of 40 KB in two blocks, and a batch of 600 writes.
#[test]
fn a_log_of_large_records() {
    let stats = is_as_listed("log", &fixture("log"));
    assert_eq!((stats.tables, stats.log_records), (0, 5));
}

/// Tables of before 2013 have another suffix.
#[test]
fn tables_of_the_old_suffix() {
    let mut files = fixture("levels");
    for (name, _) in &mut files {
        *name = name.replace(".ldb", ".sst");
    }
    is_as_listed("levels", &files);
}

#[test]
fn files_that_do_not_belong_are_left_alone() {
    let mut files = fixture("levels");
    for name in ["LOCK", "LOG", "LOG.old", "000002.log", "000099.ldb", "000098.dbtmp", "x.log"] {
        files.push((name.to_owned(), b"something else".to_vec()));
    }
    is_as_listed("levels", &files);
}

#[test]
fn what_is_no_store_is_refused() {
    let usage = |files: &Files| match read(files, Mode::Lenient) {
        Err(Error::Usage(what)) => what,
        other => panic!("{other:?}"),
    };
    assert!(usage(&Files::new()).contains("no file CURRENT"));
    let mut files = fixture("levels");
    files.retain(|(name, _)| name != "CURRENT");
    assert!(usage(&files).contains("no file CURRENT"));
    for bad in ["", "\n", "MANIFEST-000014", "MANIFEST-\n", "../MANIFEST-000014\n", "MANIFEST-9\n"]
    {
        let mut files = fixture("levels");
        *file(&mut files, "CURRENT") = bad.as_bytes().to_vec();
        let refused = read(&files, Mode::Lenient);
        assert!(matches!(refused, Err(Error::Corruption { .. })), "{bad:?}: {refused:?}");
    }
}
