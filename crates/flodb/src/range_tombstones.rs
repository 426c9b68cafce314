//! Range tombstones of keys, and what is removed where.
//!
//! ```text
//!   tombstones    [a ........ f)@3   [c ... e)@9   [h .. k)@5
//!   bounds         a     c     e     f     h     k
//!   newest         3     9     3     -     5
//! ```
//!
//! The bounds split the keys into intervals, in each of which the same tombstones count. The index
//! holds the newest of each interval, so a binary search answers every current reader. A reader of
//! a moment before the newest one goes through the tombstones by age, newest first, and compares
//! numbers of intervals. The memory is O(tombstones), however they overlap. A list of the
//! tombstones of each interval would be quadratic where all begin at one key, as when a log is cut
//! off at its old end again and again.
//!
//! Tombstones of no key, whose end is not behind their beginning, are in no index.

use crate::key::Comparator;
use std::cmp::Ordering;
use std::fmt;

/// Removes what is older of the user keys from `begin` on and before `end`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    pub(crate) begin: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) sequence: u64,
}

impl RangeTombstone {
    /// Whether it removes nothing.
    pub(crate) fn is_empty(&self, order: &Comparator) -> bool {
        order.user(&self.begin, &self.end) != Ordering::Less
    }

    /// What of it lies from the first key on and before the second; nothing is an open end.
    pub(crate) fn within(
        &self,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        order: &Comparator,
    ) -> Option<RangeTombstone> {
        let low = low.filter(|low| order.user(&self.begin, low).is_lt());
        let high = high.filter(|high| order.user(high, &self.end).is_lt());
        let begin = low.map_or_else(|| self.begin.clone(), <[u8]>::to_vec);
        let end = high.map_or_else(|| self.end.clone(), <[u8]>::to_vec);
        let cut = RangeTombstone { begin, end, sequence: self.sequence };
        (!cut.is_empty(order)).then_some(cut)
    }
}

impl fmt::Debug for RangeTombstone {
    /// `[a, f)@3`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = (self.begin.escape_ascii(), self.end.escape_ascii());
        write!(f, "[{begin}, {end})@{}", self.sequence)
    }
}

/// In [`RangeTombstoneIndex::newest`]: nothing. No write has this sequence number.
const NOTHING: u64 = u64::MAX;

/// A tombstone, from one interval up to but not with another.
#[derive(Clone, Copy)]
struct Stretch {
    sequence: u64,
    from: u32,
    to: u32,
}

/// Some tombstones, at least one. See the header.
pub(crate) struct RangeTombstoneIndex {
    order: Comparator,
    /// Ascending.
    bounds: Box<[Box<[u8]>]>,
    /// Of each interval, which begins at the bound of the same index.
    newest: Box<[u64]>,
    /// Newest first.
    by_age: Box<[Stretch]>,
}

/// What counts at a key, and how far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    /// The newest tombstone.
    pub(crate) newest: Option<u64>,
    /// The same from this key on; from the first on, if there is none.
    pub(crate) low: Option<&'a [u8]>,
    /// And before this one; up to the last, if there is none.
    pub(crate) high: Option<&'a [u8]>,
}

impl RangeTombstoneIndex {
    /// Of these tombstones; `None` if none of them removes anything. O(n log n).
    pub(crate) fn new(
        ranges: impl IntoIterator<Item = RangeTombstone>,
        order: &Comparator,
    ) -> Option<Self> {
        let ranges = ranges.into_iter().filter(|range| !range.is_empty(order));
        let ranges: Vec<RangeTombstone> = ranges.collect();
        let mut bounds: Vec<&[u8]> =
            ranges.iter().flat_map(|range| [&*range.begin, &*range.end]).collect();
        bounds.sort_unstable_by(|a, b| order.user(a, b));
        bounds.dedup_by(|a, b| order.user(a, b) == Ordering::Equal);
        let place = |key: &[u8]| bounds.partition_point(|bound| order.user(bound, key).is_lt());
        let mut by_age: Vec<Stretch> = ranges
            .iter()
            .map(|range| Stretch {
                sequence: range.sequence,
                from: place(&range.begin) as u32,
                to: place(&range.end) as u32,
            })
            .collect();
        by_age.sort_unstable_by_key(|stretch| std::cmp::Reverse(stretch.sequence));
        let newest = painted(&by_age, bounds.len().checked_sub(1)?);
        Some(RangeTombstoneIndex {
            order: order.clone(),
            bounds: bounds.into_iter().map(Box::from).collect(),
            newest: newest.into(),
            by_age: by_age.into(),
        })
    }

