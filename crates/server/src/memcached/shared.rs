//! The state that all of memcached's connections share.

use super::counts::Counts;
use super::detail::Detail;
use super::reads::Reads;
use crate::password::Password;
use keyrack_rowstore::RowSession;
use keyrack_store::Error;
use keyrack_wire::memcached::Limits;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The state that all of memcached's connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The limits of authenticated clients.
    pub(crate) limits: Limits,
    pub(crate) password: Password,
    /// The reply to `version`.
    pub(crate) version: String,
    pub(crate) started_ms: u64,
    pub(crate) memory_bytes_max: u64,
    pub(crate) threads: usize,
    pub(crate) connections_max: usize,
    /// The counters of each loop.
    pub(crate) counts: Vec<Arc<Counts>>,
    pub(crate) reads: Reads,
    pub(crate) detail: Detail,
    /// Further lines of `stats settings`.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// When all rows are to go, in milliseconds since 1970; 0 for never.
    flush_at_ms: AtomicU64,
    /// The sums when they were last set back.
    baseline: Mutex<[u64; Counts::LEN]>,
    /// Numbers of the server that are not memcached's: a name as `stats` has it, and its value.
    pub(crate) facts: Box<dyn Facts>,
}

/// Numbers that others have.
pub(crate) trait Facts: Send + Sync + std::fmt::Debug {
    fn visit(&self, visit: &mut dyn FnMut(&str, u64));
}

impl Shared {
    /// Shared by `threads` loops.
    pub(crate) fn new(
        limits: Limits,
        password: Password,
        threads: usize,
        started_ms: u64,
        facts: Box<dyn Facts>,
    ) -> Self {
        Shared {
            limits,
            password,
            version: format!("1.6.0-keyrack-{}", env!("CARGO_PKG_VERSION")),
            started_ms,
            memory_bytes_max: 0,
            threads,
            connections_max: 0,
            counts: (0..threads).map(|_| Arc::default()).collect(),
            reads: Reads::new(),
            detail: Detail::default(),
            settings: Vec::new(),
            flush_at_ms: AtomicU64::new(0),
            baseline: Mutex::new([0; Counts::LEN]),
            facts,
        }
    }

    /// Has all rows removed at `ms`; 0 takes that back.
    pub(super) fn flush_at(&self, ms: u64) {
        self.flush_at_ms.store(ms, Ordering::Relaxed);
    }

    /// Removes all rows, if it is time to. Called by each loop at the beginning of an iteration.
    pub(crate) fn flush_if_due(&self, rows: &mut dyn RowSession, now_ms: u64) -> Result<(), Error> {
        let at_ms = self.flush_at_ms.load(Ordering::Relaxed);
        if at_ms == 0 || at_ms > now_ms {
            return Ok(());
        }
        // One loop does it. Relaxed: the rows order themselves.
        let mine =
            self.flush_at_ms.compare_exchange(at_ms, 0, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() { rows.clear() } else { Ok(()) }
    }

    /// The sums of all loops since they were set back, in the order of [`Counts::NAMES`].
    pub(crate) fn totals(&self) -> [u64; Counts::LEN] {
        let mut totals = self.sums();
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        for (total, before) in totals.iter_mut().zip(baseline.iter()) {
            *total = total.wrapping_sub(*before);
        }
        totals
    }

    /// Sets the sums back to 0.
    pub(super) fn reset(&self) {
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = self.sums();
        self.detail.reset();
    }

    /// The sums since the start, which only grow.
    pub(crate) fn sums(&self) -> [u64; Counts::LEN] {
        let mut totals = [0u64; Counts::LEN];
        for counts in &self.counts {
            for (total, value) in totals.iter_mut().zip(counts.values()) {
                *total = total.wrapping_add(value);
            }
        }
        totals
    }
}
