//! Keys and values that can be changed, each change one step: key spaces, and the base of stores.

use crate::bytes::Bytes;
use crate::error::Result;
use crate::expiry::{Ttl, Until, seconds_of};
use crate::handle::Place;
use crate::source::Source;
use crate::view::{View, bounds_of_slice, missing};
use crate::writes::removal;
use keyrack_flodb::{Change, Expiry, WriteOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyTuple};

/// Keys and values of their own, in the order of the keys: those of a store, or of one of its key
/// spaces.
///
/// Each call is one step, whatever other threads do. `sync=True` makes a write, and all before it,
/// survive a power loss.
#[pyclass(frozen, subclass, extends = View, module = "keyrack")]
pub(crate) struct KeySpace;

impl KeySpace {
    pub(crate) fn of(place: Place) -> PyClassInitializer<KeySpace> {
        PyClassInitializer::from(View { source: Source::Now(place) }).add_subclass(KeySpace)
    }
}

fn place<'a>(this: &'a PyRef<'_, KeySpace>) -> &'a Place {
    this.as_super().source.place()
}

/// The pairs of a mapping, or of an iterable of pairs.
pub(crate) fn pairs_of<'py>(given: &Bound<'py, PyAny>) -> PyResult<Vec<(Bytes<'py>, Bytes<'py>)>> {
    let pairs = match given.hasattr("items")? {
        true => given.call_method0("items")?,
        false => given.clone(),
    };
    pairs.try_iter()?.map(|pair| pair?.extract()).collect()
}

/// What `pop` was given in place of a value that is not there.
pub(crate) fn default_of<'py>(
    default: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match default.len() {
        0 => Ok(None),
        1 => Ok(Some(default.get_item(0)?)),
        count => Err(PyTypeError::new_err(format!("pop takes one default (got {count})"))),
    }
}

#[pymethods]
impl KeySpace {
    /// Stores a value under a key.
    fn __setitem__(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
    ) -> PyResult<()> {
        let (place, key, value) = (place(&this), &*key, &*value);
        Ok(py.detach(|| place.put(key, value, WriteOptions::default()))?)
    }

    /// Removes a key, and raises `KeyError` if there is none; of a slice, all keys in it.
    fn __delitem__(this: PyRef<'_, Self>, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let place = place(&this);
        if let Ok(slice) = key.cast::<PySlice>() {
            let bounds = bounds_of_slice(slice)?;
            let (start, stop) = removal(&bounds)?;
            return Ok(py.detach(|| place.delete_range(start, stop))?);
        }
        let key: Bytes<'_> = key.extract()?;
        let bytes = &*key;
        match py.detach(|| remove(place, bytes))? {
            true => Ok(()),
            false => Err(missing(py, &key)),
        }
    }

    /// Stores a value under a key. After `ttl`, seconds or a `timedelta`, it is not there any more;
    /// `until` is such a moment in seconds since 1970. Without them the value stays.
    ///
    /// >>> db.put(b"key", b"value", sync=True)
    /// >>> db.put(b"session", b"ada", ttl=3600)
    /// >>> db[b"session"]
    /// b'ada'
    /// >>> db.put(b"gone", b"at once", ttl=0)
    /// >>> b"gone" in db
    /// False
    #[pyo3(signature = (key, value, *, ttl=None, until=None, sync=false))]
    fn put(
        this: PyRef<'_, Self>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        ttl: Option<Ttl>,
        until: Option<f64>,
        sync: bool,
    ) -> PyResult<()> {
        let (place, key, value) = (place(&this), &*key, &*value);
        let (until, options) = (Until::new(ttl, until)?, WriteOptions { sync });
        Ok(this.py().detach(|| match until {
            Some(until) => place.put_until(key, value, until, options),
            None => place.put(key, value, options),
        })?)
    }

