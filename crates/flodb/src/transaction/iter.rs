//! An iterator of a transaction: the store at the moment of the transaction, and over it what the
//! transaction has written.
//!
//! ```text
//!   store     a 1    b 2           d 4    e 5         own writes: c put, d deleted, e put
//!   own                     c 3    d -    e 9
//!   shown     a 1    b 2    c 3           e 9
//! ```
//!
//! Upward, both sides stand at their first key that is not before the place; downward, at the last
//! that is not behind it. Where both have a key, the own write counts. A change of direction places
//! both anew.
//!
//! What the iterator has passed is one range of the read set, from where it was placed to the keys
//! that it has shown. Each move makes it longer, and each seek begins another.

use super::read_set::{High, KeyRange};
use super::{State, Transaction};
use crate::db::Moment;
use crate::error::Result;
use crate::iterator::{Bounds, Iter};
use crate::key::Comparator;
use crate::table::ReadOptions;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::Bound;
use std::rc::Rc;

/// A write of the transaction: key, and value if it is no delete.
pub(super) type OwnWrite = (Vec<u8>, Option<Vec<u8>>);

/// Something that stays at the moment of a transaction that it was made at: the transaction does
/// not move to another while this lives.
struct InUse<'t>(&'t RefCell<State>);

impl<'t> InUse<'t> {
    fn new(state: &'t RefCell<State>) -> Self {
        state.borrow_mut().iterators += 1;
        InUse(state)
    }
}

impl Clone for InUse<'_> {
    fn clone(&self) -> Self {
        InUse::new(self.0)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().iterators -= 1;
    }
}

/// What iterators of a transaction are made from: its moment of the store, and what it had written
/// until now.
#[derive(Clone)]
pub(crate) struct TransactionMoment<'t> {
    transaction: &'t Transaction,
    in_use: InUse<'t>,
    store: Moment,
    bounds: Bounds,
    order: Comparator,
    own: Rc<[OwnWrite]>,
    /// Ranges that the transaction has deleted.
    deleted: Rc<[KeyRange]>,
}

impl Transaction {
    /// What iterators over the keys within `bounds` are made from at this moment of it.
    ///
    /// # Errors
    /// What operands of the transaction within the bounds meet in the store cannot be read.
    pub(crate) fn moment(
        &self,
        bounds: Bounds,
        options: ReadOptions,
    ) -> Result<TransactionMoment<'_>> {
        let inner = self.db.inner();
        let merged = self.merged_writes(&bounds, options)?;
        let store = {
            let mut state = self.state.borrow_mut();
            state.has_unchecked_reads |= !self.keeps_reads();
            inner.moment(Some(&state.snapshot), options)
        };
        Ok(TransactionMoment::new(self, store, bounds, merged))
    }
}

