//! What a responder counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a responder has counted, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Requests that were answered, or were to be and met a fault.
    pub requests: u64,
    /// Faults that were made.
    pub faults: u64,
}

/// The counts, while they grow.
#[derive(Debug, Default)]
pub(super) struct LiveCounts {
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) faults: AtomicU64,
}

impl LiveCounts {
    pub(super) fn read(&self) -> Counts {
        // Relaxed: each count publishes nothing but itself.
        Counts {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
        }
    }

    pub(super) fn add(count: &AtomicU64, number: u64) {
        count.fetch_add(number, Ordering::Relaxed);
    }
}
