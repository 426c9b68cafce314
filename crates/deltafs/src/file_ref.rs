//! Which file a call is about: the one that a name has now, or the one with a number.
//!
//! ```text
//!   Name(directory, name)    the directory's rights count; it may be another file the next time
//!   Number(number)           a file with hard links, whatever names it has: see `link`
//! ```
//!
//! The calls on files are written once, for both.

use crate::caller::{Caller, Found, Stat};
use crate::error::{Error, Result, shown};
use crate::id::Inode;
use crate::inner::Dir;
use crate::name::check_name;
use crate::record::Entry;
use crate::user::PASS;

/// A file, by a name or by its number.
#[derive(Clone, Copy)]
pub(crate) enum FileRef<'a> {
    /// The entry of an open directory.
    Name(&'a Dir, &'a [u8]),
    /// The record under that number.
    Number(Inode),
}

impl FileRef<'_> {
    /// What messages call it.
    pub(crate) fn shown(self) -> String {
        match self {
            FileRef::Name(_, name) => shown(name),
            FileRef::Number(number) => format!("the file {number}"),
        }
    }
}

impl Caller<'_> {
    /// Lends the entry of a file to `visit`, if the user may pass its directory and it is there.
    pub(crate) fn find_file<R>(
        &self,
        file: FileRef<'_>,
        visit: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>> {
        match file {
            FileRef::Name(dir, name) => {
                check_name(name)?;
                self.check(&dir.state.read(), PASS, name)?;
                self.inner.layers.find(dir.state.id, name, visit)
            }
            FileRef::Number(number) => self.inner.layers.find_number(number, visit),
        }
    }

    /// The facts of what a reference stands for.
    pub(crate) fn stat_ref(&self, file: FileRef<'_>) -> Result<Stat> {
        match self.find_file(file, Found::of)?.flatten() {
            None => Err(Error::NotFound(file.shown())),
            Some(Found::Other(stat)) => Ok(stat),
            Some(Found::Dir(id)) => self.stat_dir(&self.inner.dir(id)?),
        }
    }
}
