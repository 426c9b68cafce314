//! The sweep: removes expired rows, a slice at a time.
//!
//! For all sessions an expired row is absent. The sweep frees its memory. Its time is that which a
//! session has set last: the store reads no clock.
//!
//! **Invariant:** the removal of a row is logged after the row. Otherwise a crash could keep the
//! removal and lose the row, and with it the group that wrote it: the value that the group replaced
//! would be gone, though the group never happened.

use crate::core::Core;
use crate::keys;
use crate::session::Session;
use crate::{Row, RowSession};
use keyrack_store::Result;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// The number of rows in one slice.
const SLICE_ROWS: u64 = 4096;

/// The progress of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    from: Vec<u8>,
}

/// The result of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) rows: u64,
    pub(crate) removed: u64,
    /// Whether the last key was reached. The next slice begins at the first key then.
    pub(crate) is_end: bool,
}

impl Slice {
    /// Whether the next slice should follow at once.
    pub(crate) fn is_rich(&self) -> bool {
        !self.is_end && self.removed * 4 >= self.rows
    }
}

impl Sweep {
    /// Removes the rows of one slice that have expired at `now_ms`. Waits until they are in the
    /// log.
    ///
    /// # Errors
    /// As [`SessionRegistry::wait_until_logged`](crate::sessions::SessionRegistry), and those of a
    /// flush.
    pub(crate) fn slice(
        &mut self,
        core: &Core,
        session: &mut Session<'_>,
        now_ms: u64,
    ) -> Result<Slice> {
        let mut due: Vec<(Vec<u8>, u64)> = Vec::new();
        let mut slice = Slice { rows: 0, removed: 0, is_end: true };
        let mut last = Vec::new();
        core.tree.scan(&self.from, None, |key, bytes| {
            slice.rows += 1;
            let row = Row::of(&bytes);
            if row.is_expired(now_ms) && !core.is_dead(&row) {
                due.push((key.to_vec(), row.version()));
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
        if !due.is_empty() {
            // Removals that could not be logged are retried.
            session.flush()?;
            core.sessions.wait_until_logged()?;
        }
        // At this time no row has expired, so the session shows which one it is. Another version is
        // a newer row.
        session.set_own_time(0);
        for (key, version) in due {
            let is_due = |row: Option<Row<'_>>| row.is_some_and(|row| row.version() == version);
            let is_removed = match keys::element(&key) {
                None => session.remove_if(&key, is_due)?,
                Some((id, _)) => remove_element(core, session, id, &key, is_due)?,
            };
            slice.removed += u64::from(is_removed);
        }
        session.flush()?;
        core.counts.expired.fetch_add(slice.removed, Ordering::Relaxed);
        Ok(slice)
    }
}

/// Removes an element, and the header if it was the last one.
fn remove_element(
    core: &Core,
    session: &mut Session<'_>,
    id: u64,
    key: &[u8],
    is_due: impl FnOnce(Option<Row<'_>>) -> bool,
) -> Result<bool> {
    let collection = core.collections.get(id);
    let Some(collection) = collection else { return Ok(false) };
    // Without it the elements are removed as those of an orphan.
    let Some(guard) = collection.lock() else { return Ok(false) };
    if collection.is_pending() {
        // A later sweep finds it again.
        return Ok(false);
    }
    let is_removed = session.remove_if(key, is_due)?;
    for header in core.collections.keys_if_empty(&guard) {
        session.remove_if(&header, |row| row.is_some_and(|row| row.collection() == Some(id)))?;
    }
    Ok(is_removed)
}
