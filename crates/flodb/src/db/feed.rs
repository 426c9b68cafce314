//! What writers do for those who read the log, and the thread that marks the time in it.
//!
//! ```text
//!   word = threads that wait, times 2 | whether a time mark is due
//!
//!   writer    publish, load the word: 0, as a rule          one load more for a put
//!             a mark is due: write it    somebody waits: lock, notify
//!   reader    count in the word, fence in all threads, look again, sleep
//! ```
//!
//! **No wake is lost.** A writer publishes and then loads the word, with nothing between the two
//! that would make a processor keep that order. So a reader that has counted itself makes every
//! thread pass a fence, and looks at the log again before it sleeps: a writer that did not see the
//! count published before that look. One that saw it counts a wake under a lock, and the reader
//! does not sleep if there was a wake since before its look. Where the system has no such fence, a
//! reader looks again every few milliseconds.
//!
//! **Time marks** say by when what is below them was written, for a restore to a time. A plain put
//! reads no clock. Once a second the thread `flodb-clock` marks the time, if anything was written
//! since the last mark. If nothing was, it asks the next writer to do so after its write, and
//! sleeps until that has happened. So there is at most one mark in a second, a write is followed by
//! a mark within about a second, the first one after a pause at once, and an idle store does
//! nothing. The thread runs where the log is kept, and from the first feed on. It also has the log
//! drop what has become too old.

use super::{Db, Inner, lock};
use crate::error::{Error, Result};
use crossbeam_utils::CachePadded;
use keyrack_concurrent::fence_all_threads;
use keyrack_measure::{Clock, wall};
use keyrack_store::{Durability, WriteOptions};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A time mark is due.
const DUE: u32 = 1;
/// One thread that waits.
const WAITING: u32 = 2;

/// From one time mark to the next, at least.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// How often what is too old is looked for while nobody writes.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// How often a reader looks where it could miss a wake.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What writers and readers of the log share.
#[derive(Default)]
pub(crate) struct Feeds {
    word: CachePadded<AtomicU32>,
    state: Mutex<State>,
    /// Signalled when there is something new, and when the store closes.
    changed: Condvar,
    has_clock: AtomicBool,
    /// Where the last time mark ends.
    marked_to: AtomicU64,
    /// Signalled when a writer has marked the time, and when the store closes.
    marked: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether the store closes.
    stop: bool,
    /// How often there was something new while somebody waited.
    wakes: u64,
}

impl Feeds {
    /// After a record was published: wakes those who wait for it, and marks the time if it is due.
    #[inline]
    pub(super) fn published(&self, inner: &Inner) {
        // Pairs with the fence of `wait`.
        compiler_fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::Relaxed);
        if word != 0 {
            self.attend(inner, word);
        }
    }

    /// After the log was synced: wakes those who wait for that.
    #[inline]
    pub(super) fn synced(&self) {
        compiler_fence(Ordering::SeqCst);
        if self.word.load(Ordering::Relaxed) >= WAITING {
            self.wake();
        }
    }

    #[cold]
    fn attend(&self, inner: &Inner, word: u32) {
        // Relaxed: whoever takes it back writes the mark, and the lock tells the thread.
        if word & DUE != 0 && self.word.fetch_and(!DUE, Ordering::Relaxed) & DUE != 0 {
            inner.mark_time();
            // Under the lock, so that the thread does not miss it.
            drop(lock(&self.state));
            self.marked.notify_all();
        }
        if word >= WAITING {
            self.wake();
        }
    }

    /// Wakes whoever waits.
    pub(super) fn wake(&self) {
        lock(&self.state).wakes += 1;
        self.changed.notify_all();
    }

    /// The store closes.
    pub(super) fn stop(&self) {
        lock(&self.state).stop = true;
        self.wake();
        self.marked.notify_all();
    }

    /// Calls `look` until it finds something, for so long at most.
    pub(crate) fn wait(
        &self,
        timeout: Duration,
        mut look: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        if look()? {
            return Ok(true);
        }
        if timeout.is_zero() {
            return Ok(false);
        }
        let clock = Clock::vdso();
        let begin = clock.ticks();
        let _counted = Counted::new(self);
        let is_woken = fence_all_threads();
        loop {
            let seen = lock(&self.state).wakes;
            if look()? {
                return Ok(true);
            }
            let passed = Duration::from_nanos(clock.ns_between(begin, clock.ticks()));
            let left = timeout.saturating_sub(passed);
            if left.is_zero() {
                return Ok(false);
            }
            let pause = if is_woken { left } else { left.min(LOOK_AGAIN) };
            let is_same = |state: &mut State| state.wakes == seen;
            drop(self.changed.wait_timeout_while(lock(&self.state), pause, is_same));
        }
    }

    /// Whether the caller is to start the thread.
    pub(super) fn begin_clock(&self) -> bool {
        !self.has_clock.swap(true, Ordering::Relaxed)
    }

    /// The thread did not start.
    pub(super) fn abandon_clock(&self) {
        self.has_clock.store(false, Ordering::Relaxed);
    }

    /// The thread that marks the time, until the store closes.
    pub(super) fn run_clock(&self, inner: &Inner) {
        let log = &inner.write_path.log;
        self.marked_to.fetch_max(log.published(), Ordering::Relaxed);
        loop {
            if log.published() == self.marked_to.load(Ordering::Relaxed) {
                self.word.fetch_or(DUE, Ordering::Relaxed);
                if !self.sleep_until_marked(inner) {
                    return;
                }
            } else if let Some(end) = inner.mark_time() {
                // A failure has poisoned the store.
                let _ = inner.sync_if_asked(end, WriteOptions::default());
            }
            inner.expire_log();
            let state = lock(&self.state);
            let waited = self.marked.wait_timeout_while(state, MARK_EVERY, |state| !state.stop);
            if waited.unwrap_or_else(PoisonError::into_inner).0.stop {
                return;
            }
        }
    }

    /// Sleeps until a writer has marked the time. `false` if the store closes.
    fn sleep_until_marked(&self, inner: &Inner) -> bool {
        let mut state = lock(&self.state);
        while !state.stop && self.word.load(Ordering::Relaxed) & DUE != 0 {
            let waited = self.marked.wait_timeout(state, EXPIRE_EVERY);
            let (held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = held;
            if timeout.timed_out() {
                drop(state);
                inner.expire_log();
                state = lock(&self.state);
            }
        }
        !state.stop
    }
}

