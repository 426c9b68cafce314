//! The throughput of flushes and compactions, in bytes of the log a millisecond: the rate at which
//! writers are slowed down.

use keyrack_measure::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NS_PER_MS: u64 = 1_000_000;

/// A new reading counts as much as the average of those before it.
const HALF: u64 = 2;

/// A compaction that moves less measures the system calls around it.
const MEASURED_BYTES_MIN: u64 = 1 << 20;

/// Readings of the flush thread and of compactions. All Relaxed: they are hints.
#[derive(Debug)]
pub(crate) struct Throughput {
    clock: Clock,
    /// Bytes a millisecond; 0 before the first reading.
    flush: AtomicU64,
    level0: AtomicU64,
    /// When a compaction of level 0 ended last.
    level0_end_ns: AtomicU64,
    /// Bytes of tables that a thousand bytes of the log become: fewer when keys are written again.
    table_permille: AtomicU64,
    /// Bytes of tables that a compaction moves in a millisecond; 0 before the first one.
    compaction: AtomicU64,
    /// Bytes of the table that is being flushed.
    flush_written: AtomicU64,
}

impl Throughput {
    pub(crate) fn new() -> Self {
        Throughput {
            clock: Clock::vdso(),
            flush: AtomicU64::new(0),
            level0: AtomicU64::new(0),
            level0_end_ns: AtomicU64::new(0),
            table_permille: AtomicU64::new(1000),
            compaction: AtomicU64::new(0),
            flush_written: AtomicU64::new(0),
        }
    }

    /// When something begins.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.ticks()
    }

    /// How long ago that was.
    pub(crate) fn since(&self, begin_ns: u64) -> Duration {
        Duration::from_nanos(self.now_ns().saturating_sub(begin_ns))
    }

    /// So many bytes of the log became tables of so many bytes, in the time since `begin_ns`.
    pub(crate) fn record_flush(&self, begin_ns: u64, log_bytes: u64, table_bytes: u64) {
        average_in(&self.flush, log_bytes, self.now_ns().saturating_sub(begin_ns));
        let permille = table_bytes.saturating_mul(1000) / log_bytes.max(1);
        self.table_permille.store(permille.max(1), Ordering::Relaxed);
    }

    /// So many bytes have left level 0, by a compaction that began at `begin_ns`.
    pub(crate) fn record_level0(&self, begin_ns: u64, table_bytes: u64) {
        let now_ns = self.now_ns();
        let last_ns = self.level0_end_ns.swap(now_ns, Ordering::Relaxed);
        // What was done between the last one and this counts, but not a rest.
        let took_ns = now_ns.saturating_sub(begin_ns);
        let since_ns = now_ns.saturating_sub(last_ns).min(took_ns.saturating_mul(4)).max(took_ns);
        let permille = self.table_permille.load(Ordering::Relaxed);
        average_in(&self.level0, table_bytes.saturating_mul(1000) / permille, since_ns);
    }

    /// A compaction, or a part of one, has read or written so many bytes since `begin_ns`. Where
    /// that is little, as where everything was deleted, it says nothing of how fast bytes move.
    pub(crate) fn record_compaction(&self, begin_ns: u64, bytes: u64) {
        if bytes >= MEASURED_BYTES_MIN {
            average_in(&self.compaction, bytes, self.now_ns().saturating_sub(begin_ns));
        }
    }

    /// The flush has written so many bytes of its table; none when it begins.
    pub(crate) fn set_flush_written(&self, bytes: u64) {
        self.flush_written.store(bytes, Ordering::Relaxed);
    }

    /// About how much of a memtable of so many bytes is in the table that is being flushed, in
    /// thousandths.
    pub(crate) fn flush_permille(&self, memtable_bytes: u64) -> u64 {
        let table = self.table_permille.load(Ordering::Relaxed).saturating_mul(memtable_bytes);
        self.flush_written.load(Ordering::Relaxed).saturating_mul(1_000_000) / table.max(1)
    }

    /// Bytes of tables that a compaction writes in a millisecond, once there was one.
    pub(crate) fn compaction(&self) -> Option<u64> {
        known(&self.compaction)
    }

    /// Bytes of the log that become so many bytes of tables.
    pub(crate) fn log_bytes(&self, table_bytes: u64) -> u64 {
        table_bytes.saturating_mul(1000) / self.table_permille.load(Ordering::Relaxed)
    }

    /// Bytes of the log that flushes take in a millisecond, once there was one.
    pub(crate) fn flush(&self) -> Option<u64> {
        known(&self.flush)
    }

    /// Bytes of the log whose tables leave level 0 in a millisecond, once there was a compaction.
    pub(crate) fn level0(&self) -> Option<u64> {
        known(&self.level0)
    }
}

fn average_in(average: &AtomicU64, bytes: u64, ns: u64) {
    let read = u128::from(bytes) * u128::from(NS_PER_MS) / u128::from(ns.max(1));
    let read = u64::try_from(read).unwrap_or(u64::MAX).max(1);
    let new = match average.load(Ordering::Relaxed) {
        0 => read,
        old => old / HALF + read / HALF,
    };
    average.store(new.max(1), Ordering::Relaxed);
}

fn known(average: &AtomicU64) -> Option<u64> {
    Some(average.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throughput(step_ns: u64) -> Throughput {
        Throughput { clock: Clock::fake(step_ns), ..Throughput::new() }
    }

    #[test]
    fn speeds_are_averages_of_readings() {
        let throughput = throughput(NS_PER_MS);
        assert_eq!(throughput.flush(), None);
        let begin = throughput.now_ns();
        throughput.record_flush(begin, 1000, 900);
        assert_eq!(throughput.flush(), Some(1000));
        let begin = throughput.now_ns();
        throughput.record_flush(begin, 3000, 2700);
        assert_eq!(throughput.flush(), Some(2000));
    }

    /// Parts that wrote nothing, because all was deleted, took the average down to a byte a
    /// millisecond, and writers with it.
    #[test]
    fn a_compaction_that_moves_little_measures_nothing() {
        let throughput = throughput(NS_PER_MS);
        assert_eq!(throughput.compaction(), None);
        let begin = throughput.now_ns();
        throughput.record_compaction(begin, 8 << 20);
        for bytes in [0, 1, MEASURED_BYTES_MIN - 1] {
            let begin = throughput.now_ns();
            throughput.record_compaction(begin, bytes);
        }
        assert_eq!(throughput.compaction(), Some(8 << 20));
    }

    #[test]
    fn level_0_is_counted_in_bytes_of_the_log() {
        let throughput = throughput(NS_PER_MS);
        let begin = throughput.now_ns();
        // Keys were written ten times each.
        throughput.record_flush(begin, 10_000, 1_000);
        let begin = throughput.now_ns();
        throughput.record_level0(begin, 500);
        // A millisecond of work, and the one before it, when something else was done.
        let since_ms = 3;
        assert_eq!(throughput.level0(), Some(5_000 / since_ms));
    }
}
