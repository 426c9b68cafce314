//! Prefixes of layers: groups of keys that begin alike, beside a model.

use keyrack_concurrent::pin;
use keyrack_masstree::{Stats, Tree};
use keyrack_testkit::random::{Announced, Draw, is_brief, seeds};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub(crate) type Key = Vec<u8>;
pub(crate) type Model = BTreeMap<Key, u64>;

/// Keys that fill a node and do not fit into it any more.
const GROUP_MIN: usize = 16;

/// Bytes that repeat at no word.
fn beginning(len: usize) -> Key {
    (0..len).map(|at| b'a' + (at % 23) as u8).collect()
}

/// Keys that share `len` bytes and differ in the next one. Some of them end there.
fn group(len: usize, count: usize) -> Vec<Key> {
    let end = |n: usize| [&[100 + n as u8][..], &beginning(n % 3 * 7)].concat();
    (0..count).map(|n| [beginning(len), end(n)].concat()).collect()
}

pub(crate) fn shuffle(keys: &mut [Key], draw: &mut Draw) {
    for at in (1..keys.len()).rev() {
        keys.swap(at, draw.below(at + 1));
    }
}

/// Keys at the edges of `key`: shorter, beyond it, and leaving it below and above at `at`.
fn around(key: &[u8], at: usize) -> Vec<Key> {
    let mut around = vec![key.to_vec(), key[..at].to_vec()];
    around.extend([&[0][..], &[255], &[0; 9], &[255; 9]].map(|end| [key, end].concat()));
    for byte in [0, 1, 254, 255] {
        let mut other = key.to_vec();
        if let Some(there) = other.get_mut(at) {
            *there = byte;
            around.push(other[..=at].to_vec());
            around.push(other);
        }
    }
    around
}

