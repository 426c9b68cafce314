//! What can go wrong, in the kinds of the store's contract.

use crate::position::Position;
use std::fmt;
use std::path::PathBuf;

/// The result of an operation of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something that cannot be.
    Usage(String),
    /// The machine failed.
    Io(std::sync::Arc<keyrack_vfs::Error>),
    /// A file does not hold what was written to it.
    Corruption {
        /// Which file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file needs a codec that this build does not have: its feature is off. Nothing is damaged.
    UnsupportedCompression {
        /// Which file.
        path: PathBuf,
        /// The codec, which is the name of the feature: `lz4`, `snappy` or `zstd`.
        codec: &'static str,
    },
    /// An earlier failure was final: the store only reads since.
    Poisoned(String),
    /// The store was closed, by this handle or by another.
    Closed,
    /// The machine has no thread for the background.
    Thread(std::sync::Arc<std::io::Error>),
    /// The disk is full where tables are written. Reads go on; writes are taken again once a flush
    /// or compaction that is tried again has found space, or `Db::resume` has.
    NoSpace(std::sync::Arc<keyrack_vfs::Error>),
    /// A transaction cannot commit: what it has read, or under snapshot isolation written, was
    /// changed by somebody else after it began. Nothing was written. Run it again.
    Conflict {
        /// A key that was changed.
        key: Vec<u8>,
        /// The name of its key space, in a store that has some.
        space: Option<String>,
    },
    /// A transaction cannot lock a key: the one that has it waits for this one. Run it again.
    Deadlock {
        /// The key.
        key: Vec<u8>,
        /// The name of its key space, in a store that has some.
        space: Option<String>,
    },
    /// A feed asked for changes that the log does not keep any more. Copy the store, and go on from
    /// there; or begin at `first`, and do without what is before.
    NotKept {
        /// What was asked for.
        position: Position,
        /// The first position from which there are all changes.
        first: Position,
    },
    /// A feed asked for a position that the store does not have: a power loss took the changes up
    /// to there, or it is of another store.
    NotWritten {
        /// What was asked for.
        position: Position,
        /// The last position before it that the store has.
        end: Position,
    },
    /// Another process or another handle has the directory open.
    Locked(PathBuf),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(what) => f.write_str(what),
            Error::Io(error) => write!(f, "{error}"),
            Error::Corruption { path, offset, what } => {
                write!(f, "{}: byte {offset}: {what}", path.display())
            }
            Error::UnsupportedCompression { path, codec } => {
                let path = path.display();
                write!(
                    f,
                    "{path}: needs {codec} compression, which is not built in; build \
                     keyrack-flodb with the feature '{codec}'"
                )
            }
            Error::Poisoned(cause) => write!(f, "the store accepts no more writes: {cause}"),
            Error::Closed => f.write_str("the store accepts no more writes: it is closed"),
            Error::Thread(cause) => write!(f, "cannot start a background thread: {cause}"),
            Error::NoSpace(cause) => {
                write!(f, "no writes until there is space on the disk again: {cause}")
            }
            Error::Conflict { key, space } => write!(
                f,
                "somebody else has changed the key \"{}\"{} that the transaction depends on; run \
                 it again",
                key.escape_ascii(),
                of_space(space.as_deref())
            ),
            Error::Deadlock { key, space } => write!(
                f,
                "the transaction that has locked the key \"{}\"{} waits for this one; run this \
                 one again",
                key.escape_ascii(),
                of_space(space.as_deref())
            ),
            Error::NotKept { position, first } => write!(
                f,
                "the changes after position {position} are not kept any more; the first are those \
                 after position {first}: begin there with a new copy of the store"
            ),
            Error::NotWritten { position, end } => write!(
                f,
                "the store has no position {position}: a power loss took it, or it is of another \
                 store; the last one before it is {end}"
            ),
            Error::Locked(dir) => {
                let dir = dir.display();
                write!(
                    f,
                    "{dir} is in use by another process; close it, or choose another directory"
                )
            }
        }
    }
}

/// The messages are whole: no cause stands beside them.
impl std::error::Error for Error {}

