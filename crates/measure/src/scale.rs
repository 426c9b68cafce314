//! Conversion between ticks and nanoseconds: one multiplication and one shift.
//!
//! ```text
//! result = (amount * mult + 2^(shift - 1)) >> shift          in 128 bits
//! ```
//!
//! The shift is chosen so that `mult` has 62 or 63 bits: `amount`, up to 64 bits, times `mult` plus
//! the rounding half then fits in 128 bits, and the error of `mult`, at most one half in 2^61,
//! moves a result of less than 2^61 by less than one half.

/// A positive ratio as `mult / 2^shift`, applied with rounding to the nearest integer (halves up).
///
/// `mult` has 62 or 63 bits, so that 2^62 units are converted with an error below one beyond that
/// of the ratio itself, and the product of any `u64` with it fits in 127 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    mult: u64,
    shift: u32,
    /// The ratio times 2^40, for amounts below 2^24: a product of less than 2^63. 0 where the ratio
    /// is too large for that, and the wide way is taken. The error before rounding is below 2^-17.
    short: u64,
}

/// Amounts of fewer bits take the short way.
const SHORT_BITS: u32 = 24;
const SHORT_SHIFT: u32 = 40;

impl Scale {
    /// One to one.
    pub(crate) const IDENTITY: Scale = Scale { mult: 1 << 62, shift: 62, short: 0 };

    /// The ratio `numerator / denominator`, both positive and below 2^48.
    pub(crate) fn of(numerator: u64, denominator: u64) -> Scale {
        assert!(0 < numerator && numerator < 1 << 48, "scale numerator out of range");
        assert!(0 < denominator && denominator < 1 << 48, "scale denominator out of range");
        // The ratio lies within a factor of two of 2^(bits(numerator) - bits(denominator)).
        let shift = 62 + denominator.ilog2() - numerator.ilog2();
        let wide = (u128::from(numerator) << shift) + u128::from(denominator / 2);
        let short = ((u128::from(numerator) << SHORT_SHIFT) + u128::from(denominator / 2))
            / u128::from(denominator);
        let short = if short < 1 << (63 - SHORT_BITS) { short as u64 } else { 0 };
        Scale { mult: (wide / u128::from(denominator)) as u64, shift, short }
    }

    /// `amount` times the ratio, to the nearest integer; `u64::MAX` when it would not fit.
    #[inline]
    pub(crate) fn apply(self, amount: u64) -> u64 {
        // The usual latency, some milliseconds at most: 64 bits and a constant shift.
        if amount >> SHORT_BITS == 0 && self.short != 0 {
            return (amount * self.short + (1 << (SHORT_SHIFT - 1))) >> SHORT_SHIFT;
        }
        let product = u128::from(amount) * u128::from(self.mult);
        let rounded = (product + (1 << (self.shift - 1))) >> self.shift;
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `amount * numerator / denominator` to the nearest integer, by long arithmetic.
    fn exact(amount: u64, numerator: u64, denominator: u64) -> u128 {
        let product = u128::from(amount) * u128::from(numerator);
        (2 * product + u128::from(denominator)) / (2 * u128::from(denominator))
    }

    #[test]
    fn identity_changes_nothing() {
        for amount in [0, 1, 2, 999, (1 << 62) - 1, 1 << 62, u64::MAX] {
            assert_eq!(Scale::IDENTITY.apply(amount), amount);
        }
        assert_eq!(Scale::of(7, 7).apply(u64::MAX), u64::MAX);
    }

    #[test]
    fn conversion_rounds_to_nearest_over_the_whole_range() {
        let rates = [(16_000_000, 41_536_001), (1_000_000_000, 2_596_000_000), (3, 1), (1, 1000)];
        for (numerator, denominator) in rates {
            let scale = Scale::of(numerator, denominator);
            let mut amount = 1u64;
            while amount <= 1 << 62 {
                for amount in [amount - 1, amount, amount + 1, amount / 3 * 2] {
                    let expected = exact(amount, numerator, denominator);
                    let Ok(expected) = u64::try_from(expected) else {
                        assert_eq!(scale.apply(amount), u64::MAX);
                        continue;
                    };
                    // Up to a day the ratio's own error cannot show, but for amounts of the short
                    // way that lie within 2^-17 of a half; at the far end it may by one.
                    let got = scale.apply(amount);
                    let twice = 2 * u128::from(amount) * u128::from(numerator);
                    let off = twice.abs_diff(2 * u128::from(got) * u128::from(denominator));
                    let near_half = off as f64 <= denominator as f64 * 1.000_02;
                    let slack = u64::from(amount > 1 << 50 || near_half);
                    assert!(got.abs_diff(expected) <= slack, "{amount}: {got}, not {expected}");
                }
                amount *= 2;
            }
        }
    }

    #[test]
    fn halves_round_up_and_results_saturate() {
        let half = Scale::of(1, 2);
        assert_eq!([0, 1, 2, 3].map(|amount| half.apply(amount)), [0, 1, 1, 2]);
        assert_eq!(Scale::of(1000, 1).apply(1 << 62), u64::MAX);
    }
}
