//! Work: the cost of requests to the loop that executes them. It is counted and not timed, so that
//! the same requests are split at the same places on every machine.
//!
//! ```text
//!   a row read, or passed in a scan  1 unit
//!   a row written or removed         2 units
//!   each KiB of rows and replies     1 unit
//!
//!   iteration  [ client a ][ client b ][ c     spent: the others are first in the next iteration
//!   slice      [  ........]                    spent: the client goes on in the next iteration
//!   limit             [ EXEC ...............|  over: refused, nothing was changed
//! ```
//!
//! On a slow core of today a unit is less than a microsecond of an engine in memory
//! (docs/serve.md, "Pauses").

use keyrack_rowstore::{Collection, Position, Row, RowBuf, RowSession};
use keyrack_store::{Result, Update};
use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// The units of a row that is written or removed: in memory, in the log, and in a group's own
/// order.
const WRITE_UNITS: u64 = 2;

/// The units of one iteration, over all its connections.
const ITERATION_UNITS: u64 = 5_000;

/// The units that one connection gets of an iteration.
const SLICE_UNITS: u64 = 2_000;

/// The default limit of a transaction, in units.
pub(crate) const TRANSACTION_UNITS: u64 = 25_000;

/// The units that clients with little work get of a quick iteration.
const QUICK_UNITS: u64 = 1_000;

/// The units that a client may spend at once and still be one with little work.
const LIGHT_UNITS: u64 = 2_000;

/// The units that such a client may spend in a millisecond, on average.
const LIGHT_UNITS_PER_MS: u64 = 50;

/// The work of one loop: what was spent, and how far it may go.
#[derive(Debug)]
pub struct Work {
    spent: Cell<u64>,
    iteration_end: Cell<u64>,
    slice_end: Cell<u64>,
    limit: Cell<u64>,
}

impl Default for Work {
    /// Nothing spent, and no limits.
    fn default() -> Self {
        let forever = || Cell::new(u64::MAX);
        Work {
            spent: Cell::new(0),
            iteration_end: forever(),
            slice_end: forever(),
            limit: forever(),
        }
    }
}

impl Work {
    /// An iteration begins: a quick one is for clients with little work.
    pub fn begin_iteration(&self, is_quick: bool) {
        let units = if is_quick { QUICK_UNITS } else { ITERATION_UNITS };
        self.iteration_end.set(self.spent.get() + units);
    }

    /// A connection has its part of the iteration.
    pub fn begin_slice(&self) {
        self.slice_end.set(self.spent.get() + SLICE_UNITS);
    }

    /// Units since the start.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Whether others are served now.
    pub(crate) fn is_slice_spent(&self) -> bool {
        self.spent.get() >= self.slice_end.get()
    }

    pub(crate) fn is_iteration_spent(&self) -> bool {
        self.spent.get() >= self.iteration_end.get()
    }

    /// Runs `run` with a limit of units: `None` when it cost more. Scans stop at the limit.
    pub(crate) fn limited<R>(&self, units: u64, run: impl FnOnce() -> R) -> Option<R> {
        let before = self.limit.replace(self.spent.get().saturating_add(units));
        let done = run();
        let is_over = self.is_over();
        self.limit.set(before);
        (!is_over).then_some(done)
    }

    /// Whether more was spent than the limit of what runs.
    pub(crate) fn is_over(&self) -> bool {
        self.spent.get() > self.limit.get()
    }

    /// Counts units, and bytes of rows or replies.
    #[inline]
    pub(crate) fn add(&self, units: u64, bytes: usize) {
        self.spent.set(self.spent.get() + units + (bytes >> 10) as u64);
    }
}

/// How much a client has had done lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt {
    units: u64,
    at_ms: u64,
}

impl Debt {
    /// Whether it is a client with little work.
    pub(crate) fn is_light(self, now_ms: u64) -> bool {
        self.left(now_ms) <= LIGHT_UNITS
    }

    pub(crate) fn add(&mut self, units: u64, now_ms: u64) {
        *self = Debt { units: self.left(now_ms).saturating_add(units), at_ms: now_ms };
    }

    fn left(self, now_ms: u64) -> u64 {
        let repaid = now_ms.saturating_sub(self.at_ms).saturating_mul(LIGHT_UNITS_PER_MS);
        self.units.saturating_sub(repaid)
    }
}

/// A session that counts what is done with it.
pub struct Counted<'a> {
    rows: Box<dyn RowSession + 'a>,
    work: Rc<Work>,
}

impl<'a> Counted<'a> {
    /// Counts in `work`.
    #[must_use]
    pub fn new(rows: Box<dyn RowSession + 'a>, work: Rc<Work>) -> Self {
        Counted { rows, work }
    }
}

