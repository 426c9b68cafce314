//! The descent from the root to the border node of a key. It writes nothing.
//!
//! Every node has an optimistic version lock (a seqlock): a reader takes a stable version, reads,
//! and then validates that the version is unchanged.
//!
//! At an interior node with a stable version the reader finds the child, takes the *child's* stable
//! version, and only then validates the parent. A split, a removal or a reuse of the child's memory
//! in between also marks the parent. Then one of the two checks fails, and the descent restarts at
//! the root. Result: the border node covered the key at some moment since its version was stable. A
//! reader that validates that version later has therefore read the node of the key.
//!
//! **From layer to layer** the rule is the same: the root of a layer is a child like others, and
//! its flag is part of its version. The reader compares the slice before it, which was read under
//! the parent's version, and the prefix, which it validates with the next step. A key in a gap, or
//! without the prefix, is nowhere: the version that was validated last says so.

use crate::entry::Entry;
use crate::key::{Rest, SLICE_BYTES};
use crate::node::{BorderRef, InteriorRef, Kind, Look, NodeRef, Space};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Version};
use std::cell::Cell;

/// The leaf position of a key: where it is, or would be.
#[derive(Clone, Copy)]
pub(crate) struct LeafPosition<'t, 'k> {
    pub(crate) border: BorderRef<'t>,
    /// Validated after everything else was read.
    pub(crate) version: Version,
    /// The rest of the key in the layer of the node.
    pub(crate) rest: Rest<'k>,
}

/// Where a descent ends.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'t, 'k> {
    Leaf(LeafPosition<'t, 'k>),
    /// In the gap after a layer, a child of this node.
    Gap {
        parent: InteriorRef<'t>,
        version: Version,
        rest: Rest<'k>,
    },
    /// It does not have the prefix of the layer with this root. `rest` is what is left before that.
    Diverged {
        root: NodeRef<'t>,
        version: Version,
        rest: Rest<'k>,
    },
}

/// The end of a search: the place of the key, and its entry if it is there.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t, 'k> {
    pub(crate) place: Destination<'t, 'k>,
    pub(crate) entry: Option<Entry>,
}

impl<'t, 'k> Destination<'t, 'k> {
    /// The leaf position, if the key has one.
    #[inline]
    pub(crate) fn leaf(self) -> Option<LeafPosition<'t, 'k>> {
        match self {
            Destination::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }
}

/// A descent on its way, at a node that is not read yet.
#[derive(Clone, Copy)]
pub(crate) struct Descent<'t, 'k> {
    node: NodeRef<'t>,
    /// That of the node, stable.
    version: Version,
    /// The node above, with the version under which the node was found.
    parent: Option<(InteriorRef<'t>, Version)>,
    /// The slice of the last separator before the node.
    before: u64,
    rest: Rest<'k>,
}

/// What is next in a descent.
pub(crate) enum Next<'t, 'k> {
    Destination(Destination<'t, 'k>),
    /// A child, and the slice before it.
    Child {
        parent: InteriorRef<'t>,
        child: NodeRef<'t>,
        before: u64,
    },
}

impl<'t, 'k> Descent<'t, 'k> {
    /// At the root. `None` at a concurrent change.
    #[inline]
    pub(crate) fn begin(shape: &'t Shape, rest: Rest<'k>) -> Option<Self> {
        let (node, version) = shape.top()?;
        Some(Descent { node, version, parent: None, before: 0, rest })
    }

    /// Reads the node. `None` at a concurrent change.
    #[inline(always)]
    pub(crate) fn next(&mut self, space: Space<'t>) -> Option<Next<'t, 'k>> {
        if self.version.is_root()
            && let Some(place) = self.enter_layer(space)?
        {
            return Some(Next::Destination(place));
        }
        let parent = match self.node.kind() {
            Kind::Border(border) => {
                let leaf = LeafPosition { border, version: self.version, rest: self.rest };
                return Some(Next::Destination(Destination::Leaf(leaf)));
            }
            Kind::Interior(parent) => parent,
        };
        let index = parent.index_for(self.rest.fence());
        let child = parent.child(space, index)?;
        let before = if index > 0 { parent.separator(index - 1).slice } else { self.before };
        Some(Next::Child { parent, child, before })
    }

