//! The time since 1970, for stamps, versions and unique numbers. The crate `calendar` makes dates
//! of it.
//!
//! Never used to measure: the wall clock may be set back.

use std::time::{Duration, SystemTime};

/// Milliseconds since 1970, UTC; 0 if the clock stands before it.
pub fn unix_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(0)
}

/// Nanoseconds since 1970, UTC; 0 if the clock stands before it, or after the year 2554.
#[inline]
pub fn unix_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "this is where the wall clock is read")]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_units_are_of_one_clock() {
        let before = unix_ms();
        let between = unix_ns() / 1_000_000;
        assert!((before..=unix_ms()).contains(&between));
        // Later than the year 2024: milliseconds, not seconds or microseconds.
        assert!((1_704_000_000_000..100_000_000_000_000).contains(&before));
    }
}
