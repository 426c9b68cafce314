//! A store with key spaces that follows the writer of its directory: as `crate::follower`, with the
//! spaces that there are at each moment.

use super::Spaces;
use crate::error::Result;
use crate::follower::Followed;
use crate::key::Comparator;
use crate::options::Options;
use crate::position::Position;
use keyrack_vfs::{Fs, RealFs};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A store with key spaces that is open for reading only and keeps up with its writer, see
/// [`Spaces::follow`].
pub struct SpacesFollower {
    followed: Followed<Spaces>,
}

impl Spaces {
    /// Opens the store in `dir` for reading only, to keep up with the process or handle that writes
    /// to it, as [`Db::follow`](crate::Db::follow) does. `orders` are those of [`Spaces::open`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Db, Options, Spaces};
    /// let dir = std::env::temp_dir().join(format!("keyrack-follow-spaces{}", std::process::id()));
    /// let writer = Spaces::open(&dir, Options::new(), &[])?;
    /// let mut follower = Spaces::follow(&dir, Options::new(), &[])?;
    /// writer.create("users", &Comparator::Bytewise)?.put(b"ada", b"36")?;
    /// assert!(follower.spaces().get("users").is_none());
    /// assert!(follower.catch_up()?);
    /// let users = follower.spaces().get("users").expect("it was made");
    /// assert_eq!(users.get(b"ada")?, Some(b"36".to_vec()));
    /// # drop((writer, follower, users));
    /// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Spaces::open_read_only`].
    pub fn follow(
        dir: impl AsRef<Path>,
        options: Options,
        orders: &[Comparator],
    ) -> Result<SpacesFollower> {
        Spaces::follow_in(Arc::new(RealFs), dir.as_ref(), options, orders)
    }

    /// As [`Spaces::follow`], on a file system of the caller's.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let writer = Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?;
    /// let mut follower = Spaces::follow_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert!(!follower.catch_up()?);
    /// # drop(writer);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Spaces::open_read_only`].
    pub fn follow_in(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: Options,
        orders: &[Comparator],
    ) -> Result<SpacesFollower> {
        let (place, path, orders) = (Arc::clone(&fs), dir.to_owned(), orders.to_vec());
        let open =
            move || Spaces::open_read_only_in(Arc::clone(&place), &path, options.clone(), &orders);
        Ok(SpacesFollower { followed: Followed::begin((fs, dir), open, |spaces| &spaces.db)? })
    }
}

impl SpacesFollower {
    /// The spaces as of [`SpacesFollower::position`], for reading only. A clone of the handle stays
    /// at that moment, and so do the handles of its spaces.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let writer = Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?;
    /// writer.create("users", &Comparator::Bytewise)?;
    /// let follower = Spaces::follow_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert_eq!(follower.spaces().list().len(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn spaces(&self) -> &Spaces {
        self.followed.store()
    }

    /// What it has seen, see [`Follower::position`](crate::Follower::position).
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let writer = Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?;
    /// let follower = Spaces::follow_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert_eq!(follower.position(), writer.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.followed.position()
    }

    /// Looks at what the writer has done since, see
    /// [`Follower::catch_up`](crate::Follower::catch_up). A space that was dropped by then is gone
    /// from [`SpacesFollower::spaces`], and stays for who has a handle of it.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let writer = Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?;
    /// let mut follower = Spaces::follow_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// writer.create("users", &Comparator::Bytewise)?;
    /// assert!(follower.catch_up()? && !follower.catch_up()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Spaces::open_read_only`]. The follower stays as it was, and the next call tries
    /// again.
    pub fn catch_up(&mut self) -> Result<bool> {
        self.followed.catch_up()
    }
}

impl fmt::Debug for SpacesFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpacesFollower")
            .field("dir", &self.followed.dir())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
