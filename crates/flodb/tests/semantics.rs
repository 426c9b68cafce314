//! What keys, walks, snapshots, orders and ends are, one thing at a time.

use crate::faults::bounded;
use crate::support::{Model, Rows, of_levels, open, try_open};
use keyrack_flodb::{Batch, Change, Comparator, Compare, Db, Durability, Error, Iter, Options};
use keyrack_store::WriteOptions;
use keyrack_testkit::random::Draw;
use keyrack_vfs::MemFs;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};

fn options() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 1 << 20,
        block_bytes: 200,
        table_bytes: 8 << 10,
        level0_tables: 2,
        level_base_bytes: 16 << 10,
        cache_bytes: 16 << 10,
        ..Options::default()
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn at(iter: &Iter) -> Option<Vec<u8>> {
    iter.entry().map(|(key, _)| key.to_vec())
}

fn walk(iter: Iter) -> Rows {
    crate::support::walk(iter).unwrap()
}

/// A part in the last level, one in level 0, one in memory.
fn layered() -> (Db, u32) {
    let db = open(&MemFs::new(), Options { compaction_threads: 0, ..options() });
    let put = |n: u32| db.put(&key(2 * n), &n.to_be_bytes()).unwrap();
    (0..60).for_each(put);
    db.compact_range(None, None).unwrap();
    (40..80).for_each(put);
    db.flush().unwrap();
    (70..100).for_each(put);
    (db, 100)
}

#[test]
fn a_walk_turns_round_at_every_place() {
    let (db, count) = layered();
    for n in 0..count {
        let mut iter = db.iter().unwrap();
        iter.seek(&key(2 * n)).unwrap();
        assert_eq!(at(&iter), Some(key(2 * n)));
        let before = n.checked_sub(1).map(|n| key(2 * n));
        let behind = (n + 1 < count).then(|| key(2 * (n + 1)));
        // Back and forth, and forth and back.
        iter.prev().unwrap();
        assert_eq!(at(&iter), before);
        if before.is_some() {
            iter.next().unwrap();
            assert_eq!(at(&iter), Some(key(2 * n)));
        } else {
            iter.seek_first().unwrap();
        }
        iter.next().unwrap();
        assert_eq!(at(&iter), behind);
        if behind.is_some() {
            iter.prev().unwrap();
            assert_eq!(at(&iter), Some(key(2 * n)));
        }
        // What is not there lies between its neighbours.
        iter.seek(&key(2 * n + 1)).unwrap();
        assert_eq!(at(&iter), behind);
        iter.seek_back(&key(2 * n + 1)).unwrap();
        assert_eq!(at(&iter), Some(key(2 * n)));
    }
    let mut iter = db.iter().unwrap();
    assert!(!iter.is_valid());
    iter.seek(b"zzz").unwrap();
    assert_eq!(at(&iter), None);
    iter.seek_back(b"a").unwrap();
    assert_eq!(at(&iter), None);
    iter.seek_back(b"zzz").unwrap();
    assert_eq!(at(&iter), Some(key(2 * (count - 1))));
    iter.seek(b"").unwrap();
    assert_eq!(at(&iter), Some(key(0)));
}

#[test]
fn an_empty_store_has_nothing_in_any_direction() {
    let disk = MemFs::new();
    let db = open(&disk, options());
    let check = |db: &Db| {
        let mut iter = db.iter().unwrap();
        iter.seek_first().unwrap();
        assert!(!iter.is_valid());
        iter.seek_last().unwrap();
        assert!(!iter.is_valid());
        iter.seek(b"").unwrap();
        assert!(!iter.is_valid());
        iter.seek_back(b"\xFF").unwrap();
        assert!(!iter.is_valid());
        assert_eq!(db.get(b"").unwrap(), None);
    };
    check(&db);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    check(&db);
    // And one in which all was removed.
    (0..100).for_each(|n| db.put(&key(n), b"value").unwrap());
    db.flush().unwrap();
    (0..100).for_each(|n| db.delete(&key(n)).unwrap());
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    db.close().unwrap();
    check(&open(&disk, options()));
}

/// The files that it reads are removed under it, and it does not notice.
#[test]
fn a_walk_is_not_disturbed_by_writes_flushes_and_compactions() {
    let disk = MemFs::new();
    let db = open(&disk, options());
    let mut expected = Vec::new();
    for n in 0..500 {
        db.put(&key(n), &[1; 50]).unwrap();
        expected.push((key(n), vec![1; 50]));
    }
    db.flush().unwrap();
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    let mut rows = Vec::new();
    let mut round = 2;
    while let Some((at, value)) = iter.entry() {
        rows.push((at.to_vec(), value.to_vec()));
        if rows.len() % 50 == 0 {
            (0..500).for_each(|n| db.put(&key(n), &[round; 50]).unwrap());
            (0..500).step_by(3).for_each(|n| db.delete(&key(n)).unwrap());
            if round % 2 == 0 {
                db.compact_range(None, None).unwrap();
            }
            round += 1;
        }
        iter.next().unwrap();
    }
    assert_eq!(rows, expected);
    // Back again, through what is long gone for everybody else.
    iter.seek_last().unwrap();
    for row in expected.iter().rev() {
        assert_eq!(at(&iter).as_ref(), Some(&row.0));
        iter.prev().unwrap();
    }
    assert!(!iter.is_valid());
    let tables = |disk: &MemFs| crate::disk::tables(disk).len();
    // Nothing is left to be done, which would make or remove others.
    db.compact_range(None, None).unwrap();
    let held = tables(&disk);
    drop(iter);
    drop(db);
    drop(open(&disk, options()));
    assert!(tables(&disk) < held, "what only the walk needed is gone");
}

