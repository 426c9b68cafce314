//! A level of disjoint tables as one cursor. It opens a table's cursor when it comes to the table.

use crate::cursor::{Approach, Cursor};
use crate::error::Result;
use crate::key::Comparator;
use crate::read_state::Tables;
use crate::table::{ReadOptions, TableCursor};
use std::cmp::Ordering;

/// Tables in the order of their keys, and a place in one of them.
pub(crate) struct LevelCursor {
    tables: Tables,
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
    pub(crate) fn new(tables: Tables, order: Comparator, options: ReadOptions) -> Self {
        LevelCursor {
            tables,
            order,
            options,
            at: 0,
            inner: None,
            is_entered: false,
            is_sought: false,
        }
    }

    /// The first table that does not end before `target`.
    fn table_of(&self, target: &[u8]) -> usize {
        let before = |largest: &[u8]| self.order.internal(largest, target) == Ordering::Less;
        self.tables.partition_point(|table| before(&table.file().largest))
    }

    /// Comes to table `at`; nowhere if there is none.
    fn open(&mut self, at: usize) {
        if self.inner.is_some() && self.at == at {
            return;
        }
        self.at = at;
        self.inner = self.tables.get(at).map(|table| table.table().cursor(self.options));
    }

    /// Goes on to the next table as long as there is no entry here.
    fn skip_empty_forward(&mut self) -> Result<()> {
        while self.inner.as_ref().is_some_and(|inner| inner.entry().is_none()) {
            let (left, next) = (self.inner.take(), self.tables.get(self.at + 1));
            self.at += 1;
            self.is_entered = true;
            self.inner = match (left, next) {
                (Some(left), Some(next)) => Some(left.onward_to(next.table())?),
                _ => None,
            };
        }
        Ok(())
    }

    fn skip_empty_backward(&mut self) -> Result<()> {
        while self.inner.as_ref().is_some_and(|inner| inner.entry().is_none()) {
            let left = self.inner.take();
            let before = self.at.checked_sub(1).and_then(|at| Some((at, self.tables.get(at)?)));
            // Before the first table there is no entry.
            let (Some(left), Some((at, table))) = (left, before) else { return Ok(()) };
            self.at = at;
            self.inner = Some(left.back_to(table.table())?);
        }
        Ok(())
    }
}

impl Cursor for LevelCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.is_sought = false;
        self.open(0);
        if let Some(inner) = &mut self.inner {
            inner.seek_first()?;
        }
        self.skip_empty_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.is_sought = false;
        // An empty level has no last entry.
        let Some(last) = self.tables.len().checked_sub(1) else { return Ok(()) };
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
