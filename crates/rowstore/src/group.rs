//! A group: its writes, while they are pending until the commit.
//!
//! ```text
//!   begin_group -> update, put, remove, clear ...  -> commit_group: all of it, or nothing
//!                        |                 ^
//!                        v                 | reads: pending rows before stored ones
//!                  key -> row, or its removal
//! ```
//!
//! Nothing is stored before the commit, so a refused group has no effect. A key occurs once,
//! however often it was written: the record contains only its last row.
//!
//! **Invariant:** `bytes` is an upper bound for the record of the group, computed as the encoder
//! does, and never more than `bytes_max`. A write beyond that refuses the whole group.

use crate::collections::{Collections, Held};
use crate::keys;
use crate::{Row, RowBuf};
use keyrack_store::{Error, Result, Update};
use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};

/// The pending write of a key: its row, or its removal.
pub(crate) type PendingRow = Option<Vec<u8>>;

/// The sizes of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSize {
    /// Bytes of a record without entries.
    pub(crate) head_bytes: usize,
    /// Bytes of an entry, from the bytes of its key and its row. A removal has no row.
    pub(crate) entry_bytes: fn(usize, Option<usize>) -> usize,
    /// The maximum bytes of one record.
    pub(crate) bytes_max: usize,
}

/// The change that a write in a group asks for.
#[derive(Debug)]
pub(crate) enum Wanted {
    Keep,
    Remove,
    /// Put this row, which has no version yet.
    Put(Vec<u8>),
}

/// The decision of a write in a group.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) wanted: Wanted,
    /// Bytes of the old row, expired or not.
    pub(crate) old_bytes: Option<usize>,
    /// Its version; 0 without a row.
    pub(crate) old_version: u64,
}

/// Calls `decide` with the old row, unless it has expired, and returns the decision.
pub(crate) fn decide_on(
    old: Option<Row<'_>>,
    now_ms: u64,
    new: &mut RowBuf,
    decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
) -> Decision {
    new.clear();
    let live = old.filter(|row| !row.is_expired(now_ms));
    let wanted = match decide(live, new) {
        Update::Keep => Wanted::Keep,
        // There is no row, so nothing is logged.
        Update::Remove if old.is_none() => Wanted::Keep,
        Update::Remove => Wanted::Remove,
        Update::Put => {
            let mut bytes = Vec::new();
            new.encode_over(live.as_ref(), 0, &mut bytes);
            Wanted::Put(bytes)
        }
    };
    let old_bytes = old.map(|row| row.bytes().len());
    Decision { wanted, old_bytes, old_version: old.map_or(0, |row| row.version()) }
}

/// The state of a key in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The group has not written it: the stored row counts.
    Stored,
    /// The group has written this row, or has removed the row.
    Pending(Option<&'a [u8]>),
}

/// The pending writes of a group.
#[derive(Debug)]
pub(crate) struct Group {
    rows: BTreeMap<Vec<u8>, PendingRow>,
    /// If the group clears the store: the version up to which stored rows are removed.
    clear_version: Option<u64>,
    size: RecordSize,
    bytes: usize,
    is_too_large: bool,
    /// Rows that the commit adds, minus those that it removes, except by a clear.
    rows_added: i64,
    /// Elements that the commit adds, by the id of their collection.
    elements_added: HashMap<u64, i64>,
    /// The collections of which it writes elements or headers, by their ids.
    held: HashMap<u64, Held>,
    /// The memory that the commit adds, as counted by the caller.
    pub(crate) memory_added: i64,
}

