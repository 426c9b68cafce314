//! Directed races: a reader is stopped at a point where it is easy to go wrong, a writer comes, the
//! reader goes on. The steps of a reader are functions, so no thread and no luck is needed.
//!
//! The header of `lib.rs` lists the mistakes of others; each test names the one that it is about.

use crate::descent::{Layer, climb, descend, get, search};
use crate::key::{Place, slice_of};
use crate::node::{BorderRef, Entry, Find, Kind, NodeRef};
use crate::scan::Copy;
use crate::{Bytes, Slot, Tree};
use keyrack_concurrent::{Version, pin};

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn numbers(range: std::ops::Range<u64>) -> Tree<u64> {
    let tree = Tree::new();
    for n in range {
        tree.insert(&number(n), n, &pin());
    }
    tree
}

fn root<V: Slot>(tree: &Tree<V>) -> NodeRef<'_> {
    tree.shape.top().unwrap().1
}

/// The border node of `slice` in the first layer, and its version.
fn border_of<V: Slot>(tree: &Tree<V>, slice: u64) -> (BorderRef<'_>, Version) {
    let (_, root, version) = tree.shape.top().unwrap();
    descend(tree.shape.space(), root, version, slice, &mut None).unwrap()
}

/// A reader that has come to the border node of `key` and read its entry, but not yet validated.
fn stopped<'t, V: Slot>(tree: &'t Tree<V>, key: &[u8]) -> (BorderRef<'t>, Version, Option<Entry>) {
    let (border, version) = border_of(tree, slice_of(key));
    let entry = match border.find(Place::of(key)) {
        Find::Entry(_, entry) => Some(entry),
        _ => None,
    };
    (border, version, entry)
}

/// A key that was not there before disturbs nobody: free slots are filled without a mark.
#[test]
fn a_fresh_slot_is_filled_without_disturbing_readers() {
    let (tree, guard) = (numbers(0..5), pin());
    let (border, version, entry) = stopped(&tree, &number(3));
    tree.insert(&number(1000), 0, &guard);
    tree.insert(&number(3), 33, &guard);
    tree.remove(&number(4), &guard);
    assert!(border.version().validate(version));
    assert_eq!(entry.map(|entry| entry.value), Some(3));
}

/// Slot reuse: the reader has an old permutation, in which the slot is another key's.
#[test]
fn a_slot_that_is_used_again_disturbs_readers() {
    let (tree, guard) = (numbers(0..15), pin());
    let (border, version, _) = stopped(&tree, &number(3));
    tree.remove(&number(3), &guard);
    assert!(border.version().validate(version), "a removal alone does not");
    tree.insert(&number(100), 100, &guard);
    assert!(!border.version().validate(version));
    assert!(!version.split_since(border.version().stable()), "it is the same node");
    assert_eq!(tree.get(&number(100), &guard), Some(100));
}

#[test]
fn a_split_disturbs_readers_of_the_node_and_of_its_parent() {
    let (tree, guard) = (numbers(0..40), pin());
    let (_, root, root_version) = tree.shape.top().unwrap();
    assert!(matches!(root.kind(), Kind::Interior(_)));
    let key = [&number(20)[..], b"x"].concat();
    let (border, version, _) = stopped(&tree, &number(20));
    let mut zeros = 0;
    while border.version().validate(version) {
        // Keys of the same node, each in a slot of its own.
        tree.insert(&number(20)[..7 - zeros], 0, &guard);
        tree.insert(&[&number(20)[..], b"x"].concat(), 1, &guard);
        tree.insert(&[&number(21 + zeros as u64)[..], b"y"].concat(), 2, &guard);
        zeros += 1;
    }
    assert!(version.split_since(border.version().stable()));
    assert!(!root.version().validate(root_version), "the parent has a new child");
    assert_eq!(tree.get(&number(20), &guard), Some(20));
    assert_eq!(tree.get(&key, &guard), Some(1));
}

/// A scan copies a node while its slots change hands: it must copy again.
#[test]
fn a_copy_for_a_scan_is_of_one_version() {
    let (tree, guard) = (numbers(0..15), pin());
    let (border, version, _) = stopped(&tree, &number(3));
    let copy = Copy::of(border, version, &guard);
    assert!(copy.is_some());
    tree.remove(&number(3), &guard);
    tree.insert(&number(100), 100, &guard);
    assert!(Copy::of(border, version, &guard).is_none());
    assert!(Copy::of(border, border.version().stable(), &guard).is_some());
}

/// The old root of a layer is no root any more; who holds it comes to the new one.
#[test]
fn a_root_of_the_past_leads_to_the_root_of_today() {
    let (tree, guard) = (numbers(0..1), pin());
    let (layer, old, _) = tree.shape.top().unwrap();
    for n in 1..5000 {
        tree.insert(&number(n), n, &guard);
    }
    let (now, version) = climb(tree.shape.space(), old).unwrap();
    assert!(version.is_root() && now == root(&tree) && now != old);
    assert!(layer.lives());
    for n in 0..5000 {
        let (border, _) = layer.descend(tree.shape.space(), n).unwrap();
        assert!(
            matches!(border.find(Place::of(&number(n))), Find::Entry(_, entry) if entry.value == n)
        );
    }
}

/// A link to a layer is moved up to its new root by the next writer that comes past.
#[test]
fn a_link_follows_the_root_of_its_layer() {
    let (tree, guard) = (Tree::<u64>::new(), pin());
    let key = |n: u64| [b"12345678", &number(n)[..], b"end"].concat();
    for n in 0..1000 {
        tree.insert(&key(n), n, &guard);
    }
    tree.insert(&key(0), 0, &guard);
    let (border, _) = border_of(&tree, slice_of(b"12345678"));
    let Find::Layer(_, entry) = border.find(Place::of(&key(0))) else { panic!("no layer") };
    // SAFETY: the entry is live, and nobody writes.
    let link = unsafe { tree.shape.space().link(entry) };
    assert!(link.version().load().is_root());
}

