//! The contract of rows: the traits [`Rows`] and [`RowSession`], and the types in their signatures.
//!
//! ```text
//!   at(now) -> get, update, remove, scan ... -> flush -> a position -> is_durable(position)
//!              one batch of requests             one append to the log
//! ```
//!
//! All sessions see a write outside of a group when the call returns. The write survives (as the
//! store's [`Durability`] promises) once the position of the next [`RowSession::flush`] is durable.
//! A server sends its replies then, and not earlier.
//!
//! **Collections.** The elements of a collection are rows below the header under the user's key.
//! The sessions that a store gives out translate user keys. The methods on elements are provided
//! for sessions over stored keys (see `keys`).
//!
//! **Why two contracts.** [`keyrack_store::Session`] is about values of bytes, and a write is as
//! durable as promised when the call returns. A server needs what that contract lacks on purpose:
//! rows with versions, flags and an expiry; an update that decides on the whole row; and a flush
//! apart from the writes, so that a pipeline of requests is one append to the log and one sync.
//! Adapters lead both ways: [`engine`](crate::engine()) is rows as a `Store`, and
//! [`StoreRows`](crate::StoreRows) is any `Store` as rows.

use crate::collections::Collection;
use crate::collections::snapshot::Snapshot;
use crate::keys::{self, ElementKey, PREFIX_BYTES};
use crate::{Row, RowBuf};
use keyrack_store::{Durability, Result, Update};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows under ordered keys, shared by all threads that use them.
pub trait Rows: Send + Sync {
    /// Opens a session for the calling thread. A thread keeps one.
    ///
    /// # Errors
    /// Any kind but the caller's mistake.
    fn session(&self) -> Result<Box<dyn RowSession + '_>>;

    /// The durability of a write once its position is durable.
    fn durability(&self) -> Durability;

    /// Name and version of the store.
    fn version(&self) -> String;

    /// The number of keys, including expired rows that were not swept yet. Elements do not count.
    fn len(&self) -> u64;

    /// Whether the store has no key.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes named numbers to `visit`, as [`keyrack_store::Store::stats`] does: `rows`,
    /// `memory_bytes`, `log_bytes`, `checkpoints`, `evicted`, `expired`...
    fn stats(&self, visit: &mut dyn FnMut(&str, f64));

    /// Waits until everything up to `to` is durable. Blocks the calling thread.
    ///
    /// # Errors
    /// [`keyrack_store::Error::Poisoned`] if a sync has failed.
    fn sync(&self, to: Position) -> Result<()>;

    /// Writes a checkpoint, and releases the log before it. Returns when it is complete; false if
    /// the store has no checkpoints. Writers continue meanwhile.
    ///
    /// # Errors
    /// Any kind but the caller's mistake. The previous checkpoint stays valid then.
    fn checkpoint(&self) -> Result<bool>;

    /// Makes all writes durable, ends the threads, and reports failures.
    ///
    /// # Errors
    /// Any kind but the caller's mistake.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's access to the rows. For all of these methods, a row that has expired at the
/// session's time is absent.
pub trait RowSession {
    /// Sets the session's time, in milliseconds since 1970. A server does so once a batch.
    fn at(&mut self, now_ms: u64);

    /// Looks up `key` and lends its row to `visit`. Returns whether there was one.
    ///
    /// # Errors
    /// Any kind; a key too long is [`keyrack_store::Error::Usage`].
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool>;

    /// Looks up many keys, if possible in parallel. Calls `visit` once for each index of `keys`, in
    /// any order.
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

    /// Announces that the rows of `keys` are used next, in this order, so that a store in memory
    /// can load them into the cache in parallel. It is a hint: a key that is too long or is not
    /// used has no effect.
    fn prefetch(&mut self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Reads, decides and writes one row atomically. `decide` gets the row and an empty [`RowBuf`]
    /// for the new one; it may be called again, with an empty buffer again. Returns the version of
    /// the row written, or 0 when none was.
    ///
    /// # Errors
    /// Any kind; a row too large is [`keyrack_store::Error::Usage`], and a row for which there is
    /// no memory (where nothing may be evicted) is [`keyrack_store::Error::OutOfMemory`]. After
    /// either nothing was done.
    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64>;

    /// Stores `value` as the row of `key`, and replaces any old row. Returns the row's version.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn put(&mut self, key: &[u8], value: &[u8], flags: u32, expires_ms: u64) -> Result<u64> {
        self.update(key, &mut |_, row| {
            row.set_value(value);
            row.set_flags(flags);
            row.set_expires_ms(expires_ms);
            Update::Put
        })
    }

    /// Removes the row of `key`. Returns whether there was one.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let mut was_there = false;
        self.update(key, &mut |row, _| {
            was_there = row.is_some();
            if was_there { Update::Remove } else { Update::Keep }
        })?;
        Ok(was_there)
    }

    /// Visits the rows with `low <= key < high` in ascending order; `high = None` has no upper
    /// bound. Returns the number of rows visited, including the one at which `visit` broke off.
    /// Each row is whole; the range is not one point in time. `visit` must not use this session.
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

