//! Ranges of a transaction: what they show, and what counts as read by them.

use crate::support::{backwards, idle, open};
use keyrack_flodb::{Comparator, Db, Error, KeyRange, Options, Result, Spaces, TransactionRange};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::MemFs;
use std::collections::VecDeque;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

fn bound(draw: &mut Draw) -> Bound<Vec<u8>> {
    let key = vec![b'a' + draw.below(20) as u8];
    [Bound::Unbounded, Bound::Included(key.clone()), Bound::Excluded(key)][draw.below(3)].clone()
}

fn is_within(key: &[u8], (low, high): &(Bound<Vec<u8>>, Bound<Vec<u8>>), is_forward: bool) -> bool {
    let ordering = |one: &[u8], other: &[u8]| {
        if is_forward { one.cmp(other) } else { other.cmp(one) }
    };
    let begun = match low {
        Bound::Unbounded => true,
        Bound::Included(low) => ordering(key, low).is_ge(),
        Bound::Excluded(low) => ordering(key, low).is_gt(),
    };
    let ended = match high {
        Bound::Unbounded => false,
        Bound::Included(high) => ordering(key, high).is_gt(),
        Bound::Excluded(high) => ordering(key, high).is_ge(),
    };
    begun && !ended
}

/// Taken from both ends in random turns, lent and copied, while the transaction writes on.
#[test]
fn a_range_shows_what_the_transaction_saw_when_it_was_made() {
    for seed in seeds() {
        let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
        for comparator in [Comparator::Bytewise, backwards()] {
            let is_forward = comparator.name() != "test.backwards";
            let db = open(&MemFs::new(), Options { comparator, ..idle() });
            for key in (b'a'..b'u').filter(|_| draw.one_in(2)) {
                db.put(&[key], b"stored").unwrap();
            }
            let transaction = db.transaction();
            for _ in 0..30 {
                change(&transaction, &mut draw);
                let bounds = (bound(&mut draw), bound(&mut draw));
                let all: Vec<_> = transaction.range(..).map(Result::unwrap).collect();
                let mut expected: VecDeque<_> = all
                    .into_iter()
                    .filter(|(key, _)| is_within(key, &bounds, is_forward))
                    .collect();
                let mut range = transaction.range(bounds);
                loop {
                    change(&transaction, &mut draw);
                    let (shown, next) = if draw.one_in(2) {
                        (step(&mut range, true, &mut draw), expected.pop_front())
                    } else {
                        (step(&mut range, false, &mut draw), expected.pop_back())
                    };
                    assert_eq!(shown, next);
                    if shown.is_none() {
                        break;
                    }
                }
                assert_eq!((range.next().transpose().unwrap(), expected.len()), (None, 0));
            }
        }
    }
}

fn change(transaction: &keyrack_flodb::Transaction, draw: &mut Draw) {
    let key = [b'a' + draw.below(20) as u8];
    if draw.one_in(2) {
        transaction.put(&key, b"own").unwrap();
    } else {
        transaction.delete(&key).unwrap();
    }
}

fn step(
    range: &mut TransactionRange<'_>,
    is_front: bool,
    draw: &mut Draw,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let copied = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    match (is_front, draw.one_in(2)) {
        (true, true) => range.next_entry().unwrap().map(copied),
        (true, false) => range.next().transpose().unwrap(),
        (false, true) => range.next_entry_back().unwrap().map(copied),
        (false, false) => range.next_back().transpose().unwrap(),
    }
}

