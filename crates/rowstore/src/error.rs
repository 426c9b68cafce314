//! Converts errors of files and logs into those of the store's contract.
//!
//! This crate has no error type of its own: [`Rows`](crate::Rows) returns
//! [`keyrack_store::Error`]. The conversions need a type of this crate, because both sides belong
//! to other crates.

use crate::{Eviction, Options};
use keyrack_store::Error;

/// A [`keyrack_store::Error`] for which this crate can implement conversions.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl From<keyrack_vfs::Error> for Failure {
    fn from(error: keyrack_vfs::Error) -> Self {
        Failure(of_files(&error))
    }
}

impl From<keyrack_wal::Error> for Failure {
    fn from(error: keyrack_wal::Error) -> Self {
        Failure(of_log(error))
    }
}

/// The error of a write that does not fit into `memory_max`.
#[cold]
pub(crate) fn out_of_memory(options: &Options) -> Error {
    let remedy = match options.eviction {
        Eviction::None => "raise it, remove rows, or choose the eviction clock",
        // Only a row that alone exceeds the limit is refused.
        Eviction::Clock => "raise it",
    };
    Error::out_of_memory(format!(
        "out of memory: memory-max of {} bytes is reached; {remedy}",
        options.memory_max
    ))
}

/// Converts the error of a file operation.
pub(crate) fn of_files(error: &keyrack_vfs::Error) -> Error {
    if error.is_locked() {
        return Error::usage(format!("the store is in use by another process: {error}"));
    }
    Error::io(error.attempt(), error.cause())
}

/// Converts the error of a log.
pub(crate) fn of_log(error: keyrack_wal::Error) -> Error {
    match error {
        keyrack_wal::Error::Usage(message) => Error::usage(message),
        keyrack_wal::Error::Io(error) => of_files(&error),
        keyrack_wal::Error::Corruption { path, offset, what } => {
            Error::corruption(&path, offset, what)
        }
        keyrack_wal::Error::Poisoned(cause) => Error::poisoned(cause.to_string()),
        keyrack_wal::Error::Thread(error) => Error::io("starting a thread", error),
        other => Error::io("the log", std::io::Error::other(other.to_string())),
    }
}
