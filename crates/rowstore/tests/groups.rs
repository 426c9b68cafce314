//! Groups: whole or not at all, never larger than the log takes, and seen by their session alone
//! until they are flushed. Over every way of holding rows.

use crate::support::{content, get, open, tiny};
use crate::watched::Watched;
use keyrack_rowstore::{Eviction, Options, RowStore, Rows, StoreRows};
use keyrack_store::{Error, OpenOptions, Store, Update};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{Fs, MemFs};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The bytes of log that one record takes in all of these stores, about.
const RECORD_BYTES: usize = 64 << 10;

pub(crate) fn flodb(disk: &MemFs) -> Box<dyn Store> {
    disk.create_dir_all(Path::new("/flodb")).unwrap();
    let open = OpenOptions {
        data_dir: Some("/flodb".into()),
        options: vec![("segment_bytes".to_owned(), "64k".to_owned())],
        ..OpenOptions::in_memory(Arc::new(disk.clone()))
    };
    (keyrack_flodb::engine().open)(&open).unwrap()
}

pub(crate) fn over(store: Box<dyn Store>) -> StoreRows {
    StoreRows::with_sweep_interval(store, Duration::ZERO).unwrap()
}

/// Every way of holding rows, each with a name.
fn all() -> Vec<(&'static str, Box<dyn Rows>)> {
    vec![
        ("on disk", Box::new(open(&MemFs::new(), tiny()))),
        ("in memory", Box::new(RowStore::in_memory(tiny()).unwrap())),
        ("flodb", Box::new(over(flodb(&MemFs::new())))),
        ("a model", Box::new(over(Box::new(Watched::new(RECORD_BYTES).0)))),
    ]
}

fn long_key(n: usize) -> Vec<u8> {
    let mut key = format!("{n:06}/").into_bytes();
    key.resize(906, b'k');
    key
}

