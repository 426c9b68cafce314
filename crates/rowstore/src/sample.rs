//! A sample of the keys, by which the rows are cut into ranges of about equal size.
//!
//! The hash of a key decides whether it is in the sample: one key of 2^n is, and n grows when the
//! sample is full. So each key has the same chance, however often it is written and whatever the
//! keys look like, and sampling needs no scan of the tree. Removed keys stay in the sample, which
//! only makes the ranges less equal.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The maximum number of keys.
const KEYS_MAX: usize = 2048;
/// The maximum bytes of a key in the sample: a boundary need not be a key.
const KEY_BYTES_MAX: usize = 256;
/// Uses other bits of the hash than watermarks (the highest) and reference bits (the lowest).
const SHIFT: u32 = 30;

#[derive(Debug, Default)]
pub(crate) struct KeySample {
    mask: AtomicU64,
    keys: Mutex<BTreeSet<Box<[u8]>>>,
}

impl KeySample {
    /// Offers a new key and its hash.
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

    /// At most `parts - 1` ascending keys that split the rows into parts.
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
