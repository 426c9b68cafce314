//! A request typed by hand: words between blanks, with quotes as Redis reads them.
//!
//! ```text
//!   set key "two words\n\x00"   'it\'s'   ba"re"ly
//!           escapes: \n \r \t \b \a \xHH, any other byte for itself
//!                               one escape: \'
//!                                          quotes may begin within a word
//! ```
//!
//! A closing quote ends its word: something other than a blank behind it is an error. A line
//! without quotes is cut where it stands; one with quotes is copied, unquoted.

use super::error::ProtocolError;
use super::request::Span;
use memchr::memchr2;

/// Cuts `line` into words, at most `words_max` of them and one more. `Ok(true)` says that the
/// spans are places in `text`, into which the words were copied; else they are places in `line`.
pub(super) fn split(
    line: &[u8],
    words_max: u64,
    words: &mut Vec<Span>,
    text: &mut Vec<u8>,
) -> Result<bool, ProtocolError> {
    let quoted = memchr2(b'"', b'\'', line).is_some();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(is_blank) {
            at += 1;
        }
        if at == line.len() || words.len() as u64 > words_max {
            return Ok(quoted);
        }
        let start = if quoted { text.len() } else { at };
        at = if quoted { unquote(line, at, text)? } else { end_of_word(line, at) };
        let end = if quoted { text.len() } else { at };
        words.push(Span { start, end });
    }
}

/// What C's `isspace` takes for one.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn end_of_word(line: &[u8], at: usize) -> usize {
    line[at..].iter().position(is_blank).map_or(line.len(), |length| at + length)
}

/// Copies one word without its quotes. Returns where it ends in `line`.
fn unquote(line: &[u8], mut at: usize, text: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match line.get(at) {
            None => return Ok(at),
            Some(byte) if is_blank(byte) => return Ok(at),
            Some(&quote @ (b'"' | b'\'')) => return quoted_part(line, at + 1, quote, text),
            Some(&byte) => text.push(byte),
        }
        at += 1;
    }
}

/// Copies from behind an opening quote up to the closing one, which ends the word.
fn quoted_part(
    line: &[u8],
    mut at: usize,
    quote: u8,
    text: &mut Vec<u8>,
) -> Result<usize, ProtocolError> {
    loop {
        let rest = line.get(at..).unwrap_or_default();
        match *rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [byte, next, ..] if byte == quote && !is_blank(&next) => {
                return Err(ProtocolError::UnbalancedQuotes);
            }
            [byte, ..] if byte == quote => return Ok(at + 1),
            [b'\\', b'\'', ..] if quote == b'\'' => {
                text.push(b'\'');
                at += 2;
            }
            [b'\\', b'x', high, low, ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                text.push(16 * hex(high) + hex(low));
                at += 4;
            }
            [b'\\', byte, ..] if quote == b'"' => {
                text.push(escaped(byte));
                at += 2;
            }
            [byte, ..] => {
                text.push(byte);
                at += 1;
            }
        }
    }
}

fn escaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut spans, mut text) = (Vec::new(), Vec::new());
        let copied = split(line, 100, &mut spans, &mut text)?;
        let from = if copied { &text[..] } else { line };
        Ok(spans.iter().map(|span| from[span.start..span.end].to_vec()).collect())
    }

    #[test]
    fn words_are_cut_at_blanks_of_all_kinds() {
        assert_eq!(words(b" get\tkey\x0b\x0c2 ").unwrap(), [&b"get"[..], b"key", b"2"]);
        assert_eq!(words(b"").unwrap(), [b""; 0]);
        assert_eq!(words(b" \t ").unwrap(), [b""; 0]);
        assert_eq!(words(b"a\\nb \0").unwrap(), [&b"a\\nb"[..], b"\0"]);
    }

    #[test]
    fn quotes_keep_blanks_and_have_escapes() {
        let line = br#"set "two words\n\x00\xfF\q\"" 'it\'s \n' ba"re" "" \x41"#;
        let expected: [&[u8]; 6] =
            [b"set", b"two words\n\x00\xffq\"", b"it's \\n", b"bare", b"", b"\\x41"];
        assert_eq!(words(line).unwrap(), expected);
        assert_eq!(words(br#""\xg1" "\x1" "\x""#).unwrap(), [&b"xg1"[..], b"x1", b"x"]);
    }

    #[test]
    fn an_open_quote_or_one_with_something_behind_it_is_an_error() {
        for line in [r#"""#, r#""a"#, r#""a"b"#, r#""a"'b'"#, "'", "'a'b", r"'\'", r#""\"#] {
            let result = words(line.as_bytes());
            assert_eq!(result, Err(ProtocolError::UnbalancedQuotes), "{line}");
        }
    }

    #[test]
    fn too_many_words_are_not_cut_to_the_end() {
        let (mut spans, mut text) = (Vec::new(), Vec::new());
        split(&[b'a', b' '].repeat(1000), 10, &mut spans, &mut text).unwrap();
        assert_eq!(spans.len(), 11);
    }
}
