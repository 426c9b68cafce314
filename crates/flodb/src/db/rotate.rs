//! A full memtable becomes immutable, and a new one takes the writes that come.
//!
//! Which memtable a write belongs to is a matter of its sequence number alone: the new one begins
//! at the first LSN that is reserved after it is in the read state. Until that LSN is
//! known, for a few instructions, writers wait for it (`Memtable::first_sequence`). So the
//! memtables have disjoint ranges of sequence numbers, and a reader may stop at the first that has
//! its key.
//!
//! A memtable counts as full before its memory is: writes that are under way mostly fit. One that
//! does not, because too many are under way or because it is large, waits for its turn (`append`).
//! So the room beyond a full memtable saves waits, and nothing depends on how much there is.
//!
//! **Invariant:** writers make no memtable immutable while more than `immutable_memtables_max` are.
//! They wait, and the flush of one lets them go on. So memory holds at most
//! `immutable_memtables_max + 2` memtables, and those that a call of `flush` makes and writes
//! itself. A spare (`MemtablePool`) counts as one of them.

use super::Inner;
use super::read_path::Exchange;
use crate::memtable::{Memtable, MemtableOptions, MemtablePool};
use crate::options::Options;
use crate::read_state::ReadState;
use std::sync::Arc;

/// Room beyond a full memtable, at most. These are addresses, until somebody writes there.
const SLACK_BYTES_MAX: usize = 12 << 20;

/// And at least.
const SLACK_BYTES_MIN: usize = 256 << 10;

/// The part of a memtable that this room is. Its hash table has overflow for the smallest entries
/// that fit: for much more room than entries, that would be most of its memory.
const SLACK_PARTS: usize = 4;

/// Where the memtables of a store come from.
pub(crate) fn memtable_pool(options: &Options) -> Arc<MemtablePool> {
    let of = MemtableOptions { tail_entries_max: options.unordered_max, hash: options.hash_level };
    let slack = (options.memtable_bytes / SLACK_PARTS).clamp(SLACK_BYTES_MIN, SLACK_BYTES_MAX);
    let memtables_max = options.immutable_memtables_max.saturating_add(2);
    let comparator = options.comparator.clone();
    MemtablePool::new((options.memtable_bytes, slack), memtables_max, comparator, of)
}

/// An empty memtable that also has room for one write of so many bytes.
pub(crate) fn new_memtable(pool: &Arc<MemtablePool>, write_bytes: usize) -> Arc<Memtable> {
    Arc::new(pool.memtable(write_bytes))
}

/// Whether writers may make the active memtable immutable. Otherwise the write controller stalls
/// them until one is flushed. The exchange lock is held.
pub(super) fn may_rotate(inner: &Inner) -> bool {
    inner.read_state().memtables.len() - 1 <= inner.options.immutable_memtables_max
}

/// Makes the active memtable immutable if it is full.
#[cold]
pub(super) fn rotate(inner: &Inner) {
    let exchange = inner.read_path.lock_exchange();
    let is_full = inner.read_state().active().bytes() >= inner.options.memtable_bytes;
    // Somebody else may have been here. And where it must wait, the next write that finds the
    // memtable full comes back.
    if is_full && may_rotate(inner) {
        replace_active(inner, new_memtable(&inner.memtables, 0), &exchange);
    }
}

/// Makes the active memtable immutable if it has anything. The exchange lock is held.
pub(crate) fn rotate_nonempty(inner: &Inner, exchange: &Exchange<'_>) {
    if !inner.read_state().active().is_empty() {
        replace_active(inner, new_memtable(&inner.memtables, 0), exchange);
    }
}

/// Puts a memtable in front that has not begun. The exchange lock is held.
pub(super) fn replace_active(inner: &Inner, new: Arc<Memtable>, exchange: &Exchange<'_>) {
    let read_state = inner.read_state();
    let mut memtables = vec![Arc::clone(&new)];
    memtables.extend(read_state.memtables.iter().cloned());
    let (version, levels) = (Arc::clone(&read_state.version), read_state.levels.clone());
    let blobs = Arc::clone(&read_state.blobs);
    let next = ReadState::new(memtables, version, levels, blobs, &inner.garbage);
    // The cache gives way before the memtable takes memory.
    inner.memory().add_memtable(&new);
    inner.tables.reader.cache.settle();
    let old = inner.read_path.replace(next, exchange);
    new.set_first_sequence(inner.write_path.log.reserved());
    inner.update_write_controller(exchange);
    inner.wake_background();
    drop(read_state);
    inner.garbage.leave_exchanged(old);
}
