//! Prefixes of layers: they grow, are divided and go under readers and writers.

use super::*;
use crate::prefix::Prefix;

/// A key of group 1 that continues after another one.
fn deep(n: u64) -> Vec<u8> {
    [&grouped(1, 7)[..], b" deeper ", &number(n)].concat()
}

/// Words of the prefix of the whole tree.
fn words(tree: &Tree<u64>) -> usize {
    root(tree).prefix(tree.shape.space()).map_or(0, Prefix::len)
}

/// A tree of one border node with a prefix, which one more key makes longer.
fn about_to_grow() -> Tree<u64> {
    let tree = with_prefix();
    remove(&tree, (1..GROUP).map(|n| grouped(1, n)));
    put(&tree, (0..14).map(deep), 7);
    remove(&tree, [grouped(1, 0)].into_iter());
    put(&tree, [deep(14)].into_iter(), 7);
    assert_eq!((words(&tree), tree.stats().borders), (3, 1));
    tree
}

/// One that has a single key, and is one border node.
fn with_one_key() -> Tree<u64> {
    let tree = with_prefix();
    remove(&tree, (1..GROUP).map(|n| grouped(1, n)));
    assert_eq!((words(&tree), tree.stats().borders), (3, 1));
    tree
}

/// What is left of a key in the node is not what a reader holds any more.
#[test]
fn a_prefix_that_grows_disturbs_readers() {
    let (mut tree, guard) = (about_to_grow(), pin());
    let key = deep(3);
    let descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    assert_eq!(answer(&tree, descent), Some(Some(7)));
    let leaf = leaf_of(&tree, &key);
    let finger = Finger::at(&leaf, &key);
    put(&tree, [deep(15)].into_iter(), 7);
    assert_eq!(words(&tree), 5);
    assert!(find_validated(&leaf, &guard).is_none());
    assert!(finger.follow(&key, &key).is_none());
    assert_eq!(answer(&tree, descent), None);
    (0..16).for_each(|n| assert_eq!(tree.get(&deep(n), &guard), Some(7)));
    drop(guard);
    tree.check().unwrap();
}

/// A writer has a node whose prefix grows, or that the prefix does not lead to. Its key has the
/// longer prefix, the shorter one alone, or none.
#[test]
fn a_writer_searches_again_after_the_prefix_grew() {
    for key in [deep(99), grouped(1, 5), grouped(1, 7), grouped(2, 1), b"x".to_vec()] {
        let mut tree = about_to_grow();
        let mut place = descend(&tree.shape, &key);
        assert_eq!(place.leaf().is_some(), key[0] == 1, "with the shorter prefix");
        put(&tree, [deep(15)].into_iter(), 7);
        put_at(&tree, &key, &mut place, 8);
        assert_eq!(tree.get(&key, &pin()), Some(8));
        (0..16).for_each(|n| assert_eq!(tree.get(&deep(n), &pin()), Some(7)));
        tree.check().unwrap();
    }
}

/// Keys that divide the prefix of group 1 after each of its words, below and above.
fn dividing() -> Vec<Vec<u8>> {
    let at = |at: usize, byte: u8| {
        let mut key = grouped(1, 0);
        key[at] = byte;
        key
    };
    [0, 8, 16].iter().flat_map(|word| [at(*word, 0), at(*word, 255)]).collect()
}

/// A reader stands at the root of the tree with its version, and the prefix that it compares its
/// key with then is a shorter one. The root may be a border node or an interior one.
#[test]
fn a_prefix_is_compared_under_a_version() {
    for one in [true, false] {
        for other in dividing() {
            let mut tree = if one { with_one_key() } else { with_prefix() };
            let key = grouped(1, 0);
            let descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
            let absent = Descent::begin(&tree.shape, Rest::of(&other)).unwrap();
            assert_eq!(answer(&tree, descent), Some(Some(7)));
            put(&tree, [other.clone()].into_iter(), 9);
            assert_eq!((answer(&tree, descent), answer(&tree, absent)), (None, None));
            assert_eq!(tree.get(&key, &pin()), Some(7));
            tree.check().unwrap();
        }
    }
}

/// The same below a node: the reader has entered the root of a layer.
#[test]
fn a_prefix_of_a_layer_below_is_compared_under_a_version() {
    for byte in [0, 255] {
        let (mut tree, key) = (with_gaps(), grouped(20, 3));
        let mut other = key.clone();
        other[16] = byte;
        let standing = before_layer(&tree, &key);
        let entered = standing.go_on().unwrap();
        put(&tree, [other.clone()].into_iter(), 9);
        assert!(standing.go_on().is_none());
        assert_eq!(answer(&tree, entered), None);
        assert_eq!((tree.get(&key, &pin()), tree.get(&other, &pin())), (Some(7), Some(9)));
        tree.check().unwrap();
    }
}

