//! Names and paths: bytes, without any encoding.
//!
//! A name has 1 to 255 bytes, no NUL and no slash, and is neither `.` nor `..`. A path has at most
//! 4,096 bytes; slashes at its end and several in a row count as one.

use crate::error::{Error, Result, shown};

/// Bytes of a name, at most.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a path, and of the target of a symbolic link, at most.
pub const PATH_BYTES_MAX: usize = 4096;
/// Directories from the root down to one, at most.
pub const DEPTH_MAX: usize = 1024;
/// Symbolic links that the resolution of a path follows, at most.
pub(crate) const LINKS_MAX: usize = 40;

/// Refuses what cannot be the name of an entry.
///
/// # Errors
/// [`Error::Invalid`], [`Error::TooLong`].
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        let start = shown(&name[..16]);
        return Err(too_long(&format!("the name '{start}...'"), name.len(), NAME_BYTES_MAX));
    }
    let why = match name {
        b"" => "a name must not be empty",
        b"." | b".." => "'.' and '..' are no names of entries",
        _ if name.contains(&0) => "a name must not hold a NUL byte",
        _ if name.contains(&b'/') => "a name must not hold a slash",
        _ => return Ok(()),
    };
    Err(Error::Invalid(format!("'{}': {why}", shown(name))))
}

/// Refuses a path that is too long, empty, or holds a NUL.
pub(crate) fn check_path(path: &[u8]) -> Result<()> {
    if path.len() > PATH_BYTES_MAX {
        return Err(too_long("the path", path.len(), PATH_BYTES_MAX));
    }
    match path {
        b"" => Err(Error::Invalid("a path must not be empty; the root is '/'".to_owned())),
        _ if path.contains(&0) => {
            Err(Error::Invalid(format!("'{}': a path must not hold a NUL byte", shown(path))))
        }
        _ => Ok(()),
    }
}

pub(crate) fn too_long(what: &str, bytes: usize, limit: usize) -> Error {
    Error::TooLong { what: what.to_owned(), bytes: bytes as u64, limit: limit as u64 }
}

/// The first component of a path, and what follows it; `None` if there is none.
pub(crate) fn split_first(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = path.iter().position(|byte| *byte != b'/')?;
    let path = &path[start..];
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    Some((&path[..end], &path[end..]))
}

/// Whether nothing but slashes is left.
pub(crate) fn is_end(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == b'/')
}

/// `dir/name`.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_to_255_bytes_and_no_slash_nul_or_dots() {
        for good in [&b"a"[..], &[b'x'; 254], &[b'x'; 255], b"...", b"\xff\xfe", b" "] {
            assert!(check_name(good).is_ok(), "{}", shown(good));
        }
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert!(matches!(check_name(bad), Err(Error::Invalid(_))), "{}", shown(bad));
        }
        let error = check_name(&[b'x'; 256]).unwrap_err();
        assert_eq!(error.errno(), "ENAMETOOLONG");
        assert!(error.to_string().ends_with("is too long: 256, and the limit is 255"), "{error}");
    }

    #[test]
    fn components_are_what_is_between_slashes() {
        assert_eq!(split_first(b"//a//b/"), Some((&b"a"[..], &b"//b/"[..])));
        assert_eq!(split_first(b"b"), Some((&b"b"[..], &b""[..])));
        assert_eq!(split_first(b"//"), None);
        assert!(is_end(b"//") && !is_end(b"/x"));
        assert_eq!((join(b"/", b"a"), join(b"/a", b"b")), (b"/a".to_vec(), b"/a/b".to_vec()));
    }
}
