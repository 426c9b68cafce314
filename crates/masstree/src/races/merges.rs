//! Nodes that merge when they are nearly empty, under readers and writers that hold positions in
//! them.

use super::*;
use crate::merge::{SPARSE, merge_border};

/// Four nodes below one parent: 0..15 full, 15..19, 30..38, and 45..60 full.
fn before_a_merge() -> Tree<u64> {
    let tree = numbers(0..60);
    remove(&tree, (19..30).chain(38..45).map(|n| number(n).to_vec()));
    assert_eq!(tree.stats().borders, 4);
    assert!([0, 15, 30, 45].iter().all(|n| border_of(&tree, *n).low().slice == *n));
    tree
}

/// Both nodes, and the parent, disturb their readers. The left one has it all.
#[test]
fn two_nodes_that_fill_one_are_joined() {
    // Removals that make the left one nearly empty, and the right one.
    let removals = [18..19, 33..38];
    for removed in removals {
        let (mut tree, guard) = (before_a_merge(), pin());
        let (left, right) = (border_of(&tree, 15), border_of(&tree, 30));
        let parent = parent_of(&tree, left);
        let before = [left.node(), right.node(), parent.node()].map(|node| {
            let version = node.version().load();
            (node, version)
        });
        let others = [border_of(&tree, 0), border_of(&tree, 45)].map(|border| {
            let version = border.version().load();
            (border, version)
        });
        remove(&tree, removed.clone().map(|n| number(n).to_vec()));
        assert!(before.iter().all(|(node, version)| version.split_since(node.version().load())));
        assert!(others.iter().all(|(border, version)| border.version().validate(*version)));
        assert!(right.version().load().is_deleted() && !left.version().load().is_deleted());
        assert_eq!((left.low().slice, left.high().unwrap().slice), (15, 45));
        assert_eq!(parent.count(), 2);
        for n in 0..60 {
            let stays = !(19..30).contains(&n) && !(38..45).contains(&n) && !removed.contains(&n);
            assert_eq!(tree.get(&number(n), &guard), stays.then_some(n));
        }
        drop(guard);
        tree.check().unwrap();
    }
}

/// The right node goes, and its memory is another node: who has found it, or a place in the left
/// one, or stands above, begins anew.
#[test]
fn positions_in_joined_nodes_lead_nowhere() {
    for (n, used_again) in [(16, false), (33, false), (33, true)] {
        let (mut tree, guard) = (before_a_merge(), pin());
        let (key, new) = (number(n), [&number(n)[..], b"end"].concat());
        let mut above = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
        let Some(Next::Child { parent, child, before }) = above.next(tree.shape.space()) else {
            panic!("the root is an interior node")
        };
        let standing = Standing { descent: above, parent, child, before };
        let entered = standing.go_on().unwrap();
        let leaf = leaf_of(&tree, &key);
        let right = border_of(&tree, 30);
        let finger = Finger::at(&leaf, &key);
        let mut place = descend(&tree.shape, &new);
        remove(&tree, [number(18).to_vec()].into_iter());
        if used_again {
            put(&tree, (100..200).map(|n| number(n).to_vec()), 1);
            assert!(!right.version().load().is_deleted());
        }
        assert!(standing.go_on().is_none() && answer(&tree, entered).is_none());
        assert!(find_validated(&leaf, &guard).is_none() && finger.follow(&key, &key).is_none());
        put_at(&tree, &new, &mut place, 8);
        let leaf = place.leaf().unwrap();
        assert!(leaf.border == border_of(&tree, 15));
        assert_eq!((tree.get(&new, &guard), tree.get(&key, &guard)), (Some(8), Some(n)));
        drop(guard);
        tree.check().unwrap();
    }
}

