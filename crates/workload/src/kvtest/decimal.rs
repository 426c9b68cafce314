//! Whole numbers as decimal text on the stack: the keys and values of nearly every job.
//!
//! Digits are written from the end of a fixed buffer towards its start, two at a time, so the text
//! needs neither its length beforehand nor an allocation. A least width pads with zeros in front;
//! a number that has more digits keeps them all.

use std::ops::Deref;

/// Twenty digits hold every `u64`; the rest is room for padding.
const BYTES: usize = 24;

/// `00` to `99`, one after another.
const PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut table = [0; 200];
    let mut i = 0;
    while i < 100 {
        table[2 * i] = b'0' + (i / 10) as u8;
        table[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    table
}

/// The decimal text of a number; dereferences to its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    bytes: [u8; BYTES],
    start: usize,
}

impl Decimal {
    /// The text of `number`, without padding.
    #[inline]
    #[must_use]
    pub fn new(number: u64) -> Decimal {
        let (mut bytes, mut start, mut left) = ([b'0'; BYTES], BYTES, number);
        while left >= 100 {
            start -= 2;
            let pair = 2 * (left % 100) as usize;
            bytes[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
            left /= 100;
        }
        if left >= 10 {
            start -= 2;
            let pair = 2 * left as usize;
            bytes[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        } else {
            start -= 1;
            bytes[start] = b'0' + left as u8;
        }
        Decimal { bytes, start }
    }

    /// The text of `number` with zeros in front up to `digits` digits, of which there are at most
    /// 24.
    #[inline]
    #[must_use]
    pub fn padded(number: u64, digits: usize) -> Decimal {
        let mut text = Decimal::new(number);
        // The buffer is all zeros in front of the text.
        text.start = text.start.min(BYTES.saturating_sub(digits));
        text
    }
}

impl Deref for Decimal {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix64;

    #[test]
    fn the_text_is_that_of_the_standard_formatter() {
        let powers = (0..20).map(|exponent| 10u64.pow(exponent));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1]);
        let drawn = (0..2000).map(|i| mix64(i) >> (mix64(i + 7) % 64));
        for number in edges.chain([u64::MAX]).chain(drawn) {
            assert_eq!(&*Decimal::new(number), number.to_string().as_bytes());
            for digits in [0, 1, 8, 10, 16, 24] {
                let expected = format!("{number:0digits$}");
                assert_eq!(&*Decimal::padded(number, digits), expected.as_bytes());
            }
        }
    }

    #[test]
    fn padding_ends_with_the_buffer() {
        assert_eq!(Decimal::padded(7, 1000).len(), 24);
    }
}
