//! Compare-and-exchange, prefixes, many puts at once, and loading of sorted pairs.

use keyrack_concurrent::{Change, pin};
use keyrack_masstree::{Bytes, Hint, Tree};
use keyrack_testkit::random::{Announced, Draw, seeds};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Rows = Vec<(Vec<u8>, u64)>;

fn rows(tree: &Tree<u64>, prefix: &[u8]) -> Rows {
    let mut rows = Vec::new();
    tree.scan_prefix(prefix, |key, value| {
        rows.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    rows
}

#[test]
fn only_the_expected_value_is_exchanged() {
    let (tree, guard) = (Tree::<u64>::new(), pin());
    assert_eq!(tree.compare_exchange(b"k", Some(1), Some(2), &guard), Err(None));
    assert_eq!(tree.compare_exchange(b"k", None, None, &guard), Ok(None));
    assert_eq!(tree.compare_exchange(b"k", None, Some(0), &guard), Ok(None));
    assert_eq!(tree.compare_exchange(b"k", None, Some(2), &guard), Err(Some(0)));
    assert_eq!(tree.compare_exchange(b"k", Some(0), Some(2), &guard), Ok(Some(0)));
    assert_eq!(tree.compare_exchange(b"k", Some(0), None, &guard), Err(Some(2)));
    assert_eq!(tree.compare_exchange(b"k", Some(2), None, &guard), Ok(Some(2)));
    assert_eq!(tree.get(b"k", &guard), None);

    let tree = Tree::<Bytes>::new();
    let long: &[u8] = b"a value that is not in the word";
    assert!(tree.compare_exchange(b"k", None, Some(long), &guard).is_ok());
    assert!(tree.compare_exchange(b"k", Some(b"other"), Some(b"new"), &guard).is_err());
    let old = tree.compare_exchange(b"k", Some(long), Some(b"new"), &guard).unwrap();
    assert_eq!(old.as_deref(), Some(long));
    assert_eq!(tree.get(b"k", &guard).as_deref(), Some(&b"new"[..]));
}

/// A counter in the tree, raised by compare-and-exchange in all threads: no raise is lost.
#[test]
fn concurrent_exchanges_lose_nothing() {
    let tree = Tree::<u64>::new();
    tree.insert(b"counter", 0, &pin());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5000 {
                    let guard = pin();
                    let mut seen = tree.get(b"counter", &guard);
                    while let Err(now) =
                        tree.compare_exchange(b"counter", seen, seen.map(|n| n + 1), &guard)
                    {
                        seen = now;
                    }
                }
            });
        }
    });
    assert_eq!(tree.get(b"counter", &pin()), Some(20_000));
}

#[test]
fn a_prefix_visits_what_begins_with_it() {
    let (tree, guard) = (Tree::<u64>::new(), pin());
    let keys: [&[u8]; 9] = [
        b"",
        b"a",
        b"ab",
        b"ab\0",
        b"abcdefghijklmnopqrstuvwxyz",
        b"ac",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xffx",
    ];
    for (n, key) in keys.iter().enumerate() {
        tree.insert(key, n as u64, &guard);
    }
    for prefix in keys.iter().chain(&[&b"b"[..], b"abcdefghijkl", b"\xff\xff\xff"]) {
        let begin = keys.iter().enumerate().filter(|(_, key)| key.starts_with(prefix));
        let expected: Rows = begin.map(|(n, key)| (key.to_vec(), n as u64)).collect();
        assert_eq!(rows(&tree, prefix), expected, "{prefix:?}");
    }
}

/// Keys of every kind: short, of two slices, longer, with long common beginnings.
fn some_key(draw: &mut Draw) -> Vec<u8> {
    let n = draw.below(3000);
    match draw.below(4) {
        0 => n.to_string().into_bytes(),
        1 => format!("{n:012}").into_bytes(),
        2 => format!("a common beginning {n}").into_bytes(),
        _ => format!("{:08}and an end of its own {}", n % 10, n).into_bytes(),
    }
}

#[test]
fn many_puts_do_what_puts_one_by_one_do() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (mut tree, mut model) = (Tree::<u64>::new(), BTreeMap::new());
        for round in 0..40 {
            let pairs: Rows = (0..draw.below(300))
                .map(|n| (some_key(&mut draw), (round * 1000 + n) as u64))
                .collect();
            tree.multi_put(pairs.iter().map(|(key, value)| (key.as_slice(), *value)), &pin());
            model.extend(pairs);
        }
        tree.check().unwrap();
        assert_eq!(rows(&tree, b""), model.into_iter().collect::<Rows>());
    }
}

#[test]
fn sorted_pairs_load_into_an_empty_tree_and_among_others() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for others in [0, 500] {
            let (mut tree, mut model) = (Tree::<u64>::new(), BTreeMap::new());
            for n in 0..others {
                let key = some_key(&mut draw);
                tree.insert(&key, n, &pin());
                model.insert(key, n);
            }
            let sorted: BTreeMap<Vec<u8>, u64> =
                (0..3000).map(|n| (some_key(&mut draw), n + 1000)).collect();
            let pairs = sorted.iter().map(|(key, value)| (key, *value));
            assert_eq!(tree.bulk_load(pairs, &mut pin()), Ok(sorted.len() as u64));
            model.extend(sorted);
            tree.check().unwrap();
            assert_eq!(rows(&tree, b""), model.into_iter().collect::<Rows>());
        }
    }
}

