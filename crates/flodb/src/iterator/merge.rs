//! Several cursors as one.
//!
//! The children stand in a queue, in the order of their keys. The first one has the entry here; the
//! next one is its rival. A step moves the first child and compares it with the rival alone. If it
//! comes behind the rival, it goes back in the queue to its place. Downward the same with the
//! largest keys first.
//!
//! ```text
//!   queue    child 2     child 0     child 1       a rank is what sixteen bytes of the user key
//!   key      user:07     user:12     none          are as a number; downward its complement, so
//!   rank     "user:07"   "user:12"   the most      that the least rank always comes first
//! ```
//!
//! A rank is made once for each entry. Where two differ they tell the order, so most steps compare
//! two numbers and look at no other child. Keys are compared where ranks are equal: that may be the
//! rank of keys that go on alike, of an entry that ranks as none, or, in another order than that of
//! bytes, of all entries.
//!
//! Each comparison also tells whether the two entries have one user key. So the iterator above
//! knows of each entry whether it repeats the user key of the one before: in one child the child
//! knows it, between two it was compared. It keeps no key and compares none.

use super::LevelCursor;
use crate::cursor::{Approach, Cursor};
use crate::error::Result;
use crate::key::{Comparator, sequence_of};
use crate::memtable::MemtableCursor;
use crate::prefix::wide_prefix_of;
use crate::table::TableCursor;
use std::cmp::Ordering;

/// A cursor of one of the kinds that a store has.
pub(crate) enum Child {
    Memtable(MemtableCursor),
    Table(TableCursor),
    Level(LevelCursor),
}

macro_rules! of_child {
    ($child:expr, $inner:ident => $call:expr) => {
        match $child {
            Child::Memtable($inner) => $call,
            Child::Table($inner) => $call,
            Child::Level($inner) => $call,
        }
    };
}

impl Cursor for Child {
    fn seek_first(&mut self) -> Result<()> {
        of_child!(self, inner => inner.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        of_child!(self, inner => inner.seek_last())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        of_child!(self, inner => inner.seek(target))
    }

    fn approach(&mut self, target: &[u8], part: Approach) {
        of_child!(self, inner => inner.approach(target, part));
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        of_child!(self, inner => inner.next())
    }

    fn prev(&mut self) -> Result<()> {
        of_child!(self, inner => inner.prev())
    }

    #[inline(always)]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        of_child!(self, inner => inner.entry())
    }

    #[inline(always)]
    fn key(&self) -> Option<&[u8]> {
        of_child!(self, inner => inner.key())
    }

    #[inline]
    fn repeats(&self) -> bool {
        of_child!(self, inner => inner.repeats())
    }

    #[inline]
    fn may_repeat_before(&self) -> bool {
        of_child!(self, inner => inner.may_repeat_before())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    /// Downward, ranks are complements.
    #[inline]
    fn mask(self) -> u128 {
        match self {
            Direction::Up => 0,
            Direction::Down => u128::MAX,
        }
    }
}

/// The rank of a child that is nowhere, and perhaps of an entry.
const NOWHERE: u128 = u128::MAX;

/// A child in the queue.
#[derive(Clone, Copy)]
struct Queued {
    rank: u128,
    child: usize,
}

/// The union of its children, the newer ones first. Where two have a version of the same key and
/// number, the first of them counts, and comes first: a compaction that ended before its last part
/// has left it in two levels, and a filter has changed the upper one since.
pub(crate) struct Merge<C = Child> {
    children: Vec<C>,
    /// All children in their order; those that are nowhere come last.
    queue: Vec<Queued>,
    order: Comparator,
    is_bytewise: bool,
    /// The first of the queue, if it has an entry.
    current: Option<usize>,
    /// Whether the second of the queue has the user key of the first.
    rival_repeats: bool,
    /// Whether the entry here has the user key of the one that the last step forward left.
    repeats: bool,
    direction: Direction,
}

impl<C: Cursor> Merge<C> {
    pub(crate) fn new(children: Vec<C>, order: Comparator) -> Self {
        Merge {
            queue: (0..children.len()).map(|child| Queued { rank: NOWHERE, child }).collect(),
            children,
            is_bytewise: order.is_bytewise(),
            order,
            current: None,
            rival_repeats: false,
            repeats: false,
            direction: Direction::Up,
        }
    }

