//! What a full disk does to the background, and how it goes on.
//!
//! ```text
//!   a flush or compaction finds no space --> its file goes, the read state stays as it was
//!                                            writes are refused, reads go on
//!   after a pause, or when asked: again  --> no space: a longer pause
//!                                        --> done: writes are taken again
//! ```
//!
//! Nothing is lost meanwhile: a memtable stays in memory, and its part of the log on disk, until
//! the manifest has its table; the inputs of a compaction stay until the manifest has its outputs.
//! What was written of either is thrown away, and the next attempt begins with new files. Tables
//! that a failed edit of the manifest may have named stay on disk until an edit has succeeded.
//!
//! Only that is taken up again which failed before a sync. A sync that fails is final, whatever the
//! reason it gives.

use super::ranked_lock::RankedMutex;
use super::{Inner, LockRank};
use crate::error::{Error, Result};
use crate::event::Event;
use keyrack_vfs::Operation;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause before the second attempt.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Pauses grow up to this.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What the background does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Flush,
    Compaction,
}

/// Why writes are refused, for a while or for good.
pub(crate) struct BackgroundErrors {
    /// Why the store only reads, as every write reports. Never changes once it is set.
    pub(crate) fatal: OnceLock<Error>,
    /// Writes are refused, and what was let in before is about to be made safe: set by a close.
    /// Pairs with the check under the locks of keys.
    is_closing: AtomicBool,
    /// Failures that are tried again, by [`Work`].
    reasons: RankedMutex<[Option<Error>; 2]>,
    /// Whether there is any reason. Written under the lock.
    is_any: AtomicBool,
}

impl BackgroundErrors {
    pub(crate) fn new() -> Self {
        BackgroundErrors {
            fatal: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            reasons: RankedMutex::new(LockRank::BackgroundErrors, [None, None]),
            is_any: AtomicBool::new(false),
        }
    }
}

/// Whether a failure may be another outcome the next time: the disk is full, and it was no sync
/// that said so.
pub(crate) fn is_retryable(error: &Error) -> bool {
    let is_sync =
        |operation| matches!(operation, Operation::Sync | Operation::SyncDir | Operation::Flush);
    matches!(error, Error::Io(cause) if cause.is_no_space() && !is_sync(cause.operation()))
}

impl Inner {
    /// No writes from now on, for this reason. The first one stays.
    pub(crate) fn poison(&self, error: &Error) {
        let is_first = self.errors.fatal.set(error.clone().into_final()).is_ok();
        // A close is no error.
        if is_first && !matches!(error, Error::Closed) {
            self.tell_error(error, true);
        }
        self.write_path.controller.disable();
        self.feeds.wake();
    }

    fn tell_error(&self, error: &Error, is_final: bool) {
        let error = || error.clone();
        self.events.tell(|| Event::BackgroundErrorRaised { error: error(), is_final });
    }

    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.errors.fatal.get() {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }

    /// A failure of the log, as a writer is told. What is final for the log is so for the store.
    #[cold]
    pub(crate) fn log_failed(&self, error: keyrack_wal::Error) -> Error {
        let error = Error::from(error);
        if matches!(error, Error::Poisoned(_)) {
            self.poison(&error);
        }
        error
    }

    /// Refuses writes, and waits for those that are under way: what is written was written before.
    pub(crate) fn end_writes(&self) {
        self.errors.is_closing.store(true, Ordering::Relaxed);
        // Nobody waits for room meanwhile: perhaps it never comes.
        self.write_path.controller.disable();
        // Whoever has a lock of a key ends before this does, or takes it later and sees the flag.
        drop(self.write_path.key_locks.lock_every());
    }

    /// Whether a write may still happen. Asked with the locks of its keys.
    #[inline]
    pub(crate) fn check_closing(&self) -> Result<()> {
        // Relaxed: the locks of keys order it.
        if self.errors.is_closing.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Takes note of a failure: no writes until it is over, or ever.
    pub(crate) fn background_failed(&self, work: Work, error: &Error) {
        match error {
            Error::Io(cause) if is_retryable(error) => {
                let mut reasons = self.errors.reasons.lock();
                let reason = Error::NoSpace(cause.clone());
                let before = reasons[work as usize].replace(reason.clone());
                if before.is_none() {
                    self.tell_error(&reason, false);
                }
                // Relaxed: the lock orders it.
                self.errors.is_any.store(true, Ordering::Relaxed);
                self.write_path.controller.refuse();
            }
            _ => self.poison(error),
        }
    }

    /// Takes note of a success: what failed before is over.
    #[inline]
    pub(crate) fn background_succeeded(&self, work: Work) {
        // Relaxed: who has noted the failure, or waits for its end, has the lock in between.
        if self.errors.is_any.load(Ordering::Relaxed) {
            self.clear_background_error(work);
        }
    }

    #[cold]
    fn clear_background_error(&self, work: Work) {
        let mut reasons = self.errors.reasons.lock();
        if let Some(error) = reasons[work as usize].take() {
            self.events.tell(|| Event::BackgroundErrorCleared { error });
        }
        if reasons.iter().all(Option::is_none) {
            self.errors.is_any.store(false, Ordering::Relaxed);
            self.write_path.controller.resume();
        }
        drop(reasons);
        self.update_write_controller(&self.read_path.lock_exchange());
    }

    /// Why writes are refused at present, if they are.
    pub(crate) fn check_background_error(&self) -> Result<()> {
        match self.errors.reasons.lock().iter().flatten().next() {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }
}