/// A thread that waits, in the word.
struct Counted<'a>(&'a Feeds);

impl<'a> Counted<'a> {
    fn new(feeds: &'a Feeds) -> Self {
        feeds.word.fetch_add(WAITING, Ordering::SeqCst);
        Counted(feeds)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.word.fetch_sub(WAITING, Ordering::Relaxed);
    }
}

impl Inner {
    /// Whether more of the log is kept than the store needs.
    pub(crate) fn keeps_log(&self) -> bool {
        self.options.log_retention_bytes > 0 || self.options.log_retention_seconds > 0
    }

    /// Where what is visible ends in the log. Of a store that is open for reading only, that is
    /// where the opening found the end.
    pub(crate) fn position(&self) -> u64 {
        match self.is_read_only() {
            true => self.write_path.recovered.end,
            false => self.write_path.log.position(),
        }
    }

    /// Up to where a feed may read now.
    pub(crate) fn feed_bound(&self, synced: bool) -> u64 {
        let log = &self.write_path.log;
        let end = log.position();
        match synced || self.options.durability == Durability::Sync {
            true => end.min(log.position_of(log.synced())),
            false => end,
        }
    }

    /// Syncs what there is. A failure that the next call may not meet is none of the writers'.
    pub(crate) fn sync_for_feed(&self) -> Result<()> {
        let log = &self.write_path.log;
        let synced = log.sync(log.published()).map_err(Error::from);
        synced.inspect_err(|error| {
            if matches!(error, Error::Poisoned(_)) {
                self.poison(error);
            }
        })?;
        self.feeds.synced();
        Ok(())
    }

    /// Marks the time. Returns where the mark ends, unless the log has no place for it now.
    fn mark_time(&self) -> Option<u64> {
        self.log_time().ok()
    }

    fn log_time(&self) -> Result<u64> {
        let (end, is_segment_due) = self.write_path.log.mark_time(wall::unix_ms)?;
        if is_segment_due {
            self.ahead.segment.make();
        }
        self.feeds.marked_to.fetch_max(end, Ordering::Relaxed);
        Ok(end)
    }

    /// Drops what the log does not keep any more. What cannot be removed now is tried again.
    fn expire_log(&self) {
        let _ = self.write_path.log.expire();
    }
}

impl Db {
    /// Marks the time in the log: whatever is visible now was committed by now. A store with a feed
    /// or with a log that is kept marks it about once a second by itself; this is for who reads the
    /// log of a store that has done neither.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// let before = db.position();
    /// db.mark_time()?;
    /// let mut changes = db.changes(before)?;
    /// assert!(changes.next().is_none());
    /// assert!(changes.time().is_some_and(|mark| mark.position > before));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn mark_time(&self) -> Result<()> {
        let inner = self.inner();
        inner.check_poison()?;
        inner.log_time()?;
        Ok(())
    }

    /// What the first feed begins, and what each needs.
    pub(crate) fn begin_feed(&self) -> Result<()> {
        let inner = self.inner();
        if let Err(closed @ Error::Closed) = inner.check_poison() {
            return Err(closed);
        }
        if inner.options.durability == Durability::Sync {
            // Recovered records may not be on the disk yet.
            inner.sync_for_feed()?;
        }
        match &self.owner.background {
            Some(background) => background.start_clock(),
            None => Ok(()),
        }
    }
}
