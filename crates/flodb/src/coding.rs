//! Numbers and byte strings as they stand in files.
//!
//! Fixed numbers are little-endian. A *varint* holds seven bits a byte, the lowest first; the high
//! bit of a byte says that another follows. It has 1 to 10 bytes for 64 bits. A byte string is a
//! varint of its length and the bytes.
//!
//! Reading never trusts what it reads: each length is held against what is left before it is used.

/// Bytes of the longest varint.
const VARINT_BYTES_MAX: usize = 10;

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a varint to the beginning of `out`, which has room for it, and returns its length.
#[inline]
pub(crate) fn varint_into(out: &mut [u8], mut value: u64) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    len + 1
}

/// Appends a byte string.
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The varint at the beginning of `bytes`, and its length. `None` if it does not end there, or
/// needs more than 64 bits.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        let shift = 7 * index as u32;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Takes bytes from the front. Every method returns `None`, and takes nothing sensible, when there
/// are too few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (value, len) = varint(self.rest)?;
        self.rest = &self.rest[len..];
        Some(value)
    }

    /// A varint that counts bytes or things.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.varint().and_then(|value| usize::try_from(value).ok())
    }

    /// A byte string.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        self.bytes(len)
    }
}

/// How many bytes `a` and `b` have in common from the front. Eight at a time.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut at = 0;
    while let (Some(one), Some(other)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let differing = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return at + differing.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < len && a[at] == b[at] {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        let mut values = vec![0, 1, u64::MAX];
        values.extend((1..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for value in values {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let len = bytes.len();
            assert!(len <= VARINT_BYTES_MAX);
            let mut room = [0; VARINT_BYTES_MAX];
            assert_eq!((varint_into(&mut room, value), &room[..len]), (len, &bytes[..]));
            bytes.push(0xff);
            assert_eq!(varint(&bytes), Some((value, len)));
            assert_eq!(varint(&bytes[..len - 1]), None, "{value} cut short");
        }
    }

    #[test]
    fn varints_of_more_than_64_bits_are_refused() {
        let mut bytes = [0xff; 12];
        assert_eq!(varint(&bytes), None);
        bytes[9] = 1;
        assert_eq!(varint(&bytes), Some((u64::MAX, 10)));
        bytes[9] = 2;
        assert_eq!(varint(&bytes), None);
    }

    #[test]
    fn a_reader_stops_at_the_end() {
        let mut bytes = Vec::new();
        put_string(&mut bytes, b"abc");
        put_varint(&mut bytes, 300);
        bytes.extend_from_slice(&7_u32.to_le_bytes());
        bytes.extend_from_slice(&8_u64.to_le_bytes());
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.string(), Some(&b"abc"[..]));
        assert_eq!(reader.varint(), Some(300));
        assert_eq!((reader.u32(), reader.u64()), (Some(7), Some(8)));
        assert!(reader.is_empty());
        assert_eq!((reader.u32(), reader.varint(), reader.bytes(1)), (None, None, None));
        assert_eq!(Reader::new(&[200, 1, 0]).string(), None, "a length beyond the end");
    }

    #[test]
    fn common_prefixes_of_all_lengths() {
        let a: Vec<u8> = (0..40).collect();
        for at in 0..40 {
            let mut b = a.clone();
            b[at] ^= 0x80;
            assert_eq!(common_prefix(&a, &b), at);
            assert_eq!(common_prefix(&a[..at], &a), at);
        }
    }
}
