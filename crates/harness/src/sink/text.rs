//! How numbers and names look in every text rendering.
//!
//! Names come from scripts, so whatever could end a line, a column or a terminal's mood is
//! escaped: tab, line feed, carriage return and backslash by their letters, other control
//! characters as `\u{..}`.

use keyrack_record::SweepValue;
pub(super) use keyrack_record::tsv_field as escape;

/// A latency with its unit: `999 ns`, `1.00 us`, `12.34 ms`, `1.50 s`. Nanoseconds are rounded to
/// whole ones first.
#[must_use]
pub fn fmt_latency(ns: f64) -> String {
    let ns = ns.max(0.0).round();
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.2} us", ns / 1e3)
    } else if ns < 1e9 {
        format!("{:.2} ms", ns / 1e6)
    } else {
        format!("{:.2} s", ns / 1e9)
    }
}

/// `text` as one word of an HdrHistogram tag: a comma or a blank would end it.
pub(super) fn tag_word(text: &str) -> String {
    text.replace(|c: char| c == ',' || c == '/' || c.is_whitespace() || c.is_control(), "_")
}

/// Items with commas between.
pub(super) fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// The two sweep columns of the machine-readable rows. A cell without a sweep has no parameter and
/// the value 1.
pub(super) fn sweep_columns(sweep: Option<&SweepValue>) -> (String, i64) {
    match sweep {
        Some(SweepValue { param, value }) => (escape(param), *value),
        None => (String::new(), 1),
    }
}

/// `1 run`, `3 runs`.
pub(super) fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_change_unit_at_a_thousand() {
        let cases = [
            (0.0, "0 ns"),
            (64.0, "64 ns"),
            (999.0, "999 ns"),
            (999.6, "1.00 us"),
            (1_000.0, "1.00 us"),
            (9_540.0, "9.54 us"),
            (407_550.0, "407.55 us"),
            (1_040_000.0, "1.04 ms"),
            (999_000_000.0, "999.00 ms"),
            (1_500_000_000.0, "1.50 s"),
            (120e9, "120.00 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(fmt_latency(ns), text, "{ns}");
        }
    }

    #[test]
    fn names_cannot_leave_their_column() {
        assert_eq!(escape("a\tb\nc\\d\re\u{1b}[2J"), "a\\tb\\nc\\\\d\\re\\u{1b}[2J");
        assert_eq!(escape("cart \u{e9}"), "cart \u{e9}");
        assert_eq!(tag_word("a b,c/d"), "a_b_c_d");
    }
}
