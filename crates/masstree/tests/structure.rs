//! Shapes: orders of insertion that fill, split and empty nodes at every level.

use keyrack_concurrent::pin;
use keyrack_masstree::Tree;
use keyrack_testkit::random::{Announced, Draw, seeds};
use std::ops::ControlFlow;

const COUNT: u64 = 20_000;

/// Words of eight bytes that the longest prefix has.
const PREFIX_WORDS_MAX: u64 = 8191;

/// The layers of keys that share so many words and differ in the next one, alone in their tree. The
/// tree's own layer has a prefix; each further one has the slice that leads to it besides.
fn layers_of(words: u64) -> u64 {
    1 + words.saturating_sub(PREFIX_WORDS_MAX).div_ceil(1 + PREFIX_WORDS_MAX)
}

fn insert_all(tree: &mut Tree<u64>, keys: impl Iterator<Item = Vec<u8>>) {
    for (number, key) in keys.enumerate() {
        let guard = pin();
        assert_eq!(tree.insert(&key, number as u64, &guard), None);
        assert_eq!(tree.get(&key, &guard), Some(number as u64));
    }
    tree.check().unwrap();
}

fn remove_all(tree: &mut Tree<u64>, keys: impl Iterator<Item = Vec<u8>>) {
    for (number, key) in keys.enumerate() {
        let guard = pin();
        assert!(tree.remove(&key, &guard).is_some(), "{key:?}");
        assert_eq!(tree.remove(&key, &guard), None);
        drop(guard);
        if number.is_multiple_of(1000) {
            tree.check().unwrap();
        }
    }
    let stats = tree.check().unwrap();
    assert_eq!(stats.keys, 0);
    assert!(tree.is_empty());
}

fn number(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A key of three slices, so that layers come and go.
fn layered(n: u64) -> Vec<u8> {
    format!("prefix--{:08}{}", n / 50, n % 50).into_bytes()
}

/// A permutation of `0..COUNT`: the step and COUNT have no common factor.
fn shuffled(n: u64) -> u64 {
    n * 7919 % COUNT
}

#[test]
fn every_order_of_filling_and_emptying_keeps_the_invariants() {
    let orders: [fn(u64) -> u64; 4] = [
        |n| n,
        |n| COUNT - 1 - n,
        shuffled,
        |n| if n.is_multiple_of(2) { n / 2 } else { COUNT - 1 - n / 2 },
    ];
    for make in [number, layered] {
        for fill in orders {
            let mut tree = Tree::<u64>::new();
            for empty in orders {
                insert_all(&mut tree, (0..COUNT).map(fill).map(make));
                let mut rows = 0;
                let mut last = None;
                tree.scan(b"", None, |key, _| {
                    assert!(last.as_deref() < Some(key));
                    last = Some(key.to_vec());
                    rows += 1;
                    ControlFlow::Continue(())
                });
                assert_eq!(rows, COUNT);
                remove_all(&mut tree, (0..COUNT).map(empty).map(make));
            }
        }
    }
}

#[test]
fn ascending_keys_fill_their_nodes() {
    let mut tree = Tree::<u64>::new();
    insert_all(&mut tree, (0..COUNT).map(number));
    let stats = tree.stats();
    assert_eq!(stats.borders, COUNT.div_ceil(15));
    assert!(stats.interiors <= stats.borders / 20, "{stats:?}");
}

/// Whatever a tree has held, one border node is left of it.
#[test]
fn an_emptied_tree_is_one_node() {
    let deep = |n: u64| format!("{}{}", "eight by".repeat(n as usize % 40), n).into_bytes();
    for make in [number, layered, deep] {
        for order in [|n| n, |n| COUNT - 1 - n, shuffled] {
            let mut tree = Tree::<u64>::new();
            insert_all(&mut tree, (0..COUNT).map(make));
            for n in (0..COUNT).map(order) {
                assert!(tree.remove(&make(n), &pin()).is_some());
            }
            let stats = tree.check().unwrap();
            assert_eq!((stats.borders, stats.interiors, stats.layers), (1, 0, 1));
        }
    }
}

/// Keys of 16 bytes and below need no layer, however many begin alike, unless they fill a node.
#[test]
fn a_layer_is_made_for_a_node_full_of_one_slice_only() {
    let mut tree = Tree::<u64>::new();
    insert_all(&mut tree, (0..COUNT).map(|n| format!("{:08}{}", n / 10, n % 10).into_bytes()));
    assert_eq!(tree.stats().layers, 1);
    let mut tree = Tree::<u64>::new();
    insert_all(&mut tree, (0..COUNT).map(layered));
    // That of the tree, whose prefix is the common slice, and one for each group of more keys than
    // a node holds.
    let stats = tree.check().unwrap();
    assert_eq!((stats.layers, stats.prefixes), (1 + COUNT / 50, 1));
}

/// Memory of nodes that went is used again, so filling and emptying does not add up.
#[test]
fn memory_is_used_again() {
    let mut tree = Tree::<u64>::new();
    let mut taken = Vec::new();
    for _ in 0..5 {
        insert_all(&mut tree, (0..COUNT).map(shuffled).map(layered));
        remove_all(&mut tree, (0..COUNT).map(layered));
        taken.push(tree.stats().node_bytes);
    }
    assert!(taken[4] <= taken[0] + (64 << 10), "{taken:?}");
}

/// The queue: keys come at one end and go at the other. Memory must not grow with time.
#[test]
fn a_queue_does_not_grow() {
    let mut tree = Tree::<u64>::new();
    let mut most = 0;
    for n in 0..100_000 {
        let guard = pin();
        tree.insert(&number(n), n, &guard);
        if n >= 1000 {
            assert_eq!(tree.remove(&number(n - 1000), &guard), Some(n - 1000));
        }
        most = most.max(tree.stats().borders);
    }
    let stats = tree.check().unwrap();
    assert!(most < 200, "{most} border nodes for 1000 keys");
    assert!(stats.interiors < 50, "{stats:?}");
}

/// A full node with every length of one slice: the split must not part them.
#[test]
fn a_slice_with_ten_keys_stays_together() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for slice in 0..40u8 {
            keys.extend((0..9).map(|len| [&[slice][..], &[0; 8][..len]].concat()));
        }
        for at in (1..keys.len()).rev() {
            keys.swap(at, draw.below(at + 1));
        }
        let mut tree = Tree::<u64>::new();
        insert_all(&mut tree, keys.iter().cloned());
        remove_all(&mut tree, keys.iter().rev().cloned());
    }
}

