//! Rows that transactions lock.

use super::{LEVELS, assert_conflict, begin, get, store};
use keyrack_flodb::{Error, Isolation, Result};
use std::thread;

/// Two threads that count with row locks never conflict.
#[test]
fn rows_are_locked_for_updates() {
    let db = store();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let transaction = db.transaction();
                    let count = transaction.get_for_update(b"x").unwrap().unwrap();
                    let count: u64 = String::from_utf8(count).unwrap().parse().unwrap();
                    thread::yield_now();
                    transaction.put(b"x", (count + 1).to_string().as_bytes()).unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"401"[..]));
}

#[test]
fn a_deadlock_is_an_error_and_no_wait() {
    let db = store();
    let mut deadlocks = 0;
    while deadlocks == 0 {
        let take = |first: &'static [u8], second: &'static [u8]| {
            let db = &db;
            move || {
                let transaction = db.transaction();
                transaction.get_for_update(first)?;
                thread::yield_now();
                transaction.get_for_update(second)?;
                transaction.put(first, b"2")?;
                transaction.commit()
            }
        };
        let results = thread::scope(|scope| {
            let threads = [scope.spawn(take(b"x", b"y")), scope.spawn(take(b"y", b"x"))];
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(results.iter().any(Result::is_ok), "{results:?}");
        for error in results.into_iter().filter_map(Result::err) {
            match error {
                Error::Deadlock { key, space: None } => assert!(key == b"x" || key == b"y"),
                Error::Conflict { .. } => continue,
                error => panic!("{error}"),
            }
            deadlocks += 1;
        }
    }
}

#[test]
fn a_locked_row_is_the_newest_or_a_conflict() {
    for isolation in LEVELS {
        let db = store();
        // Nothing was read: the transaction moves on.
        let transaction = begin(&db, isolation);
        db.put(b"x", b"2").unwrap();
        assert_eq!(transaction.get_for_update(b"x").unwrap().as_deref(), Some(&b"2"[..]));
        // It has the row, and another one is as it was.
        assert_eq!(transaction.get_for_update(b"x").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(transaction.get_for_update(b"y").unwrap().as_deref(), Some(&b"1"[..]));
        // A plain write does not wait, and is seen at the commit.
        db.put(b"x", b"3").unwrap();
        transaction.put(b"x", b"4").unwrap();
        assert_conflict(transaction.commit(), b"x");

        // What was read has changed.
        let transaction = begin(&db, isolation);
        assert_eq!(get(&transaction, b"y").as_deref(), Some("1"));
        db.put(b"y", b"2").unwrap();
        db.put(b"x", b"5").unwrap();
        let moved = transaction.get_for_update(b"x").map(|_| ());
        let changed = if isolation == Isolation::Serializable { b"y" } else { b"x" };
        assert_conflict(moved, changed);
        drop(transaction);

        // An iterator stays where it is.
        let transaction = begin(&db, isolation);
        let mut iter = transaction.iter().unwrap();
        db.put(b"x", b"6").unwrap();
        assert_conflict(transaction.get_for_update(b"x").map(|_| ()), b"x");
        iter.seek_first().unwrap();
        assert_eq!(iter.entry(), Some((&b"x"[..], &b"5"[..])));
    }
    // Reads of what has not changed move with the transaction.
    let db = store();
    let transaction = db.transaction();
    assert_eq!(get(&transaction, b"y").as_deref(), Some("1"));
    db.put(b"x", b"2").unwrap();
    assert_eq!(transaction.get_for_update(b"x").unwrap().as_deref(), Some(&b"2"[..]));
    transaction.put(b"x", b"3").unwrap();
    transaction.commit().unwrap();
    // Under snapshot isolation the keys written before count.
    let transaction = begin(&db, Isolation::Snapshot);
    transaction.put(b"y", b"4").unwrap();
    db.put(b"x", b"5").unwrap();
    db.put(b"y", b"5").unwrap();
    assert_conflict(transaction.get_for_update(b"x").map(|_| ()), b"y");
}
