//! What is kept of the log behind the segments that a recovery needs.
//!
//! ```text
//!   kept: for readers of the past         live: for a recovery
//!   | segment | segment | segment |       | segment | newest |
//!   ^ dropped from here on                ^ released up to here
//! ```
//!
//! A segment that is released is kept while the [`Retention`] asks for it, or while a
//! [`Tail`](crate::Tail) holds it. Segments are dropped oldest first, so what is kept is an
//! unbroken chain. A tail holds the log from its LSN on, up to `held_bytes` below what is released:
//! so a reader that is slow, or stands still, cannot fill the disk.
//!
//! **After an opening** the chain is followed down beyond the LSN from which the recovery reads. A
//! segment that is missing, or is not whole, ends it: nothing depends on what is kept. When the
//! last record of such a segment was written, its file says by the time of its last change.
//!
//! **A clock that is set** forward by a day makes what is kept a day older at once. Set back, it
//! makes what is kept as old as at that moment at most: it stays that much longer, and not until
//! the clock has caught up.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use keyrack_vfs::Fs;

use crate::names::path_of;
use crate::options::Retention;
use crate::primitive::{Mutex, Ordering, lock};
use crate::reader::SegmentInfo;
use crate::recovery::read_info;
use crate::segment::Segment;

/// A segment behind those that a recovery needs.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Bytes of records.
    pub(crate) bytes: u64,
    /// Where the log ended before it.
    pub(crate) previous_end: u64,
    /// When its last record was written, in milliseconds since 1970.
    pub(crate) ended_ms: u64,
    /// The mapping, while some of it may be unsynced.
    pub(crate) segment: Option<Arc<Segment>>,
}

impl Kept {
    /// A segment has ended by now. If its time is later, the clock was set back since.
    pub(crate) fn ended_by(&mut self, now_ms: u64) {
        self.ended_ms = self.ended_ms.min(now_ms);
    }
}

impl Retention {
    /// Whether the segment that begins at `start` is still wanted, by a reader at `held` or without
    /// one, where everything below `released` was released.
    pub(crate) fn wants(
        &self,
        (start, kept): (u64, &Kept),
        released: u64,
        held: Option<u64>,
        now_ms: u64,
    ) -> bool {
        let behind = released.saturating_sub(start);
        let is_young = self.seconds == 0
            || kept.ended_ms.saturating_add(self.seconds.saturating_mul(1_000)) >= now_ms;
        let is_near = self.bytes == 0 || behind <= self.bytes;
        let is_held = held.is_some_and(|held| held < start + kept.bytes);
        (self.keeps() && is_young && is_near) || (is_held && behind <= self.held_bytes)
    }
}

/// The segments below the chain whose lowest one is `lowest`, ascending.
pub(crate) fn kept_below(
    fs: &dyn Fs,
    dir: &Path,
    starts: &[u64],
    lowest: &SegmentInfo,
    id: u64,
) -> Vec<(u64, Kept)> {
    let mut found = Vec::new();
    let mut previous_end = lowest.header.previous_end;
    loop {
        let before = starts[..starts.partition_point(|start| *start < previous_end)].last();
        let Some(start) = before else { break };
        let Ok(info) = read_info(fs, dir, *start, id) else { break };
        if info.end() < previous_end {
            break;
        }
        let Ok(metadata) = fs.metadata(&path_of(dir, *start)) else { break };
        let ended = metadata.modified.duration_since(SystemTime::UNIX_EPOCH);
        // A clock that stands before 1970 makes everything as old as can be.
        let ended = ended.unwrap_or_default();
        let ended_ms = u64::try_from(ended.as_millis()).unwrap_or(u64::MAX);
        let bytes = info.header.segment_bytes;
        previous_end = info.header.previous_end;
        found.push((*start, Kept { bytes, previous_end, ended_ms, segment: None }));
    }
    found.reverse();
    found
}

/// Where the segments are.
#[derive(Clone, Debug)]
pub(crate) struct TailFiles {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) id: u64,
}

/// The segments around an LSN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// Where the last segment begins that does not begin above the LSN.
    pub(crate) at: Option<u64>,
    /// Where the first one above begins, and where the log ended before it.
    pub(crate) next: Option<(u64, u64)>,
}

/// The LSNs from which tails will read on.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    state: Mutex<(u64, HashMap<u64, Arc<AtomicU64>>)>,
}

