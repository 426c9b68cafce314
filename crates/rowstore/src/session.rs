//! A session: how a thread reads rows, and how its writes get into the tree and then into the log.
//!
//! ```text
//!   write   limits -> entry begun in the record -> under the lock of the node:
//!                       decide, version, row ends in the record, tree takes a copy of it
//!   flush   record -> one append -> position
//!   group   writes wait beside the tree (`group`); the commit makes all of them, or none
//! ```
//!
//! A write is in the tree first and in the log later, at the flush. Until then nobody may tell that
//! it was done; if the process ends before, it was not. What makes this right when other sessions
//! have read it meanwhile is that every entry holds a whole row: what they made of it is logged
//! with them.
//!
//! **Invariant:** an entry is in the record if and only if its change is in the tree, or was there
//! and was overtaken. What cannot be logged now stays in the record, and goes with the next flush.

mod group;

use crate::core::{Core, Disk};
use crate::error::out_of_memory;
use crate::group::{Found, Group, RecordSize};
use crate::memory::{UNREPORTED_BYTES_MAX, cost};
use crate::record::{OpenEntry, RECORD_HEAD_BYTES, Record, entry_bytes};
use crate::row::encode_value;
use crate::sessions::WriterSlot;
use crate::watermarks::hash;
use crate::{Change, Position, Row, RowBuf, RowSession};
use keyrack_concurrent::pin;
use keyrack_masstree::{Change as TreeChange, Hint};
use keyrack_store::{Durability, Error, Result};
use keyrack_wal::Log;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The way to one log.
#[derive(Clone, Copy)]
struct LogHandle<'a> {
    disk: &'a Disk,
    log: &'a Log,
}

pub(crate) struct Session<'a> {
    core: &'a Core,
    hint: Hint<'a>,
    /// Where the rows that were announced were found, in the order in which they are to be used.
    prefetched: Vec<Hint<'a>>,
    /// How many of them were used.
    prefetched_used: usize,
    log: Option<LogHandle<'a>>,
    slot: Arc<WriterSlot>,
    /// The largest version given.
    clock: u64,
    now_ms: u64,
    /// What is in the tree and not in the log.
    record: Record,
    row: RowBuf,
    /// Writes that wait for the flush of their group.
    group: Option<Group>,
    /// Whether the record must not be cut where it gets long.
    is_atomic: bool,
    /// Bytes that the memory does not know of yet.
    unreported_bytes: i64,
    position: Position,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Kept,
    Written(u64),
    Removed,
    RowTooLarge(usize),
    MemoryFull,
}

/// What decides about a write, and what it changes in the sums.
struct WriteDecision<'a> {
    core: &'a Core,
    entry: OpenEntry,
    key: &'a [u8],
    hash: u64,
    clock: u64,
    /// The version that the row was given when it was checked, as one of a group.
    given: Option<u64>,
    /// What the session has not handed in.
    unreported_bytes: i64,
    outcome: Outcome,
    bytes: i64,
    volatile: i64,
    is_new: bool,
}

impl WriteDecision<'_> {
    /// Called under the lock of the key's node. A dead row takes memory, and is no row otherwise.
    fn decide(&mut self, old: Option<Row<'_>>, is_dead: bool, change: Change, record: &mut Record) {
        let least = old.map_or(0, |old| old.version()).max(self.core.watermarks.of(self.hash));
        let version = match self.given {
            Some(given) => given.max(least + 1),
            None => least.max(self.clock) + 1,
        };
        let old_bytes = old.map_or(0, |old| cost(self.key.len(), old.bytes().len()));
        let old_volatile = i64::from(old.is_some_and(|old| old.expires_ms() != 0));
        self.outcome = match change {
            Change::Remove if old.is_some() && !is_dead => {
                self.core.watermarks.raise(self.hash, version);
                self.clock = version;
                record.remove(self.entry, version);
                (self.bytes, self.volatile) = (-old_bytes, -old_volatile);
                Outcome::Removed
            }
            Change::Keep | Change::Remove => Outcome::Kept,
            Change::Put => {
                let row_bytes = record.row_bytes(self.entry);
                let new_bytes = cost(self.key.len(), row_bytes);
                let admitted = match self.given {
                    Some(_) => Ok(()),
                    None => {
                        let live_bytes = if is_dead { 0 } else { old_bytes };
                        admit(self.core, row_bytes, new_bytes, live_bytes, self.unreported_bytes)
                    }
                };
                if let Err(outcome) = admitted {
                    outcome
                } else {
                    record.put(self.entry, version);
                    let row = Row::of(record.row(self.entry));
                    let volatile = i64::from(row.expires_ms() != 0);
                    self.clock = version;
                    (self.bytes, self.volatile) = (new_bytes - old_bytes, volatile - old_volatile);
                    self.is_new = old.is_none();
                    if is_dead {
                        self.core.cleared.forget(old_bytes, old_volatile);
                    }
                    Outcome::Written(version)
                }
            }
        };
    }
}