/// By turns, inserts and removals do not merge and cut by turns.
#[test]
fn a_merged_node_has_room_and_is_not_nearly_empty() {
    let mut tree = before_a_merge();
    remove(&tree, [number(18).to_vec()].into_iter());
    let (left, version) = (border_of(&tree, 15), border_of(&tree, 15).version().load());
    for n in 18..22 {
        put(&tree, [number(n).to_vec()].into_iter(), 1);
        remove(&tree, (n..n + 1).map(|n| number(n).to_vec()));
        put(&tree, [number(n).to_vec()].into_iter(), 1);
    }
    assert_eq!(left.permutation().len(), 15);
    remove(&tree, (30..38).map(|n| number(n).to_vec()));
    assert_eq!(left.permutation().len(), 7);
    assert!(!version.split_since(left.version().load()));
    tree.check().unwrap();
}

/// A neighbour is locked by somebody, who may wait for the parent.
#[test]
fn a_merge_does_not_wait_for_the_neighbour() {
    // The nearly empty node is the left one, and the right one.
    for (n, other, gone) in [(15, 30, 18..19), (30, 15, 33..38)] {
        let mut tree = before_a_merge();
        let (border, neighbour) = (border_of(&tree, n), border_of(&tree, other));
        let left = border.permutation().len() - gone.clone().count();
        thin(&tree, border, left);
        let (version, locked) = (border.version().load(), neighbour.version().lock());
        assert!(merge_border(&tree.shape, border, version) == Reclaimed::Changed);
        drop(locked);
        let parent = parent_of(&tree, border).node();
        assert!(merge_border(&tree.shape, border, version) == Reclaimed::Below(parent));
        let again = merge_border(&tree.shape, border, version);
        assert!(again != Reclaimed::Below(parent), "once");
        assert_eq!(tree.check().unwrap().borders, 3);
    }
}

/// Leaves so many entries in a node, and the node where it is.
fn thin(tree: &Tree<u64>, border: BorderRef<'_>, count: usize) {
    let locked = border.version().lock();
    let permutation = border.permutation();
    permutation.slots().skip(count).for_each(|slot| border.set_stale(slot));
    border.publish(permutation.truncate(count));
    drop(locked);
    tree.shape.keys.add(count as i64 - permutation.len() as i64);
}

/// A nearly empty node, or the one beside it, gets keys before they are joined.
#[test]
fn nodes_that_have_no_room_any_more_are_not_joined() {
    for filled in [15, 30] {
        let mut tree = before_a_merge();
        let border = border_of(&tree, 15);
        if filled == 15 {
            // Together they have room, but neither is nearly empty.
            thin(&tree, border_of(&tree, 30), 7);
        }
        thin(&tree, border, SPARSE);
        let version = border.version().load();
        let key = |n: u64| [&number(filled)[..], &[n as u8]].concat();
        put(&tree, [key(0)].into_iter(), 1);
        let merged = merge_border(&tree.shape, border, version);
        assert!(merged == Reclaimed::Nothing, "one is too much");
        assert!(!version.split_since(border.version().load()));
        assert_eq!(tree.check().unwrap().borders, 4);
    }
}

/// The root of a layer is beside a nearly empty node. It has few keys, but these begin elsewhere.
#[test]
fn a_layer_is_not_joined_with_the_node_beside_it() {
    let mut tree = Tree::<u64>::new();
    put(&tree, (0..GROUP).map(|n| grouped(10, n)), 7);
    put(&tree, (1..15).map(|n| vec![n]), 7);
    remove(&tree, (2..GROUP).map(|n| grouped(10, n)));
    let layers = tree.check().unwrap();
    assert_eq!((layers.layers, layers.borders, layers.keys), (2, 3, 16));
    // Nodes before the layer and after it become nearly empty.
    remove(&tree, (2..14).map(|n| vec![n]));
    let after = tree.check().unwrap();
    assert_eq!((after.layers, after.borders), (2, layers.borders));
    for n in 0..2 {
        assert_eq!(tree.get(&grouped(10, n), &pin()), Some(7));
    }
}

/// All places of a key on the way down.
pub(super) struct Places<'t, 'k> {
    key: &'k [u8],
    descents: Vec<Descent<'t, 'k>>,
    standing: Vec<Standing<'t, 'k>>,
    destination: Destination<'t, 'k>,
    finger: Option<Finger<'t>>,
}

