//! Transactions: a view of one moment, with writes of its own until it commits.

use crate::bytes::Bytes;
use crate::error::{Failure, Result, is_to_retry};
use crate::expiry::{Ttl, Until};
use crate::gil::lent;
use crate::handle::{Handle, Kept, Place};
use crate::key_space::{default_of, pairs_of};
use crate::source::{Running, Source, begin, on_either, space_of};
use crate::view::{View, bounds_of_slice, missing};
use crate::writes::removal;
use keyrack_flodb::{Isolation, TransactionOptions, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyTuple};
use std::sync::Arc;

const ENDED: &str = "the transaction has ended; begin another";

/// Reads of one moment, and writes that happen together or not at all.
///
/// Reads see the store as it was when the transaction began, and its own writes. As a context
/// manager it commits at the end of the block, and rolls back if the block raises. A commit raises
/// `keyrack.Conflict` if somebody else has changed what was read; nothing is written then. It
/// belongs to one thread at a time, and should not live long.
///
/// >>> with db.transaction() as tx:
/// ...     tx[b"ada"] = b"9"
/// ...     tx[b"bob"] = b"1"
/// >>> db[b"bob"]
/// b'1'
#[pyclass(frozen, extends = View, module = "keyrack")]
pub(crate) struct Transaction {
    kept: Arc<Kept<Running>>,
}

/// How a transaction is asked for.
///
/// # Errors
/// Another isolation.
pub(crate) fn options_of(isolation: &str, sync: bool) -> Result<TransactionOptions> {
    let isolation = match isolation {
        "serializable" => Isolation::Serializable,
        "snapshot" => Isolation::Snapshot,
        other => {
            let what = format!("isolation must be 'serializable' or 'snapshot' (got {other:?})");
            return Err(Failure::Usage(what));
        }
    };
    Ok(TransactionOptions { isolation, write: WriteOptions { sync } })
}

/// Begins a transaction.
pub(crate) fn transaction(
    py: Python<'_>,
    handle: &Arc<Handle>,
    options: TransactionOptions,
) -> PyResult<Py<Transaction>> {
    let running = py.detach(|| handle.with(|opened| Ok(begin(opened, options))))?;
    object(py, Place::store(handle), Kept::new(handle, running, ENDED))
}

fn object(py: Python<'_>, place: Place, kept: Arc<Kept<Running>>) -> PyResult<Py<Transaction>> {
    let view = View { source: Source::Within(place, Arc::clone(&kept)) };
    Py::new(py, PyClassInitializer::from(view).add_subclass(Transaction { kept }))
}

/// Runs a function in transactions until one commits.
pub(crate) fn retry(
    py: Python<'_>,
    handle: &Arc<Handle>,
    function: &Bound<'_, PyAny>,
    attempts: usize,
    options: TransactionOptions,
) -> PyResult<Py<PyAny>> {
    let mut left = attempts.max(1);
    loop {
        left -= 1;
        // A signal may end it.
        py.check_signals()?;
        let object = transaction(py, handle, options)?;
        let kept = Arc::clone(&object.get().kept);
        let answer = function.call1((object,));
        let outcome = answer.and_then(|answer| {
            py.detach(|| commit_if_open(&kept))?;
            Ok(answer)
        });
        match outcome {
            Ok(answer) => return Ok(answer.unbind()),
            Err(error) => {
                py.detach(|| kept.take().ok());
                if left == 0 || !is_to_retry(py, &error)? {
                    return Err(error);
                }
            }
        }
    }
}

fn commit(running: Running) -> Result<()> {
    match running {
        Running::Db(transaction) => Ok(transaction.commit()?),
        Running::Spaces(transaction) => Ok(transaction.commit()?),
    }
}

/// What was committed or rolled back in the block stays so.
fn commit_if_open(kept: &Kept<Running>) -> Result<()> {
    if kept.is_taken() { Ok(()) } else { commit(kept.take()?) }
}

fn place<'a>(this: &'a PyRef<'_, Transaction>) -> &'a Place {
    this.as_super().source.place()
}

fn put(this: &PyRef<'_, Transaction>, key: &[u8], value: &[u8]) -> PyResult<()> {
    let (place, kept) = (place(this), &this.kept);
    Ok(this.py().detach(|| {
        kept.with(|running| {
            on_either!(running, place, tx, space => Ok(tx.put(key, value)?), {
                Ok(tx.put(space, key, value)?)
            })
        })
    })?)
}

