//! The commit of a transaction: what it has read is checked, and its writes are a batch.
//!
//! ```text
//!   write controller --> key locks of all keys read and written --> anything newer than S?
//!                    --> append, as any batch --> locks given back --> sync, if asked for
//! ```
//!
//! Nobody writes a key whose lock is held. A writer gives the locks of its keys back after its
//! record is published, and records are published in order. So what is visible once the locks are
//! held has all writes of these keys, and nothing comes between the check and the batch. Ranges
//! have more keys than can be hashed: for them every lock is taken, as by a range delete.
//!
//! The check looks for versions newer than S alone. Memtables have disjoint ranges of sequence
//! numbers, the newest first: the one that S belongs to is the last to be looked at. Of tables
//! those count that have something newer than S, which a read state knows of each level. Tables
//! from outside may be newer than a memtable, so a look at memtables does not end the check.
//!
//! A transaction with ranges, or with many keys, is checked before it takes the locks. A conflict
//! is mostly found then. Under the locks the check goes on where the first one ended. It looks for
//! what was written meanwhile alone, so it reads no table but those flushed or ingested meanwhile.
//! If anything was written, the entries that a range has in the active memtable are passed again.
//! Neither check of this sort holds a guard, under which no memory is freed.

use super::append::{Record, size_of};
use super::read::ReadPoint;
use super::write::RECORD_BYTES;
use super::{Inner, Snapshot};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{self, Kind, SEQUENCE_MAX};
use crate::memtable::Memtable;
use crate::open_table::OpenTable;
use crate::range_tombstones::RangeTombstone;
use crate::read_state::ReadState;
use crate::table::ReadOptions;
use crate::transaction::{KeyRange, ReadSet, WriteBuffer};
use crate::version::LEVELS;
use keyrack_concurrent::pin;
use keyrack_store::{Durability, WriteOptions};
use std::path::Path;
use std::sync::Arc;

/// So many keys are looked up under the locks without a look at them before.
const UNSEEN_KEYS_MAX: usize = 64;

/// What must not have changed for a commit.
pub(crate) struct Checks<'a> {
    reads: &'a ReadSet,
    writes: Option<&'a WriteBuffer>,
    /// Whether the writes are checked, too.
    are_writes_checked: bool,
    ranges: Vec<KeyRange>,
}

impl<'a> Checks<'a> {
    /// Of what a transaction has read, and of what it writes if `are_writes_checked`.
    pub(crate) fn of(
        reads: &'a ReadSet,
        writes: &'a WriteBuffer,
        are_writes_checked: bool,
    ) -> Self {
        let ranges = if are_writes_checked { writes.ranges() } else { Vec::new() };
        Checks { reads, writes: Some(writes), are_writes_checked, ranges }
    }

    /// Of reads alone.
    pub(crate) fn of_reads(reads: &'a ReadSet) -> Self {
        Checks { reads, writes: None, are_writes_checked: false, ranges: Vec::new() }
    }

    /// The keys, with their hashes.
    fn keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let written = self.writes.filter(|_| self.are_writes_checked);
        self.reads.keys().chain(written.into_iter().flat_map(WriteBuffer::keys))
    }

    fn ranges(&self) -> impl Iterator<Item = &KeyRange> {
        self.reads.ranges().iter().chain(&self.ranges)
    }

    fn has_ranges(&self) -> bool {
        self.ranges().next().is_some()
    }

    /// Whether a look at all of it takes so long that it should not be under locks, or a guard.
    fn are_long(&self) -> bool {
        self.has_ranges() || self.keys().nth(UNSEEN_KEYS_MAX).is_some()
    }

    fn is_empty(&self) -> bool {
        self.reads.is_empty() && !self.are_writes_checked
    }
}

/// Sequence numbers after the first one, up to the second.
#[derive(Clone, Copy)]
struct Span {
    since: u64,
    upto: u64,
}

impl Span {
    fn has(self, sequence: u64) -> bool {
        self.since < sequence && sequence <= self.upto
    }
}

