//! The iterator of a caller over a range of keys, from both ends.
//!
//! ```text
//!   bounds    [ b ................................ m )
//!   front       b  c  d ->            <- k  l
//!   left             ( d ........ k )
//! ```
//!
//! Each end is an iterator over the store of its own, made when it is first asked. Where one end
//! stands is the bound of the other, so the two meet exactly once. While only one end is used no
//! key is copied for that. Both read what there was when the range was made.

use super::Iter;
use super::bounds::Bounds;
use crate::db::Moment;
use crate::error::{Error, Result};
use std::fmt;
use std::iter::FusedIterator;

/// The entries of a range of keys, in both directions, as they were when it was made: the result of
/// [`Db::range`](crate::Db::range), [`Db::prefix`](crate::Db::prefix), and the same of a
/// [`KeySpace`](crate::KeySpace).
///
/// As an [`Iterator`] it gives copies of keys and values. [`Range::next_entry`] lends them, and
/// [`Range::keys`] copies keys alone. After an error it is at its end.
///
/// It keeps what it reads on disk and in memory, so it should not live long.
///
/// ```
/// # use keyrack_flodb::{Db, Options};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
/// for key in ["a", "b", "c"] {
///     db.put(key.as_bytes(), b"value")?;
/// }
/// let mut range = db.range("a"..="c");
/// let first = range.next().transpose()?;
/// let last = range.next_back().transpose()?;
/// assert_eq!(first, Some((b"a".to_vec(), b"value".to_vec())));
/// assert_eq!(last, Some((b"c".to_vec(), b"value".to_vec())));
/// assert_eq!(range.count(), 1);
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
pub struct Range {
    /// Why there is nothing to read: the first answer.
    failure: Option<Error>,
    /// `None` at the end.
    ends: Option<Ends>,
    /// Bytes of each key that its reader does not see.
    prefix_bytes: usize,
    keys_only: bool,
}

struct Ends {
    moment: Moment,
    /// Those of the first end that is made.
    bounds: Bounds,
    front: Option<Iter>,
    back: Option<Box<Iter>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Range {
    /// The entries within `bounds`, without the first bytes of their keys.
    pub(crate) fn new(moment: Moment, bounds: Bounds, prefix_bytes: usize) -> Self {
        let ends = Ends { moment, bounds, front: None, back: None };
        Range { failure: None, ends: Some(ends), prefix_bytes, keys_only: false }
    }

    /// A range that cannot be read.
    pub(crate) fn failed(error: Error) -> Self {
        Range { failure: Some(error), ends: None, prefix_bytes: 0, keys_only: false }
    }

    /// The next entry from the front, lent until the next call. `None` at the end.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"12")?;
    /// db.put(b"b", b"345")?;
    /// let (mut range, mut bytes) = (db.range(..), 0);
    /// while let Some((_key, value)) = range.next_entry()? {
    ///     bytes += value.len();
    /// }
    /// assert_eq!(bytes, 5);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read, or is damaged. The range is at its end then.
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.advance(End::Front)? { self.entry(End::Front).map(Some) } else { Ok(None) }
    }

