//! Snapshots: a view of one moment.

use crate::changes::with_db;
use crate::handle::{Handle, Opened, Place};
use crate::source::{Moment, Source, space_of};
use crate::view::View;
use pyo3::prelude::*;
use std::sync::Arc;

/// A store as it was at one moment, to read from later.
///
/// It keeps what its moment needs from being dropped until it is released, by the end of a `with`
/// block, `release`, or the end of its last use.
///
/// >>> db[b"key"] = b"then"
/// >>> with db.snapshot() as before:
/// ...     db[b"key"] = b"now"
/// ...     before[b"key"]
/// b'then'
#[pyclass(frozen, extends = View, module = "keyrack")]
pub(crate) struct Snapshot {
    moment: Arc<Moment>,
}

/// Takes a snapshot.
pub(crate) fn snapshot(py: Python<'_>, handle: &Arc<Handle>) -> PyResult<Py<Snapshot>> {
    let moment = py.detach(|| {
        handle.with(|opened| {
            Ok(match opened {
                Opened::Db(db) => db.snapshot(),
                Opened::Spaces(spaces, _) => spaces.snapshot(),
            })
        })
    })?;
    object(py, Place::store(handle), Arc::new(Moment::new(moment)))
}

fn object(py: Python<'_>, place: Place, moment: Arc<Moment>) -> PyResult<Py<Snapshot>> {
    let view = View { source: Source::Then(place, Arc::clone(&moment)) };
    Py::new(py, PyClassInitializer::from(view).add_subclass(Snapshot { moment }))
}

#[pymethods]
impl Snapshot {
    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.release(py);
    }

    /// Gives the moment up. Reads of it are refused then; iterators go on. In a child of a fork
    /// there is nothing to give up.
    fn release(&self, py: Python<'_>) {
        py.detach(|| self.moment.release());
    }

    /// The position behind everything that the snapshot sees: `Store.changes` from there has what
    /// it does not.
    ///
    /// >>> with db.snapshot() as before:
    /// ...     db[b"key"] = b"value"
    /// ...     changes = db.changes(before.position())
    /// >>> len(list(changes))
    /// 1
    fn position(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<u64> {
        let handle = &this.as_super().source.place().handle;
        let moment = &this.moment;
        Ok(py.detach(|| {
            moment.at(|snapshot| with_db(handle, |db| Ok(db.position_at(snapshot).into())))
        })?)
    }

    /// The snapshot with the keys of a key space, for a store that has some.
    ///
    /// >>> spaces.space("users")[b"ada"] = b"36"
    /// >>> spaces.snapshot().space("users")[b"ada"]
    /// b'36'
    fn space(this: PyRef<'_, Self>, name: &str) -> PyResult<Py<Snapshot>> {
        let source = &this.as_super().source;
        let place = this.py().detach(|| space_of(source, name))?;
        object(this.py(), place, Arc::clone(&this.moment))
    }
}