    /// Goes on to a child that [`Descent::next`] has found. `None` at a concurrent change.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        parent: InteriorRef<'t>,
        child: NodeRef<'t>,
        before: u64,
    ) -> Option<()> {
        let version = below(parent, self.version, child)?;
        self.parent = Some((parent, self.version));
        (self.node, self.version, self.before) = (child, version, before);
        Some(())
    }

    /// Leaves behind what all keys of the layer have, which begins at the node. Returns a place if
    /// the key does not have it. `None` at a concurrent change.
    #[inline(always)]
    fn enter_layer(&mut self, space: Space<'t>) -> Option<Option<Destination<'t, 'k>>> {
        if let Some((parent, version)) = self.parent {
            if self.before != self.rest.position.slice {
                return Some(Some(Destination::Gap { parent, version, rest: self.rest }));
            }
            self.rest = self.rest.after(SLICE_BYTES);
            self.before = 0;
        }
        if let Some(prefix) = self.node.prefix(space) {
            if !prefix.leads_to(self.rest.bytes) {
                let (root, version, rest) = (self.node, self.version, self.rest);
                let same = root.version().validate(version);
                return same.then_some(Some(Destination::Diverged { root, version, rest }));
            }
            self.rest = self.rest.after(prefix.bytes());
        }
        Some(None)
    }
}

/// The place of `key`. `None` at a concurrent change.
#[inline]
fn try_descend<'t, 'k>(shape: &'t Shape, key: &'k [u8]) -> Option<Destination<'t, 'k>> {
    let space = shape.space();
    let mut descent = Descent::begin(shape, Rest::of(key))?;
    loop {
        match descent.next(space)? {
            Next::Destination(place) => return Some(place),
            Next::Child { parent, child, before } => {
                child.prefetch();
                descent.enter(parent, child, before)?;
            }
        }
    }
}

/// The place of `key`, for a writer, which validates it under the lock.
pub(crate) fn descend<'t, 'k>(shape: &'t Shape, key: &'k [u8]) -> Destination<'t, 'k> {
    let mut backoff = Backoff::new();
    loop {
        if let Some(place) = try_descend(shape, key) {
            return place;
        }
        backoff.wait();
    }
}

/// A border node to try first for the next key.
#[derive(Clone, Copy)]
pub(crate) struct Finger<'t> {
    border: BorderRef<'t>,
    version: Version,
    /// Bytes of the key that the layers above make up.
    prefix: usize,
}

impl<'t> Finger<'t> {
    /// The node of `leaf`, the leaf position of `key`.
    #[inline]
    pub(crate) fn at(leaf: &LeafPosition<'t, '_>, key: &[u8]) -> Self {
        let &LeafPosition { border, version, rest, .. } = leaf;
        Finger { border, version, prefix: key.len() - rest.bytes.len() }
    }

    /// Bytes of the key that the layers above make up.
    pub(crate) fn prefix(self) -> usize {
        self.prefix
    }

    /// The leaf position of `key`, if it is in the node in which `last` was found: `key` has the
    /// same prefix and continues after it. A writer checks this again under the lock.
    #[inline(always)]
    pub(crate) fn follow<'k>(self, last: &[u8], key: &'k [u8]) -> Option<LeafPosition<'t, 'k>> {
        let Finger { border, version, prefix } = self;
        let mut rest = key;
        if prefix > 0 {
            rest = key.strip_prefix(last.get(..prefix)?)?;
            if rest.is_empty() {
                return None;
            }
        }
        let rest = Rest::of(rest);
        let now = border.version().stable();
        if version.split_since(now) || !border.covers(rest.fence()) {
            return None;
        }
        Some(LeafPosition { border, version: now, rest })
    }
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

/// The entry of the key at a leaf position, if the node still has the version. The guard covers the
/// result. The outer `None`: it has another.
#[inline]
pub(crate) fn find_validated(leaf: &LeafPosition<'_, '_>, guard: &Guard) -> Option<Option<Entry>> {
    find_looked(leaf, leaf.border.look(&leaf.rest), guard)
}

/// As [`find_validated`], with what the node has said under this guard.
#[inline(always)]
pub(crate) fn find_looked(
    leaf: &LeafPosition<'_, '_>,
    mut look: Look,
    guard: &Guard,
) -> Option<Option<Entry>> {
    let LeafPosition { border, version, rest } = leaf;
    loop {
        let is_covered = Cell::new(true);
        let copy = |slot| {
            let entry = border.entry_at(slot, rest.position);
            is_covered.set(guard.covers());
            is_covered.get().then_some(entry)
        };
        let found = find(look, rest, copy, || border.version().validate(*version));
        if is_covered.get() {
            return found.map(|found| found.map(|(_, entry)| entry));
        }
        // A removal marks no version. It may have come between the look and the copy, and freed
        // what the guard did not cover then.
        look = border.look(rest);
    }
}

