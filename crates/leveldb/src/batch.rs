//! What a record of a log holds: writes that were made together.
//!
//! ```text
//!   sequence: u64 | count: u32 | entries
//!   entry = 1 | key: string | value: string        a value
//!         | 0 | key: string                        a removal
//! ```
//!
//! The entries have the sequence numbers from that one on.

use crate::coding::Bytes;
use crate::key::{Kind, SEQUENCE_MAX};

/// A batch, checked whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch<'a> {
    pub(crate) sequence: u64,
    /// Key, and value unless it is a removal.
    pub(crate) writes: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

/// Takes a record apart.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decode(record: &[u8]) -> Result<Batch<'_>, &'static str> {
    let mut bytes = Bytes::new(record);
    let (Some(sequence), Some(count)) = (bytes.u64(), bytes.u32()) else {
        return Err("a record that is too short for a batch");
    };
    if sequence > SEQUENCE_MAX - u64::from(count) {
        return Err("a batch beyond the last sequence number");
    }
    let mut writes = Vec::new();
    while !bytes.is_empty() {
        let kind = bytes.byte().and_then(Kind::from_byte);
        let write = match kind {
            None => return Err("a write of an unknown kind in a batch"),
            Some(Kind::Removed) => bytes.string().map(|key| (key, None)),
            Some(Kind::Value) => bytes.string().zip(bytes.string()).map(|(k, v)| (k, Some(v))),
        };
        writes.push(write.ok_or("a write that ends beyond its batch")?);
    }
    if writes.len() as u64 != u64::from(count) {
        return Err("a batch that does not hold as many writes as it says");
    }
    Ok(Batch { sequence, writes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut record = 7_u64.to_le_bytes().to_vec();
        record.extend_from_slice(&2_u32.to_le_bytes());
        record.extend_from_slice(b"\x01\x03key\x05value\x00\x04gone");
        record
    }

    #[test]
    fn writes_come_apart() {
        let record = sample();
        let batch = decode(&record).unwrap();
        assert_eq!(batch.sequence, 7);
        assert_eq!(batch.writes, [(&b"key"[..], Some(&b"value"[..])), (&b"gone"[..], None)]);
    }

    #[test]
    fn what_is_cut_or_goes_on_is_no_batch() {
        let record = sample();
        for len in 0..record.len() {
            assert!(decode(&record[..len]).is_err(), "{len} bytes");
        }
        assert!(decode(&[&record[..], b"\x00\x00"].concat()).is_err(), "a write too many");
        let mut high = record.clone();
        high[..8].copy_from_slice(&(SEQUENCE_MAX - 1).to_le_bytes());
        assert!(decode(&high).is_err(), "a sequence number too large");
    }
}
