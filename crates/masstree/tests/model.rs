//! Random operations over adversarial keys, each answer compared with a `BTreeMap`'s.

use crate::gaps::nested_key;
use keyrack_concurrent::{Change, pin};
use keyrack_masstree::{Bytes, Tree};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub(crate) type Key = Vec<u8>;
type Model = BTreeMap<Key, Vec<u8>>;

/// Families of keys, each a known way to break a trie of slices.
pub(crate) fn families() -> Vec<(&'static str, Vec<Key>)> {
    let text = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let repeat = |byte: u8, lengths: &mut dyn Iterator<Item = usize>| -> Vec<Key> {
        lengths.map(|len| vec![byte; len]).collect()
    };
    let mut padded: Vec<Key> = (0..9).map(|zeros| [vec![b'a'], vec![0; zeros]].concat()).collect();
    padded.push(b"a\0\0\0\0\0\0\0long".to_vec());
    padded.push(b"a\0\0\0\0\0\0\0longer than sixteen".to_vec());
    let suffixed = (0..60).map(|n| format!("sameslic{n}").into_bytes()).collect();
    let deep = (0..24)
        .flat_map(|n| {
            let mut key = b"01234567".repeat(20);
            key.truncate(n * 7);
            [key.clone(), [key, vec![b'x', n as u8]].concat()]
        })
        .collect();
    let mut boundary: Vec<Key> =
        [7, 8, 9, 15, 16, 17, 23, 24, 25, 255, 256, 257, 300, 1000, 65_535]
            .into_iter()
            .flat_map(|len| {
                let key = vec![b'k'; len];
                let mut other = key.clone();
                other[len - 1] = b'l';
                [key, other]
            })
            .collect();
    boundary.push(Vec::new());
    let numbers = |count: u64, step: u64| {
        (0..count).map(|n| (n * step).to_string().into_bytes()).collect::<Vec<Key>>()
    };
    let beginning: Key = (0..280).map(|at| b'a' + (at % 23) as u8).collect();
    let shared = [0, 16, 17, 24, 40, 41, 100, 264, 265, 272, 280]
        .into_iter()
        .flat_map(|len| {
            let (beginning, ends) = (beginning[..len].to_vec(), 0..30u8);
            ends.map(move |end| [&beginning[..], &vec![end; 1 + usize::from(end) % 11]].concat())
        })
        .collect();
    let mut draw = Draw::new(1);
    let nested = (0..1000).map(|_| nested_key(&mut draw)).collect();
    let binary = (0..400u64).map(|n| (n << 40).to_be_bytes().to_vec()).collect();
    vec![
        ("padded", padded),
        ("same slice", suffixed),
        ("deep", deep),
        ("boundary", boundary),
        ("shared", shared),
        ("nested", nested),
        ("zeros", repeat(0, &mut (0..40))),
        ("ones", repeat(255, &mut (0..40))),
        ("decimal", numbers(600, 1)),
        ("decimal wide", numbers(500, 7_919_191_919)),
        ("binary", binary),
        ("words", text(&["", "a", "ab", "abc", "b", "abcdefgh", "abcdefgi", "abcdefghi"])),
    ]
}

