//! The state that the sessions and threads of a store share.
//!
//! Sessions write the tree and the logs; before there are sessions, recovery writes the tree. The
//! holder of [`Disk::checkpointing`] writes the manifest and the files of checkpoints.

use crate::cleared::Cleared;
use crate::collections::Collections;
use crate::error::of_log;
use crate::manifest::Manifest;
use crate::memory::Memory;
use crate::notifier::Notifier;
use crate::options::Options;
use crate::sample::KeySample;
use crate::sessions::SessionRegistry;
use crate::watermarks::DeleteWatermarks;
use keyrack_masstree::{Bytes, Tree};
use keyrack_store::{Error, Result};
use keyrack_vfs::{Fs, Lock};
use keyrack_wal::Log;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Counts since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_failures: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) checkpoint_rows: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) flushes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) tree: Tree<Bytes>,
    pub(crate) options: Options,
    pub(crate) watermarks: DeleteWatermarks,
    pub(crate) sessions: SessionRegistry,
    pub(crate) memory: Memory,
    pub(crate) sample: KeySample,
    pub(crate) counts: Counts,
    pub(crate) notifier: Notifier,
    /// The largest version of closed sessions, and of the recovery.
    pub(crate) clock: AtomicU64,
    /// The state of the last clear.
    pub(crate) cleared: Cleared,
    pub(crate) collections: Collections,
    /// The time that a session has set last.
    pub(crate) now_ms: AtomicU64,
    /// `None` in a store without files.
    pub(crate) disk: Option<Disk>,
}

/// The files of a store.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    /// The logs that sessions write.
    pub(crate) logs: Vec<Log>,
    next_log: AtomicUsize,
    /// Bytes of log since the last checkpoint began.
    pub(crate) log_bytes: AtomicU64,
    /// The bytes of log after which a checkpoint begins.
    pub(crate) log_bytes_max: AtomicU64,
    /// Records of sessions that ended and could not log them.
    unlogged: Mutex<Vec<Vec<u8>>>,
    /// Locked while a checkpoint is written.
    pub(crate) checkpointing: Mutex<Manifest>,
    poison: OnceLock<String>,
    /// Locks the directory while the store is open.
    pub(crate) lock: Box<dyn Lock>,
}

impl Disk {
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        lock: Box<dyn Lock>,
        manifest: Manifest,
        logs: Vec<Log>,
    ) -> Self {
        Disk {
            fs,
            dir,
            logs,
            next_log: AtomicUsize::new(0),
            log_bytes: AtomicU64::new(0),
            log_bytes_max: AtomicU64::new(u64::MAX),
            unlogged: Mutex::default(),
            checkpointing: Mutex::new(manifest),
            poison: OnceLock::new(),
            lock,
        }
    }

    /// The log of a new session.
    pub(crate) fn next_log(&self) -> (u32, &Log) {
        // Relaxed: any fair distribution is correct.
        let number = self.next_log.fetch_add(1, Ordering::Relaxed) % self.logs.len();
        (number as u32, &self.logs[number])
    }

    /// Fails after a failed sync, when writes are refused.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::poisoned(cause.clone())),
        }
    }

    /// Converts the error of a log. After a failed sync the store is read-only.
    pub(crate) fn failed(&self, error: keyrack_wal::Error) -> Error {
        let error = of_log(error);
        if let Error::Poisoned { cause } = &error {
            // Later errors report the first cause.
            let _ = self.poison.set(cause.clone());
        }
        error
    }

    pub(crate) fn append(&self, log: &Log, record: &[u8]) -> Result<u64> {
        let mut reservation = log.reserve(record.len()).map_err(|error| self.failed(error))?;
        reservation.write(&[record]).map_err(|error| self.failed(error))?;
        let end = reservation.end();
        reservation.publish();
        Ok(end)
    }

    /// Waits until a log is durable up to `lsn`.
    pub(crate) fn sync(&self, log: &Log, lsn: u64) -> Result<()> {
        self.check()?;
        log.sync(lsn).map_err(|error| self.failed(error))
    }

    /// Keeps the record of a session that has ended without logging it.
    pub(crate) fn keep_unlogged(&self, record: Vec<u8>) {
        self.unlogged.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    /// Appends the records that sessions could not log.
    pub(crate) fn append_unlogged(&self) -> Result<()> {
        let mut unlogged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(record) = unlogged.last() {
            self.append(&self.logs[0], record)?;
            unlogged.pop();
        }
        Ok(())
    }

    /// Counts bytes of log. Returns whether a checkpoint is due.
    #[inline]
    pub(crate) fn note_logged(&self, bytes: u64) -> bool {
        let before = self.log_bytes.fetch_add(bytes, Ordering::SeqCst);
        let max = self.log_bytes_max.load(Ordering::SeqCst);
        before <= max && before.saturating_add(bytes) > max
    }

    /// Sets the bytes of log after which a checkpoint begins; the last one had `checkpoint_bytes`.
    /// Returns whether one is due already. From then on only the writer that crosses the limit
    /// notices.
    pub(crate) fn set_log_bytes_max(&self, options: &Options, checkpoint_bytes: u64) -> bool {
        let max = match options.checkpoint_log_bytes {
            0 => u64::MAX,
            bytes => bytes.max(checkpoint_bytes),
        };
        // SeqCst with `note_logged`: the writer sees this limit, or we see its bytes.
        self.log_bytes_max.store(max, Ordering::SeqCst);
        self.log_bytes.load(Ordering::SeqCst) > max
    }
}

impl Core {
    pub(crate) fn new(options: Options, disk: Option<Disk>) -> Self {
        Core {
            tree: Tree::new(),
            watermarks: DeleteWatermarks::new(),
            sessions: SessionRegistry::default(),
            memory: Memory::new(&options),
            sample: KeySample::default(),
            counts: Counts::default(),
            notifier: Notifier::default(),
            clock: AtomicU64::new(0),
            cleared: Cleared::default(),
            collections: Collections::default(),
            now_ms: AtomicU64::new(0),
            options,
            disk,
        }
    }

    /// The largest version that was ever assigned.
    pub(crate) fn clock(&self) -> u64 {
        // The slots first: a session that ends publishes its clock before it frees its slot.
        let slots = self.sessions.clock();
        slots.max(self.clock.load(Ordering::Acquire))
    }
}
