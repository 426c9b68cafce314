//! Transactions: each anomaly that the levels forbid or allow, what a transaction sees of itself,
//! and what happens to one that outlives a flush, an ingestion, a full disk or the store.

mod histories;
mod own_writes;
mod ranges;
mod rows;

use crate::support::{DIR, backwards, idle, open, rows, try_open};
use keyrack_flodb::{
    Batch, Change, Comparator, Db, Durability, Error, IngestOptions, Isolation, Options,
    ReadOptions, Result, Spaces, SstWriter, Transaction, TransactionIter, TransactionOptions,
    WriteOptions,
};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, MemFs, Operation};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

const LEVELS: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

fn begin(db: &Db, isolation: Isolation) -> Transaction {
    db.transaction_with(TransactionOptions { isolation, ..TransactionOptions::default() })
}

fn store() -> Db {
    let db = open(&MemFs::new(), idle());
    db.put(b"x", b"1").unwrap();
    db.put(b"y", b"1").unwrap();
    db
}

#[track_caller]
fn assert_conflict(result: Result<()>, key: &[u8]) {
    match result {
        Err(Error::Conflict { key: of, space: None }) => {
            assert_eq!(of.escape_ascii().to_string(), key.escape_ascii().to_string());
        }
        other => panic!("{other:?}, and not a conflict"),
    }
}

fn get(transaction: &Transaction, key: &[u8]) -> Option<String> {
    transaction.get(key).unwrap().map(|value| String::from_utf8(value).unwrap())
}

fn shown(mut iter: TransactionIter<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut rows = Vec::new();
    iter.seek_first().unwrap();
    while let Some((key, value)) = iter.entry() {
        rows.push((text(key), text(value)));
        iter.next().unwrap();
    }
    rows
}

#[test]
fn no_dirty_read_and_no_dirty_write() {
    for isolation in LEVELS {
        let db = store();
        let writer = begin(&db, isolation);
        writer.put(b"x", b"2").unwrap();
        let reader = begin(&db, isolation);
        assert_eq!(get(&reader, b"x").as_deref(), Some("1"));
        writer.roll_back();
        assert_eq!(get(&reader, b"x").as_deref(), Some("1"));
        let [one, other] = [begin(&db, isolation), begin(&db, isolation)];
        for (transaction, value) in [(&one, b"3"), (&other, b"4")] {
            transaction.put(b"x", value).unwrap();
            transaction.put(b"y", value).unwrap();
        }
        one.commit().unwrap();
        // Blind writes are in a serial order; under snapshot isolation the second one conflicts.
        match isolation {
            Isolation::Serializable => other.commit().unwrap(),
            Isolation::Snapshot => assert_conflict(other.commit(), b"x"),
        }
        assert_eq!(db.get(b"x").unwrap(), db.get(b"y").unwrap());
    }
}

#[test]
fn reads_are_repeatable() {
    for isolation in LEVELS {
        let db = store();
        let reader = begin(&db, isolation);
        assert_eq!(get(&reader, b"x").as_deref(), Some("1"));
        db.put(b"x", b"2").unwrap();
        db.put(b"y", b"2").unwrap();
        db.flush().unwrap();
        assert_eq!(get(&reader, b"x").as_deref(), Some("1"));
        // Neither is it skewed: this key was not read before.
        assert_eq!(get(&reader, b"y").as_deref(), Some("1"));
        reader.commit().unwrap();
    }
}

#[test]
fn no_update_is_lost() {
    for isolation in LEVELS {
        let db = store();
        let transaction = begin(&db, isolation);
        assert_eq!(get(&transaction, b"x").as_deref(), Some("1"));
        transaction.put(b"x", b"2").unwrap();
        db.put(b"x", b"7").unwrap();
        assert_conflict(transaction.commit(), b"x");
        assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"7"[..]));
    }
}

