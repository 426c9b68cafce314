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
use crate::contents::Contents;
use crate::dirs::{DirState, Dirs};
use crate::error::{Error, Result};
use crate::id::{DirId, Inode, LogId};
use crate::layers::Layers;
use crate::names_cache::NamesCache;
use crate::quota::NameCount;
use crate::user::User;
use keyrack_flodb::{Batch, Db, WriteOptions};
use keyrack_measure::wall;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Where times of files come from.
#[derive(Clone, Debug, Default)]
pub enum TimeSource {
    /// The calendar.
    #[default]
    Calendar,
    /// A number of nanoseconds since 1970 that somebody else moves: for tests, and for replays.
    Given(Arc<AtomicU64>),
}

impl TimeSource {
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            TimeSource::Calendar => wall::unix_ns(),
            // Relaxed: the number is all there is.
            TimeSource::Given(now) => now.load(Ordering::Relaxed),
        }
    }
}

/// A name space. Cloning the handle is cheap.
#[derive(Clone)]
pub struct Namespace {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) layers: Layers,
    pub(crate) log: LogId,
    pub(crate) epoch: u64,
    pub(crate) dirs: Dirs,
    pub(crate) names: NamesCache,
    /// The next number of this epoch. Nobody learns anything else from it.
    pub(crate) numbers: AtomicU64,
    /// Held while a directory gets another parent, so that two moves do not make a circle.
    pub(crate) moves: Mutex<()>,
    pub(crate) time: TimeSource,
    /// The bytes of large files.
    pub(crate) contents: Contents,
    /// What is left of the quota.
    pub(crate) name_count: NameCount,
}

/// A directory that is open: names are looked up in it without a path. It stays the same directory
/// when that is renamed.
#[derive(Clone, Debug)]
pub struct Dir {
    pub(crate) state: Arc<DirState>,
}

impl Dir {
    /// The number of the directory.
    #[must_use]
    pub fn inode(&self) -> Inode {
        self.state.id.inode()
    }
}

impl Namespace {
    /// Calls on behalf of `user`.
    #[must_use]
    pub fn by<'a>(&'a self, user: &'a User) -> Caller<'a> {
        Caller { inner: &self.inner, user }
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

impl Drop for Inner {
    fn drop(&mut self) {
        // There is nobody to tell. `Namespace::close` tells.
        let _ = self.dirs.store_times(&self.layers);
    }
}

impl Inner {
    /// The log to write to.
    pub(crate) fn top(&self, what: &str) -> Result<&Db> {
        self.layers.top().ok_or_else(|| Error::ReadOnly(what.to_owned()))
    }

    /// A number that no file has had.
    #[inline]
    pub(crate) fn number(&self) -> Inode {
        Inode::file(self.log, self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// The directory with that number, which an entry names.
    pub(crate) fn dir(&self, id: DirId) -> Result<Dir> {
        match self.dirs.get(&self.layers, id)? {
            Some(state) => Ok(Dir { state }),
            None => Err(Error::Corruption {
                path: self.layers.all()[0].dir().to_owned(),
                what: format!("an entry names the directory {id:?}, which no log has"),
            }),
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
