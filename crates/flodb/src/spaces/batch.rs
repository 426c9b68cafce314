//! Writes to several key spaces that happen together: one batch of the store, with the prefixes.

use super::key::with_key;
use super::space::{KeySpace, Space};
use crate::batch::Batch;
use std::sync::Arc;

/// Writes to the key spaces of one store that are applied as one by
/// [`Spaces::write`](super::Spaces::write): all or none of them survive, and no reader sees a part.
#[derive(Clone, Debug, Default)]
pub struct SpacesBatch {
    batch: Batch,
    /// Those with writes. There are few.
    spaces: Vec<Arc<Space>>,
}

impl SpacesBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        SpacesBatch::default()
    }

    /// Stores `value` under `key` of `space`.
    pub fn put(&mut self, space: &KeySpace, key: &[u8], value: &[u8]) {
        self.note(space);
        with_key(&space.space.prefix, key, |key| self.batch.put(key, value));
    }

    /// Removes `key` of `space`.
    pub fn delete(&mut self, space: &KeySpace, key: &[u8]) {
        self.note(space);
        with_key(&space.space.prefix, key, |key| self.batch.delete(key));
    }

    /// Removes the keys of `space` from `from` on and before `to`.
    pub fn delete_range(&mut self, space: &KeySpace, from: &[u8], to: &[u8]) {
        self.note(space);
        let (prefix, batch) = (&space.space.prefix, &mut self.batch);
        with_key(prefix, from, |from| with_key(prefix, to, |to| batch.delete_range(from, to)));
    }

    /// Removes all writes, and keeps the memory.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.spaces.clear();
    }

    /// How many writes there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.batch.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes that the log will hold for it, but for a few.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    fn note(&mut self, space: &KeySpace) {
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
