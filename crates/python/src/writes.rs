//! Changes of a store or a key space, each one step of its own.

use crate::error::{Failure, Result};
use crate::expiry::Until;
use crate::handle::{At, Opened, Place, on_both};
use keyrack_flodb::{Batch, Change, Expiry, SpacesBatch, WriteOptions};
use std::ops::Bound as End;
use std::time::Duration;

/// Writes that are kept, and then happen as one.
pub(crate) enum Pending {
    Db(Batch),
    Spaces(SpacesBatch),
}

impl Pending {
    /// No writes, for what is open.
    pub(crate) fn new(opened: &Opened) -> Pending {
        match opened {
            Opened::Db(_) => Pending::Db(Batch::new()),
            Opened::Spaces(..) => Pending::Spaces(SpacesBatch::new()),
        }
    }

    pub(crate) fn put(&mut self, at: At<'_>, key: &[u8], value: &[u8]) {
        match (self, at) {
            (Pending::Db(batch), _) => batch.put(key, value),
            (Pending::Spaces(batch), At::Space(space)) => batch.put(space, key, value),
            (Pending::Spaces(_), At::Db(_)) => unreachable!("the batch is of the same handle"),
        }
    }

    pub(crate) fn put_until(&mut self, at: At<'_>, key: &[u8], value: &[u8], expires_ms: u64) {
        match (self, at) {
            (Pending::Db(batch), _) => batch.put_until(key, value, expires_ms),
            (Pending::Spaces(batch), At::Space(space)) => {
                batch.put_until(space, key, value, expires_ms);
            }
            (Pending::Spaces(_), At::Db(_)) => unreachable!("the batch is of the same handle"),
        }
    }

    pub(crate) fn merge(&mut self, at: At<'_>, key: &[u8], operand: &[u8]) {
        match (self, at) {
            (Pending::Db(batch), _) => batch.merge(key, operand),
            (Pending::Spaces(batch), At::Space(space)) => batch.merge(space, key, operand),
            (Pending::Spaces(_), At::Db(_)) => unreachable!("the batch is of the same handle"),
        }
    }

    pub(crate) fn delete(&mut self, at: At<'_>, key: &[u8]) {
        match (self, at) {
            (Pending::Db(batch), _) => batch.delete(key),
            (Pending::Spaces(batch), At::Space(space)) => batch.delete(space, key),
            (Pending::Spaces(_), At::Db(_)) => unreachable!("the batch is of the same handle"),
        }
    }

    pub(crate) fn delete_range(&mut self, at: At<'_>, from: &[u8], to: &[u8]) {
        match (self, at) {
            (Pending::Db(batch), _) => batch.delete_range(from, to),
            (Pending::Spaces(batch), At::Space(space)) => batch.delete_range(space, from, to),
            (Pending::Spaces(_), At::Db(_)) => unreachable!("the batch is of the same handle"),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Pending::Db(batch) => batch.len(),
            Pending::Spaces(batch) => batch.len(),
        }
    }

    pub(crate) fn write(&self, opened: &Opened, options: WriteOptions) -> Result<()> {
        match (self, opened) {
            (Pending::Db(batch), Opened::Db(db)) => Ok(db.write(batch, options)?),
            (Pending::Spaces(batch), Opened::Spaces(spaces, _)) => {
                Ok(spaces.write(batch, options)?)
            }
            _ => unreachable!("the batch is of the same handle"),
        }
    }
}

impl Place {
    pub(crate) fn put(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        self.with(|at| on_both!(at, keys => Ok(keys.put_with(key, value, options)?)))
    }

    /// Stores a value that expires.
    pub(crate) fn put_until(
        &self,
        key: &[u8],
        value: &[u8],
        until: Until,
        options: WriteOptions,
    ) -> Result<()> {
        self.handle.with(|opened| {
            let expires_ms = until.ms(opened);
            self.write_one(opened, options, |pending, at| {
                pending.put_until(at, key, value, expires_ms);
            })
        })
    }

