//! A store that follows the writer of its directory.
//!
//! ```text
//!   writer    put ... flush ... compact ... put        follower   open for reading only
//!             manifest, tables, log  ----------------------->     catch_up: news? open anew
//! ```
//!
//! A follower is a store that is open for reading only (`db::read_only`), and can be exchanged for
//! a later one. Each is one moment of the store: the tables of a manifest, and in memory the log
//! that is not in them. Files that the writer removes stay readable for whoever has them open, and
//! an opening that meets a change of the writer begins again. So a reader never sees a mixture.
//!
//! Whether there is something new says the manifest, and the log behind the position that was
//! reached. If there is nothing, catching up costs no more than that. Otherwise the tables are
//! opened, and the log that is not in tables is read again, which takes as long as an opening.

use crate::db::{Db, Seen};
use crate::error::Result;
use crate::options::Options;
use crate::position::Position;
use keyrack_vfs::{Fs, RealFs};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store that is open for reading only and keeps up with its writer, see [`Db::follow`].
pub struct Follower {
    followed: Followed<Db>,
}

/// A store of one kind, and how it is opened anew.
pub(crate) struct Followed<S> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    open: Box<dyn Fn() -> Result<S> + Send + Sync>,
    /// What a store of the kind is made on.
    db_of: fn(&S) -> &Db,
    store: S,
    seen: Seen,
}

impl<S> Followed<S> {
    /// Opens the store in `dir`.
    pub(crate) fn begin(
        (fs, dir): (Arc<dyn Fs>, &Path),
        open: impl Fn() -> Result<S> + Send + Sync + 'static,
        db_of: fn(&S) -> &Db,
    ) -> Result<Self> {
        let store = open()?;
        let seen = db_of(&store).seen();
        Ok(Followed { fs, dir: dir.to_owned(), open: Box::new(open), db_of, store, seen })
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn position(&self) -> Position {
        (self.db_of)(&self.store).position()
    }

    /// See [`Follower::catch_up`].
    pub(crate) fn catch_up(&mut self) -> Result<bool> {
        let options = (self.db_of)(&self.store).options();
        if self.seen.is_current(&self.fs, &self.dir, options) {
            return Ok(false);
        }
        let store = (self.open)()?;
        let seen = (self.db_of)(&store).seen();
        let is_new = seen != self.seen;
        (self.store, self.seen) = (store, seen);
        Ok(is_new)
    }
}

impl Db {
    /// Opens the store in `dir` for reading only, as [`Db::open_read_only`], to keep up with the
    /// process or handle that writes to it. The writer knows nothing of a follower, and waits for
    /// none.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// let dir = std::env::temp_dir().join(format!("keyrack-follow-{}", std::process::id()));
    /// let writer = Db::open(&dir, Options::new())?;
    /// writer.put(b"key", b"old")?;
    /// let mut follower = Db::follow(&dir, Options::new())?;
    /// writer.put(b"key", b"new")?;
    /// assert_eq!(follower.db().get(b"key")?, Some(b"old".to_vec()));
    /// assert!(follower.catch_up()?);
    /// assert_eq!(follower.db().get(b"key")?, Some(b"new".to_vec()));
    /// # drop((writer, follower));
    /// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::open_read_only`].
    pub fn follow(dir: impl AsRef<Path>, options: Options) -> Result<Follower> {
        Db::follow_in(Arc::new(RealFs), dir.as_ref(), options)
    }

    /// As [`Db::follow`], on a file system of the caller's.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let writer = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut follower = Db::follow_in(fs, "/store".as_ref(), Options::new())?;
    /// writer.put(b"key", b"value")?;
    /// follower.catch_up()?;
    /// assert!(follower.db().contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::open_read_only`].
    pub fn follow_in(fs: Arc<dyn Fs>, dir: &Path, options: Options) -> Result<Follower> {
        let (place, path) = (Arc::clone(&fs), dir.to_owned());
        let open = move || Db::open_read_only_in(Arc::clone(&place), &path, options.clone());
        Ok(Follower { followed: Followed::begin((fs, dir), open, |db| db)? })
    }
}

impl Follower {
    /// The store as of [`Follower::position`], for reading only. A clone of the handle stays at
    /// that moment, and so do its snapshots and iterators.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let writer = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// # let mut follower = Db::follow_in(fs, "/store".as_ref(), Options::new())?;
    /// let before = follower.db().clone();
    /// writer.put(b"key", b"value")?;
    /// follower.catch_up()?;
    /// assert!(follower.db().contains_key(b"key")? && !before.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn db(&self) -> &Db {
        self.followed.store()
    }

    /// What it has seen: all writes up to there, see [`Db::position`]. Without a log
    /// ([`Durability::None`](crate::Durability::None)), those that are in tables.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let writer = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// writer.put(b"key", b"value")?;
    /// let follower = Db::follow_in(fs, "/store".as_ref(), Options::new())?;
    /// assert_eq!(follower.position(), writer.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.followed.position()
    }

    /// Looks at what the writer has done since. Whether there was anything new: then
    /// [`Follower::db`] is a later moment of the store, with everything that was acknowledged
    /// before this call. The cost is that of reading the end of the log, and if there was something
    /// new, that of [`Db::open_read_only`].
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let writer = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut follower = Db::follow_in(fs, "/store".as_ref(), Options::new())?;
    /// assert!(!follower.catch_up()?);
    /// writer.put(b"key", b"value")?;
    /// assert!(follower.catch_up()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::open_read_only`]. The follower stays as it was, and the next call tries again.
    pub fn catch_up(&mut self) -> Result<bool> {
        self.followed.catch_up()
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("dir", &self.followed.dir())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