#[test]
fn a_snapshot_keeps_its_values_through_compactions_and_frees_them_afterwards() {
    let db = open(&MemFs::new(), Options { compaction_threads: 0, ..options() });
    let mut draw = Draw::new(1);
    let mut value =
        |round: u8| -> Vec<u8> { (0..100).map(|_| draw.next() as u8 ^ round).collect() };
    let mut moments = Vec::new();
    for round in 0..5 {
        let rows: Vec<_> = (0..200).map(|n| (key(n), value(round))).collect();
        rows.iter().for_each(|(key, value)| db.put(key, value).unwrap());
        moments.push((db.snapshot(), rows));
        (0..200).step_by(2).for_each(|n| db.delete(&key(n)).unwrap());
        db.compact_range(None, None).unwrap();
    }
    for (snapshot, rows) in &moments {
        assert_eq!(walk(db.iter_at(snapshot).unwrap()), *rows);
        for (key, value) in rows {
            let found = db.get_at(snapshot, key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), Some(value));
        }
    }
    let full = of_levels(&db, "bytes");
    drop(moments);
    // What comes down from above takes the old versions with it.
    (0..200).for_each(|n| db.put(&key(n), b"short").unwrap());
    db.compact_range(None, None).unwrap();
    let left = of_levels(&db, "bytes");
    assert!(left < full / 5, "{left} of {full}");
    assert_eq!(walk(db.iter().unwrap()).len(), 200);
}

#[test]
fn keys_and_values_may_be_anything() {
    let disk = MemFs::new();
    let large = || Options { segment_bytes: 32 << 20, ..options() };
    let db = open(&disk, large());
    let mut rows = Model::new();
    let prefix = [b'p'; 1024];
    let mut keys = vec![Vec::new(), vec![0; 65_536], vec![0xFF; 65_536], vec![0xFF]];
    keys.extend((0..=255).map(|byte| vec![byte]));
    keys.extend((0..=255).map(|byte| [&prefix[..], &[byte]].concat()));
    keys.extend([vec![0], vec![0, 0], vec![0, 0, 0], prefix.to_vec()]);
    for (n, key) in keys.into_iter().enumerate() {
        let value = match n % 4 {
            0 => Vec::new(),
            1 => vec![0xFF; n],
            2 => vec![0; 1],
            _ => vec![n as u8; 3000],
        };
        db.put(&key, &value).unwrap();
        rows.insert(key, value);
    }
    let huge: Vec<u8> = (0..16_u32 << 20).map(|n| (n >> 5) as u8).collect();
    db.put(b"huge", &huge).unwrap();
    rows.insert(b"huge".to_vec(), huge);
    let mut batch = Batch::new();
    for n in 0..100_000_u32 {
        batch.put(&[b"many", &n.to_be_bytes()[..]].concat(), &[]);
        rows.insert([b"many", &n.to_be_bytes()[..]].concat(), Vec::new());
    }
    db.write(&batch, Default::default()).unwrap();
    let check = |db: &Db| {
        assert!(walk(db.iter().unwrap()).into_iter().eq(rows.clone()), "a walk");
        let few = rows.iter().enumerate().filter(|(n, (key, _))| key.len() != 8 || n % 99 == 0);
        for (_, (key, value)) in few {
            assert!(db.get(key).unwrap().as_ref() == Some(value), "a key of {}", key.len());
        }
    };
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    drop(db);
    check(&open(&disk, large()));
}

/// Keys are decimal numbers, and equal if their values are.
struct Numeric;

impl Compare for Numeric {
    fn name(&self) -> &str {
        "test.numeric"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let number = |key: &[u8]| std::str::from_utf8(key).unwrap().parse::<u64>().unwrap();
        number(a).cmp(&number(b))
    }
}

#[test]
fn keys_in_the_order_of_their_numbers() {
    let disk = MemFs::new();
    let numeric = || Options { comparator: Comparator::Custom(Arc::new(Numeric)), ..options() };
    let db = open(&disk, numeric());
    let name = |n: u64| n.to_string().into_bytes();
    let mut draw = Draw::new(7);
    let mut numbers: Vec<u64> = (0..3000).map(|_| draw.next() >> draw.below(64)).collect();
    for n in &numbers {
        db.put(&name(*n), &n.to_be_bytes()).unwrap();
    }
    numbers.sort_unstable();
    numbers.dedup();
    let check = |db: &Db| {
        let rows = walk(db.iter().unwrap());
        assert!(rows.iter().map(|(key, _)| key.clone()).eq(numbers.iter().map(|n| name(*n))));
        for n in numbers.iter().step_by(7) {
            assert_eq!(db.get(&name(*n)).unwrap().unwrap(), n.to_be_bytes());
            let mut iter = db.iter().unwrap();
            iter.seek(&name(n.saturating_add(1))).unwrap();
            let next = numbers.iter().find(|next| **next > *n).map(|next| name(*next));
            assert_eq!(at(&iter), next.or_else(|| (*n == u64::MAX).then(|| name(*n))));
        }
    };
    check(&db);
    db.compact_range(Some(b"100"), Some(b"99999")).unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    drop(db);
    check(&open(&disk, numeric()));
    assert!(matches!(try_open(&disk, options()), Err(Error::Usage(_))));
}

