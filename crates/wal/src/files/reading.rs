//! What the readers of an open log ask of its segments.

use std::sync::Arc;

use super::Files;
use crate::primitive::Ordering;
use crate::retention::{Around, Hold, TailFiles};

impl Files {
    /// Where the records below `lsn` end, see [`Log::position_of`](crate::Log::position_of).
    pub(crate) fn position_of(&self, lsn: u64) -> u64 {
        if lsn == self.first_start { self.recovered_end } else { lsn }
    }

    /// The later of a time and that of the last mark.
    pub(crate) fn later_of(&self, unix_ms: u64) -> u64 {
        // Relaxed: who marks the time waits for the mark before to be published.
        unix_ms.max(self.last_mark_ms.fetch_max(unix_ms, Ordering::Relaxed))
    }

    pub(crate) fn tail_files(&self, from: u64) -> (TailFiles, Hold) {
        let (fs, dir, id) = (Arc::clone(&self.fs), self.dir.clone(), self.options.id);
        (TailFiles { fs, dir, id }, self.holds.hold(from))
    }

    /// The segments around an LSN.
    pub(crate) fn around(&self, lsn: u64) -> Around {
        let directory = self.directory();
        let (kept, live) = (&directory.kept, &directory.live);
        let at = live.range(..=lsn).next_back().map(|(start, _)| *start);
        let at = at.or_else(|| kept.range(..=lsn).next_back().map(|(start, _)| *start));
        let next = kept.range(lsn + 1..).next().map(|(start, kept)| (*start, kept.previous_end));
        let next = next.or_else(|| {
            live.range(lsn + 1..).next().map(|(start, entry)| (*start, entry.previous_end))
        });
        Around { at, next }
    }

    /// Where the recovery began to read.
    pub(crate) fn read_from(&self) -> u64 {
        self.read_from
    }

    /// Nothing below `first` can be read any more.
    pub(crate) fn keep_from(&self, first: u64) {
        let mut directory = self.directory();
        directory.kept_from = directory.kept_from.max(first);
    }

    /// The log can be read from here on.
    pub(crate) fn kept_from(&self) -> u64 {
        self.directory().kept_from
    }
}
