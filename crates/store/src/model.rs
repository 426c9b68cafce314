//! The oracle: a `BTreeMap` behind one lock. Every engine must answer as it does. It is also a
//! baseline for measurements: correct, simple, and serialised.
//!
//! A scan copies a chunk of rows under the lock and visits them without it, so a visitor may read
//! through another session: a second read lock behind a waiting writer would never be granted.

use crate::{
    Batch, BatchOp, Durability, Removed, Result, Session, Snapshot, Store, StoreInfo, Update,
};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A locked `BTreeMap`: reads share the lock, writes and batches take it alone, so batches are
/// atomic to every lookup. A scan sees each of its chunks at one point in time. Point operations
/// are O(log n).
#[derive(Debug, Default)]
pub struct ModelStore {
    map: RwLock<Map>,
}

impl ModelStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    // A poisoned lock means that a visitor panicked. The map itself is whole: every mutation of
    // it is one BTreeMap call that runs no foreign code.
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for ModelStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(ModelSession { store: self, buffer: Vec::new(), chunk: Chunk::default() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new("btree (locked)", Durability::None)
    }

    /// O(n): copies the map.
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        Ok(Some(Box::new(ModelSnapshot { map: self.read().clone() })))
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        visit("keys", self.read().len() as f64);
    }
}

struct ModelSession<'a> {
    store: &'a ModelStore,
    buffer: Vec<u8>,
    chunk: Chunk,
}

/// Rows copied out of the map: keys and values one after another, and where each ends.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

/// Rows and bytes after which a chunk is full.
const CHUNK_ROWS_MAX: usize = 128;
const CHUNK_BYTES_MAX: usize = 64 << 10;

impl Chunk {
    /// Copies rows until the chunk is full. Says whether there may be more.
    fn fill<'m>(&mut self, rows: impl Iterator<Item = (&'m Vec<u8>, &'m Vec<u8>)>) -> bool {
        self.bytes.clear();
        self.ends.clear();
        for (key, value) in rows {
            self.bytes.extend_from_slice(key);
            let key_end = self.bytes.len();
            self.bytes.extend_from_slice(value);
            self.ends.push((key_end, self.bytes.len()));
            if self.ends.len() >= CHUNK_ROWS_MAX || self.bytes.len() >= CHUNK_BYTES_MAX {
                return true;
            }
        }
        false
    }

    /// The row that begins at `start` and has the given ends.
    fn row(&self, start: usize, (key_end, end): (usize, usize)) -> (&[u8], &[u8]) {
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    /// Visits all rows; says whether the visitor broke off, and counts into `visited`.
    fn visit(
        &self,
        visited: &mut u64,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut start = 0;
        for &ends in &self.ends {
            let (key, value) = self.row(start, ends);
            *visited += 1;
            visit(key, value)?;
            start = ends.1;
        }
        ControlFlow::Continue(())
    }

    /// The key of the last row.
    fn last_key(&self) -> &[u8] {
        let Some(&ends) = self.ends.last() else { return &[] };
        let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].1);
        self.row(start, ends).0
    }
}

impl Session for ModelSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(get(&self.store.read(), key, visit))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        put(&mut self.store.write(), key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let found = self.store.write().remove(key);
        Ok(if found.is_some() { Removed::Existed } else { Removed::Absent })
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        self.buffer.clear();
        let mut map = self.store.write();
        match decide(map.get(key).map(Vec::as_slice), &mut self.buffer) {
            Update::Keep => {}
            Update::Put => put(&mut map, key, &self.buffer),
            Update::Remove => {
                map.remove(key);
            }
        }
        Ok(())
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        if is_empty_range(low, high) {
            return Ok(0);
        }
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        let mut visited = 0;
        let mut more =
            self.chunk.fill(self.store.read().range::<[u8], _>((Bound::Included(low), high)));
        while self.chunk.visit(&mut visited, visit).is_continue() && more {
            self.buffer.clear();
            self.buffer.extend_from_slice(self.chunk.last_key());
            let from = Bound::Excluded(self.buffer.as_slice());
            if is_nothing_between(&from, &high) {
                break;
            }
            more = self.chunk.fill(self.store.read().range::<[u8], _>((from, high)));
        }
        Ok(visited)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        if is_empty_range(low, high) {
            return Ok(0);
        }
        let low = Bound::Included(low);
        let high = high.map_or(Bound::Unbounded, Bound::Excluded);
        let mut visited = 0;
        let mut more = self.chunk.fill(self.store.read().range::<[u8], _>((low, high)).rev());
        while self.chunk.visit(&mut visited, visit).is_continue() && more {
            self.buffer.clear();
            self.buffer.extend_from_slice(self.chunk.last_key());
            let to = Bound::Excluded(self.buffer.as_slice());
            more = self.chunk.fill(self.store.read().range::<[u8], _>((low, to)).rev());
        }
        Ok(visited)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let mut map = self.store.write();
        for op in batch.iter() {
            match op {
                BatchOp::Put(key, value) => put(&mut map, key, value),
                BatchOp::Remove(key) => {
                    map.remove(key);
                }
            }
        }
        Ok(())
    }
}

struct ModelSnapshot {
    map: Map,
}

impl Snapshot for ModelSnapshot {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(get(&self.map, key, visit))
    }

    fn scan(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(scan(&self.map, low, high, visit))
    }
}

fn get(map: &Map, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
    match map.get(key) {
        Some(value) => {
            visit(value);
            true
        }
        None => false,
    }
}

// An overwrite reuses the old value's memory; only a new key allocates.
fn put(map: &mut Map, key: &[u8], value: &[u8]) {
    match map.get_mut(key) {
        Some(old) => {
            old.clear();
            old.extend_from_slice(value);
        }
        None => {
            map.insert(key.to_vec(), value.to_vec());
        }
    }
}

fn scan(
    map: &Map,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> u64 {
    // BTreeMap::range panics on an inverted range; the contract calls it empty.
    if is_empty_range(low, high) {
        return 0;
    }
    visit_rows(map.range::<[u8], _>(bounds(low, high)), visit)
}

fn is_empty_range(low: &[u8], high: Option<&[u8]>) -> bool {
    high.is_some_and(|high| high <= low)
}

/// Whether `from` and `to` exclude one and the same key, which the map calls a mistake.
fn is_nothing_between(from: &Bound<&[u8]>, to: &Bound<&[u8]>) -> bool {
    matches!((from, to), (Bound::Excluded(from), Bound::Excluded(to)) if from >= to)
}

fn bounds<'a>(low: &'a [u8], high: Option<&'a [u8]>) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded))
}

fn visit_rows<'m>(
    rows: impl Iterator<Item = (&'m Vec<u8>, &'m Vec<u8>)>,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> u64 {
    let mut visited = 0;
    for (key, value) in rows {
        visited += 1;
        if visit(key, value).is_break() {
            break;
        }
    }
    visited
}
