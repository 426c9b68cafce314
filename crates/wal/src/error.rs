//! The errors of a log, in the kinds of the store's contract.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of an operation of the log.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller passed an impossible argument.
    #[error("{0}")]
    Usage(String),
    /// The machine failed. The operation had no effect and may be retried.
    #[error(transparent)]
    Io(#[from] keyrack_vfs::Error),
    /// A file does not contain what was made durable in it.
    #[error("{}: byte {offset}: {what}", path.display())]
    Corruption {
        /// Which file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A sync failed, now or earlier. That is final: the records that it covered may be lost, and
    /// no later sync can tell. The log accepts no records and no syncs any more.
    #[error("the log accepts no more records: {0}")]
    Poisoned(Arc<keyrack_vfs::Error>),
    /// The thread that syncs the log did not start.
    #[error("cannot start the thread that syncs the log: {0}")]
    Thread(std::io::Error),
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Error::Usage(what.into())
    }

    pub(crate) fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }
}
