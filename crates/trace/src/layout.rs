//! Header, block heads and the end of a trace of our own: `docs/formats/trace.md` in constants.
//!
//! All numbers are little-endian. Every checksum is CRC-32C.

use crc_fast::crc32_iscsi;

/// How a file begins.
pub(crate) const MAGIC: [u8; 8] = *b"KEYRACKT";
/// The version of this layout.
pub(crate) const VERSION: u32 = 1;
/// Magic, version, bytes of the text.
pub(crate) const HEADER_BYTES: usize = 16;
/// The text of a header at most.
pub(crate) const TEXT_BYTES_MAX: u32 = 1 << 16;
/// How a block begins.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"KTBK";
/// How the end begins.
pub(crate) const END_MAGIC: [u8; 4] = *b"KTEN";
/// Bytes of a block's head; the end has the same length.
pub(crate) const HEAD_BYTES: usize = 40;
/// Bytes of a block at most, before compression.
pub(crate) const BLOCK_BYTES_MAX: u32 = 256 << 20;

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) phase: u8,
    pub(crate) is_compressed: bool,
    pub(crate) thread: u32,
    pub(crate) records: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) stored_bytes: u32,
    pub(crate) first_ns: u64,
    pub(crate) body_crc: u32,
}

/// What stands behind the last block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) blocks: u64,
    pub(crate) records: u64,
    /// Bytes of values that were looked at for how well they compress, and of what came of them.
    pub(crate) sample_bytes: u64,
    pub(crate) sample_stored_bytes: u64,
}

/// What may stand where a block is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Block(BlockHead),
    End(End),
}

impl BlockHead {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..4].copy_from_slice(&BLOCK_MAGIC);
        out[4] = self.phase;
        out[5] = u8::from(self.is_compressed);
        out[8..12].copy_from_slice(&self.thread.to_le_bytes());
        out[12..16].copy_from_slice(&self.records.to_le_bytes());
        out[16..20].copy_from_slice(&self.raw_bytes.to_le_bytes());
        out[20..24].copy_from_slice(&self.stored_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_ns.to_le_bytes());
        out[32..36].copy_from_slice(&self.body_crc.to_le_bytes());
        sealed(out)
    }
}

impl End {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..4].copy_from_slice(&END_MAGIC);
        out[4..12].copy_from_slice(&self.blocks.to_le_bytes());
        out[12..20].copy_from_slice(&self.records.to_le_bytes());
        out[20..28].copy_from_slice(&self.sample_bytes.to_le_bytes());
        out[28..36].copy_from_slice(&self.sample_stored_bytes.to_le_bytes());
        sealed(out)
    }
}

fn sealed(mut out: [u8; HEAD_BYTES]) -> [u8; HEAD_BYTES] {
    let crc = crc(&out[..HEAD_BYTES - 4]);
    out[HEAD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    out
}

impl Head {
    /// Reads a head; the reason where it is none.
    pub(crate) fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<Head, &'static str> {
        if number4(bytes, 36) != crc(&bytes[..HEAD_BYTES - 4]) {
            return Err("the checksum of a head does not match");
        }
        if bytes[..4] == END_MAGIC {
            return Ok(Head::End(End {
                blocks: number8(bytes, 4),
                records: number8(bytes, 12),
                sample_bytes: number8(bytes, 20),
                sample_stored_bytes: number8(bytes, 28),
            }));
        }
        let head = BlockHead {
            phase: bytes[4],
            is_compressed: bytes[5] == 1,
            thread: number4(bytes, 8),
            records: number4(bytes, 12),
            raw_bytes: number4(bytes, 16),
            stored_bytes: number4(bytes, 20),
            first_ns: number8(bytes, 24),
            body_crc: number4(bytes, 32),
        };
        let is_sound = bytes[..4] == BLOCK_MAGIC
            && head.phase <= 2
            && bytes[5] <= 1
            && head.raw_bytes <= BLOCK_BYTES_MAX
            && head.stored_bytes <= head.raw_bytes;
        if is_sound { Ok(Head::Block(head)) } else { Err("no head of a block, and not the end") }
    }
}

pub(crate) fn number4(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn number8(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The checksum of everything here.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// The header of a file.
pub(crate) fn header(text: &str) -> Vec<u8> {
    // The text is made of names; what is too long of it is not worth a failure.
    let mut end = text.len().min(TEXT_BYTES_MAX as usize);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text.as_bytes()[..end];
    let mut out = Vec::with_capacity(HEADER_BYTES + text.len() + 4);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
    let crc = crc(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}
