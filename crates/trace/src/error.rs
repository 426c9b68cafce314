//! Why a trace cannot be read or written: one line that names the file and the place.

use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened, made or written.
    #[error(transparent)]
    File(#[from] keyrack_vfs::Error),
    /// The file cannot be read on, or is cut within a compressed frame.
    #[error("{}: cannot be read beyond byte {offset}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Bytes before the fault, after decompression.
        offset: u64,
        /// Why.
        cause: std::io::Error,
    },
    /// A line is not what its format says.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// Bytes are not what their format says.
    #[error("{}: at byte {offset}: {why}", path.display())]
    Bytes {
        /// The file.
        path: PathBuf,
        /// Where, after decompression.
        offset: u64,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// The file as a whole cannot be used.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why, and the remedy.
        why: String,
    },
}

/// What functions here return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn line(path: &Path, line: u64, why: impl Into<String>) -> Error {
        Error::Line { path: path.to_owned(), line, why: why.into() }
    }

    pub(crate) fn bytes(path: &Path, offset: u64, why: impl Into<String>) -> Error {
        Error::Bytes { path: path.to_owned(), offset, why: why.into() }
    }

    pub(crate) fn unusable(path: &Path, why: impl Into<String>) -> Error {
        Error::Unusable { path: path.to_owned(), why: why.into() }
    }
}
