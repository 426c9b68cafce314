//! The tree: the operations on single keys and on lists of keys. `ordered.rs` has those that follow
//! the order of the keys, and `change.rs` the change of one key.

use crate::cell::Cell;
use crate::change::{change, change_at, change_hinted};
use crate::check::check;
use crate::descent::{Destination, Finger, Value, descend, get, get_here, value_of};
use crate::entry::Entry;
use crate::hint::Hint;
use crate::many::search_many;
use crate::node::Kind;
use crate::parts::parts;
use crate::shape::{Shape, Stats};
use crate::slot::{Comparable, Slot, Unpublished};
use keyrack_concurrent::{Change, Guard, Part};
use std::fmt;
use std::marker::PhantomData;

/// An ordered map from byte strings to values, for any number of threads.
///
/// Methods take a [`Guard`] from [`pin`](crate::pin); references that they return are valid
/// as long as guard and tree. Pin for an operation or for a batch of them, not for long: memory
/// that any thread removes meanwhile is not freed. All operations on one key are linearizable.
/// Costs are O(layers * log n), with a layer for every eight bytes that two keys share.
pub struct Tree<V: Slot> {
    pub(crate) shape: Shape,
    kind: PhantomData<V>,
}

/// Pairs that [`Tree::multi_put`] searches before it stores them: enough to hide the misses, and
/// few enough that the nodes are still in the cache.
const MULTI_PUT_MAX: usize = 64;

