//! One element of a reply, from its first byte.
//!
//! | first byte | element |
//! |---|---|
//! | `+` `-` `:` | line: text, error, whole number |
//! | `$` | string with its length; `$-1` none; `$?` in chunks |
//! | `*` | array with its count; `*-1` none; `*?` until `.` |
//! | `_` `#` `,` `(` | null, truth, floating-point number, whole number of any size |
//! | `!` `=` | error, text with a format, each with its length |
//! | `%` `~` | map, set, with count or until `.` |
//! | `\|` `>` | attribute of what follows, message out of turn |
//! | `;` `.` | chunk of a string with its length, 0 the last; end of an aggregate |

use super::error::ProtocolError;
use super::limits::Limits;
use super::number;
use memchr::memchr;

/// What a stream is, whose end is not announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A string: [`Token::Chunk`]s follow.
    String,
    /// An array: elements follow.
    Array,
    /// A set: elements follow.
    Set,
    /// A map: names and values follow.
    Map,
}

/// One element of a reply. Of an aggregate it is the head, and the elements follow; those of an
/// attribute come before the value that it is about, and are no part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A short text.
    Simple(&'a [u8]),
    /// An error, its code first; from a line or from a string.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// A string.
    Bulk(&'a [u8]),
    /// Nothing there: the null of RESP3, or a string or an array that is not there.
    Null,
    /// True or false.
    Boolean(bool),
    /// A floating-point number.
    Double(f64),
    /// A whole number of any size: digits, with at most a sign before them.
    BigNumber(&'a [u8]),
    /// Text, and `txt` or `mkd` for how it is written.
    Verbatim {
        /// How it is written.
        format: [u8; 3],
        /// What is written.
        text: &'a [u8],
    },
    /// An array of so many elements.
    Array(usize),
    /// A map of so many pairs.
    Map(usize),
    /// A set of so many elements.
    Set(usize),
    /// A message that answers no request, of so many elements.
    Push(usize),
    /// So many pairs about the value that follows them.
    Attribute(usize),
    /// The begin of a string or an aggregate that [`Token::End`] ends.
    Stream(Stream),
    /// A part of a string.
    Chunk(&'a [u8]),
    /// The end of the innermost stream.
    End,
}

/// What stands at the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// An element, and its bytes.
    Token(Token<'a>, usize),
    /// The element is not whole. With `wanted` bytes there is more to say; the first `searched`
    /// hold no end of a line.
    More { wanted: usize, searched: usize },
}

/// The element at the front of `input`, which is not empty. The line's end is not among the first
/// `searched` bytes.
#[inline]
pub(super) fn token<'a>(
    input: &'a [u8],
    searched: usize,
    limits: &Limits,
) -> Result<Step<'a>, ProtocolError> {
    let Some(&kind) = input.first() else { return Ok(Step::More { wanted: 1, searched: 0 }) };
    let known = matches!(
        kind,
        b'$' | b':'
            | b'+'
            | b'-'
            | b'*'
            | b'_'
            | b'#'
            | b','
            | b'('
            | b'!'
            | b'='
            | b'%'
            | b'~'
            | b'|'
            | b'>'
            | b';'
            | b'.'
    );
    if !known {
        return Err(ProtocolError::ReplyType(kind));
    }
    let line_bytes_max = usize::try_from(limits.line_bytes_max).unwrap_or(usize::MAX);
    let window = &input[..input.len().min(line_bytes_max)];
    let from = searched.max(1);
    let Some(length) = memchr(b'\r', window.get(from..).unwrap_or_default()) else {
        if window.len() == line_bytes_max {
            return Err(ProtocolError::ReplyTooLarge("a line"));
        }
        return Ok(Step::More { wanted: input.len() + 1, searched: window.len() });
    };
    let line_end = from + length;
    match input.get(line_end + 1) {
        None => return Ok(Step::More { wanted: line_end + 2, searched: line_end }),
        Some(b'\n') => {}
        Some(_) => return Err(ProtocolError::Malformed("end of a line")),
    }
    let (line, behind) = (&input[1..line_end], line_end + 2);
    let token = match kind {
        b'$' | b'!' | b'=' | b';' => return string(input, kind, line, behind, limits),
        b'*' | b'%' | b'~' | b'|' | b'>' => aggregate(kind, line, limits)?,
        b'.' if line.is_empty() => Token::End,
        b'.' => return Err(ProtocolError::Malformed("end of a stream")),
        kind => scalar(kind, line)?,
    };
    Ok(Step::Token(token, behind))
}

/// An element that is a line and no more.
fn scalar(kind: u8, line: &[u8]) -> Result<Token<'_>, ProtocolError> {
    let malformed = ProtocolError::Malformed;
    Ok(match (kind, line) {
        (b'+', text) if !text.contains(&b'\n') => Token::Simple(text),
        (b'-', text) if !text.contains(&b'\n') => Token::Error(text),
        (b':', digits) => {
            let number = number::lenient_integer(digits);
            Token::Integer(number.ok_or(malformed("integer"))?)
        }
        (b'_', b"") => Token::Null,
        (b'#', b"t") => Token::Boolean(true),
        (b'#', b"f") => Token::Boolean(false),
        (b',', text) => Token::Double(double(text).ok_or(malformed("double"))?),
        (b'(', digits) if is_big_number(digits) => Token::BigNumber(digits),
        (b'(', _) => return Err(malformed("big number")),
        (b'#', _) => return Err(malformed("boolean")),
        (b'_', _) => return Err(malformed("null")),
        _ => return Err(malformed("line")),
    })
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" | b"+inf" => return Some(f64::INFINITY),
        b"-inf" => return Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => return Some(f64::NAN),
        _ => {}
    }
    let plain =
        text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    if plain { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

fn aggregate(kind: u8, line: &[u8], limits: &Limits) -> Result<Token<'static>, ProtocolError> {
    match (kind, line) {
        (b'*', b"-1") => return Ok(Token::Null),
        (b'*', b"?") => return Ok(Token::Stream(Stream::Array)),
        (b'~', b"?") => return Ok(Token::Stream(Stream::Set)),
        (b'%', b"?") => return Ok(Token::Stream(Stream::Map)),
        _ => {}
    }
    let count = number::integer(line).ok_or(ProtocolError::MultibulkLength)?;
    let count = usize::try_from(count).map_err(|_| ProtocolError::MultibulkLength)?;
    let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
    if (count as u64).saturating_mul(each) > limits.elements_max {
        return Err(ProtocolError::ReplyTooLarge("elements"));
    }
    Ok(match kind {
        b'*' => Token::Array(count),
        b'%' => Token::Map(count),
        b'~' => Token::Set(count),
        b'|' => Token::Attribute(count),
        _ => Token::Push(count),
    })
}

