//! Removed nodes, the reuse of their memory, and reclamation by a thread whose search is out of
//! date.

use super::*;

/// Removal of a node: its readers start again, and its range is the left neighbour's.
#[test]
fn the_left_neighbour_takes_over_the_range_of_a_removed_node() {
    let (mut tree, guard) = (numbers(0..300), pin());
    let gone = border_of(&tree, 150);
    let (version, parent) = (gone.version().stable(), parent_of(&tree, gone));
    let parent_version = parent.version().stable();
    let (low, high) = (gone.low(), gone.high());
    let left = border_of(&tree, low.slice - 1);
    let left_version = left.version().stable();
    for n in low.slice..high.unwrap().slice {
        tree.remove(&number(n), &guard);
    }
    assert!(gone.version().stable().is_deleted() && !gone.version().validate(version));
    assert!(!left.version().validate(left_version));
    assert!(!parent.version().validate(parent_version));
    assert_eq!(left.high(), high);
    for n in low.slice..high.unwrap().slice {
        assert!(border_of(&tree, n) == left);
        assert_eq!(tree.get(&number(n), &guard), None);
    }
    tree.insert(&number(low.slice), 1, &guard);
    assert_eq!(tree.get(&number(low.slice), &guard), Some(1));
    drop(guard);
    tree.check().unwrap();
}

/// The first child of an interior node goes away: the separator that moves stands further up, and
/// everything between is disturbed. Emptied from left to right, every interior node loses its first
/// child. With keys that continue after their slice, separators are fences of such keys.
#[test]
fn separators_move_when_first_children_go_away() {
    for end in [&b""[..], b"continues"] {
        let key = |n: u64| [&number(n)[..], end].concat();
        let mut tree = Tree::<u64>::new();
        (0..4000).for_each(|n| assert!(tree.insert(&key(n), n, &pin()).is_none()));
        for n in 1..4000 {
            let guard = pin();
            let this = key(n);
            let leaf = leaf_of(&tree, &this);
            assert_eq!(tree.remove(&this, &guard), Some(n));
            if leaf.border.version().stable().is_deleted() {
                assert!(!leaf.border.version().validate(leaf.version));
                // A key that comes back right then goes where readers look for it.
                tree.insert(&this, n, &guard);
                assert_eq!(tree.get(&this, &guard), Some(n));
                tree.remove(&this, &guard);
            }
            if n + 1 < 4000 {
                assert_eq!(tree.get(&key(n + 1), &guard), Some(n + 1));
            }
            drop(guard);
            if n.is_multiple_of(15) {
                tree.check().unwrap();
            }
        }
        let stats = tree.check().unwrap();
        assert_eq!((stats.borders, stats.interiors), (1, 0));
    }
}

/// A reader has read a child from the node that holds the separator which moves. The first node
/// below that child goes, so the key is not there any more, but before.
#[test]
fn the_node_with_the_separator_that_moves_disturbs_its_readers() {
    let (mut tree, guard) = (numbers(0..1000), pin());
    let Kind::Interior(root) = root(&tree).kind() else { panic!("three levels") };
    let low = root.separator(0).slice;
    let key = number(low);
    let gone = border_of(&tree, low);
    let mut descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    let Some(Next::Child { parent, child, before }) = descent.next(tree.shape.space()) else {
        panic!("the root is an interior node")
    };
    let standing = Standing { descent, parent, child, before };
    assert!(standing.go_on().is_some() && child == parent_of(&tree, gone).node());
    let high = gone.high().unwrap().slice;
    remove(&tree, (low..high).map(|n| number(n).to_vec()));
    assert_eq!(root.separator(0).slice, high);
    assert!(!child.version().load().is_deleted() && standing.go_on().is_none());
    tree.insert(&key, 8, &guard);
    assert_eq!(tree.get(&key, &guard), Some(8));
    drop(guard);
    tree.check().unwrap();
}

