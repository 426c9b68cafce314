//! Values that expire in a transaction: writing them, and asking when. `crate::expiry` has the
//! rule.

use super::Transaction;
use super::write_buffer::Own;
use crate::batch::Write;
use crate::checksum::hash;
use crate::error::Result;
use crate::expiry::{self, Expiry};
use crate::key::Kind;
use crate::table::ReadOptions;
use std::time::Duration;

impl Transaction {
    /// Stores `value` under `key` at the commit, for as long as `ttl` says from now on.
    ///
    /// The clock of a transaction stands still: what had not expired when it began stays there in
    /// it, and what it has read does not count as changed because it has expired since.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// use std::time::Duration;
    /// let transaction = db.transaction();
    /// transaction.put_with_ttl(b"session", b"ada", Duration::from_secs(60))?;
    /// assert_eq!(transaction.get(b"session")?.as_deref(), Some(&b"ada"[..]));
    /// transaction.commit()?;
    /// assert!(matches!(db.expiry(b"session")?, Some(Expiry::At(_))));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        self.put_until(key, value, self.db.inner().expiries.after(ttl))
    }

    /// As [`Transaction::put_with_ttl`], until a moment in milliseconds since 1970.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put_until(b"offer", b"half price", 4_102_444_800_000)?;
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::put`].
    pub fn put_until(&self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        let value = expiry::stored(expires_ms, value);
        self.write(Write { kind: Kind::PutExpiring, key, value: &value })
    }

    /// When the value of `key` expires, as the transaction sees it. `None` if the key is not there.
    /// The key counts as read.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// assert_eq!(transaction.expiry(b"offer")?, None);
    /// transaction.put_until(b"offer", b"half price", 4_102_444_800_000)?;
    /// assert_eq!(transaction.expiry(b"offer")?, Some(Expiry::At(4_102_444_800_000)));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        Ok(self.with_expiry(key, true, |_| ())?.map(|(expiry, ())| expiry))
    }

    /// Gives the value of `key` another time to live, from now on, at the commit. `false` if the
    /// key is not there. It counts as read, so a change of it by somebody else is a conflict.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// use std::time::Duration;
    /// db.put(b"session", b"ada")?;
    /// let transaction = db.transaction();
    /// assert!(transaction.expire(b"session", Duration::from_secs(60))?);
    /// assert!(!transaction.expire(b"another", Duration::from_secs(60))?);
    /// transaction.commit()?;
    /// assert!(matches!(db.expiry(b"session")?, Some(Expiry::At(_))));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`] and [`Transaction::put`].
    pub fn expire(&self, key: &[u8], ttl: Duration) -> Result<bool> {
        let expires_ms = self.db.inner().expiries.after(ttl);
        match self.with_expiry(key, false, <[u8]>::to_vec)? {
            None => Ok(false),
            Some((_, value)) => self.put_until(key, &value, expires_ms).map(|()| true),
        }
    }

    /// Lets the value of `key` stay at the commit, if it expires, with the operands that it has by
    /// then. Says whether it did. The key counts as read, as with [`Transaction::expire`].
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Expiry, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// use std::time::Duration;
    /// db.put_with_ttl(b"session", b"ada", Duration::from_secs(60))?;
    /// let transaction = db.transaction();
    /// assert!(transaction.persist(b"session")?);
    /// assert!(!transaction.persist(b"session")?);
    /// transaction.commit()?;
    /// assert_eq!(db.expiry(b"session")?, Some(Expiry::Never));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::expire`].
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        match self.with_expiry(key, false, <[u8]>::to_vec)? {
            None | Some((Expiry::Never, _)) => Ok(false),
            Some((Expiry::At(_), value)) => self.put(key, &value).map(|()| true),
        }
    }

    /// The expiry of the value of a key, and what `visit` makes of the value; where `leaves_value`
    /// is set, of any bytes.
    fn with_expiry<R>(
        &self,
        key: &[u8],
        leaves_value: bool,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<(Expiry, R)>> {
        let (inner, hash) = (self.db.inner(), hash(key));
        let mut state = self.state.borrow_mut();
        let moment = (state.snapshot.pinned.sequence(), state.snapshot.pinned.time_ms());
        let own_expiry = || state.sets.writes.expiry_of(key, &inner.options.comparator, moment.1);
        match self.own(&state, key, hash) {
            Own::Deleted => Ok(None),
            Own::Value(value) => {
                let expiry = own_expiry().expect("a value of the transaction's own");
                let value = value.to_vec();
                drop(state);
                Ok(Some((expiry, visit(&value))))
            }
            Own::Unknown => {
                state.keep_read(self.options.isolation, key, hash);
                drop(state);
                inner.get_with_expiry((key, hash), Some(moment), leaves_value, visit)
            }
            Own::Operands => {
                let expiry = own_expiry();
                drop(state);
                let value = self.merged(key, hash, ReadOptions::default())?;
                let expiry = match expiry {
                    Some(expiry) => expiry,
                    None => {
                        let below = inner.get_with_expiry((key, hash), Some(moment), true, |_| ());
                        below?.map_or(Expiry::Never, |(expiry, ())| expiry)
                    }
                };
                Ok(Some((expiry, visit(&value))))
            }
        }
    }
}
