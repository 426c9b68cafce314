//! The oracle: a `BTreeMap` behind one lock. Every engine must answer as it does. It is also a
//! baseline for measurements: correct, simple, and serialised.

use crate::{Batch, BatchOp, Durability, Removed, Result, Session, Snapshot, Store, Update};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A locked `BTreeMap`: reads share the lock, writes and batches take it alone, so batches are
/// atomic to every reader and a scan is one point in time. Point operations are O(log n).
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
        Ok(Box::new(ModelSession { store: self, buffer: Vec::new() }))
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    fn version(&self) -> String {
        "btree (locked)".to_owned()
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
        Ok(scan(&self.store.read(), low, high, visit))
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
        let map = self.store.read();
        Ok(visit_rows(map.range::<[u8], _>(bounds(low, high)).rev(), visit))
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
