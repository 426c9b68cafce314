//! What can keep a run from starting, or from having been one.

use std::io;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings that are wrong, or contradict each other.
    #[error("{0}")]
    Usage(String),
    /// Keys, sizes or arrivals that cannot be.
    #[error(transparent)]
    Workload(#[from] keyrack_workload::Error),
    /// An endpoint, or certificates.
    #[error(transparent)]
    Net(#[from] keyrack_net::Error),
    /// A file.
    #[error(transparent)]
    File(#[from] keyrack_vfs::Error),
    /// A server that does not let us begin.
    #[error("{server}: {cause}")]
    Server {
        /// As it was written.
        server: String,
        /// What happened.
        cause: io::Error,
    },
    /// Agents that do not do their part.
    #[error(transparent)]
    Agents(#[from] crate::agents::Error),
    /// A trace.
    #[error(transparent)]
    Trace(#[from] crate::trace::Error),
    /// Something of the machine.
    #[error("cannot {action}: {cause}")]
    Machine {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl Error {
    pub(crate) fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }

    pub(crate) fn machine(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Machine { action, cause }
    }
}
