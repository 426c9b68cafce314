//! Why a command ends early, and the exit status that tells it to a script.
//!
//! | kind | status |
//! |---|---|
//! | `Failed` | 1 |
//! | `Usage` | 2 |
//! | `Damaged` | 3 |
//! | `Interrupted` | 130 |

use crate::{COULD_NOT, DAMAGED, INTERRUPTED, NO};

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// The machine failed, or the answer is no.
    Failed(String),
    /// The command line, or what it names, is wrong.
    Usage(String),
    /// A file is damaged.
    Damaged(String),
    /// A signal came.
    Interrupted,
}

/// What a command returns: its exit status, or a failure.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Failure::Failed(_) => NO,
            Failure::Usage(_) => COULD_NOT,
            Failure::Damaged(_) => DAMAGED,
            Failure::Interrupted => INTERRUPTED,
        }
    }

    /// The message, without the program's name.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Failure::Failed(what) | Failure::Usage(what) | Failure::Damaged(what) => what,
            Failure::Interrupted => "interrupted",
        }
    }

    /// Writes the message to standard error and returns the exit status.
    #[must_use]
    pub fn explain(&self, program: &str) -> u8 {
        crate::refuse(program, self.message());
        self.status()
    }

    /// The same failure with a name in front of its message.
    #[must_use]
    pub fn named(self, name: &str) -> Failure {
        let named = |what: String| format!("{name}: {what}");
        match self {
            Failure::Failed(what) => Failure::Failed(named(what)),
            Failure::Usage(what) => Failure::Usage(named(what)),
            Failure::Damaged(what) => Failure::Damaged(named(what)),
            Failure::Interrupted => Failure::Interrupted,
        }
    }
}

impl From<keyrack_flodb::Error> for Failure {
    fn from(error: keyrack_flodb::Error) -> Self {
        let what = error.to_string();
        match error {
            keyrack_flodb::Error::Usage(_)
            | keyrack_flodb::Error::UnsupportedCompression { .. } => Failure::Usage(what),
            keyrack_flodb::Error::Corruption { .. } => Failure::Damaged(what),
            _ => Failure::Failed(what),
        }
    }
}

impl From<keyrack_backup::Error> for Failure {
    fn from(error: keyrack_backup::Error) -> Self {
        let what = error.to_string();
        match error {
            keyrack_backup::Error::Usage(_) | keyrack_backup::Error::BackupNeeded(_) => {
                Failure::Usage(what)
            }
            keyrack_backup::Error::Corruption { .. } => Failure::Damaged(what),
            _ => Failure::Failed(what),
        }
    }
}

impl From<keyrack_deltafs::Error> for Failure {
    fn from(error: keyrack_deltafs::Error) -> Self {
        use keyrack_deltafs::Error;
        let what = error.to_string();
        match error {
            Error::Usage(_) | Error::Invalid(_) => Failure::Usage(what),
            Error::Corruption { .. } => Failure::Damaged(what),
            Error::Store(error) => error.into(),
            _ => Failure::Failed(what),
        }
    }
}

impl From<keyrack_store::Error> for Failure {
    fn from(error: keyrack_store::Error) -> Self {
        let what = error.to_string();
        match error {
            keyrack_store::Error::Usage { .. } => Failure::Usage(what),
            keyrack_store::Error::Corruption { .. } => Failure::Damaged(what),
            _ => Failure::Failed(what),
        }
    }
}

/// A server that does not start: its store is damaged, or what it was told is wrong.
impl From<keyrack_server::Error> for Failure {
    fn from(error: keyrack_server::Error) -> Self {
        let what = error.to_string();
        match error {
            keyrack_server::Error::Store(keyrack_store::Error::Corruption { .. }) => {
                Failure::Damaged(what)
            }
            _ => Failure::Usage(what),
        }
    }
}

impl From<keyrack_vfs::Error> for Failure {
    fn from(error: keyrack_vfs::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}
