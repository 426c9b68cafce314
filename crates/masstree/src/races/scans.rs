//! Scans: what is between two nodes, or around a layer, changes under them.

use super::*;
use std::ops::ControlFlow;

/// A scan copies a node while its slots change hands: it must copy again.
#[test]
fn a_copy_for_a_scan_is_of_one_version() {
    let (mut tree, guard) = (numbers(0..15), pin());
    let key = number(3);
    let LeafPosition { border, version, .. } = leaf_of(&tree, &key);
    assert!(Copy::of(border, version, &guard).is_some());
    tree.remove(&number(3), &guard);
    tree.insert(&number(100), 100, &guard);
    assert!(Copy::of(border, version, &guard).is_none());
    assert!(Copy::of(border, border.version().stable(), &guard).is_some());
    drop(guard);
    tree.check().unwrap();
}

/// Walks over all keys in one direction, and calls `meanwhile` at each. Returns the keys,
/// ascending.
fn walk(tree: &Tree<u64>, down: bool, mut meanwhile: impl FnMut(&[u8])) -> Vec<Vec<u8>> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let visit = |key: &[u8], _: u64| {
        seen.push(key.to_vec());
        meanwhile(key);
        ControlFlow::Continue(())
    };
    if down {
        tree.scan_rev(b"", None, visit);
        seen.reverse();
    } else {
        tree.scan(b"", None, visit);
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "each key once, in order");
    seen
}

/// A scan that stands between two nodes goes on where it was, whatever became of them.
#[test]
fn a_scan_goes_on_where_its_node_was() {
    for down in [false, true] {
        let mut tree = numbers(0..600);
        let stays = |n: u64| n.is_multiple_of(50);
        let seen = walk(&tree, down, |key| {
            let n = u64::from_be_bytes(key.try_into().unwrap());
            // Empties the nodes around.
            for other in (n.saturating_sub(30)..(n + 30).min(600)).filter(|n| !stays(*n)) {
                tree.remove(&number(other), &pin());
            }
        });
        for n in (0..600).filter(|n| stays(*n)) {
            assert!(seen.contains(&number(n).to_vec()), "{n}, down: {down}");
        }
        tree.check().unwrap();
    }
}

/// Layers around a scan go, come, begin and are divided, and gaps are filled: every key that stays
/// is visited.
#[test]
fn a_scan_goes_on_among_layers_that_change() {
    let stays = staying();
    for (name, change) in CHANGES {
        for down in [false, true] {
            for moment in (0..stays.len()).step_by(7) {
                let mut tree = among_layers();
                let mut visits = 0;
                let seen = walk(&tree, down, |_| {
                    visits += 1;
                    if visits == moment + 1 {
                        change(&tree);
                    }
                });
                for key in &stays {
                    let there = seen.binary_search(key).is_ok();
                    assert!(there, "{name} at {moment}, down: {down}: {key:?}");
                }
                tree.check().unwrap();
            }
        }
    }
}

/// A long key is removed after its node was copied, and before it is visited.
#[test]
fn a_scan_passes_a_key_that_went() {
    let key = |n: u64| format!("{n:08} with an end that needs a cell").into_bytes();
    for down in [false, true] {
        let mut tree = Tree::<Bytes>::new();
        (0..3).for_each(|n| assert!(tree.insert(&key(n), b"a long value", &pin()).is_none()));
        let mut seen = Vec::new();
        let visit = |seen: &mut Vec<Vec<u8>>, found: &[u8], value: &[u8]| {
            assert_eq!(value, b"a long value");
            seen.push(found.to_vec());
            tree.remove(&key(1), &pin());
            ControlFlow::Continue(())
        };
        if down {
            tree.scan_rev(b"", None, |key, value| visit(&mut seen, key, &value));
            seen.reverse();
        } else {
            tree.scan(b"", None, |key, value| visit(&mut seen, key, &value));
        }
        assert_eq!(seen, [key(0), key(2)]);
        tree.check().unwrap();
    }
}

/// A scan stands in a node that begins a layer, or the keys of which are detached: the cells that
/// it has copied lose their values.
#[test]
fn a_scan_goes_on_in_a_node_that_begins_a_layer() {
    let value = |n: u64| format!("the value of {n}, not inline").into_bytes();
    for (others, ended) in [(false, false), (true, false), (true, true)] {
        for (down, moment) in [false, true].into_iter().flat_map(|d| (0..14).map(move |m| (d, m))) {
            let mut tree = Tree::<Bytes>::new();
            let set = |n| assert!(tree.insert(&grouped(5, n), &value(n), &pin()).is_none());
            if others {
                put(&tree, (10..30).map(|n| vec![n]), b"another value, not inline");
            }
            if ended {
                put(&tree, [vec![5; 8]].into_iter(), b"another value, not inline");
            }
            (0..14).for_each(set);
            if ended {
                remove(&tree, [vec![5; 8]].into_iter());
            }
            let layers = tree.stats().layers;
            let mut seen = Vec::new();
            let mut visit = |key: &[u8], found: &[u8]| {
                if key[0] == 5 {
                    let n = u64::from_be_bytes(*key.last_chunk().unwrap());
                    assert_eq!((key, found), (&grouped(5, n)[..], &value(n)[..]));
                    if seen.len() == moment {
                        (100..103).for_each(set);
                    }
                    seen.push(n);
                }
                ControlFlow::Continue(())
            };
            if down {
                tree.scan_rev(b"", None, |key, value| visit(key, &value));
                seen.reverse();
            } else {
                tree.scan(b"", None, |key, value| visit(key, &value));
            }
            assert!(seen.is_sorted_by(|a, b| a < b) && (0..14).all(|n| seen.contains(&n)));
            let stats = tree.stats();
            assert_eq!((stats.layers - layers, stats.prefixes), (u64::from(others), 1));
            tree.check().unwrap();
        }
    }
}

/// While a scan is in a layer, its prefix is divided, all keys of the layer go, and the memory of
/// both is that of other layers.
#[test]
fn a_scan_goes_on_after_a_layer_that_was_divided_and_went() {
    for down in [false, true] {
        for moment in [0, 20, 39] {
            let mut tree = with_gaps();
            let mut visits = 0;
            let seen = walk(&tree, down, |key| {
                visits += usize::from(key[0] == 20);
                if visits == moment + 1 && key[0] == 20 {
                    for byte in [0, 255] {
                        let mut other = grouped(20, 0);
                        other[16] = byte;
                        put(&tree, [other].into_iter(), 1);
                    }
                    remove(&tree, (0..40).map(|n| grouped(20, n)));
                    [5, 21, 35].iter().for_each(|g| put(&tree, (0..40).map(|n| grouped(*g, n)), 1));
                }
            });
            for key in (0..40).flat_map(|n| [grouped(10, n), grouped(30, n)]) {
                assert!(seen.binary_search(&key).is_ok(), "{key:?} at {moment}, down: {down}");
            }
            tree.check().unwrap();
        }
    }
}
