//! Ranges of a key space: ranges of the store that stay within it.

use super::order::Prefix;
use super::space::KeySpace;
use crate::db::{Snapshot, check_prefixes};
use crate::error::Result;
use crate::iterator::{Bounds, KeyRange, Range};
use crate::table::ReadOptions;
use std::ops::Bound;

impl KeySpace {
    /// The entries with keys within `range`, in the order of the space, as they are now: see
    /// [`Db::range`](crate::Db::range). If the space was dropped, the only item is
    /// [`Error::Usage`](crate::Error::Usage).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// let keys: Vec<_> = users.range("b"..).keys().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"bob"]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_with(None, range, ReadOptions::default())
    }

    /// As [`KeySpace::range`], at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// let before = spaces.snapshot();
    /// users.delete(b"bob")?;
    /// assert_eq!(users.range_at(&before, ..).count(), 2);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range_at(&self, snapshot: &Snapshot, range: impl KeyRange) -> Range {
        self.range_with(Some(snapshot), range, ReadOptions::default())
    }

    /// As [`KeySpace::range`], now or at the moment of `snapshot`, and reads tables as `options`
    /// say.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, ReadOptions, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(users.range_with(None, .."b", once).count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range_with(
        &self,
        snapshot: Option<&Snapshot>,
        range: impl KeyRange,
        options: ReadOptions,
    ) -> Range {
        if let Err(error) = self.space.check() {
            return Range::failed(error);
        }
        let moment = self.db.inner().moment(snapshot, options);
        Range::new(moment, self.bounds(&range), self.space.prefix.bytes().len())
    }

    /// The entries with keys that begin with `prefix`, as they are now. If the space is in another
    /// order than that of bytes, or was dropped, the only item is
    /// [`Error::Usage`](crate::Error::Usage).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// let found = users.prefix("b").next().transpose()?;
    /// assert_eq!(found, Some((b"bob".to_vec(), b"41".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(None, prefix, ReadOptions::default())
    }

    /// As [`KeySpace::prefix`], at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let before = spaces.snapshot();
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(users.prefix_at(&before, "a").count(), 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn prefix_at(&self, snapshot: &Snapshot, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(Some(snapshot), prefix, ReadOptions::default())
    }

    /// As [`KeySpace::prefix`], now or at the moment of `snapshot`, and reads tables as `options`
    /// say.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, ReadOptions, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(users.prefix_with(None, "a", once).count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn prefix_with(
        &self,
        snapshot: Option<&Snapshot>,
        prefix: impl AsRef<[u8]>,
        options: ReadOptions,
    ) -> Range {
        if let Err(error) = check_prefixes(&self.space.order) {
            return Range::failed(error);
        }
        let Bounds { low, high } = Bounds::of_prefix(prefix.as_ref());
        self.range_with(snapshot, (low, high), options)
    }

    /// The entry with the first key, in the order of the space.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// assert_eq!(users.first()?, Some((b"ada".to_vec(), b"36".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`](crate::Db::get).
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next().transpose()
    }

    /// The entry with the last key, in the order of the space.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// assert_eq!(users.last()?, Some((b"bob".to_vec(), b"41".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`](crate::Db::get).
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next_back().transpose()
    }

    /// Whether there is no key, see [`Db::is_empty`](crate::Db::is_empty).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(users.is_empty()?);
    /// users.put(b"ada", b"36")?;
    /// assert!(!users.is_empty()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`](crate::Db::get).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range(..).keys().next_key()?.is_none())
    }

    /// A range of its keys as the store has them, with its own ends in place of open ones.
    pub(super) fn bounds(&self, range: &impl KeyRange) -> Bounds {
        let prefix = &self.space.prefix;
        let Bounds { low, high } = Bounds::new(range, |key| [prefix.bytes(), key].concat());
        Bounds {
            low: or_else(low, || Bound::Included(prefix.low().to_vec())),
            high: or_else(high, || Bound::Excluded(behind(prefix))),
        }
    }
}

/// `bound`, or the other if it is open.
fn or_else(bound: Bound<Vec<u8>>, other: impl FnOnce() -> Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    if bound == Bound::Unbounded { other() } else { bound }
}

/// What is behind all keys of a space.
fn behind(prefix: &Prefix) -> Vec<u8> {
    let (bytes, len) = prefix.high();
    bytes[..len].to_vec()
}
