//! Errors while a server starts or a client connects. An event on one connection of a running
//! server is not an error: it is counted ([`crate::CloseReason`]).

use std::io;
use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that cannot be read, or an option that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A name that has no address.
    #[error("no address for {name}: {cause}")]
    Resolve {
        /// The host and port that were looked up.
        name: String,
        /// The resolver's error.
        cause: io::Error,
    },
    /// An endpoint that cannot be bound or connected to.
    #[error("cannot {action} {endpoint}: {cause}")]
    Endpoint {
        /// `listen on` or `connect to`.
        action: &'static str,
        /// The endpoint as it was written.
        endpoint: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The path of a Unix socket is taken by something that is no abandoned socket.
    #[error("cannot listen on unix:{}: {reason}", path.display())]
    PathTaken {
        /// The path.
        path: PathBuf,
        /// By what.
        reason: &'static str,
    },
    /// A file of certificates or keys cannot be read.
    #[error(transparent)]
    File(#[from] keyrack_vfs::Error),
    /// Certificates or keys that do not serve.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// Something of the machine that a loop needs: its poll, its thread.
    #[error("cannot {action}: {cause}")]
    Machine {
        /// The attempted action.
        action: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// Loops that ended because the service panicked.
    #[error("{count} event loops ended by a panic")]
    Panicked {
        /// How many.
        count: usize,
    },
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Error::Usage(what.into())
    }

    pub(crate) fn machine(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Error::Machine { action, cause }
    }
}
