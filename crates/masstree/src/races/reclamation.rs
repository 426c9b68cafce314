//! Node reclamation by a thread whose search is out of date.

use super::*;

/// Empties the node of `key`, and leaves it where it is.
fn emptied<'t, 'k>(tree: &'t Tree<u64>, key: &'k [u8]) -> Found<'t, 'k> {
    let found = search(&tree.shape, key, &pin(), false);
    let locked = found.border.version().lock();
    let permutation = found.border.permutation();
    permutation.slots().for_each(|slot| found.border.set_stale(slot));
    found.border.publish(permutation.truncate(0));
    drop(locked);
    tree.shape.keys.add(-(permutation.len() as i64));
    found
}

/// Before the locks are taken, the root with a single child becomes that of another layer. Both the
/// first layer and one that is linked must not take it for theirs.
#[test]
fn a_root_is_replaced_in_its_own_layer_only() {
    let (mut tree, guard) = (numbers(0..5), pin());
    for n in 0..16 {
        tree.insert(&layered(n), n, &guard);
    }
    (0..2).for_each(|n| assert!(tree.insert(&elsewhere(n), n, &guard).is_none()));
    let key = layered(15);
    assert!(unlink(&tree.shape, &emptied(&tree, &key)));
    let alone = search(&tree.shape, &key, &guard, false);
    let root = lone_parent(&tree.shape, &alone).unwrap();
    let (LayerLink { border, version, .. }, _) = layer_link_of(&tree, &key);
    for key in [&number(0)[..], &elsewhere(0)] {
        let found = search(&tree.shape, key, &guard, false);
        assert!(lone_parent(&tree.shape, &found).is_none());
        assert!(!shrink(&tree.shape, &found, root));
    }
    assert!(border.version().validate(version));
    assert!(shrink(&tree.shape, &alone, root));
    assert!(
        !border.version().validate(version),
        "a reader of the link may be about to visit the root"
    );
    for n in 0..15 {
        assert_eq!(tree.get(&layered(n), &guard), Some(n));
    }
    tree.check().unwrap();
}

/// While a node is removed, its key comes back, in a new layer. The remaining work is in the layer
/// above.
#[test]
fn tidying_stays_in_the_layer_of_the_removed_key() {
    let (mut tree, guard) = (numbers(0..16), pin());
    let long = |end: &str| [&number(15)[..], b"the tail", end.as_bytes()].concat();
    tree.remove(&number(3), &guard);
    let removed = long("removed");
    let found = emptied(&tree, &removed);
    assert!(unlink(&tree.shape, &found));
    for end in ["removed", "another"] {
        tree.insert(&long(end), 0, &guard);
    }
    assert!(tree.stats().layers == 2 && lone_parent(&tree.shape, &found).is_some());
    reclaim_nodes(&tree.shape, &removed, removed.len(), &guard);
    tree.check().unwrap();
}

/// An empty node gets a key before it is taken out.
#[test]
fn a_node_that_is_not_empty_any_more_stays() {
    let (mut tree, guard) = (numbers(0..31), pin());
    (0..2).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    let (key, below) = (number(15), layered(0));
    let found = emptied(&tree, &key);
    tree.insert(&key, 15, &guard);
    assert!(!unlink(&tree.shape, &found));
    let found = emptied(&tree, &below);
    tree.insert(&below, 0, &guard);
    assert!(!remove_layer(&tree.shape, &found, &found.link.unwrap()));
    assert_eq!((tree.get(&key, &guard), tree.get(&below, &guard)), (Some(15), Some(0)));
    tree.check().unwrap();
}

/// A root has one child, and two again before it makes way.
#[test]
fn a_root_that_is_not_alone_any_more_stays() {
    let (mut tree, guard) = (numbers(0..16), pin());
    let key = number(15);
    let found = emptied(&tree, &key);
    assert!(unlink(&tree.shape, &found));
    let root = lone_parent(&tree.shape, &found).unwrap();
    for n in 15..17 {
        tree.insert(&number(n), n, &guard);
    }
    assert!(root.count() > 0 && !shrink(&tree.shape, &found, root));
    tree.check().unwrap();
}

/// The root of the first layer went, and its memory is the lone root of another one.
#[test]
fn a_layer_that_was_found_from_a_root_that_went_is_not_shrunk() {
    let (mut tree, guard) = (numbers(0..16), pin());
    let (key, last) = (number(0), layered(15));
    let found = search(&tree.shape, &key, &guard, false);
    let old = root(&tree);
    for n in 5..16 {
        tree.remove(&number(n), &guard);
    }
    (0..16).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    let alone = emptied(&tree, &last);
    assert!(unlink(&tree.shape, &alone));
    let root = lone_parent(&tree.shape, &found).unwrap();
    assert!(root.node() == old);
    assert!(!shrink(&tree.shape, &found, root));
    assert!(shrink(&tree.shape, &alone, root));
    tree.check().unwrap();
}

