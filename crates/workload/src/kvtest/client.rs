//! What a job needs from whoever runs it.
//!
//! A job knows keys, values and their order. It knows no store, no clock and no thread: all of
//! that is behind [`Client`], one per thread. A client over a session of a store runs the jobs in
//! process; one over a socket can run the same jobs against a server.
//!
//! ```text
//!   job --put, get, ..--> Client --> session, or socket
//!       <--Ok, found------
//!       <--Err(Halt)------  the run was stopped, or the store failed
//! ```
//!
//! Every operation may answer [`Halt`]. A job passes it on at once, so a stop ends every loop of
//! every job at its next operation, and a job needs no look at a stop flag of its own.

use super::check;
#[cfg(doc)]
use super::check::mismatch;
use super::glibc::GlibcRandom;
use super::row::Row;
use std::sync::Mutex;

/// Why a job ended before it was through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// Whoever runs the job wants it to end. Nothing is wrong.
    #[error("stopped")]
    Stopped,
    /// The store failed or answered wrongly; or the job cannot run as asked.
    #[error("{0}")]
    Failed(Box<str>),
}

impl Halt {
    /// A failure in words: one line, lower case.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Halt {
        Halt::Failed(text.into().into_boxed_str())
    }
}

/// One thread's way to the store under test, and to whoever runs the job.
///
/// # Errors
/// Every operation answers [`Halt::Stopped`] once the run is to end and [`Halt::Failed`] when the
/// store fails.
pub trait Client {
    /// Which thread this is, from 0.
    fn id(&self) -> u32;

    /// How many threads run the job.
    fn threads(&self) -> u32;

    /// The limit of operations of this thread; `u64::MAX` is none. Jobs count as the original
    /// does: a loop that is bounded by the limit runs `limit + 1` times.
    fn limit(&self) -> u64;

    /// Whether this is the first job on its store: nothing has been written that it could read. For
    /// what loads a store: whether the store has no rows.
    fn is_first(&self) -> bool;

    /// Which job of a sequence this is, from 0.
    fn place(&self) -> u32;

    /// The seed of the run, for jobs that draw from streams of their own.
    fn seed(&self) -> u64;

    /// What this thread's generator is seeded with: 48 seeds, in turn.
    fn random_seed(&self) -> u32 {
        31_949 + self.id() % 48
    }

    /// Whether all threads that were asked for are through with the job. For those beside them.
    fn is_alone(&self) -> bool;

    /// Whether the time of `stage` is over. Stage 0 ends with the duration of the run. Stage 1
    /// follows it and ends only where a second duration is set, so that what was written in stage
    /// 0 is read back to the end. Called once per operation.
    ///
    /// Once true it stays true, on every thread that has seen a write made after it became so: a
    /// thread that sees another's last write sees the end of the time too.
    fn expired(&mut self, stage: u32) -> bool;

    /// Seconds on a monotonic clock.
    fn seconds(&self) -> f64;

    /// The value of the parameter `name`, where one was given.
    fn param(&self, name: &str) -> Option<&str>;

    /// The contents of the file that the parameter `name` names, where one was given.
    fn file(&self, name: &str) -> Option<&[u8]>;

    /// The generator that all threads of the run share.
    fn shared_random(&self) -> &Mutex<GlibcRandom>;

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// As for all operations.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt>;

    /// Stores `value` under `key` so that it survives a power loss when this returns.
    ///
    /// # Errors
    /// As for all operations.
    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt>;

