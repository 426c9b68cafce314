//! A full generation is frozen, and a new one takes the writes that come.
//!
//! Which generation a write belongs to is a matter of its sequence number alone: the new one begins
//! at the first position that is reserved after it is in the view. Until that position is known,
//! for a few instructions, writers wait for it (`Generation::from`). So the generations have
//! disjoint ranges of sequence numbers, and a reader may stop at the first that has its key.
//!
//! A generation is full before its memory is: writes that are under way still go in. Of those there
//! are few, and each is small, but for at most one of a middle size: these take turns, and a turn
//! lasts until whoever found the generation full has put the next one in front. A large write makes
//! room for itself first, in a generation of its own making.

use super::flush::generation;
use super::install::free_exchanged;
use super::{Inner, lock};
use crate::error::Result;
use crate::view::{Generation, View};
use keyrack_concurrent::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Writes that need up to this go into the room beyond a full generation, as many as there are
/// threads.
const SMALL_BYTES: usize = 64 << 10;

/// Writes that need up to this go there as well, one at a time.
pub(super) const MIDDLE_BYTES: usize = 4 << 20;

/// Bytes of memory that an entry takes beside its key and value, at most: what stands before it,
/// and the rest of its last unit.
const ENTRY_BYTES: usize = 64;

/// Bytes of memory that a record of so many bytes with so many writes takes, at most.
pub(crate) fn room_of(record_bytes: usize, writes: u64) -> usize {
    record_bytes.saturating_add(ENTRY_BYTES.saturating_mul(writes as usize))
}

/// Writes that are not small, one at a time.
#[derive(Default)]
pub(crate) struct Large {
    turn: Mutex<()>,
    /// What a large one under way takes: whatever generation it comes to has room for it.
    bytes: AtomicUsize,
}

/// Room in memory for a write.
pub(crate) struct Room<'a> {
    large: Option<(&'a Large, MutexGuard<'a, ()>)>,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let Some((large, _)) = &self.large {
            large.bytes.store(0, Ordering::Relaxed);
        }
    }
}

impl<'a> Room<'a> {
    /// Waits for the turn of a write that takes `bytes` of memory, if it is not small, and makes a
    /// new generation with room for a large one. The turn lasts as long as what is returned.
    #[inline]
    pub(crate) fn make(inner: &'a Inner, bytes: usize) -> Result<Self> {
        if bytes <= SMALL_BYTES {
            return Ok(Room { large: None });
        }
        let turn = lock(&inner.large.turn);
        if bytes <= MIDDLE_BYTES {
            return Ok(Room { large: Some((&inner.large, turn)) });
        }
        let _exchange = lock(&inner.exchange);
        // Relaxed: read under the exchange lock.
        inner.large.bytes.store(bytes, Ordering::Relaxed);
        replace_active(inner);
        Ok(Room { large: Some((&inner.large, turn)) })
    }
}

/// Freezes the active generation if it is full.
#[cold]
pub(crate) fn rotate(inner: &Inner) -> Result<()> {
    let _exchange = lock(&inner.exchange);
    let view = inner.view();
    if view.active().memory.bytes() < inner.options.memory_bytes {
        // Somebody else was here.
        return Ok(());
    }
    replace_active(inner);
    Ok(())
}

/// Freezes the active generation if it has anything. The exchange lock is held.
pub(crate) fn freeze_active(inner: &Inner) {
    if !inner.view().active().memory.is_empty() {
        replace_active(inner);
    }
}

/// Puts an empty generation in front. The exchange lock is held.
fn replace_active(inner: &Inner) {
    let view = inner.view();
    let extra = inner.large.bytes.load(Ordering::Relaxed);
    let new = Arc::new(Generation::new(generation(&inner.options, extra)));
    let mut generations = vec![Arc::clone(&new)];
    generations.extend(view.generations.iter().cloned());
    let next = View::new(generations, Arc::clone(&view.version), view.levels.clone());
    inner.view.store(Arc::new(next), &pin());
    new.begin(inner.log.reserved());
    inner.pace();
    inner.wake_background();
    drop(view);
    free_exchanged();
}
