//! The change feed: committed batches from a position on, as they come.
//!
//! A wait gives the lock of the interpreter up. A write ends it at once; besides, it looks every
//! [`LOOK_EVERY`] for signals, and for the end of the store.

use crate::error::{Failure, Result};
use crate::expiry::{duration_of, seconds_of};
use crate::handle::{Handle, Kept, Opened};
use keyrack_flodb as flodb;
use keyrack_flodb::{BatchWrite, CommittedBatch, Db, Position, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Duration;

/// The longest part of a wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Makes a call on a store without key spaces. Not with the lock of the interpreter.
///
/// # Errors
/// A store with key spaces, which has no feed.
pub(crate) fn with_db<R>(handle: &Handle, call: impl FnOnce(&Db) -> Result<R>) -> Result<R> {
    handle.with(|opened| match opened {
        Opened::Db(db) => call(db),
        Opened::Spaces(..) => {
            let what = "a store with key spaces has no feed; keyrack.open makes one that has";
            Err(Failure::Usage(what.to_owned()))
        }
    })
}

/// An iterator over the changes of a store from a position on, which `Store.changes` gives.
///
/// It never waits: it ends when there is no more at present, and a later loop over it goes on with
/// what has come since. It shows puts, batches and transactions whole, each as one `Change`. It
/// keeps of the log what it has not read, so drop it when it is not needed.
///
/// >>> changes = db.changes(db.position())
/// >>> db[b"apple"] = b"red"
/// >>> changes.wait(60)
/// True
/// >>> [write for change in changes for write in change.writes]
/// [Write('put', b'apple', value=b'red')]
/// >>> list(changes)
/// []
#[pyclass(frozen, module = "keyrack")]
pub(crate) struct Changes {
    kept: Arc<Kept<flodb::Changes>>,
}

impl Changes {
    pub(crate) fn open(handle: &Arc<Handle>, position: u64, synced: bool) -> Result<Changes> {
        let changes = with_db(handle, |db| Ok(db.changes(Position::from(position))?))?;
        let changes = if synced { changes.synced() } else { changes };
        Ok(Changes { kept: Kept::new(handle, changes, "the feed has ended; begin another") })
    }
}

#[pymethods]
impl Changes {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Change>> {
        let next = py.detach(|| self.kept.with(|changes| Ok(changes.next().transpose()?)))?;
        Ok(next.map(|batch| Change { batch }))
    }

    /// Waits until there is a change, for `timeout` at most: seconds or a `timedelta`; without one,
    /// for ever. Says whether there is a change. A signal is handled meanwhile.
    ///
    /// >>> db.changes(db.position()).wait(0.01)
    /// False
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let mut left = timeout.map(|timeout| duration_of(timeout, "timeout")).transpose()?;
        loop {
            let part = left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY));
            if py.detach(|| self.kept.with(|changes| Ok(changes.wait(part)?)))? {
                return Ok(true);
            }
            py.check_signals()?;
            // A part without a change has passed as a whole.
            left = left.map(|left| left - part);
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// The position behind the last change that it gave; before that, where it began.
    ///
    /// >>> db.changes().position
    /// 0
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(py.detach(|| self.kept.with(|changes| Ok(changes.reached().into())))?)
    }

    fn __reduce__(&self) -> Result<()> {
        Err(Failure::Kind("a feed cannot be pickled; pickle its position".to_owned()))
    }
}

/// A batch of writes that a store has applied as one: a put, a batch or a transaction.
///
/// >>> with db.batch() as batch:
/// ...     batch[b"apple"] = b"red"
/// ...     batch.delete(b"pear")
/// >>> [change] = db.changes()
/// >>> change.writes
/// [Write('put', b'apple', value=b'red'), Write('delete', b'pear')]
/// >>> list(db.changes(change.position))
/// []
#[pyclass(frozen, module = "keyrack")]
pub(crate) struct Change {
    batch: CommittedBatch,
}

