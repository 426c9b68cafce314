//! Directed races: a reader or a writer stops at a critical point, another writer runs, and the
//! first continues. The steps are functions, so a test needs no threads and is deterministic.
//!
//! The header of `lib.rs` lists the mistakes of others; each test names its mistake.

mod changes;
mod gaps;
mod layers;
mod many;
mod merges;
mod prefixes;
mod reclamation;
mod roots;
mod scans;
mod shares;

pub(crate) use changes::{CHANGES, among_layers, staying};
use merges::Places;

use crate::balance::Side;
use crate::change::change_at;
use crate::descent::{
    Descent, Destination, Finger, LeafPosition, Next, Value, below, descend, find_looked,
    find_validated, get, get_here, search, value_of,
};
use crate::key::{Fence, Rest};
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef};
use crate::path::Copy;
use crate::reclaim::{Reclaimed, reclaim_nodes, remove_border, shrink};
use crate::slot::Unpublished;
use crate::{Boxed, Bytes, Slot, Tree};
use keyrack_concurrent::{Change, pin};
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

/// Keys of one group begin with the same 24 bytes. Sixteen of them make a layer.
fn grouped(group: u8, n: u64) -> Vec<u8> {
    [&[group; 8][..], b" begins alike ..", &number(n)].concat()
}

/// So many keys make a layer if they begin alike.
const GROUP: u64 = 16;

fn put<V: Slot>(tree: &Tree<V>, keys: impl Iterator<Item = Vec<u8>>, value: V::In<'static>)
where
    V::In<'static>: std::marker::Copy,
{
    for key in keys {
        assert!(tree.insert(&key, value, &pin()).is_none(), "{key:?} is new");
    }
}

fn remove<V: Slot>(tree: &Tree<V>, keys: impl Iterator<Item = Vec<u8>>) {
    for key in keys {
        assert!(tree.remove(&key, &pin()).is_some(), "{key:?} was there");
    }
}

fn root<V: Slot>(tree: &Tree<V>) -> NodeRef<'_> {
    tree.shape.top().unwrap().0
}

/// Where a key is, or would be.
fn leaf_of<'t, 'k, V: Slot>(tree: &'t Tree<V>, key: &'k [u8]) -> LeafPosition<'t, 'k> {
    descend(&tree.shape, key).leaf().expect("the key has a border node")
}

/// The border node of a number in a tree of numbers.
fn border_of(tree: &Tree<u64>, n: u64) -> BorderRef<'_> {
    leaf_of(tree, &number(n)).border
}

fn parent_of<'t>(tree: &'t Tree<u64>, border: BorderRef<'t>) -> InteriorRef<'t> {
    border.node().parent(tree.shape.space()).expect("it is not the root")
}

/// A writer that has searched before puts now.
fn put_at<'t, 'k>(tree: &'t Tree<u64>, key: &'k [u8], place: &mut Destination<'t, 'k>, value: u64) {
    let value = Unpublished::<u64>::new(value);
    let old = change_at(&tree.shape, key, place, &pin(), |_| Change::Put(value));
    assert_eq!(old, None);
}

/// Two writers divide the prefix of a group's layer: `other` is put between the search of `key` and
/// its put. `count` keys of the group stay.
fn divide_twice(tree: &Tree<u64>, key: &[u8], other: &[u8], (group, count): (u8, u64)) {
    let mut place = descend(&tree.shape, key);
    assert!(matches!(place, Destination::Diverged { .. }));
    put(tree, [other.to_vec()].into_iter(), 9);
    put_at(tree, key, &mut place, 8);
    assert_values(tree, &[(key, 8), (other, 9)]);
    (0..count).for_each(|n| assert_values(tree, &[(&grouped(group, n), 7)]));
}

fn assert_values(tree: &Tree<u64>, pairs: &[(&[u8], u64)]) {
    for (key, value) in pairs {
        assert_eq!(tree.get(key, &pin()), Some(*value), "{key:?}");
    }
}

/// Empties the node of `key`, and leaves it where it is.
fn emptied<'t, 'k>(tree: &'t Tree<u64>, key: &'k [u8]) -> LeafPosition<'t, 'k> {
    let leaf = leaf_of(tree, key);
    let locked = leaf.border.version().lock();
    let permutation = leaf.border.permutation();
    permutation.slots().for_each(|slot| leaf.border.set_stale(slot));
    leaf.border.publish(permutation.truncate(0));
    drop(locked);
    tree.shape.keys.add(-(permutation.len() as i64));
    leaf
}

/// A descent that has read a child and not entered it.
#[derive(Clone, Copy)]
struct Standing<'t, 'k> {
    descent: Descent<'t, 'k>,
    parent: InteriorRef<'t>,
    child: NodeRef<'t>,
    before: u64,
}