    /// The newest tombstone of `key` up to the sequence number `upto`. O(log n), O(n) if there is a
    /// newer one. Allocates nothing.
    #[inline(never)]
    pub(crate) fn newest(&self, key: &[u8], upto: u64) -> Option<u64> {
        self.upto(self.interval(key)?, upto)
    }

    /// The same, and how far it is the same. O(log n), O(n) if there is a newer one.
    pub(crate) fn span(&self, key: &[u8], upto: u64) -> Span<'_> {
        match self.interval(key) {
            Some(at) => Span {
                newest: self.upto(at, upto),
                low: Some(&self.bounds[at]),
                high: Some(&self.bounds[at + 1]),
            },
            None if self.order.user(key, self.low()).is_lt() => {
                Span { newest: None, low: None, high: Some(self.low()) }
            }
            None => Span { newest: None, low: Some(self.high()), high: None },
        }
    }

    /// Where keys that are all removed, counted from `key` on in the direction of the order, end.
    /// Nothing, if it is not itself. It may go on behind that. O(intervals passed).
    pub(crate) fn deleted_up_to(&self, key: &[u8], upto: u64) -> Option<&[u8]> {
        let at = self.interval(key).filter(|at| self.newest[*at] <= upto)?;
        let more = self.newest[at..].iter().take_while(|newest| **newest <= upto).count();
        Some(&self.bounds[at + more])
    }

    /// The same backwards: the first of these keys.
    pub(crate) fn deleted_down_to(&self, key: &[u8], upto: u64) -> Option<&[u8]> {
        let at = self.interval(key).filter(|at| self.newest[*at] <= upto)?;
        let more = self.newest[..=at].iter().rev().take_while(|newest| **newest <= upto).count();
        Some(&self.bounds[at + 1 - more])
    }

    /// Whether all that is not newer than `sequence` is removed of the keys from `low` to `high`,
    /// both included. O(log n + intervals).
    pub(crate) fn covers_all(&self, low: &[u8], high: &[u8], sequence: u64) -> bool {
        let (Some(from), Some(to)) = (self.interval(low), self.interval(high)) else {
            return false;
        };
        self.newest[from..=to].iter().all(|newest| *newest != NOTHING && *newest > sequence)
    }

    /// All tombstones, newest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.by_age.iter().map(|stretch| RangeTombstone {
            begin: self.bounds[stretch.from as usize].to_vec(),
            end: self.bounds[stretch.to as usize].to_vec(),
            sequence: stretch.sequence,
        })
    }

    /// Disjoint tombstones, by key, that leave what all of them together leave.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            at += self.newest[at..].iter().take_while(|newest| **newest == NOTHING).count();
            let sequence = *self.newest.get(at)?;
            let from = at;
            at += self.newest[at..].iter().take_while(|newest| **newest == sequence).count();
            let (begin, end) = (self.bounds[from].to_vec(), self.bounds[at].to_vec());
            Some(RangeTombstone { begin, end, sequence })
        })
    }

    /// Bytes of memory of all that it has. O(bounds).
    pub(crate) fn memory_bytes(&self) -> usize {
        let keys: usize = self.bounds.iter().map(|bound| bound.len()).sum();
        size_of::<Self>()
            + size_of_val(&*self.bounds)
            + keys
            + size_of_val(&*self.newest)
            + size_of_val(&*self.by_age)
    }

    /// How many tombstones there are.
    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// The first key that is removed.
    pub(crate) fn low(&self) -> &[u8] {
        &self.bounds[0]
    }

    /// The first key behind all that is removed.
    pub(crate) fn high(&self) -> &[u8] {
        &self.bounds[self.bounds.len() - 1]
    }

    /// The interval of a key that lies between the first and the last bound.
    #[inline]
    fn interval(&self, key: &[u8]) -> Option<usize> {
        let begun = self.bounds.partition_point(|bound| self.order.user(bound, key).is_le());
        begun.checked_sub(1).filter(|at| *at < self.newest.len())
    }

    #[inline]
    fn upto(&self, at: usize, upto: u64) -> Option<u64> {
        match self.newest[at] {
            NOTHING => None,
            newest if newest <= upto => Some(newest),
            _ => self.older(at as u32, upto),
        }
    }

    #[cold]
    fn older(&self, at: u32, upto: u64) -> Option<u64> {
        let first = self.by_age.partition_point(|stretch| stretch.sequence > upto);
        let mut older = self.by_age[first..].iter();
        older.find(|stretch| (stretch.from..stretch.to).contains(&at)).map(|found| found.sequence)
    }
}

