//! The change feed: committed batches in their order, from a position on, as they come.
//!
//! ```text
//!   writer --> log: # # # # # # #          Changes: tail of the log, from a position on
//!                       ^       ^          CommittedBatch:  one batch, and the position behind it
//!                    position  end
//! ```
//!
//! A feed reads the log (`keyrack_wal::Tail`), which has every write as the store applied it: a
//! put, a batch, a transaction, each as one record. So a writer does nothing for a feed, but for a
//! wake when somebody waits (`db::feed`).
//!
//! **What a change has survived.** A feed gives a batch when the batch is as durable as its writer
//! is told: with [`Durability::Sync`] it is on stable storage, else it survives the end of the
//! process. A power loss can take such a batch back. Then its position is gone, too:
//! [`Db::changes`] says so ([`Error::NotWritten`]), and never gives other batches in its place.
//! [`Changes::synced`] gives nothing that a power loss could take.

use crate::batch::{Batch, BatchWrite};
use crate::db::{Db, Snapshot};
use crate::error::{Error, Result};
use crate::manifest::LOG_DIR;
use crate::position::Position;
use keyrack_store::Durability;
use keyrack_wal::{Entry, Tail};
use std::fmt;
use std::time::Duration;

/// A batch of writes that the store has applied.
#[derive(Clone, Debug)]
pub struct CommittedBatch {
    position: Position,
    batch: Batch,
    time: Option<TimeMark>,
}

/// A moment of the wall clock in the order of changes: every change up to the position was made by
/// that time. While there is a feed, or part of the log is kept, a change is followed by a mark
/// within about a second, and there is one in a second at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMark {
    /// Where it is.
    pub position: Position,
    /// The time by the clock of the machine, in milliseconds since 1970. It never decreases. If the
    /// clock is set back, the time stands still until the clock has caught up. After a restart that
    /// holds as far as the log has the marks from before.
    pub unix_ms: u64,
}

/// The changes of a store from a position on, see [`Db::changes`].
///
/// As an iterator it never waits: `None` says that there is no more at present, and the next call
/// may have some. An [`Error::Io`] may be gone at the next call, which goes on where this one
/// stopped. Every other error is final: it comes once, and every later call gives `None`. After
/// that, [`Changes::wait`] returns the error again.
pub struct Changes {
    db: Db,
    tail: Tail,
    is_synced: bool,
    reached: Position,
    /// What a wait has found.
    pending: Option<CommittedBatch>,
    ending: Ending,
}

/// How a feed ends: by an error that is final. Its iterator gives that once.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    error: Option<Error>,
    is_given: bool,
}

