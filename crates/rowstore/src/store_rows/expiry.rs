//! When the next row expires, as far as is known.
//!
//! ```text
//!   writers   lower `due` and `written` to the expiry of a row before they store it
//!   a round   takes `written` for the largest, looks at all rows, and then, while nobody writes,
//!             sets `due` to the least of what it saw and of what was written meanwhile
//! ```
//!
//! **Invariant:** no row is there that expires before `due`. So a round is worth while only when
//! `due` has come, and an entry in a file whose row expires before `due` is an old version, which a
//! newer one or a tombstone hides: the engine may drop it.

use crate::Row;
use std::sync::atomic::{AtomicU64, Ordering};

/// When the next row expires, as far as is known; the largest number for never.
#[derive(Debug)]
pub(super) struct Expiry {
    due_ms: AtomicU64,
    /// The least since the round began that is under way.
    written_ms: AtomicU64,
}

impl Expiry {
    pub(super) fn new() -> Self {
        Expiry { due_ms: AtomicU64::new(u64::MAX), written_ms: AtomicU64::new(u64::MAX) }
    }

    /// A row is about to be stored that expires then; 0 is never.
    #[inline]
    pub(super) fn note(&self, expires_ms: u64) {
        if expires_ms != 0 {
            // Before the store has the row: its own order hands this on to whoever finds the row.
            self.due_ms.fetch_min(expires_ms, Ordering::SeqCst);
            self.written_ms.fetch_min(expires_ms, Ordering::SeqCst);
        }
    }

    /// Whether a row may have expired.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.load(Ordering::SeqCst) <= now_ms
    }

    /// A round begins. Nobody writes meanwhile.
    pub(super) fn begin_round(&self) {
        self.written_ms.store(u64::MAX, Ordering::SeqCst);
    }

    /// A round has ended, and what it left expires at `left_ms` or later. Nobody writes meanwhile.
    pub(super) fn end_round(&self, left_ms: u64) {
        let due_ms = left_ms.min(self.written_ms.load(Ordering::SeqCst));
        self.due_ms.store(due_ms, Ordering::SeqCst);
    }

    /// Whether `value` is a row that expired before the last sweep: nobody can find it any more.
    pub(super) fn is_swept(&self, value: &[u8]) -> bool {
        let due_ms = self.due_ms.load(Ordering::SeqCst);
        Row::check(value).is_some_and(|row| row.expires_ms() != 0 && row.expires_ms() < due_ms)
    }
}
