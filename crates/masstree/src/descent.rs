//! The descent from the root to the border node of a key. It writes nothing except stale links.
//!
//! Every node has an optimistic version lock (a seqlock): a reader takes a stable version, reads,
//! and then validates that the version is unchanged.
//!
//! **Within a layer.** At an interior node with a stable version the reader finds the child, takes
//! the *child's* stable version, and only then validates the parent. A split, a removal or a reuse
//! of the child's memory in between also marks the parent. Then one of the two checks fails, and
//! the descent restarts at the root of the tree. Result: the border node covered the slice at some
//! moment since its version was stable. A reader that validates that version later has therefore
//! read the node of the slice.
//!
//! **From layer to layer** the rule is the same, with the border node as the parent of the layer's
//! root. A link may point to a former root. A former root is on the left edge of its layer, so its
//! ancestors lead to the current root. Nodes of the left edge are removed only together with the
//! layer, or by [`crate::reclaim`] when the root has a single child; both mark the border node that
//! has the link. The climb is validated hand over hand like the descent: first the parent's stable
//! version, then that the child is still below it. Writers that pass a stale link update it.

use crate::key::SlotPosition;
use crate::node::{BorderRef, Entry, Find, InteriorRef, Kind, NodeRef, Space, suffix_of};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Version};

/// A layer that was in the tree when this was made, and still is while [`Layer::is_current`].
#[derive(Clone, Copy)]
pub(crate) struct Layer<'t> {
    root: NodeRef<'t>,
    incarnation: u32,
}

impl<'t> Layer<'t> {
    /// `root` was the root of a layer, or on its left edge; the caller validates that after this.
    pub(crate) fn new(root: NodeRef<'t>) -> Self {
        Layer { root, incarnation: root.incarnation() }
    }

    /// The layer of an entry that was read under `version`, if the node still has that version.
    pub(crate) fn of(
        space: Space<'t>,
        border: BorderRef<'t>,
        version: Version,
        entry: Entry,
    ) -> Option<Self> {
        // SAFETY: the version was validated when the entry was read.
        let layer = Layer::new(unsafe { space.linked(entry) });
        border.version().validate(version).then_some(layer)
    }

    /// Whether its root node still has the same incarnation. If so, everything that was read and
    /// validated since this was made belongs to this layer.
    pub(crate) fn is_current(self) -> bool {
        self.root.incarnation() == self.incarnation
    }

    /// The border node of `slice` and its stable version. `None` at a concurrent change.
    pub(crate) fn descend(self, space: Space<'t>, slice: u64) -> Option<(BorderRef<'t>, Version)> {
        self.descend_with_parent(space, slice, &mut None)
    }

    /// As [`Layer::descend`], and stores the parent of the node in `parent_hint`.
    pub(crate) fn descend_with_parent(
        self,
        space: Space<'t>,
        slice: u64,
        parent_hint: &mut Option<ParentHint<'t>>,
    ) -> Option<(BorderRef<'t>, Version)> {
        let (root, version) = climb(space, self.root)?;
        descend(space, root, version, slice, parent_hint)
    }

    /// The current root.
    pub(crate) fn climb(self, space: Space<'t>) -> Option<NodeRef<'t>> {
        climb(space, self.root).map(|(root, _)| root)
    }
}

/// The parent of a border node, to reach its neighbours without a descent.
#[derive(Clone, Copy)]
pub(crate) struct ParentHint<'t> {
    parent: InteriorRef<'t>,
    version: Version,
}

impl<'t> ParentHint<'t> {
    /// The border node of `slice` and its stable version, if it has the same parent. As after a
    /// descent, a reader that validates that version later has read the node of the slice.
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
pub(crate) struct LayerLink<'t> {
    pub(crate) border: BorderRef<'t>,
    pub(crate) version: Version,
    pub(crate) slot: usize,
}

/// The end of a search: its border node and the entry found there, which is never a layer.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t, 'k> {
    pub(crate) layer: Layer<'t>,
    /// `None` in the first layer.
    pub(crate) link: Option<LayerLink<'t>>,
    /// The rest of the key in this layer.
    pub(crate) rest: &'k [u8],
    pub(crate) position: SlotPosition,
    pub(crate) border: BorderRef<'t>,
    /// Validated after the entry was read.
    pub(crate) version: Version,
    pub(crate) entry: Option<Entry>,
}

