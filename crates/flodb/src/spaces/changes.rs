//! The change feed of a store with key spaces: each write with the name of its space.
//!
//! ```text
//!   log       04 36 ada -> "" | 00 nusers -> id 2 | 04 41 bob -> ""
//!   shown     by_age: 36 ada    users is made       by_age: 41 bob
//! ```
//!
//! The log has keys with the ids of their spaces, and the catalog changes by writes as all others
//! do. So a feed learns the names as it reads. It begins with those of the spaces that there are.
//! The name of one that was dropped since is in the batch that drops it, which comes later in the
//! log: a second feed looks for all of those, once, when the first write to one of them is met.

use super::order::Prefix;
use super::space::KeySpace;
use super::{Spaces, catalog};
use crate::batch::BatchWrite;
use crate::changes::{Changes, CommittedBatch, Ending, TimeMark};
use crate::db::Db;
use crate::error::Result;
use crate::position::Position;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The changes of a store with key spaces from a position on, see [`Spaces::changes`] and
/// [`KeySpace::changes`]. An iterator that never waits, and gives a final error once, as
/// [`Changes`] does.
#[derive(Debug)]
pub struct SpacesChanges {
    changes: Changes,
    /// To look for the names of dropped spaces.
    db: Db,
    /// By id. None once the space is dropped.
    names: HashMap<u32, Option<Arc<str>>>,
    /// Whether the names of those that are dropped later in the log were looked for.
    is_searched: bool,
    /// The id of the only space that is shown.
    only: Option<u32>,
    /// The change that comes next, with what is known of its writes.
    begun: Option<SpacesChange>,
    pending: Option<SpacesChange>,
    /// Behind what it gave or passed over.
    reached: Position,
    ending: Ending,
}

/// A batch of writes that a store with key spaces has applied.
#[derive(Clone, Debug)]
pub struct SpacesChange {
    change: CommittedBatch,
    /// What each write is.
    shown: Vec<Shown>,
}

/// One write of a [`SpacesChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpaceWrite<'a> {
    /// A key space was made.
    Created {
        /// Its name.
        space: &'a str,
        /// The name of its order.
        order: &'a str,
    },
    /// A key space was dropped, with all its keys.
    Dropped {
        /// Its name.
        space: &'a str,
    },
    /// A write to the keys of a space.
    Write {
        /// The name of the space.
        space: &'a str,
        /// The write, with keys as they are in the space.
        write: BatchWrite<'a>,
    },
}

#[derive(Clone, Debug)]
enum Shown {
    Nothing,
    Created(Arc<str>, String),
    Dropped(Arc<str>),
    /// With the bytes of the prefix.
    Write(Arc<str>, usize),
}

impl Spaces {
    /// The changes after `from`, in all key spaces, as [`Db::changes`] gives them. A batch over
    /// several spaces is one change. That a space is made or dropped is a change, too; what a
    /// handle still writes to a dropped space is not shown.
    ///
    /// ```
    /// # use keyrack_flodb::{BatchWrite, Comparator, Options, Position, SpaceWrite, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// let mut changes = spaces.changes(Position::START)?;
    /// let created = changes.next().unwrap()?;
    /// let order = "keyrack.bytewise";
    /// assert_eq!(created.writes().next(), Some(SpaceWrite::Created { space: "users", order }));
    /// let put = changes.next().unwrap()?;
    /// let write = BatchWrite::Put { key: b"ada", value: b"36" };
    /// assert_eq!(put.writes().next(), Some(SpaceWrite::Write { space: "users", write }));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::changes`].
    pub fn changes(&self, from: Position) -> Result<SpacesChanges> {
        let changes = self.db.changes(from)?;
        let known = self.shared.known();
        let named = |name: &String| Some(Arc::from(&name[..]));
        let names = known.spaces.iter().map(|(name, (entry, _))| (entry.id, named(name)));
        Ok(SpacesChanges::new(changes, self.db.clone(), names.collect(), None))
    }

    /// The position behind everything that is visible now, see [`Db::position`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let before = spaces.position();
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(before < spaces.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.db.position()
    }
}

impl Spaces {
    /// Marks the time in the log, see [`Db::mark_time`].
    ///
    /// # Errors
    /// As for [`Db::mark_time`].
    pub fn mark_time(&self) -> Result<()> {
        self.db.mark_time()
    }
}

impl KeySpace {
    /// The changes of this space after `from`: as [`Spaces::changes`], without the writes to other
    /// spaces, and without the batches that have nothing else.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// # let others = spaces.create("others", &Comparator::Bytewise)?;
    /// let mut changes = users.changes(spaces.position())?;
    /// others.put(b"not", b"shown")?;
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(changes.next().unwrap()?.writes().count(), 1);
    /// assert!(changes.next().is_none());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::changes`]; [`Error::Usage`](crate::Error::Usage) if the space was dropped.
    pub fn changes(&self, from: Position) -> Result<SpacesChanges> {
        self.space.check()?;
        let (changes, db) = (self.db.changes(from)?, self.db.clone());
        let name: Arc<str> = Arc::from(&self.space.name[..]);
        let only = Prefix::id_of(self.space.prefix.low()).map(|(id, _)| id);
        let names = only.map(|id| (id, Some(name))).into_iter().collect();
        Ok(SpacesChanges::new(changes, db, names, only))
    }
}