/// By a put, a delete, a batch, an update, and by range deletes, and where the change has gone to a
/// table or even to the last level.
#[test]
fn every_sort_of_write_is_a_conflict() {
    let writes: [fn(&Db) -> Result<()>; 6] = [
        |db| db.put(b"x", b"7"),
        |db| db.delete(b"x"),
        |db| {
            let mut batch = Batch::new();
            batch.put(b"w", b"7");
            batch.put(b"x", b"7");
            db.write(&batch, WriteOptions::default())
        },
        |db| db.update(b"x", WriteOptions::default(), |_| Change::Put(b"7".to_vec())),
        |db| db.delete_range(b"a", b"xx"),
        |db| db.retry(1, |transaction| transaction.put(b"x", b"7")),
    ];
    let moves: [fn(&Db) -> Result<()>; 3] =
        [|_| Ok(()), |db| db.flush(), |db| db.compact_range(None, None)];
    for write in writes {
        for settle in moves {
            for isolation in LEVELS {
                for is_scan in [false, true] {
                    let db = store();
                    let transaction = begin(&db, isolation);
                    if is_scan {
                        assert_eq!(shown(transaction.iter().unwrap()).len(), 2);
                    } else {
                        assert_eq!(get(&transaction, b"x").as_deref(), Some("1"));
                    }
                    transaction.put(b"x", b"2").unwrap();
                    write(&db).unwrap();
                    settle(&db).unwrap();
                    let conflict = transaction.commit().unwrap_err();
                    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
                }
            }
        }
    }
}

/// What was changed and deleted again, and what was written over with the same value, has changed.
#[test]
fn a_delete_of_what_came_later_is_a_change() {
    let db = store();
    let transaction = db.transaction();
    assert_eq!(transaction.get(b"new").unwrap(), None);
    transaction.put(b"other", b"").unwrap();
    db.put(b"new", b"1").unwrap();
    db.delete(b"new").unwrap();
    db.compact_range(None, None).unwrap();
    assert_conflict(transaction.commit(), b"new");
}

#[test]
fn write_skew_is_for_snapshot_isolation() {
    for isolation in LEVELS {
        let db = store();
        let [one, other] = [begin(&db, isolation), begin(&db, isolation)];
        for (transaction, key) in [(&one, b"x"), (&other, b"y")] {
            let (x, y) = (get(transaction, b"x"), get(transaction, b"y"));
            assert_eq!((x.as_deref(), y.as_deref()), (Some("1"), Some("1")));
            transaction.put(key, b"0").unwrap();
        }
        one.commit().unwrap();
        match isolation {
            Isolation::Serializable => assert_conflict(other.commit(), b"x"),
            Isolation::Snapshot => other.commit().unwrap(),
        }
    }
}

/// Fekete, O'Neil and O'Neil, 2004. A reader sees the deposit and not the fee that was taken
/// because of what there was before the deposit.
#[test]
fn the_anomaly_of_a_reader_is_for_snapshot_isolation() {
    for isolation in LEVELS {
        let db = store();
        let fee = begin(&db, isolation);
        let sum: i32 =
            [b"x", b"y"].map(|key| get(&fee, key).unwrap().parse::<i32>().unwrap()).iter().sum();
        fee.put(b"x", (sum - 11).to_string().as_bytes()).unwrap();
        db.retry(1, |deposit| {
            assert!(deposit.get(b"y")?.is_some());
            deposit.put(b"y", b"21")
        })
        .unwrap();
        let reader = begin(&db, isolation);
        assert_eq!(
            (get(&reader, b"x").as_deref(), get(&reader, b"y").as_deref()),
            (Some("1"), Some("21"))
        );
        reader.commit().unwrap();
        match isolation {
            Isolation::Serializable => assert_conflict(fee.commit(), b"y"),
            Isolation::Snapshot => fee.commit().unwrap(),
        }
    }
}

#[test]
fn phantoms_are_for_snapshot_isolation() {
    for isolation in LEVELS {
        for settle in [Db::put, |db: &Db, key: &[u8], value: &[u8]| {
            db.put(key, value)?;
            db.flush()
        }] {
            let db = store();
            let transaction = begin(&db, isolation);
            let mut iter = transaction.iter().unwrap();
            iter.seek(b"a").unwrap();
            assert_eq!(iter.entry().unwrap().0, b"x");
            drop(iter);
            transaction.put(b"y", b"2").unwrap();
            // Behind what was passed.
            settle(&db, b"xa", b"").unwrap();
            settle(&db, b"0", b"").unwrap();
            let transaction = match isolation {
                Isolation::Serializable => {
                    transaction.commit().unwrap();
                    let transaction = begin(&db, isolation);
                    let mut iter = transaction.iter().unwrap();
                    iter.seek(b"a").unwrap();
                    drop(iter);
                    transaction.put(b"y", b"3").unwrap();
                    transaction
                }
                Isolation::Snapshot => transaction,
            };
            settle(&db, b"m", b"").unwrap();
            match isolation {
                Isolation::Serializable => assert_conflict(transaction.commit(), b"m"),
                Isolation::Snapshot => transaction.commit().unwrap(),
            }
        }
    }
}

