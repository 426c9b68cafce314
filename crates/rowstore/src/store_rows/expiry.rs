//! A lower bound for the time at which the next row expires.
//!
//! ```text
//!   writers   lower `due` and `written` to the expiry of a row before they store it
//!   a round   sets `written` to the maximum, scans all rows, and then, while no session writes,
//!             sets `due` to the least expiry of what it saw and of what was written meanwhile
//! ```
//!
//! **Invariant:** no live row expires before `due`. So a round is needed only after `due`. A row in
//! a file that expires before `due` is an old version, hidden by a newer one or a tombstone: the
//! engine may drop it.

use crate::Row;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time at which the next row expires, or earlier; `u64::MAX` for never.
#[derive(Debug)]
pub(super) struct Expiry {
    due_ms: AtomicU64,
    /// The least expiry that was written since the current round began.
    written_ms: AtomicU64,
}

impl Expiry {
    pub(super) fn new() -> Self {
        Expiry { due_ms: AtomicU64::new(u64::MAX), written_ms: AtomicU64::new(u64::MAX) }
    }

    /// Call it before a row with this expiry is stored; 0 is never.
    #[inline]
    pub(super) fn note(&self, expires_ms: u64) {
        if expires_ms != 0 {
            // Before the store has the row: a thread that finds the row sees this.
            self.due_ms.fetch_min(expires_ms, Ordering::SeqCst);
            self.written_ms.fetch_min(expires_ms, Ordering::SeqCst);
        }
    }

    /// Whether a row may have expired.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.load(Ordering::SeqCst) <= now_ms
    }

    /// Begins a round. No session writes meanwhile.
    pub(super) fn begin_round(&self) {
        self.written_ms.store(u64::MAX, Ordering::SeqCst);
    }

    /// Ends a round. The rows that it left expire at `left_ms` or later. No session writes
    /// meanwhile.
    pub(super) fn end_round(&self, left_ms: u64) {
        let due_ms = left_ms.min(self.written_ms.load(Ordering::SeqCst));
        self.due_ms.store(due_ms, Ordering::SeqCst);
    }

    /// Whether `value` is a row that expired before the last sweep, so that no reader can find it.
    pub(super) fn is_swept(&self, value: &[u8]) -> bool {
        let due_ms = self.due_ms.load(Ordering::SeqCst);
        Row::check(value).is_some_and(|row| row.expires_ms() != 0 && row.expires_ms() < due_ms)
    }
}
