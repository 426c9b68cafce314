//! From the root to the border node of a key. Writes nothing, but for links out of date.
//!
//! **Within a layer.** At an interior node with a stable version: find the child, take the
//! *child's* stable version, and only then validate the parent. If a split or a removal came
//! between, or the child's memory began another life, the parent was marked too; one of the two
//! checks fails, and the descent begins again at the root of the tree. What holds at the end: the
//! border node covered the slice at some moment since its version was stable; so whoever validates
//! that version later has read the node of the slice.
//!
//! **From layer to layer** it is the same, with the border node as the parent of the layer's root.
//! A link may point to a node that was the root once; its ancestors lead to the root of today,
//! since a root of the past is on the left edge of its layer. Nodes of the left edge are taken out
//! only together with the layer, or by [`crate::unlink`] when the root has a single child; both
//! mark the border node that has the link. Writers that come past move a link up.

use crate::key::Place;
use crate::node::{BorderRef, Entry, Find, InteriorRef, Kind, NodeRef, Space, suffix_of};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Version};

/// A layer that was in the tree when it was made, and is as long as [`Layer::lives`].
#[derive(Clone, Copy)]
pub(crate) struct Layer<'t> {
    root: NodeRef<'t>,
    generation: u32,
}

impl<'t> Layer<'t> {
    /// `root` was the root of a layer, or on its left edge; the caller validates that after this.
    pub(crate) fn new(root: NodeRef<'t>) -> Self {
        Layer { root, generation: root.generation() }
    }

    /// Whether everything that was read since it was made, and then validated, was of this layer.
    pub(crate) fn lives(self) -> bool {
        self.root.generation() == self.generation
    }

    /// The border node of `slice`, and its stable version, if nobody is in the way.
    pub(crate) fn descend(self, space: Space<'t>, slice: u64) -> Option<(BorderRef<'t>, Version)> {
        self.descend_near(space, slice, &mut None)
    }

    /// As [`Layer::descend`], and leaves in `near` the parent of the node.
    pub(crate) fn descend_near(
        self,
        space: Space<'t>,
        slice: u64,
        near: &mut Option<Near<'t>>,
    ) -> Option<(BorderRef<'t>, Version)> {
        let (root, version) = climb(space, self.root)?;
        descend(space, root, version, slice, near)
    }

    /// The root of today.
    pub(crate) fn climb(self, space: Space<'t>) -> Option<NodeRef<'t>> {
        climb(space, self.root).map(|(root, _)| root)
    }
}

/// The parent of a border node, to come to its neighbours without a descent.
#[derive(Clone, Copy)]
pub(crate) struct Near<'t> {
    parent: InteriorRef<'t>,
    version: Version,
}

impl<'t> Near<'t> {
    /// The border node of `slice`, and its stable version, if it has the same parent.
    pub(crate) fn neighbour(
        self,
        space: Space<'t>,
        slice: u64,
    ) -> Option<(BorderRef<'t>, Version)> {
        let child = self.parent.child_for(space, slice)?;
        let version = child.version().stable();
        if !self.parent.version().validate(self.version) {
            return None;
        }
        let Kind::Border(border) = child.kind() else { return None };
        // Beyond the parent's range, the first child or the last is not the one.
        let covers = border.covers(slice);
        (covers && border.version().validate(version)).then_some((border, version))
    }

    /// Asks for the lines of the neighbour.
    pub(crate) fn prefetch(self, space: Space<'t>, slice: u64) {
        if let Some(child) = self.parent.child_for(space, slice) {
            child.prefetch();
        }
    }
}

/// The border node that links to a layer, and where.
#[derive(Clone, Copy)]
pub(crate) struct Via<'t> {
    pub(crate) border: BorderRef<'t>,
    pub(crate) version: Version,
    pub(crate) slot: usize,
}

/// Where a search ended: its border node, and what was found there, never a layer.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t, 'k> {
    pub(crate) layer: Layer<'t>,
    /// `None` in the first layer.
    pub(crate) via: Option<Via<'t>>,
    /// The rest of the key in this layer.
    pub(crate) rest: &'k [u8],
    pub(crate) place: Place,
    pub(crate) border: BorderRef<'t>,
    /// Validated after the entry was read.
    pub(crate) version: Version,
    pub(crate) entry: Option<Entry>,
}

/// A border node to try first for the next key.
#[derive(Clone, Copy)]
pub(crate) struct Finger<'t> {
    layer: Layer<'t>,
    via: Option<Via<'t>>,
    border: BorderRef<'t>,
    version: Version,
    /// Bytes of the key that the layers above make up.
    prefix: usize,
}

impl<'t> Finger<'t> {
    /// At what was found for `key`.
    pub(crate) fn at(found: &Found<'t, '_>, key: &[u8]) -> Self {
        let &Found { layer, via, border, version, rest, .. } = found;
        Finger { layer, via, border, version, prefix: key.len() - rest.len() }
    }

    /// Where `key` belongs, if that is the node at which `last` was found. Whoever locks it will
    /// see whether it still is.
    pub(crate) fn follow<'k>(self, last: &[u8], key: &'k [u8]) -> Option<Found<'t, 'k>> {
        let Finger { layer, via, border, version, prefix } = self;
        if last.get(..prefix) != key.get(..prefix) {
            return None;
        }
        let rest = &key[prefix..];
        let place = Place::of(rest);
        let now = border.version().stable();
        let covers = border.covers(place.slice);
        if !covers || version.split_since(now) || !border.version().validate(now) {
            return None;
        }
        Some(Found { layer, via, rest, place, border, version: now, entry: None })
    }
}