/// What others write is a conflict within the part that was passed, and nowhere else.
#[test]
fn a_range_reads_what_it_passes() {
    fn outcome(range: impl KeyRange, back: bool, takes: usize, key: &[u8]) -> Result<()> {
        let db = open(&MemFs::new(), idle());
        ["d", "f", "h"].iter().for_each(|key| db.put(key.as_bytes(), b"").unwrap());
        let transaction = db.transaction();
        transaction.delete(b"mine")?;
        let range = transaction.range(range);
        if back {
            range.rev().take(takes).for_each(drop);
        } else {
            range.take(takes).for_each(drop);
        }
        db.put(key, b"")?;
        transaction.commit()
    }
    const ALL: usize = 9;
    let conflicts = |result: Result<()>| match result {
        Ok(()) => false,
        Err(Error::Conflict { .. }) => true,
        Err(other) => panic!("{other}"),
    };
    for (key, is_read) in [("b", false), ("c", true), ("e", true), ("f", false), ("g", false)] {
        assert_eq!(conflicts(outcome("c".."f", false, ALL, key.as_bytes())), is_read, "{key}");
        assert_eq!(conflicts(outcome("c".."f", true, ALL, key.as_bytes())), is_read, "{key}");
    }
    for (key, is_read) in [("b", false), ("d", true), ("f", true), ("fa", false), ("h", false)] {
        assert_eq!(conflicts(outcome("c"..="f", false, ALL, key.as_bytes())), is_read, "{key}");
        assert_eq!(conflicts(outcome("c"..="f", true, ALL, key.as_bytes())), is_read, "{key}");
    }
    // Only as far as it went.
    for (key, is_read) in [("a", true), ("d", true), ("e", false)] {
        assert_eq!(conflicts(outcome(.., false, 1, key.as_bytes())), is_read, "{key}");
    }
    for (key, is_read) in [("z", true), ("h", true), ("g", false)] {
        assert_eq!(conflicts(outcome(.., true, 1, key.as_bytes())), is_read, "{key}");
    }
}

#[test]
fn a_range_of_a_space_ends_at_its_borders() {
    let fs = Arc::new(MemFs::new());
    let spaces = Spaces::open_in(fs, Path::new("/store"), Options::default(), &[]).unwrap();
    let [a, b, c] =
        ["a", "b", "c"].map(|name| spaces.get_or_create(name, &Comparator::Bytewise).unwrap());
    for space in [&a, &b, &c] {
        [&b""[..], b"\xff", b"\xff\xff"].iter().for_each(|key| space.put(key, b"").unwrap());
    }
    let transaction = spaces.transaction();
    transaction.put(&b, b"k", b"").unwrap();
    let keys = |range: TransactionRange<'_>| -> Vec<Vec<u8>> {
        range.map(|entry| entry.unwrap().0).collect()
    };
    assert_eq!(keys(transaction.range(&b, ..)), [&b""[..], b"k", b"\xff", b"\xff\xff"]);
    assert_eq!(keys(transaction.prefix(&b, b"\xff")), [&b"\xff"[..], b"\xff\xff"]);
    assert_eq!(transaction.prefix(&b, "").rev().count(), 4);
    spaces.drop_space("b").unwrap();
    let error = transaction.range(&b, ..).next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}

#[test]
fn prefixes_need_the_order_of_bytes() {
    fn first(db: &Db) -> Error {
        db.transaction().prefix("a").next().unwrap().unwrap_err()
    }
    let db = open(&MemFs::new(), Options { comparator: backwards(), ..idle() });
    assert!(matches!(first(&db), Error::Usage(_)), "{}", first(&db));
}

/// A range that nobody has asked yet is at the moment of its making, and the transaction with it.
#[test]
fn a_range_that_is_not_asked_yet_keeps_the_moment_of_its_transaction() {
    let db = open(&MemFs::new(), idle());
    ["a1", "x"].iter().for_each(|key| db.put(key.as_bytes(), b"old").unwrap());
    let transaction = db.transaction();
    let mut range = transaction.range("a".."b");
    ["a1", "x"].iter().for_each(|key| db.put(key.as_bytes(), b"new").unwrap());
    let moved = transaction.get_for_update(b"x");
    assert!(matches!(moved, Err(Error::Conflict { .. })), "{moved:?}");
    assert_eq!(range.next().unwrap().unwrap().1, b"old");
    drop(range);
    transaction.put(b"x", b"mine").unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));

    // One that was dropped holds nothing.
    let transaction = db.transaction();
    drop(transaction.range("a".."b"));
    db.put(b"x", b"newer").unwrap();
    assert_eq!(transaction.get_for_update(b"x").unwrap().unwrap(), b"newer");
}
