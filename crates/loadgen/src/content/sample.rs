//! A part of the keys that everybody agrees on without talking: those whose hash is low enough.
//!
//! `--delete90` removes nine tenths of the live keys half-way. Each connection walks over its share
//! of the indexes and removes those that the sample holds; whoever asks later gets the same answer.

use keyrack_workload::mix64;

/// A share of all indexes, chosen by a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    salt: u64,
    /// Hashes below are in; `None` is all.
    below: Option<u64>,
}

impl Sample {
    /// The sample that holds each index with probability `share`.
    #[must_use]
    pub fn new(share: f64, seed: u64) -> Sample {
        let below = (share.max(0.0) * 2f64.powi(64)) as u64;
        Sample { salt: mix64(seed), below: (share < 1.0).then_some(below) }
    }

    /// Whether the sample holds `index`.
    #[inline]
    #[must_use]
    pub fn contains(&self, index: u64) -> bool {
        self.below.is_none_or(|below| mix64(index ^ self.salt) < below)
    }
}
