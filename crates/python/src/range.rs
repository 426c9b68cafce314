//! Iterators over keys.
//!
//! ```text
//!   from the front            not read yet            from the back
//!   a b c | d e f                                     s r q | p o n
//!   given   fetched                                   given   fetched
//! ```
//!
//! Entries are fetched by pages without the lock of the interpreter, and given one by one. A page
//! has 1 entry at first and twice as many each time, up to [`PAGE_MAX`], and ends at
//! [`PAGE_BYTES_MAX`] bytes; so to look at the first entry costs one, and a long scan gives the
//! lock up rarely. An entry of a scan is copied twice: into the page, and into its objects.
//!
//! An iterator and its reverse share one state: each entry is given once.

use crate::error::{Failure, Result};
use crate::handle::Kept;
use crate::source::{Bounds, Entry, PAGE_BYTES_MAX, Source};
use keyrack_flodb as flodb;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::Arc;

/// Entries of a page, at most.
const PAGE_MAX: usize = 128;

/// What an iterator gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Keys,
    Values,
    Items,
}

enum From {
    Pairs(flodb::Range),
    Keys(flodb::Keys),
    /// Read by pages between these bounds.
    Transaction(Source, Bounds),
}

struct State {
    from: From,
    /// Fetched from each end, in the order in which they are given there.
    pages: [VecDeque<Entry>; 2],
    /// Entries of the next page.
    page: usize,
}

/// An iterator over entries of a store, in the order of their keys.
///
/// It shows one moment, that of its making, and holds up no writer. `reversed` gives one from the
/// other end over what is left. It ends with its store: to go on then raises `keyrack.Closed`.
#[pyclass(frozen, module = "keyrack")]
pub(crate) struct Range {
    state: Arc<Kept<State>>,
    show: Show,
    is_back: bool,
}

impl Range {
    pub(crate) fn open(
        py: Python<'_>,
        source: &Source,
        bounds: Bounds,
        show: Show,
        is_back: bool,
    ) -> PyResult<Range> {
        let range = py.detach(|| source.range(&bounds))?;
        let from = match range {
            None => From::Transaction(source.clone(), bounds),
            Some(range) if show == Show::Keys => From::Keys(range.keys()),
            Some(range) => From::Pairs(range),
        };
        let state = State { from, pages: Default::default(), page: 1 };
        let state = Kept::new(&source.place().handle, state, "the iterator has ended");
        Ok(Range { state, show, is_back })
    }

    /// The number of entries that are left. Reads all of them.
    pub(crate) fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let mut count = 0;
        loop {
            // Between pages a signal may end it.
            py.check_signals()?;
            let page = py.detach(|| {
                self.state.with(|state| {
                    state.fetch(0, PAGE_MAX)?;
                    Ok(std::mem::take(&mut state.pages[0]).len() as u64)
                })
            })?;
            if page == 0 {
                return Ok(count);
            }
            count += page;
        }
    }

    fn shown<'py>(&self, py: Python<'py>, entry: &Entry) -> PyResult<Bound<'py, PyAny>> {
        let bytes = |bytes: &[u8]| {
            PyBytes::new_with(py, bytes.len(), |to| {
                to.copy_from_slice(bytes);
                Ok(())
            })
        };
        Ok(match self.show {
            Show::Keys => bytes(&entry.0)?.into_any(),
            Show::Values => bytes(&entry.1)?.into_any(),
            Show::Items => PyTuple::new(py, [bytes(&entry.0)?, bytes(&entry.1)?])?.into_any(),
        })
    }
}

#[pymethods]
impl Range {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    pub(crate) fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let end = usize::from(self.is_back);
        let fetched = self.state.try_with(|state| state.pages[end].pop_front());
        let entry = match fetched {
            Some(entry) => Some(entry),
            None => py.detach(|| self.state.with(|state| state.next(end)))?,
        };
        entry.map(|entry| self.shown(py, &entry)).transpose()
    }

    /// An iterator over what is left, from the other end.
    fn __reversed__(&self) -> Range {
        Range { state: Arc::clone(&self.state), show: self.show, is_back: !self.is_back }
    }

    fn __reduce__(&self) -> Result<()> {
        Err(Failure::Kind("an iterator cannot be pickled; pickle list(..) of it".to_owned()))
    }
}

impl State {
    fn next(&mut self, end: usize) -> Result<Option<Entry>> {
        if self.pages[end].is_empty() {
            let count = self.page;
            self.page = (count * 2).min(PAGE_MAX);
            self.fetch(end, count)?;
        }
        let next = self.pages[end].pop_front();
        // What the other end has fetched and not given.
        Ok(next.or_else(|| self.pages[1 - end].pop_back()))
    }

    fn fetch(&mut self, end: usize, count: usize) -> Result<()> {
        let (mut bytes, is_back) = (0, end == 1);
        let page = &mut self.pages[end];
        match &mut self.from {
            From::Pairs(range) => {
                while page.len() < count && bytes < PAGE_BYTES_MAX {
                    let next = if is_back { range.next_back() } else { range.next() };
                    let Some(entry) = next.transpose()? else { break };
                    bytes += entry.0.len() + entry.1.len();
                    page.push_back(entry);
                }
            }
            From::Keys(keys) => {
                while page.len() < count && bytes < PAGE_BYTES_MAX {
                    let next = if is_back { keys.next_back() } else { keys.next() };
                    let Some(key) = next.transpose()? else { break };
                    bytes += key.len();
                    page.push_back((key, Vec::new()));
                }
            }
            From::Transaction(source, bounds) => {
                page.extend(source.page(bounds, is_back, count)?);
                if let Some((last, _)) = page.back() {
                    let bound = End::Excluded(last.clone());
                    *(if is_back { &mut bounds.1 } else { &mut bounds.0 }) = bound;
                }
            }
        }
        Ok(())
    }
}
