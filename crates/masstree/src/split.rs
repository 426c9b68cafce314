//! Splits of full border nodes.
//!
//! ```text
//!   1  lock the ancestors upward, until one has room or the root is passed
//!   2  mark all of them, and the border node: readers wait
//!   3  cut the border node; add separator and new node to the parent; cut that if it is full; ...
//!   4  a root that was cut gets a new root above
//!   5  unlock all
//! ```
//!
//! The new nodes start locked. To a reader the split is therefore one step, at any height, and no
//! key is ever missing. A split of one level takes about 200 ns; one in sixteen goes further up.
//!
//! **Where to cut.** The cut falls between two slices, because a slice has one border node. It is
//! the cut nearest to the middle, except at the ends of a layer. When keys come in ascending order,
//! the old node stays full and only the new entry goes right; descending keys mirror this.
//!
//! **When not to cut.** If most entries of a node have one slice, there is no good cut. Then the
//! keys that continue after that slice move to a layer of their own, and one entry for it stays.

use crate::cell::Cell;
use crate::node::{
    BorderRef, Entry, INTERIOR_WIDTH, InteriorRef, NodeRef, Space, entry_after_slice,
};
use crate::permutation::{Permutation, WIDTH};
use crate::shape::Shape;
use keyrack_concurrent::{Guard, Locked};

/// Entries of a full border node and the new one.
const OVERFULL: usize = WIDTH + 1;
/// Entries that a cut leaves on each side at least, if a layer could be made instead.
const SIDE_MIN: usize = 3;
/// Separators of a full interior node and the new one.
const INTERIOR_OVERFULL: usize = INTERIOR_WIDTH + 1;

/// The entries of a full node with `entry` at `index`.
pub(crate) struct Overfull([Entry; OVERFULL]);

impl Overfull {
    fn of(border: BorderRef<'_>, index: usize, entry: Entry) -> Self {
        let mut overfull = [entry; OVERFULL];
        for (at, slot) in border.permutation().slots().enumerate() {
            overfull[at + usize::from(at >= index)] = border.entry(slot);
        }
        Overfull(overfull)
    }

    /// The cut nearest to `wanted` that no slice straddles.
    fn nearest_cut(&self, wanted: usize) -> Option<usize> {
        let fits =
            |cut: usize| (1..OVERFULL).contains(&cut) && self.0[cut - 1].slice != self.0[cut].slice;
        (0..OVERFULL).find_map(|step| {
            [wanted.wrapping_sub(step), wanted + step].into_iter().find(|&cut| fits(cut))
        })
    }
}

/// The preferred cut of a full node whose new entry comes at `index`.
fn wanted_cut(border: BorderRef<'_>, index: usize) -> usize {
    match index {
        WIDTH if border.high() == 0 => WIDTH,
        0 if border.low() == 0 => 1,
        _ => OVERFULL / 2,
    }
}

/// The slice for [`move_slice_to_layer`], if that suits the full node better than a split.
pub(crate) fn slice_to_move(border: BorderRef<'_>, index: usize, slice: u64) -> Option<u64> {
    let new_entry = Entry { slice, tail: 0, code: 0, value: 0 };
    let overfull = Overfull::of(border, index, new_entry);
    let wanted = wanted_cut(border, index);
    let cut = overfull.nearest_cut(wanted);
    if cut.is_some_and(|cut| cut == wanted || (SIDE_MIN..=OVERFULL - SIDE_MIN).contains(&cut)) {
        return None;
    }
    // The slice in the middle has most of the node.
    let slice = overfull.0[OVERFULL / 2].slice;
    let long = border.permutation().slots().map(|slot| border.entry(slot));
    let long = long.filter(|entry| entry.slice == slice && entry.exceeds_slice());
    (long.count() > 1).then_some(slice)
}

/// Moves all keys that continue after `slice` to a layer of their own.
pub(crate) fn move_slice_to_layer<'t>(
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
        if entry.slice != slice || !entry.exceeds_slice() {
            kept.push(entry);
            continue;
        }
        if moved.is_empty() {
            kept.push(Entry::short_layer(slice, handle));
        }
        moved.push(after_slice(entry));
        // SAFETY: the entry is live, and the node locked.
        cells.extend(unsafe { entry.cell() });
    }
    root.fill(&moved);
    drop(root_locked);
    shape.layers.add(1);

    locked.mark_inserting();
    border.clear_stale();
    border.fill(&kept);
    retire_cells(shape, locked, &cells, guard);
}

