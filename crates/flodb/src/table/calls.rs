//! Reads of the files of tables, counted for all tables of a store together.
//!
//! A read of a file costs a microsecond and more; an addition beside it is not seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls, and the bytes that they read.
#[derive(Debug, Default)]
pub(crate) struct ReadCount {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl ReadCount {
    pub(crate) fn add(&self, bytes: usize) {
        // Relaxed: sums that order nothing.
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Reads of tables, by what they are for.
#[derive(Debug, Default)]
pub(crate) struct TableReads {
    /// One block each, or what an opening needs.
    pub(crate) random: ReadCount,
    /// Of scans and compactions, ahead of the block that they are at.
    pub(crate) ahead: ReadCount,
}
