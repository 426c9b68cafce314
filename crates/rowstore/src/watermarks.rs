//! Delete watermarks: lower bounds for the versions of keys that have no row.
//!
//! With a removed row its version is gone. So that the next row of the key still gets a larger
//! one, the removal raises the *watermark* of the key's stripe, inside the lock under which the
//! tree removes it. Keys of a stripe share a watermark, which only leaves gaps in versions.
//!
//! **Invariant:** a write gets a version above the watermark of its key's stripe at the moment of
//! the write. Delete watermarks only rise.

use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

const STRIPES_LOG2: u32 = 12;
/// How many watermarks there are. The number is written into manifests, which can be read with
/// another.
pub(crate) const STRIPES: usize = 1 << STRIPES_LOG2;

/// The hash by which keys are striped. It is part of the format of manifests.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The stripe of a key among [`STRIPES`].
#[inline]
pub(crate) fn stripe(hash: u64) -> usize {
    (hash >> (u64::BITS - STRIPES_LOG2)) as usize
}

#[derive(Debug)]
pub(crate) struct DeleteWatermarks {
    watermarks: Box<[AtomicU64]>,
}

impl DeleteWatermarks {
    pub(crate) fn new() -> Self {
        DeleteWatermarks { watermarks: (0..STRIPES).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The watermark of a key.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> u64 {
        // Acquire pairs with the raises: for one key the lock of its node orders them anyway.
        self.watermarks[stripe(hash)].load(Ordering::Acquire)
    }

    /// Raises the watermark of a key to at least `version`.
    #[inline]
    pub(crate) fn raise(&self, hash: u64, version: u64) {
        self.watermarks[stripe(hash)].fetch_max(version, Ordering::AcqRel);
    }

    /// Raises all watermarks to at least `version`.
    pub(crate) fn raise_all(&self, version: u64) {
        for watermark in &self.watermarks {
            watermark.fetch_max(version, Ordering::AcqRel);
        }
    }

    /// All watermarks, in the order of stripes.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.watermarks.iter().map(|watermark| watermark.load(Ordering::Acquire)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watermark_belongs_to_its_stripe_and_only_rises() {
        let watermarks = DeleteWatermarks::new();
        let (a, b) = (hash(b"a"), hash(b"b"));
        assert_ne!(stripe(a), stripe(b));
        watermarks.raise(a, 7);
        watermarks.raise(a, 5);
        assert_eq!((watermarks.of(a), watermarks.of(b)), (7, 0));
        watermarks.raise_all(6);
        assert_eq!((watermarks.of(a), watermarks.of(b)), (7, 6));
        assert_eq!(watermarks.all()[stripe(a)], 7);
    }

    #[test]
    fn the_hash_is_that_of_the_files() {
        assert_eq!(hash(b""), 0x2d06_8005_38d3_94c2);
    }
}
