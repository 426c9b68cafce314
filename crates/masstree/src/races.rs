//! Directed races: a reader stops at a critical point, a writer runs, and the reader continues. The
//! steps of a reader are functions, so a test needs no threads and is deterministic.
//!
//! The header of `lib.rs` lists the mistakes of others; each test names its mistake.

mod incarnations;
mod reclamation;
mod scans;

use crate::descent::{
    Finger, Found, Layer, LayerLink, Value, above, below, climb, descend, enter, find_validated,
    get, get_here, move_link_up, search, value_of,
};
use crate::key::{SlotPosition, slice_of};
use crate::node::{BorderRef, Entry, Find, InteriorRef, Kind, NodeRef};
use crate::reclaim::{lone_parent, reclaim_nodes, remove_layer, shrink, unlink};
use crate::scan::Copy;
use crate::{Boxed, Bytes, Slot, Tree};
use keyrack_concurrent::{Version, pin};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

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
    let entry = match border.find(SlotPosition::of(key)) {
        Find::Entry(_, entry) => Some(entry),
        _ => None,
    };
    (border, version, entry)
}

/// A key of more than sixteen bytes. Two of these make a layer.
fn layered(n: u64) -> Vec<u8> {
    [b"of one beginning", &number(n)[..]].concat()
}

/// As [`layered`], in another layer.
fn elsewhere(n: u64) -> Vec<u8> {
    [b"another layer   ", &number(n)[..]].concat()
}

/// Where the layer of a key is linked, and the entry.
fn layer_link_of<'t, V: Slot>(tree: &'t Tree<V>, key: &[u8]) -> (LayerLink<'t>, Entry) {
    let (border, version) = border_of(tree, slice_of(key));
    let Find::Layer(slot, entry) = border.find(SlotPosition::of(key)) else { panic!("no layer") };
    (LayerLink { border, version, slot }, entry)
}

/// A new key invalidates no reader: free slots are filled without a mark.
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

