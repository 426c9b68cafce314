//! The sweep: which tables are due for what has expired, and what it reads and leaves.

use super::{AnyLowerLevels, Nothing, Options, filtered_at, open, stats};
use crate::db::Db;
use crate::db::compact::{compact_once, wait_for_expiry};
use crate::expiry::{Clock, stored};
use crate::key::Kind;
use crate::options::Options as StoreOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn open_by(now_ms: &Arc<AtomicU64>) -> Db {
    let now_ms = Arc::clone(now_ms);
    let clock = Clock::Custom(Arc::new(move || now_ms.load(Ordering::SeqCst)));
    open(Options { clock, table_bytes: 4 << 10, ..StoreOptions::default() })
}

/// Runs what the background would, until nothing is due. Returns how many compactions that were.
fn sweep(db: &Db) -> usize {
    (0..).take_while(|_| compact_once(db.inner()).unwrap()).count()
}

fn entries(db: &Db) -> f64 {
    let stats = stats(db);
    (0..7).map(|level| stats.get(&format!("level{level}_entries")).copied().unwrap_or(0.0)).sum()
}

fn fill(db: &Db, keys: std::ops::Range<u32>, until: impl Fn(u32) -> u64) {
    for n in keys {
        db.put_until(&n.to_be_bytes(), &[7; 50], until(n)).unwrap();
    }
}

/// A store whose keys all expire gives its space back without a write, and without a read of the
/// tables.
#[test]
fn tables_that_have_expired_go_unread() {
    let now_ms = Arc::new(AtomicU64::new(1_000));
    let db = open_by(&now_ms);
    fill(&db, 0..500, |_| 2_000);
    db.compact_range(None, None).unwrap();
    let tables = stats(&db)["level6_tables"];
    assert!(tables > 3.0);
    assert_eq!(sweep(&db), 0);
    now_ms.store(2_000, Ordering::SeqCst);
    let (iter, read) = (db.iter().unwrap(), stats(&db)["compaction_bytes_written"]);
    let reads = stats(&db)["table_reads"] + stats(&db)["table_reads_ahead"];
    assert_eq!(sweep(&db), tables as usize);
    let after = stats(&db);
    assert_eq!((entries(&db), after["expired_entries"]), (0.0, 500.0));
    assert_eq!(after["compaction_bytes_written"], read);
    assert_eq!(after["table_reads"] + after["table_reads_ahead"], reads);
    drop(iter);
}

#[test]
fn a_table_is_swept_when_a_quarter_has_expired_and_not_again_at_once() {
    let now_ms = Arc::new(AtomicU64::new(1_000));
    let db = open_by(&now_ms);
    fill(&db, 0..40, |n| 2_000 + u64::from(n));
    db.compact_range(None, None).unwrap();
    assert_eq!(stats(&db)["level6_tables"], 1.0);
    // An expiry of 2,000 to 2,039: a quarter of the span is passed at 2,009.
    now_ms.store(2_008, Ordering::SeqCst);
    assert_eq!((sweep(&db), entries(&db)), (0, 40.0));
    now_ms.store(2_009, Ordering::SeqCst);
    assert_eq!((sweep(&db), entries(&db)), (1, 30.0));
    assert_eq!(sweep(&db), 0);
    now_ms.store(3_000, Ordering::SeqCst);
    assert_eq!((sweep(&db), entries(&db)), (1, 0.0));
}

#[test]
fn a_snapshot_holds_the_sweep_back_until_it_goes() {
    let now_ms = Arc::new(AtomicU64::new(1_000));
    let db = open_by(&now_ms);
    fill(&db, 0..100, |_| 2_000);
    db.compact_range(None, None).unwrap();
    let snapshot = db.snapshot();
    now_ms.store(5_000, Ordering::SeqCst);
    assert_eq!((sweep(&db), entries(&db)), (0, 100.0));
    assert!(wait_for_expiry(db.inner()).unwrap() >= Duration::from_secs(1), "without a rest");
    drop(snapshot);
    assert!(sweep(&db) > 0);
    assert_eq!((entries(&db), wait_for_expiry(db.inner())), (0.0, None));
}

/// What lies below an expired table does not come back, and is gone when it has expired as well.
#[test]
fn the_sweep_brings_nothing_older_back() {
    let now_ms = Arc::new(AtomicU64::new(1_000));
    let db = open_by(&now_ms);
    for n in 0..100_u32 {
        db.put(&n.to_be_bytes(), b"old").unwrap();
    }
    db.compact_range(None, None).unwrap();
    fill(&db, 0..100, |_| 2_000);
    db.flush().unwrap();
    now_ms.store(2_000, Ordering::SeqCst);
    assert!(sweep(&db) > 0);
    assert_eq!((db.range(..).count(), entries(&db)), (0, 0.0));
}

#[test]
fn the_wait_is_that_for_the_first_table_that_is_due() {
    let now_ms = Arc::new(AtomicU64::new(1_000));
    let db = open_by(&now_ms);
    assert_eq!(wait_for_expiry(db.inner()), None);
    fill(&db, 0..10, |_| 31_000);
    assert_eq!(wait_for_expiry(db.inner()), None, "nothing is in tables");
    db.flush().unwrap();
    assert_eq!(wait_for_expiry(db.inner()), Some(Duration::from_secs(30)));
    now_ms.store(30_900, Ordering::SeqCst);
    assert_eq!(wait_for_expiry(db.inner()), Some(Duration::from_secs(1)));
    fill(&db, 0..10, |_| u64::MAX - 1);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(wait_for_expiry(db.inner()), Some(Duration::from_secs(60)), "the clock may be set");
}

#[test]
fn an_expired_value_becomes_a_tombstone_while_it_may_hide_something() {
    use Kind::{Delete, Put, PutExpiring};
    let (soon, late) = (stored(50, b"soon"), stored(51, b"late"));
    let entries = [(3, Put, &b"old"[..]), (7, PutExpiring, &soon[..])];
    assert!(filtered_at(&entries, 9, 50, &Nothing).is_empty(), "and the older one with it");
    assert_eq!(filtered_at(&entries, 9, 50, &AnyLowerLevels), [(7, Delete)]);
    assert_eq!(filtered_at(&entries, 9, 49, &Nothing), [(7, PutExpiring)]);
    // A moment before it is in use: that finds that the key was written since.
    assert_eq!(filtered_at(&entries, 5, 50, &Nothing), [(7, Delete), (3, Put)]);
    let replaced = [(3, PutExpiring, &late[..]), (7, PutExpiring, &soon[..])];
    assert!(filtered_at(&replaced, 9, 50, &Nothing).is_empty(), "what is older stays hidden");
    let dropped = stored(51, b"expired");
    let entries = [(7, PutExpiring, &dropped[..])];
    assert!(filtered_at(&entries, 9, 50, &Nothing).is_empty(), "the filter sees the value alone");
}
