//! Reading ranges of keys, as iterators of the language, and the ends of the order.

use super::{Db, Snapshot};
use crate::error::{Error, Result};
use crate::iterator::{Bounds, KeyRange, Range};
use crate::key::Comparator;
use crate::table::ReadOptions;

impl Db {
    /// The entries with keys within `range`, as they are now. O(levels) to make; what is read of
    /// them is read when the iterator is asked.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"apple", b"red")?;
    /// db.put(b"pear", b"green")?;
    /// db.put(b"plum", b"blue")?;
    /// for entry in db.range("apple".."plum") {
    ///     let (key, value) = entry?;
    ///     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
    /// }
    /// let backwards: Vec<_> = db.range(..).keys().rev().collect::<Result<_, _>>()?;
    /// assert_eq!(backwards, [&b"plum"[..], b"pear", b"apple"]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_with(None, range, ReadOptions::default())
    }

    /// As [`Db::range`], at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"apple", b"red")?;
    /// let before = db.snapshot();
    /// db.delete(b"apple")?;
    /// assert_eq!(db.range_at(&before, "a"..).count(), 1);
    /// assert_eq!(db.range("a"..).count(), 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range_at(&self, snapshot: &Snapshot, range: impl KeyRange) -> Range {
        self.range_with(Some(snapshot), range, ReadOptions::default())
    }

    /// As [`Db::range`], now or at the moment of `snapshot`, and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, ReadOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"apple", b"red")?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(db.range_with(None, .., once).count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range_with(
        &self,
        snapshot: Option<&Snapshot>,
        range: impl KeyRange,
        options: ReadOptions,
    ) -> Range {
        let bounds = Bounds::new(&range, <[u8]>::to_vec);
        Range::new(self.inner().moment(snapshot, options), bounds, 0)
    }

    /// The entries with keys that begin with `prefix`, as they are now.
    ///
    /// In another order than that of bytes such keys need not stand together: then the only item is
    /// [`Error::Usage`].
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"user/1", b"ada")?;
    /// db.put(b"user/2", b"bob")?;
    /// db.put(b"users", b"2")?;
    /// let newest = db.prefix("user/").next_back().transpose()?;
    /// assert_eq!(newest, Some((b"user/2".to_vec(), b"bob".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(None, prefix, ReadOptions::default())
    }

    /// As [`Db::prefix`], at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let before = db.snapshot();
    /// db.put(b"user/1", b"ada")?;
    /// assert_eq!(db.prefix_at(&before, "user/").count(), 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn prefix_at(&self, snapshot: &Snapshot, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(Some(snapshot), prefix, ReadOptions::default())
    }

    /// As [`Db::prefix`], now or at the moment of `snapshot`, and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, ReadOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"user/1", b"ada")?;
    /// let block_by_block = ReadOptions { readahead_bytes_max: 0, ..ReadOptions::default() };
    /// assert_eq!(db.prefix_with(None, "user/", block_by_block).count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn prefix_with(
        &self,
        snapshot: Option<&Snapshot>,
        prefix: impl AsRef<[u8]>,
        options: ReadOptions,
    ) -> Range {
        if let Err(error) = check_prefixes(&self.inner().options.comparator) {
            return Range::failed(error);
        }
        let bounds = Bounds::of_prefix(prefix.as_ref());
        Range::new(self.inner().moment(snapshot, options), bounds, 0)
    }

    /// The entry with the first key.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// assert_eq!(db.first()?, None);
    /// db.put(b"b", b"2")?;
    /// db.put(b"a", b"1")?;
    /// assert_eq!(db.first()?, Some((b"a".to_vec(), b"1".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next().transpose()
    }

    /// The entry with the last key.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"b", b"2")?;
    /// db.put(b"a", b"1")?;
    /// assert_eq!(db.last()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next_back().transpose()
    }

    /// Whether there is no key. It looks for the first one, so tombstones of many keys at the start
    /// take it long.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// assert!(db.is_empty()?);
    /// db.put(b"a", b"1")?;
    /// assert!(!db.is_empty()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range(..).keys().next_key()?.is_none())
    }
}

/// Whether the keys of a prefix stand together in this order.
pub(crate) fn check_prefixes(order: &Comparator) -> Result<()> {
    if order.is_bytewise() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "prefix needs keys in the order of bytes, and these are in the order {:?}; use range",
        order.name()
    )))
}
