//! Merges of nodes that have become nearly empty.
//!
//! ```text
//!   border     a quarter full at most, after a removal:  joined with a neighbour, if the two
//!   interior   a quarter full at most, after a merge:    together fill three quarters at most
//! ```
//!
//! The neighbour has the same parent. The left node of the two gets all entries or children, and
//! the right one is removed, which is never the first child, with the separator between them. It
//! takes four inserts at least until the left node is cut, and then some removals until one half is
//! nearly empty again, so that inserts and removals by turns do not merge and cut by turns.
//!
//! **Border nodes** are joined as `balance.rs` says. A nearly empty one that has no such neighbour
//! may get one if its parent is merged, so that is tried next.
//!
//! **Interior nodes.** The node is locked, then its parent, and then the neighbour if that needs no
//! waiting. The separator between the two comes down. Children get their new parent under the locks
//! of both parents. All three nodes are marked.

use crate::balance::{Pair, Side, border_beside};
use crate::node::{BorderRef, INTERIOR_WIDTH, InteriorRef, Kind, Space};
use crate::permutation::WIDTH;
use crate::reclaim::Reclaimed;
use crate::shape::Shape;
use keyrack_concurrent::{Locked, Version};

/// A border node with so many entries is nearly empty.
pub(crate) const SPARSE: usize = WIDTH / 4;
/// As many entries as a merged node may have.
const MERGED_MAX: usize = WIDTH * 3 / 4;
/// The same for the children of an interior node.
const SPARSE_CHILDREN: usize = (INTERIOR_WIDTH + 1) / 4;
const MERGED_CHILDREN_MAX: usize = (INTERIOR_WIDTH + 1) * 3 / 4;

/// Merges a nearly empty border node with one beside it, if one has room.
pub(crate) fn merge_border<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    version: Version,
) -> Reclaimed<'t> {
    let space = shape.space();
    if version.is_root() {
        return Reclaimed::Nothing;
    }
    // Most often there is no room, which a look without locks tells.
    let Some(parent) = border.node().parent(space) else { return Reclaimed::Changed };
    let Some(index) = parent.index_of(space, border.node()) else { return Reclaimed::Changed };
    if !Side::BOTH.iter().any(|side| room_beside(space, parent, index, *side, border).is_some()) {
        return above_if_sparse(parent);
    }
    let locked = border.version().lock();
    if version.split_since(locked.version()) {
        return Reclaimed::Changed;
    }
    let (parent, parent_locked) =
        border.node().lock_parent(space).expect("only a root has no parent");
    let index = parent.index_of(space, border.node()).expect("a node is a child of its parent");
    for side in Side::BOTH {
        let Some(neighbour) = room_beside(space, parent, index, side, border) else { continue };
        let Some(neighbour_locked) = lock_beside(border, neighbour) else {
            return Reclaimed::Changed;
        };
        let neighbour = (neighbour, neighbour_locked);
        let pair = Pair::new((parent, parent_locked), ((border, locked), index), (neighbour, side));
        return Reclaimed::Below(pair.join(shape).node());
    }
    Reclaimed::Nothing
}

/// The border node beside child `index`, which is `border`, if one is there with which it fits
/// into one node.
fn room_beside<'t>(
    space: Space<'t>,
    parent: InteriorRef<'t>,
    index: usize,
    side: Side,
    border: BorderRef<'t>,
) -> Option<BorderRef<'t>> {
    border_beside(space, parent, index, side).filter(|neighbour| fit(border, *neighbour))
}

/// Locks the neighbour of a locked node without waiting. `None` also if it has no room any more, or
/// has become a layer.
fn lock_beside<'t>(border: BorderRef<'t>, neighbour: BorderRef<'t>) -> Option<Locked<'t>> {
    let locked = neighbour.version().try_lock()?;
    (!locked.version().is_root() && fit(border, neighbour)).then_some(locked)
}

/// Whether two border nodes may be merged, one of which is nearly empty.
fn fit(border: BorderRef<'_>, neighbour: BorderRef<'_>) -> bool {
    let entries = border.permutation().len();
    entries <= SPARSE && entries + neighbour.permutation().len() <= MERGED_MAX
}

fn is_sparse(node: InteriorRef<'_>) -> bool {
    node.count() < SPARSE_CHILDREN
}