impl<'t> TransactionMoment<'t> {
    /// `merged` has what the last writes within the bounds that are operands come to.
    pub(super) fn new(
        transaction: &'t Transaction,
        store: Moment,
        bounds: Bounds,
        merged: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Self {
        let order = transaction.db.inner().options.comparator.clone();
        let (mut own, deleted) = {
            let State { snapshot, sets, .. } = &*transaction.state().borrow();
            let own = sets.writes.sorted(&order, snapshot.pinned.time_ms());
            (own, sets.writes.ranges())
        };
        for (key, value) in merged {
            let at = own.partition_point(|(other, _)| order.user(other, &key).is_lt());
            own[at].1 = Some(value);
        }
        let in_use = InUse::new(transaction.state());
        let (own, deleted) = (own.into(), deleted.into());
        TransactionMoment { transaction, in_use, store, bounds, order, own, deleted }
    }

    pub(super) fn order(&self) -> &Comparator {
        &self.order
    }

    /// An iterator over the keys within its bounds.
    pub(crate) fn iter(&self) -> TransactionIter<'t> {
        TransactionIter {
            in_use: self.in_use.clone(),
            order: self.order.clone(),
            store: self.store.iter(self.bounds.clone()),
            own: Rc::clone(&self.own),
            deleted: Rc::clone(&self.deleted),
            bounds: self.bounds.clone(),
            shown: Shown::Nothing,
            is_upward: true,
            own_at: 0,
            range: None,
            keeps_reads: self.transaction.keeps_reads(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Store,
    /// The own write; whether the store has its key as well.
    Own(bool),
}

/// An iterator over the keys of a store, in both directions, as a transaction sees them: at its
/// moment, with the writes that it had made when the iterator was made. It starts nowhere.
///
/// In a serializable transaction, what it passes counts as read: if others write there before the
/// commit, that is a conflict.
pub struct TransactionIter<'t> {
    in_use: InUse<'t>,
    order: Comparator,
    store: Iter,
    own: Rc<[OwnWrite]>,
    deleted: Rc<[KeyRange]>,
    bounds: Bounds,
    shown: Shown,
    is_upward: bool,
    /// Upward the own write at the place, downward the one behind it.
    own_at: usize,
    /// The number of the range in the read set; none if nothing is read or reads are not kept.
    range: Option<usize>,
    keeps_reads: bool,
}

impl TransactionIter<'_> {
    /// Whether it stands on a key.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.shown != Shown::Nothing
    }

