//! Elements, each in the shortest form that holds it.

use super::int::Int;

const ARRAY_HEAD_BYTES: usize = 5;

/// Appends nil.
#[inline]
pub fn put_nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Appends true or false.
#[inline]
pub fn put_bool(out: &mut Vec<u8>, truth: bool) {
    out.push(if truth { 0xc3 } else { 0xc2 });
}

/// Appends a number.
#[inline]
pub fn put_int(out: &mut Vec<u8>, int: impl Into<Int>) {
    let int = int.into();
    match int.as_u64() {
        Some(number @ 0..=0x7f) => out.push(number as u8),
        Some(number) => put_unsigned(out, number),
        None => put_negative(out, int.as_i64().unwrap_or(i64::MIN)),
    }
}

fn put_unsigned(out: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    match number {
        0..=0xff => out.extend_from_slice(&[0xcc, bytes[7]]),
        0x100..=0xffff => out.extend_from_slice(&[0xcd, bytes[6], bytes[7]]),
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(0xcf);
            out.extend_from_slice(&bytes);
        }
    }
}

fn put_negative(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    match number {
        -0x20.. => out.push(bytes[7]),
        -0x80.. => out.extend_from_slice(&[0xd0, bytes[7]]),
        -0x8000.. => out.extend_from_slice(&[0xd1, bytes[6], bytes[7]]),
        -0x8000_0000.. => {
            out.push(0xd2);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a string.
///
/// # Panics
/// When it has 2^32 bytes or more.
#[inline]
pub fn put_str(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len());
    let length = length.expect("a string has fewer than 2^32 bytes");
    out.reserve(ARRAY_HEAD_BYTES + bytes.len());
    let digits = length.to_be_bytes();
    match length {
        0..=31 => out.push(0xa0 | digits[3]),
        32..=0xff => out.extend_from_slice(&[0xd9, digits[3]]),
        0x100..=0xffff => out.extend_from_slice(&[0xda, digits[2], digits[3]]),
        _ => {
            out.push(0xdb);
            out.extend_from_slice(&digits);
        }
    }
    out.extend_from_slice(bytes);
}

/// Appends the head of an array of `count` elements.
#[inline]
pub fn put_array(out: &mut Vec<u8>, count: u32) {
    put_aggregate(out, count, [0x90, 0xdc, 0xdd]);
}

/// Appends the head of a map of `count` pairs.
pub fn put_map(out: &mut Vec<u8>, count: u32) {
    put_aggregate(out, count, [0x80, 0xde, 0xdf]);
}

#[inline]
fn put_aggregate(out: &mut Vec<u8>, count: u32, [small, two, four]: [u8; 3]) {
    let digits = count.to_be_bytes();
    match count {
        0..=15 => out.push(small | digits[3]),
        16..=0xffff => out.extend_from_slice(&[two, digits[2], digits[3]]),
        _ => {
            out.push(four);
            out.extend_from_slice(&digits);
        }
    }
}

/// Appends the head of an array whose count is not known yet, and returns its place. It is that of
/// an empty array until [`put_array_at`] says more.
pub fn reserve_array(out: &mut Vec<u8>) -> usize {
    let place = out.len();
    out.extend_from_slice(&[0xdd, 0, 0, 0, 0]);
    place
}

/// Sets the count of the array whose head [`reserve_array`] left at `place`.
///
/// # Panics
/// When there is no such head.
#[inline]
pub fn put_array_at(out: &mut [u8], place: usize, count: u32) {
    let head = &mut out[place..place + ARRAY_HEAD_BYTES];
    assert_eq!(head[0], 0xdd, "the head of an array was left at {place}");
    head[1..].copy_from_slice(&count.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::{Item, Reader, item};
    use super::*;

    fn written(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    #[test]
    fn numbers_have_the_shortest_form_and_come_back() {
        let table: [(i128, &[u8]); 17] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0xcc, 0x80]),
            (255, &[0xcc, 0xff]),
            (256, &[0xcd, 1, 0]),
            (65_535, &[0xcd, 0xff, 0xff]),
            (65_536, &[0xce, 0, 1, 0, 0]),
            ((1 << 32) - 1, &[0xce, 0xff, 0xff, 0xff, 0xff]),
            (1 << 32, &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
            ((1 << 64) - 1, &[0xcf, 255, 255, 255, 255, 255, 255, 255, 255]),
            (-1, &[0xff]),
            (-32, &[0xe0]),
            (-33, &[0xd0, 0xdf]),
            (-129, &[0xd1, 0xff, 0x7f]),
            (-32_769, &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
            (-(1 << 31) - 1, &[0xd3, 255, 255, 255, 255, 0x7f, 255, 255, 255]),
            (-(1 << 63), &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (number, expected) in table {
            let int = match u64::try_from(number) {
                Ok(number) => Int::from(number),
                Err(_) => Int::from(i64::try_from(number).unwrap()),
            };
            assert_eq!(written(|out| put_int(out, int)), expected, "{number}");
            assert_eq!(item(expected), Ok(Some((Item::Int(int), expected.len()))));
        }
    }

    #[test]
    fn numbers_in_longer_forms_are_the_same_numbers() {
        for bytes in [&[0xcc, 5][..], &[0xd0, 5], &[0xcd, 0, 5], &[0xd3, 0, 0, 0, 0, 0, 0, 0, 5]] {
            assert_eq!(item(bytes), Ok(Some((Item::Int(Int::from(5_u64)), bytes.len()))));
        }
        assert_eq!(item(&[0xd1, 0xff, 0xff]), Ok(Some((Item::Int(Int::from(-1_i64)), 3))));
    }

    #[test]
    fn strings_of_all_lengths_come_back() {
        for (length, head) in
            [(0, 1), (31, 1), (32, 2), (255, 2), (256, 3), (65_535, 3), (65_536, 5)]
        {
            let text = vec![b'x'; length];
            let bytes = written(|out| put_str(out, &text));
            assert_eq!(bytes.len(), head + length);
            assert_eq!(item(&bytes), Ok(Some((Item::Str(&text), bytes.len()))));
            assert_eq!(item(&bytes[..bytes.len() - 1]), Ok(None));
        }
        for bytes in [&[0xc4, 2, 1, 2][..], &[0xc5, 0, 2, 1, 2], &[0xc6, 0, 0, 0, 2, 1, 2]] {
            assert_eq!(item(bytes), Ok(Some((Item::Str(&[1, 2]), bytes.len()))));
        }
    }

    #[test]
    fn what_is_not_spoken_is_passed_over_whole() {
        let elements: [&[u8]; 10] = [
            &[0xca, 1, 2, 3, 4],
            &[0xcb, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0xc7, 2, 9, 1, 2],
            &[0xc8, 0, 1, 9, 1],
            &[0xc9, 0, 0, 0, 0, 9],
            &[0xd4, 9, 1],
            &[0xd5, 9, 1, 2],
            &[0xd6, 9, 1, 2, 3, 4],
            &[0xd7, 9, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0xd8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        ];
        for bytes in elements {
            assert_eq!(item(bytes), Ok(Some((Item::Other, bytes.len()))));
            for cut in 0..bytes.len() {
                assert_eq!(item(&bytes[..cut]), Ok(None));
            }
        }
    }

    #[test]
    fn a_reader_stays_at_what_was_not_asked_for() {
        let bytes = written(|out| {
            put_array(out, 20);
            put_map(out, 1);
            put_str(out, b"a");
            put_array(out, 1);
            put_nil(out);
            put_bool(out, true);
        });
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.map(), reader.array()), (None, Some(20)));
        assert_eq!((reader.str(), reader.skip()), (None, Some(())));
        assert_eq!((reader.int(), reader.bool(), reader.skip()), (None, Some(true), None));
    }

    #[test]
    fn a_count_may_come_last() {
        let mut out = vec![1];
        let place = reserve_array(&mut out);
        assert_eq!(item(&out[1..]), Ok(Some((Item::Array(0), 5))));
        put_array_at(&mut out, place, 70_000);
        assert_eq!(item(&out[1..]), Ok(Some((Item::Array(70_000), 5))));
        let mut short = Vec::new();
        put_array(&mut short, 70_000);
        assert_eq!(short, out[1..]);
    }
}
