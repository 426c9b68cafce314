//! Internal keys: a user key, and 8 bytes of `sequence << 8 | kind`, little-endian.
//!
//! User keys ascend; of one user key the larger trailer, which is the newer version, comes first.

use std::cmp::Ordering;

const TRAILER_BYTES: usize = 8;

/// The largest sequence number.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 56) - 1;

/// What a version of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key was removed.
    Removed,
    /// It has a value.
    Value,
}

impl Kind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Kind::Removed),
            1 => Some(Kind::Value),
            _ => None,
        }
    }
}

/// An internal key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
}

/// Takes an internal key apart. `None` if it is too short, or of no known kind.
pub(crate) fn parse(key: &[u8]) -> Option<Parsed<'_>> {
    let (user, trailer) = key.split_last_chunk::<TRAILER_BYTES>()?;
    let trailer = u64::from_le_bytes(*trailer);
    Some(Parsed { user, sequence: trailer >> 8, kind: Kind::from_byte(trailer as u8)? })
}

/// Compares internal keys. Shorter ones than a trailer are user keys of sequence 0.
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (user_a, trailer_a) = split(a);
    let (user_b, trailer_b) = split(b);
    user_a.cmp(user_b).then_with(|| trailer_b.cmp(&trailer_a))
}

fn split(key: &[u8]) -> (&[u8], u64) {
    match key.split_last_chunk::<TRAILER_BYTES>() {
        Some((user, trailer)) => (user, u64::from_le_bytes(*trailer)),
        None => (key, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal(user: &[u8], sequence: u64, kind: u8) -> Vec<u8> {
        [user, &(sequence << 8 | u64::from(kind)).to_le_bytes()].concat()
    }

    #[test]
    fn newer_versions_come_first() {
        let sorted = [
            internal(b"", 1, 1),
            internal(b"a", SEQUENCE_MAX, 0),
            internal(b"a", 7, 1),
            internal(b"a", 7, 0),
            internal(b"a", 6, 1),
            internal(b"a\0", 9, 1),
            internal(b"b", 0, 1),
        ];
        for pair in sorted.windows(2) {
            assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn keys_come_apart() {
        let key = internal(b"key", 77, 1);
        let parsed = Parsed { user: b"key", sequence: 77, kind: Kind::Value };
        assert_eq!(parse(&key), Some(parsed));
        assert_eq!(parse(b"short"), None);
        assert_eq!(parse(&internal(b"key", 77, 2)), None);
    }
}