#[test]
fn loading_stops_at_a_key_out_of_order() {
    let mut tree = Tree::<u64>::new();
    let keys = ["a", "b", "c", "c", "d"];
    let pairs = keys.iter().zip(0..);
    assert_eq!(tree.bulk_load(pairs, &mut pin()), Err(3));
    assert_eq!(tree.check().unwrap().keys, 3);
    assert_eq!(tree.bulk_load([("b", 7), ("a", 8)], &mut pin()), Err(1));
    assert_eq!(tree.get(b"a", &pin()), Some(0));
}

/// Behind the last key of a layer come those of another one, with the same slices.
#[test]
fn loading_goes_from_layer_to_layer() {
    let mut tree = Tree::<u64>::new();
    let key = |group: u64, n: u64| format!("group {group:010}of {n:08}").into_bytes();
    let keys: Vec<_> = (0..10).flat_map(|group| (0..20).map(move |n| key(group, n))).collect();
    assert_eq!(tree.bulk_load(keys.iter().zip(0..), &mut pin()), Ok(200));
    // That of the tree, whose prefix is the slice of all, and one for each group. Behind the slice
    // of its group, each has a prefix of the third slice.
    let stats = tree.check().unwrap();
    assert_eq!((stats.layers, stats.prefixes), (11, 11));
    assert_eq!(rows(&tree, b""), keys.into_iter().zip(0..).collect::<Rows>());
}

/// What comes in sorted leaves full nodes.
#[test]
fn loaded_nodes_are_full() {
    let mut tree = Tree::<u64>::new();
    let keys = (0..30_000_u64).map(|n| (n.to_be_bytes(), n));
    assert_eq!(tree.bulk_load(keys, &mut pin()), Ok(30_000));
    let stats = tree.check().unwrap();
    assert_eq!(stats.borders, 2000);
    assert!(stats.interiors <= 90, "{stats:?}");
}

/// A hint never changes an answer: random walks over near and far keys, with one hint for two
/// trees, beside a model, while nodes and layers come and go.
#[test]
fn a_hint_does_not_change_what_is_found() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let trees = [Tree::<u64>::new(), Tree::<u64>::new()];
        let mut models = [BTreeMap::new(), BTreeMap::new()];
        let mut hint = Hint::new();
        let mut at = 0;
        for round in 0..60_000 {
            let (guard, side) = (pin(), draw.below(50).min(1));
            at = if draw.below(40) == 0 { draw.below(3000) } else { at + draw.below(3) };
            let number = if draw.below(30_000) < round / 2 { at % 7 } else { at % 3000 };
            let key = match number % 4 {
                0 => format!("{number:08}").into_bytes(),
                1 => format!("{:08}{}", number / 40, number % 40).into_bytes(),
                2 => format!("a beginning of all such keys {:06}", number / 8).into_bytes(),
                _ => b"a beginning of all such keys"[..number % 29].to_vec(),
            };
            let (tree, model) = (&trees[side], &mut models[side]);
            match draw.below(5) {
                0 | 1 => {
                    let old = tree.insert_hinted(&key, round as u64, &guard, &mut hint);
                    assert_eq!(old, model.insert(key, round as u64));
                }
                2 if round % 2 == 0 => {
                    assert_eq!(tree.remove_hinted(&key, &guard, &mut hint), model.remove(&key));
                }
                2 => {
                    let raise = |old: Option<u64>| Change::Put(old.map_or(1, |old| old + 1));
                    let old = tree.update_hinted(&key, &guard, &mut hint, raise);
                    assert_eq!(old, model.get(&key).copied());
                    model.entry(key).and_modify(|old| *old += 1).or_insert(1);
                }
                _ => {
                    let found = tree.get_hinted(&key, &guard, &mut hint);
                    assert_eq!(found, model.get(&key).copied(), "{key:?}");
                }
            }
        }
        for (mut tree, model) in trees.into_iter().zip(models) {
            tree.check().unwrap();
            assert_eq!(rows(&tree, b""), model.into_iter().collect::<Rows>());
        }
    }
}

/// Keys that are announced have a hint each, which is where they are put without a search, and says
/// nothing wrong when other keys come, or when nodes were split and emptied since.
#[test]
fn what_is_expected_is_put_where_it_belongs() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (mut tree, mut model) = (Tree::<u64>::new(), BTreeMap::new());
        let mut hints = Vec::new();
        for round in 0..2_000 {
            let keys: Vec<Vec<u8>> = (0..draw.below(40))
                .map(|_| match draw.below(3) {
                    0 => format!("a beginning of eight bytes and more {:03}", draw.below(500)),
                    1 => format!("a beginning{}", draw.below(500)),
                    _ => draw.below(1_000_000).to_string(),
                })
                .map(String::into_bytes)
                .collect();
            let guard = pin();
            tree.multi_hint(
                &keys.iter().map(Vec::as_slice).collect::<Vec<_>>(),
                &guard,
                &mut hints,
            );
            assert_eq!(hints.len(), keys.len());
            let shift = draw.below(8) / 7;
            for (index, key) in keys.iter().enumerate() {
                let Some(hint) = hints.get_mut(index + shift) else { break };
                if draw.below(4) == 0 {
                    assert_eq!(tree.remove_hinted(key, &guard, hint), model.remove(key));
                } else {
                    let old = tree.insert_hinted(key, round, &guard, hint);
                    assert_eq!(old, model.insert(key.clone(), round));
                }
            }
        }
        tree.check().unwrap();
        assert_eq!(rows(&tree, b""), model.into_iter().collect::<Rows>());
    }
}
