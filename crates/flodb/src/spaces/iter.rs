//! An iterator over the keys of one space: an iterator over the store that stays within it.

use super::key::with_key;
use super::order::Prefix;
use crate::error::Result;
use crate::iterator::Iter;

/// An iterator over the keys of a key space, both ways, as they were when it was made. It starts
/// nowhere.
///
/// It keeps what it reads on disk and in memory, so it should not live long.
#[derive(Debug)]
pub struct SpaceIter {
    inner: Iter,
    prefix: Prefix,
    /// Whether the iterator below stands on a key of the space.
    is_valid: bool,
}

impl SpaceIter {
    pub(super) fn new(inner: Iter, prefix: Prefix) -> Self {
        SpaceIter { inner, prefix, is_valid: false }
    }

    /// Whether it stands on a key.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// assert!(!iter.is_valid());
    /// iter.seek_first()?;
    /// assert!(iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Key and value here; `None` if it stands nowhere.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// assert_eq!(iter.entry(), None);
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.inner.entry().filter(|_| self.is_valid)?;
        Some((&key[self.prefix.bytes().len()..], value))
    }

    /// Goes to the first key.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read, or is damaged; the iterator is nowhere then. So for all moves.
    pub fn seek_first(&mut self) -> Result<()> {
        let prefix = self.prefix;
        self.moved(|inner| inner.seek(prefix.low()))
    }

    /// Goes to the last key.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// iter.seek_last()?;
    /// assert_eq!(iter.entry(), Some((&b"b"[..], &b"2"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    pub fn seek_last(&mut self) -> Result<()> {
        let (high, len) = self.prefix.high();
        self.moved(|inner| {
            inner.seek(&high[..len])?;
            if inner.is_valid() { inner.prev() } else { inner.seek_last() }
        })
    }

    /// Goes to the first key that is not before `target`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// iter.seek(b"aa")?;
    /// assert_eq!(iter.entry(), Some((&b"b"[..], &b"2"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let prefix = self.prefix;
        self.moved(|inner| with_key(&prefix, target, |target| inner.seek(target)))
    }

    /// Goes to the last key that is not behind `target`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// iter.seek_back(b"aa")?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    pub fn seek_back(&mut self, target: &[u8]) -> Result<()> {
        let prefix = self.prefix;
        self.moved(|inner| with_key(&prefix, target, |target| inner.seek_back(target)))
    }

    /// Goes one key on; nowhere behind the last. Nothing happens nowhere.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// iter.seek_first()?;
    /// let mut keys = 0;
    /// while iter.is_valid() {
    ///     keys += 1;
    ///     iter.next()?;
    /// }
    /// assert_eq!(keys, 2);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a step can fail, and lends what it shows: no iterator can"
    )]
    pub fn next(&mut self) -> Result<()> {
        if self.is_valid { self.moved(Iter::next) } else { Ok(()) }
    }

    /// Goes one key back; nowhere before the first. Nothing happens nowhere.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"a", b"1")?;
    /// users.put(b"b", b"2")?;
    /// let mut iter = users.iter()?;
    /// iter.seek_last()?;
    /// iter.prev()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    pub fn prev(&mut self) -> Result<()> {
        if self.is_valid { self.moved(Iter::prev) } else { Ok(()) }
    }

    /// After a move of the iterator below it may stand in another space.
    fn moved(&mut self, step: impl FnOnce(&mut Iter) -> Result<()>) -> Result<()> {
        self.is_valid = false;
        step(&mut self.inner)?;
        let entry = self.inner.entry();
        self.is_valid = entry.is_some_and(|(key, _)| key.starts_with(self.prefix.bytes()));
        Ok(())
    }
}
