//! Ranges of a key space: ranges of the store that stay within it.

use super::order::Prefix;
use super::space::KeySpace;
use crate::db::{Snapshot, check_prefixes};
use crate::error::Result;
use crate::iterator::{Bounds, KeyRange, Range, behind_prefix};
use crate::table::ReadOptions;
use std::ops::Bound;

impl KeySpace {
    /// The entries with keys within `range`, in the order of the space, as they are now: see
    /// [`Db::range`](crate::Db::range). If the space was dropped, the only item is
    /// [`Error::Usage`](crate::Error::Usage).
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_with(None, range, ReadOptions::default())
    }

    /// As [`KeySpace::range`], at the moment of `snapshot`.
    #[must_use]
    pub fn range_at(&self, snapshot: &Snapshot, range: impl KeyRange) -> Range {
        self.range_with(Some(snapshot), range, ReadOptions::default())
    }

    /// As [`KeySpace::range`], now or at the moment of `snapshot`, and reads tables as `options`
    /// say.
    #[must_use]
    pub fn range_with(
        &self,
        snapshot: Option<&Snapshot>,
        range: impl KeyRange,
        options: ReadOptions,
    ) -> Range {
        let prefix = &self.space.prefix;
        let bounds = Bounds::new(&range, |key| [prefix.bytes(), key].concat());
        self.between_bounds(snapshot, bounds, options)
    }

    /// The entries with keys that begin with `prefix`, as they are now. If the space is in another
    /// order than that of bytes, or was dropped, the only item is
    /// [`Error::Usage`](crate::Error::Usage).
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(None, prefix, ReadOptions::default())
    }

    /// As [`KeySpace::prefix`], at the moment of `snapshot`.
    #[must_use]
    pub fn prefix_at(&self, snapshot: &Snapshot, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_with(Some(snapshot), prefix, ReadOptions::default())
    }

    /// As [`KeySpace::prefix`], now or at the moment of `snapshot`, and reads tables as `options`
    /// say.
    #[must_use]
    pub fn prefix_with(
        &self,
        snapshot: Option<&Snapshot>,
        prefix: impl AsRef<[u8]>,
        options: ReadOptions,
    ) -> Range {
        if let Err(error) = check_prefixes(&self.space.order) {
            return Range::failed(error);
        }
        let stored = |key: &[u8]| [self.space.prefix.bytes(), key].concat();
        let prefix = prefix.as_ref();
        let high = behind_prefix(prefix).map(|behind| stored(&behind));
        let bounds = Bounds {
            low: Bound::Included(stored(prefix)),
            high: high.map_or(Bound::Unbounded, Bound::Excluded),
        };
        self.between_bounds(snapshot, bounds, options)
    }

    /// The entry with the first key, in the order of the space.
    ///
    /// # Errors
    /// As for [`Db::get`](crate::Db::get).
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next().transpose()
    }

    /// The entry with the last key, in the order of the space.
    ///
    /// # Errors
    /// As for [`Db::get`](crate::Db::get).
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.range(..).next_back().transpose()
    }

    /// Whether there is no key, see [`Db::is_empty`](crate::Db::is_empty).
    ///
    /// # Errors
    /// As for [`Db::get`](crate::Db::get).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.range(..).keys().next_key()?.is_none())
    }

    /// The keys within bounds of the store, those of the space in place of open ends.
    fn between_bounds(
        &self,
        snapshot: Option<&Snapshot>,
        bounds: Bounds,
        options: ReadOptions,
    ) -> Range {
        if let Err(error) = self.space.check() {
            return Range::failed(error);
        }
        let prefix = &self.space.prefix;
        let Bounds { mut low, mut high } = bounds;
        if low == Bound::Unbounded {
            low = Bound::Included(prefix.low().to_vec());
        }
        if high == Bound::Unbounded {
            high = Bound::Excluded(behind(prefix));
        }
        let moment = self.db.inner().moment(snapshot, options);
        Range::new(moment, Bounds { low, high }, prefix.bytes().len())
    }
}

/// What is behind all keys of a space.
fn behind(prefix: &Prefix) -> Vec<u8> {
    let (bytes, len) = prefix.high();
    bytes[..len].to_vec()
}
