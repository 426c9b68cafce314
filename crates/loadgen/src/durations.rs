//! Lengths of time as people write them: `250us`, `1.5ms`, `2s`; a bare number has a unit that the
//! place says.

/// Nanoseconds of a text; `None` when it is none, negative, or above a year.
pub(crate) fn parse_ns(text: &str, bare_unit_ns: f64) -> Option<u64> {
    const YEAR_NS: f64 = 366.0 * 86_400.0 * 1e9;
    let text = text.trim();
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit {
        "" => bare_unit_ns,
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let ns = number.trim().parse::<f64>().ok()? * unit_ns;
    (0.0..=YEAR_NS).contains(&ns).then_some(ns.round() as u64)
}

/// A length of time in words that fit a line: three digits and a unit.
pub(crate) fn words(ns: f64) -> String {
    let (number, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match number {
        n if n.fract() == 0.0 && n < 1000.0 => 0,
        n if n < 10.0 => 2,
        n if n < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_bare_numbers() {
        assert_eq!(parse_ns("1.5ms", 1e3), Some(1_500_000));
        assert_eq!(parse_ns("1000", 1e3), Some(1_000_000));
        assert_eq!(parse_ns(" 2 s", 1e3), Some(2_000_000_000));
        assert_eq!(parse_ns("7ns", 1.0), Some(7));
        for text in ["", "ms", "-1s", "1 day", "nan", "inf", "1e300s", "1ss"] {
            assert_eq!(parse_ns(text, 1e3), None, "{text}");
        }
    }

    #[test]
    fn words_have_three_digits() {
        let texts = [5.0, 999.0, 1500.0, 12_340.0, 1e6, 123_456_789.0, 2e9].map(words);
        assert_eq!(texts, ["5 ns", "999 ns", "1.50 us", "12.3 us", "1 ms", "123 ms", "2 s"]);
    }
}