impl SpacesChanges {
    fn new(
        changes: Changes,
        db: Db,
        names: HashMap<u32, Option<Arc<str>>>,
        only: Option<u32>,
    ) -> SpacesChanges {
        let reached = changes.reached();
        let (begun, pending, is_searched, ending) = (None, None, false, Ending::default());
        SpacesChanges { changes, db, names, is_searched, only, begun, pending, reached, ending }
    }

    /// As [`Changes::synced`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let mut changes = spaces.changes(spaces.position())?.synced();
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(changes.next().is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn synced(self) -> Self {
        SpacesChanges { changes: self.changes.synced(), ..self }
    }

    /// Waits until there is a change, for so long at most, as [`Changes::wait`]. A change of other
    /// spaces than those that are shown may end it early, with `false`.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let mut changes = spaces.changes(spaces.position())?;
    /// assert!(!changes.wait(std::time::Duration::from_millis(1))?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Changes::wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if self.pending.is_none() {
            self.pending = self.read()?;
        }
        if self.pending.is_none() && self.changes.wait(timeout)? {
            self.pending = self.read()?;
        }
        Ok(self.pending.is_some())
    }

    /// Behind the last change that it gave, or passed over since then, as [`Changes::reached`].
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert_eq!(spaces.changes(spaces.position())?.reached(), spaces.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn reached(&self) -> Position {
        self.reached
    }

    /// The next change with something to show, among those that there were at the call: others may
    /// be made as fast as they are passed over.
    fn read(&mut self) -> Result<Option<SpacesChange>> {
        self.ending.check()?;
        let found = self.read_on();
        self.ending.keep(found)
    }

    fn read_on(&mut self) -> Result<Option<SpacesChange>> {
        let bound = self.db.position();
        while self.begin()? {
            let begun = self.complete()?;
            let is_empty = begun.shown.iter().all(|shown| matches!(shown, Shown::Nothing));
            if !is_empty || begun.is_ingestion() {
                return Ok(Some(begun));
            }
            self.reached = begun.position();
            if self.reached >= bound {
                break;
            }
        }
        Ok(None)
    }

    /// Whether there is a change that comes next.
    fn begin(&mut self) -> Result<bool> {
        if self.begun.is_none() {
            let change = self.changes.next().transpose()?;
            self.begun = change.map(|change| SpacesChange { change, shown: Vec::new() });
        }
        Ok(self.begun.is_some())
    }

    /// Finds what the writes of the change are that was begun. After an error it still is.
    fn complete(&mut self) -> Result<SpacesChange> {
        let mut begun = self.begun.take().expect("the caller has begun one");
        let mut failure = None;
        for write in begun.change.writes().skip(begun.shown.len()) {
            match self.show(&begun.change, write) {
                Ok(shown) => begun.shown.push(shown),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let Some(error) = failure else { return Ok(begun) };
        self.begun = Some(begun);
        Err(error)
    }

    /// What a write is, and what it says about names.
    fn show(&mut self, change: &CommittedBatch, write: BatchWrite<'_>) -> Result<Shown> {
        let (key, to) = match write {
            BatchWrite::Put { key, value } => {
                if let Some((name, entry)) = catalog::created(key, value) {
                    let name: Arc<str> = Arc::from(name);
                    self.names.insert(entry.id, Some(Arc::clone(&name)));
                    let is_shown = self.only.is_none_or(|only| only == entry.id);
                    return Ok(match is_shown {
                        true => Shown::Created(name, entry.order),
                        false => Shown::Nothing,
                    });
                }
                (key, None)
            }
            BatchWrite::Delete { key } => {
                if let Some(name) = catalog::name_of(key) {
                    let id = catalog::dropped_in(change.writes()).map(|(id, _)| id);
                    let is_shown = self.only.is_none_or(|only| id == Some(only));
                    self.names.extend(id.map(|id| (id, None)));
                    let dropped = Shown::Dropped(Arc::from(name));
                    return Ok(if is_shown { dropped } else { Shown::Nothing });
                }
                (key, None)
            }
            BatchWrite::PutUntil { key, .. } | BatchWrite::Merge { key, .. } => (key, None),
            BatchWrite::DeleteRange { from, to } => (from, Some(to)),
        };
        let Some((id, prefix)) = Prefix::id_of(key) else { return Ok(Shown::Nothing) };
        // The catalog, another space, or the keys of a space that was dropped.
        let is_all = to.is_some_and(|to| !to.starts_with(&key[..prefix.min(key.len())]));
        let is_bound = key.len() < prefix;
        if id == 0 || is_all || is_bound || self.only.is_some_and(|only| only != id) {
            return Ok(Shown::Nothing);
        }
        if !self.is_searched && !self.names.contains_key(&id) {
            self.find_names(change.position())?;
        }
        let name = self.names.get(&id).and_then(Clone::clone);
        Ok(name.map_or(Shown::Nothing, |name| Shown::Write(name, prefix)))
    }

    /// Looks for the names of all spaces that are dropped after `from`. No other id will have a
    /// name that is not known: that of a space that is made later comes first.
    fn find_names(&mut self, from: Position) -> Result<()> {
        for change in self.db.changes(from)? {
            if let Some((dropped, name)) = catalog::dropped_in(change?.writes()) {
                self.names.entry(dropped).or_insert_with(|| Some(Arc::from(name)));
            }
        }
        self.is_searched = true;
        Ok(())
    }
}

impl Iterator for SpacesChanges {
    type Item = Result<SpacesChange>;

    fn next(&mut self) -> Option<Result<SpacesChange>> {
        let found = match self.pending.take() {
            Some(change) => Ok(Some(change)),
            None => self.read(),
        };
        let next = self.ending.next(found);
        if let Some(Ok(change)) = &next {
            self.reached = change.position();
        }
        next
    }
}

impl SpacesChange {
    /// Behind this change: a feed from here goes on with the next one.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Position, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// let change = spaces.changes(Position::START)?.next().unwrap()?;
    /// assert_eq!(change.position(), spaces.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.change.position()
    }

    /// As [`CommittedBatch::time`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Position, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// assert_eq!(spaces.changes(Position::START)?.next().unwrap()?.time(), None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn time(&self) -> Option<TimeMark> {
        self.change.time()
    }

    /// As [`CommittedBatch::is_ingestion`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Position, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(!spaces.changes(Position::START)?.next().unwrap()?.is_ingestion());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn is_ingestion(&self) -> bool {
        self.change.is_ingestion()
    }

    /// The writes, in the order in which they were applied.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Position, SpaceWrite, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// let begin = spaces.position();
    /// spaces.drop_space("users")?;
    /// let change = spaces.changes(begin)?.next().unwrap()?;
    /// let writes: Vec<_> = change.writes().collect();
    /// assert_eq!(writes, [SpaceWrite::Dropped { space: "users" }]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn writes(&self) -> impl Iterator<Item = SpaceWrite<'_>> {
        self.change.writes().zip(&self.shown).filter_map(|(write, shown)| match shown {
            Shown::Nothing => None,
            Shown::Created(space, order) => Some(SpaceWrite::Created { space, order }),
            Shown::Dropped(space) => Some(SpaceWrite::Dropped { space }),
            Shown::Write(space, prefix) => {
                Some(SpaceWrite::Write { space, write: without(write, *prefix) })
            }
        })
    }
}

