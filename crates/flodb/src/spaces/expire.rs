//! Values that expire in key spaces: the calls of the store, on keys without their prefix.

use super::key::with_key;
use super::space::KeySpace;
use super::{Spaces, SpacesBatch, SpacesTransaction};
use crate::error::Result;
use crate::expiry::Expiry;
use std::time::Duration;

impl Spaces {
    /// The time that expiries are held against: see [`Db::now_ms`](crate::Db::now_ms).
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let now_ms = spaces.now_ms();
    /// assert!(spaces.now_ms() >= now_ms);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.db.now_ms()
    }
}

impl KeySpace {
    /// Stores a value for as long as `ttl` says: see [`Db::put_with_ttl`].
    ///
    /// [`Db::put_with_ttl`]: crate::Db::put_with_ttl
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// use std::time::Duration;
    /// users.put_with_ttl(b"ada", b"here", Duration::from_secs(60))?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.put_with_ttl(key, value, ttl))
    }

    /// Stores a value until a moment in milliseconds since 1970: see [`Db::put_until`].
    ///
    /// [`Db::put_until`]: crate::Db::put_until
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put_until(b"ada", b"here", 4_102_444_800_000)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::put`].
    pub fn put_until(&self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.put_until(key, value, expires_ms))
    }

    /// When the value of `key` expires: see [`Db::expiry`](crate::Db::expiry).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Expiry, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"here")?;
    /// assert_eq!(users.expiry(b"ada")?, Some(Expiry::Never));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::get`].
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.expiry(key))
    }

    /// Gives the value of `key` another time to live: see [`Db::expire`](crate::Db::expire).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// use std::time::Duration;
    /// assert!(!users.expire(b"ada", Duration::from_secs(60))?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::update`].
    pub fn expire(&self, key: &[u8], ttl: Duration) -> Result<bool> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.expire(key, ttl))
    }

    /// Lets the value of `key` stay: see [`Db::persist`](crate::Db::persist).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put_until(b"ada", b"here", 4_102_444_800_000)?;
    /// assert!(users.persist(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::update`].
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.persist(key))
    }
}

impl SpacesBatch {
    /// Stores `value` under `key` of `space` until a moment: see
    /// [`Batch::put_until`](crate::Batch::put_until).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.put_until(&users, b"ada", b"here", spaces.now_ms() + 60_000);
    /// spaces.write(&batch, WriteOptions::default())?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn put_until(&mut self, space: &KeySpace, key: &[u8], value: &[u8], expires_ms: u64) {
        self.note(space);
        with_key(&space.space.prefix, key, |key| self.batch.put_until(key, value, expires_ms));
    }
}

impl SpacesTransaction {
    /// Stores `value` under `key` of `space` at the commit, for as long as `ttl` says: see
    /// [`Transaction::put_with_ttl`](crate::Transaction::put_with_ttl).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// use std::time::Duration;
    /// let transaction = spaces.transaction();
    /// transaction.put_with_ttl(&users, b"ada", b"here", Duration::from_secs(60))?;
    /// transaction.commit()?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::put`].
    pub fn put_with_ttl(
        &self,
        space: &KeySpace,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        self.within(space, |inner| {
            with_key(&space.space.prefix, key, |key| inner.put_with_ttl(key, value, ttl))
        })
    }

    /// The same until a moment in milliseconds since 1970.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put_until(&users, b"ada", b"here", 4_102_444_800_000)?;
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::put`].
    pub fn put_until(
        &self,
        space: &KeySpace,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
    ) -> Result<()> {
        self.within(space, |inner| {
            with_key(&space.space.prefix, key, |key| inner.put_until(key, value, expires_ms))
        })
    }

    /// When the value of a key expires: see
    /// [`Transaction::expiry`](crate::Transaction::expiry).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Expiry, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"here")?;
    /// assert_eq!(transaction.expiry(&users, b"ada")?, Some(Expiry::Never));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`].
    pub fn expiry(&self, space: &KeySpace, key: &[u8]) -> Result<Option<Expiry>> {
        self.within(space, |inner| with_key(&space.space.prefix, key, |key| inner.expiry(key)))
    }

    /// Gives the value of a key another time to live: see
    /// [`Transaction::expire`](crate::Transaction::expire).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// assert!(!transaction.expire(&users, b"ada", std::time::Duration::from_secs(60))?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`] and [`SpacesTransaction::put`].
    pub fn expire(&self, space: &KeySpace, key: &[u8], ttl: Duration) -> Result<bool> {
        self.within(space, |inner| with_key(&space.space.prefix, key, |key| inner.expire(key, ttl)))
    }

    /// Lets the value of a key stay: see [`Transaction::persist`](crate::Transaction::persist).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// assert!(!transaction.persist(&users, b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::expire`].
    pub fn persist(&self, space: &KeySpace, key: &[u8]) -> Result<bool> {
        self.within(space, |inner| with_key(&space.space.prefix, key, |key| inner.persist(key)))
    }
}
