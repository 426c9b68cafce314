//! Reads without the lock of the interpreter that put what they find into an object of Python.
//!
//! ```text
//!   give the lock up --> find the value --> take the lock --> bytes object, the one copy
//!                             |
//!                             +--- not there, or a failure --> take the lock
//! ```
//!
//! A value is only lent while a read is under way, and its length is not known before. So the read
//! takes the lock back itself, once, in the middle. Two calls of [`Python::detach`] would take it
//! twice, and each time another thread may keep it for a whole switch interval.
#![expect(unsafe_code, reason = "the lock is taken back while the read still runs")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::Cell;

/// The lock of the interpreter, given up.
struct Released {
    /// Null once it is taken back.
    thread: Cell<*mut ffi::PyThreadState>,
}

impl Released {
    fn new(_attached: Python<'_>) -> Released {
        // SAFETY: the token shows that this thread has the lock.
        let thread = unsafe { ffi::PyEval_SaveThread() };
        Released { thread: Cell::new(thread) }
    }

    fn take_back(&self) {
        let thread = self.thread.replace(std::ptr::null_mut());
        if !thread.is_null() {
            // SAFETY: it is the state of this thread, which has given the lock up.
            unsafe { ffi::PyEval_RestoreThread(thread) };
        }
    }
}

impl Drop for Released {
    /// Also after a panic of the read.
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Runs `read` without the lock of the interpreter. It lends a value to what it is given, or does
/// not, and must use no object of Python. Gives the value, copied once.
///
/// # Errors
/// Those of `read`; there is no memory for the object.
pub(crate) fn lent<'py, E>(
    py: Python<'py>,
    read: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>,
) -> PyResult<Option<Bound<'py, PyBytes>>>
where
    PyErr: From<E>,
{
    let released = Released::new(py);
    let mut found = None;
    let outcome = read(&mut |value| {
        released.take_back();
        found = Some(PyBytes::new_with(py, value.len(), |to| {
            to.copy_from_slice(value);
            Ok(())
        }));
    });
    drop(released);
    outcome?;
    found.transpose()
}
