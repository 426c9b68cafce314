//! Removing rows that have expired, a slice at a time.
//!
//! A row that has expired is not there for any session, whoever looks. The sweep gives its memory
//! back. The time is that which a session was told last: the store reads no clock.

use crate::core::Core;
use crate::session::Session;
use crate::{Row, RowSession};
use keyrack_store::Result;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Rows looked at in one slice.
const SLICE_ROWS: u64 = 4096;

/// Where a sweep is, and what it found.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    from: Vec<u8>,
}

/// What a slice came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) rows: u64,
    pub(crate) removed: u64,
    /// The last key was reached; the next slice begins at the first.
    pub(crate) is_end: bool,
}

impl Slice {
    /// Whether it is worth while to go on at once.
    pub(crate) fn is_rich(&self) -> bool {
        !self.is_end && self.removed * 4 >= self.rows
    }
}

impl Sweep {
    /// Looks at some rows, and removes those that have expired at `now_ms`.
    pub(crate) fn slice(
        &mut self,
        core: &Core,
        session: &mut Session<'_>,
        now_ms: u64,
    ) -> Result<Slice> {
        let mut due: Vec<Vec<u8>> = Vec::new();
        let mut slice = Slice { rows: 0, removed: 0, is_end: true };
        let mut last = Vec::new();
        core.tree.range(&self.from, None, |key, bytes| {
            slice.rows += 1;
            let row = Row::of(&bytes);
            if row.is_expired(now_ms) && !core.is_dead(&row) {
                due.push(key.to_vec());
            }
            if slice.rows < SLICE_ROWS {
                return ControlFlow::Continue(());
            }
            slice.is_end = false;
            last.extend_from_slice(key);
            last.push(0);
            ControlFlow::Break(())
        });
        self.from = last;
        session.set_own_time(now_ms);
        for key in due {
            // What has expired is not there for the session; what is there came meanwhile.
            slice.removed += u64::from(session.remove_if(&key, |row| row.is_none())?);
        }
        session.flush()?;
        core.counts.expired.fetch_add(slice.removed, Ordering::Relaxed);
        Ok(slice)
    }
}
