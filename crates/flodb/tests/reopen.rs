//! Closing, dying and opening again.

use crate::disk::{files, replace, tables};
use crate::support::{DIR, backwards, try_open as open, walk};
use keyrack_flodb::{Db, Durability, Error, Options};
use keyrack_testkit::random::Draw;
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::path::Path;
use std::sync::Barrier;

fn options() -> Options {
    Options { memtable_bytes: 64 << 10, segment_bytes: 256 << 10, ..Options::default() }
}

fn number(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// So that a program can say which order a store needs before it opens it.
#[test]
fn a_store_says_the_name_of_its_order_open_or_closed() {
    let disk = MemFs::new();
    let stored = || Db::stored_comparator(&disk, Path::new(DIR)).unwrap();
    let db = open(&disk, Options { comparator: backwards(), ..options() }).unwrap();
    assert_eq!(stored().as_deref(), Some(backwards().name()));
    db.close().unwrap();
    assert_eq!(stored().as_deref(), Some(backwards().name()));
    assert!(open(&disk, options()).is_err());
    Db::destroy(&disk, Path::new(DIR)).unwrap();
    open(&disk, options()).unwrap().close().unwrap();
    assert_eq!(stored().as_deref(), Some(Options::default().comparator.name()));
}

/// FloDB's own fault: a removal that was flushed came back as a value, and its twin.
#[test]
fn deletes_stay_and_puts_stay_across_drains_and_flushes() {
    let disk = MemFs::new();
    let db = open(&disk, options()).unwrap();
    let settle = |db: &Db| {
        drop(db.iter().unwrap());
        db.flush().unwrap();
    };
    for settled in [false, true] {
        db.put(b"gone", b"value").unwrap();
        if settled {
            settle(&db);
        }
        db.delete(b"gone").unwrap();
        settle(&db);
        assert_eq!(db.get(b"gone").unwrap(), None);
        db.delete(b"there").unwrap();
        if settled {
            settle(&db);
        }
        db.put(b"there", b"value").unwrap();
        settle(&db);
        assert_eq!(db.get(b"there").unwrap().as_deref(), Some(&b"value"[..]));
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let db = open(&disk, options()).unwrap();
    assert_eq!(db.get(b"gone").unwrap(), None);
    assert_eq!(db.get(b"there").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn what_has_no_log_survives_a_clean_close() {
    let disk = MemFs::new();
    let none = || Options { durability: Durability::None, ..options() };
    let db = open(&disk, none()).unwrap();
    (0..3000).for_each(|n| db.put(&number(n), b"none").unwrap());
    db.close().unwrap();
    // And the other way round: what a log holds is read by an opening without.
    let db = open(&disk, options()).unwrap();
    (0..3000).for_each(|n| assert!(db.get(&number(n)).unwrap().is_some(), "{n}"));
    db.put(b"logged", b"value").unwrap();
    db.close().unwrap();
    let db = open(&disk, none()).unwrap();
    assert!(db.get(b"logged").unwrap().is_some());
    db.put(b"unlogged", b"value").unwrap();
    drop(db);
    let db = open(&disk, options()).unwrap();
    assert!(db.get(b"logged").unwrap().is_some() && db.get(b"unlogged").unwrap().is_some());
}

#[test]
fn one_handle_at_a_time_has_a_directory() {
    let disk = MemFs::new();
    let db = open(&disk, options()).unwrap();
    assert!(matches!(open(&disk, options()), Err(Error::Locked(_))));
    let second = db.clone();
    drop(db);
    second.put(b"key", b"value").unwrap();
    assert!(matches!(open(&disk, options()), Err(Error::Locked(_))));
    drop(second);
    assert!(open(&disk, options()).unwrap().get(b"key").unwrap().is_some());
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let disk = MemFs::new();
    let missing = Options { create_if_missing: false, ..options() };
    assert!(matches!(open(&disk, missing), Err(Error::Usage(_)) | Err(Error::Io(_))));
    drop(open(&disk, options()).unwrap());
    let fresh = Options { error_if_exists: true, ..options() };
    assert!(matches!(open(&disk, fresh), Err(Error::Usage(_))));

    let backwards = || Options { comparator: backwards(), ..options() };
    let error = open(&disk, backwards()).unwrap_err().to_string();
    assert!(error.contains("test.backwards") && error.contains("keyrack.bytewise"), "{error}");

    let other = MemFs::new();
    let db = open(&other, backwards()).unwrap();
    (0..2000).for_each(|n| db.put(&number(n), &number(n)).unwrap());
    db.compact_range(None, None).unwrap();
    let keys = walk(db.iter().unwrap()).unwrap().into_iter().map(|(key, _)| key);
    assert!(keys.eq((0..2000).rev().map(|n| number(n).to_vec())));
}

#[test]
fn a_destroyed_store_is_gone() {
    let disk = MemFs::new();
    let db = open(&disk, options()).unwrap();
    assert!(matches!(Db::destroy(&disk, Path::new(DIR)), Err(Error::Locked(_))));
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    drop(db);
    Db::destroy(&disk, Path::new(DIR)).unwrap();
    assert!(!disk.exists(Path::new(DIR)).unwrap());
    Db::destroy(&disk, Path::new(DIR)).unwrap();
    assert_eq!(open(&disk, options()).unwrap().get(b"key").unwrap(), None);
}

#[test]
fn files_of_others_outlive_a_destroyed_store() {
    let disk = MemFs::new();
    drop(open(&disk, options()).unwrap());
    let others = ["notes.txt", "2024.table", "MANIFEST-new", "log/today.txt"];
    let others = others.map(|name| Path::new(DIR).join(name));
    others.iter().for_each(|path| disk.write_atomic(path, b"mine").unwrap());
    Db::destroy(&disk, Path::new(DIR)).unwrap();
    let mut left: Vec<_> = files(&disk).into_keys().collect();
    left.sort();
    let mut others = others.to_vec();
    others.sort();
    assert_eq!(left, others);
}

/// What a store leaves to be removed later must not be a file of the next one.
#[test]
fn a_store_in_the_place_of_another_keeps_its_tables() {
    let disk = MemFs::new();
    let dir = Path::new(DIR);
    let tables = || tables(&disk).len();
    let filled = || {
        let db = open(&disk, Options { compaction_threads: 0, ..options() }).unwrap();
        for round in 0..3 {
            db.put(b"key", &[round]).unwrap();
            db.flush().unwrap();
        }
        db
    };
    let first = filled();
    // It keeps the tables that the compaction replaces.
    let iter = first.iter().unwrap();
    first.compact_range(None, None).unwrap();
    drop(first);
    assert_eq!(tables(), 1, "what nobody names is gone when a store is closed");
    drop(iter);
    let iter = {
        let again = filled();
        let iter = again.iter().unwrap();
        again.compact_range(None, None).unwrap();
        iter
    };
    Db::destroy(&disk, dir).unwrap();
    let second = filled();
    drop(iter);
    for _ in 0..17 {
        // Whatever waits to be freed is freed meanwhile.
        second.put(b"key", b"value").unwrap();
        second.flush().unwrap();
    }
    assert_eq!(tables(), 20);
    drop(second);
    assert_eq!(open(&disk, options()).unwrap().get(b"key").unwrap().unwrap(), b"value");
}

/// Values and batches larger than what a memtable holds.
#[test]
fn large_writes_have_room() {
    let disk = MemFs::new();
    let large = Options { segment_bytes: 32 << 20, ..options() };
    let db = open(&disk, large.clone()).unwrap();
    let mut draw = Draw::new(1);
    for len in [1, 65_535, 70_000, 1 << 20, 16 << 20] {
        let value: Vec<u8> = (0..len).map(|_| draw.next() as u8).collect();
        db.put(b"large", &value).unwrap();
        assert_eq!(db.get(b"large").unwrap().as_deref(), Some(&value[..]));
        db.flush().unwrap();
        assert_eq!(db.get(b"large").unwrap().as_deref(), Some(&value[..]));
    }
    let mut batch = keyrack_flodb::Batch::new();
    (0..100_000).for_each(|n| batch.put(&number(n), b"one of many"));
    db.write(&batch, Default::default()).unwrap();
    assert!(db.get(&number(99_999)).unwrap().is_some());
    assert!(matches!(db.put(b"too large", &vec![0; 33 << 20]), Err(Error::Usage(_))));
    db.close().unwrap();
    let db = open(&disk, large).unwrap();
    assert!((0..100_000).step_by(999).all(|n| db.get(&number(n)).unwrap().is_some()));
}

/// Removals take a few bytes in the log and much more in memory; many threads write batches of
/// them.
#[test]
fn batches_of_tiny_writes_have_room() {
    let disk = MemFs::new();
    let tiny = Options { segment_bytes: 4 << 20, immutable_memtables_max: 8, ..options() };
    let db = open(&disk, tiny.clone()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..4 {
                    let mut batch = keyrack_flodb::Batch::new();
                    for n in 0..20_000u32 {
                        batch.delete(&[thread, n as u8]);
                    }
                    batch.put(&[thread], &[round]);
                    db.write(&batch, Default::default()).unwrap();
                }
            });
        }
    });
    (0..8u8).for_each(|thread| assert_eq!(db.get(&[thread]).unwrap().unwrap(), [3]));
    drop(db);
    let db = open(&disk, tiny).unwrap();
    (0..8u8).for_each(|thread| assert_eq!(db.get(&[thread]).unwrap().unwrap(), [3]));
}

