//! The options of a store, with all limits.

use crate::record::{ENTRY_BYTES, RECORD_HEAD_BYTES};
use keyrack_store::{Durability, Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// The maximum number of logs of one store.
pub(crate) const LOGS_MAX: usize = 256;
/// The maximum number of parts of a checkpoint.
pub(crate) const PARTS_MAX: usize = 1024;
/// The maximum number of threads for one task.
const THREADS_MAX: usize = 64;
/// The maximum number of threads if the options do not set it.
const THREADS_DEFAULT_MAX: usize = 8;
/// The maximum of `key_bytes_max`.
const KEY_BYTES_MAX: usize = 16 << 20;

/// What happens when `memory_max` is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Writes that need more memory fail.
    #[default]
    None,
    /// Rows that were not read since the clock's hand passed last are evicted.
    Clock,
}

/// How to open a [`RowStore`](crate::RowStore).
#[derive(Clone, Debug)]
pub struct Options {
    /// The durability of writes. With [`Durability::None`] there are no files.
    pub durability: Durability,
    /// The directories of the logs, relative to that of the store. Sessions use them round robin.
    /// Logs of earlier openings in other directories are read, and the next checkpoint drops them.
    pub log_dirs: Vec<PathBuf>,
    /// The directories of the parts of checkpoints, relative to that of the store, in turn. They
    /// must exist. The store makes a directory of its own in each. Empty: the store's directory.
    /// Parts of earlier openings in other directories are read, and the next checkpoint removes
    /// them.
    pub checkpoint_dirs: Vec<PathBuf>,
    /// Bytes of a segment of a log: a power of two, from 4 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// The longest key.
    pub key_bytes_max: usize,
    /// The largest row, with its head.
    pub row_bytes_max: usize,
    /// The bytes of writes after which a session flushes by itself, outside of groups.
    pub batch_bytes_max: usize,
    /// The maximum bytes of log for one group.
    pub group_bytes_max: usize,
    /// A checkpoint begins when this many bytes of log were written since the last one began, and
    /// at least as many as that one has. 0: only on request.
    pub checkpoint_log_bytes: u64,
    /// Whether [`Rows::close`](crate::Rows::close) writes a checkpoint.
    pub checkpoint_on_close: bool,
    /// The number of files of a large checkpoint, which is also the number of threads that can load
    /// it.
    pub checkpoint_parts: usize,
    /// The number of threads of a checkpoint and of a recovery. 0: one a processor, at most 8.
    pub threads: usize,
    /// The time between two sweeps for expired rows. Zero: only [`RowStore::sweep`] removes them.
    ///
    /// [`RowStore::sweep`]: crate::RowStore::sweep
    pub sweep_interval: Duration,
    /// The maximum memory of the rows in bytes, by the estimate `memory_bytes` of the stats. 0: no
    /// limit.
    pub memory_max: u64,
    /// What happens when `memory_max` is reached.
    pub eviction: Eviction,
    /// Is told of each checkpoint, by the thread that writes it.
    pub on_checkpoint: Option<fn(CheckpointStep<'_>)>,
}

/// A step of a checkpoint, for [`Options::on_checkpoint`].
#[derive(Clone, Copy, Debug)]
pub enum CheckpointStep<'a> {
    /// It begins.
    Begun,
    /// It is complete: its rows, the bytes of its files, and how long it took.
    Ended {
        /// Rows in its files.
        rows: u64,
        /// Bytes of its files.
        bytes: u64,
        /// Time since it began.
        duration: Duration,
    },
    /// It could not be written; the one before stays valid.
    Failed {
        /// Why.
        error: &'a Error,
        /// Time since it began.
        duration: Duration,
    },
}

impl Default for Options {
    /// Durability `os`, one log, rows of up to 64 MiB, a checkpoint every 256 MiB of log.
    fn default() -> Self {
        Options {
            durability: Durability::Os,
            log_dirs: vec![PathBuf::from("log")],
            checkpoint_dirs: Vec::new(),
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
            on_checkpoint: None,
        }
    }
}

impl Options {
    /// Sets the size of segments, and lowers the limits to fit: a row has at most half a segment.
    /// For tests and small stores.
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
        // The longest record of the log: a segment without the header of a record.
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
                "a batch, a key and a row must fit into a segment of {} bytes (got {most} bytes)",
                self.segment_bytes
            ));
        }
        if self.group_bytes_max as u64 > record || self.group_bytes_max < self.batch_bytes_max {
            return refuse(format!(
                "group_bytes_max must be at least a batch and at most a segment (got {})",
                self.group_bytes_max
            ));
        }
        if self.key_bytes_max > KEY_BYTES_MAX {
            return refuse(format!(
                "key_bytes_max must be at most {KEY_BYTES_MAX} (got {})",
                self.key_bytes_max
            ));
        }
        if self.log_dirs.is_empty() || self.log_dirs.len() > LOGS_MAX {
            return refuse(format!(
                "a store has 1 to {LOGS_MAX} logs (got {})",
                self.log_dirs.len()
            ));
        }
        if self.checkpoint_dirs.len() > PARTS_MAX {
            return refuse(format!(
                "a checkpoint has at most {PARTS_MAX} directories (got {})",
                self.checkpoint_dirs.len()
            ));
        }
        if !(1..=PARTS_MAX).contains(&self.checkpoint_parts) {
            return refuse(format!(
                "checkpoint_parts must be from 1 to {PARTS_MAX} (got {})",
                self.checkpoint_parts
            ));
        }
        if self.threads > THREADS_MAX {
            return refuse(format!("threads must be at most {THREADS_MAX} (got {})", self.threads));
        }
        if self.durability == Durability::Interval(0) {
            return refuse("the interval between two syncs must be longer than 0".to_owned());
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
            Options { checkpoint_dirs: vec![PathBuf::new(); 1025], ..good.clone() },
            Options { checkpoint_parts: 0, ..good.clone() },
            Options { threads: 65, ..good.clone() },
            Options { durability: Durability::Interval(0), ..good },
        ];
        for options in bad {
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