impl Db {
    /// The position behind everything that is visible now. Beside the last change there may be a
    /// time mark before it.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let before = db.position();
    /// db.put(b"key", b"value")?;
    /// assert!(before < db.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.inner().position().into()
    }

    /// The position behind everything that `snapshot` sees: a feed from there has what it does not.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let snapshot = db.snapshot();
    /// db.put(b"key", b"value")?;
    /// let mut changes = db.changes(db.position_at(&snapshot))?;
    /// assert_eq!(changes.next().unwrap()?.len(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position_at(&self, snapshot: &Snapshot) -> Position {
        let inner = self.inner();
        if inner.is_read_only() {
            return self.position();
        }
        inner.write_path.log.position_of(snapshot.pinned.sequence() + 1).into()
    }

    /// The changes after `from`: each batch of writes that was applied, in order, and those to
    /// come. A put is a batch of one, and a transaction is one batch. Replayed in order into a
    /// store that is as this one was at `from`, they give this one.
    ///
    /// A feed begins where the log still is: the store keeps what it needs, what
    /// [`Options::log_retention_bytes`] and [`Options::log_retention_seconds`] say, and what open
    /// feeds have not read, up to [`Options::feed_hold_bytes`]. So a feed from [`Db::position`] on
    /// has everything that comes, as long as it is open and keeps up. One that is opened from the
    /// position of its last change after a restart needs a log that is kept.
    ///
    /// With [`Durability::Sync`] a feed gives what is on stable storage. Otherwise it gives what
    /// survives the end of the process; see [`Changes::synced`].
    ///
    /// Not in the feed: what [`Db::ingest`] takes in (there is a change for it, see
    /// [`CommittedBatch::is_ingestion`]), what a drop filter removes, and what was written when the
    /// store had no log.
    ///
    /// The store closes with the last handle, and a feed counts as one. Several feeds are
    /// independent of each other.
    ///
    /// ```
    /// # use keyrack_flodb::{BatchWrite, Db, Options, Position};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut changes = db.changes(Position::START)?;
    /// db.put(b"fruit/apple", b"red")?;
    /// db.delete(b"fruit/pear")?;
    ///
    /// let change = changes.next().expect("it was written")?;
    /// for write in change.writes() {
    ///     assert_eq!(write, BatchWrite::Put { key: b"fruit/apple", value: b"red" });
    /// }
    /// // Another day: go on behind it.
    /// let mut later = db.changes(change.position())?;
    /// assert_eq!(later.next().unwrap()?.len(), 1);
    /// assert!(later.next().is_none());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotKept`] and [`Error::NotWritten`] if the changes from there on cannot be had;
    /// [`Error::Usage`] with [`Durability::None`], where there is no log, and for a store that is
    /// open for reading only; [`Error::Closed`]; [`Error::Corruption`]; [`Error::Io`].
    ///
    /// [`Options::log_retention_bytes`]: field@crate::Options::log_retention_bytes
    /// [`Options::log_retention_seconds`]: field@crate::Options::log_retention_seconds
    /// [`Options::feed_hold_bytes`]: field@crate::Options::feed_hold_bytes
    pub fn changes(&self, from: Position) -> Result<Changes> {
        let inner = self.inner();
        if inner.is_read_only() {
            let dir = inner.dir.display();
            let what = "is open for reading only; ask the handle that writes for changes";
            return Err(Error::Usage(format!("{dir}: {what}")));
        }
        if inner.options.durability == Durability::None {
            let what = "a store with durability none has no log, and so no feed of changes";
            return Err(Error::Usage(what.to_owned()));
        }
        self.begin_feed()?;
        let tail = inner.write_path.log.tail(from.into())?;
        Ok(Changes {
            db: self.clone(),
            tail,
            is_synced: false,
            reached: from,
            pending: None,
            ending: Ending::default(),
        })
    }
}

impl Changes {
    /// Gives only what is on stable storage from now on, so that a power loss takes nothing of it
    /// back. The feed itself syncs the log for that, when it is read and there is something new.
    /// With [`Durability::Sync`] it is so in any case.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut changes = db.changes(db.position())?.synced();
    /// db.put(b"key", b"value")?;
    /// // The put was not synced; it is now.
    /// assert_eq!(changes.next().unwrap()?.len(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn synced(mut self) -> Self {
        self.is_synced = true;
        self
    }

    /// Waits until there is a change, for so long at most. Whether there is one now. Writers wake
    /// it, and take a lock for that only while somebody waits.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// use std::time::Duration;
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut changes = db.changes(db.position())?;
    /// assert!(!changes.wait(Duration::from_millis(1))?);
    /// let writer = db.clone();
    /// let thread = std::thread::spawn(move || writer.put(b"key", b"value"));
    /// assert!(changes.wait(Duration::from_secs(60))?);
    /// assert_eq!(changes.next().unwrap()?.len(), 1);
    /// # thread.join().unwrap()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for an item; the error that has ended the feed, each time. [`Error::Closed`] if the store
    /// was closed, or why it takes no more writes, once there are no more changes.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        let inner = std::sync::Arc::clone(self.db.inner());
        inner.feeds.wait(timeout, || {
            // First: what a failed store still has to give was written before.
            let failure = inner.check_poison();
            if self.pending.is_none() {
                self.pending = self.read()?;
            }
            match (&self.pending, failure) {
                (Some(_), _) => Ok(true),
                (None, failure) => failure.map(|()| false),
            }
        })
    }

    /// Behind the last change that it gave; before that, where it began.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut changes = db.changes(db.position())?;
    /// db.put(b"key", b"value")?;
    /// let change = changes.next().unwrap()?;
    /// assert_eq!(changes.reached(), change.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn reached(&self) -> Position {
        self.reached
    }

    /// The last time mark before the change that comes next.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let changes = db.changes(db.position())?;
    /// assert_eq!(changes.time(), None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn time(&self) -> Option<TimeMark> {
        match &self.pending {
            Some(change) => change.time,
            None => self.tail.time().map(TimeMark::from),
        }
    }

    /// The name of the operator that the operands are for, once there are some.
    pub(crate) fn merge_operator(&self) -> Option<&str> {
        self.db.inner().merges().stored_name()
    }

    /// The next change, if there is one. A final error ends the feed.
    fn read(&mut self) -> Result<Option<CommittedBatch>> {
        self.ending.check()?;
        let found = self.read_on();
        self.ending.keep(found)
    }

    fn read_on(&mut self) -> Result<Option<CommittedBatch>> {
        let mut entry = self.entry()?;
        let inner = self.db.inner();
        if entry.is_none() && self.is_synced && self.tail.lsn() < inner.write_path.log.position() {
            inner.sync_for_feed()?;
            entry = self.entry()?;
        }
        let Some(Entry { lsn, end, payload }) = entry else { return Ok(None) };
        let Some(batch) = Batch::from_payload(payload) else {
            let what = format!("the whole record at position {lsn} does not hold a batch");
            return Err(Error::corruption(&self.db.inner().dir.join(LOG_DIR), 0, what));
        };
        let time = self.tail.time().map(TimeMark::from);
        Ok(Some(CommittedBatch { position: end.into(), batch, time }))
    }

    /// The next record that it may give by now.
    fn entry(&mut self) -> Result<Option<Entry>> {
        let inner = self.db.inner();
        let bound = inner.feed_bound(self.is_synced);
        self.tail.next(&inner.write_path.log, bound).map_err(|error| {
            // After a failed sync nobody can tell what the files have of what was not synced.
            match (inner.check_poison(), Error::from(error)) {
                (Err(failure), Error::Corruption { .. }) => failure,
                (_, error) => error,
            }
        })
    }
}