impl Group {
    pub(crate) fn new(size: RecordSize) -> Self {
        Group {
            rows: BTreeMap::new(),
            clear_version: None,
            bytes: size.head_bytes,
            size,
            is_too_large: false,
            rows_added: 0,
            elements_added: HashMap::new(),
            held: HashMap::new(),
            memory_added: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && !self.is_cleared()
    }

    pub(crate) fn is_cleared(&self) -> bool {
        self.clear_version.is_some()
    }

    pub(crate) fn clear_version(&self) -> Option<u64> {
        self.clear_version
    }

    /// An upper bound for the bytes of the record.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of rows after the commit, if `stored` rows are stored now.
    pub(crate) fn rows_after(&self, stored: u64) -> u64 {
        let stored = if self.is_cleared() { 0 } else { stored };
        stored.saturating_add_signed(self.rows_added)
    }

    /// The elements that the commit adds to a collection, minus those that it removes.
    pub(crate) fn elements_added(&self, id: u64) -> i64 {
        self.elements_added.get(&id).copied().unwrap_or(0)
    }

    /// Fails if the group is too large.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_too_large {
            Err(Error::usage(format!(
                "the writes of one step come to more than {} bytes of log, and none was made; \
                 make them in smaller steps",
                self.size.bytes_max
            )))
        } else {
            Ok(())
        }
    }

    pub(crate) fn find(&self, key: &[u8]) -> Found<'_> {
        match self.rows.get(key) {
            Some(row) => Found::Pending(row.as_deref()),
            None if self.is_cleared() => Found::Pending(None),
            None => Found::Stored,
        }
    }

    /// Keeps sweeps from the collection that a write is for, until the group has ended. Otherwise
    /// one that has no header for a moment of the commit would be removed.
    pub(crate) fn hold(&mut self, collections: &Collections, key: &[u8], wanted: &Wanted) {
        let id = match (keys::element(key), wanted) {
            (Some((id, _)), _) => Some(id),
            (None, Wanted::Put(row)) => Row::of(row).collection(),
            (None, _) => None,
        };
        if let Some(id) = id
            && !self.held.contains_key(&id)
            && let Some(collection) = collections.get(id)
        {
            self.held.insert(id, Held::new(collection));
        }
    }

    /// Adds a write of `key`: its row, or its removal. `was_there` is whether the group saw a row
    /// before.
    pub(crate) fn write(&mut self, key: &[u8], row: PendingRow, was_there: bool) -> Result<()> {
        let entry =
            |row: &PendingRow| (self.size.entry_bytes)(key.len(), row.as_ref().map(Vec::len));
        let before = self.rows.get(key).map_or(0, entry);
        let bytes = (self.bytes - before).saturating_add(entry(&row));
        if self.is_too_large || bytes > self.size.bytes_max {
            self.is_too_large = true;
            // The group will not be applied any more.
            self.rows.clear();
            return self.check();
        }
        self.bytes = bytes;
        let added = i64::from(row.is_some()) - i64::from(was_there);
        match keys::element(key) {
            Some((id, _)) => *self.elements_added.entry(id).or_default() += added,
            None => self.rows_added += added,
        }
        match self.rows.get_mut(key) {
            Some(waiting) => *waiting = row,
            None => drop(self.rows.insert(key.to_vec(), row)),
        }
        Ok(())
    }

    /// Removes everything up to `version`, and all pending writes.
    pub(crate) fn clear(&mut self, version: u64) -> Result<()> {
        self.check()?;
        self.rows.clear();
        self.clear_version = Some(version);
        self.bytes = self.size.head_bytes.saturating_add((self.size.entry_bytes)(0, None));
        (self.rows_added, self.memory_added) = (0, 0);
        self.elements_added.clear();
        if self.bytes > self.size.bytes_max {
            self.is_too_large = true;
        }
        self.check()
    }

    /// The writes, in the order of their keys.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.rows.iter().map(|(key, row)| (key.as_slice(), row.as_deref()))
    }

    /// Merges the pending rows of a range with the stored ones. The caller passes stored rows to
    /// [`Merged::stored`] in the order of the scan, and then calls [`Merged::finish`].
    pub(crate) fn merge<'a>(
        &'a self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        now_ms: u64,
        visit: &'a mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Merged<'a> {
        let waiting: Entries<'a> = if high.is_some_and(|high| high <= low) {
            Box::new(std::iter::empty())
        } else {
            let high = high.map_or(Bound::Unbounded, Bound::Excluded);
            let range = self.rows.range::<[u8], _>((Bound::Included(low), high));
            let range = range.map(|(key, row)| (key.as_slice(), row.as_deref()));
            if is_reverse { Box::new(range.rev()) } else { Box::new(range) }
        };
        let waiting = waiting.peekable();
        Merged { waiting, is_reverse, now_ms, visit, visited: 0, is_over: false }
    }
}

