//! The tree: what a caller sees, and how one key is changed.
//!
//! A writer finds the border node as a reader does, locks it, and looks again: the node may have
//! been split or removed meanwhile, or the key may have gone into a new layer; then it searches
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

use crate::cell::Cell;
use crate::descent::{Finger, Spot, Value, get, get_here, search, value_of};
use crate::key::{Place, RANK_LONG, SLICE_BYTES};
use crate::many::search_many;
use crate::near::Near;
use crate::node::{BorderRef, Entry, Find, Kind, suffix_of};
use crate::permutation::WIDTH;
use crate::scan;
use crate::shape::Shape;
use crate::slot::{Comparable, Slot, Unpublished};
use crate::split::{abandon, group_to_push, push_group, split_insert};
use crate::unlink::tidy;
use keyrack_concurrent::{Counter, Guard, Locked};
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// An ordered map from byte strings to values, for any number of threads.
///
/// Methods take a [`Guard`] from [`keyrack_concurrent::pin`]; what they lend lives as long as guard
/// and tree. Pin for an operation or for a batch of them, not for long: memory that is removed
/// meanwhile, by anyone, stays. All operations on one key are linearizable. Costs are
/// O(layers * log n): a layer for every eight bytes that two keys share.
pub struct Tree<V: Slot> {
    pub(crate) shape: Shape,
    kind: PhantomData<V>,
}

/// Pairs that [`Tree::multi_put`] searches before it stores them: enough to hide the misses, and
/// few enough that the nodes are still in the cache.
const MULTI_PUT_MAX: usize = 64;

/// Keys for which [`Tree::bulk_load`] stays pinned.
const BULK_PIN_KEYS: u64 = 1024;

/// What the closure of [`Tree::update`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// Leave the key as it is.
    Keep,
    /// Store the value.
    Put(T),
    /// Remove the key.
    Remove,
}

impl<T> Change<T> {
    fn map<U>(self, make: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Change::Keep => Change::Keep,
            Change::Put(value) => Change::Put(make(value)),
            Change::Remove => Change::Remove,
        }
    }
}

/// How many of what a tree has. Estimates while writers are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys.
    pub keys: u64,
    /// Border nodes.
    pub borders: u64,
    /// Interior nodes.
    pub interiors: u64,
    /// Layers, the first included.
    pub layers: u64,
    /// Bytes that nodes have taken from the process, those kept for later included; without values
    /// and without the ends of long keys.
    pub node_bytes: u64,
}

impl<V: Slot> Default for Tree<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: Slot> fmt::Debug for Tree<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("stats", &self.stats()).finish()
    }
}

impl<V: Slot> Tree<V> {
    /// An empty tree: one border node.
    #[must_use]
    pub fn new() -> Self {
        Tree { shape: Shape::new(V::POINTERS), kind: PhantomData }
    }

