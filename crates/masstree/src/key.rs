//! Keys cut into slices of eight bytes.
//!
//! A slice is read big-endian and padded with zero bytes, so slices compare as their bytes do. The
//! padding makes `"a"` and `"a\0"` one slice; the *order* of an entry tells them apart: the number
//! of bytes of the slice, 0 to 8, and 9 for every key that goes on behind it. In a layer, entries
//! ascend by (slice, order), and that is the order of the keys.

/// Bytes of a slice.
pub(crate) const SLICE_BYTES: usize = 8;

/// The order of a key that goes on behind its slice.
pub(crate) const ORDER_LONG: u8 = 9;

/// More than any order: a bound behind all entries of a slice.
pub(crate) const ORDER_END: u8 = 10;

/// The first eight bytes of `rest`, padded with zero bytes.
pub(crate) fn slice_of(rest: &[u8]) -> u64 {
    match rest.first_chunk::<SLICE_BYTES>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; SLICE_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The order of `rest` among the keys of its slice.
pub(crate) fn order_of(rest: &[u8]) -> u8 {
    rest.len().min(ORDER_LONG.into()) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_and_order_compare_as_the_bytes_do() {
        let mut keys: Vec<&[u8]> =
            vec![b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0\0\0\0\0\0", b"ab", b"abcdefgh"];
        keys.extend([&b"abcdefghi"[..], b"\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff"]);
        keys.sort_unstable();
        let cut = |key: &[u8]| (slice_of(key), order_of(key));
        assert!(keys.windows(2).all(|pair| cut(pair[0]) < cut(pair[1])));
    }
}
