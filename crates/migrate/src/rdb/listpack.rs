//! List packs: elements in one piece of memory, as Redis 7 writes small values.
//!
//! ```text
//!   bytes u32 | count u16 | element* | ff
//!   element: encoding and data | their length, to be read backwards, 7 bits a byte
//! ```
//!
//! A count of 65535 means that there are at least so many. All lengths are checked.

use super::element::{Element, take};

const HEAD_BYTES: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// The elements of a list pack.
pub(super) struct ListPack<'a> {
    rest: &'a [u8],
    /// Elements that the head announces and that have not come.
    left: Option<u16>,
}

impl<'a> ListPack<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let announced = u32::from_le_bytes(*bytes.first_chunk()?);
        let count = u16::from_le_bytes(bytes.get(4..HEAD_BYTES)?.try_into().ok()?);
        let is_whole = announced as usize == bytes.len() && bytes.last() == Some(&END);
        let left = (count != COUNT_UNKNOWN).then_some(count);
        (is_whole && bytes.len() > HEAD_BYTES)
            .then(|| ListPack { rest: &bytes[HEAD_BYTES..], left })
    }

    /// The next element. `Some(None)` is the end, `None` is damage.
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        if self.rest == [END] {
            return self.left.is_none_or(|left| left == 0).then_some(None);
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let before = self.rest;
        let element = element(&mut self.rest)?;
        let bytes = before.len() - self.rest.len();
        let (back, count) = back_length(bytes);
        let stored = take(&mut self.rest, count)?;
        (stored == &back[..count]).then_some(Some(element))
    }
}

fn element<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
    let first = take(rest, 1)?[0];
    let signed = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[8 - bytes.len()..].copy_from_slice(bytes);
        // Little endian in the upper bytes, so that the shift extends the sign.
        i64::from_le_bytes(wide) >> (64 - 8 * bytes.len())
    };
    Some(match first {
        0..=0x7f => Element::Integer(i64::from(first)),
        0x80..=0xbf => Element::Text(take(rest, usize::from(first & 0x3f))?),
        0xc0..=0xdf => {
            let low = take(rest, 1)?[0];
            let number = i64::from(first & 0x1f) << 8 | i64::from(low);
            Element::Integer(if number >= 1 << 12 { number - (1 << 13) } else { number })
        }
        0xe0..=0xef => {
            let low = take(rest, 1)?[0];
            let bytes = usize::from(first & 0x0f) << 8 | usize::from(low);
            Element::Text(take(rest, bytes)?)
        }
        0xf0 => {
            let bytes = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
            Element::Text(take(rest, usize::try_from(bytes).ok()?)?)
        }
        0xf1 => Element::Integer(signed(take(rest, 2)?)),
        0xf2 => Element::Integer(signed(take(rest, 3)?)),
        0xf3 => Element::Integer(signed(take(rest, 4)?)),
        0xf4 => Element::Integer(signed(take(rest, 8)?)),
        _ => return None,
    })
}

/// How the length of an element is written behind it, and in how many bytes.
fn back_length(bytes: usize) -> ([u8; 5], usize) {
    let count = match bytes {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    };
    let mut back = [0; 5];
    for (index, byte) in back.iter_mut().enumerate().take(count) {
        let seven = (bytes >> (7 * (count - 1 - index))) & 0x7f;
        // All but the first are marked: the reader goes backwards until there is no mark.
        *byte = u8::try_from(seven).expect("seven bits") | if index > 0 { 0x80 } else { 0 };
    }
    (back, count)
}
