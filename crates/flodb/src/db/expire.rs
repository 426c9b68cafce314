//! Writing values that expire, and asking when. `expiry` has the rule.
//!
//! Before the first such value, the manifest says that there may be some. So a program that does
//! not know them refuses the store, and the log needs no version of its own. That costs one edit in
//! the life of a store, and one load for each such write.

use super::background_error::is_retryable;
use super::{Db, Inner};
use crate::batch::{Batch, Write};
use crate::checksum::hash;
use crate::error::Result;
use crate::expiry::{self, Expiry};
use crate::key::Kind;
use crate::version::VersionEdit;
use keyrack_store::WriteOptions;
use std::time::Duration;

impl Db {
    /// Stores `value` under `key`, for as long as `ttl` says: afterwards the key is not there. A
    /// later write of the key replaces value and expiry.
    ///
    /// Reads are exact to the millisecond. A [`Snapshot`](crate::Snapshot), an iterator and a
    /// transaction have the clock of their beginning: what had not expired then stays there in
    /// them. Space comes back by compactions, which begin by themselves when a quarter of a table
    /// has expired. Such values are not put into blob files.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// use std::time::Duration;
    /// db.put_with_ttl(b"session", b"ada", Duration::from_secs(3600))?;
    /// assert_eq!(db.get(b"session")?, Some(b"ada".to_vec()));
    /// db.put_with_ttl(b"gone", b"at once", Duration::ZERO)?;
    /// assert_eq!(db.get(b"gone")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        self.put_until(key, value, self.inner().expiries.after(ttl))
    }

    /// As [`Db::put_with_ttl`], until a moment in milliseconds since 1970.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let midnight_ms = 4_102_444_800_000;
    /// db.put_until(b"offer", b"half price", midnight_ms)?;
    /// assert_eq!(db.expiry(b"offer")?, Some(Expiry::At(midnight_ms)));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put_until(&self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        self.put_until_with(key, value, expires_ms, WriteOptions::default())
    }

    /// As [`Db::put_until`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let soon_ms = db.now_ms() + 60_000;
    /// db.put_until_with(b"key", b"value", soon_ms, WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put_until_with(
        &self,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
        options: WriteOptions,
    ) -> Result<()> {
        let inner = self.inner();
        inner.use_expiries()?;
        let value = expiry::stored(expires_ms, value);
        inner.write_one(Write { kind: Kind::PutExpiring, key, value: &value }, options)
    }

    /// When the value of `key` expires. `None` if the key is not there. Costs what a read of it
    /// costs, but reads no blob file unless the value has operands on it.
    ///
    /// An expiry belongs to the value that was put. [`Db::merge`] leaves it: at that moment the
    /// value goes, and the operands stay as they would on a key that was not there.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// assert_eq!(db.expiry(b"key")?, Some(Expiry::Never));
    /// assert_eq!(db.expiry(b"another")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        let found = self.inner().get_with_expiry((key, hash(key)), None, true, |_| ())?;
        Ok(found.map(|(expiry, ())| expiry))
    }

    /// Gives the value of `key` another time to live. `false` if the key is not there. Reads the
    /// value and writes it again.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// use std::time::Duration;
    /// db.put(b"key", b"value")?;
    /// assert!(db.expire(b"key", Duration::from_secs(60))?);
    /// assert_eq!(db.get(b"key")?, Some(b"value".to_vec()));
    /// assert!(!db.expire(b"another", Duration::from_secs(60))?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::update`].
    pub fn expire(&self, key: &[u8], ttl: Duration) -> Result<bool> {
        let expires_ms = self.inner().expiries.after(ttl);
        self.inner().set_expiry(key, Expiry::At(expires_ms), WriteOptions::default())
    }

    /// Lets the value of `key` stay, if it expires, with the operands that it has by then. Says
    /// whether it did.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// use std::time::Duration;
    /// db.put_with_ttl(b"key", b"value", Duration::from_secs(60))?;
    /// assert!(db.persist(b"key")?);
    /// assert_eq!(db.expiry(b"key")?, Some(Expiry::Never));
    /// assert!(!db.persist(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::update`].
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        self.inner().set_expiry(key, Expiry::Never, WriteOptions::default())
    }

    /// The time that expiries are held against, in milliseconds since 1970: that of
    /// [`Options::clock`](crate::Options::clock). It does not go back while the store is open.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let now_ms = db.now_ms();
    /// assert!(db.now_ms() >= now_ms);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.inner().expiries.now_ms()
    }
}

impl Inner {
    /// Sees to it that the manifest says which kinds of writes the log may have because of a batch.
    /// No lock of a key is held.
    #[inline]
    pub(super) fn use_kinds(&self, batch: &Batch) -> Result<()> {
        if batch.has_expiring() {
            self.use_expiries()?;
        }
        if batch.has_operands() {
            self.use_operands()?;
        }
        Ok(())
    }

    /// Sees to it that the manifest says that values may expire. No lock of a key is held.
    pub(super) fn use_expiries(&self) -> Result<()> {
        if self.expiries.is_used() {
            return Ok(());
        }
        self.check_poison()?;
        let edit = VersionEdit { has_expiries: true, ..VersionEdit::default() };
        self.install(&edit, (&[], &[]), None).inspect_err(|error| {
            if !is_retryable(error) {
                self.poison(error);
            }
        })?;
        self.expiries.set_used();
        Ok(())
    }

    /// Writes the value of a key again with another expiry. `false` if it is not there, or is to
    /// stay and does.
    fn set_expiry(&self, key: &[u8], expiry: Expiry, options: WriteOptions) -> Result<bool> {
        if matches!(expiry, Expiry::At(_)) {
            self.use_expiries()?;
        }
        // How large the value is nobody knows yet.
        self.admit(super::write::RECORD_BYTES + key.len())?;
        let hash = hash(key);
        let held = self.write_path.key_locks.lock(hash);
        let found = self.get_with_expiry((key, hash), None, false, <[u8]>::to_vec)?;
        let end = match (found, expiry) {
            (None, _) | (Some((Expiry::Never, _)), Expiry::Never) => return Ok(false),
            (Some((_, value)), Expiry::Never) => {
                self.log_one(Write { kind: Kind::Put, key, value: &value }, hash)?
            }
            (Some((_, value)), Expiry::At(expires_ms)) => {
                let value = expiry::stored(expires_ms, &value);
                self.log_one(Write { kind: Kind::PutExpiring, key, value: &value }, hash)?
            }
        };
        drop(held);
        self.sync_if_asked(end, options)?;
        Ok(true)
    }
}
