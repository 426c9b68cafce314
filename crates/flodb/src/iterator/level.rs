//! A level of disjoint tables as one cursor. It opens a table's cursor when it comes to the table.

use crate::cursor::{Approach, Cursor};
use crate::error::Result;
use crate::key::Comparator;
use crate::open_table::OpenTable;
use crate::read_state::Tables;
use crate::table::{ReadOptions, TableCursor};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Tables in the order of their keys, and a place in one of them.
pub(crate) struct LevelCursor {
    tables: Tables,
    /// Those of the tables that are read: at least one.
    span: Range<usize>,
    order: Comparator,
    options: ReadOptions,
    at: usize,
    inner: Option<TableCursor>,
    /// Whether the last step came to another table.
    is_entered: bool,
    /// Whether a seek was begun, so that its table is open.
    is_sought: bool,
}

impl LevelCursor {
    /// Over all of the tables.
    pub(crate) fn new(tables: Tables, order: Comparator, options: ReadOptions) -> Self {
        let span = 0..tables.len();
        LevelCursor::within(tables, span, order, options)
    }

    /// Over those of the tables that `span` says. It reads no other.
    pub(crate) fn within(
        tables: Tables,
        span: Range<usize>,
        order: Comparator,
        options: ReadOptions,
    ) -> Self {
        LevelCursor {
            tables,
            at: span.start,
            span,
            order,
            options,
            inner: None,
            is_entered: false,
            is_sought: false,
        }
    }

    /// The first table that does not end before `target`.
    fn table_of(&self, target: &[u8]) -> usize {
        let before = |largest: &[u8]| self.order.internal(largest, target) == Ordering::Less;
        let tables = &self.tables[self.span.clone()];
        self.span.start + tables.partition_point(|table| before(&table.file().largest))
    }

    /// A table that is read.
    fn table(&self, at: usize) -> Option<&Arc<OpenTable>> {
        if self.span.contains(&at) { self.tables.get(at) } else { None }
    }

    /// Comes to table `at`; nowhere if there is none.
    fn open(&mut self, at: usize) {
        if self.inner.is_some() && self.at == at {
            return;
        }
        self.at = at;
        self.inner = self.table(at).map(|table| table.table().cursor(self.options));
    }

    /// Goes on to the next table as long as there is no entry here.
    fn skip_empty_forward(&mut self) -> Result<()> {
        while self.inner.as_ref().is_some_and(|inner| inner.entry().is_none()) {
            let left = self.inner.take();
            self.at += 1;
            self.is_entered = true;
            self.inner = match (left, self.table(self.at)) {
                (Some(left), Some(next)) => Some(left.onward_to(next.table())?),
                _ => None,
            };
        }
        Ok(())
    }

    fn skip_empty_backward(&mut self) -> Result<()> {
        while self.inner.as_ref().is_some_and(|inner| inner.entry().is_none()) {
            let left = self.inner.take();
            let before = self.at.checked_sub(1).and_then(|at| Some((at, self.table(at)?)));
            // Before the first table there is no entry.
            let (Some(left), Some((at, table))) = (left, before) else { return Ok(()) };
            let inner = left.back_to(table.table())?;
            self.at = at;
            self.inner = Some(inner);
        }
        Ok(())
    }
}

impl Cursor for LevelCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.is_sought = false;
        self.open(self.span.start);
        if let Some(inner) = &mut self.inner {
            inner.seek_first()?;
        }
        self.skip_empty_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.is_sought = false;
        // An empty level has no last entry.
        let Some(last) = self.span.end.checked_sub(1) else { return Ok(()) };
        self.open(last);
        if let Some(inner) = &mut self.inner {
            inner.seek_last()?;
        }
        self.skip_empty_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        if !std::mem::take(&mut self.is_sought) {
            self.open(self.table_of(target));
        }
        if let Some(inner) = &mut self.inner {
            inner.seek(target)?;
        }
        self.skip_empty_forward()
    }

    fn approach(&mut self, target: &[u8], part: Approach) {
        if part == Approach::Index {
            self.open(self.table_of(target));
            self.is_sought = true;
        }
        if let Some(inner) = &mut self.inner {
            inner.approach(target, part);
        }
    }

    fn next(&mut self) -> Result<()> {
        self.is_entered = false;
        self.inner.as_mut().expect("only from an entry").next()?;
        self.skip_empty_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.as_mut().expect("only from an entry").prev()?;
        self.skip_empty_backward()
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.inner.as_ref()?.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.inner.as_ref()?.key()
    }

    /// No user key is in two tables of a level.
    fn repeats(&self) -> bool {
        !self.is_entered && self.inner.as_ref().is_some_and(Cursor::repeats)
    }

    fn may_repeat_before(&self) -> bool {
        self.inner.as_ref().is_some_and(Cursor::may_repeat_before)
    }
}
