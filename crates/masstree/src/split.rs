//! Making room: a full border node is cut in two, and so is every full ancestor up to the first
//! with room.
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
//! at no time a key is missing. A split of one level takes 200 ns or so, and one in eight goes
//! further.
//!
//! **Where to cut.** The cut falls between two slices, because a slice has one border node; there
//! is such a place, since a slice has at most ten entries. It is the one nearest to the middle, but
//! for the ends of a layer: when keys come in ascending order, the old node stays full and only the
//! new entry goes right; and alike when they descend.

use crate::node::{BorderRef, Entry, InteriorRef, NodeRef};
use crate::permutation::WIDTH;
use crate::tree::Shape;
use keyrack_concurrent::Locked;

/// Entries of a full node with the one that comes.
const CROWD: usize = WIDTH + 1;

/// Inserts `entry` at `position` into the full node `border`, whose lock is `locked`.
pub(crate) fn split_insert<'g>(
    shape: &Shape,
    border: BorderRef<'g>,
    mut locked: Locked<'g>,
    position: usize,
    entry: Entry,
) {
    let mut path: Vec<(InteriorRef<'g>, Locked<'g>)> = Vec::new();
    let mut top = border.node();
    while let Some((parent, parent_locked)) = top.lock_parent() {
        path.push((parent, parent_locked));
        if parent.count() < WIDTH {
            break;
        }
        top = parent.node();
    }

    locked.mark_splitting();
    for (_, parent_locked) in &mut path {
        parent_locked.mark_splitting();
    }

    let mut born = Vec::with_capacity(path.len() + 1);
    let (new, mut separator) = split_border(border, position, entry, &mut born);
    shape.borders.add(1);
    let (mut left, mut right) = (border.node(), new.node());
    let mut room = false;
    for &(parent, _) in &path {
        if parent.count() < WIDTH {
            insert_child(parent, left, separator, right);
            room = true;
            break;
        }
        let (new, next) = split_interior(parent, left, separator, right, &mut born);
        shape.interiors.add(1);
        (left, right, separator) = (parent.node(), new.node(), next);
    }
    if !room {
        let root = InteriorRef::make(true);
        root.set_child(0, Some(left));
        root.set_separator(0, separator);
        root.set_child(1, Some(right));
        root.set_count(1);
        shape.interiors.add(1);
        left.set_parent(root);
        right.set_parent(root);
        path.last_mut().map_or(&mut locked, |(_, top)| top).clear_root();
        shape.replace_root(left, root.node());
    }
}

/// Moves the upper entries to a new node. Returns it with its lowest slice.
fn split_border<'g>(
    border: BorderRef<'g>,
    position: usize,
    entry: Entry,
    born: &mut Vec<Locked<'g>>,
) -> (BorderRef<'g>, u64) {
    let permutation = border.permutation();
    let mut crowd = [entry; CROWD];
    for (index, slot) in permutation.slots().enumerate() {
        crowd[index + usize::from(index >= position)] = border.entry(slot);
    }
    let wanted = match position {
        WIDTH if border.high() == 0 => WIDTH,
        0 if border.low() == 0 => 1,
        _ => CROWD / 2,
    };
    let cut = nearest_cut(&crowd, wanted);
    let separator = crowd[cut].slice;

    let right = BorderRef::make(false, separator, border.high());
    born.push(right.version().lock());
    let mut filled = right.permutation();
    for (at, entry) in crowd[cut..].iter().enumerate() {
        let (next, slot) = filled.insert(at);
        right.set_entry(slot, *entry);
        filled = next;
    }
    right.publish(filled);

    // The new entry is on one side; as many old ones stay.
    border.clear_stale();
    border.set_high(separator);
    let mut kept = permutation.truncate(cut - usize::from(position < cut));
    if position < cut {
        let (next, slot) = kept.insert(position);
        border.set_entry(slot, entry);
        kept = next;
    }
    border.publish(kept);
    (right, separator)
}

/// The cut nearest to `wanted` that no slice straddles.
fn nearest_cut(crowd: &[Entry; CROWD], wanted: usize) -> usize {
    let fits = |cut: usize| (1..CROWD).contains(&cut) && crowd[cut - 1].slice != crowd[cut].slice;
    let cut = (0..CROWD).find_map(|step| {
        [wanted.wrapping_sub(step), wanted + step].into_iter().find(|&cut| fits(cut))
    });
    cut.expect("a slice has ten entries at most, and there are sixteen")
}

/// Puts `right` behind `left`, which is a child of `parent`, and `separator` between them.
fn insert_child<'g>(
    parent: InteriorRef<'g>,
    left: NodeRef<'g>,
    separator: u64,
    right: NodeRef<'g>,
) {
    let count = parent.count();
    let index = parent.index_of(left).expect("a node is a child of its parent");
    for at in (index..count).rev() {
        parent.set_child(at + 2, parent.child(at + 1));
        parent.set_separator(at + 1, parent.separator(at));
    }
    parent.set_child(index + 1, Some(right));
    parent.set_separator(index, separator);
    parent.set_count(count + 1);
    right.set_parent(parent);
}

/// As [`insert_child`], into a full node: moves the upper children to a new node. Returns it with
/// the separator between the two.
fn split_interior<'g>(
    parent: InteriorRef<'g>,
    left: NodeRef<'g>,
    separator: u64,
    right: NodeRef<'g>,
    born: &mut Vec<Locked<'g>>,
) -> (InteriorRef<'g>, u64) {
    let index = parent.index_of(left).expect("a node is a child of its parent");
    let mut separators = [separator; CROWD];
    let mut children = [Some(right); CROWD + 1];
    for at in 0..WIDTH {
        separators[at + usize::from(at >= index)] = parent.separator(at);
    }
    for at in 0..CROWD {
        children[at + usize::from(at > index)] = parent.child(at);
    }
    // Ascending keys leave full nodes behind. The new node has a separator all the same.
    let cut = if index == WIDTH { CROWD - 2 } else { CROWD / 2 };

    let new = InteriorRef::make(false);
    born.push(new.version().lock());
    for (at, child) in children[cut + 1..].iter().enumerate() {
        new.set_child(at, *child);
        child.expect("a full node has all its children").set_parent(new);
    }
    for (at, separator) in separators[cut + 1..].iter().enumerate() {
        new.set_separator(at, *separator);
    }
    new.set_count(CROWD - 1 - cut);

    if index < cut {
        right.set_parent(parent);
    }
    for at in 0..cut {
        parent.set_separator(at, separators[at]);
        parent.set_child(at, children[at]);
    }
    parent.set_child(cut, children[cut]);
    parent.set_count(cut);
    (cut + 1..CROWD).for_each(|at| parent.set_child(at, None));
    (new, separators[cut])
}
