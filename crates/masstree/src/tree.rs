//! The tree: what a caller sees, and how one key is changed.
//!
//! A writer finds the border node as a reader does, locks it, and looks again: the node may have
//! been split or removed meanwhile, or the key may have gone into a new layer; then the search goes
//! on. Under the lock there are five cases:
//!
//! | found | put | mark |
//! |---|---|---|
//! | the key | exchange the value | none |
//! | nothing, a slot free | fill it, publish the permutation | inserting, if the slot is stale |
//! | nothing, no slot free | split (`split.rs`) | splitting |
//! | another long key of the slice | make a layer for both, exchange the entry for it | inserting |
//! | the key, to be removed | publish the permutation without it; the slot is stale | none |
//!
//! What was replaced or removed is retired after it was unlinked. The number of keys, nodes and
//! layers is counted in stripes.

use crate::descent::{link, search};
use crate::key::{SLICE_BYTES, order_of, slice_of};
use crate::many::search_many;
use crate::node::{BorderRef, Entry, Head, Kind, NodeRef};
use crate::permutation::WIDTH;
use crate::scan;
use crate::slot::{Slot, Unpublished};
use crate::split::split_insert;
use crate::unlink::unlink_empty;
use keyrack_concurrent::{Counter, Guard, Locked};
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The root and the sums; everything that does not depend on the kind of value.
pub(crate) struct Shape {
    /// The root of the first layer. Written under its lock.
    root: AtomicPtr<Head>,
    pub(crate) keys: Counter,
    pub(crate) borders: Counter,
    pub(crate) interiors: Counter,
    pub(crate) layers: Counter,
}

impl Shape {
    pub(crate) fn root<'g>(&self, _pinned: &'g Guard) -> NodeRef<'g> {
        // Acquire pairs with `replace_root`.
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: roots of past and present are on the left edge, which lives as long as the tree.
        let root = unsafe { NodeRef::from_ptr(root) };
        root.expect("a tree has a root")
    }

    /// A layer has a new root. Only the first layer's is kept here.
    pub(crate) fn replace_root(&self, old: NodeRef<'_>, new: NodeRef<'_>) {
        if self.root.load(Ordering::Relaxed) == old.as_ptr() {
            self.root.store(new.as_ptr(), Ordering::Release);
        }
    }
}

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