/// The memory of a node begins another incarnation while a reader descends to it: the versions of
/// the parent and of the node show it.
#[test]
fn a_second_incarnation_of_a_node_invalidates_readers_of_the_first() {
    let (mut tree, guard) = (numbers(0..2000), pin());
    let gone = border_of(&tree, 1000);
    let version = gone.version().stable();
    let (low, high) = (gone.low().slice, gone.high().unwrap().slice);
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
    assert!(version.split_since(gone.version().stable()));
    assert_eq!(tree.get(&number(low), &guard), None);
    drop(guard);
    tree.check().unwrap();
}

/// The tree shrinks to one node under a reader that holds its old root.
#[test]
fn a_root_that_went_leads_nowhere() {
    let (mut tree, guard) = (numbers(0..5000), pin());
    let key = number(7);
    let mut descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    let old = root(&tree);
    for n in 0..5000 {
        tree.remove(&number(n), &guard);
    }
    assert!(old.version().load().is_deleted());
    if let Some(Next::Child { parent, child, before }) = descent.next(tree.shape.space()) {
        assert!(descent.enter(parent, child, before).is_none());
    }
    assert!(matches!(root(&tree).kind(), Kind::Border(_)));
    assert_eq!(tree.get(&key, &guard), None);
    drop(guard);
    tree.check().unwrap();
}

/// An empty node gets a key before it is taken out.
#[test]
fn a_node_that_is_not_empty_any_more_stays() {
    let mut tree = numbers(0..31);
    let key = number(15);
    let leaf = emptied(&tree, &key);
    tree.insert(&key, 15, &pin());
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) == Reclaimed::Changed);
    assert_eq!(tree.get(&key, &pin()), Some(15));
    tree.check().unwrap();
}

/// The same for the node of a layer.
#[test]
fn a_layer_that_is_not_empty_any_more_stays() {
    let mut tree = numbers(0..31);
    put(&tree, (0..GROUP).map(|n| grouped(1, n)), 7);
    remove(&tree, (1..GROUP).map(|n| grouped(1, n)));
    let key = grouped(1, 0);
    let leaf = emptied(&tree, &key);
    assert!(leaf.version.is_root() && leaf.border.node().parent(tree.shape.space()).is_some());
    tree.insert(&key, 1, &pin());
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) == Reclaimed::Changed);
    let leaf = emptied(&tree, &key);
    assert!(matches!(remove_border(&tree.shape, leaf.border, leaf.version), Reclaimed::Below(_)));
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) == Reclaimed::Changed, "once");
    tree.check().unwrap();
}

/// The neighbour of an empty node is locked by somebody, who may wait for a lock of this thread.
#[test]
fn a_removal_does_not_wait_for_the_neighbour() {
    let mut tree = numbers(0..31);
    let key = number(15);
    let leaf = emptied(&tree, &key);
    let left = border_of(&tree, 14);
    let locked = left.version().lock();
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) == Reclaimed::Changed);
    drop(locked);
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) != Reclaimed::Changed);
    reclaim_nodes(&tree.shape, &key, left);
    tree.check().unwrap();
}

/// A root has one child, and two again before it makes way.
#[test]
fn a_root_that_is_not_alone_any_more_stays() {
    let mut tree = numbers(0..16);
    let key = number(15);
    let leaf = emptied(&tree, &key);
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) != Reclaimed::Changed);
    let Kind::Interior(root) = root(&tree).kind() else { panic!("two levels") };
    assert_eq!(root.count(), 0);
    for n in 15..17 {
        tree.insert(&number(n), n, &pin());
    }
    assert!(root.count() > 0 && shrink(&tree.shape, root) == Reclaimed::Changed);
    tree.check().unwrap();
}

