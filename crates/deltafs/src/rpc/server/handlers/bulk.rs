//! Bulk insertion at the server: tables of new files are checked, and taken into the store.

use crate::caller::Caller;
use crate::error::{Error, Result, shown};
use crate::inner::Dir;
use crate::name::check_name;
use crate::record::{Entry, parse_key};
use crate::user::{PASS, WRITE};
use keyrack_flodb::{IngestOptions, Transfer};
use keyrack_vfs::FileKind;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

impl Caller<'_> {
    /// Takes tables with new files of a directory in, whole or not at all. How many files.
    /// `is_here` says whether this server has a name; the first that it has not refuses all.
    pub(crate) fn bulk_in(
        &self,
        dir: &Dir,
        entries: u64,
        paths: &[&[u8]],
        is_here: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<u64> {
        let inner = self.inner;
        let paths: Vec<PathBuf> =
            paths.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        if paths.is_empty() || paths.iter().any(|path| !path.is_absolute()) {
            return Err(Error::Invalid("tables are named by absolute paths".to_owned()));
        }
        for path in &paths {
            // Opening a pipe would wait for a writer, with the directory locked.
            if inner.contents.fs().metadata(path)?.kind != FileKind::File {
                let what = "it is no file, and no table";
                return Err(Error::Invalid(format!("{}: {what}", path.display())));
            }
        }
        let info = dir.state.write();
        self.check(&info, PASS | WRITE, b"")?;
        let top = inner.top("")?;
        let is_empty = inner.is_empty(dir.state.id)?;
        let mut known = 0;
        let tables = top.check_tables(&paths, |key, value| {
            known += u64::from(self.verify(dir, (key, value), is_empty, is_here)?);
            Ok::<(), Error>(())
        })?;
        let count = tables.entries();
        if count != entries {
            let what = format!("the tables hold {count} files, not {entries}: they are cut");
            return Err(Error::Invalid(what));
        }
        if known == count {
            return Ok(count);
        }
        let name = if info.node.name.is_empty() { b"/" } else { &info.node.name[..] };
        inner.name_count.reserve(name, count - known)?;
        if let Err(error) = tables.ingest(IngestOptions { transfer: Transfer::Link }) {
            inner.name_count.release(count - known);
            return Err(error.into());
        }
        self.touch(dir, &info, inner.time.now_ns())?;
        Ok(count)
    }

    /// Looks at an entry. Is it there already just so?
    fn verify(
        &self,
        dir: &Dir,
        (key, value): (&[u8], Option<&[u8]>),
        is_empty: bool,
        is_here: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        let foreign = || {
            let what = "holds something else than new files of the directory, by the caller";
            Error::Invalid(format!("'{}': {what}", key.escape_ascii()))
        };
        let (parent, name) = parse_key(key).ok_or_else(foreign)?;
        let Some(Entry::File(attributes, data)) = value.and_then(Entry::decode) else {
            return Err(foreign());
        };
        let is_ours = parent == dir.state.id
            && data.is_empty()
            && attributes.nlink == 1
            && self.user.owns(attributes.uid)
            && (self.user.uid == 0 || self.user.is_in(attributes.gid));
        if !is_ours {
            return Err(foreign());
        }
        check_name(name)?;
        self.inner.name_count.check_length(name)?;
        if !is_here(name) {
            return Err(Error::Stale(shown(name)));
        }
        if is_empty {
            return Ok(false);
        }
        let found = self.inner.layers.find(parent, name, |entry| match entry {
            Entry::File(there, _) => Some(there.inode),
            _ => None,
        })?;
        match found {
            None => Ok(false),
            Some(Some(inode)) if inode == attributes.inode => Ok(true),
            Some(_) => Err(Error::Exists(shown(name))),
        }
    }
}
