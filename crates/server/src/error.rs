//! Errors before and while the server runs. The client of a failed request gets an error in its own
//! protocol.

/// Why a server does not start, or ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or a configuration that is not right. Nothing was started.
    #[error("{0}")]
    Usage(String),
    /// A listener, a connection or a loop.
    #[error("network: {0}")]
    Net(#[from] keyrack_net::Error),
    /// The rows.
    #[error("store: {0}")]
    Store(#[from] keyrack_store::Error),
    /// A file that the options name.
    #[error("{0}")]
    File(#[from] keyrack_vfs::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

impl Error {
    /// A mistake of the caller.
    pub fn usage(message: impl Into<String>) -> Self {
        Error::Usage(message.into())
    }
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