/// Two tables that are whole, each under the name of the other.
#[test]
fn tables_that_were_swapped_are_found() {
    let disk = MemFs::new();
    let options = || Options { compaction_threads: 0, ..options() };
    let db = open(&disk, options()).unwrap();
    // The same numbers of everything but what is given.
    let tables: [&[(&str, Option<&str>)]; 5] = [
        &[("aa", Some("1")), ("bb", Some("2"))],
        &[("ab", Some("1")), ("bb", Some("2"))],
        &[("aa", Some("1")), ("bc", Some("2"))],
        &[("aa", Some("1")), ("bb", None)],
        &[("aa", Some("1")), ("ab", Some("1")), ("bb", Some("2"))],
    ];
    for table in tables {
        for (key, value) in table {
            match value {
                Some(value) => db.put(key.as_bytes(), value.as_bytes()).unwrap(),
                None => db.delete(key.as_bytes()).unwrap(),
            }
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    let names = crate::disk::tables(&disk);
    assert_eq!(names.len(), tables.len());
    for one in 0..names.len() {
        for other in 0..one {
            let swapped = disk.crash_image(1, CrashPolicy::KeepAll);
            for (from, to) in [(one, other), (other, one)] {
                replace(&swapped, &names[to], &disk.read(&names[from]).unwrap());
            }
            match open(&swapped, options()) {
                Err(Error::Corruption { path, what, .. }) => {
                    assert!(path == names[one] || path == names[other], "{path:?}");
                    assert!(what.contains("not the table that the manifest tells of"), "{what}");
                }
                opened => panic!("{one} and {other}: {opened:?}"),
            }
        }
    }
    drop(open(&disk, options()).unwrap());
}

#[test]
fn a_closed_store_takes_no_writes_through_other_handles() {
    let disk = MemFs::new();
    let db = open(&disk, options()).unwrap();
    let other = db.clone();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    for n in 0..2000 {
        let refused = other.put(&number(n), &[7; 100]);
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    }
    assert!(other.get(b"key").unwrap().is_some());
}

/// The segments that the log kept for later took more room than a small store.
#[test]
fn an_idle_store_gives_back_the_spare_segments_of_its_log() {
    let disk = MemFs::new();
    let options = || Options { segment_bytes: 1 << 20, ..options() };
    let db = open(&disk, options()).unwrap();
    // And the file that marks the newest of them.
    let segments = || disk.list(&Path::new(DIR).join("log")).unwrap().len() - 1;
    for round in 0..3_u8 {
        for n in 0..20_000 {
            db.put(&number(n), &[round; 50]).unwrap();
        }
        db.flush().unwrap();
        // The thread that flushes does it, some time after the last write.
        while segments() > 1 {
            std::thread::yield_now();
        }
        assert!((0..20_000).all(|n| db.get(&number(n)).unwrap() == Some(vec![round; 50])));
    }
    drop(db);
    let db = open(&disk, options()).unwrap();
    assert!((0..20_000).all(|n| db.get(&number(n)).unwrap() == Some(vec![2; 50])));
}

/// What other handles wrote between the last flush and the end was acknowledged, and lost.
#[test]
fn what_is_acknowledged_beside_a_close_is_there_later() {
    for round in 0..50 {
        let disk = MemFs::new();
        let durability = [Durability::None, Durability::Os][round % 2];
        let options = Options { durability, ..options() };
        let db = open(&disk, options.clone()).unwrap();
        let begun = Barrier::new(4);
        let acknowledged: Vec<u32> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (db, begun) = (db.clone(), &begun);
                    scope.spawn(move || {
                        begun.wait();
                        let key = |n: u32| [number(writer), number(n)].concat();
                        let error = (0..).find_map(|n| Some((n, db.put(&key(n), b"").err()?)));
                        let (count, error) = error.unwrap();
                        assert!(matches!(error, Error::Closed), "{error}");
                        count
                    })
                })
                .collect();
            begun.wait();
            // Other handles live on, so nothing is done by the last one.
            db.clone().close().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        drop(db);
        let db = open(&disk, options).unwrap();
        for (writer, count) in (0..).zip(acknowledged) {
            let found = db.prefix(number(writer)).count();
            assert_eq!(found, count as usize, "round {round}, {durability:?}, writer {writer}");
        }
    }
}
