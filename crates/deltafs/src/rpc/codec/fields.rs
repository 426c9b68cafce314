//! Fields of frames: numbers, bytes behind their lengths, lists of such.
//!
//! **Invariant:** every field is held against the end of its frame before memory is taken for it.

use super::limits::{BATCH_NAMES_MAX, FRAME_BYTES_MAX, HOW_UNCHECKED};

/// Fields that were not read yet.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// 0 or 1.
    pub(super) fn flag(&mut self) -> Option<bool> {
        self.u8().map(|byte| byte != 0)
    }

    pub(super) fn how(&mut self) -> Option<u8> {
        self.u8().filter(|how| *how <= HOW_UNCHECKED)
    }

    /// Bytes behind their length of three bytes.
    pub(super) fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let [a, b, c] = self.array()?;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > max {
            return None;
        }
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A name; one that is too long for any is left to whoever checks names, for its words.
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        self.bytes(FRAME_BYTES_MAX)
    }

    pub(super) fn inodes(&mut self) -> Option<Vec<u128>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / 16 {
            return None;
        }
        (0..count).map(|_| self.u128()).collect()
    }

    pub(super) fn list(&mut self) -> Option<Vec<&'a [u8]>> {
        let count = usize::from(self.u16()?);
        if count > BATCH_NAMES_MAX {
            return None;
        }
        // Each has at least its length.
        let mut list = Vec::with_capacity(count.min(self.0.len() / 3));
        for _ in 0..count {
            list.push(self.name()?);
        }
        Some(list)
    }
}

pub(super) fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u128(out: &mut Vec<u8>, number: u128) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() < 1 << 24);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
}

pub(super) fn put_at(out: &mut Vec<u8>, dir: u32, name: &[u8]) {
    put_u32(out, dir);
    put_bytes(out, name);
}

pub(super) fn put_list(out: &mut Vec<u8>, list: &[&[u8]]) {
    put_u16(out, list.len() as u16);
    list.iter().for_each(|bytes| put_bytes(out, bytes));
}
