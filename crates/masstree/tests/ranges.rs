//! Iterators over ranges: bounds of every kind, from both ends, compared with a `BTreeMap`'s
//! entries, and beside writers.

use crate::cursors::{Shared, beside_two, half_filled};
use crate::model::{Key, families, near};
use keyrack_concurrent::pin;
use keyrack_masstree::{Boxed, Bytes, KeyRange, Range, Tree};
use keyrack_testkit::random::{Announced, Draw, factor, mix, seeds};
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};

type Rows = Vec<(Key, u64)>;

/// All items, taken from the ends in an order that is drawn: those from the front, and those from
/// the back.
fn both_ends(mut range: Range<'_, u64>, back_once_in: u64, draw: &mut Draw) -> (Rows, Rows) {
    let (mut front, mut back) = (Rows::new(), Rows::new());
    loop {
        let from_back = back_once_in > 0 && draw.one_in(back_once_in);
        let item = if from_back { range.next_back() } else { range.next() };
        match item {
            Some(item) if from_back => back.push(item),
            Some(item) => front.push(item),
            None => break,
        }
    }
    // The end is final at both ends.
    assert_eq!((range.next(), range.next_back(), range.next()), (None, None, None));
    (front, back)
}

fn bound(keys: &[Key], draw: &mut Draw) -> Bound<Key> {
    match draw.below(3) {
        0 => Bound::Included(near(keys, draw)),
        1 => Bound::Excluded(near(keys, draw)),
        _ => Bound::Unbounded,
    }
}

#[test]
fn a_range_has_what_the_model_has_within_the_bounds() {
    for seed in seeds() {
        let _seed = Announced(seed);
        for (name, keys) in families() {
            eprintln!("{name}");
            let mut draw = Draw::new(seed);
            let (mut tree, model) = half_filled(&keys, &mut draw);
            let guard = pin();
            let mut empty = 0;
            for _ in 0..150 * factor() {
                // About a quarter of the ranges end before they begin.
                let bounds = (bound(&keys, &mut draw), bound(&keys, &mut draw));
                let inside = model.iter().filter(|(key, _)| bounds.contains(*key));
                let mut expected: Rows = inside.map(|(key, value)| (key.clone(), *value)).collect();
                empty += u64::from(expected.is_empty());

                let found: Rows = tree.range(bounds.clone(), &guard).collect();
                assert_eq!(found, expected, "{bounds:?}");
                let back_once_in = draw.below(4);
                let range = tree.range(bounds.clone(), &guard);
                let (mut found, back) = both_ends(range, back_once_in, &mut draw);
                found.extend(back.into_iter().rev());
                assert_eq!(found, expected, "{bounds:?} from both ends");
                let found: Rows = tree.range(bounds.clone(), &guard).rev().collect();
                expected.reverse();
                assert_eq!(found, expected, "{bounds:?} backwards");
            }
            assert!(empty > 0, "no range was empty");

            let all: Rows = model.iter().map(|(key, value)| (key.clone(), *value)).collect();
            assert!(tree.iter(&guard).eq(all.iter().cloned()));
            assert!(tree.iter(&guard).rev().eq(all.iter().rev().cloned()));
            for _ in 0..50 {
                let prefix = near(&keys, &mut draw);
                let begin = all.iter().filter(|(key, _)| key.starts_with(&prefix)).cloned();
                assert!(tree.prefix(&prefix, &guard).eq(begin.clone()), "{prefix:?}");
                assert!(tree.prefix(&prefix, &guard).rev().eq(begin.rev()), "{prefix:?}");
            }
            drop(guard);
            tree.check().unwrap();
        }
    }
}

fn numbers_in(tree: &Tree<u64>, range: impl KeyRange) -> Vec<u64> {
    tree.range(range, &pin()).map(|(_, value)| value).collect()
}

