//! Names of error numbers, the codes that stand for them in replies, and their values on this
//! machine.

use rustix::io::Errno;

/// The code of a reply is the index in the list and one; 0 is success. New ones go to the end.
const ERRNOS: [(&str, Errno); 28] = [
    ("EIO", Errno::IO),
    ("ENOENT", Errno::NOENT),
    ("EEXIST", Errno::EXIST),
    ("ENOTDIR", Errno::NOTDIR),
    ("EISDIR", Errno::ISDIR),
    ("ENOTEMPTY", Errno::NOTEMPTY),
    ("EACCES", Errno::ACCESS),
    ("EPERM", Errno::PERM),
    ("EROFS", Errno::ROFS),
    ("ENAMETOOLONG", Errno::NAMETOOLONG),
    ("EINVAL", Errno::INVAL),
    ("ELOOP", Errno::LOOP),
    ("EFBIG", Errno::FBIG),
    ("ENODATA", Errno::NODATA),
    ("ESTALE", Errno::STALE),
    ("EBUSY", Errno::BUSY),
    ("EXDEV", Errno::XDEV),
    ("EPROTO", Errno::PROTO),
    ("EMFILE", Errno::MFILE),
    ("ENOTCONN", Errno::NOTCONN),
    ("EMSGSIZE", Errno::MSGSIZE),
    ("EAGAIN", Errno::AGAIN),
    ("EREMOTE", Errno::REMOTE),
    ("ENOSPC", Errno::NOSPC),
    ("EDQUOT", Errno::DQUOT),
    ("EMLINK", Errno::MLINK),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("ENOMEM", Errno::NOMEM),
];

/// The index of an error number by name; that of EIO for one that is not in the list.
fn index_of(errno: &str) -> usize {
    ERRNOS.iter().position(|(name, _)| *name == errno).unwrap_or(0)
}

/// The code of an error number by name.
pub(crate) fn code_of(errno: &str) -> u8 {
    index_of(errno) as u8 + 1
}

/// The name of an error number by code.
pub(crate) fn name_of(code: u8) -> &'static str {
    match usize::from(code).checked_sub(1) {
        None => "OK",
        Some(index) => ERRNOS.get(index).map_or("EIO", |errno| errno.0),
    }
}

/// The error number of this machine by name.
pub(crate) fn number_of(errno: &str) -> i32 {
    ERRNOS[index_of(errno)].1.raw_os_error()
}