pub(crate) fn compare_range(tree: &Tree<u64>, model: &Model, low: &[u8], high: Option<&[u8]>) {
    let inside = |key: &[u8]| key >= low && high.is_none_or(|high| key < high);
    let mut expected: Vec<(Key, u64)> = model
        .iter()
        .filter(|(key, _)| inside(key))
        .map(|(key, value)| (key.clone(), *value))
        .collect();
    let mut found = Vec::new();
    tree.scan(low, high, |key, value| {
        found.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    assert_eq!(found, expected, "from {low:?} to {high:?}");
    found.clear();
    tree.scan_rev(low, high, |key, value| {
        found.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    expected.reverse();
    assert_eq!(found, expected, "down from {high:?} to {low:?}");
}

/// Finds all keys, and none of `others` that is not a key, and scans between them.
pub(crate) fn compare(
    tree: &mut Tree<u64>,
    model: &Model,
    others: &[Key],
    draw: &mut Draw,
) -> Stats {
    let stats = tree.check().unwrap();
    assert_eq!(stats.keys, model.len() as u64);
    let guard = pin();
    for key in model.keys().chain(others) {
        assert_eq!(tree.get(key, &guard), model.get(key).copied(), "{key:?}");
    }
    drop(guard);
    compare_range(tree, model, b"", None);
    for low in others {
        compare_range(tree, model, low, None);
        compare_range(tree, model, b"", Some(low));
        compare_range(tree, model, low, Some(draw.one_of(others).as_slice()));
    }
    stats
}

pub(crate) fn insert(tree: &Tree<u64>, model: &mut Model, key: &Key) {
    let value = model.len() as u64;
    assert_eq!(tree.insert(key, value, &pin()), model.insert(key.clone(), value));
}

/// Whatever there was, one node is left.
pub(crate) fn remove_all(tree: &mut Tree<u64>, mut model: Model, draw: &mut Draw) {
    let mut keys: Vec<Key> = model.keys().cloned().collect();
    shuffle(&mut keys, draw);
    for key in &keys {
        assert_eq!(tree.remove(key, &pin()), model.remove(key));
        assert_eq!(tree.remove(key, &pin()), None);
    }
    let stats = tree.check().unwrap();
    let left = (stats.keys, stats.borders, stats.interiors, stats.layers, stats.prefixes);
    assert_eq!(left, (0, 1, 0, 1, 0));
}

/// The layers and prefixes of a group that shares `len` bytes, alone in its tree. Its node is the
/// root of the tree, which takes all whole words as its prefix once it is full: no further layer is
/// made. Even 600 bytes are far from the 8191 words of the longest prefix.
fn layers_of(len: usize, count: usize) -> (u64, u64) {
    (1, u64::from(count >= GROUP_MIN && len >= 8))
}

/// Groups of every length of what they share, in ascending, descending and random order.
#[test]
fn a_group_makes_layers_where_its_keys_differ() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for len in (0..=600).filter(|len| !is_brief() || *len < 40 || len % 8 < 2) {
            for order in 0..3 {
                let counts = [1 + draw.below(15), GROUP_MIN, GROUP_MIN + 1 + draw.below(24)];
                for count in counts {
                    let mut keys = group(len, count);
                    match order {
                        0 => keys.sort_unstable(),
                        1 => keys.sort_unstable_by(|a, b| b.cmp(a)),
                        _ => shuffle(&mut keys, &mut draw),
                    }
                    let (mut tree, mut model) = (Tree::<u64>::new(), Model::new());
                    keys.iter().for_each(|key| insert(&tree, &mut model, key));
                    let others = around(&beginning(len), draw.below(len + 1));
                    let stats = compare(&mut tree, &model, &others, &mut draw);
                    let layers = (stats.layers, stats.prefixes);
                    assert_eq!(layers, layers_of(len, count), "{count} keys share {len} bytes");
                    remove_all(&mut tree, model, &mut draw);
                }
            }
        }
    }
}

/// Keys that leave a prefix at each of its words, in any order: they end at the word, or continue
/// below or above it.
#[test]
fn a_prefix_is_divided_at_each_word() {
    const WORDS: usize = 40;
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let whole = beginning(8 * WORDS + 3);
        let mut leaving: Vec<Key> = (0..=WORDS)
            .flat_map(|word| around(&whole[..8 * word + 3], 8 * word))
            .filter(|key| !key.is_empty())
            .collect();
        leaving.sort_unstable();
        leaving.dedup();
        shuffle(&mut leaving, &mut draw);
        let (mut tree, mut model) = (Tree::<u64>::new(), Model::new());
        group(whole.len(), 20).iter().for_each(|key| insert(&tree, &mut model, key));
        let before = tree.check().unwrap();
        assert_eq!((before.layers, before.prefixes), layers_of(whole.len(), 20));
        for (number, key) in leaving.iter().enumerate() {
            insert(&tree, &mut model, key);
            let others = around(key, draw.below(key.len()));
            if number.is_multiple_of(10) {
                compare(&mut tree, &model, &others, &mut draw);
            } else {
                tree.check().unwrap();
                assert_eq!(tree.get(key, &pin()), model.get(key).copied());
                let low = draw.one_of(&others);
                compare_range(&tree, &model, low, Some(draw.one_of(&others).as_slice()));
            }
        }
        let stats = compare(&mut tree, &model, &leaving, &mut draw);
        // No word is in a prefix any more: each leads to a layer of its own. At the word after the
        // last, keys leave within the layer of the group.
        assert_eq!((stats.layers, stats.prefixes), (1 + WORDS as u64, 0), "{stats:?}");
        remove_all(&mut tree, model, &mut draw);
    }
}

/// One key that leaves a prefix at a given word makes one layer more. The word leads from the upper
/// layer to the lower; those before and after it remain as the prefixes of the two.
#[test]
fn a_division_makes_one_layer() {
    const WORDS: usize = 20;
    let whole = beginning(8 * WORDS);
    for word in 0..WORDS {
        // It ends at the word, or goes on with other bytes.
        for key in [whole[..8 * (word + 1)].to_vec(), [&whole[..8 * word], b"x"].concat()] {
            let (mut tree, mut model) = (Tree::<u64>::new(), Model::new());
            group(whole.len(), GROUP_MIN).iter().for_each(|key| insert(&tree, &mut model, key));
            insert(&tree, &mut model, &key);
            let stats = tree.check().unwrap();
            let prefixes = u64::from(word > 0) + u64::from(word + 1 < WORDS);
            assert_eq!((stats.layers, stats.prefixes), (2, prefixes), "at word {word}");
            remove_all(&mut tree, model, &mut Draw::new(1));
        }
    }
}
