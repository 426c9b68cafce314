//! Layers that begin, prefixes that are divided, gaps that are filled.

use super::*;

/// A node begins a layer under a reader: its cells have lost their values, and the version tells.
#[test]
fn a_node_that_begins_a_layer_disturbs_its_readers() {
    let (mut tree, guard) = (Tree::<Bytes>::new(), pin());
    put(&tree, (0..GROUP - 1).map(|n| grouped(1, n)), b"a value that is not inline");
    let key = grouped(1, 3);
    let (leaf, finger) = (leaf_of(&tree, &key), Finger::at(&leaf_of(&tree, &key), &key));
    let entry = find_validated(&leaf, &guard).unwrap().unwrap();
    put(&tree, [grouped(1, 99)].into_iter(), b"value");
    assert_eq!(tree.stats().prefixes, 1);
    assert!(leaf.version.split_since(leaf.border.version().stable()));
    assert!(find_validated(&leaf, &guard).is_none());
    assert!(finger.follow(&key, &key).is_none());
    assert!(matches!(value_of(&tree.shape, entry, &guard), Value::Lost));
    assert_eq!(&*tree.get(&key, &guard).unwrap(), b"a value that is not inline");
    drop(guard);
    tree.check().unwrap();
}

/// A key moves into a new layer, with its value. The next holder of the lock may replace and retire
/// the value there, so the old cell must have lost it by then.
#[test]
fn a_cell_has_lost_its_value_before_its_node_is_unlocked() {
    for _ in 0..200 {
        let (tree, guard) = (Tree::<Bytes>::new(), pin());
        put(&tree, (0..GROUP - 1).map(|n| grouped(1, n)), b"a value that is not inline");
        let key = grouped(1, 0);
        let leaf = leaf_of(&tree, &key);
        // SAFETY: the entry was found under the guard.
        let cell = unsafe { find_validated(&leaf, &guard).unwrap().unwrap().cell() }.unwrap();
        let version = leaf.border.version();
        std::thread::scope(|scope| {
            scope.spawn(|| put(&tree, [grouped(1, 99)].into_iter(), b"value"));
            loop {
                let (now, value) = (version.load(), cell.value());
                if leaf.version.changed(now) && !now.is_dirty() {
                    assert_eq!(value, 0);
                    break;
                }
            }
        });
    }
}

/// A writer has found its node, which begins a layer before the writer locks it.
#[test]
fn a_writer_searches_again_after_its_node_began_a_layer() {
    let mut tree = Tree::<u64>::new();
    put(&tree, (0..GROUP - 1).map(|n| grouped(1, n)), 7);
    let keys = [grouped(1, 200), b"another key".to_vec()];
    for key in &keys {
        let mut place = descend(&tree.shape, key);
        put(&tree, [[&grouped(1, 100)[..], key].concat()].into_iter(), 7);
        put_at(&tree, key, &mut place, 8);
        assert_eq!(tree.get(key, &pin()), Some(8));
    }
    tree.check().unwrap();
}

/// A key without the prefix was found to be nowhere. Before it is stored, another one divides the
/// prefix, above or below, or removes what has it.
#[test]
fn a_prefix_is_divided_once_by_two_writers() {
    let diverged = |at: usize, byte: u8| {
        let mut key = grouped(1, 0);
        key[at] = byte;
        key
    };
    for (at, other) in [(0, 8), (8, 0), (8, 8), (16, 8), (9, 12)] {
        for (byte, other_byte) in [(0, 255), (255, 0), (2, 3)] {
            let mut tree = with_prefix();
            let (key, other) = (diverged(at, byte), diverged(other, other_byte));
            divide_twice(&tree, &key, &other, (1, GROUP));
            tree.check().unwrap();
        }
    }
}

/// The same, when the layer was emptied before.
#[test]
fn a_prefix_that_went_is_not_divided() {
    let mut tree = with_prefix();
    let key = b"another key";
    let mut place = descend(&tree.shape, key);
    remove(&tree, (0..GROUP).map(|n| grouped(1, n)));
    assert_eq!(tree.stats().prefixes, 0);
    put_at(&tree, key, &mut place, 8);
    let stats = tree.check().unwrap();
    assert_eq!((stats.keys, stats.borders, stats.prefixes), (1, 1, 0));
}

