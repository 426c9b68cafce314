//! The text of a floating-point number: the fewest digits that read back as the same number, at
//! most 17, laid out as Redis does since version 7.2.
//!
//! ```text
//!   digits d1..dn, value = d1...dn * 10^shift
//!   0 <= shift <= 7                                1250000000
//!   -7 < shift < 0, or 0.001 <= value < 10,000     12.5   0.000001   1.23456789
//!   else                                           1.25e+30   1e-7
//! ```

use std::fmt::Write;

/// No text of a number is longer.
pub const DOUBLE_BYTES_MAX: usize = 32;

/// A string on the stack.
#[derive(Debug)]
struct Text {
    bytes: [u8; DOUBLE_BYTES_MAX],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let end = self.length + part.len();
        self.bytes
            .get_mut(self.length..end)
            .ok_or(std::fmt::Error)?
            .copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Appends the text of `number`, at most [`DOUBLE_BYTES_MAX`] bytes: `inf`, `-inf`, `nan`, or
/// decimal digits.
pub fn put_double(out: &mut Vec<u8>, number: f64) {
    if number.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if number.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    // `d.ddde-x` with the fewest digits that make the number.
    let mut text = Text { bytes: [0; DOUBLE_BYTES_MAX], length: 0 };
    let written = write!(text, "{:e}", number.abs());
    debug_assert!(written.is_ok(), "17 digits, a point, an exponent of four");
    let (digits, exponent) = parts(&mut text);
    lay_out(out, digits, exponent);
}

/// Cuts `d.ddde-x` into its digits and the place of the point behind the first.
fn parts(text: &mut Text) -> (&[u8], i32) {
    let written = &mut text.bytes[..text.length];
    let cut = written.iter().position(|&byte| byte == b'e').unwrap_or(written.len());
    let exponent = std::str::from_utf8(written.get(cut + 1..).unwrap_or_default());
    let exponent = exponent.ok().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let mut digits = cut;
    if cut > 1 {
        written.copy_within(2..cut, 1);
        digits -= 1;
    }
    (&written[..digits], exponent)
}

fn lay_out(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let count = digits.len() as i32;
    let shift = exponent + 1 - count;
    let zeros = |count: i32| std::iter::repeat_n(b'0', usize::try_from(count).unwrap_or(0));
    if shift >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        out.extend(zeros(shift));
    } else if shift < 0 && (shift > -7 || exponent.abs() < 4) {
        if let Ok(whole @ 1..) = usize::try_from(exponent + 1) {
            let (before, behind) = digits.split_at(whole);
            out.extend_from_slice(before);
            out.push(b'.');
            out.extend_from_slice(behind);
        } else {
            out.extend_from_slice(b"0.");
            out.extend(zeros(-exponent - 1));
            out.extend_from_slice(digits);
        }
    } else {
        let (first, behind) = digits.split_at(1);
        out.extend_from_slice(first);
        if !behind.is_empty() {
            out.push(b'.');
            out.extend_from_slice(behind);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        out.extend_from_slice(&keyrack_decimal::Decimal::new(u64::from(exponent.unsigned_abs())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: f64) -> String {
        let mut out = Vec::new();
        put_double(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_look_as_in_redis() {
        let table: [(f64, &str); 22] = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (3.15, "3.15"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e7, "10000000"),
            (1e8, "1e+8"),
            (123e7, "1230000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.001, "0.001"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (12_345.678_9, "12345.6789"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (number, expected) in table {
            assert_eq!(text(number), expected);
        }
    }

    #[test]
    fn every_text_reads_back_as_its_number() {
        let mut word = 7_u64;
        for _ in 0..20_000 {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            for number in [f64::from_bits(word), (word >> 40) as f64 / 1000.0] {
                let text = text(number);
                assert!(text.len() <= DOUBLE_BYTES_MAX, "{text}");
                let back: f64 = text.parse().unwrap();
                assert!(back.to_bits() == number.to_bits() || number.is_nan(), "{text}");
            }
        }
    }
}