/// Retires cells that were unlinked under the lock, and drops the lock. Their values have moved.
pub(crate) fn retire_cells(shape: &Shape, locked: Locked<'_>, cells: &[Cell<'_>], guard: &Guard) {
    if shape.pointers {
        cells.iter().for_each(|cell| cell.set_value(0));
    }
    // A destructor that runs meanwhile may use the tree.
    drop(locked);
    for cell in cells {
        // SAFETY: this thread has unlinked it under the lock, and does so once.
        unsafe { cell.retire(guard) };
    }
}

/// The same entry in a layer after the slice. Its key continues, and its node is locked.
fn after_slice(entry: Entry) -> Entry {
    // SAFETY: the entry is live, and its node locked.
    match unsafe { entry.cell() } {
        Some(cell) => entry_after_slice(entry.tail, cell.suffix(), cell.value()),
        None => entry.after_slice(),
    }
}

/// Inserts `entry` at `index` into the full node `border`, whose lock is `locked`.
// Inlined, its frame would be set up at each insert of a new key.
#[inline(never)]
pub(crate) fn split_insert<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    index: usize,
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

    let mut new_locks = Vec::with_capacity(path.len() + 1);
    let (new, mut separator) = split_border(shape, border, index, entry, &mut new_locks);
    let (mut left, mut right) = (border.node(), new.node());
    let mut fitted = false;
    for &(parent, _) in &path {
        if parent.count() < INTERIOR_WIDTH {
            insert_child(space, parent, left, separator, right);
            fitted = true;
            break;
        }
        let (new, next) = split_interior(shape, parent, left, separator, right, &mut new_locks);
        (left, right, separator) = (parent.node(), new.node(), next);
    }
    if !fitted {
        let (root, root_locked) = shape.new_interior(true);
        new_locks.push(root_locked);
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
    index: usize,
    entry: Entry,
    new_locks: &mut Vec<Locked<'t>>,
) -> (BorderRef<'t>, u64) {
    let overfull = Overfull::of(border, index, entry);
    let cut = overfull.nearest_cut(wanted_cut(border, index));
    let cut = cut.expect("a node of one slice is relieved by a layer");
    let separator = overfull.0[cut].slice;

    let (right, right_locked) = shape.new_border(false, separator, border.high());
    new_locks.push(right_locked);
    right.fill(&overfull.0[cut..]);

    // The new entry is on one side; as many old ones stay.
    border.clear_stale();
    border.set_high(separator);
    let mut kept: Permutation = border.permutation().truncate(cut - usize::from(index < cut));
    if index < cut {
        let (next, slot) = kept.insert(index);
        border.set_entry(slot, entry);
        kept = next;
    }
    border.publish(kept);
    (right, separator)
}

/// Puts `right` after `left`, which is a child of `parent`, with `separator` between them.
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
    new_locks: &mut Vec<Locked<'t>>,
) -> (InteriorRef<'t>, u64) {
    let space = shape.space();
    let index = parent.index_of(space, left).expect("a node is a child of its parent");
    let mut separators = [separator; INTERIOR_OVERFULL];
    let mut children = [Some(right); INTERIOR_OVERFULL + 1];
    for at in 0..INTERIOR_WIDTH {
        separators[at + usize::from(at >= index)] = parent.separator(at);
    }
    for at in 0..INTERIOR_OVERFULL {
        children[at + usize::from(at > index)] = parent.child(space, at);
    }
    // Ascending keys leave full nodes behind. The new node has a separator all the same.
    let cut = if index == INTERIOR_WIDTH { INTERIOR_OVERFULL - 2 } else { INTERIOR_OVERFULL / 2 };

    let (new, new_locked) = shape.new_interior(false);
    new_locks.push(new_locked);
    for (at, child) in children[cut + 1..].iter().enumerate() {
        new.set_child(space, at, *child);
        child.expect("a full node has all its children").set_parent(space, Some(new));
    }
    for (at, separator) in separators[cut + 1..].iter().enumerate() {
        new.set_separator(at, *separator);
    }
    new.set_count(INTERIOR_OVERFULL - 1 - cut);

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
