//! Opening a store for reading only: no file changes, no lock is taken, no thread starts.
//!
//! ```text
//!   CURRENT, manifest --> state A
//!   log from A's LSN on --> memtables          tables of A: all opened
//!   CURRENT, manifest --> state B              B is A: done; otherwise once more
//! ```
//!
//! Nobody is kept out, so another process, or another handle of this one, may write to the store
//! meanwhile. Reads see the store as of the opening: a beginning of its writes, with
//! everything that was acknowledged before the opening began (without a log, what is in tables).
//! The check at the end says that this holds: tables that a compaction removes go, and segments of
//! the log are used again, only after the manifest has said so. A table that is open stays readable
//! when its name goes, and the log is in memory.
//!
//! What a writer is just about to write can look like damage: the tail of the log, the last page of
//! the manifest. So damage counts when it is found twice in the same way.

use super::open::{Access, assemble, log_ends_at};
use super::{Db, Inner, Owner};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::position::Position;
use crate::version::Version;
use keyrack_vfs::{Fs, RealFs};
use std::path::Path;
use std::sync::Arc;

/// How often opening begins again while a writer changes the store.
const ATTEMPTS_MAX: usize = 100;

impl Db {
    /// Opens the store in the directory `dir` for reading only, as it is now. No file is made or
    /// changed, not even that of the lock, so the directory may be read-only; and the store may be
    /// open for writing elsewhere, whose later writes are not seen. What is in the log is read into
    /// memory, and stays there. Every write, flush and compaction is refused.
    ///
    /// Of the options, those that are about making or writing a store are of no consequence.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// let dir = std::env::temp_dir().join(format!("keyrack-read-only-{}", std::process::id()));
    /// let writer = Db::open(&dir, Options::new())?;
    /// writer.put(b"key", b"value")?;
    /// let reader = Db::open_read_only(&dir, Options::new())?;
    /// assert_eq!(reader.get(b"key")?, Some(b"value".to_vec()));
    /// assert!(reader.put(b"key", b"other").is_err());
    /// # drop((writer, reader));
    /// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no store, if the options do not fit it, or if somebody changes
    /// it faster than it can be opened; [`Error::Corruption`] if a file is damaged; [`Error::Io`].
    pub fn open_read_only(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_read_only_in(Arc::new(RealFs), dir.as_ref(), options)
    }

    /// As [`Db::open_read_only`], on a file system of the caller's.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?.put(b"key", b"value")?;
    /// let reader = Db::open_read_only_in(fs, "/store".as_ref(), Options::new())?;
    /// assert!(reader.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::open_read_only`].
    pub fn open_read_only_in(fs: Arc<dyn Fs>, dir: &Path, options: Options) -> Result<Db> {
        Db::open_read_only_accepted(fs, dir, options, &|_| Ok(()))
    }

    /// As [`Db::open_read_only_in`]. `accept` may refuse the store.
    pub(crate) fn open_read_only_accepted(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: Options,
        accept: &dyn Fn(&Inner) -> Result<()>,
    ) -> Result<Db> {
        options.check()?;
        let options = options.divided()?;
        let inner = Arc::new(settled(dir, || attempt(&fs, dir, &options))?);
        accept(&inner)?;
        Ok(Db { owner: Arc::new(Owner { inner, background: None }) })
    }
}

/// Reads a store that somebody may be writing to: the result of the first attempt that gives one.
///
/// # Errors
/// Damage and failures of the machine that two attempts in a row find; any other error at once;
/// [`Error::Usage`] if no attempt gives a result.
pub(crate) fn settled<T>(dir: &Path, attempt: impl Fn() -> Result<Option<T>>) -> Result<T> {
    let mut damage = String::new();
    for _ in 0..ATTEMPTS_MAX {
        match attempt() {
            Ok(None) => {}
            Ok(Some(result)) => return Ok(result),
            Err(error @ (Error::Corruption { .. } | Error::Io(_))) => {
                let found = error.to_string();
                if found == damage {
                    return Err(error);
                }
                damage = found;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::Usage(format!(
        "{} changes faster than it can be opened read-only; {ATTEMPTS_MAX} attempts failed",
        dir.display()
    )))
}

/// `None` if the store has changed meanwhile.
fn attempt(fs: &Arc<dyn Fs>, dir: &Path, options: &Options) -> Result<Option<Inner>> {
    let read = || Manifest::open(Arc::clone(fs), dir, options.comparator.clone());
    let manifest = read()?;
    let before = manifest.state().clone();
    let inner = assemble(Arc::clone(fs), dir, options.clone(), manifest, Access::Read)?;
    let now = read()?;
    let same = now.state().log_from == before.log_from && now.state().version == before.version;
    Ok(same.then_some(inner))
}

/// What a store for reading only shows: the tables, and the log up to where it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    version: Arc<Version>,
    log_from: u64,
    position: Position,
}

impl Seen {
    /// Whether the store shows no more by now. An opening finds out what is wrong if this cannot be
    /// told, as while the writer is at work.
    pub(crate) fn is_current(&self, fs: &Arc<dyn Fs>, dir: &Path, options: &Options) -> bool {
        let Ok(manifest) = Manifest::open(Arc::clone(fs), dir, options.comparator.clone()) else {
            return false;
        };
        let state = manifest.state();
        let is_same = state.version == self.version && state.log_from == self.log_from;
        is_same && log_ends_at(fs, dir, options, state, self.position.into())
    }
}

impl Db {
    /// What this store, which is open for reading only, shows.
    pub(crate) fn seen(&self) -> Seen {
        let manifest = self.inner().tables.manifest.lock();
        let state = manifest.state();
        let (version, log_from) = (Arc::clone(&state.version), state.log_from);
        Seen { version, log_from, position: self.position() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn damage_counts_when_two_attempts_in_a_row_find_it() {
        let dir = Path::new("/store");
        let damage = |what: &'static str| Err(Error::corruption(dir, 0, what));
        let run = |answers: &dyn Fn(usize) -> Result<Option<usize>>| {
            let calls = Cell::new(0);
            settled(dir, || {
                calls.set(calls.get() + 1);
                answers(calls.get())
            })
        };
        let passing = run(&|call| match call {
            1 => damage("torn"),
            2 => Ok(None),
            3 => damage("gone"),
            call => Ok(Some(call)),
        });
        assert_eq!(passing.unwrap(), 4);
        let stays = run(&|_| damage("torn")).unwrap_err();
        assert!(matches!(stays, Error::Corruption { .. }), "{stays}");
        let refused = run(&|_| Err(Error::Closed)).unwrap_err();
        assert!(matches!(refused, Error::Closed), "{refused}");
        let never = run(&|_| Ok(None)).unwrap_err().to_string();
        assert!(never.contains("/store") && never.contains("100 attempts failed"), "{never}");
    }
}
