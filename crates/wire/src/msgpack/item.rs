//! One element, from its first byte.
//!
//! | first byte | element |
//! |---|---|
//! | `00`..`7f`, `e0`..`ff` | a small number |
//! | `80`..`8f`, `90`..`9f` | map, array of up to 15 |
//! | `a0`..`bf` | string of up to 31 bytes |
//! | `c0`, `c2`, `c3` | nil, false, true |
//! | `c4` `c5` `c6` | binary, its length in 1, 2, 4 bytes |
//! | `c7` `c8` `c9`, `d4`..`d8` | extension, likewise; or of 1, 2, 4, 8, 16 bytes |
//! | `ca` `cb` | floating point of 4, 8 bytes |
//! | `cc`..`cf`, `d0`..`d3` | number without, with sign, of 1, 2, 4, 8 bytes |
//! | `d9` `da` `db` | string, its length in 1, 2, 4 bytes |
//! | `dc` `dd`, `de` `df` | array, map, count in 2, 4 bytes |
//! | `c1` | nothing |

use super::int::Int;

/// Bytes that are no msgpack, or not such as is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The one byte that begins nothing.
    #[error("byte 0xc1 begins no element")]
    Unused,
    /// Arrays within arrays beyond [`super::DEPTH_MAX`].
    #[error("more than {} levels of arrays", super::DEPTH_MAX)]
    Depth,
    /// More elements than allowed, or announced.
    #[error("more elements than allowed")]
    Elements,
    /// A string, or the whole value, longer than allowed.
    #[error("more bytes than allowed")]
    Bytes,
}

/// One element, borrowed from the bytes that it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Nothing there.
    Nil,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(Int),
    /// A string, whether it was text or binary.
    Str(&'a [u8]),
    /// A floating-point number or an extension, its bytes passed over.
    Other,
    /// The head of an array: so many elements follow.
    Array(u32),
    /// The head of a map: so many pairs follow.
    Map(u32),
}

/// What the first bytes of an element say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes of the head itself.
    pub(super) bytes: usize,
    /// Bytes that follow and belong to the element.
    pub(super) body_bytes: u32,
    /// Elements that follow.
    pub(super) elements: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nil,
    Bool(bool),
    Int(Int),
    Str,
    Other,
    Array(u32),
    Map(u32),
}

impl Head {
    fn plain(bytes: usize, kind: Kind) -> Self {
        let elements = match kind {
            Kind::Array(count) => u64::from(count),
            Kind::Map(count) => 2 * u64::from(count),
            _ => 0,
        };
        Self { bytes, body_bytes: 0, elements, kind }
    }

    fn with_body(bytes: usize, body_bytes: u32, kind: Kind) -> Self {
        Self { bytes, body_bytes, elements: 0, kind }
    }
}

/// The head at the front of `input`; `None` if that is not whole.
#[inline]
pub(super) fn head(input: &[u8]) -> Result<Option<Head>, FormatError> {
    let Some((&first, behind)) = input.split_first() else { return Ok(None) };
    Ok(Some(match first {
        0x00..=0x7f => Head::plain(1, Kind::Int(Int::from(u64::from(first)))),
        0xe0..=0xff => Head::plain(1, Kind::Int(Int::from(i64::from(first.cast_signed())))),
        0x80..=0x8f => Head::plain(1, Kind::Map(u32::from(first & 15))),
        0x90..=0x9f => Head::plain(1, Kind::Array(u32::from(first & 15))),
        0xa0..=0xbf => Head::with_body(1, u32::from(first & 31), Kind::Str),
        _ => return long_head(first, behind),
    }))
}

/// A head of more bytes than one, or of a rare kind.
fn long_head(first: u8, behind: &[u8]) -> Result<Option<Head>, FormatError> {
    let fixed = |body_bytes| Some(Head::with_body(1, body_bytes, Kind::Other));
    Ok(match first {
        0xc0 => Some(Head::plain(1, Kind::Nil)),
        0xc2 | 0xc3 => Some(Head::plain(1, Kind::Bool(first == 0xc3))),
        0xc4 | 0xd9 => one(behind).map(|n| Head::with_body(2, n, Kind::Str)),
        0xc5 | 0xda => two(behind).map(|n| Head::with_body(3, n, Kind::Str)),
        0xc6 | 0xdb => four(behind).map(|n| Head::with_body(5, n, Kind::Str)),
        // An extension has a byte for its type behind the length.
        0xc7 => one(behind).map(|n| Head::with_body(2, n + 1, Kind::Other)),
        0xc8 => two(behind).map(|n| Head::with_body(3, n + 1, Kind::Other)),
        0xc9 => match four(behind) {
            Some(u32::MAX) => return Err(FormatError::Bytes),
            length => length.map(|n| Head::with_body(5, n + 1, Kind::Other)),
        },
        0xca => fixed(4),
        0xcb => fixed(8),
        0xd4..=0xd8 => fixed((1 << (first - 0xd4)) + 1),
        0xcc..=0xd3 => number(first, behind),
        0xdc => two(behind).map(|n| Head::plain(3, Kind::Array(n))),
        0xdd => four(behind).map(|n| Head::plain(5, Kind::Array(n))),
        0xde => two(behind).map(|n| Head::plain(3, Kind::Map(n))),
        0xdf => four(behind).map(|n| Head::plain(5, Kind::Map(n))),
        _ => return Err(FormatError::Unused),
    })
}

/// A number of 1, 2, 4 or 8 bytes.
fn number(first: u8, behind: &[u8]) -> Option<Head> {
    let (bytes, int) = match first {
        0xcc => (1, Int::from(u64::from(*behind.first()?))),
        0xcd => (2, Int::from(u64::from(two(behind)?))),
        0xce => (4, Int::from(u64::from(four(behind)?))),
        0xcf => (8, Int::from(u64::from_be_bytes(*behind.first_chunk()?))),
        0xd0 => (1, Int::from(i64::from(behind.first()?.cast_signed()))),
        0xd1 => (2, Int::from(i64::from(i16::from_be_bytes(*behind.first_chunk()?)))),
        0xd2 => (4, Int::from(i64::from(i32::from_be_bytes(*behind.first_chunk()?)))),
        _ => (8, Int::from(i64::from_be_bytes(*behind.first_chunk()?))),
    };
    Some(Head::plain(1 + bytes, Kind::Int(int)))
}

fn one(bytes: &[u8]) -> Option<u32> {
    bytes.first().copied().map(u32::from)
}

fn two(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from(u16::from_be_bytes(*bytes)))
}

fn four(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The element at the front of `input` and its bytes; `None` if it is not whole. Of an array or a
/// map that is the head alone.
///
/// # Errors
/// [`FormatError`], when no element begins so.
#[inline]
pub fn item(input: &[u8]) -> Result<Option<(Item<'_>, usize)>, FormatError> {
    let Some(head) = head(input)? else { return Ok(None) };
    let body = &input[head.bytes..];
    let body_bytes = usize::try_from(head.body_bytes).map_err(|_| FormatError::Bytes)?;
    let Some(body) = body.get(..body_bytes) else { return Ok(None) };
    let item = match head.kind {
        Kind::Nil => Item::Nil,
        Kind::Bool(truth) => Item::Bool(truth),
        Kind::Int(int) => Item::Int(int),
        Kind::Str => Item::Str(body),
        Kind::Other => Item::Other,
        Kind::Array(count) => Item::Array(count),
        Kind::Map(count) => Item::Map(count),
    };
    Ok(Some((item, head.bytes + body_bytes)))
}
