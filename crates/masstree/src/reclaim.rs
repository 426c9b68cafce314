//! Node reclamation: an empty border node, a layer, the root of a layer with a single child. Nodes
//! that are nearly empty are merged (`merge.rs`).
//!
//! **A border node.**
//! ```text
//!   before   p [.., low)   n [low, high)   next [high, ..)        n is empty
//!   after    p [.., high)                  next [high, ..)
//! ```
//! The left neighbour `p` takes over the range of `n`. If a layer is there instead, the gap after
//! it does. The same is done with **a layer** that is one empty border node. `n` is locked first,
//! then its ancestors upward:
//!
//! - ancestors whose only child is removed are removed with it;
//! - the first ancestor that has another child loses one child. If that was its first child, the
//!   range of its subtree now begins at `high`. The separator of that range is in an ancestor
//!   further up: the first in which the path does not pass through the first child. That separator
//!   changes from `low` to `high`.
//!
//! Then `p` is found below that ancestor, and locked if that needs no waiting: other threads lock
//! from left to right. All of these nodes are marked before the first change and unlocked after the
//! last, so to readers the removal is one step. The leftmost node of a layer has no left neighbour.
//! It stays, empty or not, and so do its ancestors; hence such a path always ends.
//!
//! **The root of a layer with a single child** is replaced by the child, which takes over prefix
//! and place. Then that may be an empty node that is a layer, and so on upward. An empty tree loses
//! its prefix.

use crate::descent::{Destination, below, descend};
use crate::key::Fence;
use crate::merge::{SPARSE, merge_border, merge_interior};
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, Space};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Locked, Version};

/// Reclaims the nodes that the removal of `key` from `border` has left empty or nearly empty.
/// Returns when nothing is left to do. O(layers) without contention.
pub(crate) fn reclaim_nodes<'t>(shape: &'t Shape, key: &[u8], border: BorderRef<'t>) {
    let mut backoff = Backoff::new();
    let mut node = border.node();
    // Whether nodes below may have neighbours that they did not have before.
    let mut merged = false;
    loop {
        match reclaim(shape, node) {
            Reclaimed::Below(above) => {
                node = above;
                continue;
            }
            Reclaimed::Merged(above) => {
                (node, merged) = (above, true);
                continue;
            }
            Reclaimed::Nothing if !merged => return,
            Reclaimed::Nothing => merged = false,
            Reclaimed::Changed => backoff.wait(),
        }
        node = match descend(shape, key) {
            Destination::Leaf(leaf) => leaf.border.node(),
            Destination::Gap { parent, .. } => parent.node(),
            Destination::Diverged { .. } => return,
        };
    }
}

/// What was reclaimed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reclaimed<'t> {
    Nothing,
    /// Something below this node, or what it now is in the place of. Or nothing, and it is next.
    Below(NodeRef<'t>),
    /// Interior nodes below this node were merged.
    Merged(NodeRef<'t>),
    /// Others have changed the nodes meanwhile: look again.
    Changed,
}

/// Reclaims the root of the node's layer, if that has a single child, or the node, if it is empty
/// or nearly so. It may be any node: the locks tell what it is.
fn reclaim<'t>(shape: &'t Shape, node: NodeRef<'t>) -> Reclaimed<'t> {
    let version = node.version().stable();
    match layer_root(shape, node, version) {
        None => Reclaimed::Changed,
        Some(Kind::Interior(root)) if root.count() == 0 => shrink(shape, root),
        Some(_) => match node.kind() {
            Kind::Border(border) => match border.permutation().len() {
                0 => match remove_border(shape, border, version) {
                    Reclaimed::Nothing => merge_border(shape, border, version),
                    removed => removed,
                },
                1..=SPARSE => merge_border(shape, border, version),
                _ => Reclaimed::Nothing,
            },
            Kind::Interior(interior) => merge_interior(shape, interior, version),
        },
    }
}

/// The root of the layer of a node. `None` at a concurrent change. It is not validated: only its
/// lock will tell.
pub(crate) fn layer_root<'t>(
    shape: &'t Shape,
    mut node: NodeRef<'t>,
    mut version: Version,
) -> Option<Kind<'t>> {
    while !version.is_root() {
        node = node.parent(shape.space())?.node();
        version = node.version().load();
    }
    Some(node.kind())
}

/// An ancestor that a removal changes, with the index of the child on the path.
struct PathNode<'t> {
    node: InteriorRef<'t>,
    locked: Locked<'t>,
    index: usize,
}