/// The root of the layer that `node` is, or was, the root of; `None` for a node whose life is over.
#[inline]
pub(crate) fn climb<'t>(space: Space<'t>, mut node: NodeRef<'t>) -> Option<(NodeRef<'t>, Version)> {
    loop {
        let version = node.version().stable();
        if version.is_root() {
            return (!version.is_deleted()).then_some((node, version));
        }
        // The parent is stored before the flag is cleared.
        node = node.parent(space)?.node();
    }
}

/// From a node and its stable version to the border node of `slice` and its stable version. `None`
/// when the way changes meanwhile. `near` is the parent then, unless the node was a border node.
#[inline]
pub(crate) fn descend<'t>(
    space: Space<'t>,
    mut node: NodeRef<'t>,
    mut version: Version,
    slice: u64,
    near: &mut Option<Near<'t>>,
) -> Option<(BorderRef<'t>, Version)> {
    loop {
        let interior = match node.kind() {
            Kind::Border(border) => return Some((border, version)),
            Kind::Interior(interior) => interior,
        };
        let child = interior.child_for(space, slice)?;
        child.prefetch();
        let child_version = child.version().stable();
        if !interior.version().validate(version) {
            return None;
        }
        *near = Some(Near { parent: interior, version });
        (node, version) = (child, child_version);
    }
}

/// Searches `key`. What is found is covered by the guard. `tidy` moves links up that point to a
/// root of the past.
pub(crate) fn search<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
    tidy: bool,
) -> Found<'t, 'k> {
    let mut backoff = Backoff::new();
    loop {
        if let Some(found) = try_search(shape, key, guard, tidy) {
            return found;
        }
        backoff.wait();
    }
}

#[inline]
fn try_search<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
    tidy: bool,
) -> Option<Found<'t, 'k>> {
    let space = shape.space();
    let (mut layer, mut root, mut root_version) = shape.top()?;
    let mut rest = key;
    let mut via = None;
    'layer: loop {
        let place = Place::of(rest);
        let (border, mut version) = descend(space, root, root_version, place.slice, &mut None)?;
        loop {
            let find = guard.protect(|| border.find(place));
            if !border.version().validate(version) {
                version = still_it(border, version)?;
                continue;
            }
            let (slot, entry) = match find {
                Find::Layer(slot, entry) => (slot, entry),
                Find::Entry(_, entry) => {
                    let entry = Some(entry);
                    return Some(Found { layer, via, rest, place, border, version, entry });
                }
                Find::Absent => {
                    let entry = None;
                    return Some(Found { layer, via, rest, place, border, version, entry });
                }
            };
            // SAFETY: the version is validated.
            let link = unsafe { space.link(entry) };
            let next = Layer::new(link);
            let climbed = climb(space, link);
            if !border.version().validate(version) {
                version = still_it(border, version)?;
                continue;
            }
            let (next_root, next_version) = climbed?;
            via = Some(Via { border, version, slot });
            if tidy && next_root != link {
                move_link_up(space, border, version, slot, link, next_root);
            }
            (root, root_version, layer) = (next_root, next_version, next);
            rest = &rest[entry.layer_bytes()..];
            continue 'layer;
        }
    }
}

/// The word of the value of `key`, covered by the guard.
#[inline]
pub(crate) fn get(shape: &Shape, key: &[u8], guard: &Guard) -> Option<u64> {
    let mut backoff = Backoff::new();
    loop {
        let found = search(shape, key, guard, false);
        match value_of(shape, &found, guard)? {
            Value::Is(word) => return Some(word),
            Value::Lost => backoff.wait(),
        }
    }
}

/// What a found entry has for the key.
pub(crate) enum Value {
    Is(u64),
    /// The key was removed, or went into another layer, since it was found.
    Lost,
}

/// The value of the key that was searched; `None` if the entry is another long key's.
#[inline]
pub(crate) fn value_of(shape: &Shape, found: &Found<'_, '_>, guard: &Guard) -> Option<Value> {
    let entry = found.entry?;
    // SAFETY: the version was validated, and the entry is covered.
    let Some(cell) = (unsafe { entry.cell() }) else { return Some(Value::Is(entry.value)) };
    if cell.suffix() != suffix_of(found.rest) {
        return None;
    }
    let value = guard.protect(|| cell.value());
    Some(if value == 0 && shape.pointers { Value::Lost } else { Value::Is(value) })
}

/// The new version of a border node that changed, unless keys may have left it.
#[cold]
fn still_it(border: BorderRef<'_>, version: Version) -> Option<Version> {
    let now = border.version().stable();
    (!version.split_since(now)).then_some(now)
}

/// Makes a link point to the root of today, if nobody else is busy there.
#[cold]
fn move_link_up<'t>(
    space: Space<'t>,
    border: BorderRef<'t>,
    version: Version,
    slot: usize,
    old: NodeRef<'t>,
    root: NodeRef<'t>,
) {
    if let Some(locked) = border.version().try_lock()
        && !version.changed(locked.version())
    {
        let entry = border.entry(slot);
        if border.permutation().is_live(slot)
            && entry.is_layer()
            && entry.value == u64::from(space.handle(old))
        {
            border.set_value(slot, space.handle(root).into());
        }
    }
}
