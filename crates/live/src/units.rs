//! Numbers as a person reads them at a glance: three or four digits and a unit.

/// A rate in operations a second: `812`, `81.2 k`, `8.12 M`.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        x if x.is_nan() || x < 0.0 => "-".to_owned(),
        x if x >= 1e9 => format!("{} G", digits(x / 1e9)),
        x if x >= 1e6 => format!("{} M", digits(x / 1e6)),
        x if x >= 1e4 => format!("{} k", digits(x / 1e3)),
        x => format!("{x:.0}"),
    }
}

/// A time in nanoseconds: `812 ns`, `81.2 us`, `8.12 ms`, `1.50 s`.
pub(crate) fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    match ns as f64 {
        x if x >= 1e9 => format!("{} s", digits(x / 1e9)),
        x if x >= 1e6 => format!("{} ms", digits(x / 1e6)),
        x if x >= 1e3 => format!("{} us", digits(x / 1e3)),
        x => format!("{x:.0} ns"),
    }
}

/// Seconds as a clock: `12 s`, `3:07`, `2:03:07`.
pub(crate) fn clock(s: f64) -> String {
    let whole = s.max(0.0) as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min}:{s:02}"),
        (h, min, s) => format!("{h}:{min:02}:{s:02}"),
    }
}

/// Three digits, none of them lost before the point.
fn digits(x: f64) -> String {
    match x {
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let rates = [0.0, 999.4, 9999.0, 10_000.0, 99_960.0, 1_234_567.0, 2.5e10];
        let texts = ["0", "999", "9999", "10.0 k", "100 k", "1.23 M", "25.0 G"];
        assert_eq!(rates.map(rate), texts.map(str::to_owned));
        let times = [999, 1_000, 81_240, 999_960, 1_000_000, 1_500_000_000].map(Some).map(time);
        assert_eq!(times, ["999 ns", "1.00 us", "81.2 us", "1000 us", "1.00 ms", "1.50 s"]);
        assert_eq!((time(None), rate(f64::NAN)), ("-".to_owned(), "-".to_owned()));
        assert_eq!([12.9, 187.0, 7387.0].map(clock), ["12 s", "3:07", "2:03:07"]);
    }
}