impl fmt::Debug for RangeTombstoneIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

/// Of each interval the newest stretch, in nearly O(stretches + intervals): the newest is painted
/// first, and each later one skips what is painted.
fn painted(by_age: &[Stretch], intervals: usize) -> Vec<u64> {
    let mut newest = vec![NOTHING; intervals];
    // From each interval the way to the next that is not painted, itself if it is not.
    let mut free: Vec<u32> = (0..=intervals as u32).collect();
    let find = |free: &mut [u32], mut at: u32| {
        while free[at as usize] != at {
            let next = free[free[at as usize] as usize];
            free[at as usize] = next;
            at = next;
        }
        at
    };
    for stretch in by_age {
        let mut at = find(&mut free, stretch.from);
        while at < stretch.to {
            newest[at as usize] = stretch.sequence;
            free[at as usize] = at + 1;
            at = find(&mut free, at + 1);
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SEQUENCE_MAX;
    use crate::key::tests::backwards;
    use keyrack_testkit::random::{Announced, Draw, seeds_or};

    fn range(begin: &[u8], end: &[u8], sequence: u64) -> RangeTombstone {
        RangeTombstone { begin: begin.to_vec(), end: end.to_vec(), sequence }
    }

    /// The newest of a list, one by one.
    fn newest(ranges: &[RangeTombstone], order: &Comparator, key: &[u8], upto: u64) -> Option<u64> {
        let covers = |range: &&RangeTombstone| {
            order.user(&range.begin, key).is_le() && order.user(key, &range.end).is_lt()
        };
        let found = ranges.iter().filter(|range| range.sequence <= upto).filter(covers);
        found.map(|range| range.sequence).max()
    }

    #[test]
    fn an_index_answers_as_its_list() {
        for seed in seeds_or(1..=60) {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            let order = match seed % 3 {
                0 => backwards(),
                _ => Comparator::Bytewise,
            };
            let width = [3, 20, 60][draw.below(3)];
            let count = draw.below(20);
            let mut ranges: Vec<RangeTombstone> = (1..=count)
                .map(|n| {
                    let (one, other) = (draw.below(60) as u8, draw.below(width) as u8);
                    range(&[one], &[one.saturating_add(other)], n * 2)
                })
                .collect();
            if seed % 3 == 0 {
                ranges.iter_mut().for_each(|it| std::mem::swap(&mut it.begin, &mut it.end));
            }
            let all = ranges.iter().filter(|range| !range.is_empty(&order)).count();
            let Some(index) = RangeTombstoneIndex::new(ranges.clone(), &order) else {
                assert_eq!(all, 0);
                continue;
            };
            assert_eq!(index.len(), all);
            let pieces: Vec<RangeTombstone> = index.pieces().collect();
            for pair in pieces.windows(2) {
                assert!(order.user(&pair[0].end, &pair[1].begin).is_le(), "{pieces:?}");
            }
            let keys = || (0..=120).map(|key| [key]);
            for key in keys() {
                assert_eq!(
                    newest(&pieces, &order, &key, SEQUENCE_MAX),
                    newest(&ranges, &order, &key, SEQUENCE_MAX)
                );
                for upto in 0..count * 2 + 2 {
                    let expected = newest(&ranges, &order, &key, upto);
                    assert_eq!(index.newest(&key, upto), expected, "{key:?} at {upto}");
                    let span = index.span(&key, upto);
                    assert_eq!(span.newest, expected);
                    let within = |other: &[u8]| {
                        span.low.is_none_or(|low| order.user(low, other).is_le())
                            && span.high.is_none_or(|high| order.user(other, high).is_lt())
                    };
                    assert!(within(&key));
                    for other in keys().filter(|other| within(other)) {
                        assert_eq!(newest(&ranges, &order, &other, upto), expected);
                    }
                    let up = index.deleted_up_to(&key, upto).map(<[u8]>::to_vec);
                    let down = index.deleted_down_to(&key, upto).map(<[u8]>::to_vec);
                    assert!(up.is_none() || expected.is_some());
                    assert_eq!(up.is_some(), down.is_some());
                    let passed = |other: &[u8]| match (&up, &down) {
                        (Some(up), Some(down)) => {
                            order.user(down, other).is_le() && order.user(other, up).is_lt()
                        }
                        _ => false,
                    };
                    for other in keys().filter(|other| passed(other)) {
                        assert!(newest(&ranges, &order, &other, upto).is_some());
                    }
                }
                for other in keys().filter(|other| order.user(&key, other).is_le()) {
                    let sequence = draw.below(count * 2 + 2);
                    let between = keys().filter(|between| {
                        order.user(&key, between).is_le() && order.user(between, &other).is_le()
                    });
                    let expected = between.into_iter().all(|between| {
                        newest(&ranges, &order, &between, SEQUENCE_MAX) > Some(sequence)
                    });
                    assert_eq!(index.covers_all(&key, &other, sequence), expected);
                }
            }
            let mut listed: Vec<RangeTombstone> = index.ranges().collect();
            listed.reverse();
            ranges.retain(|range| !range.is_empty(&order));
            assert_eq!(listed, ranges);
        }
    }

    #[test]
    fn what_removes_nothing_is_in_no_index() {
        let order = Comparator::Bytewise;
        assert!(RangeTombstoneIndex::new([], &order).is_none());
        assert!(
            RangeTombstoneIndex::new([range(b"a", b"a", 1), range(b"b", b"a", 2)], &order)
                .is_none()
        );
        let index =
            RangeTombstoneIndex::new([range(b"z", b"a", 1), range(b"c", b"d", 2)], &order).unwrap();
        assert_eq!((index.low(), index.high(), index.len()), (&b"c"[..], &b"d"[..], 1));
    }

    /// A log whose old end is cut off again and again: all tombstones begin alike.
    #[test]
    fn an_index_is_as_large_as_its_list() {
        let order = Comparator::Bytewise;
        let count = 20_000_u32;
        let cut = |n: u32| range(b"", &n.to_be_bytes(), u64::from(n));
        let index = RangeTombstoneIndex::new((1..=count).map(cut), &order).unwrap();
        assert_eq!(index.bounds.len(), count as usize + 1);
        for n in [1, 2, 777, count - 1] {
            assert_eq!(index.newest(&n.to_be_bytes(), SEQUENCE_MAX), Some(u64::from(count)));
            assert_eq!(index.newest(&n.to_be_bytes(), u64::from(n)), None);
            assert_eq!(index.newest(&n.to_be_bytes(), u64::from(n) + 1), Some(u64::from(n) + 1));
        }
        assert_eq!(index.pieces().count(), 1);
        assert_eq!(index.newest(&count.to_be_bytes(), SEQUENCE_MAX), None);
    }
}
