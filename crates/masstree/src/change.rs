//! The change of one key.
//!
//! A writer finds the border node as a reader does, locks it, and checks again: the node may have
//! been split or removed meanwhile. Then it searches again. Under the lock there are these cases:
//!
//! | found | put | mark |
//! |---|---|---|
//! | the key | exchange the value | none |
//! | nothing, a slot free | fill it, publish the permutation | inserting, if the slot is stale |
//! | nothing, no slot free | share with a neighbour (`balance.rs`) or split (`split.rs`) | splitting |
//! | the same, and all keys have one slice | begin a layer (`layer.rs`), search again | splitting |
//! | a gap after a layer | a new border node there (`layer.rs`) | splitting |
//! | a layer with a prefix that the key does not have | divide the prefix (`layer.rs`) | splitting |
//! | the key, to be removed | publish the permutation without it; the slot is stale | none |
//! | few keys are left after a removal | reclaim nodes (`reclaim.rs`, `merge.rs`) | splitting |
//!
//! Values and cells that were replaced or removed are retired after they were unlinked.

use crate::balance::prefetch_beside;
use crate::descent::{Destination, Finger, descend, find_locked};
use crate::entry::Entry;
use crate::hint::Hint;
use crate::key::{Rest, SLICE_BYTES};
use crate::layer::{begin_layer, divide_prefix, fill_gap, retire_cells};
use crate::merge::SPARSE;
use crate::node::BorderRef;
use crate::permutation::WIDTH;
use crate::reclaim::reclaim_nodes;
use crate::shape::Shape;
use crate::slot::{Slot, Unpublished};
use crate::split::{Relief, detach, relief, split_insert};
use keyrack_concurrent::{Change, Guard, Locked};

/// Changes one key. Returns the word that was there, covered by the guard; if it was replaced or
/// removed, it is retired already.
#[inline]
pub(crate) fn change<V: Slot>(
    shape: &Shape,
    key: &[u8],
    guard: &Guard,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    change_at(shape, key, &mut descend(shape, key), guard, decide)
}

/// As [`change`], with a hint.
#[inline]
pub(crate) fn change_hinted<'t, V: Slot>(
    shape: &'t Shape,
    key: &[u8],
    guard: &Guard,
    hint: &mut Hint<'t>,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    let here = hint.follow(shape, key);
    let mut place = here.map_or_else(|| descend(shape, key), Destination::Leaf);
    let old = change_at(shape, key, &mut place, guard, decide);
    if let Some(leaf) = place.leaf()
        && here.is_none_or(|here| here.border != leaf.border)
    {
        hint.set(shape, Some(Finger::at(&leaf, key)), key);
    }
    old
}

