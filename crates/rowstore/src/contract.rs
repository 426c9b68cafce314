//! The two traits by which rows are held, and the small types in their signatures.
//!
//! ```text
//!   at(now) -> get, update, remove, scan ... -> flush -> a position -> is_durable(position)
//!              one batch of requests             one append to the log
//! ```
//!
//! A write outside of a group is seen by everybody when the call returns. It is promised to survive
//! (as the store's [`Durability`] says) when the position that the following [`RowSession::flush`]
//! gave is durable: a server sends its replies then, and not before.

use crate::{Row, RowBuf};
use keyrack_store::{Durability, Result};
use std::ops::ControlFlow;

/// Rows under ordered keys, shared by all threads that use them.
pub trait Rows: Send + Sync {
    /// Opens a session for the calling thread. A thread keeps one.
    ///
    /// # Errors
    /// Any kind but the caller's mistake.
    fn session(&self) -> Result<Box<dyn RowSession + '_>>;

    /// What a write survives once its position is durable.
    fn durability(&self) -> Durability;

    /// Name and version of what holds the rows.
    fn version(&self) -> String;

    /// Keys that are there, those included that have expired and have not been swept up.
    fn len(&self) -> u64;

    /// Whether there is no key.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives named numbers to `visit`, as [`keyrack_store::Store::stats`] does: `rows`,
    /// `memory_bytes`, `log_bytes`, `checkpoints`, `evicted`, `expired`...
    fn stats(&self, visit: &mut dyn FnMut(&str, f64));

    /// Pending until everything up to `to` is durable. Called by a thread that may wait.
    ///
    /// # Errors
    /// [`keyrack_store::Error::Poisoned`] when a sync has failed.
    fn sync(&self, to: Position) -> Result<()>;

    /// Writes a checkpoint, and lets go of the log before it. Returns when it is complete; false
    /// where there are none. Stops no writer.
    ///
    /// # Errors
    /// Any kind but the caller's mistake; the checkpoint before it is still whole then.
    fn checkpoint(&self) -> Result<bool>;

    /// Makes durable what was written, ends the threads, and reports what failed.
    ///
    /// # Errors
    /// Any kind but the caller's mistake.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's way to its rows. A row that has expired at the session's time is not there for any
/// of these.
pub trait RowSession {
    /// Sets the session's time, in milliseconds since 1970. A server does so once a batch.
    fn at(&mut self, now_ms: u64);

    /// Looks `key` up and lends its row to `visit`. Returns whether it was there.
    ///
    /// # Errors
    /// Any kind; a key too long is [`keyrack_store::Error::Usage`].
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool>;

    /// Looks many keys up, side by side where the store can; calls `visit` once for each index of
    /// `keys`, in any order.
    ///
    /// # Errors
    /// As [`RowSession::get`].
    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            if !self.get(key, &mut |row| visit(index, Some(row)))? {
                visit(index, None);
            }
        }
        Ok(())
    }

    /// Says that the rows of `keys` are used next, so that a store in memory can bring them near
    /// side by side. Changes nothing; a key too long, or one that is not used after all, is none of
    /// its business.
    fn prefetch(&mut self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// ReferenceBits, decides and writes one row as one step that nobody comes between. `decide`
    /// gets the row and an empty [`RowBuf`] for the new one; it may be called again, with an empty
    /// buffer again. Returns the version of the row written, or 0 when none was.
    ///
    /// # Errors
    /// Any kind; a row too large is [`keyrack_store::Error::Usage`], and a row for which there is
    /// no memory (where nothing may be evicted) is [`keyrack_store::Error::OutOfMemory`]. After
    /// either nothing was done.
    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Change,
    ) -> Result<u64>;

    /// Stores `value` as the row of `key`, whatever was there. Returns the row's version.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn put(&mut self, key: &[u8], value: &[u8], flags: u32, expires_ms: u64) -> Result<u64> {
        self.update(key, &mut |_, row| {
            row.set_value(value);
            row.set_flags(flags);
            row.set_expires_ms(expires_ms);
            Change::Put
        })
    }

    /// Removes the row of `key`. Returns whether it was there.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let mut was_there = false;
        self.update(key, &mut |row, _| {
            was_there = row.is_some();
            if was_there { Change::Remove } else { Change::Keep }
        })?;
        Ok(was_there)
    }

    /// Visits the rows with `low <= key < high` in ascending order; `high = None` has no upper
    /// bound. Returns the rows visited, the one at which `visit` broke off included. Each row is
    /// whole; the range is not one point in time. `visit` must not use this session.
    ///
    /// # Errors
    /// As [`RowSession::get`].
    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64>;

    /// As [`RowSession::scan`], in descending order, over the same half-open range.
    ///
    /// # Errors
    /// As [`RowSession::get`].
    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64>;

    /// [`Rows::len`] as this session sees it: with what its group has written.
    fn count(&self) -> u64;

    /// Removes all rows. Rows that other sessions write meanwhile may stay or go.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn clear(&mut self) -> Result<()>;

    /// Begins a group: all that this session writes from here to the next
    /// [`RowSession::commit_group`] is made there, or none of it, also after a crash. Until then
    /// the session alone sees it, and whoever writes the same keys meanwhile is overwritten: others
    /// have to be kept away from them. Flushes what was written before.
    ///
    /// # Errors
    /// As [`RowSession::flush`].
    fn begin_group(&mut self) -> Result<()>;

    /// Makes all that the group has written, and ends it. The next [`RowSession::flush`] logs it,
    /// as it does with any write. Without a group nothing happens.
    ///
    /// # Errors
    /// The group has ended, and nothing of it was made.
    /// [`keyrack_store::Error::Usage`] for one that would log more than a record takes,
    /// [`keyrack_store::Error::Io`] when the disk is full, [`keyrack_store::Error::Poisoned`].
    fn commit_group(&mut self) -> Result<()>;

    /// Drops what the group has written so far, and ends it. Nothing of it was made. Without a
    /// group nothing happens.
    fn cancel_group(&mut self);

    /// Commits the group, if there is one, and appends to the log what this session wrote since the
    /// last time. Returns where the log ends for this session: the position to wait for. Cheap when
    /// nothing was written.
    ///
    /// # Errors
    /// As [`RowSession::commit_group`]. [`keyrack_store::Error::Io`] when the disk is full,
    /// [`keyrack_store::Error::Poisoned`]: the writes are seen in memory, but they must not be
    /// acknowledged. What could not be logged goes with the next flush.
    fn flush(&mut self) -> Result<Position>;

    /// Whether what was flushed up to `position` survives what the store's durability names. Always
    /// true below [`Durability::Sync`].
    fn is_durable(&self, position: Position) -> bool;
}

/// What the closure of [`RowSession::update`] decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave the row as it is.
    Keep,
    /// Store what the buffer holds.
    Put,
    /// Remove the row.
    Remove,
}

/// A log of the store and an LSN in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// The log, counted from 0.
    pub log: u32,
    /// Everything below this LSN is meant.
    pub lsn: u64,
}
