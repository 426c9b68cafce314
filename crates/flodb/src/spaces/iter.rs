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
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Key and value here; `None` if it stands nowhere.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.inner.entry().filter(|_| self.is_valid)?;
        Some((&key[self.prefix.bytes().len()..], value))
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// A table cannot be read, or is damaged; the iterator is nowhere then. So for all moves.
    pub fn seek_first(&mut self) -> Result<()> {
        let prefix = self.prefix;
        self.moved(|inner| inner.seek(prefix.low()))
    }

    /// Goes to the last key.
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
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let prefix = self.prefix;
        self.moved(|inner| with_key(&prefix, target, |target| inner.seek(target)))
    }

    /// Goes to the last key that is not behind `target`.
    ///
    /// # Errors
    /// As for [`SpaceIter::seek_first`].
    pub fn seek_back(&mut self, target: &[u8]) -> Result<()> {
        let prefix = self.prefix;
        self.moved(|inner| with_key(&prefix, target, |target| inner.seek_back(target)))
    }

    /// Goes one key on; nowhere behind the last. Nothing happens nowhere.
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