/// The leaf position of a key: what a writer needs to change it. A part of [`Found`] that is copied
/// more often.
#[derive(Clone, Copy)]
pub(crate) struct LeafPosition<'t, 'k> {
    pub(crate) layer: Layer<'t>,
    pub(crate) border: BorderRef<'t>,
    pub(crate) version: Version,
    /// The rest of the key in this layer.
    pub(crate) rest: &'k [u8],
    pub(crate) position: SlotPosition,
}

impl<'t, 'k> Found<'t, 'k> {
    /// The leaf position of the key.
    #[inline(always)]
    pub(crate) fn leaf(&self) -> LeafPosition<'t, 'k> {
        let &Found { layer, border, version, rest, position, .. } = self;
        LeafPosition { layer, border, version, rest, position }
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
    /// The node of `leaf`, the leaf position of `key`.
    #[inline]
    pub(crate) fn at(leaf: &LeafPosition<'t, '_>, key: &[u8]) -> Self {
        let &LeafPosition { layer, border, version, rest, .. } = leaf;
        Finger { layer, border, version, prefix: key.len() - rest.len() }
    }

    /// Bytes of the key that the layers above make up.
    pub(crate) fn prefix(self) -> usize {
        self.prefix
    }

    /// The leaf position of `key`, if it is in the node in which `last` was found: `key` has the
    /// same prefix and continues after it. A writer checks this again under the lock. The position
    /// does not tell which entry links the layer.
    #[inline(always)]
    pub(crate) fn follow<'k>(self, last: &[u8], key: &'k [u8]) -> Option<LeafPosition<'t, 'k>> {
        let Finger { layer, border, version, prefix } = self;
        let mut rest = key;
        if prefix > 0 {
            rest = key.strip_prefix(last.get(..prefix)?)?;
            if rest.is_empty() {
                return None;
            }
        }
        let position = SlotPosition::of(rest);
        let now = border.version().stable();
        if version.split_since(now) || !border.covers(position.slice) {
            return None;
        }
        Some(LeafPosition { layer, border, version: now, rest, position })
    }
}

/// The root of the layer of which `node` is or was the root. `None` for a node whose incarnation
/// has ended, and at a concurrent change.
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
    // A reader that sees another incarnation of the parent sees the mark that the child had before.
    (!version.split_since(node.version().load())).then_some(above)
}

/// The stable version of `child`, which was read from `parent` under `version`. `None` when that
/// has changed: then it may be the wrong child, or its memory may be another node's.
#[inline]
pub(crate) fn below(
    parent: InteriorRef<'_>,
    version: Version,
    child: NodeRef<'_>,
) -> Option<Version> {
    let below = child.version().stable();
    parent.version().validate(version).then_some(below)
}

/// Finds `position` in a node, if the node still has `version`. The guard covers the result.
#[inline]
pub(crate) fn find_validated(
    border: BorderRef<'_>,
    version: Version,
    position: SlotPosition,
    guard: &Guard,
) -> Option<Find> {
    let find = guard.protect(|| border.find(position));
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
    let linked = unsafe { space.linked(entry) };
    let layer = Layer::new(linked);
    let (root, root_version) = climb(space, linked)?;
    border.version().validate(version).then_some((layer, root, root_version))
}

/// From a node and its stable version to the border node of `slice` and its stable version. `None`
/// at a concurrent change. Stores the parent in `parent_hint`, unless the node was a border node.
#[inline]
pub(crate) fn descend<'t>(
    space: Space<'t>,
    mut node: NodeRef<'t>,
    mut version: Version,
    slice: u64,
    parent_hint: &mut Option<ParentHint<'t>>,
) -> Option<(BorderRef<'t>, Version)> {
    loop {
        let interior = match node.kind() {
            Kind::Border(border) => return Some((border, version)),
            Kind::Interior(interior) => interior,
        };
        let child = interior.child_for(space, slice)?;
        child.prefetch();
        let child_version = below(interior, version, child)?;
        *parent_hint = Some(ParentHint { parent: interior, version });
        (node, version) = (child, child_version);
    }
}

/// Searches `key`. The guard covers the result. With `update_links`, links to former roots are
/// updated on the way.
pub(crate) fn search<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
    update_links: bool,
) -> Found<'t, 'k> {
    let mut backoff = Backoff::new();
    loop {
        if let Some(found) = try_search(shape, key, guard, update_links, |_| ()) {
            return found;
        }
        backoff.wait();
    }
}

