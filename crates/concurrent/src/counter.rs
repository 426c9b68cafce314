//! A sum that many threads add to.
//!
//! One shared word would travel between the processors at each change. So there are as many words
//! as stripes, each in cache lines of its own, and a thread keeps to one of them. A thread that has
//! its stripe alone adds with a load and a store; those that share one have words of their own, and
//! add in one atomic step. The sum reads all: it is exact when nobody adds, and an estimate while
//! somebody does.

use crate::part::Part;
use crate::stripe::{STRIPES, Stripe, stripe};
use crossbeam_utils::CachePadded;
use std::array;
use std::sync::atomic::{AtomicI64, Ordering};

/// A signed sum, cheap to add to and O(stripes) to read.
#[derive(Debug)]
pub struct Counter {
    alone: [CachePadded<AtomicI64>; STRIPES],
    shared: [CachePadded<AtomicI64>; SHARED_WORDS],
}

/// Words for threads that have no stripe alone. Fewer than stripes: such threads meet anyway.
const SHARED_WORDS: usize = 16;

impl Default for Counter {
    fn default() -> Self {
        Counter { alone: array::from_fn(|_| zero()), shared: array::from_fn(|_| zero()) }
    }
}

fn zero() -> CachePadded<AtomicI64> {
    CachePadded::new(AtomicI64::new(0))
}

impl Counter {
    /// Zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `amount`, which may be negative.
    #[inline]
    pub fn add(&self, amount: i64) {
        match stripe() {
            Stripe { number, alone: true } => {
                let word = &self.alone[number];
                let sum = word.load(Ordering::Relaxed).wrapping_add(amount);
                word.store(sum, Ordering::Relaxed);
            }
            Stripe { number, .. } => {
                self.shared[number % SHARED_WORDS].fetch_add(amount, Ordering::Relaxed);
            }
        }
    }

    /// Where its words lie.
    #[must_use]
    pub fn parts(&self, name: &'static str) -> Vec<Part> {
        self.alone.iter().chain(&self.shared).map(|word| Part::of(name, word)).collect()
    }

    /// The sum: exact when no thread adds meanwhile.
    #[must_use]
    pub fn sum(&self) -> i64 {
        let words = self.alone.iter().chain(&self.shared);
        words.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        const THREADS: i64 = 3 * STRIPES as i64;
        for round in 1..=20 {
            let counter = Counter::new();
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| (0..1000).for_each(|_| counter.add(3)));
                }
                (0..100).for_each(|_| counter.add(-1));
            });
            assert_eq!(counter.sum(), THREADS * 1000 * 3 - 100, "round {round}");
        }
    }
}