/// Each kind of range, of each type of key.
#[test]
fn ranges_are_those_of_the_standard_library() {
    let tree = Tree::<u64>::new();
    for (key, value) in [("", 0), ("a", 1), ("b", 2), ("b\0", 3), ("c", 4)] {
        assert_eq!(tree.insert(key.as_bytes(), value, &pin()), None);
    }
    let key = |text: &str| text.as_bytes().to_vec();
    assert_eq!(numbers_in(&tree, ..), [0, 1, 2, 3, 4]);
    assert_eq!(numbers_in(&tree, b"a"..b"c"), [1, 2, 3]);
    assert_eq!(numbers_in(&tree, &b""[..]..&b"b\0"[..]), [0, 1, 2]);
    assert_eq!(numbers_in(&tree, "a"..="b"), [1, 2]);
    assert_eq!(numbers_in(&tree, key("b")..), [2, 3, 4]);
    assert_eq!(numbers_in(&tree, ..&key("b")), [0, 1]);
    assert_eq!(numbers_in(&tree, ..=String::from("b")), [0, 1, 2]);
    assert_eq!(numbers_in(&tree, (Bound::Excluded([b'b']), Bound::Unbounded)), [3, 4]);
    assert_eq!(numbers_in(&tree, (Bound::Excluded("a"), Bound::Included("c"))), [2, 3, 4]);
    // What the standard library refuses is empty.
    assert!(numbers_in(&tree, "c".."a").is_empty());
    assert!(numbers_in(&tree, "c"..="a").is_empty());
    assert!(numbers_in(&tree, (Bound::Excluded("b"), Bound::Excluded("b"))).is_empty());
    assert!(numbers_in(&tree, .."").is_empty());
}

/// Values that an iterator has lent stay, whatever happens to it and to their keys.
#[test]
fn what_a_range_lends_lives_as_long_as_the_guard() {
    let tree = Tree::<Boxed<String>>::new();
    for n in 0..100_u64 {
        assert!(tree.insert(&n.to_be_bytes(), n.to_string(), &pin()).is_none());
    }
    let guard = pin();
    let lent: Vec<&String> = tree.range([0; 8].., &guard).map(|(_, value)| value).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..100_u64 {
                let guard = pin();
                assert!(tree.remove(&n.to_be_bytes(), &guard).is_some());
                guard.flush();
            }
        });
    });
    assert!(tree.is_empty() && lent.len() == 100);
    assert!(lent.iter().zip(0_u64..).all(|(lent, n)| **lent == n.to_string()));
}

/// Takes all items from both ends, and checks each against its key, and all against those that
/// stay.
fn check_range(shared: &Shared, mut range: Range<'_, Bytes>, low: &[u8], high: &[u8], seed: u64) {
    let mut draw = Draw::new(seed);
    let (mut front, mut back): (Vec<Key>, Vec<Key>) = (Vec::new(), Vec::new());
    let back_once_in = 1 + draw.below(4_u64);
    loop {
        let from_back = draw.one_in(back_once_in);
        let item = if from_back { range.next_back() } else { range.next() };
        let Some((key, value)) = item else { break };
        assert_eq!(key, &*value);
        if from_back { back.push(key) } else { front.push(key) }
    }
    front.extend(back.into_iter().rev());
    assert!(front.is_sorted_by(|a, b| a < b), "each once and in order");
    assert!(front.iter().all(|key| low <= &key[..] && &key[..] < high));
    let stay = shared.stay.iter().filter(|key| low <= &key[..] && &key[..] < high);
    let missed = stay.clone().find(|key| front.binary_search(key).is_err());
    assert_eq!(missed, None, "of the keys that stay");
}

#[test]
fn ranges_beside_two_writers_have_all_that_stays() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut shared = Shared::new(seed);
        let reads = AtomicU64::new(0);
        let read = || {
            let seed = seed ^ mix(reads.fetch_add(1, Ordering::Relaxed));
            let mut draw = Draw::new(seed);
            let (one, other) = (draw.one_of(&shared.keys), draw.one_of(&shared.keys));
            let (low, high) = (one.min(other), one.max(other));
            let guard = pin();
            let range = shared.tree.range(low..high, &guard);
            check_range(&shared, range, low, high, seed);
        };
        beside_two(|thread| shared.write(thread, 1000 * factor()), read);
        shared.tree.check().unwrap();
    }
}