/// Keys after which [`Tree::bulk_load`] pins again.
const BULK_PIN_KEYS: u64 = 1024;

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

    /// As [`Tree::get`]. A key in the border node of the last operation with the same `hint` is
    /// found without a descent.
    #[inline]
    pub fn get_hinted<'t, 'g>(
        &'t self,
        key: &[u8],
        guard: &'g Guard,
        hint: &mut Hint<'t>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let here = hint.follow(&self.shape, key);
        let here = here.and_then(|leaf| get_here(&self.shape, &leaf, guard));
        let word = here.unwrap_or_else(|| {
            let mut finger = None;
            let word = get(&self.shape, key, guard, &mut finger);
            hint.set(&self.shape, finger, key);
            word
        });
        word.map(|word| lend::<V>(word, guard))
    }

    /// As [`Tree::insert`], with the help of `hint` as for [`Tree::get_hinted`].
    #[inline]
    pub fn insert_hinted<'t, 'g>(
        &'t self,
        key: &[u8],
        value: V::In<'_>,
        guard: &'g Guard,
        hint: &mut Hint<'t>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let value = Unpublished::<V>::new(value);
        let old = change_hinted(&self.shape, key, guard, hint, |_| Change::Put(value));
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// As [`Tree::remove`], with the help of `hint` as for [`Tree::get_hinted`].
    #[inline]
    pub fn remove_hinted<'t, 'g>(
        &'t self,
        key: &[u8],
        guard: &'g Guard,
        hint: &mut Hint<'t>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let old = change_hinted::<V>(&self.shape, key, guard, hint, |_| Change::Remove);
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// As [`Tree::update`], with the help of `hint` as for [`Tree::get_hinted`].
    #[inline]
    pub fn update_hinted<'t, 'g, 'v>(
        &'t self,
        key: &[u8],
        guard: &'g Guard,
        hint: &mut Hint<'t>,
        decide: impl FnOnce(Option<V::Ref<'g>>) -> Change<V::In<'v>>,
    ) -> Option<V::Ref<'g>>
    where
        't: 'g,
    {
        let old = change_hinted(&self.shape, key, guard, hint, |old| {
            decide(old.map(|raw| lend::<V>(raw, guard))).map(Unpublished::<V>::new)
        });
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Looks up many keys with interleaved searches, so that their cache misses overlap. Calls
    /// `visit` once for each index of `keys`, in any order. Each lookup is linearizable; all
    /// together are not one point in time.
    pub fn multi_get<'g>(
        &'g self,
        keys: &[&[u8]],
        guard: &'g Guard,
        mut visit: impl FnMut(usize, Option<V::Ref<'g>>),
    ) {
        let wanted = |entry: &Entry| !entry.has_cell() && V::owns(entry.value);
        search_many(&self.shape, keys.iter().copied(), guard, wanted, |index, found| {
            let value = found.entry.map(|entry| value_of(&self.shape, entry, guard));
            let value = match value {
                Some(Value::Lost) => get(&self.shape, keys[index], guard, &mut None),
                Some(Value::Is(word)) => Some(word),
                None => None,
            };
            visit(index, value.map(|word| lend::<V>(word, guard)));
        });
    }

    /// Searches many keys with interleaved searches, so that their cache misses overlap. Stores a
    /// hint for each in `hints`, in the order of `keys`, for the calls that follow. Does not change
    /// the tree.
    pub fn multi_hint<'t>(&'t self, keys: &[&[u8]], guard: &Guard, hints: &mut Vec<Hint<'t>>) {
        hints.clear();
        hints.resize_with(keys.len(), Hint::new);
        let wanted = |entry: &Entry| !entry.has_cell() && V::owns(entry.value);
        search_many(&self.shape, keys.iter().copied(), guard, wanted, |index, found| {
            let key = keys[index];
            let finger = found.place.leaf().map(|leaf| Finger::at(&leaf, key));
            hints[index].set(&self.shape, finger, key);
        });
    }

    /// Stores many pairs, in their order. The searches are interleaved, so that their cache misses
    /// overlap. Each put is linearizable; all together are not one point in time.
    pub fn multi_put<'v>(
        &self,
        pairs: impl IntoIterator<Item = (&'v [u8], V::In<'v>)>,
        guard: &Guard,
    ) {
        let mut pairs = pairs.into_iter().peekable();
        let (mut keys, mut values, mut places) = (Vec::new(), Vec::new(), Vec::new());
        while pairs.peek().is_some() {
            keys.clear();
            values.clear();
            for (key, value) in pairs.by_ref().take(MULTI_PUT_MAX) {
                keys.push(key);
                values.push(Unpublished::<V>::new(value));
            }
            places.clear();
            places.resize(keys.len(), None);
            let nothing = |_: &Entry| false;
            search_many(&self.shape, keys.iter().copied(), guard, nothing, |index, here| {
                places[index] = Some(here.place);
            });
            for ((key, value), place) in keys.iter().zip(values.drain(..)).zip(&places) {
                let mut place = place.unwrap_or_else(|| descend(&self.shape, key));
                change_at(&self.shape, key, &mut place, guard, |_| Change::Put(value));
            }
        }
    }

    /// Stores `value` under `key` and returns the value that was there.
    pub fn insert<'g>(
        &'g self,
        key: &[u8],
        value: V::In<'_>,
        guard: &'g Guard,
    ) -> Option<V::Ref<'g>> {
        let value = Unpublished::<V>::new(value);
        let old = change(&self.shape, key, guard, |_| Change::Put(value));
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Stores `value` under `key` unless a value is there, which is then returned.
    pub fn insert_if_absent<'g>(
        &'g self,
        key: &[u8],
        value: V::In<'_>,
        guard: &'g Guard,
    ) -> Option<V::Ref<'g>> {
        // Not the closure's own: a value that is not stored is dropped when no lock is held.
        let mut value = Some(Unpublished::<V>::new(value));
        let old = change(&self.shape, key, guard, |old| match old {
            Some(_) => Change::Keep,
            None => value.take().map_or(Change::Keep, Change::Put),
        });
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Removes `key` and returns the value that was there.
    pub fn remove<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<V::Ref<'g>> {
        let old = change::<V>(&self.shape, key, guard, |_| Change::Remove);
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Reads, decides and writes one key as one step, and returns the value that was there.
    /// `decide` is called once, while the node is locked: it must be short, and must not use the
    /// tree.
    pub fn update<'g, 'v>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        decide: impl FnOnce(Option<V::Ref<'g>>) -> Change<V::In<'v>>,
    ) -> Option<V::Ref<'g>> {
        let old = change(&self.shape, key, guard, |old| {
            decide(old.map(|raw| lend::<V>(raw, guard))).map(Unpublished::<V>::new)
        });
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Removes `key`, or stores `value` under it, if it has the value `current`, as one step.
    /// Returns the value that was there, as `Err` if it was not `current` and nothing changed.
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

    /// Stores pairs whose keys ascend, faster than single inserts: a pair that belongs to the node
    /// of the previous pair needs no search, and nodes stay full when the keys extend the tree at
    /// its end. Other threads may use the tree meanwhile. Returns the number of stored pairs.
    ///
    /// # Errors
    /// The index of the first pair whose key is not above the previous one. Those before it are
    /// stored.
    pub fn bulk_load<'v, K: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V::In<'v>)>,
        guard: &mut Guard,
    ) -> Result<u64, u64> {
        let mut last: Option<(K, Option<Finger<'_>>)> = None;
        let mut stored = 0_u64;
        for (key, value) in pairs {
            let value = Unpublished::<V>::new(value);
            if stored.is_multiple_of(BULK_PIN_KEYS) {
                guard.repin();
            }
            let bytes = key.as_ref();
            let here = match &last {
                Some((last, _)) if bytes <= last.as_ref() => return Err(stored),
                Some((last, Some(finger))) => finger.follow(last.as_ref(), bytes),
                _ => None,
            };
            let mut place = here.map_or_else(|| descend(&self.shape, bytes), Destination::Leaf);
            change_at(&self.shape, bytes, &mut place, guard, |_| Change::Put(value));
            let finger = place.leaf().map(|leaf| Finger::at(&leaf, bytes));
            last = Some((key, finger));
            stored += 1;
        }
        Ok(stored)
    }

    /// The number of keys; an estimate while writers are active.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stats().keys
    }

    /// Whether there are no keys; an estimate while writers are active.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shape.stats()
    }

    /// What lies at which address, line by line in nodes: for accounts of the cache lines that
    /// operations touch. O(n).
    #[must_use]
    pub fn parts(&mut self) -> Vec<Part> {
        parts(&self.shape)
    }

    /// Checks every invariant of the structure, and the counts. O(n).
    ///
    /// # Errors
    /// A description of the first violation.
    pub fn check(&mut self) -> Result<Stats, String> {
        let found = check(&self.shape)?;
        let counted = self.stats();
        if found == counted {
            return Ok(found);
        }
        Err(format!("counted {counted:?}, found {found:?}"))
    }
}