impl Holds {
    /// Holds the log from an LSN on.
    pub(crate) fn hold(self: &Arc<Self>, from: u64) -> Hold {
        let lsn = Arc::new(AtomicU64::new(from));
        let mut state = lock(&self.state);
        let number = state.0;
        state.0 += 1;
        state.1.insert(number, Arc::clone(&lsn));
        drop(state);
        Hold { number, lsn, holds: Arc::clone(self) }
    }

    /// The lowest LSN that is held.
    pub(crate) fn lowest(&self) -> Option<u64> {
        // Relaxed: an older one only keeps more.
        lock(&self.state).1.values().map(|lsn| lsn.load(Ordering::Relaxed)).min()
    }
}

/// One of the [`Holds`]. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Hold {
    number: u64,
    lsn: Arc<AtomicU64>,
    holds: Arc<Holds>,
}

impl Hold {
    /// What is below `lsn` is not needed any more.
    pub(crate) fn advance(&self, lsn: u64) {
        self.lsn.store(lsn, Ordering::Relaxed);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        lock(&self.holds.state).1.remove(&self.number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn wants(retention: Retention, held: Option<u64>, now_ms: u64) -> Vec<u64> {
        let starts = [1_000, 2_000, 3_000, 4_000];
        let wanted = |start: &u64| {
            let (bytes, previous_end) = (1_000, *start);
            let kept = Kept { bytes, previous_end, ended_ms: 10 * start, segment: None };
            retention.wants((*start, &kept), 5_000, held, now_ms)
        };
        starts.into_iter().filter(wanted).collect()
    }

    #[test]
    fn nothing_is_kept_that_nobody_asked_for() {
        assert!(wants(Retention::default(), None, 0).is_empty());
        assert!(wants(Retention::default(), Some(0), 0).is_empty(), "tails hold nothing");
    }

    #[test]
    fn both_limits_hold_and_one_alone_is_enough() {
        let of = |bytes, seconds| Retention { bytes, seconds, held_bytes: 0 };
        assert_eq!(wants(of(2_000, 0), None, u64::MAX), [3_000, 4_000]);
        assert_eq!(wants(of(1_999, 0), None, 0), [4_000]);
        // The segments ended at 10, 20, 30 and 40 seconds.
        assert_eq!(wants(of(0, 10), None, 40_000), [3_000, 4_000]);
        assert_eq!(wants(of(0, 10), None, 40_001), [4_000]);
        assert!(wants(of(0, 10), None, 50_001).is_empty());
        assert_eq!(wants(of(2_000, 10), None, 40_001), [4_000]);
        assert_eq!(wants(of(1_000, 10), None, 40_000), [4_000]);
        assert_eq!(wants(of(0, u64::MAX), None, u64::MAX), [1_000, 2_000, 3_000, 4_000]);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_keep_the_log_for_ever() {
        let retention = Retention { bytes: 0, seconds: 10, held_bytes: 0 };
        let mut kept = Kept { bytes: 1, previous_end: 0, ended_ms: 1 << 50, segment: None };
        for now_ms in [70_000, 80_000, 80_001] {
            kept.ended_by(now_ms);
            assert_eq!(retention.wants((0, &kept), 1, None, now_ms), now_ms <= 80_000);
        }
    }

    #[test]
    fn a_tail_holds_what_it_has_not_read_up_to_the_limit() {
        let of = |held_bytes| Retention { held_bytes, ..Retention::default() };
        assert_eq!(wants(of(10_000), Some(0), u64::MAX), [1_000, 2_000, 3_000, 4_000]);
        assert_eq!(wants(of(10_000), Some(2_999), 0), [2_000, 3_000, 4_000]);
        assert_eq!(wants(of(10_000), Some(3_000), 0), [3_000, 4_000]);
        assert_eq!(wants(of(2_000), Some(0), 0), [3_000, 4_000]);
        assert!(wants(of(10_000), Some(5_000), 0).is_empty());
    }

    #[test]
    fn the_lowest_hold_counts_until_it_is_given_up() {
        let holds = Arc::new(Holds::default());
        assert_eq!(holds.lowest(), None);
        let (one, other) = (holds.hold(7), holds.hold(5));
        assert_eq!(holds.lowest(), Some(5));
        other.advance(9);
        assert_eq!(holds.lowest(), Some(7));
        drop(one);
        assert_eq!(holds.lowest(), Some(9));
        drop(other);
        assert_eq!(holds.lowest(), None);
    }
}
