//! The change of one key.
//!
//! A writer finds the border node as a reader does, locks it, and checks again: the node may have
//! been split or removed meanwhile, or the key may have moved to a new layer. Then it searches
//! again. Under the lock there are six cases:
//!
//! | found | put | mark |
//! |---|---|---|
//! | the key | exchange the value | none |
//! | nothing, a slot free | fill it, publish the permutation | inserting, if the slot is stale |
//! | nothing, no slot free | split (`split.rs`) | splitting |
//! | nothing, no slot free, one slice has most of them | make a layer for its keys (`split.rs`) | inserting |
//! | another long key of slice and tail | make a layer for both, exchange the entry for it | inserting |
//! | the key, to be removed | publish the permutation without it; the slot is stale | none |
//!
//! Values and cells that were replaced or removed are retired after they were unlinked.

use crate::descent::{Finger, LeafPosition, search};
use crate::hint::Hint;
use crate::key::{RANK_LONG, SLICE_BYTES, SlotPosition};
use crate::node::{BorderRef, Entry, Find, suffix_of};
use crate::permutation::WIDTH;
use crate::reclaim::reclaim_nodes;
use crate::shape::Shape;
use crate::slot::{Slot, Unpublished};
use crate::split::{move_slice_to_layer, retire_cells, slice_to_move, split_insert};
use keyrack_concurrent::{Guard, Locked};
use keyrack_store::Change;

/// Changes one key. Returns the word that was there, covered by the guard; if it was replaced or
/// removed, it is retired already.
#[inline]
pub(crate) fn change<V: Slot>(
    shape: &Shape,
    key: &[u8],
    guard: &Guard,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    change_at(shape, key, &mut search_leaf(shape, key, guard), guard, decide)
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
    let mut leaf = here.unwrap_or_else(|| search_leaf(shape, key, guard));
    let border = here.map(|here| here.border);
    let old = change_at(shape, key, &mut leaf, guard, decide);
    if border != Some(leaf.border) {
        hint.set(shape, Some(Finger::at(&leaf, key)), key);
    }
    old
}

/// The leaf position of `key`, for a writer.
#[inline]
pub(crate) fn search_leaf<'t, 'k>(
    shape: &'t Shape,
    key: &'k [u8],
    guard: &Guard,
) -> LeafPosition<'t, 'k> {
    search(shape, key, guard, true).leaf()
}

/// As [`change`], from the result of a search. Afterwards `leaf` is the position at which the
/// change happened, which differs if the key had moved.
pub(crate) fn change_at<'t, 'k, V: Slot>(
    shape: &'t Shape,
    key: &'k [u8],
    leaf: &mut LeafPosition<'t, 'k>,
    guard: &Guard,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    loop {
        let (border, rest, position) = (leaf.border, leaf.rest, leaf.position);
        let locked = border.version().lock();
        if leaf.version.split_since(locked.version()) {
            drop(locked);
            *leaf = search_leaf(shape, key, guard);
            continue;
        }
        let (slot, entry) = match border.find(position) {
            Find::Entry(slot, entry) => (slot, entry),
            Find::Layer(..) => {
                drop(locked);
                *leaf = search_leaf(shape, key, guard);
                continue;
            }
            Find::Absent => {
                let permutation = border.permutation();
                let index = border.index_for(permutation, position);
                if permutation.len() == WIDTH
                    && let Some(slice) = slice_to_move(border, index, position.slice)
                {
                    move_slice_to_layer(shape, border, locked, slice, guard);
                    *leaf = search_leaf(shape, key, guard);
                    continue;
                }
                if let Change::Put(value) = decide(None) {
                    let value = publish(shape, value);
                    if position.rank == RANK_LONG {
                        shape.note_owner();
                    }
                    let entry = Entry::make(rest, value);
                    insert_at(shape, border, locked, index, entry);
                }
                return None;
            }
        };
        return change_found(shape, key, leaf, locked, (slot, entry), guard, decide);
    }
}

/// As [`change_at`], if the locked node has an entry of the key's slice, tail and rank.
#[inline]
fn change_found<'t, V: Slot>(
    shape: &'t Shape,
    key: &[u8],
    leaf: &LeafPosition<'t, '_>,
    locked: Locked<'t>,
    (slot, entry): (usize, Entry),
    guard: &Guard,
    decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
) -> Option<u64> {
    let (border, rest) = (leaf.border, leaf.rest);
    // SAFETY: the entry is live, and its node locked.
    let cell = unsafe { entry.cell() };
    if cell.is_some_and(|cell| cell.suffix() != suffix_of(rest)) {
        if let Change::Put(value) = decide(None) {
            let value = publish(shape, value);
            make_layer_of(shape, border, locked, slot, rest, value, guard);
        }
        return None;
    }
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
            if left.len() == 0 {
                reclaim_nodes(shape, key, rest.len(), guard);
            }
        }
    }
    Some(old)
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

/// A new key in a node that has none of its slice, tail and rank.
fn insert_at<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    index: usize,
    entry: Entry,
) {
    shape.keys.add(1);
    let permutation = border.permutation();
    if permutation.len() == WIDTH {
        split_insert(shape, border, locked, index, entry);
        return;
    }
    let (permutation, slot) = permutation.insert(index);
    if border.is_stale(slot) {
        locked.mark_inserting();
        border.clear_stale();
    }
    border.set_entry(slot, entry);
    border.publish(permutation);
}

/// Two long keys of one slice and tail: the entry in `slot` becomes a layer that holds both. If the
/// keys share more bytes, layers of one entry come first.
fn make_layer_of<'t>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    slot: usize,
    rest: &[u8],
    value: u64,
    guard: &Guard,
) {
    let old = border.entry(slot);
    // SAFETY: the entry is live, and its node locked.
    let cell = unsafe { old.cell() };
    let cell = cell.expect("only an entry with a suffix differs from a key of its slice");
    let (mut old_rest, mut rest) = (cell.suffix(), suffix_of(rest));
    let (root, root_locked) = shape.new_border(true, 0, 0);
    let (mut last, mut last_locked) = (root, root_locked);
    let mut layers = 1;
    let long = |rest: &[u8]| rest.len() > 2 * SLICE_BYTES;
    while long(rest) && long(old_rest) && SlotPosition::of(rest) == SlotPosition::of(old_rest) {
        let (next, next_locked) = shape.new_border(true, 0, 0);
        let SlotPosition { slice, tail, .. } = SlotPosition::of(rest);
        last.fill(&[Entry::long_layer(slice, tail, shape.space().handle(next.node()))]);
        (last, last_locked, layers) = (next, next_locked, layers + 1);
        (rest, old_rest) = (suffix_of(rest), suffix_of(old_rest));
    }
    let mut pair = [Entry::make(rest, value), Entry::make(old_rest, cell.value())];
    pair.sort_by_key(Entry::first);
    last.fill(&pair);
    drop(last_locked);
    shape.keys.add(1);
    shape.layers.add(layers);

    locked.mark_inserting();
    let linked = shape.space().handle(root.node());
    border.set_entry(slot, Entry::long_layer(old.slice, old.tail, linked));
    retire_cells(shape, locked, &[cell], guard);
}

fn retire_value<V: Slot>(raw: u64, guard: &Guard) {
    if V::owns(raw) {
        // SAFETY: this thread has unlinked the value under the lock, and so retires it once.
        unsafe { V::retire(raw, guard) };
    }
}
