//! Reading: the generations of the view, newest first, then level 0, then a table a level.
//!
//! A point read takes no lock and allocates nothing: it looks through the view under a guard, and
//! the value is lent to the caller where it lies. The hash of the key is made once, for the hash
//! levels and all filters.

use super::{Db, Inner, Snapshot};
use crate::checksum::hash;
use crate::error::Result;
use crate::iterator::{Child, Iter, LevelCursor, Merge};
use crate::key::Kind;
use crate::table::ReadOptions;
use crate::version::LEVELS;
use crate::view::View;
use keyrack_concurrent::pin;
use std::sync::Arc;

impl Db {
    /// The value of `key`, copied.
    ///
    /// # Errors
    /// A table cannot be read, or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Lends the value of `key` to `visit`, and gives what that returns. The value is not copied.
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get_with<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.inner().get(key, hash(key), None, visit)
    }

    /// As [`Db::get_with`], at the moment of `snapshot`.
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get_at<R>(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let sequence = snapshot.pinned.sequence();
        self.inner().get(key, hash(key), Some(sequence), visit)
    }

    /// The values of many keys, all of one moment, each given to `visit` with its index.
    ///
    /// # Errors
    /// As for [`Db::get`]; values before the first failure have been given.
    pub fn multi_get(
        &self,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let inner = self.inner();
        let snapshot = self.snapshot();
        let sequence = snapshot.pinned.sequence();
        for (index, key) in keys.iter().enumerate() {
            let found =
                inner.get(key, hash(key), Some(sequence), |value| visit(index, Some(value)))?;
            if found.is_none() {
                visit(index, None);
            }
        }
        Ok(())
    }

    /// A walk over all keys, as they are now.
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn iter(&self) -> Result<Iter> {
        self.inner().iter(None)
    }

    /// A walk over all keys, as they were at the moment of `snapshot`.
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn iter_at(&self, snapshot: &Snapshot) -> Result<Iter> {
        self.inner().iter(Some(snapshot))
    }

    /// About how many bytes of tables hold the keys with `low <= key < high`. O(tables).
    #[must_use]
    pub fn approximate_size(&self, low: &[u8], high: &[u8]) -> u64 {
        let inner = self.inner();
        let view = inner.view();
        let offset = |user: &[u8]| -> u64 {
            let mut target = Vec::new();
            crate::key::append(&mut target, user, crate::key::SEQUENCE_MAX, Kind::LAST);
            let tables = view.levels.iter().flat_map(|tables| tables.iter());
            tables.map(|table| table.table().approximate_offset(&target)).sum()
        };
        offset(high).saturating_sub(offset(low))
    }
}

impl Inner {
    /// The newest visible value of `key`, lent to `visit`.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: Option<u64>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let guard = pin();
        // The view first, see the header of `db`.
        let view: &View = self.view.load(&guard);
        let sequence = snapshot.unwrap_or_else(|| self.visible());
        let mut visit = Some(visit);
        let mut show = |kind: Kind, value: &[u8]| match kind {
            Kind::Put => visit.take().map(|visit| visit(value)),
            Kind::Delete | Kind::DeleteRange => None,
        };
        for generation in &view.generations {
            let found =
                generation.memory.get(key, hash, sequence, |kind, _, value| show(kind, value));
            if let Some(answer) = found {
                return Ok(answer);
            }
        }
        let order = &self.options.comparator;
        for table in view.levels[0].iter() {
            if !table.file().spans(key, order) {
                continue;
            }
            let found =
                table.table().get(key, hash, sequence, |kind, _, value| show(kind, value))?;
            if let Some(answer) = found {
                return Ok(answer);
            }
        }
        for level in 1..LEVELS {
            let Some(at) = view.version.find(level, key) else { continue };
            let found =
                view.levels[level][at]
                    .table()
                    .get(key, hash, sequence, |kind, _, value| show(kind, value))?;
            if let Some(answer) = found {
                return Ok(answer);
            }
        }
        Ok(None)
    }

    fn iter(&self, snapshot: Option<&Snapshot>) -> Result<Iter> {
        let view = self.view();
        let pinned = snapshot.map(|snapshot| snapshot.pinned.clone());
        let sequence = match &pinned {
            Some(pinned) => pinned.sequence(),
            None => self.visible(),
        };
        let merge = Merge::new(self.children(&view, sequence), self.options.comparator.clone());
        Ok(Iter::new(merge, self.options.comparator.clone(), sequence, view, pinned))
    }

    /// Cursors over everything that the view has up to `sequence`.
    fn children(&self, view: &View, sequence: u64) -> Vec<Child> {
        let options = ReadOptions::default();
        let generations = view.generations.iter().filter(|g| !g.memory.is_empty());
        let mut children: Vec<Child> =
            generations.map(|g| Child::Memory(g.memory.cursor(sequence))).collect();
        children
            .extend(view.levels[0].iter().map(|table| Child::Table(table.table().cursor(options))));
        for tables in view.levels[1..].iter().filter(|tables| !tables.is_empty()) {
            let order = self.options.comparator.clone();
            children.push(Child::Level(LevelCursor::new(Arc::clone(tables), order, options)));
        }
        children
    }
}
