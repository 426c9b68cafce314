//! Lines in the log about evicted rows: one every ten seconds at most, written by the first loop.

use crate::log::events;
use keyrack_rowstore::Rows;

/// Time between two lines.
const EVERY_MS: u64 = 10_000;

/// The number of evictions that was logged so far.
#[derive(Debug, Default)]
pub(crate) struct EvictionLog {
    logged: u64,
    next_ms: u64,
}

impl EvictionLog {
    /// Logs how many rows were evicted since the last line, if it is time to.
    #[inline]
    pub(crate) fn poll(&mut self, rows: &dyn Rows, now_ms: u64) {
        if now_ms >= self.next_ms {
            self.next_ms = now_ms + EVERY_MS;
            self.write(rows);
        }
    }

    /// Logs how many rows were evicted since the last line, if any were.
    pub(crate) fn write(&mut self, rows: &dyn Rows) {
        rows.stats(&mut |name, total| {
            let total = total as u64;
            if name == "evicted" && total > self.logged {
                let rows = total - self.logged;
                events::evicted(rows, total);
                self.logged = total;
            }
        });
    }
}
