//! Operands in key spaces: the calls of the store, on keys without their prefix.

use super::key::with_key;
use super::space::KeySpace;
use super::{SpacesBatch, SpacesTransaction};
use crate::error::Result;

impl KeySpace {
    /// Adds an operand to what `key` has: see [`Db::merge`](crate::Db::merge). All spaces of a
    /// store have one merge operator. The key that it gets begins with the prefix of the space.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Counter, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let options = Options::new().merge_operator(Counter);
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), options, &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.merge(b"ada", &1_i64.to_le_bytes())?;
    /// assert_eq!(users.get(b"ada")?, Some(1_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::merge`](crate::Db::merge).
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.merge(key, operand))
    }
}

impl SpacesBatch {
    /// Adds an operand to what `key` of `space` has: see [`Db::merge`](crate::Db::merge).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Counter, Options, Spaces, SpacesBatch, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let options = Options::new().merge_operator(Counter);
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), options, &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.merge(&users, b"ada", &1_i64.to_le_bytes());
    /// spaces.write(&batch, WriteOptions::default())?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn merge(&mut self, space: &KeySpace, key: &[u8], operand: &[u8]) {
        self.note(space);
        with_key(&space.space.prefix, key, |key| self.batch.merge(key, operand));
    }
}

impl SpacesTransaction {
    /// Adds an operand to what `key` of `space` has, at the commit: see
    /// [`Transaction::merge`](crate::Transaction::merge).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Counter, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let options = Options::new().merge_operator(Counter);
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), options, &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.merge(&users, b"ada", &1_i64.to_le_bytes())?;
    /// transaction.commit()?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::put`].
    pub fn merge(&self, space: &KeySpace, key: &[u8], operand: &[u8]) -> Result<()> {
        self.within(space, |inner| {
            with_key(&space.space.prefix, key, |key| inner.merge(key, operand))
        })
    }
}
