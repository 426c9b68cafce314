//! What can go wrong at the door, told with the path, the operation and the system's own reason.
//!
//! Every failure names the operation in words and the path it was about: `cannot open '/x/y': No
//! such file or directory`. The operating system's error is part of the message, so it is not
//! repeated as a `source`. Callers branch on the questions (`is_not_found`, `is_no_space`, ...),
//! never on the text.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The result of every operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// One kind of file system operation. It names the operation in errors and is what
/// [`FaultFs`](crate::FaultFs) counts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Opening or creating a file.
    Open,
    /// One read of bytes, possibly short.
    Read,
    /// One write of bytes, possibly short.
    Write,
    /// Cutting or extending a file.
    SetLen,
    /// Reserving space.
    Allocate,
    /// Syncing a file.
    Sync,
    /// Mapping a file into memory.
    Map,
    /// Syncing a range of a mapping.
    Flush,
    /// Asking for length, kind or time.
    Metadata,
    /// Creating a directory.
    CreateDir,
    /// Removing the name of a file.
    RemoveFile,
    /// Removing a directory.
    RemoveDir,
    /// Renaming.
    Rename,
    /// Adding a second name to a file.
    Link,
    /// Listing a directory.
    List,
    /// Syncing a directory.
    SyncDir,
    /// Taking a lock file.
    Lock,
    /// Asking for free space or the kind of file system.
    Space,
    /// Resolving a path.
    Canonicalize,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLen => "resize",
            Self::Allocate => "reserve space in",
            Self::Sync => "sync",
            Self::Map => "map",
            Self::Flush => "flush the mapping of",
            Self::Metadata => "inspect",
            Self::CreateDir => "create directory",
            Self::RemoveFile => "remove",
            Self::RemoveDir => "remove directory",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::List => "list",
            Self::SyncDir => "sync directory",
            Self::Lock => "lock",
            Self::Space => "measure the file system of",
            Self::Canonicalize => "resolve",
        })
    }
}

/// A failed file system operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused or failed the operation.
    Io {
        /// What was attempted.
        operation: Operation,
        /// The path that it was about, as the caller gave it.
        path: PathBuf,
        /// The second path of a rename or link.
        target: Option<PathBuf>,
        /// The system's reason.
        cause: io::Error,
    },
    /// Somebody else holds the lock file.
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, when it has left its number in the file.
        holder_pid: Option<u32>,
    },
    /// A range reaches beyond the end of the file or mapping.
    OutOfRange {
        /// What was attempted.
        operation: Operation,
        /// The file.
        path: PathBuf,
        /// First byte of the range.
        offset: u64,
        /// Bytes in the range.
        len: u64,
        /// Bytes that the file or mapping has.
        end: u64,
    },
    /// Cutting the file would leave a live mapping without bytes behind it.
    Mapped {
        /// The file.
        path: PathBuf,
        /// The length that was asked for, in bytes.
        len: u64,
        /// One past the last byte that a live mapping covers.
        mapped_end: u64,
    },
    /// The file ends before the bytes that were asked for.
    UnexpectedEnd {
        /// The file.
        path: PathBuf,
        /// First byte that was wanted.
        offset: u64,
        /// Bytes that were wanted.
        wanted: u64,
        /// Bytes that were there.
        found: u64,
    },
    /// The file is not text.
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Bytes before the first bad one.
        valid_up_to: usize,
    },
    /// The path cannot be used for this operation.
    BadPath {
        /// What was attempted.
        operation: Operation,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.attempt())?;
        match self {
            Self::Io { cause, .. } => write!(f, "{}", Reason(cause)),
            Self::Locked { holder_pid, .. } => write!(f, "held by {}", Holder(holder_pid)),
            Self::OutOfRange { offset, len, end, .. } => {
                write!(f, "{len} bytes at offset {offset} end beyond {end}")
            }
            Self::Mapped { mapped_end, .. } => write!(f, "mapped up to byte {mapped_end}"),
            Self::UnexpectedEnd { offset, wanted, found, .. } => {
                write!(f, "wanted {wanted} bytes at offset {offset}, found {found}")
            }
            Self::NotUtf8 { valid_up_to, .. } => write!(f, "not UTF-8 at byte {valid_up_to}"),
            Self::BadPath { reason, .. } => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}

