//! Zip lists and zip maps: elements in one piece of memory, as Redis before 7 wrote small values.
//!
//! ```text
//!   bytes u32 | tail u32 | count u16 | { length before | encoding | data }* | ff     zip list
//!   count u8 | { length name | length free value free-bytes }* | ff                  zip map
//! ```
//!
//! All lengths are checked, those for reading backwards too.

use super::element::{Element, take};

const HEAD_BYTES: usize = 10;
const END: u8 = 0xff;
/// Four bytes of a length follow.
const LONG: u8 = 0xfe;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// The elements of a zip list.
pub(super) struct ZipList<'a> {
    rest: &'a [u8],
    left: Option<u16>,
    /// Bytes of the element before.
    before: usize,
    /// Where the last element begins, counted from the end of the list.
    tail: usize,
}

impl<'a> ZipList<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let count = u16::from_le_bytes(bytes.get(8..HEAD_BYTES)?.try_into().ok()?);
        let is_whole = number(0)? as usize == bytes.len() && bytes.last() == Some(&END);
        let tail = bytes.len().checked_sub(number(4)? as usize)?;
        let left = (count != COUNT_UNKNOWN).then_some(count);
        (is_whole && bytes.len() > HEAD_BYTES).then(|| ZipList {
            rest: &bytes[HEAD_BYTES..],
            left,
            before: 0,
            tail,
        })
    }

    /// The next element. `Some(None)` is the end, `None` is damage.
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        if self.rest == [END] {
            let is_tail = self.tail == self.before + 1;
            return (is_tail && self.left.is_none_or(|left| left == 0)).then_some(None);
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let start = self.rest.len();
        let before = match take(&mut self.rest, 1)?[0] {
            END => return None,
            LONG => u32::from_le_bytes(take(&mut self.rest, 4)?.try_into().ok()?) as usize,
            short => usize::from(short),
        };
        if before != self.before {
            return None;
        }
        let element = element(&mut self.rest)?;
        self.before = start - self.rest.len();
        Some(Some(element))
    }
}

fn element<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
    let first = take(rest, 1)?[0];
    let text_bytes = match first >> 6 {
        0 => usize::from(first),
        1 => usize::from(first & 0x3f) << 8 | usize::from(take(rest, 1)?[0]),
        2 => u32::from_be_bytes(take(rest, 4)?.try_into().ok()?) as usize,
        _ => return integer(first, rest).map(Element::Integer),
    };
    take(rest, text_bytes).map(Element::Text)
}

fn integer(first: u8, rest: &mut &[u8]) -> Option<i64> {
    Some(match first {
        0xc0 => i64::from(i16::from_le_bytes(take(rest, 2)?.try_into().ok()?)),
        0xd0 => i64::from(i32::from_le_bytes(take(rest, 4)?.try_into().ok()?)),
        0xe0 => i64::from_le_bytes(take(rest, 8)?.try_into().ok()?),
        0xf0 => {
            let bytes = take(rest, 3)?;
            i64::from(i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]) >> 8)
        }
        0xfe => i64::from(i8::from_le_bytes(take(rest, 1)?.try_into().ok()?)),
        0xf1..=0xfd => i64::from(first & 0x0f) - 1,
        _ => return None,
    })
}

/// The names and values of a zip map, one after the other.
pub(super) struct ZipMap<'a> {
    rest: &'a [u8],
    is_value: bool,
}

impl<'a> ZipMap<'a> {
    /// The first byte counts the pairs, or is 254 and does not.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        Some(ZipMap { rest: bytes.get(1..)?, is_value: false })
    }

    /// As [`ZipList::next`].
    pub(super) fn next(&mut self) -> Option<Option<Element<'a>>> {
        let bytes = match take(&mut self.rest, 1)?[0] {
            END => return (self.rest.is_empty() && !self.is_value).then_some(None),
            LONG => u32::from_le_bytes(take(&mut self.rest, 4)?.try_into().ok()?) as usize,
            short => usize::from(short),
        };
        let free = if self.is_value { usize::from(take(&mut self.rest, 1)?[0]) } else { 0 };
        let text = take(&mut self.rest, bytes)?;
        take(&mut self.rest, free)?;
        self.is_value = !self.is_value;
        Some(Some(Element::Text(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_wire::write_i64;

    fn shown(mut next: impl FnMut() -> Option<Option<Element<'static>>>) -> Option<Vec<String>> {
        let mut shown = Vec::new();
        while let Some(element) = next()? {
            let mut text = Vec::new();
            match element {
                Element::Text(bytes) => text.extend_from_slice(bytes),
                Element::Integer(number) => write_i64(&mut text, number),
            }
            shown.push(String::from_utf8(text).unwrap());
        }
        Some(shown)
    }

    /// "a", 5, -3 (i8), 300 (i16), -70000 (i24), as Redis 6 lays them out.
    const LIST: &[u8] = &[
        28, 0, 0, 0, 22, 0, 0, 0, 5, 0, // head
        0, 1, b'a', // text
        3, 0xf6, // immediate
        2, 0xfe, 0xfd, // i8
        3, 0xc0, 0x2c, 0x01, // i16
        4, 0xf0, 0x90, 0xee, 0xfe, // i24
        END,
    ];

    #[test]
    fn a_zip_list_has_texts_and_numbers() {
        let mut zip = ZipList::new(LIST).unwrap();
        assert_eq!(shown(|| zip.next()).unwrap(), ["a", "5", "-3", "300", "-70000"]);
        // Every byte but those of the data is checked.
        for at in (0..28).filter(|at| ![12, 17, 20, 21, 24, 25, 26].contains(at)) {
            let mut spoiled = LIST.to_vec();
            spoiled[at] ^= 0x40;
            let spoiled: &'static [u8] = spoiled.leak();
            let same = ZipList::new(spoiled).and_then(|mut zip| shown(|| zip.next()));
            assert_eq!(same, None, "byte {at}");
        }
    }

    #[test]
    fn a_zip_map_has_names_and_values() {
        let map: &'static [u8] = b"\x02\x01a\x02\x01xy.\x00\x00\x00\xff";
        let mut zip = ZipMap::new(map).unwrap();
        assert_eq!(shown(|| zip.next()).unwrap(), ["a", "xy", "", ""]);
        let mut cut = ZipMap::new(b"\x01\x01a\xff").unwrap();
        assert_eq!(shown(|| cut.next()), None);
    }
}
