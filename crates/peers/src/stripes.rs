//! Locks that make reading and writing one key a single step, over an engine that has no such step
//! of its own.
//!
//! Blind writes of a key share its lock, so that they do not wait for each other; an update has it
//! alone while it reads, decides and writes. A key's lock is one of 64, by a hash of its last
//! eight bytes. A batch shares the locks of all its keys, or owns them where the engine has no
//! batches, taken in ascending order; an update holds one and takes no other. So nobody waits in a
//! circle. Readers take none.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const COUNT: usize = 64;

/// A lock on a pair of cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe(RwLock<()>);

/// The locks of one store.
#[derive(Debug)]
pub(crate) struct Stripes(Box<[Stripe; COUNT]>);

impl Stripes {
    pub(crate) fn new() -> Self {
        Stripes(Box::new(std::array::from_fn(|_| Stripe::default())))
    }

    /// For a blind write of `key`.
    pub(crate) fn share(&self, key: &[u8]) -> RwLockReadGuard<'_, ()> {
        self.read(index(key))
    }

    /// For blind writes of all of `keys`. O(keys).
    #[cfg(any(
        test,
        feature = "fjall",
        feature = "rocksdb",
        feature = "loaded",
        feature = "tidesdb"
    ))]
    pub(crate) fn share_all<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<RwLockReadGuard<'_, ()>> {
        places(keys).map(|place| self.read(place)).collect()
    }

    /// For writes of all of `keys` that no other write comes between. O(keys).
    #[cfg(any(test, feature = "indexes"))]
    pub(crate) fn own_all<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<RwLockWriteGuard<'_, ()>> {
        places(keys).map(|place| self.write(place)).collect()
    }

    /// For an update of `key`.
    pub(crate) fn own(&self, key: &[u8]) -> RwLockWriteGuard<'_, ()> {
        self.write(index(key))
    }

    // A thread that panicked under a lock left nothing of ours behind: the locks guard no data.
    fn write(&self, place: usize) -> RwLockWriteGuard<'_, ()> {
        self.0[place].0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, place: usize) -> RwLockReadGuard<'_, ()> {
        self.0[place].0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places of the locks of `keys`, each once, ascending. O(keys).
fn places<'a>(keys: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = usize> {
    let wanted = keys.fold(0u64, |wanted, key| wanted | 1 << index(key));
    (0..COUNT).filter(move |place| wanted >> place & 1 == 1)
}

/// The top six bits of a product that depends on every bit of the last eight bytes.
fn index(key: &[u8]) -> usize {
    let mut word = [0; 8];
    let tail = &key[key.len().saturating_sub(8)..];
    word[..tail.len()].copy_from_slice(tail);
    let mixed = u64::from_le_bytes(word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_update_has_its_key_alone_and_writers_share() {
        let stripes = Stripes::new();
        let of = |key: &[u8]| &stripes.0[index(key)].0;
        let first = stripes.share(b"key");
        let second = stripes.share(b"key");
        assert!(of(b"key").try_write().is_err());
        drop((first, second));
        let alone = stripes.own(b"key");
        assert!(of(b"key").try_read().is_err());
        drop(alone);
        assert!(of(b"key").try_write().is_ok());
    }

    #[test]
    fn a_batch_takes_each_lock_once() {
        let stripes = Stripes::new();
        let keys: Vec<[u8; 4]> = (0..1000u32).map(u32::to_be_bytes).collect();
        let held = stripes.share_all(keys.iter().map(<[u8; 4]>::as_slice));
        assert_eq!(held.len(), COUNT);
        assert!(stripes.0.iter().all(|stripe| stripe.0.try_write().is_err()));
        drop(held);
        assert_eq!(stripes.share_all([&b"a"[..], b"a", b"a"].into_iter()).len(), 1);
        assert!(stripes.share_all(std::iter::empty()).is_empty());
        let owned = stripes.own_all([&b"a"[..], b"b", b"a"].into_iter());
        assert_eq!(owned.len(), 2);
        let of = |key: &[u8]| &stripes.0[index(key)].0;
        assert!(of(b"a").try_read().is_err() && of(b"b").try_read().is_err());
        drop(owned);
        assert!(of(b"a").try_write().is_ok());
    }

    #[test]
    fn decimal_keys_and_short_ones_spread_over_the_locks() {
        let decimal: HashSet<usize> =
            (0..1000).map(|n| index(format!("{n:016}").as_bytes())).collect();
        assert_eq!(decimal.len(), COUNT);
        let short: HashSet<usize> = (0..=255).map(|byte| index(&[byte])).collect();
        assert!(short.len() > COUNT / 2, "{}", short.len());
        assert!(index(b"") < COUNT);
    }
}