#[test]
fn a_very_deep_trie_is_built_scanned_and_dropped() {
    let mut tree = Tree::<u64>::new();
    let long = vec![7; 200_000];
    let end = |n: u64| [&long[..], format!("{n:04}").as_bytes()].concat();
    insert_all(&mut tree, (0..10_000).map(end));
    let chain = layers_of(25_000);
    let stats = tree.check().unwrap();
    assert_eq!((stats.layers, stats.prefixes), (chain, chain));
    // The first leaves the last prefix at its last word, and the third the first prefix. The second
    // ends where the first leaves. So two layers are divided: the last into one with a prefix and
    // one without, and the first into two with prefixes.
    insert_all(&mut tree, [long[1..].to_vec(), long.clone(), long[..77].to_vec()].into_iter());
    let stats = tree.check().unwrap();
    assert_eq!((stats.layers, stats.prefixes), (chain + 2, chain + 1));
    let mut lengths = Vec::new();
    tree.scan_rev(b"", None, |key, _| {
        lengths.push(key.len());
        ControlFlow::Continue(())
    });
    assert_eq!(lengths[..10_000], [200_004; 10_000]);
    assert_eq!(lengths[10_000..], [200_000, 199_999, 77]);
}

/// Four megabytes that keys share make sixty-five layers, each with all the words that a prefix may
/// have, but for the last. Finding a key, beginning a scan at it, and taking the layers down costs
/// as many steps as there are words, not their square.
#[test]
fn a_deep_trie_costs_as_much_as_its_keys_are_long() {
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    let mut key = vec![7; 4 << 20];
    let end = key.len();
    key.push(0);
    for n in 0..16 {
        key[end] = n;
        assert_eq!(tree.insert(&key, 1, &guard), None);
    }
    let stats = tree.check().unwrap();
    // One word is left for the last layer: the slice that leads to it.
    assert_eq!((stats.layers, stats.prefixes), (layers_of(4 << 17), layers_of(4 << 17) - 1));
    assert_eq!(stats.layers, 65);
    let mut rows = 0;
    let mut count = || {
        rows += 1;
        ControlFlow::Continue(())
    };
    assert_eq!(tree.scan(&key, None, |_, _| count()), 1);
    assert_eq!(tree.scan_rev(b"", Some(&key), |_, _| count()), 15);
    assert_eq!(rows, 16);
    for n in 0..16 {
        key[end] = n;
        assert_eq!(tree.remove(&key, &guard), Some(1));
    }
    drop(guard);
    assert_eq!(tree.check().unwrap().layers, 1);
}

/// Reverse over layers that were emptied must pass through them.
#[test]
fn scans_pass_through_emptied_layers() {
    let mut tree = Tree::<u64>::new();
    let key = |group: u64, n: u64| format!("group{group:03}entry{n:03}").into_bytes();
    let all = |groups: std::ops::Range<u64>| {
        groups.flat_map(move |group| (0..40).map(move |n| key(group, n)))
    };
    insert_all(&mut tree, all(0..30));
    for key in all(10..20) {
        tree.remove(&key, &pin());
    }
    tree.check().unwrap();
    let mut up = Vec::new();
    let collect = |keys: &mut Vec<Vec<u8>>, key: &[u8]| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    };
    tree.scan(b"", None, |key, _| collect(&mut up, key));
    assert_eq!(up, all(0..10).chain(all(20..30)).collect::<Vec<_>>());
    let mut down = Vec::new();
    tree.scan_rev(b"", None, |key, _| collect(&mut down, key));
    up.reverse();
    assert_eq!(down, up);
    insert_all(&mut tree, all(10..20));
}
