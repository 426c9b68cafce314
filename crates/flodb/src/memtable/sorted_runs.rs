//! The sorted runs of a memtable, made when somebody asks for order.
//!
//! ```text
//!   index: | h h h h h h h h h h h h h h | h h 0 h |  - - -          in the order of arrival
//!           `------------ taken --------' `- tail -'
//!   runs:  [ 8 entries ][ 4 ][ 2 ]           late: [ entries of the taken part still unwritten ]
//! ```
//!
//! **Sealing** takes the tail: what is written of it becomes a run, what is not is remembered as
//! late and looked for at the next sealing. Nobody waits for a writer, and no writer for a sealing.
//! While the last run is at least half as long as the one before, both are merged; so there are
//! O(log n) runs, and an entry is merged O(log n) times.
//!
//! **Sharing.** Everything up to a published sequence has been inserted, so a sealing on behalf of
//! such a sequence covers it for good. A reader that needs no more than is covered gets the runs
//! that are there; of many readers that need a new tail, one sorts it and the others find it done.
//!
//! Two locks: `work` is held while sorting; `published`, taken alone or inside, for a few
//! instructions. Neither is ever taken by an insert or by a get that goes through the table. How
//! many entries the runs have is a word of its own, so that a writer sees without a lock when the
//! tail is long.

use super::arena::{Handle, IndexSlot};
use super::rank::Rank;
use super::run::Run;
use crate::key::SEQUENCE_MAX;
use keyrack_concurrent::atomic::{AtomicU32, Mutex, MutexGuard, Ordering};
use std::sync::{Arc, PoisonError};

/// Runs, the longest first. Together they hold each taken entry once, but for late ones.
pub(super) type Runs = Arc<[Arc<Run>]>;

#[derive(Default)]
pub(super) struct SortedRuns {
    published: Mutex<Published>,
    work: Mutex<Work>,
    /// How many entries are in the runs. Written under `published`.
    sorted: AtomicU32,
}

#[derive(Default)]
struct Published {
    runs: Runs,
    /// All entries up to this sequence are in the runs.
    covered: Option<u64>,
    /// All entries below this index are in the runs, but for so many late ones.
    taken: u32,
    late: usize,
}

#[derive(Default)]
struct Work {
    /// Numbers in the index below `taken` that were unwritten when they were looked at.
    late: Vec<u32>,
}

impl SortedRuns {
    /// Runs with all entries up to `upto`, if that is a published sequence, and in any case
    /// with all that were inserted before the call.
    pub(super) fn runs(&self, rank: Rank<'_>, upto: u64) -> Runs {
        if let Some(runs) = self.made(rank, upto) {
            return runs;
        }
        let mut work = lock(&self.work);
        // Whoever had the lock before may have done it.
        if let Some(runs) = self.made(rank, upto) {
            return runs;
        }
        self.sort_tail(rank, upto, &mut work)
    }

    /// Entries that are in no run. One load.
    #[inline]
    pub(super) fn tail(&self, count: u32) -> usize {
        // Relaxed: a hint, nothing is read on the strength of it.
        count.saturating_sub(self.sorted.load(Ordering::Relaxed)) as usize
    }

    fn made(&self, rank: Rank<'_>, upto: u64) -> Option<Runs> {
        let published = lock(&self.published);
        let is_all = published.taken == rank.arena.count() && published.late == 0;
        let is_covered = published.covered.is_some_and(|covered| upto <= covered);
        (is_all || is_covered).then(|| published.runs.clone())
    }

    fn sort_tail(&self, rank: Rank<'_>, upto: u64, work: &mut Work) -> Runs {
        let (runs, taken) = {
            let published = lock(&self.published);
            (published.runs.clone(), published.taken)
        };
        let end = rank.arena.count();
        let mut late = Vec::new();
        let mut handles: Vec<Handle> = Vec::with_capacity(work.late.len() + (end - taken) as usize);
        for index in work.late.iter().copied().chain(taken..end) {
            match rank.arena.get(index) {
                IndexSlot::Entry(handle) => handles.push(handle),
                IndexSlot::Unwritten => late.push(index),
                IndexSlot::Void => {}
            }
        }
        let runs = if handles.is_empty() { runs } else { with(rank, &runs, &handles) };
        let mut published = lock(&self.published);
        published.runs = runs.clone();
        published.taken = end;
        published.late = late.len();
        self.sorted.store(end - late.len() as u32, Ordering::Relaxed);
        // The largest sequence stands for no promise about what has been inserted.
        if upto < SEQUENCE_MAX {
            published.covered = published.covered.max(Some(upto));
        }
        work.late = late;
        runs
    }
}

/// The runs with some more entries.
fn with(rank: Rank<'_>, runs: &[Arc<Run>], handles: &[Handle]) -> Runs {
    let mut runs = runs.to_vec();
    let mut last = Arc::new(Run::sorted(rank, handles));
    while let Some(before) = runs.pop_if(|before| last.len() >= before.len() / 2) {
        last = Arc::new(Run::merged(rank, &before, &last));
    }
    runs.push(last);
    runs.into()
}

/// What the locks guard is changed at one go after all work that could fail is done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
