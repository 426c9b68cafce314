//! Arguments that are bytes: objects of bytes as they lie, others that show their memory copied.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};
use std::ops::Deref;

/// A key or a value that was passed.
pub(crate) enum Bytes<'py> {
    /// They never change, so that other threads may run while they are read.
    Lent(Bound<'py, PyBytes>),
    /// Those of an object that others may change meanwhile.
    Copied(Bound<'py, PyBytes>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Lent(bytes) | Bytes::Copied(bytes) => bytes.as_bytes(),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Bytes::Lent(bytes.to_owned()));
        }
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "keys and values are bytes, not str: write b\"...\", or \"...\".encode()",
            ));
        }
        let kind = object.get_type();
        let view = PyMemoryView::from(&object).map_err(|_| {
            let name = kind.name().map(|name| name.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!(
                "keys and values are bytes-like objects, not {name}: encode it to bytes"
            ))
        })?;
        Ok(Bytes::Copied(view.call_method0("tobytes")?.cast_into::<PyBytes>()?))
    }
}
