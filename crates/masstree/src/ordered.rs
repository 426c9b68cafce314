//! The tree: the operations that follow the order of the keys.

use crate::cursor::Cursor;
use crate::range::{KeyRange, Range, after_prefix};
use crate::scan;
use crate::slot::Slot;
use crate::tree::{Tree, lend};
use keyrack_concurrent::Guard;
use std::ops::ControlFlow;

impl<V: Slot> Tree<V> {
    /// Visits the keys with `low <= key < high`, ascending, until `visit` breaks off. `None` as
    /// `high` means no upper bound. Returns the number of visited keys, the last one included.
    ///
    /// The scan is not one point in time: a key that is present throughout is visited once, in
    /// order; a key that is inserted or removed meanwhile may be visited. No lock is held during a
    /// visit, so it may use the tree. The scan pins by itself, again for each node. It delays no
    /// reclamation if the caller has no guard. The first visit costs O(layers^2 * log n), others
    /// O(1) on average.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// use std::ops::ControlFlow;
    ///
    /// for n in 0..100_u64 {
    ///     tree.insert(&n.to_be_bytes(), n, &guard);
    /// }
    /// drop(guard);
    /// let (low, high) = (40_u64.to_be_bytes(), 60_u64.to_be_bytes());
    /// let mut sum = 0;
    /// let visited = tree.scan(&low, Some(&high), |_, value| {
    ///     sum += value;
    ///     if value < 42 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// });
    /// assert_eq!((visited, sum), (3, 40 + 41 + 42));
    /// ```
    pub fn scan(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        scan::ascend(&self.shape, low, high, &mut |key, raw, guard| {
            visit(key, lend::<V>(raw, guard))
        })
    }

    /// As [`Tree::scan`], descending, over the same keys.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// use std::ops::ControlFlow;
    ///
    /// for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
    ///     tree.insert(key.as_bytes(), value, &guard);
    /// }
    /// let mut values = Vec::new();
    /// tree.scan_rev(b"a", Some(b"c"), |_, value| {
    ///     values.push(value);
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!(values, [2, 1]);
    /// ```
    pub fn scan_rev(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        scan::descend(&self.shape, low, high, &mut |key, raw, guard| {
            visit(key, lend::<V>(raw, guard))
        })
    }

    /// Visits the keys that begin with `prefix`, ascending, as [`Tree::scan`] does.
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// use std::ops::ControlFlow;
    ///
    /// for (key, value) in [("user/1", 1), ("user/2", 2), ("video/1", 3)] {
    ///     tree.insert(key.as_bytes(), value, &guard);
    /// }
    /// let users = tree.scan_prefix(b"user/", |_, _| ControlFlow::Continue(()));
    /// assert_eq!(users, 2);
    /// ```
    pub fn scan_prefix(
        &self,
        prefix: &[u8],
        visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        self.scan(prefix, after_prefix(prefix).as_deref(), visit)
    }

