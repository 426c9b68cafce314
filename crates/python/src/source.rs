//! What keys are read from: a store as it is now, a snapshot of it, or a transaction.

use crate::error::{Failure, Result};
use crate::handle::{Kept, Opened, Place, check_forks, forks, on_both};
use keyrack_flodb::{
    KeySpace, Range, Snapshot, SpacesTransaction, SpacesTransactionIter, Transaction,
    TransactionIter,
};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of keys and values from which on a page of entries ends.
pub(crate) const PAGE_BYTES_MAX: usize = 64 << 10;

/// A key with its value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// Two bounds of keys.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A snapshot, until it is released. A child of a fork leaves it as it is: its lock, and those of
/// the store, may be held by threads that are not there.
pub(crate) struct Moment {
    forks: u64,
    snapshot: RwLock<Option<Snapshot>>,
}

impl Moment {
    pub(crate) fn new(snapshot: Snapshot) -> Moment {
        Moment { forks: forks(), snapshot: RwLock::new(Some(snapshot)) }
    }

    /// Makes a call at the moment.
    pub(crate) fn at<R>(&self, call: impl FnOnce(&Snapshot) -> Result<R>) -> Result<R> {
        check_forks(self.forks)?;
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        let released = || Failure::Closed("the snapshot is released; take another".to_owned());
        call(snapshot.as_ref().ok_or_else(released)?)
    }

    /// Gives it up. Not with the lock of the interpreter.
    pub(crate) fn release(&self) {
        if self.forks == forks() {
            drop(self.snapshot.write().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        let snapshot = self.snapshot.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.forks != forks() {
            std::mem::forget(snapshot);
        }
    }
}

/// A transaction of a store, or over its key spaces.
pub(crate) enum Running {
    Db(Transaction),
    Spaces(SpacesTransaction),
}

/// What the iterators of both have in common.
macro_rules! on_either {
    ($running:expr, $place:expr, $tx:ident, $space:ident => $one:expr, $both:expr) => {
        match $running {
            Running::Db($tx) => $one,
            Running::Spaces($tx) => $place.with_space(|$space| $both),
        }
    };
}
pub(crate) use on_either;

impl Place {
    /// Makes a call for which the store lends a key space.
    pub(crate) fn with_space<R>(&self, call: impl FnOnce(&KeySpace) -> Result<R>) -> Result<R> {
        self.with(|at| match at {
            crate::handle::At::Space(space) => call(space),
            crate::handle::At::Db(_) => {
                Err(Failure::Kind("the store has no key spaces".to_owned()))
            }
        })
    }
}

/// What keys are read from.
#[derive(Clone)]
pub(crate) enum Source {
    Now(Place),
    Then(Place, Arc<Moment>),
    Within(Place, Arc<Kept<Running>>),
}

impl Source {
    pub(crate) fn place(&self) -> &Place {
        let (Source::Now(place) | Source::Then(place, _) | Source::Within(place, _)) = self;
        place
    }

    /// Lends the value of a key to `visit`; does not call it if there is none. Not with the lock of
    /// the interpreter, as all calls here.
    pub(crate) fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        match self {
            Source::Now(place) => place.with(|at| {
                on_both!(at, keys => {
                    keys.get_with(key, |value| visit(value))?;
                    Ok(())
                })
            }),
            Source::Then(place, moment) => moment.at(|snapshot| {
                place.with(|at| {
                    on_both!(at, keys => {
                        keys.get_at(snapshot, key, |value| visit(value))?;
                        Ok(())
                    })
                })
            }),
            Source::Within(place, kept) => kept.with(|running| {
                on_either!(running, place, tx, space => {
                    tx.get_with(key, |value| visit(value))?;
                    Ok(())
                }, {
                    tx.get_with(space, key, |value| visit(value))?;
                    Ok(())
                })
            }),
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        if let Source::Now(place) = self {
            return place.with(|at| on_both!(at, keys => Ok(keys.contains_key(key)?)));
        }
        let mut is_there = false;
        self.get(key, &mut |_| is_there = true)?;
        Ok(is_there)
    }

    /// The values of many keys, in their order; those of a store are of one moment each.
    pub(crate) fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = vec![None; keys.len()];
        let mut visit = |index: usize, value: Option<&[u8]>| {
            found[index] = value.map(<[u8]>::to_vec);
        };
        match self {
            Source::Now(place) => place.with(|at| {
                on_both!(at, space => space.multi_get(keys, visit)?);
                Ok(())
            })?,
            Source::Within(place, kept) => kept.with(|running| {
                on_either!(running, place, tx, space => Ok(tx.multi_get(keys, visit)?), {
                    Ok(tx.multi_get(space, keys, visit)?)
                })
            })?,
            Source::Then(..) => {
                for (index, key) in keys.iter().enumerate() {
                    self.get(key, &mut |value| visit(index, Some(value)))?;
                }
            }
        }
        Ok(found)
    }

    /// A range of a store or of a snapshot; `None` for a transaction, which is read by pages.
    pub(crate) fn range(&self, bounds: &Bounds) -> Result<Option<Range>> {
        let bounds = (bounds.0.as_ref(), bounds.1.as_ref());
        match self {
            Source::Now(place) => {
                place.with(|at| Ok(on_both!(at, keys => Some(keys.range(bounds)))))
            }
            Source::Then(place, moment) => moment.at(|snapshot| {
                place.with(|at| Ok(on_both!(at, keys => Some(keys.range_at(snapshot, bounds)))))
            }),
            Source::Within(..) => Ok(None),
        }
    }

    /// Up to `count` entries of a transaction within bounds, from one end on. There are fewer at
    /// the end, and where they are large.
    pub(crate) fn page(&self, bounds: &Bounds, is_back: bool, count: usize) -> Result<Vec<Entry>> {
        let Source::Within(place, kept) = self else { return Ok(Vec::new()) };
        kept.with(|running| {
            on_either!(running, place, tx, space => {
                let mut iter = tx.iter()?;
                page_of(&mut iter, bounds, is_back, count)
            }, {
                let mut iter = tx.iter(space)?;
                page_of(&mut iter, bounds, is_back, count)
            })
        })
    }
}

/// The moves of an iterator of a transaction.
trait Moves {
    fn entry(&self) -> Option<(&[u8], &[u8])>;
    fn seek_first(&mut self) -> keyrack_flodb::Result<()>;
    fn seek_last(&mut self) -> keyrack_flodb::Result<()>;
    fn seek(&mut self, key: &[u8]) -> keyrack_flodb::Result<()>;
    fn seek_back(&mut self, key: &[u8]) -> keyrack_flodb::Result<()>;
    fn step(&mut self, is_back: bool) -> keyrack_flodb::Result<()>;
}

macro_rules! moves {
    ($iter:ident) => {
        impl Moves for $iter<'_> {
            fn entry(&self) -> Option<(&[u8], &[u8])> {
                $iter::entry(self)
            }

            fn seek_first(&mut self) -> keyrack_flodb::Result<()> {
                $iter::seek_first(self)
            }

            fn seek_last(&mut self) -> keyrack_flodb::Result<()> {
                $iter::seek_last(self)
            }

            fn seek(&mut self, key: &[u8]) -> keyrack_flodb::Result<()> {
                $iter::seek(self, key)
            }

            fn seek_back(&mut self, key: &[u8]) -> keyrack_flodb::Result<()> {
                $iter::seek_back(self, key)
            }

            fn step(&mut self, is_back: bool) -> keyrack_flodb::Result<()> {
                if is_back { $iter::prev(self) } else { $iter::next(self) }
            }
        }
    };
}
moves!(TransactionIter);
moves!(SpacesTransactionIter);