/// Each move of an iterator reads what lies between.
#[test]
fn an_iterator_reads_what_it_passes() {
    type Moves = fn(&mut TransactionIter<'_>) -> Result<()>;
    // What is shown last, the moves, and what is a change and what is not. There are d, f, h.
    let cases: [(&str, Moves, &[&str], &[&str]); 9] = [
        ("d", |it| it.seek_first(), &["a", "d"], &["da", "e", "z"]),
        ("h", |it| it.seek_last(), &["h", "i", "z"], &["g", "a"]),
        ("f", |it| it.seek(b"e"), &["e", "ea", "f"], &["dz", "fa"]),
        ("f", |it| it.seek_back(b"g"), &["f", "fa", "g"], &["ga", "e"]),
        ("", |it| it.seek(b"i"), &["i", "z"], &["h", "hz"]),
        ("", |it| it.seek_back(b"c"), &["a", "c"], &["ca", "d"]),
        ("h", |it| it.seek(b"f").and_then(|()| it.next()), &["f", "g", "h"], &["e", "ha"]),
        ("", |it| it.seek(b"h").and_then(|()| it.next()), &["h", "z"], &["g"]),
        ("d", |it| it.seek(b"f").and_then(|()| it.prev()), &["d", "e", "f"], &["c", "fa"]),
    ];
    for (last, moves, changes, others) in cases {
        for (key, is_change) in
            changes.iter().map(|key| (key, true)).chain(others.iter().map(|key| (key, false)))
        {
            for removes in [false, true] {
                let db = open(&MemFs::new(), idle());
                ["d", "f", "h"].iter().for_each(|key| db.put(key.as_bytes(), b"").unwrap());
                let transaction = db.transaction();
                transaction.put(b"mine", b"").unwrap();
                transaction.delete(b"mine").unwrap();
                let mut iter = transaction.iter().unwrap();
                moves(&mut iter).unwrap();
                assert_eq!(iter.entry().map_or(&b""[..], |(key, _)| key), last.as_bytes());
                drop(iter);
                let behind = [key.as_bytes(), b"\0"].concat();
                if removes {
                    db.delete_range(key.as_bytes(), &behind).unwrap();
                } else {
                    db.put(key.as_bytes(), b"").unwrap();
                }
                let committed = transaction.commit();
                assert_eq!(committed.is_err(), is_change, "{last} {key} {committed:?}");
            }
        }
    }
}

#[test]
fn a_transaction_reads_as_its_options_say() {
    let db = store();
    db.flush().unwrap();
    let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    let transaction = db.transaction();
    assert_eq!(
        transaction.read_with(b"x", once, <[u8]>::to_vec).unwrap().as_deref(),
        Some(&b"1"[..])
    );
    transaction.put(b"x", b"2").unwrap();
    assert_eq!(
        transaction.read_with(b"x", once, <[u8]>::to_vec).unwrap().as_deref(),
        Some(&b"2"[..])
    );
    assert_eq!(shown(transaction.iter_with(once).unwrap()).len(), 2);
    // Whoever is lent a value may go on with the transaction.
    transaction.get_with(b"x", |_| transaction.put(b"z", b"3").unwrap()).unwrap();
    transaction.get_with(b"y", |_| transaction.put(b"z", b"4").unwrap()).unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.get(b"z").unwrap().as_deref(), Some(&b"4"[..]));
}

