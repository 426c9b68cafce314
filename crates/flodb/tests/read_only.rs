//! Opening for reading only: the directory stays as it is, writes are refused, and a writer beside
//! does not matter.

use crate::support::{DIR, Hook, idle, is_table, newest_round, open, round, rows, stat, tiny};
use keyrack_flodb::{Batch, Change, Db, Durability, Error, Item, Options, WriteOptions, dump};
use keyrack_testkit::damage::directory;
use keyrack_vfs::{FaultFs, Fs, MemFs, Operation};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn read_only(fs: impl Fs + 'static) -> Result<Db, Error> {
    Db::open_read_only_in(Arc::new(fs), Path::new(DIR), tiny())
}

/// Everything that an operation of a file system can change.
const CHANGES: [Operation; 12] = [
    Operation::Write,
    Operation::SetLen,
    Operation::Allocate,
    Operation::Sync,
    Operation::Map,
    Operation::CreateDir,
    Operation::RemoveFile,
    Operation::RemoveDir,
    Operation::Rename,
    Operation::Link,
    Operation::SyncDir,
    Operation::Lock,
];

#[test]
fn it_sees_everything_and_changes_nothing() {
    for durability in [Durability::Os, Durability::None] {
        let disk = MemFs::new();
        let db = open(&disk, Options { durability, ..tiny() });
        (1..3000).for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
        let expected = rows(&db);
        let image = match durability {
            // The log holds more than the memtables that may wait for their tables.
            Durability::Os => disk.process_crash_image(),
            _ => {
                db.close().unwrap();
                disk
            }
        };
        let before = directory(&image, Path::new(DIR));
        let counted = FaultFs::new(Arc::new(image.clone()));
        let db = read_only(counted.clone()).unwrap();
        assert_eq!(rows(&db), expected);
        assert_eq!(newest_round(&db), 2999);
        let snapshot = db.snapshot();
        let found = db.get_at(&snapshot, b"first", <[u8]>::to_vec).unwrap();
        assert_eq!(found.unwrap(), 2999_u64.to_be_bytes());
        db.close().unwrap();
        for operation in CHANGES {
            assert_eq!(counted.operations_of(operation), 0, "{operation}");
        }
        assert_eq!(directory(&image, Path::new(DIR)), before);
        // And it is still a store.
        assert_eq!(rows(&open(&image, tiny())), expected);
    }
}

/// The largest sequence number in the files of a store, as dumps of them show it.
fn last_sequence(disk: &MemFs) -> u64 {
    let mut last = 0;
    for path in directory(disk, Path::new(DIR)).into_keys() {
        if is_table(&path) || path.extension().is_some_and(|it| it == "wal") {
            dump(disk, &path, &mut |item| {
                if let Item::Write { sequence, .. } = item {
                    last = last.max(sequence);
                }
                true
            })
            .unwrap();
        }
    }
    last
}

/// The number is that of a write, in the log or in tables, and not where a writer would go on.
#[test]
fn the_last_sequence_is_that_of_the_last_write() {
    let disk = MemFs::new();
    let db = open(&disk, tiny());
    for n in 1..=3 {
        db.write(&round(n), WriteOptions::default()).unwrap();
        if n == 2 {
            db.flush().unwrap();
        }
        let seen = read_only(disk.clone()).unwrap();
        let told = stat(&seen, "last-sequence");
        assert_eq!(told, last_sequence(&disk), "round {n}");
        let visible = stat(&db, "last-sequence");
        assert!(told <= visible && visible < told + 1000, "round {n}: {told} of {visible}");
    }
}

#[test]
fn every_write_says_that_it_is_read_only() {
    let disk = MemFs::new();
    open(&disk, tiny()).put(b"key", b"value").unwrap();
    let db = read_only(disk.clone()).unwrap();
    let mut batch = Batch::new();
    let empty = db.write(&batch, WriteOptions { sync: true });
    batch.put(b"other", b"value");
    let outcomes = [
        db.put(b"key", b"other"),
        db.delete(b"key"),
        empty,
        db.write(&batch, WriteOptions::default()),
        db.update(b"key", WriteOptions::default(), |_| Change::Remove),
        db.flush(),
        db.compact_range(None, None),
        db.checkpoint("/copy"),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error:?}");
        assert_eq!(error.to_string(), "/store is opened read-only");
    }
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(db.get(b"other").unwrap(), None);
    assert!(!disk.exists(Path::new("/copy")).unwrap());
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let disk = MemFs::new();
    assert!(matches!(read_only(disk.clone()), Err(Error::Usage(_))));
    assert!(!disk.exists(Path::new(DIR)).unwrap());
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let error = read_only(disk.clone()).unwrap_err().to_string();
    assert!(error.contains("holds no store"), "{error}");
    assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
}

