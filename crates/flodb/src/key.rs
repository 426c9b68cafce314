//! Internal keys: what the levels of the engine sort.
//!
//! ```text
//!   internal key = user key | trailer: u64 little-endian = sequence << 8 | kind
//! ```
//!
//! User keys ascend by the store's comparator; of one user key, the newest comes first, so the
//! trailers descend. A sequence number is the LSN of the write in the log (`keyrack-wal`), so
//! it has 56 bits and only ever grows.

use crate::error::{Error, Result};
use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub(crate) const TRAILER_BYTES: usize = 8;

/// The largest sequence number: as a snapshot, it sees everything.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 56) - 1;

/// The name of the order of a store that has key spaces, see `spaces`.
pub(crate) const SPACES_ORDER: &str = "keyrack.spaces";

/// What a write did to its key. The numbers are in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Removed it. The value is empty.
    Delete = 0,
    /// Stored the value.
    Put = 1,
    /// Removed all keys from this one on, and before the one that is the value.
    DeleteRange = 2,
    /// Stored a value that is in a blob file: the value here is its blob index. In tables alone.
    Blob = 3,
    /// Stored a value that expires: before it is the moment, see `expiry`. Never in a blob file.
    PutExpiring = 4,
    /// Added an operand to what the key has, see `merge`.
    Merge = 5,
}

impl Kind {
    /// The largest: a seek to this trailer finds all kinds of a sequence.
    pub(crate) const LAST: Kind = Kind::Merge;

    /// That of bounds in files that are no entries: separators and open bounds.
    pub(crate) const BOUND: Kind = Kind::DeleteRange;

    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::DeleteRange),
            3 => Some(Kind::Blob),
            4 => Some(Kind::PutExpiring),
            5 => Some(Kind::Merge),
            _ => None,
        }
    }

    /// Whether the key has this value, as long as that is not expired. Not an operand.
    #[inline]
    pub(crate) fn is_value(self) -> bool {
        matches!(self, Kind::Put | Kind::Blob | Kind::PutExpiring)
    }

    /// Whether it removes: a key, or a range.
    #[inline]
    pub(crate) fn is_removal(self) -> bool {
        matches!(self, Kind::Delete | Kind::DeleteRange)
    }
}

/// The trailer of a write.
pub(crate) fn trailer(sequence: u64, kind: Kind) -> u64 {
    debug_assert!(sequence <= SEQUENCE_MAX);
    sequence << 8 | kind as u64
}

/// An internal key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
}

/// Takes an internal key apart. `None` if it is too short or of no known kind.
pub(crate) fn parse(key: &[u8]) -> Option<Parsed<'_>> {
    let (user, trailer) = key.split_last_chunk::<TRAILER_BYTES>()?;
    let trailer = u64::from_le_bytes(*trailer);
    Some(Parsed { user, sequence: trailer >> 8, kind: Kind::from_byte(trailer as u8)? })
}

/// The user key of an internal key that was parsed before, or made here.
pub(crate) fn user_of(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(TRAILER_BYTES)]
}

/// The sequence number of an internal key that was parsed before, or made here.
#[inline]
pub(crate) fn sequence_of(key: &[u8]) -> u64 {
    trailer_of(key) >> 8
}

#[inline]
fn trailer_of(key: &[u8]) -> u64 {
    key.last_chunk::<TRAILER_BYTES>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// As `a.cmp(b)`, without a call where the first bytes differ.
#[inline]
fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    let mut at = 0;
    while let (Some(one), Some(other)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let (one, other) = (u64::from_be_bytes(*one), u64::from_be_bytes(*other));
        if one != other {
            return one.cmp(&other);
        }
        at += 8;
        if at == 32 {
            break;
        }
    }
    a[at..].cmp(&b[at..])
}

/// Appends an internal key to `out`.
pub(crate) fn append(out: &mut Vec<u8>, user: &[u8], sequence: u64, kind: Kind) {
    out.reserve(user.len() + TRAILER_BYTES);
    out.extend_from_slice(user);
    out.extend_from_slice(&trailer(sequence, kind).to_le_bytes());
}

/// An order of user keys. Its name is stored, and a store opens only with the same.
pub trait Compare: Send + Sync {
    /// Names the order. A changed order needs a new name.
    fn name(&self) -> &str;

    /// How `a` stands to `b`. Keys of different bytes are never equal: point reads find keys by a
    /// hash of their bytes, and scans know by the bytes which versions are of one key.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Whether the order is that of unsigned bytes, under another name. Searches need fewer
    /// comparisons then. Always the same answer, for the same order.
    fn is_bytewise(&self) -> bool {
        false
    }

