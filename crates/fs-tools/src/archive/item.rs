//! Entries of a tree on their way into an archive or out of it, one at a time.
//!
//! **Invariant:** a path that comes in stays below the directory of the import: [`entry_path`]
//! refuses absolute paths and paths that go up.

use crate::paths::shown;
use keyrack_console::{DONE, Failure, Outcome};
use keyrack_deltafs::Kind;
use std::io::{ErrorKind, Read};

/// One entry on its way, in either direction. The path is relative, without a slash at its end;
/// that of the tree itself is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime_ns: u64,
    pub(crate) size: u64,
    /// The bytes of a file, the target of a link; `None` if the bytes are elsewhere, or too many.
    pub(crate) data: Option<Vec<u8>>,
    /// What is told of it, and cannot be set; `None` of what comes in.
    pub(crate) facts: Option<Facts>,
}

/// Facts that every name space makes its own of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) inode: u128,
    pub(crate) nlink: u64,
    pub(crate) ctime_ns: u64,
}

/// Gives one entry after the other, a large file with what reads its bytes.
pub(crate) type ItemSource<'a> = dyn FnMut() -> Result<Option<Given<'a>>, Failure> + 'a;

/// An entry, and what reads the bytes of a large file.
pub(crate) type Given<'a> = (Item, Option<Box<dyn Read + 'a>>);

/// Takes one entry, a large file with what reads its bytes.
pub(crate) type ItemSink<'a> = dyn FnMut(Item, Option<&mut dyn Read>) -> Result<(), Failure> + 'a;

/// The path of an entry that comes in, relative: without dots in it, or a slash at its end.
///
/// # Errors
/// What is wrong with a path that is absolute, goes up, or holds a NUL, in words.
pub(crate) fn entry_path(path: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = |why: &str| Err(format!("{}: {why}", shown(path)));
    if path.starts_with(b"/") {
        return wrong(
            "the path is absolute; write the archive with relative paths, as tar does without -P",
        );
    }
    if path.contains(&0) {
        return wrong("the path holds a NUL byte");
    }
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let parts: Vec<&[u8]> = parts.collect();
    if parts.contains(&&b".."[..]) {
        wrong("the path goes up; an entry must stay below the directory of the import")
    } else {
        Ok(parts.join(&b'/'))
    }
}

/// A failure of the local side.
pub(crate) fn local(what: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{what}: {error}"))
}

/// Ends an output. A reader that went away has all it wanted.
pub(crate) fn end_output(written: std::io::Result<()>) -> Outcome {
    match written {
        Ok(()) => Ok(DONE),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(DONE),
        Err(error) => Err(local("cannot write the archive", &error)),
    }
}
