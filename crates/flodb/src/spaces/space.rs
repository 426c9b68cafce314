//! One key space: the operations of a store, on keys without their prefix.

use super::iter::SpaceIter;
use super::key::with_key;
use super::order::Prefix;
use crate::db::{Db, Snapshot};
use crate::error::{Error, Result};
use crate::key::Comparator;
use crate::table::ReadOptions;
use keyrack_concurrent::Change;
use keyrack_store::WriteOptions;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of a space, once for all its handles.
pub(super) struct Space {
    pub(super) name: String,
    pub(super) prefix: Prefix,
    pub(super) order: Comparator,
    /// The same for all spaces of an open store, and for no others.
    pub(super) home: Arc<()>,
    dropped: AtomicBool,
}

impl Space {
    pub(super) fn new(name: String, prefix: Prefix, order: Comparator, home: Arc<()>) -> Arc<Self> {
        Arc::new(Space { name, prefix, order, home, dropped: AtomicBool::new(false) })
    }

    /// Nobody begins to use it from now on.
    pub(super) fn set_dropped(&self) {
        // Relaxed: what a user of that moment still writes is removed at the next opening.
        self.dropped.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Relaxed) {
            Err(Error::Usage(format!("the key space {:?} was dropped", self.name)))
        } else {
            Ok(())
        }
    }
}

impl Space {
    /// Whether it is of the store with this home.
    pub(super) fn check_home(&self, home: &Arc<()>) -> Result<()> {
        if Arc::ptr_eq(&self.home, home) {
            return Ok(());
        }
        Err(Error::Usage(format!("the key space {:?} is of another store", self.name)))
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A key space of a store: ordered keys of its own, beside others. Cloning the handle is cheap; the
/// store stays open as long as there is one.
///
/// Its operations mean what those of [`Db`] mean. All of them fail with [`Error::Usage`] once the
/// space is dropped.
#[derive(Clone, Debug)]
pub struct KeySpace {
    pub(super) db: Db,
    pub(super) space: Arc<Space>,
}

impl KeySpace {
    /// Its name.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert_eq!(users.name(), "users");
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// The order of its keys.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert_eq!(users.comparator().name(), "keyrack.bytewise");
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn comparator(&self) -> &Comparator {
        &self.space.order
    }

    /// Stores `value` under `key`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(users.get(b"ada")?, Some(b"36".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`KeySpace::put`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put_with(b"ada", b"36", WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put_with(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.put_with(key, value, options))
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.delete(b"ada")?;
    /// assert!(!users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Removes the keys from `from` on and before `to`, by one write: see [`Db::delete_range`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.delete_range(b"a", b"b")?;
    /// assert!(users.is_empty()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.delete_range_with(from, to, WriteOptions::default())
    }

    /// As [`KeySpace::delete_range`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.delete_range_with(b"a", b"b", WriteOptions { sync: true })?;
    /// assert!(users.is_empty()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_range_with(&self, from: &[u8], to: &[u8], options: WriteOptions) -> Result<()> {
        self.space.check()?;
        let prefix = &self.space.prefix;
        with_key(prefix, from, |from| {
            with_key(prefix, to, |to| self.db.delete_range_with(from, to, options))
        })
    }

