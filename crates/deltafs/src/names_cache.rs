//! Which directory a name stands for, remembered: what the resolution of paths asks most.
//!
//! Files are not kept: there are too many, and nobody passes through them. What is not there is not
//! kept either. An entry is put in with its parent locked, shared or exclusively, and taken out
//! with the parent locked exclusively before the name changes hands, so what is found was true when
//! it was asked for.

use crate::id::DirId;
use crate::record::Key;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PARTS: usize = 64;

#[derive(Debug)]
pub(crate) struct NamesCache {
    parts: Vec<Mutex<HashMap<Box<[u8]>, DirId>>>,
    part_max: usize,
}

impl NamesCache {
    /// Keeps at most about `names_max` names.
    pub(crate) fn new(names_max: usize) -> NamesCache {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        NamesCache { parts, part_max: names_max.div_ceil(PARTS) }
    }

    /// The number of a directory is a digest; the last byte spreads the names of one.
    fn part(&self, dir: DirId, name: &[u8]) -> MutexGuard<'_, HashMap<Box<[u8]>, DirId>> {
        // For a hash: any number will do.
        let last = name.last().copied().unwrap_or_default();
        let index = (dir.0 as usize).wrapping_add(usize::from(last)) % PARTS;
        self.parts[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, dir: DirId, name: &[u8]) -> Option<DirId> {
        self.part(dir, name).get(&*Key::entry(dir, name)).copied()
    }

    pub(crate) fn insert(&self, dir: DirId, name: &[u8], to: DirId) {
        let mut part = self.part(dir, name);
        if part.len() >= self.part_max {
            // Finding the least used would cost every lookup something. What is in use is back
            // after one read each.
            part.clear();
        }
        if self.part_max > 0 {
            part.insert(Box::from(&*Key::entry(dir, name)), to);
        }
    }

    pub(crate) fn remove(&self, dir: DirId, name: &[u8]) {
        self.part(dir, name).remove(&*Key::entry(dir, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_forgotten_and_bounded() {
        let cache = NamesCache::new(640);
        let (dir, to) = (DirId(5), DirId(77));
        cache.insert(dir, b"a", to);
        assert_eq!(cache.get(dir, b"a"), Some(to));
        assert_eq!((cache.get(dir, b"b"), cache.get(DirId(6), b"a")), (None, None));
        cache.remove(dir, b"a");
        assert_eq!(cache.get(dir, b"a"), None);
        for n in 0..10_000_u32 {
            cache.insert(dir, &n.to_be_bytes(), to);
        }
        assert!(cache.parts.iter().all(|part| part.lock().unwrap().len() <= 10));
        let off = NamesCache::new(0);
        off.insert(dir, b"a", to);
        assert_eq!(off.get(dir, b"a"), None);
    }
}