fn rows(rows: &mut Vec<(Key, Vec<u8>)>, key: &[u8], value: &[u8], most: usize) -> ControlFlow<()> {
    rows.push((key.to_vec(), value.to_vec()));
    if rows.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// One of the keys, or one that is a byte longer or shorter.
pub(crate) fn near(keys: &[Key], draw: &mut Draw) -> Key {
    let mut key = draw.one_of(keys).clone();
    match draw.below(4) {
        0 => key.push(draw.next() as u8),
        1 => drop(key.pop()),
        _ => {}
    }
    key
}

fn compare_scan(tree: &Tree<Bytes>, model: &Model, keys: &[Key], draw: &mut Draw) {
    let low = if draw.below(4) == 0 { Vec::new() } else { near(keys, draw) };
    let high = (draw.below(3) > 0).then(|| near(keys, draw));
    let most = [1, 5, 20, usize::MAX][draw.below(4)];
    let inside = model
        .range(low.clone()..)
        .take_while(|(key, _)| high.as_ref().is_none_or(|high| *key < high))
        .map(|(key, value)| (key.clone(), value.clone()));
    let expected: Vec<_> = inside.collect();

    let mut found = Vec::new();
    let visited =
        tree.scan(&low, high.as_deref(), |key, value| rows(&mut found, key, &value, most));
    assert_eq!(visited, found.len() as u64);
    assert_eq!(found, expected[..expected.len().min(most)], "from {low:?} to {high:?}");

    let mut found = Vec::new();
    let visited =
        tree.scan_rev(&low, high.as_deref(), |key, value| rows(&mut found, key, &value, most));
    assert_eq!(visited, found.len() as u64);
    let expected: Vec<_> = expected.into_iter().rev().take(most).collect();
    assert_eq!(found, expected, "backwards from {high:?} to {low:?}");
}

fn step(tree: &Tree<Bytes>, model: &mut Model, keys: &[Key], draw: &mut Draw, removals: usize) {
    let key = draw.one_of(keys);
    let value = draw.next().to_string().into_bytes();
    let value = &value[..draw.below(value.len() + 1)];
    let guard = pin();
    let owned = |value: &[u8]| value.to_vec();
    match draw.below(20) {
        0..7 if removals < 50 => {
            let old = tree.insert(key, value, &guard).map(|old| owned(&old));
            assert_eq!(old, model.insert(key.clone(), value.to_vec()));
        }
        0..7 => {
            let old = tree.remove(key, &guard).map(|old| owned(&old));
            assert_eq!(old, model.remove(key));
        }
        7..9 => {
            let old = tree.insert_if_absent(key, value, &guard).map(|old| owned(&old));
            assert_eq!(old, model.get(key).cloned());
            model.entry(key.clone()).or_insert_with(|| value.to_vec());
        }
        9..11 => {
            let change = draw.below(3);
            let old = tree.update(key, &guard, |old| {
                assert_eq!(old.as_deref(), model.get(key).map(Vec::as_slice));
                match change {
                    0 => Change::Keep,
                    1 => Change::Put(value),
                    _ => Change::Remove,
                }
            });
            assert_eq!(old.map(|old| owned(&old)), model.get(key).cloned());
            match change {
                0 => {}
                1 => drop(model.insert(key.clone(), value.to_vec())),
                _ => drop(model.remove(key)),
            }
        }
        11..15 => {
            let old = tree.remove(key, &guard).map(|old| owned(&old));
            assert_eq!(old, model.remove(key));
        }
        15 => {
            let asked: Vec<&[u8]> =
                (0..draw.below(50)).map(|_| draw.one_of(keys).as_slice()).collect();
            let mut found = vec![None; asked.len()];
            tree.multi_get(&asked, &guard, |index, value| {
                let before = found[index].replace(value.map(|value| owned(&value)));
                assert_eq!(before, None, "each index once");
            });
            let expected: Vec<_> = asked.iter().map(|key| Some(model.get(*key).cloned())).collect();
            assert_eq!(found, expected);
        }
        16..19 => {
            assert_eq!(tree.get(key, &guard).map(|old| owned(&old)), model.get(key).cloned());
        }
        _ => {
            drop(guard);
            compare_scan(tree, model, keys, draw);
        }
    }
}

/// Removes most keys, in random order, so that nodes merge at every level.
fn thin_out(tree: &mut Tree<Bytes>, model: &mut Model, draw: &mut Draw) {
    let every = 2 + draw.below(30);
    let mut gone: Vec<Key> = model.keys().filter(|_| draw.below(every) > 0).cloned().collect();
    for at in (1..gone.len()).rev() {
        gone.swap(at, draw.below(at + 1));
    }
    for (number, key) in gone.iter().enumerate() {
        let old = tree.remove(key, &pin()).map(|old| old.to_vec());
        assert_eq!(old, model.remove(key));
        if number.is_multiple_of(100) {
            tree.check().unwrap();
        }
    }
    let keys: Vec<Key> = gone.into_iter().chain(model.keys().cloned()).collect();
    for key in &keys {
        let found = tree.get(key, &pin()).map(|found| found.to_vec());
        assert_eq!(found, model.get(key).cloned());
    }
    if !keys.is_empty() {
        compare_scan(tree, model, &keys, draw);
    }
}

fn compare(keys: &[Key], draw: &mut Draw, operations: usize) {
    let mut tree = Tree::<Bytes>::new();
    let mut model = Model::new();
    for operation in 0..operations {
        // Waves: the tree grows, and shrinks again, by and by or at once.
        let wave = (operations / 6).max(1);
        let removals = operation / wave % 2 * 60;
        if operation % (2 * wave) + 1 == wave {
            thin_out(&mut tree, &mut model, draw);
        }
        step(&tree, &mut model, keys, draw, removals);
        if operation.is_multiple_of(500) {
            tree.check().unwrap();
        }
    }
    let stats = tree.check().unwrap();
    assert_eq!(stats.keys, model.len() as u64);
    let ends = (tree.first(|key, _| key.to_vec()), tree.last(|key, _| key.to_vec()));
    assert_eq!(ends.0.as_ref(), model.keys().next());
    assert_eq!(ends.1.as_ref(), model.keys().next_back());
}

#[test]
fn each_family_of_keys_answers_as_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        for (name, keys) in families() {
            eprintln!("{name}");
            compare(&keys, &mut Draw::new(seed), 4000 * factor());
        }
    }
}

#[test]
fn all_families_in_one_tree_answer_as_the_model() {
    let keys: Vec<Key> = families().into_iter().flat_map(|(_, keys)| keys).collect();
    for seed in seeds() {
        let _seed = Announced(seed);
        compare(&keys, &mut Draw::new(seed), 20_000 * factor());
    }
}

#[test]
fn random_keys_answer_as_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let keys: Vec<Key> = (0..2000)
            .map(|_| (0..draw.below(30)).map(|_| [0, 1, b'a', 255][draw.below(4)]).collect())
            .collect();
        compare(&keys, &mut draw, 30_000 * factor());
    }
}
