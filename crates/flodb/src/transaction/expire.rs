//! Writing values that expire in a transaction. `crate::expiry` has the rule.

use super::Transaction;
use crate::batch::Write;
use crate::error::Result;
use crate::expiry;
use crate::key::Kind;
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
}
