//! Gaps: keys beside the layers of other keys, beside a model.
//!
//! ```text
//!   before  | ended | layer | gap             | ended | layer | gap       | after
//!   b"a"      b"b.."  b"b..x"  b"c", b"d\0"      b"d.."  b"d..x"  b"d\xff"    b"z"
//! ```
//!
//! The range after a layer belongs to it, up to the next fence, but no node has the keys there. The
//! first gets a node of its own, which goes with the last.

use crate::prefixes::{Key, Model, compare, compare_range, insert, remove_all, shuffle};
use keyrack_concurrent::pin;
use keyrack_masstree::{Hint, Tree};
use keyrack_testkit::random::{Announced, Draw, factor, is_brief, seeds};
use std::ops::ControlFlow;

/// Keys of a layer: a full node and one more.
const LAYER_KEYS: u8 = 16;

/// The keys of a layer after `slice`, with `prefix` before they differ.
fn layer(slice: &[u8], prefix: &[u8]) -> Vec<Key> {
    (0..LAYER_KEYS)
        .map(|n| [slice, prefix, &[b'0' + n], &b"ab"[..n as usize % 3]].concat())
        .collect()
}

/// Keys beside the layer of `slice`: before it, ended in it, in it but without its prefix, and in
/// the gap after it.
fn beside(slice: &[u8; 8]) -> Vec<Key> {
    let mut beside: Vec<Key> = (0..=8).map(|len| slice[..len].to_vec()).collect();
    let ends: [&[u8]; 8] = [
        b"\0",
        b"\0\0\0\0\0\0\0\0\0",
        b"m",
        b"prefix",
        b"prefixes",
        b"prefixes\0",
        b"\xff",
        &[255; 9],
    ];
    beside.extend(ends.map(|end| [&slice[..], end].concat()));
    for step in [-1, 1] {
        let next = u64::from_be_bytes(*slice).wrapping_add_signed(step).to_be_bytes();
        beside.extend([&b""[..], b"\0", b"\xff"].map(|end| [&next[..], end].concat()));
    }
    beside
}

fn all_beside(beginning: &[u8], slices: &[&[u8; 8]]) -> Vec<Key> {
    let mut keys: Vec<Key> = slices
        .iter()
        .flat_map(|slice| beside(slice))
        .map(|key| [beginning, &key].concat())
        .chain((0..=beginning.len()).map(|len| beginning[..len].to_vec()))
        .chain([vec![0; 9], vec![255; 9]])
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Three layers side by side, one of them of zeros and one of ones, and keys in all gaps between
/// them, alone, and in random orders.
#[test]
fn every_gap_takes_keys_and_gives_them_back() {
    let slices = [&[0; 8], b"slice 1\0", b"slice 1\x01", b"slice 3 ", &[255; 8]];
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for beginning in [&b""[..], b"a prefix"] {
            for prefix in [&b""[..], b"prefixes", b"prefixesprefixes"] {
                let mut layers: Vec<Key> =
                    slices.iter().flat_map(|slice| layer(*slice, prefix)).collect();
                layers.iter_mut().for_each(|key| *key = [beginning, key].concat());
                let mut others = all_beside(beginning, &slices);
                let (mut tree, mut model) = (Tree::<u64>::new(), Model::new());
                shuffle(&mut layers, &mut draw);
                layers.iter().for_each(|key| insert(&tree, &mut model, key));
                let before = compare(&mut tree, &model, &others, &mut draw);
                // Each key alone.
                for key in others.iter().filter(|key| !layers.contains(key)) {
                    insert(&tree, &mut model, key);
                    tree.check().unwrap();
                    around_key(&tree, &model, key, &others, &mut draw);
                    assert_eq!(tree.remove(key, &pin()), model.remove(key));
                    let after = tree.check().unwrap();
                    assert_eq!(after.keys, before.keys);
                    around_key(&tree, &model, key, &others, &mut draw);
                }
                // All of them.
                shuffle(&mut others, &mut draw);
                for key in &others {
                    insert(&tree, &mut model, key);
                    around_key(&tree, &model, key, &others, &mut draw);
                }
                compare(&mut tree, &model, &others, &mut draw);
                // First all layers go, and the gaps become nodes as others are.
                for key in &layers {
                    assert_eq!(tree.remove(key, &pin()), model.remove(key));
                    tree.check().unwrap();
                }
                compare(&mut tree, &model, &others, &mut draw);
                remove_all(&mut tree, model, &mut draw);
            }
        }
    }
}

