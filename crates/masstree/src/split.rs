//! Splits of full border nodes.
//!
//! ```text
//!   1  lock the ancestors upward, until one has room or the root of the layer is passed
//!   2  mark all of them, and the border node: readers wait
//!   3  cut the border node; add separator and new node to the parent; cut that if it is full; ...
//!   4  a root that was cut gets a new root above, in its place below the layer above
//!   5  unlock all
//! ```
//!
//! The new nodes start locked. To a reader the split is therefore one step, at any height, and no
//! key is ever missing. A split of one level takes about 200 ns; one in sixteen goes further up.
//!
//! **Before a cut**, a node shares its entries with one beside it, if that has room (`balance.rs`).
//! At the ends of a layer it does not, where keys may come in order.
//!
//! **Where to cut.** The cut falls between two fences: keys of one slice that continue after it
//! stay together, and so do those that end. It is the cut nearest to the middle, except at the ends
//! of a layer. When keys come in ascending order, the old node stays full and only the new entry
//! goes right; descending keys mirror this. The separator is the greatest fence that is possible,
//! so that a node of continuing keys of one slice has no others to care for.
//!
//! **When not to cut.** If all keys have one slice and continue, the node begins a layer
//! (`layer.rs`). It must not care for others then; if it does, the keys move to a new node first.

use crate::balance::share_insert;
use crate::descent::LeafPosition;
use crate::entry::Entry;
use crate::key::{Fence, Rest};
use crate::layer::may_begin_layer;
use crate::node::{BorderRef, INTERIOR_WIDTH, InteriorRef, NodeRef, Space};
use crate::permutation::WIDTH;
use crate::shape::Shape;
use keyrack_concurrent::{Locked, Version};

/// Entries of a full border node and the new one.
const OVERFULL: usize = WIDTH + 1;
/// Separators of a full interior node and the new one.
const INTERIOR_OVERFULL: usize = INTERIOR_WIDTH + 1;

/// What makes room in a full border node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// Some entries move to another node.
    Cut,
    BeginLayer,
    /// All entries move to a new node, which can begin a layer.
    Detach,
}

/// What makes room in a full node for a new entry at `index`.
pub(crate) fn relief(
    shape: &Shape,
    border: BorderRef<'_>,
    root: bool,
    index: usize,
    rest: Rest<'_>,
) -> Relief {
    // Fences ascend with the entries. If the first and the last are the same, all keys have one
    // slice and continue after it: not more than nine end in it.
    let permutation = border.permutation();
    let fence = |index: usize| border.entry(permutation.slot(index)).fence();
    let first = if index == 0 { rest.fence() } else { fence(0) };
    let last = if index == WIDTH { rest.fence() } else { fence(WIDTH - 1) };
    if first != last {
        Relief::Cut
    } else if may_begin_layer(shape, border, root, first) {
        Relief::BeginLayer
    } else {
        Relief::Detach
    }
}

/// The cut nearest to `wanted` between two fences.
fn nearest_cut(entries: &[Entry; OVERFULL], wanted: usize) -> usize {
    let fits = |cut: usize| {
        (1..OVERFULL).contains(&cut) && entries[cut - 1].fence() != entries[cut].fence()
    };
    let cut = (0..OVERFULL).find_map(|step| {
        [wanted.wrapping_sub(step), wanted + step].into_iter().find(|&cut| fits(cut))
    });
    cut.expect("a node is cut if its fences differ")
}

/// Where a full node is cut if keys come in ascending or descending order, by the index of the new
/// entry: at an end of the layer.
fn cut_at_end(border: BorderRef<'_>, index: usize) -> Option<usize> {
    match index {
        WIDTH if border.high().is_none() => Some(WIDTH),
        0 if border.low() == Fence::default() => Some(1),
        _ => None,
    }
}

/// The locked nodes above one that is split: those that change.
pub(crate) struct Path<'t> {
    /// Nodes for the upper parts of those that are full, and then for a new root.
    new: Vec<(InteriorRef<'t>, Locked<'t>)>,
    /// From below. All but the last are full.
    nodes: Vec<(InteriorRef<'t>, Locked<'t>)>,
    /// If the last is full as well, or there is none: what is above the root of the layer.
    above: Option<Option<(InteriorRef<'t>, Locked<'t>)>>,
    /// Further ones that were looked at.
    further: Vec<(InteriorRef<'t>, Locked<'t>)>,
}

