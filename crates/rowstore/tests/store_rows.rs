//! Rows over other stores: what expires goes, what is counted is there, and removing everything
//! takes no time.

use crate::groups::{flodb, over};
use crate::support::{content, get, open, stat, with_logs};
use crate::watched::Watched;
use keyrack_rowstore::{Rows, StoreRows};
use keyrack_store::{ModelStore, Store};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::MemFs;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Stores of several kinds, each with a name.
fn stores() -> Vec<(&'static str, Box<dyn Store>)> {
    vec![
        ("flodb", flodb(&MemFs::new())),
        ("the model", Box::new(ModelStore::new())),
        ("small batches", Box::new(Watched::new(40_000).0)),
    ]
}

#[test]
fn expired_rows_of_any_store_go_from_counts_and_from_the_store() {
    for (name, store) in stores() {
        let rows = over(store);
        let mut session = rows.session().unwrap();
        for n in 0..10_000_u32 {
            let expires_ms = if n % 2 == 0 { 500 + u64::from(n % 10) } else { 0 };
            session.put(&n.to_be_bytes(), b"some value", 0, expires_ms).unwrap();
        }
        assert_eq!(stat(&rows, "volatile_rows"), 5000.0, "{name}");
        assert_eq!(rows.sweep(499).unwrap(), 0, "{name}");
        assert_eq!(rows.sweep(504).unwrap(), 3000, "{name}: those of 500, 502 and 504");
        assert_eq!(rows.len(), 7000, "{name}");
        assert_eq!(rows.sweep(10_000).unwrap(), 2000, "{name}");
        assert_eq!((rows.len(), rows.sweep(20_000).unwrap()), (5000, 0), "{name}");
        assert_eq!(stat(&rows, "expired"), 5000.0, "{name}");
        assert_eq!(stat(&rows, "volatile_rows"), 0.0, "{name}");
        assert_eq!(content(&rows).len(), 5000, "{name}");
    }
}

#[test]
fn the_sweeper_of_any_store_sweeps_at_the_time_that_sessions_have() {
    for (name, store) in stores() {
        let rows = StoreRows::with_sweep_interval(store, Duration::from_millis(1)).unwrap();
        let mut session = rows.session().unwrap();
        session.at(100);
        for n in 0..6_u8 {
            session.put(&[n], b"gone soon", 0, 200).unwrap();
        }
        session.put(b"stays", b"", 0, 0).unwrap();
        session.at(200);
        // It ends when the sweeper has done its work, however long it takes.
        while rows.len() > 1 {
            std::thread::yield_now();
        }
        // A round that had nothing to find does not keep a later one from its work.
        session.put(b"later", b"", 0, 300).unwrap();
        session.at(400);
        while rows.len() > 1 {
            std::thread::yield_now();
        }
        assert_eq!(stat(&rows, "expired"), 7.0, "{name}");
        drop(session);
        Box::new(rows).close().unwrap();
    }
}

#[test]
fn rows_that_expired_before_a_restart_are_swept_after_it() {
    let disk = MemFs::new();
    let rows = over(flodb(&disk));
    let mut session = rows.session().unwrap();
    for n in 0..300_u32 {
        session.put(&n.to_be_bytes(), b"value", 0, u64::from(n % 3) * 500).unwrap();
    }
    drop(session);
    Box::new(rows).close().unwrap();
    let rows = over(flodb(&disk));
    assert_eq!((rows.len(), stat(&rows, "volatile_rows")), (300, 200.0));
    assert_eq!(rows.sweep(500).unwrap(), 100);
    Box::new(rows).close().unwrap();
    let rows = over(flodb(&disk));
    assert_eq!(rows.len(), 200);
    assert_eq!(content(&rows).len(), 200);
}

#[test]
fn a_row_that_is_written_again_after_it_expired_survives_the_sweep() {
    for (name, store) in stores() {
        let rows = over(store);
        let mut session = rows.session().unwrap();
        session.put(b"a", b"old", 0, 100).unwrap();
        session.put(b"b", b"old", 0, 100).unwrap();
        session.at(200);
        session.put(b"a", b"new", 0, 0).unwrap();
        session.begin_group().unwrap();
        session.put(b"b", b"new", 0, 0).unwrap();
        assert_eq!(rows.sweep(200).unwrap(), 1, "{name}: under the group");
        session.flush().unwrap();
        assert_eq!((rows.len(), content(&rows).len()), (2, 2), "{name}");
        assert_eq!(get(&mut *session, b"b").unwrap(), b"new", "{name}");
    }
}

