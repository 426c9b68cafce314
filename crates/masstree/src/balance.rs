//! Entries move between two border nodes side by side below one parent.
//!
//! ```text
//!   before   p [ .. | low of n | .. ]    m: a b c    n: q r s t u
//!   joined   p [ .. | .. ]               m: a b c q r s t u
//!   shared   p [ .. | r | .. ]           m: a b c q  n: r s t u
//! ```
//!
//! A thread that has locked one of the two, and then the parent, locks the other only if that needs
//! no waiting: its holder may wait for the parent. All three are marked before the first entry
//! moves and unlocked after the last, so to readers and scans the move is one step. Both nodes
//! count it as a split, because the range of each is another one then: a search that has found one
//! of them begins anew.
//!
//! Roots of layers have ranges of another layer, and take no part.
//!
//! **When they are shared.** A full node that gets another entry would be cut, and two nodes would
//! be half full. If a neighbour has room for some entries, it gets them instead, so that both are
//! equally full (the B*-tree of D. Knuth, "The Art of Computer Programming" 3, 6.2.4). Random keys
//! fill nodes to 79 % in this way, in place of 69 %. The less room there must be, the fuller nodes
//! become, and the more often entries move.

use crate::entry::Entry;
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, Space};
use crate::permutation::{Permutation, WIDTH};
use crate::shape::Shape;
use keyrack_concurrent::Locked;

/// Entries that a neighbour may have at most, for a full node to share its own with it.
const SHARED_MAX: usize = WIDTH - 5;

/// On which side of a node another one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::Right, Side::Left];

    /// The index of the child beside child `index` of `parent`, if there is one.
    #[inline]
    pub(crate) fn of(self, parent: InteriorRef<'_>, index: usize) -> Option<usize> {
        match self {
            Side::Left => index.checked_sub(1),
            Side::Right => Some(index + 1).filter(|index| *index <= parent.count()),
        }
    }
}

/// The border node on one side of child `index`, if one is there that has a range in this layer.
/// Without the parent's lock, it is a guess.
#[inline]
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
    parent: InteriorRef<'t>,
    parent_locked: Locked<'t>,
    /// Of the right one among the children.
    index: usize,
    left: (BorderRef<'t>, Locked<'t>),
    right: (BorderRef<'t>, Locked<'t>),
}

impl<'t> Pair<'t> {
    /// Child `index`, which is `border`, and its neighbour on one side, locked, too, while the
    /// parent was.
    #[inline]
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
        let (low, high) = (left.permutation(), right.permutation());
        let (low, _) = move_down((left, low), (right, high), high.len());
        left.clear_stale();
        left.publish(low);
        left.set_high(right.high());
        self.parent.remove_child(shape.space(), self.index);
        shape.end(right.node(), self.right.1);
        self.parent
    }

    /// Entry `at` of both together.
    #[inline]
    fn entry(&self, at: usize) -> Entry {
        let (left, right) = (self.left.0, self.right.0);
        let low = left.permutation();
        match at.checked_sub(low.len()) {
            None => left.entry(low.slot(at)),
            Some(at) => right.entry(right.permutation().slot(at)),
        }
    }

    /// How many entries the left node is to have, with one that comes at `index` of both together.
    /// `None` if they cannot be cut there.
    #[inline]
    fn even(&self, index: usize, new: &Entry) -> Option<usize> {
        let fence = |at: usize| match at {
            _ if at == index => new.fence(),
            _ => self.entry(at - usize::from(at > index)).fence(),
        };
        let total = self.left.0.permutation().len() + self.right.0.permutation().len() + 1;
        let even = total / 2;
        [even, even + 1, even - 1].into_iter().find(|&count| fence(count - 1) != fence(count))
    }

    /// Inserts an entry at `index` of both together, so that the left node has `count` then.
    #[inline]
    fn share(mut self, index: usize, new: Entry, count: usize) {
        self.left.1.mark_splitting();
        self.right.1.mark_splitting();
        self.parent_locked.mark_splitting();
        let (left, right) = (self.left.0, self.right.0);
        let (mut low, mut high) = (left.permutation(), right.permutation());
        let stay = count - usize::from(index < count);
        (low, high) = match low.len().checked_sub(stay) {
            Some(more) => move_up((left, low), (right, high), more),
            None => move_down((left, low), (right, high), stay - low.len()),
        };
        if index < count {
            low = put(left, low, index, new);
        } else {
            high = put(right, high, index - count, new);
        }
        left.clear_stale();
        right.clear_stale();
        left.publish(low);
        right.publish(high);
        let separator = right.entry(high.slot(0)).fence();
        left.set_high(Some(separator));
        right.set_low(separator);
        self.parent.set_separator(self.index - 1, separator);
    }
}

