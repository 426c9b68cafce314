//! What a call over the network can come to, and how it is written on the wire.

use std::io;
use std::sync::Arc;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused it, with the name of an error number and its words.
    #[error("{text}")]
    Refused {
        /// Such as `ENOENT`.
        errno: &'static str,
        /// For people.
        text: String,
    },
    /// The server cannot be reached, or stopped answering.
    #[error("{peer}: {what}: {cause}")]
    Peer {
        /// Which server.
        peer: String,
        /// What was under way.
        what: String,
        /// Why it failed.
        cause: Arc<io::Error>,
    },
    /// The server says something that is no answer.
    #[error("{peer}: its answer to {what} makes no sense; is it a server of keyrack fs?")]
    Protocol {
        /// Which server.
        peer: String,
        /// What was asked.
        what: String,
    },
    /// The caller asked for something that cannot be sent.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The name of the error number.
    #[must_use]
    pub fn errno(&self) -> &'static str {
        match self {
            Error::Refused { errno, .. } => errno,
            Error::Usage(_) => "EINVAL",
            Error::Peer { .. } | Error::Protocol { .. } => "EIO",
        }
    }
}

/// Codes of replies. The place in the list is the code; new ones are added at the end.
const ERRNOS: [&str; 22] = [
    "OK",
    "EIO",
    "ENOENT",
    "EEXIST",
    "ENOTDIR",
    "EISDIR",
    "ENOTEMPTY",
    "EACCES",
    "EPERM",
    "EROFS",
    "ENAMETOOLONG",
    "EINVAL",
    "ELOOP",
    "EFBIG",
    "ENODATA",
    "ESTALE",
    "EBUSY",
    "EXDEV",
    "EPROTO",
    "EMFILE",
    "ENOTCONN",
    "EMSGSIZE",
];

/// The code of an error number by name.
pub(super) fn code_of(errno: &str) -> u8 {
    let place = ERRNOS.iter().position(|name| *name == errno);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(1)
}

/// The name of an error number by code.
pub(super) fn errno_of(code: u8) -> &'static str {
    ERRNOS.get(usize::from(code)).copied().unwrap_or("EIO")
}