/// Threads write one key. What the last of them left is what everybody sees, also from the tables
/// and from the log.
#[test]
fn of_writes_of_one_key_by_many_threads_the_last_one_stays() {
    for round in 0..20 {
        let disk = MemFs::new();
        let db = open(&disk, options());
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let db = &db;
                scope.spawn(move || {
                    for n in 0..100_u8 {
                        if n % 10 == thread {
                            db.delete(b"key").unwrap();
                        } else {
                            db.put(b"key", &[thread, n]).unwrap();
                        }
                    }
                });
            }
        });
        let last = db.get(b"key").unwrap();
        if let Some(last) = &last {
            assert_eq!(last[1], 99, "the last of its thread");
        }
        let killed = disk.process_crash_image();
        assert_eq!(open(&killed, options()).get(b"key").unwrap(), last, "from the log, {round}");
        db.flush().unwrap();
        assert_eq!(db.get(b"key").unwrap(), last, "from a table, {round}");
        drop(db);
        assert_eq!(open(&disk, options()).get(b"key").unwrap(), last, "opened again, {round}");
    }
}

/// Writers, a walk and a snapshot are there when the store is closed. Writers are refused; reads
/// end in peace.
#[test]
fn a_store_is_closed_under_its_writers_and_walks() {
    for durability in [Durability::Os, Durability::None, Durability::Sync] {
        bounded("closing", move || {
            let disk = MemFs::new();
            let db = open(&disk, Options { durability, ..options() });
            (0..300).for_each(|n| db.put(&key(n), b"before").unwrap());
            let (snapshot, mut iter) = (db.snapshot(), db.iter().unwrap());
            iter.seek_first().unwrap();
            let is_running = AtomicBool::new(false);
            let acknowledged = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..3_u32)
                    .map(|thread| {
                        let (db, is_running) = (db.clone(), &is_running);
                        scope.spawn(move || {
                            for n in 0.. {
                                match db.put(&key(1000 * (thread + 1) + n % 1000), b"during") {
                                    Ok(()) => is_running.store(true, AtomicOrdering::Release),
                                    Err(Error::Closed) => return n,
                                    Err(error) => panic!("{error:?}"),
                                }
                            }
                            0
                        })
                    })
                    .collect();
                while !is_running.load(AtomicOrdering::Acquire) {
                    std::thread::yield_now();
                }
                db.clone().close().unwrap();
                writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
            });
            let mut count = 0;
            while iter.is_valid() {
                count += 1;
                iter.next().unwrap();
            }
            assert_eq!(count, 300);
            assert_eq!(walk(db.iter_at(&snapshot).unwrap()).len(), 300);
            drop((iter, snapshot, db));
            let db = open(&disk, options());
            assert!((0..300).all(|n| db.get(&key(n)).unwrap().is_some()));
            if durability != Durability::None {
                for (thread, count) in (1..).zip(acknowledged) {
                    for n in 0..count.min(1000) {
                        assert!(db.get(&key(1000 * thread + n)).unwrap().is_some(), "{n}");
                    }
                }
            }
        });
    }
}

/// Dropped while tables are being written and merged, again and again.
#[test]
fn a_store_is_dropped_while_it_flushes_and_compacts() {
    bounded("dropping", || {
        let disk = MemFs::new();
        let mut draw = Draw::new(3);
        let mut model = Model::new();
        for round in 0..30_u8 {
            let db = open(&disk, Options { compaction_threads: 2, ..options() });
            for _ in 0..400 {
                let key = key(draw.below(1000) as u32);
                db.put(&key, &[round; 200]).unwrap();
                model.insert(key, vec![round; 200]);
            }
            drop(db);
        }
        let db = open(&disk, options());
        assert!(walk(db.iter().unwrap()).into_iter().eq(model));
    });
}

#[test]
fn the_function_of_an_update_may_use_another_store() {
    let (first, second) = (open(&MemFs::new(), options()), open(&MemFs::new(), options()));
    first.put(b"key", b"old").unwrap();
    let copy = |value: Option<&[u8]>| {
        second.put(b"copy", value.unwrap()).unwrap();
        second.flush().unwrap();
        Change::Put(b"new".to_vec())
    };
    first.update(b"key", WriteOptions::default(), copy).unwrap();
    assert_eq!(first.get(b"key").unwrap().unwrap(), b"new");
    assert_eq!(second.get(b"copy").unwrap().unwrap(), b"old");
}