#[test]
fn an_ingestion_is_a_change() {
    for is_scan in [false, true] {
        let fs = MemFs::new();
        let db = open(&fs, idle());
        db.put(b"a", b"1").unwrap();
        let transaction = db.transaction();
        if is_scan {
            assert_eq!(shown(transaction.iter().unwrap()).len(), 1);
        } else {
            assert_eq!(transaction.get(b"m").unwrap(), None);
        }
        transaction.put(b"a", b"2").unwrap();
        // A write after the beginning that stays in memory.
        db.put(b"0", b"").unwrap();
        let path = Path::new("/outside.table");
        let mut writer = SstWriter::create(&fs, path, db.options()).unwrap();
        writer.put(b"m", b"7").unwrap();
        writer.finish().unwrap();
        db.ingest(&[path], IngestOptions::default()).unwrap();
        let conflict = transaction.commit().unwrap_err();
        assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    }
}

#[test]
fn retry_runs_again_until_it_fits() {
    let db = store();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    db.retry(usize::MAX, |transaction| {
                        let count: u64 = get(transaction, b"x").unwrap().parse().unwrap();
                        transaction.put(b"x", (count + 1).to_string().as_bytes())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"801"[..]));
    let mut attempts = 0;
    let result = db.retry(3, |transaction| {
        attempts += 1;
        get(transaction, b"x");
        transaction.put(b"y", b"2")?;
        db.put(b"x", b"0")
    });
    assert_conflict(result, b"x");
    assert_eq!((attempts, db.get(b"y").unwrap().as_deref()), (3, Some(&b"1"[..])));
    let failed: Result<()> = db.retry(3, |transaction| {
        attempts += 1;
        transaction.put(b"y", b"3")?;
        Err(Error::Usage("no".to_owned()))
    });
    assert!(matches!(failed, Err(Error::Usage(_))));
    assert_eq!((attempts, db.get(b"y").unwrap().as_deref()), (4, Some(&b"1"[..])));
}

/// A save point gives no lock and no read up.
#[test]
fn what_was_read_after_a_save_point_counts() {
    let db = store();
    let transaction = db.transaction();
    transaction.put(b"y", b"2").unwrap();
    transaction.save_point();
    get(&transaction, b"x");
    transaction.put(b"z", b"3").unwrap();
    transaction.roll_back_to_save_point().unwrap();
    assert_eq!(transaction.writes(), 1);
    assert!(matches!(transaction.roll_back_to_save_point(), Err(Error::Usage(_))));
    assert!(matches!(transaction.release_save_point(), Err(Error::Usage(_))));
    db.put(b"x", b"7").unwrap();
    assert_conflict(transaction.commit(), b"x");
}

#[test]
fn ranges_that_are_deleted_are_writes() {
    for isolation in LEVELS {
        let db = store();
        let transaction = begin(&db, isolation);
        transaction.delete_range(b"a", b"y").unwrap();
        transaction.delete_range(b"y", b"a").unwrap();
        assert_eq!(transaction.writes(), 1, "the second one is empty");
        db.put(b"b", b"7").unwrap();
        match isolation {
            Isolation::Serializable => transaction.commit().unwrap(),
            Isolation::Snapshot => assert_conflict(transaction.commit(), b"b"),
        }
        let left = rows(&db);
        assert_eq!(left.len(), if isolation == Isolation::Serializable { 1 } else { 3 });
    }
}

#[test]
fn a_transaction_that_is_too_large_is_refused_write_by_write() {
    let db = open(&MemFs::new(), Options { segment_bytes: 64 << 10, ..idle() });
    let transaction = db.transaction();
    let value = vec![7; 20 << 10];
    let mut taken = 0_u8;
    while transaction.put(&[taken], &value).is_ok() {
        taken += 1;
    }
    assert!(taken >= 2, "{taken} writes of 20 KiB");
    let told = transaction.put(b"more", &value).unwrap_err().to_string();
    assert!(told.contains("use larger segments"), "{told}");
    transaction.commit().unwrap();
    assert_eq!(rows(&db).len(), usize::from(taken));
}

