//! How fast writers may be while flushes or compactions are behind.
//!
//! ```text
//!   flush       the active memtable is nearly full when the oldest immutable one is written
//!               rate = flushes' rate x room in the active memtable / rest of the oldest one
//!   compaction  bytes in the wrong level stay below a limit
//!
//!               2x steady |\
//!                         | \            steady = the rate at which compactions take away as
//!                  steady |--\--         many bytes as writers bring
//!                         |   \
//!                       0 +----'--
//!                      slow    stop      bytes in the wrong level
//! ```
//!
//! Both are computed anew whenever a writer waits, with the progress of the flush. The tables of
//! level 0 that are being merged count until the merge is over, since they are on disk until then.
//! So the rate falls before there is a reason to stop, and the stop is for a disk that suddenly
//! does nothing: many waits of a millisecond, and none of a hundred.
//!
//! **Debt.** A byte in level 0, or above the target of a level, has to be rewritten together with
//! what it meets further down. `compaction::debt` estimates how many bytes that makes for all of
//! them. So the steady rate is the throughput of compactions, times the bytes in the wrong level,
//! divided by the debt. It falls when levels grow, long before tables pile up.

use super::Inner;
use crate::compaction::{debt, excess};
use crate::event::{Stall, StallCause};
use crate::read_state::ReadState;
use keyrack_concurrent::pin;

/// What writers may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Free,
    /// Together they may write so many bytes a millisecond.
    Rate(u64, StallCause),
    Stop(StallCause),
}

impl Pace {
    /// As a listener is told.
    pub(super) fn stall(self) -> Stall {
        match self {
            Pace::Free => Stall::None,
            Pace::Rate(_, cause) => Stall::Slowdown(cause),
            Pace::Stop(cause) => Stall::Stop(cause),
        }
    }
}

/// No rate is lower than this part of what the background does, so that a wait for one entry stays
/// short.
const RATE_PART_MIN: u64 = 32;

/// The writing of a table counts for so many thousandths of its flush; its sync and its
/// installation are the rest.
const WRITING_PERMILLE: u64 = 700;

/// This part of a memtable stays free in the plan, for flushes that take longer than they did.
const SPARE_PART: u64 = 8;

impl Inner {
    /// What writers may do now. Takes no lock. O(levels).
    pub(super) fn pace(&self) -> Pace {
        let guard = pin();
        let read_state = self.read_path.load(&guard);
        let (immutable, level0) = (read_state.memtables.len() - 1, read_state.levels[0].len());
        let options = &self.options;
        let immutable_max = options.immutable_memtables_max;
        // Without threads that compact, a writer would wait for nothing.
        let compacts = options.compaction_threads > 0;
        if immutable > immutable_max {
            return Pace::Stop(StallCause::Memtables);
        }
        if compacts && level0 >= options.level0_stop {
            return Pace::Stop(StallCause::Level0);
        }
        let is_last = immutable > 0 && immutable == immutable_max;
        let flush = if is_last { self.flush_pace(read_state) } else { None };
        let debt = if compacts { self.debt_pace(read_state) } else { None };
        let level0 = if compacts { self.level0_pace(level0) } else { None };
        let rates = [
            (flush, StallCause::Memtables),
            (level0, StallCause::Level0),
            (debt, StallCause::Debt),
        ];
        match rates.into_iter().filter_map(|(rate, cause)| Some((rate?, cause))).min() {
            Some((bytes_per_ms, cause)) => Pace::Rate(bytes_per_ms, cause),
            None => Pace::Free,
        }
    }

    /// The rate at which the active memtable is full when the oldest one is flushed.
    fn flush_pace(&self, read_state: &ReadState) -> Option<u64> {
        let throughput = &self.compaction.throughput;
        let oldest = read_state.memtables.last()?.bytes() as u64;
        let written = throughput.flush_permille(oldest).min(1000) * WRITING_PERMILLE / 1000;
        let left = share(oldest, 1000 - written, 1000);
        let memtable_bytes = self.options.memtable_bytes as u64;
        let used = read_state.active().bytes() as u64 + memtable_bytes / SPARE_PART;
        Some(to_fill(throughput.flush()?, memtable_bytes.saturating_sub(used), left))
    }

    /// The rate that the bytes in the wrong level allow.
    fn debt_pace(&self, read_state: &ReadState) -> Option<u64> {
        let options = self.options.compaction();
        let throughput = &self.compaction.throughput;
        let excess_bytes = excess(&read_state.version, &options);
        let slow = options.excess_bytes_slow();
        if excess_bytes <= slow {
            return None;
        }
        let merge = throughput.log_bytes(throughput.compaction()?);
        let debt = debt(&read_state.version, &options).max(excess_bytes);
        let steady = share(merge, excess_bytes, debt);
        Some(falling(steady, excess_bytes, (slow, options.excess_bytes_stop())))
    }

    /// The rate that the number of tables in level 0 allows: readers look into each.
    fn level0_pace(&self, level0: usize) -> Option<u64> {
        let (slow, stop) = (self.options.level0_slow, self.options.level0_stop);
        let rate = self.compaction.throughput.level0().filter(|_| level0 >= slow)?;
        Some(falling(rate, level0 as u64, (slow as u64, stop as u64)))
    }
}

/// The rate that fills `room` in the time in which a flush at `rate` writes what is `left`, a tenth
/// slower.
fn to_fill(rate: u64, room: u64, left: u64) -> u64 {
    let rate = rate - rate / 10;
    let (least, most) = (rate / RATE_PART_MIN, rate.saturating_mul(4));
    share(rate, room, left.max(1)).clamp(least.max(1), most.max(1))
}

/// From twice `steady` down to next to nothing, evenly, while `at` goes from `slow` to `stop`.
fn falling(steady: u64, at: u64, (slow, stop): (u64, u64)) -> u64 {
    let span = stop.saturating_sub(slow).max(1);
    let left = stop.saturating_sub(at).min(span);
    share(steady.saturating_mul(2), left, span).max(steady / RATE_PART_MIN).max(1)
}

/// `of` times `part` divided by `whole`.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(of) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_memtable_fills_while_the_oldest_is_written() {
        assert_eq!(to_fill(1000, 50, 100), 450);
        assert_eq!(to_fill(1000, 100, 100), 900);
        assert_eq!(to_fill(1000, 100, 10), 3600, "nearly done, and at most four times as fast");
        assert_eq!(to_fill(1000, 0, 100), 900 / 32, "a wait ends");
        assert_eq!((to_fill(0, 5, 5), to_fill(1000, 5, 0)), (1, 3600));
    }

    #[test]
    fn the_rate_falls_evenly_between_the_limits() {
        let rate = |at| falling(1000, at, (100, 200));
        assert_eq!([100, 125, 150, 175].map(rate), [2000, 1500, 1000, 500]);
        assert_eq!([200, 999].map(rate), [1000 / 32; 2], "a wait ends");
        assert_eq!(falling(0, 5, (5, 5)), 1);
        assert!(falling(u64::MAX, 1, (1, 2)) > u64::MAX / 2, "nothing overflows");
    }
}