    /// Stores `value` under `key` where the key is not there. Answers whether it was not.
    ///
    /// # Errors
    /// As for all operations.
    fn insert_new(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Halt>;

    /// Lends the value of `key` to `visit`. Answers whether the key was there.
    ///
    /// # Errors
    /// As for all operations.
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool, Halt>;

    /// Looks `key` up and insists on `expected`. A client that does not wait for each answer may
    /// find out later: then a later call answers the failure, [`Client::wait_all`] at the latest.
    ///
    /// # Errors
    /// As for all operations, and [`mismatch`] where something else is found.
    fn check(&mut self, key: &[u8], expected: &[u8]) -> Result<(), Halt> {
        check::now(self, key, expected)
    }

    /// As [`Client::check`], of one column of the row under `key`.
    ///
    /// # Errors
    /// As [`Client::check`].
    fn check_column(&mut self, key: &[u8], column: u16, expected: &[u8]) -> Result<(), Halt> {
        check::column_now(self, key, column, expected)
    }

    /// Removes `key`, whether or not it is there.
    ///
    /// # Errors
    /// As for all operations.
    fn remove(&mut self, key: &[u8]) -> Result<(), Halt>;

    /// Removes `key` and answers whether it was there. Jobs let one thread alone take a key.
    ///
    /// # Errors
    /// As for all operations.
    fn delete_existing(&mut self, key: &[u8]) -> Result<bool, Halt>;

    /// Visits up to `rows_max` rows in ascending order, from `first` on.
    ///
    /// # Errors
    /// As for all operations.
    fn scan(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt>;

    /// Visits up to `rows_max` rows in descending order, from `first` on.
    ///
    /// # Errors
    /// As for all operations.
    fn scan_rev(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt>;

    /// Visits up to `rows_max` rows of the store in ascending order, from the first one on. Each
    /// row is an operation. Ends early when the time of stage 0 is over. Answers how many there
    /// were.
    ///
    /// # Errors
    /// As for all operations.
    fn walk(&mut self, rows_max: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64, Halt>;

    /// As [`Client::walk`], in descending order from the last row on.
    ///
    /// # Errors
    /// As for all operations.
    fn walk_rev(&mut self, rows_max: u64, visit: &mut dyn FnMut(&[u8], &[u8]))
    -> Result<u64, Halt>;

    /// Visits the rows with `low <= key < high` in ascending order. Answers how many there were.
    ///
    /// # Errors
    /// As for all operations.
    fn range(
        &mut self,
        low: &[u8],
        high: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt>;

    /// Stores all `pairs` as one call.
    ///
    /// # Errors
    /// As for all operations.
    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Halt>;

    /// Removes all `keys` as one call.
    ///
    /// # Errors
    /// As for all operations.
    fn remove_many(&mut self, keys: &[&[u8]]) -> Result<(), Halt>;

    /// Looks all `keys` up as one call; `visit` gets each index once, in any order.
    ///
    /// # Errors
    /// As for all operations.
    fn get_many(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Halt>;

    /// Stores `value` in one column of the row under `key` and leaves its other columns as they
    /// are, as one atomic step.
    ///
    /// # Errors
    /// As for all operations.
    fn put_column(&mut self, key: &[u8], column: u16, value: &[u8]) -> Result<(), Halt>;

    /// Lends one column of the row under `key` to `visit`. Answers whether the row and the column
    /// were there.
    ///
    /// # Errors
    /// As for all operations.
    fn get_column(
        &mut self,
        key: &[u8],
        column: u16,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Halt>;

    /// Waits for the answers to everything sent. A client that answers each call before it returns
    /// has nothing to wait for.
    ///
    /// # Errors
    /// As for all operations.
    fn wait_all(&mut self) -> Result<(), Halt> {
        Ok(())
    }

    /// Compacts the whole store. Answers whether the store has compactions.
    ///
    /// # Errors
    /// As for all operations.
    fn compact(&mut self) -> Result<bool, Halt> {
        Ok(false)
    }

    /// What the store says about itself under `name`, as lines for people, where it says anything.
    fn property(&mut self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// Counts `ops` operations that the job made without the store. A client that reports what the
    /// row of the job says has nothing to count.
    ///
    /// # Errors
    /// [`Halt::Stopped`] once the run is to end.
    fn count_ops(&mut self, ops: u64) -> Result<(), Halt> {
        let _ = ops;
        Ok(())
    }

    /// Lets so many seconds pass.
    ///
    /// # Errors
    /// As for all operations.
    fn pause(&mut self, seconds: f64) -> Result<(), Halt>;

    /// A line for the user about how far the job is, such as `now getting`.
    fn notice(&mut self, text: &str);

    /// A line that the user must know before reading the results.
    fn warn(&mut self, text: &str);

    /// Results of this thread. Fields of a later call join those of an earlier one; a field that
    /// is there already gets the new value in its old place.
    fn report(&mut self, row: Row);
}
