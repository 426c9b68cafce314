//! Lengths and strings.
//!
//! ```text
//!   00nnnnnn             length n
//!   01nnnnnn nnnnnnnn    length n, big endian
//!   80 n:4               length n, big endian
//!   81 n:8               length n, big endian
//!   11eeeeee             no length but an encoding: 0 i8, 1 i16, 2 i32, 3 LZF
//! ```

use super::lzf;
use crate::error::Result;
use crate::input::Input;
use keyrack_wire::write_i64;

/// The largest string: that of Redis' protocol.
pub(crate) const STRING_BYTES_MAX: u64 = 512 << 20;

/// A length, or the encoding of a string that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Plain(u64),
    Encoded(u8),
}

pub(super) fn length(input: &mut Input<'_>) -> Result<Length> {
    let at = input.offset();
    let first = input.byte()?;
    Ok(match first >> 6 {
        0 => Length::Plain(u64::from(first & 0x3f)),
        1 => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(input.byte()?)),
        2 if first == 0x80 => Length::Plain(u64::from(u32::from_be_bytes(input.array()?))),
        2 if first == 0x81 => Length::Plain(u64::from_be_bytes(input.array()?)),
        3 => Length::Encoded(first & 0x3f),
        _ => return Err(input.damage(at, format!("{first:#04x} begins no length"))),
    })
}

/// A length that counts something.
pub(super) fn plain_length(input: &mut Input<'_>) -> Result<u64> {
    let at = input.offset();
    match length(input)? {
        Length::Plain(count) => Ok(count),
        Length::Encoded(_) => Err(input.damage(at, "an encoding instead of a length")),
    }
}

/// How many elements follow, each of which takes at least one byte.
pub(super) fn count(input: &mut Input<'_>) -> Result<u64> {
    let count = plain_length(input)?;
    input.check_length(count, u64::MAX)?;
    Ok(count)
}

/// Replaces `into` by the string that comes.
pub(super) fn string(input: &mut Input<'_>, into: &mut Vec<u8>) -> Result<()> {
    let at = input.offset();
    match length(input)? {
        Length::Plain(bytes) => input.bytes(bytes, STRING_BYTES_MAX, into),
        Length::Encoded(encoding @ 0..=2) => {
            into.clear();
            write_i64(into, integer(encoding, input)?);
            Ok(())
        }
        Length::Encoded(lzf::ENCODING) => lzf::string(input, into),
        Length::Encoded(other) => {
            Err(input.damage(at, format!("{other} is no encoding of a string")))
        }
    }
}

fn integer(encoding: u8, input: &mut Input<'_>) -> Result<i64> {
    Ok(match encoding {
        0 => i64::from(i8::from_le_bytes(input.array()?)),
        1 => i64::from(i16::from_le_bytes(input.array()?)),
        _ => i64::from(i32::from_le_bytes(input.array()?)),
    })
}

/// Passes over the string that comes.
pub(super) fn skip(input: &mut Input<'_>) -> Result<()> {
    let at = input.offset();
    match length(input)? {
        Length::Plain(bytes) => input.skip(bytes, STRING_BYTES_MAX),
        Length::Encoded(encoding @ 0..=2) => integer(encoding, input).map(drop),
        Length::Encoded(lzf::ENCODING) => {
            let bytes = plain_length(input)?;
            plain_length(input)?;
            input.skip(bytes, STRING_BYTES_MAX)
        }
        Length::Encoded(other) => {
            Err(input.damage(at, format!("{other} is no encoding of a string")))
        }
    }
}
