//! What is made ahead of writers, so that none of them waits for it.
//!
//! ```text
//!   a put comes far into a segment of the log -------> thread "flodb-log"
//!                                                        the next segment of the log
//!   a put comes to the middle of a huge page --------> thread "flodb-memory"
//!                                                        the next huge pages
//!                                                        from half a memtable on: the next one
//!   a put finds a long unsorted tail ----------------> thread "flodb-sort"
//!                                                        the tail becomes a run
//! ```
//!
//! Each has a thread of its own, since a writer that needs one of them before it is there waits for
//! it. The next segment of the log costs three syncs, which take as long as the disk is busy with
//! tables. Sorting a tail of 64 Ki entries takes some milliseconds, and merging it with the runs
//! before it ten. To clear a huge page takes a fraction of a millisecond, or some where the host
//! has to find the memory too: a page is filled in less time than a tail is sorted. A writer only
//! leaves a request: one load, unless it is the first to ask.
//!
//! **Nothing depends on it.** A writer that fills a segment before there is a next one creates it.
//! An iterator, or the flush, sorts what it finds unsorted. So the threads may be late.

use super::Inner;
use super::background::Signal;
use super::stats::Counters;
use keyrack_concurrent::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The requests to the threads.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The next segment of the log. Not unless it is asked for: a short log stays small.
    pub(super) segment: Request,
    /// Memory of the active memtable, and of the next one.
    pub(super) memory: Request,
    /// Order of the active memtable.
    pub(super) order: Request,
}

/// What writers ask one thread for.
#[derive(Default)]
pub(crate) struct Request {
    is_made: AtomicBool,
    signal: Signal,
}

impl Ahead {
    /// The threads end after what they are doing.
    pub(super) fn stop(&self) {
        [&self.segment, &self.memory, &self.order]
            .into_iter()
            .for_each(|it| it.signal.change(true));
    }
}

impl Request {
    /// Asks the thread. One load if it was asked already.
    #[inline]
    pub(super) fn make(&self) {
        // Relaxed: the signal orders what the thread sees, and the thread takes the request back
        // before it looks.
        if !self.is_made.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if !self.is_made.swap(true, Ordering::Relaxed) {
            self.signal.change(false);
        }
    }

    /// The thread: does `work` whenever it is asked, until the store closes.
    pub(super) fn serve(&self, work: impl Fn()) {
        loop {
            let seen = self.signal.now();
            if seen.is_stopping() {
                return;
            }
            if self.is_made.swap(false, Ordering::SeqCst) {
                work();
            }
            self.signal.sleep(seen);
        }
    }
}

/// Makes pages of the active memtable, and the next memtable.
pub(super) fn make_memory(inner: &Inner) {
    let memtable = Arc::clone(inner.read_path.load(&pin()).active());
    memtable.make_ahead();
    let (used, all) = (memtable.bytes(), inner.options.memtable_bytes);
    // From half of it on there is time to make all pages. Later, nothing may come back in time.
    if used >= all / 2 && inner.memtables.prepare(used >= all - all / 4) {
        inner.tables.reader.cache.settle();
        // Should nobody write any more, it is trimmed.
        inner.wake_background();
    }
}

/// Makes order in the active memtable.
pub(super) fn make_order(inner: &Inner) {
    let memtable = Arc::clone(inner.read_path.load(&pin()).active());
    if memtable.needs_sort() {
        memtable.sort_tail();
        inner.memory().look_at_memtables();
        inner.tables.reader.cache.follow();
        Counters::add(&inner.counters.writer_sorts, 1);
    }
}
