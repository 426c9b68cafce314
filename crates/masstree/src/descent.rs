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
//! mark the border node that has the link. The way up is validated like the way down, hand over
//! hand: the parent's stable version first, then whether the child is still below it. Writers that
//! come past move a link up.

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

    /// The layer of an entry that was read under `version`, if the node still has that version.
    pub(crate) fn of(
        space: Space<'t>,
        border: BorderRef<'t>,
        version: Version,
        entry: Entry,
    ) -> Option<Self> {
        // SAFETY: the version was validated when the entry was read.
        let layer = Layer::new(unsafe { space.link(entry) });
        border.version().validate(version).then_some(layer)
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
    /// The border node of `slice`, and its stable version, if it has the same parent. As after a
    /// descent, whoever validates that version later has read the node of the slice.
    pub(crate) fn neighbour(
        self,
        space: Space<'t>,
        slice: u64,
    ) -> Option<(BorderRef<'t>, Version)> {
        let child = self.parent.child_for(space, slice)?;
        let version = below(self.parent, self.version, child)?;
        let Kind::Border(border) = child.kind() else { return None };
        // Beyond the parent's range, the first child or the last is not the one.
        border.covers(slice).then_some((border, version))
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

/// Where a key belongs: what is needed to change it. Half of [`Found`], and copied more often.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'t, 'k> {
    pub(crate) layer: Layer<'t>,
    pub(crate) border: BorderRef<'t>,
    pub(crate) version: Version,
    /// The rest of the key in this layer.
    pub(crate) rest: &'k [u8],
    pub(crate) place: Place,
}

impl<'t, 'k> Found<'t, 'k> {
    /// Where the key belongs.
    #[inline(always)]
    pub(crate) fn spot(&self) -> Spot<'t, 'k> {
        let &Found { layer, border, version, rest, place, .. } = self;
        Spot { layer, border, version, rest, place }
    }
}

/// A border node to try first for the next key.
#[derive(Clone, Copy)]
pub(crate) struct Finger<'t> {
    layer: Layer<'t>,
    border: BorderRef<'t>,
    version: Version,
    /// Bytes of the key that the layers above make up.
    prefix: usize,
}

impl<'t> Finger<'t> {
    /// Where `key` belongs.
    #[inline]
    pub(crate) fn at(spot: &Spot<'t, '_>, key: &[u8]) -> Self {
        let &Spot { layer, border, version, rest, .. } = spot;
        Finger { layer, border, version, prefix: key.len() - rest.len() }
    }

    /// Bytes of the key that the layers above make up.
    pub(crate) fn prefix(self) -> usize {
        self.prefix
    }

    /// Where `key` belongs, if that is the node at which `last` was found: a key with the same
    /// beginning that goes on behind it. Whoever locks it will see whether it still is. It does not
    /// say by which entry the layer is linked.
    #[inline(always)]
    pub(crate) fn follow<'k>(self, last: &[u8], key: &'k [u8]) -> Option<Spot<'t, 'k>> {
        let Finger { layer, border, version, prefix } = self;
        let mut rest = key;
        if prefix > 0 {
            rest = key.strip_prefix(last.get(..prefix)?)?;
            if rest.is_empty() {
                return None;
            }
        }
        let place = Place::of(rest);
        let now = border.version().stable();
        if version.split_since(now) || !border.covers(place.slice) {
            return None;
        }
        Some(Spot { layer, border, version: now, rest, place })
    }
}

/// The root of the layer that `node` is, or was, the root of; `None` for a node whose life is over,
/// or when the way changes meanwhile.
#[inline]
pub(crate) fn climb<'t>(space: Space<'t>, mut node: NodeRef<'t>) -> Option<(NodeRef<'t>, Version)> {
    let mut version = node.version().stable();
    while !version.is_root() {
        // The parent is stored before the flag is cleared.
        let parent = node.parent(space)?.node();
        (node, version) = (parent, above(node, version, parent)?);
    }
    (!version.is_deleted()).then_some((node, version))
}

/// The stable version of `parent`, which was read from `node` under `version`. `None` when the node
/// may have become the root since: then the parent's memory may be that of any other node.
#[inline]
pub(crate) fn above(node: NodeRef<'_>, version: Version, parent: NodeRef<'_>) -> Option<Version> {
    let above = parent.version().stable();
    // Whoever sees another life of the parent sees the mark that the child had before.
    (!version.split_since(node.version().load())).then_some(above)
}

/// The stable version of `child`, which was read from `parent` under `version`. `None` when that
/// has changed: then the child may not be the one, or its memory another node's.
#[inline]
pub(crate) fn below(
    parent: InteriorRef<'_>,
    version: Version,
    child: NodeRef<'_>,
) -> Option<Version> {
    let below = child.version().stable();
    parent.version().validate(version).then_some(below)
}

/// What a node has for a place, if it still has `version`. Covered by the guard.
#[inline]
pub(crate) fn look(
    border: BorderRef<'_>,
    version: Version,
    place: Place,
    guard: &Guard,
) -> Option<Find> {
    let find = guard.protect(|| border.find(place));
    border.version().validate(version).then_some(find)
}

