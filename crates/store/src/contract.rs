//! The two traits of the contract, and the small types in their signatures.

use crate::{Batch, Error, Result};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Says of a key and its value whether an engine may drop the entry: see
/// [`Store::set_drop_filter`].
pub type DropFilter = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// Bytes of a batch of removals of [`Session::replace_all`], where the engine has nothing better;
/// and one key more. Small, so that engines with small batches take it.
const REMOVED_BYTES_MAX: usize = 32 << 10;

/// An ordered key-value store, shared by all threads that use it.
pub trait Store: Send + Sync {
    /// Opens a session for the calling thread. Sessions are cheap; a thread keeps one.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed sync, [`Error::Io`] where the engine needs a resource
    /// (a reader slot, a descriptor) that it cannot get.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// What an acknowledged write survives.
    fn durability(&self) -> Durability;

    /// Whether sessions have [`Session::put_synced`]. A store whose durability is
    /// [`Durability::Sync`] needs none: all its writes are synced.
    fn has_synced_put(&self) -> bool {
        false
    }

    /// Name and version of the engine, as every report prints it: `redb 4.4.0`.
    fn version(&self) -> String;

    /// A read-only view of one point in time, or `None` where the engine has none.
    ///
    /// # Errors
    /// As [`Store::session`].
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(None)
    }

    /// Gives named numbers to `visit`: bytes written, cache hits, levels. Called by a sampler a few
    /// times a second while sessions work, so it must not stop them. Names are lower case with
    /// underscores, units last (`wal_bytes`).
    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let _ = visit;
    }

    /// What a reader must know before believing a measurement of this store: a library that was
    /// built to be debugged. One sentence each; they stand at every result.
    fn caveats(&self) -> Vec<String> {
        Vec::new()
    }

    /// The largest batch that [`Session::apply`] takes, by [`Batch::logged_bytes`]. One that is
    /// larger is refused as a whole.
    fn batch_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// Tells an engine that rewrites its data which entries it may drop on the way. Returns whether
    /// the engine does so; others keep everything until it is removed. Set once; the first one
    /// counts.
    ///
    /// The filter may say so only of entries that no reader of now can find: what it drops must
    /// already be hidden, or be absent to everybody who reads. An engine drops nothing that a
    /// snapshot sees, and lets nothing older come back.
    fn set_drop_filter(&self, filter: DropFilter) -> bool {
        let _ = filter;
        false
    }

    /// The directory that holds the data, for engines that have one.
    fn data_dir(&self) -> Option<&Path> {
        None
    }

    /// Writes out what a clean end needs and reports what could not be written. A store that is
    /// dropped without `close` promises what it promises after a process crash.
    ///
    /// # Errors
    /// Any kind but the caller's mistake.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// One thread's way into a [`Store`].
pub trait Session {
    /// Looks `key` up and lends its value to `visit`, without a copy where the engine allows.
    /// Returns whether the key was there.
    ///
    /// # Errors
    /// Any [`Error`]; a key that the engine cannot hold is [`Error::Usage`].
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Looks many keys up; calls `visit` once for each index of `keys`, in any order. Engines that
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

    /// As [`Session::put`], and when it returns, the write survives a power loss, whatever the
    /// store's durability.
    ///
    /// # Errors
    /// As [`Session::put`]; [`Error::Usage`] where [`Store::has_synced_put`] says no.
    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let _ = (key, value);
        Err(Error::usage("this engine has no synced put"))
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// As [`Session::put`].
    fn remove(&mut self, key: &[u8]) -> Result<Removed>;

    /// Reads, decides and writes one key as one atomic step. `decide` gets the current value and a
    /// cleared buffer for the new one; it may be called again when another writer came between.
    ///
    /// # Errors
    /// As [`Session::put`].
    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()>;

    /// Visits the rows with `low <= key < high` in ascending order; `high = None` has no upper
    /// bound. Returns the rows visited, the row at which `visit` broke off included.
    ///
    /// `visit` may read through another session: an engine holds no lock during the visit that a
    /// reader or a writer could wait for. It must not write.
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
    /// go. Engines that can remove a range do both as one write, in a time that does not grow with
    /// the keys; others remove some keys at a time, so that an error may leave some of them.
    ///
    /// # Errors
    /// As [`Session::apply`].
    fn replace_all(&mut self, batch: &Batch) -> Result<()> {
        let (mut removals, mut from) = (Batch::new(), Vec::new());
        loop {
            removals.clear();
            let mut last = None;
            self.scan(&from, None, &mut |key, _| {
                removals.remove(key);
                if removals.logged_bytes() < REMOVED_BYTES_MAX {
                    return ControlFlow::Continue(());
                }
                last = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
            if !removals.is_empty() {
                self.apply(&removals)?;
            }
            match last {
                Some(last) => from = last,
                None => break,
            }
        }
        if batch.is_empty() { Ok(()) } else { self.apply(batch) }
    }

    /// Waits until everything that was asked for is done. Engines whose calls are done when they
    /// return have nothing to wait for; a session over a network may have writes under way.
    ///
    /// # Errors
    /// What went wrong with writes whose call has returned.
    fn wait_all(&mut self) -> Result<()> {
        Ok(())
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

/// What a removal found. Engines that write tombstones without looking say `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The key was there and is gone.
    Existed,
    /// The key was not there.
    Absent,
    /// The key is gone; whether it was there was not looked up.
    Unknown,
}

/// What the closure of [`Session::update`] decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave the key as it is.
    Keep,
    /// Store the bytes that were written into the buffer.
    Put,
    /// Remove the key.
    Remove,
}

/// What an acknowledged write survives. Only equal durability is ever compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing: the data is in this process's memory.
    None,
    /// A crash of the process: the write is in the page cache before the reply.
    #[default]
    Os,
    /// Power loss, but for the last so many milliseconds: synced in the background.
    Interval(u32),
    /// Power loss: the reply follows the sync.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::None => f.write_str("none"),
            Durability::Os => f.write_str("os"),
            Durability::Interval(ms) => write!(f, "interval:{ms}"),
            Durability::Sync => f.write_str("sync"),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Durability::None),
            "os" => Ok(Durability::Os),
            "sync" => Ok(Durability::Sync),
            _ => text
                .strip_prefix("interval:")
                .and_then(|ms| ms.parse().ok())
                .filter(|&ms| ms > 0)
                .map(Durability::Interval)
                .ok_or_else(|| {
                    Error::usage(format!(
                        "durability '{text}' is not one of none, os, interval:MS, sync"
                    ))
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_prints_what_it_parses() {
        for text in ["none", "os", "interval:50", "sync"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        for text in ["", "fsync", "interval", "interval:", "interval:0", "interval:-1", "OS"] {
            let error = text.parse::<Durability>().unwrap_err();
            assert!(error.to_string().contains("none, os, interval:MS, sync"), "{error}");
        }
    }
}
