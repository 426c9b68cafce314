//! Hits that have come whole, which is what nearly all replies of a busy connection are: where such
//! a one ends, without the machine that takes replies in pieces.

use super::parser::Dialect;

/// Digits of a value's length that are looked at here.
const DIGITS_MAX: usize = 9;
/// What follows a value.
const END: &[u8] = b"\r\n";
/// What follows a value that answers a text command.
const TEXT_END: &[u8] = b"\r\nEND\r\n";

/// Bytes of the reply at the front of `buffer`, if it is a value that is whole, asked for by a key
/// of `key_bytes`. Anything else is `None`, and has to go through the parser.
#[inline]
#[must_use]
pub fn whole_hit(dialect: Dialect, buffer: &[u8], key_bytes: usize) -> Option<usize> {
    let start = match (dialect, buffer.first()?) {
        (Dialect::Resp, b'$') => 1,
        (Dialect::Text, b'V') => {
            // VALUE KEY FLAGS BYTES
            let flags = 7 + key_bytes;
            if !buffer.starts_with(b"VALUE ") || buffer.get(flags - 1) != Some(&b' ') {
                return None;
            }
            let (_, digits) = number(buffer.get(flags..)?, b' ')?;
            flags + digits + 1
        }
        (Dialect::Meta, b'V') if buffer.starts_with(b"VA ") => 3,
        _ => return None,
    };
    let (value_bytes, digits) = number(buffer.get(start..)?, b'\r')?;
    let line_end = start + digits + 1;
    let value_end = line_end + 1 + value_bytes;
    if *buffer.get(line_end)? != b'\n' {
        return None;
    }
    // Each end is compared as a constant, which is no call.
    let behind = buffer.get(value_end..)?;
    let end_bytes = if dialect == Dialect::Text {
        behind.starts_with(TEXT_END).then_some(TEXT_END.len())?
    } else {
        behind.starts_with(END).then_some(END.len())?
    };
    Some(value_end + end_bytes)
}

/// A number in front of a byte, and its digits.
#[inline]
fn number(buffer: &[u8], end: u8) -> Option<(usize, usize)> {
    let mut number = 0;
    for (at, byte) in buffer.iter().take(DIGITS_MAX + 1).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (*byte == end && at > 0).then_some((number, at));
        }
        number = 10 * number + usize::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Kind, Outcome, Parser, Step};

    /// What is found here, the parser finds as well; what is cut anywhere is not found.
    #[test]
    fn a_whole_hit_is_what_the_parser_says() {
        let cases: [(Dialect, &[u8], bool); 16] = [
            (Dialect::Resp, b"$3\r\nabc\r\n", true),
            (Dialect::Resp, b"$0\r\n\r\n", true),
            (Dialect::Resp, b"$11\r\n\r\n$-1\r\n\r\n45\r\n", true),
            (Dialect::Resp, b"$-1\r\n", false),
            (Dialect::Resp, b"$\r\n\r\n", false),
            (Dialect::Resp, b"+OK\r\n", false),
            (Dialect::Resp, b"-ERR no\r\n", false),
            (Dialect::Resp, b"$3\rxabc\r\n", false),
            (Dialect::Resp, b"$9999999999\r\n", false),
            (Dialect::Text, b"VALUE key 0 3\r\nabc\r\nEND\r\n", true),
            (Dialect::Text, b"VALUE key 17 0\r\n\r\nEND\r\n", true),
            (Dialect::Text, b"VALUE other 0 3\r\nabc\r\nEND\r\n", false),
            (Dialect::Text, b"VALUE key 0 3 5\r\nabc\r\nEND\r\n", false),
            (Dialect::Text, b"END\r\n", false),
            (Dialect::Meta, b"VA 3\r\nabc\r\n", true),
            (Dialect::Meta, b"EN\r\n", false),
        ];
        for (dialect, reply, is_hit) in cases {
            let told = || format!("{dialect:?} {}", reply.escape_ascii());
            let found = whole_hit(dialect, reply, 3);
            assert_eq!(found, is_hit.then_some(reply.len()), "{}", told());
            for cut in 0..reply.len() {
                assert_eq!(whole_hit(dialect, &reply[..cut], 3), None, "{} at {cut}", told());
            }
            let followed = [reply, b"$1\r\nx\r\n"].concat();
            assert_eq!(whole_hit(dialect, &followed, 3), found, "{}", told());
            if is_hit {
                let (mut parser, mut at) = (Parser::new(dialect, false), 0);
                let outcome = loop {
                    match parser.step(&reply[at..], Kind::Get) {
                        Ok(Step::Eaten(bytes)) => at += bytes,
                        Ok(Step::Done(bytes, outcome)) => {
                            at += bytes;
                            break outcome;
                        }
                        other => panic!("{}: {other:?}", told()),
                    }
                };
                assert_eq!((at, outcome), (reply.len(), Outcome::Hit { token: 0 }), "{}", told());
            }
        }
    }
}
