//! Taking empty nodes out: a border node from its layer, a root with a single child, a layer.
//!
//! **A border node.**
//! ```text
//!   before   p [.., low)   n [low, high)   next [high, ..)        n is empty
//!   after    p [.., high)                  next [high, ..)
//! ```
//! The left neighbour `p` takes over the slices of `n`. Locks are taken from left to right, then
//! upward: `p`, `n`, the parent of `n`, and on:
//!
//! - ancestors whose only child goes away go away with it;
//! - the first that has another child loses the one. If that was its first child, the slices of its
//!   subtree begin later now, and the separator that says so stands in an ancestor further up: the
//!   first in which the path does not pass through the first child. It is moved from `low` to
//!   `high`.
//!
//! All of them are marked before the first change and unlocked after the last, so to readers the
//! removal is one step. The leftmost node of a layer has no left neighbour. It stays, empty or not,
//! and so do its ancestors, hence a path as above always ends.
//!
//! **A root with a single child** makes way for the child. **A layer** whose root is an empty
//! border node goes away with the entry that links to it; then the node of that entry may be empty,
//! and so on upward. Both change the link, so they lock from the upper layer downward: the border
//! node that links, then the layer's nodes as always. Nobody waits for a lock of an upper layer
//! while holding one of a lower layer, so there is no circle.
//!
//! A second lock is never waited for where the node may have another life by now: it is tried, and
//! all begins again. Nor does a thread climb, which waits for marks to go, while it holds the lock
//! of such a node: who has marked nodes may be about to take that memory for a new one.
//!
//! **From layer to layer** upward it goes by the trail of the first search; what was found then is
//! looked at again under the locks, as always. So a key of many layers costs no search for each.

use crate::descent::{Found, Layer, Via, trail};
use crate::key::SLICE_BYTES;
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, Space};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Locked};

/// Takes out what the removal of `key` has left empty. `rest` bytes of it were left in the layer of
/// the node that it was removed from. Returns when nothing is left to do. O(layers), if nobody is
/// in the way.
pub(crate) fn tidy(shape: &Shape, key: &[u8], rest: usize, guard: &Guard) {
    let mut backoff = Backoff::new();
    // Up to its slice in the layer that is to be tidied: so a search goes to the same node, but
    // not on into a layer that is made meanwhile.
    let up_to_slice = |key: &'_ [u8], rest: usize| key.len() - rest + rest.min(SLICE_BYTES);
    let mut key = &key[..up_to_slice(key, rest)];
    let mut layers = trail(shape, key, guard);
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
            let Some(via) = &found.via else { return };
            if remove_layer(shape, found, via) {
                layers.pop();
                continue;
            }
            false
        } else if found.border.low() == 0 {
            // The leftmost of several.
            return;
        } else {
            let done = unlink(shape, found);
            // Most often that is all: another search would find nothing to do.
            if done && has_children(shape, found) {
                return;
            }
            done
        };
        if !done {
            backoff.wait();
        }
        key = &key[..here];
        layers = trail(shape, key, guard);
    }
}

/// Whether the root of the layer has several children for sure.
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

struct Step<'t> {
    node: InteriorRef<'t>,
    locked: Locked<'t>,
    index: usize,
}

/// Removes the border node from its layer, if it is still empty. Whether all went well.
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
    if !same || border.permutation().len() > 0 || !found.layer.lives() {
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
    for (at, step) in path.iter_mut().enumerate() {
        if at < last_alone {
            step.locked.mark_deleted();
        } else {
            step.locked.mark_splitting();
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
    for step in path {
        shape.end(step.node.node(), step.locked);
    }
    drop(stay);
    true
}

/// Locks the ancestors of `node` that its removal changes. The index is that of the first which
/// has another child; those before go away.
fn lock_path<'t>(space: Space<'t>, node: NodeRef<'t>) -> Option<(Vec<Step<'t>>, usize)> {
    let mut path: Vec<Step<'t>> = Vec::new();
    let mut loser = None;
    let mut child = node;
    loop {
        let (parent, locked) = child.lock_parent(space)?;
        let index = parent.index_of(space, child)?;
        path.push(Step { node: parent, locked, index });
        if loser.is_none() && parent.count() > 0 {
            loser = Some(path.len() - 1);
        }
        match loser {
            Some(loser) if index > 0 => return Some((path, loser)),
            _ => child = parent.node(),
        }
    }
}

/// Takes a child out, with the separator before it, or behind it if it is the first.
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
fn lock_via<'t>(via: &Via<'t>, space: Space<'t>, layer: Layer<'t>) -> Option<Locked<'t>> {
    let locked = via.border.version().lock();
    let entry = via.border.entry(via.slot);
    let there = !via.version.split_since(locked.version())
        && via.border.permutation().is_live(via.slot)
        && entry.is_layer();
    if !there {
        return None;
    }
    // SAFETY: the entry is live, and its node locked.
    let link = unsafe { space.link(entry) };
    // The slot may have become another layer's: this one may have gone, or moved into that one.
    // Whether it lives, the caller has to see, once it has the locks that it needs.
    (Layer::new(link).climb(space)? == layer.climb(space)?).then_some(locked)
}

/// Removes a layer of one empty border node, with its entry. Whether all went well.
pub(crate) fn remove_layer<'t>(shape: &'t Shape, found: &Found<'t, '_>, via: &Via<'t>) -> bool {
    let Some(mut upper_locked) = lock_via(via, shape.space(), found.layer) else { return false };
    let Some(locked) = found.border.version().try_lock() else { return false };
    debug_assert!(found.version.is_root(), "and still is if it was not split since");
    let same = !found.version.split_since(locked.version());
    if !same || found.border.permutation().len() > 0 {
        return false;
    }
    upper_locked.mark_inserting();
    let upper: BorderRef<'t> = via.border;
    let permutation = upper.permutation();
    upper.clear_stale();
    upper.publish(permutation.remove(permutation.position_of(via.slot)));
    shape.end(found.border.node(), locked);
    shape.layers.add(-1);
    true
}

/// The single child of the root becomes the root. Whether all went well.
pub(crate) fn shrink<'t>(shape: &'t Shape, found: &Found<'t, '_>, root: InteriorRef<'t>) -> bool {
    let space = shape.space();
    let mut upper_locked = match &found.via {
        None => None,
        Some(via) => match lock_via(via, space, found.layer) {
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
    // The two are linked. But since it was found, `root` may have become that of another layer.
    if found.layer.climb(space) != Some(root.node()) || !found.layer.lives() {
        return false;
    }
    locked.mark_splitting();
    locked.set_root();
    child.set_parent(space, None);
    match (&found.via, &mut upper_locked) {
        (Some(via), Some(upper_locked)) => {
            upper_locked.mark_inserting();
            via.border.clear_stale();
            via.border.set_value(via.slot, space.handle(child).into());
        }
        _ => shape.replace_root(root.node(), child),
    }
    shape.end(root.node(), root_locked);
    true
}
