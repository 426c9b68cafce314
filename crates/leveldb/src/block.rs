//! One block of a table, walked from front to end.
//!
//! ```text
//!   block = entries | offsets of restarts: u32 each | count of restarts: u32
//!   entry = shared: varint | unshared: varint | value length: varint | key bytes | value
//! ```
//!
//! `shared` bytes of the key are those of the key before; at a restart there are none. Restarts are
//! for searching, so a walk only checks where they end.

use crate::coding::Bytes;
use std::ops::Range;

const WORD_BYTES: usize = size_of::<u32>();

/// A walk over the entries of a block. It starts before the first.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// Where the entries end.
    end: usize,
    /// Where the next entry begins.
    at: usize,
    key: Vec<u8>,
    value: Range<usize>,
}

impl Block {
    /// # Errors
    /// What is wrong with the bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let Some((_, count)) = bytes.split_last_chunk::<WORD_BYTES>() else {
            return Err("a block without its restarts");
        };
        let restarts = u32::from_le_bytes(*count) as usize;
        let tail = restarts.checked_add(1).and_then(|words| words.checked_mul(WORD_BYTES));
        match tail.and_then(|tail| bytes.len().checked_sub(tail)) {
            Some(end) => Ok(Block { bytes, end, ..Block::default() }),
            None => Err("a block with more restarts than bytes"),
        }
    }

    /// Goes to the next entry. False behind the last.
    ///
    /// # Errors
    /// What is wrong with the entry. The walk is at its end then.
    pub(crate) fn advance(&mut self) -> Result<bool, &'static str> {
        if self.at >= self.end {
            return Ok(false);
        }
        let entries = &self.bytes[..self.end];
        let mut rest = Bytes::new(&entries[self.at..]);
        self.at = self.end;
        let (Some(shared), Some(unshared), Some(value)) =
            (rest.length(), rest.length(), rest.length())
        else {
            return Err("an entry without its lengths");
        };
        let (Some(suffix), Some(_)) = (rest.take(unshared), rest.take(value)) else {
            return Err("an entry that ends beyond its block");
        };
        if shared > self.key.len() {
            return Err("an entry that shares more than the key before has");
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.at = self.end - rest.len();
        self.value = self.at - value..self.at;
        Ok(true)
    }

    /// The key of this entry. Nothing before the first.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.value.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(entries: &[u8], restarts: &[u32]) -> Result<Block, &'static str> {
        let mut bytes = entries.to_vec();
        for word in restarts.iter().copied().chain([restarts.len() as u32]) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Block::new(bytes)
    }

    fn all(mut block: Block) -> Result<Vec<(Vec<u8>, Vec<u8>)>, &'static str> {
        let mut entries = Vec::new();
        while block.advance()? {
            entries.push((block.key().to_vec(), block.value().to_vec()));
        }
        Ok(entries)
    }

    #[test]
    fn keys_share_their_beginnings() {
        let walk = block(b"\0\x03\x02abcxy\x02\x01\0d\0\0\x01z", &[0]).unwrap();
        let entries = all(walk).unwrap();
        let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(keys, [&b"abc"[..], b"abd", b""]);
        assert_eq!(entries[0].1, b"xy");
        assert_eq!(entries[2].1, b"z");
        assert_eq!(all(block(b"", &[0]).unwrap()), Ok(vec![]));
    }

    #[test]
    fn lengths_are_held_against_what_is_there() {
        assert!(Block::new(b"abc".to_vec()).is_err(), "no room for the count");
        assert!(Block::new([0xff; 8].to_vec()).is_err(), "2^32 - 1 restarts");
        for bad in [&b"\x01\x01\0a"[..], b"\0\x02\0a", b"\0\x01\x02ax", b"\0\x01", b"\xff"] {
            assert!(all(block(bad, &[0]).unwrap()).is_err(), "{bad:?}");
        }
    }
}
