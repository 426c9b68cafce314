//! What a filter of the embedder lets compactions drop.

use crate::support::{idle, of_levels, open, rows, walk};
use keyrack_flodb::{Clock, Counter, Options};
use keyrack_vfs::MemFs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn a_compaction_drops_what_has_expired_and_a_snapshot_keeps_it() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
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
    assert_eq!((rows(&db).len(), of_levels(&db, "entries")), (1000, 1000), "it is not time yet");

    has_come.store(true, Ordering::Relaxed);
    let snapshot = db.snapshot();
    let iter = db.iter().unwrap();
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
    assert_eq!((rows(&db).len(), of_levels(&db, "entries")), (500, 500));
    assert_eq!(walk(iter).unwrap().len(), 1000, "an open iterator keeps what it sees");
    db.close().unwrap();
    assert_eq!(rows(&open(&disk, idle())).len(), 500);
}

/// A value whose operands stay is no value of its own to the filter.
#[test]
fn a_value_under_operands_that_stay_is_not_dropped() {
    let now = Arc::new(AtomicU64::new(1_000));
    let time = Arc::clone(&now);
    let clock = Clock::Custom(Arc::new(move || time.load(Ordering::Relaxed)));
    let db = open(&MemFs::new(), Options { clock, ..idle() }.merge_operator(Counter));
    let ten = 10_i64.to_le_bytes();
    assert!(db.set_drop_filter(Arc::new(move |_, value| value == ten)));
    db.put_until(b"sum", &ten, 2_000).unwrap();
    db.put_until(b"alone", &ten, 2_000).unwrap();
    db.merge(b"sum", &1_i64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get(b"sum").unwrap().unwrap(), 11_i64.to_le_bytes());
    assert_eq!(db.get(b"alone").unwrap(), None);
}