#[test]
fn a_full_disk_refuses_a_commit_and_takes_the_next() {
    let disk = MemFs::new();
    // The log finds the disk full: no memtable is full before.
    let db = open(&disk, Options { memtable_bytes: 1 << 20, ..idle() });
    db.put(b"x", b"0").unwrap();
    disk.set_capacity(30 * 4096);
    let mut count = 0_u8;
    let error = loop {
        let done = db.retry(1, |transaction| {
            transaction.get(b"x")?;
            transaction.put(b"x", &[count])?;
            transaction.put(&[b'z', count], &[7; 2000])
        });
        match done {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Io(cause) if cause.is_no_space()), "{error:?}");
    assert_eq!(db.get(&[b'z', count]).unwrap(), None, "all or nothing");
    assert_eq!(db.get(b"x").unwrap(), Some(vec![count - 1]));
    disk.set_capacity(1 << 30);
    db.retry(1, |transaction| transaction.put(b"x", b"again")).unwrap();
    assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"again"[..]));
}

#[test]
fn a_store_that_is_closed_or_failed_takes_no_commit() {
    let db = store();
    let [writer, reader] = [db.transaction(), db.transaction()];
    writer.put(b"x", b"2").unwrap();
    db.close().unwrap();
    assert!(matches!(writer.commit(), Err(Error::Closed)));
    assert_eq!(get(&reader, b"x").as_deref(), Some("1"));
    reader.commit().unwrap();

    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let db = open(&fs, Options { durability: Durability::Sync, ..idle() });
    db.put(b"x", b"1").unwrap();
    fs.arm(FaultPlan::from_then_on(1, Fault::Io).only(&[Operation::Flush, Operation::Sync]));
    let write = |db: &Db| db.retry(3, |transaction| transaction.put(b"x", b"2"));
    assert!(write(&db).is_err());
    assert!(matches!(write(&db), Err(Error::Poisoned(_))));
    assert!(db.transaction().get(b"x").unwrap().is_some());
}

#[test]
fn a_store_for_reading_only_has_transactions_that_read() {
    let fs = MemFs::new();
    let db = open(&fs, idle());
    db.put(b"x", b"1").unwrap();
    db.close().unwrap();
    let db = Db::open_read_only_in(Arc::new(fs), Path::new(DIR), idle()).unwrap();
    let transaction = db.transaction();
    assert_eq!(get(&transaction, b"x").as_deref(), Some("1"));
    transaction.put(b"x", b"2").unwrap();
    assert!(transaction.commit().is_err());
    db.transaction().commit().unwrap();
    synced(&db).commit().unwrap();
}

fn synced(db: &Db) -> Transaction {
    let write = WriteOptions { sync: true };
    db.transaction_with(TransactionOptions { write, ..TransactionOptions::default() })
}

/// Who is told that a read is durable must not lose what it has shown.
#[test]
fn a_synced_commit_of_reads_makes_them_durable() {
    for durability in [Durability::Os, Durability::None] {
        let fs = MemFs::new();
        let db = open(&fs, Options { durability, ..idle() });
        let kept = || {
            let image = fs.crash_image(1, CrashPolicy::DropAll);
            open(&image, Options { durability, ..idle() }).get(b"x").unwrap()
        };
        db.put(b"x", b"1").unwrap();
        let transaction = begin(&db, Isolation::Serializable);
        assert_eq!(get(&transaction, b"x").as_deref(), Some("1"));
        transaction.commit().unwrap();
        assert_eq!(kept(), None, "without a sync");
        let [transaction, late] = [synced(&db), synced(&db)];
        assert_eq!(get(&transaction, b"x").as_deref(), Some("1"));
        transaction.commit().unwrap();
        assert_eq!(kept().as_deref(), Some(&b"1"[..]), "{durability:?}");
        db.close().unwrap();
        late.commit().unwrap();
    }

    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let db = open(&fs, Options { durability: Durability::Os, ..idle() });
    db.put(b"x", b"1").unwrap();
    fs.arm(FaultPlan::from_then_on(1, Fault::Io).only(&[Operation::Flush, Operation::Sync]));
    assert!(synced(&db).commit().is_err());
    assert!(matches!(synced(&db).commit(), Err(Error::Poisoned(_))));
    db.transaction().commit().unwrap();
}