/// The write with keys as they are in their space.
fn without(write: BatchWrite<'_>, prefix: usize) -> BatchWrite<'_> {
    match write {
        BatchWrite::Put { key, value } => BatchWrite::Put { key: &key[prefix..], value },
        BatchWrite::PutUntil { key, value, expires_ms } => {
            BatchWrite::PutUntil { key: &key[prefix..], value, expires_ms }
        }
        BatchWrite::Merge { key, operand } => BatchWrite::Merge { key: &key[prefix..], operand },
        BatchWrite::Delete { key } => BatchWrite::Delete { key: &key[prefix..] },
        BatchWrite::DeleteRange { from, to } => {
            BatchWrite::DeleteRange { from: &from[prefix..], to: &to[prefix..] }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::key::Comparator;
    use crate::options::Options;
    use keyrack_store::WriteOptions;
    use keyrack_vfs::MemFs;
    use std::path::Path;

    #[test]
    fn a_write_behind_the_drop_of_its_space_is_not_shown() {
        let (fs, dir) = (Arc::new(MemFs::new()), Path::new("/store"));
        let spaces = Spaces::open_in(fs, dir, Options::new(), &[]).unwrap();
        let times = spaces.create("times", &Comparator::Bytewise).unwrap();
        let begin = spaces.position();
        times.put(b"late", b"y").unwrap();
        spaces.drop_space("times").unwrap();
        let dropped = spaces.position();
        // As by a thread that asked for the space before the drop, and writes after it.
        let mut batch = Batch::new();
        batch.put(&[times.space.prefix.low(), b"too late"].concat(), b"z");
        spaces.db.write(&batch, WriteOptions::default()).unwrap();
        for (from, expected) in [(begin, 2), (dropped, 0)] {
            let mut changes = spaces.changes(from).unwrap();
            assert_eq!(changes.by_ref().map(Result::unwrap).count(), expected);
            assert_eq!(changes.reached(), spaces.position());
        }
    }
}
