//! Whole numbers as decimal text, checked: what all three protocols write lengths and values with.
//!
//! A number is digits and nothing else: no blank, no `+`, at most [`DIGITS_MAX`] of them. Zeros in
//! front are read over by [`parse_u64`] and [`parse_i64`], and refused by
//! [`parse_i64_canonical`], for which every number has one text only.

use keyrack_decimal::{Decimal, eight_digits};

/// More digits than the largest number has, so that zeros in front may be there but cannot go on.
const DIGITS_MAX: usize = 24;

/// The number that `text` is the decimal text of; nothing when it is none or is above 2^64 - 1.
#[inline]
#[must_use]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let (groups, rest) = text.as_chunks();
    let mut number: u64 = 0;
    for group in groups {
        number = number.checked_mul(100_000_000)?.checked_add(eight_digits(group)?)?;
    }
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

/// As [`parse_u64`] with a `-` in front of numbers below zero; nothing outside of -2^63 to
/// 2^63 - 1.
#[inline]
#[must_use]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.split_first() {
        Some((b'-', digits)) => 0_i64.checked_sub_unsigned(parse_u64(digits)?),
        _ => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// As [`parse_i64`], but only of the text that [`write_i64`] writes: no zero in front, no `-0`.
#[inline]
#[must_use]
pub fn parse_i64_canonical(text: &[u8]) -> Option<i64> {
    match text {
        [b'0', _, ..] | [b'-', b'0', ..] => None,
        _ => parse_i64(text),
    }
}

/// Appends the decimal text of `number`.
#[inline]
pub fn write_u64(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(b'0' + (number % 10) as u8);
    } else {
        out.extend_from_slice(&Decimal::new(number));
    }
}

/// Appends the decimal text of `number`, with a `-` when it is below zero.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    write_u64(out, number.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_and_nothing_else() {
        for text in ["", " 1", "1 ", "+1", "-1", "1a", "0x1", "1.0", "--1", "-", "1\r", "\u{0661}"]
        {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_u64(b"0"), Some(0));
        assert_eq!(parse_u64(b"007"), Some(7));
        assert_eq!(parse_u64(b"12345678"), Some(12_345_678));
        assert_eq!(parse_u64(b"1234567:"), None);
        assert_eq!(parse_u64(&[b'0'; DIGITS_MAX]), Some(0));
        assert_eq!(parse_u64(&[b'0'; DIGITS_MAX + 1]), None);
    }

    #[test]
    fn numbers_end_with_64_bits() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"00018446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"99999999999999999999"), None);
        assert_eq!(parse_u64(b"100000000000000000000000"), None);
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"-"), None);
        assert_eq!(parse_i64(b"--1"), None);
    }

    #[test]
    fn a_canonical_number_has_one_text() {
        assert_eq!(parse_i64_canonical(b"0"), Some(0));
        assert_eq!(parse_i64_canonical(b"-10"), Some(-10));
        for text in ["00", "01", "-0", "-01", "+0", ""] {
            assert_eq!(parse_i64_canonical(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut out = Vec::new();
        let powers = (0..64).map(|shift| 1_u64 << shift);
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            out.clear();
            write_u64(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
            assert_eq!(parse_u64(&out), Some(number));
            let signed = number.cast_signed();
            out.clear();
            write_i64(&mut out, signed);
            assert_eq!(out, signed.to_string().as_bytes());
            assert_eq!(parse_i64_canonical(&out), Some(signed));
        }
    }
}
