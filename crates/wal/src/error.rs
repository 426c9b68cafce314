//! The errors of a log, in the kinds of the store's contract.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of an operation of the log.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller passed an impossible argument.
    Usage(String),
    /// The machine failed. The operation had no effect and may be retried.
    Io(keyrack_vfs::Error),
    /// A file does not contain what was made durable in it.
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
    Poisoned(Arc<keyrack_vfs::Error>),
    /// A tail asked for records that the log does not keep any more.
    NotKept {
        /// The LSN that was asked for.
        lsn: u64,
        /// The first one that can be had.
        first: u64,
    },
    /// A tail asked for an LSN at which no record of the log begins or ends: it lies above the end,
    /// within a record, or where a power loss took the records.
    NotWritten {
        /// The LSN that was asked for.
        lsn: u64,
        /// The end of the records before it.
        end: u64,
    },
    /// The thread that syncs the log did not start.
    Thread(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(what) => f.write_str(what),
            Error::Io(error) => write!(f, "{error}"),
            Error::Corruption { path, offset, what } => {
                write!(f, "{}: byte {offset}: {what}", path.display())
            }
            Error::Poisoned(cause) => write!(f, "the log accepts no more records: {cause}"),
            Error::NotKept { lsn, first } => {
                write!(f, "the log is not kept from LSN {lsn} on; the first is {first}")
            }
            Error::NotWritten { lsn, end } => {
                write!(
                    f,
                    "the log has no record that ends at LSN {lsn}; the one before ends at {end}"
                )
            }
            Error::Thread(cause) => {
                write!(f, "cannot start the thread that syncs the log: {cause}")
            }
        }
    }
}

/// The messages are whole: no cause stands beside them.
impl std::error::Error for Error {}

impl From<keyrack_vfs::Error> for Error {
    fn from(error: keyrack_vfs::Error) -> Self {
        Error::Io(error)
    }
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Error::Usage(what.into())
    }

    pub(crate) fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }
}