    /// The rank of a child where it is now.
    #[inline]
    fn rank(&self, child: usize) -> u128 {
        match self.children[child].key() {
            None => NOWHERE,
            Some(key) if self.is_bytewise => wide_prefix_of(key) ^ self.direction.mask(),
            Some(_) => 0,
        }
    }

    /// Whether child `a` comes before `b` in the direction of the cursor.
    #[inline]
    fn is_before(&self, a: Queued, b: Queued) -> bool {
        a.rank < b.rank || a.rank == b.rank && self.compare_keys(a, b).0 == Ordering::Less
    }

    /// Whether two neighbours in the queue have the same user key.
    #[inline]
    fn is_same_user(&self, a: Queued, b: Queued) -> bool {
        a.rank == b.rank && self.compare_keys(a, b).1
    }

    /// The order of two children of the same rank, and whether they have the same user key. One
    /// that is nowhere comes last.
    #[inline(never)]
    fn compare_keys(&self, a: Queued, b: Queued) -> (Ordering, bool) {
        let (first, second) = (a.child, b.child);
        match (self.children[first].key(), self.children[second].key()) {
            (Some(a), Some(b)) => {
                let (order, is_same) = self.order.internal_and_user(a, b);
                let is_twice = is_same && sequence_of(a) == sequence_of(b);
                let order = if is_twice { first.cmp(&second) } else { order };
                let is_down = self.direction == Direction::Down;
                (if is_down { order.reverse() } else { order }, is_same)
            }
            (a, b) => (b.is_some().cmp(&a.is_some()), false),
        }
    }

    /// Puts all children in their order, after any of them have moved.
    fn elect(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        for queued in &mut queue {
            queued.rank = self.rank(queued.child);
        }
        queue
            .sort_unstable_by(|a, b| a.rank.cmp(&b.rank).then_with(|| self.compare_keys(*a, *b).0));
        self.queue = queue;
        self.look_at_first();
    }

    /// After the queue has changed.
    #[inline]
    fn look_at_first(&mut self) {
        // Without children there is no entry.
        let Some(&first) = self.queue.first() else { return };
        let is_somewhere = first.rank != NOWHERE || self.children[first.child].key().is_some();
        self.current = is_somewhere.then_some(first.child);
        self.rival_repeats =
            self.queue.get(1).is_some_and(|&rival| self.is_same_user(first, rival));
    }

    /// After the current child has moved.
    #[inline]
    fn stay_or_change(&mut self, current: usize) {
        let rank = self.rank(current);
        self.queue[0].rank = rank;
        if rank < self.queue.get(1).map_or(NOWHERE, |rival| rival.rank) {
            self.repeats = self.children[current].repeats();
            self.rival_repeats = false;
        } else {
            self.requeue();
        }
    }

    /// Moves the first of the queue to its place.
    fn requeue(&mut self) {
        let moved = self.queue[0];
        let mut place = 0;
        while let Some(&next) = self.queue.get(place + 1)
            && self.is_before(next, moved)
        {
            self.queue[place] = next;
            place += 1;
        }
        self.queue[place] = moved;
        let stays = place == 0;
        self.repeats =
            if stays { self.children[moved.child].repeats() } else { self.rival_repeats };
        self.look_at_first();
    }

    /// Goes to the last entry before the internal key `target`.
    pub(crate) fn seek_before(&mut self, target: &[u8]) -> Result<()> {
        self.direction = Direction::Down;
        self.current = None;
        self.approach_all(target);
        self.children.iter_mut().try_for_each(|child| seek_before(child, target))?;
        self.elect();
        Ok(())
    }

    /// Lets the children wait for their memory at the same time.
    fn approach_all(&mut self, target: &[u8]) {
        if self.children.len() > 1 {
            for part in Approach::ALL {
                self.children.iter_mut().for_each(|child| child.approach(target, part));
            }
        }
    }

    /// Places all children after (or before) the current entry, where they are when the cursor
    /// moves that way.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        // Nowhere, should a seek fail.
        let current = self.current.take().expect("a cursor turns at an entry");
        let key = self.children[current].key().expect("the current child has an entry").to_vec();
        for child in (0..self.children.len()).filter(|&child| child != current) {
            let cursor = &mut self.children[child];
            match direction {
                Direction::Up => cursor.seek(&key)?,
                Direction::Down => seek_before(cursor, &key)?,
            }
        }
        self.direction = direction;
        self.elect();
        Ok(())
    }

