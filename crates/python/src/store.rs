//! Open stores: one ordered set of keys, or several with names.

use crate::backup::{BackupInfo, Repository};
use crate::batch::Batch;
use crate::changes::{Change, Changes, with_db};
use crate::control;
use crate::error::{Failure, Result};
use crate::handle::{Handle, Opened, Place};
use crate::key_space::KeySpace;
use crate::options;
use crate::snapshot::{Snapshot, snapshot};
use crate::transaction::{self, Transaction};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};
use std::path::PathBuf;
use std::sync::Arc;

/// An open store: keys and values in a directory, like a dictionary in the order of the keys.
///
/// Any number of threads use it. One process has a directory open for writing; others may read it
/// meanwhile, with `read_only=True`.
#[pyclass(frozen, extends = KeySpace, module = "keyrack")]
pub(crate) struct Store {
    handle: Arc<Handle>,
}

/// An open store with key spaces: several ordered sets of keys, each with a name.
///
/// >>> users = spaces.space("users")
/// >>> users[b"ada"] = b"36"
/// >>> spaces["users"][b"ada"]
/// b'36'
/// >>> list(spaces)
/// ['users']
#[pyclass(frozen, module = "keyrack")]
pub(crate) struct Spaces {
    handle: Arc<Handle>,
}

/// Opens the store in the directory `path`, and makes it if it is not there.
///
/// Options are keyword arguments: `memory_budget`, `durability` and the others. `read_only=True`
/// opens a store that is there, also beside a writer. Use it as a context manager, or call `close`.
///
/// >>> with keyrack.open(path, durability="sync") as store:
/// ...     store[b"key"] = b"value"
#[pyfunction]
#[pyo3(signature = (path, *, read_only=false, **options))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    read_only: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<Store>> {
    let options = options::options_of(options)?;
    let handle = py.detach(|| control::open(&path, options, read_only))?;
    let keys = KeySpace::of(Place::store(&handle));
    Py::new(py, keys.add_subclass(Store { handle }))
}

/// Opens the store with key spaces in the directory `path`, and makes it if it is not there.
/// Options are those of `open`.
///
/// >>> with keyrack.open_spaces(path) as spaces:
/// ...     spaces.space("users")[b"ada"] = b"36"
#[pyfunction]
#[pyo3(signature = (path, *, read_only=false, **options))]
pub(crate) fn open_spaces(
    py: Python<'_>,
    path: PathBuf,
    read_only: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Spaces> {
    let options = options::options_of(options)?;
    let handle = py.detach(|| control::open_spaces(&path, options, read_only))?;
    Ok(Spaces { handle })
}

/// The calls of a store as a whole, beside those of the class itself.
macro_rules! store_methods {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            fn __enter__(this: Py<Self>) -> Py<Self> {
                this
            }

            /// Closes the store.
            #[pyo3(signature = (*_exception))]
            fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
                self.close(py)
            }

            /// Closes the store; what uses it then raises `keyrack.Closed`. Transactions that are
            /// open are rolled back. A store that is closed stays so.
            fn close(&self, py: Python<'_>) -> PyResult<()> {
                Ok(py.detach(|| self.handle.close())?)
            }

            /// Whether it is closed.
            #[getter]
            fn closed(&self) -> bool {
                self.handle.is_closed()
            }

            /// The directory.
            #[getter]
            fn path(&self) -> PathBuf {
                self.handle.path_buf()
            }

            fn __repr__(&self) -> String {
                let (path, class) = (self.handle.path().display(), stringify!($class));
                let state = if self.handle.is_closed() { ", closed" } else { "" };
                format!("<keyrack.{class} {path}{state}>")
            }

            /// Begins a transaction. `isolation` is "serializable" or "snapshot", which is cheaper
            /// and does not check what is only read.
            #[pyo3(signature = (*, isolation="serializable", sync=false))]
            fn transaction(
                &self,
                py: Python<'_>,
                isolation: &str,
                sync: bool,
            ) -> PyResult<Py<Transaction>> {
                let options = transaction::options_of(isolation, sync)?;
                transaction::transaction(py, &self.handle, options)
            }

            /// Calls `function` with a transaction, commits it, and gives what the function gave.
            /// After a conflict or a deadlock it begins again, up to `attempts` times in all.
            #[pyo3(signature = (
                function, attempts=10, *, isolation="serializable", sync=false
            ))]
            fn retry(
                &self,
                py: Python<'_>,
                function: &Bound<'_, PyAny>,
                attempts: usize,
                isolation: &str,
                sync: bool,
            ) -> PyResult<Py<PyAny>> {
                let options = transaction::options_of(isolation, sync)?;
                transaction::retry(py, &self.handle, function, attempts, options)
            }

            /// Begins a batch: writes that happen as one at the end of a `with` block.
            #[pyo3(signature = (*, sync=false))]
            fn batch(&self, py: Python<'_>, sync: bool) -> PyResult<Batch> {
                Batch::new(py, &self.handle, sync)
            }

            /// This moment, to read from later.
            fn snapshot(&self, py: Python<'_>) -> PyResult<Py<Snapshot>> {
                snapshot(py, &self.handle)
            }

            /// Makes tables of what memory holds.
            fn flush(&self, py: Python<'_>) -> PyResult<()> {
                Ok(py.detach(|| self.handle.flush())?)
            }

            /// Merges all tables. It is not needed for space to be used again.
            fn compact(&self, py: Python<'_>) -> PyResult<()> {
                Ok(py.detach(|| self.handle.compact())?)
            }

            /// Makes a store of this moment in the new directory `target`, beside writers. Tables
            /// are shared with it if the file system can.
            fn checkpoint(&self, py: Python<'_>, target: PathBuf) -> PyResult<()> {
                Ok(py.detach(|| self.handle.checkpoint(&target))?)
            }

            /// Makes a backup of this moment in a repository, beside writers. Copies what no
            /// earlier backup has, at most `bytes_per_second` if that is not 0.
            #[pyo3(signature = (repository, *, bytes_per_second=0))]
            fn backup(
                &self,
                py: Python<'_>,
                repository: &Repository,
                bytes_per_second: u64,
            ) -> PyResult<BackupInfo> {
                let saved = py.detach(|| {
                    let backup = self.handle.backup()?.limit(bytes_per_second);
                    repository.save(backup)
                })?;
                Ok(saved)
            }

            /// A property by its name, such as "keyrack.estimate-num-keys"; `None` if there is none
            /// of that name.
            fn property(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
                Ok(py.detach(|| self.handle.property(name))?)
            }

            /// Counters and sizes by their names.
            fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let stats = py.detach(|| self.handle.stats())?;
                let dict = PyDict::new(py);
                for (name, number) in stats {
                    dict.set_item(name, number)?;
                }
                Ok(dict)
            }
        }
    };
}