/// As [`change`], from the result of a descent. Afterwards `place` is where the change happened,
/// which differs if the key had moved.
pub(crate) fn change_at<'t, 'k, V: Slot>(
    shape: &'t Shape,
    key: &'k [u8],
    place: &mut Destination<'t, 'k>,
    guard: &Guard,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    loop {
        match place {
            // Not copied: what was just written in words is slow to read in longer pieces.
            Destination::Leaf(leaf) => {
                let (border, rest) = (leaf.border, &leaf.rest);
                let locked = border.version().lock();
                if !leaf.version.split_since(locked.version()) {
                    if let Some(found) = find_locked(border, rest) {
                        return change_found(shape, key, border, locked, found, guard, decide);
                    }
                    let permutation = border.permutation();
                    prefetch_beside(shape.space(), border, permutation);
                    let index = border.index_for(permutation, rest);
                    let root = locked.version().is_root();
                    let relief = (permutation.len() == WIDTH)
                        .then(|| relief(shape, border, root, index, *rest));
                    let leaf = match relief {
                        Some(Relief::BeginLayer) => {
                            begin_layer(shape, border, locked, *rest, guard)
                        }
                        Some(Relief::Detach) => {
                            let leaf = detach(shape, border, locked, *rest);
                            // It stays, unless it is the leftmost, if the key went that it is from.
                            let ended = key.len() - rest.bytes.len() + SLICE_BYTES;
                            reclaim_nodes(shape, &key[..ended], border);
                            leaf
                        }
                        None | Some(Relief::Cut) => {
                            if let Change::Put(value) = decide(None) {
                                let value = publish_new(shape, value, *rest);
                                let entry = Entry::make(rest.bytes, value);
                                insert_at(shape, border, locked, (index, entry), relief);
                            }
                            return None;
                        }
                    };
                    *place = Destination::Leaf(leaf);
                    continue;
                }
            }
            &mut Destination::Gap { parent, version, rest } => {
                let locked = parent.version().lock();
                if !version.changed(locked.version()) {
                    if let Change::Put(value) = decide(None) {
                        fill_gap(shape, parent, locked, rest, publish_new(shape, value, rest));
                    }
                    return None;
                }
            }
            &mut Destination::Diverged { root, version, rest } => {
                let locked = root.version().lock();
                if !version.changed(locked.version()) {
                    if let Change::Put(value) = decide(None) {
                        let value = publish_new(shape, value, rest);
                        divide_prefix(shape, root, locked, rest, value);
                    }
                    return None;
                }
            }
        }
        *place = descend(shape, key);
    }
}

/// As [`change_at`], if the locked node has the key.
#[inline]
fn change_found<'t, V: Slot>(
    shape: &'t Shape,
    key: &[u8],
    border: BorderRef<'t>,
    locked: Locked<'t>,
    (slot, entry): (usize, Entry),
    guard: &Guard,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    // SAFETY: the entry is live, and its node locked.
    let cell = unsafe { entry.cell() };
    // What is linked now stays valid under the guard.
    guard.cover();
    let old = cell.map_or(entry.value, |cell| cell.value());
    match decide(Some(old)) {
        Change::Keep => {}
        Change::Put(value) => {
            match cell {
                Some(cell) => cell.set_value(publish(shape, value)),
                None => border.set_value(slot, publish(shape, value)),
            }
            drop(locked);
            retire_value::<V>(old, guard);
        }
        Change::Remove => {
            let permutation = border.permutation();
            let left = permutation.remove(permutation.index_of(slot));
            border.set_stale(slot);
            border.publish(left);
            shape.keys.add(-1);
            retire_cells(shape, locked, cell.as_slice(), guard);
            retire_value::<V>(old, guard);
            if left.len() <= SPARSE {
                reclaim_nodes(shape, key, border);
            }
        }
    }
    Some(old)
}

/// As [`publish`], for a key that was not there.
#[inline]
fn publish_new<V: Slot>(shape: &Shape, value: Unpublished<V>, rest: Rest<'_>) -> u64 {
    if rest.is_long() {
        shape.note_owner();
    }
    publish(shape, value)
}

/// The word of a value that becomes the tree's.
#[inline]
fn publish<V: Slot>(shape: &Shape, value: Unpublished<V>) -> u64 {
    let word = value.publish();
    if V::owns(word) {
        shape.note_owner();
    }
    word
}

/// A new key in a node that does not have it, which is cut if it is full.
fn insert_at<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    (index, entry): (usize, Entry),
    relief: Option<Relief>,
) {
    shape.keys.add(1);
    if let Some(Relief::Cut) = relief {
        split_insert(shape, border, locked, (index, entry));
        return;
    }
    let permutation = border.permutation();
    let (permutation, slot) = permutation.insert(index);
    if border.is_stale(slot) {
        locked.mark_inserting();
        border.clear_stale();
    }
    border.set_entry(slot, entry);
    border.publish(permutation);
}

fn retire_value<V: Slot>(raw: u64, guard: &Guard) {
    if V::owns(raw) {
        // SAFETY: this thread has unlinked the value under the lock, and so retires it once.
        unsafe { V::retire(raw, guard) };
    }
}
