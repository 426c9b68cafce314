//! Every invariant of a tree at rest.
//!
//! - no node is locked, dirty or deleted; every node's parent is the node that it was found in;
//! - the root of the tree, and the root of each layer, has the root flag. A layer begins after a
//!   fence of continuing keys, and has two children at least unless it is a border node. Only the
//!   root of a layer has a prefix, of one word at least;
//! - interior nodes: separators strictly ascend within the node's range; all border nodes and roots
//!   of layers below are equally deep in the layer;
//! - border nodes: low and high are what the path to them says; permutations are permutations;
//!   entries strictly ascend by position, and cells of one position by their suffixes, and lie in
//!   the range; codes are known, and those of cells have the fingerprints; only the leftmost of
//!   several border nodes of a layer may be empty, and a single one only in an empty tree;
//! - the sums of keys, nodes, layers and prefixes are those found.

use crate::cell::Cell;
use crate::entry::{Code, Entry};
use crate::key::{Fence, SlotPosition};
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, Space};
use crate::prefix::PREFIX_WORDS_MAX;
use crate::shape::{Shape, Stats};

/// A node to check, with the values that its parent implies.
#[derive(Clone, Copy)]
struct Due<'g> {
    node: NodeRef<'g>,
    parent: Option<InteriorRef<'g>>,
    low: Fence,
    high: Option<Fence>,
    depth: usize,
    /// Which layer, to compare depths.
    layer: usize,
    /// Whether keys have more bytes than those of the layer.
    below: bool,
}

/// Checks every node. O(n).
pub(crate) fn check(shape: &Shape) -> Result<Stats, String> {
    let space = shape.space();
    let mut stats = Stats { node_bytes: shape.bytes(), ..Stats::default() };
    let mut depths: Vec<Option<usize>> = vec![None];
    let (root, _) = shape.top().ok_or("the root is not at rest")?;
    let (low, high) = (Fence::default(), None);
    let mut pending =
        vec![Due { node: root, parent: None, low, high, depth: 0, layer: 0, below: false }];
    while let Some(mut due) = pending.pop() {
        let root = check_head(space, &due)?;
        let is_leaf = matches!(due.node.kind(), Kind::Border(_));
        if is_leaf || root && due.parent.is_some() {
            let depth = depths[due.layer].get_or_insert(due.depth);
            ensure(*depth == due.depth, || format!("depths {depth} and {}", due.depth))?;
        }
        if root {
            enter_layer(space, &mut due, &mut stats)?;
            due.layer = depths.len();
            depths.push(None);
        }
        match due.node.kind() {
            Kind::Interior(node) => {
                stats.interiors += 1;
                ensure(node.count() > 0 || !root, || "a root with a single child".to_owned())?;
                check_interior(space, node, &due, &mut pending)?;
            }
            Kind::Border(node) => {
                stats.borders += 1;
                check_border(node, &due, root, &mut stats.keys)?;
            }
        }
    }
    Ok(stats)
}

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}

/// Returns whether a layer begins here.
fn check_head<'g>(space: Space<'g>, due: &Due<'g>) -> Result<bool, String> {
    let version = due.node.version().load();
    let rest = !version.is_locked() && !version.is_dirty() && !version.is_deleted();
    ensure(rest, || format!("a node is not at rest: {version:?}"))?;
    ensure(version.is_root() || due.parent.is_some(), || "a root without the flag".to_owned())?;
    ensure(version.is_root() || due.node.prefix_handle() == 0, || "a prefix inside".to_owned())?;
    let parent = due.parent.map(InteriorRef::node);
    ensure(due.node.parent(space).map(InteriorRef::node) == parent, || {
        "a parent link is wrong".to_owned()
    })?;
    Ok(version.is_root())
}

/// What the parent of the root of a layer implies for the layer.
fn enter_layer<'g>(space: Space<'g>, due: &mut Due<'g>, stats: &mut Stats) -> Result<(), String> {
    let after = due.parent.is_none() || due.low.continuing;
    ensure(after, || format!("a layer after {:?}", due.low))?;
    (due.low, due.high, due.depth) = (Fence::default(), None, 0);
    due.below = due.parent.is_some() || due.node.prefix_handle() != 0;
    stats.layers += 1;
    if let Some(prefix) = due.node.prefix(space) {
        stats.prefixes += 1;
        let fits = (1..=PREFIX_WORDS_MAX).contains(&prefix.len());
        ensure(fits, || format!("a prefix of {} words", prefix.len()))?;
    }
    Ok(())
}

fn check_interior<'g>(
    space: Space<'g>,
    node: InteriorRef<'g>,
    due: &Due<'g>,
    pending: &mut Vec<Due<'g>>,
) -> Result<(), String> {
    let count = node.count();
    let mut low = due.low;
    for at in 0..=count {
        let high = if at < count { Some(node.separator(at)) } else { due.high };
        ensure(high.is_none_or(|high| low < high), || format!("separators {low:?} {high:?}"))?;
        let inside = due.high.is_none_or(|end| high.is_some_and(|high| high <= end));
        ensure(inside, || format!("separator {high:?} beyond {:?}", due.high))?;
        let child = node.child(space, at).ok_or("a child is null")?;
        let (parent, depth) = (Some(node), due.depth + 1);
        pending.push(Due { node: child, parent, low, high, depth, ..*due });
        if let Some(high) = high {
            low = high;
        }
    }
    Ok(())
}

fn check_border(
    node: BorderRef<'_>,
    due: &Due<'_>,
    root: bool,
    keys: &mut u64,
) -> Result<(), String> {
    let range = (node.low(), node.high());
    ensure(range == (due.low, due.high), || {
        format!("range {range:?} of a node that its parents give {:?}", (due.low, due.high))
    })?;
    let permutation = node.permutation();
    ensure(permutation.is_valid(), || format!("{permutation:?}"))?;
    let leftmost = due.low == Fence::default();
    let may_be_empty = leftmost && (!root || due.parent.is_none() && due.node.prefix_handle() == 0);
    ensure(permutation.len() > 0 || may_be_empty, || "an empty node was left".to_owned())?;
    let below = due.below;
    let mut last: Option<(SlotPosition, &[u8])> = None;
    for slot in permutation.slots() {
        let entry: Entry = node.entry(slot);
        // SAFETY: the entry is live, and the tree at rest.
        let suffix = unsafe { entry.cell() }.map_or(&[][..], Cell::suffix);
        let this = Some((entry.position(), suffix));
        ensure(!below || entry.position().rank > 0, || "a key that ends above".to_owned())?;
        ensure(last < this, || format!("entries {last:?} and {this:?}"))?;
        ensure(node.covers(entry.fence()), || format!("entry {this:?} outside {range:?}"))?;
        let known = if entry.has_cell() {
            !suffix.is_empty() && entry.code == Code::of_cell(suffix)
        } else {
            entry.code.is_known()
        };
        ensure(known, || format!("{:?} of {suffix:?}", entry.code))?;
        last = this;
        *keys += 1;
    }
    Ok(())
}