/// Whether there is room for a row of `row_bytes`, which takes `new_bytes` of memory in place of
/// `old_bytes`, beside `unreported_bytes` that the memory does not know of.
fn admit(
    core: &Core,
    row_bytes: usize,
    new_bytes: i64,
    old_bytes: i64,
    unreported_bytes: i64,
) -> std::result::Result<(), Outcome> {
    let (memory, added) = (&core.memory, new_bytes - old_bytes);
    let max = memory.max();
    let is_too_much = if max == i64::MAX {
        false
    } else if memory.evicts() {
        new_bytes > max
    } else {
        added > 0 && core.live_bytes().saturating_add(unreported_bytes).saturating_add(added) > max
    };
    if row_bytes > core.options.row_bytes_max {
        Err(Outcome::RowTooLarge(row_bytes))
    } else if is_too_much {
        Err(Outcome::MemoryFull)
    } else {
        Ok(())
    }
}

impl<'a> Session<'a> {
    pub(crate) fn new(core: &'a Core) -> Self {
        let mut position = Position::default();
        let log = core.disk.as_ref().map(|disk| {
            let (number, log) = disk.next_log();
            position.log = number;
            LogHandle { disk, log }
        });
        Session {
            core,
            hint: Hint::new(),
            prefetched: Vec::new(),
            prefetched_used: 0,
            log,
            slot: core.sessions.join(),
            clock: 0,
            now_ms: 0,
            record: Record::new(),
            row: RowBuf::new(),
            group: None,
            is_atomic: false,
            unreported_bytes: 0,
            position,
        }
    }

    /// What has to hold before a write is tried.
    fn prepare(&mut self, key: &[u8]) -> Result<()> {
        self.check(key)?;
        let is_long = self.record.bytes().len() >= self.core.options.batch_bytes_max;
        if self.log.is_some() && !self.is_atomic && is_long {
            self.append_record()?;
        }
        Ok(())
    }

    /// Whether the store takes a write of this key.
    fn check(&self, key: &[u8]) -> Result<()> {
        let options = &self.core.options;
        if key.len() > options.key_bytes_max {
            return Err(Error::usage(format!(
                "a key of {} bytes; the store takes at most {}",
                key.len(),
                options.key_bytes_max
            )));
        }
        self.log.map_or(Ok(()), |log| log.disk.check())
    }

    /// Begins an entry, and a record if it is the first.
    fn begin(&mut self, key: &[u8]) -> OpenEntry {
        self.begin_record();
        self.record.begin(key)
    }

    /// Before the first change of a record.
    fn begin_record(&mut self) {
        if self.log.is_some() && self.record.is_empty() {
            self.slot.begin();
        }
    }

