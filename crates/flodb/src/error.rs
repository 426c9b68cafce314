//! What can go wrong, in the four kinds of the store's contract.

use std::path::PathBuf;

/// The result of an operation of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// The machine failed.
    #[error(transparent)]
    Io(std::sync::Arc<keyrack_vfs::Error>),
    /// A file does not hold what was written to it.
    #[error("{}: byte {offset}: {what}", path.display())]
    Corruption {
        /// Which file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// An earlier failure was final: the store only reads since.
    #[error("the store accepts no more writes: {0}")]
    Poisoned(String),
    /// Another process or another handle has the directory open.
    #[error("{} is in use by another process; close it, or choose another directory", .0.display())]
    Locked(PathBuf),
}

impl From<keyrack_vfs::Error> for Error {
    fn from(error: keyrack_vfs::Error) -> Self {
        Error::Io(std::sync::Arc::new(error))
    }
}

impl From<keyrack_wal::Error> for Error {
    fn from(error: keyrack_wal::Error) -> Self {
        match error {
            keyrack_wal::Error::Usage(what) => Error::Usage(what),
            keyrack_wal::Error::Io(error) => error.into(),
            keyrack_wal::Error::Corruption { path, offset, what } => {
                Error::Corruption { path, offset, what }
            }
            error => Error::Poisoned(error.to_string()),
        }
    }
}

impl Error {
    /// A corruption of the file at `path`.
    pub(crate) fn corruption(path: &std::path::Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }
}
