//! A whole number as msgpack has them: below zero down to -2^63, above up to 2^64 - 1.

use std::fmt;

/// A whole number of either range. Two of the same value are equal, however they were written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Int {
    /// The low 64 bits in two's complement.
    bits: u64,
    negative: bool,
}

impl Int {
    /// The number, unless it is below zero.
    #[inline]
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        if self.negative { None } else { Some(self.bits) }
    }

    /// The number, unless it is 2^63 or more.
    #[inline]
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        let number = self.bits.cast_signed();
        if self.negative || number >= 0 { Some(number) } else { None }
    }
}

impl From<u64> for Int {
    #[inline]
    fn from(number: u64) -> Self {
        Self { bits: number, negative: false }
    }
}

impl From<i64> for Int {
    #[inline]
    fn from(number: i64) -> Self {
        Self { bits: number.cast_unsigned(), negative: number < 0 }
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative { self.bits.cast_signed().fmt(f) } else { self.bits.fmt(f) }
    }
}

impl fmt::Debug for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ranges_are_whole() {
        assert_eq!(Int::from(7_i64), Int::from(7_u64));
        assert_ne!(Int::from(-1_i64), Int::from(u64::MAX));
        assert_eq!(Int::from(u64::MAX).as_i64(), None);
        assert_eq!(Int::from(i64::MIN).as_i64(), Some(i64::MIN));
        assert_eq!(Int::from(-1_i64).as_u64(), None);
        assert_eq!(
            format!("{} {:?}", Int::from(u64::MAX), Int::from(-5_i64)),
            format!("{} -5", u64::MAX)
        );
    }
}