/// The name of a key space in a message about one of its keys.
fn of_space(space: Option<&str>) -> String {
    space.map_or_else(String::new, |space| format!(" of the key space {space:?}"))
}

impl From<keyrack_vfs::Error> for Error {
    fn from(error: keyrack_vfs::Error) -> Self {
        Error::Io(std::sync::Arc::new(error))
    }
}

impl From<keyrack_wal::Error> for Error {
    fn from(error: keyrack_wal::Error) -> Self {
        match error {
            keyrack_wal::Error::Usage(what) => Error::Usage(what),
            keyrack_wal::Error::Io(error) => error.into(),
            keyrack_wal::Error::Corruption { path, offset, what } => {
                Error::Corruption { path, offset, what }
            }
            keyrack_wal::Error::Poisoned(cause) => Error::Poisoned(cause.to_string()),
            keyrack_wal::Error::NotKept { lsn, first } => {
                Error::NotKept { position: lsn.into(), first: first.into() }
            }
            keyrack_wal::Error::NotWritten { lsn, end } => {
                Error::NotWritten { position: lsn.into(), end: end.into() }
            }
            keyrack_wal::Error::Thread(cause) => Error::Thread(std::sync::Arc::new(cause)),
            error => Error::Poisoned(error.to_string()),
        }
    }
}

impl Error {
    /// Takes damage apart: where it is, and what is wrong. A place that the disk cannot read is
    /// damage as well.
    ///
    /// # Errors
    /// The error itself, if it is of another sort.
    pub(crate) fn into_damage(self) -> Result<(u64, String)> {
        match self {
            Error::Corruption { offset, what, .. } => Ok((offset, what)),
            Error::Io(error) if is_unreadable(&error) => Ok((0, error.to_string())),
            error => Err(error),
        }
    }

    /// This error as the reason for which there are no more writes; said once, however often it was
    /// passed on.
    pub(crate) fn into_final(self) -> Self {
        match self {
            Error::Poisoned(_) | Error::Closed => self,
            error => Error::Poisoned(error.to_string()),
        }
    }

    /// A corruption of the file at `path`.
    pub(crate) fn corruption(path: &std::path::Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }
}

/// Whether the disk said that it cannot read what it should have.
fn is_unreadable(error: &keyrack_vfs::Error) -> bool {
    error.operation() == keyrack_vfs::Operation::Read
        && error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::{Fs, MemFs};
    use std::path::Path;
    use std::sync::Arc;

    /// "the store accepts no more writes: the store accepts no more writes: ...".
    #[test]
    fn poisoned_is_not_nested_in_itself() {
        let cause = Arc::new(MemFs::new().read(Path::new("/gone")).unwrap_err());
        let told = format!("the store accepts no more writes: {cause}");
        let once = Error::from(keyrack_wal::Error::Poisoned(cause));
        assert_eq!(once.to_string(), told);
        assert_eq!(once.clone().into_final().into_final().to_string(), told);
        let usage = Error::Usage("no".to_owned()).into_final();
        assert_eq!(usage.to_string(), "the store accepts no more writes: no");
    }

    #[test]
    fn a_conflict_names_its_key_and_what_to_do() {
        let key = b"a\n".to_vec();
        let conflict = Error::Conflict { key: key.clone(), space: None };
        let told = r#"somebody else has changed the key "a\n" that the transaction depends on"#;
        assert_eq!(conflict.to_string(), format!("{told}; run it again"));
        let deadlock = Error::Deadlock { key, space: Some("users".to_owned()) };
        let told = r#"has locked the key "a\n" of the key space "users" waits for this one"#;
        assert!(deadlock.to_string().contains(told), "{deadlock}");
    }

    #[test]
    fn closing_and_a_thread_that_does_not_start_are_kinds_of_their_own() {
        assert!(matches!(Error::Closed.into_final(), Error::Closed));
        let cause = std::io::Error::from_raw_os_error(11);
        let told = format!("cannot start a background thread: {cause}");
        let thread = Error::from(keyrack_wal::Error::Thread(cause));
        assert_eq!(thread.to_string(), told);
        assert!(matches!(thread, Error::Thread(_)));
    }
}