/// The system's words without the trailing number, which people cannot use.
struct Reason<'a>(&'a io::Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.split(" (os error").next().unwrap_or(&text))
    }
}

struct Target<'a>(&'a Option<PathBuf>);

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(target) => write!(f, " to '{}'", target.display()),
            None => Ok(()),
        }
    }
}

struct Holder<'a>(&'a Option<u32>);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another opener"),
        }
    }
}

impl Error {
    /// A system error about one path.
    pub(crate) fn io(operation: Operation, path: &Path, cause: impl Into<io::Error>) -> Self {
        Self::Io { operation, path: path.to_owned(), target: None, cause: cause.into() }
    }

    /// What was attempted, for whoever tells [`Error::cause`] behind it: "cannot open 'x'".
    #[must_use]
    pub fn attempt(&self) -> String {
        match self {
            Self::Io { operation, path, target, .. } => {
                format!("cannot {operation} '{}'{}", path.display(), Target(target))
            }
            Self::Locked { path, .. } => format!("cannot lock '{}'", path.display()),
            Self::OutOfRange { operation, path, .. } | Self::BadPath { operation, path, .. } => {
                format!("cannot {operation} '{}'", path.display())
            }
            Self::Mapped { path, len, .. } => {
                format!("cannot resize '{}' to {len} bytes", path.display())
            }
            Self::UnexpectedEnd { path, .. } => format!("cannot read '{}'", path.display()),
            Self::NotUtf8 { path, .. } => format!("cannot read '{}' as text", path.display()),
        }
    }

    /// Why it failed, without what was attempted: the system's error, or the words behind those of
    /// [`Error::attempt`].
    #[must_use]
    pub fn cause(&self) -> io::Error {
        if let Some(number) = self.raw_os_error() {
            return io::Error::from_raw_os_error(number);
        }
        // The words begin with the attempt and a colon.
        io::Error::new(self.io_kind(), &self.to_string()[self.attempt().len() + 2..])
    }

