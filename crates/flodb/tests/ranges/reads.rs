//! What a range reads of files: tables that cannot hold its keys are not touched, tombstones behind
//! its end are not passed, and keys alone need no blob file.

use crate::support::{idle, open};
use keyrack_flodb::{Db, Options, Range, ReadOptions, Result};
use keyrack_vfs::{FaultFs, MemFs, Operation};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A file system that notes which files are read.
struct Noted {
    fs: FaultFs,
    reads: Arc<Mutex<Vec<PathBuf>>>,
}

impl Noted {
    fn new(disk: MemFs) -> Self {
        let (fs, reads) = (FaultFs::new(Arc::new(disk)), Arc::default());
        let of_watcher: Arc<Mutex<Vec<PathBuf>>> = Arc::clone(&reads);
        fs.watch(move |operation: Operation, path: &Path| {
            if operation == Operation::Read {
                of_watcher.lock().unwrap().push(path.to_owned());
            }
        });
        Noted { fs, reads }
    }

    /// The reads that `act` makes.
    fn of(&self, act: impl FnOnce()) -> Vec<PathBuf> {
        self.reads.lock().unwrap().clear();
        act();
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    fn files(&self, act: impl FnOnce()) -> BTreeSet<PathBuf> {
        self.of(act).into_iter().collect()
    }
}

fn options() -> Options {
    Options { level0_slow: 100, level0_stop: 100, ..idle() }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn noted(fill: impl FnOnce(&Db)) -> (Noted, Db) {
    let disk = MemFs::new();
    let db = open(&disk, options());
    fill(&db);
    db.flush().unwrap();
    drop(db);
    let noted = Noted::new(disk);
    let db = open(&noted.fs, options());
    (noted, db)
}

fn all(range: Range) -> usize {
    range.map(Result::unwrap).count()
}

#[test]
fn a_range_reads_only_the_table_of_a_level_that_has_it() {
    const KEYS: u32 = 2_000;
    let (noted, db) = noted(|db| {
        for n in 0..KEYS {
            db.put(&key(n), &[7; 100]).unwrap();
        }
        db.compact_range(None, None).unwrap();
    });
    let whole = noted.files(|| assert_eq!(all(db.range(..)), KEYS as usize));
    assert!(whole.len() > 8, "there are {} tables", whole.len());
    // Also where the key is the first or the last of its table.
    for n in 0..KEYS {
        for backwards in [false, true] {
            let range = || db.range(key(n)..=key(n));
            let read = noted.files(|| {
                assert_eq!(if backwards { range().rev().count() } else { all(range()) }, 1);
            });
            assert_eq!(read.len(), 1, "{n}");
        }
    }
    let nothing = noted.of(|| assert_eq!(all(db.range("kez"..)) + all(db.range(.."key")), 0));
    assert!(nothing.is_empty(), "no table has such keys: {nothing:?}");
}

#[test]
fn a_range_reads_only_the_tables_of_level_0_that_may_have_it() {
    let (noted, db) = noted(|db| {
        for table in ["a", "b", "c", "d"] {
            for n in 0..10 {
                db.put(format!("{table}{n}").as_bytes(), table.as_bytes()).unwrap();
            }
            // What it removes lies within its bounds, and behind them is nothing of it.
            db.delete_range(format!("{table}3").as_bytes(), format!("{table}5").as_bytes())
                .unwrap();
            db.flush().unwrap();
        }
    });
    assert_eq!(noted.files(|| assert_eq!(all(db.range(..)), 32)).len(), 4);
    assert_eq!(noted.files(|| assert_eq!(all(db.prefix("b")), 8)).len(), 1);
    assert_eq!(noted.files(|| assert_eq!(all(db.range("b9"..="c0")), 2)).len(), 2);
    assert_eq!(noted.files(|| assert_eq!(all(db.range("b99".."c0")), 0)).len(), 0);
}

#[test]
fn tombstones_behind_the_end_are_not_passed() {
    const GONE: u32 = 5_000;
    let (noted, db) = noted(|db| {
        for n in 0..GONE {
            db.put(&key(n), b"gone").unwrap();
        }
        // Without something below, tombstones would not be kept.
        db.compact_range(None, None).unwrap();
        db.put(b"a", b"first").unwrap();
        for n in 0..GONE {
            db.delete(&key(n)).unwrap();
        }
        db.put(b"z", b"last").unwrap();
    });
    let block_by_block = ReadOptions { readahead_bytes_max: 0, ..ReadOptions::default() };
    let reads = |bounds: (&str, &str), backwards: bool| {
        noted.of(|| {
            let range = db.range_with(None, bounds.0..bounds.1, block_by_block);
            assert_eq!(if backwards { range.rev().count() } else { all(range) }, 1);
        })
    };
    let whole = reads(("a", "y"), false).len();
    assert!(whole > 20, "the tombstones are in {whole} blocks");
    for (bounds, backwards) in [(("a", "b"), false), (("y", "zz"), true)] {
        let few = reads(bounds, backwards).len();
        assert!(few <= 2, "{few} blocks for {bounds:?}");
    }
}

#[test]
fn keys_are_read_without_the_values_in_blob_files() {
    let disk = MemFs::new();
    let with_blobs = Options { blob_bytes_min: 1024, ..options() };
    let db = open(&disk, with_blobs.clone());
    for n in 0..20 {
        db.put(&key(n), &[n as u8; 5_000]).unwrap();
    }
    db.flush().unwrap();
    // Several versions, so that a step back copies.
    let moment = db.snapshot();
    for n in 0..20 {
        db.put(&key(n), &[0; 2_000]).unwrap();
    }
    db.flush().unwrap();
    drop(moment);
    drop(db);
    let noted = Noted::new(disk);
    let db = open(&noted.fs, with_blobs);
    let blobs = |act: &dyn Fn()| {
        let is_blob = |path: &PathBuf| path.extension().is_some_and(|it| it == "blob");
        noted.of(act).iter().filter(|path| is_blob(path)).count()
    };
    assert!(blobs(&|| assert_eq!(all(db.range(..)), 20)) >= 20);
    assert_eq!(blobs(&|| assert_eq!(db.range(..).keys().count(), 20)), 0);
    // A count needs no value, also when the range has been read from already.
    assert_eq!(blobs(&|| assert_eq!(db.range(..).count(), 20)), 0);
    let mut begun = db.range(..);
    begun.next().unwrap().unwrap();
    begun.next_back().unwrap().unwrap();
    let begun = std::cell::Cell::new(Some(begun));
    assert_eq!(blobs(&|| assert_eq!(begun.take().map(Iterator::count), Some(18))), 0);
    assert_eq!(blobs(&|| assert_eq!(db.range(..).keys().rev().map(Result::unwrap).count(), 20)), 0);
    assert_eq!(blobs(&|| assert!(db.contains_key(&key(7)).unwrap())), 0);
    let mut range = db.range(..);
    range.next().unwrap().unwrap();
    range.next_back().unwrap().unwrap();
    let keys = std::cell::Cell::new(Some(range.keys()));
    assert_eq!(blobs(&|| assert_eq!(keys.take().unwrap().count(), 18)), 0);
}