fn put_until(
    this: &PyRef<'_, Transaction>,
    key: &[u8],
    value: &[u8],
    until: Until,
) -> PyResult<()> {
    let (place, kept) = (place(this), &this.kept);
    Ok(this.py().detach(|| {
        let expires_ms = place.handle.with(|opened| Ok(until.ms(opened)))?;
        kept.with(|running| {
            on_either!(running, place, tx, space => Ok(tx.put_until(key, value, expires_ms)?), {
                Ok(tx.put_until(space, key, value, expires_ms)?)
            })
        })
    })?)
}

fn delete(this: &PyRef<'_, Transaction>, key: &[u8]) -> PyResult<()> {
    let (place, kept) = (place(this), &this.kept);
    Ok(this.py().detach(|| {
        kept.with(|running| {
            on_either!(running, place, tx, space => Ok(tx.delete(key)?), {
                Ok(tx.delete(space, key)?)
            })
        })
    })?)
}

fn delete_range(this: &PyRef<'_, Transaction>, start: &[u8], stop: Option<&[u8]>) -> PyResult<()> {
    let last = match stop {
        Some(_) => None,
        None => {
            let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            let source = this_source(this);
            this.py().detach(|| source.page(&all, true, 1))?.pop()
        }
    };
    let behind = last.map(|(key, _)| [&key[..], &[0]].concat());
    let Some(stop) = stop.or(behind.as_deref()) else { return Ok(()) };
    let (place, kept) = (place(this), &this.kept);
    Ok(this.py().detach(|| {
        kept.with(|running| {
            on_either!(running, place, tx, space => Ok(tx.delete_range(start, stop)?), {
                Ok(tx.delete_range(space, start, stop)?)
            })
        })
    })?)
}

fn this_source<'a>(this: &'a PyRef<'_, Transaction>) -> &'a Source {
    &this.as_super().source
}

