//! What a snapshot held back, and is not needed any more, goes with a compaction on request.

use crate::support::{rows, tiny};
use keyrack_flodb::{Db, Options};
use keyrack_vfs::MemFs;
use std::path::Path;
use std::sync::Arc;

fn open(disk: &MemFs) -> Db {
    let idle = Options { compaction_threads: 0, memtable_bytes: 4 << 20, ..tiny() };
    Db::open_in(Arc::new(disk.clone()), Path::new("/store"), idle).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn number(db: &Db, name: &str) -> u64 {
    db.property(&format!("keyrack.{name}")).unwrap().parse().unwrap()
}

/// Entries of all tables: versions and removals.
fn entries(db: &Db) -> u64 {
    let mut entries = 0.0;
    db.stats(&mut |name, number| {
        if name.starts_with("level") && name.ends_with("_entries") {
            entries += number;
        }
    });
    entries as u64
}

#[test]
fn replaced_versions_and_removals_go_when_no_snapshot_needs_them() {
    let disk = MemFs::new();
    let db = open(&disk);
    (0..100).for_each(|n| db.put(&key(n), &[0; 300]).unwrap());
    let snapshot = db.snapshot();
    (0..80).for_each(|n| db.put(&key(n), &[1; 300]).unwrap());
    (80..100).for_each(|n| db.delete(&key(n)).unwrap());
    db.compact_range(None, None).unwrap();
    assert_eq!((entries(&db), rows(&db).len()), (200, 80));

    // As long as it is needed, it stays, however often somebody asks.
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db), 200);
    let mut iter = db.iter_at(&snapshot).unwrap();
    iter.seek_first().unwrap();
    let mut seen = 0;
    while let Some((_, value)) = iter.entry() {
        assert_eq!(value, [0; 300]);
        seen += 1;
        iter.next().unwrap();
    }
    assert_eq!(seen, 100);
    drop((iter, snapshot));

    // What is asked for, and no more than the tables that it is in.
    db.compact_range(Some(&key(0)), Some(&key(5))).unwrap();
    let some = entries(&db);
    assert!((81..195).contains(&some), "{some}");
    db.compact_range(None, None).unwrap();
    assert_eq!((entries(&db), rows(&db).len()), (80, 80));

    // Nothing is left to be done.
    let done = number(&db, "compactions");
    db.compact_range(None, None).unwrap();
    assert_eq!(number(&db, "compactions"), done);
    drop(db);
    let db = open(&disk);
    assert_eq!((entries(&db), rows(&db).len()), (80, 80));
}

/// A snapshot between two replacements keeps the one that it sees.
#[test]
fn of_many_versions_those_stay_that_a_snapshot_sees() {
    let db = open(&MemFs::new());
    let mut snapshots = Vec::new();
    for version in 0..10_u8 {
        (0..20).for_each(|n| db.put(&key(n), &[version]).unwrap());
        snapshots.push(db.snapshot());
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db), 200);
    snapshots.drain(..4);
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db), 120, "from the fifth on");
    for (version, snapshot) in (4..).zip(&snapshots) {
        let found = db.get_at(snapshot, &key(7), <[u8]>::to_vec).unwrap();
        assert_eq!(found, Some(vec![version]));
    }
}
