//! What the tests of a memtable share: seeds, a model, and walks.

mod basics;
mod interleavings;
mod model;
#[cfg(shuttle)]
mod shuttled;
mod sorted_runs;
mod threads;

use super::{Full, Memtable, MemtableCursor, MemtableOptions, MemtableReservation, Size};
use crate::cursor::Cursor;
use crate::key::tests::{backwards, internal};
use crate::key::{self, Comparator, Kind, Parsed};
use keyrack_testkit::random::{Announced, Draw, mix, seeds};
use std::cmp::Ordering;
use std::sync::Arc;

/// A hash of a key.
fn hash(key: &[u8]) -> u64 {
    key.iter().fold(key.len() as u64, |hash, byte| mix(hash << 8 | u64::from(*byte)))
}

fn memtable(capacity_bytes: usize) -> Arc<Memtable> {
    Arc::new(Memtable::new(capacity_bytes, Comparator::Bytewise, MemtableOptions::default()))
}

/// Inserts with the hash of these tests.
fn insert(
    memtable: &Memtable,
    sequence: u64,
    kind: Kind,
    key: &[u8],
    value: &[u8],
) -> Result<(), Full> {
    memtable.insert(sequence, kind, key, value, hash(key))
}

fn put(memtable: &Memtable, sequence: u64, key: &[u8], value: &[u8]) {
    insert(memtable, sequence, Kind::Put, key, value).expect("there is room");
}

fn delete(memtable: &Memtable, sequence: u64, key: &[u8]) {
    insert(memtable, sequence, Kind::Delete, key, b"").expect("there is room");
}

type Found = Option<(Kind, u64, Vec<u8>)>;

fn get(memtable: &Memtable, key: &[u8], sequence: u64) -> Found {
    memtable.get(key, hash(key), sequence, |kind, sequence, value| (kind, sequence, value.to_vec()))
}

/// The entry of a cursor, owned.
fn entry(cursor: &MemtableCursor) -> Option<(Vec<u8>, Vec<u8>)> {
    cursor.entry().map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// All entries of a cursor, forward.
fn scan(cursor: &mut MemtableCursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    cursor.seek_first().unwrap();
    while let Some(found) = entry(cursor) {
        entries.push(found);
        cursor.next().unwrap();
    }
    entries
}

/// What a memtable should hold.
#[derive(Clone)]
struct Model {
    comparator: Comparator,
    /// Sorted.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn new(comparator: Comparator) -> Self {
        Model { comparator, entries: Vec::new() }
    }

    /// The place of the first entry that is not before an internal key.
    fn lower_bound(&self, target: &[u8]) -> usize {
        let is_before = |key: &[u8]| self.comparator.internal(key, target) == Ordering::Less;
        self.entries.partition_point(|(key, _)| is_before(key))
    }

    fn insert(&mut self, sequence: u64, kind: Kind, key: &[u8], value: &[u8]) {
        let key = internal(key, sequence, kind);
        self.entries.insert(self.lower_bound(&key), (key, value.to_vec()));
    }

    fn get(&self, key: &[u8], sequence: u64) -> Found {
        let at = self.lower_bound(&internal(key, sequence, Kind::LAST));
        let (found, value) = self.entries.get(at)?;
        let Parsed { user, sequence, kind } = key::parse(found)?;
        (user == key).then(|| (kind, sequence, value.clone()))
    }
}
