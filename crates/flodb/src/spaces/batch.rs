//! Writes to several key spaces that happen together: one batch of the store, with the prefixes.

use super::key::with_key;
use super::space::{KeySpace, Space};
use crate::batch::Batch;
use std::sync::Arc;

/// Writes to the key spaces of one store that are applied as one by
/// [`Spaces::write`](super::Spaces::write): all or none of them survive, and no reader sees a part.
#[derive(Clone, Debug, Default)]
pub struct SpacesBatch {
    pub(super) batch: Batch,
    /// Those with writes. There are few.
    spaces: Vec<Arc<Space>>,
}

impl SpacesBatch {
    /// An empty batch.
    ///
    /// ```
    /// # use keyrack_flodb::SpacesBatch;
    /// assert!(SpacesBatch::new().is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        SpacesBatch::default()
    }

    /// Stores `value` under `key` of `space`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.put(&users, b"ada", b"36");
    /// spaces.write(&batch, WriteOptions::default())?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn put(&mut self, space: &KeySpace, key: &[u8], value: &[u8]) {
        self.note(space);
        with_key(&space.space.prefix, key, |key| self.batch.put(key, value));
    }

    /// Removes `key` of `space`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let mut batch = SpacesBatch::new();
    /// batch.delete(&users, b"ada");
    /// spaces.write(&batch, WriteOptions::default())?;
    /// assert!(users.is_empty()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn delete(&mut self, space: &KeySpace, key: &[u8]) {
        self.note(space);
        with_key(&space.space.prefix, key, |key| self.batch.delete(key));
    }

    /// Removes the keys of `space` from `from` on and before `to`.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let mut batch = SpacesBatch::new();
    /// batch.delete_range(&users, b"a", b"b");
    /// spaces.write(&batch, WriteOptions::default())?;
    /// assert!(users.is_empty()?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn delete_range(&mut self, space: &KeySpace, from: &[u8], to: &[u8]) {
        self.note(space);
        let (prefix, batch) = (&space.space.prefix, &mut self.batch);
        with_key(prefix, from, |from| with_key(prefix, to, |to| batch.delete_range(from, to)));
    }

    /// Removes all writes, and keeps the memory.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.put(&users, b"ada", b"36");
    /// batch.clear();
    /// assert!(batch.is_empty());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn clear(&mut self) {
        self.batch.clear();
        self.spaces.clear();
    }

    /// How many writes there are.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.put(&users, b"ada", b"36");
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.batch.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.delete(&users, b"ada");
    /// assert!(!batch.is_empty());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes that the log will hold for it, but for a few.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.put(&users, b"ada", b"36");
    /// assert!(batch.bytes() >= 5);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    pub(super) fn note(&mut self, space: &KeySpace) {
        if !self.spaces.iter().any(|known| Arc::ptr_eq(known, &space.space)) {
            self.spaces.push(Arc::clone(&space.space));
        }
    }

    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    pub(super) fn spaces(&self) -> &[Arc<Space>] {
        &self.spaces
    }
}