/// A node that has a single child and is no root stays: all border nodes must be equally deep.
#[test]
fn only_a_root_makes_way_for_its_child() {
    let mut tree = numbers(0..1000);
    let parent = parent_of(&tree, border_of(&tree, 0));
    let Some(above) = parent.node().parent(tree.shape.space()) else { panic!("three levels") };
    let high = above.separator(0).slice;
    let here = |n: &u64| border_of(&tree, *n) != border_of(&tree, 0);
    let others: Vec<u64> = (0..high).filter(here).collect();
    remove(&tree, others.into_iter().map(|n| number(n).to_vec()));
    assert_eq!(parent.count(), 0);
    assert!(shrink(&tree.shape, parent) == Reclaimed::Changed);
    tree.check().unwrap();
}

/// A root makes way once: the second thread finds that its child has another parent.
#[test]
fn a_root_is_replaced_once() {
    let mut tree = numbers(0..16);
    let key = number(15);
    let leaf = emptied(&tree, &key);
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) != Reclaimed::Changed);
    let Kind::Interior(root) = root(&tree).kind() else { panic!("two levels") };
    assert!(matches!(shrink(&tree.shape, root), Reclaimed::Below(_)));
    assert!(shrink(&tree.shape, root) == Reclaimed::Changed);
    tree.check().unwrap();
}

/// A parent splits before it is locked, and the child is the new one's.
#[test]
fn only_the_parent_of_today_is_locked() {
    let mut tree = numbers(0..15 * 25);
    let space = tree.shape.space();
    let child = border_of(&tree, 15 * 25 - 1);
    let parent = parent_of(&tree, child);
    assert!(child.node().try_lock_parent(space, parent).is_some());
    tree.insert(&number(15 * 25), 0, &pin());
    assert!(parent_of(&tree, child) != parent);
    assert!(child.node().try_lock_parent(space, parent).is_none());
    assert!(!parent.version().load().is_locked());
    tree.check().unwrap();
}

/// An empty tree has no prefix.
#[test]
fn an_emptied_tree_loses_its_prefix() {
    let mut tree = Tree::<u64>::new();
    put(&tree, (0..GROUP).map(|n| grouped(1, n)), 7);
    let key = grouped(2, 1);
    assert!(matches!(descend(&tree.shape, &key), Destination::Diverged { .. }));
    remove(&tree, (0..GROUP).map(|n| grouped(1, n)));
    let leaf = leaf_of(&tree, &key);
    assert_eq!((leaf.rest.bytes.len(), leaf.border.low()), (key.len(), Fence::default()));
    tree.check().unwrap();
}

/// The left neighbour is split before the node is taken out: its right half takes over the range.
#[test]
fn the_left_neighbour_is_that_of_today() {
    let mut tree = numbers(0..31);
    let key = number(15);
    let (before, leaf) = (border_of(&tree, 14), emptied(&tree, &key));
    let high = leaf.border.high();
    // It would share its entries with the empty node.
    let locked = leaf.border.version().lock();
    put(&tree, (0..15).map(|n| [&number(n)[..], b"end"].concat()), 1);
    drop(locked);
    let left = border_of(&tree, 14);
    assert!(left != before, "it was split");
    assert!(matches!(remove_border(&tree.shape, leaf.border, leaf.version), Reclaimed::Below(_)));
    assert!(left.high() == high && border_of(&tree, 15) == left);
    tree.check().unwrap();
}

/// The left neighbour becomes a layer before the node is taken out, and that may go as well: a gap
/// takes over the range, or the node before.
#[test]
fn the_left_neighbour_is_a_layer_by_now_or_was_one() {
    for goes in [false, true] {
        let (mut tree, key) = (numbers(0..15), number(20));
        let long = |n: u64| [&number(14)[..], &number(n)].concat();
        put(&tree, (0..14).map(long), 1);
        put(&tree, [key.to_vec(), long(14)].into_iter(), 1);
        let left = leaf_of(&tree, &long(0)).border;
        let leaf = emptied(&tree, &key);
        assert!(left.high() == Some(leaf.border.low()) && left.permutation().len() == 15);
        put(&tree, [long(15)].into_iter(), 1);
        assert_eq!(tree.stats().layers, 2);
        if goes {
            remove(&tree, (0..16).map(long));
            assert_eq!(tree.stats().layers, 1);
        }
        let removed = remove_border(&tree.shape, leaf.border, leaf.version);
        assert!(matches!(removed, Reclaimed::Below(_)));
        reclaim_nodes(&tree.shape, &key, leaf.border);
        assert_eq!(descend(&tree.shape, &key).leaf().is_some(), goes);
        assert_eq!(tree.get(&key, &pin()), None);
        put(&tree, [key.to_vec()].into_iter(), 1);
        assert_eq!(tree.get(&key, &pin()), Some(1));
        tree.check().unwrap();
    }
}

