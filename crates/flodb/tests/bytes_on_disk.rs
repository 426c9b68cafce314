//! The bytes that a store takes beside its entries, with the options that it has by default.

use keyrack_flodb::{Db, Options};
use keyrack_vfs::{Fs, RealFs};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of the files below a directory: their lengths, and their blocks.
fn bytes_of(dir: &Path) -> [u64; 2] {
    let mut sums = [0; 2];
    for entry in RealFs.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        let found = std::fs::metadata(&path).unwrap();
        let [len, blocks] =
            if found.is_dir() { bytes_of(&path) } else { [found.len(), found.blocks() * 512] };
        sums[0] += len;
        sums[1] += blocks;
    }
    sums
}

/// A manifest had room for 64 KiB, and a log 16 MiB of space from its first record on.
#[test]
fn a_small_store_is_small() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let at_most = |bytes: u64, when: &str| {
        let found = bytes_of(&dir);
        assert!(found.iter().all(|found| *found <= bytes), "{when}: {found:?}");
    };
    let db = Db::open(&dir, Options::default()).unwrap();
    at_most(64 << 10, "empty and open");
    db.close().unwrap();
    at_most(64 << 10, "empty and closed");
    let db = Db::open(&dir, Options::default()).unwrap();
    db.put(b"key", b"value").unwrap();
    let [_, blocks] = bytes_of(&dir);
    assert!(blocks <= 128 << 10, "one entry, open: {blocks}");
    db.close().unwrap();
    at_most(64 << 10, "one entry in the log");
}

/// A megabyte of entries, in the log and in a table.
#[test]
fn a_store_of_a_megabyte_takes_at_most_three() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let at_most = |when: &str| {
        let [_, blocks] = bytes_of(&dir);
        // With room for entries of other sizes.
        assert!(blocks <= 5 << 19, "{when}: {blocks}");
    };
    let value = |n: u64| -> Vec<u8> { (0..100).map(|at| (n * 31 + at * 7) as u8).collect() };
    let db = Db::open(&dir, Options::default()).unwrap();
    for n in 0..9_000_u64 {
        db.put(format!("{n:016}").as_bytes(), &value(n)).unwrap();
    }
    at_most("in the log, open");
    db.close().unwrap();
    at_most("in the log, closed");
    let db = Db::open(&dir, Options::default()).unwrap();
    at_most("recovered");
    db.flush().unwrap();
    db.put(b"one more", b"value").unwrap();
    at_most("in a table, open");
    db.close().unwrap();
    at_most("in a table, closed");
    let db = Db::open(&dir, Options::default()).unwrap();
    assert_eq!(db.get(format!("{:016}", 8_999).as_bytes()).unwrap().unwrap(), value(8_999));
}

/// A closed log kept its last segment, although everything in it was in tables.
#[test]
fn a_store_whose_entries_are_in_tables_has_no_log_to_speak_of() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    for round in 1..=3_u64 {
        let db = Db::open(&dir, Options::default()).unwrap();
        for n in 0..20_000_u64 {
            db.put(&(round * 100_000 + n).to_be_bytes(), &[7; 50]).unwrap();
        }
        assert!(bytes_of(&dir)[1] > 20_000 * 58, "the log has them");
        db.flush().unwrap();
        let mut tables = 0.0;
        db.stats(&mut |name, value| {
            if name.starts_with("level") && name.ends_with("_bytes") {
                tables += value;
            }
        });
        db.close().unwrap();
        for bytes in bytes_of(&dir) {
            let spare = bytes as f64 - tables;
            assert!(spare < f64::from(48 << 10), "{spare} bytes beside tables of {tables}");
        }
        let db = Db::open(&dir, Options::default()).unwrap();
        let first = (round * 100_000).to_be_bytes();
        assert_eq!(db.get(&first).unwrap().as_deref(), Some(&[7; 50][..]));
        db.close().unwrap();
    }
}
