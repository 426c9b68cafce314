//! Iterators over a range of keys, from both ends, and the bounds that they take.
//!
//! All bounds become `low <= key < high`: the least key after `k` is `k` and a zero byte. Each end
//! has a cursor (`cursor.rs`), made when it is first used. An end stops at the key of the other, or
//! if that has no cursor, at the bound.

use crate::cursor::RawCursor;
use crate::path::Direction;
use crate::shape::Shape;
use crate::slot::Slot;
use crate::tree::lend;
use keyrack_concurrent::Guard;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{
    Bound, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: `..`, `low..`, `..high`, `low..high`, `..=high`, `low..=high`, or a pair of
/// [`Bound`]s, of anything that is a byte string (`&[u8]`, `[u8; N]`, `Vec<u8>`, `&str`, `String`).
///
/// This is [`RangeBounds`], except that the type of the key follows from that of the range.
///
/// ```
/// use keyrack_masstree::KeyRange;
/// use std::ops::Bound;
///
/// let bounds = ("a"..="b").key_bounds();
/// assert_eq!(bounds, (Bound::Included(&b"a"[..]), Bound::Included(&b"b"[..])));
/// ```
pub trait KeyRange {
    /// The lower and the upper bound.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyRange for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! key_ranges {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                let low = RangeBounds::<K>::start_bound(self);
                let high = RangeBounds::<K>::end_bound(self);
                (low.map(AsRef::as_ref), high.map(AsRef::as_ref))
            }
        }
    )*};
}

key_ranges!(
    std::ops::Range<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeInclusive<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

/// The least key that is greater than `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The least key that is greater than all keys that begin with `prefix`; `None` if there is none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    // The prefix without its last bytes of 0xFF, plus one.
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut high = prefix[..=last].to_vec();
    high[last] += 1;
    Some(high)
}

/// An iterator over keys and values in the order of the keys, from [`Tree::range`],
/// [`Tree::prefix`] and [`Tree::iter`].
///
/// Items own their keys. Values are lent as long as the guard. To visit keys without an allocation
/// for each, use a [`Cursor`] or [`Tree::scan`].
///
/// Threads may change the tree meanwhile. Each key comes at most once, also from both ends
/// together, and in order; one that is present all the time comes. One that is inserted or removed
/// while the iterator exists comes or not. After its end an iterator stays there.
///
/// [`Cursor`]: crate::Cursor
/// [`Tree::range`]: crate::Tree::range
/// [`Tree::prefix`]: crate::Tree::prefix
/// [`Tree::iter`]: crate::Tree::iter
/// [`Tree::scan`]: crate::Tree::scan
pub struct Range<'g, V: Slot> {
    shape: &'g Shape,
    guard: &'g Guard,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// On the key that came last from this end.
    front: Option<Box<RawCursor<'g>>>,
    back: Option<Box<RawCursor<'g>>>,
    /// The ends have met.
    done: bool,
    kind: PhantomData<V>,
}

impl<'g, V: Slot> Range<'g, V> {
    /// `low <= key < high`.
    pub(crate) fn new(
        shape: &'g Shape,
        guard: &'g Guard,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> Self {
        let (front, back, done, kind) = (None, None, false, PhantomData);
        Range { shape, guard, low, high, front, back, done, kind }
    }

    pub(crate) fn within(shape: &'g Shape, guard: &'g Guard, range: &impl KeyRange) -> Self {
        let (low, high) = range.key_bounds();
        let low = match low {
            Bound::Included(low) => low.to_vec(),
            Bound::Excluded(low) => after(low),
            Bound::Unbounded => Vec::new(),
        };
        let high = match high {
            Bound::Included(high) => Some(after(high)),
            Bound::Excluded(high) => Some(high.to_vec()),
            Bound::Unbounded => None,
        };
        Range::new(shape, guard, low, high)
    }

    /// Moves the front to the next key. Returns the word of its value, unless the ends have met.
    fn step_front(&mut self) -> Option<u64> {
        let word = match &mut self.front {
            Some(front) => front.step(Direction::Up),
            None => {
                let front = Box::new(RawCursor::new(self.shape, self.guard));
                self.front.insert(front).seek(Some(&self.low), Direction::Up)
            }
        };
        let key = self.front.as_ref()?.key()?;
        let end = match &self.back {
            Some(back) => Some(back.key()?),
            None => self.high.as_deref(),
        };
        word.filter(|_| end.is_none_or(|end| key < end))
    }

    /// As [`Range::step_front`], at the other end.
    fn step_back(&mut self) -> Option<u64> {
        let word = match &mut self.back {
            Some(back) => back.step(Direction::Down),
            None => {
                let back = Box::new(RawCursor::new(self.shape, self.guard));
                self.back.insert(back).seek(self.high.as_deref(), Direction::Down)
            }
        };
        let key = self.back.as_ref()?.key()?;
        let inside = match &self.front {
            Some(front) => key > front.key()?,
            None => key >= &self.low[..],
        };
        word.filter(|_| inside)
    }
}

/// The item of the key on which `end` stands.
fn item<'g, V: Slot>(
    end: &Option<Box<RawCursor<'g>>>,
    word: Option<u64>,
    guard: &'g Guard,
) -> Option<(Vec<u8>, V::Ref<'g>)> {
    Some((end.as_ref()?.key()?.to_vec(), lend::<V>(word?, guard)))
}

impl<'g, V: Slot> Iterator for Range<'g, V> {
    type Item = (Vec<u8>, V::Ref<'g>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let word = self.step_front();
        self.done = word.is_none();
        item::<V>(&self.front, word, self.guard)
    }
}

impl<V: Slot> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let word = self.step_back();
        self.done = word.is_none();
        item::<V>(&self.back, word, self.guard)
    }
}

impl<V: Slot> FusedIterator for Range<'_, V> {}

impl<V: Slot> fmt::Debug for Range<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