#[test]
fn damage_is_found_as_always() {
    let disk = MemFs::new();
    let db = open(&disk, tiny());
    (1..2000).for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let mut tables = directory(&disk, Path::new(DIR));
    tables.retain(|path, _| is_table(path));
    tables.keys().for_each(|path| disk.remove_file(path).unwrap());
    assert!(matches!(read_only(disk.clone()), Err(Error::Io(_))));
    for (path, content) in &tables {
        disk.write_atomic(path, &content[..content.len() - 1]).unwrap();
    }
    assert!(matches!(read_only(disk), Err(Error::Corruption { .. })));
}

/// At every operation of the opening a writer flushes, compacts and uses its log again.
#[test]
fn a_writer_may_change_everything_at_any_point_of_the_opening() {
    let (mut at, mut as_before) = (0, 0);
    loop {
        let disk = MemFs::new();
        let db = open(&disk, idle());
        (1..700).for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
        db.flush().unwrap();
        (700..1000).for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
        let writer = db.clone();
        let hook = move || {
            for n in 1000..1700 {
                writer.write(&round(n), WriteOptions::default()).unwrap();
                if n % 100 == 0 {
                    writer.compact_range(None, None).unwrap();
                }
            }
        };
        let hooked = Hook::new(&disk, at, hook);
        let seen = read_only(hooked.fs.clone()).unwrap();
        if !hooked.has_run() {
            break;
        }
        let newest = newest_round(&seen);
        assert!((999..1700).contains(&newest), "operation {at}: {newest}");
        as_before += usize::from(newest == 999);
        // Tables that are removed later are read on.
        (1700..2000).for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
        db.compact_range(None, None).unwrap();
        assert_eq!(newest_round(&seen), newest);
        assert_eq!(newest_round(&db), 1999);
        at += 1;
    }
    // Only what comes when the manifest is read again is too late to be seen.
    assert!(at > 8 && as_before < 8, "{at} operations, {as_before}");
}

/// While a segment of the log is read, all of it is flushed, and the file is used for a new one.
#[test]
fn a_segment_that_is_used_again_while_it_is_read_is_noticed() {
    let large = || Options { memtable_bytes: 8 << 20, segment_bytes: 1 << 20, ..tiny() };
    let row = |n: u32, generation: u8| (n.to_be_bytes(), [generation; 16_000]);
    let mut at = 0;
    loop {
        let disk = MemFs::new();
        let db = open(&disk, large());
        let write = move |db: &Db, generation: u8| {
            for n in 0..160 {
                let (key, value) = row(n, generation);
                db.put(&key, &value).unwrap();
            }
        };
        write(&db, 1);
        let writer = db.clone();
        let hook = move || {
            for generation in 2..4 {
                writer.flush().unwrap();
                write(&writer, generation);
            }
        };
        let hooked = Hook::new(&disk, at, hook);
        let fs = Arc::new(hooked.fs.clone());
        let seen = Db::open_read_only_in(fs, Path::new(DIR), large()).unwrap();
        if !hooked.has_run() {
            break;
        }
        let mut found = rows(&seen);
        assert_eq!(found.len(), 160, "operation {at}");
        // The rows of a generation are written in order.
        let mut newest = found.remove(&row(0, 0).0[..]).unwrap();
        for value in found.into_values() {
            assert!(value[0] <= newest[0] && value[0] + 1 >= newest[0], "operation {at}");
            newest = value;
        }
        at += 1;
    }
    assert!(at > 12, "{at} operations");
}

#[test]
fn it_opens_beside_a_busy_writer() {
    let disk = MemFs::new();
    let db = open(&disk, tiny());
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                db.write(&round(n), WriteOptions::default()).unwrap();
                written.store(n, Ordering::Release);
            }
        });
        let mut last = 0;
        for _ in 0..15 {
            let before = written.load(Ordering::Acquire);
            let seen = read_only(disk.clone());
            let newest = seen.as_ref().map(newest_round);
            if newest.is_err() {
                over.store(true, Ordering::Relaxed);
            }
            let newest = newest.unwrap();
            assert!(newest >= before.max(last), "{newest}: {before} were acknowledged");
            last = newest;
        }
        over.store(true, Ordering::Relaxed);
    });
}
