//! From the root of a layer to the border node of a slice, and from layer to layer. Writes nothing.
//!
//! **Within a layer.** At an interior node with a stable version: find the child, take the
//! *child's* stable version, and only then validate the parent. If a split or a removal came
//! between, the parent was marked together with the child, one of the two checks fails, and the
//! descent begins again at the root of the layer. What holds at the end: the border node covered
//! the slice at some moment since its version was stable; so whoever validates that version later
//! has read the node of the slice.
//!
//! **The root of a layer.** A link may point to a node that was the root once. Its ancestors lead
//! to the root of today: a root of the past is on the left edge of its layer, and the left edge is
//! never removed. Writers that come past move the link up.

use crate::key::{SLICE_BYTES, order_of, slice_of};
use crate::node::{BorderRef, Entry, Kind, NodeRef};
use keyrack_concurrent::{Backoff, Version};

/// Where a search ended: the layer, the rest of the key there, its border node, and what was
/// found under the slice and order of the rest: never a layer, but perhaps another long key.
pub(crate) struct Found<'g, 'k> {
    pub(crate) layer: NodeRef<'g>,
    pub(crate) rest: &'k [u8],
    pub(crate) border: BorderRef<'g>,
    pub(crate) entry: Option<Entry>,
}

/// The root of the layer that `node` is, or was, the root of.
pub(crate) fn climb(mut node: NodeRef<'_>) -> (NodeRef<'_>, Version) {
    loop {
        let version = node.version().stable();
        if version.is_root() {
            return (node, version);
        }
        // The parent is stored before the flag is cleared.
        match node.parent() {
            Some(parent) => node = parent,
            None => debug_assert!(false, "a node that is no root has a parent"),
        }
    }
}

/// The border node of `slice` in the layer, and its stable version.
pub(crate) fn descend(layer: NodeRef<'_>, slice: u64) -> (BorderRef<'_>, Version) {
    let mut backoff = Backoff::new();
    'again: loop {
        let (mut node, mut version) = climb(layer);
        loop {
            let interior = match node.kind() {
                Kind::Border(border) => return (border, version),
                Kind::Interior(interior) => interior,
            };
            let next = interior.child_for(slice).map(|child| {
                child.prefetch();
                (child, child.version().stable())
            });
            match next {
                Some(next) if interior.version().validate(version) => (node, version) = next,
                _ => {
                    backoff.wait();
                    continue 'again;
                }
            }
        }
    }
}

/// Searches `rest` from `layer` on. `tidy` moves links up that point to a root of the past.
pub(crate) fn search<'g, 'k>(layer: NodeRef<'g>, rest: &'k [u8], tidy: bool) -> Found<'g, 'k> {
    let (mut layer, mut rest) = (layer, rest);
    'again: loop {
        let (slice, order) = (slice_of(rest), order_of(rest));
        let (border, mut version) = descend(layer, slice);
        loop {
            let permutation = border.permutation();
            let slot = border.position(permutation, slice, order).ok();
            let slot = slot.map(|position| permutation.slot(position));
            let entry = slot.map(|slot| border.entry(slot));
            if !border.version().validate(version) {
                let now = border.version().stable();
                if version.split_since(now) {
                    continue 'again;
                }
                version = now;
                continue;
            }
            match (slot, entry) {
                (Some(slot), Some(entry)) if entry.is_layer() => {
                    let next = link(entry);
                    if tidy && !next.version().load().is_root() {
                        move_link_up(border, version, slot, next);
                    }
                    layer = next;
                    rest = &rest[SLICE_BYTES..];
                    continue 'again;
                }
                _ => return Found { layer, rest, border, entry },
            }
        }
    }
}

/// The node that the entry of a layer points to.
pub(crate) fn link<'g>(entry: Entry) -> NodeRef<'g> {
    debug_assert!(entry.is_layer());
    // SAFETY: the caller has validated the version under which the entry was copied, or holds the
    // lock. A link points to the left edge of its layer, which lives as long as the tree.
    let node = unsafe { NodeRef::from_word(entry.value) };
    node.expect("the entry of a layer has a node")
}

/// Makes a link point to the root of today, if nobody else is busy there.
fn move_link_up(border: BorderRef<'_>, version: Version, slot: usize, old: NodeRef<'_>) {
    let (root, _) = climb(old);
    if let Some(locked) = border.version().try_lock()
        && !version.changed(locked.version())
    {
        let entry = border.entry(slot);
        if entry.is_layer() && entry.value == old.as_word() {
            border.set_value(slot, root.as_word());
        }
    }
}