/// How many of what a tree has. Estimates while writers are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys.
    pub keys: u64,
    /// Border nodes, the ones of emptied layers included.
    pub borders: u64,
    /// Interior nodes.
    pub interiors: u64,
    /// Layers, the first and the emptied ones included.
    pub layers: u64,
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
        let root = BorderRef::make(true, 0, 0).node();
        let shape = Shape {
            root: AtomicPtr::new(root.as_ptr()),
            keys: Counter::new(),
            borders: Counter::new(),
            interiors: Counter::new(),
            layers: Counter::new(),
        };
        shape.borders.add(1);
        shape.layers.add(1);
        Tree { shape, kind: PhantomData }
    }

    /// The value of `key`.
    pub fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<V::Ref<'g>> {
        let found = search(self.shape.root(guard), key, false);
        let entry = found.entry.filter(|entry| entry.matches(found.rest))?;
        Some(lend::<V>(entry.value, guard))
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
        search_many(self.shape.root(guard), keys, V::owns, &mut |index, raw| {
            visit(index, raw.map(|raw| lend::<V>(raw, guard)));
        });
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
        let value = Unpublished::<V>::new(value);
        let old = self.change(key, guard, |old| match old {
            Some(_) => Change::Keep,
            None => Change::Put(value),
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
        let old =
            self.change(key, guard, |old| match decide(old.map(|raw| lend::<V>(raw, guard))) {
                Change::Keep => Change::Keep,
                Change::Put(value) => Change::Put(Unpublished::new(value)),
                Change::Remove => Change::Remove,
            });
        old.map(|raw| lend::<V>(raw, guard))
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
            borders: sum(&self.shape.borders),
            interiors: sum(&self.shape.interiors),
            layers: sum(&self.shape.layers),
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

    /// Changes one key. Returns the word that was there; if it was replaced or removed, it is
    /// retired already, and still good under the guard.
    fn change(
        &self,
        key: &[u8],
        guard: &Guard,
        decide: impl FnOnce(Option<u64>) -> Change<Unpublished<V>>,
    ) -> Option<u64> {
        let mut found = search(self.shape.root(guard), key, true);
        loop {
            let (layer, rest, border) = (found.layer, found.rest, found.border);
            let (slice, order) = (slice_of(rest), order_of(rest));
            let locked = border.version().lock();
            if locked.version().is_deleted() || !border.covers(slice) {
                drop(locked);
                found = search(layer, rest, true);
                continue;
            }
            let permutation = border.permutation();
            let at = border.position(permutation, slice, order);
            let Ok(position) = at else {
                let position = at.unwrap_or_else(|position| position);
                if let Change::Put(value) = decide(None) {
                    self.insert_at(border, locked, position, Entry::make(rest, value.publish()));
                }
                return None;
            };
            let slot = permutation.slot(position);
            let entry = border.entry(slot);
            if entry.is_layer() {
                drop(locked);
                found = search(link(entry), &rest[SLICE_BYTES..], true);
                continue;
            }
            if !entry.matches(rest) {
                if let Change::Put(value) = decide(None) {
                    self.push_down(border, locked, slot, rest, value.publish());
                    entry.retire_tail(guard);
                }
                return None;
            }
            match decide(Some(entry.value)) {
                Change::Keep => {}
                Change::Put(value) => {
                    border.set_value(slot, value.publish());
                    drop(locked);
                    retire_value::<V>(entry.value, guard);
                }
                Change::Remove => {
                    let left = permutation.remove(position);
                    border.set_stale(slot);
                    border.publish(left);
                    drop(locked);
                    self.shape.keys.add(-1);
                    retire_value::<V>(entry.value, guard);
                    entry.retire_tail(guard);
                    if left.len() == 0 {
                        unlink_empty(&self.shape, layer, slice, guard);
                    }
                }
            }
            return Some(entry.value);
        }
    }

    /// A new key in a node that has none of its slice and order.
    fn insert_at<'g>(
        &self,
        border: BorderRef<'g>,
        mut locked: Locked<'g>,
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

    /// Two long keys of one slice: the entry in `slot` becomes a layer that holds both. Where they
    /// go on alike, so many layers of one entry come first.
    fn push_down<'g>(
        &self,
        border: BorderRef<'g>,
        mut locked: Locked<'g>,
        slot: usize,
        rest: &[u8],
        value: u64,
    ) {
        let old = border.entry(slot);
        let mut old_key = Vec::new();
        old.append_to(&mut old_key);
        let mut old_rest = &old_key[SLICE_BYTES..];
        let mut rest = &rest[SLICE_BYTES..];
        let root = BorderRef::make(true, 0, 0);
        let mut last = root;
        let mut layers = 1;
        let cut = |rest: &[u8]| (slice_of(rest), order_of(rest));
        let shared = |a: &[u8], b: &[u8]| cut(a) == cut(b) && a.len() > SLICE_BYTES;
        while shared(rest, old_rest) {
            let next = BorderRef::make(true, 0, 0);
            fill(last, &[Entry::layer(slice_of(rest), next.node())]);
            (last, layers) = (next, layers + 1);
            (rest, old_rest) = (&rest[SLICE_BYTES..], &old_rest[SLICE_BYTES..]);
        }
        let mut pair = [Entry::make(rest, value), Entry::make(old_rest, old.value)];
        pair.sort_by_key(|entry| (entry.slice, entry.order()));
        fill(last, &pair);
        self.shape.keys.add(1);
        self.shape.layers.add(layers);
        self.shape.borders.add(layers);

        locked.mark_inserting();
        border.set_entry(slot, Entry::layer(old.slice, root.node()));
    }
}

/// Fills a node that nobody else knows yet.
fn fill(border: BorderRef<'_>, entries: &[Entry]) {
    let mut permutation = border.permutation();
    for (position, entry) in entries.iter().enumerate() {
        let (next, slot) = permutation.insert(position);
        border.set_entry(slot, *entry);
        permutation = next;
    }
    border.publish(permutation);
}

fn lend<V: Slot>(raw: u64, _pinned: &Guard) -> V::Ref<'_> {
    // SAFETY: the word was read from a live entry, or unlinked by this thread, since the guard
    // was pinned; values are retired after they were unlinked.
    unsafe { V::lend(raw) }
}

fn retire_value<V: Slot>(raw: u64, guard: &Guard) {
    if V::owns(raw) {
        let free = move || {
            // SAFETY: nobody who could hold the value is pinned any more.
            unsafe { V::free(raw) };
        };
        // SAFETY: this thread has unlinked the value under the lock, and so retires it once; values
        // may be sent.
        unsafe { guard.retire(free) };
    }
}

impl<V: Slot> Drop for Tree<V> {
    /// O(n), with a stack of its own: layers may be many deep.
    fn drop(&mut self) {
        let guard = keyrack_concurrent::pin();
        let mut pending = vec![self.shape.root(&guard)];
        while let Some(node) = pending.pop() {
            match node.kind() {
                Kind::Interior(interior) => {
                    pending.extend((0..=interior.count()).filter_map(|at| interior.child(at)));
                }
                Kind::Border(border) => {
                    for slot in border.permutation().slots() {
                        let entry = border.entry(slot);
                        if entry.is_layer() {
                            pending.push(crate::descent::climb(link(entry)).0);
                            continue;
                        }
                        // SAFETY: a live entry owns its value, and the tree is nobody else's.
                        unsafe { V::free(entry.value) };
                        // SAFETY: as above, for its tail.
                        unsafe { entry.free_tail() };
                    }
                }
            }
            // SAFETY: the tree is nobody else's, and the children are on the stack.
            unsafe { node.free() };
        }
    }
}
