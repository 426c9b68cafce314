//! What can go wrong: the words of POSIX for what a name-space call refuses, and the kinds of
//! the store's contract for the rest.

use crate::rpc::errno::number_of;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The result of an operation on a name space.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// ENOENT.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// EEXIST.
    #[error("{0}: it exists already")]
    Exists(String),
    /// ENOTDIR.
    #[error("{0}: not a directory")]
    NotDir(String),
    /// EISDIR.
    #[error("{0}: it is a directory")]
    IsDir(String),
    /// ENOTEMPTY.
    #[error("{0}: the directory is not empty")]
    NotEmpty(String),
    /// EACCES: a permission bit is missing.
    #[error("{0}: permission denied")]
    Denied(String),
    /// EPERM: only the owner, or user 0, may do that.
    #[error("{0}: only its owner may do that")]
    NotOwner(String),
    /// EPERM: a directory has one name.
    #[error("{0}: a directory cannot have hard links")]
    LinkedDir(String),
    /// EMLINK.
    #[error("{path}: it has {limit} names, the most that a file may have")]
    TooManyLinks {
        /// Which file.
        path: String,
        /// Names that it may have.
        limit: u64,
    },
    /// EOPNOTSUPP.
    #[error("{0}")]
    Unsupported(String),
    /// EROFS.
    #[error("{0}: the name space is read-only")]
    ReadOnly(String),
    /// ENAMETOOLONG.
    #[error("{what} is too long: {bytes}, and the limit is {limit}")]
    TooLong {
        /// What is: a name, a path, the depth of a directory.
        what: String,
        /// How long.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
    /// EINVAL.
    #[error("{0}")]
    Invalid(String),
    /// ELOOP.
    #[error("{0}: more than 40 symbolic links one behind the other")]
    Loop(String),
    /// EDQUOT: there are as many names as there may be. Nothing was done.
    #[error("{path}: the quota of {limit} names is used up: remove some, or raise it")]
    Quota {
        /// What was to be made.
        path: String,
        /// How many there may be.
        limit: u64,
    },
    /// EFBIG.
    #[error("{path}: {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// Which file.
        path: String,
        /// Bytes that it would have.
        bytes: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// EIO: what was to be written could not be read.
    #[error("{path}: cannot read what is to be written: {error}")]
    Source {
        /// Which file.
        path: String,
        /// What the reader said.
        error: std::sync::Arc<std::io::Error>,
    },
    /// ENOMEM: so many bytes of a file do not fit into memory at once.
    #[error("{}: there is no memory for {bytes} bytes at once; read it in parts", path.display())]
    NoMemory {
        /// Which file has the bytes.
        path: PathBuf,
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// ENODATA: the size is known, the bytes are not kept here.
    #[error("{0}: its bytes are not kept here, only what is known about it")]
    NoData(String),
    /// ESTALE: the directory of a handle was removed.
    #[error("{0}: the directory was removed")]
    Stale(String),
    /// A log that cannot be read alone: what its server was doing with others is half done.
    #[error("{0}")]
    Unsettled(String),
    /// Somebody else was first to publish.
    #[error("{0}")]
    Conflict(String),
    /// An object store refused or failed, or cannot be reached.
    #[error("{0}")]
    Remote(String),
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// A record or a file does not hold what was written to it.
    #[error("{}: {what}", path.display())]
    Corruption {
        /// Which file, or the store with the record.
        path: PathBuf,
        /// What is wrong there.
        what: String,
    },
    /// The store below failed. Of a full disk nothing was done: once there is space the call can be
    /// made again, at the latest five seconds later, or after `Namespace::resume`.
    #[error(transparent)]
    Store(#[from] keyrack_flodb::Error),
    /// The machine failed.
    #[error(transparent)]
    Io(std::sync::Arc<keyrack_vfs::Error>),
}

impl From<keyrack_vfs::Error> for Error {
    fn from(error: keyrack_vfs::Error) -> Self {
        Error::Io(std::sync::Arc::new(error))
    }
}

impl Error {
    /// The name of the error number that a system call would give. For an error of the machine, it
    /// is the machine's own number if the disk is full or read-only, a quota is reached, or a file
    /// is too large. For all other errors of the machine it is EIO.
    #[must_use]
    pub fn errno(&self) -> &'static str {
        match self {
            Error::NotFound(_) => "ENOENT",
            Error::Exists(_) => "EEXIST",
            Error::NotDir(_) => "ENOTDIR",
            Error::IsDir(_) => "EISDIR",
            Error::NotEmpty(_) => "ENOTEMPTY",
            Error::Denied(_) => "EACCES",
            Error::NotOwner(_) | Error::LinkedDir(_) => "EPERM",
            Error::TooManyLinks { .. } => "EMLINK",
            Error::Unsupported(_) => "EOPNOTSUPP",
            Error::ReadOnly(_) => "EROFS",
            Error::TooLong { .. } => "ENAMETOOLONG",
            Error::Invalid(_) | Error::Usage(_) => "EINVAL",
            Error::Loop(_) => "ELOOP",
            Error::Quota { .. } => "EDQUOT",
            Error::TooLarge { .. } => "EFBIG",
            Error::NoMemory { .. } => "ENOMEM",
            Error::NoData(_) => "ENODATA",
            Error::Stale(_) => "ESTALE",
            Error::Conflict(_) | Error::Unsettled(_) => "EBUSY",
            Error::Io(error)
            | Error::Store(
                keyrack_flodb::Error::Io(error) | keyrack_flodb::Error::NoSpace(error),
            ) => of_the_machine(error),
            Error::Remote(_)
            | Error::Corruption { .. }
            | Error::Store(_)
            | Error::Source { .. } => "EIO",
        }
    }

    /// The error number of this machine that [`Error::errno`] names.
    #[must_use]
    pub fn errno_number(&self) -> i32 {
        number_of(self.errno())
    }
}

/// What the machine said, where programs can do something about it.
fn of_the_machine(error: &keyrack_vfs::Error) -> &'static str {
    match error.io_kind() {
        ErrorKind::StorageFull => "ENOSPC",
        ErrorKind::QuotaExceeded => "EDQUOT",
        ErrorKind::ReadOnlyFilesystem => "EROFS",
        ErrorKind::FileTooLarge => "EFBIG",
        _ => "EIO",
    }
}

/// What the machine found; `None` where there is no such file.
pub(crate) fn if_found<T>(result: keyrack_vfs::Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.is_not_found() => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// A name or a path for messages: text where it is, escapes where it is not.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}
