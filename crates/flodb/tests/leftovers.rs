//! What a snapshot held back, and is not needed any more, goes with a compaction on request.

use crate::support::{idle, of_levels, rows, stat, walk};
use keyrack_flodb::{Db, Options};
use keyrack_vfs::MemFs;

fn open(disk: &MemFs) -> Db {
    crate::support::open(disk, Options { memtable_bytes: 4 << 20, ..idle() })
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

/// Entries of all tables: versions and removals.
fn entries(db: &Db) -> u64 {
    of_levels(db, "entries")
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
    let seen = walk(db.iter_at(&snapshot).unwrap()).unwrap();
    assert_eq!(seen.len(), 100);
    assert!(seen.iter().all(|(_, value)| value == &[0; 300]));
    drop(snapshot);

    // What is asked for, and no more than the tables that it is in.
    db.compact_range(Some(&key(0)), Some(&key(5))).unwrap();
    let some = entries(&db);
    assert!((81..195).contains(&some), "{some}");
    db.compact_range(None, None).unwrap();
    assert_eq!((entries(&db), rows(&db).len()), (80, 80));

    // Nothing is left to be done.
    let done = stat(&db, "compactions");
    db.compact_range(None, None).unwrap();
    assert_eq!(stat(&db, "compactions"), done);
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
