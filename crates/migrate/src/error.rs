//! Why a move ends early.

use std::io;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address, an option, or a combination of them that cannot work.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] keyrack_vfs::Error),
    /// A server cannot be reached.
    #[error(transparent)]
    Net(#[from] keyrack_net::Error),
    /// Reading or writing failed.
    #[error("{name}: {cause}")]
    Io {
        /// The file or the server.
        name: String,
        /// The kernel's error, or the connection's.
        cause: io::Error,
    },
    /// Bytes that are not what the format says.
    #[error("{name} is damaged at byte {offset}: {what}")]
    Damage {
        /// The file, or the server that sent it.
        name: String,
        /// Bytes before the damage.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A server refuses, or answers what it should not.
    #[error("{name}: {what}")]
    Server {
        /// The server.
        name: String,
        /// Its error, or what was wrong with its reply.
        what: String,
    },
    /// The destination has a key of the source, and the option says that this ends the import.
    #[error("the destination has the key {0} already")]
    Conflict(String),
    /// The caller asked for an early end.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Error::Usage(what.into())
    }

    pub(crate) fn server(name: &str, what: impl Into<String>) -> Self {
        Error::Server { name: name.to_owned(), what: what.into() }
    }

    pub(crate) fn io(name: &str, cause: io::Error) -> Self {
        Error::Io { name: name.to_owned(), cause }
    }

    /// Whether a connection had nothing to read in its time.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if cause.kind() == io::ErrorKind::TimedOut)
    }
}
