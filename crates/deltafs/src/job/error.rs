//! What can go wrong among the ranks of a job.

use std::io;
use std::sync::Arc;

/// The result of a call among ranks.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a job cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job is described wrongly.
    #[error("{0}")]
    Usage(String),
    /// A rank has ended, or cannot be reached any more.
    #[error("rank {rank} is gone: {why}; start the job again")]
    Lost {
        /// Which one.
        rank: u32,
        /// What showed it.
        why: String,
    },
    /// A rank has given up.
    #[error("rank {rank} gave up: {why}")]
    Aborted {
        /// Which one.
        rank: u32,
        /// In its words.
        why: String,
    },
    /// Ranks that did not come in time.
    #[error("{ranks} of the job did not come within {seconds} s; start all ranks of the job")]
    Missing {
        /// Which ones, in words.
        ranks: String,
        /// How long was waited.
        seconds: u64,
    },
    /// A rank does something else than this one.
    #[error("rank {rank} is at another step of the job; are all ranks called with the same flags?")]
    Protocol {
        /// Which one.
        rank: u32,
    },
    /// The launcher cannot be spoken to.
    #[error("the launcher: {0}")]
    Pmi(String),
    /// The machine failed.
    #[error("cannot {what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: Arc<io::Error>,
    },
}

impl Error {
    /// An error of the machine, for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |cause| Error::Io { what, cause: Arc::new(cause) }
    }
}
