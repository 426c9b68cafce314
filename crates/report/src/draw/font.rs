//! How wide words are: in the font of PNG and PDF, and about so in that of whoever shows an SVG.

use super::typeface;

/// How much wider than ours, which is as wide as Helvetica, the widest common sans serif font is.
const SUBSTITUTE: f64 = 1.15;

/// The width of a line of text in pixels.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    text.chars().map(|letter| typeface::advance(typeface::glyph(letter, bold), bold)).sum::<f64>()
        * size
}

/// The room to keep for a text where the reader's font may be another, and wider: that of common
/// substitutes of Helvetica.
pub(super) fn room(text: &str, size: f64) -> f64 {
    width(text, size, false) * SUBSTITUTE
}

/// `text` in at most `room` pixels, its end replaced by dots when it is longer.
pub(super) fn fitted(text: &str, size: f64, room: f64) -> String {
    if self::room(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if self::room(&kept, size) + self::room("...", size) > room {
            kept.pop();
            break;
        }
    }
    format!("{}...", kept.trim_end())
}

/// `text` broken at blanks into lines of at most `room` pixels, `lines_max` of them at most.
pub(super) fn wrapped(text: &str, size: f64, room: f64, lines_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (longer, lines.last_mut()) {
            (Some(longer), Some(line)) if self::room(&longer, size) <= room => *line = longer,
            _ => lines.push(fitted(word, size, room)),
        }
    }
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        if let Some(last) = lines.last_mut() {
            // Longer than the room, so that the dots stand there.
            let full = format!("{last}{}", " ".repeat(200));
            *last = fitted(&full, size, room);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_widths_of_helvetica() {
        assert_eq!(width("", 10.0, false), 0.0);
        assert!((width("iW0~", 1000.0, false) - f64::from(222 + 944 + 556 + 584)).abs() < 2.0);
        assert!(width("abc", 10.0, true) > width("abc", 10.0, false));
    }

    #[test]
    fn long_words_end_in_dots_and_fit() {
        let text = "a rather long name of a workload";
        let short = fitted(text, 12.0, 90.0);
        assert!(short.ends_with("..."), "{short}");
        assert!(width(&short, 12.0, false) <= 90.0);
        assert_eq!(fitted(text, 12.0, 900.0), text);
    }

    #[test]
    fn lines_are_broken_at_blanks_and_limited() {
        let lines = wrapped("one two three four five six seven eight", 10.0, 60.0, 3);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| width(line, 10.0, false) <= 60.0), "{lines:?}");
        assert!(lines[2].ends_with("..."), "{lines:?}");
        assert_eq!(wrapped("one two", 10.0, 900.0, 3), ["one two"]);
        assert!(wrapped("", 10.0, 900.0, 3).is_empty());
    }
}
