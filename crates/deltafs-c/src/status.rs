//! Results as C has them: a number, and a message beside it.

use keyrack_deltafs::{Error, Kind, Stat, rpc};
use keyrack_ffi::BadPointer;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Facts. Times are nanoseconds since 1970.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The number of the entry, the upper half.
    pub inode_high: u64,
    /// The lower half.
    pub inode_low: u64,
    /// Bytes of a file, or of the target of a link.
    pub size: u64,
    /// Names; of a directory 2 and its directories.
    pub nlink: u64,
    /// When the bytes, or the entries, last changed.
    pub mtime_ns: u64,
    /// When anything last changed.
    pub ctime_ns: u64,
    /// Type and permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// 1 if the bytes of a file are in its record.
    pub has_inline_data: u32,
}

impl From<&Stat> for Facts {
    fn from(stat: &Stat) -> Facts {
        let kind = match stat.kind {
            Kind::File => libc::S_IFREG,
            Kind::Dir => libc::S_IFDIR,
            Kind::Symlink => libc::S_IFLNK,
        };
        let inode = stat.inode.to_u128();
        Facts {
            inode_high: (inode >> 64) as u64,
            inode_low: inode as u64,
            size: stat.size,
            nlink: stat.nlink,
            mtime_ns: stat.mtime_ns,
            ctime_ns: stat.ctime_ns,
            mode: kind | stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            has_inline_data: u32::from(stat.has_data),
        }
    }
}

/// A failure on its way to C.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, message: String) -> Failure {
        Failure { errno, message }
    }

    /// A pointer that is null, or a text that is none.
    pub(crate) fn invalid(message: &str) -> Failure {
        Failure::new(libc::EINVAL, message.to_owned())
    }
}

impl From<BadPointer> for Failure {
    fn from(error: BadPointer) -> Failure {
        Failure::invalid(&error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(error.errno_number(), error.to_string())
    }
}

impl From<rpc::Error> for Failure {
    fn from(error: rpc::Error) -> Failure {
        Failure::new(error.errno_number(), error.to_string())
    }
}

/// The number of a result; the message of a failure is kept for [`keyrack_fs_message`].
pub(crate) fn number(result: Result<i64, Failure>) -> i64 {
    result.unwrap_or_else(|failure| {
        let text = failure.message.replace('\0', "?");
        MESSAGE.with(|message| *message.borrow_mut() = CString::new(text).unwrap_or_default());
        -i64::from(failure.errno)
    })
}

/// As [`number`], for calls that return no count.
pub(crate) fn code(result: Result<(), Failure>) -> c_int {
    // Errno values fit.
    number(result.map(|()| 0)) as c_int
}

/// What went wrong in the last call of this thread that failed. Valid until the next that fails.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_fs_message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::Operation;
    use std::io;

    #[test]
    fn what_the_disk_refused_has_the_number_of_the_disk() {
        for number in [libc::ENOSPC, libc::EDQUOT, libc::EROFS, libc::EFBIG, libc::EIO] {
            let error = Error::from(keyrack_vfs::Error::Io {
                operation: Operation::Write,
                path: "log".into(),
                target: None,
                cause: io::Error::from_raw_os_error(number),
            });
            assert_eq!(code(Err(Failure::from(error))), -number);
        }
        assert_eq!(code(Ok(())), 0);
    }
}