#[test]
fn clearing_a_store_of_more_keys_than_a_batch_takes_leaves_nothing() {
    for (name, store) in stores() {
        let rows = over(store);
        let mut session = rows.session().unwrap();
        for n in 0..5000_u32 {
            session.put(format!("{n:0100}").as_bytes(), b"v", 0, u64::from(n)).unwrap();
        }
        for in_group in [false, true] {
            if in_group {
                session.begin_group().unwrap();
            }
            session.clear().unwrap();
            session.put(b"", b"first", 0, 0).unwrap();
            session.put(b"kept", b"it", 0, 0).unwrap();
            session.flush().unwrap();
            assert_eq!((rows.len(), content(&rows).len()), (2, 2), "{name}");
            assert_eq!(stat(&rows, "volatile_rows"), 0.0, "{name}");
        }
        session.clear().unwrap();
        assert_eq!((rows.len(), content(&rows).len()), (0, 0), "{name}");
    }
}

#[test]
fn clearing_flodb_writes_one_record_whatever_it_holds() {
    let disk = MemFs::new();
    let rows = over(flodb(&disk));
    let mut session = rows.session().unwrap();
    // The keys alone are several times what a record takes.
    for n in 0..3000_u32 {
        session.put(format!("{n:0500}").as_bytes(), &[b'v'; 100], 0, 0).unwrap();
    }
    let before = disk.crash_image(1, keyrack_vfs::CrashPolicy::KeepAll);
    assert_eq!(over(flodb(&before)).len(), 3000);
    session.begin_group().unwrap();
    session.clear().unwrap();
    session.put(b"after", b"it", 0, 0).unwrap();
    session.flush().unwrap();
    drop(session);
    let after = disk.process_crash_image();
    let rows = over(flodb(&after));
    assert_eq!((rows.len(), content(&rows).len()), (1, 1), "all of the group is there");
}

#[test]
fn what_a_store_refuses_is_not_counted() {
    let (store, watch) = Watched::new(20_000);
    let rows = over(Box::new(store));
    let mut session = rows.session().unwrap();
    for n in 0..10_u8 {
        session.put(&[n], b"there", 0, 500).unwrap();
    }
    watch.refuses.store(true, Ordering::Relaxed);
    session.begin_group().unwrap();
    for n in 0..40_u8 {
        session.put(&[n], b"new", 0, 0).unwrap();
    }
    assert_eq!((session.count(), rows.len()), (40, 10));
    assert!(session.flush().is_err());
    assert!(session.put(b"single", b"", 0, 0).is_err());
    assert!(session.remove(&[3]).is_err());
    assert!(session.clear().is_err());
    assert!(rows.sweep(1000).is_err());
    assert_eq!((rows.len(), content(&rows).len()), (10, 10));
    assert_eq!(stat(&rows, "volatile_rows"), 10.0);
    watch.refuses.store(false, Ordering::Relaxed);
    assert_eq!(rows.sweep(1000).unwrap(), 10, "the sweep is tried again");
    assert_eq!(rows.len(), 0);
}

/// Groups of several threads on the same keys, single writes, clears and sweeps all at once.
fn counts_are_right(name: &str, rows: &dyn Rows, seed: u64, sweep: &(dyn Fn(u64) -> u64 + Sync)) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut draw = Draw::new(seed * 10 + thread);
                let mut session = rows.session().unwrap();
                for n in 0..150 {
                    session.at(n);
                    let is_group = draw.below(2) == 0;
                    if is_group {
                        session.begin_group().unwrap();
                    }
                    for _ in 0..draw.below(8) {
                        let key = [draw.below(30) as u8];
                        let expires_ms = [0, n / 2, n + 1, 5000][draw.below(4)];
                        match draw.below(3) {
                            0 => drop(session.remove(&key).unwrap()),
                            _ => drop(session.put(&key, b"v", 0, expires_ms).unwrap()),
                        }
                    }
                    match draw.below(20) {
                        0 => session.clear().unwrap(),
                        1 => {
                            session.flush().unwrap();
                            sweep(n);
                        }
                        _ => {}
                    }
                    session.flush().unwrap();
                }
            });
        }
    });
    // What was cleared goes. At the beginning of time nothing has expired.
    sweep(0);
    let found = content(rows);
    assert_eq!(rows.len(), found.len() as u64, "{name}");
    let volatile = found.values().filter(|held| held.expires_ms != 0).count();
    assert_eq!(stat(rows, "volatile_rows"), volatile as f64, "{name}");
}

#[test]
fn counts_are_right_whoever_writes_at_the_same_time() {
    for seed in seeds() {
        let _seed = Announced(seed);
        for (name, store) in stores() {
            let rows = over(store);
            counts_are_right(name, &rows, seed, &|now_ms| rows.sweep(now_ms).unwrap());
        }
        for round in 0..8 * factor() as u64 {
            let rows = open(&MemFs::new(), with_logs(2));
            let sweep = |now_ms| rows.sweep(now_ms).unwrap();
            counts_are_right("rows of their own", &rows, seed.wrapping_add(round), &sweep);
            let mut session = rows.session().unwrap();
            session.clear().unwrap();
            session.flush().unwrap();
            assert_eq!(rows.len(), 0);
            sweep(0);
            let sums = ["rows", "memory_bytes", "volatile_rows", "dead_rows"];
            assert_eq!(sums.map(|name| stat(&rows, name)), [0.0; 4]);
        }
    }
}