    /// Calls `visit` with the first key and its value; `None` if there is none.
    /// O(layers^2 * log n).
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// assert_eq!(tree.first(|_, value| value), None);
    /// tree.insert(b"a", 1, &guard);
    /// tree.insert(b"b", 2, &guard);
    /// assert_eq!(tree.first(|key, value| (key.to_vec(), value)), Some((b"a".to_vec(), 1)));
    /// ```
    pub fn first<T>(&self, visit: impl FnOnce(&[u8], V::Ref<'_>) -> T) -> Option<T> {
        let (mut visit, mut result) = (Some(visit), None);
        self.scan(b"", None, |key, value| {
            result = visit.take().map(|visit| visit(key, value));
            ControlFlow::Break(())
        });
        result
    }

    /// Calls `visit` with the last key and its value; `None` if there is none. O(layers^2 * log n).
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// tree.insert(b"a", 1, &guard);
    /// tree.insert(b"b", 2, &guard);
    /// assert_eq!(tree.last(|_, value| value), Some(2));
    /// ```
    pub fn last<T>(&self, visit: impl FnOnce(&[u8], V::Ref<'_>) -> T) -> Option<T> {
        let (mut visit, mut result) = (Some(visit), None);
        self.scan_rev(b"", None, |key, value| {
            result = visit.take().map(|visit| visit(key, value));
            ControlFlow::Break(())
        });
        result
    }

    /// An iterator over the keys of `range` and their values, ascending, or from both ends. A range
    /// that ends before it begins is empty, which is not an error as it is in the standard library.
    ///
    /// What it sees of concurrent changes is said at [`Range`]. The first item costs
    /// O(layers^2 * log n), others O(1) on average and an allocation for the key.
    ///
    /// # Examples
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// for (key, value) in [("apple", 1), ("banana", 2), ("cherry", 3), ("date", 4)] {
    ///     tree.insert(key.as_bytes(), value, &guard);
    /// }
    /// let values = |range: keyrack_masstree::Range<'_, u64>| -> Vec<u64> {
    ///     range.map(|(_, value)| value).collect()
    /// };
    /// assert_eq!(values(tree.range("b".."d", &guard)), [2, 3]);
    /// assert_eq!(values(tree.range("banana"..="date", &guard)), [2, 3, 4]);
    /// assert_eq!(values(tree.range(..b"banana", &guard)), [1]);
    /// assert_eq!(values(tree.range("d".."b", &guard)), []);
    ///
    /// let mut range = tree.range(vec![b'b'].., &guard);
    /// assert_eq!(range.next_back(), Some((b"date".to_vec(), 4)));
    /// assert_eq!(range.next(), Some((b"banana".to_vec(), 2)));
    /// assert_eq!(range.next_back(), Some((b"cherry".to_vec(), 3)));
    /// assert_eq!(range.next(), None);
    /// ```
    #[must_use]
    pub fn range<'g>(&'g self, range: impl KeyRange, guard: &'g Guard) -> Range<'g, V> {
        Range::within(&self.shape, guard, &range)
    }

    /// An iterator over the keys that begin with `prefix`, and their values. Otherwise as
    /// [`Tree::range`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// for (key, value) in [("user/1", 1), ("user/2", 2), ("video/1", 3)] {
    ///     tree.insert(key.as_bytes(), value, &guard);
    /// }
    /// let mut users = tree.prefix(b"user/", &guard);
    /// assert_eq!(users.next_back(), Some((b"user/2".to_vec(), 2)));
    /// assert_eq!(users.next(), Some((b"user/1".to_vec(), 1)));
    /// assert_eq!(users.next(), None);
    /// ```
    #[must_use]
    pub fn prefix<'g>(&'g self, prefix: &[u8], guard: &'g Guard) -> Range<'g, V> {
        Range::new(&self.shape, guard, prefix.to_vec(), after_prefix(prefix))
    }

    /// An iterator over all keys and their values. Otherwise as [`Tree::range`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use keyrack_masstree::Tree;
    /// # let (tree, guard) = (Tree::<u64>::new(), keyrack_masstree::pin());
    /// for n in [3_u64, 1, 2] {
    ///     tree.insert(&n.to_be_bytes(), n, &guard);
    /// }
    /// assert!(tree.iter(&guard).map(|(_, value)| value).eq([1, 2, 3]));
    /// assert!(tree.iter(&guard).rev().map(|(_, value)| value).eq([3, 2, 1]));
    /// ```
    #[must_use]
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> Range<'g, V> {
        Range::new(&self.shape, guard, Vec::new(), None)
    }

    /// A cursor, before the first key. O(1); its moves are described at [`Cursor`].
    ///
    /// ```
    /// # use keyrack_masstree::{Tree, pin};
    /// # let (tree, guard) = (Tree::<u64>::new(), pin());
    /// for n in [1_u64, 2, 3] {
    ///     tree.insert(&n.to_be_bytes(), n, &guard);
    /// }
    /// let mut cursor = tree.cursor(&guard);
    /// cursor.seek(&2_u64.to_be_bytes());
    /// assert_eq!(cursor.value(), Some(2));
    /// cursor.next();
    /// assert_eq!(cursor.value(), Some(3));
    /// ```
    #[must_use]
    pub fn cursor<'g>(&'g self, guard: &'g Guard) -> Cursor<'g, V> {
        Cursor::new(&self.shape, guard)
    }
}
