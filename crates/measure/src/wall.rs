//! The calendar: stamps for file names, reports and logs.
//!
//! Never used to measure: the wall clock may be set back. Stamps are to the second, truncated.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Milliseconds since the Unix epoch; 0 if the clock stands before it.
pub fn unix_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

/// The present local time as `YYYYmmdd-HHMMSS`, for names of report directories. UTC where the
/// system does not say which zone it is in.
pub fn local_stamp() -> String {
    stamp(&Zoned::now())
}

/// The present time in UTC as RFC 3339, such as `2026-07-29T08:24:39Z`.
pub fn rfc3339_now() -> String {
    rfc3339(Timestamp::now())
}

fn stamp(time: &Zoned) -> String {
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

fn rfc3339(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2009-02-13 23:31:30.999 UTC.
    fn known_time() -> Timestamp {
        Timestamp::from_millisecond(1_234_567_890_999).unwrap()
    }

    #[test]
    fn stamps_have_fixed_shapes() {
        assert_eq!(rfc3339(known_time()), "2009-02-13T23:31:30Z");
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(stamp(&known_time().to_zoned(zone)), "20090214-013130");
        assert_eq!(local_stamp().len(), "20090214-013130".len());
        assert_eq!(local_stamp().as_bytes()[8], b'-');
    }

    #[test]
    fn the_three_clocks_show_one_time() {
        let before = unix_ms() / 1000;
        let between: Timestamp = rfc3339_now().parse().unwrap();
        let after = unix_ms() / 1000;
        let seconds = u64::try_from(between.as_second()).unwrap();
        assert!((before..=after).contains(&seconds));
        // Later than the year 2024: milliseconds, not seconds or microseconds.
        assert!((1_704_000_000_000..100_000_000_000_000).contains(&unix_ms()));
    }
}
