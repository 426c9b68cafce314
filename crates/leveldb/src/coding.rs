//! Numbers, byte strings and checksums as LevelDB writes them.
//!
//! Fixed numbers are little-endian. A varint holds seven bits a byte, the lowest first; the high
//! bit says that another byte follows. A string is a varint of at most 32 bits, and the bytes. A
//! checksum is CRC-32C, *masked*: turned right by 15 bits and added to a constant, so that the
//! checksum of bytes that hold checksums is no weaker.

const MASK_DELTA: u32 = 0xa282_ead8;

/// The masked checksum of `bytes`.
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Takes bytes from the front. Every method returns `None` when there are too few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Bytes { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*taken))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*taken))
    }

    /// A varint of at most 64 bits.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint of at most 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Option<u32> {
        self.varint().and_then(|value| u32::try_from(value).ok())
    }

    /// A varint of at most 32 bits, as a length.
    pub(crate) fn length(&mut self) -> Option<usize> {
        self.varint_u32().map(|length| length as usize)
    }

    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_masked() {
        // CRC-32C of these digits is e3069283; turned it is 2507c60d.
        assert_eq!(masked_crc(b"123456789"), 0xc78a_b0e5);
    }

    #[test]
    fn varints_end_in_time() {
        assert_eq!(Bytes::new(&[0xac, 0x02]).varint(), Some(300));
        assert_eq!(Bytes::new(&[0x80; 12]).varint(), None);
        assert_eq!(Bytes::new(&[0x80]).varint(), None);
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(Bytes::new(&most).varint(), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(Bytes::new(&most).varint(), None, "65 bits");
        assert_eq!(Bytes::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint_u32(), Some(u32::MAX));
        assert_eq!(Bytes::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint_u32(), None, "33 bits");
    }

    #[test]
    fn strings_end_within_the_bytes() {
        let mut bytes = Bytes::new(b"\x03abc\x04de");
        assert_eq!(bytes.string(), Some(&b"abc"[..]));
        assert_eq!(bytes.string(), None);
    }
}