    /// Key and value here; `None` if it stands nowhere.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.shown {
            Shown::Nothing => None,
            Shown::Store => self.store.entry(),
            Shown::Own(_) => {
                let (key, value) = self.own_here()?;
                Some((key, value.as_deref()?))
            }
        }
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// A table cannot be read, or is damaged; the iterator is nowhere then. So for all moves.
    pub fn seek_first(&mut self) -> Result<()> {
        self.place_up(None)
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As for [`TransactionIter::seek_first`].
    pub fn seek_last(&mut self) -> Result<()> {
        self.place_down(None)
    }

    /// Goes to the first key that is not before `target`.
    ///
    /// # Errors
    /// As for [`TransactionIter::seek_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let is_before = self.bounds.begin_behind(target, &self.order);
        self.place_up((!is_before).then_some(target))
    }

    /// Goes to the last key that is not behind `target`.
    ///
    /// # Errors
    /// As for [`TransactionIter::seek_first`].
    pub fn seek_back(&mut self, target: &[u8]) -> Result<()> {
        let is_behind = self.bounds.end_before(target, &self.order);
        self.place_down((!is_behind).then_some(target))
    }

    /// Goes one key on; nowhere behind the last. Nothing happens nowhere.
    ///
    /// # Errors
    /// As for [`TransactionIter::seek_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a step can fail, and lends what it shows: no iterator can"
    )]
    pub fn next(&mut self) -> Result<()> {
        // Nothing happens nowhere.
        let Some((key, _)) = self.entry() else { return Ok(()) };
        if !self.is_upward {
            let key = key.to_vec();
            self.is_upward = true;
            self.own_at = self.own_from(&key);
            let is_own = matches!(self.shown, Shown::Own(_));
            self.shown = Shown::Nothing;
            self.store.seek(&key)?;
            let is_same = self.store.entry().is_some_and(|(other, _)| other == key);
            self.shown = if is_own { Shown::Own(is_same) } else { Shown::Store };
        }
        let shown = std::mem::replace(&mut self.shown, Shown::Nothing);
        if matches!(shown, Shown::Store | Shown::Own(true)) {
            self.store.next()?;
        }
        self.own_at += usize::from(matches!(shown, Shown::Own(_)));
        self.find_visible_up()?;
        self.keep_reads_up();
        Ok(())
    }

    /// Goes one key back; nowhere before the first. Nothing happens nowhere.
    ///
    /// # Errors
    /// As for [`TransactionIter::seek_first`].
    pub fn prev(&mut self) -> Result<()> {
        // Nothing happens nowhere.
        let Some((key, _)) = self.entry() else { return Ok(()) };
        if self.is_upward {
            let key = key.to_vec();
            self.is_upward = false;
            self.own_at = self.own_behind(&key);
            let is_own = matches!(self.shown, Shown::Own(_));
            self.shown = Shown::Nothing;
            self.store.seek_back(&key)?;
            let is_same = self.store.entry().is_some_and(|(other, _)| other == key);
            self.shown = if is_own { Shown::Own(is_same) } else { Shown::Store };
        }
        let shown = std::mem::replace(&mut self.shown, Shown::Nothing);
        if matches!(shown, Shown::Store | Shown::Own(true)) {
            self.store.prev()?;
        }
        self.own_at -= usize::from(matches!(shown, Shown::Own(_)));
        self.find_visible_down()?;
        self.keep_reads_down();
        Ok(())
    }

    fn place_up(&mut self, target: Option<&[u8]>) -> Result<()> {
        (self.shown, self.is_upward) = (Shown::Nothing, true);
        match target {
            Some(target) => self.store.seek(target)?,
            None => self.store.seek_low()?,
        }
        self.own_at = match target {
            Some(target) => self.own_from(target),
            None => self.own.partition_point(|(key, _)| !self.is_above(key)),
        };
        self.find_visible_up()?;
        let low = target.or(self.bounds.low_key()).map(<[u8]>::to_vec);
        self.begin_range(low, self.high_here());
        Ok(())
    }

    fn place_down(&mut self, target: Option<&[u8]>) -> Result<()> {
        (self.shown, self.is_upward) = (Shown::Nothing, false);
        match target {
            Some(target) => self.store.seek_back(target)?,
            None => self.store.seek_high()?,
        }
        self.own_at = match target {
            Some(target) => self.own_behind(target),
            None => self.own.partition_point(|(key, _)| self.is_below(key)),
        };
        self.find_visible_down()?;
        let high = target.map_or_else(|| self.high(), |target| High::With(target.to_vec()));
        self.begin_range(self.low_here(), high);
        Ok(())
    }

    /// From where both sides stand to the first key that is shown.
    fn find_visible_up(&mut self) -> Result<()> {
        loop {
            let store = self.store.entry().map(|(key, _)| key).filter(|key| self.is_below(key));
            let own = self.own.get(self.own_at);
            let own = own.filter(|(key, _)| self.is_below(key));
            match self.shown_of(store, own, Ordering::Less) {
                Ok(shown) => {
                    self.shown = shown;
                    return Ok(());
                }
                Err((skips_store, skips_own)) => {
                    self.own_at += usize::from(skips_own);
                    if skips_store {
                        self.store.next()?;
                    }
                }
            }
        }
    }

    /// From where both sides stand back to the last key that is shown.
    fn find_visible_down(&mut self) -> Result<()> {
        loop {
            let store = self.store.entry().map(|(key, _)| key).filter(|key| self.is_above(key));
            let own = self.own_at.checked_sub(1).map(|at| &self.own[at]);
            let own = own.filter(|(key, _)| self.is_above(key));
            match self.shown_of(store, own, Ordering::Greater) {
                Ok(shown) => {
                    self.shown = shown;
                    return Ok(());
                }
                Err((skips_store, skips_own)) => {
                    self.own_at -= usize::from(skips_own);
                    if skips_store {
                        self.store.prev()?;
                    }
                }
            }
        }
    }

    /// Which of the two sides is shown; or which of them is passed: the store, the own write.
    /// `first` is how the key that comes first stands to the other.
    fn shown_of(
        &self,
        store: Option<&[u8]>,
        own: Option<&OwnWrite>,
        first: Ordering,
    ) -> std::result::Result<Shown, (bool, bool)> {
        let of_own = |(_, value): &OwnWrite, is_same: bool| match value {
            Some(_) => Ok(Shown::Own(is_same)),
            None => Err((is_same, true)),
        };
        match (store, own) {
            (None, None) => Ok(Shown::Nothing),
            (None, Some(own)) => of_own(own, false),
            (Some(store), own) => {
                let ordering = own.map_or(first, |(key, _)| self.order.user(store, key));
                match own {
                    Some(own) if ordering == Ordering::Equal => of_own(own, true),
                    Some(own) if ordering != first => of_own(own, false),
                    _ if self.is_deleted(store) => Err((true, false)),
                    _ => Ok(Shown::Store),
                }
            }
        }
    }

    /// Whether the transaction has deleted the key with a range.
    fn is_deleted(&self, key: &[u8]) -> bool {
        let begins = |range: &KeyRange| {
            range.low.as_deref().is_none_or(|low| self.order.user(low, key).is_le())
        };
        self.deleted.iter().any(|range| begins(range) && range.ends_behind(key, &self.order))
    }

    fn is_below(&self, key: &[u8]) -> bool {
        !self.bounds.end_before(key, &self.order)
    }

    fn is_above(&self, key: &[u8]) -> bool {
        !self.bounds.begin_behind(key, &self.order)
    }

    fn own_here(&self) -> Option<&OwnWrite> {
        self.own.get(if self.is_upward { self.own_at } else { self.own_at.checked_sub(1)? })
    }

    /// The first own write that is not before `key`.
    fn own_from(&self, key: &[u8]) -> usize {
        self.own.partition_point(|(own, _)| self.order.user(own, key).is_lt())
    }

    /// The first own write behind `key`.
    fn own_behind(&self, key: &[u8]) -> usize {
        self.own.partition_point(|(own, _)| self.order.user(own, key).is_le())
    }

    /// The end of the bounds.
    fn high(&self) -> High {
        match &self.bounds.high {
            Bound::Unbounded => High::Open,
            Bound::Included(key) => High::With(key.clone()),
            Bound::Excluded(key) => High::Before(key.clone()),
        }
    }

    /// Begins the range of a seek.
    fn begin_range(&mut self, low: Option<Vec<u8>>, high: High) {
        if self.keeps_reads {
            let reads = &mut self.in_use.0.borrow_mut().sets.reads;
            self.range = Some(reads.add_range(KeyRange { low, high }));
        }
    }

    /// Where a range ends that reaches up to the key here, or to the end.
    fn high_here(&self) -> High {
        self.entry().map_or_else(|| self.high(), |(key, _)| High::With(key.to_vec()))
    }

    /// Where a range begins that reaches down to the key here, or to the beginning.
    fn low_here(&self) -> Option<Vec<u8>> {
        self.entry().map(|(key, _)| key).or(self.bounds.low_key()).map(<[u8]>::to_vec)
    }

    fn keep_reads_up(&mut self) {
        // Reads are not kept.
        let Some(number) = self.range else { return };
        let here = self.entry().map(|(key, _)| key);
        self.in_use.0.borrow_mut().sets.reads.change_range(number, |range| {
            match (&mut range.high, here) {
                (High::With(high), Some(key)) => {
                    if self.order.user(high, key).is_lt() {
                        key.clone_into(high);
                    }
                }
                (high @ High::With(_), None) => *high = self.high_here(),
                // It reaches to the end.
                (High::Open | High::Before(_), _) => {}
            }
        });
    }

    fn keep_reads_down(&mut self) {
        // Reads are not kept.
        let Some(number) = self.range else { return };
        let here = self.entry().map(|(key, _)| key);
        self.in_use.0.borrow_mut().sets.reads.change_range(number, |range| {
            match (&mut range.low, here) {
                (Some(low), Some(key)) => {
                    if self.order.user(key, low).is_lt() {
                        key.clone_into(low);
                    }
                }
                (low, None) => *low = self.low_here(),
                (None, Some(_)) => {}
            }
        });
    }
}

impl std::fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionIter").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