#[test]
fn removals_that_outgrow_the_log_refuse_the_whole_group_and_the_store_goes_on() {
    for (name, rows) in all() {
        let mut session = rows.session().unwrap();
        for n in 0..200 {
            session.put(&long_key(n), b"small", 0, 0).unwrap();
            session.flush().unwrap();
        }
        let before = content(&*rows);
        session.begin_group().unwrap();
        session.put(b"large", &[b'v'; 20_000], 0, 0).unwrap();
        let refused = (0..200).filter(|n| session.remove(&long_key(*n)).is_err()).count();
        assert!(refused > 100, "{name}: {refused}");
        let error = session.flush().unwrap_err();
        assert!(matches!(error, Error::Usage { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains("bytes of log"), "{name}: {error}");
        assert!(content(&*rows) == before, "{name}");
        assert_eq!(rows.len(), 200, "{name}");
        session.put(b"after", b"it", 0, 0).unwrap();
        session.flush().unwrap();
        assert_eq!(get(&mut *session, b"after").unwrap(), b"it", "{name}");
        assert_eq!(rows.len(), 201, "{name}");
    }
}

#[test]
fn a_refused_group_is_not_there_after_a_restart_either() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    session.put(b"before", b"it", 0, 0).unwrap();
    session.begin_group().unwrap();
    while session.put(&long_key(0), &[1; 30_000], 0, 0).is_ok()
        && session.put(&long_key(1), &[1; 30_000], 0, 0).is_ok()
    {}
    assert!(session.flush().is_err());
    session.put(b"after", b"it", 0, 0).unwrap();
    session.flush().unwrap();
    let found = content(&open(&disk.process_crash_image(), tiny()));
    assert_eq!(found.keys().map(Vec::as_slice).collect::<Vec<_>>(), [&b"after"[..], b"before"]);
}

#[test]
fn a_group_up_to_its_limit_is_written_and_one_byte_more_is_refused() {
    for (name, rows) in all() {
        let mut session = rows.session().unwrap();
        let mut fits = |bytes: usize| {
            session.begin_group().unwrap();
            for n in 0..3 {
                session.put(&[n], &[n; 15_000], 0, 0).unwrap();
            }
            session.remove(b"nothing").unwrap();
            let put = session.put(b"last", &vec![0; bytes], 0, 0);
            let flushed = session.flush();
            assert_eq!(put.is_ok(), flushed.is_ok(), "{name}: {put:?} and {flushed:?}");
            flushed.is_ok()
        };
        let most = (0..30_000).collect::<Vec<_>>().partition_point(|bytes| fits(*bytes));
        assert!((8_000..30_000).contains(&most), "{name}: {most}");
        assert!(fits(most - 1) && !fits(most), "{name}");
        assert_eq!(rows.len(), 4, "{name}");
    }
}

#[test]
fn groups_that_no_write_refused_are_never_too_large_for_the_log() {
    for seed in seeds() {
        let _seed = Announced(seed);
        for (name, rows) in all() {
            let mut draw = Draw::new(seed);
            let mut session = rows.session().unwrap();
            for _ in 0..60 {
                session.begin_group().unwrap();
                let mut is_refused = false;
                for _ in 0..draw.below(200) {
                    let mut key = vec![b'a' + draw.below(20) as u8];
                    key.resize(1 + draw.below(900), b'k');
                    let written = match draw.below(40) {
                        0 => session.clear(),
                        1..=15 => session.remove(&key).map(|_| ()),
                        _ => session.put(&key, &vec![7; draw.below(1200)], 1, 0).map(|_| ()),
                    };
                    is_refused |= written.is_err();
                }
                let expected = (!is_refused).then(|| session.count());
                let flushed = session.flush();
                assert_eq!(flushed.is_err(), is_refused, "{name}: {flushed:?}");
                if let Some(expected) = expected {
                    assert_eq!(rows.len(), expected, "{name}");
                }
                assert_eq!(rows.len(), content(&*rows).len() as u64, "{name}");
            }
        }
    }
}

#[test]
fn a_group_is_seen_by_its_session_alone_until_it_is_flushed() {
    for (name, rows) in all() {
        let mut session = rows.session().unwrap();
        let mut other = rows.session().unwrap();
        session.put(b"a", b"old", 0, 0).unwrap();
        session.put(b"b", b"old", 0, 0).unwrap();
        session.flush().unwrap();
        session.begin_group().unwrap();
        let version = session.put(b"a", b"new", 0, 0).unwrap();
        session.remove(b"b").unwrap();
        session.put(b"c", b"new", 0, 0).unwrap();
        assert_eq!((session.count(), other.count()), (2, 2), "{name}");
        assert_eq!(get(&mut *session, b"a").unwrap(), b"new", "{name}");
        assert_eq!(get(&mut *other, b"a").unwrap(), b"old", "{name}");
        assert_eq!(get(&mut *session, b"b"), None, "{name}");
        assert!(get(&mut *other, b"b").is_some() && get(&mut *other, b"c").is_none(), "{name}");
        session.flush().unwrap();
        assert_eq!(crate::support::version(&mut *other, b"a"), Some(version), "{name}");
        assert_eq!(get(&mut *other, b"c").unwrap(), b"new", "{name}");
        assert_eq!(rows.len(), 2, "{name}");
    }
}

#[test]
fn a_cancelled_group_has_changed_nothing_and_is_not_counted() {
    for (name, rows) in all() {
        let mut session = rows.session().unwrap();
        session.put(b"a", b"1", 0, 0).unwrap();
        session.flush().unwrap();
        let before = content(&*rows);
        session.begin_group().unwrap();
        for n in 0..40_u8 {
            session.put(&[n], b"new", 0, 0).unwrap();
        }
        session.clear().unwrap();
        session.put(b"b", b"new", 0, 0).unwrap();
        session.cancel_group();
        session.flush().unwrap();
        assert!(content(&*rows) == before, "{name}");
        assert_eq!((rows.len(), session.count()), (1, 1), "{name}");
        session.update(b"a", &mut |_, _| Update::Remove).unwrap();
        session.flush().unwrap();
        assert_eq!(rows.len(), 0, "{name}");
    }
}

#[test]
fn evictions_never_lengthen_the_record_of_a_group_beyond_the_log() {
    let disk = MemFs::new();
    let options = Options { memory_max: 120 << 10, eviction: Eviction::Clock, ..tiny() };
    let store = open(&disk, options);
    let mut session = store.session().unwrap();
    for round in 0..40 {
        session.begin_group().unwrap();
        for n in 0..55 {
            session.put(&long_key(round * 60 + n), b"small", 0, 0).unwrap();
        }
        session.flush().unwrap();
        // One row of the largest size makes room by removing many with long keys.
        let row = store.options().row_bytes_max - 20;
        session.put(&vec![b'z'; store.options().key_bytes_max], &vec![0; row], 0, 0).unwrap();
        session.flush().unwrap();
    }
    assert!(crate::support::stat(&store, "evicted") > 1000.0);
    assert!(crate::support::stat(&store, "memory_bytes") <= f64::from(120 << 10));
    let expected = content(&store);
    drop(session);
    assert!(content(&open(&disk.process_crash_image(), tiny())) == expected);
}

#[test]
fn a_scan_in_a_group_reads_no_more_than_its_page() {
    let (store, watch) = Watched::new(RECORD_BYTES);
    let rows = over(Box::new(store));
    let mut session = rows.session().unwrap();
    for n in 0..5000 {
        session.put(format!("{n:06}").as_bytes(), b"v", 0, 0).unwrap();
    }
    session.begin_group().unwrap();
    session.put(b"000003x", b"new", 0, 0).unwrap();
    session.remove(b"000002").unwrap();
    for is_reverse in [false, true] {
        watch.visited.store(0, Ordering::Relaxed);
        let mut page = Vec::new();
        let mut visit = |key: &[u8], _: keyrack_rowstore::Row<'_>| {
            page.push(String::from_utf8(key.to_vec()).unwrap());
            if page.len() < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let visited = if is_reverse {
            session.scan_rev(b"", Some(b"000006"), &mut visit).unwrap()
        } else {
            session.scan(b"", None, &mut visit).unwrap()
        };
        assert_eq!(visited, 5);
        let expected = if is_reverse {
            ["000005", "000004", "000003x", "000003", "000001"]
        } else {
            ["000000", "000001", "000003", "000003x", "000004"]
        };
        assert_eq!(page, expected);
        assert!(watch.visited.load(Ordering::Relaxed) < 10, "{watch:?}");
    }
}
