//! Shipping the log of an open store to the repository of its backups.
//!
//! ```text
//!   backup B                        the base: a manifest states a position of the log
//!     |  logs/ID-B-P1               what was committed after it
//!     |  logs/ID-P1-P2              each object begins where the one before it ends
//!     v
//!   restore to any moment from B on, up to P2
//! ```
//!
//! A shipper reads the feed of the store into a buffer, and writes the buffer as one object when
//! the feed has no more at present or the buffer is full. So it takes the memory of one object,
//! at most 16 MiB or the largest batch. The store waits for nothing: what the target has not taken
//! stays in the log, up to the store's own limit. Beyond it there is a gap, and a new backup begins
//! a new chain.
//!
//! **Account.** An object costs a lock, a listing of the folder and a create. A program that ships
//! each second writes two objects a second at most; one that ships each minute loses up to a minute
//! with its machine.
//!
//! **Interrupted**, a shipper leaves whole objects. The next one reads their names, and goes on
//! where the last one ends. An object whose answer was lost is found by its name.

use crate::error::{Error, Result};
use crate::log_object::{LogName, LogWriter};
use crate::repository::Repository;
use keyrack_store::{Error as StoreError, FeedError, LogEntry, LogFeed, LogSource};
use std::fmt;
use std::time::Duration;

/// Ships the log of an open store.
pub struct Shipper {
    repository: Repository,
    log_id: u64,
    feed: Box<dyn LogFeed>,
    /// The object that is filled.
    writer: LogWriter,
    /// The next entry, for the object after it.
    next: Option<LogEntry>,
    /// Why the log cannot be read on: what is before that is shipped first.
    unreadable: Option<String>,
    /// An object that is full, and perhaps in the repository.
    sealed: Option<(LogName, Vec<u8>)>,
    shipped_to: u64,
    /// The last time mark that it has read.
    unix_ms: Option<u64>,
}

/// What was shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogShipped {
    /// Objects that were written.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Everything up to this position is in the repository.
    pub position: u64,
    /// The last time mark that this shipper has shipped, in milliseconds since 1970.
    pub unix_ms: Option<u64>,
}

impl fmt::Debug for Shipper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { repository, log_id, shipped_to, .. } = self;
        let mut shown = f.debug_struct("Shipper");
        shown.field("repository", repository).field("log_id", log_id);
        shown.field("shipped_to", shipped_to).finish_non_exhaustive()
    }
}

impl Shipper {
    /// Goes on where the last shipped object of the store's log ends. If there is none, or the log
    /// cannot be read on from there, it begins at the oldest later backup from which it can.
    ///
    /// # Errors
    /// [`Error::BackupNeeded`] if there is no backup of the store, or its log does not go back to
    /// it or is damaged behind it. The machine's.
    pub fn begin(repository: &Repository, source: &dyn LogSource) -> Result<Shipper> {
        let log_id = source.log_id();
        let last = repository.shipped_end(log_id)?;
        let bases = repository.bases(log_id)?;
        let new = bases.iter().filter(|base| last.is_none_or(|last| last < base.position));
        let mut why = "has no backup of this store to begin at".to_owned();
        let mut begun = None;
        for from in last.into_iter().chain(new.map(|base| base.position)) {
            match source.feed(from).and_then(|mut feed| Ok((feed.next()?, feed))) {
                Ok((next, feed)) => {
                    begun = Some((next, feed, from));
                    break;
                }
                Err(error) => why = unreadable(error)?,
            }
        }
        let Some((next, feed, first)) = begun else {
            let remedy = "make a backup, and ship the log again";
            return Err(Error::BackupNeeded(format!("{}: {why}; {remedy}", repository.place())));
        };
        let continues = last == Some(first);
        Ok(Shipper {
            repository: repository.clone(),
            log_id,
            feed,
            writer: LogWriter::new(log_id, first, continues),
            next,
            unreadable: None,
            sealed: None,
            shipped_to: first,
            unix_ms: None,
        })
    }

    /// Ships what the store has committed so far and a power loss would not take. Nobody waits for
    /// it. After an error the next call goes on.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process writes to the repository. [`Error::BackupNeeded`] if
    /// the log does not have any more what comes next, or is damaged there. [`Error::Usage`] if
    /// another shipper is at work: begin a new one. The machine's.
    pub fn ship(&mut self) -> Result<LogShipped> {
        let mut shipped = LogShipped::default();
        while self.fill()?
            && let Some((name, bytes)) = &self.sealed
        {
            self.put(name, bytes)?;
            shipped.objects += 1;
            shipped.bytes += bytes.len() as u64;
            self.shipped_to = name.end;
            self.sealed = None;
        }
        (shipped.position, shipped.unix_ms) = (self.shipped_to, self.unix_ms);
        Ok(shipped)
    }

