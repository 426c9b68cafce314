//! Writes that depend on the value that a key has: an update whose decision is a common one.
//!
//! Each costs what [`Db::update`] costs: one read and at most one write under the lock of the key.

use super::Db;
use crate::error::{Error, Result};
use keyrack_concurrent::Change;
use keyrack_store::WriteOptions;

/// Bytes of a counter.
const COUNTER_BYTES: usize = 8;

impl Db {
    /// Stores `new` under `key` if it has the value `expected` now, and says whether it had.
    /// `None` is no value: as `expected`, that the key is not there, and as `new`, that it is
    /// removed.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// // Of those who try, one gets it.
    /// assert!(db.compare_and_swap(b"lock", None, Some(b"worker 7"))?);
    /// assert!(!db.compare_and_swap(b"lock", None, Some(b"worker 8"))?);
    /// // Only who has it gives it back.
    /// assert!(db.compare_and_swap(b"lock", Some(b"worker 7"), None)?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::update`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default())
    }

    /// As [`Db::compare_and_swap`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"state", b"open")?;
    /// let synced = WriteOptions { sync: true };
    /// assert!(db.compare_and_swap_with(b"state", Some(b"open"), Some(b"shut"), synced)?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::update`].
    pub fn compare_and_swap_with(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let mut is_expected = false;
        self.update(key, options, |found| {
            is_expected = found == expected;
            match new {
                _ if !is_expected => Change::Keep,
                Some(new) => Change::Put(new.to_vec()),
                None if found.is_none() => Change::Keep,
                None => Change::Remove,
            }
        })?;
        Ok(is_expected)
    }

    /// Adds `delta` to the counter under `key`, and gives what it was before. A counter is a value
    /// of 8 bytes: an `i64`, little-endian. One that is not there is 0.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// assert_eq!(db.fetch_and_add(b"visits", 1)?, 0);
    /// assert_eq!(db.fetch_and_add(b"visits", 10)?, 1);
    /// assert_eq!(db.get(b"visits")?, Some(11_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if the value has not 8 bytes, or if the sum is no `i64`; nothing is
    /// written then. As for [`Db::update`].
    pub fn fetch_and_add(&self, key: &[u8], delta: i64) -> Result<i64> {
        self.fetch_and_add_with(key, delta, WriteOptions::default())
    }

    /// As [`Db::fetch_and_add`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let ticket = db.fetch_and_add_with(b"tickets", 1, WriteOptions { sync: true })?;
    /// assert_eq!(ticket, 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::fetch_and_add`].
    pub fn fetch_and_add_with(&self, key: &[u8], delta: i64, options: WriteOptions) -> Result<i64> {
        let mut before = Ok(0);
        self.update(key, options, |found| {
            let sum = counter(found).and_then(|found| {
                before = Ok(found);
                let sum = found.checked_add(delta);
                sum.ok_or_else(|| {
                    Error::Usage(format!("the counter {found} cannot grow by {delta}"))
                })
            });
            match sum {
                Ok(sum) => Change::Put(sum.to_le_bytes().to_vec()),
                Err(error) => {
                    before = Err(error);
                    Change::Keep
                }
            }
        })?;
        before
    }
}

/// The number that a counter has.
fn counter(value: Option<&[u8]>) -> Result<i64> {
    let Some(value) = value else { return Ok(0) };
    let bytes: [u8; COUNTER_BYTES] = value.try_into().map_err(|_| {
        let bytes = value.len();
        Error::Usage(format!("a counter has {COUNTER_BYTES} bytes, and this value has {bytes}"))
    })?;
    Ok(i64::from_le_bytes(bytes))
}
