//! Cursors that a caller holds: each move compared with a `BTreeMap`'s answer, and beside writers.

use crate::gaps::nested_key;
use crate::model::{Key, families, near};
use keyrack_concurrent::pin;
use keyrack_masstree::{Bytes, Cursor, Tree};
use keyrack_testkit::random::{Announced, Draw, factor, mix, seeds};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the model of a cursor stands.
#[derive(Clone, Debug)]
enum Standing {
    Before,
    On(Key),
    After,
}

type Model = BTreeMap<Key, u64>;

/// Where a cursor on `model` stands after it has gone upward, or downward, from `from`.
fn moved(model: &Model, from: &Standing, up: bool) -> Standing {
    let next = match (from, up) {
        (Standing::Before, true) => model.keys().next(),
        (Standing::On(key), true) => {
            model.range::<Key, _>((Excluded(key), Unbounded)).next().map(|(key, _)| key)
        }
        (Standing::On(key), false) => model.range(..key.clone()).next_back().map(|(key, _)| key),
        (Standing::After, false) => model.keys().next_back(),
        (Standing::Before, false) | (Standing::After, true) => None,
    };
    match next {
        Some(key) => Standing::On(key.clone()),
        None if up => Standing::After,
        None => Standing::Before,
    }
}

/// A tree of about half of the keys, and its model.
pub(crate) fn half_filled(keys: &[Key], draw: &mut Draw) -> (Tree<u64>, Model) {
    let (tree, mut model) = (Tree::new(), Model::new());
    for key in keys {
        let value = draw.next();
        if value.is_multiple_of(2) {
            continue;
        }
        tree.insert(key, value, &pin());
        model.insert(key.clone(), value);
    }
    (tree, model)
}

#[test]
fn a_cursor_moves_as_the_model_does() {
    for seed in seeds() {
        let _seed = Announced(seed);
        for (name, keys) in families() {
            eprintln!("{name}");
            let mut draw = Draw::new(seed);
            let (mut tree, model) = half_filled(&keys, &mut draw);
            let guard = pin();
            let mut cursor = tree.cursor(&guard);
            let mut standing = Standing::Before;
            let mut up = true;
            for _ in 0..3000 * factor() {
                // It mostly goes on as before, so that it comes through whole nodes.
                up ^= draw.one_in(8);
                let found = match draw.below(60) {
                    0 => {
                        let key = near(&keys, &mut draw);
                        standing = match model.range(key.clone()..).next() {
                            Some((key, _)) => Standing::On(key.clone()),
                            None => Standing::After,
                        };
                        cursor.seek(&key)
                    }
                    1 => {
                        let key = near(&keys, &mut draw);
                        standing = match model.range(..key.clone()).next_back() {
                            Some((key, _)) => Standing::On(key.clone()),
                            None => Standing::Before,
                        };
                        cursor.seek_before(&key)
                    }
                    2 => {
                        standing = moved(&model, &Standing::Before, true);
                        cursor.seek_first()
                    }
                    3 => {
                        standing = moved(&model, &Standing::After, false);
                        cursor.seek_last()
                    }
                    _ => {
                        standing = moved(&model, &standing, up);
                        if up { cursor.next() } else { cursor.prev() }
                    }
                };
                let expected = match &standing {
                    Standing::On(key) => Some((key.as_slice(), model[key])),
                    _ => None,
                };
                assert_eq!(found, expected, "{standing:?}");
                assert_eq!(cursor.key(), expected.map(|(key, _)| key));
                assert_eq!(cursor.value(), expected.map(|(_, value)| value));
            }
            drop(guard);
            tree.check().unwrap();
        }
    }
}

#[test]
fn a_cursor_on_an_empty_tree_stands_at_both_ends() {
    let (tree, guard) = (Tree::<u64>::new(), pin());
    let mut cursor = tree.cursor(&guard);
    assert_eq!(cursor.key(), None);
    assert_eq!(cursor.value(), None);
    assert_eq!(cursor.seek(b""), None);
    assert_eq!(cursor.seek_before(b"\xff"), None);
    assert_eq!(cursor.seek_last(), None);
    // It stands before the first key, which comes now.
    assert_eq!(tree.insert(b"key", 1, &guard), None);
    assert_eq!(cursor.prev(), None);
    assert_eq!(cursor.next(), Some((&b"key"[..], 1)));
    assert_eq!(cursor.next(), None);
    assert_eq!(cursor.next(), None);
    assert_eq!(cursor.prev(), Some((&b"key"[..], 1)));
}

/// A value that a cursor has lent stays, whatever happens to its key and to the cursor.
#[test]
fn what_a_cursor_lends_lives_as_long_as_the_guard() {
    let tree = Tree::<Bytes>::new();
    let value = |n: u64| format!("a value that is not in the word: {n}").into_bytes();
    let key = |n: u64| format!("a key with an end in a cell, {n:04}").into_bytes();
    for n in 0..200 {
        assert!(tree.insert(&key(n), &value(n), &pin()).is_none());
    }
    let guard = pin();
    let mut lent = Vec::new();
    let mut cursor = tree.cursor(&guard);
    while let Some((_, value)) = cursor.next() {
        lent.push(value);
    }
    drop(cursor);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..200 {
                let guard = pin();
                assert!(tree.insert(&key(n), b"another value, as long as that", &guard).is_some());
                assert!(tree.remove(&key(n), &guard).is_some());
                guard.flush();
            }
        });
    });
    assert!(tree.is_empty());
    assert_eq!(lent.len(), 200);
    for (n, value_lent) in lent.iter().enumerate() {
        assert_eq!(**value_lent, value(n as u64));
    }
}

