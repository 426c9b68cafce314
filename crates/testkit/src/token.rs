//! Byte strings as one word of text, for scripts and messages.
//!
//! ```text
//!   word  = part { "+" part }          the parts one after another
//!   part  = '""'                       nothing: the empty byte string
//!         | "@" count ":" unit         the unit so many times: @1048576:v
//!         | unit { unit }
//!   unit  = a printable ASCII character but blank " + @ \
//!         | "\x" two hexadecimal digits
//! ```
//!
//! [`render`] writes what [`parse`] reads. It folds runs of [`RUN_MIN`] and more equal bytes.

use std::fmt::Write as _;

/// The shortest run of one byte that is written as `@count:unit`.
const RUN_MIN: usize = 16;

/// The longest byte string that a word may stand for.
const BYTES_MAX: usize = 64 << 20;

/// How much of a byte string [`abbreviate`] shows.
const SHOWN_BYTES_MAX: usize = 48;

/// Reads one word.
pub(crate) fn parse(word: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for part in word.split('+') {
        if part == "\"\"" {
            continue;
        }
        let (count, units) = match part.strip_prefix('@') {
            None => (1, part),
            Some(rest) => {
                let (count, unit) =
                    rest.split_once(':').ok_or_else(|| format!("'{part}' is not @count:unit"))?;
                let count = count.parse::<usize>().ok().filter(|&count| count <= BYTES_MAX);
                (count.ok_or_else(|| format!("'{part}' has no count up to {BYTES_MAX}"))?, unit)
            }
        };
        let unit = units_of(units)?;
        if part.starts_with('@') && unit.len() != 1 {
            return Err(format!("'{part}' repeats {} bytes instead of one", unit.len()));
        }
        for _ in 0..count {
            bytes.extend_from_slice(&unit);
        }
    }
    Ok(bytes)
}

fn units_of(text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() {
        return Err("an empty part: write \"\" for the empty byte string".to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(escape) = rest.strip_prefix("\\x") {
            let byte = escape.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or_else(|| format!("'{text}' has a bad \\x escape"))?);
            rest = &escape[2..];
        } else if is_plain(first) {
            bytes.push(first as u8);
            rest = &rest[1..];
        } else {
            return Err(format!("'{text}': write {first:?} as \\x and two digits"));
        }
    }
    Ok(bytes)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '+' | '@' | '\\')
}

/// Writes `bytes` as one word.
pub(crate) fn render(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "\"\"".to_owned();
    }
    let mut text = String::new();
    let mut folded = false;
    for run in bytes.chunk_by(|a, b| a == b) {
        let fold = run.len() >= RUN_MIN;
        if (fold || folded) && !text.is_empty() {
            text.push('+');
        }
        if fold {
            let _ = write!(text, "@{}:", run.len());
        }
        for &byte in &run[..if fold { 1 } else { run.len() }] {
            if is_plain(char::from(byte)) {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
        folded = fold;
    }
    text
}

/// Writes `bytes` for a message: the whole word where it is short, else its beginning, its length
/// and a checksum that tells two long values apart.
pub(crate) fn abbreviate(bytes: &[u8]) -> String {
    let word = render(bytes);
    if word.len() <= 4 * SHOWN_BYTES_MAX {
        return word;
    }
    let sum = bytes.iter().fold(0u32, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte));
    let head = render(&bytes[..SHOWN_BYTES_MAX.min(bytes.len())]);
    format!("{head}... ({} bytes, checksum {sum:08x})", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_bytes() {
        let table: &[(&str, &[u8])] = &[
            ("\"\"", b""),
            ("abc", b"abc"),
            ("a\\x00\\xff", b"a\x00\xff"),
            ("@3:k+z", b"kkkz"),
            ("a+@2:\\x00+\"\"+b", b"a\0\0b"),
            ("k:000=1", b"k:000=1"),
        ];
        for (word, bytes) in table {
            assert_eq!(parse(word).as_deref(), Ok(*bytes), "{word}");
        }
        for word in
            ["", "+", "a+", "\\x0", "\\xgg", "\\n", "@:k", "@2:", "@2:ab", "@9", "é", "a\"b"]
        {
            assert!(parse(word).is_err(), "{word}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut samples: Vec<Vec<u8>> = vec![vec![], vec![b'v'; 15], vec![b'v'; 1 << 20]];
        samples.push((0..=255).collect());
        samples.push([vec![0; 40], b"x".to_vec(), vec![255; 40], b"yy".to_vec()].concat());
        samples.push([b"yy".to_vec(), vec![b'+'; 16], b"\\x00@\"".to_vec()].concat());
        for bytes in samples {
            let word = render(&bytes);
            assert!(!word.contains(' '), "{word}");
            assert_eq!(parse(&word), Ok(bytes), "{word}");
        }
        assert_eq!(render(&[b'v'; 1 << 20]), "@1048576:v");
    }

    #[test]
    fn long_values_are_told_apart_in_messages() {
        let one: Vec<u8> = (0..200).collect();
        let mut other = one.clone();
        other[199] = 0;
        assert_ne!(abbreviate(&one), abbreviate(&other));
        assert!(abbreviate(&one).contains("200 bytes"));
        assert_eq!(abbreviate(b"short"), "short");
    }
}
