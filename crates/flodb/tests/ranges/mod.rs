//! Ranges as iterators: what they show from both ends, what they read of the store for that, and
//! what they do when it cannot be read.

mod compared;
mod reads;

pub(crate) use compared::{compare, compare_prefix};

use crate::disk::{flip, tables};
use crate::support::{DIR, Rows, backwards, idle, open, tiny};
use keyrack_flodb::{
    Comparator, Db, Error, KeyRange, KeySpace, Keys, Options, Range, ReadOptions, Result, Spaces,
};
use keyrack_vfs::MemFs;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

fn store(keys: &[&str]) -> Db {
    let db = open(&MemFs::new(), tiny());
    for key in keys {
        db.put(key.as_bytes(), key.to_uppercase().as_bytes()).unwrap();
    }
    db
}

fn spaces() -> Spaces {
    let fs = Arc::new(MemFs::new());
    Spaces::open_in(fs, Path::new(DIR), tiny(), &[backwards()]).unwrap()
}

fn fill(space: &KeySpace, keys: &[&str]) {
    for key in keys {
        space.put(key.as_bytes(), key.to_uppercase().as_bytes()).unwrap();
    }
}

/// The keys that are left, as one string; all of them have one byte.
fn letters(range: Range) -> String {
    let keys: Result<Vec<Vec<u8>>> = range.keys().collect();
    keys.unwrap().iter().map(|key| char::from(key[0])).collect()
}

#[test]
fn every_form_of_bounds_means_what_it_means_for_a_map() {
    let db = store(&["a", "b", "c", "d", "e"]);
    let (b, d) = (b"b".to_vec(), "d".to_owned());
    assert_eq!(letters(db.range(..)), "abcde");
    assert_eq!(letters(db.range("b".."d")), "bc");
    assert_eq!(letters(db.range("b"..="d")), "bcd");
    assert_eq!(letters(db.range(&b..)), "bcde");
    assert_eq!(letters(db.range(..d.clone())), "abc");
    assert_eq!(letters(db.range(..=&d)), "abcd");
    assert_eq!(letters(db.range(b"b"..b"c")), "b");
    assert_eq!(letters(db.range((Bound::Excluded(&b), Bound::Included(&b"d"[..].to_vec())))), "cd");
    assert_eq!(letters(db.range((Bound::Excluded("b"), Bound::Excluded("c")))), "");
    // A map panics here.
    assert_eq!(letters(db.range("d".."b")), "");
    assert_eq!(db.range("d".."b").rev().count(), 0);
    assert_eq!(letters(db.range((Bound::Excluded("b"), Bound::Excluded("b")))), "");
    assert_eq!(letters(db.range("bb".."cc")), "c");

    struct Middle;
    impl KeyRange for Middle {
        fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
            (Bound::Excluded(b"a"), Bound::Excluded(b"e"))
        }
    }
    assert_eq!(letters(db.range(Middle)), "bcd");
}

#[test]
fn both_ends_meet_once_wherever_they_meet() {
    let keys = ["a", "b", "c", "d", "e"];
    let db = store(&keys);
    for from_front in 0..=keys.len() {
        let mut range = db.range(..);
        let key = |item: Option<Result<(Vec<u8>, Vec<u8>)>>| item.unwrap().unwrap().0;
        let (front, back) = keys.split_at(from_front);
        for expected in front {
            assert_eq!(key(range.next()), expected.as_bytes());
        }
        for expected in back.iter().rev() {
            assert_eq!(key(range.next_back()), expected.as_bytes());
        }
        for _ in 0..2 {
            assert!(range.next().is_none() && range.next_back().is_none(), "{from_front}");
            assert_eq!(range.next_entry().unwrap(), None);
            assert_eq!(range.next_entry_back().unwrap(), None);
        }
    }
}