impl<'t, 'k> Places<'t, 'k> {
    pub(super) fn of(tree: &'t Tree<u64>, key: &'k [u8]) -> Self {
        let destination = descend(&tree.shape, key);
        let finger = destination.leaf().map(|leaf| Finger::at(&leaf, key));
        let (mut descents, mut standing) = (Vec::new(), Vec::new());
        let mut descent = Descent::begin(&tree.shape, Rest::of(key)).unwrap();
        loop {
            descents.push(descent);
            let Some(Next::Child { parent, child, before }) = descent.next(tree.shape.space())
            else {
                return Places { key, descents, standing, destination, finger };
            };
            let here = Standing { descent, parent, child, before };
            standing.push(here);
            descent = here.go_on().unwrap();
        }
    }

    /// Wherever a reader was: it begins anew, or finds the value. Returns how many have to begin
    /// anew.
    pub(super) fn go_on(&self, tree: &'t Tree<u64>, value: u64) -> usize {
        let mut anew = 0;
        let mut is = |found: Option<Option<u64>>| match found {
            Some(found) => assert_eq!(found, Some(value), "{:?}", self.key),
            None => anew += 1,
        };
        self.descents.iter().for_each(|descent| is(answer(tree, *descent)));
        for standing in &self.standing {
            is(standing.go_on().and_then(|descent| answer(tree, descent)));
        }
        if let Some(leaf) = self.destination.leaf() {
            is(get_here(&tree.shape, &leaf, &pin()));
        }
        let followed = self.finger.and_then(|finger| finger.follow(self.key, self.key));
        is(followed.and_then(|leaf| get_here(&tree.shape, &leaf, &pin())));
        anew
    }
}

/// A tree of three levels is thinned out. Readers and writers stand in all nodes when some merge. A
/// key comes right after that, which none of them may miss or put elsewhere.
#[test]
fn all_places_are_left_or_right_after_every_merge() {
    let key = |n: u64| n * 16;
    let numbers: Vec<Vec<u8>> = (0..1200).map(|n| number(key(n * 7919 % 1200)).to_vec()).collect();
    let mut layers: Vec<Vec<u8>> = (0..600).map(|n| grouped(20, key(n * 7919 % 600))).collect();
    layers.extend((1..240).flat_map(|byte| [vec![byte], vec![byte; 12]]));
    layers.extend((0..GROUP).flat_map(|n| [40, 80, 120].map(|group| grouped(group, key(n)))));
    for (keys, probed) in [(numbers, 60), (layers, 90)] {
        let (mut tree, mut merges) = (Tree::<u64>::new(), [0, 0, 0]);
        put(&tree, keys.iter().cloned(), 7);
        let stays = |at: usize| at.is_multiple_of(probed);
        // A key that comes and goes right after each of those that stay.
        let probes: Vec<Vec<u8>> = (0..keys.len())
            .filter(|at| stays(*at))
            .map(|at| [&keys[at][..], &[0]].concat())
            .collect();
        for (at, key) in keys.iter().enumerate().filter(|(at, _)| !stays(*at)) {
            let probe = &probes[at % probes.len()];
            let all: Vec<_> = probes.iter().map(|probe| Places::of(&tree, probe)).collect();
            let mut place = descend(&tree.shape, probe);
            let before = tree.stats();
            remove(&tree, [key.clone()].into_iter());
            let after = tree.stats();
            if (before.borders, before.interiors) == (after.borders, after.interiors) {
                continue;
            }
            merges[0] += usize::from(after.borders < before.borders);
            merges[1] += usize::from(after.interiors < before.interiors);
            put_at(&tree, probe, &mut place, 8);
            assert_eq!(tree.get(probe, &pin()), Some(8));
            for (places, probe) in all.iter().zip(&probes) {
                tree.insert(probe, 8, &pin());
                merges[2] += usize::from(places.go_on(&tree, 8) > 0);
            }
            drop(all);
            remove(&tree, probes.iter().cloned());
            tree.check().unwrap();
        }
        let stats = tree.check().unwrap();
        assert!(merges[0] > 50 && merges[1] > 2 && merges[2] > 100, "{merges:?}, {stats:?}");
    }
}