impl<'t> Path<'t> {
    /// Above a border node, which is locked.
    fn above(space: Space<'t>, border: BorderRef<'t>, root: bool) -> Self {
        let mut path = Path::empty();
        path.extend(space, border.node(), root);
        path
    }

    /// From a node on that gets a child.
    pub(crate) fn from(space: Space<'t>, node: InteriorRef<'t>, locked: Locked<'t>) -> Self {
        let (root, full) = (locked.version().is_root(), node.count() == INTERIOR_WIDTH);
        let mut path = Path::empty();
        path.nodes.push((node, locked));
        if full {
            path.extend(space, node.node(), root);
        }
        path
    }

    fn empty() -> Self {
        let (new, further) = (Vec::new(), Vec::new());
        Path { new, nodes: Vec::with_capacity(4), above: None, further }
    }

    /// Locks upward.
    fn extend(&mut self, space: Space<'t>, mut top: NodeRef<'t>, mut root: bool) {
        while !root {
            let (parent, locked) = top.lock_parent(space).expect("only a root has no parent");
            (top, root) = (parent.node(), locked.version().is_root());
            self.nodes.push((parent, locked));
            if parent.count() < INTERIOR_WIDTH {
                return;
            }
        }
        self.above = Some(top.lock_parent(space));
    }

    /// The fence after child `index` of the first node; `None` if no more comes in the layer.
    pub(crate) fn fence_after(&mut self, space: Space<'t>, mut index: usize) -> Option<Fence> {
        let mut level = 0;
        loop {
            let (node, locked) = match self.nodes.get(level) {
                Some(step) => step,
                None => &self.further[level - self.nodes.len()],
            };
            let node = *node;
            if index < node.count() {
                return Some(node.separator(index));
            }
            if locked.version().is_root() {
                return None;
            }
            level += 1;
            if level >= self.nodes.len() + self.further.len() {
                let next = node.node().lock_parent(space).expect("only a root has no parent");
                self.further.push(next);
            }
            let upper = self.nodes.get(level);
            let upper =
                upper.map_or_else(|| self.further[level - self.nodes.len()].0, |step| step.0);
            index = upper.index_of(space, node.node()).expect("a node is a child of its parent");
        }
    }

    /// Makes the nodes that are needed. Before any mark, at which readers wait: memory may take
    /// long to get.
    pub(crate) fn make_nodes(&mut self, shape: &'t Shape) {
        let full = self.nodes.iter().filter(|(node, _)| node.count() == INTERIOR_WIDTH);
        self.new.extend(full.map(|_| shape.new_interior(false)));
        if self.above.is_some() {
            self.new.push(shape.new_interior(true));
        }
    }

    /// Readers of the nodes that change wait from here on.
    pub(crate) fn mark(&mut self) {
        let above = self.above.iter_mut().flatten();
        for (_, locked) in self.nodes.iter_mut().chain(above) {
            locked.mark_splitting();
        }
    }
}

/// Inserts `entry` at `index` into the full node `border`, whose lock is `locked`: entries move to
/// a neighbour, or to a new node.
// Inlined, its frame would be set up at each insert of a new key.
#[inline(never)]
pub(crate) fn split_insert<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    (index, entry): (usize, Entry),
) {
    let (space, root) = (shape.space(), locked.version().is_root());
    let end = cut_at_end(border, index);
    let path = if root || end.is_some() {
        Path::above(space, border, root)
    } else {
        let (parent, parent_locked) =
            border.node().lock_parent(space).expect("only a root has no parent");
        let locks = (locked, parent_locked);
        let kept = match share_insert(space, (border, parent), locks, (index, entry)) {
            Ok(()) => return,
            Err(locks) => locks,
        };
        locked = kept.0;
        Path::from(space, parent, kept.1)
    };
    let mut entries = [entry; OVERFULL];
    for (at, slot) in border.permutation().slots().enumerate() {
        entries[at + usize::from(at >= index)] = border.entry(slot);
    }
    let cut = nearest_cut(&entries, end.unwrap_or(OVERFULL / 2));
    // The new entry is on one side; as many old ones stay.
    let stay = cut - usize::from(index < cut);
    let added = (index < cut).then_some((index, entry));
    cut_border(shape, border, locked, path, &entries[cut..], (stay, added));
}

