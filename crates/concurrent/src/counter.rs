//! A sum that many threads add to.
//!
//! One shared word would travel between the processors at each change. So there are as many words
//! as stripes, each in cache lines of its own, and a thread keeps to one of them. The sum reads
//! all: it is exact when nobody adds, and an estimate while somebody does.

use crate::stripe::{STRIPES, stripe};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicI64, Ordering};

/// A signed sum, cheap to add to and O(stripes) to read.
#[derive(Debug, Default)]
pub struct Counter {
    stripes: [CachePadded<AtomicI64>; STRIPES],
}

impl Counter {
    /// Zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `amount`, which may be negative.
    pub fn add(&self, amount: i64) {
        self.stripes[stripe()].fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum: exact when no thread adds meanwhile.
    #[must_use]
    pub fn sum(&self) -> i64 {
        let loads = self.stripes.iter().map(|stripe| stripe.load(Ordering::Relaxed));
        loads.fold(0, i64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| counter.add(3)));
            }
            (0..100).for_each(|_| counter.add(-1));
        });
        assert_eq!(counter.sum(), 20 * 100 * 3 - 100);
    }
}