impl Change {
    /// Applies the same writes to another store. Not with the lock of the interpreter.
    pub(crate) fn apply(&self, handle: &Handle, sync: bool) -> Result<()> {
        with_db(handle, |db| Ok(db.write(self.batch.batch(), WriteOptions { sync })?))
    }
}

#[pymethods]
impl Change {
    /// Behind this change: `Store.changes` from there goes on with the next one.
    #[getter]
    fn position(&self) -> u64 {
        self.batch.position().into()
    }

    /// The writes, in the order in which they were applied.
    #[getter]
    fn writes(&self, py: Python<'_>) -> PyResult<Vec<Write>> {
        self.batch.writes().map(|write| Write::new(py, write)).collect()
    }

    /// Whether a program has added whole tables here. Their entries are not in the feed, so there
    /// are no writes: read the store.
    #[getter]
    fn is_ingestion(&self) -> bool {
        self.batch.is_ingestion()
    }

    /// A time before the change, by about a second as a rule, in seconds since 1970; `None` if the
    /// log has none.
    #[getter]
    fn time(&self) -> Option<f64> {
        self.batch.time().map(|mark| seconds_of(mark.unix_ms))
    }

    fn __repr__(&self) -> String {
        format!("<keyrack.Change of {} writes to {}>", self.batch.len(), self.batch.position())
    }
}

/// A write of a `Change`: its `kind` says which of the other fields there are, the others are
/// `None`.
///
/// | kind | fields |
/// |---|---|
/// | put | key, value, and until if the value expires |
/// | merge | key, and the operand as value |
/// | delete | key |
/// | delete_range | key, the first that goes, and stop, the first that stays |
///
/// >>> db.put(b"key", b"value", until=4102444800)
/// >>> [[write]] = [change.writes for change in db.changes()]
/// >>> write.kind, write.key, write.value, write.until
/// ('put', b'key', b'value', 4102444800.0)
#[pyclass(frozen, get_all, module = "keyrack")]
pub(crate) struct Write {
    /// What it does: "put", "merge", "delete" or "delete_range".
    kind: &'static str,
    /// The key.
    key: Py<PyBytes>,
    /// The value, or the operand.
    value: Option<Py<PyBytes>>,
    /// The first key that stays.
    stop: Option<Py<PyBytes>>,
    /// When the value expires, in seconds since 1970.
    until: Option<f64>,
}

impl Write {
    fn new(py: Python<'_>, write: BatchWrite<'_>) -> PyResult<Write> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
        let of = |kind, key: &[u8]| Write {
            kind,
            key: bytes(key),
            value: None,
            stop: None,
            until: None,
        };
        Ok(match write {
            BatchWrite::Put { key, value } => Write { value: Some(bytes(value)), ..of("put", key) },
            BatchWrite::PutUntil { key, value, expires_ms } => {
                let until = Some(seconds_of(expires_ms));
                Write { value: Some(bytes(value)), until, ..of("put", key) }
            }
            BatchWrite::Merge { key, operand } => {
                Write { value: Some(bytes(operand)), ..of("merge", key) }
            }
            BatchWrite::Delete { key } => of("delete", key),
            BatchWrite::DeleteRange { from, to } => {
                Write { stop: Some(bytes(to)), ..of("delete_range", from) }
            }
            _ => {
                let what = "the change has a write of a later kind; install a later package";
                return Err(Failure::Usage(what.to_owned()).into());
            }
        })
    }
}

#[pymethods]
impl Write {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = format!("Write('{}', {}", self.kind, self.key.bind(py).repr()?);
        for (name, bytes) in [("value", &self.value), ("stop", &self.stop)] {
            if let Some(bytes) = bytes {
                text += &format!(", {name}={}", bytes.bind(py).repr()?);
            }
        }
        if let Some(until) = self.until {
            text += &format!(", until={until}");
        }
        Ok(text + ")")
    }
}
