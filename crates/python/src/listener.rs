//! Listeners: a function of Python that hears what a store does in the background.
//!
//! The thread of the store that tells takes the lock of the interpreter for each event. A thread
//! that wants this lock while the interpreter ends never gets it, and a close would wait for the
//! thread. So [`_ending`], which Python calls before that, waits for the calls that run, and no
//! later event is told.

use crate::error::Failure;
use crate::handle::forks;
use keyrack_flodb::{Event, EventField, EventListener};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// How many calls of listeners run, below the number of forks when the last of them began: those
/// from before a fork run in the parent alone.
static CALLS: AtomicU64 = AtomicU64::new(0);

const COUNT_BITS: u32 = 32;

/// A call of a listener, while it runs.
struct Call {
    forks: u64,
}

impl Call {
    fn begin() -> Call {
        let forks = forks();
        let one_more = |calls| Some((forks << COUNT_BITS) + running(calls, forks) + 1);
        // It never fails, as there is always a next value.
        let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        Call { forks }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let one_less = |calls| (running(calls, self.forks) > 0).then(|| calls - 1);
        // In a child that the listener has forked it is not counted.
        let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}

/// How many of the calls are of a process that came out of so many forks.
fn running(calls: u64, forks: u64) -> u64 {
    if calls >> COUNT_BITS == forks { calls & ((1 << COUNT_BITS) - 1) } else { 0 }
}

/// The interpreter is about to end. Whoever calls a listener counts the call before it looks here.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The program ends: no listener is called from now on.
#[pyfunction]
pub(crate) fn _ending(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        while running(CALLS.load(Ordering::SeqCst), forks()) > 0 {
            thread::yield_now();
        }
    });
}

struct Listener(Py<PyAny>);

/// The listener that calls `function`.
///
/// # Errors
/// A `TypeError`, if it cannot be called.
pub(crate) fn listener(function: &Bound<'_, PyAny>) -> PyResult<Arc<dyn EventListener>> {
    if !function.is_callable() {
        return Err(Failure::Kind("listener must be callable".to_owned()).into());
    }
    Ok(Arc::new(Listener(function.clone().unbind())))
}

impl EventListener for Listener {
    fn event(&self, event: &Event) {
        let _call = Call::begin();
        if IS_ENDING.load(Ordering::SeqCst) {
            return;
        }
        Python::attach(|py| {
            let function = self.0.bind(py);
            let told = dict(py, event).and_then(|event| function.call1((event,)));
            if let Err(error) = told {
                error.write_unraisable(py, Some(function));
            }
        });
    }
}

/// The fields of an event by their names, and its own name as `event`.
fn dict<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("event", event.name())?;
    let mut failure = Ok(());
    event.visit(&mut |name, field| {
        let set = match field {
            EventField::Number(number) => fields.set_item(name, number),
            EventField::Numbers(numbers) => fields.set_item(name, numbers.to_vec()),
            EventField::Text(text) => fields.set_item(name, text),
            // There are no others in this version of the store.
            _ => Ok(()),
        };
        if failure.is_ok() {
            failure = set;
        }
    });
    failure.map(|()| fields)
}