    /// The value of `key`.
    #[inline]
    pub fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<V::Ref<'g>> {
        get(&self.shape, key, guard, &mut None).map(|word| lend::<V>(word, guard))
    }

    /// As [`Tree::get`]. A key near the one before, by any operation with the same `near`, is found
    /// without a descent.
    #[inline]
    pub fn get_near<'t, 'g>(
        &'t self,
        key: &[u8],
        guard: &'g Guard,
        near: &mut Near<'t>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let here = near.follow(&self.shape, key);
        let here = here.and_then(|spot| get_here(&self.shape, &spot, guard));
        let word = here.unwrap_or_else(|| {
            let mut finger = None;
            let word = get(&self.shape, key, guard, &mut finger);
            near.set(&self.shape, finger, key);
            word
        });
        word.map(|word| lend::<V>(word, guard))
    }

    /// As [`Tree::insert`], with the help of `near` as for [`Tree::get_near`].
    #[inline]
    pub fn insert_near<'t, 'g>(
        &'t self,
        key: &[u8],
        value: V::In<'_>,
        guard: &'g Guard,
        near: &mut Near<'t>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let value = Unpublished::<V>::new(value);
        let old = self.change_near(key, guard, near, |_| Change::Put(value));
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// As [`Tree::remove`], with the help of `near` as for [`Tree::get_near`].
    #[inline]
    pub fn remove_near<'t, 'g>(
        &'t self,
        key: &[u8],
        guard: &'g Guard,
        near: &mut Near<'t>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let old = self.change_near(key, guard, near, |_| Change::Remove);
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// As [`Tree::update`], with the help of `near` as for [`Tree::get_near`].
    #[inline]
    pub fn update_near<'t, 'g, 'v>(
        &'t self,
        key: &[u8],
        guard: &'g Guard,
        near: &mut Near<'t>,
        decide: impl FnOnce(Option<V::Ref<'g>>) -> Change<V::In<'v>>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let old = self.change_near(key, guard, near, |old| {
            decide(old.map(|raw| lend::<V>(raw, guard))).map(Unpublished::new)
        });
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Looks many keys up side by side, so that their cache misses overlap. Calls `visit` once for
    /// each index of `keys`, in any order. Each lookup is linearizable; all together are not
    /// one moment.
    pub fn multi_get<'g>(
        &'g self,
        keys: &[&[u8]],
        guard: &'g Guard,
        mut visit: impl FnMut(usize, Option<V::Ref<'g>>),
    ) {
        let wanted = |entry: &Entry| entry.has_cell() || V::owns(entry.value);
        search_many(&self.shape, keys.iter().copied(), guard, wanted, |index, found| {
            let value = match value_of(&self.shape, &found, guard) {
                Some(Value::Lost) => get(&self.shape, keys[index], guard, &mut None),
                Some(Value::Is(word)) => Some(word),
                None => None,
            };
            visit(index, value.map(|word| lend::<V>(word, guard)));
        });
    }

    /// Searches many keys side by side, so that their cache misses overlap, and leaves in `nears`
    /// where each belongs, in the order of `keys`: hints for the calls that come next. Changes
    /// nothing and promises nothing.
    pub fn expect<'t>(&'t self, keys: &[&[u8]], guard: &Guard, nears: &mut Vec<Near<'t>>) {
        nears.clear();
        nears.resize_with(keys.len(), Near::new);
        let wanted = |entry: &Entry| entry.has_cell() || V::owns(entry.value);
        search_many(&self.shape, keys.iter().copied(), guard, wanted, |index, found| {
            let (spot, key) = (found.spot(), keys[index]);
            nears[index].set(&self.shape, Some(Finger::at(&spot, key)), key);
        });
    }

    /// Stores many pairs, in their order. The searches go side by side, so that their cache misses
    /// overlap. Each put is linearizable; all together are not one moment.
    pub fn multi_put<'v>(
        &self,
        pairs: impl IntoIterator<Item = (&'v [u8], V::In<'v>)>,
        guard: &Guard,
    ) {
        let mut pairs = pairs.into_iter().peekable();
        let (mut keys, mut values, mut spots) = (Vec::new(), Vec::new(), Vec::new());
        while pairs.peek().is_some() {
            keys.clear();
            values.clear();
            for (key, value) in pairs.by_ref().take(MULTI_PUT_MAX) {
                keys.push(key);
                values.push(Unpublished::<V>::new(value));
            }
            spots.clear();
            spots.resize(keys.len(), None);
            let cells = |entry: &Entry| entry.has_cell();
            search_many(&self.shape, keys.iter().copied(), guard, cells, |index, here| {
                spots[index] = Some(here.spot());
            });
            for ((key, value), spot) in keys.iter().zip(values.drain(..)).zip(&spots) {
                let mut spot = spot.unwrap_or_else(|| self.search(key, guard));
                self.change_at(key, &mut spot, guard, |_| Change::Put(value));
            }
        }
    }

    /// Stores `value` under `key` and lends the value that was there.
    pub fn insert<'g>(
        &'g self,
        key: &[u8],
        value: V::In<'_>,
        guard: &'g Guard,
    ) -> Option<V::Ref<'g>> {
        let value = Unpublished::<V>::new(value);
        let old = self.change(key, guard, |_| Change::Put(value));
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Stores `value` under `key` unless a value is there, which is lent then.
    pub fn insert_if_absent<'g>(
        &'g self,
        key: &[u8],
        value: V::In<'_>,
        guard: &'g Guard,
    ) -> Option<V::Ref<'g>> {
        // Not the closure's own: a value that is not stored is dropped when no lock is held.
        let mut value = Some(Unpublished::<V>::new(value));
        let old = self.change(key, guard, |old| match old {
            Some(_) => Change::Keep,
            None => value.take().map_or(Change::Keep, Change::Put),
        });
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Removes `key` and lends the value that was there.
    pub fn remove<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<V::Ref<'g>> {
        let old = self.change(key, guard, |_| Change::Remove);
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Reads, decides and writes one key as one step, and lends the value that was there. `decide`
    /// is called once, while the node is locked: it must be short, and must not use the tree.
    pub fn update<'g, 'v>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        decide: impl FnOnce(Option<V::Ref<'g>>) -> Change<V::In<'v>>,
    ) -> Option<V::Ref<'g>> {
        let old = self.change(key, guard, |old| {
            decide(old.map(|raw| lend::<V>(raw, guard))).map(Unpublished::new)
        });
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Removes `key`, or stores `value` under it, if it has the value `current`, as one step. Lends
    /// the value that was there, as `Err` if it was not `current` and nothing was changed.
    ///
    /// # Errors
    /// The value that `key` has instead of `current`.
    pub fn compare_exchange<'g, 'v>(
        &'g self,
        key: &[u8],
        current: Option<V::In<'_>>,
        value: Option<V::In<'v>>,
        guard: &'g Guard,
    ) -> Result<Option<V::Ref<'g>>, Option<V::Ref<'g>>>
    where
        V: Comparable,
    {
        let mut same = false;
        let old = self.update(key, guard, |old| {
            same = match (&old, &current) {
                (None, None) => true,
                (Some(old), Some(current)) => V::same(old, current),
                _ => false,
            };
            match value {
                _ if !same => Change::Keep,
                Some(value) => Change::Put(value),
                None => Change::Remove,
            }
        });
        if same { Ok(old) } else { Err(old) }
    }

    /// Stores pairs whose keys ascend, faster than one by one: a pair that belongs into the node of
    /// the one before is not searched, and nodes are left full when they come in at the end. Others
    /// may use the tree meanwhile. Returns how many were stored.
    ///
    /// # Errors
    /// The index of the first pair whose key does not come behind the one before. Those before it
    /// are stored.
    pub fn bulk_load<'v, K: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V::In<'v>)>,
        guard: &mut Guard,
    ) -> Result<u64, u64> {
        let mut last: Option<(K, Finger<'_>)> = None;
        let mut stored = 0_u64;
        for (key, value) in pairs {
            let value = Unpublished::<V>::new(value);
            if stored.is_multiple_of(BULK_PIN_KEYS) {
                guard.repin();
            }
            let bytes = key.as_ref();
            let here = match &last {
                Some((last, _)) if bytes <= last.as_ref() => return Err(stored),
                Some((last, finger)) => finger.follow(last.as_ref(), bytes),
                None => None,
            };
            let mut spot = here.unwrap_or_else(|| self.search(bytes, guard));
            self.change_at(bytes, &mut spot, guard, |_| Change::Put(value));
            let finger = Finger::at(&spot, bytes);
            last = Some((key, finger));
            stored += 1;
        }
        Ok(stored)
    }

    /// Visits the keys that begin with `prefix`, ascending, as [`Tree::range`] does.
    pub fn prefix(
        &self,
        prefix: &[u8],
        visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        // The first key behind them all: the prefix without its last bytes of 0xFF, plus one.
        let kept = prefix.iter().rposition(|&byte| byte < u8::MAX).map(|last| &prefix[..=last]);
        let high = kept.map(|kept| {
            let mut high = kept.to_vec();
            if let Some(last) = high.last_mut() {
                *last += 1;
            }
            high
        });
        self.range(prefix, high.as_deref(), visit)
    }

    /// Visits the keys with `low <= key < high`, ascending, until `visit` breaks off; no `high`
    /// is no upper bound. Returns how many were visited, the last one included.
    ///
    /// Not one point in time: each key that is there all the while is visited once, in order; of
    /// keys that come or go, some are. No lock is held during a visit, so it may use the tree. The
    /// walk pins on its own and again for each node; it holds nothing back while the caller has no
    /// guard.
    pub fn range(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        scan::ascend(&self.shape, low, high, &mut |key, raw, guard| {
            visit(key, lend::<V>(raw, guard))
        })
    }

    /// As [`Tree::range`], descending, over the same keys.
    pub fn range_rev(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        scan::descend(&self.shape, low, high, &mut |key, raw, guard| {
            visit(key, lend::<V>(raw, guard))
        })
    }

    /// The first key with its value, given to `visit`; `None` if there is none.
    pub fn first<T>(&self, visit: impl FnOnce(&[u8], V::Ref<'_>) -> T) -> Option<T> {
        let (mut visit, mut result) = (Some(visit), None);
        self.range(b"", None, |key, value| {
            result = visit.take().map(|visit| visit(key, value));
            ControlFlow::Break(())
        });
        result
    }

    /// The last key with its value, given to `visit`; `None` if there is none.
    pub fn last<T>(&self, visit: impl FnOnce(&[u8], V::Ref<'_>) -> T) -> Option<T> {
        let (mut visit, mut result) = (Some(visit), None);
        self.range_rev(b"", None, |key, value| {
            result = visit.take().map(|visit| visit(key, value));
            ControlFlow::Break(())
        });
        result
    }

    /// The number of keys; an estimate while writers are at work.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stats().keys
    }

    /// Whether there are no keys; an estimate while writers are at work.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sums.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let sum = |counter: &Counter| counter.sum().try_into().unwrap_or(0);
        Stats {
            keys: sum(&self.shape.keys),
            borders: self.shape.borders().try_into().unwrap_or(0),
            interiors: self.shape.interiors().try_into().unwrap_or(0),
            layers: sum(&self.shape.layers),
            node_bytes: self.shape.bytes(),
        }
    }

    /// Checks every invariant of the structure, and the sums. O(n).
    ///
    /// # Errors
    /// The first breach, in words.
    pub fn check(&mut self) -> Result<Stats, String> {
        let found = crate::check::check(&self.shape)?;
        let counted = self.stats();
        if found == counted {
            return Ok(found);
        }
        Err(format!("counted {counted:?}, found {found:?}"))
    }

    /// Changes one key. Returns the word that was there, covered by the guard; if it was replaced
    /// or removed, it is retired already.
    #[inline]
    fn change(
        &self,
        key: &[u8],
        guard: &Guard,
        decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
    ) -> Option<u64> {
        self.change_at(key, &mut self.search(key, guard), guard, decide)
    }

    /// As [`Tree::change`], with a hint.
    #[inline]
    fn change_near<'t>(
        &'t self,
        key: &[u8],
        guard: &Guard,
        near: &mut Near<'t>,
        decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
    ) -> Option<u64> {
        let here = near.follow(&self.shape, key);
        let mut spot = here.unwrap_or_else(|| self.search(key, guard));
        let border = here.map(|here| here.border);
        let old = self.change_at(key, &mut spot, guard, decide);
        if border != Some(spot.border) {
            near.set(&self.shape, Some(Finger::at(&spot, key)), key);
        }
        old
    }

    /// Where `key` belongs, for a writer.
    #[inline]
    fn search<'t, 'k>(&'t self, key: &'k [u8], guard: &Guard) -> Spot<'t, 'k> {
        search(&self.shape, key, guard, true).spot()
    }

    /// As [`Tree::change`], from what a search has found. Leaves there where the change began,
    /// which is elsewhere if the key had moved.
    fn change_at<'t, 'k>(
        &'t self,
        key: &'k [u8],
        spot: &mut Spot<'t, 'k>,
        guard: &Guard,
        decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
    ) -> Option<u64> {
        loop {
            let (border, rest, place) = (spot.border, spot.rest, spot.place);
            let locked = border.version().lock();
            if spot.version.split_since(locked.version()) {
                drop(locked);
                *spot = self.search(key, guard);
                continue;
            }
            let (slot, entry) = match border.find(place) {
                Find::Entry(slot, entry) => (slot, entry),
                Find::Layer(..) => {
                    drop(locked);
                    *spot = self.search(key, guard);
                    continue;
                }
                Find::Absent => {
                    let permutation = border.permutation();
                    let position = border.position(permutation, place);
                    if permutation.len() == WIDTH
                        && let Some(slice) = group_to_push(border, position, place.slice)
                    {
                        push_group(&self.shape, border, locked, slice, guard);
                        *spot = self.search(key, guard);
                        continue;
                    }
                    if let Change::Put(value) = decide(None) {
                        let value = self.publish(value);
                        if place.rank == RANK_LONG {
                            self.shape.note_owner();
                        }
                        let entry = Entry::make(rest, value);
                        self.insert_at(border, locked, position, entry);
                    }
                    return None;
                }
            };
            // SAFETY: the entry is live, and its node locked.
            let cell = unsafe { entry.cell() };
            if cell.is_some_and(|cell| cell.suffix() != suffix_of(rest)) {
                if let Change::Put(value) = decide(None) {
                    let value = self.publish(value);
                    self.push_down(border, locked, slot, rest, value, guard);
                }
                return None;
            }
            // What is linked now stays good under the guard.
            guard.cover();
            let old = cell.map_or(entry.value, |cell| cell.value());
            match decide(Some(old)) {
                Change::Keep => {}
                Change::Put(value) => {
                    match cell {
                        Some(cell) => cell.set_value(self.publish(value)),
                        None => border.set_value(slot, self.publish(value)),
                    }
                    drop(locked);
                    retire_value::<V>(old, guard);
                }
                Change::Remove => {
                    let permutation = border.permutation();
                    let left = permutation.remove(permutation.position_of(slot));
                    border.set_stale(slot);
                    border.publish(left);
                    self.shape.keys.add(-1);
                    abandon(&self.shape, locked, cell.as_slice(), guard);
                    retire_value::<V>(old, guard);
                    if left.len() == 0 {
                        tidy(&self.shape, key, rest.len(), guard);
                    }
                }
            }
            return Some(old);
        }
    }

    /// The word of a value that becomes the tree's.
    #[inline]
    fn publish(&self, value: Unpublished<V>) -> u64 {
        let word = value.publish();
        if V::owns(word) {
            self.shape.note_owner();
        }
        word
    }

    /// A new key in a node that has none of its slice, tail and rank.
    fn insert_at<'t>(
        &'t self,
        border: BorderRef<'t>,
        mut locked: Locked<'t>,
        position: usize,
        entry: Entry,
    ) {
        self.shape.keys.add(1);
        let permutation = border.permutation();
        if permutation.len() == WIDTH {
            split_insert(&self.shape, border, locked, position, entry);
            return;
        }
        let (permutation, slot) = permutation.insert(position);
        if border.is_stale(slot) {
            locked.mark_inserting();
            border.clear_stale();
        }
        border.set_entry(slot, entry);
        border.publish(permutation);
    }

    /// Two long keys of one slice and tail: the entry in `slot` becomes a layer that holds both.
    /// Where they go on alike, so many layers of one entry come first.
    fn push_down<'t>(
        &'t self,
        border: BorderRef<'t>,
        mut locked: Locked<'t>,
        slot: usize,
        rest: &[u8],
        value: u64,
        guard: &Guard,
    ) {
        let old = border.entry(slot);
        // SAFETY: the entry is live, and its node locked.
        let Some(cell) = (unsafe { old.cell() }) else { return };
        let shape = &self.shape;
        let (mut old_rest, mut rest) = (cell.suffix(), suffix_of(rest));
        let (root, root_locked) = shape.new_border(true, 0, 0);
        let (mut last, mut last_locked) = (root, root_locked);
        let mut layers = 1;
        let long = |rest: &[u8]| rest.len() > 2 * SLICE_BYTES;
        while long(rest) && long(old_rest) && Place::of(rest) == Place::of(old_rest) {
            let (next, next_locked) = shape.new_border(true, 0, 0);
            let Place { slice, tail, .. } = Place::of(rest);
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
        let link = shape.space().handle(root.node());
        border.set_entry(slot, Entry::long_layer(old.slice, old.tail, link));
        abandon(shape, locked, &[cell], guard);
    }
}

