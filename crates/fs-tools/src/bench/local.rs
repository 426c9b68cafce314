//! Creates and stats in a name space of this process, for ranks that are processes or threads.

use super::counter::{Counter, Measured};
use super::names::Name;
use keyrack_deltafs::{Caller, Dir, Error, IfExists, Namespace, Result, User};
use std::path::Path;

/// Permission bits of files.
pub(super) const FILE_MODE: u32 = 0o660;

/// A directory that a rank works in.
pub(super) struct LocalDir<'a> {
    pub(super) space: &'a Namespace,
    pub(super) user: &'a User,
    pub(super) dir: &'a Dir,
}

impl<'a> LocalDir<'a> {
    pub(super) fn caller(&self) -> Caller<'a> {
        self.space.by(self.user)
    }

    /// Creates the files, each with `data`, and flushes the log. With `is_checked` a name that
    /// exists is a failure. `after` follows each create.
    pub(super) fn create(
        &self,
        mut counter: Counter<'_>,
        names: &[Name],
        (is_checked, data): (bool, &[u8]),
        after: impl FnMut(&Name) -> Result<()>,
    ) -> Result<Measured> {
        let caller = self.caller();
        let create = |name: &Name| {
            if !data.is_empty() {
                caller.create_with_at(self.dir, name, FILE_MODE, data).map(|_| ())
            } else if is_checked {
                caller.create_at(self.dir, name, FILE_MODE, IfExists::Fail).map(|_| ())
            } else {
                caller.create_unchecked_at(self.dir, name, FILE_MODE)
            }
        };
        counter.each(names, create, after)?;
        self.space.flush()?;
        Ok(counter.end())
    }

    /// Stats the files. With `bytes`, each has to have so many.
    pub(super) fn stat(
        &self,
        mut counter: Counter<'_>,
        names: &[Name],
        (bytes, log): (Option<u64>, &Path),
    ) -> Result<Measured> {
        let caller = self.caller();
        let stat = |name: &Name| {
            let size = caller.stat_at(self.dir, name)?.size;
            match bytes {
                Some(bytes) if bytes != size => Err(Error::Corruption {
                    path: log.to_owned(),
                    what: format!("a file has {size} bytes, {bytes} were written"),
                }),
                _ => Ok(()),
            }
        };
        counter.each(names, stat, |_| Ok(()))?;
        Ok(counter.end())
    }
}
