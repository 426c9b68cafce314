//! An iterator of a transaction over the keys of one space.

use super::key::with_key;
use super::space::Space;
use crate::error::Result;
use crate::transaction::TransactionIter;
use std::sync::Arc;

/// An iterator over the keys of a key space, in both directions, as a transaction sees them: see
/// [`TransactionIter`]. It starts nowhere.
#[derive(Debug)]
pub struct SpacesTransactionIter<'t> {
    pub(super) inner: TransactionIter<'t>,
    pub(super) space: Arc<Space>,
}

impl SpacesTransactionIter<'_> {
    /// Whether it stands on a key.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.inner.is_valid()
    }

    /// Key and value here; `None` if it stands nowhere.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.inner.entry()?;
        Some((&key[self.space.prefix.bytes().len()..], value))
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// A table cannot be read, or is damaged; the iterator is nowhere then. So for all moves.
    pub fn seek_first(&mut self) -> Result<()> {
        self.inner.seek_first()
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As for [`SpacesTransactionIter::seek_first`].
    pub fn seek_last(&mut self) -> Result<()> {
        self.inner.seek_last()
    }

    /// Goes to the first key that is not before `target`.
    ///
    /// # Errors
    /// As for [`SpacesTransactionIter::seek_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        with_key(&self.space.prefix, target, |target| self.inner.seek(target))
    }

    /// Goes to the last key that is not behind `target`.
    ///
    /// # Errors
    /// As for [`SpacesTransactionIter::seek_first`].
    pub fn seek_back(&mut self, target: &[u8]) -> Result<()> {
        with_key(&self.space.prefix, target, |target| self.inner.seek_back(target))
    }

    /// Goes one key on; nowhere behind the last. Nothing happens nowhere.
    ///
    /// # Errors
    /// As for [`SpacesTransactionIter::seek_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a step can fail, and lends what it shows: no iterator can"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    /// Goes one key back; nowhere before the first. Nothing happens nowhere.
    ///
    /// # Errors
    /// As for [`SpacesTransactionIter::seek_first`].
    pub fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }
}
