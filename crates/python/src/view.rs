//! What can be read, like a dictionary: the base of stores, key spaces, snapshots and transactions.

use crate::bytes::Bytes;
use crate::error::{Failure, Result};
use crate::gil::lent;
use crate::range::{Range, Show};
use crate::source::{Bounds, Source};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};
use std::ops::Bound as End;

/// Keys and values that can be read like those of a dictionary, in the order of the keys.
///
/// It is the base of `Store`, `KeySpace`, `Snapshot` and `Transaction`. There is no `len`: the
/// number of keys is not known without reading all of them, see `count`.
#[pyclass(frozen, subclass, module = "keyrack")]
pub(crate) struct View {
    pub(crate) source: Source,
}

/// What a pair of optional keys and a prefix mean.
///
/// # Errors
/// `Usage` for a prefix beside other bounds.
pub(crate) fn bounds_of(
    start: Option<&[u8]>,
    stop: Option<&[u8]>,
    prefix: Option<&[u8]>,
) -> Result<Bounds> {
    let Some(prefix) = prefix else {
        let low = start.map_or(End::Unbounded, |key| End::Included(key.to_vec()));
        return Ok((low, stop.map_or(End::Unbounded, |key| End::Excluded(key.to_vec()))));
    };
    if start.is_some() || stop.is_some() {
        let what = "a prefix has both bounds; give either it, or start and stop";
        return Err(Failure::Usage(what.to_owned()));
    }
    // The first key behind all that begin so: the last byte that can grow grows.
    let high = prefix.iter().rposition(|byte| *byte < u8::MAX).map(|at| {
        let mut high = prefix[..=at].to_vec();
        high[at] += 1;
        high
    });
    Ok((End::Included(prefix.to_vec()), high.map_or(End::Unbounded, End::Excluded)))
}

/// A bound of a slice.
fn bound<'py>(slice: &Bound<'py, PySlice>, name: &str) -> PyResult<Option<Bytes<'py>>> {
    slice.getattr(name)?.extract()
}

/// The bounds that a slice names.
///
/// # Errors
/// A slice with a step.
pub(crate) fn bounds_of_slice(slice: &Bound<'_, PySlice>) -> PyResult<Bounds> {
    if !slice.getattr("step")?.is_none() {
        let what = "a slice of keys has no step; use reversed(..) for the other direction";
        return Err(Failure::Usage(what.to_owned()).into());
    }
    let (start, stop) = (bound(slice, "start")?, bound(slice, "stop")?);
    Ok(bounds_of(start.as_deref(), stop.as_deref(), None)?)
}

/// The exception for a key that is not there.
pub(crate) fn missing(py: Python<'_>, key: &[u8]) -> PyErr {
    PyKeyError::new_err(PyBytes::new(py, key).unbind())
}

impl View {
    pub(crate) fn value<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        lent(py, |visit| self.source.get(key, visit))
    }

    fn ranged(
        &self,
        py: Python<'_>,
        (start, stop): (Option<Bytes<'_>>, Option<Bytes<'_>>),
        prefix: Option<Bytes<'_>>,
        show: Show,
    ) -> PyResult<Range> {
        let bounds = bounds_of(start.as_deref(), stop.as_deref(), prefix.as_deref())?;
        Range::open(py, &self.source, bounds, show, false)
    }

    fn end(&self, py: Python<'_>, is_back: bool) -> PyResult<Option<Py<PyAny>>> {
        let all = (End::Unbounded, End::Unbounded);
        let range = Range::open(py, &self.source, all, Show::Items, is_back)?;
        Ok(range.__next__(py)?.map(Bound::unbind))
    }
}

#[pymethods]
impl View {
    /// The value of a key; `KeyError` if there is none. Of a slice, an iterator of pairs.
    ///
    /// >>> db[b"apple"] = b"red"
    /// >>> db[b"apple"]
    /// b'red'
    /// >>> list(db[b"a":b"b"])
    /// [(b'apple', b'red')]
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let bounds = bounds_of_slice(slice)?;
            let range = Range::open(py, &self.source, bounds, Show::Items, false)?;
            return Ok(range.into_pyobject(py)?.into_any());
        }
        let key: Bytes<'_> = key.extract()?;
        self.value(py, &key)?.map(Bound::into_any).ok_or_else(|| missing(py, &key))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let key = &*key;
        Ok(py.detach(|| self.source.contains(key))?)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Range> {
        self.ranged(py, (None, None), None, Show::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Range> {
        let all = (End::Unbounded, End::Unbounded);
        Range::open(py, &self.source, all, Show::Keys, true)
    }

    fn __reduce__(&self) -> Result<()> {
        Err(Failure::Kind(
            "an open store, and what reads it, cannot be pickled; open it in the other process"
                .to_owned(),
        ))
    }

    /// The value of a key, or `default` if there is none.
    ///
    /// >>> db.get(b"missing", b"nothing")
    /// b'nothing'
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'py>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, &key)?.map(Bound::into_any).or(default))
    }

    /// The values of many keys in their order, `None` for those that are not there. Faster than
    /// one by one.
    ///
    /// >>> db[b"apple"] = b"red"
    /// >>> db.get_many([b"apple", b"pear"])
    /// [b'red', None]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys = keys.try_iter()?.map(|key| key?.extract()).collect::<PyResult<Vec<Bytes<'_>>>>();
        let keys = keys?;
        let lent: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let found = py.detach(|| self.source.get_many(&lent))?;
        Ok(found.into_iter().map(|value| Some(PyBytes::new(py, &value?))).collect())
    }

    /// An iterator over the keys from `start` on and before `stop`, or over those that begin with
    /// `prefix`.
    ///
    /// >>> db.update({b"a/1": b"", b"a/2": b"", b"b": b""})
    /// >>> list(db.keys(prefix=b"a/"))
    /// [b'a/1', b'a/2']
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Range> {
        self.ranged(py, (start, stop), prefix, Show::Keys)
    }

    /// As `keys`, over the values.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> list(db.values())
    /// [b'1', b'2']
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Range> {
        self.ranged(py, (start, stop), prefix, Show::Values)
    }

    /// As `keys`, over pairs of key and value.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> list(reversed(db.items()))
    /// [(b'b', b'2'), (b'a', b'1')]
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<Range> {
        self.ranged(py, (start, stop), prefix, Show::Items)
    }

    /// An iterator over the pairs whose keys begin with `prefix`.
    ///
    /// >>> db.update({b"a/1": b"x", b"b": b"y"})
    /// >>> list(db.prefix(b"a/"))
    /// [(b'a/1', b'x')]
    fn prefix(&self, py: Python<'_>, prefix: Bytes<'_>) -> PyResult<Range> {
        self.ranged(py, (None, None), Some(prefix), Show::Items)
    }

    /// The pair with the lowest key; `None` if there are no keys.
    ///
    /// >>> db.first() is None
    /// True
    fn first(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.end(py, false)
    }

    /// The pair with the highest key; `None` if there are no keys.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> db.last()
    /// (b'b', b'2')
    fn last(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.end(py, true)
    }

    /// The number of keys from `start` on and before `stop`, or of those that begin with `prefix`.
    /// Reads all of them.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2"})
    /// >>> db.count()
    /// 2
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn count(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
    ) -> PyResult<u64> {
        let range = self.ranged(py, (start, stop), prefix, Show::Keys)?;
        range.count(py)
    }
}