    /// A system error about two paths.
    pub(crate) fn io_pair(
        operation: Operation,
        path: &Path,
        target: &Path,
        cause: impl Into<io::Error>,
    ) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            target: Some(target.to_owned()),
            cause: cause.into(),
        }
    }

    /// The same failure, told of the path that the caller knows and not of a hidden name.
    pub(crate) fn about(self, path: &Path) -> Self {
        match self {
            Self::Io { operation, cause, .. } => {
                let is_hidden = matches!(operation, Operation::Open | Operation::Rename);
                let operation = if is_hidden { Operation::Write } else { operation };
                Self::io(operation, path, cause)
            }
            other => other,
        }
    }

    /// The bare cause, for the traits of `std::io`; the path is the caller's to say.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Io { cause, .. } => cause,
            other => io::Error::new(other.io_kind(), other.to_string()),
        }
    }

    /// What was attempted.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Io { operation, .. }
            | Self::OutOfRange { operation, .. }
            | Self::BadPath { operation, .. } => *operation,
            Self::Locked { .. } => Operation::Lock,
            Self::Mapped { .. } => Operation::SetLen,
            Self::UnexpectedEnd { .. } | Self::NotUtf8 { .. } => Operation::Read,
        }
    }

    /// The path that the operation was about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Locked { path, .. }
            | Self::OutOfRange { path, .. }
            | Self::Mapped { path, .. }
            | Self::UnexpectedEnd { path, .. }
            | Self::NotUtf8 { path, .. }
            | Self::BadPath { path, .. } => path,
        }
    }

    /// The nearest standard kind, for callers that speak `std::io`.
    pub fn io_kind(&self) -> io::ErrorKind {
        match self {
            Self::Io { cause, .. } => cause.kind(),
            Self::Locked { .. } => io::ErrorKind::WouldBlock,
            Self::OutOfRange { .. } | Self::Mapped { .. } | Self::BadPath { .. } => {
                io::ErrorKind::InvalidInput
            }
            Self::UnexpectedEnd { .. } => io::ErrorKind::UnexpectedEof,
            Self::NotUtf8 { .. } => io::ErrorKind::InvalidData,
        }
    }

    /// The system's error number, when the system made this error.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Io { cause, .. } => cause.raw_os_error(),
            _ => None,
        }
    }

    /// Is the disk, or this user's share of it, full?
    pub fn is_no_space(&self) -> bool {
        matches!(self.io_kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Is there nothing at that path?
    pub fn is_not_found(&self) -> bool {
        self.io_kind() == io::ErrorKind::NotFound
    }

    /// Is the name taken already?
    pub fn is_already_exists(&self) -> bool {
        self.io_kind() == io::ErrorKind::AlreadyExists
    }

    /// Was the caller not allowed to?
    pub fn is_permission_denied(&self) -> bool {
        self.io_kind() == io::ErrorKind::PermissionDenied
    }

    /// Does somebody else hold the lock?
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// Did a signal cut the call short? The full loops of [`File`](crate::File) absorb this.
    pub fn is_interrupted(&self) -> bool {
        self.io_kind() == io::ErrorKind::Interrupted
    }

    /// Has the process, or the whole machine, too many files open?
    pub fn is_too_many_files(&self) -> bool {
        let raw = self.raw_os_error();
        raw == Some(Errno::MFILE.raw_os_error()) || raw == Some(Errno::NFILE.raw_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_operation_path_and_reason() {
        let error = Error::io(Operation::Open, Path::new("/x/y"), Errno::NOENT);
        assert_eq!(error.to_string(), "cannot open '/x/y': No such file or directory");
        assert!(error.is_not_found());
        assert_eq!(error.operation(), Operation::Open);
        assert_eq!(error.path(), Path::new("/x/y"));
    }

    #[test]
    fn message_of_two_paths_names_both() {
        let error = Error::io_pair(Operation::Rename, Path::new("a"), Path::new("b"), Errno::ISDIR);
        assert_eq!(error.to_string(), "cannot rename 'a' to 'b': Is a directory");
    }

    #[test]
    fn lock_message_names_the_holder_when_known() {
        let path = PathBuf::from("/db/LOCK");
        let known = Error::Locked { path: path.clone(), holder_pid: Some(41) };
        assert_eq!(known.to_string(), "cannot lock '/db/LOCK': held by process 41");
        let unknown = Error::Locked { path, holder_pid: None };
        assert_eq!(unknown.to_string(), "cannot lock '/db/LOCK': held by another opener");
    }

    #[test]
    fn questions_tell_the_errors_apart() {
        let of = |errno: Errno| Error::io(Operation::Write, Path::new("f"), errno);
        assert!(of(Errno::NOSPC).is_no_space());
        assert!(of(Errno::DQUOT).is_no_space());
        assert!(!of(Errno::IO).is_no_space());
        assert!(of(Errno::INTR).is_interrupted());
        assert!(of(Errno::MFILE).is_too_many_files());
        assert!(of(Errno::NFILE).is_too_many_files());
        assert!(of(Errno::EXIST).is_already_exists());
        assert!(of(Errno::ACCESS).is_permission_denied());
    }

    /// "cannot open 'x': Permission denied: Permission denied": whoever puts the two parts together
    /// again has every word once.
    #[test]
    fn the_attempt_and_the_cause_are_the_whole_and_overlap_nowhere() {
        let (path, operation) = (PathBuf::from("/a: b"), Operation::Read);
        let (offset, reason) = (9, "is no place");
        let plain = io::Error::other("it broke");
        for error in [
            Error::io(Operation::Open, &path, Errno::ACCESS),
            Error::io(Operation::Open, &path, plain),
            Error::io_pair(Operation::Rename, &path, Path::new("b"), Errno::ISDIR),
            Error::Locked { path: path.clone(), holder_pid: Some(41) },
            Error::OutOfRange { operation, path: path.clone(), offset, len: 4, end: 7 },
            Error::Mapped { path: path.clone(), len: 3, mapped_end: 8 },
            Error::UnexpectedEnd { path: path.clone(), offset, wanted: 4, found: 1 },
            Error::NotUtf8 { path: path.clone(), valid_up_to: 5 },
            Error::BadPath { operation, path: path.clone(), reason },
        ] {
            let cause = error.cause();
            assert_eq!(cause.kind(), error.io_kind(), "{error}");
            assert_eq!(format!("{}: {}", error.attempt(), Reason(&cause)), error.to_string());
        }
    }
}