/// The layer of an entry that was read under `version`, its root, and the root's stable version, if
/// the node still has that version.
#[inline]
pub(crate) fn enter<'t>(
    space: Space<'t>,
    border: BorderRef<'t>,
    version: Version,
    entry: Entry,
) -> Option<(Layer<'t>, NodeRef<'t>, Version)> {
    // SAFETY: the version was validated when the entry was read.
    let link = unsafe { space.link(entry) };
    let layer = Layer::new(link);
    let (root, root_version) = climb(space, link)?;
    border.version().validate(version).then_some((layer, root, root_version))
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
        let child_version = below(interior, version, child)?;
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
        if let Some(found) = try_search(shape, key, guard, tidy, |_| ()) {
            return found;
        }
        backoff.wait();
    }
}

/// As [`search`], and what was found of the key in the layers above, from the first layer on. The
/// last is what was found.
pub(crate) fn trail<'t, 'k>(shape: &'t Shape, key: &'k [u8], guard: &Guard) -> Vec<Found<'t, 'k>> {
    let mut backoff = Backoff::new();
    let mut trail = Vec::new();
    loop {
        if let Some(found) = try_search(shape, key, guard, false, |above| trail.push(above)) {
            trail.push(found);
            return trail;
        }
        trail.clear();
        backoff.wait();
    }
}

/// Gives to `passed` where the layers are linked that it passes through.
#[inline]
fn try_search<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
    tidy: bool,
    mut passed: impl FnMut(Found<'t, 'k>),
) -> Option<Found<'t, 'k>> {
    let space = shape.space();
    let (mut layer, mut root, mut root_version) = shape.top()?;
    let mut rest = key;
    let mut via = None;
    'layer: loop {
        let place = Place::of(rest);
        let (border, mut version) = descend(space, root, root_version, place.slice, &mut None)?;
        loop {
            let Some(find) = look(border, version, place, guard) else {
                version = still_it(border, version)?;
                continue;
            };
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
            passed(Found { layer, via, rest, place, border, version, entry: None });
            (layer, root, root_version) = enter(space, border, version, entry)?;
            let here = Via { border, version, slot };
            if tidy && u64::from(space.handle(root)) != entry.value {
                move_link_up(space, &here, root);
            }
            via = Some(here);
            rest = &rest[entry.layer_bytes()..];
            continue 'layer;
        }
    }
}

/// The word of the value of `key`, covered by the guard. `finger` points to its node then.
#[inline]
pub(crate) fn get<'t>(
    shape: &'t Shape,
    key: &[u8],
    guard: &Guard,
    finger: &mut Option<Finger<'t>>,
) -> Option<u64> {
    let mut backoff = Backoff::new();
    loop {
        if let Some(answer) = try_get(shape, key, guard, finger) {
            return answer;
        }
        backoff.wait();
    }
}

/// As [`try_search`], for a reader that needs nothing but the value. `None` to try again.
#[inline]
fn try_get<'t>(
    shape: &'t Shape,
    key: &[u8],
    guard: &Guard,
    finger: &mut Option<Finger<'t>>,
) -> Option<Option<u64>> {
    let space = shape.space();
    let (mut layer, mut root, mut root_version) = shape.top()?;
    let mut rest = key;
    loop {
        let place = Place::of(rest);
        let (border, version) = descend(space, root, root_version, place.slice, &mut None)?;
        let prefix = key.len() - rest.len();
        *finger = Some(Finger { layer, border, version, prefix });
        let entry = match look(border, version, place, guard)? {
            Find::Absent => return Some(None),
            Find::Entry(_, entry) => return answer(shape, entry, rest, guard),
            Find::Layer(_, entry) => entry,
        };
        (layer, root, root_version) = enter(space, border, version, entry)?;
        rest = &rest[entry.layer_bytes()..];
    }
}

/// The word of the value of the key, if that is decided by the node of `found`, which was followed.
#[inline]
pub(crate) fn get_here(shape: &Shape, spot: &Spot<'_, '_>, guard: &Guard) -> Option<Option<u64>> {
    match look(spot.border, spot.version, spot.place, guard)? {
        Find::Absent => Some(None),
        Find::Entry(_, entry) => answer(shape, entry, spot.rest, guard),
        Find::Layer(..) => None,
    }
}

/// The answer of an entry that was found, `None` if it is lost.
#[inline]
fn answer(shape: &Shape, entry: Entry, rest: &[u8], guard: &Guard) -> Option<Option<u64>> {
    match value_in(shape, entry, rest, guard) {
        None => Some(None),
        Some(Value::Is(word)) => Some(Some(word)),
        Some(Value::Lost) => None,
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
    value_in(shape, found.entry?, found.rest, guard)
}

#[inline]
fn value_in(shape: &Shape, entry: Entry, rest: &[u8], guard: &Guard) -> Option<Value> {
    // SAFETY: the version was validated, and the entry is covered.
    let Some(cell) = (unsafe { entry.cell() }) else { return Some(Value::Is(entry.value)) };
    if cell.suffix() != suffix_of(rest) {
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

/// Makes a link point to the root of today, if nobody else is busy there. While the node has the
/// version, the link is one to the layer, and `root` its root or on its left edge.
#[cold]
pub(crate) fn move_link_up<'t>(space: Space<'t>, via: &Via<'t>, root: NodeRef<'t>) {
    if let Some(locked) = via.border.version().try_lock()
        && !via.version.changed(locked.version())
    {
        via.border.set_value(via.slot, space.handle(root).into());
    }
}