    /// Moving up, passes over the entries before `target` of the children from `first` on, which
    /// the iterator does not need.
    pub(crate) fn skip_up(&mut self, first: usize, target: &[u8]) -> Result<()> {
        debug_assert!(self.direction == Direction::Up, "the cursor moves up");
        self.skip(first, target, Ordering::Less)
    }

    /// Moving down, passes over those not before `target`.
    pub(crate) fn skip_down(&mut self, first: usize, target: &[u8]) -> Result<()> {
        debug_assert!(self.direction == Direction::Down, "the cursor moves down");
        self.skip(first, target, Ordering::Greater)
    }

    fn skip(&mut self, first: usize, target: &[u8], passed: Ordering) -> Result<()> {
        let mut moved = false;
        for child in first..self.children.len() {
            let key = self.children[child].key();
            let order = key.map(|key| self.order.internal(key, target));
            let is_passed = match order {
                None => false,
                // The target itself is not before the target.
                Some(Ordering::Equal) => passed == Ordering::Greater,
                Some(order) => order == passed,
            };
            if !is_passed {
                continue;
            }
            moved = true;
            self.repeats &= Some(child) != self.current;
            let cursor = &mut self.children[child];
            let placed = match passed {
                Ordering::Less => cursor.seek(target),
                _ => seek_before(cursor, target),
            };
            if placed.is_err() {
                self.current = None;
                return placed;
            }
        }
        if moved {
            self.elect();
        }
        Ok(())
    }
}

