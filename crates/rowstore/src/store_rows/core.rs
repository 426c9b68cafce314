//! What the sessions and the sweeper of a store share: the clock of versions and the counts.

use super::counts::RowCounts;
use super::expiry::Expiry;
use super::writers::WriterLocks;
use crate::Row;
use crate::notifier::Notifier;
use keyrack_store::{Batch, Error, Result, Session, Store};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

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

    /// Adds the effect of a write to the counts. The locks of the writers order the additions.
    pub(super) fn add(&self, change: RowCounts) {
        self.keys.fetch_add(change.rows, Ordering::Relaxed);
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

/// Counts the rows, and passes each to `visit`.
pub(super) fn count_rows(
    dir: Option<&Path>,
    session: &mut dyn Session,
    visit: &mut dyn FnMut(Row<'_>),
) -> Result<RowCounts> {
    let (mut counts, mut bad) = (RowCounts::default(), None);
    session.scan(b"", None, &mut |key, value| match Row::check(value) {
        Some(row) => {
            counts += RowCounts::of(Some(row));
            visit(row);
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