/// As [`search`], with the results in the layers above, from the first layer on. The last element
/// is the result of the search.
pub(crate) fn search_path<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
) -> Vec<Found<'t, 'k>> {
    let mut backoff = Backoff::new();
    let mut search_path = Vec::new();
    loop {
        if let Some(found) = try_search(shape, key, guard, false, |above| search_path.push(above)) {
            search_path.push(found);
            return search_path;
        }
        search_path.clear();
        backoff.wait();
    }
}

/// Calls `passed` with the link of each layer that it passes through.
#[inline]
fn try_search<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
    update_links: bool,
    mut passed: impl FnMut(Found<'t, 'k>),
) -> Option<Found<'t, 'k>> {
    let space = shape.space();
    let (mut layer, mut root, mut root_version) = shape.top()?;
    let mut rest = key;
    let mut link = None;
    'layer: loop {
        let position = SlotPosition::of(rest);
        let (border, mut version) = descend(space, root, root_version, position.slice, &mut None)?;
        loop {
            let Some(find) = find_validated(border, version, position, guard) else {
                version = version_unless_split(border, version)?;
                continue;
            };
            let (slot, entry) = match find {
                Find::Layer(slot, entry) => (slot, entry),
                Find::Entry(_, entry) => {
                    let entry = Some(entry);
                    return Some(Found { layer, link, rest, position, border, version, entry });
                }
                Find::Absent => {
                    let entry = None;
                    return Some(Found { layer, link, rest, position, border, version, entry });
                }
            };
            passed(Found { layer, link, rest, position, border, version, entry: None });
            (layer, root, root_version) = enter(space, border, version, entry)?;
            let here = LayerLink { border, version, slot };
            if update_links && u64::from(space.handle(root)) != entry.value {
                move_link_up(space, &here, root);
            }
            link = Some(here);
            rest = &rest[entry.layer_bytes()..];
            continue 'layer;
        }
    }
}

/// The word of the value of `key`, covered by the guard. Points `finger` to its node.
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

/// As [`try_search`], for a reader that needs only the value. `None`: try again.
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
        let position = SlotPosition::of(rest);
        let (border, version) = descend(space, root, root_version, position.slice, &mut None)?;
        let prefix = key.len() - rest.len();
        *finger = Some(Finger { layer, border, version, prefix });
        let entry = match find_validated(border, version, position, guard)? {
            Find::Absent => return Some(None),
            Find::Entry(_, entry) => return answer(shape, entry, rest, guard),
            Find::Layer(_, entry) => entry,
        };
        (layer, root, root_version) = enter(space, border, version, entry)?;
        rest = &rest[entry.layer_bytes()..];
    }
}

/// The word of the value of the key, if the node of `leaf`, which a hint gave, decides it.
#[inline]
pub(crate) fn get_here(
    shape: &Shape,
    leaf: &LeafPosition<'_, '_>,
    guard: &Guard,
) -> Option<Option<u64>> {
    match find_validated(leaf.border, leaf.version, leaf.position, guard)? {
        Find::Absent => Some(None),
        Find::Entry(_, entry) => answer(shape, entry, leaf.rest, guard),
        Find::Layer(..) => None,
    }
}

/// The answer of a found entry. `None` if the value is lost.
#[inline]
fn answer(shape: &Shape, entry: Entry, rest: &[u8], guard: &Guard) -> Option<Option<u64>> {
    match value_in(shape, entry, rest, guard) {
        None => Some(None),
        Some(Value::Is(word)) => Some(Some(word)),
        Some(Value::Lost) => None,
    }
}

/// The value that a found entry has for the key.
pub(crate) enum Value {
    Is(u64),
    /// The key was removed, or moved to another layer, since it was found.
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
fn version_unless_split(border: BorderRef<'_>, version: Version) -> Option<Version> {
    let now = border.version().stable();
    (!version.split_since(now)).then_some(now)
}

/// Makes a link point to the current root, if the node is not locked. While the node has the
/// version, the link leads to the layer, and `root` is its root or on its left edge.
#[cold]
pub(crate) fn move_link_up<'t>(space: Space<'t>, link: &LayerLink<'t>, root: NodeRef<'t>) {
    if let Some(locked) = link.border.version().try_lock()
        && !link.version.changed(locked.version())
    {
        link.border.set_value(link.slot, space.handle(root).into());
    }
}
