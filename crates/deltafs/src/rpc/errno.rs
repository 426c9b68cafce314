//! Names of error numbers, and the codes that stand for them in replies.

/// Codes of replies. The index in the list is the code; new ones go to the end.
const ERRNOS: [&str; 26] = [
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
    "EAGAIN",
    "EREMOTE",
    "ENOSPC",
    "EDQUOT",
];

/// The code of an error number by name.
pub(crate) fn code_of(errno: &str) -> u8 {
    let index = ERRNOS.iter().position(|name| *name == errno);
    index.and_then(|index| u8::try_from(index).ok()).unwrap_or(1)
}

/// The name of an error number by code.
pub(crate) fn name_of(code: u8) -> &'static str {
    ERRNOS.get(usize::from(code)).copied().unwrap_or("EIO")
}
