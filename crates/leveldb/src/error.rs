//! What can go wrong, and what was left out.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of reading.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a directory could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no store of LevelDB, or not one that can be read here.
    #[error("{0}")]
    Usage(String),
    /// The machine failed.
    #[error(transparent)]
    Io(#[from] keyrack_vfs::Error),
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
}

impl Error {
    pub(crate) fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }
}

/// A part of a file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// How many bytes there; 0 where the bytes themselves are missing.
    pub bytes: u64,
    /// Why.
    pub what: String,
    /// Whether it is the end of a file that was cut while it was written, as a power loss leaves
    /// it: what is missing was never made durable.
    pub is_cut_tail: bool,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { path, offset, bytes, what, .. } = self;
        write!(f, "{}: byte {offset}: {what} ({bytes} bytes left out)", path.display())
    }
}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Error::Corruption { path: lost.path, offset: lost.offset, what: lost.what }
    }
}
