//! The calendar: stamps for file names, reports and logs.
//!
//! ```text
//! 1234567890.999 s since 1970   RFC 3339   2009-02-13T23:31:30Z
//!                               local      20090214-013130
//!                               ctime      Sat Feb 14 01:31:30 2009
//! ```
//!
//! Never used to measure: the wall clock may be set back. Stamps are to the second,
//! those of logs to the millisecond, truncated. The clock is that of `measure`; only the crates
//! that print a date have the time zones of this one.
#![forbid(unsafe_code)]

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use keyrack_measure::wall::unix_ns;

/// The present local time as `YYYYmmdd-HHMMSS`, for names of report directories. UTC where the
/// system does not say which zone it is in.
pub fn local_stamp() -> String {
    stamp(&of_ns(unix_ns()).to_zoned(TimeZone::system()))
}

/// The present time in UTC as RFC 3339, such as `2026-07-29T08:24:39Z`.
pub fn rfc3339_now() -> String {
    rfc3339_of_ns(unix_ns())
}

/// The local time of an RFC 3339 stamp in the words of C's `ctime`: `Wed Oct 24 14:54:39 2012`, the
/// day of the month two columns wide. `None` where `stamp` is none.
#[must_use]
pub fn ctime(stamp: &str) -> Option<String> {
    let time: Timestamp = stamp.parse().ok()?;
    Some(ctime_of(&time.to_zoned(TimeZone::system())))
}

fn ctime_of(time: &Zoned) -> String {
    time.strftime("%a %b %e %H:%M:%S %Y").to_string()
}

fn stamp(time: &Zoned) -> String {
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

/// A time in nanoseconds since 1970 in UTC as RFC 3339, to the second. The end of the calendar
/// where there is none for it.
#[must_use]
pub fn rfc3339_of_ns(unix_ns: u64) -> String {
    rfc3339(of_ns(unix_ns))
}

/// A time in milliseconds since 1970 in UTC as RFC 3339, with the fraction of a second that it
/// has. [`unix_s`] gives it back.
#[must_use]
pub fn rfc3339_of_ms(unix_ms: u64) -> String {
    of_ns(unix_ms.saturating_mul(1_000_000)).to_string()
}

/// A time in nanoseconds since 1970 in UTC as RFC 3339 with milliseconds, such as
/// `2026-07-29T08:24:39.007Z`.
#[must_use]
pub fn rfc3339_millis_of_ns(unix_ns: u64) -> String {
    of_ns(unix_ns).to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Seconds since 1970 of an RFC 3339 stamp; `None` for anything else.
#[must_use]
pub fn unix_s(stamp: &str) -> Option<f64> {
    stamp.parse::<Timestamp>().ok().map(|time| time.as_duration().as_secs_f64())
}

fn of_ns(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(Timestamp::MAX)
}

fn rfc3339(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_come_back() {
        for (unix_ms, stamp) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_789_996_931_734, "2026-09-21T13:22:11.734Z"),
            (1_789_996_931_700, "2026-09-21T13:22:11.7Z"),
            (1_789_996_931_000, "2026-09-21T13:22:11Z"),
        ] {
            assert_eq!(rfc3339_of_ms(unix_ms), stamp);
            assert_eq!((unix_s(stamp).unwrap() * 1000.0).round() as u64, unix_ms);
        }
    }

    #[test]
    fn nanoseconds_as_a_stamp() {
        assert_eq!(rfc3339_of_ns(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339_of_ns(1_234_567_890_999_999_999), "2009-02-13T23:31:30Z");
        assert!(rfc3339_of_ns(u64::MAX).starts_with("2554-07-21T"));
        assert_eq!(rfc3339_millis_of_ns(1_234_567_890_007_999_999), "2009-02-13T23:31:30.007Z");
        assert_eq!(rfc3339_millis_of_ns(0), "1970-01-01T00:00:00.000Z");
    }

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
    fn c_time_has_its_words() {
        assert_eq!(ctime_of(&known_time().to_zoned(TimeZone::UTC)), "Fri Feb 13 23:31:30 2009");
        let early = Timestamp::from_second(1_351_036_800 - 20 * 86_400).unwrap();
        assert_eq!(ctime_of(&early.to_zoned(TimeZone::UTC)), "Thu Oct  4 00:00:00 2012");
        assert_eq!(ctime("2012-10-24T14:54:39Z").map(|text| text.len()), Some(24));
        assert_eq!(ctime("yesterday"), None);
    }

    #[test]
    fn stamps_are_seconds_since_1970() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T12:00:00Z", 951_825_600.0),
            ("2000-03-01T00:00:00Z", 951_868_800.0),
            ("2023-11-14T22:13:20Z", 1_700_000_000.0),
            ("2100-03-01T00:00:00.5Z", 4_107_542_400.5),
        ];
        for (text, seconds) in cases {
            assert_eq!(unix_s(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_stamps() {
        for text in ["", "now", "2023-11-14", "2023-13-14T00:00:00Z", "2023-11-14T24:00:00Z"] {
            assert_eq!(unix_s(text), None, "{text}");
        }
    }

    #[test]
    fn the_present_time_is_that_of_the_clock() {
        let before = unix_ns() / 1_000_000_000;
        let between = unix_s(&rfc3339_now()).unwrap() as u64;
        assert!((before..=unix_ns() / 1_000_000_000).contains(&between));
    }
}
