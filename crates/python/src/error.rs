//! Failures on their way to Python: each kind is a class of `keyrack`, all of them below
//! `keyrack.Error`.

use keyrack_flodb::Error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The module with the classes of exceptions. They are written in Python.
const ERRORS: &str = "keyrack._errors";

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store failed, or refused.
    Store(Error),
    /// A backup failed, or was refused.
    Backup(keyrack_backup::Error),
    /// A name space failed, or refused.
    Files(keyrack_deltafs::Error),
    /// What the call is for was closed, committed or released. Says what it was, and what to do.
    Closed(String),
    /// The call cannot be.
    Usage(String),
    /// The call does not fit the object.
    Kind(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Closed => Failure::Closed("the store is closed; open it again".to_owned()),
            error => Failure::Store(error),
        }
    }
}

impl From<keyrack_backup::Error> for Failure {
    fn from(error: keyrack_backup::Error) -> Self {
        Failure::Backup(error)
    }
}

impl From<keyrack_deltafs::Error> for Failure {
    fn from(error: keyrack_deltafs::Error) -> Self {
        Failure::Files(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| raised(py, failure).unwrap_or_else(|error| error))
    }
}

fn raised(py: Python<'_>, failure: Failure) -> PyResult<PyErr> {
    let (class, text) = match &failure {
        Failure::Kind(text) => return Ok(PyTypeError::new_err(text.clone())),
        Failure::Closed(text) => ("Closed", text.clone()),
        Failure::Usage(text) => ("Usage", text.clone()),
        Failure::Store(error) => (class_of(error), error.to_string()),
        Failure::Backup(error) => {
            let class = match error {
                keyrack_backup::Error::Usage(_) => "Usage",
                keyrack_backup::Error::Corruption { .. } => "Corruption",
                keyrack_backup::Error::Locked(_) => "Locked",
                _ => "Io",
            };
            (class, error.to_string())
        }
        Failure::Files(error) => {
            let made = py.import(ERRORS)?.getattr("of_errno")?;
            let made = made.call1((error.errno_number(), error.to_string()))?;
            return Ok(PyErr::from_value(made));
        }
    };
    let made = py.import(ERRORS)?.getattr(class)?.call1((text,))?;
    match &failure {
        Failure::Store(Error::Conflict { key, space } | Error::Deadlock { key, space }) => {
            made.setattr("key", PyBytes::new(py, key))?;
            made.setattr("space", space.as_deref())?;
        }
        Failure::Store(Error::NotKept { position, first }) => {
            made.setattr("position", u64::from(*position))?;
            made.setattr("first", u64::from(*first))?;
        }
        Failure::Store(Error::NotWritten { position, end }) => {
            made.setattr("position", u64::from(*position))?;
            made.setattr("end", u64::from(*end))?;
        }
        Failure::Store(Error::Corruption { path, offset, .. }) => {
            made.setattr("path", path.display().to_string())?;
            made.setattr("offset", *offset)?;
        }
        _ => {}
    }
    Ok(PyErr::from_value(made))
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Usage(_) => "Usage",
        Error::Corruption { .. } => "Corruption",
        Error::UnsupportedCompression { .. } => "UnsupportedCompression",
        Error::Poisoned(_) => "Poisoned",
        Error::Closed => "Closed",
        Error::NoSpace(_) => "NoSpace",
        Error::Conflict { .. } => "Conflict",
        Error::Deadlock { .. } => "Deadlock",
        Error::Locked(_) => "Locked",
        Error::NotKept { .. } => "NotKept",
        Error::NotWritten { .. } => "NotWritten",
        // The disk, and threads that do not start.
        _ => "Io",
    }
}

/// Whether an exception says that a transaction has to run again.
pub(crate) fn is_to_retry(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let errors = py.import(ERRORS)?;
    let (conflict, deadlock) = (errors.getattr("Conflict")?, errors.getattr("Deadlock")?);
    Ok(error.is_instance(py, &conflict) || error.is_instance(py, &deadlock))
}