/// Scans from and to `key`.
fn around_key(tree: &Tree<u64>, model: &Model, key: &Key, others: &[Key], draw: &mut Draw) {
    assert_eq!(tree.get(key, &pin()), model.get(key).copied(), "{key:?}");
    let other = draw.one_of(others);
    compare_range(tree, model, key, None);
    compare_range(tree, model, b"", Some(key));
    compare_range(tree, model, key, Some(other.as_slice()));
    compare_range(tree, model, other, Some(key));
}

/// Every order of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let with = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(|at| with(order, at))).collect()
}

/// Two layers, an ended key, a key before them, one between and one after, put and removed in every
/// order: one node without a prefix is left each time.
#[test]
fn every_order_of_layers_and_gaps_ends_with_one_node() {
    let groups = [
        layer(b"slice 1\0", b"prefixes"),
        layer(b"slice 2 ", b""),
        vec![b"slice 1".to_vec(), b"slice 1\0".to_vec(), b"slice 1\0prefix".to_vec()],
        vec![b"slice 1\x01".to_vec(), b"slice 2".to_vec()],
        vec![b"slice 2 ".to_vec(), b"t".to_vec()],
    ];
    let fills = orders(groups.len());
    let step = if is_brief() { 7 } else { 1 };
    for (number, fill) in fills.iter().enumerate() {
        for empty in fills.iter().skip(number % step).step_by(step) {
            let mut tree = Tree::<u64>::new();
            let guard = pin();
            for key in fill.iter().flat_map(|group| &groups[*group]) {
                assert_eq!(tree.insert(key, 1, &guard), None);
            }
            for (at, group) in empty.iter().enumerate() {
                for key in &groups[*group] {
                    assert_eq!(tree.remove(key, &guard), Some(1), "{fill:?} {empty:?}");
                }
                let left = empty[at + 1..].iter().map(|group| groups[*group].len()).sum::<usize>();
                assert_eq!(tree.scan(b"", None, |_, _| ControlFlow::Continue(())), left as u64);
            }
            drop(guard);
            let stats = tree.check().unwrap();
            let left = (stats.keys, stats.borders, stats.interiors, stats.layers, stats.prefixes);
            assert_eq!(left, (0, 1, 0, 1, 0), "{fill:?} {empty:?}");
        }
    }
}

/// A node whose first key is gone has keys of one slice that all continue after it, and cares for
/// those that end there. When it is full, its keys move to a node that begins a layer, and nothing
/// is left of the node itself.
#[test]
fn keys_that_move_to_a_layer_leave_no_empty_node() {
    let mut tree = Tree::<u64>::new();
    let put = |tree: &Tree<u64>, key: &[u8]| assert_eq!(tree.insert(key, 1, &pin()), None);
    (b'a'..=b'o').for_each(|key| put(&tree, &[key]));
    let ended = b"slice678";
    let long = |end: u8| [&ended[..], &[end]].concat();
    put(&tree, ended);
    (0..14).for_each(|end| put(&tree, &long(end)));
    assert_eq!(tree.remove(ended, &pin()), Some(1));
    let before = tree.check().unwrap();
    (14..16).for_each(|end| put(&tree, &long(end)));
    let after = tree.check().unwrap();
    assert_eq!((after.layers, after.keys), (before.layers + 1, before.keys + 2));
    // The layer has a new root, as it is cut at once.
    assert_eq!((after.borders, after.interiors), (before.borders + 1, before.interiors + 1));
    put(&tree, ended);
    put(&tree, b"slice67");
    tree.check().unwrap();
}

/// A key of up to four words, most of them zeros, and an end, so that layers nest in each other.
pub(crate) fn nested_key(draw: &mut Draw) -> Key {
    const ALPHABET: [u8; 3] = [0, b'a', 255];
    let mut key = Key::new();
    for _ in 0..draw.below(5) {
        match draw.below(10) {
            0..6 => key.extend([0; 8]),
            6 => key.extend(b"a\0\0\0\0\0\0\0"),
            _ => key.extend([*draw.one_of(&ALPHABET); 8]),
        }
    }
    key.extend((0..draw.below(9)).map(|_| ALPHABET[draw.below(ALPHABET.len())]));
    key
}