/// A descent reads the root of a layer, and its prefix is divided before the descent goes on: what
/// is left of the key is not what the node has now.
#[test]
fn a_descent_through_a_prefix_that_is_divided_begins_anew() {
    let mut tree = with_prefix();
    put(&tree, (GROUP..40).map(|n| grouped(1, n)), 7);
    let key = grouped(1, 5);
    let mut descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    let Some(Next::Child { parent, child, before }) = descent.next(tree.shape.space()) else {
        panic!("the layer has an interior node")
    };
    put(&tree, [b"another key".to_vec()].into_iter(), 9);
    assert!(descent.enter(parent, child, before).is_none());
    assert_eq!(get(&tree.shape, &key, &pin(), &mut None), Some(7));
    tree.check().unwrap();
}

/// A node in a layer is kept by a finger while the prefix above is divided: it is the same node.
#[test]
fn a_finger_stays_valid_while_a_prefix_above_is_divided() {
    let mut tree = with_prefix();
    put(&tree, (GROUP..40).map(|n| grouped(1, n)), 7);
    let key = grouped(1, 39);
    let finger = Finger::at(&leaf_of(&tree, &key), &key);
    put(&tree, [b"another key".to_vec()].into_iter(), 9);
    let leaf = finger.follow(&key, &key).unwrap();
    assert_eq!(get_here(&tree.shape, &leaf, &pin()), Some(Some(7)));
    tree.check().unwrap();
}

/// The memory of a prefix becomes that of another one while a reader looks at it.
#[test]
fn a_prefix_that_was_used_again_is_not_taken_for_the_old_one() {
    let (mut tree, guard) = (with_prefix(), pin());
    let (node, version) = tree.shape.top().unwrap();
    let handle = node.prefix_handle();
    remove(&tree, (0..GROUP).map(|n| grouped(1, n)));
    put(&tree, (0..GROUP).map(|n| grouped(2, n)), 7);
    let (node_now, _) = tree.shape.top().unwrap();
    assert!(node_now == node && node.prefix_handle() == handle, "the same memory");
    assert!(!node.version().validate(version));
    assert_eq!(tree.get(&grouped(1, 0), &guard), None);
    assert_eq!(tree.get(&grouped(2, 0), &guard), Some(7));
    drop(guard);
    tree.check().unwrap();
}

/// Two writers have found the same gap. Both keys are stored, in either order.
#[test]
fn a_gap_is_filled_by_two_writers() {
    for (first, second) in [(15, 15), (15, 16), (16, 15), (35, 36), (36, 35)] {
        let mut tree = with_gaps();
        let (first, second) = (vec![first; 8], vec![second; 9]);
        let mut place = descend(&tree.shape, &first);
        assert!(matches!(place, Destination::Gap { .. }), "{first:?}");
        put(&tree, [second.clone()].into_iter(), 9);
        put_at(&tree, &first, &mut place, 8);
        let guard = pin();
        assert_eq!((tree.get(&first, &guard), tree.get(&second, &guard)), (Some(8), Some(9)));
        drop(guard);
        tree.check().unwrap();
        remove(&tree, [first, second].into_iter());
        tree.check().unwrap();
    }
}

/// A writer has found a gap, and the layer before it goes, or the one after it.
#[test]
fn a_gap_is_not_filled_after_its_layer_went() {
    for group in [10, 20, 30] {
        let mut tree = with_gaps();
        let key = vec![15; 12];
        let mut place = descend(&tree.shape, &key);
        remove(&tree, (0..40).map(|n| grouped(group, n)));
        put_at(&tree, &key, &mut place, 8);
        assert_eq!(tree.get(&key, &pin()), Some(8));
        tree.check().unwrap();
    }
}

/// A reader stands in a layer that goes, and whose memory becomes another one.
#[test]
fn a_layer_that_went_is_not_taken_for_its_successor() {
    let (mut tree, guard) = (with_gaps(), pin());
    let key = grouped(20, 39);
    let (leaf, finger) = (leaf_of(&tree, &key), Finger::at(&leaf_of(&tree, &key), &key));
    remove(&tree, (0..40).map(|n| grouped(20, n)));
    for group in 21..29 {
        put(&tree, (0..40).map(|n| grouped(group, n)), 9);
    }
    assert!(!leaf.border.version().stable().is_deleted(), "it is in use again");
    assert!(find_validated(&leaf, &guard).is_none() && finger.follow(&key, &key).is_none());
    let mut place = Destination::Leaf(leaf);
    put_at(&tree, &key, &mut place, 8);
    assert_eq!(tree.get(&key, &guard), Some(8));
    drop(guard);
    tree.check().unwrap();
}

