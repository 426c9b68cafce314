//! Entries move between two border nodes side by side below one parent.
//!
//! ```text
//!   before   p [ .. | low of n | .. ]    m: a b c    n: q r s
//!   joined   p [ .. | .. ]               m: a b c q r s
//! ```
//!
//! A thread that has locked one of the two, and then the parent, locks the other only if that needs
//! no waiting: its holder may wait for the parent. All three are marked before the first entry
//! moves and unlocked after the last, so to readers and scans the move is one step. Both nodes
//! count it as a split, because the range of each is another one then: a search that has found one
//! of them begins anew.
//!
//! Roots of layers have ranges of another layer, and take no part.

use crate::node::{BorderRef, InteriorRef, Kind, Space};
use crate::permutation::Permutation;
use crate::shape::Shape;
use keyrack_concurrent::Locked;

/// On which side of a node another one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    /// Right first: that is the order of the nodes in memory after a bulk load.
    pub(crate) const BOTH: [Side; 2] = [Side::Right, Side::Left];

    /// The index of the child beside child `index` of `parent`, if there is one.
    pub(crate) fn of(self, parent: InteriorRef<'_>, index: usize) -> Option<usize> {
        match self {
            Side::Left => index.checked_sub(1),
            Side::Right => Some(index + 1).filter(|index| *index <= parent.count()),
        }
    }
}

/// The border node on one side of child `index`, if one is there that has a range in this layer.
/// Without the parent's lock, it is a guess.
pub(crate) fn border_beside<'t>(
    space: Space<'t>,
    parent: InteriorRef<'t>,
    index: usize,
    side: Side,
) -> Option<BorderRef<'t>> {
    let child = parent.child(space, side.of(parent, index)?)?;
    match child.kind() {
        Kind::Border(border) if !child.version().load().is_root() => Some(border),
        _ => None,
    }
}

/// Two border nodes side by side, locked, and their parent.
pub(crate) struct Pair<'t> {
    pub(crate) parent: InteriorRef<'t>,
    parent_locked: Locked<'t>,
    /// Of the right one among the children.
    index: usize,
    left: (BorderRef<'t>, Locked<'t>),
    right: (BorderRef<'t>, Locked<'t>),
}

impl<'t> Pair<'t> {
    /// Child `index`, which is `border`, and its neighbour on one side, locked, too, while the
    /// parent was.
    pub(crate) fn new(
        (parent, parent_locked): (InteriorRef<'t>, Locked<'t>),
        (border, index): ((BorderRef<'t>, Locked<'t>), usize),
        (neighbour, side): ((BorderRef<'t>, Locked<'t>), Side),
    ) -> Self {
        let (index, left, right) = match side {
            Side::Left => (index, neighbour, border),
            Side::Right => (index + 1, border, neighbour),
        };
        debug_assert!(left.0.high() == Some(right.0.low()));
        Pair { parent, parent_locked, index, left, right }
    }

    /// Moves all entries to the left node, and removes the right one. Returns the parent.
    pub(crate) fn join(mut self, shape: &'t Shape) -> InteriorRef<'t> {
        self.left.1.mark_splitting();
        self.right.1.mark_deleted();
        self.parent_locked.mark_splitting();
        let (left, right) = (self.left.0, self.right.0);
        move_down(left, right, right.permutation().len());
        left.set_high(right.high());
        self.parent.remove_child(shape.space(), self.index);
        shape.end(right.node(), self.right.1);
        self.parent
    }
}

/// Moves the first `count` entries of `right` after those of `left`. Both are marked.
fn move_down(left: BorderRef<'_>, right: BorderRef<'_>, count: usize) {
    let (mut from, mut to): (Permutation, Permutation) = (right.permutation(), left.permutation());
    for _ in 0..count {
        let (next, slot) = to.insert(to.len());
        left.set_entry(slot, right.entry(from.slot(0)));
        (from, to) = (from.remove(0), next);
    }
    left.clear_stale();
    right.clear_stale();
    left.publish(to);
    right.publish(from);
}
