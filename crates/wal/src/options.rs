//! The options of a log.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::RECORD_BYTES;

/// The smallest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// The largest segment, in bytes: lengths of records have 32 bits.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The end of all LSNs: they have 56 bits.
pub(crate) const LSN_MAX: u64 = 1 << 56;

/// Durability of a log: what has happened to a record before [`Log::commit`](crate::Log::commit)
/// returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nothing. There are no files; the log only assigns LSNs.
    None,
    /// It is in the page cache: it survives the end of the process, not a power loss.
    Os,
    /// As `Os`, and a thread syncs the log, at most this long after the last sync.
    Interval(Duration),
    /// It is on stable storage.
    Always,
}

/// How to open a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of records in a segment: a power of two, from 4 KiB to 1 GiB. Existing segments keep
    /// their size.
    pub segment_bytes: u64,
    /// Durability.
    pub sync: Sync,
    /// The maximum number of released segments that are kept for reuse.
    pub recycled_max: usize,
    /// A lower bound for the LSN of the first new record, which is never 0.
    pub first_lsn: u64,
    /// The identity of the log, not 0. [`new_id`](crate::new_id) makes one. A log is opened with
    /// the identity that it was created with, which distinguishes its files from those of other
    /// logs.
    pub id: u64,
    /// Whether the caller knows that [`Log::begin`](crate::Log::begin) has succeeded. If it has, a
    /// log without files is damaged. Otherwise it is a new log.
    pub begun: bool,
    /// Whether the caller has a thread that calls [`Log::prepare`](crate::Log::prepare) whenever
    /// [`Reservation::publish_asking`](crate::Reservation::publish_asking) says so. Otherwise the
    /// writer that publishes creates the next segment itself, and waits for three syncs.
    pub prepared_by_caller: bool,
    /// What is kept of the segments that were released.
    pub retention: Retention,
}

/// What a log keeps of the segments that were released, for readers of its past. Whole segments are
/// kept, and only an unbroken chain of them up to the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of records that are kept at most, those of segments in use not counted. 0 for no limit
    /// if `seconds` is one, and for nothing otherwise.
    pub bytes: u64,
    /// Segments whose last record is older are not kept. 0 for no limit if `bytes` is one, and for
    /// nothing otherwise.
    pub seconds: u64,
    /// Bytes of records that open [`Tail`](crate::Tail)s hold at most, whatever the other limits
    /// are.
    pub held_bytes: u64,
}

impl Retention {
    /// Whether anything is kept that no tail holds.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.bytes > 0 || self.seconds > 0
    }
}

impl Default for Options {
    /// Segments of 64 MiB, [`Sync::Os`], two segments kept, the identity 1.
    fn default() -> Self {
        Options {
            segment_bytes: 64 << 20,
            sync: Sync::Os,
            recycled_max: 2,
            first_lsn: 0,
            id: 1,
            begun: false,
            prepared_by_caller: false,
            retention: Retention::default(),
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.segment_bytes;
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return Err(Error::usage(format!(
                "segment_bytes must be a power of two from {SEGMENT_BYTES_MIN} to \
                 {SEGMENT_BYTES_MAX} (got {bytes})"
            )));
        }
        if self.sync == Sync::Interval(Duration::ZERO) {
            return Err(Error::usage("the interval between two syncs must be longer than 0"));
        }
        if self.id == 0 {
            return Err(Error::usage("the identity of a log must not be 0"));
        }
        Ok(())
    }

    pub(crate) fn record_bytes_max(&self) -> usize {
        self.segment_bytes as usize - RECORD_BYTES
    }
}
