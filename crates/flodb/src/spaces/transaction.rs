//! Transactions over all key spaces of a store: those of the store, with the prefixes.

use super::Spaces;
use super::key::with_key;
use super::space::{KeySpace, Space};
use super::transaction_iter::SpacesTransactionIter;
use crate::db::check_prefixes;
use crate::error::{Error, Result};
use crate::iterator::{Bounds, KeyRange};
use crate::table::ReadOptions;
use crate::transaction::{Transaction, TransactionOptions, TransactionRange, retried};
use std::cell::RefCell;
use std::sync::Arc;

/// Reads of one moment of all key spaces, and writes to them that happen together or not at all.
///
/// It is a [`Transaction`] whose calls name a key space. Errors have keys without prefixes, and the
/// name of the space.
///
/// ```
/// use keyrack_flodb::{Comparator, Options, Spaces};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
/// let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
/// let by_age = spaces.get_or_create("by_age", &Comparator::Bytewise)?;
/// spaces.retry(10, |transaction| {
///     if transaction.get(&users, b"ada")?.is_none() {
///         transaction.put(&users, b"ada", b"36")?;
///         transaction.put(&by_age, b"36 ada", b"")?;
///     }
///     Ok(())
/// })?;
/// assert!(by_age.get(b"36 ada")?.is_some());
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Debug)]
pub struct SpacesTransaction {
    inner: Transaction,
    home: Arc<()>,
    /// Those that were used. There are few.
    used: RefCell<Vec<Arc<Space>>>,
}

impl Spaces {
    /// Begins a serializable transaction over all key spaces at this moment.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// transaction.commit()?;
    /// assert!(users.get(b"ada")?.is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn transaction(&self) -> SpacesTransaction {
        self.transaction_with(TransactionOptions::default())
    }

    /// Begins a transaction over all key spaces at this moment.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// use keyrack_flodb::{Isolation, TransactionOptions};
    /// let isolation = Isolation::Snapshot;
    /// let cheap = spaces.transaction_with(TransactionOptions { isolation, ..Default::default() });
    /// cheap.put(&users, b"ada", b"36")?;
    /// cheap.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn transaction_with(&self, options: TransactionOptions) -> SpacesTransaction {
        let (inner, home) = (self.db.transaction_with(options), Arc::clone(&self.shared.home));
        SpacesTransaction { inner, home, used: RefCell::default() }
    }

    /// Runs `act` in a serializable transaction and commits it, up to `attempts` times while there
    /// are conflicts: see [`Db::retry`](crate::Db::retry).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// spaces.retry(10, |transaction| transaction.put(&users, b"ada", b"36"))?;
    /// assert!(users.get(b"ada")?.is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::retry`](crate::Db::retry).
    pub fn retry<T>(
        &self,
        attempts: usize,
        act: impl FnMut(&SpacesTransaction) -> Result<T>,
    ) -> Result<T> {
        self.retry_with(TransactionOptions::default(), attempts, act)
    }

    /// As [`Spaces::retry`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// use keyrack_flodb::{TransactionOptions, WriteOptions};
    /// let write = WriteOptions { sync: true };
    /// let options = TransactionOptions { write, ..Default::default() };
    /// spaces.retry_with(options, 10, |transaction| transaction.put(&users, b"ada", b"36"))?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::retry`](crate::Db::retry).
    pub fn retry_with<T>(
        &self,
        options: TransactionOptions,
        attempts: usize,
        mut act: impl FnMut(&SpacesTransaction) -> Result<T>,
    ) -> Result<T> {
        retried(attempts, || {
            let transaction = self.transaction_with(options);
            let answer = act(&transaction)?;
            transaction.commit()?;
            Ok(answer)
        })
    }
}

impl SpacesTransaction {
    /// The value of `key` of `space`, copied.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(spaces.transaction().get(&users, b"ada")?.as_deref(), Some(&b"36"[..]));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`]; [`Error::Usage`] if the space was dropped, or is of another
    /// store. So for all operations.
    pub fn get(&self, space: &KeySpace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(space, key, <[u8]>::to_vec)
    }

    /// Lends the value of `key` of `space` to `visit`, and gives what that returns.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(spaces.transaction().get_with(&users, b"ada", <[u8]>::len)?, Some(2));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`].
    pub fn get_with<R>(
        &self,
        space: &KeySpace,
        key: &[u8],
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.read_with(space, key, ReadOptions::default(), visit)
    }

    /// As [`SpacesTransaction::get_with`], and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// use keyrack_flodb::ReadOptions;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(spaces.transaction().read_with(&users, b"ada", once, <[u8]>::len)?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`].
    pub fn read_with<R>(
        &self,
        space: &KeySpace,
        key: &[u8],
        options: ReadOptions,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.within(space, |inner| {
            with_key(&space.space.prefix, key, |key| inner.read_with(key, options, visit))
        })
    }

