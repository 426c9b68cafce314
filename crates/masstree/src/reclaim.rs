//! Node reclamation: an empty border node, a root with a single child, an empty layer.
//!
//! **A border node.**
//! ```text
//!   before   p [.., low)   n [low, high)   next [high, ..)        n is empty
//!   after    p [.., high)                  next [high, ..)
//! ```
//! The left neighbour `p` takes over the slices of `n`. Locks are taken from left to right, then
//! upward: `p`, `n`, the parent of `n`, and on:
//!
//! - ancestors whose only child is removed are removed with it;
//! - the first ancestor that has another child loses one child. If that was its first child, the
//!   range of its subtree now begins at `high`. The separator of that range is in an ancestor
//!   further up: the first in which the path does not pass through the first child. That separator
//!   changes from `low` to `high`.
//!
//! All of these nodes are marked before the first change and unlocked after the last, so to readers
//! the removal is one step. The leftmost node of a layer has no left neighbour. It stays, empty or
//! not, and so do its ancestors; hence such a path always ends.
//!
//! **A root with a single child** is replaced by the child. **A layer** whose root is an empty
//! border node is removed with the entry that links to it. Then the node of that entry may be
//! empty, and so on upward. Both change the link, so they lock from the upper layer downward: the
//! border node with the link, then the layer's nodes. No thread waits for a lock of an upper layer
//! while it holds one of a lower layer, so there is no deadlock.
//!
//! A thread never waits for a second lock if that node may have a new incarnation by now: it tries
//! the lock, and restarts on failure. It does not climb, which waits for marks to clear, while it
//! holds the lock of such a node: the thread that marked the nodes may need that memory for a new
//! node.
//!
//! **From layer to layer** the reclamation follows the path of the first search, and checks each
//! result again under the locks. A key of many layers therefore needs no search for each of them.

use crate::descent::{Found, Layer, LayerLink, search_path};
use crate::key::SLICE_BYTES;
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, Space};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Locked};

/// Reclaims the nodes that the removal of `key` has left empty. `rest` is the length of the key in
/// the layer from which it was removed. Returns when nothing is left to do. O(layers) without
/// contention.
pub(crate) fn reclaim_nodes(shape: &Shape, key: &[u8], rest: usize, guard: &Guard) {
    let mut backoff = Backoff::new();
    // The key up to its slice in the layer: a search with it reaches the same node, but does not
    // enter a layer that is made meanwhile.
    let up_to_slice = |key: &'_ [u8], rest: usize| key.len() - rest + rest.min(SLICE_BYTES);
    let mut key = &key[..up_to_slice(key, rest)];
    let mut layers = search_path(shape, key, guard);
    while let Some(found) = layers.last() {
        let here = up_to_slice(key, found.rest.len());
        let changed = found.version.split_since(found.border.version().load());
        let done = if changed {
            true
        } else if let Some(root) = lone_parent(shape, found) {
            shrink(shape, found, root)
        } else if found.border.permutation().len() > 0 {
            return;
        } else if found.version.is_root() {
            // The first layer stays.
            let Some(link) = &found.link else { return };
            if remove_layer(shape, found, link) {
                layers.pop();
                continue;
            }
            false
        } else if found.border.low() == 0 {
            // The leftmost of several.
            return;
        } else {
            let done = unlink(shape, found);
            // Usually that is all: another search would find nothing to do.
            if done && has_children(shape, found) {
                return;
            }
            done
        };
        if !done {
            backoff.wait();
        }
        key = &key[..here];
        layers = search_path(shape, key, guard);
    }
}

/// Whether the root of the layer certainly has several children.
fn has_children(shape: &Shape, found: &Found<'_, '_>) -> bool {
    found.layer.climb(shape.space()).is_some_and(|root| match root.kind() {
        Kind::Interior(root) => root.count() > 0,
        Kind::Border(_) => false,
    })
}

/// The root of the layer, if it has a single child.
pub(crate) fn lone_parent<'t>(shape: &'t Shape, found: &Found<'t, '_>) -> Option<InteriorRef<'t>> {
    match found.layer.climb(shape.space())?.kind() {
        Kind::Interior(root) if root.count() == 0 => Some(root),
        _ => None,
    }
}

/// An ancestor that a removal changes, with the index of the child on the path.
struct PathNode<'t> {
    node: InteriorRef<'t>,
    locked: Locked<'t>,
    index: usize,
}

