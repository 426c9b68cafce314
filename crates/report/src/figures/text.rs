//! Texts and numbers as gnuplot and file systems take them.

/// Bytes of a file name that come from one name.
const FILE_NAME_BYTES_MAX: usize = 80;

/// `text` as a string expression of gnuplot. Inside single quotes it reads no escapes, no macros
/// and no commands in back quotes. A single quote inside, and in some releases a backslash before
/// one, upsets its count of quotes; so these two stand apart, as octal escapes:
/// `'it'."\047".'s'`. Control characters become blanks, since a line end would end the command.
pub(crate) fn quoted(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for piece in one_line(text).split_inclusive(['\'', '\\']) {
        let plain = piece.trim_end_matches(['\'', '\\']);
        if !plain.is_empty() {
            parts.push(format!("'{plain}'"));
        }
        match &piece[plain.len()..] {
            "'" => parts.push("\"\\047\"".to_owned()),
            "\\" => parts.push("\"\\134\"".to_owned()),
            _ => {}
        }
    }
    if parts.is_empty() { "''".to_owned() } else { parts.join(".") }
}

/// `value` to four decimals, so that gnuplot does not take a large one for an integer.
pub(crate) fn number(value: f64) -> String {
    if value.abs() < 1e11 {
        ((value * 1e4).round() / 1e4).to_string()
    } else {
        format!("{value:e}")
    }
}

/// `text` without control characters.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// `text` for a comment inside a data block: no quotes of any kind.
pub(crate) fn comment(text: &str) -> String {
    one_line(text).replace(['\'', '"', '`', '\\'], " ")
}

/// `text` in at most `chars` characters, its end replaced by dots when it is longer.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// `text` broken at blanks into lines of at most `chars` characters, `lines` of them at most. A
/// longer word is cut.
pub(crate) fn wrapped(text: &str, chars: usize, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in one_line(text).split_whitespace() {
        let length = word.chars().count();
        match out.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= chars => {
                line.push(' ');
                line.push_str(word);
            }
            _ => out.push(shortened(word, chars)),
        }
    }
    if out.len() > lines {
        out.truncate(lines);
        if let Some(last) = out.last_mut() {
            *last = shortened(&format!("{last} ..."), chars);
        }
    }
    out
}

/// A word of a command line, in quotes where a shell would need them.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// `name` as part of a file name: `ycsb/a` gives `ycsb_a`.
pub(crate) fn file_name(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let safe: String = name.chars().map(|c| if kept(c) { c } else { '_' }).collect();
    let safe: String = safe.trim_start_matches('.').chars().take(FILE_NAME_BYTES_MAX).collect();
    if safe.is_empty() { "_".to_owned() } else { safe }
}

/// Three significant digits with a suffix: 950, 17.8k, 1.23M; of less than a tenth two.
pub(crate) fn short_number(value: f64) -> String {
    if value > 0.0 && value < 0.0995 {
        // A little is not nothing.
        let decimals = (1.0 - value.log10().floor()) as usize;
        return match value {
            _ if value < 1e-5 => format!("{value:.1e}"),
            _ => format!("{value:.decimals$}"),
        };
    }
    let (mut scaled, mut suffix) = (value, "");
    for next in ["k", "M", "G", "T"] {
        // 999.5 would round to 1000 of the smaller unit.
        if scaled < 999.5 {
            break;
        }
        (scaled, suffix) = (scaled / 1000.0, next);
    }
    let is_whole = suffix.is_empty() && scaled.fract() == 0.0;
    let decimals = if is_whole { 0 } else { decimals(scaled) };
    format!("{scaled:.decimals$}{suffix}")
}

/// A size with three significant digits and the unit that fits it: `0.45 B`, `15.6 KiB`.
pub(crate) fn short_bytes(bytes: f64) -> String {
    let (mut scaled, mut unit) = (bytes, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1023.5 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, next);
    }
    let decimals = if scaled.fract() == 0.0 { 0 } else { decimals(scaled) };
    format!("{scaled:.decimals$} {unit}")
}

