//! Lines and their words, for commands and for replies.

use crate::memcached::limits::KEY_BYTES_MAX;
use crate::memcached::parsed::Parsed;

/// The first line of `buffer` without its end, and the bytes that it took. Nothing more is known
/// when no end is in the buffer than that there must be one byte more; nothing at all when the line
/// is longer than `bytes_max`, its end included.
#[inline]
pub(crate) fn line(buffer: &[u8], bytes_max: usize) -> Option<Parsed<&[u8]>> {
    let searched = buffer.get(..bytes_max).unwrap_or(buffer);
    let Some(end) = memchr::memchr(b'\n', searched) else {
        return (buffer.len() < bytes_max).then_some(Parsed::Incomplete(buffer.len() + 1));
    };
    let line = &buffer[..end];
    Some(Parsed::Complete(line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// The words of a line: what stands between blanks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(crate) const EMPTY: Words<'static> = Words { rest: b"" };

    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Words { rest: line }
    }

    /// What has not been read, without the blanks around it.
    pub(crate) fn rest(&self) -> &'a [u8] {
        let mut rest = self.rest;
        while let [b' ', tail @ ..] = rest {
            rest = tail;
        }
        while let [head @ .., b' '] = rest {
            rest = head;
        }
        rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let [b' ', tail @ ..] = self.rest {
            self.rest = tail;
        }
        if self.rest.is_empty() {
            return None;
        }
        let end = first_blank(self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Where the first blank is. Words are short: eight bytes at a time find their end sooner than a
/// call does that is made for long texts.
#[inline]
fn first_blank(bytes: &[u8]) -> Option<usize> {
    let (groups, rest) = bytes.as_chunks();
    for (index, group) in groups.iter().enumerate() {
        let differences = u64::from_le_bytes(*group) ^ (u64::from(b' ') * ONES);
        // The lowest bit that is set is that of the first byte that is 0; those above may lie.
        let zeros = differences.wrapping_sub(ONES) & !differences & HIGHS;
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&byte| byte == b' ')?;
    Some(8 * groups.len() + at)
}

/// Whether there is no control character among `bytes`, eight of which are looked at at a time.
/// What is sent back to a client must have none, or it could write lines that the server did not.
#[inline]
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk() else {
        return !bytes.iter().any(u8::is_ascii_control);
    };
    let (groups, _) = bytes.as_chunks();
    groups.iter().fold(controls(*last), |found, group| found | controls(*group)) == 0
}

/// Not 0 when one of eight bytes is a control character: below 0x20, or 0x7F.
#[inline]
fn controls(bytes: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(bytes);
    let deletes = word ^ (0x7F * ONES);
    let below = word.wrapping_sub(0x20 * ONES) & !word;
    let equal = deletes.wrapping_sub(ONES) & !deletes;
    (below | equal) & HIGHS
}

/// Whether a word is a key of the text protocol.
#[inline]
pub(crate) fn is_key(word: &[u8]) -> bool {
    !word.is_empty() && word.len() <= KEY_BYTES_MAX && is_plain(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_the_first_newline() {
        assert_eq!(line(b"ab\r\ncd", 10), Some(Parsed::Complete(&b"ab"[..], 4)));
        assert_eq!(line(b"ab\ncd", 10), Some(Parsed::Complete(&b"ab"[..], 3)));
        assert_eq!(line(b"a\rb\r\r\n", 10), Some(Parsed::Complete(&b"a\rb\r"[..], 6)));
        assert_eq!(line(b"\n", 10), Some(Parsed::Complete(&b""[..], 1)));
        assert_eq!(line(b"", 10), Some(Parsed::Incomplete(1)));
        assert_eq!(line(b"ab\r", 10), Some(Parsed::Incomplete(4)));
    }

    #[test]
    fn a_line_has_a_limit_with_its_end() {
        assert_eq!(line(b"ab\r\n", 4), Some(Parsed::Complete(&b"ab"[..], 4)));
        assert_eq!(line(b"abc\r\n", 4), None);
        assert_eq!(line(b"abcd", 4), None);
        assert_eq!(line(b"abc", 4), Some(Parsed::Incomplete(4)));
    }

    #[test]
    fn every_control_character_is_seen_at_every_place() {
        for length in 1..20 {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut bytes = vec![b' '; length];
                    bytes[at] = byte;
                    let is_control = byte < 0x20 || byte == 0x7F;
                    assert_eq!(is_plain(&bytes), !is_control, "{byte:#x} at {at} of {length}");
                }
            }
        }
        assert!(is_plain(&[0x80, 0xFF, b'~', b' ', 0x80, 0x9F, 0xA0, 0xFF]));
    }

    #[test]
    fn words_stand_between_blanks() {
        let words = Words::new(b"  a bc   d ");
        assert_eq!(words.collect::<Vec<_>>(), [&b"a"[..], b"bc", b"d"]);
        assert_eq!(words.rest(), b"a bc   d");
        assert_eq!(Words::new(b"   ").next(), None);
        for length in 0..30 {
            for at in 0..length {
                let mut line = vec![b'!'; length];
                line[at] = b' ';
                let words: Vec<_> = Words::new(&line).collect();
                assert_eq!(words.concat().len(), length - 1);
                assert_eq!(
                    words.first().map_or(0, |word| word.len()),
                    match at {
                        0 => length - 1,
                        at => at,
                    }
                );
            }
        }
    }
}