/// An entry becomes a layer: code, tail and value change together.
#[test]
fn a_key_that_moves_into_a_layer_disturbs_readers() {
    let (tree, guard) = (Tree::<Bytes>::new(), pin());
    let first = b"1234567812345678 the first of two long keys";
    tree.insert(first, b"a value that is not inline", &guard);
    let (border, version, entry) = stopped(&tree, first);
    tree.insert(b"1234567812345678 the second of two long keys", b"value", &guard);
    assert!(!border.version().validate(version));
    // What the reader has in hand is retired, but not freed while it is pinned; and it says that
    // the value is elsewhere.
    // SAFETY: the guard was taken before the entry was read.
    let cell = unsafe { entry.unwrap().cell() }.unwrap();
    assert_eq!((cell.suffix(), cell.value()), (&first[16..], 0));
    assert_eq!(&*tree.get(first, &guard).unwrap(), b"a value that is not inline");
}

/// What a get has lent outlives replacement and removal while the guard lives.
#[test]
fn lent_values_outlive_their_removal() {
    let (tree, guard) = (Tree::<Bytes>::new(), pin());
    let key = b"a key of more than sixteen bytes";
    tree.insert(key, b"the first value", &guard);
    let first = tree.get(key, &guard).unwrap();
    let replaced = tree.insert(key, b"the second value", &guard).unwrap();
    let removed = tree.remove(key, &guard).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..1000).for_each(|_| pin().flush()));
    });
    assert_eq!((&*first, &*replaced), (&b"the first value"[..], &b"the first value"[..]));
    assert_eq!(&*removed, b"the second value");
}

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

/// A scan that stands between two nodes goes on where it was, whatever became of them.
#[test]
fn a_scan_goes_on_where_its_node_was() {
    for backwards in [false, true] {
        let (mut tree, mut seen) = (numbers(0..600), Vec::new());
        let visit = |key: &[u8]| {
            let n = u64::from_be_bytes(key.try_into().unwrap());
            seen.push(n);
            // Empties the nodes around, except for the multiples of 50.
            let around = n.saturating_sub(30)..(n + 30).min(600);
            for other in around.filter(|other| !other.is_multiple_of(50)) {
                tree.remove(&number(other), &pin());
            }
            std::ops::ControlFlow::Continue(())
        };
        let mut visit = visit;
        if backwards {
            tree.range_rev(b"", None, |key, _| visit(key));
            seen.reverse();
        } else {
            tree.range(b"", None, |key, _| visit(key));
        }
        assert!(seen.is_sorted_by(|a, b| a < b));
        let stayed: Vec<_> = seen.into_iter().filter(|n| n.is_multiple_of(50)).collect();
        assert_eq!(stayed, (0..12).map(|n| n * 50).collect::<Vec<_>>());
        tree.check().unwrap();
    }
}

/// The memory of a node begins another life while a reader is on the way to it: the parent's
/// version says so, and the node's own.
#[test]
fn a_second_life_of_a_node_disturbs_readers_of_the_first() {
    let (mut tree, guard) = (numbers(0..2000), pin());
    let (gone, version) = border_of(&tree, 1000);
    let generation = gone.node().generation();
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
    assert_ne!(gone.node().generation(), generation);
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
    assert!(found.via.is_some() && layer.lives());
    let via = found.via.unwrap();
    for n in 0..2 {
        tree.remove(&key(1, n), &guard);
    }
    assert!(!layer.lives());
    assert!(!via.border.version().validate(via.version), "the link is gone");
    for group in 2..50 {
        for n in 0..2 {
            tree.insert(&key(group, n), n, &guard);
        }
    }
    assert!(!layer.lives());
    assert_eq!(get(&tree.shape, &first, &guard), None);
    tree.check().unwrap();
}

/// A layer goes while a scan is in it, with its memory used again at once.
#[test]
fn a_scan_goes_on_behind_a_layer_that_went() {
    let key = |group: u64, n: u64| format!("{group:016}{n:016}").into_bytes();
    for backwards in [false, true] {
        let mut tree = Tree::<u64>::new();
        for group in 0..20 {
            (0..40).for_each(|n| assert!(tree.insert(&key(group, n), n, &pin()).is_none()));
        }
        let mut seen = Vec::new();
        let visit = |seen: &mut Vec<Vec<u8>>, found: &[u8]| {
            seen.push(found.to_vec());
            let text = std::str::from_utf8(found).unwrap();
            let (group, n): (u64, u64) = (text[..16].parse().unwrap(), text[16..].parse().unwrap());
            if group.is_multiple_of(3) && n == 20 {
                for n in 0..40 {
                    tree.remove(&key(group, n), &pin());
                }
                (0..40)
                    .for_each(|n| assert!(tree.insert(&key(group + 100, n), n, &pin()).is_none()));
            }
            std::ops::ControlFlow::Continue(())
        };
        if backwards {
            tree.range_rev(b"", Some(&key(99, 0)), |key, _| visit(&mut seen, key));
            seen.reverse();
        } else {
            tree.range(b"", Some(&key(99, 0)), |key, _| visit(&mut seen, key));
        }
        assert!(seen.is_sorted_by(|a, b| a < b));
        for group in (0..20).filter(|group: &u64| !group.is_multiple_of(3)) {
            let whole = (0..40).all(|n| seen.contains(&key(group, n)));
            assert!(whole, "group {group}");
        }
        tree.check().unwrap();
    }
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