    /// A new collection. It has no header and no elements; nobody finds it before a header with its
    /// id is put ([`RowBuf::collection`]). Its elements are removed if it has no header when the
    /// last reference to it is dropped.
    ///
    /// # Errors
    /// [`keyrack_store::Error::Usage`] if there are no ids left; those of [`RowSession::update`].
    fn create_collection(&mut self) -> Result<Arc<Collection>>;

    /// The collection of a header. `None` if it was removed.
    fn collection(&self, id: u64) -> Option<Arc<Collection>>;

    /// The number of elements as this session sees it, with the writes of its group.
    fn element_count(&self, collection: &Collection) -> u64;

    /// As [`RowSession::get`], for an element.
    ///
    /// # Errors
    /// As [`RowSession::get`].
    fn get_element(
        &mut self,
        id: u64,
        name: &[u8],
        visit: &mut dyn FnMut(Row<'_>),
    ) -> Result<bool> {
        self.get(&ElementKey::new(id, name), visit)
    }

    /// As [`RowSession::update`], for an element. The caller holds the lock of the collection if it
    /// has a header.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn update_element(
        &mut self,
        id: u64,
        name: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.update(&ElementKey::new(id, name), decide)
    }

    /// As [`RowSession::scan`] or [`RowSession::scan_rev`], for the elements with
    /// `low <= name < high`.
    ///
    /// # Errors
    /// As [`RowSession::get`].
    fn scan_elements(
        &mut self,
        id: u64,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let end =
            high.map_or_else(|| keys::end(id).to_vec(), |high| ElementKey::new(id, high).to_vec());
        let mut visit = |key: &[u8], row: Row<'_>| visit(&key[PREFIX_BYTES..], row);
        let low = ElementKey::new(id, low);
        if is_reverse {
            self.scan_rev(&low, Some(&end), &mut visit)
        } else {
            self.scan(&low, Some(&end), &mut visit)
        }
    }

    /// Visits the elements of a snapshot from `from` on, in the order of their names, up to the one
    /// at which `visit` breaks off. With `is_last`, elements that were visited are not asked for
    /// again, so nothing is kept for them. The session's time must be [`Snapshot::now_ms`].
    ///
    /// # Errors
    /// [`keyrack_store::Error::Usage`] if too much was written meanwhile, or everything was
    /// removed; those of [`RowSession::scan`].
    fn scan_snapshot(
        &mut self,
        snapshot: &Snapshot,
        from: &[u8],
        is_last: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut visit = |name: &[u8], row: Row<'_>| visit(name, row);
        let mut scan = snapshot.begin(from, &mut visit);
        self.scan_elements(snapshot.id(), (from, None), false, &mut |name, row| {
            scan.stored(name, row)
        })?;
        scan.finish(is_last)
    }

    /// [`Rows::len`] as this session sees it, with the writes of its group.
    fn count(&self) -> u64;

    /// Removes all rows. Rows that other sessions write meanwhile may stay or not; elements must
    /// not be written meanwhile.
    ///
    /// # Errors
    /// As [`RowSession::update`].
    fn clear(&mut self) -> Result<()>;

    /// Begins a group. [`RowSession::commit_group`] applies all writes of the group or none, also
    /// after a crash. Until then only this session sees them. They overwrite what other sessions
    /// write to the same keys meanwhile, so the caller has to keep other sessions away from these
    /// keys. Flushes earlier writes.
    ///
    /// # Errors
    /// As [`RowSession::flush`].
    fn begin_group(&mut self) -> Result<()>;

    /// Applies all writes of the group, and ends it. The next [`RowSession::flush`] logs them like
    /// any write. Without a group it does nothing.
    ///
    /// # Errors
    /// The group has ended and has no effect then. [`keyrack_store::Error::Usage`] if the group
    /// does not fit into a record, [`keyrack_store::Error::Io`] if the disk is full,
    /// [`keyrack_store::Error::Poisoned`].
    fn commit_group(&mut self) -> Result<()>;

    /// Ends the group without effect. Without a group it does nothing.
    fn cancel_group(&mut self);

    /// Commits the group, if there is one, and appends to the log what this session wrote since the
    /// last flush. Returns the position to wait for, before the writes are acknowledged. Cheap if
    /// nothing was written.
    ///
    /// # Errors
    /// As [`RowSession::commit_group`]. [`keyrack_store::Error::Io`] if the disk is full,
    /// [`keyrack_store::Error::Poisoned`]: the writes are visible in memory, but must not be
    /// acknowledged. The next flush logs them.
    fn flush(&mut self) -> Result<Position>;

    /// Logs the headers that this session has put, so that writes of other sessions below them are
    /// not more durable than they are. Call it before others may lock the collection: under its
    /// lock, or while no other session writes. In a group it does nothing, so call it after the
    /// commit. Cheap if no header was put.
    ///
    /// # Errors
    /// As [`RowSession::flush`]. [`Collection::is_unlogged`] is true until a later flush succeeds.
    fn flush_headers(&mut self) -> Result<()> {
        // The writes of most stores are in their log when they return.
        Ok(())
    }

    /// Whether everything up to `position` is as durable as the store promises. Always true below
    /// [`Durability::Sync`].
    fn is_durable(&self, position: Position) -> bool;
}

/// A log of the store and an LSN in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// The log, counted from 0.
    pub log: u32,
    /// The LSN: the position covers everything below it.
    pub lsn: u64,
}
