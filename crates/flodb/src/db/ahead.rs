//! What is made ahead of writers, so that none of them waits for it.
//!
//! ```text
//!   a put comes far into a segment of the log ---.
//!   a put comes to the middle of a huge page ----+--> request --> thread "flodb-ahead"
//!   a put finds a long unsorted tail  -----------'                  the next segment of the log
//!                                                                   the next huge pages
//!                                                                   the tail becomes a run
//! ```
//!
//! The next segment of the log costs three syncs, which take as long as the disk is busy with
//! tables. Sorting a tail of 64 Ki entries takes some milliseconds, and merging it with the runs
//! before it ten. To clear a huge page takes a fraction of a millisecond, or some where the host has
//! to find the memory too. A writer only leaves a request: one load, unless it is the first to ask.
//!
//! **Nothing depends on it.** A writer that fills a segment before there is a next one creates it.
//! An iterator, or the flush, sorts what it finds unsorted. So the thread may be late.

use super::Inner;
use super::background::Signal;
use super::stats::Counters;
use keyrack_concurrent::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The requests to the thread.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The next segment of the log. Not unless it is asked for: a short log stays small.
    segment: AtomicBool,
    /// Memory and order of the active memtable.
    memtable: AtomicBool,
    pub(super) signal: Signal,
}

impl Ahead {
    /// Asks for what is due. One load if it was asked for already.
    #[inline]
    pub(super) fn request(&self, segment: bool, memtable: bool) {
        for (is_due, flag) in [(segment, &self.segment), (memtable, &self.memtable)] {
            // Relaxed: the signal orders what the thread sees, and the thread takes a request back
            // before it looks.
            if is_due && !flag.load(Ordering::Relaxed) {
                self.wake(flag);
            }
        }
    }

    #[cold]
    fn wake(&self, flag: &AtomicBool) {
        if !flag.swap(true, Ordering::Relaxed) {
            self.signal.change(false);
        }
    }
}

/// The thread: makes what is asked for, until the store closes.
pub(super) fn run(inner: &Inner) {
    let ahead = &inner.ahead;
    loop {
        let seen = ahead.signal.now();
        if seen.is_stopping() {
            return;
        }
        if ahead.memtable.swap(false, Ordering::SeqCst) {
            make_memory(inner);
        }
        if ahead.segment.swap(false, Ordering::SeqCst) {
            inner.write_path.log.prepare();
        }
        ahead.signal.sleep(seen);
    }
}

/// Makes pages and order of the active memtable.
fn make_memory(inner: &Inner) {
    let memtable = Arc::clone(inner.read_path.load(&pin()).active());
    memtable.make_ahead();
    if memtable.needs_sort() {
        memtable.sort_tail();
        Counters::add(&inner.counters.writer_sorts, 1);
    }
}