/// The slot and the entry of a key in a node that the caller has locked: its cell stays.
// Inlined, `rest` would be copied in pieces of 16 bytes, which wait for the words just written.
#[inline(never)]
pub(crate) fn find_locked(border: BorderRef<'_>, rest: &Rest<'_>) -> Option<(usize, Entry)> {
    let copy = |slot| Some(border.entry_at(slot, rest.position));
    let found = find(border.look(rest), rest, copy, || true);
    found.expect("nobody else changes a locked node")
}

/// Finds `rest` in a node that has said `look`, as long as `same` says that nothing was changed
/// since the caller began. A `copy` of an entry is covered, and so was the look; else there is
/// none, and nothing is found.
#[inline(always)]
fn find(
    look: Look,
    rest: &Rest<'_>,
    copy: impl Fn(usize) -> Option<Entry>,
    same: impl Fn() -> bool,
) -> Option<Option<(usize, Entry)>> {
    match look {
        Look::Absent => same().then_some(None),
        Look::Key(slot) => {
            let entry = copy(slot)?;
            same().then_some(Some((slot, entry)))
        }
        Look::Cells(mut cells) => {
            while cells != 0 {
                let slot = cells.trailing_zeros() as usize;
                cells &= cells - 1;
                let entry = copy(slot)?;
                if !same() {
                    return None;
                }
                // SAFETY: the entry is as it was in the node, and covered.
                let cell = unsafe { entry.cell() }.expect("a slot keeps its code without a mark");
                if cell.suffix() == rest.suffix() {
                    return Some(Some((slot, entry)));
                }
            }
            same().then_some(None)
        }
    }
}

/// Searches `key`. The guard covers the result.
pub(crate) fn search<'t, 'k>(shape: &'t Shape, key: &'k [u8], guard: &Guard) -> Found<'t, 'k> {
    let mut backoff = Backoff::new();
    loop {
        let mut place = descend(shape, key);
        while let Destination::Leaf(leaf) = &mut place {
            if let Some(entry) = find_validated(leaf, guard) {
                return Found { place, entry };
            }
            // Unless keys may have left the node, it is enough to look again.
            let now = leaf.border.version().stable();
            if leaf.version.split_since(now) {
                break;
            }
            leaf.version = now;
        }
        if !matches!(place, Destination::Leaf(_)) {
            return Found { place, entry: None };
        }
        backoff.wait();
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

/// As [`get`]. The outer `None`: try again.
#[inline]
fn try_get<'t>(
    shape: &'t Shape,
    key: &[u8],
    guard: &Guard,
    finger: &mut Option<Finger<'t>>,
) -> Option<Option<u64>> {
    let Destination::Leaf(leaf) = try_descend(shape, key)? else { return Some(None) };
    *finger = Some(Finger::at(&leaf, key));
    get_here(shape, &leaf, guard)
}

/// The word of the value of the key at a leaf position. The outer `None`: the node has changed.
#[inline]
pub(crate) fn get_here(
    shape: &Shape,
    leaf: &LeafPosition<'_, '_>,
    guard: &Guard,
) -> Option<Option<u64>> {
    let Some(entry) = find_validated(leaf, guard)? else { return Some(None) };
    match value_of(shape, entry, guard) {
        Value::Is(word) => Some(Some(word)),
        Value::Lost => None,
    }
}

/// The value that a found entry has for the key.
pub(crate) enum Value {
    Is(u64),
    /// The key was removed, or moved to another layer, since it was found.
    Lost,
}

/// The value of an entry that was found under the guard.
#[inline]
pub(crate) fn value_of(shape: &Shape, entry: Entry, guard: &Guard) -> Value {
    // SAFETY: the version was validated, and the entry is covered.
    let Some(cell) = (unsafe { entry.cell() }) else { return Value::Is(entry.value) };
    let value = guard.protect(|| cell.value());
    if value == 0 && shape.pointers { Value::Lost } else { Value::Is(value) }
}
