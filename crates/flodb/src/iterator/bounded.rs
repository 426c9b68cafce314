//! A cursor over the entries of another one within some user keys, in one direction: what a part of
//! a compaction reads.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Comparator, Kind, SEQUENCE_MAX, append, user_of};
use std::cmp::Ordering;

/// The entries of `inner` from one user key, up to but not with another.
pub(crate) struct BoundedCursor<'a, C> {
    inner: C,
    order: &'a Comparator,
    /// An internal key before all others of its user key; empty if the end is open.
    low: Vec<u8>,
    high: Option<&'a [u8]>,
}

impl<'a, C: Cursor> BoundedCursor<'a, C> {
    /// Nothing is an open end.
    pub(crate) fn new(
        inner: C,
        order: &'a Comparator,
        (low, high): (Option<&[u8]>, Option<&'a [u8]>),
    ) -> Self {
        let mut target = Vec::new();
        if let Some(low) = low {
            append(&mut target, low, SEQUENCE_MAX, Kind::LAST);
        }
        BoundedCursor { inner, order, low: target, high }
    }
}

impl<C: Cursor> Cursor for BoundedCursor<'_, C> {
    fn seek_first(&mut self) -> Result<()> {
        if self.low.is_empty() { self.inner.seek_first() } else { self.inner.seek(&self.low) }
    }

    fn seek_last(&mut self) -> Result<()> {
        unreachable!("a compaction reads from the first entry on")
    }

    fn seek(&mut self, _target: &[u8]) -> Result<()> {
        unreachable!("a compaction reads from the first entry on")
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    fn prev(&mut self) -> Result<()> {
        unreachable!("a compaction reads from the first entry on")
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let entry = self.inner.entry()?;
        let is_behind = |high: &[u8]| self.order.user(user_of(entry.0), high) != Ordering::Less;
        if self.high.is_some_and(is_behind) { None } else { Some(entry) }
    }

    fn repeats(&self) -> bool {
        self.inner.repeats()
    }

    fn may_repeat_before(&self) -> bool {
        unreachable!("a compaction reads upward")
    }
}