/// An element whose length stands in `line`, and whose bytes begin at `start`.
#[inline]
fn string<'a>(
    input: &'a [u8],
    kind: u8,
    line: &[u8],
    start: usize,
    limits: &Limits,
) -> Result<Step<'a>, ProtocolError> {
    match (kind, line) {
        (b'$', b"-1") => return Ok(Step::Token(Token::Null, start)),
        (b'$', b"?") => return Ok(Step::Token(Token::Stream(Stream::String), start)),
        // The last chunk has no bytes, and no end of them.
        (b';', b"0") => return Ok(Step::Token(Token::End, start)),
        _ => {}
    }
    let length = number::integer(line).and_then(|length| u64::try_from(length).ok());
    let length = length.ok_or(ProtocolError::BulkLength)?;
    if length > limits.bulk_bytes_max {
        return Err(ProtocolError::ReplyTooLarge("a string"));
    }
    // Both are below 2^63: no overflow.
    let end = usize::try_from(start as u64 + length);
    let end = end.map_err(|_| ProtocolError::ReplyTooLarge("a string"))?;
    let Some(behind) = input.get(end..end + 2) else {
        return Ok(Step::More { wanted: end + 2, searched: 0 });
    };
    if behind != b"\r\n" {
        return Err(ProtocolError::BulkLength);
    }
    let text = &input[start..end];
    let token = match (kind, text) {
        (b'$', _) => Token::Bulk(text),
        (b';', _) => Token::Chunk(text),
        (b'!', _) => Token::Error(text),
        (_, &[a, b, c, b':', ref text @ ..]) => Token::Verbatim { format: [a, b, c], text },
        _ => return Err(ProtocolError::Malformed("verbatim string")),
    };
    Ok(Step::Token(token, end + 2))
}