    /// Gives the value of a key another time to live. `False` if the key is not there. Reads the
    /// value and writes it again, as one step.
    ///
    /// >>> db[b"key"] = b"value"
    /// >>> db.expire(b"key", 60)
    /// True
    /// >>> db.expire(b"missing", 60)
    /// False
    fn expire(this: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_>, ttl: Ttl) -> PyResult<bool> {
        let (place, key, ttl) = (place(&this), &*key, ttl.0);
        Ok(py.detach(|| place.expire(key, ttl))?)
    }

    /// Lets the value of a key stay, if it expires. Says whether it did.
    ///
    /// >>> db.put(b"key", b"value", ttl=60)
    /// >>> db.persist(b"key"), db.persist(b"key")
    /// (True, False)
    fn persist(this: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let (place, key) = (place(&this), &*key);
        Ok(py.detach(|| place.persist(key))?)
    }

    /// When the value of a key expires, in seconds since 1970; `None` if it stays. `KeyError` if
    /// the key is not there.
    ///
    /// >>> db.put(b"offer", b"half price", until=4102444800)
    /// >>> db.expiry(b"offer")
    /// 4102444800.0
    /// >>> db.persist(b"offer"), db.expiry(b"offer")
    /// (True, None)
    fn expiry(this: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_>) -> PyResult<Option<f64>> {
        let (place, bytes) = (place(&this), &*key);
        match py.detach(|| place.expiry(bytes))? {
            Some(Expiry::At(ms)) => Ok(Some(seconds_of(ms))),
            Some(Expiry::Never) => Ok(None),
            None => Err(missing(py, bytes)),
        }
    }

    /// Adds an operand to what a key has, without reading it, for a store that is opened with a
    /// `merge_operator`. The operator says what comes of it.
    ///
    /// >>> with keyrack.open(path, merge_operator="append:,") as names:
    /// ...     names.merge(b"guests", b"ada")
    /// ...     names.merge(b"guests", b"bob")
    /// ...     names[b"guests"]
    /// b'ada,bob'
    #[pyo3(signature = (key, operand, *, sync=false))]
    fn merge(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        sync: bool,
    ) -> PyResult<()> {
        let (place, key, operand) = (place(&this), &*key, &*operand);
        Ok(py.detach(|| place.merge(key, operand, WriteOptions { sync }))?)
    }

    /// Removes a key, whether it is there or not. `del` also reads it, to tell.
    ///
    /// >>> db.delete(b"missing")
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(this: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_>, sync: bool) -> PyResult<()> {
        let (place, key) = (place(&this), &*key);
        Ok(py.detach(|| place.delete(key, WriteOptions { sync }))?)
    }

    /// Removes the keys from `start` on and before `stop`, as `del db[start:stop]` does. Costs the
    /// same for any number of keys.
    ///
    /// >>> db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    /// >>> db.delete_range(b"a", b"c")
    /// >>> list(db)
    /// [b'c']
    fn delete_range(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        start: Bytes<'_>,
        stop: Bytes<'_>,
    ) -> PyResult<()> {
        let (place, start, stop) = (place(&this), &*start, &*stop);
        Ok(py.detach(|| place.delete_range(start, Some(stop)))?)
    }

    /// Removes all keys that are there.
    ///
    /// >>> db[b"key"] = b"value"
    /// >>> db.clear()
    /// >>> db.count()
    /// 0
    fn clear(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        let place = place(&this);
        Ok(py.detach(|| place.delete_range(&[], None))?)
    }