store_methods!(Store {
    /// The position behind everything that is visible now, for `changes`. Positions only grow, are
    /// never used twice, and can be kept as numbers.
    ///
    /// >>> before = db.position()
    /// >>> db[b"key"] = b"value"
    /// >>> before < db.position()
    /// True
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(py.detach(|| with_db(&self.handle, |db| Ok(db.position().into())))?)
    }

    /// The changes after a position: each put, batch and transaction that was applied, in order,
    /// and those to come. 0 is before all.
    ///
    /// A feed begins where the log still is, else it raises `keyrack.NotKept`. The store keeps what
    /// it needs itself, what the options `log_retention_bytes` and `log_retention_seconds` say, and
    /// what feeds have not read, up to `feed_hold_bytes`. With `synced=True` the feed gives nothing
    /// that a power loss could take back, and syncs the log for that.
    ///
    /// >>> db[b"apple"] = b"red"
    /// >>> [change.writes for change in db.changes()]
    /// [[Write('put', b'apple', value=b'red')]]
    #[pyo3(signature = (position=0, *, synced=false))]
    fn changes(&self, py: Python<'_>, position: u64, synced: bool) -> PyResult<Changes> {
        Ok(py.detach(|| Changes::open(&self.handle, position, synced))?)
    }

    /// Applies a change of another store, as one step: its writes in their order.
    ///
    /// >>> with keyrack.open(path) as copy:
    /// ...     db[b"apple"] = b"red"
    /// ...     for change in db.changes():
    /// ...         copy.apply(change)
    /// ...     copy[b"apple"]
    /// b'red'
    #[pyo3(signature = (change, *, sync=false))]
    fn apply(&self, py: Python<'_>, change: &Change, sync: bool) -> PyResult<()> {
        Ok(py.detach(|| change.apply(&self.handle, sync))?)
    }
});

store_methods!(Spaces {
    /// The key space of that name, made if it is not there unless `create` is false.
    #[pyo3(signature = (name, *, create=true))]
    fn space(&self, py: Python<'_>, name: &str, create: bool) -> PyResult<Py<KeySpace>> {
        let found = py.detach(|| Place::space(&self.handle, name, create))?;
        let place = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        Py::new(py, KeySpace::of(place))
    }

    /// The key space of that name; `KeyError` if there is none.
    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<KeySpace>> {
        self.space(py, name, false)
    }

    /// Removes a key space with all its keys; `KeyError` if there is none.
    fn __delitem__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match py.detach(|| self.handle.drop_space(name))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(name.to_owned())),
        }
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.names(py)?.iter().any(|known| known == name))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.names(py)?.len())
    }

    /// A store without key spaces is one, too.
    fn __bool__(&self) -> bool {
        true
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names(py)?)?.try_iter()
    }

    fn __reduce__(&self) -> Result<()> {
        Err(Failure::Kind(
            "an open store cannot be pickled; open it in the other process".to_owned(),
        ))
    }
});

impl Spaces {
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let list = py.detach(|| {
            self.handle.with(|opened| {
                Ok(match opened {
                    Opened::Spaces(spaces, _) => spaces.list(),
                    Opened::Db(_) => Vec::new(),
                })
            })
        })?;
        Ok(list.into_iter().map(|(name, _)| name).collect())
    }
}
