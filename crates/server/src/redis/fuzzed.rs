//! Patterns and numbers, for the fuzzer of this crate.

use keyrack_testkit::fuzz::{Shape, shape};

use super::glob::{Glob, Match};
use super::number::{Amount, integer, natural};

/// The first byte says how many of the others are the pattern; the rest is the text.
pub(crate) fn glob(bytes: &[u8]) -> Shape {
    let Some((split, bytes)) = bytes.split_first() else { return 0 };
    let (pattern, text) = bytes.split_at(usize::from(*split).min(bytes.len()));
    let found = Glob::new(pattern).matches(text);
    let prefix = Glob::new(pattern).prefix();
    if found == Match::Yes {
        assert!(text.starts_with(prefix), "what matches has the prefix of the pattern");
    }
    if Glob::new(pattern).is_any() {
        assert_eq!(found, Match::Yes);
    }
    if !pattern.iter().any(|byte| b"*?[\\".contains(byte)) {
        assert_eq!(found == Match::Yes, pattern == text, "no sign but itself");
    }
    shape((found == Match::Yes, found == Match::TooLong, prefix.len().min(5), split.min(&9)))
}

/// A number that is read is written as one that is read the same.
pub(crate) fn number(bytes: &[u8]) -> Shape {
    let (whole, count) = (integer(bytes), natural(bytes));
    if let Some(number) = whole {
        assert_eq!(integer(number.to_string().as_bytes()), Some(number));
    }
    if let Some(number) = count {
        assert_eq!(natural(number.to_string().as_bytes()), Some(number));
    }
    let amount = Amount::parse(bytes);
    if let Some(exact @ Amount::Exact(_)) = amount {
        assert_eq!(Amount::parse(exact.text().as_bytes()), Some(exact));
    }
    let sum = amount.and_then(|amount| amount.plus(Amount::Exact(1)));
    shape((whole.is_some(), count.is_some(), amount.is_some(), sum.is_some(), bytes.len().min(40)))
}
