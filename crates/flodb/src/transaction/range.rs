//! Ranges of keys of a transaction, as iterators of the language.
//!
//! Each end is a [`TransactionIter`] of its own, made when it is first asked, of one moment
//! of the transaction: that of the store, and what it had written when the range was made. While
//! both ends are used, each move compares its key with that of the other end.

use super::Transaction;
use super::iter::{TransactionIter, TransactionMoment};
use crate::db::check_prefixes;
use crate::error::{Error, Result};
use crate::iterator::{Bounds, KeyRange};
use crate::table::ReadOptions;
use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;

/// The entries of a range of keys, in both directions, as a transaction saw them when the range was
/// made: the result of [`Transaction::range`] and [`Transaction::prefix`].
///
/// As an [`Iterator`] it gives copies of keys and values. [`TransactionRange::next_entry`] lends
/// them. After an error it is at its end. In a serializable transaction, what it passes counts as
/// read: if others write there before the commit, that is a conflict.
///
/// ```
/// # use keyrack_flodb::{Db, Options};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
/// db.put(b"a", b"1")?;
/// db.put(b"b", b"2")?;
/// let transaction = db.transaction();
/// transaction.put(b"c", b"3")?;
/// let mut range = transaction.range(..);
/// assert_eq!(range.next_back().transpose()?, Some((b"c".to_vec(), b"3".to_vec())));
/// assert_eq!(range.next().transpose()?, Some((b"a".to_vec(), b"1".to_vec())));
/// assert_eq!(range.count(), 1);
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
pub struct TransactionRange<'t> {
    /// Why there is nothing to read: the first answer.
    failure: Option<Error>,
    /// `None` at the end.
    ends: Option<Ends<'t>>,
    /// Bytes of each key that its reader does not see.
    prefix_bytes: usize,
}

struct Ends<'t> {
    moment: TransactionMoment<'t>,
    front: Option<Box<TransactionIter<'t>>>,
    back: Option<Box<TransactionIter<'t>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Transaction {
    /// The entries of a range of keys, with the writes that the transaction has made until now: see
    /// [`Db::range`](crate::Db::range).
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"seat 1", b"free")?;
    /// db.put(b"seat 2", b"free")?;
    /// db.retry(10, |transaction| {
    ///     if let Some(entry) = transaction.range("seat".."seau").next() {
    ///         let (seat, _) = entry?;
    ///         transaction.put(&seat, b"taken")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(db.get(b"seat 1")?.as_deref(), Some(&b"taken"[..]));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// O(writes of the transaction), and what [`Transaction::iter`] costs.
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> TransactionRange<'_> {
        self.range_with(range, ReadOptions::default())
    }

    /// As [`Transaction::range`], and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, ReadOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(transaction.range_with("a"..="b", once).count(), 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn range_with(&self, range: impl KeyRange, options: ReadOptions) -> TransactionRange<'_> {
        self.between(Bounds::new(&range, <[u8]>::to_vec), 0, options)
    }

    /// The entries whose keys begin with `prefix`: see [`Transaction::range`].
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"fruit/apple", b"red")?;
    /// transaction.put(b"nut/hazel", b"brown")?;
    /// assert_eq!(transaction.prefix("fruit/").count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first entry is one if the keys have another order than that of bytes.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionRange<'_> {
        match check_prefixes(&self.db.inner().options.comparator) {
            Ok(()) => self.between(Bounds::of_prefix(prefix.as_ref()), 0, ReadOptions::default()),
            Err(error) => TransactionRange::failed(error),
        }
    }

    /// The entries within `bounds`, without the first bytes of their keys.
    pub(crate) fn between(
        &self,
        bounds: Bounds,
        prefix_bytes: usize,
        options: ReadOptions,
    ) -> TransactionRange<'_> {
        match self.moment(bounds, options) {
            Ok(moment) => {
                let ends = Ends { moment, front: None, back: None };
                TransactionRange { failure: None, ends: Some(ends), prefix_bytes }
            }
            Err(error) => TransactionRange::failed(error),
        }
    }
}

impl TransactionRange<'_> {
    pub(crate) fn failed(error: Error) -> Self {
        TransactionRange { failure: Some(error), ends: None, prefix_bytes: 0 }
    }

    /// The next entry from the front, lent until the next call. `None` at the end.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// let transaction = db.transaction();
    /// assert_eq!(transaction.range(..).next_entry()?, Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read, or is damaged. The range is at its end then.
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.advance(End::Front)
    }

    /// The next entry from the back, lent until the next call. `None` at the end.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// let transaction = db.transaction();
    /// assert_eq!(transaction.range(..).next_entry_back()?, Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`TransactionRange::next_entry`].
    pub fn next_entry_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.advance(End::Back)
    }

    fn advance(&mut self, end: End) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        // It has ended before.
        let Some(ends) = &mut self.ends else { return Ok(None) };
        match ends.advance(end) {
            Ok(true) => {}
            Ok(false) => {
                self.ends = None;
                return Ok(None);
            }
            Err(error) => {
                self.ends = None;
                return Err(error);
            }
        }
        let entry = self.ends.as_ref().and_then(|ends| ends.entry(end));
        let (key, value) = entry.expect("the end moved to an entry");
        // Bounds of a key space hold no other keys, unless a table changed under way.
        let key = key.get(self.prefix_bytes..).ok_or_else(|| {
            Error::corruption(std::path::Path::new("a table"), 0, "a key of no key space")
        })?;
        Ok(Some((key, value)))
    }

    fn copied(&mut self, end: End) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        let entry = self.advance(end).transpose()?;
        Some(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

impl Ends<'_> {
    /// Moves one end on. False if there is nothing more between the two.
    fn advance(&mut self, end: End) -> Result<bool> {
        let Ends { moment, front, back } = self;
        let (moved, other) = match end {
            End::Front => (front, back),
            End::Back => (back, front),
        };
        match (moved.as_deref_mut(), end) {
            (Some(iter), End::Front) => iter.next()?,
            (Some(iter), End::Back) => iter.prev()?,
            (None, _) => {
                let iter = moved.insert(Box::new(moment.iter()));
                match end {
                    End::Front => iter.seek_first()?,
                    End::Back => iter.seek_last()?,
                }
            }
        }
        let here = moved.as_deref().and_then(TransactionIter::entry);
        let met = other.as_deref().and_then(TransactionIter::entry);
        let before = if end == End::Front { Ordering::Less } else { Ordering::Greater };
        Ok(match (here, met) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((key, _)), Some((met, _))) => moment.order().user(key, met) == before,
        })
    }

    fn entry(&self, end: End) -> Option<(&[u8], &[u8])> {
        match end {
            End::Front => self.front.as_deref()?.entry(),
            End::Back => self.back.as_deref()?.entry(),
        }
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.copied(End::Front)
    }

    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.copied(End::Back)
    }
}

impl FusedIterator for TransactionRange<'_> {}

impl fmt::Debug for TransactionRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRange")
            .field("is_ended", &self.ends.is_none())
            .finish_non_exhaustive()
    }
}
