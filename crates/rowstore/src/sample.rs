//! Some of the keys, to cut the rows into ranges of about the same number.
//!
//! A key is in the sample when its hash says so: one of 2^n, with n raised whenever there are too
//! many. So each key that is there has the same chance, however often it is written, whatever keys
//! look like, and nobody has to walk the tree to find out. Keys that were removed stay in the
//! sample, and do no harm but to the balance.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Keys kept.
const KEYS_MAX: usize = 2048;
/// Bytes of a key that are kept: a boundary need not be a key.
const KEY_BYTES_MAX: usize = 256;
/// Bits of the hash that others do not use: watermarks have the highest, reads the lowest.
const SHIFT: u32 = 30;

#[derive(Debug, Default)]
pub(crate) struct KeySample {
    mask: AtomicU64,
    keys: Mutex<BTreeSet<Box<[u8]>>>,
}

impl KeySample {
    /// `key`, of this hash, was added to the rows.
    #[inline]
    pub(crate) fn offer(&self, key: &[u8], hash: u64) {
        if (hash >> SHIFT) & self.mask.load(Ordering::Relaxed) == 0 {
            self.add(key);
        }
    }

    #[cold]
    fn add(&self, key: &[u8]) {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.contains(key) {
            return;
        }
        keys.insert(key.into());
        if keys.len() > KEYS_MAX {
            let mask = self.mask.load(Ordering::Relaxed) << 1 | 1;
            self.mask.store(mask, Ordering::Relaxed);
            keys.retain(|key| (crate::watermarks::hash(key) >> SHIFT) & mask == 0);
        }
    }

    /// At most `parts - 1` ascending keys that cut the rows into parts.
    pub(crate) fn cuts(&self, parts: usize) -> Vec<Vec<u8>> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<_> = keys.iter().collect();
        let mut cuts: Vec<Vec<u8>> = (1..parts)
            .filter_map(|part| keys.get(part * keys.len() / parts))
            .map(|key| key.to_vec())
            .collect();
        cuts.dedup();
        cuts.retain(|cut| !cut.is_empty());
        cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watermarks::hash;

    /// Fault 7 of the original: boundaries by the first eight bytes, useless for keys that begin
    /// alike.
    #[test]
    fn keys_with_a_long_common_prefix_are_cut_evenly() {
        let sample = KeySample::default();
        let key = |n: u32| format!("a very long and common prefix/{n:08}").into_bytes();
        for n in 0..40_000 {
            sample.offer(&key(n), hash(&key(n)));
        }
        let cuts = sample.cuts(4);
        assert_eq!(cuts.len(), 3);
        for (cut, part) in cuts.iter().zip([10_000, 20_000, 30_000]) {
            assert!((key(part - 2000)..key(part + 2000)).contains(cut), "{cut:?} for {part}");
        }
        assert!(KeySample::default().cuts(4).is_empty());
    }
}
