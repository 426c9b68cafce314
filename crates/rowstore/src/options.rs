//! How a store is opened, with every limit by name.

use crate::record::{ENTRY_BYTES, RECORD_HEAD_BYTES};
use keyrack_store::{Durability, Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Logs of one store, at most.
pub(crate) const LOGS_MAX: usize = 256;
/// Parts of a checkpoint, at most.
pub(crate) const PARTS_MAX: usize = 1024;
/// Threads that a store starts for one task, at most.
const THREADS_MAX: usize = 64;
/// Threads that it starts when it was not told how many, at most.
const THREADS_DEFAULT_MAX: usize = 8;
/// The longest key that can be asked for; lengths in files have 32 bits.
const KEY_BYTES_MAX: usize = 16 << 20;

/// What happens when memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Writes that need more are refused.
    #[default]
    None,
    /// Rows that nobody has read since the hand came by last are removed.
    Clock,
}

/// How to open a [`RowStore`](crate::RowStore).
#[derive(Clone, Debug)]
pub struct Options {
    /// What a write survives. With [`Durability::None`] there are no files.
    pub durability: Durability,
    /// Where the logs are, relative to the directory of the store. Sessions take them in turn. Logs
    /// in other places, from openings before, are read and then dropped by the next checkpoint.
    pub log_dirs: Vec<PathBuf>,
    /// Bytes of a segment of a log: a power of two, from 4 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// The longest key.
    pub key_bytes_max: usize,
    /// The largest row, with its head.
    pub row_bytes_max: usize,
    /// Writes that a session gathers before it flushes by itself, unless in a group.
    pub batch_bytes_max: usize,
    /// What the writes of one group may come to.
    pub group_bytes_max: usize,
    /// A checkpoint begins when so much log was written since the last one began, and as much as
    /// that one had bytes. 0: only when asked for.
    pub checkpoint_log_bytes: u64,
    /// Whether [`Rows::close`](crate::Rows::close) writes one.
    pub checkpoint_on_close: bool,
    /// Files of a checkpoint of many rows; so many threads can load it.
    pub checkpoint_parts: usize,
    /// Threads of a checkpoint and of a recovery. 0: as many as processors, at most 8.
    pub threads: usize,
    /// The time between two looks for expired rows. Zero: only [`RowStore::sweep`] looks.
    ///
    /// [`RowStore::sweep`]: crate::RowStore::sweep
    pub sweep_interval: Duration,
    /// What rows may take, in bytes, by the estimate that `memory_bytes` of the stats shows. 0: no
    /// limit.
    pub memory_max: u64,
    /// What happens when they do.
    pub eviction: Eviction,
}

impl Default for Options {
    /// Durability `os`, one log, rows of up to 64 MiB, a checkpoint every 256 MiB of log.
    fn default() -> Self {
        Options {
            durability: Durability::Os,
            log_dirs: vec![PathBuf::from("log")],
            segment_bytes: 128 << 20,
            key_bytes_max: 1 << 20,
            row_bytes_max: 64 << 20,
            batch_bytes_max: 1 << 20,
            group_bytes_max: 120 << 20,
            checkpoint_log_bytes: 256 << 20,
            checkpoint_on_close: false,
            checkpoint_parts: 8,
            threads: 0,
            sweep_interval: Duration::from_millis(100),
            memory_max: 0,
            eviction: Eviction::None,
        }
    }
}

impl Options {
    /// Segments of that size, and limits that fit: a row of half a segment, for tests and for
    /// stores that are to stay small.
    #[must_use]
    pub fn with_segment_bytes(self, segment_bytes: u64) -> Self {
        let bytes = usize::try_from(segment_bytes).unwrap_or(usize::MAX);
        Options {
            segment_bytes,
            key_bytes_max: self.key_bytes_max.min(bytes / 8),
            row_bytes_max: self.row_bytes_max.min(bytes / 2),
            batch_bytes_max: self.batch_bytes_max.min(bytes / 8),
            group_bytes_max: self.group_bytes_max.min(bytes / 8 * 7),
            ..self
        }
    }

    /// Threads for one task.
    pub(crate) fn thread_count(&self) -> usize {
        if self.threads > 0 {
            return self.threads;
        }
        let found = std::thread::available_parallelism();
        found.map_or(1, |count| count.get().min(THREADS_DEFAULT_MAX))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::usage(what));
        // What the log takes in one record: a segment without its own head of a record.
        let record = self.segment_bytes.saturating_sub(64);
        let most = [
            RECORD_HEAD_BYTES,
            self.batch_bytes_max,
            ENTRY_BYTES,
            self.key_bytes_max,
            self.row_bytes_max,
        ];
        let most = most.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes as u64));
        if most > record {
            return refuse(format!(
                "batch, key and row come to {most} bytes at most, which must fit into a segment \
                 of {} bytes",
                self.segment_bytes
            ));
        }
        if self.group_bytes_max as u64 > record || self.group_bytes_max < self.batch_bytes_max {
            return refuse(format!(
                "a group of {} bytes must fit into a segment, and hold a batch",
                self.group_bytes_max
            ));
        }
        if self.key_bytes_max > KEY_BYTES_MAX {
            return refuse(format!("keys have at most {KEY_BYTES_MAX} bytes"));
        }
        if self.log_dirs.is_empty() || self.log_dirs.len() > LOGS_MAX {
            return refuse(format!("a store has from 1 to {LOGS_MAX} logs"));
        }
        if !(1..=PARTS_MAX).contains(&self.checkpoint_parts) {
            return refuse(format!("a checkpoint has from 1 to {PARTS_MAX} parts"));
        }
        if self.threads > THREADS_MAX {
            return refuse(format!("a store starts at most {THREADS_MAX} threads"));
        }
        if self.durability == Durability::Interval(0) {
            return refuse("the interval between two syncs is longer than nothing".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_do_not_fit_together_are_refused() {
        let good = Options::default();
        assert!(good.check().is_ok());
        assert!(good.clone().with_segment_bytes(4096).check().is_ok());
        let bad = [
            Options { row_bytes_max: 128 << 20, ..good.clone() },
            Options { row_bytes_max: usize::MAX, ..good.clone() },
            Options { group_bytes_max: 128 << 20, ..good.clone() },
            Options { group_bytes_max: 0, ..good.clone() },
            Options { key_bytes_max: 17 << 20, ..good.clone() },
            Options { log_dirs: Vec::new(), ..good.clone() },
            Options { checkpoint_parts: 0, ..good.clone() },
            Options { threads: 65, ..good.clone() },
            Options { durability: Durability::Interval(0), ..good },
        ];
        for options in bad {
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