    pub(crate) fn expire(&self, key: &[u8], ttl: Duration) -> Result<bool> {
        self.with(|at| on_both!(at, keys => Ok(keys.expire(key, ttl)?)))
    }

    pub(crate) fn persist(&self, key: &[u8]) -> Result<bool> {
        self.with(|at| on_both!(at, keys => Ok(keys.persist(key)?)))
    }

    pub(crate) fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        self.with(|at| on_both!(at, keys => Ok(keys.expiry(key)?)))
    }

    pub(crate) fn merge(&self, key: &[u8], operand: &[u8], options: WriteOptions) -> Result<()> {
        self.handle.with(|opened| {
            self.write_one(opened, options, |pending, at| pending.merge(at, key, operand))
        })
    }

    pub(crate) fn delete(&self, key: &[u8], options: WriteOptions) -> Result<()> {
        self.with(|at| on_both!(at, keys => Ok(keys.delete_with(key, options)?)))
    }

    /// Reads, decides and writes a key as one step.
    pub(crate) fn change(
        &self,
        key: &[u8],
        options: WriteOptions,
        decide: impl FnOnce(Option<&[u8]>) -> Change<Vec<u8>>,
    ) -> Result<()> {
        self.with(|at| on_both!(at, keys => Ok(keys.update(key, options, decide)?)))
    }

    pub(crate) fn compare_and_swap(
        &self,
        key: &[u8],
        (expected, new): (Option<&[u8]>, Option<&[u8]>),
        options: WriteOptions,
    ) -> Result<bool> {
        self.with(
            |at| on_both!(at, keys => Ok(keys.compare_and_swap_with(key, expected, new, options)?)),
        )
    }

    pub(crate) fn fetch_and_add(
        &self,
        key: &[u8],
        delta: i64,
        options: WriteOptions,
    ) -> Result<i64> {
        self.with(|at| on_both!(at, keys => Ok(keys.fetch_and_add_with(key, delta, options)?)))
    }

    /// Removes the keys from `start` on and before `stop`; without a stop, up to the key that is
    /// the last.
    pub(crate) fn delete_range(&self, start: &[u8], stop: Option<&[u8]>) -> Result<()> {
        let last = match stop {
            Some(_) => None,
            None => self.with(|at| on_both!(at, keys => Ok(keys.last()?)))?,
        };
        // The first key behind the last.
        let behind = last.map(|(key, _)| [&key[..], &[0]].concat());
        let Some(stop) = stop.or(behind.as_deref()) else { return Ok(()) };
        self.with(|at| on_both!(at, keys => Ok(keys.delete_range(start, stop)?)))
    }

    /// Writes pairs as one.
    pub(crate) fn put_all(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.handle.with(|opened| {
            self.write_one(opened, WriteOptions::default(), |pending, at| {
                pairs.iter().for_each(|(key, value)| pending.put(at, key, value));
            })
        })
    }

    /// Writes what `fill` puts into a batch.
    fn write_one(
        &self,
        opened: &Opened,
        options: WriteOptions,
        fill: impl FnOnce(&mut Pending, At<'_>),
    ) -> Result<()> {
        let mut pending = Pending::new(opened);
        self.within(opened, |at| {
            fill(&mut pending, at);
            Ok(())
        })?;
        pending.write(opened, options)
    }
}

/// The two keys that bounds of a removal name.
pub(crate) fn removal(bounds: &(End<Vec<u8>>, End<Vec<u8>>)) -> Result<(&[u8], Option<&[u8]>)> {
    match bounds {
        (End::Unbounded, End::Excluded(stop)) => Ok((&[], Some(stop))),
        (End::Unbounded, End::Unbounded) => Ok((&[], None)),
        (End::Included(start), End::Excluded(stop)) => Ok((start, Some(stop))),
        (End::Included(start), End::Unbounded) => Ok((start, None)),
        _ => Err(Failure::Usage("a removal has the bounds of a slice".to_owned())),
    }
}
