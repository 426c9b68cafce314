//! The kinds of failure, kept apart because the remedy differs: the caller corrects the call or
//! makes room, the operator mends the machine, the data is repaired or restored, the store is
//! opened again.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of every operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a store failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller's mistake: a key too long, an option that does not parse. Nothing was done.
    Usage {
        /// What is wrong and what would be right.
        message: String,
    },
    /// The memory that the store may use is full, and nothing may be evicted. Nothing was done.
    /// Reads and removals go on; a write fits again after removals, or with a higher limit.
    OutOfMemory {
        /// Which limit is reached, its value and the remedy.
        message: String,
    },
    /// The machine refused: disk full, permission, a device error.
    Io {
        /// What was attempted, with the path where there is one.
        action: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// Stored bytes are not what was written.
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What was expected and what was found.
        detail: String,
    },
    /// A sync failed earlier, or something else that is final. The kernel may have dropped the
    /// pages, so no later success proves anything: the store refuses writes until it is opened
    /// again.
    Poisoned {
        /// The failure that poisoned the store, without these words around it.
        cause: String,
    },
    /// The store was closed while somebody used it.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage { message } | Error::OutOfMemory { message } => f.write_str(message),
            Error::Io { action, source } => write!(f, "{action}: {source}"),
            Error::Corruption { path, offset, detail } => {
                write!(f, "{}: corrupt at offset {offset}: {detail}", path.display())
            }
            Error::Poisoned { cause } => write!(f, "the store accepts no more writes: {cause}"),
            Error::Closed => f.write_str("the store is closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// A mistake of the caller.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Error::Usage { message: message.into() }
    }

    /// A refusal at a limit of memory.
    #[must_use]
    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Error::OutOfMemory { message: message.into() }
    }

    /// A refusal of the machine while doing `action`.
    #[must_use]
    pub fn io(action: impl Into<String>, source: std::io::Error) -> Self {
        Error::Io { action: action.into(), source }
    }

    /// Damage in `path` at `offset`.
    #[must_use]
    pub fn corruption(path: &Path, offset: u64, detail: impl Into<String>) -> Self {
        Error::Corruption { path: path.to_owned(), offset, detail: detail.into() }
    }

    /// The refusal of a store after a failed sync.
    #[must_use]
    pub fn poisoned(cause: impl Into<String>) -> Self {
        Error::Poisoned { cause: cause.into() }
    }

    /// Whether the disk (or a quota) is full: the one machine failure that a run ends on cleanly.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::Io { source, .. } if matches!(
            source.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        ))
    }
}