/// An empty node went, and its memory is an empty node elsewhere.
#[test]
fn a_node_that_went_is_not_taken_out_again() {
    let mut tree = numbers(0..31);
    let (key, other) = (number(15), number(1000));
    let leaf = emptied(&tree, &key);
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) != Reclaimed::Changed);
    let more = (100..1000).take_while(|_| leaf.border.version().load().is_deleted());
    let more: Vec<u64> =
        more.inspect(|n| put(&tree, [number(*n).to_vec()].into_iter(), 1)).collect();
    let last = number(*more.last().unwrap());
    let again = emptied(&tree, &last);
    assert!(again.border == leaf.border);
    assert!(remove_border(&tree.shape, leaf.border, leaf.version) == Reclaimed::Changed);
    tree.insert(&other, 1, &pin());
    tree.insert(&last, 1, &pin());
    tree.check().unwrap();
}

/// The node that a removal has left empty is gone already, and what is left to do is above. The key
/// is searched for again, wherever it would be now.
#[test]
fn reclamation_goes_on_where_the_key_would_be() {
    let (mut tree, key) = (numbers(0..16), number(15));
    let leaf = emptied(&tree, &key);
    let removed = remove_border(&tree.shape, leaf.border, leaf.version);
    assert!(matches!(removed, Reclaimed::Below(_)));
    let Kind::Interior(alone) = root(&tree).kind() else { panic!("two levels") };
    assert_eq!(alone.count(), 0);
    reclaim_nodes(&tree.shape, &key, leaf.border);
    assert!(root(&tree) == border_of(&tree, 0).node());
    // Later still, it is without the prefix of the tree.
    remove(&tree, (0..15).map(|n| number(n).to_vec()));
    put(&tree, (0..GROUP).map(|n| grouped(2, n)), 1);
    remove(&tree, (1..GROUP).map(|n| grouped(2, n)));
    assert!(leaf.border.version().load().is_deleted());
    assert!(matches!(descend(&tree.shape, &key), Destination::Diverged { .. }));
    reclaim_nodes(&tree.shape, &key, leaf.border);
    tree.check().unwrap();
}

/// The same in a gap, after a layer.
#[test]
fn reclamation_goes_on_in_a_gap() {
    let (mut tree, key) = (with_gaps(), [15; 8]);
    put(&tree, [key.to_vec()].into_iter(), 7);
    let leaf = emptied(&tree, &key);
    let removed = remove_border(&tree.shape, leaf.border, leaf.version);
    assert!(matches!(removed, Reclaimed::Below(_)));
    assert!(matches!(descend(&tree.shape, &key), Destination::Gap { .. }));
    reclaim_nodes(&tree.shape, &key, leaf.border);
    assert_eq!(tree.check().unwrap().keys, 120);
}

