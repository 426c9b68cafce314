//! A name space: one log that is written to, over a list of logs that are only read; or that list
//! alone.
//!
//! ```text
//!   Namespace --by(user)--> Caller --> resolve, make, remove, rename, attributes, list, data
//!       |
//!       +-- layers    the logs                     +-- names   which directory a name stands for
//!       +-- dirs      directories in use, locks    +-- numbers of new files
//! ```
//!
//! Any number of threads may call at once. A call that succeeded is as durable as the log below is
//! told to make it, and whole: what takes several records is one batch.

use crate::caller::Caller;
use crate::error::Result;
use crate::id::{DirId, LogId};
use crate::inner::{Dir, Inner};
use crate::quota::Quota;
use crate::user::User;
use keyrack_flodb::{Batch, Db, WriteOptions};
use std::fmt;
use std::sync::Arc;

/// A name space. Cloning the handle is cheap.
#[derive(Clone)]
pub struct Namespace {
    pub(crate) inner: Arc<Inner>,
}

impl Namespace {
    /// Calls on behalf of `user`.
    #[must_use]
    pub fn by<'a>(&'a self, user: &'a User) -> Caller<'a> {
        Caller { inner: &self.inner, user }
    }

    /// Calls on behalf of user 0, who may do everything.
    #[must_use]
    pub fn as_root(&self) -> Caller<'_> {
        static ROOT: User = User { uid: 0, gid: 0, groups: Vec::new() };
        self.by(&ROOT)
    }

    /// The root directory.
    ///
    /// # Errors
    /// The store cannot be read, or the logs have no root.
    pub fn root(&self) -> Result<Dir> {
        self.inner.dir(DirId::ROOT)
    }

    /// The log that is written to; of a read-only name space the highest one.
    #[must_use]
    pub fn log(&self) -> LogId {
        self.inner.log
    }

    /// How often the log was opened for writing.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Whether every change is refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.inner.layers.top().is_none()
    }

    /// The stores of the logs, the highest first: for their numbers.
    #[must_use]
    pub fn stores(&self) -> &[Db] {
        self.inner.layers.all()
    }

    /// The quota that the name space was opened with.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.inner.name_count.quota
    }

    /// Names in use, without the root. `None` if their number is not limited: they are not counted
    /// then.
    #[must_use]
    pub fn names(&self) -> Option<u64> {
        self.inner.name_count.used()
    }

    /// Writes the times of directories that only memory has to the log.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn store_times(&self) -> Result<()> {
        self.inner.dirs.store_times(&self.inner.layers)
    }

    /// Makes everything that was done durable: it survives a power loss once this returns.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sync(&self) -> Result<()> {
        self.inner.contents.sync()?;
        self.store_times()?;
        match self.inner.layers.top() {
            Some(top) => Ok(top.write(&Batch::new(), WriteOptions { sync: true })?),
            None => Ok(()),
        }
    }

    /// The same, and makes tables of it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn flush(&self) -> Result<()> {
        self.inner.contents.sync()?;
        self.store_times()?;
        match self.inner.layers.top() {
            Some(top) => Ok(top.flush()?),
            None => Ok(()),
        }
    }

    /// Tries again at once what found the disk full, for who has just made space. The log does so
    /// by itself after a pause of at most five seconds.
    ///
    /// # Errors
    /// The disk is still full; or an earlier failure was final.
    pub fn resume(&self) -> Result<()> {
        match self.inner.layers.top() {
            Some(top) => Ok(top.resume()?),
            None => Ok(()),
        }
    }

    /// Ends the use of the log. The last handle does it as well, but cannot say what failed.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn close(self) -> Result<()> {
        self.store_times()?;
        match self.inner.layers.top() {
            Some(top) => {
                self.inner.contents.finish()?;
                Ok(top.clone().close()?)
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("log", &self.inner.log)
            .field("epoch", &self.inner.epoch)
            .field("stores", &self.inner.layers.all())
            .finish_non_exhaustive()
    }
}
