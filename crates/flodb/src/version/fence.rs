//! Where in a level a user key belongs, without a look at most of its tables.
//!
//! A search by halves through tables touches two cache lines a step, of the table and of its key.
//! So the last keys of the tables are kept once more, in one array, as numbers:
//!
//! ```text
//!   last keys      user00017  user00399  user00871  user01500
//!   common         user0
//!   numbers        "0017"     "0399"     "0871"     "1500"      eight bytes, big-endian, after it
//! ```
//!
//! The numbers ascend with the keys, so a search over them leaves the tables whose number is that
//! of the key: nearly always one or none. Only these are compared in full. A key without the common
//! part is before all tables or behind them.
//!
//! For the order of bytes alone: another order knows nothing of numbers.

use crate::coding::common_prefix;
use std::cmp::Ordering;
use std::ops::Range;

/// The last user keys of the tables of a level.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    common: Box<[u8]>,
    numbers: Box<[u64]>,
}

/// The first eight bytes, zeros behind the end.
fn number(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

impl Fences {
    /// Of ascending keys. O(keys).
    pub(crate) fn new<'a>(keys: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let (Some(first), Some(last)) = (keys.clone().next(), keys.clone().last()) else {
            return Fences::default();
        };
        let common = common_prefix(first, last);
        let numbers = keys.map(|key| number(&key[common..])).collect();
        Fences { common: first[..common].into(), numbers }
    }

    /// The keys before the range are before `key`, and those behind it are behind `key`. O(log n),
    /// and reads nothing but the array.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Range<usize> {
        let common = &*self.common;
        let head = &key[..key.len().min(common.len())];
        match head.cmp(common) {
            Ordering::Less => 0..0,
            Ordering::Greater => self.numbers.len()..self.numbers.len(),
            Ordering::Equal => {
                let sought = number(&key[common.len()..]);
                let start = self.numbers.partition_point(|number| *number < sought);
                let same = self.numbers[start..].partition_point(|number| *number == sought);
                start..start + same
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_eight_bytes_with_zeros_behind() {
        assert_eq!(number(b""), 0);
        assert_eq!(number(b"\x01"), 1 << 56);
        assert_eq!(number(b"\x01\x02"), 0x0102 << 48);
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff"), u64::MAX << 8);
        assert_eq!(number(b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"), 0x0102_0304_0506_0708);
    }

    /// The range of [`Fences::search`] by definition, as small as the numbers permit.
    #[track_caller]
    fn check(keys: &[&[u8]], sought: &[u8]) {
        let found = Fences::new(keys.iter().copied()).search(sought);
        assert!(keys[..found.start].iter().all(|key| *key < sought), "{sought:?}: {found:?}");
        assert!(keys[found.end..].iter().all(|key| *key > sought), "{sought:?}: {found:?}");
    }

    #[test]
    fn what_lies_outside_the_range_is_decided() {
        let sets: [&[&[u8]]; 6] = [
            &[],
            &[b""],
            &[b"", b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\0\0\0", b"\x01"],
            &[b"user0001", b"user0002", b"user00020", b"user1"],
            &[b"aaaaaaaab", b"aaaaaaaac", b"aaaaaaaac\0", b"aaaaaaaad"],
            &[b"\xff", b"\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"],
        ];
        let mut sought: Vec<Vec<u8>> = sets.concat().into_iter().map(<[u8]>::to_vec).collect();
        for key in sought.clone() {
            sought.push([&key, &b"\0"[..]].concat());
            sought.push([&key, &b"\xff"[..]].concat());
            sought.push(key[..key.len().saturating_sub(1)].to_vec());
        }
        for keys in sets {
            for key in &sought {
                check(keys, key);
            }
        }
    }

    #[test]
    fn keys_that_differ_early_leave_one_candidate() {
        let keys: [&[u8]; 4] = [b"user00017", b"user00399", b"user00871", b"user01500"];
        let fences = Fences::new(keys.into_iter());
        assert_eq!(fences.search(b"user00399"), 1..2);
        assert_eq!(fences.search(b"user00400"), 2..2);
        assert_eq!(fences.search(b"user"), 0..0);
        assert_eq!(fences.search(b"users"), 4..4);
    }
}
