//! Every invariant of a tree at rest.
//!
//! - no node is locked, dirty or deleted; the root of each layer, and only it, has the root flag
//!   and no parent; every other node's parent is the node that it was found in;
//! - interior nodes: separators strictly ascend within the node's range; a root has two children at
//!   least; all border nodes of a layer are equally deep;
//! - border nodes: low and high are what the path to them says; permutations are permutations;
//!   entries strictly ascend by position and lie in the range; of a slice with a short layer, no
//!   other entry exceeds the slice; codes are known; only the leftmost of several border nodes of a
//!   layer may be empty, and a single one only in the first layer;
//! - a link leads to the root of its layer, by ancestors if it is out of date;
//! - the sums of keys, nodes and layers are those found.

use crate::key::SlotPosition;
use crate::node::{BorderRef, CODE_MAX, Entry, InteriorRef, Kind, NodeRef, Space};
use crate::shape::{Shape, Stats};

/// A node to check, with the values that its parent implies.
struct Due<'g> {
    node: NodeRef<'g>,
    parent: Option<InteriorRef<'g>>,
    low: u64,
    /// 0: no bound.
    high: u64,
    depth: usize,
    /// Which layer, to compare depths.
    layer: usize,
}

/// Checks every node. O(n).
pub(crate) fn check(shape: &Shape) -> Result<Stats, String> {
    let space = shape.space();
    let mut stats = Stats { layers: 1, node_bytes: shape.bytes(), ..Stats::default() };
    let mut depths: Vec<Option<usize>> = vec![None];
    let (_, root, _) = shape.top().ok_or("the root is not at rest")?;
    let mut pending = vec![Due { node: root, parent: None, low: 0, high: 0, depth: 0, layer: 0 }];
    while let Some(due) = pending.pop() {
        check_head(space, &due)?;
        match due.node.kind() {
            Kind::Interior(node) => {
                stats.interiors += 1;
                check_interior(space, node, &due, &mut pending)?;
            }
            Kind::Border(node) => {
                stats.borders += 1;
                let depth = depths[due.layer].get_or_insert(due.depth);
                ensure(*depth == due.depth, || format!("depths {depth} and {}", due.depth))?;
                for layer in check_border(space, node, &due, &mut stats.keys)? {
                    stats.layers += 1;
                    pending.push(Due { layer: depths.len(), ..layer });
                    depths.push(None);
                }
            }
        }
    }
    Ok(stats)
}

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}

fn check_head<'g>(space: Space<'g>, due: &Due<'g>) -> Result<(), String> {
    let version = due.node.version().load();
    let rest = !version.is_locked() && !version.is_dirty() && !version.is_deleted();
    ensure(rest, || format!("a node is not at rest: {version:?}"))?;
    ensure(version.is_root() == due.parent.is_none(), || "root flag out of place".to_owned())?;
    let parent = due.parent.map(InteriorRef::node);
    ensure(due.node.parent(space).map(InteriorRef::node) == parent, || {
        "a parent link is wrong".to_owned()
    })
}

fn check_interior<'g>(
    space: Space<'g>,
    node: InteriorRef<'g>,
    due: &Due<'g>,
    pending: &mut Vec<Due<'g>>,
) -> Result<(), String> {
    let count = node.count();
    ensure(count > 0 || due.parent.is_some(), || "a root with a single child".to_owned())?;
    let mut low = due.low;
    for at in 0..=count {
        let high = if at < count { node.separator(at) } else { due.high };
        ensure(high > low || high == 0 && at == count, || format!("separators {low} {high}"))?;
        ensure(at == count || due.high == 0 || high < due.high, || {
            format!("separator {high} beyond {}", due.high)
        })?;
        let child = node.child(space, at).ok_or("a child is null")?;
        let depth = due.depth + 1;
        pending.push(Due { node: child, parent: Some(node), low, high, depth, layer: due.layer });
        low = high;
    }
    Ok(())
}

/// Returns the layers that the node links to, not yet numbered.
fn check_border<'g>(
    space: Space<'g>,
    node: BorderRef<'g>,
    due: &Due<'g>,
    keys: &mut u64,
) -> Result<Vec<Due<'g>>, String> {
    let range = (node.low(), node.high());
    ensure(range == (due.low, due.high), || {
        format!("range {range:?} of a node that its parents give {:?}", (due.low, due.high))
    })?;
    let permutation = node.permutation();
    ensure(permutation.is_valid(), || format!("{permutation:?}"))?;
    let may_be_empty = due.low == 0 && (due.parent.is_some() || due.layer == 0);
    ensure(permutation.len() > 0 || may_be_empty, || "an empty node was left".to_owned())?;
    let mut layers = Vec::new();
    let mut last: Option<SlotPosition> = None;
    for slot in permutation.slots() {
        let entry: Entry = node.entry(slot);
        let position = entry.first();
        ensure(last < Some(position), || format!("entries {last:?} and {position:?}"))?;
        ensure(node.covers(entry.slice), || format!("entry {position:?} outside {range:?}"))?;
        ensure(entry.code <= CODE_MAX, || format!("code {}", entry.code))?;
        last = Some(entry.last());
        if entry.is_layer() {
            // SAFETY: the entry is live, and the tree at rest.
            let mut node = unsafe { space.linked(entry) };
            while let Some(parent) = node.parent(space) {
                node = parent.node();
            }
            layers.push(Due { node, parent: None, low: 0, high: 0, depth: 0, layer: 0 });
        } else {
            *keys += 1;
        }
    }
    Ok(layers)
}