impl<'t, 'k> Standing<'t, 'k> {
    /// `None`: it must begin anew.
    fn go_on(self) -> Option<Descent<'t, 'k>> {
        let Standing { mut descent, parent, child, before } = self;
        descent.enter(parent, child, before)?;
        Some(descent)
    }
}

/// A descent to `key` that stands before the root of the first layer below the tree's.
fn before_layer<'t, 'k>(tree: &'t Tree<u64>, key: &'k [u8]) -> Standing<'t, 'k> {
    let mut descent = Descent::begin(&tree.shape, Rest::of(key)).unwrap();
    loop {
        let Some(Next::Child { parent, child, before }) = descent.next(tree.shape.space()) else {
            panic!("a layer comes before")
        };
        let standing = Standing { descent, parent, child, before };
        if child.version().load().is_root() {
            return standing;
        }
        descent = standing.go_on().unwrap();
    }
}

/// What a descent answers that goes on from where it is. The outer `None`: it must begin anew.
fn answer<'t>(tree: &'t Tree<u64>, mut descent: Descent<'t, '_>) -> Option<Option<u64>> {
    loop {
        match descent.next(tree.shape.space())? {
            Next::Destination(Destination::Leaf(leaf)) => {
                return get_here(&tree.shape, &leaf, &pin());
            }
            Next::Destination(_) => return Some(None),
            Next::Child { parent, child, before } => {
                descent = Standing { descent, parent, child, before }.go_on()?;
            }
        }
    }
}

/// A tree whose root is a layer with a prefix, of group 1.
fn with_prefix() -> Tree<u64> {
    let tree = Tree::new();
    put(&tree, (0..GROUP).map(|n| grouped(1, n)), 7);
    assert!(root(&tree).prefix(tree.shape.space()).is_some());
    tree
}

/// A tree of three layers in a row, with gaps between them.
fn with_gaps() -> Tree<u64> {
    let tree = Tree::new();
    for group in [10, 20, 30] {
        put(&tree, (0..40).map(|n| grouped(group, n)), 7);
    }
    assert!(tree.stats().layers > 3);
    tree
}

/// A get looked for its key before it covered what it had found. A removal came between, which
/// marks no version; the entry was read after that, and what it named was freed.
#[test]
fn a_removal_between_a_look_and_its_copy_is_seen() {
    struct Freed<'a>(&'a AtomicU64);
    impl Drop for Freed<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    static FREED: AtomicU64 = AtomicU64::new(0);
    let tree = Tree::<Boxed<Freed<'static>>>::new();
    let guard = pin();
    let elsewhere = |change: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(change).join().unwrap());
    };
    // The era goes on, so that the guard of before does not cover the new value.
    elsewhere(&|| {
        let others = Tree::<Bytes>::new();
        for n in 0..10_000_u64 {
            others.insert(b"key", &n.to_be_bytes(), &pin());
        }
    });
    let key = number(3);
    elsewhere(&|| assert!(tree.insert(&key, Freed(&FREED), &pin()).is_none()));
    let leaf = leaf_of(&tree, &key);
    let look = leaf.border.look(&leaf.rest);
    let removed = || {
        elsewhere(&|| {
            assert!(tree.remove(&key, &pin()).is_some());
            (0..3).for_each(|_| pin().flush());
        });
    };
    removed();
    assert!(leaf.border.version().validate(leaf.version), "a removal marks no version");
    assert!(find_looked(&leaf, look, &guard).unwrap().is_none(), "it may be freed");
    drop(guard);
    // Guards of other tests may cover it for a while.
    while FREED.load(Ordering::Relaxed) == 0 {
        pin().flush();
        std::thread::yield_now();
    }
}

/// A new key invalidates no reader: free slots are filled without a mark.
#[test]
fn a_fresh_slot_is_filled_without_disturbing_readers() {
    let (mut tree, guard) = (numbers(0..5), pin());
    let key = number(3);
    let leaf = leaf_of(&tree, &key);
    tree.insert(&number(1000), 0, &guard);
    tree.insert(&key, 33, &guard);
    tree.remove(&number(4), &guard);
    assert!(leaf.border.version().validate(leaf.version));
    drop(guard);
    tree.check().unwrap();
}

/// Slot reuse: the reader has an old permutation, in which the slot is another key's.
#[test]
fn a_slot_that_is_used_again_disturbs_readers() {
    let (mut tree, guard) = (numbers(0..15), pin());
    let key = number(3);
    let leaf = leaf_of(&tree, &key);
    assert!(matches!(find_validated(&leaf, &guard), Some(Some(_))));
    tree.remove(&key, &guard);
    assert!(matches!(find_validated(&leaf, &guard), Some(None)), "a removal alone does not");
    tree.insert(&number(100), 100, &guard);
    assert!(find_validated(&leaf, &guard).is_none());
    assert!(!leaf.version.split_since(leaf.border.version().stable()), "it is the same node");
    assert_eq!(tree.get(&number(100), &guard), Some(100));
    drop(guard);
    tree.check().unwrap();
}