    /// Carries one write out. `decide` gets the row that is there and the place where the new one
    /// is to be appended.
    fn change(
        &mut self,
        key: &[u8],
        entry: OpenEntry,
        given: Option<u64>,
        decide: impl FnOnce(Option<Row<'_>>, &mut Vec<u8>) -> Change,
    ) -> Outcome {
        let core = self.core;
        let mut decision = WriteDecision {
            core,
            entry,
            key,
            hash: hash(key),
            clock: self.clock,
            given,
            unreported_bytes: self.unreported_bytes,
            outcome: Outcome::Kept,
            bytes: 0,
            volatile: 0,
            is_new: false,
        };
        {
            let (decision, record, now_ms) = (&mut decision, &mut self.record, self.now_ms);
            // Of another key, if what was announced was left out: then it says nothing.
            let hint = match self.prefetched.get_mut(self.prefetched_used) {
                Some(hint) => {
                    self.prefetched_used += 1;
                    hint
                }
                None => &mut self.hint,
            };
            core.tree.update_hinted(key, &pin(), hint, move |old| {
                let old = old.as_deref().map(Row::of);
                // Before the watermark is read: the row that replaces a dead one gets a larger
                // version.
                let is_dead = old.is_some_and(|row| core.is_dead(&row));
                let live = old.filter(|row| !is_dead && !row.is_expired(now_ms));
                let change = decide(live, record.tail());
                decision.decide(old, is_dead, change, record);
                let record: &Record = record;
                match decision.outcome {
                    Outcome::Written(_) => TreeChange::Put(record.row(entry)),
                    Outcome::Removed => TreeChange::Remove,
                    _ => TreeChange::Keep,
                }
            });
        }
        self.account(&decision);
        if let Outcome::Written(version) = decision.outcome {
            core.remove_if_cleared(key, version);
        }
        decision.outcome
    }

    /// RowCounts up what a write changed.
    fn account(&mut self, decision: &WriteDecision<'_>) {
        match decision.outcome {
            Outcome::Written(version) => {
                if decision.is_new && self.log.is_some() {
                    self.core.sample.offer(decision.key, decision.hash);
                }
                self.note(version);
            }
            Outcome::Removed => self.note(decision.clock),
            _ => {
                self.record.cancel(decision.entry);
                if self.log.is_some() && self.record.is_empty() {
                    self.core.sessions.flushed(&self.slot);
                }
                return;
            }
        }
        self.unreported_bytes += decision.bytes;
        if self.unreported_bytes.abs() > UNREPORTED_BYTES_MAX {
            self.report_memory();
        }
        if decision.volatile != 0 && self.core.memory.add_volatile(decision.volatile) {
            self.core.notifier.notify_sweeper();
        }
        if self.log.is_none() {
            self.record.clear(self.core.options.batch_bytes_max);
        }
    }

    fn note(&mut self, version: u64) {
        self.clock = self.clock.max(version);
        self.slot.note(self.clock);
    }

    fn report_memory(&mut self) {
        self.core.memory.add(std::mem::take(&mut self.unreported_bytes));
    }

    /// What a caller is told.
    fn result_of(&self, outcome: Outcome) -> Result<u64> {
        let options = &self.core.options;
        let refuse = |what: String| Err(Error::usage(what));
        match outcome {
            Outcome::Kept | Outcome::Removed => Ok(0),
            Outcome::Written(version) => Ok(version),
            Outcome::RowTooLarge(bytes) => refuse(format!(
                "a row of {bytes} bytes; the store takes at most {}",
                options.row_bytes_max
            )),
            Outcome::MemoryFull => Err(out_of_memory(options)),
        }
    }

    /// One write.
    fn write(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Change,
    ) -> Result<Outcome> {
        self.make_room(0)?;
        self.prepare(key)?;
        let entry = self.begin(key);
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        let outcome = self.change(key, entry, None, |old, out| {
            let change = decide(old, &mut row);
            if change == Change::Put {
                row.encode(0, out);
            }
            change
        });
        self.row = row;
        Ok(outcome)
    }

    /// Removes the row of `key` if `is_due` says so. Returns whether it did.
    pub(crate) fn remove_if(
        &mut self,
        key: &[u8],
        is_due: impl FnOnce(Option<Row<'_>>) -> bool,
    ) -> Result<bool> {
        self.prepare(key)?;
        let entry = self.begin(key);
        let outcome =
            self.change(
                key,
                entry,
                None,
                |row, _| {
                    if is_due(row) { Change::Remove } else { Change::Keep }
                },
            );
        Ok(outcome == Outcome::Removed)
    }

    /// Sees to it that there is room, also for what `waits`: removes dead rows, and then evicts.
    /// To be done before [`Session::prepare`], since evictions lengthen the record.
    #[inline]
    fn make_room(&mut self, waits: i64) -> Result<()> {
        let memory = &self.core.memory;
        // A record that must not be cut had its room made before.
        if self.is_atomic || memory.max() == i64::MAX {
            return Ok(());
        }
        let held = self.unreported_bytes.saturating_add(waits);
        let is_over = || memory.used().saturating_add(held) > memory.max();
        while is_over() && self.core.sweep_dead() {}
        if memory.evicts() && is_over() {
            // As if it were there already.
            self.unreported_bytes += waits;
            self.report_memory();
            let outcome = crate::evict::evict(self.core, self);
            self.unreported_bytes -= waits;
            self.report_memory();
            outcome?;
        }
        Ok(())
    }

    /// Sets the time for this session alone.
    pub(crate) fn expire_at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Hands in what evictions have freed.
    pub(crate) fn report_memory_now(&mut self) {
        self.report_memory();
    }

    /// Removes everything up to `version`, and logs that.
    fn clear_now(&mut self, version: u64) {
        self.begin_record();
        self.report_memory();
        self.core.clear(version);
        if self.log.is_some() {
            self.record.push_clear(version);
        }
    }

    /// Appends the record to the log, unless it is empty.
    fn append_record(&mut self) -> Result<Position> {
        self.report_memory();
        let Some(LogHandle { disk, log }) = self.log else { return Ok(self.position) };
        if self.record.is_empty() {
            return Ok(self.position);
        }
        disk.check()?;
        let bytes = self.record.bytes();
        match disk.append(log, bytes) {
            Ok(end) => self.position.offset = end,
            Err(error) => {
                self.core.sessions.failed(&self.slot);
                return Err(error);
            }
        }
        // Relaxed: a count for people.
        self.core.counts.flushes.fetch_add(1, Ordering::Relaxed);
        if disk.note_logged(bytes.len() as u64) {
            self.core.notifier.notify_checkpointer();
        }
        self.record.clear(4 * self.core.options.batch_bytes_max);
        self.core.sessions.flushed(&self.slot);
        Ok(self.position)
    }
}

impl RowSession for Session<'_> {
    fn at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        // Relaxed: the sweeper may as well see it a moment later.
        self.core.now_ms.store(now_ms, Ordering::Relaxed);
    }

