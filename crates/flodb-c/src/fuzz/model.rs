//! What calls have to answer: ordered maps, and copies of them.

use crate::batch::Batch;
use crate::error::Code;
use crate::iterator::Cursor;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use std::collections::BTreeMap;
use std::ops::Bound;

pub(super) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A write to a key space: of a key, or of all keys from the first on and before the second.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put(usize, Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    Range(usize, Vec<u8>, Vec<u8>),
}

pub(super) fn apply(maps: &mut [Map; 2], writes: &[Write]) {
    for write in writes {
        match write {
            Write::Put(space, key, value) => drop(maps[*space].insert(key.clone(), value.clone())),
            Write::Delete(space, key) => drop(maps[*space].remove(key)),
            Write::Range(space, low, high) => {
                maps[*space].retain(|key, _| key < low || key >= high);
            }
        }
    }
}

/// The bytes of one step that say on what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) which: u8,
    pub(super) word: u8,
}

impl Step {
    pub(super) fn slot(self) -> usize {
        usize::from(self.which & 1)
    }

    pub(super) fn space(self) -> usize {
        usize::from(self.which >> 1 & 1)
    }

    /// Whether a handle is null.
    pub(super) fn is_null(self) -> bool {
        self.which >= 0xf4
    }

    /// One of nine keys, the empty one among them.
    pub(super) fn key(self) -> Vec<u8> {
        match self.word % 9 {
            0 => Vec::new(),
            letter => vec![b'k', letter],
        }
    }

    /// A key that is mostly after it.
    pub(super) fn high(self) -> Vec<u8> {
        Step { word: self.word.wrapping_add(self.word >> 5), ..self }.key()
    }

    /// Up to three bytes.
    pub(super) fn value(self) -> Vec<u8> {
        vec![self.word; usize::from(self.word >> 6)]
    }

    pub(super) fn write(self) -> Write {
        match self.which >> 5 & 3 {
            0 => Write::Delete(self.space(), self.key()),
            1 => Write::Range(self.space(), self.key(), self.high()),
            _ => Write::Put(self.space(), self.key(), self.value()),
        }
    }
}

pub(super) struct OpenSnapshot {
    pub(super) handle: *mut Snapshot,
    pub(super) maps: [Map; 2],
}

pub(super) struct OpenBatch {
    pub(super) handle: *mut Batch,
    pub(super) writes: Vec<Write>,
}

pub(super) struct OpenIterator {
    pub(super) handle: *mut Cursor,
    /// What it can show.
    pub(super) map: Map,
    pub(super) at: Option<Vec<u8>>,
    /// The number of its transaction.
    pub(super) owner: Option<u64>,
}

impl OpenIterator {
    /// Next, previous, first, last, seek, seek back.
    pub(super) fn go(&mut self, how: u8, target: &[u8]) {
        let from = |low: Bound<&[u8]>| self.map.range::<[u8], _>((low, Bound::Unbounded)).next();
        let to =
            |high: Bound<&[u8]>| self.map.range::<[u8], _>((Bound::Unbounded, high)).next_back();
        let found = match (how, self.at.as_deref()) {
            (0 | 1, None) => None,
            (0, Some(at)) => from(Bound::Excluded(at)),
            (1, Some(at)) => to(Bound::Excluded(at)),
            (2, _) => self.map.first_key_value(),
            (3, _) => self.map.last_key_value(),
            (4, _) => from(Bound::Included(target)),
            _ => to(Bound::Included(target)),
        };
        self.at = found.map(|(key, _)| key.clone());
    }
}

pub(super) struct OpenTransaction {
    pub(super) handle: *mut Transaction,
    pub(super) number: u64,
    pub(super) is_serializable: bool,
    /// The store when it began, and how many writes there had been.
    pub(super) maps: [Map; 2],
    pub(super) began: u64,
    /// What it has read of the store, before its own writes.
    pub(super) reads: Vec<(usize, Vec<u8>)>,
    pub(super) writes: Vec<Write>,
    /// The number of writes at each.
    pub(super) save_points: Vec<usize>,
    pub(super) is_ended: bool,
    /// A row was locked, which may have moved it to a later moment.
    pub(super) has_moved: bool,
}

impl OpenTransaction {
    /// What it sees.
    pub(super) fn maps(&self) -> [Map; 2] {
        let mut maps = self.maps.clone();
        apply(&mut maps, &self.writes);
        maps
    }

    /// Makes a save point, rolls back to the last one, or releases it.
    pub(super) fn save_point(&mut self, how: u8) -> Code {
        if how == 0 {
            self.save_points.push(self.writes.len());
            return Code::KEYRACK_OK;
        }
        let Some(count) = self.save_points.pop() else { return Code::KEYRACK_USAGE };
        if how == 1 {
            self.writes.truncate(count);
        }
        Code::KEYRACK_OK
    }

    /// Whether its commit must conflict: it writes, and the store is not what it has read.
    pub(super) fn must(&self, now: &[Map; 2]) -> bool {
        let has_changed =
            |(space, key): &(usize, Vec<u8>)| now[*space].get(key) != self.maps[*space].get(key);
        self.is_serializable
            && !self.has_moved
            && !self.writes.is_empty()
            && self.reads.iter().any(has_changed)
    }
}
