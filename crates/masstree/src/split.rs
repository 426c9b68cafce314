//! Making room in a full border node.
//!
//! ```text
//!   1  lock the ancestors upward, until one has room or the root is passed
//!   2  mark all of them, and the border node: readers wait
//!   3  cut the border node; hand separator and new node to the parent; cut that if it is full; ...
//!   4  a root that was cut gets a new root above
//!   5  unlock all
//! ```
//!
//! The new nodes are born locked. So to a reader the split is one step, however high it goes, and
//! at no time a key is missing. A split of one level takes 200 ns or so, and one in sixteen goes
//! further.
//!
//! **Where to cut.** The cut falls between two slices, because a slice has one border node. It is
//! the one nearest to the middle, but for the ends of a layer: when keys come in ascending order,
//! the old node stays full and only the new entry goes right; and alike when they descend.
//!
//! **Where not to.** When most of a node has one slice, there is no good cut. Then the keys that go
//! on behind that slice move into a layer of their own, and one entry for it stays.

use crate::cell::Cell;
use crate::node::{
    BorderRef, Entry, INTERIOR_WIDTH, InteriorRef, NodeRef, Space, entry_behind_slice,
};
use crate::permutation::{Permutation, WIDTH};
use crate::shape::Shape;
use keyrack_concurrent::{Guard, Locked};

/// Entries of a full border node with the one that comes.
const CROWD: usize = WIDTH + 1;
/// A cut leaves so many entries on each side, if a layer could be made instead.
const SIDE_MIN: usize = 3;
/// Separators of a full interior node with the one that comes.
const INTERIOR_CROWD: usize = INTERIOR_WIDTH + 1;

/// The entries of a full node with `entry` at `position`.
pub(crate) struct Crowd([Entry; CROWD]);

impl Crowd {
    fn of(border: BorderRef<'_>, position: usize, entry: Entry) -> Self {
        let mut crowd = [entry; CROWD];
        for (index, slot) in border.permutation().slots().enumerate() {
            crowd[index + usize::from(index >= position)] = border.entry(slot);
        }
        Crowd(crowd)
    }

    /// The cut nearest to `wanted` that no slice straddles.
    fn nearest_cut(&self, wanted: usize) -> Option<usize> {
        let fits =
            |cut: usize| (1..CROWD).contains(&cut) && self.0[cut - 1].slice != self.0[cut].slice;
        (0..CROWD).find_map(|step| {
            [wanted.wrapping_sub(step), wanted + step].into_iter().find(|&cut| fits(cut))
        })
    }
}

/// Where the new entry for `slice` at `position` of the full node would be cut off.
fn wanted_cut(border: BorderRef<'_>, position: usize) -> usize {
    match position {
        WIDTH if border.high() == 0 => WIDTH,
        0 if border.low() == 0 => 1,
        _ => CROWD / 2,
    }
}

/// Whether the full node is better relieved by [`push_group`] than by a split: the slice for it.
pub(crate) fn group_to_push(border: BorderRef<'_>, position: usize, slice: u64) -> Option<u64> {
    let newcomer = Entry { slice, tail: 0, code: 0, value: 0 };
    let crowd = Crowd::of(border, position, newcomer);
    let wanted = wanted_cut(border, position);
    let cut = crowd.nearest_cut(wanted);
    if cut.is_some_and(|cut| cut == wanted || (SIDE_MIN..=CROWD - SIDE_MIN).contains(&cut)) {
        return None;
    }
    // The slice in the middle has most of the node.
    let slice = crowd.0[CROWD / 2].slice;
    let long = border.permutation().slots().map(|slot| border.entry(slot));
    let long = long.filter(|entry| entry.slice == slice && entry.goes_on());
    (long.count() > 1).then_some(slice)
}

/// Moves all keys that go on behind `slice` into a layer of their own.
pub(crate) fn push_group<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    slice: u64,
    guard: &Guard,
) {
    let permutation = border.permutation();
    let (mut kept, mut moved, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    let (root, root_locked) = shape.new_border(true, 0, 0);
    let handle = shape.space().handle(root.node());
    for slot in permutation.slots() {
        let entry = border.entry(slot);
        if entry.slice != slice || !entry.goes_on() {
            kept.push(entry);
            continue;
        }
        if moved.is_empty() {
            kept.push(Entry::short_layer(slice, handle));
        }
        moved.push(behind_slice(entry));
        // SAFETY: the entry is live, and the node locked.
        cells.extend(unsafe { entry.cell() });
    }
    root.fill(&moved);
    drop(root_locked);
    shape.layers.add(1);

    locked.mark_inserting();
    border.clear_stale();
    border.fill(&kept);
    abandon(shape, locked, &cells, guard);
}

/// Retires cells that were unlinked under the lock, which it drops. Their values have gone
/// elsewhere.
pub(crate) fn abandon(shape: &Shape, locked: Locked<'_>, cells: &[Cell<'_>], guard: &Guard) {
    if shape.pointers {
        cells.iter().for_each(|cell| cell.set_value(0));
    }
    // What is freed meanwhile may use the tree.
    drop(locked);
    for cell in cells {
        // SAFETY: this thread has unlinked it under the lock, and does so once.
        unsafe { cell.retire(guard) };
    }
}

