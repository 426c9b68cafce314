//! The bytes of values: slices of one pool of random bytes, so that making one costs no copy, or
//! values that tell whether they are what was stored.
//!
//! ```text
//!   plain     pool[offset ..]                       offset moves on by the size
//!   checked   | nonce 8 | seal 8 | pool[place ..]   seal = hash(key, nonce, size)
//!                                                   place = hash(seal)
//!             a checked value of fewer than 16 bytes is the beginning of hash(key, size)
//! ```
//!
//! A checked value belongs to its key, so a reply with another key's value is found, as is one that
//! is cut, grown, or changed in any byte. Whatever else wrote the key last wrote a value that is
//! just as good: nobody has to remember which. Values that a server counts on (incr, append) are
//! never checked.
//!
//! Making a checked value costs a copy; checking one costs a comparison with the pool.

use std::fmt;
use std::sync::Arc;

use keyrack_workload::{Phase, Rng, mix64};

/// Places where a value may start.
const STARTS: usize = 1 << 20;
/// Bytes of nonce and seal.
const HEAD_BYTES: usize = 16;

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It was not made for this key, or is not as long as it was.
    #[error("a value that does not belong to its key, or has lost or won bytes")]
    Foreign,
    /// A byte is not what it was.
    #[error("byte {at} of a value has changed")]
    Changed {
        /// Which byte, from the front.
        at: usize,
    },
}

/// A pool of value bytes, shared by all threads of a process; equal for equal seeds.
#[derive(Clone)]
pub struct Values {
    pool: Arc<[u8]>,
    value_bytes_max: usize,
}

impl Values {
    /// A pool for values of at most `value_bytes_max` bytes: that and 1 MiB in memory.
    #[must_use]
    pub fn new(value_bytes_max: usize, seed: u64) -> Values {
        let mut pool = vec![0; STARTS + value_bytes_max];
        Rng::stream(seed, Phase::Setup, 0, 0).fill(&mut pool);
        Values { pool: pool.into(), value_bytes_max }
    }

    /// The largest value that there is.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    /// A place to begin at, for [`Values::plain`].
    #[must_use]
    pub fn offset(&self, rng: &mut Rng) -> usize {
        rng.below(STARTS as u64) as usize
    }

    /// The next value of a stream, whose place is `offset`, which moves on. Neighbours do not
    /// overlap but when the pool has been used up.
    ///
    /// # Panics
    /// When the size is above the limit that the pool was made for.
    #[inline]
    #[must_use]
    pub fn plain(&self, size: usize, offset: &mut usize) -> &[u8] {
        assert!(size <= self.value_bytes_max, "sizes are within the limit of the pool");
        let start = *offset % STARTS;
        *offset = start + size;
        &self.pool[start..start + size]
    }

    /// Appends a checked value of `size` bytes for `key` to `out`. Values of one key with different
    /// nonces differ.
    ///
    /// # Panics
    /// When the size is above the limit that the pool was made for.
    pub fn append_checked(&self, key: &[u8], nonce: u64, size: usize, out: &mut Vec<u8>) {
        assert!(size <= self.value_bytes_max, "sizes are within the limit of the pool");
        let hash = hash(key, size);
        if size < HEAD_BYTES {
            out.extend_from_slice(&small(hash)[..size]);
            return;
        }
        let seal = mix64(hash ^ mix64(nonce));
        out.extend_from_slice(&nonce.to_le_bytes());
        out.extend_from_slice(&seal.to_le_bytes());
        let place = place(seal);
        out.extend_from_slice(&self.pool[place..place + size - HEAD_BYTES]);
    }

    /// Checks a value that came for `key`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<(), Damage> {
        let hash = hash(key, value.len());
        let Some((head, body)) = value.split_first_chunk::<HEAD_BYTES>() else {
            let expected = small(hash);
            return if value == &expected[..value.len()] { Ok(()) } else { Err(Damage::Foreign) };
        };
        let (nonce, seal) = head.split_at(HEAD_BYTES / 2);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b));
        let seal = word(seal);
        if seal != mix64(hash ^ mix64(word(nonce))) || value.len() > self.value_bytes_max {
            return Err(Damage::Foreign);
        }
        let place = place(seal);
        let expected = &self.pool[place..place + body.len()];
        if body == expected {
            return Ok(());
        }
        let at = body.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
        Err(Damage::Changed { at: HEAD_BYTES + at })
    }
}

impl fmt::Debug for Values {
    /// Nothing of the pool, which is a million numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.value_bytes_max;
        f.debug_struct("Values").field("value_bytes_max", &bytes).finish_non_exhaustive()
    }
}

/// A hash of a key and a size, eight bytes a step.
fn hash(key: &[u8], size: usize) -> u64 {
    let mut hash = mix64((key.len() as u64) << 32 ^ size as u64);
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix64(hash ^ u64::from_le_bytes(word));
    }
    hash
}

/// Sixteen bytes that follow from a hash.
fn small(hash: u64) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&mix64(hash).to_le_bytes());
    bytes[8..].copy_from_slice(&mix64(!hash).to_le_bytes());
    bytes
}

/// Where the pool goes on behind a seal.
fn place(seal: u64) -> usize {
    (mix64(seal) % STARTS as u64) as usize
}
