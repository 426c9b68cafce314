//! Removing rows that have expired from a store that knows nothing of them, a slice at a time.
//!
//! A row that has expired is not there for any session. The sweep takes it out of the counts, and
//! its bytes out of the store. The time is that which a session was told last: no clock is read.
//!
//! A round goes over all rows, and begins only when a row may have expired (see `expiry`). A slice
//! looks at few rows and bytes, and each removal is a write of its own, so nobody waits for it.

use super::core::Core;
use super::session::StoreSession;
use crate::Row;
use keyrack_store::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Rows that a slice looks at.
const SLICE_ROWS: u64 = 4096;
/// Bytes of keys and values that it looks at, and one row more.
const SLICE_BYTES: usize = 4 << 20;

/// Where a round is, and what it has seen.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Where the next slice begins; nothing between two rounds.
    from: Option<Vec<u8>>,
    /// When the first of the rows expires that the round has left.
    left_ms: u64,
}

/// What a slice came to.
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

    /// Looks at some rows, and removes those that have expired at `now_ms`. After an error the next
    /// slice begins at the same place.
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
        let look = find_expired(session, &from, now_ms)?;
        self.left_ms = self.left_ms.min(look.left_ms);
        let mut removed = 0;
        for key in &look.due {
            let is_removed = session.remove_expired(key, now_ms)?;
            core.expired.fetch_add(u64::from(is_removed), Ordering::Relaxed);
            removed += u64::from(is_removed);
        }
        let is_end = look.next.is_none();
        self.from = look.next;
        if is_end {
            core.writers.exclusive(|| core.expiry.end_round(self.left_ms));
        }
        Ok(Slice { rows: look.rows, removed, is_end })
    }
}

/// What a slice of a sweep has seen.
#[derive(Debug)]
struct ExpiryScan {
    rows: u64,
    /// Keys whose rows have expired.
    due: Vec<Vec<u8>>,
    /// When the first of the other rows expires.
    left_ms: u64,
    /// Where the next slice begins.
    next: Option<Vec<u8>>,
}

/// Looks at some rows from `from` on, in the name of a sweep. A value that is no row is passed
/// over: whoever reads it is told.
fn find_expired(session: &mut StoreSession<'_>, from: &[u8], now_ms: u64) -> Result<ExpiryScan> {
    let mut look = ExpiryScan { rows: 0, due: Vec::new(), left_ms: u64::MAX, next: None };
    let mut bytes = 0;
    session.session.scan(from, None, &mut |key, value| {
        look.rows += 1;
        bytes += key.len() + value.len();
        match Row::check(value) {
            Some(row) if row.is_expired(now_ms) => look.due.push(key.to_vec()),
            Some(row) if row.expires_ms() != 0 => {
                look.left_ms = look.left_ms.min(row.expires_ms());
            }
            _ => {}
        }
        if look.rows < SLICE_ROWS && bytes < SLICE_BYTES {
            return ControlFlow::Continue(());
        }
        let mut next = Vec::with_capacity(key.len() + 1);
        next.extend_from_slice(key);
        next.push(0);
        look.next = Some(next);
        ControlFlow::Break(())
    })?;
    Ok(look)
}

/// The thread that sweeps. Dropping ends and joins it.
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
            // It ends by itself, and has nothing to tell.
            let _ = thread.join();
        }
    }
}

fn run(core: &Core, interval: Duration) {
    let mut sweep = Sweep::default();
    while core.notifier.wait_for_sweep(interval, || core.volatile.load(Ordering::Relaxed) > 0) {
        let now_ms = core.now_ms.load(Ordering::Relaxed);
        if !sweep.is_under_way() && !core.expiry.is_due(now_ms) {
            continue;
        }
        if slices(core, &mut sweep, now_ms).is_err() {
            // Readers and writers get the error. The sweep is tried again after the interval.
            core.sweep_failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A slice, and more as long as many of the rows have expired.
fn slices(core: &Core, sweep: &mut Sweep, now_ms: u64) -> Result<()> {
    let mut session = StoreSession::new(core)?;
    loop {
        let slice = sweep.slice(&mut session, now_ms)?;
        if slice.is_end || slice.removed * 4 < slice.rows || core.notifier.is_stopping() {
            return Ok(());
        }
    }
}