/// Goes to the last entry before the internal key `target`.
fn seek_before<C: Cursor>(cursor: &mut C, target: &[u8]) -> Result<()> {
    cursor.seek(target)?;
    match cursor.key() {
        Some(_) => cursor.prev(),
        None => cursor.seek_last(),
    }
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.direction = Direction::Up;
        self.current = None;
        self.children.iter_mut().try_for_each(Cursor::seek_first)?;
        self.elect();
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.direction = Direction::Down;
        self.current = None;
        self.children.iter_mut().try_for_each(Cursor::seek_last)?;
        self.elect();
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.direction = Direction::Up;
        self.current = None;
        self.approach_all(target);
        self.children.iter_mut().try_for_each(|child| child.seek(target))?;
        self.elect();
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Down {
            self.turn(Direction::Up)?;
        }
        let current = self.current.expect("only from an entry");
        if let Err(error) = self.children[current].next() {
            self.current = None;
            return Err(error);
        }
        self.stay_or_change(current);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Up {
            self.turn(Direction::Down)?;
        }
        let current = self.current.expect("only from an entry");
        if let Err(error) = self.children[current].prev() {
            self.current = None;
            return Err(error);
        }
        self.stay_or_change(current);
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.children[self.current?].entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.children[self.current?].key()
    }

    #[inline]
    fn repeats(&self) -> bool {
        self.repeats
    }

    fn may_repeat_before(&self) -> bool {
        let current = self.current.expect("only at an entry");
        self.direction == Direction::Up
            || self.rival_repeats
            || self.children[current].may_repeat_before()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::{backwards, put_key};
    use crate::key::user_of;
    use keyrack_testkit::random::{Announced, Draw, seeds};

    /// Sorted entries in memory.
    struct Rows {
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        at: Option<usize>,
    }

    impl Cursor for Rows {
        fn seek_first(&mut self) -> Result<()> {
            self.at = (!self.rows.is_empty()).then_some(0);
            Ok(())
        }

        fn seek_last(&mut self) -> Result<()> {
            self.at = self.rows.len().checked_sub(1);
            Ok(())
        }

        fn seek(&mut self, target: &[u8]) -> Result<()> {
            let order = Comparator::Bytewise;
            let less = |row: &(Vec<u8>, Vec<u8>)| order.internal(&row.0, target) == Ordering::Less;
            let at = self.rows.partition_point(less);
            self.at = (at < self.rows.len()).then_some(at);
            Ok(())
        }

        fn next(&mut self) -> Result<()> {
            self.at = self.at.map(|at| at + 1).filter(|&at| at < self.rows.len());
            Ok(())
        }

        fn prev(&mut self) -> Result<()> {
            self.at = self.at.and_then(|at| at.checked_sub(1));
            Ok(())
        }

        fn entry(&self) -> Option<(&[u8], &[u8])> {
            self.at.map(|at| (self.rows[at].0.as_slice(), self.rows[at].1.as_slice()))
        }

        fn repeats(&self) -> bool {
            self.may_repeat_before()
        }

        fn may_repeat_before(&self) -> bool {
            let Some(at) = self.at else { return false };
            at > 0 && user_of(&self.rows[at - 1].0) == user_of(&self.rows[at].0)
        }
    }

    fn internal(user: u32) -> Vec<u8> {
        put_key(&user.to_be_bytes(), u64::from(user) * 3)
    }

    /// Children with the numbers below `count`, dealt out by `deal`.
    fn dealt(count: u32, children: usize, deal: impl Fn(u32) -> usize) -> Merge<Rows> {
        let mut rows: Vec<Rows> =
            (0..children).map(|_| Rows { rows: Vec::new(), at: None }).collect();
        for user in 0..count {
            rows[deal(user)].rows.push((internal(user), user.to_be_bytes().to_vec()));
        }
        Merge::new(rows, Comparator::Bytewise)
    }

    fn at(merge: &Merge<Rows>) -> Option<u32> {
        let (key, value) = merge.entry()?;
        assert_eq!(&key[..4], value);
        Some(u32::from_be_bytes(value.try_into().unwrap()))
    }

    #[test]
    fn every_dealing_gives_the_same_sequence_both_ways() {
        for children in 1..5 {
            for pattern in 0..4u32 {
                let deal = |user: u32| match pattern {
                    0 => 0,
                    1 => user as usize % children,
                    2 => (user / 7) as usize % children,
                    _ => (user * user / 3) as usize % children,
                };
                let mut merge = dealt(100, children, deal);
                merge.seek_first().unwrap();
                for user in 0..100 {
                    assert_eq!(at(&merge), Some(user));
                    merge.next().unwrap();
                }
                assert_eq!(at(&merge), None);
                merge.seek_last().unwrap();
                for user in (0..100).rev() {
                    assert_eq!(at(&merge), Some(user));
                    merge.prev().unwrap();
                }
                assert_eq!(at(&merge), None);
            }
        }
    }

    /// Versions of few keys, dealt out at random, visited by a random walk.
    #[test]
    fn an_entry_is_known_to_repeat_the_user_key_before() {
        for seed in seeds() {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            let children = 1 + draw.below(4);
            let mut dealt: Vec<Rows> =
                (0..children).map(|_| Rows { rows: Vec::new(), at: None }).collect();
            let mut all = Vec::new();
            for user in 0..20_u8 {
                for sequence in (1..=draw.below(4) as u64).rev() {
                    let key = put_key(&[user / 2, user], sequence);
                    dealt[draw.below(children)].rows.push((key.clone(), Vec::new()));
                    all.push(key);
                }
            }
            let mut merge = Merge::new(dealt, Comparator::Bytewise);
            let is_same = |a: usize, b: usize| user_of(&all[a]) == user_of(&all[b]);
            let mut at = None;
            for _ in 0..500 {
                let before = at;
                let step = if before.is_some() { draw.below(20) } else { 0 };
                match step {
                    0 => {
                        let to = draw.below(all.len());
                        merge.seek(&all[to]).unwrap();
                        at = Some(to);
                    }
                    1..10 => {
                        merge.next().unwrap();
                        at = before.map(|at| at + 1).filter(|at| *at < all.len());
                    }
                    _ => {
                        merge.prev().unwrap();
                        at = before.and_then(|at| at.checked_sub(1));
                    }
                }
                assert_eq!(merge.entry().map(|(key, _)| key), at.map(|at| &all[at][..]));
                let Some(at) = at else { continue };
                if (1..10).contains(&step) {
                    assert_eq!(merge.repeats(), is_same(at - 1, at));
                }
                if step >= 10 {
                    assert_eq!(merge.may_repeat_before(), at > 0 && is_same(at - 1, at));
                }
            }
        }
    }

    /// Keys with equal ranks, also with that of a child that is nowhere.
    #[test]
    fn keys_of_equal_ranks_are_told_by_comparison() {
        let long = |last: u8| [&[b'k'; 16][..], &[last]].concat();
        let keys: [Vec<u8>; 10] = [
            vec![],
            vec![0],
            vec![0; 15],
            vec![0; 30],
            vec![b'k'; 16],
            long(0),
            long(1),
            long(0xff),
            vec![0xff; 16],
            vec![0xff; 17],
        ];
        for seed in seeds() {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            for order in [Comparator::Bytewise, backwards()] {
                let mut sorted: Vec<Vec<u8>> = keys.iter().map(|key| put_key(key, 1)).collect();
                sorted.sort_by(|a, b| order.internal(a, b));
                let mut dealt: Vec<Rows> =
                    (0..3).map(|_| Rows { rows: Vec::new(), at: None }).collect();
                for key in &sorted {
                    dealt[draw.below(3)].rows.push((key.clone(), Vec::new()));
                }
                let mut merge = Merge::new(dealt, order);
                merge.seek_first().unwrap();
                for key in &sorted {
                    assert_eq!(merge.key(), Some(&key[..]));
                    merge.next().unwrap();
                    assert!(!merge.repeats());
                }
                assert_eq!(merge.key(), None);
                merge.seek_last().unwrap();
                for key in sorted.iter().rev() {
                    assert_eq!(merge.key(), Some(&key[..]));
                    assert!(!merge.may_repeat_before());
                    merge.prev().unwrap();
                }
                assert_eq!(merge.key(), None);
            }
        }
    }

    #[test]
    fn the_direction_changes_at_every_entry() {
        let mut merge = dealt(60, 3, |user| (user / 2) as usize % 3);
        for start in 0..60 {
            for (down, up) in [(0, 1), (1, 0), (3, 2), (2, 5)] {
                merge.seek(&internal(start)).unwrap();
                let mut expected = Some(start);
                for turn in std::iter::repeat_n(-1, down).chain(std::iter::repeat_n(1, up)) {
                    let Some(user) = expected else { break };
                    if turn < 0 {
                        merge.prev().unwrap();
                        expected = user.checked_sub(1);
                    } else {
                        merge.next().unwrap();
                        expected = Some(user + 1).filter(|&user| user < 60);
                    }
                    assert_eq!(at(&merge), expected);
                }
            }
        }
    }

    /// Some children skip at each of their entries; the others show all of theirs, both ways.
    #[test]
    fn children_that_skip_leave_the_others_as_they_were() {
        let deal = |user: u32| (user / 3) as usize % 4;
        for (first, target) in [(0, 30), (1, 30), (3, 77), (2, 0), (2, 100), (4, 50)] {
            for from in [0, 10, 31, 64] {
                let mut merge = dealt(100, 4, deal);
                merge.seek(&internal(from)).unwrap();
                merge.skip_up(first, &internal(target)).unwrap();
                let stays = |user: &u32| deal(*user) < first || *user >= target;
                for user in (from..100).filter(stays) {
                    assert_eq!(at(&merge), Some(user), "{first} {target} {from}");
                    merge.next().unwrap();
                }
                assert_eq!(at(&merge), None);

                merge.seek_last().unwrap();
                while at(&merge) > Some(from) {
                    merge.prev().unwrap();
                }
                merge.skip_down(first, &internal(target)).unwrap();
                let stays = |user: &u32| deal(*user) < first || *user < target;
                for user in (0..=from).rev().filter(stays) {
                    assert_eq!(at(&merge), Some(user), "{first} {target} {from} down");
                    merge.prev().unwrap();
                }
                assert_eq!(at(&merge), None);
            }
        }
    }

    #[test]
    fn a_seek_between_and_beyond_keys_finds_the_next_one() {
        let mut merge = dealt(20, 4, |user| user as usize % 4);
        let target = put_key(&[0, 0, 0, 7, 0], 1);
        merge.seek(&target).unwrap();
        assert_eq!(at(&merge), Some(8));
        merge.seek(&internal(20)).unwrap();
        assert_eq!(at(&merge), None);
        let mut empty = dealt(0, 3, |_| 0);
        empty.seek_first().unwrap();
        assert_eq!(at(&empty), None);
    }
}
