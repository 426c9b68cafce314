//! What the sessions and the sweeper of a store share: the clock of versions and the counts.

use super::counts::RowCounts;
use super::expiry::Expiry;
use super::writers::WriterLocks;
use crate::Row;
use crate::collections::{Collections, RowFacts};
use crate::notifier::Notifier;
use keyrack_store::{Batch, Error, Result, Session, Store};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The state that sessions and the sweeper share.
pub(super) struct Core {
    pub(super) store: Box<dyn Store>,
    pub(super) clock: AtomicU64,
    pub(super) keys: AtomicI64,
    /// The number of rows with an expiry.
    pub(super) volatile: AtomicI64,
    /// The number of expired rows that were removed.
    pub(super) expired: AtomicU64,
    pub(super) sweep_failures: AtomicU64,
    /// The time that a session has set last.
    pub(super) now_ms: AtomicU64,
    pub(super) expiry: Arc<Expiry>,
    pub(super) collections: Collections,
    /// Whether the store has the mark of escaped keys.
    pub(super) is_marked: AtomicBool,
    pub(super) writers: WriterLocks,
    pub(super) notifier: Notifier,
    pub(super) group_bytes_max: usize,
}

impl Core {
    /// A version above all assigned ones, and above `old`.
    pub(super) fn version_after(&self, old: u64) -> u64 {
        let next = |clock: u64| Some(clock.max(old) + 1);
        // Relaxed: only the number matters; the store orders the writes of a key.
        match self.clock.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(clock) | Err(clock) => clock.max(old) + 1,
        }
    }

    /// Counts the write of a row. The locks of the writers order the additions.
    pub(super) fn note(&self, key: &[u8], old: RowFacts, new: RowFacts) {
        self.collections.note(key, old, new);
        if old.collection != new.collection && self.collections.has_queued() {
            self.notifier.notify_sweeper();
        }
        self.add(RowCounts::of(key, new).since(RowCounts::of(key, old)));
    }

    /// Counts elements that were removed, as a change below 0.
    pub(super) fn add(&self, change: RowCounts) {
        self.keys.fetch_add(change.keys, Ordering::Relaxed);
        let before = self.volatile.fetch_add(change.volatile, Ordering::Relaxed);
        if before <= 0 && before + change.volatile > 0 {
            self.notifier.notify_sweeper();
        }
    }

    pub(super) fn len(&self) -> u64 {
        let keys = self.keys.load(Ordering::Relaxed);
        // The count may be negative between a removal and a later put of two sessions.
        keys.try_into().unwrap_or(0)
    }
}

/// Counts the rows, registers their collections, and passes each to `visit`.
pub(super) fn count_rows(
    dir: Option<&Path>,
    session: &mut dyn Session,
    collections: &Collections,
    visit: &mut dyn FnMut(&[u8], Row<'_>),
) -> Result<RowCounts> {
    let (mut counts, mut bad) = (RowCounts::default(), None);
    session.scan(b"", None, &mut |key, value| match Row::check(value) {
        Some(row) => {
            counts += RowCounts::of(key, RowFacts::of(key, Some(&row)));
            collections.load(key, &row);
            visit(key, row);
            ControlFlow::Continue(())
        }
        None => {
            bad = Some(not_a_row(dir, key));
            ControlFlow::Break(())
        }
    })?;
    bad.map_or(Ok(counts), Err)
}

pub(super) fn not_a_row(dir: Option<&Path>, key: &[u8]) -> Error {
    let dir = dir.unwrap_or(Path::new("memory"));
    let key = String::from_utf8_lossy(&key[..key.len().min(64)]).into_owned();
    Error::corruption(dir, 0, format!("the value of key {key:?} is not a row"))
}

/// The maximum bytes of a write in a batch. A removal has no row.
pub(super) fn entry_bytes(key_bytes: usize, row_bytes: Option<usize>) -> usize {
    Batch::logged_bytes_of(key_bytes, row_bytes.unwrap_or(0))
}
