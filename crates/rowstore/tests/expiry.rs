//! Rows that expire, and rows that give way to others.

use crate::support::{close, content, get, open, stat, tiny};
use keyrack_rowstore::{Eviction, Options, RowStore, Rows};
use keyrack_store::{Error, Update};
use keyrack_vfs::MemFs;
use std::time::Duration;

#[test]
fn a_row_that_has_expired_is_not_there_for_anything() {
    let store = RowStore::in_memory(tiny()).unwrap();
    let mut session = store.session().unwrap();
    session.at(1000);
    let first = session.put(b"a", b"1", 0, 2000).unwrap();
    session.at(1999);
    assert!(get(&mut *session, b"a").is_some());
    session.at(2000);
    assert_eq!(get(&mut *session, b"a"), None);
    assert_eq!(session.scan(b"", None, &mut |_, _| unreachable!()).unwrap(), 0);
    assert!(!session.remove(b"a").unwrap());
    session.multi_get(&[b"a"], &mut |_, row| assert!(row.is_none())).unwrap();
    let second = session
        .update(b"a", &mut |row, new| {
            assert!(row.is_none());
            new.set_value(b"2");
            Update::Put
        })
        .unwrap();
    assert!(second > first, "the version goes on from the one that expired");
}

#[test]
fn a_sweep_gives_memory_back_and_is_not_undone_by_a_restart() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    for n in 0..10_000_u32 {
        let expires_ms = if n % 2 == 0 { 500 + u64::from(n % 10) } else { 0 };
        session.put(&n.to_be_bytes(), b"some value", 0, expires_ms).unwrap();
    }
    session.flush().unwrap();
    drop(session);
    let before = stat(&store, "memory_bytes");
    assert_eq!(store.sweep(499).unwrap(), 0);
    assert_eq!(store.sweep(504).unwrap(), 3000, "those of 500, 502 and 504");
    assert_eq!(store.sweep(10_000).unwrap(), 2000);
    assert_eq!(store.len(), 5000);
    assert_eq!(stat(&store, "expired"), 5000.0);
    assert_eq!(stat(&store, "volatile_rows"), 0.0);
    assert!(stat(&store, "memory_bytes") < before * 0.6);
    let expected = content(&store);
    close(store);
    assert!(content(&open(&disk, tiny())) == expected);
}

/// A kill in between kept the removal and lost the group: the old value was gone for nothing.
#[test]
fn a_sweep_logged_the_removal_of_a_row_that_was_not_logged() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    session.put(b"a", b"old", 0, 0).unwrap();
    session.flush().unwrap();
    session.begin_group().unwrap();
    session.put(b"a", b"brief", 0, 10).unwrap();
    session.put(b"b", b"new", 0, 0).unwrap();
    session.commit_group().unwrap();

    let swept = store.sweep(20);
    let killed = open(&disk.process_crash_image(), tiny());
    let mut after = killed.session().unwrap();
    assert_eq!(get(&mut *after, b"a").as_deref(), Some(&b"old"[..]));
    assert_eq!(get(&mut *after, b"b"), None);
    assert!(matches!(swept, Err(Error::Usage { .. })), "{swept:?}");

    session.flush().unwrap();
    assert_eq!(store.sweep(20).unwrap(), 1);
    let killed = open(&disk.process_crash_image(), tiny());
    assert_eq!(killed.len(), 1);
}

#[test]
fn the_sweeper_sweeps_by_itself_at_the_time_that_sessions_have() {
    let options = Options { sweep_interval: Duration::from_millis(1), ..tiny() };
    let store = RowStore::in_memory(options).unwrap();
    let mut session = store.session().unwrap();
    session.at(100);
    for n in 0..20_000_u32 {
        session.put(&n.to_be_bytes(), b"", 0, 200 + u64::from(n % 2) * 1000).unwrap();
    }
    session.at(200);
    // It ends when the sweeper has done its work, however long it takes.
    while stat(&store, "expired") < 10_000.0 {
        std::thread::yield_now();
    }
    assert_eq!(store.len(), 10_000);
    drop(session);
    close(store);
}

#[test]
fn without_eviction_a_full_memory_refuses_what_adds_to_it() {
    let options = Options { memory_max: 100_000, ..tiny() };
    let store = RowStore::in_memory(options).unwrap();
    let mut session = store.session().unwrap();
    let mut rows = 0_u32;
    let error = loop {
        match session.put(&rows.to_be_bytes(), &[1; 500], 0, 0) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "out of memory: memory-max of 100000 bytes is reached; raise it, remove rows, or choose \
         the eviction clock"
    );
    assert!((100..200).contains(&rows), "{rows}");
    assert_eq!(store.len(), u64::from(rows));
    // What does not add is taken, and what makes room as well.
    session.put(&0_u32.to_be_bytes(), &[2; 500], 0, 0).unwrap();
    assert!(session.put(&0_u32.to_be_bytes(), &[2; 5000], 0, 0).is_err());
    assert_eq!(get(&mut *session, &0_u32.to_be_bytes()).unwrap(), [2; 500]);
    assert!(session.remove(&1_u32.to_be_bytes()).unwrap());
    session.put(b"another", &[3; 400], 0, 0).unwrap();
}

#[test]
fn the_clock_keeps_what_is_read_and_stays_within_its_limit() {
    let disk = MemFs::new();
    let limit = 1 << 20;
    let options = || Options { memory_max: limit, eviction: Eviction::Clock, ..tiny() };
    let store = open(&disk, options());
    let mut session = store.session().unwrap();
    for n in 0..100_u32 {
        session.put(format!("hot/{n}").as_bytes(), &[1; 100], 0, 0).unwrap();
    }
    for n in 0..30_000_u32 {
        session.put(format!("cold/{n}").as_bytes(), &[2; 200], 0, 0).unwrap();
        get(&mut *session, format!("hot/{}", n % 100).as_bytes());
        if n % 8 == 0 {
            session.flush().unwrap();
        }
        assert!(stat(&store, "memory_bytes") <= limit as f64 * 1.1, "{n}");
    }
    session.flush().unwrap();
    let hot = (0..100).filter(|n| get(&mut *session, format!("hot/{n}").as_bytes()).is_some());
    let hot = hot.count();
    assert!(hot >= 90, "{hot} of 100 that are read all the time");
    assert!(stat(&store, "evicted") > 20_000.0);
    assert!(session.put(b"huge", &[0; 30 << 10], 0, 0).is_ok());
    drop(session);
    // Evicted rows stay away, and what memory holds is counted as before.
    let (expected, bytes) = (content(&store), stat(&store, "memory_bytes"));
    close(store);
    let store = open(&disk, options());
    assert!(content(&store) == expected);
    assert_eq!(stat(&store, "memory_bytes"), bytes);
}

#[test]
fn many_writers_stay_within_the_limit_together() {
    let limit = 512 << 10;
    let options = Options { memory_max: limit, eviction: Eviction::Clock, ..tiny() };
    let store = RowStore::in_memory(options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let store = &store;
            scope.spawn(move || {
                let mut session = store.session().unwrap();
                for n in 0..4000_u32 {
                    let key = [&[thread][..], &n.to_be_bytes()].concat();
                    session.put(&key, &[1; 300], 0, 0).unwrap();
                }
            });
        }
    });
    assert!(stat(&store, "memory_bytes") <= limit as f64 * 1.1);
    assert!(store.len() > 500, "{}", store.len());
    assert_eq!(store.len() as f64, 16_000.0 - stat(&store, "evicted"));
}
