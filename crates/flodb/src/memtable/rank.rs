//! The order of entries, and the eight bytes of a key that mostly decide it.
//!
//! User keys ascend by the comparator, versions of one key from the newest to the oldest; of two
//! entries that agree in all that, which a caller never makes, the later one comes first. In the
//! order by bytes, the first difference of two keys nearly always lies in the eight bytes behind
//! what all keys at hand share. As a big-endian number, padded with zeros, these bytes are the
//! **prefix**: whose prefix is smaller comes first, and equal ones say nothing. By a comparator of
//! somebody else's all prefixes are zero.

use super::arena::{Arena, Entry, Handle};
use crate::key::Comparator;
use std::cmp::Ordering;

/// Compares the entries of one arena.
#[derive(Clone, Copy)]
pub(super) struct Rank<'a> {
    pub(super) arena: &'a Arena,
    pub(super) comparator: &'a Comparator,
}

impl<'a> Rank<'a> {
    /// Whether prefixes say anything.
    pub(super) fn has_prefixes(self) -> bool {
        self.comparator.is_bytewise()
    }

    #[inline]
    pub(super) fn entry(self, handle: Handle) -> Entry<'a> {
        self.arena.entry(handle)
    }

    /// The prefix of an entry's key behind `skip` bytes.
    #[inline]
    pub(super) fn prefix(self, handle: Handle, skip: usize) -> u64 {
        if self.has_prefixes() { prefix(self.entry(handle).key(), skip) } else { 0 }
    }

    /// How two entries stand to each other.
    pub(super) fn compare(self, a: Handle, b: Handle) -> Ordering {
        self.compare_with(a, self.entry(b).key(), self.entry(b).trailer()).then_with(|| b.cmp(&a))
    }

    /// How an entry stands to a key and trailer.
    pub(super) fn compare_with(self, a: Handle, user: &[u8], trailer: u64) -> Ordering {
        let a = self.entry(a);
        self.comparator.user(a.key(), user).then_with(|| trailer.cmp(&a.trailer()))
    }

    /// How many bytes all these keys begin with alike, up to eight of which lie in a prefix. None
    /// where prefixes say nothing.
    pub(super) fn shared(self, mut handles: impl Iterator<Item = Handle>) -> usize {
        let Some(first) = handles.next().filter(|_| self.has_prefixes()) else { return 0 };
        let first = self.entry(first).key();
        let mut shared = first.len();
        for handle in handles {
            shared = shared_bytes(&first[..shared], self.entry(handle).key());
            if shared == 0 {
                break;
            }
        }
        shared
    }
}

/// The eight bytes of a key behind `skip` as a number.
#[inline]
pub(super) fn prefix(key: &[u8], skip: usize) -> u64 {
    // A shorter key has nothing behind the shared part.
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_be_bytes(*whole);
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

/// How many bytes two keys begin with alike.
fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.chunks_exact(16).zip(b.chunks_exact(16));
    let whole = chunks.take_while(|(a, b)| a == b).count() * 16;
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_ascend_with_the_keys() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"b"];
        for pair in keys.windows(2) {
            assert!(prefix(pair[0], 0) <= prefix(pair[1], 0), "{pair:?}");
        }
        assert_eq!(prefix(b"xxabcdefghi", 2), u64::from_be_bytes(*b"abcdefgh"));
        assert_eq!(prefix(b"xxa", 2), u64::from_be_bytes(*b"a\0\0\0\0\0\0\0"));
        assert_eq!(prefix(b"x", 2), 0);
    }

    #[test]
    fn shared_bytes_end_at_the_first_difference() {
        let long = [7; 100];
        for at in 0..100 {
            let mut other = long;
            other[at] = 8;
            assert_eq!(shared_bytes(&long, &other), at);
            assert_eq!(shared_bytes(&long, &other[..at]), at);
            assert_eq!(shared_bytes(&long[..at], &other), at);
        }
        assert_eq!(shared_bytes(&long, &long), 100);
    }
}
