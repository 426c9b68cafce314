//! Gaps after layers: they are filled, and come back, under readers and writers.

use super::*;

/// A gap is filled under readers. Those who stand above begin anew; the layer is not disturbed.
#[test]
fn a_gap_that_is_filled_disturbs_readers_of_the_node_above_only() {
    let (mut tree, guard) = (with_gaps(), pin());
    let (absent, present) = (vec![15; 8], grouped(10, 39));
    let (above, looking) = (before_layer(&tree, &present), before_layer(&tree, &absent));
    assert!(above.child == looking.child, "the gap is after the layer");
    let entered = looking.go_on().unwrap();
    let Destination::Gap { parent, version, .. } = descend(&tree.shape, &absent) else {
        panic!("the key is in a gap")
    };
    let leaf = leaf_of(&tree, &present);
    let finger = Finger::at(&leaf, &present);
    put(&tree, [absent.clone()].into_iter(), 9);
    assert!(above.go_on().is_none() && looking.go_on().is_none());
    assert!(version.changed(parent.version().load()));
    assert_eq!(answer(&tree, entered), Some(None), "it was absent when the layer was entered");
    assert!(matches!(find_validated(&leaf, &guard), Some(Some(_))));
    assert!(finger.follow(&present, &present).is_some());
    assert_eq!(tree.get(&absent, &guard), Some(9));
    drop(guard);
    tree.check().unwrap();
}

/// The node in a gap goes, and the gap is back, under those who hold the node. Its left neighbour
/// is a layer, which has no range to widen.
#[test]
fn a_gap_comes_back_when_its_node_goes() {
    for key in [vec![15; 8], vec![25; 12], vec![35; 3]] {
        let (mut tree, guard) = (with_gaps(), pin());
        put(&tree, [key.clone()].into_iter(), 9);
        let other = grouped(20, 0);
        let layer = before_layer(&tree, &other);
        let leaf = leaf_of(&tree, &key);
        let finger = Finger::at(&leaf, &key);
        remove(&tree, [key.clone()].into_iter());
        assert!(leaf.border.version().load().is_deleted());
        assert!(layer.go_on().is_none());
        assert!(matches!(descend(&tree.shape, &key), Destination::Gap { .. }));
        assert!(find_validated(&leaf, &guard).is_none() && finger.follow(&key, &key).is_none());
        put_at(&tree, &key, &mut Destination::Leaf(leaf), 8);
        assert_eq!(tree.get(&key, &guard), Some(8));
        drop(guard);
        tree.check().unwrap();
    }
}

/// A gap is filled and comes back while a writer holds it.
#[test]
fn a_gap_that_was_filled_and_came_back_is_filled() {
    let mut tree = with_gaps();
    let key = vec![15; 12];
    let mut place = descend(&tree.shape, &key);
    put(&tree, [vec![15; 8]].into_iter(), 9);
    remove(&tree, [vec![15; 8]].into_iter());
    put_at(&tree, &key, &mut place, 8);
    assert_eq!(tree.get(&key, &pin()), Some(8));
    tree.check().unwrap();
}

/// Many writers hold gaps below the same nodes, which are full of layers: they are cut meanwhile.
#[test]
fn gaps_are_filled_below_nodes_that_are_cut() {
    let groups = || (3..250).step_by(4);
    let gap = |group: u8| vec![group + 1; 8];
    let orders: [fn(&mut Vec<u8>); 3] =
        [|_| (), |groups| groups.reverse(), |groups| groups.sort_by_key(|g| g.reverse_bits())];
    for order in orders {
        let mut tree = Tree::<u64>::new();
        groups().for_each(|group| put(&tree, (0..GROUP).map(|n| grouped(group, n)), 7));
        let interiors = tree.stats().interiors;
        let keys: Vec<_> = groups().map(gap).collect();
        let mut places: Vec<_> = keys.iter().map(|key| descend(&tree.shape, key)).collect();
        assert!(places.iter().all(|place| matches!(place, Destination::Gap { .. })));
        let mut turns: Vec<u8> = (0..keys.len() as u8).collect();
        order(&mut turns);
        for at in turns.into_iter().map(usize::from) {
            put_at(&tree, &keys[at], &mut places[at], 8);
        }
        assert!(tree.stats().interiors > interiors);
        keys.iter().for_each(|key| assert_eq!(tree.get(key, &pin()), Some(8)));
        for group in groups() {
            (0..GROUP).for_each(|n| assert_eq!(tree.get(&grouped(group, n), &pin()), Some(7)));
        }
        tree.check().unwrap();
    }
}

/// A gap between layers of a layer, which has a prefix, is filled by two writers.
#[test]
fn a_gap_inside_a_layer_is_filled_by_two_writers() {
    let within = |key: &[u8]| [b"all of these ..!", key].concat();
    let mut tree = Tree::<u64>::new();
    for group in [10, 20, 30] {
        put(&tree, (0..GROUP).map(|n| within(&grouped(group, n))), 7);
    }
    assert!(root(&tree).prefix(tree.shape.space()).is_some());
    for (first, second) in [(15, 16), (26, 25), (35, 35)] {
        let (first, second) = (within(&[first; 8]), within(&[second; 9]));
        let mut place = descend(&tree.shape, &first);
        assert!(matches!(place, Destination::Gap { .. }));
        put(&tree, [second.clone()].into_iter(), 9);
        put_at(&tree, &first, &mut place, 8);
        let guard = pin();
        assert_eq!((tree.get(&first, &guard), tree.get(&second, &guard)), (Some(8), Some(9)));
    }
    tree.check().unwrap();
}