/// Those that three significant digits of a number from 1 have.
fn decimals(value: f64) -> usize {
    match value {
        _ if value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    }
}

/// The unit of rates up to `largest`: its divisor and the word before "units/s".
pub(crate) fn rate_unit(largest: f64) -> (f64, &'static str) {
    match largest {
        _ if largest >= 2e9 => (1e9, "billion "),
        _ if largest >= 2e6 => (1e6, "million "),
        _ if largest >= 2e3 => (1e3, "thousand "),
        _ => (1.0, ""),
    }
}

/// The unit of times up to `largest_ns`: its divisor and its name.
pub(crate) fn time_unit(largest_ns: f64) -> (f64, &'static str) {
    match largest_ns {
        _ if largest_ns >= 2e9 => (1e9, "s"),
        _ if largest_ns >= 2e6 => (1e6, "ms"),
        _ if largest_ns >= 2e3 => (1e3, "us"),
        _ => (1.0, "ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_quotes() {
        assert_eq!(quoted("it's"), r#"'it'."\047".'s'"#);
        assert_eq!(quoted("a\nb\tc"), "'a b c'");
        assert_eq!(quoted(r#"`x` "y"\"#), r#"'`x` "y"'."\134""#);
        assert_eq!(quoted(r"\'"), r#""\134"."\047""#);
        assert_eq!(quoted(""), "''");
        assert_eq!(comment("`x` 'y' \"z\"\n\\"), " x   y   z   ");
    }

    #[test]
    fn file_names_hold_nothing_but_safe_letters() {
        assert_eq!(file_name("ycsb/a"), "ycsb_a");
        assert_eq!(file_name("../../etc"), "_.._etc");
        assert_eq!(file_name(""), "_");
        assert_eq!(file_name("..."), "_");
        assert_eq!(file_name("\u{e9}\0 b"), "___b");
        assert_eq!(file_name(&"x".repeat(500)).len(), FILE_NAME_BYTES_MAX);
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.0, "0"),
            (0.0406, "0.041"),
            (0.000_439, "0.00044"),
            (3.2e-7, "3.2e-7"),
            (0.25, "0.25"),
            (7.0, "7"),
            (41.0, "41"),
            (7.25, "7.25"),
            (950.0, "950"),
            (999.7, "1.00k"),
            (17_819.0, "17.8k"),
            (99_960.0, "100k"),
            (1_234_567.0, "1.23M"),
            (9_999_999.0, "10.0M"),
            (5e15, "5000T"),
        ];
        for (value, wanted) in cases {
            assert_eq!(short_number(value), wanted);
        }
    }

    #[test]
    fn sizes_have_the_unit_that_fits_them() {
        let sizes = [0.0, 0.449, 512.0, 15_974.0, 16_777_216.0, 3e9].map(short_bytes);
        assert_eq!(sizes, ["0 B", "0.45 B", "512 B", "15.6 KiB", "16 MiB", "2.79 GiB"]);
    }

    #[test]
    fn data_keep_four_decimals() {
        let values = [41.0, 98_039.215_686, 0.02, -5.0, 9.3e18, 0.0].map(number);
        assert_eq!(values, ["41", "98039.2157", "0.02", "-5", "9.3e18", "0"]);
    }

    #[test]
    fn lines_are_broken_at_blanks_and_limited() {
        assert_eq!(wrapped("aa bb cc", 5, 9), ["aa bb", "cc"]);
        assert_eq!(wrapped("aaaaaaaa b", 5, 9), ["aa...", "b"]);
        assert_eq!(wrapped("aa bb cc dd ee", 7, 2), ["aa bb", "cc d..."]);
        assert_eq!(wrapped("", 5, 2), [""; 0]);
        assert_eq!(shortened("\u{e9}\u{e9}\u{e9}\u{e9}", 4).chars().count(), 4);
    }

    #[test]
    fn words_of_a_command_can_be_pasted() {
        let words = ["--threads", "1,4", "a b", "it's", ""].map(shell_word);
        assert_eq!(words, ["--threads", "1,4", "'a b'", "'it'\\''s'", "''"]);
    }
}
