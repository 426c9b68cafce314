//! The tree: the operations that follow the order of the keys.

use crate::cursor::Cursor;
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
    /// reclamation if the caller has no guard.
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
    pub fn scan_prefix(
        &self,
        prefix: &[u8],
        visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> u64 {
        // The first key after them all: the prefix without its last bytes of 0xFF, plus one.
        let kept = prefix.iter().rposition(|&byte| byte < u8::MAX).map(|last| &prefix[..=last]);
        let high = kept.map(|kept| {
            let mut high = kept.to_vec();
            if let Some(last) = high.last_mut() {
                *last += 1;
            }
            high
        });
        self.scan(prefix, high.as_deref(), visit)
    }

    /// Calls `visit` with the first key and its value; `None` if there is none.
    pub fn first<T>(&self, visit: impl FnOnce(&[u8], V::Ref<'_>) -> T) -> Option<T> {
        let (mut visit, mut result) = (Some(visit), None);
        self.scan(b"", None, |key, value| {
            result = visit.take().map(|visit| visit(key, value));
            ControlFlow::Break(())
        });
        result
    }

    /// Calls `visit` with the last key and its value; `None` if there is none.
    pub fn last<T>(&self, visit: impl FnOnce(&[u8], V::Ref<'_>) -> T) -> Option<T> {
        let (mut visit, mut result) = (Some(visit), None);
        self.scan_rev(b"", None, |key, value| {
            result = visit.take().map(|visit| visit(key, value));
            ControlFlow::Break(())
        });
        result
    }

    /// A cursor, before the first key.
    #[must_use]
    pub fn cursor<'g>(&'g self, guard: &'g Guard) -> Cursor<'g, V> {
        Cursor::new(&self.shape, guard)
    }
}
