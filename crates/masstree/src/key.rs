//! Keys cut into slices of eight bytes, and the order of entries in a layer.
//!
//! A slice is read big-endian and padded with zero bytes, so slices compare as their bytes do. A
//! layer orders its entries by the first two slices of what is left of the key, its *slice* and its
//! *tail*, and then by the *rank*: the length up to 16, which tells `"a"` from `"a\0"`, or 17 for
//! every longer key. That is the order of the keys.

pub(crate) const SLICE_BYTES: usize = 8;

/// The rank of a key that continues after its tail.
pub(crate) const RANK_LONG: u8 = 17;

/// A position in the order of a layer's entries. The default is the first of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotPosition {
    pub(crate) slice: u64,
    pub(crate) tail: u64,
    pub(crate) rank: u8,
}

impl SlotPosition {
    /// After all entries.
    pub(crate) const LAST: SlotPosition =
        SlotPosition { slice: u64::MAX, tail: u64::MAX, rank: RANK_LONG + 1 };

    /// The position of a key whose rest in this layer is `rest`.
    #[inline]
    pub(crate) fn of(rest: &[u8]) -> Self {
        SlotPosition {
            slice: slice_of(rest),
            tail: tail_of(rest),
            rank: rest.len().min(RANK_LONG.into()) as u8,
        }
    }

    /// Before all entries of `slice`.
    pub(crate) fn before(slice: u64) -> Self {
        SlotPosition { slice, tail: 0, rank: 0 }
    }

    /// After the entries at this position.
    pub(crate) fn after(self) -> Self {
        SlotPosition { rank: self.rank + 1, ..self }
    }
}

/// The first eight bytes of `rest`, padded with zero bytes.
#[inline]
pub(crate) fn slice_of(rest: &[u8]) -> u64 {
    match rest.first_chunk::<SLICE_BYTES>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => short_slice(rest),
    }
}

/// Fewer than eight bytes, in three reads at most.
#[inline]
fn short_slice(rest: &[u8]) -> u64 {
    let len = rest.len();
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        // The two overlap; where they do, they agree.
        let head = u64::from(u32::from_be_bytes(*head)) << 32;
        return head | u64::from(u32::from_be_bytes(*tail)) << (64 - 8 * len);
    }
    rest.iter().enumerate().fold(0, |slice, (at, &byte)| slice | u64::from(byte) << (56 - 8 * at))
}

/// The eight bytes after the slice, padded with zero bytes.
#[inline]
pub(crate) fn tail_of(rest: &[u8]) -> u64 {
    rest.get(SLICE_BYTES..).map_or(0, slice_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_compare_as_the_keys_do() {
        let mut keys: Vec<&[u8]> =
            vec![b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0\0\0\0\0\0", b"ab", b"abcdefgh"];
        keys.extend([&b"abcdefghi"[..], b"abcdefgh\0", b"abcdefgh\0\0", b"abcdefghabcdefgh"]);
        keys.extend([&b"abcdefghabcdefghi"[..], b"\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff"]);
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| SlotPosition::of(pair[0]) < SlotPosition::of(pair[1])));
    }

    #[test]
    fn slices_of_every_length_are_padded() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        for len in 0..=bytes.len() {
            let mut padded = [0; 8];
            let kept = len.min(8);
            padded[..kept].copy_from_slice(&bytes[..kept]);
            assert_eq!(slice_of(&bytes[..len]), u64::from_be_bytes(padded), "length {len}");
        }
    }
}
