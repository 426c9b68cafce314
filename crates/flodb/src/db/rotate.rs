//! A full memtable becomes immutable, and a new one takes the writes that come.
//!
//! Which memtable a write belongs to is a matter of its sequence number alone: the new one begins
//! at the first position that is reserved after it is in the view. Until that position is known,
//! for a few instructions, writers wait for it (`Generation::from`). So the memtables have
//! disjoint ranges of sequence numbers, and a reader may stop at the first that has its key.
//!
//! A memtable counts as full before its memory is: writes that are under way mostly fit. One that
//! does not, because too many are under way or because it is large, waits for its turn (`append`).
//! So the room beyond a full memtable saves waits, and nothing depends on how much there is.
//!
//! **Invariant:** writers make no memtable immutable while more than `frozen_max` are. They wait,
//! and the flush of one lets them go on. So memory holds at most `frozen_max + 2` memtables, and
//! those that a call of `flush` makes and writes itself.

use super::install::free_exchanged;
use super::{Inner, lock};
use crate::memory::{Memory, MemoryOptions};
use crate::options::Options;
use crate::view::{Generation, View};
use keyrack_concurrent::pin;
use std::sync::Arc;

/// Room beyond a full memtable. These are addresses, until somebody writes there.
const SLACK_BYTES: usize = 12 << 20;

/// An empty memtable that also has room for one write of so many bytes.
pub(crate) fn memtable(options: &Options, write_bytes: usize) -> Memory {
    let memory =
        MemoryOptions { tail_entries_max: options.unordered_max, hash: options.hash_level };
    let capacity = options.memory_bytes.max(write_bytes).saturating_add(SLACK_BYTES);
    Memory::new(capacity, options.comparator.clone(), memory)
}

/// Whether writers may make the active memtable immutable. Otherwise the write controller stalls
/// them until one is flushed. The exchange lock is held.
pub(super) fn may_rotate(inner: &Inner) -> bool {
    inner.view().generations.len() - 1 <= inner.options.frozen_max
}

/// Makes the active memtable immutable if it is full.
#[cold]
pub(super) fn rotate(inner: &Inner) {
    let _exchange = lock(&inner.exchange);
    let is_full = inner.view().active().memory.bytes() >= inner.options.memory_bytes;
    // Somebody else may have been here. And where it must wait, the next write that finds the
    // memtable full comes back.
    if is_full && may_rotate(inner) {
        replace_active(inner, Arc::new(Generation::new(memtable(&inner.options, 0))));
    }
}

/// Makes the active memtable immutable if it has anything. The exchange lock is held.
pub(crate) fn freeze_active(inner: &Inner) {
    if !inner.view().active().memory.is_empty() {
        replace_active(inner, Arc::new(Generation::new(memtable(&inner.options, 0))));
    }
}

/// Puts a memtable in front that has not begun. The exchange lock is held.
pub(super) fn replace_active(inner: &Inner, new: Arc<Generation>) {
    let view = inner.view();
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