/// The same with work left: the root has a single child, which ends with the layer before the gap.
#[test]
fn a_root_makes_way_above_a_gap() {
    let (mut tree, mut last) = (numbers(0..1), 1);
    // Until the root is cut.
    loop {
        last += 4;
        put(&tree, (0..GROUP).map(|n| grouped(last, n)), 7);
        if before_layer(&tree, &grouped(last, 0)).parent.node() != root(&tree) {
            break;
        }
    }
    // The second node has two layers. A key comes between them, and they go.
    let key = [last - 1; 8];
    put(&tree, [key.to_vec()].into_iter(), 7);
    for group in [last, last - 4] {
        remove(&tree, (0..GROUP).map(|n| grouped(group, n)));
    }
    let Kind::Interior(old) = root(&tree).kind() else { panic!("three levels") };
    let leaf = emptied(&tree, &key);
    let second = leaf.border.node().parent(tree.shape.space()).unwrap();
    assert_eq!((old.count(), second.count()), (1, 0));
    let removed = remove_border(&tree.shape, leaf.border, leaf.version);
    assert!(removed == Reclaimed::Below(old.node()) && old.count() == 0);
    let Destination::Gap { parent, .. } = descend(&tree.shape, &key) else {
        panic!("a gap is left")
    };
    reclaim_nodes(&tree.shape, &key, leaf.border);
    assert!(root(&tree) == parent.node());
    tree.check().unwrap();
}

/// A layer went, and another thread has yet to replace the root above. Those who come to the node
/// of the layer leave that to it.
#[test]
fn a_layer_that_went_is_not_taken_for_the_tree() {
    let (mut tree, key) = (Tree::<u64>::new(), grouped(1, 0));
    put(&tree, (0..GROUP).map(|n| grouped(1, n)), 1);
    put(&tree, [vec![0]].into_iter(), 1);
    remove(&tree, (1..GROUP).map(|n| grouped(1, n)));
    let leaf = emptied(&tree, &key);
    let removed = remove_border(&tree.shape, leaf.border, leaf.version);
    let Reclaimed::Below(above) = removed else { panic!("the layer is empty") };
    let Kind::Interior(above) = above.kind() else { panic!("it was below a node") };
    reclaim_nodes(&tree.shape, &key, leaf.border);
    assert!(root(&tree) == above.node() && above.count() == 0);
    assert!(matches!(shrink(&tree.shape, above), Reclaimed::Below(_)));
    let stats = tree.stats();
    assert_eq!((stats.keys, stats.layers, stats.interiors), (1, 1, 0));
    // Its prefix was ended once.
    put(&tree, (0..GROUP).map(|n| grouped(2, n)), 1);
    assert_eq!(tree.check().unwrap().prefixes, 1);
}

/// The leftmost node of a layer is empty and stays, without disturbing its readers, as long as it
/// has neighbours. The layer goes when they have gone.
#[test]
fn a_leftmost_node_stays_until_it_is_alone() {
    let mut tree = Tree::<u64>::new();
    put(&tree, (0..31).map(|n| grouped(1, n)), 7);
    put(&tree, [vec![2; 8]].into_iter(), 7);
    let (key, guard) = (grouped(1, 0), pin());
    let leaf = leaf_of(&tree, &key);
    assert_eq!(leaf.border.low(), Fence::default());
    let layers = tree.stats().layers;
    let here = |n: &u64| leaf_of(&tree, &grouped(1, *n)).border == leaf.border;
    let (leftmost, others): (Vec<u64>, Vec<u64>) = (0..31).partition(here);
    remove(&tree, leftmost.iter().map(|n| grouped(1, *n)));
    assert_eq!(leaf.border.permutation().len(), 0);
    assert!(matches!(find_validated(&leaf, &guard), Some(None)), "nobody is disturbed");
    let version = leaf.border.version().load();
    assert!(remove_border(&tree.shape, leaf.border, version) == Reclaimed::Nothing);
    assert_eq!(tree.stats().layers, layers);
    remove(&tree, others.iter().map(|n| grouped(1, *n)));
    assert_eq!(tree.stats().layers, layers - 1);
    assert!(find_validated(&leaf, &guard).is_none());
    put_at(&tree, &key, &mut Destination::Leaf(leaf), 8);
    assert_eq!(tree.get(&key, &guard), Some(8));
    drop(guard);
    tree.check().unwrap();
}