impl Inner {
    /// Commits the writes of a transaction, if nothing that is to be checked has changed since the
    /// moment `since`, which it has pinned.
    pub(crate) fn commit(
        &self,
        checks: &Checks<'_>,
        since: u64,
        options: WriteOptions,
    ) -> Result<()> {
        let Some(writes) = checks.writes.filter(|writes| !writes.is_empty()) else {
            return self.commit_reads(options);
        };
        self.use_kinds(writes.batch())?;
        self.admit(RECORD_BYTES + writes.batch().entries().len())?;
        let since = if checks.are_long() { self.check(checks, since)? } else { since };
        #[cfg(test)]
        tests::before_the_locks();
        let locks = &self.write_path.key_locks;
        let end = if checks.has_ranges() || writes.batch().has_ranges() {
            let _every = locks.lock_every();
            self.commit_locked(checks, writes, since)
        } else if let Some((write, hash)) = writes.single().filter(|_| checks.reads.is_empty()) {
            let _one = locks.lock(hash);
            self.check(checks, since).and_then(|_| self.log_one(write, hash))
        } else {
            let hashes = checks.reads.keys().chain(writes.keys()).map(|(_, hash)| hash);
            let _all = locks.lock_all(hashes);
            self.commit_locked(checks, writes, since)
        };
        self.sync_if_asked(end?, options)
    }

    /// Acknowledges what was read. If the commit is to be durable, so are the writes that it saw.
    fn commit_reads(&self, options: WriteOptions) -> Result<()> {
        let is_durable = options.sync || self.options.durability == Durability::Sync;
        if !is_durable || self.is_read_only() {
            return Ok(());
        }
        match self.check_poison() {
            // It has synced everything.
            Err(Error::Closed) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync_if_asked(self.write_path.log.published(), options),
        }
    }

    /// The same with all locks held. Returns the end of the record in the log.
    fn commit_locked(&self, checks: &Checks<'_>, writes: &WriteBuffer, since: u64) -> Result<u64> {
        self.check(checks, since)?;
        let (batch, hashes) = (writes.batch(), writes.hashes().iter().copied());
        let size = size_of(batch.writes(), &self.options.comparator);
        let head = batch.head();
        let parts = [&*head, batch.entries()];
        self.append(Record { parts: &parts, size, writes: batch.writes().zip(hashes) })
    }

    /// Returns the moment up to which nothing has changed since `since`.
    fn check(&self, checks: &Checks<'_>, since: u64) -> Result<u64> {
        if checks.is_empty() {
            return Ok(since);
        }
        match self.first_change_at(checks, since, None)? {
            (Some(key), _) => Err(Error::Conflict { key, space: None }),
            (None, upto) => Ok(upto),
        }
    }

    /// A key of what is checked that has changed after `since`, up to now.
    pub(crate) fn first_change(&self, checks: &Checks<'_>, since: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.first_change_at(checks, since, None)?.0)
    }