    /// The next entry from the back, lent until the next call. `None` at the end.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"event/1", b"start")?;
    /// db.put(b"event/2", b"stop")?;
    /// let mut events = db.prefix("event/");
    /// assert_eq!(events.next_entry_back()?, Some((&b"event/2"[..], &b"stop"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Range::next_entry`].
    pub fn next_entry_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.advance(End::Back)? { self.entry(End::Back).map(Some) } else { Ok(None) }
    }

    /// The keys that are left. Values are not copied, and those in blob files are not read.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let keys: Vec<Vec<u8>> = db.range(..).keys().rev().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"b", b"a"]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn keys(mut self) -> Keys {
        self.keys_only = true;
        if let Some(ends) = &mut self.ends {
            let begun = ends.front.iter_mut().chain(ends.back.as_deref_mut());
            begun.for_each(Iter::leave_values);
        }
        Keys { range: self }
    }

    /// Moves one end, and says whether it stands on an entry now. As a call it would cost half of
    /// what a range adds to a step of the cursor.
    #[inline(always)]
    fn advance(&mut self, end: End) -> Result<bool> {
        let Some(ends) = &mut self.ends else { return self.fail() };
        let moved = match end {
            End::Front => ends.advance_front(self.keys_only),
            End::Back => ends.advance_back(self.keys_only),
        };
        if matches!(moved, Ok(true)) {
            return moved;
        }
        self.end();
        moved
    }

    /// What is said at the end: once the reason why nothing can be read, if there is one.
    #[cold]
    fn fail(&mut self) -> Result<bool> {
        self.failure.take().map_or(Ok(false), Err)
    }

    /// Nothing is left for the other end either.
    #[cold]
    fn end(&mut self) {
        self.ends = None;
    }

    /// The entry where an end stands that has just moved to one.
    #[inline]
    fn entry(&self, end: End) -> Result<(&[u8], &[u8])> {
        let entry = self.ends.as_ref().and_then(|ends| match end {
            End::Front => ends.front.as_ref()?.entry(),
            End::Back => ends.back.as_ref()?.entry(),
        });
        let (key, value) = entry.expect("the end moved to an entry");
        // Bounds of a key space hold no other keys, unless a table changed under way.
        let key = key.get(self.prefix_bytes..).ok_or_else(|| {
            Error::corruption(std::path::Path::new("a table"), 0, "a key of no key space")
        })?;
        Ok((key, value))
    }

    /// The next entry of an end as `copy` makes it.
    #[inline]
    fn advanced<T>(&mut self, end: End, copy: impl FnOnce(&[u8], &[u8]) -> T) -> Option<Result<T>> {
        match self.advance(end) {
            Ok(true) => Some(self.entry(end).map(|(key, value)| copy(key, value))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Ends {
    #[inline(always)]
    fn advance_front(&mut self, keys_only: bool) -> Result<bool> {
        // Mostly the other end was never asked.
        if let (Some(front), None) = (&mut self.front, &self.back) {
            front.next()?;
            return Ok(front.is_valid());
        }
        self.begin_or_meet_front(keys_only)
    }

    #[inline(always)]
    fn advance_back(&mut self, keys_only: bool) -> Result<bool> {
        if let (None, Some(back)) = (&self.front, &mut self.back) {
            back.prev()?;
            return Ok(back.is_valid());
        }
        self.begin_or_meet_back(keys_only)
    }

    #[inline(never)]
    fn begin_or_meet_front(&mut self, keys_only: bool) -> Result<bool> {
        match &mut self.front {
            Some(front) => front.next()?,
            None => {
                let bounds = match &self.back {
                    Some(back) => back.bounds_before(),
                    None => std::mem::take(&mut self.bounds),
                };
                let front = self.front.insert(self.moment.iter(bounds));
                if keys_only {
                    front.leave_values();
                }
                front.seek_low()?;
            }
        }
        let Some((key, _)) = self.front.as_ref().and_then(Iter::entry) else { return Ok(false) };
        if let Some(back) = &mut self.back {
            back.set_low(key);
        }
        Ok(true)
    }

    #[inline(never)]
    fn begin_or_meet_back(&mut self, keys_only: bool) -> Result<bool> {
        match &mut self.back {
            Some(back) => back.prev()?,
            None => {
                let bounds = match &self.front {
                    Some(front) => front.bounds_behind(),
                    None => std::mem::take(&mut self.bounds),
                };
                let back = self.back.insert(Box::new(self.moment.iter(bounds)));
                if keys_only {
                    back.leave_values();
                }
                back.seek_high()?;
            }
        }
        let Some((key, _)) = self.back.as_ref().and_then(|back| back.entry()) else {
            return Ok(false);
        };
        if let Some(front) = &mut self.front {
            front.set_high(key);
        }
        Ok(true)
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advanced(End::Front, |key, value| (key.to_vec(), value.to_vec()))
    }

    /// Copies nothing, and reads no value from a blob file.
    fn count(self) -> usize {
        let Keys { mut range } = self.keys();
        std::iter::from_fn(|| range.advanced(End::Front, |_, _| ())).count()
    }

    /// One step from the back.
    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advanced(End::Back, |key, value| (key.to_vec(), value.to_vec()))
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("is_ended", &self.ends.is_none()).finish_non_exhaustive()
    }
}

/// The keys of a [`Range`], in both directions: the result of [`Range::keys`].
#[derive(Debug)]
pub struct Keys {
    range: Range,
}

impl Keys {
    /// The next key from the front, lent until the next call. `None` at the end.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut keys = db.range(..).keys();
    /// assert_eq!(keys.next_key()?, Some(&b"a"[..]));
    /// assert_eq!(keys.next_key_back()?, Some(&b"b"[..]));
    /// assert_eq!(keys.next_key()?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Range::next_entry`].
    pub fn next_key(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.range.next_entry()?.map(|(key, _)| key))
    }

    /// The next key from the back, lent until the next call. `None` at the end.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut keys = db.range(..).keys();
    /// assert_eq!(keys.next_key_back()?, Some(&b"b"[..]));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Range::next_entry`].
    pub fn next_key_back(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.range.next_entry_back()?.map(|(key, _)| key))
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.advanced(End::Front, |key, _| key.to_vec())
    }

    /// Copies nothing.
    fn count(self) -> usize {
        self.range.count()
    }

    /// One step from the back.
    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.advanced(End::Back, |key, _| key.to_vec())
    }
}

impl FusedIterator for Keys {}
