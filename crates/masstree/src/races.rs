//! Directed races: a reader is stopped at a point where it is easy to go wrong, a writer comes, the
//! reader goes on. The steps of a reader are functions, so no thread and no luck is needed.
//!
//! The header of `lib.rs` lists the mistakes of others; each test names the one that it is about.

use crate::descent::{climb, descend, link, search};
use crate::key::slice_of;
use crate::node::{BorderRef, Entry, Kind};
use crate::{Bytes, Tree};
use keyrack_concurrent::{Guard, Version, pin};

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

/// A reader that has come to the border node of `key` and read its entry, but not yet validated.
fn stopped<'g, V: crate::Slot>(
    tree: &'g Tree<V>,
    key: &[u8],
    guard: &'g Guard,
) -> (BorderRef<'g>, Version, Option<Entry>) {
    let (slice, order) = (slice_of(key), crate::key::order_of(key));
    let (border, version) = descend(tree.shape.root(guard), slice);
    let permutation = border.permutation();
    let position = border.position(permutation, slice, order);
    let entry = position.ok().map(|position| border.entry(permutation.slot(position)));
    (border, version, entry)
}

/// A key that was not there before disturbs nobody: free slots are filled without a mark.
#[test]
fn a_fresh_slot_is_filled_without_disturbing_readers() {
    let (tree, guard) = (numbers(0..5), pin());
    let (border, version, entry) = stopped(&tree, &number(3), &guard);
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
    let (border, version, _) = stopped(&tree, &number(3), &guard);
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
    let (root, root_version) = climb(tree.shape.root(&guard));
    assert!(matches!(root.kind(), Kind::Interior(_)));
    let key = [&number(20)[..], b"x"].concat();
    let (border, version, _) = stopped(&tree, &number(20), &guard);
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
    let (border, version, _) = stopped(&tree, &number(3), &guard);
    let copy = crate::scan::Copy::of(border, version);
    assert!(copy.is_some());
    tree.remove(&number(3), &guard);
    tree.insert(&number(100), 100, &guard);
    assert!(crate::scan::Copy::of(border, version).is_none());
    assert!(crate::scan::Copy::of(border, border.version().stable()).is_some());
}

/// The old root of a layer is no root any more; who holds it comes to the new one.
#[test]
fn a_root_of_the_past_leads_to_the_root_of_today() {
    let (tree, guard) = (numbers(0..1), pin());
    let old = tree.shape.root(&guard);
    for n in 1..5000 {
        tree.insert(&number(n), n, &guard);
    }
    let (root, version) = climb(old);
    assert!(version.is_root() && root == tree.shape.root(&guard) && root != old);
    for n in 0..5000 {
        let key = number(n);
        let found = search(old, &key, false);
        assert_eq!(found.entry.map(|entry| entry.value), Some(n));
    }
}

/// A link to a layer is moved up to its new root by the next writer that comes past.
#[test]
fn a_link_follows_the_root_of_its_layer() {
    let (tree, guard) = (Tree::<u64>::new(), pin());
    let key = |n: u64| [b"12345678", &number(n)[..], b"end"].concat();
    for n in 0..100 {
        tree.insert(&key(n), n, &guard);
    }
    let layer = || {
        let (border, _) = descend(tree.shape.root(&guard), slice_of(b"12345678"));
        link(border.entry(border.permutation().slot(0)))
    };
    tree.insert(&key(0), 0, &guard);
    assert!(layer().version().load().is_root());
}

/// An entry becomes a layer: code, tail and value change together.
#[test]
fn a_key_that_moves_into_a_layer_disturbs_readers() {
    let (tree, guard) = (Tree::<Bytes>::new(), pin());
    let first = b"12345678 the first of two long keys";
    tree.insert(first, b"a value that is not inline", &guard);
    let (border, version, entry) = stopped(&tree, first, &guard);
    tree.insert(b"12345678 the second of two long keys", b"value", &guard);
    assert!(!border.version().validate(version));
    // What the reader has in hand is retired, but not freed while it is pinned.
    assert!(entry.is_some_and(|entry| entry.matches(first)));
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
    let root = tree.shape.root(&guard);
    let (gone, version) = descend(root, 150);
    let parent = gone.node().parent().unwrap();
    let parent_version = parent.version().stable();
    let (low, high) = (gone.low(), gone.high());
    let (left, left_version) = descend(root, low - 1);
    for n in low..high {
        tree.remove(&number(n), &guard);
    }
    assert!(gone.version().stable().is_deleted() && !gone.version().validate(version));
    assert!(!left.version().validate(left_version));
    assert!(!parent.version().validate(parent_version));
    assert_eq!(left.high(), high);
    for n in low..high {
        assert!(descend(root, n).0 == left);
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
        let (border, version) = descend(tree.shape.root(&guard), n);
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
    assert_eq!(tree.check().unwrap().borders, 1);
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