/// The same entry in a layer behind the slice. The entry goes on, and its node is locked.
fn behind_slice(entry: Entry) -> Entry {
    // SAFETY: the entry is live, and its node locked.
    match unsafe { entry.cell() } {
        Some(cell) => entry_behind_slice(entry.tail, cell.suffix(), cell.value()),
        None => entry.behind_slice(),
    }
}

/// Inserts `entry` at `position` into the full node `border`, whose lock is `locked`.
pub(crate) fn split_insert<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    position: usize,
    entry: Entry,
) {
    let space = shape.space();
    let mut path: Vec<(InteriorRef<'t>, Locked<'t>)> = Vec::with_capacity(4);
    let mut top = border.node();
    while let Some((parent, parent_locked)) = top.lock_parent(space) {
        path.push((parent, parent_locked));
        if parent.count() < INTERIOR_WIDTH {
            break;
        }
        top = parent.node();
    }

    locked.mark_splitting();
    for (_, parent_locked) in &mut path {
        parent_locked.mark_splitting();
    }

    let mut born = Vec::with_capacity(path.len() + 1);
    let (new, mut separator) = split_border(shape, border, position, entry, &mut born);
    let (mut left, mut right) = (border.node(), new.node());
    let mut room = false;
    for &(parent, _) in &path {
        if parent.count() < INTERIOR_WIDTH {
            insert_child(space, parent, left, separator, right);
            room = true;
            break;
        }
        let (new, next) = split_interior(shape, parent, left, separator, right, &mut born);
        (left, right, separator) = (parent.node(), new.node(), next);
    }
    if !room {
        let (root, root_locked) = shape.new_interior(true);
        born.push(root_locked);
        root.set_child(space, 0, Some(left));
        root.set_separator(0, separator);
        root.set_child(space, 1, Some(right));
        root.set_count(1);
        left.set_parent(space, Some(root));
        right.set_parent(space, Some(root));
        path.last_mut().map_or(&mut locked, |(_, top)| top).clear_root();
        shape.replace_root(left, root.node());
    }
}

/// Moves the upper entries to a new node. Returns it with its lowest slice.
fn split_border<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    position: usize,
    entry: Entry,
    born: &mut Vec<Locked<'t>>,
) -> (BorderRef<'t>, u64) {
    let crowd = Crowd::of(border, position, entry);
    let cut = crowd.nearest_cut(wanted_cut(border, position));
    let cut = cut.expect("a node of one slice is relieved by a layer");
    let separator = crowd.0[cut].slice;

    let (right, right_locked) = shape.new_border(false, separator, border.high());
    born.push(right_locked);
    right.fill(&crowd.0[cut..]);

    // The new entry is on one side; as many old ones stay.
    border.clear_stale();
    border.set_high(separator);
    let mut kept: Permutation = border.permutation().truncate(cut - usize::from(position < cut));
    if position < cut {
        let (next, slot) = kept.insert(position);
        border.set_entry(slot, entry);
        kept = next;
    }
    border.publish(kept);
    (right, separator)
}

/// Puts `right` behind `left`, which is a child of `parent`, and `separator` between them.
fn insert_child<'t>(
    space: Space<'t>,
    parent: InteriorRef<'t>,
    left: NodeRef<'t>,
    separator: u64,
    right: NodeRef<'t>,
) {
    let count = parent.count();
    let index = parent.index_of(space, left).expect("a node is a child of its parent");
    for at in (index..count).rev() {
        parent.set_child(space, at + 2, parent.child(space, at + 1));
        parent.set_separator(at + 1, parent.separator(at));
    }
    parent.set_child(space, index + 1, Some(right));
    parent.set_separator(index, separator);
    parent.set_count(count + 1);
    right.set_parent(space, Some(parent));
}

/// As [`insert_child`], into a full node: moves the upper children to a new node. Returns it with
/// the separator between the two.
fn split_interior<'t>(
    shape: &'t Shape,
    parent: InteriorRef<'t>,
    left: NodeRef<'t>,
    separator: u64,
    right: NodeRef<'t>,
    born: &mut Vec<Locked<'t>>,
) -> (InteriorRef<'t>, u64) {
    let space = shape.space();
    let index = parent.index_of(space, left).expect("a node is a child of its parent");
    let mut separators = [separator; INTERIOR_CROWD];
    let mut children = [Some(right); INTERIOR_CROWD + 1];
    for at in 0..INTERIOR_WIDTH {
        separators[at + usize::from(at >= index)] = parent.separator(at);
    }
    for at in 0..INTERIOR_CROWD {
        children[at + usize::from(at > index)] = parent.child(space, at);
    }
    // Ascending keys leave full nodes behind. The new node has a separator all the same.
    let cut = if index == INTERIOR_WIDTH { INTERIOR_CROWD - 2 } else { INTERIOR_CROWD / 2 };

    let (new, new_locked) = shape.new_interior(false);
    born.push(new_locked);
    for (at, child) in children[cut + 1..].iter().enumerate() {
        new.set_child(space, at, *child);
        child.expect("a full node has all its children").set_parent(space, Some(new));
    }
    for (at, separator) in separators[cut + 1..].iter().enumerate() {
        new.set_separator(at, *separator);
    }
    new.set_count(INTERIOR_CROWD - 1 - cut);

    if index < cut {
        right.set_parent(space, Some(parent));
    }
    for at in 0..cut {
        parent.set_separator(at, separators[at]);
        parent.set_child(space, at, children[at]);
    }
    parent.set_child(space, cut, children[cut]);
    parent.set_count(cut);
    (new, separators[cut])
}
