//! Full nodes that share their entries with a neighbour, under readers and writers that hold
//! positions in both.

use super::*;

/// Three nodes below one parent: the one in the middle is full, and one of the others has room.
fn with_room(side: Side) -> Tree<u64> {
    let tree = numbers(0..45);
    let gone = if side == Side::Left { 5..15 } else { 35..45 };
    remove(&tree, gone.map(|n| number(n).to_vec()));
    assert_eq!(tree.stats().borders, 3);
    assert_eq!(border_of(&tree, 15).permutation().len(), 15);
    tree
}

/// Right after a number.
fn beside(n: u64) -> Vec<u8> {
    [&number(n)[..], b"end"].concat()
}

/// The full node, the one with room and their parent disturb their readers. Both are equally full.
#[test]
fn a_full_node_shares_with_a_neighbour_that_has_room() {
    for (side, n) in Side::BOTH.into_iter().flat_map(|side| [15, 22, 29].map(|n| (side, n))) {
        let mut tree = with_room(side);
        let (full, other) = (border_of(&tree, 15), if side == Side::Left { 0 } else { 30 });
        let other = border_of(&tree, other);
        let all = [full.node(), other.node(), parent_of(&tree, full).node()];
        let before = all.map(|node| node.version().load());
        put(&tree, [beside(n)].into_iter(), 8);
        for (node, version) in all.iter().zip(before) {
            assert!(version.split_since(node.version().load()));
        }
        let counts = [full, other].map(|border| border.permutation().len());
        assert!(counts == [10, 11] || counts == [11, 10], "{counts:?}");
        assert_eq!(tree.get(&beside(n), &pin()), Some(8));
        assert_eq!(tree.check().unwrap().borders, 3);
    }
}

/// Who has found one of the two nodes, or stands above, begins anew.
#[test]
fn positions_in_nodes_that_share_lead_nowhere() {
    for (side, n) in Side::BOTH.into_iter().flat_map(|side| [2, 15, 20, 29, 32].map(|n| (side, n)))
    {
        let (mut tree, guard) = (with_room(side), pin());
        let shares = (n >= 15 || side == Side::Left) && (n < 30 || side == Side::Right);
        let (key, new) = (number(n), beside(n));
        let mut above = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
        let Some(Next::Child { parent, child, before }) = above.next(tree.shape.space()) else {
            panic!("the root is an interior node")
        };
        let standing = Standing { descent: above, parent, child, before };
        let entered = standing.go_on().unwrap();
        let leaf = leaf_of(&tree, &key);
        let finger = Finger::at(&leaf, &key);
        let mut place = descend(&tree.shape, &new);
        put(&tree, [beside(23)].into_iter(), 1);
        assert!(standing.go_on().is_none(), "the parent has changed");
        assert_eq!(answer(&tree, entered).is_none(), shares);
        assert_eq!(find_validated(&leaf, &guard).is_none(), shares);
        assert_eq!(finger.follow(&key, &key).is_none(), shares);
        put_at(&tree, &new, &mut place, 8);
        assert_eq!((tree.get(&new, &guard), tree.get(&key, &guard)), (Some(8), Some(n)));
        drop(guard);
        tree.check().unwrap();
    }
}

/// The neighbour is locked by somebody, who may wait for the parent; or it has too little room.
#[test]
fn a_node_is_cut_if_no_neighbour_can_share() {
    for (side, locked) in Side::BOTH.into_iter().flat_map(|side| [(side, false), (side, true)]) {
        let mut tree = with_room(side);
        let (other, from) = if side == Side::Left { (0, 5) } else { (30, 35) };
        let neighbour = border_of(&tree, other);
        let lock = locked.then(|| neighbour.version().lock());
        if !locked {
            put(&tree, (from..from + 6).map(|n| number(n).to_vec()), 1);
        }
        let version = neighbour.version().load();
        put(&tree, [beside(23)].into_iter(), 8);
        drop(lock);
        assert!(!version.split_since(neighbour.version().load()));
        assert_eq!(tree.get(&beside(23), &pin()), Some(8));
        assert_eq!(tree.check().unwrap().borders, 4);
    }
}