/// Many transactions at a time, more than a store has places for, over flushes and compactions.
#[test]
fn old_transactions_see_their_moments() {
    let db = open(&MemFs::new(), idle());
    let mut transactions = Vec::new();
    for round in 0..100_u8 {
        db.put(b"x", &[round]).unwrap();
        db.put(&[round], &[round]).unwrap();
        transactions.push(db.transaction());
        if round % 9 == 0 {
            db.flush().unwrap();
        }
        if round % 30 == 0 {
            db.compact_range(None, None).unwrap();
        }
    }
    for (round, transaction) in (0_u8..).zip(&transactions) {
        assert_eq!(transaction.get(b"x").unwrap(), Some(vec![round]));
        assert_eq!(transaction.get(&[round]).unwrap(), Some(vec![round]));
        assert_eq!(transaction.get(&[round + 1]).unwrap(), None);
        transaction.put(b"y", b"").unwrap();
    }
    let last = transactions.pop().unwrap();
    last.commit().unwrap();
    for transaction in transactions {
        assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    }
    drop(db);
}

#[test]
fn transactions_span_key_spaces() {
    let fs = MemFs::new();
    let opened = || Spaces::open_in(Arc::new(fs.clone()), Path::new(DIR), idle(), &[backwards()]);
    let spaces = opened().unwrap();
    let plain = spaces.get_or_create("plain", &Comparator::Bytewise).unwrap();
    let other = spaces.get_or_create("other", &backwards()).unwrap();
    let transaction = spaces.transaction();
    for (key, value) in [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")] {
        transaction.put(&plain, key, value).unwrap();
        transaction.put(&other, key, value).unwrap();
    }
    transaction.delete(&plain, b"b").unwrap();
    let mut iter = transaction.iter(&other).unwrap();
    let mut keys = Vec::new();
    iter.seek_first().unwrap();
    while let Some((key, _)) = iter.entry() {
        keys.extend_from_slice(key);
        iter.next().unwrap();
    }
    assert_eq!(keys, b"cba");
    iter.seek_back(b"b").unwrap();
    assert_eq!(iter.entry(), Some((&b"b"[..], &b"2"[..])));
    iter.prev().unwrap();
    assert_eq!(iter.entry(), Some((&b"c"[..], &b"3"[..])));
    drop(iter);
    assert_eq!(plain.get(b"a").unwrap(), None);
    transaction.commit().unwrap();
    assert_eq!(plain.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(plain.get(b"b").unwrap(), None);

    // A change of one space is a conflict in it, with the key as the caller knows it.
    let transaction = spaces.transaction();
    assert!(transaction.get(&other, b"a").unwrap().is_some());
    transaction.put(&plain, b"a", b"7").unwrap();
    other.delete_range(b"c", b"").unwrap();
    let conflict = transaction.commit().unwrap_err();
    let Error::Conflict { key, space } = conflict else { panic!("{conflict}") };
    assert_eq!((&key[..], space.as_deref()), (&b"a"[..], Some("other")));

    // Spaces that are dropped, or of another store.
    let transaction = spaces.transaction();
    transaction.put(&other, b"a", b"7").unwrap();
    spaces.drop_space("other").unwrap();
    assert!(matches!(transaction.put(&other, b"b", b"7"), Err(Error::Usage(_))));
    assert!(matches!(transaction.commit(), Err(Error::Usage(_))));
    let elsewhere = Spaces::open_in(Arc::new(MemFs::new()), Path::new(DIR), idle(), &[]).unwrap();
    let foreign = elsewhere.get_or_create("plain", &Comparator::Bytewise).unwrap();
    assert!(matches!(spaces.transaction().get(&foreign, b"a"), Err(Error::Usage(_))));
    spaces.close().unwrap();
}

#[test]
fn a_commit_survives_as_a_batch_does() {
    let fs = MemFs::new();
    let db = open(&fs, Options { durability: Durability::Os, ..idle() });
    let write = WriteOptions { sync: true };
    let options = TransactionOptions { write, ..TransactionOptions::default() };
    db.retry_with(options, 1, |transaction| {
        transaction.put(b"a", b"1")?;
        transaction.put(b"a", b"2")?;
        transaction.put(b"b", b"3")
    })
    .unwrap();
    let lost = fs.crash_image(1, CrashPolicy::DropAll);
    let db = try_open(&lost, idle()).unwrap();
    let expected = [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), b"3".to_vec())];
    assert_eq!(rows(&db), BTreeMap::from(expected));
}
