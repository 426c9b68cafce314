//! Batches: writes that are kept, and then happen as one.

use crate::bytes::Bytes;
use crate::error::{Failure, Result};
use crate::expiry::{Ttl, Until};
use crate::handle::{Handle, Kept, Place};
use crate::key_space::pairs_of;
use crate::view::bounds_of_slice;
use crate::writes::{Pending, removal};
use keyrack_flodb::WriteOptions;
use pyo3::prelude::*;
use pyo3::types::PySlice;
use std::sync::Arc;

/// Writes that happen together at the end of a `with` block, or not at all if it raises.
///
/// A batch reads nothing: it is cheaper than a transaction, and cannot conflict. Of writes of one
/// key the last counts.
///
/// >>> with db.batch() as batch:
/// ...     batch[b"a"] = b"1"
/// ...     batch.delete(b"b")
/// >>> db[b"a"]
/// b'1'
#[pyclass(frozen, module = "keyrack")]
pub(crate) struct Batch {
    place: Place,
    kept: Arc<Kept<Pending>>,
    sync: bool,
}

impl Batch {
    pub(crate) fn new(py: Python<'_>, handle: &Arc<Handle>, sync: bool) -> PyResult<Batch> {
        let pending = py.detach(|| handle.with(|opened| Ok(Pending::new(opened))))?;
        let kept = Kept::new(handle, pending, "the batch was written; begin another");
        Ok(Batch { place: Place::store(handle), kept, sync })
    }

    fn write_kept(&self) -> Result<()> {
        let options = WriteOptions { sync: self.sync };
        self.kept
            .take_after(|pending| self.place.handle.with(|opened| pending.write(opened, options)))
    }
}

#[pymethods]
impl Batch {
    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Writes everything, or forgets it if there is an exception.
    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if !kind.is_none() {
            py.detach(|| drop(self.kept.take()));
        } else if !py.detach(|| self.kept.is_taken()) {
            py.detach(|| self.write_kept())?;
        }
        Ok(false)
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        Ok(self.kept_put(py, &key, &value, None)?)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(slice) = key.cast::<PySlice>() else { return self.delete(py, key.extract()?) };
        let bounds = bounds_of_slice(slice)?;
        let (start, Some(stop)) = removal(&bounds)? else {
            let what = "a batch does not know the last key; give the slice a stop";
            return Err(Failure::Usage(what.to_owned()).into());
        };
        Ok(py.detach(|| self.removed(start, stop))?)
    }

    /// Stores a value under a key. `ttl` and `until` are those of `Store.put`; the time to live
    /// begins now.
    ///
    /// >>> with db.batch() as batch:
    /// ...     batch.put(b"session", b"ada", ttl=3600)
    /// >>> db.persist(b"session")
    /// True
    #[pyo3(signature = (key, value, *, ttl=None, until=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        ttl: Option<Ttl>,
        until: Option<f64>,
    ) -> PyResult<()> {
        Ok(self.kept_put(py, &key, &value, Until::new(ttl, until)?)?)
    }

    /// Adds an operand to what a key has, see `Store.merge`.
    fn merge(&self, py: Python<'_>, key: Bytes<'_>, operand: Bytes<'_>) -> PyResult<()> {
        let (key, operand) = (&*key, &*operand);
        Ok(py.detach(|| {
            self.kept.with(|pending| {
                self.place.with(|at| {
                    pending.merge(at, key, operand);
                    Ok(())
                })
            })
        })?)
    }

    /// Removes a key, whether it is there or not. `del batch[key]` does the same.
    fn delete(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        let key = &*key;
        Ok(py.detach(|| {
            self.kept.with(|pending| {
                self.place.with(|at| {
                    pending.delete(at, key);
                    Ok(())
                })
            })
        })?)
    }

    /// Removes the keys from `start` on and before `stop`.
    fn delete_range(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<()> {
        let (start, stop) = (&*start, &*stop);
        Ok(py.detach(|| self.removed(start, stop))?)
    }

    /// Stores the pairs of a mapping, or of an iterable of pairs.
    #[pyo3(signature = (other, /))]
    fn update(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        for (key, value) in pairs_of(other)? {
            self.kept_put(py, &key, &value, None)?;
        }
        Ok(())
    }

    /// Writes everything now. The end of the `with` block then has nothing to do. If that fails,
    /// the writes are kept.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.write_kept())?)
    }

    /// The writes that are kept.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let count = py.detach(|| self.kept.with(|pending| Ok(pending.len())))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// A batch without writes is one, too.
    fn __bool__(&self) -> bool {
        true
    }

    fn __reduce__(&self) -> Result<()> {
        Err(Failure::Kind("a batch cannot be pickled; write it".to_owned()))
    }

    /// The batch with the keys of a key space, for a store that has some.
    ///
    /// >>> _ = spaces.space("users")
    /// >>> with spaces.batch() as batch:
    /// ...     batch.space("users")[b"ada"] = b"36"
    fn space(&self, py: Python<'_>, name: &str) -> PyResult<Batch> {
        let found = py.detach(|| Place::space(&self.place.handle, name, false))?;
        let missing = || Failure::Usage(format!("there is no key space {name:?}"));
        let place = found.ok_or_else(missing)?;
        Ok(Batch { place, kept: Arc::clone(&self.kept), sync: self.sync })
    }
}

impl Batch {
    fn kept_put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &[u8],
        until: Option<Until>,
    ) -> Result<()> {
        py.detach(|| {
            self.kept.with(|pending| {
                self.place.handle.with(|opened| {
                    self.place.within(opened, |at| {
                        match until {
                            Some(until) => pending.put_until(at, key, value, until.ms(opened)),
                            None => pending.put(at, key, value),
                        }
                        Ok(())
                    })
                })
            })
        })
    }

    fn removed(&self, start: &[u8], stop: &[u8]) -> Result<()> {
        self.kept.with(|pending| {
            self.place.with(|at| {
                pending.delete_range(at, start, stop);
                Ok(())
            })
        })
    }
}
