//! What can go wrong with a backup.

use keyrack_vfs::{Operation, RelativePath};

/// The result of an operation on backups.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something that cannot be. Nothing was done.
    #[error("{0}")]
    Usage(String),
    /// The log cannot be shipped from a backup on: there is none of the store, or the log does not
    /// go back so far. Make a backup, and begin a new shipper.
    #[error("{0}")]
    BackupNeeded(String),
    /// The machine failed.
    #[error(transparent)]
    Io(#[from] keyrack_vfs::Error),
    /// The store or the repository does not hold what was written to it.
    #[error("{place}: {what}")]
    Corruption {
        /// Which file or object.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// Another process writes to it.
    #[error("{0}")]
    Locked(String),
    /// The store whose log is shipped or replayed failed.
    #[error(transparent)]
    Store(#[from] keyrack_store::Error),
    /// An object store refused or failed, or cannot be reached.
    #[error("{0}")]
    Remote(String),
}

impl Error {
    pub(crate) fn corruption(place: impl Into<String>, what: impl Into<String>) -> Self {
        Error::Corruption { place: place.into(), what: what.into() }
    }

    pub(crate) fn locked(place: impl std::fmt::Display) -> Self {
        let what = "is in use by another process; wait until that one is done";
        Error::Locked(format!("{place} {what}"))
    }

    /// Whether the error is of the one object that was read, and others may be read: it is damaged,
    /// of a later version, or what the disk or its permissions do not give.
    pub(crate) fn is_of_one_object(&self) -> bool {
        match self {
            Error::Corruption { .. } | Error::Usage(_) => true,
            Error::Io(error) => match error.operation() {
                Operation::Read => true,
                Operation::Open => !error.is_too_many_files(),
                _ => false,
            },
            Error::BackupNeeded(_) | Error::Locked(_) | Error::Remote(_) | Error::Store(_) => false,
        }
    }
}

/// A name that this crate composes.
///
/// # Panics
/// It is no path below a directory.
pub(crate) fn name(text: &str) -> RelativePath {
    RelativePath::new(text).expect("composed of names that were checked")
}
