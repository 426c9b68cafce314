//! Errors of calls over the network, as a client sees them.

use super::errno::{name_of, number_of};
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
    /// Another server has the name: this is how far its directory has split.
    #[error("another server has the name")]
    Elsewhere {
        /// The directory.
        dir: u128,
        /// Its partitions, as far as the server knows.
        map: crate::partition::SplitMap,
    },
    /// Creates that were sent behind have failed; the call that says so was not carried out.
    #[error("{}", behind(failed))]
    WriteBehind {
        /// Paths, and why.
        failed: Vec<(Vec<u8>, &'static str)>,
    },
    /// The caller asked for something that cannot be sent.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The name of an error number by its code, as batches have them; `OK` for 0.
    #[must_use]
    pub fn errno_of(code: u8) -> &'static str {
        name_of(code)
    }

    /// What the name space of this process says.
    pub(crate) fn from_store(error: crate::error::Error) -> Error {
        Error::Refused { errno: error.errno(), text: error.to_string() }
    }

    /// The name of the error number.
    #[must_use]
    pub fn errno(&self) -> &'static str {
        match self {
            Error::Refused { errno, .. } => errno,
            Error::Usage(_) => "EINVAL",
            Error::Elsewhere { .. } => "EREMOTE",
            Error::WriteBehind { failed } => failed.first().map_or("EIO", |first| first.1),
            Error::Peer { .. } | Error::Protocol { .. } => "EIO",
        }
    }

    /// The error number of this machine that [`Error::errno`] names.
    #[must_use]
    pub fn errno_number(&self) -> i32 {
        number_of(self.errno())
    }
}

/// Paths of a message, at most.
const SHOWN_MAX: usize = 3;

fn behind(failed: &[(Vec<u8>, &'static str)]) -> String {
    let shown = failed.iter().take(SHOWN_MAX);
    let shown: Vec<String> =
        shown.map(|(path, errno)| format!("{}: {errno}", path.escape_ascii())).collect();
    let more = match failed.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("earlier creates failed: {}{more}", shown.join(", "))
}