type Entries<'a> = Box<dyn Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + 'a>;

/// See [`Group::merge`].
pub(crate) struct Merged<'a> {
    waiting: Peekable<Entries<'a>>,
    is_reverse: bool,
    now_ms: u64,
    visit: &'a mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    visited: u64,
    is_over: bool,
}

impl Merged<'_> {
    /// Visits the pending rows before a stored row, and then the stored row.
    pub(crate) fn stored(&mut self, key: &[u8], row: Row<'_>) -> ControlFlow<()> {
        let is_reverse = self.is_reverse;
        let comes_first = |waits: &[u8]| if is_reverse { waits >= key } else { waits <= key };
        while let Some((waits, waiting)) = self.waiting.next_if(|(key, _)| comes_first(key)) {
            if let Some(bytes) = waiting {
                self.visit_row(waits, Row::of(bytes))?;
            }
            if waits == key {
                return ControlFlow::Continue(());
            }
        }
        self.visit_row(key, row)
    }

    /// Visits the remaining pending rows. Returns the number of rows visited.
    pub(crate) fn finish(mut self) -> u64 {
        while !self.is_over
            && let Some((key, waiting)) = self.waiting.next()
        {
            if let Some(bytes) = waiting
                && self.visit_row(key, Row::of(bytes)).is_break()
            {
                break;
            }
        }
        self.visited
    }

    fn visit_row(&mut self, key: &[u8], row: Row<'_>) -> ControlFlow<()> {
        if row.is_expired(self.now_ms) {
            return ControlFlow::Continue(());
        }
        self.visited += 1;
        let flow = (self.visit)(key, row);
        self.is_over = flow.is_break();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(bytes_max: usize) -> Group {
        let entry_bytes = |key, row: Option<usize>| key + row.unwrap_or(2) + 1;
        Group::new(RecordSize { head_bytes: 1, entry_bytes, bytes_max })
    }

    #[test]
    fn a_key_counts_once_and_removals_count() {
        let mut group = group(100);
        group.write(b"key", Some(vec![0; 50]), false).unwrap();
        group.write(b"key", Some(vec![0; 90]), true).unwrap();
        assert_eq!((group.bytes(), group.rows_after(7)), (95, 8));
        assert!(group.write(b"abc", None, true).is_err(), "a removal has its bytes");
        assert!(group.check().is_err() && group.write(b"", Some(vec![0]), false).is_err());
    }

    #[test]
    fn a_group_of_exactly_the_limit_is_accepted() {
        let mut group = group(10);
        group.write(b"abc", Some(vec![0; 5]), false).unwrap();
        assert_eq!(group.bytes(), 10);
        group.write(b"abc", None, true).unwrap();
        assert_eq!((group.bytes(), group.rows_after(0)), (7, 0));
        assert!(group.write(b"x", Some(vec![0; 2]), false).is_err());
    }

    #[test]
    fn a_clear_drops_pending_writes() {
        let mut group = group(100);
        group.write(b"a", Some(vec![0; 50]), false).unwrap();
        group.clear(0).unwrap();
        assert_eq!((group.find(b"a"), group.rows_after(9)), (Found::Pending(None), 0));
        group.write(b"b", Some(vec![0; 50]), false).unwrap();
        assert_eq!((group.bytes(), group.rows_after(9)), (56, 1));
    }
}
