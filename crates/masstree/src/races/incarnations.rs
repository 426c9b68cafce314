//! Removed nodes and layers, and the reuse of their memory.

use super::*;

/// Removal of a node: its readers start again, and its slices are the left neighbour's.
#[test]
fn the_left_neighbour_takes_over_the_slices_of_a_removed_node() {
    let (mut tree, guard) = (numbers(0..300), pin());
    let (gone, version) = border_of(&tree, 150);
    let parent = gone.node().parent(tree.shape.space()).unwrap();
    let parent_version = parent.version().stable();
    let (low, high) = (gone.low(), gone.high());
    let (left, left_version) = border_of(&tree, low - 1);
    for n in low..high {
        tree.remove(&number(n), &guard);
    }
    assert!(gone.version().stable().is_deleted() && !gone.version().validate(version));
    assert!(!left.version().validate(left_version));
    assert!(!parent.version().validate(parent_version));
    assert_eq!(left.high(), high);
    for n in low..high {
        assert!(border_of(&tree, n).0 == left);
        assert_eq!(tree.get(&number(n), &guard), None);
    }
    tree.insert(&number(low), low, &guard);
    assert_eq!(tree.get(&number(low), &guard), Some(low));
    drop(guard);
    tree.check().unwrap();
}

/// The first child of an interior node goes away: the separator that moves stands further up, and
/// everything between is disturbed. Emptied from left to right, every interior node loses its first
/// child.
#[test]
fn separators_move_when_first_children_go_away() {
    let mut tree = numbers(0..4000);
    for n in 1..4000 {
        let guard = pin();
        let (border, version) = border_of(&tree, n);
        assert_eq!(tree.remove(&number(n), &guard), Some(n));
        if border.version().stable().is_deleted() {
            assert!(!border.version().validate(version));
            // A key that comes back right then goes where readers look for it.
            tree.insert(&number(n), n, &guard);
            assert_eq!(tree.get(&number(n), &guard), Some(n));
            tree.remove(&number(n), &guard);
        }
        if n + 1 < 4000 {
            assert_eq!(tree.get(&number(n + 1), &guard), Some(n + 1));
        }
        drop(guard);
        if n.is_multiple_of(15) {
            tree.check().unwrap();
        }
    }
    let stats = tree.check().unwrap();
    assert_eq!((stats.borders, stats.interiors), (1, 0));
}

/// The memory of a node begins another incarnation while a reader descends to it: the versions of
/// the parent and of the node show it.
#[test]
fn a_second_incarnation_of_a_node_invalidates_readers_of_the_first() {
    let (mut tree, guard) = (numbers(0..2000), pin());
    let (gone, version) = border_of(&tree, 1000);
    let incarnation = gone.node().incarnation();
    let (low, high) = (gone.low(), gone.high());
    for n in low..high {
        tree.remove(&number(n), &guard);
    }
    assert!(gone.version().stable().is_deleted());
    // Nodes that are made now take its memory, sooner or later.
    let mut next = 1 << 40;
    while gone.version().stable().is_deleted() {
        tree.insert(&number(next), next, &guard);
        next += 1;
    }
    assert_ne!(gone.node().incarnation(), incarnation);
    assert!(version.split_since(gone.version().stable()));
    assert!(gone.low() >= 1 << 40 || gone.high() == 0);
    assert_eq!(tree.get(&number(low), &guard), None);
    tree.check().unwrap();
}

/// A layer goes while a reader holds it; its memory becomes another layer.
#[test]
fn a_layer_that_went_is_not_taken_for_its_successor() {
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    let key = |group: u64, n: u64| format!("{group:016}{n:016}").into_bytes();
    for n in 0..2 {
        tree.insert(&key(1, n), n, &guard);
    }
    let first = key(1, 0);
    let found = search(&tree.shape, &first, &guard, false);
    let layer: Layer<'_> = found.layer;
    assert!(found.link.is_some() && layer.is_current());
    let link = found.link.unwrap();
    for n in 0..2 {
        tree.remove(&key(1, n), &guard);
    }
    assert!(!layer.is_current());
    assert!(!link.border.version().validate(link.version), "the link is gone");
    for group in 2..50 {
        for n in 0..2 {
            tree.insert(&key(group, n), n, &guard);
        }
    }
    assert!(!layer.is_current());
    assert_eq!(get(&tree.shape, &first, &guard, &mut None), None);
    tree.check().unwrap();
}

