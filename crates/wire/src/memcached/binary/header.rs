//! The 24 bytes in front of each message, the same in both directions.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;

/// First byte of a request.
pub(crate) const REQUEST: u8 = 0x80;
/// First byte of a reply.
pub(crate) const REPLY: u8 = 0x81;

/// A header, as it was read or is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) magic: u8,
    pub(crate) opcode: u8,
    pub(crate) key_bytes: u16,
    pub(crate) extras_bytes: u8,
    pub(crate) data_type: u8,
    /// Of a reply the status; of a request the virtual bucket, which nothing here has.
    pub(crate) status: u16,
    pub(crate) body_bytes: u32,
    pub(crate) opaque: u32,
    pub(crate) cas: u64,
}

impl Header {
    #[inline]
    pub(crate) fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [magic, opcode, key0, key1, extras_bytes, data_type, status0, status1, rest @ ..] =
            *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        Header {
            magic,
            opcode,
            key_bytes: u16::from_be_bytes([key0, key1]),
            extras_bytes,
            data_type,
            status: u16::from_be_bytes([status0, status1]),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.magic;
        bytes[1] = self.opcode;
        bytes[2..4].copy_from_slice(&self.key_bytes.to_be_bytes());
        bytes[4] = self.extras_bytes;
        bytes[5] = self.data_type;
        bytes[6..8].copy_from_slice(&self.status.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.body_bytes.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.opaque.to_be_bytes());
        bytes[16..].copy_from_slice(&self.cas.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// Appends a message to `out`: a header for these parts, and the parts, which must fit their
/// lengths.
pub(super) fn write_message(
    out: &mut Vec<u8>,
    header: Header,
    extras: &[u8],
    key: &[u8],
    value: &[u8],
) {
    let body_bytes = extras.len() + key.len() + value.len();
    debug_assert!(extras.len() <= 255 && key.len() <= 65_535, "parts that fit their lengths");
    debug_assert!(u32::try_from(body_bytes).is_ok(), "a body that fits its length");
    out.reserve(HEADER_BYTES + body_bytes);
    let header = Header {
        key_bytes: key.len() as u16,
        extras_bytes: extras.len() as u8,
        body_bytes: body_bytes as u32,
        ..header
    };
    header.write(out);
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}