fn page_of(
    iter: &mut impl Moves,
    bounds: &Bounds,
    is_back: bool,
    count: usize,
) -> Result<Vec<Entry>> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    let (near, far) = if is_back { (&bounds.1, &bounds.0) } else { (&bounds.0, &bounds.1) };
    match near {
        Bound::Unbounded if is_back => iter.seek_last()?,
        Bound::Unbounded => iter.seek_first()?,
        Bound::Included(key) | Bound::Excluded(key) if is_back => iter.seek_back(key)?,
        Bound::Included(key) | Bound::Excluded(key) => iter.seek(key)?,
    }
    if let (Bound::Excluded(bound), Some((key, _))) = (near, iter.entry())
        && bound.as_slice() == key
    {
        iter.step(is_back)?;
    }
    while let Some((key, value)) = iter.entry() {
        let is_within = match far {
            Bound::Unbounded => true,
            Bound::Included(bound) if is_back => key >= bound.as_slice(),
            Bound::Excluded(bound) if is_back => key > bound.as_slice(),
            Bound::Included(bound) => key <= bound.as_slice(),
            Bound::Excluded(bound) => key < bound.as_slice(),
        };
        if !is_within {
            break;
        }
        bytes += key.len() + value.len();
        entries.push((key.to_vec(), value.to_vec()));
        // The next entry would count as read.
        if entries.len() == count || bytes >= PAGE_BYTES_MAX {
            break;
        }
        iter.step(is_back)?;
    }
    Ok(entries)
}

/// The name of the key space that a transaction or a snapshot reads, if it is bound to one.
pub(crate) fn space_of(source: &Source, name: &str) -> Result<Place> {
    let handle = &source.place().handle;
    let found = Place::space(handle, name, false)?;
    found.ok_or_else(|| Failure::Usage(format!("there is no key space {name:?}")))
}

/// Begins a transaction of what is open.
pub(crate) fn begin(opened: &Opened, options: keyrack_flodb::TransactionOptions) -> Running {
    match opened {
        Opened::Db(db) => Running::Db(db.transaction_with(options)),
        Opened::Spaces(spaces, _) => Running::Spaces(spaces.transaction_with(options)),
    }
}