impl Iterator for Changes {
    type Item = Result<CommittedBatch>;

    fn next(&mut self) -> Option<Result<CommittedBatch>> {
        let found = match self.pending.take() {
            Some(change) => Ok(Some(change)),
            None => self.read(),
        };
        let next = self.ending.next(found);
        if let Some(Ok(change)) = &next {
            self.reached = change.position;
        }
        next
    }
}

impl Ending {
    /// The error that has ended the feed.
    pub(crate) fn check(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Ends the feed if this is a final error: one that every later call would meet as well.
    pub(crate) fn keep<T>(&mut self, found: Result<T>) -> Result<T> {
        if let Err(error) = &found
            && !matches!(error, Error::Io(_))
        {
            self.error = Some(error.clone());
        }
        found
    }

    /// What the iterator gives, where a call has found this.
    pub(crate) fn next<T>(&mut self, found: Result<Option<T>>) -> Option<Result<T>> {
        if self.is_given {
            return None;
        }
        self.is_given = found.is_err() && self.error.is_some();
        found.transpose()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("position", &self.reached()).finish_non_exhaustive()
    }
}

impl From<keyrack_wal::TimeMark> for TimeMark {
    fn from(mark: keyrack_wal::TimeMark) -> Self {
        TimeMark { position: mark.end.into(), unix_ms: mark.unix_ms }
    }
}

impl CommittedBatch {
    /// Behind this change: a feed from here goes on with the next one.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, Position};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// let change = db.changes(Position::START)?.next().unwrap()?;
    /// assert_eq!(change.position(), db.position());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The writes, in the order in which they were applied.
    ///
    /// ```
    /// # use keyrack_flodb::{BatchWrite, Db, Options, Position};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.delete(b"key")?;
    /// let change = db.changes(Position::START)?.next().unwrap()?;
    /// assert_eq!(change.writes().next(), Some(BatchWrite::Delete { key: b"key" }));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn writes(&self) -> impl Iterator<Item = BatchWrite<'_>> {
        self.batch.iter()
    }

