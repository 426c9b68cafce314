//! What a transaction has read and its commit must find unchanged: keys, and ranges of keys.
//!
//! Keys lie one behind the other in one buffer, each once. A scan is one range that grows while its
//! iterator moves. A set that grows beyond [`BYTES_MAX`] becomes the range of all keys: then any
//! write of others is a conflict, and the set takes no more memory.

use super::hash_index::HashIndex;
use crate::key::Comparator;
use std::ops::Range;

/// Bytes of keys and of what belongs to them.
const BYTES_MAX: usize = 32 << 20;

/// Of a key, beside its bytes.
const KEY_BYTES: usize = 40;

/// Of a range, beside the bytes of its ends.
const RANGE_BYTES: usize = 96;

/// Where a range ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum High {
    /// It has all keys behind its beginning.
    Open,
    /// With this key.
    With(Vec<u8>),
    /// Before this key.
    Before(Vec<u8>),
}

/// Keys that lie together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key; none if it has all keys before its end.
    pub(crate) low: Option<Vec<u8>>,
    pub(crate) high: High,
}

impl KeyRange {
    pub(crate) const ALL: KeyRange = KeyRange { low: None, high: High::Open };

    fn bytes(&self) -> usize {
        let high = match &self.high {
            High::Open => 0,
            High::With(key) | High::Before(key) => key.len(),
        };
        RANGE_BYTES + self.low.as_ref().map_or(0, Vec::len) + high
    }

    /// Whether `key` lies before its end.
    pub(crate) fn ends_behind(&self, key: &[u8], order: &Comparator) -> bool {
        match &self.high {
            High::Open => true,
            High::With(high) => order.user(key, high).is_le(),
            High::Before(high) => order.user(key, high).is_lt(),
        }
    }

    /// Whether keys from `from` on and before `to` may be in it.
    pub(crate) fn meets(&self, from: &[u8], to: &[u8], order: &Comparator) -> bool {
        let begins_before = self.low.as_deref().is_none_or(|low| order.user(low, to).is_lt());
        begins_before && self.ends_behind(from, order)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    bytes: Vec<u8>,
    keys: Vec<Range<usize>>,
    index: HashIndex,
    ranges: Vec<KeyRange>,
    range_bytes: usize,
    /// It has become the range of all keys.
    is_all: bool,
}

impl ReadSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    pub(super) fn add_key(&mut self, key: &[u8], hash: u64) {
        if self.is_all
            || self.index.find(hash, |at| self.bytes[self.keys[at].clone()] == *key).is_some()
        {
            return;
        }
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push(begin..self.bytes.len());
        self.index.push(hash);
        self.limit();
    }

    /// Begins a range, and returns its number.
    pub(super) fn add_range(&mut self, range: KeyRange) -> usize {
        if !self.is_all {
            self.range_bytes += range.bytes();
            self.ranges.push(range);
            self.limit();
        }
        self.ranges.len() - 1
    }

    /// Changes the range of this number, unless all keys count anyway.
    pub(super) fn change_range(&mut self, number: usize, change: impl FnOnce(&mut KeyRange)) {
        if self.is_all {
            return;
        }
        let range = &mut self.ranges[number];
        self.range_bytes -= range.bytes();
        change(range);
        self.range_bytes += range.bytes();
        self.limit();
    }

    /// Removes everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
        self.index.truncate(0);
        self.ranges.clear();
        (self.range_bytes, self.is_all) = (0, false);
    }

    /// Bytes of memory that it keeps for keys.
    pub(super) fn kept_bytes(&self) -> usize {
        self.bytes.capacity() + KEY_BYTES * self.keys.capacity()
    }

    fn limit(&mut self) {
        let keys = self.bytes.len() + KEY_BYTES * self.keys.len();
        if keys + self.range_bytes > BYTES_MAX {
            *self = ReadSet { ranges: vec![KeyRange::ALL], is_all: true, ..ReadSet::default() };
        }
    }

    /// The keys with their hashes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let keys = self.keys.iter().map(|key| &self.bytes[key.clone()]);
        keys.zip(self.index.hashes().iter().copied())
    }

    pub(crate) fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash;

    fn add(set: &mut ReadSet, key: &[u8]) {
        set.add_key(key, hash(key));
    }

    #[test]
    fn a_key_that_is_read_again_is_there_once() {
        let mut set = ReadSet::default();
        for _ in 0..3 {
            (0..100_u8).for_each(|key| add(&mut set, &[key]));
        }
        assert_eq!(set.keys().count(), 100);
        assert!(set.keys().all(|(key, own)| hash(key) == own));
    }

    #[test]
    fn a_set_beyond_its_limit_is_all_keys() {
        let mut set = ReadSet::default();
        let long = vec![7; BYTES_MAX / 4];
        for key in 0..4_u8 {
            add(&mut set, &[&[key], &long[..]].concat());
        }
        assert_eq!((set.keys().count(), set.ranges()), (0, &[KeyRange::ALL][..]));
        add(&mut set, b"more");
        assert_eq!(set.add_range(KeyRange::ALL), 0);
        set.change_range(0, |range| range.low = Some(b"a".to_vec()));
        assert_eq!((set.keys().count(), set.ranges()), (0, &[KeyRange::ALL][..]));
    }

    #[test]
    fn ranges_know_where_they_end() {
        let order = Comparator::Bytewise;
        let range = |high| KeyRange { low: Some(b"c".to_vec()), high };
        let with = range(High::With(b"f".to_vec()));
        let before = range(High::Before(b"f".to_vec()));
        assert!(with.ends_behind(b"f", &order) && !with.ends_behind(b"fa", &order));
        assert!(before.ends_behind(b"e", &order) && !before.ends_behind(b"f", &order));
        assert!(range(High::Open).ends_behind(b"z", &order));
        assert!(with.meets(b"f", b"z", &order) && !before.meets(b"f", b"z", &order));
        assert!(with.meets(b"a", b"ca", &order) && !with.meets(b"a", b"c", &order));
        assert!(KeyRange::ALL.meets(b"a", b"b", &order));
    }
}