/// Where a key is put in the gap after a layer is read from the node above, which is merged.
#[test]
fn a_gap_is_filled_below_the_node_of_today() {
    // A layer is below the second of two interior nodes.
    let mut tree = numbers(0..15 * 26);
    put(&tree, (0..GROUP).map(|n| grouped(200, n)), 7);
    let key = vec![210];
    let mut place = descend(&tree.shape, &key);
    let Destination::Gap { parent, .. } = place else { panic!("it is in a gap") };
    assert!(parent.node() != root(&tree));
    remove(&tree, (0..15 * 26).filter(|n| n % 15 > 0).map(|n| number(n).to_vec()));
    assert!(parent.version().load().is_deleted());
    put_at(&tree, &key, &mut place, 8);
    assert_eq!(tree.get(&key, &pin()), Some(8));
    tree.check().unwrap();
}

/// A leftmost node, which is not removed when it is empty, gets what is beside it.
#[test]
fn an_empty_leftmost_node_is_joined() {
    let mut tree = numbers(0..45);
    // One more would be too many.
    remove(&tree, (26..30).map(|n| number(n).to_vec()));
    remove(&tree, (0..14).map(|n| number(n).to_vec()));
    assert_eq!(tree.check().unwrap().borders, 3);
    remove(&tree, (14..15).map(|n| number(n).to_vec()));
    assert_eq!(border_of(&tree, 0).permutation().len(), 11);
    assert_eq!(tree.check().unwrap().borders, 2);
}

/// A nearly empty node is the first below a parent with few children, and the node beside it is
/// full. The parents merge first, and then it has a neighbour with room.
#[test]
fn nodes_of_two_parents_merge_after_these() {
    let mut tree = numbers(0..15 * 26);
    remove(&tree, (0..15 * 12).chain(353..360).chain(364..375).map(|n| number(n).to_vec()));
    let before = tree.check().unwrap();
    let [left, right] = [345, 360].map(|n| border_of(&tree, n));
    assert!(parent_of(&tree, left) != parent_of(&tree, right));
    assert_eq!([left, right].map(|border| border.permutation().len()), [8, 4]);
    remove(&tree, [number(363).to_vec()].into_iter());
    assert!(border_of(&tree, 360) == border_of(&tree, 345));
    let after = tree.check().unwrap();
    assert_eq!((before.interiors, after.interiors), (3, 1));
    assert_eq!(after.borders + 1, before.borders);
}

/// An interior node beside the one that merges is locked by somebody, who may wait for the parent.
#[test]
fn a_merge_does_not_wait_for_an_interior_neighbour() {
    let tree = numbers(0..15 * 26);
    let last = border_of(&tree, 15 * 26 - 1);
    let (second, first) = (parent_of(&tree, last), parent_of(&tree, border_of(&tree, 0)));
    assert!(second != first && second.count() < 6);
    let merge = || {
        let version = second.version().load();
        crate::merge::merge_interior(&tree.shape, second, version)
    };
    assert!(merge() == Reclaimed::Nothing, "the first is full");
    // Whole nodes go below the first, which is not nearly empty then.
    remove(&tree, (0..15 * 12).map(|n| number(n).to_vec()));
    assert!((6..17 - second.count()).contains(&first.count()));
    let locked = first.version().lock();
    assert!(merge() == Reclaimed::Changed);
    drop(locked);
    let marked = [first.node(), second.node(), root(&tree)];
    let before = marked.map(|node| node.version().load());
    assert!(merge() == Reclaimed::Merged(marked[2]));
    for (node, version) in marked.iter().zip(before) {
        assert!(version.split_since(node.version().load()), "readers of all three begin anew");
    }
    assert!(second.version().load().is_deleted());
    reclaim_nodes(&tree.shape, &number(0), border_of(&tree, 0));
    assert!(root(&tree) != first.node() || first.version().load().is_root());
    let stats = tree.stats();
    assert_eq!(stats.keys, 15 * 14);
    (15 * 12..15 * 26).for_each(|n| assert_eq!(tree.get(&number(n), &pin()), Some(n)));
}
