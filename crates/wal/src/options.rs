//! What a log can be told.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::RECORD_BYTES;

/// The smallest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// The largest segment, in bytes: lengths of records have 32 bits.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The end of all LSNs: they are sequence numbers of 56 bits.
pub(crate) const LSN_MAX: u64 = 1 << 56;

/// Durability of a log: what has happened to a record before [`Log::commit`](crate::Log::commit)
/// returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nothing. There are no files at all; the log only gives LSNs.
    None,
    /// It lies in the page cache: it survives the end of the process, not the loss of power.
    Os,
    /// As `Os`; in addition a thread syncs the log, at most this long after the last time.
    Interval(Duration),
    /// It is on stable storage.
    Always,
}

/// How to open a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of records in a segment: a power of two, from 4 KiB to 1 GiB. Segments that are there
    /// already keep the size that they have.
    pub segment_bytes: u64,
    /// Durability.
    pub sync: Sync,
    /// Released segments that are kept for use as new ones, at most.
    pub recycled_max: usize,
    /// The first record that is written gets this LSN or a later one, and never 0.
    pub first_lsn: u64,
    /// The identity of the log, not 0. Whoever opens a log again names the one that it was made
    /// with; [`new_id`](crate::new_id) makes one. Files of another log are told by it.
    pub id: u64,
    /// The caller knows that [`Log::begin`](crate::Log::begin) has succeeded: without its files the
    /// log is damaged. Otherwise it is a new one.
    pub begun: bool,
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
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.segment_bytes;
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return Err(Error::usage(format!(
                "a segment has a power of two of bytes, from {SEGMENT_BYTES_MIN} to \
                 {SEGMENT_BYTES_MAX}, not {bytes}"
            )));
        }
        if self.sync == Sync::Interval(Duration::ZERO) {
            return Err(Error::usage("the interval between two syncs is longer than nothing"));
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