/// The tree shrinks to one node under a reader that holds its old root.
#[test]
fn a_root_that_went_leads_nowhere() {
    let (mut tree, guard) = (numbers(0..5000), pin());
    let old = root(&tree);
    for n in 0..5000 {
        tree.remove(&number(n), &guard);
    }
    assert!(climb(tree.shape.space(), old).is_none());
    assert!(matches!(root(&tree).kind(), Kind::Border(_)));
    assert_eq!(tree.get(&number(7), &guard), None);
    tree.check().unwrap();
}

/// The parent of the node at which a reader stands goes, the node becomes the root, and the
/// parent's memory the root of another layer.
#[test]
fn a_reader_that_climbs_does_not_come_to_another_layer() {
    let (mut tree, guard) = (numbers(0..40), pin());
    let (left, version) = border_of(&tree, 0);
    let parent = left.node().parent(tree.shape.space()).unwrap();
    let same = above(left.node(), version, parent.node()).unwrap();
    assert!(same == parent.version().stable());
    for n in 5..40 {
        tree.remove(&number(n), &guard);
    }
    assert!(left.version().stable().is_root() && parent.version().stable().is_deleted());
    for n in 0..40 {
        tree.insert(&layered(n), n, &guard);
    }
    let now = parent.version().stable();
    assert!(now.is_root() && !now.is_deleted());
    assert!(above(left.node(), version, parent.node()).is_none());
    tree.check().unwrap();
}

/// The root goes, becomes the root of another layer, and then of the first one again: what was
/// found from it in between is not of the first layer.
#[test]
fn a_root_that_went_and_came_back_is_not_the_same() {
    let (mut tree, guard) = (numbers(0..40), pin());
    let old = root(&tree);
    assert!(tree.shape.is_top(old, Layer::new(old)));
    for n in 5..40 {
        tree.remove(&number(n), &guard);
    }
    for n in 0..40 {
        tree.insert(&layered(n), n, &guard);
    }
    assert!(climb(tree.shape.space(), old).unwrap().0 == old && old != root(&tree));
    let layer = Layer::new(old);
    assert!(!tree.shape.is_top(old, layer));
    for n in 0..40 {
        tree.remove(&layered(n), &guard);
    }
    for n in 5..40 {
        tree.insert(&number(n), n, &guard);
    }
    assert!(old == root(&tree));
    assert!(!tree.shape.is_top(old, layer));
    assert!(tree.shape.is_top(old, Layer::new(old)));
    tree.check().unwrap();
}

/// A child is read from its parent; it goes, and its memory is a node of the same kind elsewhere.
#[test]
fn a_reader_that_descends_does_not_come_to_another_layer() {
    let (mut tree, guard) = (numbers(0..20), pin());
    tree.remove(&number(3), &guard);
    let (child, _) = border_of(&tree, 19);
    let parent: InteriorRef<'_> = child.node().parent(tree.shape.space()).unwrap();
    let version = parent.version().stable();
    assert!(below(parent, version, child.node()) == Some(child.version().stable()));
    for n in child.low()..20 {
        tree.remove(&number(n), &guard);
    }
    assert!(below(parent, version, child.node()).is_none());
    (0..2).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    assert!(child.version().stable().is_root());
    assert!(below(parent, version, child.node()).is_none());
    tree.check().unwrap();
}

/// A scan and a load keep a node for the key that comes next. It goes, and its memory becomes the
/// node of the same slice in another layer.
#[test]
fn what_is_kept_for_the_next_key_is_not_taken_from_another_layer() {
    let (mut tree, guard) = (numbers(0..2), pin());
    (0..100).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    let key = layered(50);
    let found = search(&tree.shape, &key, &guard, false);
    let finger = Finger::at(&found.leaf(), &key);
    assert!(finger.follow(&key, &key).is_some());
    let mut parent_hint = None;
    let (border, _) =
        found.layer.descend_with_parent(tree.shape.space(), 50, &mut parent_hint).unwrap();
    let parent_hint = parent_hint.unwrap();
    assert!(parent_hint.neighbour(tree.shape.space(), 50).unwrap().0 == border);

    (0..100).for_each(|n| assert!(tree.remove(&layered(n), &guard).is_some()));
    // Until the nodes are where they were.
    let kept = |finger: Finger<'_>| finger.follow(&key, &key).is_some();
    for n in (0..100).rev() {
        tree.insert(&elsewhere(n), n, &guard);
        assert!(parent_hint.neighbour(tree.shape.space(), 50).is_none());
        assert!(!kept(finger));
    }
    assert!(!found.border.version().stable().is_deleted());
    tree.check().unwrap();
}
