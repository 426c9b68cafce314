//! Keys cut into slices of eight bytes, and the order of entries in a layer.
//!
//! A slice is read big-endian and padded with zero bytes, so slices compare as their bytes do. A
//! layer orders its entries by the first two slices of what is left of the key, its *slice* and its
//! *tail*, and then by the *rank*: the length up to 16, which tells `"a"` from `"a\0"`, or 17 for
//! every longer key. That is the order of the keys, but for longer ones of one slice and tail.
//!
//! A *fence* is a bound between keys that a layer can be cut at: before all keys of a slice, or
//! between those that end within the slice and those that continue after it.

pub(crate) const SLICE_BYTES: usize = 8;

/// The rank of a key that continues after its tail.
pub(crate) const RANK_LONG: u8 = 17;

/// How many fingerprints there are.
pub(crate) const FINGERPRINTS: u8 = 224;

/// A position in the order of a layer's entries. The default is the first of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotPosition {
    pub(crate) slice: u64,
    pub(crate) tail: u64,
    pub(crate) rank: u8,
}

impl SlotPosition {
    /// The position of a key whose rest in this layer is `rest`.
    #[inline]
    pub(crate) fn of(rest: &[u8]) -> Self {
        SlotPosition {
            slice: slice_of(rest),
            tail: tail_of(rest),
            rank: rest.len().min(RANK_LONG.into()) as u8,
        }
    }

    /// The greatest fence that is not after it.
    #[inline]
    pub(crate) fn fence(self) -> Fence {
        Fence { slice: self.slice, continuing: self.rank > SLICE_BYTES as u8 }
    }
}

/// A bound between keys of a layer. The default is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fence {
    pub(crate) slice: u64,
    /// After the keys that end within the slice, and before those that continue.
    pub(crate) continuing: bool,
}

impl Fence {
    /// Whether `rest` is above the first key that can come after the fence.
    pub(crate) fn is_below(self, rest: &[u8]) -> bool {
        let fence = SlotPosition::of(rest).fence();
        if self != fence {
            return self < fence;
        }
        let shortest = if self.continuing {
            SLICE_BYTES + 1
        } else {
            SLICE_BYTES - self.slice.trailing_zeros() as usize / 8
        };
        rest.len() > shortest || self.continuing && rest[SLICE_BYTES] > 0
    }
}

/// What is left of a key in a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) position: SlotPosition,
}

impl<'k> Rest<'k> {
    #[inline]
    pub(crate) fn of(bytes: &'k [u8]) -> Self {
        Rest { bytes, position: SlotPosition::of(bytes) }
    }

    /// Whether it continues after its tail.
    #[inline]
    pub(crate) fn is_long(self) -> bool {
        self.position.rank == RANK_LONG
    }

    /// The greatest fence that is not after it.
    #[inline]
    pub(crate) fn fence(self) -> Fence {
        self.position.fence()
    }

    /// What follows the tail.
    #[inline]
    pub(crate) fn suffix(self) -> &'k [u8] {
        suffix_of(self.bytes)
    }

    /// What is left in a layer that begins after so many bytes.
    #[inline]
    pub(crate) fn after(self, bytes: usize) -> Self {
        Rest::of(&self.bytes[bytes..])
    }
}

/// What follows the tail of a long key.
#[inline]
pub(crate) fn suffix_of(rest: &[u8]) -> &[u8] {
    rest.get(2 * SLICE_BYTES..).unwrap_or(&[])
}

/// One of [`FINGERPRINTS`] for a suffix, to tell keys of one slice and tail apart. Every byte of
/// the suffix counts.
pub(crate) fn fingerprint(suffix: &[u8]) -> u8 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, end) = suffix.as_chunks::<SLICE_BYTES>();
    let hash = words.iter().fold(suffix.len() as u64, |hash, word| {
        ((hash ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR)).rotate_left(29)
    });
    let hash = (hash ^ short_slice(end)).wrapping_mul(FACTOR);
    // The upper bits depend on all.
    (((hash >> 32) * u64::from(FINGERPRINTS)) >> 32) as u8
}

/// The first eight bytes of `rest`, padded with zero bytes.
#[inline]
pub(crate) fn slice_of(rest: &[u8]) -> u64 {
    match rest.first_chunk::<SLICE_BYTES>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => short_slice(rest),
    }
}

/// Fewer than eight bytes, in two or three reads.
#[inline]
fn short_slice(rest: &[u8]) -> u64 {
    let len = rest.len();
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        // The two overlap; where they do, they agree.
        let head = u64::from(u32::from_be_bytes(*head)) << 32;
        return head | u64::from(u32::from_be_bytes(*tail)) << (64 - 8 * len);
    }
    let Some(last) = len.checked_sub(1) else { return 0 };
    // Of one to three bytes these are all; where two are the same, they agree.
    let byte = |at: usize| u64::from(rest[at]) << (56 - 8 * at);
    byte(0) | byte(len / 2) | byte(last)
}

/// The eight bytes after the slice, padded with zero bytes.
#[inline]
pub(crate) fn tail_of(rest: &[u8]) -> u64 {
    if rest.len() <= SLICE_BYTES {
        return 0;
    }
    if let Some(tail) = rest.get(SLICE_BYTES..2 * SLICE_BYTES) {
        return slice_of(tail);
    }
    // The last eight bytes begin in the slice, which is shifted out.
    let last = rest.last_chunk().expect("there are more bytes than in a slice");
    u64::from_be_bytes(*last) << (8 * (2 * SLICE_BYTES - rest.len()))
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

    /// Keys that differ in one bit, wherever that is, rarely have the same fingerprint.
    #[test]
    fn every_bit_of_a_suffix_changes_its_fingerprint() {
        for len in [1, 7, 8, 9, 40] {
            let suffix = vec![b'a'; len];
            let same = (0..8 * len).filter(|bit| {
                let mut other = suffix.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                fingerprint(&other) == fingerprint(&suffix)
            });
            assert!(same.count() <= 1 + len / 8, "length {len}");
        }
        let mut counts = [0; FINGERPRINTS as usize];
        for n in 0..224_000u64 {
            counts[usize::from(fingerprint(&n.to_be_bytes()))] += 1;
        }
        assert!(counts.iter().all(|count| (500..2000).contains(count)), "{counts:?}");
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