    /// How many writes there are. None if it [is an ingestion](CommittedBatch::is_ingestion).
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, Position};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// assert_eq!(db.changes(Position::START)?.next().unwrap()?.len(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "one without writes has a meaning of its own")]
    pub fn len(&self) -> u64 {
        self.batch.len()
    }

    /// The writes as a batch, to apply them to another store.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, Position, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// # let copy = Db::open_in(fs, "/copy".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// for change in db.changes(Position::START)? {
    ///     copy.write(change?.batch(), WriteOptions::default())?;
    /// }
    /// assert!(copy.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Whether tables were taken in here by [`Db::ingest`]. Their entries are not in the log, so
    /// the change has no writes: whoever needs them reads the store. It is there also if the call
    /// failed after it had taken its place in the order. A power loss during the call may leave the
    /// tables without the change.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, IngestOptions, Options, Position, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut changes = db.changes(Position::START)?;
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), db.options())?;
    /// table.put(b"a", b"1")?;
    /// table.finish()?;
    /// db.ingest(&["/new.sst"], IngestOptions::default())?;
    /// let change = changes.next().unwrap()?;
    /// assert!(change.is_ingestion() && change.len() == 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn is_ingestion(&self) -> bool {
        self.batch.is_empty()
    }

    /// The last time mark before it, if there is one: the change was made after that time, by about
    /// a second at most unless nothing was written in between.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, Position};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// let change = db.changes(Position::START)?.next().unwrap()?;
    /// assert_eq!(change.time(), None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn time(&self) -> Option<TimeMark> {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use keyrack_vfs::{Fault, FaultFs, FaultPlan, MemFs, Operation};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_record_that_holds_no_batch_is_not_passed_by() {
        let fs = Arc::new(MemFs::new());
        let db = Db::open_in(fs, Path::new("/store"), Options::new()).unwrap();
        db.put(b"before", b"1").unwrap();
        let mut record = db.inner().write_path.log.reserve(1).unwrap();
        record.write(&[&[0xff]]).unwrap();
        record.publish();
        db.put(b"after", b"2").unwrap();
        let mut changes = db.changes(Position::START).unwrap();
        assert_eq!(changes.next().unwrap().unwrap().len(), 1);
        let reached = changes.reached();
        for result in [changes.next().unwrap().map(drop), changes.wait(Duration::ZERO).map(drop)] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
            assert_eq!(changes.reached(), reached);
        }
        assert!(changes.next().is_none() && changes.next().is_none());
    }

    #[test]
    fn a_synced_feed_does_not_sync_for_each_change() {
        let fs = Arc::new(MemFs::new());
        let db = Db::open_in(fs, Path::new("/store"), Options::new()).unwrap();
        let mut changes = db.changes(Position::START).unwrap().synced();
        let syncs = || db.inner().write_path.log.stats().flushes;
        for _ in 0..9 {
            db.put(b"key", b"value").unwrap();
        }
        let before = syncs();
        for _ in 0..9 {
            assert!(changes.next().unwrap().is_ok());
            db.put(b"key", b"value").unwrap();
        }
        assert_eq!(syncs(), before + 1);
        assert_eq!(changes.map(Result::unwrap).count(), 9);
        assert_eq!(syncs(), before + 2);
    }

    #[test]
    fn a_feed_that_cannot_sync_for_now_leaves_the_store_writable() {
        for durability in [Durability::Os, Durability::Sync] {
            let disk = MemFs::new();
            // A flush of what was recovered must not release the log before it is read.
            let options = || Options { durability, log_retention_bytes: 1 << 30, ..Options::new() };
            let dir = Path::new("/store");
            let db = Db::open_in(Arc::new(disk.clone()), dir, options()).unwrap();
            db.put(b"before", b"1").unwrap();
            // As its process left it: what was recovered may not be durable.
            let fs = FaultFs::new(Arc::new(disk.process_crash_image()));
            let db = Db::open_in(Arc::new(fs.clone()), dir, options()).unwrap();
            fs.arm(FaultPlan::from_then_on(1, Fault::Io).only(&[Operation::Open]));
            let read = |db: &Db| {
                let change = db.changes(Position::START)?.synced().next().transpose()?;
                Ok(change.map_or(0, |change| change.len()))
            };
            let error: Error = read(&db).unwrap_err();
            assert!(matches!(error, Error::Io(_)), "{error}");
            fs.disarm();
            db.put(b"after", b"2").unwrap();
            assert_eq!(read(&db).unwrap(), 1);
        }
    }
}