/// A reader that holds the former root of a layer reaches the current root.
#[test]
fn a_former_root_leads_to_the_current_root() {
    let (tree, guard) = (numbers(0..1), pin());
    let (layer, old, _) = tree.shape.top().unwrap();
    for n in 1..5000 {
        tree.insert(&number(n), n, &guard);
    }
    let (now, version) = climb(tree.shape.space(), old).unwrap();
    assert!(version.is_root() && now == root(&tree) && now != old);
    assert!(layer.is_current());
    for n in 0..5000 {
        let (border, _) = layer.descend(tree.shape.space(), n).unwrap();
        let found = border.find(SlotPosition::of(&number(n)));
        assert!(matches!(found, Find::Entry(_, entry) if entry.value == n));
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
    let (_, entry) = layer_link_of(&tree, &key(0));
    // SAFETY: the entry is live, and nobody writes.
    let linked = unsafe { tree.shape.space().linked(entry) };
    assert!(linked.version().load().is_root());
}

/// The slot of a link becomes that of another layer before the link is moved up.
#[test]
fn a_link_is_not_moved_up_after_its_slot_was_reused() {
    let (mut tree, guard) = (Tree::<u64>::new(), pin());
    (0..40).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    let (link, entry) = layer_link_of(&tree, &layered(0));
    let (_, root, _) = enter(tree.shape.space(), link.border, link.version, entry).unwrap();
    (0..40).for_each(|n| assert!(tree.remove(&layered(n), &guard).is_some()));
    // Free slots are taken in turn.
    let mut groups = 0;
    while tree.stats().layers == 1 || layer_link_of(&tree, &layered(0)).0.slot != link.slot {
        for n in 0..2 {
            tree.remove(&layered(n), &guard);
        }
        tree.insert(format!("{groups}").as_bytes(), 0, &guard);
        tree.remove(format!("{groups}").as_bytes(), &guard);
        for n in 0..2 {
            tree.insert(&layered(n), n, &guard);
        }
        groups += 1;
    }
    move_link_up(tree.shape.space(), &link, root);
    assert_eq!(tree.get(&layered(1), &guard), Some(1));
    tree.check().unwrap();
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
    // The reader's cell is retired, but not freed while the reader is pinned; and it says that the
    // value has moved.
    // SAFETY: the guard was taken before the entry was read.
    let cell = unsafe { entry.unwrap().cell() }.unwrap();
    assert_eq!((cell.suffix(), cell.value()), (&first[16..], 0));
    assert_eq!(&*tree.get(first, &guard).unwrap(), b"a value that is not inline");
}

/// The steps of a search: what is read counts only if its node had the version all the while.
#[test]
fn a_search_looks_under_a_version() {
    let (tree, guard) = (numbers(0..15), pin());
    let (border, version, _) = stopped(&tree, &number(3));
    let position = SlotPosition::of(&number(3));
    assert!(matches!(find_validated(border, version, position, &guard), Some(Find::Entry(..))));
    tree.remove(&number(3), &guard);
    assert!(matches!(find_validated(border, version, position, &guard), Some(Find::Absent)));
    tree.insert(&number(100), 100, &guard);
    assert!(find_validated(border, version, position, &guard).is_none());
}

/// The same for a get that follows a hint.
#[test]
fn a_get_that_follows_a_hint_looks_under_a_version() {
    let (tree, guard) = (numbers(0..15), pin());
    let key = number(3);
    let finger = Finger::at(&search(&tree.shape, &key, &guard, false).leaf(), &key);
    let here = finger.follow(&key, &key).unwrap();
    assert_eq!(get_here(&tree.shape, &here, &guard), Some(Some(3)));
    tree.remove(&key, &guard);
    assert_eq!(get_here(&tree.shape, &here, &guard), Some(None));
    tree.insert(&number(100), 100, &guard);
    assert_eq!(get_here(&tree.shape, &here, &guard), None);
}

#[test]
fn a_search_enters_a_layer_under_a_version() {
    let (tree, guard) = (Tree::<u64>::new(), pin());
    (0..2).for_each(|n| assert!(tree.insert(&layered(n), n, &guard).is_none()));
    let (LayerLink { border, version, .. }, entry) = layer_link_of(&tree, &layered(0));
    let space = tree.shape.space();
    assert!(enter(space, border, version, entry).is_some());
    assert!(Layer::of(space, border, version, entry).is_some());
    (0..2).for_each(|n| assert!(tree.remove(&layered(n), &guard).is_some()));
    assert!(enter(space, border, version, entry).is_none());
    assert!(Layer::of(space, border, version, entry).is_none());
    // The memory is that of another layer now.
    (0..2).for_each(|n| assert!(tree.insert(&elsewhere(n), n, &guard).is_none()));
    assert!(enter(space, border, version, entry).is_none());
    assert!(Layer::of(space, border, version, entry).is_none());
}

/// Between finding the cell and reading its value, the key is removed.
#[test]
fn a_removed_value_is_lost_to_a_reader_that_found_its_cell() {
    let (tree, guard) = (Tree::<Bytes>::new(), pin());
    tree.insert(b"a key of more than sixteen bytes", b"a value", &guard);
    let found = search(&tree.shape, b"a key of more than sixteen bytes", &guard, false);
    assert!(matches!(value_of(&tree.shape, &found, &guard), Some(Value::Is(_))));
    tree.remove(b"a key of more than sixteen bytes", &guard);
    assert!(matches!(value_of(&tree.shape, &found, &guard), Some(Value::Lost)));
}

/// A returned value outlives replacement and removal while the guard exists.
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

/// A key moves into a new layer, with its value. The next holder of the lock may replace and retire
/// the value there, so the old cell must have lost it by then.
#[test]
fn a_cell_has_lost_its_value_before_its_node_is_unlocked() {
    let group = (0..16).map(|n| format!("ONESLICE{n:08} and an end").into_bytes());
    let pair = (0..2).map(|n| format!("ONESLICE and one tail {n}").into_bytes());
    for keys in [group.collect::<Vec<_>>(), pair.collect()] {
        let Some((last, before)) = keys.split_last() else { panic!("no keys") };
        for _ in 0..200 {
            let (tree, guard) = (Tree::<Bytes>::new(), pin());
            for key in before {
                tree.insert(key, b"a value that is not inline", &guard);
            }
            let found = search(&tree.shape, &before[0], &guard, false);
            // SAFETY: the entry was found under the guard.
            let cell = unsafe { found.entry.unwrap().cell() }.unwrap();
            let version = found.border.version();
            std::thread::scope(|scope| {
                scope.spawn(|| tree.insert(last, b"value", &pin()).is_none());
                loop {
                    let (now, value) = (version.load(), cell.value());
                    if found.version.changed(now) && !now.is_dirty() {
                        assert_eq!(value, 0);
                        break;
                    }
                }
            });
        }
    }
}

/// Looks at the lock of the root when it is dropped.
struct Probe;

static PROBED: LazyLock<Tree<Boxed<Probe>>> = LazyLock::new(Tree::new);

static DROPS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

impl Drop for Probe {
    fn drop(&mut self) {
        let locked = root(&PROBED).version().load().is_locked();
        DROPS[usize::from(locked)].fetch_add(1, Ordering::Relaxed);
    }
}

/// A value may use the tree when it is dropped.
#[test]
fn a_value_that_is_not_stored_is_dropped_without_a_lock() {
    let guard = pin();
    assert!(PROBED.insert_if_absent(b"key", Probe, &guard).is_none());
    assert!(PROBED.insert_if_absent(b"key", Probe, &guard).is_some());
    assert_eq!(DROPS.each_ref().map(|drops| drops.load(Ordering::Relaxed)), [1, 0]);
    // A static tree is never dropped.
    PROBED.remove(b"key", &guard);
}
