//! Taking an empty border node out of its layer.
//!
//! ```text
//!   before   p [.., low)   n [low, high)   next [high, ..)        n is empty
//!   after    p [.., high)                  next [high, ..)
//! ```
//!
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
//! removal is one step.
//!
//! The leftmost node of a layer stays, empty or not. So do its ancestors, hence a path as above
//! always ends, and a link to a layer that is out of date still points to a living node. An emptied
//! layer keeps that one node.

use crate::descent::descend;
use crate::node::{InteriorRef, NodeRef};
use crate::tree::Shape;
use keyrack_concurrent::{Backoff, Guard, Locked};

struct Step<'g> {
    node: InteriorRef<'g>,
    locked: Locked<'g>,
    index: usize,
}

/// Removes the border node of `slice` from `layer`, if it is empty and not the leftmost.
pub(crate) fn unlink_empty<'g>(shape: &Shape, layer: NodeRef<'g>, slice: u64, guard: &'g Guard) {
    let mut backoff = Backoff::new();
    loop {
        let (border, _) = descend(layer, slice);
        // A hint, checked again under the lock. The low bound never changes.
        let low = border.low();
        if low == 0 || border.permutation().len() > 0 {
            return;
        }
        let (neighbour, _) = descend(layer, low - 1);
        let mut neighbour_locked = neighbour.version().lock();
        if neighbour_locked.version().is_deleted() || neighbour.high() != low {
            drop(neighbour_locked);
            backoff.wait();
            continue;
        }
        let mut locked = border.version().lock();
        if locked.version().is_deleted() || border.permutation().len() > 0 {
            return;
        }
        let Some((mut path, last_alone)) = lock_path(border.node()) else {
            debug_assert!(false, "the path of a node that is not the leftmost ends");
            return;
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
        remove_child(loser.node, loser.index);
        if loser.index == 0
            && let Some(fence) = path.last()
        {
            fence.node.set_separator(fence.index - 1, first);
        }

        drop(locked);
        drop(neighbour_locked);
        let gone: Vec<_> = path[..last_alone].iter().map(|step| step.node).collect();
        drop(path);
        shape.borders.add(-1);
        shape.interiors.add(-(gone.len() as i64));
        for node in gone {
            // SAFETY: unlinked above, without children, by this thread alone.
            unsafe { node.node().retire(guard) };
        }
        // SAFETY: unlinked above, without entries, by this thread alone.
        unsafe { border.node().retire(guard) };
        return;
    }
}

/// Locks the ancestors of `node` that its removal changes. The index is that of the first which
/// has another child; those before go away.
fn lock_path<'g>(node: NodeRef<'g>) -> Option<(Vec<Step<'g>>, usize)> {
    let mut path: Vec<Step<'g>> = Vec::new();
    let mut loser = None;
    let mut child = node;
    loop {
        let (parent, locked) = child.lock_parent()?;
        let index = parent.index_of(child)?;
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
fn remove_child(node: InteriorRef<'_>, index: usize) {
    let count = node.count();
    for at in index..count {
        node.set_child(at, node.child(at + 1));
    }
    for at in index.max(1)..count {
        node.set_separator(at - 1, node.separator(at));
    }
    node.set_count(count - 1);
    node.set_child(count, None);
}