    /// Waits until the store has committed something, for so long at most. Whether there is
    /// something to ship.
    ///
    /// # Errors
    /// Those of the store, such as that it was closed.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if self.sealed.is_some() || self.next.is_some() || !self.writer.is_empty() {
            return Ok(true);
        }
        self.feed.wait(timeout).or_else(|error| Err(backup_needed(&unreadable(error)?)))
    }

    /// Sees to it that there is an object to be written. `false` if there is nothing new.
    fn fill(&mut self) -> Result<bool> {
        while self.sealed.is_none() {
            let next = match self.next.take() {
                Some(next) => Some(next),
                None => self.read()?,
            };
            match next {
                Some(entry) if self.writer.takes(&entry) => {
                    self.writer.push(&entry);
                    if let LogEntry::Time { unix_ms, .. } = entry {
                        self.unix_ms = Some(unix_ms);
                    }
                }
                None if self.writer.is_empty() => return Ok(false),
                next => {
                    let end = self.writer.end();
                    let empty = LogWriter::new(self.log_id, end, true);
                    self.sealed = Some(std::mem::replace(&mut self.writer, empty).seal());
                    self.next = next;
                }
            }
        }
        Ok(true)
    }

    /// The next entry. None, too, where the log cannot be read on and there is an object to be
    /// written first: the next shipper begins behind it.
    fn read(&mut self) -> Result<Option<LogEntry>> {
        if self.unreadable.is_none() {
            match self.feed.next() {
                Ok(next) => return Ok(next),
                Err(error) => self.unreadable = Some(unreadable(error)?),
            }
        }
        match &self.unreadable {
            Some(why) if self.writer.is_empty() => Err(backup_needed(why)),
            _ => Ok(None),
        }
    }

    fn put(&self, name: &LogName, bytes: &[u8]) -> Result<()> {
        let _guard = self.repository.target.lock()?;
        let there = self.repository.log_names()?;
        // The answer to an earlier call was lost.
        if there.contains_key(name) {
            return Ok(());
        }
        let beyond = |other: &&LogName| other.log_id == self.log_id && other.end > name.first;
        if let Some(other) = there.keys().find(beyond) {
            let place = self.repository.target.place(Some(&other.object()));
            let what =
                "another shipper of this store wrote it; use one at a time, and begin it anew";
            return Err(Error::Usage(format!("{place}: {what}")));
        }
        self.repository.target.create(&name.object(), bytes)
    }
}

/// A backup as the beginning of a chain of log objects.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) id: crate::BackupId,
    pub(crate) taken_ns: u64,
    pub(crate) position: u64,
}

impl Repository {
    /// The backups of the store with that log that can be read, by position.
    pub(crate) fn bases(&self, log_id: u64) -> Result<Vec<Base>> {
        let manifests = self.manifests()?.into_iter();
        let base = |(id, manifest): (crate::BackupId, Result<crate::manifest::Manifest>)| {
            let manifest = manifest.ok()?;
            let log = manifest.log.filter(|log| log.log_id == log_id)?;
            Some(Base { id, taken_ns: manifest.taken_ns, position: log.position })
        };
        let mut bases: Vec<Base> = manifests.filter_map(base).collect();
        bases.sort_by_key(|base| base.position);
        Ok(bases)
    }

    /// The end of what was shipped of a log.
    fn shipped_end(&self, log_id: u64) -> Result<Option<u64>> {
        let names = self.log_names()?;
        Ok(names.keys().filter(|name| name.log_id == log_id).map(|name| name.end).max())
    }
}

/// Why a feed has ended, if only a backup helps.
fn unreadable(error: FeedError) -> Result<String> {
    match error {
        FeedError::Gone(what) => Ok(what),
        FeedError::Store(error @ StoreError::Corruption { .. }) => Ok(error.to_string()),
        FeedError::Store(error) => Err(error.into()),
    }
}

fn backup_needed(why: &str) -> Error {
    Error::BackupNeeded(format!("{why}; make a backup, and begin a new shipper"))
}
