//! A snapshot of a collection: its elements as they were at one moment, while others write it.
//!
//! ```text
//!   elements    a  b  c' d  f        c was overwritten, e removed, f added since
//!   saved          c=old  e=old  f=none
//!   scan        a  b  c  d  e        the saved ones come first
//! ```
//!
//! A writer saves the old row of an element before others see the change, unless the scan has
//! passed it. So a scan that finds a new row finds the old one saved. Memory is bounded: a snapshot
//! for which [`SAVED_BYTES_MAX`] were saved is given up, and its reader gets an error. So is one
//! that takes more when all snapshots of the store have [`SAVED_BYTES_OF_ALL_MAX`].

use crate::Row;
use keyrack_store::{Error, Result};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of old elements that a snapshot keeps.
pub(crate) const SAVED_BYTES_MAX: usize = 16 << 20;
/// The bytes of old elements that all snapshots of a store keep.
pub(crate) const SAVED_BYTES_OF_ALL_MAX: usize = 64 << 20;
/// Bytes that a saved element takes beside its own.
const SAVED_OVERHEAD_BYTES: usize = 96;

/// See [`CollectionGuard::snapshot`](crate::CollectionGuard::snapshot).
#[derive(Debug)]
pub struct Snapshot {
    id: u64,
    /// Held, so that the elements stay.
    _user: Arc<()>,
    now_ms: u64,
    is_given_up: AtomicBool,
    saved: Mutex<Saved>,
    /// What all snapshots of the store keep.
    bytes_of_all: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Saved {
    /// Where each scan goes on. Elements before were passed.
    from: Vec<u8>,
    /// The rows before their first change; `None` where there was none.
    rows: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    bytes: usize,
}

impl Snapshot {
    pub(super) fn new(id: u64, user: Arc<()>, now_ms: u64, bytes_of_all: Arc<AtomicUsize>) -> Self {
        let (is_given_up, saved) = (AtomicBool::new(false), Mutex::default());
        Snapshot { id, _user: user, now_ms, is_given_up, saved, bytes_of_all }
    }

    /// Sets the bytes that are kept. Returns those of all snapshots.
    fn set_bytes(&self, saved: &mut Saved, bytes: usize) -> usize {
        let old = std::mem::replace(&mut saved.bytes, bytes);
        // Relaxed: a sum that orders nothing.
        if bytes >= old {
            self.bytes_of_all.fetch_add(bytes - old, Ordering::Relaxed) + (bytes - old)
        } else {
            self.bytes_of_all.fetch_sub(old - bytes, Ordering::Relaxed) - (old - bytes)
        }
    }

    fn saved(&self) -> MutexGuard<'_, Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The time at which an element must not have expired.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Bytes that are kept for it.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.saved().bytes
    }

    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
        let mut saved = self.saved();
        saved.rows.clear();
        self.set_bytes(&mut saved, 0);
    }

    pub(super) fn save(&self, name: &[u8], old: Option<&Row<'_>>) {
        let mut saved = self.saved();
        let is_passed = *name < *saved.from;
        if is_passed || self.is_given_up.load(Ordering::Acquire) || saved.rows.contains_key(name) {
            return;
        }
        let bytes = old.map_or(0, |row| row.bytes().len());
        let bytes = saved.bytes + bytes_of(name, bytes);
        let bytes_of_all = self.set_bytes(&mut saved, bytes);
        saved.rows.insert(name.into(), old.map(|row| row.bytes().into()));
        let is_too_much = bytes > SAVED_BYTES_MAX || bytes_of_all > SAVED_BYTES_OF_ALL_MAX;
        drop(saved);
        if is_too_much {
            self.give_up();
        }
    }

    /// Begins a scan from `from` on.
    pub(crate) fn begin<'a>(&'a self, from: &[u8], visit: &'a mut Visit<'a>) -> SnapshotScan<'a> {
        let (next, last) = (from.to_vec(), None);
        SnapshotScan { snapshot: self, visit, next, last, is_over: false }
    }

    /// Elements up to `last` are not asked for again.
    fn pass(&self, mut last: Vec<u8>) {
        last.push(0);
        let mut saved = self.saved();
        saved.rows = saved.rows.split_off(&*last);
        let rows = saved.rows.iter();
        let bytes = rows.map(|(name, row)| bytes_of(name, row.as_ref().map_or(0, |row| row.len())));
        let bytes = bytes.sum();
        self.set_bytes(&mut saved, bytes);
        saved.from = last;
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Gets an element, and decides whether the scan goes on.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()> + 'a;

/// A scan of a snapshot. The caller passes it the stored elements in the order of their names, and
/// then calls [`SnapshotScan::finish`].
pub(crate) struct SnapshotScan<'a> {
    snapshot: &'a Snapshot,
    visit: &'a mut Visit<'a>,
    /// Elements before it were passed.
    next: Vec<u8>,
    /// The element that was visited last.
    last: Option<Vec<u8>>,
    is_over: bool,
}

impl SnapshotScan<'_> {
    /// Visits the saved elements before a stored one, and then its old row, or itself.
    pub(crate) fn stored(&mut self, name: &[u8], row: Row<'_>) -> ControlFlow<()> {
        self.saved_until(Bound::Excluded(name))?;
        let saved = self.snapshot.saved().rows.get(name).cloned();
        match saved {
            None => self.visit_row(name, row)?,
            Some(Some(bytes)) => self.visit_row(name, Row::of(&bytes))?,
            Some(None) => {}
        }
        self.next.clear();
        self.next.extend_from_slice(name);
        self.next.push(0);
        ControlFlow::Continue(())
    }

    /// Visits the saved elements from the next one to before `end`.
    fn saved_until(&mut self, end: Bound<&[u8]>) -> ControlFlow<()> {
        let rows: Vec<(Box<[u8]>, Box<[u8]>)> = {
            let saved = self.snapshot.saved();
            if saved.rows.is_empty() {
                return ControlFlow::Continue(());
            }
            let range = saved.rows.range::<[u8], _>((Bound::Included(&*self.next), end));
            range.filter_map(|(name, row)| Some((name.clone(), row.clone()?))).collect()
        };
        rows.iter().try_for_each(|(name, row)| self.visit_row(name, Row::of(row)))
    }

    fn visit_row(&mut self, name: &[u8], row: Row<'_>) -> ControlFlow<()> {
        if row.is_expired(self.snapshot.now_ms) {
            return ControlFlow::Continue(());
        }
        self.last = Some(name.to_vec());
        let flow = (self.visit)(name, row);
        self.is_over = flow.is_break();
        flow
    }

    /// Visits the saved elements that are left. With `is_last`, elements that were visited are not
    /// asked for again.
    pub(crate) fn finish(mut self, is_last: bool) -> Result<()> {
        if !self.is_over {
            // The end was reached, or the visitor breaks off in the rest.
            let _ = self.saved_until(Bound::Unbounded);
        }
        if self.snapshot.is_given_up.load(Ordering::Acquire) {
            return Err(Error::usage("the hash was changed too much while it was read"));
        }
        if is_last && let Some(last) = self.last {
            self.snapshot.pass(last);
        }
        Ok(())
    }
}

/// The memory of a saved element.
fn bytes_of(name: &[u8], row_bytes: usize) -> usize {
    name.len() + row_bytes + SAVED_OVERHEAD_BYTES
}