    /// Where in `key` a prefix for a [`PrefixExtractor`](crate::PrefixExtractor) begins: behind
    /// what is not of the program. `None` if keys that begin alike need not stand together. Only
    /// key spaces have something there: any other order does well with this answer.
    fn prefix_begin(&self, _key: &[u8]) -> Option<usize> {
        self.is_bytewise().then_some(0)
    }

    /// Whether keys were compared that the order has no rule for, so that nothing is proved by what
    /// was found with it. Of an order that has a rule for all keys, never.
    fn is_incomplete(&self) -> bool {
        false
    }
}

/// The order of a store's keys.
#[derive(Clone, Default)]
pub enum Comparator {
    /// By unsigned bytes, a proper prefix first.
    #[default]
    Bytewise,
    /// By somebody else's rule.
    Custom(Arc<dyn Compare>),
}

impl fmt::Debug for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Comparator").field(&self.name()).finish()
    }
}

impl Comparator {
    /// As stored in the manifest.
    ///
    /// ```
    /// # use keyrack_flodb::Comparator;
    /// assert_eq!(Comparator::Bytewise.name(), "keyrack.bytewise");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Comparator::Bytewise => "keyrack.bytewise",
            Comparator::Custom(rule) => rule.name(),
        }
    }

    /// Whether keys are in the order of their bytes.
    #[inline]
    pub(crate) fn is_bytewise(&self) -> bool {
        match self {
            Comparator::Bytewise => true,
            Comparator::Custom(rule) => rule.is_bytewise(),
        }
    }

    /// Where in a key its prefix for an extractor begins.
    #[inline]
    pub(crate) fn prefix_begin(&self, key: &[u8]) -> Option<usize> {
        match self {
            Comparator::Bytewise => Some(0),
            Comparator::Custom(rule) => rule.prefix_begin(key),
        }
    }

    /// Refuses what was found with an order that has not known all keys.
    pub(crate) fn check_complete(&self, dir: &Path) -> Result<()> {
        match self {
            Comparator::Custom(rule) if rule.is_incomplete() => Err(Error::Usage(format!(
                "{}: some keys are in an order that was not given",
                dir.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Compares user keys.
    #[inline]
    pub(crate) fn user(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Comparator::Bytewise => compare_bytes(a, b),
            Comparator::Custom(rule) => rule.compare(a, b),
        }
    }

    /// Compares internal keys, and says whether their user keys are the same.
    #[inline]
    pub(crate) fn internal_and_user(&self, a: &[u8], b: &[u8]) -> (Ordering, bool) {
        match self.user(user_of(a), user_of(b)) {
            Ordering::Equal => (trailer_of(b).cmp(&trailer_of(a)), true),
            order => (order, false),
        }
    }

    /// Compares internal keys.
    #[inline]
    pub(crate) fn internal(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.user(user_of(a), user_of(b)).then_with(|| trailer_of(b).cmp(&trailer_of(a)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn internal(user: &[u8], sequence: u64, kind: Kind) -> Vec<u8> {
        let mut key = Vec::new();
        append(&mut key, user, sequence, kind);
        key
    }

    pub(crate) fn put_key(user: &[u8], sequence: u64) -> Vec<u8> {
        internal(user, sequence, Kind::Put)
    }

    /// Keys descend.
    struct Backwards;

    impl Compare for Backwards {
        fn name(&self) -> &str {
            "test.backwards"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }

    pub(crate) fn backwards() -> Comparator {
        Comparator::Custom(Arc::new(Backwards))
    }

    #[test]
    fn newer_entries_of_a_key_come_first() {
        let sorted = [
            internal(b"", 5, Kind::Put),
            internal(b"a", SEQUENCE_MAX, Kind::Put),
            internal(b"a", 7, Kind::Put),
            internal(b"a", 7, Kind::Delete),
            internal(b"a", 0, Kind::Delete),
            internal(b"a\0", 9, Kind::Put),
            internal(b"b", 1, Kind::Put),
        ];
        let order = Comparator::Bytewise;
        for pair in sorted.windows(2) {
            assert_eq!(order.internal(&pair[0], &pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn keys_come_apart_as_they_were_put_together() {
        let key = internal(b"key", 77, Kind::Put);
        let parsed = Parsed { user: b"key", sequence: 77, kind: Kind::Put };
        assert_eq!(parse(&key), Some(parsed));
        assert_eq!(user_of(&key), b"key");
        assert_eq!(parse(b"short"), None);
        assert_eq!(parse(b"kind 255\xff\0\0\0\0\0\0\0"), None);
    }
}