    /// The values of many keys of `space`, each given to `visit` with its index, in the order of
    /// `keys`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let mut found = Vec::new();
    /// let transaction = spaces.transaction();
    /// transaction.multi_get(&users, &[b"ada", b"bob"], |_, age| found.push(age.is_some()))?;
    /// assert_eq!(found, [true, false]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`]; values before the first failure have been given.
    pub fn multi_get(
        &self,
        space: &KeySpace,
        keys: &[&[u8]],
        visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let prefix = space.space.prefix.bytes();
        let stored: Vec<Vec<u8>> = keys.iter().map(|key| [prefix, key].concat()).collect();
        let stored: Vec<&[u8]> = stored.iter().map(Vec::as_slice).collect();
        self.within(space, |inner| inner.multi_get(&stored, visit))
    }

    /// An iterator over all keys of `space`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// let mut iter = transaction.iter(&users)?;
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"ada"[..], &b"36"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`].
    pub fn iter(&self, space: &KeySpace) -> Result<SpacesTransactionIter<'_>> {
        self.iter_with(space, ReadOptions::default())
    }

    /// As [`SpacesTransaction::iter`], and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// use keyrack_flodb::ReadOptions;
    /// let transaction = spaces.transaction();
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// let mut iter = transaction.iter_with(&users, once)?;
    /// iter.seek_last()?;
    /// assert!(!iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`].
    pub fn iter_with(
        &self,
        space: &KeySpace,
        options: ReadOptions,
    ) -> Result<SpacesTransactionIter<'_>> {
        self.iter_between(space, None, None, options)
    }

    /// As [`SpacesTransaction::iter_with`], over the keys from `low` on and before `high`; `None`
    /// is no bound. In a serializable transaction, nothing beyond the bounds counts as read.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, ReadOptions, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// users.put(b"bob", b"41")?;
    /// let transaction = spaces.transaction();
    /// let options = ReadOptions::default();
    /// let mut iter = transaction.iter_between(&users, None, Some(b"b"), options)?;
    /// iter.seek_last()?;
    /// assert_eq!(iter.entry(), Some((&b"ada"[..], &b"36"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::get`].
    pub fn iter_between(
        &self,
        space: &KeySpace,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        options: ReadOptions,
    ) -> Result<SpacesTransactionIter<'_>> {
        self.enter(space)?;
        let Bounds { low, high } = Bounds::between(low, high);
        let inner = self.inner.moment(space.bounds(&(low, high)), options)?.iter();
        Ok(SpacesTransactionIter { inner, space: Arc::clone(&space.space) })
    }

    /// The entries of a range of keys of `space`: see [`Transaction::range`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"bob", b"40")?;
    /// let last = transaction.range(&users, "a"..).next_back().transpose()?;
    /// assert_eq!(last, Some((b"bob".to_vec(), b"40".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range(&self, space: &KeySpace, range: impl KeyRange) -> TransactionRange<'_> {
        self.range_with(space, range, ReadOptions::default())
    }

    /// As [`SpacesTransaction::range`], and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, ReadOptions, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(transaction.range_with(&users, .., once).count(), 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range_with(
        &self,
        space: &KeySpace,
        range: impl KeyRange,
        options: ReadOptions,
    ) -> TransactionRange<'_> {
        match self.enter(space) {
            Ok(()) => {
                let prefix_bytes = space.space.prefix.bytes().len();
                self.inner.between(space.bounds(&range), prefix_bytes, options)
            }
            Err(error) => TransactionRange::failed(error),
        }
    }

    /// The entries of `space` whose keys begin with `prefix`: see [`Transaction::prefix`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// assert_eq!(transaction.prefix(&users, "a").count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first entry is one if the keys of the space have another order than that of bytes.
    #[must_use]
    pub fn prefix(&self, space: &KeySpace, prefix: impl AsRef<[u8]>) -> TransactionRange<'_> {
        let entered = self.enter(space).and_then(|()| check_prefixes(&space.space.order));
        match entered {
            Ok(()) => {
                let Bounds { low, high } = Bounds::of_prefix(prefix.as_ref());
                self.range(space, (low, high))
            }
            Err(error) => TransactionRange::failed(error),
        }
    }

    /// The newest value of `key` of `space`, and a lock on it: see [`Transaction::get_for_update`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// users.put(b"ada", b"36")?;
    /// assert!(transaction.get_for_update(&users, b"ada")?.is_some());
    /// transaction.put(&users, b"ada", b"37")?;
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get_for_update`] and [`SpacesTransaction::get`].
    pub fn get_for_update(&self, space: &KeySpace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.within(space, |inner| {
            with_key(&space.space.prefix, key, |key| inner.get_for_update(key))
        })
    }

    /// Stores `value` under `key` of `space`, at the commit.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// assert_eq!(users.get(b"ada")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::put`] and [`SpacesTransaction::get`].
    pub fn put(&self, space: &KeySpace, key: &[u8], value: &[u8]) -> Result<()> {
        self.within(space, |inner| with_key(&space.space.prefix, key, |key| inner.put(key, value)))
    }

    /// Removes `key` of `space`, at the commit.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let transaction = spaces.transaction();
    /// transaction.delete(&users, b"ada")?;
    /// assert_eq!(transaction.get(&users, b"ada")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::put`].
    pub fn delete(&self, space: &KeySpace, key: &[u8]) -> Result<()> {
        self.within(space, |inner| with_key(&space.space.prefix, key, |key| inner.delete(key)))
    }

    /// Removes the keys of `space` from `from` on and before `to`, at the commit: see
    /// [`Transaction::delete_range`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let transaction = spaces.transaction();
    /// transaction.delete_range(&users, b"a", b"b")?;
    /// transaction.commit()?;
    /// assert_eq!(users.get(b"ada")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpacesTransaction::put`].
    pub fn delete_range(&self, space: &KeySpace, from: &[u8], to: &[u8]) -> Result<()> {
        let prefix = &space.space.prefix;
        self.within(space, |inner| {
            with_key(prefix, from, |from| with_key(prefix, to, |to| inner.delete_range(from, to)))
        })
    }

    /// Remembers the writes made so far: see [`Transaction::save_point`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.save_point();
    /// transaction.put(&users, b"ada", b"36")?;
    /// transaction.roll_back_to_save_point()?;
    /// assert_eq!(transaction.get(&users, b"ada")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn save_point(&self) {
        self.inner.save_point();
    }

    /// Forgets the writes made since the last save point, and the save point: see
    /// [`Transaction::roll_back_to_save_point`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// assert!(spaces.transaction().roll_back_to_save_point().is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no save point.
    pub fn roll_back_to_save_point(&self) -> Result<()> {
        self.inner.roll_back_to_save_point()
    }

    /// Forgets the last save point, and keeps the writes made since then.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.save_point();
    /// transaction.release_save_point()?;
    /// assert!(transaction.release_save_point().is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no save point.
    pub fn release_save_point(&self) -> Result<()> {
        self.inner.release_save_point()
    }

    /// How many writes there are; several of one key count as several.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// assert_eq!(transaction.writes(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn writes(&self) -> usize {
        self.inner.writes()
    }

    /// Applies the writes as one, if nothing has changed that the transaction depends on: see
    /// [`Transaction::commit`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// transaction.commit()?;
    /// assert!(users.get(b"ada")?.is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::commit`]; [`Error::Usage`] if a space that it has used was dropped.
    pub fn commit(self) -> Result<()> {
        let used = self.used.into_inner();
        used.iter().try_for_each(|space| space.check())?;
        self.inner.commit().map_err(|error| without_prefix(error, &used))
    }

    /// Forgets the writes, as dropping the transaction does.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::default(), &[])?;
    /// # let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let transaction = spaces.transaction();
    /// transaction.put(&users, b"ada", b"36")?;
    /// transaction.roll_back();
    /// assert_eq!(users.get(b"ada")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn roll_back(self) {
        drop(self);
    }

    /// Runs an operation on a space that can be used.
    pub(super) fn within<T>(
        &self,
        space: &KeySpace,
        act: impl FnOnce(&Transaction) -> Result<T>,
    ) -> Result<T> {
        self.enter(space)?;
        act(&self.inner).map_err(|error| without_prefix(error, &self.used.borrow()))
    }

    fn enter(&self, space: &KeySpace) -> Result<()> {
        space.space.check()?;
        let mut used = self.used.borrow_mut();
        if !used.iter().any(|known| Arc::ptr_eq(known, &space.space)) {
            space.space.check_home(&self.home)?;
            used.push(Arc::clone(&space.space));
        }
        Ok(())
    }
}

/// The error with the key as the caller knows it. All that a transaction depends on is in the
/// spaces that it has used.
fn without_prefix(error: Error, used: &[Arc<Space>]) -> Error {
    let of_space = |stored: &[u8]| {
        used.iter().find_map(|space| {
            // Where a whole space is deleted, the change begins before its first key.
            let is_begin = stored == space.prefix.low();
            let key = stored.strip_prefix(space.prefix.bytes()).or(is_begin.then_some(&[]))?;
            Some((key.to_vec(), Some(space.name.clone())))
        })
    };
    match error {
        Error::Conflict { key, space } => {
            let (key, space) = of_space(&key).unwrap_or((key, space));
            Error::Conflict { key, space }
        }
        Error::Deadlock { key, space } => {
            let (key, space) = of_space(&key).unwrap_or((key, space));
            Error::Deadlock { key, space }
        }
        error => error,
    }
}
