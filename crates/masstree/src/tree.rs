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
/// Methods take a [`Guard`] from [`pin`](crate::pin). What they lend is valid as long as guard and
/// tree. Pin for an operation or for a batch of them, not for long: values that are there when a
/// guard is made are not freed while it lives. All operations on one key are linearizable. They
/// cost O(layers * log n); a layer begins only where the keys of a full node go on after eight
/// common bytes.
///
/// A tree is `Send` and `Sync`. Share it by reference, or in an `Arc`. It takes 46 KB itself, so a
/// program that moves it about keeps it in a `Box` or an `Arc`.
///
/// # Examples
///
/// ```
/// use keyrack_masstree::{Tree, pin};
/// use std::sync::Arc;
/// use std::thread;
///
/// let tree = Arc::new(Tree::<u64>::new());
/// let threads: Vec<_> = (0..4_u64)
///     .map(|thread| {
///         let tree = Arc::clone(&tree);
///         thread::spawn(move || tree.insert(&thread.to_be_bytes(), thread * 10, &pin()))
///     })
///     .collect();
/// for thread in threads {
///     assert_eq!(thread.join().unwrap(), None, "the key was not there");
/// }
/// assert_eq!(tree.len(), 4);
/// assert_eq!(tree.get(&3_u64.to_be_bytes(), &pin()), Some(30));
/// ```
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
    /// An empty tree. O(1).
    ///
    /// ```
    /// let tree = keyrack_masstree::Tree::<u64>::new();
    /// assert!(tree.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Tree { shape: Shape::new(V::POINTERS), kind: PhantomData }
    }

    /// The value of `key`, lent as long as guard and tree.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"key", 1, &guard);
    /// assert_eq!(tree.get(b"key", &guard), Some(1));
    /// assert_eq!(tree.get(b"another key", &guard), None);
    /// ```
    #[inline]
    pub fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<V::Ref<'g>> {
        get(&self.shape, key, guard, &mut None).map(|word| lend::<V>(word, guard))
    }

    /// As [`Tree::get`]. A key in the node of the last operation with the same `hint` is found
    /// without a search: O(1).
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// use keyrack_masstree::Hint;
    ///
    /// for n in 0..1000_u64 {
    ///     tree.insert(&n.to_be_bytes(), n, &guard);
    /// }
    /// let mut hint = Hint::new();
    /// for n in 0..1000_u64 {
    ///     assert_eq!(tree.get_hinted(&n.to_be_bytes(), &guard, &mut hint), Some(n));
    /// }
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// let mut hint = keyrack_masstree::Hint::new();
    /// assert_eq!(tree.insert_hinted(b"key", 1, &guard, &mut hint), None);
    /// assert_eq!(tree.insert_hinted(b"key", 2, &guard, &mut hint), Some(1));
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// let mut hint = keyrack_masstree::Hint::new();
    /// assert_eq!(tree.insert_hinted(b"key", 1, &guard, &mut hint), None);
    /// assert_eq!(tree.remove_hinted(b"key", &guard, &mut hint), Some(1));
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// use keyrack_masstree::{Change, Hint};
    ///
    /// let mut hint = Hint::new();
    /// for _ in 0..3 {
    ///     let add = |old: Option<u64>| Change::Put(old.unwrap_or(0) + 1);
    ///     tree.update_hinted(b"counter", &guard, &mut hint, add);
    /// }
    /// assert_eq!(tree.get(b"counter", &guard), Some(3));
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"a", 1, &guard);
    /// tree.insert(b"c", 3, &guard);
    /// let mut values = [None; 3];
    /// tree.multi_get(&[b"a", b"b", b"c"], &guard, |index, value| values[index] = value);
    /// assert_eq!(values, [Some(1), None, Some(3)]);
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// let keys: [&[u8]; 2] = [b"a", b"b"];
    /// let mut hints = Vec::new();
    /// tree.multi_hint(&keys, &guard, &mut hints);
    /// for ((key, hint), value) in keys.iter().zip(&mut hints).zip(1..) {
    ///     tree.insert_hinted(key, value, &guard, hint);
    /// }
    /// assert_eq!(tree.get(b"b", &guard), Some(2));
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// let pairs: [(&[u8], u64); 2] = [(b"a", 1), (b"b", 2)];
    /// tree.multi_put(pairs, &guard);
    /// assert_eq!(tree.get(b"b", &guard), Some(2));
    /// ```
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
            for ((key, value), place) in keys.iter().zip(values.drain(..)).zip(&mut places) {
                let place = place.get_or_insert_with(|| descend(&self.shape, key));
                change_at(&self.shape, key, place, guard, |_| Change::Put(value));
            }
        }
    }

    /// Stores `value` under `key` and returns the value that was there.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// assert_eq!(tree.insert(b"key", 1, &guard), None);
    /// assert_eq!(tree.insert(b"key", 2, &guard), Some(1));
    /// ```
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
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// assert_eq!(tree.insert_if_absent(b"key", 1, &guard), None);
    /// assert_eq!(tree.insert_if_absent(b"key", 2, &guard), Some(1));
    /// assert_eq!(tree.get(b"key", &guard), Some(1));
    /// ```
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

    /// Removes `key` and returns the value that was there. The value is freed after the last guard
    /// that protects it.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"key", 1, &guard);
    /// assert_eq!(tree.remove(b"key", &guard), Some(1));
    /// assert_eq!(tree.remove(b"key", &guard), None);
    /// ```
    pub fn remove<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<V::Ref<'g>> {
        let old = change::<V>(&self.shape, key, guard, |_| Change::Remove);
        old.map(|raw| lend::<V>(raw, guard))
    }

    /// Reads, decides and writes one key as one step, and returns the value that was there.
    /// `decide` is called once, while the node is locked: it must be short, and must not use the
    /// tree, which could wait for itself. If it panics, the key stays as it was.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// use keyrack_masstree::Change;
    ///
    /// tree.insert(b"stock", 1, &guard);
    /// let sell = |stock: Option<u64>| match stock {
    ///     None => Change::Keep,
    ///     Some(1) => Change::Remove,
    ///     Some(more) => Change::Put(more - 1),
    /// };
    /// assert_eq!(tree.update(b"stock", &guard, sell), Some(1));
    /// assert_eq!(tree.update(b"stock", &guard, sell), None);
    /// ```
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

    /// Stores `value` under `key`, or removes it, if it has the value `current`, as one step.
    /// `None` stands for no value. Returns the value that was there.
    ///
    /// # Errors
    /// The value that `key` has instead of `current`. Nothing changes.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// assert_eq!(tree.compare_exchange(b"key", None, Some(1), &guard), Ok(None));
    /// assert_eq!(tree.compare_exchange(b"key", Some(7), Some(2), &guard), Err(Some(1)));
    /// assert_eq!(tree.compare_exchange(b"key", Some(1), None, &guard), Ok(Some(1)));
    /// assert!(tree.is_empty());
    /// ```
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
    /// its end. Other threads may use the tree meanwhile. Returns the number of stored pairs. Pins
    /// the guard again from time to time, so that a long load delays no freeing. A key is the same
    /// bytes whenever it is asked.
    ///
    /// # Errors
    /// The index of the first pair whose key is not above the previous one. Those before it are
    /// stored.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// let pairs = (0..1000_u64).map(|n| (n.to_be_bytes(), n));
    /// assert_eq!(tree.bulk_load(pairs, &mut pin()), Ok(1000));
    /// assert_eq!(tree.bulk_load([("b", 1), ("a", 2)], &mut pin()), Err(1));
    /// assert_eq!(tree.len(), 1001);
    /// ```
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

    /// The number of keys; an estimate while writers are active. O(1), over some 64 cache lines.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"key", 1, &guard);
    /// assert_eq!(tree.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shape.count_keys()
    }

    /// Whether there are no keys; an estimate while writers are active. Costs what
    /// [`Tree::len`] does.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// assert!(tree.is_empty());
    /// tree.insert(b"key", 1, &guard);
    /// assert!(!tree.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counts of keys and nodes; estimates while writers are active. Takes the locks under
    /// which writers allocate nodes, some hundred, one after the other.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"key", 1, &guard);
    /// let stats = tree.stats();
    /// assert_eq!((stats.keys, stats.borders, stats.interiors), (1, 1, 0));
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shape.stats()
    }

    /// What lies at which address, line by line in nodes: for accounts of the cache lines that
    /// operations touch. O(n).
    ///
    /// ```
    /// let mut tree = keyrack_masstree::Tree::<u64>::new();
    /// assert!(tree.parts().iter().any(|part| part.name == "root: version"));
    /// ```
    #[must_use]
    pub fn parts(&mut self) -> Vec<Part> {
        parts(&self.shape)
    }

    /// Checks every invariant of the structure, and the counts. O(n). It is for tests of the tree
    /// itself, and for programs that suspect their memory.
    ///
    /// # Errors
    /// A description of the first violation.
    ///
    /// ```
    /// let mut tree = keyrack_masstree::Tree::<u64>::new();
    /// tree.insert(b"key", 1, &keyrack_masstree::pin());
    /// assert_eq!(tree.check().map(|stats| stats.keys), Ok(1));
    /// ```
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
