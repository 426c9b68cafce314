//! The ranges that a transaction deletes, and the newest of them that has a key.
//!
//! ```text
//!   numbers    0 1 2 3 4 5 6 7 8 9 ... 47 | 48 ... 63 | 64 65 66
//!              `-- index of 48 ---------' `- of 16 -'  `- tail: one by one
//! ```
//!
//! A tail of [`TAIL_MAX`] becomes an index, and takes those before it in that are not larger. So
//! there are O(log n) of them, each range was put into O(log n), and a question costs O(log^2 n).
//! Most transactions have a tail alone, and no index.
//!
//! A return to a save point cuts off the end. An index that is cut becomes several, each at least
//! twice as large as all behind it: so a later cut meets a small one, and about as many ranges as
//! an index has must come before it is made anew. Whatever the order of deletes, questions and
//! returns, n of them cost O(n log^2 n).

use crate::key::{Comparator, SEQUENCE_MAX};
use crate::range_tombstones::{RangeTombstone, RangeTombstoneIndex};

/// Ranges in no index.
const TAIL_MAX: usize = 16;

/// The ranges by number, which ascend. The owner of the numbers has the keys as well.
#[derive(Debug, Default)]
pub(super) struct OwnRanges {
    numbers: Vec<usize>,
    /// One behind the other, from the first range on.
    indexes: Vec<Indexed>,
}

#[derive(Debug)]
struct Indexed {
    /// The ranges before, and those up to its end.
    begin: usize,
    end: usize,
    /// `None` if the ranges have no key.
    index: Option<RangeTombstoneIndex>,
}

/// Gives the first key of the range of a number, and the first key behind it.
pub(super) trait RangeOf<'b>: Fn(usize) -> (&'b [u8], &'b [u8]) {}

impl<'b, F: Fn(usize) -> (&'b [u8], &'b [u8])> RangeOf<'b> for F {}

impl OwnRanges {
    /// The numbers of all.
    pub(super) fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.indexes.clear();
    }

    /// Adds the range of a number that is larger than those before.
    pub(super) fn push<'b>(&mut self, number: usize, order: &Comparator, range: impl RangeOf<'b>) {
        self.numbers.push(number);
        let (mut begin, end) = (self.indexed(), self.numbers.len());
        if end - begin < TAIL_MAX {
            return;
        }
        while let Some(before) = self.indexes.pop_if(|it| it.end - it.begin <= end - begin) {
            begin = before.begin;
        }
        self.add_index(begin, end, order, range);
    }

    /// Forgets the ranges of all numbers from `number` on.
    pub(super) fn truncate<'b>(
        &mut self,
        number: usize,
        order: &Comparator,
        range: impl RangeOf<'b>,
    ) {
        let len = self.numbers.partition_point(|own| *own < number);
        self.numbers.truncate(len);
        while let Some(cut) = self.indexes.pop_if(|last| last.end > len) {
            // Of the one that is cut, the larger part first.
            let mut begin = cut.begin;
            while len.saturating_sub(begin) >= TAIL_MAX {
                let end = begin + (len - begin) * 2 / 3;
                self.add_index(begin, end, order, &range);
                begin = end;
            }
        }
    }

    /// The newest range that has the key, by its number, if that is larger than `after`.
    pub(super) fn newest<'b>(
        &self,
        key: &[u8],
        after: Option<usize>,
        order: &Comparator,
        range: impl RangeOf<'b>,
    ) -> Option<usize> {
        let is_newer = |number: usize| after.is_none_or(|after| after < number);
        let mut tail = self.numbers[self.indexed()..].iter().rev().copied();
        let found = tail.by_ref().take_while(|number| is_newer(*number)).find(|number| {
            let (from, to) = range(*number);
            order.user(from, key).is_le() && order.user(key, to).is_lt()
        });
        if found.is_some() {
            return found;
        }
        let newer = self.indexes.iter().rev().take_while(|it| is_newer(self.numbers[it.end - 1]));
        let mut found = newer.filter_map(|it| it.index.as_ref()?.newest(key, SEQUENCE_MAX));
        found.next().map(|found| found as usize).filter(|found| is_newer(*found))
    }

    /// How many are in indexes.
    fn indexed(&self) -> usize {
        self.indexes.last().map_or(0, |last| last.end)
    }

    fn add_index<'b>(
        &mut self,
        begin: usize,
        end: usize,
        order: &Comparator,
        range: impl RangeOf<'b>,
    ) {
        let tombstones = self.numbers[begin..end].iter().map(|number| {
            let (from, to) = range(*number);
            RangeTombstone { begin: from.to_vec(), end: to.to_vec(), sequence: *number as u64 }
        });
        let index = RangeTombstoneIndex::new(tombstones, order);
        self.indexes.push(Indexed { begin, end, index });
    }
}
