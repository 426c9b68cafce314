//! The text of a key, bit for bit that of mutilate, so that data sets loaded by either serve both.
//!
//! ```text
//!   key i of n   prefix | zeros | i in decimal
//!                       |<-- size digits -->|
//!   size         max(round(quantile(h / (2^64 - 1))), digits of n), at most the protocol's limit
//!   h            FNV-1a of the eight little-endian bytes of i
//! ```
//!
//! So a key has one size for ever, and sizes follow the distribution. The prefix stands in front
//! and is not counted in the size, but it is in the limit.

use keyrack_decimal::{Decimal, eight_digits_of};
use keyrack_workload::{Distribution, Error, fnv1a64};

/// The longest key that mutilate makes.
const MUTILATE_BYTES_MAX: usize = 255;
/// Digits that are overwritten together.
const PATCH_DIGITS: usize = 8;

/// How an index becomes the bytes of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyText {
    prefix: Vec<u8>,
    distribution: Distribution,
    /// The digits that the number of keys has: every index has its place.
    digits_min: usize,
    /// The most digits that fit behind the prefix.
    digits_max: usize,
    /// The digits of every key, when all have as many.
    digits_fixed: Option<usize>,
    /// Do keys differ in their last eight digits alone?
    is_patched: bool,
}

impl KeyText {
    /// The text of the keys 0 to `records - 1`, of at most `key_bytes_max` bytes each, with the
    /// prefix: 250 for memcached.
    ///
    /// # Errors
    /// [`Error::Parameter`] when a key does not fit, or the prefix has a byte that the protocol
    /// forbids in keys: a blank or a control character.
    pub fn new(
        distribution: &Distribution,
        records: u64,
        prefix: &[u8],
        key_bytes_max: usize,
    ) -> Result<KeyText, Error> {
        let digits_min = decimal_digits(records);
        let digits_max = key_bytes_max.min(MUTILATE_BYTES_MAX).saturating_sub(prefix.len());
        if digits_max < digits_min {
            return Err(Error::Parameter {
                name: "key size",
                value: format!("{} bytes of prefix and {digits_min} digits", prefix.len()),
                expected: "no more bytes than the protocol has for a key",
            });
        }
        if let Some(byte) = prefix.iter().find(|byte| **byte <= b' ' || **byte == 0x7f) {
            return Err(Error::Parameter {
                name: "prefix",
                value: format!("with the byte {byte:#04x}"),
                expected: "no blanks and no control characters",
            });
        }
        let mut text = KeyText {
            prefix: prefix.to_vec(),
            distribution: distribution.clone(),
            digits_min,
            digits_max,
            digits_fixed: None,
            is_patched: false,
        };
        if matches!(distribution, Distribution::Fixed(_)) {
            let digits = text.digits(0);
            text.digits_fixed = Some(digits);
            text.is_patched = digits >= PATCH_DIGITS && digits_min <= PATCH_DIGITS;
        }
        Ok(text)
    }

    /// Bytes of key `index`, prefix included.
    #[inline]
    #[must_use]
    pub fn len(&self, index: u64) -> usize {
        self.prefix.len() + self.digits(index)
    }

    /// Never: a key has at least one digit.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of every key, when all have as many: then a request can be patched in place.
    #[must_use]
    pub fn fixed_len(&self) -> Option<usize> {
        self.digits_fixed.map(|digits| self.prefix.len() + digits)
    }

    /// Bytes of the longest key that there may be.
    #[must_use]
    pub fn len_max(&self) -> usize {
        self.prefix.len() + self.digits_fixed.unwrap_or(self.digits_max)
    }

    /// What stands in front of the digits.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Appends key `index` to `out`.
    #[inline]
    pub fn append(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        let start = out.len();
        out.resize(start + self.digits(index), b'0');
        put_digits(index, &mut out[start..]);
    }

    /// Overwrites `out`, which has [`KeyText::len`] bytes, with key `index`.
    ///
    /// # Panics
    /// When `out` is shorter than the prefix.
    #[inline]
    pub fn write(&self, index: u64, out: &mut [u8]) {
        let (prefix, digits) = out.split_at_mut(self.prefix.len());
        prefix.copy_from_slice(&self.prefix);
        digits.fill(b'0');
        put_digits(index, digits);
    }

    /// Overwrites `out`, which holds another key of [`KeyText::fixed_len`] bytes, with key `index`,
    /// one of the records: only digits that may differ are written.
    ///
    /// # Panics
    /// When `out` is shorter than such a key.
    #[inline]
    pub fn overwrite(&self, index: u64, out: &mut [u8]) {
        match out.last_chunk_mut() {
            Some(digits) if self.is_patched => *digits = eight_digits_of(index),
            _ => self.write(index, out),
        }
    }

    #[inline]
    fn digits(&self, index: u64) -> usize {
        if let Some(digits) = self.digits_fixed {
            return digits.max(decimal_digits(index)).min(self.digits_max);
        }
        let u = fnv1a64(index) as f64 / u64::MAX as f64;
        // The cast takes what is below 0 for 0.
        let drawn = self.distribution.key_size(u).round() as usize;
        drawn.max(self.digits_min).max(decimal_digits(index)).min(self.digits_max)
    }
}

/// Puts the decimal text at the end of `out`; digits that have no place there are left out.
#[inline]
fn put_digits(number: u64, out: &mut [u8]) {
    let text = Decimal::new(number);
    let count = text.len().min(out.len());
    let start = out.len() - count;
    out[start..].copy_from_slice(&text[text.len() - count..]);
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// A key cut in two for `--assoc`: the name of a hash table, and the last `bytes` bytes as a field
/// of it. `None` for keys of at most `bytes + 1` bytes, which stay whole.
#[inline]
#[must_use]
pub fn split_assoc(key: &[u8], bytes: usize) -> Option<(&[u8], &[u8])> {
    (key.len() > bytes + 1).then(|| key.split_at(key.len() - bytes))
}
