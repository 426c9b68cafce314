//! Numbers as Redis reads and writes them.
//!
//! An integer is what its decimal text would be, and nothing else: no plus sign, no zeros in front,
//! no spaces. So a value that counts as a number is stored back as the same bytes.
//!
//! INCRBYFLOAT adds in decimal: both numbers in units of 10^-17, which is the last place that Redis
//! prints. 0.1 and 0.2 are 0.3. Redis adds numbers of 80 bits and prints 17 places, with the same
//! result wherever the binary numbers do not show. What has more than 17 places or more than 20
//! digits before the point is added in `f64`.

use keyrack_decimal::Decimal;

/// The text of a number; dereferences to its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntegerText {
    text: [u8; 24],
    start: usize,
}

impl IntegerText {
    pub(crate) fn new(number: i64) -> Self {
        let digits = Decimal::new(number.unsigned_abs());
        let mut text = [0; 24];
        let start = text.len() - digits.len();
        text[start..].copy_from_slice(&digits);
        if number >= 0 {
            return IntegerText { text, start };
        }
        text[start - 1] = b'-';
        IntegerText { text, start: start - 1 }
    }
}

impl std::ops::Deref for IntegerText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let magnitude = natural(digits)?;
    if negative {
        // There is no other zero than 0.
        (magnitude != 0).then_some(())?;
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// The number without a sign of which `text` is the decimal text.
pub(crate) fn natural(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 || (text[0] == b'0' && text.len() > 1) {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Places after the point that an [`Amount`] has.
const PLACES: usize = 17;

/// One, in units of 10^-17.
const ONE: i128 = 100_000_000_000_000_000;

/// Digits before the point that are added exactly.
const WHOLE_DIGITS_MAX: usize = 20;

/// A number that INCRBYFLOAT adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// In units of 10^-17.
    Exact(i128),
    Rounded(f64),
}

impl Amount {
    /// The number of a decimal text with or without point and exponent; infinity too, but no other
    /// word.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let shape = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let unsigned = text.trim_start_matches(['+', '-']);
        let is_infinity =
            unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity");
        if text.len() > 256 || !(is_infinity || text.bytes().all(shape)) {
            return None;
        }
        let rounded: f64 = text.parse().ok()?;
        if is_infinity {
            return Some(Amount::Rounded(rounded));
        }
        Some(exact(text).map_or(Amount::Rounded(rounded), Amount::Exact))
    }

    /// Whether it is no infinity.
    pub(crate) fn is_finite(self) -> bool {
        self.rounded().is_finite()
    }

    /// The sum; nothing when it is infinite or no number.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        if let (Amount::Exact(a), Amount::Exact(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Some(Amount::Exact(sum));
        }
        let sum = self.rounded() + other.rounded();
        sum.is_finite().then_some(Amount::Rounded(sum))
    }

    /// The decimal text, without exponent and without zeros at the end of the places.
    pub(crate) fn text(self) -> String {
        let mut text = match self {
            Amount::Exact(units) => {
                let sign = if units < 0 { "-" } else { "" };
                let (whole, part) =
                    (units.unsigned_abs() / ONE as u128, units.unsigned_abs() % ONE as u128);
                format!("{sign}{whole}.{part:0PLACES$}")
            }
            Amount::Rounded(number) => format!("{number:.PLACES$}"),
        };
        let kept = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(kept);
        if text == "-0" { "0".to_owned() } else { text }
    }

    fn rounded(self) -> f64 {
        match self {
            Amount::Exact(units) => units as f64 / ONE as f64,
            Amount::Rounded(number) => number,
        }
    }
}

/// The number in units of 10^-17, if it is a whole number of them and not too large.
fn exact(text: &str) -> Option<i128> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, number) = match number.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let point = number.iter().position(|&byte| byte == b'.').unwrap_or(number.len());
    // The power of ten, in units, of the digit that comes next.
    let highest = i32::try_from(point).ok()?.checked_sub(1)?;
    let mut power = highest.checked_add(exponent)?.checked_add(i32::try_from(PLACES).ok()?)?;
    let mut units = 0i128;
    for digit in number.iter().filter(|&&byte| byte != b'.').map(|byte| byte - b'0') {
        if digit != 0 {
            let power = u32::try_from(power).ok()?;
            if power as usize >= WHOLE_DIGITS_MAX + PLACES {
                return None;
            }
            units += i128::from(digit) * 10i128.pow(power);
        }
        power = power.checked_sub(1)?;
    }
    Some(if negative { -units } else { units })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_its_own_decimal_text() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(&*IntegerText::new(number), number.to_string().as_bytes());
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for text in
            ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "a", "--1"]
        {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(natural(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(natural(b"18446744073709551616"), None);
    }

    #[test]
    fn decimal_places_are_added_exactly() {
        let add = |a: &str, b: &str| {
            let sum = Amount::parse(a.as_bytes())?.plus(Amount::parse(b.as_bytes())?)?;
            Some(sum.text())
        };
        assert_eq!(add("0.1", "0.2").as_deref(), Some("0.3"));
        assert_eq!(add("10.50", "0.1").as_deref(), Some("10.6"));
        assert_eq!(add("5.0e3", "2.0e2").as_deref(), Some("5200"));
        assert_eq!(add("-1.5", "1.5").as_deref(), Some("0"));
        assert_eq!(add("1", "-0.25").as_deref(), Some("0.75"));
        assert_eq!(add(".5", "-1").as_deref(), Some("-0.5"));
        assert_eq!(add("1e300", "1").map(|text| text.len()), Some(301));
        assert_eq!(add("inf", "1"), None);
        assert_eq!(add("1e99999999999", "1"), None);
        for text in ["", "abc", "1x", "nan", " 1", "1 ", "0x1", "e5", ".", "1e"] {
            assert_eq!(Amount::parse(text.as_bytes()), None, "{text}");
        }
    }
}