/// The ancestors of a node that its removal changes.
struct RemovalPath<'t> {
    nodes: Vec<PathNode<'t>>,
    /// The index of the first with another child. Those before it are removed.
    loser: usize,
    /// The index of the first in which the path does not pass through the first child.
    holder: usize,
}

/// Removes a border node that is empty and was found under `version`.
pub(crate) fn remove_border<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    version: Version,
) -> Reclaimed<'t> {
    let space = shape.space();
    let mut locked = border.version().lock();
    if version.split_since(locked.version()) || border.permutation().len() > 0 {
        return Reclaimed::Changed;
    }
    let is_layer = locked.version().is_root();
    if is_layer && border.node().parent(space).is_none() {
        if border.node().prefix_handle() != 0 {
            locked.mark_splitting();
            shape.end_prefix(border.node().prefix_handle());
            border.node().set_prefix(0);
        }
        return Reclaimed::Nothing;
    }
    if !is_layer && border.low() == Fence::default() {
        return Reclaimed::Nothing;
    }
    let mut path = lock_path(space, border.node());
    let high = if is_layer { fence_after(space, &mut path) } else { border.high() };
    let neighbour = match left_neighbour(space, &path.nodes[path.holder]) {
        Neighbour::Border(neighbour, version) => {
            let Some(locked) = neighbour.version().try_lock() else { return Reclaimed::Changed };
            if version.split_since(locked.version()) {
                return Reclaimed::Changed;
            }
            Some((neighbour, locked))
        }
        Neighbour::Layer => None,
        Neighbour::Changed => return Reclaimed::Changed,
    };
    let above = path.nodes[path.loser].node.node();
    unlink(shape, (border, locked), neighbour, path, high);
    if is_layer {
        shape.layers.add(-1);
    }
    Reclaimed::Below(above)
}

/// Removes a locked border node, whose range up to `high` becomes that of its neighbour.
fn unlink<'t>(
    shape: &'t Shape,
    (border, mut locked): (BorderRef<'t>, Locked<'t>),
    mut neighbour: Option<(BorderRef<'t>, Locked<'t>)>,
    path: RemovalPath<'t>,
    high: Option<Fence>,
) {
    let space = shape.space();
    let RemovalPath { mut nodes, loser, holder } = path;
    locked.mark_deleted();
    if let Some((neighbour, neighbour_locked)) = &mut neighbour {
        neighbour_locked.mark_splitting();
        neighbour.set_high(high);
    }
    for (at, ancestor) in nodes.iter_mut().enumerate().take(loser.max(holder) + 1) {
        if at < loser {
            ancestor.locked.mark_deleted();
        } else {
            ancestor.locked.mark_splitting();
        }
    }
    let PathNode { node, index, .. } = &nodes[loser];
    let first = node.separator(0);
    node.remove_child(space, *index);
    if *index == 0 {
        let PathNode { node, index, .. } = &nodes[holder];
        node.set_separator(index - 1, first);
    }
    drop(neighbour);
    shape.end(border.node(), locked);
    let stay = nodes.split_off(loser);
    for ancestor in nodes {
        shape.end(ancestor.node.node(), ancestor.locked);
    }
    drop(stay);
}

/// Locks the ancestors of `node`, which is locked and not the leftmost of its layer, as far as its
/// removal changes them.
fn lock_path<'t>(space: Space<'t>, node: NodeRef<'t>) -> RemovalPath<'t> {
    let mut nodes: Vec<PathNode<'t>> = Vec::new();
    let (mut loser, mut holder) = (None, None);
    let mut child = node;
    loop {
        push_parent(space, &mut nodes, child);
        let at = nodes.len() - 1;
        let PathNode { node, index, .. } = &nodes[at];
        if loser.is_none() && node.count() > 0 {
            loser = Some(at);
        }
        if holder.is_none() && *index > 0 {
            holder = Some(at);
        }
        if let (Some(loser), Some(holder)) = (loser, holder) {
            return RemovalPath { nodes, loser, holder };
        }
        child = node.node();
    }
}

fn push_parent<'t>(space: Space<'t>, nodes: &mut Vec<PathNode<'t>>, child: NodeRef<'t>) {
    let (node, locked) = child.lock_parent(space).expect("only the root of the tree has no parent");
    let index = node.index_of(space, child).expect("a node is a child of its parent");
    nodes.push(PathNode { node, locked, index });
}

/// The fence after the node of a path in its layer; `None` if no more comes. Locks further
/// ancestors to see it.
fn fence_after<'t>(space: Space<'t>, path: &mut RemovalPath<'t>) -> Option<Fence> {
    let mut at = 0;
    loop {
        let PathNode { node, locked, index } = &path.nodes[at];
        if *index < node.count() {
            return Some(node.separator(*index));
        }
        if locked.version().is_root() {
            return None;
        }
        let child = node.node();
        at += 1;
        if at == path.nodes.len() {
            push_parent(space, &mut path.nodes, child);
        }
    }
}

