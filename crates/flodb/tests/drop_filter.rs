//! What a filter of the embedder lets compactions drop.

use crate::support::{rows, tiny};
use keyrack_flodb::{Db, Options};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(disk: &MemFs) -> Db {
    disk.create_dir_all(Path::new("/store")).unwrap();
    let options = Options { compaction_threads: 0, ..tiny() };
    Db::open_in(Arc::new(disk.clone()), Path::new("/store"), options).unwrap()
}

fn entries(db: &Db) -> f64 {
    let mut entries = 0.0;
    db.stats(&mut |name, value| {
        if name.starts_with("level") && name.ends_with("_entries") {
            entries += value;
        }
    });
    entries
}

#[test]
fn a_compaction_drops_what_has_expired_and_a_snapshot_keeps_it() {
    let disk = MemFs::new();
    let db = open(&disk);
    let has_come = Arc::new(AtomicBool::new(false));
    let time = Arc::clone(&has_come);
    let is_set = db.set_drop_filter(Arc::new(move |_, value| {
        time.load(Ordering::Relaxed) && value.starts_with(b"expires")
    }));
    assert!(is_set && !db.set_drop_filter(Arc::new(|_, _| true)), "the first one stays");
    for n in 0..1000_u32 {
        db.put(&n.to_be_bytes(), b"old").unwrap();
    }
    db.compact_range(None, None).unwrap();
    for n in (0..1000_u32).step_by(2) {
        db.put(&n.to_be_bytes(), b"expires soon").unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert_eq!((rows(&db).len(), entries(&db)), (1000, 1000.0), "it is not time yet");

    has_come.store(true, Ordering::Relaxed);
    let snapshot = db.snapshot();
    let mut iter = db.iter().unwrap();
    // Something new in each table, so that a compaction has work.
    let touch = |value: &[u8]| {
        for n in (1..1000_u32).step_by(2) {
            db.put(&n.to_be_bytes(), value).unwrap();
        }
        db.compact_range(None, None).unwrap();
    };
    touch(b"new");
    assert_eq!(rows(&db).len(), 1000, "a snapshot sees them");
    for n in (0..1000_u32).step_by(2) {
        let found = db.get_at(&snapshot, &n.to_be_bytes(), <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_deref(), Some(&b"expires soon"[..]));
    }
    drop(snapshot);
    touch(b"newer");
    assert!(rows(&db).values().all(|value| value == b"newer"), "nothing older came back");
    assert_eq!((rows(&db).len(), entries(&db)), (500, 500.0));
    iter.seek_first().unwrap();
    let mut seen = 0;
    while iter.entry().is_some() {
        seen += 1;
        iter.next().unwrap();
    }
    assert_eq!(seen, 1000, "an open iterator keeps what it sees");
    drop(iter);
    db.close().unwrap();
    assert_eq!(rows(&open(&disk)).len(), 500);
}