/// What is left to do if a node cannot be merged.
fn above_if_sparse(parent: InteriorRef<'_>) -> Reclaimed<'_> {
    if is_sparse(parent) && !parent.version().load().is_root() {
        Reclaimed::Below(parent.node())
    } else {
        Reclaimed::Nothing
    }
}

/// Merges an interior node with few children with one beside it, if one has room.
pub(crate) fn merge_interior<'t>(
    shape: &'t Shape,
    node: InteriorRef<'t>,
    version: Version,
) -> Reclaimed<'t> {
    let space = shape.space();
    if version.is_root() || !is_sparse(node) {
        return Reclaimed::Nothing;
    }
    let locked = node.version().lock();
    if version.split_since(locked.version()) {
        return Reclaimed::Changed;
    }
    let (parent, parent_locked) =
        node.node().lock_parent(space).expect("only a root has no parent");
    let index = parent.index_of(space, node.node()).expect("a node is a child of its parent");
    for side in Side::BOTH {
        let Some(at) = side.of(parent, index) else { continue };
        let child = parent.child(space, at).expect("a locked node is whole");
        let Kind::Interior(neighbour) = child.kind() else { continue };
        let fit = || node.count() + neighbour.count() + 2 <= MERGED_CHILDREN_MAX;
        if !fit() {
            continue;
        }
        let Some(neighbour_locked) = neighbour.version().try_lock().filter(|_| fit()) else {
            return Reclaimed::Changed;
        };
        let (node, neighbour) = ((node, locked), (neighbour, neighbour_locked));
        let (left, right) = match side {
            Side::Left => (neighbour, node),
            Side::Right => (node, neighbour),
        };
        join(shape, (parent, parent_locked), left, right, index.max(at));
        return Reclaimed::Merged(parent.node());
    }
    Reclaimed::Nothing
}

/// Moves the children of `right`, child `index` of `parent`, to `left`, and removes it.
fn join<'t>(
    shape: &'t Shape,
    (parent, mut parent_locked): (InteriorRef<'t>, Locked<'t>),
    (left, mut left_locked): (InteriorRef<'t>, Locked<'t>),
    (right, mut right_locked): (InteriorRef<'t>, Locked<'t>),
    index: usize,
) {
    let space = shape.space();
    debug_assert!(!left_locked.version().is_root() && !right_locked.version().is_root());
    left_locked.mark_splitting();
    right_locked.mark_deleted();
    parent_locked.mark_splitting();
    let (first, count) = (left.count() + 1, right.count());
    left.set_separator(first - 1, parent.separator(index - 1));
    for at in 0..=count {
        let child = right.child(space, at).expect("a locked node is whole");
        left.set_child(space, first + at, Some(child));
        child.set_parent(space, Some(left));
        if at < count {
            left.set_separator(first + at, right.separator(at));
        }
    }
    left.set_count(first + count);
    parent.remove_child(space, index);
    shape.end(right.node(), right_locked);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
    use keyrack_concurrent::pin;

    /// A neighbour with room was found, and fills, or becomes a layer, before it is locked.
    #[test]
    fn a_neighbour_that_filled_or_became_a_layer_is_not_joined() {
        let key = |n: u8| [&b"one slice"[..], &[n]].concat();
        let before = |n: u8| vec![b'a' + n];
        let put = |tree: &Tree<u64>, key: Vec<u8>| {
            assert!(tree.insert(&key, 1, &pin()).is_none());
        };
        for becomes_a_layer in [false, true] {
            let mut tree = Tree::<u64>::new();
            (0..14).for_each(|n| put(&tree, before(n)));
            (0..14).for_each(|n| put(&tree, key(n)));
            (SPARSE as u8..14).for_each(|n| assert!(tree.remove(&before(n), &pin()).is_some()));
            (4..14).for_each(|n| assert!(tree.remove(&key(n), &pin()).is_some()));
            let space = tree.shape.space();
            let Kind::Interior(root) = tree.shape.top().unwrap().0.kind() else { panic!("levels") };
            let Some(Kind::Border(border)) = root.child(space, 0).map(|child| child.kind()) else {
                panic!("two levels")
            };
            let locked = border.version().lock();
            let neighbour = room_beside(space, root, 0, Side::Right, border).unwrap();
            assert!(lock_beside(border, neighbour).is_some());
            (4..13).for_each(|n| put(&tree, key(n)));
            if becomes_a_layer {
                (13..17).for_each(|n| put(&tree, key(n)));
                (1..17).for_each(|n| assert!(tree.remove(&key(n), &pin()).is_some()));
                assert!(fit(border, neighbour) && neighbour.version().load().is_root());
            }
            assert!(lock_beside(border, neighbour).is_none());
            assert!(room_beside(space, root, 0, Side::Right, border).is_none());
            drop(locked);
            tree.check().unwrap();
        }
    }
}