/// What is before a node in its layer.
enum Neighbour<'t> {
    Border(BorderRef<'t>, Version),
    Layer,
    /// Others are changing it.
    Changed,
}

/// The rightmost node below the child before the one on the path.
fn left_neighbour<'t>(space: Space<'t>, holder: &PathNode<'t>) -> Neighbour<'t> {
    let (mut parent, mut version) = (holder.node, holder.node.version().load());
    let mut index = holder.index - 1;
    loop {
        let Some(child) = parent.child(space, index) else { return Neighbour::Changed };
        let Some(child_version) = below(parent, version, child) else {
            return Neighbour::Changed;
        };
        if child_version.is_root() {
            return Neighbour::Layer;
        }
        match child.kind() {
            Kind::Border(border) => return Neighbour::Border(border, child_version),
            Kind::Interior(interior) => {
                (parent, version, index) = (interior, child_version, interior.count());
            }
        }
    }
}

/// Makes the single child of the root of a layer the root.
pub(crate) fn shrink<'t>(shape: &'t Shape, root: InteriorRef<'t>) -> Reclaimed<'t> {
    let space = shape.space();
    let Some(child) = root.child(space, 0) else { return Reclaimed::Changed };
    let Some(mut locked) = child.version().try_lock() else { return Reclaimed::Changed };
    // What was read from the root may be out of date, or the memory another node's.
    let Some(mut root_locked) = child.try_lock_parent(space, root) else {
        return Reclaimed::Changed;
    };
    let alone = root.count() == 0 && root.child(space, 0) == Some(child);
    if !alone || !root_locked.version().is_root() || locked.version().is_deleted() {
        return Reclaimed::Changed;
    }
    let mut above = root.node().lock_parent(space);
    locked.mark_splitting();
    root_locked.mark_deleted();
    if let Some((_, above)) = &mut above {
        above.mark_splitting();
    }
    locked.set_root();
    child.set_prefix(root.node().prefix_handle());
    root.node().set_prefix(0);
    shape.replace_root(above.as_ref().map(|(above, _)| *above), root.node(), child);
    shape.end(root.node(), root_locked);
    Reclaimed::Below(child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
    use keyrack_concurrent::pin;

    /// A neighbour below another parent was found, and is split, or goes, before it is locked. The
    /// removal must begin anew: the node before is another one then.
    #[test]
    fn a_neighbour_that_was_split_or_went_is_not_the_neighbour() {
        for goes in [false, true] {
            let mut tree = Tree::<u64>::new();
            let number = |n: u64| n.to_be_bytes();
            (0..1000).for_each(|n| assert!(tree.insert(&number(n), n, &pin()).is_none()));
            let space = tree.shape.space();
            // The leftmost node of the second parent.
            let Kind::Interior(root) = tree.shape.top().unwrap().0.kind() else { panic!("levels") };
            let Some(Kind::Interior(parent)) = root.child(space, 1).map(NodeRef::kind) else {
                panic!("three levels")
            };
            let Some(Kind::Border(border)) = parent.child(space, 0).map(NodeRef::kind) else {
                panic!("a border node is below")
            };
            let locked = border.version().lock();
            let path = lock_path(space, border.node());
            assert!(path.loser == 0 && path.nodes[path.holder].node == root);
            let Neighbour::Border(neighbour, version) =
                left_neighbour(space, &path.nodes[path.holder])
            else {
                panic!("a border node is before")
            };
            assert_eq!(neighbour.high(), Some(border.low()));
            assert!(!version.split_since(neighbour.version().load()));
            let (from, to) = (neighbour.low().slice, border.low().slice);
            // Only its own parent is locked for either.
            if goes {
                (from..to).for_each(|n| assert!(tree.remove(&number(n), &pin()).is_some()));
            } else {
                let key = [&number(from)[..], b"end"].concat();
                assert!(tree.insert(&key, 1, &pin()).is_none());
                assert!(neighbour.high() < Some(border.low()));
            }
            assert!(version.split_since(neighbour.version().load()));
            let Neighbour::Border(now, _) = left_neighbour(space, &path.nodes[path.holder]) else {
                panic!("a border node is before")
            };
            assert!(now != neighbour && now.high() == Some(border.low()));
            drop((path, locked));
            tree.check().unwrap();
        }
    }
}