    /// Removes a key and gives its value, as one step. If there is none, gives the default, or
    /// raises `KeyError` without one.
    ///
    /// >>> db[b"key"] = b"value"
    /// >>> db.pop(b"key")
    /// b'value'
    /// >>> db.pop(b"key", None) is None
    /// True
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        this: PyRef<'_, Self>,
        py: Python<'py>,
        key: Bytes<'py>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let default = default_of(default)?;
        let (place, bytes) = (place(&this), &*key);
        let value = py.detach(|| -> Result<_> {
            let mut taken = None;
            place.change(bytes, WriteOptions::default(), |found| {
                taken = found.map(<[u8]>::to_vec);
                if found.is_some() { Change::Remove } else { Change::Keep }
            })?;
            Ok(taken)
        })?;
        let value = value.map(|value| PyBytes::new(py, &value).into_any());
        value.or(default).ok_or_else(|| missing(py, bytes))
    }

    /// The value of a key; if there is none, stores `default` and gives that, as one step.
    ///
    /// >>> db.setdefault(b"key", b"first")
    /// b'first'
    /// >>> db.setdefault(b"key", b"second")
    /// b'first'
    fn setdefault<'py>(
        this: PyRef<'_, Self>,
        py: Python<'py>,
        key: Bytes<'py>,
        default: Bytes<'py>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (place, key, value) = (place(&this), &*key, &*default);
        let found = py.detach(|| -> Result<_> {
            let mut there = None;
            place.change(key, WriteOptions::default(), |found| {
                there = found.map(<[u8]>::to_vec);
                if found.is_some() { Change::Keep } else { Change::Put(value.to_vec()) }
            })?;
            Ok(there)
        })?;
        Ok(PyBytes::new(py, found.as_deref().unwrap_or(value)))
    }

    /// Stores the pairs of a mapping, or of an iterable of pairs, as one batch.
    ///
    /// >>> db.update({b"a": b"1"})
    /// >>> db.update([(b"b", b"2")])
    /// >>> list(db)
    /// [b'a', b'b']
    #[pyo3(signature = (other, /))]
    fn update(this: PyRef<'_, Self>, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = pairs_of(other)?;
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
        let place = place(&this);
        Ok(py.detach(|| place.put_all(&pairs))?)
    }

    /// Stores `new` if the key has the value `expected`, and says whether it did. `None` stands for
    /// no value, on both sides.
    ///
    /// >>> db.compare_and_swap(b"lock", None, b"worker 7")
    /// True
    /// >>> db.compare_and_swap(b"lock", None, b"worker 8")
    /// False
    #[pyo3(signature = (key, expected, new, *, sync=false))]
    fn compare_and_swap(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_>,
        expected: Option<Bytes<'_>>,
        new: Option<Bytes<'_>>,
        sync: bool,
    ) -> PyResult<bool> {
        let (place, key) = (place(&this), &*key);
        let values = (expected.as_deref(), new.as_deref());
        Ok(py.detach(|| place.compare_and_swap(key, values, WriteOptions { sync }))?)
    }

    /// Adds to a counter, and gives what it was before. A counter is a value of 8 bytes, a signed
    /// number, little-endian; one that is not there is 0.
    ///
    /// >>> db.fetch_and_add(b"visits")
    /// 0
    /// >>> db.fetch_and_add(b"visits", 10)
    /// 1
    /// >>> int.from_bytes(db[b"visits"], "little", signed=True)
    /// 11
    #[pyo3(signature = (key, delta=1, *, sync=false))]
    fn fetch_and_add(
        this: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_>,
        delta: i64,
        sync: bool,
    ) -> PyResult<i64> {
        let (place, key) = (place(&this), &*key);
        Ok(py.detach(|| place.fetch_and_add(key, delta, WriteOptions { sync }))?)
    }

    /// The name of the key space; `None` of a store without key spaces.
    #[getter]
    fn name(this: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Option<String>> {
        let place = place(&this);
        Ok(py.detach(|| place.name())?)
    }
}

/// Removes a key, and says whether it was there.
fn remove(place: &Place, key: &[u8]) -> Result<bool> {
    let mut was_there = false;
    place.change(key, WriteOptions::default(), |found| {
        was_there = found.is_some();
        if was_there { Change::Remove } else { Change::Keep }
    })?;
    Ok(was_there)
}