    #[inline]
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        if let Some(group) = &self.group
            && let Found::Pending(row) = group.find(key)
        {
            let row = row.map(Row::of).filter(|row| !row.is_expired(self.now_ms));
            row.inspect(|row| visit(*row));
            return Ok(row.is_some());
        }
        let guard = pin();
        let bytes = self.core.tree.get_hinted(key, &guard, &mut self.hint);
        let row = bytes.as_deref().map(Row::of);
        let Some(row) = row.filter(|row| self.core.is_live(row, self.now_ms)) else {
            return Ok(false);
        };
        self.core.memory.note_read(key);
        visit(row);
        Ok(true)
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        if self.group.is_some() {
            for (index, key) in keys.iter().enumerate() {
                if !self.get(key, &mut |row| visit(index, Some(row)))? {
                    visit(index, None);
                }
            }
            return Ok(());
        }
        let (core, now_ms) = (self.core, self.now_ms);
        core.tree.multi_get(keys, &pin(), |index, bytes| {
            let row = bytes.as_deref().map(Row::of);
            let row = row.filter(|row| core.is_live(row, now_ms));
            if row.is_some() {
                core.memory.note_read(keys[index]);
            }
            visit(index, row);
        });
        Ok(())
    }

    fn prefetch(&mut self, keys: &[&[u8]]) {
        self.prefetched.clear();
        self.prefetched_used = 0;
        // One alone has nobody to be searched beside.
        if keys.len() > 1 {
            self.core.tree.multi_hint(keys, &pin(), &mut self.prefetched);
        }
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Change,
    ) -> Result<u64> {
        if self.group.is_some() {
            return self.update_group(key, decide);
        }
        let outcome = self.write(key, decide)?;
        self.result_of(outcome)
    }

    fn put(&mut self, key: &[u8], value: &[u8], flags: u32, expires_ms: u64) -> Result<u64> {
        if self.group.is_some() {
            return self.update_group(key, &mut |_, row| {
                row.set_value(value);
                row.set_flags(flags);
                row.set_expires_ms(expires_ms);
                Change::Put
            });
        }
        if value.len() > self.core.options.row_bytes_max {
            return self.result_of(Outcome::RowTooLarge(value.len()));
        }
        self.make_room(0)?;
        self.prepare(key)?;
        let entry = self.begin(key);
        // Before the lock is taken: nothing in it depends on what is there, but the version.
        encode_value(value, flags, expires_ms, self.record.tail());
        let outcome = self.change(key, entry, None, |_, _| Change::Put);
        self.result_of(outcome)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.group.is_none() {
            return self.remove_if(key, |row| row.is_some());
        }
        let mut was_there = false;
        self.update_group(key, &mut |row, _| {
            was_there = row.is_some();
            if was_there { Change::Remove } else { Change::Keep }
        })?;
        Ok(was_there)
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let (mut visited, core, now_ms) = (0, self.core, self.now_ms);
        if let Some(group) = &self.group {
            let mut merged = group.merge((low, high), false, now_ms, visit);
            if !group.is_cleared() {
                core.tree.range(low, high, |key, bytes| match Row::of(&bytes) {
                    row if core.is_dead(&row) => ControlFlow::Continue(()),
                    row => merged.stored(key, row),
                });
            }
            return Ok(merged.finish());
        }
        core.tree.range(low, high, |key, bytes| {
            let row = Row::of(&bytes);
            if !core.is_live(&row, now_ms) {
                return ControlFlow::Continue(());
            }
            visited += 1;
            visit(key, row)
        });
        Ok(visited)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let (mut visited, core, now_ms) = (0, self.core, self.now_ms);
        if let Some(group) = &self.group {
            let mut merged = group.merge((low, high), true, now_ms, visit);
            if !group.is_cleared() {
                core.tree.range_rev(low, high, |key, bytes| match Row::of(&bytes) {
                    row if core.is_dead(&row) => ControlFlow::Continue(()),
                    row => merged.stored(key, row),
                });
            }
            return Ok(merged.finish());
        }
        core.tree.range_rev(low, high, |key, bytes| {
            let row = Row::of(&bytes);
            if !core.is_live(&row, now_ms) {
                return ControlFlow::Continue(());
            }
            visited += 1;
            visit(key, row)
        });
        Ok(visited)
    }

    fn count(&self) -> u64 {
        let stored = self.core.count();
        self.group.as_ref().map_or(stored, |group| group.rows_after(stored))
    }

    fn clear(&mut self) -> Result<()> {
        let version = self.core.clock().max(self.clock);
        if let Some(group) = &mut self.group {
            group.clear(version)?;
            group.memory_added = -self.core.live_bytes();
            // What the group writes next comes after the clear.
            self.note(version);
            return Ok(());
        }
        self.prepare(b"")?;
        self.clear_now(version);
        Ok(())
    }

    fn begin_group(&mut self) -> Result<()> {
        self.flush()?;
        self.group = Some(Group::new(RecordSize {
            head_bytes: RECORD_HEAD_BYTES,
            entry_bytes,
            bytes_max: self.core.options.group_bytes_max,
        }));
        Ok(())
    }

    fn cancel_group(&mut self) {
        self.group = None;
    }

    fn commit_group(&mut self) -> Result<()> {
        // Every flush commits, and most have no group.
        let Some(group) = self.group.take() else { return Ok(()) };
        group.check()?;
        if !group.is_empty() {
            self.make_room(group.memory_added)?;
            self.append_record()?;
            self.apply_group(&group);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Position> {
        self.row.shrink();
        self.commit_group()?;
        self.append_record()
    }

    fn is_durable(&self, position: Position) -> bool {
        let Some(LogHandle { disk, .. }) = self.log else { return true };
        if self.core.options.durability != Durability::Sync {
            return true;
        }
        disk.logs.get(position.log as usize).is_none_or(|log| log.synced() >= position.offset)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // A group without its flush was never made.
        self.group = None;
        // Nobody is left to be told. What could not be logged is in memory, and may have been read.
        if self.append_record().is_err()
            && let Some(LogHandle { disk, .. }) = self.log
        {
            let record = self.record.bytes().to_vec();
            disk.unlogged.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(record);
        }
        self.core.clock.fetch_max(self.clock, Ordering::AcqRel);
        self.core.sessions.leave(&self.slot);
    }
}
