//! A session under user keys, over one under stored keys (see `keys`).
//!
//! Nearly all user keys are their own stored keys: an operation costs a comparison of two bytes. A
//! scan skips the elements of collections, which lie between two ranges of user keys.

use crate::keys::{self, RESERVED_END, RESERVED_START, is_reserved, stored};
use crate::{Collection, Position, Row, RowBuf, RowSession};
use keyrack_store::{Result, Update};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) struct UserKeys<S> {
    pub(crate) rows: S,
}

type Visit<'v> = dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()> + 'v;

impl<S: RowSession> UserKeys<S> {
    fn visit_range(
        &mut self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<u64> {
        let (low, high) = (stored(low), high.map(stored));
        let high = high.as_deref();
        let rows = &mut self.rows;
        let mut scan = |low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>| {
            if is_reverse { rows.scan_rev(low, high, visit) } else { rows.scan(low, high, visit) }
        };
        let has_first = *low < *RESERVED_START;
        let has_second = high.is_none_or(|high| high > RESERVED_END);
        let before = |high: Option<&[u8]>| high.is_some_and(|high| high < RESERVED_START);
        let first = (&*low, if before(high) { high } else { Some(RESERVED_START) });
        let second = ((&*low).max(RESERVED_END), high);
        let mut parts = [has_first.then_some(first), has_second.then_some(second)];
        if is_reverse {
            parts.reverse();
        }
        let (mut visited, mut is_over) = (0, false);
        for (low, high) in parts.into_iter().flatten() {
            if !is_over {
                visited += scan(low, high, &mut |key, row| {
                    let flow = visit(&keys::user(key), row);
                    is_over = flow.is_break();
                    flow
                })?;
            }
        }
        Ok(visited)
    }
}

impl<S: RowSession> RowSession for UserKeys<S> {
    fn at(&mut self, now_ms: u64) {
        self.rows.at(now_ms);
    }

    #[inline]
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        self.rows.get(&stored(key), visit)
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        if !keys.iter().any(|key| is_reserved(key)) {
            return self.rows.multi_get(keys, visit);
        }
        let keys: Vec<_> = keys.iter().map(|key| stored(key)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        self.rows.multi_get(&keys, visit)
    }

    fn prefetch(&mut self, keys: &[&[u8]]) {
        // It is a hint, and must be of the keys that come next.
        let keys = if keys.iter().any(|key| is_reserved(key)) { &[] } else { keys };
        self.rows.prefetch(keys);
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.rows.update(&stored(key), decide)
    }

    fn put(&mut self, key: &[u8], value: &[u8], flags: u32, expires_ms: u64) -> Result<u64> {
        self.rows.put(&stored(key), value, flags, expires_ms)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.rows.remove(&stored(key))
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.visit_range((low, high), false, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.visit_range((low, high), true, visit)
    }

    fn create_collection(&mut self) -> Result<Arc<Collection>> {
        self.rows.create_collection()
    }

    fn collection(&self, id: u64) -> Option<Arc<Collection>> {
        self.rows.collection(id)
    }

    fn element_count(&self, collection: &Collection) -> u64 {
        self.rows.element_count(collection)
    }

    fn get_element(
        &mut self,
        id: u64,
        name: &[u8],
        visit: &mut dyn FnMut(Row<'_>),
    ) -> Result<bool> {
        self.rows.get_element(id, name, visit)
    }

    fn update_element(
        &mut self,
        id: u64,
        name: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.rows.update_element(id, name, decide)
    }

    fn scan_elements(
        &mut self,
        id: u64,
        range: (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.rows.scan_elements(id, range, is_reverse, visit)
    }

    fn count(&self) -> u64 {
        self.rows.count()
    }

    fn clear(&mut self) -> Result<()> {
        self.rows.clear()
    }

    fn begin_group(&mut self) -> Result<()> {
        self.rows.begin_group()
    }

    fn commit_group(&mut self) -> Result<()> {
        self.rows.commit_group()
    }

    fn cancel_group(&mut self) {
        self.rows.cancel_group();
    }

    fn flush(&mut self) -> Result<Position> {
        self.rows.flush()
    }

    fn flush_headers(&mut self) -> Result<()> {
        self.rows.flush_headers()
    }

    fn is_durable(&self, position: Position) -> bool {
        self.rows.is_durable(position)
    }
}
