//! Paths of the name space: in messages, without trailing slashes, and one after the other.

use keyrack_console::{DONE, Failure, escaped};

/// A path for people: printable, on one line.
pub(crate) fn shown(path: &[u8]) -> String {
    escaped(path)
}

/// A path without the slashes at its end.
pub(crate) fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// The last name of a path.
pub(crate) fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Calls `body` for each path, also after one that fails. Returns the largest exit status.
pub(crate) fn for_each<'p>(
    command: &str,
    paths: impl IntoIterator<Item = &'p [u8]>,
    mut body: impl FnMut(&'p [u8]) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let mut status = DONE;
    for path in paths {
        match body(path) {
            Ok(()) => {}
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => status = status.max(failure.explain(&format!("keyrack fs {command}"))),
        }
    }
    Ok(status)
}