#[test]
fn the_methods_of_iterators_are_there() {
    let db = store(&["a", "b", "c", "d", "e"]);
    let entry = |key: &str| (key.as_bytes().to_vec(), key.to_uppercase().into_bytes());
    assert_eq!(db.range(..).last().unwrap().unwrap(), entry("e"));
    assert_eq!(db.range("b"..).keys().last().unwrap().unwrap(), b"e");
    assert_eq!(db.range("b"..).nth(1).unwrap().unwrap(), entry("c"));
    assert_eq!(db.range("b"..).nth_back(1).unwrap().unwrap(), entry("d"));
    assert_eq!((db.range("b"..).count(), db.range("b"..).keys().count()), (4, 4));
    let odd: Rows = db.range(..).step_by(2).collect::<Result<_>>().unwrap();
    assert_eq!(odd, [entry("a"), entry("c"), entry("e")]);
    let mut range = db.range(..);
    range.next().unwrap().unwrap();
    range.next_back().unwrap().unwrap();
    let back: Vec<Vec<u8>> = range.keys().rev().collect::<Result<_>>().unwrap();
    assert_eq!(back, [b"d", b"c", b"b"], "keys go on where the range was");
    assert_eq!(db.first().unwrap(), Some(entry("a")));
    assert_eq!(db.last().unwrap(), Some(entry("e")));
    assert!(!db.is_empty().unwrap());
    db.delete_range(b"", b"f").unwrap();
    assert!(db.is_empty().unwrap());
    assert_eq!((db.first().unwrap(), db.last().unwrap()), (None, None));
}

#[test]
fn a_range_goes_to_another_thread_and_outlives_its_store() {
    fn sent<T: Send + 'static>(it: T) -> T {
        it
    }
    fn shared<T: Clone + Send + Sync + 'static>(it: T) -> T {
        it
    }
    let db = shared(store(&["a", "b"]));
    let mut range: Range = sent(db.range(..));
    let keys: Keys = sent(db.range(..).keys());
    db.put(b"c", b"after the range was made").unwrap();
    db.delete(b"a").unwrap();
    let other = db.clone();
    let seen = std::thread::spawn(move || {
        let first = range.next_entry().unwrap().map(|(key, _)| key.to_vec());
        (first, range.count(), keys.count(), other.range(..).count())
    });
    drop(db);
    assert_eq!(seen.join().unwrap(), (Some(b"a".to_vec()), 1, 2, 2));
}

#[test]
fn a_prefix_ends_where_its_keys_end() {
    let db = open(&MemFs::new(), tiny());
    let keys: [&[u8]; 9] =
        [b"", b"a", b"a\xff", b"a\xff\x01", b"a\xff\xff", b"b", b"\xff", b"\xff\x07", b"\xff\xff"];
    for key in keys {
        db.put(key, b"").unwrap();
    }
    for prefix in keys.iter().chain(&[&b"a\xff\xff\xff"[..], b"c"]) {
        let expected: Vec<&[u8]> =
            keys.iter().copied().filter(|key| key.starts_with(prefix)).collect();
        let found: Vec<Vec<u8>> = db.prefix(prefix).keys().collect::<Result<_>>().unwrap();
        assert_eq!(found, expected, "{prefix:?}");
        let mut back: Vec<Vec<u8>> = db.prefix(prefix).keys().rev().collect::<Result<_>>().unwrap();
        back.reverse();
        assert_eq!(back, expected, "{prefix:?}");
    }
}