#[pymethods]
impl Transaction {
    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Commits, or rolls back if there is an exception.
    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if kind.is_none() {
            py.detach(|| commit_if_open(&self.kept))?;
        } else {
            py.detach(|| self.kept.take().ok());
        }
        Ok(false)
    }

    fn __setitem__(this: PyRef<'_, Self>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        put(&this, &key, &value)
    }

    fn __delitem__(this: PyRef<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let bounds = bounds_of_slice(slice)?;
            let (start, stop) = removal(&bounds)?;
            return delete_range(&this, start, stop);
        }
        let key: Bytes<'_> = key.extract()?;
        let (source, bytes) = (this_source(&this), &*key);
        if !this.py().detach(|| source.contains(bytes))? {
            return Err(missing(this.py(), bytes));
        }
        delete(&this, bytes)
    }

    /// Stores a value under a key. `ttl` and `until` are those of `Store.put`; the time to live
    /// begins now.
    ///
    /// >>> with db.transaction() as tx:
    /// ...     tx.put(b"session", b"ada", ttl=3600)
    /// >>> db.persist(b"session")
    /// True
    #[pyo3(signature = (key, value, *, ttl=None, until=None))]
    fn put(
        this: PyRef<'_, Self>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        ttl: Option<Ttl>,
        until: Option<f64>,
    ) -> PyResult<()> {
        match Until::new(ttl, until)? {
            Some(until) => put_until(&this, &key, &value, until),
            None => put(&this, &key, &value),
        }
    }

    /// Adds an operand to what a key has, see `Store.merge`. That reads nothing: transactions that
    /// merge into the same key do not conflict, unless their isolation is "snapshot".
    fn merge(this: PyRef<'_, Self>, key: Bytes<'_>, operand: Bytes<'_>) -> PyResult<()> {
        let (place, kept, key, operand) = (place(&this), &this.kept, &*key, &*operand);
        Ok(this.py().detach(|| {
            kept.with(|running| {
                on_either!(running, place, tx, space => Ok(tx.merge(key, operand)?), {
                    Ok(tx.merge(space, key, operand)?)
                })
            })
        })?)
    }

    /// Removes a key, whether it is there or not, and without reading it.
    fn delete(this: PyRef<'_, Self>, key: Bytes<'_>) -> PyResult<()> {
        delete(&this, &key)
    }

    /// Removes the keys from `start` on and before `stop`.
    fn delete_range(this: PyRef<'_, Self>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<()> {
        delete_range(&this, &start, Some(&stop))
    }

    /// Removes a key and gives its value. If there is none, gives the default, or raises `KeyError`
    /// without one.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        this: PyRef<'py, Self>,
        key: Bytes<'py>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let default = default_of(default)?;
        match this.as_super().value(this.py(), &key)? {
            Some(value) => {
                delete(&this, &key)?;
                Ok(value.into_any())
            }
            None => default.ok_or_else(|| missing(this.py(), &key)),
        }
    }

    /// The value of a key; if there is none, stores `default` and gives that.
    fn setdefault<'py>(
        this: PyRef<'py, Self>,
        key: Bytes<'py>,
        default: Bytes<'py>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(value) = this.as_super().value(this.py(), &key)? {
            return Ok(value);
        }
        put(&this, &key, &default)?;
        Ok(PyBytes::new(this.py(), &default))
    }

    /// Stores the pairs of a mapping, or of an iterable of pairs.
    #[pyo3(signature = (other, /))]
    fn update(this: PyRef<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        for (key, value) in pairs_of(other)? {
            put(&this, &key, &value)?;
        }
        Ok(())
    }

    /// The newest value of a key, which no other transaction gets by this call until this one ends.
    /// Waits for a transaction that has it; raises `keyrack.Deadlock` if that one waits for this.
    ///
    /// There is no timeout, and a signal does not end the wait. Two transactions of one thread that
    /// want the same key wait forever.
    ///
    /// >>> db[b"seats"] = b"7"
    /// >>> with db.transaction() as tx:
    /// ...     seats = int(tx.get_for_update(b"seats"))
    /// ...     tx[b"seats"] = str(seats - 1).encode()
    /// >>> db[b"seats"]
    /// b'6'
    fn get_for_update<'py>(
        this: PyRef<'py, Self>,
        key: Bytes<'py>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (place, kept, key) = (place(&this), &this.kept, &*key);
        lent(this.py(), |visit| {
            let found = kept.with(|running| {
                on_either!(running, place, tx, space => Ok(tx.get_for_update(key)?), {
                    Ok(tx.get_for_update(space, key)?)
                })
            })?;
            found.iter().for_each(|value| visit(value));
            Ok::<_, Failure>(())
        })
    }

    /// Remembers this moment of the transaction, to return to. There may be several.
    ///
    /// >>> with db.transaction() as tx:
    /// ...     tx[b"a"] = b"1"
    /// ...     tx.save_point()
    /// ...     tx[b"b"] = b"2"
    /// ...     tx.roll_back_to_save_point()
    /// >>> list(db)
    /// [b'a']
    fn save_point(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| {
            self.kept.with(|running| {
                match running {
                    Running::Db(tx) => tx.save_point(),
                    Running::Spaces(tx) => tx.save_point(),
                }
                Ok(())
            })
        })?)
    }

    /// Forgets the writes since the last save point, and the save point.
    fn roll_back_to_save_point(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| {
            self.kept.with(|running| match running {
                Running::Db(tx) => Ok(tx.roll_back_to_save_point()?),
                Running::Spaces(tx) => Ok(tx.roll_back_to_save_point()?),
            })
        })?)
    }

    /// Forgets the last save point, and keeps the writes.
    fn release_save_point(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| {
            self.kept.with(|running| match running {
                Running::Db(tx) => Ok(tx.release_save_point()?),
                Running::Spaces(tx) => Ok(tx.release_save_point()?),
            })
        })?)
    }

    /// Writes everything, or nothing and raises `keyrack.Conflict`. The transaction has ended then.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| commit(self.kept.take()?))?)
    }

    /// Forgets the writes. The transaction has ended then. One that has ended stays as it is.
    fn roll_back(&self, py: Python<'_>) {
        py.detach(|| drop(self.kept.take()));
    }

    /// The transaction with the keys of a key space, for a store that has some.
    ///
    /// >>> users = spaces.space("users")
    /// >>> with spaces.transaction() as tx:
    /// ...     tx.space("users")[b"ada"] = b"36"
    /// >>> users[b"ada"]
    /// b'36'
    fn space(this: PyRef<'_, Self>, name: &str) -> PyResult<Py<Transaction>> {
        let source = this_source(&this);
        let place = this.py().detach(|| space_of(source, name))?;
        object(this.py(), place, Arc::clone(&this.kept))
    }
}