/// Counts the rows of a scan, and ends it where they are more than the limit.
fn counting<'v>(
    work: &'v Work,
    visit: &'v mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
) -> impl FnMut(&[u8], Row<'_>) -> ControlFlow<()> + 'v {
    move |key, row| {
        work.add(1, row.bytes().len());
        if work.is_over() { ControlFlow::Break(()) } else { visit(key, row) }
    }
}

/// Counts what an update reads and writes.
fn counting_update<'v>(
    work: &'v Work,
    decide: &'v mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
) -> impl FnMut(Option<Row<'_>>, &mut RowBuf) -> Update + 'v {
    move |row, new| {
        let old_bytes = row.map_or(0, |row| row.bytes().len());
        let change = decide(row, new);
        let new_bytes = if change == Update::Put { new.encoded_bytes() } else { 0 };
        let units = if change == Update::Keep { 1 } else { WRITE_UNITS };
        work.add(units, old_bytes + new_bytes);
        change
    }
}

impl fmt::Debug for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("work", &self.work).finish_non_exhaustive()
    }
}

impl RowSession for Counted<'_> {
    fn at(&mut self, now_ms: u64) {
        self.rows.at(now_ms);
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        let work = &*self.work;
        work.add(1, 0);
        self.rows.get(key, &mut |row| {
            work.add(0, row.bytes().len());
            visit(row);
        })
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        let work = &*self.work;
        work.add(keys.len() as u64, 0);
        self.rows.multi_get(keys, &mut |index, row| {
            work.add(0, row.map_or(0, |row| row.bytes().len()));
            visit(index, row);
        })
    }

    fn prefetch(&mut self, keys: &[&[u8]]) {
        self.rows.prefetch(keys);
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.rows.update(key, &mut counting_update(&self.work, decide))
    }

    fn put(&mut self, key: &[u8], value: &[u8], flags: u32, expires_ms: u64) -> Result<u64> {
        self.work.add(WRITE_UNITS, value.len());
        self.rows.put(key, value, flags, expires_ms)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.work.add(WRITE_UNITS, 0);
        self.rows.remove(key)
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.work.add(1, 0);
        self.rows.scan(low, high, &mut counting(&self.work, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.work.add(1, 0);
        self.rows.scan_rev(low, high, &mut counting(&self.work, visit))
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
        self.work.add(1, 0);
        let work = &*self.work;
        self.rows.get_element(id, name, &mut |row| {
            work.add(0, row.bytes().len());
            visit(row);
        })
    }

    fn update_element(
        &mut self,
        id: u64,
        name: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.rows.update_element(id, name, &mut counting_update(&self.work, decide))
    }

    fn scan_elements(
        &mut self,
        id: u64,
        range: (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.work.add(1, 0);
        self.rows.scan_elements(id, range, is_reverse, &mut counting(&self.work, visit))
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

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_rowstore::{ModelRows, Rows};

    #[test]
    fn a_client_with_much_work_is_light_again_after_a_while() {
        let mut debt = Debt::default();
        debt.add(LIGHT_UNITS, 1000);
        assert!(debt.is_light(1000));
        debt.add(LIGHT_UNITS_PER_MS * 10, 1000);
        assert!(!debt.is_light(1009));
        assert!(debt.is_light(1010));
        assert!(debt.is_light(1_000_000));
    }

    #[test]
    fn a_scan_stops_where_its_limit_is() {
        let rows = ModelRows::new();
        let work = Rc::new(Work::default());
        let mut session = Counted::new(rows.session().unwrap(), Rc::clone(&work));
        for n in 0..100_u8 {
            session.put(&[n], b"value", 0, 0).unwrap();
        }
        assert_eq!(work.spent(), 100 * WRITE_UNITS);
        let mut seen = 0;
        let mut scan = || {
            session.scan(b"", None, &mut |_, _| {
                seen += 1;
                ControlFlow::Continue(())
            })
        };
        assert!(work.limited(10, &mut scan).is_none());
        assert!(work.limited(101, &mut scan).is_some(), "the scan itself is a unit");
        assert_eq!(seen, 9 + 100);
        assert!(!work.is_over());
    }

    #[test]
    fn large_rows_count_by_their_bytes() {
        let rows = ModelRows::new();
        let work = Rc::new(Work::default());
        let mut session = Counted::new(rows.session().unwrap(), Rc::clone(&work));
        session.put(b"k", &[7; 1 << 20], 0, 0).unwrap();
        assert_eq!(work.spent(), WRITE_UNITS + 1024);
        session.get(b"k", &mut |_| {}).unwrap();
        assert_eq!(work.spent(), WRITE_UNITS + 1024 + 1 + 1024);
        assert!(!work.is_slice_spent(), "no slice has begun");
        work.begin_iteration(false);
        work.begin_slice();
        let begun = work.spent();
        while !work.is_iteration_spent() {
            assert_eq!(work.is_slice_spent(), work.spent() - begun >= SLICE_UNITS);
            session.get(b"k", &mut |_| {}).unwrap();
        }
    }
}
