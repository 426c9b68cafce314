//! The sweep: removes expired rows from a store that has no expiry, a slice at a time.
//!
//! For all sessions an expired row is absent. The sweep removes it from the counts and the store.
//! Its time is that which a session has set last: it reads no clock.
//!
//! A round scans all rows, and begins only when a row may have expired (see `expiry`). A slice
//! scans few rows and bytes, and each removal is a write of its own, so other writers do not wait
//! long.

use super::core::Core;
use super::session::StoreSession;
use crate::Row;
use keyrack_store::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The maximum rows of a slice.
const SLICE_ROWS: u64 = 4096;
/// The bytes of keys and values after which a slice ends.
const SLICE_BYTES: usize = 4 << 20;

/// The pause between two slices of orphans.
const SLICE_PAUSE: Duration = Duration::from_millis(1);

/// The progress of a round.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Where the next slice begins; `None` between two rounds.
    from: Option<Vec<u8>>,
    /// The least expiry of the rows that the round has left.
    left_ms: u64,
}

/// The result of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) rows: u64,
    pub(super) removed: u64,
    pub(super) is_end: bool,
}

impl Sweep {
    fn is_under_way(&self) -> bool {
        self.from.is_some()
    }

    /// Removes the rows of one slice that have expired at `now_ms`. After an error the next slice
    /// begins at the same key.
    pub(super) fn slice(&mut self, session: &mut StoreSession<'_>, now_ms: u64) -> Result<Slice> {
        let core = session.core;
        let from = match &self.from {
            Some(from) => from.clone(),
            None => {
                core.writers.exclusive(|| core.expiry.begin_round());
                self.left_ms = u64::MAX;
                self.from.insert(Vec::new()).clone()
            }
        };
        let scan = find_expired(session, &from, now_ms)?;
        self.left_ms = self.left_ms.min(scan.left_ms);
        let mut removed = 0;
        for key in &scan.due {
            let Some(is_removed) = session.remove_expired(key, now_ms)? else {
                // It is due in the next round.
                self.left_ms = self.left_ms.min(now_ms);
                continue;
            };
            core.expired.fetch_add(u64::from(is_removed), Ordering::Relaxed);
            removed += u64::from(is_removed);
        }
        let is_end = scan.next.is_none();
        self.from = scan.next;
        if is_end {
            core.writers.exclusive(|| core.expiry.end_round(self.left_ms));
        }
        Ok(Slice { rows: scan.rows, removed, is_end })
    }
}

/// The scan of one slice.
#[derive(Debug)]
struct ExpiryScan {
    rows: u64,
    /// Keys whose rows have expired.
    due: Vec<Vec<u8>>,
    /// The least expiry of the other rows.
    left_ms: u64,
    /// Where the next slice begins.
    next: Option<Vec<u8>>,
}

/// Scans one slice from `from` on. Skips values that are not rows; a reader gets an error for them.
fn find_expired(session: &mut StoreSession<'_>, from: &[u8], now_ms: u64) -> Result<ExpiryScan> {
    let mut found = ExpiryScan { rows: 0, due: Vec::new(), left_ms: u64::MAX, next: None };
    let mut bytes = 0;
    session.session.scan(from, None, &mut |key, value| {
        found.rows += 1;
        bytes += key.len() + value.len();
        match Row::check(value) {
            Some(row) if row.is_expired(now_ms) => found.due.push(key.to_vec()),
            Some(row) if row.expires_ms() != 0 => {
                found.left_ms = found.left_ms.min(row.expires_ms());
            }
            _ => {}
        }
        if found.rows < SLICE_ROWS && bytes < SLICE_BYTES {
            return ControlFlow::Continue(());
        }
        let mut next = Vec::with_capacity(key.len() + 1);
        next.extend_from_slice(key);
        next.push(0);
        found.next = Some(next);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The sweeper thread. Dropping ends and joins it.
pub(super) struct Sweeper {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    pub(super) fn start(core: &Arc<Core>, interval: Duration) -> Result<Self> {
        let shared = Arc::clone(core);
        let thread =
            Builder::new().name("sweeper".to_owned()).spawn(move || run(&shared, interval));
        let thread = thread.map_err(|error| Error::io("starting a thread", error))?;
        Ok(Sweeper { core: Arc::clone(core), thread: Some(thread) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.core.notifier.stop();
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

fn run(core: &Core, interval: Duration) {
    let mut sweep = Sweep::default();
    let has_work = || core.volatile.load(Ordering::Relaxed) > 0 || core.collections.has_queued();
    while core.notifier.wait_for_sweep(interval, has_work) {
        if sweep_orphans(core).is_err() {
            core.sweep_failures.fetch_add(1, Ordering::Relaxed);
        }
        let now_ms = core.now_ms.load(Ordering::Relaxed);
        if !sweep.is_under_way() && !core.expiry.is_due(now_ms) {
            continue;
        }
        if slices(core, &mut sweep, now_ms).is_err() {
            // Readers and writers get the error. The sweep is retried after the interval.
            core.sweep_failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sweeps one slice, and more as long as a quarter of the rows has expired.
fn slices(core: &Core, sweep: &mut Sweep, now_ms: u64) -> Result<()> {
    let mut session = StoreSession::new(core)?;
    loop {
        let slice = sweep.slice(&mut session, now_ms)?;
        if slice.is_end || slice.removed * 4 < slice.rows || core.notifier.is_stopping() {
            return Ok(());
        }
    }
}

/// Removes all orphans that can be removed now.
fn sweep_orphans(core: &Core) -> Result<()> {
    if !core.collections.has_queued() {
        return Ok(());
    }
    let mut session = StoreSession::new(core)?;
    while session.sweep_orphan()? {
        if !core.notifier.pause(SLICE_PAUSE) {
            break;
        }
    }
    Ok(())
}
