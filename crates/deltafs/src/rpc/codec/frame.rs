//! Frames: what stands between two lengths.
//!
//! **Invariant:** a length is held against its limit before anything is taken for it.

use super::limits::FRAME_BYTES_MAX;

/// Call and operation, or call and code.
const FRAME_BYTES_MIN: usize = 9;
/// Where the code of a reply stands in its frame.
pub(crate) const CODE_AT: usize = 12;
/// A bit of that code: the client has leases that are called back.
pub(crate) const REVOKED_BIT: u8 = 0x80;

/// What stands at the beginning of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A frame: its call, its operation or code, its fields; and how many bytes it took.
    Whole {
        /// Number of the call.
        call: u64,
        /// Operation of a request, code of a reply.
        tag: u8,
        /// What follows.
        fields: &'a [u8],
        /// Bytes with the length.
        bytes: usize,
    },
    /// A beginning: so many bytes are needed before it makes sense to look again.
    Partial(usize),
    /// No frame can begin so.
    Broken,
}

/// Looks at the beginning of bytes.
#[must_use]
#[inline]
pub fn frame(input: &[u8]) -> Frame<'_> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Frame::Partial(4) };
    let length = u32::from_le_bytes(*length) as usize;
    if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&length) {
        return Frame::Broken;
    }
    let Some(body) = rest.get(..length) else { return Frame::Partial(4 + length) };
    let Some((call, body)) = body.split_first_chunk::<8>() else { return Frame::Broken };
    let call = u64::from_le_bytes(*call);
    Frame::Whole { call, tag: body[0], fields: &body[1..], bytes: 4 + length }
}

/// Appends a frame whose fields `fill` appends.
pub(crate) fn put_frame(out: &mut Vec<u8>, call: u64, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&call.to_le_bytes());
    out.push(tag);
    fill(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