    /// As [`KeySpace::delete`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.delete_with(b"ada", WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_with(&self, key: &[u8], options: WriteOptions) -> Result<()> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.delete_with(key, options))
    }

    /// Reads, decides and writes one key as one step, see [`Db::update`].
    ///
    /// ```
    /// # use keyrack_flodb::{Change, Comparator, Options, Spaces, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.update(b"ada", WriteOptions::default(), |found| match found {
    ///     Some(_) => Change::Keep,
    ///     None => Change::Put(b"36".to_vec()),
    /// })?;
    /// assert_eq!(users.get(b"ada")?, Some(b"36".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::update`].
    pub fn update(
        &self,
        key: &[u8],
        options: WriteOptions,
        decide: impl FnOnce(Option<&[u8]>) -> Change<Vec<u8>>,
    ) -> Result<()> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.update(key, options, decide))
    }

    /// Stores `new` under `key` if it has the value `expected` now, see [`Db::compare_and_swap`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(users.compare_and_swap(b"ada", None, Some(b"36"))?);
    /// assert!(!users.compare_and_swap(b"ada", None, Some(b"37"))?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::compare_and_swap`].
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default())
    }

    /// As [`KeySpace::compare_and_swap`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let synced = WriteOptions { sync: true };
    /// assert!(users.compare_and_swap_with(b"ada", None, Some(b"36"), synced)?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::compare_and_swap`].
    pub fn compare_and_swap_with(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        self.space.check()?;
        let swap = |key: &[u8]| self.db.compare_and_swap_with(key, expected, new, options);
        with_key(&self.space.prefix, key, swap)
    }

    /// Adds `delta` to the counter under `key`, and gives what it was before: see
    /// [`Db::fetch_and_add`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert_eq!(users.fetch_and_add(b"logins", 1)?, 0);
    /// assert_eq!(users.fetch_and_add(b"logins", 1)?, 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::fetch_and_add`].
    pub fn fetch_and_add(&self, key: &[u8], delta: i64) -> Result<i64> {
        self.fetch_and_add_with(key, delta, WriteOptions::default())
    }

    /// As [`KeySpace::fetch_and_add`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let synced = WriteOptions { sync: true };
    /// assert_eq!(users.fetch_and_add_with(b"logins", 1, synced)?, 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::fetch_and_add`].
    pub fn fetch_and_add_with(&self, key: &[u8], delta: i64, options: WriteOptions) -> Result<i64> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.fetch_and_add_with(key, delta, options))
    }

    /// Whether `key` is there.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.contains_key(key))
    }

    /// The value of `key`, copied.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(users.get(b"ada")?, Some(b"36".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Lends the value of `key` to `visit`, and gives what that returns.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(users.get_with(b"ada", <[u8]>::len)?, Some(2));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get_with<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.get_with(key, visit))
    }

    /// As [`KeySpace::get_with`], at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let before = spaces.snapshot();
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(users.get_at(&before, b"ada", <[u8]>::len)?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get_at<R>(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.space.check()?;
        with_key(&self.space.prefix, key, |key| self.db.get_at(snapshot, key, visit))
    }

    /// As [`KeySpace::get_with`], now or at the moment of `snapshot`, and reads tables as `options`
    /// say: see [`Db::read_with`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, ReadOptions, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(users.read_with(None, b"ada", once, <[u8]>::len)?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn read_with<R>(
        &self,
        snapshot: Option<&Snapshot>,
        key: &[u8],
        options: ReadOptions,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.space.check()?;
        let read = |key: &[u8]| self.db.read_with(snapshot, key, options, visit);
        with_key(&self.space.prefix, key, read)
    }

    /// The values of many keys, all of one moment, each given to `visit` with its index.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let mut found = Vec::new();
    /// users.multi_get(&[b"ada", b"bob"], |_, value| found.push(value.is_some()))?;
    /// assert_eq!(found, [true, false]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`]; values before the first failure have been given.
    pub fn multi_get(&self, keys: &[&[u8]], visit: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.space.check()?;
        let prefix = self.space.prefix.bytes();
        let bytes: usize = keys.iter().map(|key| prefix.len() + key.len()).sum();
        let mut stored = Vec::with_capacity(bytes);
        for key in keys {
            stored.extend_from_slice(prefix);
            stored.extend_from_slice(key);
        }
        let mut rest = &stored[..];
        let split = |key: &&[u8]| {
            let (stored, behind) = rest.split_at(prefix.len() + key.len());
            rest = behind;
            stored
        };
        let keys: Vec<&[u8]> = keys.iter().map(split).collect();
        self.db.multi_get(&keys, visit)
    }

    /// An iterator over all keys of the space, as they are now.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let mut iter = users.iter()?;
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"ada"[..], &b"36"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::iter`].
    pub fn iter(&self) -> Result<SpaceIter> {
        self.space.check()?;
        Ok(SpaceIter::new(self.db.iter()?, self.space.prefix))
    }

    /// An iterator over all keys of the space, as they were at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let before = spaces.snapshot();
    /// users.put(b"ada", b"36")?;
    /// let mut iter = users.iter_at(&before)?;
    /// iter.seek_first()?;
    /// assert!(!iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::iter`].
    pub fn iter_at(&self, snapshot: &Snapshot) -> Result<SpaceIter> {
        self.space.check()?;
        Ok(SpaceIter::new(self.db.iter_at(snapshot)?, self.space.prefix))
    }

    /// An iterator over all keys of the space, now or at the moment of `snapshot`, that reads
    /// tables as `options` say: see [`Db::iter_with`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, ReadOptions, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// let mut iter = users.iter_with(None, once)?;
    /// iter.seek_last()?;
    /// assert_eq!(iter.entry(), None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::iter`].
    pub fn iter_with(
        &self,
        snapshot: Option<&Snapshot>,
        options: ReadOptions,
    ) -> Result<SpaceIter> {
        self.space.check()?;
        Ok(SpaceIter::new(self.db.iter_with(snapshot, options)?, self.space.prefix))
    }

    /// About how many bytes of tables hold the keys with `low <= key < high`; nothing is an open
    /// end. O(tables).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// spaces.flush()?;
    /// let bytes = users.approximate_size(None, None);
    /// # assert!(bytes < 1 << 20);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn approximate_size(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> u64 {
        self.between(low, high, |low, high| self.db.approximate_size(low, high))
    }

    /// Compacts the tables that have keys of the space from `low` to `high`, both included, see
    /// [`Db::compact_range`]. Nothing is an open end.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.compact_range(Some(b"a"), Some(b"b"))?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::compact_range`].
    pub fn compact_range(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
        self.space.check()?;
        self.between(low, high, |low, high| self.db.compact_range(Some(low), Some(high)))
    }

    /// Gives two keys of the store to `act`, those of the space in place of open ends.
    fn between<R>(
        &self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        act: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> R {
        let prefix = &self.space.prefix;
        let whole = |key: &[u8]| with_key(prefix, key, <[u8]>::to_vec);
        let (behind, len) = prefix.high();
        let low = low.map_or_else(|| prefix.low().to_vec(), whole);
        let high = high.map_or_else(|| behind[..len].to_vec(), whole);
        act(&low, &high)
    }
}
