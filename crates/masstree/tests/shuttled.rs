//! The tree as a whole under shuttle: threads change it together, in random schedules, where its
//! structure changes: a node that splits, one that empties, two that merge, a layer that comes and
//! goes, a gap that is filled, a prefix that is divided.
//!
//! Keys that nobody touches are there all the time, for every reader and in every walk; each thread
//! knows its own keys to the value; and at the end the structure is sound and holds what it should.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use keyrack_concurrent::pin;
use keyrack_concurrent::schedules::explore;
use keyrack_masstree::{Stats, Tree};
use shuttle::thread;

const SCHEDULES: usize = 10_000;

type Keys = BTreeMap<Vec<u8>, u64>;

/// What a thread does to a key of its own.
#[derive(Clone, Copy)]
enum Step {
    Put(u64),
    Remove,
}

/// A tree with the keys `stay`, which nobody changes, and `before`. Each of the `steps` are made by
/// a thread, while another reads and walks.
fn together(stay: &[Vec<u8>], before: &[Vec<u8>], steps: Vec<Vec<(Vec<u8>, Step)>>) -> [Stats; 2] {
    together_after(&[], stay, before, steps)
}

/// As [`together`], in a tree that had the keys `gone` besides, after `stay` and `before`. Returns
/// what the tree was like before the threads and after them.
fn together_after(
    gone: &[Vec<u8>],
    stay: &[Vec<u8>],
    before: &[Vec<u8>],
    steps: Vec<Vec<(Vec<u8>, Step)>>,
) -> [Stats; 2] {
    let (tree, mut expected) = prepare(gone, stay, before);
    let tree = Arc::new(tree);
    let stats = tree.stats();
    let stays: Vec<(Vec<u8>, u64)> =
        stay.iter().enumerate().map(|(number, key)| (key.clone(), number as u64)).collect();
    for (key, step) in steps.iter().flatten() {
        match step {
            Step::Put(value) => drop(expected.insert(key.clone(), *value)),
            Step::Remove => drop(expected.remove(key)),
        }
    }
    let writers: Vec<_> = steps
        .into_iter()
        .map(|steps| {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                for (key, step) in &steps {
                    let guard = pin();
                    match step {
                        Step::Put(value) => {
                            tree.insert(key, *value, &guard);
                            assert_eq!(tree.get(key, &guard), Some(*value), "what I put");
                        }
                        Step::Remove => {
                            assert!(tree.remove(key, &guard).is_some(), "it was there");
                            assert_eq!(tree.get(key, &guard), None, "what I removed");
                        }
                    }
                }
            })
        })
        .collect();
    let reader = {
        let (tree, stays) = (Arc::clone(&tree), stays.clone());
        thread::spawn(move || {
            let guard = pin();
            for (key, value) in &stays {
                assert_eq!(tree.get(key, &guard), Some(*value), "nobody touches {key:?}");
                let never = [key, &b"\0never"[..]].concat();
                assert_eq!(tree.get(&never, &guard), None, "nobody puts {never:?}");
            }
            for (from, down) in [(0, false), (stays.len() / 2, false), (stays.len() / 2, true)] {
                walk(&tree, &stays, from, down);
            }
            turn(&tree, &stays);
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    reader.join().unwrap();
    let mut tree = Arc::into_inner(tree).expect("all others have ended");
    let after = tree.check().expect("a sound structure");
    let mut found = Keys::new();
    tree.scan(b"", None, |key: &[u8], value| {
        found.insert(key.to_vec(), value);
        ControlFlow::Continue(())
    });
    assert_eq!(found, expected);
    [stats, after]
}

/// A tree that had the keys `gone` after the others, and what it holds.
fn prepare(gone: &[Vec<u8>], stay: &[Vec<u8>], before: &[Vec<u8>]) -> (Tree<u64>, Keys) {
    let (tree, guard, mut expected) = (Tree::<u64>::new(), pin(), Keys::new());
    for (number, key) in stay.iter().chain(before).enumerate() {
        tree.insert(key, number as u64, &guard);
        expected.insert(key.clone(), number as u64);
    }
    for key in gone {
        tree.insert(key, 0, &guard);
    }
    for key in gone {
        assert!(tree.remove(key, &guard).is_some(), "it was there");
    }
    (tree, expected)
}

/// What a tree is made of.
fn shape(stats: Stats) -> (u64, u64, u64, u64) {
    (stats.borders, stats.interiors, stats.layers, stats.prefixes)
}

/// A walk gives each key once, in order, and those that stay in any case: those from one of them
/// on, or those before it.
fn walk(tree: &Tree<u64>, stays: &[(Vec<u8>, u64)], from: usize, down: bool) {
    let bound = stays.get(from).filter(|_| from > 0).map(|(key, _)| key.as_slice());
    let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut visit = |key: &[u8], value: u64| {
        seen.push((key.to_vec(), value));
        ControlFlow::Continue(())
    };
    if down {
        tree.scan_rev(b"", bound, &mut visit);
        seen.reverse();
    } else {
        tree.scan(bound.unwrap_or_default(), None, &mut visit);
    }
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "each once and in order: {seen:?}");
    for stay in stays {
        let inside = bound.is_none_or(|bound| (stay.0.as_slice() < bound) == down);
        assert_eq!(seen.contains(stay), inside, "{stay:?} in a walk by {bound:?}: {seen:?}");
    }
}

/// A cursor goes from one of the keys that stay down to the first key, and up to the last.
fn turn(tree: &Tree<u64>, stays: &[(Vec<u8>, u64)]) {
    let middle = stays.get(stays.len() / 2).map_or(&b""[..], |(key, _)| key);
    let guard = pin();
    let mut cursor = tree.cursor(&guard);
    cursor.seek(middle);
    let (mut below, mut all) = (Vec::new(), Vec::new());
    while let Some((key, value)) = cursor.prev() {
        below.push((key.to_vec(), value));
    }
    while let Some((key, value)) = cursor.next() {
        all.push((key.to_vec(), value));
    }
    below.reverse();
    for seen in [&below, &all] {
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "each once and in order: {seen:?}");
    }
    for stay in stays {
        assert!(all.contains(stay), "{stay:?} upward: {all:?}");
        let inside = stay.0.as_slice() < middle;
        assert_eq!(below.contains(stay), inside, "{stay:?} below {middle:?}: {below:?}");
    }
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A node holds fifteen keys: two threads make it split, in the middle and at its end.
#[test]
fn a_node_splits_under_readers_and_walks() {
    explore(SCHEDULES, || {
        let stay: Vec<Vec<u8>> = (0..13).map(|n| number(10 * n)).collect();
        let middle = vec![(number(55), Step::Put(1)), (number(56), Step::Put(2))];
        let end = vec![(number(900), Step::Put(3)), (number(910), Step::Put(4))];
        together(&stay, &[], vec![middle, end]);
    });
}

/// A node between others is emptied and taken out, while keys come beside it.
#[test]
fn a_node_is_emptied_while_others_grow() {
    explore(SCHEDULES / 2, || {
        let stay: Vec<Vec<u8>> = (0..9).map(number).collect();
        let before: Vec<Vec<u8>> = (100..107).map(number).collect();
        let gone = before.iter().map(|key| (key.clone(), Step::Remove)).collect();
        let more = vec![(number(99), Step::Put(1)), (number(107), Step::Put(2))];
        together(&stay, &before, vec![gone, more]);
    });
}

/// Keys that fill a node and share sixteen bytes get a layer, which goes with the last of them.
#[test]
fn a_layer_comes_and_goes() {
    let long = |tail: &str| [b"sixteen bytes of ", tail.as_bytes()].concat();
    explore(SCHEDULES / 2, move || {
        let stay = vec![number(1), b"sixteen ".to_vec()];
        // A full node of one slice beside one of the two that stay.
        let before: Vec<Vec<u8>> = (0..15).map(|n| long(&format!("key {n:02}"))).collect();
        let mut one = vec![(long("another"), Step::Put(1)), (long("another"), Step::Remove)];
        one.extend(before.iter().map(|key| (key.clone(), Step::Remove)));
        let two = vec![(long("a two"), Step::Put(2)), (long("a two"), Step::Remove)];
        let [before, after] = together(&stay, &before, vec![one, two]);
        assert_eq!((shape(before), shape(after)), ((2, 1, 1, 0), (1, 0, 1, 0)));
    });
}

/// Keys side by side in a node move to a layer while others read them, put beside them and change
/// one of them.
#[test]
fn cells_become_a_layer_under_readers_and_walks() {
    let long = |tail: &str| format!("sixteen bytes of all, and more: {tail}").into_bytes();
    explore(SCHEDULES / 2, move || {
        let stay: Vec<Vec<u8>> = (0..13).map(|n| long(&format!("key {n:02}"))).collect();
        let before = [long("key 13")];
        let one = vec![(long("key 05 and a half"), Step::Put(1)), (long("x"), Step::Put(2))];
        let two = vec![(long("key 13"), Step::Put(3)), (long("key 14"), Step::Put(4))];
        let [before, after] = together(&stay, &before, vec![one, two]);
        assert_eq!((before.prefixes, after.prefixes), (0, 1));
    });
}

/// Two threads put keys that leave the prefix of a layer at different words, and take them out
/// again, while a third key of the layer comes and all others are read.
#[test]
fn a_prefix_is_divided_under_readers_and_walks() {
    let long = |tail: &str| [b"sixteen bytes of---1---2---3---4---5---6", tail.as_bytes()].concat();
    let leaves = move |at: usize, end: &str| [&long("")[..at], end.as_bytes()].concat();
    explore(SCHEDULES / 2, move || {
        let stay: Vec<Vec<u8>> = (0..16).map(|n| long(&format!("key {n:02}"))).collect();
        let one = vec![
            (leaves(28, "a"), Step::Put(1)),
            (leaves(32, ""), Step::Put(2)),
            (leaves(28, "a"), Step::Remove),
        ];
        let two = vec![
            (leaves(20, "z"), Step::Put(3)),
            (long("key 08 and a half"), Step::Put(4)),
            (leaves(20, "z"), Step::Remove),
        ];
        let [before, after] = together(&stay, &[], vec![one, two]);
        assert_eq!((before.layers, before.prefixes), (1, 1));
        // Two words have led to a layer of their own, and what left at the first is gone again.
        assert_eq!((after.layers, after.prefixes), (3, 2));
    });
}

/// A prefix is divided twice, so that its memory becomes that of a lesser prefix, while walks begin
/// at keys behind it.
#[test]
fn walks_begin_behind_a_prefix_that_is_divided() {
    let whole = "zzzzzzzzaaaaaaaabbbbbbbbccccccccddddddddeeeeeeee";
    let leaves = move |word: usize, end: &str| format!("{}{end}", &whole[..8 * word]).into_bytes();
    explore(SCHEDULES / 2, move || {
        let stay: Vec<Vec<u8>> = (0..4).map(|n| leaves(6, &format!("key {n:02}"))).collect();
        let gone: Vec<Vec<u8>> = (4..16).map(|n| leaves(6, &format!("key {n:02}"))).collect();
        let one = vec![(leaves(2, "x"), Step::Put(1)), (leaves(4, "y"), Step::Put(2))];
        let [before, after] = together_after(&gone, &stay, &[], vec![one]);
        assert_eq!((before.layers, before.prefixes), (1, 1));
        assert_eq!((after.layers, after.prefixes), (3, 3));
    });
}

/// A layer goes, and its prefix becomes that of another layer, while others look for its keys.
#[test]
fn a_prefix_is_used_again_under_readers_and_walks() {
    let long =
        |slice: &str, n: u64| format!("{slice:8}the tail{slice:8}and more{n:02}").into_bytes();
    explore(SCHEDULES / 2, move || {
        let stay = vec![number(1), b"slice 1 ".to_vec(), b"slice 2 ".to_vec()];
        let before: Vec<Vec<u8>> =
            (0..13).map(|n| long("slice 1", n)).chain((0..9).map(|n| long("slice 2", n))).collect();
        let gone: Vec<Vec<u8>> = (13..16).map(|n| long("slice 1", n)).collect();
        let mut one: Vec<(Vec<u8>, Step)> =
            (0..13).map(|n| (long("slice 1", n), Step::Remove)).collect();
        one.extend((9..16).map(|n| (long("slice 2", n), Step::Put(n))));
        let two = vec![(long("slice 1", 20), Step::Put(1)), (long("slice 1", 20), Step::Remove)];
        let [before, after] = together_after(&gone, &stay, &before, vec![one, two]);
        // What was beside the layer may merge, now that it is gone.
        assert_eq!((shape(before), (4 - after.borders) / 2), ((4, 1, 2, 1), 0));
        assert_eq!((after.interiors, after.layers, after.prefixes), (2, 2, 1));
    });
}

/// Keys after `slice`, with the words of `prefix`.
fn layer(slice: &str, prefix: &str, numbers: std::ops::Range<u8>) -> Vec<Vec<u8>> {
    numbers.map(|n| format!("{slice:8}{prefix}key {n:02}").into_bytes()).collect()
}

fn removals(keys: &[Vec<u8>]) -> Vec<(Vec<u8>, Step)> {
    keys.iter().map(|key| (key.clone(), Step::Remove)).collect()
}

/// The key comes, and goes again.
fn visit(key: &str) -> [(Vec<u8>, Step); 2] {
    [(key.as_bytes().to_vec(), Step::Put(7)), (key.as_bytes().to_vec(), Step::Remove)]
}

/// A node among others, whose keys have one slice, begins a layer, with a prefix and without. One
/// thread fills it; the other puts before it, into it, and into the gap after it.
#[test]
fn a_node_among_others_begins_a_layer() {
    for prefix in ["", "a prefix"] {
        explore(SCHEDULES / 2, move || {
            let mut stay = layer("slice 1", prefix, 0..14);
            stay.push(b"a".to_vec());
            let before = layer("slice 1", prefix, 14..15);
            let one = vec![(layer("slice 1", prefix, 15..16).remove(0), Step::Put(1))];
            let mut two = removals(&before);
            two.extend(visit("slice 1 w"));
            two.extend(visit("slice 2"));
            two.extend(visit("slice 1"));
            let [before, _] = together(&stay, &before, vec![one, two]);
            assert_eq!(shape(before), (2, 1, 1, 0));
        });
    }
}

/// The node has to care for keys that end in the slice, which another thread puts: the keys move to
/// a new node, which begins the layer. They do so from the leftmost node, which stays, and from
/// another, which goes if it is empty then.
#[test]
fn keys_move_to_a_new_node_that_begins_a_layer() {
    for leftmost in [true, false] {
        explore(SCHEDULES / 2, move || {
            let (mut stay, mut gone) = (vec![b"z".to_vec()], Vec::new());
            if !leftmost {
                stay = (b'a'..=b'o').map(|key| vec![key]).collect();
                gone.push(b"slice 1 ".to_vec());
            }
            let mut more = layer("slice 1", "", 0..14);
            more.append(&mut stay);
            // The first key of the node is gone before the last ones come.
            let one = layer("slice 1", "", 14..16).into_iter().map(|key| (key, Step::Put(1)));
            let two = [visit("slice 1 "), visit("slice 0")].concat();
            more.rotate_left(14);
            let [before, after] = together_after(&gone, &more, &[], vec![one.collect(), two]);
            let there = if leftmost { (1, 0, 1, 0) } else { (3, 1, 1, 0) };
            assert_eq!((shape(before), shape(after)), (there, (4, 2, 2, 0)));
        });
    }
}

/// Two threads fill the gap after a layer, and give it back, while a third key comes to the layer.
#[test]
fn two_threads_fill_one_gap() {
    for prefix in ["", "a prefix"] {
        explore(SCHEDULES / 2, move || {
            let mut stay = layer("slice 1", prefix, 0..2);
            stay.push(b"a".to_vec());
            let gone = layer("slice 1", prefix, 2..16);
            let mut one = visit("slice 2").to_vec();
            one.push((b"slice 3".to_vec(), Step::Put(1)));
            let mut two = vec![(b"slice 3 and more".to_vec(), Step::Put(2))];
            two.extend(layer("slice 1", prefix, 5..6).into_iter().map(|key| (key, Step::Put(3))));
            two.push((b"slice 3 and more".to_vec(), Step::Remove));
            let [before, after] = together_after(&gone, &stay, &[], vec![one, two]);
            let prefixes = u64::from(!prefix.is_empty());
            assert_eq!(shape(before), (2, 1, 2, prefixes));
            assert_eq!(shape(after), (3, 1, 2, prefixes));
        });
    }
}

/// The last keys of a layer go, while another thread fills the gap after the layer, puts a key that
/// ends in its slice, or puts into the layer.
#[test]
fn a_layer_is_emptied_beside_puts_in_and_after_it() {
    for prefix in ["", "a prefix"] {
        for other in ["slice 2", "slice 1 ", "slice 1 a prefixkey 50", "slice 1 a prefi", "slice 0"]
        {
            explore(SCHEDULES / 4, move || {
                let stay = vec![b"a".to_vec(), b"b".to_vec()];
                let before = layer("slice 1", prefix, 0..2);
                let gone = layer("slice 1", prefix, 2..16);
                let two = [visit(other), visit(other)].concat();
                let [before, after] =
                    together_after(&gone, &stay, &before, vec![removals(&before), two]);
                assert_eq!((before.layers, shape(after)), (2, (1, 0, 1, 0)));
            });
        }
    }
}

/// A layer is emptied, and so is the node in the gap after it, by two threads; the leftmost node of
/// their tree gets a key and loses it.
#[test]
fn a_layer_and_the_gap_after_it_are_emptied() {
    explore(SCHEDULES / 2, || {
        let stay = vec![b"slice 9".to_vec()];
        let mut before = layer("slice 1", "a prefix", 0..2);
        before.extend(layer("slice 3", "", 0..2));
        before.push(b"slice 2".to_vec());
        let mut gone = layer("slice 1", "a prefix", 2..16);
        gone.extend(layer("slice 3", "", 2..16));
        let one = [removals(&before[..2]), removals(&before[4..])].concat();
        let two = [visit("a").to_vec(), removals(&before[2..4])].concat();
        let [before, after] = together_after(&gone, &stay, &before, vec![one, two]);
        assert_eq!((shape(before), after.layers), ((5, 1, 3, 1), 1));
    });
}

/// The prefix of a layer inside the tree is divided by one thread, at two words, while another
/// takes out the other keys of the layer.
#[test]
fn a_prefix_is_divided_while_its_layer_is_emptied() {
    explore(SCHEDULES / 2, || {
        let prefix = "a prefix, and a longer one, five";
        let stay = vec![b"a".to_vec(), b"slice 2".to_vec()];
        let before = layer("slice 1", prefix, 0..2);
        let gone = layer("slice 1", prefix, 2..16);
        let one = [visit("slice 1 a prefix, and"), visit("slice 1 b"), visit("slice 1 a")].concat();
        let [before, after] = together_after(&gone, &stay, &before, vec![one, removals(&before)]);
        assert_eq!((before.prefixes, after.layers, after.prefixes), (1, 1, 0));
    });
}

/// The root of a layer is cut, or replaced by its only child, while the node above, which is full,
/// is cut for a key in the gap after the layer, or for one elsewhere.
#[test]
fn a_root_of_a_layer_is_cut_while_its_parent_is_cut() {
    // Twenty-four nodes of short keys, which come in ascending order, and a layer after them.
    let full = || (0..360u64).map(number);
    let high = |end: &[u8]| [&[9; 8], end].concat();
    for (gap, elsewhere) in [(true, false), (false, true)] {
        explore(SCHEDULES / 20, move || {
            let mut stay: Vec<Vec<u8>> = full().collect();
            // Fifteen keys fill a node, which is the root of a layer once a sixteenth was there.
            stay.extend((0..14).map(|n| high(&[n])));
            let before = [high(&[14])];
            let gone = [high(&[15])];
            let mut one = vec![(high(&[5, 5]), Step::Put(1)), (high(&[6, 5]), Step::Put(2))];
            one.extend(removals(&before));
            let mut two = Vec::new();
            if gap {
                two.push((vec![10; 8], Step::Put(3)));
                two.push((vec![10; 8], Step::Remove));
            }
            if elsewhere {
                two.push(([&number(7)[..7], &[6, 1]].concat(), Step::Put(4)));
            }
            let [before, after] = together_after(&gone, &stay, &before, vec![one, two]);
            // The root of the layer is a border node, and the root of the tree has no room.
            assert_eq!(shape(before), (25, 1, 2, 0));
            // Both have a new root above, and each the other half.
            assert_eq!(after.interiors, 4);
        });
    }
}

fn numbers(range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range.map(number).collect()
}

/// Two nodes of four keys and eight merge when one of them is nearly empty, while another thread
/// puts into both of them, and takes out what it put. With a key too many, they do not merge.
#[test]
fn two_nodes_merge_under_readers_and_walks() {
    for left_goes in [true, false] {
        explore(SCHEDULES / 2, move || {
            let (mut stay, before) = if left_goes {
                (numbers(15..23), numbers(3..4))
            } else {
                ([numbers(3..4), numbers(15..18)].concat(), numbers(18..23))
            };
            stay.extend(numbers(0..3));
            // With these there are sixteen: a full node was cut in the middle.
            let gone = numbers(4..8);
            let beside = [1, 16].map(|n| [&number(n)[..], b"end"].concat());
            let puts = beside.iter().map(|key| (key.clone(), Step::Put(1)));
            let two = puts.chain(removals(&beside)).collect();
            let [before, after] =
                together_after(&gone, &stay, &before, vec![removals(&before), two]);
            assert_eq!(shape(before), (2, 1, 1, 0));
            assert!([(1, 0, 1, 0), (2, 1, 1, 0)].contains(&shape(after)), "{after:?}");
        });
    }
}

/// A full node shares its keys with one beside it, while another thread puts into that one, or
/// fills the full node as well.
#[test]
fn nodes_share_their_keys_under_readers_and_walks() {
    for (full_is_left, other) in [(true, 21), (true, 3), (false, 3), (false, 21)] {
        explore(SCHEDULES / 4, move || {
            // Sixteen keys are cut in the middle. One half gets more, and the other has room.
            let mut stay = [numbers(0..8), numbers(20..28)].concat();
            stay.extend(if full_is_left { numbers(8..15) } else { numbers(28..35) });
            let beside = |n| [&number(n)[..], b"end"].concat();
            let full = if full_is_left { 5 } else { 25 };
            let one = vec![(beside(full), Step::Put(1)), (beside(full), Step::Remove)];
            let two = vec![(beside(other), Step::Put(2)), (beside(other + 1), Step::Put(3))];
            let [before, after] = together(&stay, &[], vec![one, two]);
            assert_eq!(shape(before), (2, 1, 1, 0));
            assert!((2..=3).contains(&after.borders), "{after:?}");
        });
    }
}

/// Two threads make the first and the last of three nodes nearly empty: both would merge with the
/// one in the middle.
#[test]
fn two_merges_meet() {
    explore(SCHEDULES / 2, || {
        let stay = [numbers(0..3), numbers(20..24), numbers(40..43)].concat();
        let before = [number(3), number(43)];
        // The first node is full, so that the other one is cut, in the middle.
        let gone = [numbers(4..15), numbers(24..28), numbers(45..48), numbers(44..45)].concat();
        let [one, two] = [0, 1].map(|at| removals(&before[at..=at]));
        let [before, after] = together_after(&gone, &stay, &before, vec![one, two]);
        assert_eq!((shape(before), shape(after)), ((3, 1, 1, 0), (1, 0, 1, 0)));
    });
}

/// A removal makes border nodes merge, then their parents, and then the root makes way. Another
/// thread does the same elsewhere, or puts and removes below both parents.
#[test]
fn interior_nodes_merge_under_readers_and_walks() {
    const COUNT: u64 = 400;
    let order = |at: u64| number(at * 7919 % COUNT * 16);
    for meet in [false, true] {
        explore(SCHEDULES / 10, move || {
            // Each of the two is enough.
            let before = [order(363), order(373)];
            let gone: Vec<Vec<u8>> = (0..342).map(order).collect();
            let stay: Vec<Vec<u8>> =
                (342..COUNT).map(order).filter(|key| !before.contains(key)).collect();
            let two = if meet {
                removals(&before[1..])
            } else {
                let keys = [0, 1900, 6390].map(|n| number(16 * (n / 16) + 1));
                let puts = keys.iter().map(|key| (key.clone(), Step::Put(1)));
                puts.chain(removals(&keys)).collect()
            };
            let steps = vec![removals(&before[..1]), two];
            let [before, after] = together_after(&gone, &stay, &before, steps);
            // A key may come to the node before it is nearly empty.
            let merged = after.interiors == 1 || !meet && after.interiors == 3;
            assert!(before.interiors == 3 && merged, "{before:?}, {after:?}");
        });
    }
}

/// Two threads put and remove one key: what each is told fits one order of all that they did.
#[test]
fn one_key_of_two_threads_has_an_order() {
    explore(SCHEDULES / 2, || {
        let tree = Arc::new(Tree::<u64>::new());
        let run = |tree: Arc<Tree<u64>>, value: u64| {
            thread::spawn(move || {
                let guard = pin();
                let put = tree.insert(b"key", value, &guard).is_none();
                let removed = tree.remove(b"key", &guard).is_some();
                (i64::from(put), i64::from(removed))
            })
        };
        let both = [run(Arc::clone(&tree), 1), run(Arc::clone(&tree), 2)];
        let (mut came, mut went) = (0, 0);
        for handle in both {
            let (put, removed) = handle.join().unwrap();
            (came, went) = (came + put, went + removed);
        }
        // It came as often as it went, or is still there, which both have tried to prevent.
        assert_eq!(came, went, "what came is what went");
        assert_eq!(tree.get(b"key", &pin()), None);
    });
}
