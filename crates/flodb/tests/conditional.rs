//! Swaps and counters: one writer at a time for a key, nothing written where they refuse, and what
//! they answered survives as any write does.

use crate::support::{DIR, backwards, open, stat, tiny};
use keyrack_flodb::{Db, Error, KeySpace, Result, Spaces, WriteOptions};
use keyrack_vfs::{CrashPolicy, MemFs};
use std::path::Path;
use std::sync::Arc;
use std::thread;

const THREADS: usize = 4;
const ROUNDS: usize = 500;
const SYNCED: WriteOptions = WriteOptions { sync: true };

fn spaces() -> Spaces {
    let fs = Arc::new(MemFs::new());
    Spaces::open_in(fs, Path::new(DIR), tiny(), &[backwards()]).unwrap()
}

#[test]
fn a_swap_is_made_if_the_value_is_the_expected_one() {
    let db = open(&MemFs::new(), tiny());
    let swap = |expected: Option<&[u8]>, new: Option<&[u8]>| {
        let swapped = db.compare_and_swap(b"key", expected, new).unwrap();
        (swapped, db.get(b"key").unwrap())
    };
    let is = |value: &[u8]| Some(value.to_vec());
    assert_eq!(swap(Some(b""), Some(b"1")), (false, None), "no value is not an empty one");
    assert_eq!(swap(None, None), (true, None));
    assert_eq!(swap(None, Some(b"")), (true, is(b"")));
    assert_eq!(swap(None, Some(b"2")), (false, is(b"")));
    assert_eq!(swap(Some(b""), Some(b"3")), (true, is(b"3")));
    assert_eq!(swap(Some(b"3"), Some(b"3")), (true, is(b"3")));
    assert_eq!(swap(Some(b"33"), None), (false, is(b"3")));
    db.flush().unwrap();
    assert_eq!(swap(Some(b"3"), None), (true, None), "also of what is in a table");
    assert_eq!(swap(None, Some(b"4")), (true, is(b"4")));
}

#[test]
fn what_is_not_swapped_is_not_written() {
    let db = open(&MemFs::new(), tiny());
    db.put(b"key", b"value").unwrap();
    let written = || stat(&db, "memory_entries");
    let before = written();
    assert!(!db.compare_and_swap_with(b"key", None, Some(b"new"), SYNCED).unwrap());
    assert!(db.compare_and_swap(b"none", None, None).unwrap());
    assert!(db.fetch_and_add(b"key", 1).is_err());
    assert_eq!(written(), before);
    assert!(db.compare_and_swap(b"key", Some(b"value"), Some(b"new")).unwrap());
    assert_eq!(written(), before + 1);
}

/// Each round takes the number that is there to the next one, so none is lost and none is twice.
#[test]
fn swaps_of_many_threads_are_one_behind_the_other() {
    let db = open(&MemFs::new(), tiny());
    let count_up = || {
        for _ in 0..ROUNDS {
            loop {
                let found = db.get(b"count").unwrap();
                let number = found
                    .as_deref()
                    .map_or(0, |it| std::str::from_utf8(it).unwrap().parse::<usize>().unwrap());
                let next = (number + 1).to_string();
                let (found, next) = (found.as_deref(), Some(next.as_bytes()));
                if db.compare_and_swap(b"count", found, next).unwrap() {
                    break;
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(count_up);
        }
    });
    assert_eq!(db.get(b"count").unwrap(), Some((THREADS * ROUNDS).to_string().into_bytes()));
}

#[test]
fn every_number_of_a_counter_is_given_once() {
    let db = open(&MemFs::new(), tiny());
    let draw =
        || -> Vec<i64> { (0..ROUNDS).map(|_| db.fetch_and_add(b"tickets", 1).unwrap()).collect() };
    let mut tickets: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(draw)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    tickets.sort_unstable();
    assert!(tickets.iter().copied().eq(0..(THREADS * ROUNDS) as i64));
}

#[test]
fn a_counter_refuses_what_it_cannot_count() {
    let db = open(&MemFs::new(), tiny());
    let usage = |outcome: Result<i64>, part: &str| match outcome {
        Err(Error::Usage(what)) => assert!(what.contains(part), "{what}"),
        other => panic!("{part}: {other:?}"),
    };
    assert_eq!(db.fetch_and_add(b"count", -3).unwrap(), 0);
    assert_eq!(db.get(b"count").unwrap(), Some((-3_i64).to_le_bytes().to_vec()));
    assert_eq!(db.fetch_and_add(b"count", i64::MAX).unwrap(), -3);
    usage(db.fetch_and_add(b"count", 4), "cannot grow by 4");
    assert_eq!(db.fetch_and_add(b"count", 3).unwrap(), i64::MAX - 3);
    usage(db.fetch_and_add(b"count", 1), &i64::MAX.to_string());
    db.put(b"count", &i64::MIN.to_le_bytes()).unwrap();
    usage(db.fetch_and_add(b"count", -1), "cannot grow by -1");
    assert_eq!(db.fetch_and_add(b"count", 0).unwrap(), i64::MIN);
    for value in [&b""[..], b"1234567", b"123456789"] {
        db.put(b"text", value).unwrap();
        usage(db.fetch_and_add(b"text", 1), &format!("this value has {}", value.len()));
        assert_eq!(db.get(b"text").unwrap(), Some(value.to_vec()));
    }
}

#[test]
fn spaces_have_the_same_calls_and_keys_of_their_own() {
    let spaces = spaces();
    let one = spaces.create("one", &backwards()).unwrap();
    let two = spaces.create("two", &backwards()).unwrap();
    assert_eq!(one.fetch_and_add(b"count", 5).unwrap(), 0);
    assert_eq!(two.fetch_and_add_with(b"count", 7, SYNCED).unwrap(), 0);
    assert_eq!(one.fetch_and_add(b"count", 0).unwrap(), 5);
    assert!(one.compare_and_swap(b"key", None, Some(b"1")).unwrap());
    assert!(two.compare_and_swap(b"key", None, Some(b"2")).unwrap());
    assert!(!two.compare_and_swap_with(b"key", Some(b"1"), None, SYNCED).unwrap());
    let there = |space: &KeySpace| space.contains_key(b"key").unwrap();
    assert!(there(&one) && there(&two) && !one.contains_key(b"").unwrap());
    spaces.drop_space("one").unwrap();
    assert!(matches!(one.fetch_and_add(b"count", 1), Err(Error::Usage(_))));
    assert!(matches!(one.compare_and_swap(b"key", None, None), Err(Error::Usage(_))));
    assert!(matches!(one.contains_key(b"key"), Err(Error::Usage(_))));
    assert!(there(&two));
}

#[test]
fn a_synced_swap_and_count_survive_a_power_loss() {
    let fs = MemFs::new();
    let db: Db = open(&fs, tiny());
    assert!(db.compare_and_swap_with(b"key", None, Some(b"value"), SYNCED).unwrap());
    for n in 0..3 {
        assert_eq!(db.fetch_and_add_with(b"count", 1, SYNCED).unwrap(), n);
    }
    for seed in 0..5 {
        let db = open(&fs.crash_image(seed, CrashPolicy::DropAll), tiny());
        assert_eq!(db.get(b"key").unwrap(), Some(b"value".to_vec()));
        assert_eq!(db.fetch_and_add(b"count", 0).unwrap(), 3);
    }
}