/// A reader and a writer have passed the prefix of a border node, which is then divided.
#[test]
fn a_node_whose_prefix_was_divided_is_searched_for_again() {
    for other in dividing() {
        let (mut tree, guard) = (with_one_key(), pin());
        let (key, new) = (grouped(1, 0), grouped(1, 99));
        let leaf = leaf_of(&tree, &key);
        let mut place = descend(&tree.shape, &new);
        put(&tree, [other.clone()].into_iter(), 9);
        assert!(find_validated(&leaf, &guard).is_none());
        put_at(&tree, &new, &mut place, 8);
        assert_values(&tree, &[(&key, 7), (&new, 8), (&other, 9)]);
        drop(guard);
        tree.check().unwrap();
    }
}

/// A key of the layer 20 of [`with_gaps`] that leaves its prefix at a byte.
fn leaving(at: usize, byte: u8) -> Vec<u8> {
    let mut key = grouped(20, 0);
    key[at] = byte;
    key
}

/// Two writers divide the prefix of a layer that is below a node.
#[test]
fn a_prefix_of_a_layer_below_is_divided_once() {
    for (at, other) in [(8, 8), (8, 16), (16, 8), (16, 16), (9, 23)] {
        for (byte, other_byte) in [(0, 255), (255, 0), (2, 3)] {
            let mut tree = with_gaps();
            let (key, other) = (leaving(at, byte), leaving(other, other_byte));
            divide_twice(&tree, &key, &other, (20, 40));
            remove(&tree, (0..40).map(|n| grouped(20, n)));
            tree.check().unwrap();
            remove(&tree, [key, other].into_iter());
            tree.check().unwrap();
        }
    }
}

/// The layer whose prefix a writer is about to divide goes. Its memory may be that of others.
#[test]
fn a_prefix_of_a_layer_that_went_is_not_divided() {
    for used_again in [false, true] {
        for key in [leaving(8, 0), leaving(16, 255)] {
            let mut tree = with_gaps();
            let mut place = descend(&tree.shape, &key);
            let Destination::Diverged { root, .. } = place else { panic!("it has not the prefix") };
            remove(&tree, (0..40).map(|n| grouped(20, n)));
            assert!(root.version().load().is_deleted());
            if used_again {
                (21..29).for_each(|group| put(&tree, (0..40).map(|n| grouped(group, n)), 9));
                assert!(!root.version().load().is_deleted());
            }
            put_at(&tree, &key, &mut place, 8);
            assert_eq!(tree.get(&key, &pin()), Some(8));
            tree.check().unwrap();
        }
    }
}

/// The last key of the tree goes, and the prefix with it, while others hold the node.
#[test]
fn a_tree_that_lost_its_prefix_is_searched_again() {
    let (mut tree, guard) = (with_one_key(), pin());
    let (key, new) = (grouped(1, 0), grouped(1, 1));
    let descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    let leaf = leaf_of(&tree, &key);
    let finger = Finger::at(&leaf, &key);
    let mut place = descend(&tree.shape, &new);
    remove(&tree, [key.clone()].into_iter());
    assert_eq!(words(&tree), 0);
    assert!(find_validated(&leaf, &guard).is_none() && finger.follow(&key, &key).is_none());
    assert_eq!(answer(&tree, descent), None);
    put_at(&tree, &new, &mut place, 8);
    assert_eq!(leaf_of(&tree, &new).rest.bytes, new);
    assert_eq!((tree.get(&new, &guard), tree.get(&key, &guard)), (Some(8), None));
    drop(guard);
    tree.check().unwrap();
}

/// The prefix of an empty layer is divided before the layer is removed: it is elsewhere then.
#[test]
fn an_empty_layer_that_was_divided_is_removed_where_it_is() {
    for byte in [0, 255] {
        let (mut tree, key) = (with_gaps(), grouped(20, 0));
        remove(&tree, (1..40).map(|n| grouped(20, n)));
        let leaf = emptied(&tree, &key);
        assert!(leaf.version.is_root());
        let other = leaving(16, byte);
        put(&tree, [other.clone()].into_iter(), 9);
        assert!(remove_border(&tree.shape, leaf.border, leaf.version) == Reclaimed::Changed);
        reclaim_nodes(&tree.shape, &key, leaf.border);
        assert!(leaf.border.version().load().is_deleted());
        assert_eq!((tree.get(&other, &pin()), tree.get(&key, &pin())), (Some(9), None));
        tree.check().unwrap();
        remove(&tree, [other].into_iter());
        tree.check().unwrap();
    }
}
