//! The record that long keys with the same beginning share: its bytes.
//!
//! A sequence of entries in ascending order of what is left of their keys, with nothing between:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of the rest of the key, little-endian |
//! | 4 | length of the value, little-endian |
//! | as said | the rest of the key |
//! | as said | the value |
//!
//! An empty sequence is never stored. Everything here is linear in the bytes of the bucket.

use std::fmt;

/// The bytes are no bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage;

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record of long keys does not parse")
    }
}

type Entry<'a> = (&'a [u8], &'a [u8]);

/// What is left of each key, and its value.
pub(super) fn entries(mut bytes: &[u8]) -> Result<Vec<Entry<'_>>, Damage> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (rest_len, tail) = bytes.split_first_chunk().ok_or(Damage)?;
        let (value_len, tail) = tail.split_first_chunk().ok_or(Damage)?;
        let length = |field: &[u8; 4]| u32::from_le_bytes(*field) as usize;
        let (rest, tail) = tail.split_at_checked(length(rest_len)).ok_or(Damage)?;
        let (value, tail) = tail.split_at_checked(length(value_len)).ok_or(Damage)?;
        entries.push((rest, value));
        bytes = tail;
    }
    if entries.is_sorted_by(|(a, _), (b, _)| a < b) { Ok(entries) } else { Err(Damage) }
}

/// The value of the key that ends in `rest`.
pub(super) fn get<'a>(bytes: &'a [u8], rest: &[u8]) -> Result<Option<&'a [u8]>, Damage> {
    let entries = entries(bytes)?;
    let found = entries.binary_search_by_key(&rest, |(other, _)| other);
    Ok(found.ok().map(|index| entries[index].1))
}

/// The bucket with one entry added or replaced. Lengths of 4 GiB and more, which LMDB does not
/// store, are cut, so that what comes out is too long for it as well.
pub(super) fn with(bytes: &[u8], rest: &[u8], value: &[u8]) -> Result<Vec<u8>, Damage> {
    let mut entries = entries(bytes)?;
    match entries.binary_search_by_key(&rest, |(other, _)| other) {
        Ok(index) => entries[index].1 = value,
        Err(index) => entries.insert(index, (rest, value)),
    }
    Ok(written(&entries))
}

/// The bucket without the key that ends in `rest`, or `None` where there is none.
pub(super) fn without(bytes: &[u8], rest: &[u8]) -> Result<Option<Vec<u8>>, Damage> {
    let mut entries = entries(bytes)?;
    let Ok(index) = entries.binary_search_by_key(&rest, |(other, _)| other) else {
        return Ok(None);
    };
    entries.remove(index);
    Ok(Some(written(&entries)))
}

fn written(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes =
        Vec::with_capacity(entries.iter().map(|(rest, value)| 8 + rest.len() + value.len()).sum());
    for (rest, value) in entries {
        bytes.extend_from_slice(&(rest.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(rest);
        bytes.extend_from_slice(value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_added_replaced_and_removed_in_order() {
        let mut bytes = Vec::new();
        for (rest, value) in [(&b"m"[..], &b"1"[..]), (b"", b"2"), (b"z", b""), (b"m", b"three")] {
            bytes = with(&bytes, rest, value).unwrap();
        }
        let all: Vec<Entry<'_>> = vec![(b"", b"2"), (b"m", b"three"), (b"z", b"")];
        assert_eq!(entries(&bytes).unwrap(), all);
        assert_eq!(get(&bytes, b"m").unwrap(), Some(&b"three"[..]));
        assert_eq!(get(&bytes, b"n").unwrap(), None);
        assert_eq!(without(&bytes, b"n").unwrap(), None);
        for rest in [&b"m"[..], b"", b"z"] {
            bytes = without(&bytes, rest).unwrap().unwrap();
        }
        assert!(bytes.is_empty());
    }

    #[test]
    fn what_is_cut_or_out_of_order_is_damage() {
        let bytes = with(&with(&[], b"a", b"1").unwrap(), b"b", b"22").unwrap();
        let first = 8 + 1 + 1;
        for length in (1..bytes.len()).filter(|length| *length != first) {
            assert_eq!(entries(&bytes[..length]), Err(Damage), "{length}");
        }
        let turned = [&bytes[first..], &bytes[..first]].concat();
        assert_eq!(entries(&turned), Err(Damage));
        assert_eq!(entries(&[0xff; 16]), Err(Damage));
    }
}