/// Fills a free slot of a marked node.
#[inline]
fn put(border: BorderRef<'_>, permutation: Permutation, index: usize, entry: Entry) -> Permutation {
    let (permutation, slot) = permutation.insert(index);
    border.set_entry(slot, entry);
    permutation
}

/// Moves the first `count` entries of `right` after those of `left`. Both are marked.
#[inline]
fn move_down(
    (left, mut low): (BorderRef<'_>, Permutation),
    (right, mut high): (BorderRef<'_>, Permutation),
    count: usize,
) -> (Permutation, Permutation) {
    for _ in 0..count {
        low = put(left, low, low.len(), right.entry(high.slot(0)));
        high = high.remove(0);
    }
    (low, high)
}

/// Moves the last `count` entries of `left` before those of `right`. Both are marked.
#[inline]
fn move_up(
    (left, mut low): (BorderRef<'_>, Permutation),
    (right, mut high): (BorderRef<'_>, Permutation),
    count: usize,
) -> (Permutation, Permutation) {
    for _ in 0..count {
        let last = low.len() - 1;
        high = put(right, high, 0, left.entry(low.slot(last)));
        low = low.truncate(last);
    }
    (low, high)
}

/// The locks of a node and of its parent.
pub(crate) type Locks<'t> = (Locked<'t>, Locked<'t>);

/// Inserts an entry into a full node after some of its entries have moved to a neighbour with room.
/// Gives the locks back if there is none.
pub(crate) fn share_insert<'t>(
    space: Space<'t>,
    (border, parent): (BorderRef<'t>, InteriorRef<'t>),
    (locked, parent_locked): Locks<'t>,
    (index, entry): (usize, Entry),
) -> Result<(), Locks<'t>> {
    let at = parent.index_for(border.low());
    debug_assert!(parent.child(space, at) == Some(border.node()));
    let Some((neighbour, side)) = roomiest(space, parent, at) else {
        return Err((locked, parent_locked));
    };
    neighbour.node().prefetch();
    let Some(neighbour_locked) = neighbour.version().try_lock() else {
        return Err((locked, parent_locked));
    };
    let others = neighbour.permutation().len();
    if others > SHARED_MAX || neighbour_locked.version().is_root() {
        return Err((locked, parent_locked));
    }
    let pair = Pair::new(
        (parent, parent_locked),
        ((border, locked), at),
        ((neighbour, neighbour_locked), side),
    );
    let index = if side == Side::Left { others + index } else { index };
    match pair.even(index, &entry) {
        Some(count) => {
            pair.share(index, entry, count);
            Ok(())
        }
        None => {
            let (left, right) = (pair.left.1, pair.right.1);
            let locked = if side == Side::Left { right } else { left };
            Err((locked, pair.parent_locked))
        }
    }
}

/// Prefetches the neighbours of a locked node if it is full: they are looked at for room.
#[inline]
pub(crate) fn prefetch_beside(space: Space<'_>, border: BorderRef<'_>, permutation: Permutation) {
    if permutation.len() == WIDTH && !border.version().load().is_root() {
        // The parent may be another one soon, so what it says is a guess.
        let parent = border.node().parent(space).expect("only a root has no parent");
        let at = parent.index_for(border.low());
        let beside = Side::BOTH.iter().filter_map(|side| side.of(parent, at));
        beside.filter_map(|at| parent.child(space, at)).for_each(NodeRef::prefetch);
    }
}

/// The neighbour of child `at` with the fewest entries, if one has room.
#[inline]
fn roomiest<'t>(
    space: Space<'t>,
    parent: InteriorRef<'t>,
    at: usize,
) -> Option<(BorderRef<'t>, Side)> {
    let beside = Side::BOTH.map(|side| border_beside(space, parent, at, side));
    let [right, left] =
        beside.map(|border| border.map_or(WIDTH, |border| border.permutation().len()));
    let (neighbour, side, count) =
        if left < right { (beside[1], Side::Left, left) } else { (beside[0], Side::Right, right) };
    (count <= SHARED_MAX).then_some((neighbour?, side))
}
