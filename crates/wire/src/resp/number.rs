//! Whole numbers as Redis writes them.

/// Digits and sign of any `i64`.
const BYTES_MAX: usize = 20;

/// The number of which `text` is *the* text: no sign `+`, no zeros in front, no `-0`, nothing
/// around it. That is what Redis takes for a length, and for a value that is a number.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    if let [digit @ b'0'..=b'9'] = text {
        return Some(i64::from(digit - b'0'));
    }
    if text.len() > BYTES_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    sum(digits, negative)
}

/// The number in a reply of type integer: a sign `+` and zeros in front are let through.
pub(super) fn lenient_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() { None } else { sum(digits, negative) }
}

/// Sums up on the side of the sign, so that the least number is no special case.
fn sum(digits: &[u8], negative: bool) -> Option<i64> {
    digits.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        let number = number.checked_mul(10)?;
        if negative { number.checked_sub(digit) } else { number.checked_add(digit) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_text() {
        for number in [0, 1, 9, 10, 4_294_967_297, i64::MAX, i64::MIN, -1, -10] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        let none = ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "0x1", "1e3", "--1"];
        for text in none.iter().map(|text| text.as_bytes()) {
            assert_eq!(integer(text), None, "{}", text.escape_ascii());
        }
        for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551615"] {
            assert_eq!(integer(text.as_bytes()), None);
            assert_eq!(lenient_integer(text.as_bytes()), None);
        }
        assert_eq!(integer(&[b'1'; 1000]), None);
    }

    #[test]
    fn a_reply_may_have_a_sign_and_zeros() {
        assert_eq!(lenient_integer(b"+007"), Some(7));
        assert_eq!(lenient_integer(b"-0"), Some(0));
        assert_eq!(lenient_integer(b"+"), None);
        assert_eq!(lenient_integer(b""), None);
        assert_eq!(lenient_integer(b"+-1"), None);
    }
}