fn lend<V: Slot>(raw: u64, _pinned: &Guard) -> V::Ref<'_> {
    // SAFETY: the word was read from a live entry, or unlinked by this thread, since the guard
    // was pinned; values are retired after they were unlinked.
    unsafe { V::lend(raw) }
}

fn retire_value<V: Slot>(raw: u64, guard: &Guard) {
    if V::owns(raw) {
        // SAFETY: this thread has unlinked the value under the lock, and so retires it once.
        unsafe { V::retire(raw, guard) };
    }
}

impl<V: Slot> Drop for Tree<V> {
    /// O(n), with a stack of its own: layers may be many deep; O(1) if no entry owns anything. The
    /// memory of the nodes goes with the shape.
    fn drop(&mut self) {
        if self.shape.has_no_owners() {
            return;
        }
        let space = self.shape.space();
        let mut pending: Vec<_> = self.shape.top().map(|(_, root, _)| root).into_iter().collect();
        while let Some(node) = pending.pop() {
            let border = match node.kind() {
                Kind::Border(border) => border,
                Kind::Interior(interior) => {
                    let children =
                        (0..=interior.count()).filter_map(|at| interior.child(space, at));
                    pending.extend(children);
                    continue;
                }
            };
            for entry in border.permutation().slots().map(|slot| border.entry(slot)) {
                if entry.is_layer() {
                    // SAFETY: the tree is nobody else's.
                    let link = unsafe { space.link(entry) };
                    pending.extend(crate::descent::climb(space, link).map(|(root, _)| root));
                    continue;
                }
                // SAFETY: as above.
                let value = match unsafe { entry.cell() } {
                    None => entry.value,
                    Some(cell) => {
                        let value = cell.value();
                        // SAFETY: a live entry owns its cell, and the tree is nobody else's.
                        unsafe { Cell::free(entry.value) };
                        value
                    }
                };
                // SAFETY: as above, for the value.
                unsafe { V::free(value) };
            }
        }
    }
}
