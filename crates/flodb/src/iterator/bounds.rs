//! The keys between two bounds: as a caller gives them, and as an iterator keeps them.
//!
//! An iterator with bounds passes no entry outside of them, so tombstones behind its end cost
//! nothing. A bound is one comparison an entry, and only in the direction of the step.

use crate::key::Comparator;
use std::cmp::Ordering;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys, in the order of the store or the key space: `..`, `low..`, `..high`,
/// `low..high`, `..=high`, `low..=high`, or a pair of [`Bound`]s, of anything that is a byte string
/// (`&[u8]`, `[u8; N]`, `Vec<u8>`, `&str`, `String`). If the high bound is before the low one, the
/// range is empty.
///
/// This is [`RangeBounds`], except that the type of the key follows from that of the range.
///
/// ```
/// use keyrack_flodb::KeyRange;
/// use std::ops::Bound;
///
/// let bounds = ("a"..="b").key_bounds();
/// assert_eq!(bounds, (Bound::Included(&b"a"[..]), Bound::Included(&b"b"[..])));
/// ```
pub trait KeyRange {
    /// The low and the high bound.
    ///
    /// ```
    /// use keyrack_flodb::KeyRange;
    /// use std::ops::Bound;
    ///
    /// assert_eq!((..).key_bounds(), (Bound::Unbounded, Bound::Unbounded));
    /// ```
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyRange for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// The bounds of a range of the language.
fn bounds_of<'a, K: AsRef<[u8]> + 'a>(
    range: &'a impl RangeBounds<K>,
) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bounds_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bounds_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bounds_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bounds_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bounds_of(self)
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        bounds_of(self)
    }
}

/// The bounds of an iterator.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) low: Bound<Vec<u8>>,
    pub(crate) high: Bound<Vec<u8>>,
}

impl Default for Bounds {
    /// All keys.
    fn default() -> Self {
        Bounds { low: Bound::Unbounded, high: Bound::Unbounded }
    }
}

impl Bounds {
    /// As the caller gave them, each key as `store` has it.
    pub(crate) fn new(range: &impl KeyRange, store: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let (low, high) = range.key_bounds();
        Bounds { low: low.map(&store), high: high.map(&store) }
    }

    /// The keys from `low` on and before `high`, if there are such.
    pub(crate) fn between(low: Option<&[u8]>, high: Option<&[u8]>) -> Self {
        let bound = |key: Option<&[u8]>, of: fn(Vec<u8>) -> Bound<Vec<u8>>| {
            key.map_or(Bound::Unbounded, |key| of(key.to_vec()))
        };
        Bounds { low: bound(low, Bound::Included), high: bound(high, Bound::Excluded) }
    }

    /// The keys that begin with `prefix`, in the order of bytes.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let high = behind_prefix(prefix);
        Bounds {
            low: Bound::Included(prefix.to_vec()),
            high: high.map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// The key of the low bound.
    pub(crate) fn low_key(&self) -> Option<&[u8]> {
        match &self.low {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        }
    }

    /// Whether all keys within the bounds begin with `prefix`, as the low one does. In the order of
    /// bytes.
    pub(crate) fn end_within_prefix(&self, prefix: &[u8]) -> bool {
        match &self.high {
            Bound::Unbounded => behind_prefix(prefix).is_none(),
            Bound::Included(high) => high.starts_with(prefix),
            Bound::Excluded(high) => {
                high.starts_with(prefix) || behind_prefix(prefix).is_some_and(|it| it == *high)
            }
        }
    }

    /// Whether `key` is before all keys within the bounds.
    #[inline]
    pub(crate) fn begin_behind(&self, key: &[u8], order: &Comparator) -> bool {
        match &self.low {
            Bound::Unbounded => false,
            Bound::Included(low) => order.user(key, low) == Ordering::Less,
            Bound::Excluded(low) => order.user(key, low) != Ordering::Greater,
        }
    }

    /// Whether `key` is behind all keys within the bounds.
    #[inline]
    pub(crate) fn end_before(&self, key: &[u8], order: &Comparator) -> bool {
        match &self.high {
            Bound::Unbounded => false,
            Bound::Included(high) => order.user(key, high) == Ordering::Greater,
            Bound::Excluded(high) => order.user(key, high) != Ordering::Less,
        }
    }
}

/// The first key behind all that begin with `prefix`, in the order of bytes. `None` if there is
/// none: behind keys that begin with bytes 0xff alone there is nothing.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_last_byte_that_can_grow_has_grown() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind_prefix(b"\xfe"), Some(b"\xff".to_vec()));
        assert_eq!(behind_prefix(b"\xff\xff"), None);
        assert_eq!(behind_prefix(b""), None);
    }

    #[test]
    fn bounds_end_within_a_prefix_up_to_what_is_behind_it() {
        use Bound::{Excluded, Included, Unbounded};
        let ends = |high: Bound<&[u8]>, prefix: &[u8]| {
            Bounds { low: Unbounded, high: high.map(<[u8]>::to_vec) }.end_within_prefix(prefix)
        };
        for high in [Included(&b"ab"[..]), Included(b"abz"), Excluded(b"abz"), Excluded(b"ac")] {
            assert!(ends(high, b"ab"), "{high:?}");
        }
        for high in [Included(&b"ac"[..]), Excluded(b"ac\0"), Excluded(b"b"), Unbounded] {
            assert!(!ends(high, b"ab"), "{high:?}");
        }
        assert!(ends(Unbounded, b"\xff\xff"));
        assert!(ends(Excluded(b"b"), b"a\xff"));
    }

    #[test]
    fn all_ranges_of_the_language_have_bounds() {
        use Bound::{Excluded, Included, Unbounded};
        fn of(range: &impl KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
            range.key_bounds()
        }
        let (a, b) = (&b"a"[..], &b"b"[..]);
        assert_eq!(of(&(..)), (Unbounded, Unbounded));
        assert_eq!(of(&(a..b)), (Included(a), Excluded(b)));
        assert_eq!(of(&("a"..)), (Included(a), Unbounded));
        assert_eq!(of(&(..vec![b'b'])), (Unbounded, Excluded(b)));
        assert_eq!(of(&(b"a"..=b"b")), (Included(a), Included(b)));
        assert_eq!(of(&(..=*b"b")), (Unbounded, Included(b)));
        assert_eq!(of(&(Excluded("a"), Included("b"))), (Excluded(a), Included(b)));
    }

    #[test]
    fn a_key_is_outside_at_one_end_or_within() {
        let order = Comparator::Bytewise;
        let bounds = Bounds::new(&(Bound::Excluded("b"), Bound::Included("d")), <[u8]>::to_vec);
        let sides = ["a", "b", "b\0", "d", "d\0"].map(|key| {
            let key = key.as_bytes();
            (bounds.begin_behind(key, &order), bounds.end_before(key, &order))
        });
        let (before, within, behind) = ((true, false), (false, false), (false, true));
        assert_eq!(sides, [before, before, within, within, behind]);
    }
}
