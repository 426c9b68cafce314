//! Roots of layers: they are cut, make way and go under readers and writers.

use super::*;

/// Three layers of one border node or two, of which 20 is one border node with 8 keys.
fn with_one_node() -> Tree<u64> {
    let tree = Tree::<u64>::new();
    for group in [10, 20, 30] {
        put(&tree, (0..GROUP).map(|n| grouped(group, n)), 7);
    }
    remove(&tree, (8..GROUP).map(|n| grouped(20, n)));
    assert!(leaf_of(&tree, &grouped(20, 0)).version.is_root());
    tree
}

/// A key of the slice of layer 20 that does not have its prefix.
fn leaving() -> Vec<u8> {
    let mut key = grouped(20, 0);
    key[16] = 255;
    key
}

/// All who hold the root of a layer as a border node begin anew after it was cut: it has neither
/// the prefix nor all keys any more.
#[test]
fn a_root_that_was_cut_is_not_taken_for_the_layer() {
    let (mut tree, guard) = (with_one_node(), pin());
    let (key, new, left) = (grouped(20, 7), grouped(20, 99), leaving());
    let above = before_layer(&tree, &key);
    let entered = above.go_on().unwrap();
    let leaf = leaf_of(&tree, &key);
    let finger = Finger::at(&leaf, &key);
    let (mut place, mut diverged) = (descend(&tree.shape, &new), descend(&tree.shape, &left));
    assert!(matches!(diverged, Destination::Diverged { root, .. } if root == leaf.border.node()));
    put(&tree, (8..20).map(|n| grouped(20, n)), 7);
    assert!(!leaf.border.version().load().is_root());
    assert_eq!(leaf.border.node().prefix_handle(), 0);
    assert!(above.go_on().is_none());
    assert_eq!(answer(&tree, entered), None);
    assert!(find_validated(&leaf, &guard).is_none() && finger.follow(&key, &key).is_none());
    put_at(&tree, &new, &mut place, 8);
    put_at(&tree, &left, &mut diverged, 9);
    assert_values(&tree, &[(&key, 7), (&new, 8), (&left, 9)]);
    drop(guard);
    tree.check().unwrap();
}

/// The same for an interior root: the upper half of the layer is not below it.
#[test]
fn an_interior_root_that_was_cut_is_not_taken_for_the_layer() {
    let (mut tree, guard) = (with_gaps(), pin());
    let key = grouped(20, 39);
    let above = before_layer(&tree, &key);
    let entered = above.go_on().unwrap();
    assert!(matches!(above.child.kind(), Kind::Interior(_)));
    put(&tree, (40..1000).map(|n| grouped(20, n)), 7);
    assert!(!above.child.version().load().is_root());
    assert!(above.go_on().is_none());
    assert_eq!(answer(&tree, entered), None);
    assert_eq!(tree.get(&key, &guard), Some(7));
    drop(guard);
    tree.check().unwrap();
}

/// A layer becomes one border node under those who stand above, at its root, and at its leftmost
/// border node, which is the root then. The memory of the root may be another one's.
#[test]
fn a_root_that_made_way_leads_nowhere() {
    for used_again in [false, true] {
        let (mut tree, guard) = (with_gaps(), pin());
        let (key, new, left) = (grouped(20, 0), grouped(20, 99), leaving());
        let above = before_layer(&tree, &key);
        let mut entered = above.go_on().unwrap();
        let at_root = entered;
        let Some(Next::Child { parent, child, before }) = entered.next(tree.shape.space()) else {
            panic!("the layer has an interior root")
        };
        let standing = Standing { descent: entered, parent, child, before };
        let leaf = leaf_of(&tree, &key);
        assert!(child == leaf.border.node());
        let finger = Finger::at(&leaf, &key);
        let (mut place, mut diverged) = (descend(&tree.shape, &new), descend(&tree.shape, &left));
        remove(&tree, (3..40).map(|n| grouped(20, n)));
        assert!(above.child.version().load().is_deleted());
        assert!(child.version().load().is_root() && child.prefix_handle() != 0);
        if used_again {
            (21..29).for_each(|group| put(&tree, (0..40).map(|n| grouped(group, n)), 1));
            assert!(!above.child.version().load().is_deleted());
        }
        assert!(above.go_on().is_none() && standing.go_on().is_none());
        assert_eq!(answer(&tree, at_root), None);
        assert!(find_validated(&leaf, &guard).is_none() && finger.follow(&key, &key).is_none());
        put_at(&tree, &new, &mut place, 8);
        put_at(&tree, &left, &mut diverged, 9);
        assert_values(&tree, &[(&key, 7), (&new, 8), (&left, 9)]);
        drop(guard);
        tree.check().unwrap();
    }
}

/// The root of a layer below a node makes way once, and not while it has two children.
#[test]
fn a_root_of_a_layer_is_replaced_once() {
    let mut tree = with_one_node();
    let key = grouped(10, GROUP - 1);
    let Kind::Interior(root) = before_layer(&tree, &key).child.kind() else { panic!("two levels") };
    assert_eq!(root.count(), 1);
    assert!(shrink(&tree.shape, root) == Reclaimed::Changed);
    let leaf = emptied(&tree, &key);
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) != Reclaimed::Changed);
    assert_eq!(root.count(), 0);
    assert!(matches!(shrink(&tree.shape, root), Reclaimed::Below(_)));
    assert!(shrink(&tree.shape, root) == Reclaimed::Changed);
    (0..GROUP - 1).for_each(|n| assert_eq!(tree.get(&grouped(10, n), &pin()), Some(7)));
    tree.check().unwrap();
}

/// The root of the tree goes, and its memory is the root again: another one, under another version.
#[test]
fn a_root_that_went_and_came_back_is_not_the_same() {
    let (mut tree, guard) = (numbers(0..40), pin());
    let key = number(39);
    let old = root(&tree);
    let descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    remove(&tree, (3..40).map(|n| number(n).to_vec()));
    assert!(matches!(root(&tree).kind(), Kind::Border(_)));
    let more = (1000..1100).map(number).take_while(|_| root(&tree) != old);
    more.for_each(|key| assert!(tree.insert(&key, 1, &guard).is_none()));
    assert!(root(&tree) == old && old.version().load().is_root());
    tree.insert(&key, 8, &guard);
    assert_eq!(answer(&tree, descent), None);
    assert_eq!(tree.get(&key, &guard), Some(8));
    drop(guard);
    tree.check().unwrap();
}

/// A reader has read the root of a layer from the node above. The layer goes, and the root is that
/// of a layer elsewhere, or of one in the same place.
#[test]
fn a_descent_does_not_enter_a_layer_that_took_the_place() {
    for group in [20, 25] {
        let (mut tree, guard) = (with_one_node(), pin());
        let key = grouped(20, 3);
        let above = before_layer(&tree, &key);
        let entered = above.go_on().unwrap();
        remove(&tree, (0..8).map(|n| grouped(20, n)));
        assert!(above.child.version().load().is_deleted());
        put(&tree, (0..200).map(|n| grouped(group, n)), 1);
        assert!(!above.child.version().load().is_deleted(), "it is in use again");
        assert!(above.go_on().is_none());
        assert_eq!(answer(&tree, entered), None);
        assert_eq!(tree.get(&key, &guard), (group == 20).then_some(1));
        drop(guard);
        tree.check().unwrap();
    }
}
