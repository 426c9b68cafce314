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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

/// Held for reading while a listener is called.
static CALLS: RwLock<()> = RwLock::new(());

/// The interpreter is about to end. Checked under the lock, after whose release it may be set.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The program ends: no listener is called from now on.
#[pyfunction]
pub(crate) fn _ending(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    // In a child of a fork the lock may be held by threads that are not there.
    if forks() == 0 {
        py.detach(|| drop(CALLS.write()));
    }
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
        // Whoever has it for writing ends the program.
        let Ok(_calling) = CALLS.try_read() else { return };
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