/// An empty node went, and its memory is an empty node of another layer, in the same place.
#[test]
fn a_node_that_went_is_not_taken_out_again() {
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    (0..16).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    (0..15).for_each(|n| assert!(tree.insert(&elsewhere(n), n, &guard).is_none()));
    let (here, there) = (layered(15), elsewhere(15));
    let found = emptied(&tree, &here);
    reclaim_nodes(&tree.shape, &here, 8, &guard);
    for key in [&there, &here] {
        tree.insert(key, 15, &guard);
    }
    let again = emptied(&tree, &there);
    assert!(again.border == found.border && again.border.low() == 15);
    assert!(!unlink(&tree.shape, &found));
    assert!(unlink(&tree.shape, &again));
    reclaim_nodes(&tree.shape, &there, 8, &guard);
    tree.check().unwrap();
}

/// The root by which an empty node was found went, and its memory is the root of another layer: the
/// neighbour is not to be looked for there.
#[test]
fn the_neighbour_is_one_of_the_same_layer() {
    const KEYS: u64 = 600;
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    (0..15).for_each(|n| assert!(tree.insert(&elsewhere(n), n, &guard).is_none()));
    (0..KEYS).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    // The link is that to the root.
    tree.insert(&layered(0), 0, &guard);
    let (_, linked) = layer_link_of(&tree, &layered(0));
    let key = layered(20);
    let found = emptied(&tree, &key);
    assert_eq!((found.border.low(), found.border.high()), (15, 30));
    // All but one child of the root.
    (45..KEYS).rev().for_each(|n| assert!(tree.remove(&layered(n), &guard).is_some()));
    assert_ne!(layer_link_of(&tree, &layered(0)).1.value, linked.value);
    tree.insert(&elsewhere(15), 15, &guard);
    tree.insert(&elsewhere(0), 0, &guard);
    assert_eq!(layer_link_of(&tree, &elsewhere(0)).1.value, linked.value);
    assert!(!unlink(&tree.shape, &found));
    reclaim_nodes(&tree.shape, &key, 8, &guard);
    (0..16).for_each(|n| assert_eq!(tree.get(&elsewhere(n), &guard), Some(n)));
    tree.check().unwrap();
}

/// The link to an empty layer moves, with others of its slice, into a layer of theirs. What is in
/// its slot then is another link, or what was left there.
#[test]
fn a_layer_is_removed_where_it_is_linked() {
    let flat = |n: u64| format!("ONESLICE{n:08}").into_bytes();
    for first in [true, false] {
        let (mut tree, guard) = (Tree::<u64>::new(), pin());
        let below = |n: u64| [&flat(if first { 0 } else { 7 })[..], &number(n)].concat();
        (0..2).filter(|_| first).for_each(|n| assert!(tree.insert(&below(n), n, &guard).is_none()));
        (0..14).for_each(|n| assert!(tree.insert(&flat(n), n, &guard).is_none()));
        (0..2)
            .filter(|_| !first)
            .for_each(|n| assert!(tree.insert(&below(n), n, &guard).is_none()));
        let key = below(0);
        let found = emptied(&tree, &key);
        let link = found.link.unwrap();
        tree.insert(b"ONESLICE9", 0, &guard);
        assert_eq!(tree.stats().layers, 3);
        assert!(!link.version.split_since(link.border.version().load()));
        assert_eq!(link.border.permutation().is_live(link.slot), first);
        assert!(!remove_layer(&tree.shape, &found, &link));
        reclaim_nodes(&tree.shape, &key, 8, &guard);
        (0..14).for_each(|n| assert_eq!(tree.get(&flat(n), &guard), Some(n)));
        assert_eq!(tree.check().unwrap().layers, 2);
    }
}

/// An empty layer went, and the slot of its link is a key's.
#[test]
fn a_layer_is_removed_once() {
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    (0..2).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    let key = layered(0);
    let found = emptied(&tree, &key);
    let link = found.link.unwrap();
    assert!(remove_layer(&tree.shape, &found, &link));
    assert!(!remove_layer(&tree.shape, &found, &link));
    (0..15).for_each(|n| assert!(tree.insert(&number(n), n, &guard).is_none()));
    assert!(link.border.permutation().is_live(link.slot));
    assert!(!remove_layer(&tree.shape, &found, &link));
    tree.check().unwrap();
}

/// A parent splits before it is locked, and the child is the new one's.
#[test]
fn only_the_parent_of_today_is_locked() {
    let (mut tree, guard) = (numbers(0..15 * 25), pin());
    let space = tree.shape.space();
    let (child, _) = border_of(&tree, 15 * 25 - 1);
    let parent = child.node().parent(space).unwrap();
    assert!(child.node().try_lock_parent(space, parent).is_some());
    tree.insert(&number(15 * 25), 0, &guard);
    assert!(child.node().parent(space) != Some(parent));
    assert!(child.node().try_lock_parent(space, parent).is_none());
    assert!(!parent.version().load().is_locked());
    tree.check().unwrap();
}