/// Moves all entries to a new node, where `next` belongs as well. Returns its leaf position.
pub(crate) fn detach<'t, 'k>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    locked: Locked<'t>,
    next: Rest<'k>,
) -> LeafPosition<'t, 'k> {
    let entries: Vec<Entry> = border.permutation().slots().map(|slot| border.entry(slot)).collect();
    let path = Path::above(shape.space(), border, locked.version().is_root());
    let (border, version) = cut_border(shape, border, locked, path, &entries, (0, None));
    LeafPosition { border, version, rest: next }
}

/// Moves the entries in `right` to a new node; the first `stay` remain, and the one that is added.
/// Returns the new node and its version.
fn cut_border<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    mut path: Path<'t>,
    right: &[Entry],
    (stay, added): (usize, Option<(usize, Entry)>),
) -> (BorderRef<'t>, Version) {
    let separator = right[0].fence();
    let (new, new_locked) = shape.new_border(false, separator, border.high());
    new.fill(right);

    path.make_nodes(shape);
    locked.mark_splitting();
    path.mark();
    border.clear_stale();
    border.set_high(Some(separator));
    let mut kept = border.permutation().truncate(stay);
    if let Some((index, entry)) = added {
        let (next, slot) = kept.insert(index);
        border.set_entry(slot, entry);
        kept = next;
    }
    border.publish(kept);
    add_child(shape, border.node(), Some(&mut locked), &mut path, separator, new.node());
    (new, new_locked.unlock())
}

/// Adds `right` after `left` to the node above, which is cut if it is full, and so on. All of them
/// are marked. `own` is the lock of `left`, if it may be the root of the layer that is cut.
pub(crate) fn add_child<'t>(
    shape: &'t Shape,
    mut left: NodeRef<'t>,
    own: Option<&mut Locked<'t>>,
    path: &mut Path<'t>,
    mut separator: Fence,
    mut right: NodeRef<'t>,
) {
    let space = shape.space();
    let mut nodes = path.new.iter().map(|(node, _)| *node);
    let mut new_node = || nodes.next().expect("a node was made for each that is full, and a root");
    for &(parent, _) in &path.nodes {
        if parent.count() < INTERIOR_WIDTH {
            insert_child(space, parent, left, separator, right);
            return;
        }
        let new = new_node();
        let next = split_interior(space, parent, new, left, separator, right);
        (left, right, separator) = (parent.node(), new.node(), next);
    }
    let above = path.above.as_ref().expect("a path ends at a node with room or below a layer");
    let above = above.as_ref().map(|(above, _)| *above);
    let root = new_node();
    root.set_child(space, 0, Some(left));
    root.set_separator(0, separator);
    root.set_child(space, 1, Some(right));
    root.set_count(1);
    root.node().set_prefix(left.prefix_handle());
    left.set_prefix(0);
    shape.replace_root(above, left, root.node());
    left.set_parent(space, Some(root));
    right.set_parent(space, Some(root));
    let top = path.nodes.last_mut().map(|(_, top)| top).or(own);
    top.expect("the root of a layer that is cut is locked").clear_root();
}

/// Puts `right` after `left`, which is a child of `parent`, with `separator` between them.
fn insert_child<'t>(
    space: Space<'t>,
    parent: InteriorRef<'t>,
    left: NodeRef<'t>,
    separator: Fence,
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

/// As [`insert_child`], into a full node: moves the upper children to a new node. Returns the
/// separator between the two.
fn split_interior<'t>(
    space: Space<'t>,
    parent: InteriorRef<'t>,
    new: InteriorRef<'t>,
    left: NodeRef<'t>,
    separator: Fence,
    right: NodeRef<'t>,
) -> Fence {
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
    separators[cut]
}