#[test]
fn a_space_has_ranges_in_its_order_and_none_of_its_neighbours() {
    let spaces = spaces();
    let plain = spaces.create("plain", &Comparator::Bytewise).unwrap();
    let back = spaces.create("back", &backwards()).unwrap();
    let behind = spaces.create("behind", &Comparator::Bytewise).unwrap();
    let empty = spaces.create("empty", &backwards()).unwrap();
    for space in [&plain, &back, &behind] {
        fill(space, &["a", "b", "c", "d", "\u{7f}"]);
    }
    let moment = spaces.snapshot();
    back.delete(b"d").unwrap();
    plain.put(b"", b"").unwrap();
    assert_eq!(letters(back.range(..)), "\u{7f}cba");
    assert_eq!(letters(back.range("c".."a")), "cb");
    assert_eq!(letters(back.range("a".."c")), "", "the order of the space counts");
    assert_eq!(letters(back.range_at(&moment, "d"..)), "dcba");
    assert_eq!(letters(plain.range("a"..="c")), "abc");
    assert_eq!(plain.range(..).count(), 6);
    assert_eq!(plain.range_at(&moment, ..).rev().count(), 5);
    let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    assert_eq!(letters(plain.range_with(Some(&moment), ..="b", once)), "ab");
    assert_eq!(back.first().unwrap().unwrap().0, b"\x7f");
    assert_eq!(back.last().unwrap().unwrap().0, b"a");
    assert_eq!(plain.first().unwrap().unwrap().0, b"");
    assert!(empty.is_empty().unwrap() && !plain.is_empty().unwrap());
    assert_eq!((empty.first().unwrap(), empty.last().unwrap()), (None, None));
    plain.put(b"\xff\xff\xff", b"").unwrap();
    plain.put(b"\xff", b"").unwrap();
    assert_eq!(plain.prefix("\u{ff}").count(), 0);
    assert_eq!(plain.prefix([0xff_u8]).count(), 2, "nothing of the next space");
    assert_eq!(plain.prefix([0xff_u8, 0xff]).rev().count(), 1);
    assert_eq!(plain.prefix("").count(), 8);
    assert_eq!(plain.prefix_at(&moment, "").count(), 5);
    assert_eq!(letters(plain.prefix_with(None, "c", once)), "c");
}

#[test]
fn a_prefix_in_another_order_and_a_dropped_space_are_refused_by_the_first_item() {
    let usage = |mut range: Range, part: &str| {
        match range.next() {
            Some(Err(Error::Usage(what))) => assert!(what.contains(part), "{what}"),
            other => panic!("{part}: {other:?}"),
        }
        assert!(range.next().is_none() && range.next_back().is_none());
    };
    let spaces = spaces();
    let back = spaces.create("back", &backwards()).unwrap();
    fill(&back, &["a"]);
    usage(back.prefix("a"), "\"test.backwards\"; use range");
    let db = open(&MemFs::new(), Options { comparator: backwards(), ..tiny() });
    usage(db.prefix("a"), "use range");
    spaces.drop_space("back").unwrap();
    usage(back.range(..), "\"back\" was dropped");
    assert!(matches!(back.is_empty(), Err(Error::Usage(_))));
    assert!(matches!(back.range(..).keys().next_back(), Some(Err(Error::Usage(_)))));
    assert!(matches!(back.range(..).next_entry_back(), Err(Error::Usage(_))));
}

#[test]
fn damage_is_one_item_and_then_the_end() {
    let fs = MemFs::new();
    let db = open(&fs, idle());
    for n in 0..300 {
        db.put(format!("key{n:03}").as_bytes(), &[7; 100]).unwrap();
    }
    db.flush().unwrap();
    drop(db);
    // In the second of some eight blocks of 37 entries.
    flip(&fs, &tables(&fs)[0], 5_000);
    let db = open(&fs, idle());
    let items: Vec<_> = db.range(..).collect();
    let (error, before) = items.split_last().unwrap();
    assert!(matches!(error, Err(Error::Corruption { .. })), "{error:?}");
    assert!(!before.is_empty() && before.iter().all(Result::is_ok));
    let items: Vec<_> = db.range(..).keys().rev().collect();
    let (error, behind) = items.split_last().unwrap();
    assert!(matches!(error, Err(Error::Corruption { .. })), "{error:?}");
    assert!(behind.len() > before.len() && behind.iter().all(Result::is_ok));
    assert_eq!(db.range(..).count(), before.len() + 1);
    let mut range = db.range("key045"..="key060");
    assert!(matches!(range.next_entry(), Err(Error::Corruption { .. })));
    assert_eq!(range.next_entry_back().unwrap(), None, "the other end has ended, too");
    assert_eq!(db.range("key200"..).count(), 100, "what is whole is read");
}