/// At the ends of a layer, keys may come in order: they get a node of their own.
#[test]
fn keys_in_order_are_not_shared() {
    for (side, key) in [(Side::Left, 45), (Side::Right, 0)] {
        let mut tree = numbers(1..46);
        // Beside the last node, and beside the first.
        let middle = border_of(&tree, 20);
        remove(&tree, (17..24).map(|n| number(n).to_vec()));
        if side == Side::Left {
            remove(&tree, (45..46).map(|n| number(n).to_vec()));
            put(&tree, [beside(44)].into_iter(), 1);
        }
        let version = middle.version().load();
        put(&tree, [number(key).to_vec()].into_iter(), 1);
        assert!(!version.split_since(middle.version().load()));
        assert_eq!(border_of(&tree, key).permutation().len(), 1);
        assert_eq!(tree.check().unwrap().borders, 4);
    }
}

/// The root of a layer, which has few keys, is beside a full node. Its keys begin elsewhere.
#[test]
fn a_node_does_not_share_with_a_layer() {
    let mut tree = Tree::<u64>::new();
    put(&tree, (0..GROUP).map(|n| grouped(20, n)), 7);
    put(&tree, (1..16).map(|n| vec![n]), 7);
    remove(&tree, (2..GROUP).map(|n| grouped(20, n)));
    let before = tree.check().unwrap();
    assert_eq!((before.layers, before.borders), (2, 2));
    put(&tree, [vec![7, 7]].into_iter(), 7);
    let after = tree.check().unwrap();
    assert_eq!((after.layers, after.borders), (2, 3));
}

/// Keys of one slice that continue after it stay together: the share is less even, or the node is
/// cut.
#[test]
fn keys_that_must_stay_together_are_not_shared() {
    let long = |n: u8| [&[15; 8][..], &[n]].concat();
    for (together, after) in [(2, 4), (9, 0)] {
        let mut tree = Tree::<u64>::new();
        put(&tree, (0..15 - together - after).map(|n| vec![n]), 1);
        put(&tree, (0..together).map(long), 1);
        put(&tree, (16..16 + after).map(|n| vec![n]), 1);
        put(&tree, (100..115).map(|n| vec![n]), 1);
        remove(&tree, (106..115).map(|n| vec![n]));
        assert_eq!(tree.check().unwrap().borders, 2);
        // An even share is of eleven keys each. The twelfth is one of the slice.
        put(&tree, [vec![0, 1]].into_iter(), 1);
        let counts =
            [vec![0], vec![100]].map(|key| leaf_of(&tree, &key).border.permutation().len());
        assert_eq!(counts, if after > 0 { [12, 10] } else { [7, 6] });
        let here: Vec<_> = (0..together).map(long).collect();
        let here: Vec<_> = here.iter().map(|key| leaf_of(&tree, key).border).collect();
        assert!(here.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(tree.check().unwrap().borders, if after > 0 { 2 } else { 3 });
    }
}

/// A tree grows in random order. Readers stand in all nodes when entries move.
#[test]
fn all_places_are_left_or_right_after_every_insert() {
    let key = |n: u64| number(n * 7919 % 600 * 16).to_vec();
    let (mut tree, mut shares) = (Tree::<u64>::new(), [0, 0]);
    let probes: Vec<Vec<u8>> = (0..600).step_by(25).map(|n| number(n * 16 + 1).to_vec()).collect();
    for n in 0..600 {
        let all: Vec<_> = probes.iter().map(|probe| Places::of(&tree, probe)).collect();
        let (before, this) = (tree.stats(), key(n));
        let leaf = leaf_of(&tree, &this);
        put(&tree, [this.clone()].into_iter(), 7);
        let moved = leaf.version.split_since(leaf.border.version().load());
        if moved && tree.stats().borders == before.borders {
            shares[0] += 1;
            for (places, probe) in all.iter().zip(&probes) {
                tree.insert(probe, 8, &pin());
                shares[1] += usize::from(places.go_on(&tree, 8) > 0);
            }
            drop(all);
            remove(&tree, probes.iter().cloned());
            tree.check().unwrap();
        }
    }
    assert!(shares[0] > 20 && shares[1] > 20, "{shares:?}");
}
