//! # keyrack-decimal: whole numbers as decimal text, eight digits at a time
//!
//! Keys and values of many stores are numbers in decimal. Here they are made and read without a
//! loop and without a branch on how many digits there are, which no processor would guess: a number
//! is cut into groups of eight digits, and the digits of a group are worked on side by side in one
//! word. Numbers below 100 have a branch of their own.
//!
//! ```text
//!   number    12345678
//!   fours     1234        5678          divided by 10,000
//!   twos      12    34    56    78      by 100, two at once
//!   digits    1  2  3  4  5  6  7  8    by 10, four at once
//! ```
//!
//! ```
//! use keyrack_decimal::{Decimal, eight_digits, eight_digits_of};
//!
//! assert_eq!(&*Decimal::new(42), b"42");
//! assert_eq!(&*Decimal::padded(42, 8), b"00000042");
//! assert_eq!(eight_digits(b"00000042"), Some(42));
//! assert_eq!(&eight_digits_of(42), b"00000042");
//! assert_eq!(eight_digits(b"0000004x"), None);
//! ```

#![forbid(unsafe_code)]

use std::ops::Deref;

/// Twenty digits hold every `u64`; the rest is room for padding.
const BYTES: usize = 24;

/// Bytes of a group of digits.
const GROUP: usize = 8;
/// What a group has one more than.
const GROUP_END: u64 = 100_000_000;

/// The eight digits of a number below 10^8, each in a byte, the first in the lowest. Halves are
/// divided side by side: two of four digits, four of two, eight of one. Quotients come from a
/// multiplication and a shift that are exact for numbers so small.
#[inline]
const fn digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 5_243) >> 19) & 0x0000_007F_0000_007F;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((twos - 10 * tens) << 8)
}

/// Zeros in front of the last of eight digits.
#[inline]
const fn zeros(digits: u64) -> usize {
    (digits | (1 << 56)).trailing_zeros() as usize / 8
}

/// The number of which `text` is the decimal text, zeros in front included; `None` if a byte is no
/// digit. Neighbours are joined, three times.
#[inline]
#[must_use]
pub const fn eight_digits(text: &[u8; GROUP]) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let digits = u64::from_le_bytes(*text).wrapping_sub(ZEROS);
    // A byte below '0' borrows or becomes large, one above '9' carries into its upper half.
    if (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF)
}

/// The last eight digits of a number, with zeros in front.
#[inline]
#[must_use]
pub const fn eight_digits_of(number: u64) -> [u8; GROUP] {
    (digits(number % GROUP_END) | 0x3030_3030_3030_3030).to_le_bytes()
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
        let mut bytes = [b'0'; BYTES];
        if number < 100 {
            // The keys of a small store. Where numbers are of all sizes, hardly any is so small.
            let tens = number as u8 / 10;
            bytes[BYTES - 2] += tens;
            bytes[BYTES - 1] += number as u8 % 10;
            return Decimal { bytes, start: BYTES - 1 - usize::from(tens > 0) };
        }
        let mut put = |group: usize, digits: u64| {
            let text = digits | 0x3030_3030_3030_3030;
            bytes[GROUP * group..GROUP * (group + 1)].copy_from_slice(&text.to_le_bytes());
            GROUP * group + zeros(digits)
        };
        let mut start = put(2, digits(number % GROUP_END));
        if number >= GROUP_END {
            let above = number / GROUP_END;
            start = put(1, digits(above % GROUP_END));
            if above >= GROUP_END {
                start = put(0, digits(above / GROUP_END));
            }
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

    /// The output function of splitmix64.
    fn mix64(seed: u64) -> u64 {
        let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    #[test]
    fn the_text_is_that_of_the_standard_formatter() {
        let powers = (0..20).map(|exponent| 10u64.pow(exponent));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1]);
        let drawn = (0..2000).map(|i| mix64(i) >> (mix64(i + 7) % 64));
        for number in edges.chain([u64::MAX]).chain(0..300).chain(drawn) {
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

    #[test]
    fn eight_digits_come_back_as_their_number() {
        let drawn = (0..2000).map(|i| mix64(i) % GROUP_END);
        for number in drawn.chain([0, 1, 9, 10, 99_999_999, 10_000_000, 12_345_678]) {
            let text = format!("{number:08}");
            assert_eq!(eight_digits(text.as_bytes().first_chunk().unwrap()), Some(number));
        }
    }

    /// Each byte value at each place: only digits make a number.
    #[test]
    fn other_bytes_make_no_number() {
        for place in 0..8 {
            for byte in 0..=255_u8 {
                let mut text = *b"12345678";
                text[place] = byte;
                assert_eq!(eight_digits(&text).is_some(), byte.is_ascii_digit(), "{text:?}");
            }
        }
    }
}