/// Runs `read` until two threads, each with its number, have done `write`.
pub(crate) fn beside_two(write: impl Fn(u64) + Sync, read: impl Fn()) {
    /// Counts down on a panic too, so that the reader ends.
    struct Done<'a>(&'a AtomicU64);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Release);
        }
    }
    let writing = AtomicU64::new(2);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (write, writing) = (&write, &writing);
            scope.spawn(move || {
                let _done = Done(writing);
                write(thread);
            });
        }
        while writing.load(Ordering::Acquire) > 0 {
            read();
        }
        read();
    });
}

/// Keys among nested layers and gaps, every eighth of which stays in the tree, and the tree.
pub(crate) struct Shared {
    pub(crate) keys: Vec<Key>,
    pub(crate) stay: BTreeSet<Key>,
    pub(crate) tree: Tree<Bytes>,
    seed: u64,
}

impl Shared {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let keys: BTreeSet<Key> = (0..800).map(|_| nested_key(&mut draw)).collect();
        let keys: Vec<Key> = keys.into_iter().collect();
        let stay: BTreeSet<Key> = keys.iter().step_by(8).cloned().collect();
        let tree = Tree::new();
        for key in &stay {
            assert!(tree.insert(key, key.as_slice(), &pin()).is_none());
        }
        Shared { keys, stay, tree, seed }
    }

    /// Parts of the other keys come and go, half of them by each of two threads.
    pub(crate) fn write(&self, thread: u64, rounds: usize) {
        let mut draw = Draw::new(self.seed ^ mix(thread + 1));
        let others = (0..self.keys.len()).filter(|at| at % 8 > 0 && *at as u64 % 2 == thread);
        let own: Vec<&Key> = others.map(|at| &self.keys[at]).collect();
        for _ in 0..rounds {
            let (start, length) = (draw.below(own.len()), 1 + draw.below(own.len()));
            let put = draw.one_in(2);
            for at in start..start + length {
                let (key, guard) = (own[at % own.len()], pin());
                let old = match put {
                    true => self.tree.insert(key, key, &guard),
                    false => self.tree.remove(key, &guard),
                };
                assert!(old.is_none_or(|old| *old == **key));
            }
        }
    }

    /// Whether one of the keys that stay is between the two.
    pub(crate) fn stays_between(&self, low: &[u8], high: &[u8]) -> bool {
        let between = (Excluded(low), Excluded(high));
        low < high && self.stay.range::<[u8], _>(between).next().is_some()
    }
}

/// Makes a move, and checks it against the keys that stay.
fn checked_move(shared: &Shared, cursor: &mut Cursor<'_, Bytes>, up: bool) -> bool {
    let last = cursor.key().map(<[u8]>::to_vec);
    let found = if up { cursor.next() } else { cursor.prev() };
    let end = [u8::MAX; 64];
    match (found, last, up) {
        (Some((key, value)), last, true) => {
            assert_eq!(key, &*value);
            assert!(last.as_deref().is_none_or(|last| last < key), "{key:?} after {last:?}");
            let low = last.unwrap_or_default();
            assert!(!shared.stays_between(&low, key), "from {low:?} up to {key:?}");
        }
        (Some((key, value)), last, false) => {
            assert_eq!(key, &*value);
            assert!(last.as_deref().is_none_or(|last| last > key), "{key:?} before {last:?}");
            let high = last.as_deref().unwrap_or(&end);
            assert!(!shared.stays_between(key, high), "from {high:?} down to {key:?}");
        }
        (None, Some(last), true) => assert!(!shared.stays_between(&last, &end)),
        (None, Some(last), false) => assert!(!shared.stays_between(b"", &last)),
        (None, None, _) => return false,
    }
    cursor.key().is_some()
}

#[test]
fn a_cursor_beside_two_writers_passes_over_nothing_that_stays() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut shared = Shared::new(seed);
        let reads = AtomicU64::new(0);
        let read = || {
            let mut draw = Draw::new(seed ^ mix(reads.fetch_add(1, Ordering::Relaxed)));
            let guard = pin();
            let mut cursor = shared.tree.cursor(&guard);
            let start = draw.one_of(&shared.keys);
            let found = cursor.seek(start).map(|(key, _)| key.to_vec());
            let stays = shared.stay.range(start.clone()..).next();
            assert!(found.as_ref().is_none_or(|found| found >= start));
            assert!(stays.is_none_or(|stays| found.is_some_and(|found| found <= *stays)));
            let mut up = draw.one_in(2);
            for _ in 0..600 {
                up ^= draw.one_in(20);
                if !checked_move(&shared, &mut cursor, up) {
                    up = !up;
                }
            }
        };
        beside_two(|thread| shared.write(thread, 1000 * factor()), read);
        shared.tree.check().unwrap();
    }
}
