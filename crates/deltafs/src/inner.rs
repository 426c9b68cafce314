//! What all handles of a name space share.

use crate::contents::Contents;
use crate::dirs::{DirState, Dirs};
use crate::error::{Error, Result};
use crate::id::{DirId, Inode, LogId};
use crate::layers::Layers;
use crate::names_cache::NamesCache;
use crate::quota::NameCount;
use keyrack_flodb::Db;
use keyrack_measure::wall;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where times of files come from.
#[derive(Clone, Debug, Default)]
pub enum TimeSource {
    /// The calendar, in steps of 2^20 ns.
    #[default]
    Calendar,
    /// A number of nanoseconds since 1970 that somebody else moves: for tests, and for replays.
    Given(Arc<AtomicU64>),
}

impl TimeSource {
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            TimeSource::Calendar => calendar_ns(),
            // Relaxed: the number is all there is.
            TimeSource::Given(now) => now.load(Ordering::Relaxed),
        }
    }
}

/// The calendar in steps of 2^20 ns, about a millisecond; that of kernels has steps of 1 to 10 ms.
/// Records are shorter by it, and so are compressed tables of many files.
pub(crate) fn calendar_ns() -> u64 {
    wall::unix_ns() >> 20 << 20
}

/// The inside of a name space.
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
    /// Held while a record under the number of a file changes, so that names and their count change
    /// together. It is taken with directories locked, and nothing is locked after it.
    pub(crate) links: Mutex<()>,
    /// Whether the writable log has the format of logs with hard links.
    pub(crate) has_links: AtomicBool,
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

    /// The right to change records under the numbers of files.
    pub(crate) fn lock_links(&self) -> MutexGuard<'_, ()> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// How many of these names a directory has, where they are counted.
    pub(crate) fn count_names<'n>(
        &self,
        dir: DirId,
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Result<u64> {
        let mut found = 0;
        if self.name_count.is_counted() {
            for name in names {
                found += u64::from(self.layers.find(dir, name, |_| ())?.is_some());
            }
        }
        Ok(found)
    }
}
