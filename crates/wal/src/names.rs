//! The names of the files in the directory of a log.
//!
//! ```text
//!   0000000000400000.wal   a segment, named by the LSN of its first byte in hexadecimal
//!   segment.new            a segment that is being created
//!   NEWEST                 the marker of the newest segment
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The name of a segment that is being created.
pub(crate) const NEW_NAME: &str = "segment.new";
pub(crate) const MARKER_NAME: &str = "NEWEST";
/// The ending of a segment's name.
const SUFFIX: &str = ".wal";
/// Digits of a segment's name.
const DIGITS: usize = 16;

/// The path of the segment that begins at an LSN.
pub(crate) fn path_of(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("{start:016x}{SUFFIX}"))
}

/// The LSN in the name of a segment.
pub(crate) fn start_of(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_suffix(SUFFIX)?;
    let known = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != DIGITS || !digits.bytes().all(known) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Whether a file name in the directory of a log is one that the log uses.
#[must_use]
pub fn is_ours(name: &OsStr) -> bool {
    name == NEW_NAME || name == MARKER_NAME || start_of(name).is_some()
}
