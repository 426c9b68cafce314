//! What range tombstones hide from an iterator.
//!
//! ```text
//!   child 0   memory      p@90 .................. q@80
//!   child 1   level 0          [d ............ m)@70
//!   child 2   level 6     a@1  d@2  e@3  f@4  ...  m@9
//! ```
//!
//! The iterator asks for the newest tombstone at each key that it comes to. The answer holds from
//! one bound of a tombstone to the next, and is kept that long. So a next costs two comparisons,
//! and a search in each source where a bound is passed.
//!
//! What lies below a tombstone is older than it. So where a run of keys is removed, the children
//! behind that of the tombstone may skip all of it; those before it, and its own, may not.

use crate::key::Comparator;
use crate::range_tombstones::{RangeTombstoneIndex, Span};
use std::cmp::Ordering;
use std::sync::Arc;

/// Tombstones that a source has: indexes one behind the other.
pub(crate) struct TombstoneSource {
    /// The first child of the merged cursor that lies below: behind that of the source, if the
    /// source is one. Its entries need not be read where its tombstones count.
    pub(crate) below: usize,
    pub(crate) indexes: Arc<[Arc<RangeTombstoneIndex>]>,
}

impl TombstoneSource {
    pub(crate) fn one(below: usize, index: &Arc<RangeTombstoneIndex>) -> Self {
        TombstoneSource { below, indexes: [Arc::clone(index)].into() }
    }

    /// The first index that does not end before `key` or with it.
    fn position(&self, key: &[u8], order: &Comparator) -> usize {
        self.indexes.partition_point(|index| order.user(index.high(), key) != Ordering::Greater)
    }

    fn span(&self, key: &[u8], upto: u64, order: &Comparator) -> Span<'_> {
        let at = self.position(key, order);
        let before = at.checked_sub(1).map(|before| self.indexes[before].high());
        match self.indexes.get(at) {
            None => Span { newest: None, low: before, high: None },
            Some(index) => {
                let span = index.span(key, upto);
                Span { low: span.low.or(before), ..span }
            }
        }
    }
}

/// The tombstones that an iterator sees.
pub(crate) struct VisibleTombstones {
    sources: Vec<TombstoneSource>,
    order: Comparator,
    /// Tombstones up to this sequence number count.
    sequence: u64,
    /// What is known, if anything: the newest tombstone from `low` on and before `high`.
    known: bool,
    newest: Option<u64>,
    low: Bound,
    high: Bound,
}

/// A key, or an open end.
#[derive(Default)]
struct Bound {
    key: Vec<u8>,
    is_open: bool,
}

impl Bound {
    fn set(&mut self, key: Option<&[u8]>) {
        self.is_open = key.is_none();
        self.key.clear();
        // An open end has no key.
        self.key.extend_from_slice(key.unwrap_or_default());
    }
}

impl VisibleTombstones {
    /// `None` if nothing is removed.
    pub(crate) fn new(
        sources: Vec<TombstoneSource>,
        order: Comparator,
        sequence: u64,
    ) -> Option<Self> {
        (!sources.is_empty()).then(|| VisibleTombstones {
            sources,
            order,
            sequence,
            known: false,
            newest: None,
            low: Bound::default(),
            high: Bound::default(),
        })
    }

    /// The newest tombstone of `key`.
    #[inline]
    pub(crate) fn newest(&mut self, key: &[u8]) -> Option<u64> {
        let VisibleTombstones { order, low, high, .. } = self;
        let is_known = self.known
            && (low.is_open || order.user(&low.key, key).is_le())
            && (high.is_open || order.user(key, &high.key).is_lt());
        if !is_known {
            self.find(key);
        }
        self.newest
    }

    fn find(&mut self, key: &[u8]) {
        let order = &self.order;
        let (mut newest, mut low, mut high): (Option<u64>, Option<&[u8]>, Option<&[u8]>) =
            (None, None, None);
        for source in &self.sources {
            let span = source.span(key, self.sequence, order);
            newest = newest.max(span.newest);
            if let Some(bound) = span.low
                && low.is_none_or(|low| order.user(low, bound).is_lt())
            {
                low = Some(bound);
            }
            if let Some(bound) = span.high
                && high.is_none_or(|high| order.user(bound, high).is_lt())
            {
                high = Some(bound);
            }
        }
        self.low.set(low);
        self.high.set(high);
        self.newest = newest;
        self.known = true;
    }

    /// For each source that removes `key`: the first child that may skip, and the key up to which,
    /// or moving down the one down to which, all is removed.
    pub(crate) fn skips<'a>(
        &'a self,
        key: &'a [u8],
        is_upward: bool,
    ) -> impl Iterator<Item = (usize, &'a [u8])> + 'a {
        self.sources.iter().filter_map(move |source| {
            let index = source.indexes.get(source.position(key, &self.order))?;
            let bound = if is_upward {
                index.deleted_up_to(key, self.sequence)
            } else {
                index.deleted_down_to(key, self.sequence)
            };
            Some((source.below, bound?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_tombstones::RangeTombstone;
    use keyrack_testkit::random::{Announced, Draw, seeds_or};

    /// Sources of random tombstones, some of several indexes; the answers beside those of the list
    /// of all, in any order of questions.
    #[test]
    fn a_walk_is_told_what_the_list_of_removals_says() {
        let order = Comparator::Bytewise;
        for seed in seeds_or(1..=80) {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            let (mut all, mut sources, mut sequence) = (Vec::new(), Vec::new(), 0);
            for child in 0..=draw.below(3) {
                let mut indexes = Vec::new();
                // One behind the other, in sections of 20 keys.
                for section in 0..=draw.below(4) {
                    let mut range = |draw: &mut Draw| {
                        sequence += 1;
                        let (one, other) = (draw.below(21), draw.below(21));
                        let at = |key: u64| vec![(section * 20 + key) as u8];
                        let (begin, end) = (at(one.min(other)), at(one.max(other)));
                        RangeTombstone { begin, end, sequence }
                    };
                    let ranges: Vec<_> = (0..draw.below(4)).map(|_| range(&mut draw)).collect();
                    indexes.extend(RangeTombstoneIndex::new(ranges.clone(), &order).map(Arc::new));
                    all.extend(ranges);
                }
                sources.push(TombstoneSource { below: child + 1, indexes: indexes.into() });
            }
            let upto = draw.below(sequence + 2);
            all.retain(|range| range.sequence <= upto);
            let newest = |key: u8| {
                let covers = |range: &&RangeTombstone| range.begin[0] <= key && key < range.end[0];
                all.iter().filter(covers).map(|range| range.sequence).max()
            };
            let mut tombstones = VisibleTombstones::new(sources, order.clone(), upto).unwrap();
            for _ in 0..300 {
                let key = draw.below(100) as u8;
                assert_eq!(tombstones.newest(&[key]), newest(key), "{key} up to {upto}");
                for (child, bound) in tombstones.skips(&[key], true) {
                    assert!(child > 0 && (key..bound[0]).all(|key| newest(key).is_some()));
                }
                for (child, bound) in tombstones.skips(&[key], false) {
                    assert!(child > 0 && (bound[0]..=key).all(|key| newest(key).is_some()));
                }
            }
        }
    }

    #[test]
    fn nothing_removed_is_nothing_to_ask() {
        assert!(VisibleTombstones::new(Vec::new(), Comparator::Bytewise, 1).is_none());
    }
}