#[test]
fn a_split_disturbs_readers_of_the_node_and_of_its_parent() {
    let (mut tree, guard) = (numbers(0..40), pin());
    let (_, root_version) = tree.shape.top().unwrap();
    let (root, key) = (root(&tree), number(20));
    assert!(matches!(root.kind(), Kind::Interior(_)));
    let leaf = leaf_of(&tree, &key);
    let mut more = 0;
    while !leaf.version.split_since(leaf.border.version().stable()) {
        tree.insert(&[&number(16 + more % 14)[..], &[more as u8]].concat(), 1, &guard);
        more += 1;
    }
    assert!(!leaf.border.version().validate(leaf.version));
    assert!(!root.version().validate(root_version), "the parent has a new child");
    assert_eq!(tree.get(&key, &guard), Some(20));
    drop(guard);
    tree.check().unwrap();
}

/// A descent has read a child, which is split before the descent goes on.
#[test]
fn a_descent_does_not_enter_a_child_that_was_split() {
    let (mut tree, guard) = (numbers(0..40), pin());
    let key = number(20);
    let mut descent = Descent::begin(&tree.shape, Rest::of(&key)).unwrap();
    let Some(Next::Child { parent, child, before }) = descent.next(tree.shape.space()) else {
        panic!("the root is an interior node")
    };
    let mut same = descent;
    assert!(same.enter(parent, child, before).is_some());
    for n in 0..20 {
        tree.insert(&[&number(20)[..], &[n]].concat(), 1, &guard);
    }
    assert!(descent.enter(parent, child, before).is_none());
    drop(guard);
    tree.check().unwrap();
}

/// A child is read from its parent; it goes, and its memory is a node of the same kind elsewhere.
#[test]
fn a_descent_does_not_come_to_another_layer() {
    let (mut tree, guard) = (numbers(0..40), pin());
    let child = border_of(&tree, 39);
    let parent = parent_of(&tree, child);
    let version = parent.version().stable();
    assert!(below(parent, version, child.node()) == Some(child.version().stable()));
    remove(&tree, (child.low().slice..40).map(|n| number(n).to_vec()));
    assert!(below(parent, version, child.node()).is_none());
    put(&tree, (0..200).map(|n| grouped(9, n)), 0);
    assert!(!child.version().stable().is_deleted(), "it is in use again");
    assert!(below(parent, version, child.node()).is_none());
    drop(guard);
    tree.check().unwrap();
}

/// The same for a get that follows a hint.
#[test]
fn a_get_that_follows_a_hint_looks_under_a_version() {
    let (mut tree, guard) = (numbers(0..15), pin());
    let key = number(3);
    let finger = Finger::at(&leaf_of(&tree, &key), &key);
    let here = finger.follow(&key, &key).unwrap();
    assert_eq!(get_here(&tree.shape, &here, &guard), Some(Some(3)));
    tree.remove(&key, &guard);
    assert_eq!(get_here(&tree.shape, &here, &guard), Some(None));
    tree.insert(&number(100), 100, &guard);
    assert_eq!(get_here(&tree.shape, &here, &guard), None);
    drop(guard);
    tree.check().unwrap();
}

/// A finger is for the keys of its node alone, also after that has other ones.
#[test]
fn a_finger_is_not_followed_to_the_node_of_another_key() {
    let mut tree = numbers(0..31);
    let (first, second) = (border_of(&tree, 0), border_of(&tree, 30));
    let high = first.high().unwrap().slice;
    let (key, beyond) = (number(0), number(high));
    let finger = Finger::at(&leaf_of(&tree, &key), &key);
    assert!(finger.follow(&key, &number(high - 1)).is_some_and(|leaf| leaf.border == first));
    assert!(finger.follow(&key, &beyond).is_none());
    remove(&tree, (high..31).map(|n| number(n).to_vec()));
    assert!(first.high().is_none() && second != first);
    assert!(finger.follow(&key, &beyond).is_none(), "it is of an older version");
    let finger = Finger::at(&leaf_of(&tree, &key), &key);
    assert!(finger.follow(&key, &beyond).is_some_and(|leaf| leaf.border == first));
    tree.check().unwrap();
}

/// Between finding the cell and reading its value, the key is removed.
#[test]
fn a_removed_value_is_lost_to_a_reader_that_found_its_cell() {
    let (mut tree, guard) = (Tree::<Bytes>::new(), pin());
    let key = b"a key of more than sixteen bytes";
    tree.insert(key, b"a value", &guard);
    let entry = search(&tree.shape, key, &guard).entry.unwrap();
    assert!(matches!(value_of(&tree.shape, entry, &guard), Value::Is(_)));
    tree.remove(key, &guard);
    assert!(matches!(value_of(&tree.shape, entry, &guard), Value::Lost));
    drop(guard);
    tree.check().unwrap();
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