/// Removes the border node from its layer, if it is still empty. Returns whether it did.
pub(crate) fn unlink<'t>(shape: &'t Shape, found: &Found<'t, '_>) -> bool {
    let space = shape.space();
    let (border, low) = (found.border, found.border.low());
    let Some(before) = low.checked_sub(1) else { return false };
    let Some((neighbour, version)) = found.layer.descend(space, before) else { return false };
    let mut neighbour_locked = neighbour.version().lock();
    if version.split_since(neighbour_locked.version()) {
        return false;
    }
    let Some(mut locked) = border.version().try_lock() else { return false };
    let same = !found.version.split_since(locked.version());
    if !same || border.permutation().len() > 0 || !found.layer.is_current() {
        return false;
    }
    // Both were in the layer, and have been there since.
    debug_assert_eq!(neighbour.high(), low, "nothing is between the two");
    let Some((mut path, last_alone)) = lock_path(space, border.node()) else {
        debug_assert!(false, "the path of a node that is not the leftmost ends");
        return false;
    };

    neighbour_locked.mark_splitting();
    locked.mark_deleted();
    for (at, ancestor) in path.iter_mut().enumerate() {
        if at < last_alone {
            ancestor.locked.mark_deleted();
        } else {
            ancestor.locked.mark_splitting();
        }
    }
    neighbour.set_high(border.high());
    let loser = &path[last_alone];
    let first = loser.node.separator(0);
    remove_child(space, loser.node, loser.index);
    if loser.index == 0
        && let Some(fence) = path.last()
    {
        fence.node.set_separator(fence.index - 1, first);
    }

    drop(neighbour_locked);
    shape.end(border.node(), locked);
    let stay = path.split_off(last_alone);
    for ancestor in path {
        shape.end(ancestor.node.node(), ancestor.locked);
    }
    drop(stay);
    true
}

/// Locks the ancestors of `node` that its removal changes. The index is that of the first ancestor
/// with another child; those before it are removed.
fn lock_path<'t>(space: Space<'t>, node: NodeRef<'t>) -> Option<(Vec<PathNode<'t>>, usize)> {
    let mut path: Vec<PathNode<'t>> = Vec::new();
    let mut loser = None;
    let mut child = node;
    loop {
        let (parent, locked) = child.lock_parent(space)?;
        let index = parent.index_of(space, child)?;
        path.push(PathNode { node: parent, locked, index });
        if loser.is_none() && parent.count() > 0 {
            loser = Some(path.len() - 1);
        }
        match loser {
            Some(loser) if index > 0 => return Some((path, loser)),
            _ => child = parent.node(),
        }
    }
}

/// Removes a child, with the separator before it, or after it if the child is the first.
fn remove_child<'t>(space: Space<'t>, node: InteriorRef<'t>, index: usize) {
    let count = node.count();
    for at in index..count {
        node.set_child(space, at, node.child(space, at + 1));
    }
    for at in index.max(1)..count {
        node.set_separator(at - 1, node.separator(at));
    }
    node.set_count(count - 1);
}

/// Locks the border node that links to a layer, if it still does.
fn lock_link<'t>(link: &LayerLink<'t>, space: Space<'t>, layer: Layer<'t>) -> Option<Locked<'t>> {
    let locked = link.border.version().lock();
    let entry = link.border.entry(link.slot);
    let there = !link.version.split_since(locked.version())
        && link.border.permutation().is_live(link.slot)
        && entry.is_layer();
    if !there {
        return None;
    }
    // SAFETY: the entry is live, and its node locked.
    let linked = unsafe { space.linked(entry) };
    // The slot may link another layer now: this one may have been removed or moved into that one.
    // The caller checks whether it is current once it holds the locks that it needs.
    (Layer::new(linked).climb(space)? == layer.climb(space)?).then_some(locked)
}

/// Removes a layer of one empty border node, with its entry. Returns whether it did.
pub(crate) fn remove_layer<'t>(
    shape: &'t Shape,
    found: &Found<'t, '_>,
    link: &LayerLink<'t>,
) -> bool {
    let Some(mut upper_locked) = lock_link(link, shape.space(), found.layer) else { return false };
    let Some(locked) = found.border.version().try_lock() else { return false };
    debug_assert!(found.version.is_root(), "and still is if it was not split since");
    let same = !found.version.split_since(locked.version());
    if !same || found.border.permutation().len() > 0 {
        return false;
    }
    upper_locked.mark_inserting();
    let upper: BorderRef<'t> = link.border;
    let permutation = upper.permutation();
    upper.clear_stale();
    upper.publish(permutation.remove(permutation.index_of(link.slot)));
    shape.end(found.border.node(), locked);
    shape.layers.add(-1);
    true
}

/// Makes the single child of the root the root. Returns whether it did.
pub(crate) fn shrink<'t>(shape: &'t Shape, found: &Found<'t, '_>, root: InteriorRef<'t>) -> bool {
    let space = shape.space();
    let mut upper_locked = match &found.link {
        None => None,
        Some(link) => match lock_link(link, space, found.layer) {
            None => return false,
            locked => locked,
        },
    };
    let Some(child) = root.child(space, 0) else { return false };
    let Some(mut locked) = child.version().try_lock() else { return false };
    let Some(root_locked) = root.version().try_lock() else { return false };
    let alone = root.count() == 0 && root.child(space, 0) == Some(child);
    if root_locked.version().is_deleted() || !alone {
        return false;
    }
    // The two are linked. But `root` may have become the root of another layer since it was found.
    if found.layer.climb(space) != Some(root.node()) || !found.layer.is_current() {
        return false;
    }
    locked.mark_splitting();
    locked.set_root();
    child.set_parent(space, None);
    match (&found.link, &mut upper_locked) {
        (Some(link), Some(upper_locked)) => {
            upper_locked.mark_inserting();
            link.border.clear_stale();
            link.border.set_value(link.slot, space.handle(child).into());
        }
        _ => shape.replace_root(root.node(), child),
    }
    shape.end(root.node(), root_locked);
    true
}