    /// The same up to the moment of a snapshot.
    pub(crate) fn first_change_up_to(
        &self,
        checks: &Checks<'_>,
        since: u64,
        snapshot: &Snapshot,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.first_change_at(checks, since, Some(snapshot))?.0)
    }

    /// The same, and up to which moment it was looked.
    fn first_change_at(
        &self,
        checks: &Checks<'_>,
        since: u64,
        snapshot: Option<&Snapshot>,
    ) -> Result<(Option<Vec<u8>>, u64)> {
        if checks.are_long() {
            let (read_state, upto) = self.read_point(&pin(), snapshot).to_keep();
            return Ok((self.first_change_in(&read_state, checks, Span { since, upto })?, upto));
        }
        let guard = pin();
        let ReadPoint { read_state, sequence: upto } = self.read_point(&guard, snapshot);
        Ok((self.first_change_in(read_state, checks, Span { since, upto })?, upto))
    }

    fn first_change_in(
        &self,
        read_state: &ReadState,
        checks: &Checks<'_>,
        span: Span,
    ) -> Result<Option<Vec<u8>>> {
        if span.upto <= span.since {
            return Ok(None);
        }
        for (key, hash) in checks.keys() {
            if self.is_changed(read_state, (key, hash), span)? {
                return Ok(Some(key.to_vec()));
            }
        }
        if !checks.has_ranges() {
            return Ok(None);
        }
        let ranges: Vec<&KeyRange> = checks.ranges().collect();
        self.change_within(read_state, &ranges, span)
    }

    /// Whether there is a version of the key in `span`.
    fn is_changed(
        &self,
        read_state: &ReadState,
        (key, hash): (&[u8], u64),
        span: Span,
    ) -> Result<bool> {
        let Span { since, upto } = span;
        for memtable in newer(read_state, span) {
            if memtable.has_range_tombstones()
                && memtable.newest_range_tombstone(key, upto) > Some(since)
            {
                return Ok(true);
            }
            if memtable.find(key, hash, upto).is_some_and(|(_, sequence, _)| sequence > since) {
                return Ok(true);
            }
        }
        for level in (0..LEVELS).filter(|level| read_state.sequence_max[*level] > since) {
            let tables = &read_state.levels[level];
            let tables = match level {
                0 => &tables[..],
                _ => match read_state.version.find(level, key) {
                    Some(at) => &tables[at..=at],
                    None => continue,
                },
            };
            for table in tables {
                if self.is_changed_in(table, (key, hash), span)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn is_changed_in(
        &self,
        table: &OpenTable,
        (key, hash): (&[u8], u64),
        Span { since, upto }: Span,
    ) -> Result<bool> {
        let (file, table) = (table.file(), table.table());
        if file.sequence_max <= since || !file.spans(key, &self.options.comparator) {
            return Ok(false);
        }
        if table.range_tombstones().is_some_and(|ranges| ranges.newest(key, upto) > Some(since)) {
            return Ok(true);
        }
        #[cfg(test)]
        tests::count_look();
        let options = ReadOptions::default();
        let newest = table.get(key, hash, upto, &options, None, |_, sequence, _| sequence)?;
        Ok(newest.is_some_and(|sequence| sequence > since))
    }

    /// A key in one of the ranges that has a version in `span`.
    fn change_within(
        &self,
        read_state: &ReadState,
        ranges: &[&KeyRange],
        span: Span,
    ) -> Result<Option<Vec<u8>>> {
        for memtable in newer(read_state, span).filter(|memtable| !memtable.is_empty()) {
            let removed = memtable.range_tombstones();
            if let Some(key) = self.removed_within(removed.into_iter(), ranges, span) {
                return Ok(Some(key));
            }
            let mut cursor = memtable.cursor(span.upto);
            if let Some(key) = self.written_within(&mut cursor, &self.dir, ranges, span)? {
                return Ok(Some(key));
            }
        }
        let order = &self.options.comparator;
        for table in read_state.levels.iter().flat_map(|tables| tables.iter()) {
            let (file, table) = (table.file(), table.table());
            let meets = |range: &&&KeyRange| {
                let begins = range.low.as_deref();
                begins.is_none_or(|low| order.user(low, file.last()).is_le())
                    && range.ends_behind(file.first(), order)
            };
            let ranges: Vec<&KeyRange> = ranges.iter().filter(meets).copied().collect();
            if file.sequence_max <= span.since || ranges.is_empty() {
                continue;
            }
            let removed = table.range_tombstones().into_iter().flat_map(|index| index.ranges());
            if let Some(key) = self.removed_within(removed, &ranges, span) {
                return Ok(Some(key));
            }
            let mut cursor = table.cursor(ReadOptions::default());
            if let Some(key) = self.written_within(&mut cursor, table.path(), &ranges, span)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// A key in one of the ranges that a range tombstone of `span` removes.
    fn removed_within(
        &self,
        mut removed: impl Iterator<Item = RangeTombstone>,
        ranges: &[&KeyRange],
        span: Span,
    ) -> Option<Vec<u8>> {
        let order = &self.options.comparator;
        removed.find_map(|removed| {
            let RangeTombstone { begin, end, sequence } = removed;
            let meets = |range: &&&KeyRange| range.meets(&begin, &end, order);
            let range = ranges.iter().filter(|_| span.has(sequence)).find(meets)?;
            let low = range.low.clone().filter(|low| order.user(low, &begin).is_gt());
            Some(low.unwrap_or(begin))
        })
    }

    /// A key in one of the ranges of which the cursor, which reads `path`, has an entry of `span`.
    fn written_within(
        &self,
        cursor: &mut impl Cursor,
        path: &Path,
        ranges: &[&KeyRange],
        span: Span,
    ) -> Result<Option<Vec<u8>>> {
        let order = &self.options.comparator;
        let mut target = Vec::new();
        for range in ranges {
            match &range.low {
                Some(low) => {
                    target.clear();
                    key::append(&mut target, low, SEQUENCE_MAX, Kind::LAST);
                    cursor.seek(&target)?;
                }
                None => cursor.seek_first()?,
            }
            while let Some(key) = cursor.key() {
                #[cfg(test)]
                tests::count_look();
                let entry = key::parse(key)
                    .ok_or_else(|| Error::corruption(path, 0, "an entry of an unknown kind"))?;
                if !range.ends_behind(entry.user, order) {
                    break;
                }
                if span.has(entry.sequence) {
                    return Ok(Some(entry.user.to_vec()));
                }
                cursor.next()?;
            }
        }
        Ok(None)
    }
}

/// The memtables that have something of `span`, newest first.
fn newer(read_state: &ReadState, span: Span) -> impl Iterator<Item = &Arc<Memtable>> {
    let mut is_over = false;
    read_state.memtables_at(span.upto).take_while(move |memtable| {
        // The one that `since` belongs to is the last.
        let is_before = is_over;
        is_over = !memtable.begins_after(span.since);
        !is_before
    })
}

#[cfg(test)]
mod tests;