pub(crate) fn lend<V: Slot>(raw: u64, _pinned: &Guard) -> V::Ref<'_> {
    // SAFETY: the word was read from a live entry, or unlinked by this thread, since the guard
    // was pinned; values are retired after they were unlinked.
    unsafe { V::lend(raw) }
}

impl<V: Slot> Drop for Tree<V> {
    /// O(n), with an explicit stack because layers may be deep; O(1) if no entry owns anything. The
    /// shape frees the memory of the nodes.
    fn drop(&mut self) {
        if self.shape.has_no_owners() {
            return;
        }
        let space = self.shape.space();
        let mut pending: Vec<_> = self.shape.top().map(|(root, _)| root).into_iter().collect();
        while let Some(node) = pending.pop() {
            let border = match node.kind() {
                Kind::Border(border) => border,
                Kind::Interior(interior) => {
                    let child = |at| interior.child(space, at).expect("a tree at rest is whole");
                    pending.extend((0..=interior.count()).map(child));
                    continue;
                }
            };
            for entry in border.permutation().slots().map(|slot| border.entry(slot)) {
                // SAFETY: no other thread has the tree.
                let value = match unsafe { entry.cell() } {
                    None => entry.value,
                    Some(cell) => {
                        let value = cell.value();
                        // SAFETY: a live entry owns its cell, and no other thread has the tree.
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