/// The root of a layer is cut under a reader that has read it from the node above.
#[test]
fn a_root_that_was_cut_is_not_entered_as_the_whole_layer() {
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    for group in [10, 20, 30] {
        put(&tree, (0..GROUP).map(|n| grouped(group, n)), 7);
    }
    // Until the layer is one border node.
    remove(&tree, (8..GROUP).map(|n| grouped(20, n)));
    let key = grouped(20, 3);
    let standing = before_layer(&tree, &key);
    put(&tree, (100..150).map(|n| grouped(20, n)), 7);
    assert!(!standing.child.version().load().is_root(), "it has a root above");
    assert!(standing.go_on().is_none());
    assert_eq!(get(&tree.shape, &key, &guard, &mut None), Some(7));
    drop(guard);
    tree.check().unwrap();
}

/// A node whose keys all continue after one slice, and that cares for keys before, too.
fn about_to_detach(slice: [u8; 8]) -> Tree<u64> {
    let tree = Tree::new();
    let long = |n: u8| [&slice[..], &[n]].concat();
    put(&tree, (b'a'..=b'o').map(|key| vec![key]), 7);
    put(&tree, [slice.to_vec()].into_iter(), 7);
    put(&tree, (0..14).map(long), 7);
    remove(&tree, [slice.to_vec()].into_iter());
    put(&tree, [long(14)].into_iter(), 7);
    tree
}

/// Keys leave their node for one that begins a layer, under a reader, a finger, and writers that
/// have found the old node: for a key of the layer, for those before it, and for the last one.
#[test]
fn keys_that_are_detached_are_searched_for_again() {
    for slice in [*b"slice678", [0; 8]] {
        let long = |n: u8| [&slice[..], &[n]].concat();
        for new in [long(99), slice.to_vec(), slice[..7].to_vec(), [&slice[..], &[255; 9]].concat()]
        {
            let (mut tree, guard) = (about_to_detach(slice), pin());
            let key = long(3);
            let leaf = leaf_of(&tree, &key);
            assert_eq!(
                (leaf.border.low().continuing, leaf.border.permutation().len()),
                (false, 15)
            );
            let finger = Finger::at(&leaf, &key);
            let mut place = descend(&tree.shape, &new);
            put(&tree, [long(15)].into_iter(), 7);
            let before = leaf_of(&tree, &slice).border;
            assert_eq!(before.low(), Fence::default(), "the node stays if it is the leftmost");
            assert_eq!(before == leaf.border, slice == [0; 8]);
            assert!(find_validated(&leaf, &guard).is_none());
            assert!(finger.follow(&key, &key).is_none());
            put_at(&tree, &new, &mut place, 8);
            (0..16).for_each(|n| assert_eq!(tree.get(&long(n), &guard), Some(7)));
            assert_eq!(tree.get(&new, &guard), Some(8));
            drop(guard);
            tree.check().unwrap();
        }
    }
}

/// A layer goes whose left neighbour is a border node: that takes over the range, and those who
/// hold it begin anew, as it has a gap's keys now.
#[test]
fn a_border_node_takes_over_the_range_of_a_layer() {
    let (mut tree, guard) = (with_gaps(), pin());
    let (left, between) = (vec![15; 8], [grouped(20, 5), vec![25; 8]]);
    put(&tree, [left.clone()].into_iter(), 7);
    let leaf = leaf_of(&tree, &left);
    let mut places = between.each_ref().map(|key| descend(&tree.shape, key));
    remove(&tree, (0..40).map(|n| grouped(20, n)));
    assert!(leaf.version.split_since(leaf.border.version().load()));
    assert!(leaf.border.high().is_some_and(|high| high.slice == u64::from_be_bytes([30; 8])));
    put_at(
        &tree,
        &[17; 8],
        &mut Destination::Leaf(LeafPosition { rest: Rest::of(&[17; 8]), ..leaf }),
        9,
    );
    for (at, (key, place)) in between.iter().zip(&mut places).enumerate() {
        put_at(&tree, key, place, at as u64);
        assert!(leaf_of(&tree, key).border == leaf.border);
        assert_eq!(tree.get(key, &guard), Some(at as u64));
    }
    assert_eq!((tree.get(&left, &guard), tree.get(&[17; 8], &guard)), (Some(7), Some(9)));
    drop(guard);
    tree.check().unwrap();
}