/// A key near another: shorter, longer, or with another byte.
fn near(key: &[u8], draw: &mut Draw) -> Key {
    let byte = *draw.one_of(&[0, 1, b'a', 254, 255]);
    let mut near = key.to_vec();
    match draw.below(4) {
        0 => near.push(byte),
        1 => near.truncate(draw.below(key.len() + 1)),
        2 if !key.is_empty() => near[draw.below(key.len())] = byte,
        _ => {}
    }
    near
}

/// Random changes, each answer compared, with and without a hint, and a scan each time.
fn model_test(keys: &[Key], draw: &mut Draw, layers: u64) {
    let tree = &mut Tree::<u64>::new();
    let mut model = Model::new();
    let (mut most, mut last, mut gone) = (1, 1u64, 0);
    for operation in 0..factor() * (32 * keys.len()).max(20_000) {
        // Waves: the tree grows, and shrinks again.
        let removals = operation / (4 * keys.len()) % 2 * 8;
        let key = draw.one_of(keys);
        let (guard, value) = (pin(), operation as u64);
        let mut hint = Hint::new();
        let other: &Key = draw.one_of(keys);
        tree.get_hinted(other, &guard, &mut hint);
        match draw.below(10) {
            n if n < 2 + removals && n % 2 == 0 => {
                assert_eq!(tree.remove(key, &guard), model.remove(key), "{key:?}");
            }
            n if n < 2 + removals => {
                let old = tree.remove_hinted(key, &guard, &mut hint);
                assert_eq!(old, model.remove(key), "{key:?}");
            }
            n if n % 2 == 0 => {
                let old = tree.insert(key, value, &guard);
                assert_eq!(old, model.insert(key.clone(), value), "{key:?}");
            }
            _ => {
                let old = tree.insert_hinted(key, value, &guard, &mut hint);
                assert_eq!(old, model.insert(key.clone(), value), "{key:?}");
            }
        }
        let asked = near(key, draw);
        assert_eq!(tree.get(&asked, &guard), model.get(&asked).copied(), "{asked:?}");
        let hinted = tree.get_hinted(&asked, &guard, &mut hint);
        assert_eq!(hinted, model.get(&asked).copied(), "{asked:?}");
        let several: Vec<&[u8]> = (0..4).map(|_| draw.one_of(keys).as_slice()).collect();
        tree.multi_get(&several, &guard, |index, value| {
            assert_eq!(value, model.get(several[index]).copied(), "{:?}", several[index]);
        });
        drop(guard);
        if operation.is_multiple_of(16) {
            let (low, high): (&Key, &Key) = (draw.one_of(keys), draw.one_of(keys));
            let (low, high) = (near(low, draw), near(high, draw));
            compare_range(tree, &model, &low, Some(&high));
            compare_range(tree, &model, &asked, None);
            compare_range(tree, &model, b"", Some(&asked));
            let stats = tree.check().unwrap();
            assert_eq!(stats.keys, model.len() as u64);
            gone += last.saturating_sub(stats.layers);
            (most, last) = (stats.layers.max(most), stats.layers);
        }
    }
    // Layers came and went, or the keys are not those that this is about.
    assert!(most >= layers && gone >= layers, "{most} layers at most, {gone} went");
    remove_all(tree, model, draw);
}

#[test]
fn random_keys_of_nested_layers_answer_as_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for (count, layers) in [(100, 2), (400, 4), (1500, 8)] {
            let mut keys: Vec<Key> = (0..count).map(|_| nested_key(&mut draw)).collect();
            keys.extend((0..=40).map(|len| vec![0; len]));
            keys.sort_unstable();
            keys.dedup();
            model_test(&keys, &mut draw, layers);
        }
    }
}

/// Keys of zeros alone and of zeros with an end: layers in which the first slice is that of the
/// fence before all keys.
#[test]
fn layers_of_zeros_nest() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let ends = (0..20u8).map(|end| vec![end; 1 + end as usize % 9]);
        let ends: Vec<Key> = ends.chain([Vec::new(), vec![255]]).collect();
        let zeros = |zeros: usize| ends.iter().map(move |end| [&vec![0; zeros][..], end].concat());
        let mut keys: Vec<Key> = [0, 7, 8, 9, 16, 24, 32].into_iter().flat_map(zeros).collect();
        keys.extend((0..=40).map(|len| vec![0; len]));
        keys.sort_unstable();
        keys.dedup();
        model_test(&keys, &mut draw, 5);
    }
}
