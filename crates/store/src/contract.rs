//! The traits of the contract, and the small types in their signatures.

use crate::replace::replace_all;
use crate::{Batch, Error, Result, StoreInfo};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Decides whether an engine may drop an entry: see [`Store::set_drop_filter`].
pub type DropFilter = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// An ordered key-value store, shared by all threads that use it.
pub trait Store: Send + Sync {
    /// Opens a session for the calling thread. Sessions are cheap; a thread keeps one.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed sync, [`Error::Io`] where the engine cannot get a
    /// resource (a reader slot, a descriptor).
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// The properties of the store. They do not change while it is open. Not for hot paths.
    fn info(&self) -> StoreInfo;

    /// A read-only view of one point in time, or `None` if the engine has none.
    ///
    /// # Errors
    /// As [`Store::session`].
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(None)
    }

    /// Calls `visit` with named numbers: bytes written, cache hits, levels. A sampler calls this a
    /// few times a second while sessions work, so it must not stop them. Names are lower case with
    /// underscores, units last (`wal_bytes`).
    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let _ = visit;
    }

    /// Sets which entries an engine may drop when it rewrites its data. Returns whether the engine
    /// does so; others keep every entry until it is removed. Only the first call has an effect.
    ///
    /// The filter may accept only entries that are already hidden from, or absent to, every
    /// current reader. An engine drops nothing that a snapshot sees, and exposes no older version.
    fn set_drop_filter(&self, filter: DropFilter) -> bool {
        let _ = filter;
        false
    }

    /// The directory that holds the data, for engines that have one.
    fn data_dir(&self) -> Option<&Path> {
        None
    }

    /// Writes out everything that a clean end needs, and reports what could not be written. A store
    /// that is dropped without `close` is in the state after a process crash.
    ///
    /// # Errors
    /// Any kind but the caller's mistake.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The access of one thread to a [`Store`].
pub trait Session {
    /// Looks up `key` and calls `visit` with its value, without a copy where the engine allows.
    /// Returns whether the key was there.
    ///
    /// # Errors
    /// Any [`Error`]; a key that the engine cannot hold is [`Error::Usage`].
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Looks up many keys; calls `visit` once for each index of `keys`, in any order. Engines that
    /// can overlap cache misses or share block reads do so here.
    ///
    /// # Errors
    /// As [`Session::get`]; keys after the failed one may not have been visited.
    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            if !self.get(key, &mut |value| visit(index, Some(value)))? {
                visit(index, None);
            }
        }
        Ok(())
    }

    /// Stores `value` under `key`, whether or not the key was there.
    ///
    /// # Errors
    /// Any [`Error`]. On an error the old value is still there, or the new one; never a mixture.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// As [`Session::put`], with options for this write.
    ///
    /// # Errors
    /// As [`Session::put`]; [`Error::Usage`] for an option that [`Store::info`] does not announce.
    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if options.sync {
            return Err(Error::usage("this engine has no synced put"));
        }
        self.put(key, value)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// As [`Session::put`].
    fn remove(&mut self, key: &[u8]) -> Result<Removed>;

    /// Reads, decides and writes one key as one atomic step. `decide` gets the current value and a
    /// cleared buffer for the new one. It is called again if another writer changed the key.
    ///
    /// # Errors
    /// As [`Session::put`].
    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()>;

    /// Visits the rows with `low <= key < high` in ascending order; `high = None` means no upper
    /// bound. Returns the number of visited rows, including the row at which `visit` broke off.
    ///
    /// `visit` may read through another session: an engine holds no lock during the visit for which
    /// a reader or a writer could wait. It must not write.
    ///
    /// # Errors
    /// As [`Session::get`]. A range with `high <= low` is empty, not an error.
    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64>;

    /// As [`Session::scan`], in descending order, over the same half-open range.
    ///
    /// # Errors
    /// As [`Session::scan`].
    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64>;

    /// Applies all operations of `batch`, in their order, as one write.
    ///
    /// # Errors
    /// As [`Session::put`]; on an error none of the batch is applied, or all of it.
    fn apply(&mut self, batch: &Batch) -> Result<()>;

    /// Removes every key, and then applies `batch`. Keys that others write meanwhile may stay or
    /// go. Engines with range tombstones do both as one write, in constant time; others remove
    /// batches of keys, so that an error may leave some of them.
    ///
    /// # Errors
    /// As [`Session::apply`].
    fn replace_all(&mut self, batch: &Batch) -> Result<()> {
        replace_all(self, batch)
    }

    /// Waits for the writes of this session that are still pipelined to a server. Local engines
    /// complete a write before its call returns, and do nothing here.
    ///
    /// # Errors
    /// The first failure of a write whose call has returned.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Compacts the whole store and returns once that is done. The answer says whether the engine
    /// has compactions.
    ///
    /// # Errors
    /// As for all operations.
    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// What the engine says about itself under `name`, as lines for people: `stats` for the levels
    /// and their compactions, `sstables` for the tables of each level, any other name as the engine
    /// has it. `None` where it has no such property.
    fn property(&mut self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// A read-only view of a [`Store`] at one point in time.
pub trait Snapshot {
    /// As [`Session::get`].
    ///
    /// # Errors
    /// As [`Session::get`].
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// As [`Session::scan`].
    ///
    /// # Errors
    /// As [`Session::scan`].
    fn scan(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64>;
}

/// Options of one write. The default is the store's durability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The write survives a power loss when the call returns, whatever the store's durability.
    pub sync: bool,
}

impl WriteOptions {
    /// A synced write.
    pub const SYNC: WriteOptions = WriteOptions { sync: true };
}

/// What a remove found. Engines that write tombstones without a lookup return `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The key was there and is removed.
    Existed,
    /// The key was not there.
    Absent,
    /// The key is removed; whether it was there is not known.
    Unknown,
}

/// The decision of the closure of [`Session::update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave the key as it is.
    Keep,
    /// Store the bytes that were written into the buffer.
    Put,
    /// Remove the key.
    Remove,
}
