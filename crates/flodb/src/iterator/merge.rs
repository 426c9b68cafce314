//! Several cursors as one.
//!
//! The child with the smallest key is the current one. Mostly it stays so for a run of entries, so
//! the runner-up is remembered: a step compares with that alone, and looks at all children only
//! when the run ends. Downward the same with the largest.

use super::LevelCursor;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::Comparator;
use crate::memtable::MemtableCursor;
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

    #[inline]
    fn next(&mut self) -> Result<()> {
        of_child!(self, inner => inner.next())
    }

    fn prev(&mut self) -> Result<()> {
        of_child!(self, inner => inner.prev())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        of_child!(self, inner => inner.entry())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The union of its children. No two of them have the same internal key.
pub(crate) struct Merge<C = Child> {
    children: Vec<C>,
    order: Comparator,
    current: Option<usize>,
    /// Of the others, the one that would be current.
    runner_up: Option<usize>,
    direction: Direction,
}

impl<C: Cursor> Merge<C> {
    pub(crate) fn new(children: Vec<C>, order: Comparator) -> Self {
        Merge { children, order, current: None, runner_up: None, direction: Direction::Up }
    }

    fn key(&self, child: usize) -> Option<&[u8]> {
        self.children[child].entry().map(|(key, _)| key)
    }

    /// Whether `a` comes before `b` in the direction of the iterator.
    fn precedes(&self, a: &[u8], b: &[u8]) -> bool {
        let order = self.order.internal(a, b);
        match self.direction {
            Direction::Up => order == Ordering::Less,
            Direction::Down => order == Ordering::Greater,
        }
    }

    /// Looks at all children.
    fn elect(&mut self) {
        (self.current, self.runner_up) = (None, None);
        for child in 0..self.children.len() {
            let Some(key) = self.key(child) else { continue };
            let leads = |other: Option<usize>| {
                let other = other.and_then(|other| self.key(other));
                other.is_none_or(|other| self.precedes(key, other))
            };
            if leads(self.current) {
                self.runner_up = self.current;
                self.current = Some(child);
            } else if leads(self.runner_up) {
                self.runner_up = Some(child);
            }
        }
    }

    /// After the current child has moved.
    #[inline]
    fn stay_or_elect(&mut self) {
        let leads = match (self.current.and_then(|current| self.key(current)), self.runner_up) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(key), Some(other)) => {
                self.key(other).is_none_or(|other| self.precedes(key, other))
            }
        };
        if !leads {
            self.elect();
        }
    }

    /// Places all children after (or before) the current entry, where they are when the cursor
    /// moves that way.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let current = self.current.expect("a cursor turns at an entry");
        let key = self.key(current).expect("the current child has an entry").to_vec();
        for child in (0..self.children.len()).filter(|&child| child != current) {
            let cursor = &mut self.children[child];
            cursor.seek(&key)?;
            if direction == Direction::Down {
                match cursor.entry() {
                    Some(_) => cursor.prev()?,
                    None => cursor.seek_last()?,
                }
            }
        }
        self.direction = direction;
        self.elect_others(current);
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
            let order = self.key(child).map(|key| self.order.internal(key, target));
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
            let cursor = &mut self.children[child];
            let placed = cursor.seek(target).and_then(|()| match (passed, cursor.entry()) {
                (Ordering::Less, _) => Ok(()),
                (_, Some(_)) => cursor.prev(),
                (_, None) => cursor.seek_last(),
            });
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

    /// The runner-up beside a given current child.
    fn elect_others(&mut self, current: usize) {
        self.runner_up = None;
        for child in (0..self.children.len()).filter(|&child| child != current) {
            let Some(key) = self.key(child) else { continue };
            let best = self.runner_up.and_then(|other| self.key(other));
            if best.is_none_or(|best| self.precedes(key, best)) {
                self.runner_up = Some(child);
            }
        }
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
        self.stay_or_elect();
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
        self.stay_or_elect();
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.children[self.current?].entry()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::put_key;

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
