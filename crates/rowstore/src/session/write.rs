//! One write of a session: what it is given, what is decided under the lock of the node, and what
//! the decision changes.
//!
//! ```text
//!   Write (key, entry, limits)  --decide, under the lock-->  Effect (outcome, sums)  --> account
//! ```

use super::Session;
use crate::collections::RowFacts;
use crate::core::Core;
use crate::error::out_of_memory;
use crate::memory::cost;
use crate::record::{OpenEntry, Record};
use crate::watermarks::hash;
use crate::{Row, RowBuf};
use keyrack_concurrent::{Change, pin};
use keyrack_store::{Error, Result, Update};

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Kept,
    /// The row has this version now.
    Written(u64),
    /// The removal has this version.
    Removed(u64),
    RowTooLarge(usize),
    MemoryFull,
}

/// A write, before the lock of its node is taken.
struct Write<'a> {
    core: &'a Core,
    entry: OpenEntry,
    key: &'a [u8],
    hash: u64,
    /// The largest version that the session has assigned.
    clock: u64,
    /// The version that the row got when it was checked as one of a group.
    version: Option<u64>,
    unreported_bytes: i64,
}

/// The outcome of a write, and what it changes in the sums.
struct Effect {
    outcome: Outcome,
    bytes: i64,
    volatile: i64,
    is_new: bool,
    /// Whether a header was added or removed.
    is_header: bool,
    /// The collection that has got a header.
    header: Option<u64>,
}

impl Effect {
    /// A write that changes nothing.
    const fn none(outcome: Outcome) -> Self {
        Effect { outcome, bytes: 0, volatile: 0, is_new: false, is_header: false, header: None }
    }
}

impl Write<'_> {
    /// Decides under the lock of the node, and ends the entry in the record. A dead row only counts
    /// for the memory that it takes.
    #[inline]
    fn decide(
        &self,
        old: Option<Row<'_>>,
        is_dead: bool,
        change: Update,
        record: &mut Record,
    ) -> Effect {
        match change {
            Update::Put => self.put(old, is_dead, record),
            Update::Remove if old.is_some() && !is_dead => self.remove(old, record),
            Update::Keep | Update::Remove => Effect::none(Outcome::Kept),
        }
    }

    /// The version of the write: above that of the old row, and above the delete watermark.
    #[inline]
    fn next_version(&self, old: Option<Row<'_>>) -> u64 {
        let least = old.map_or(0, |old| old.version()).max(self.core.watermarks.of(self.hash));
        match self.version {
            Some(version) => version.max(least + 1),
            None => least.max(self.clock) + 1,
        }
    }

    fn remove(&self, old: Option<Row<'_>>, record: &mut Record) -> Effect {
        let version = self.next_version(old);
        let is_header = self.report(old, None);
        let old = RowFacts::of(self.key, old.as_ref());
        self.core.watermarks.raise(self.hash, version);
        record.remove(self.entry, version);
        let (bytes, volatile) = (-old.bytes, -old.volatile);
        let outcome = Outcome::Removed(version);
        Effect { outcome, bytes, volatile, is_new: false, is_header, header: None }
    }

    #[inline]
    fn put(&self, old: Option<Row<'_>>, is_dead: bool, record: &mut Record) -> Effect {
        let (version, is_new) = (self.next_version(old), old.is_none());
        let live = old.filter(|_| !is_dead);
        let old = RowFacts::of(self.key, old.as_ref());
        let row_bytes = record.row_bytes(self.entry);
        let new_bytes = cost(self.key.len(), row_bytes);
        // The row of a group was admitted when it was written into the group.
        if self.version.is_none() {
            let live_bytes = if is_dead { 0 } else { old.bytes };
            let own = self.unreported_bytes;
            if let Err(refused) = admit(self.core, row_bytes, new_bytes, live_bytes, own) {
                return Effect::none(refused);
            }
        }
        record.put(self.entry, version);
        let row = Row::of(record.row(self.entry));
        let volatile = i64::from(row.expires_ms() != 0) - old.volatile;
        if is_dead {
            self.core.cleared.forget(old.bytes, old.volatile);
        }
        let is_header = self.report(live, Some(row));
        let bytes = new_bytes - old.bytes;
        let header = row.collection().filter(|_| is_header);
        Effect { outcome: Outcome::Written(version), bytes, volatile, is_new, is_header, header }
    }

    /// Reports the change of a row to the registry of collections. Returns whether a header was
    /// added or removed.
    #[inline]
    fn report(&self, old: Option<Row<'_>>, new: Option<Row<'_>>) -> bool {
        let facts = |row: Option<Row<'_>>| RowFacts::of(self.key, row.as_ref());
        let (before, after) = (facts(old), facts(new));
        self.core.collections.save(self.key, old.as_ref());
        self.core.collections.note(self.key, before, after);
        before.collection != after.collection
    }
}

/// Checks whether there is room for a row of `row_bytes`, which takes `new_bytes` of memory in
/// place of `old_bytes`. `unreported_bytes` are not in the sum of the store yet.
#[inline]
pub(super) fn admit(
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

impl Session<'_> {
    /// Executes one write. `decide` gets the live row and the buffer to which the new row is to be
    /// appended. `version` is that of a row of a group.
    pub(super) fn change(
        &mut self,
        key: &[u8],
        entry: OpenEntry,
        version: Option<u64>,
        decide: impl FnOnce(Option<Row<'_>>, &mut Vec<u8>) -> Update,
    ) -> Outcome {
        let core = self.core;
        let write = Write {
            core,
            entry,
            key,
            hash: hash(key),
            clock: self.clock,
            version,
            unreported_bytes: self.unreported_bytes,
        };
        let mut effect = Effect::none(Outcome::Kept);
        {
            let (write, effect) = (&write, &mut effect);
            let (record, now_ms) = (&mut self.record, self.now_ms);
            // It belongs to another key if a prefetched key was left out. Then it has no effect.
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
                *effect = write.decide(old, is_dead, change, record);
                let record: &Record = record;
                match effect.outcome {
                    Outcome::Written(_) => Change::Put(record.row(entry)),
                    Outcome::Removed(_) => Change::Remove,
                    _ => Change::Keep,
                }
            });
        }
        if matches!(effect.outcome, Outcome::Written(_) | Outcome::Removed(_)) {
            core.collections.changed(key);
        }
        self.account(&write, &effect);
        if let Outcome::Written(version) = effect.outcome {
            core.remove_if_cleared(key, version);
        }
        effect.outcome
    }

    /// Adds the effect of a write to the sums.
    fn account(&mut self, write: &Write<'_>, effect: &Effect) {
        match effect.outcome {
            Outcome::Written(version) => {
                if effect.is_new && self.log.is_some() {
                    self.core.sample.offer(write.key, write.hash);
                }
                self.note(version);
            }
            Outcome::Removed(version) => self.note(version),
            _ => {
                self.record.cancel(write.entry);
                if self.log.is_some() && self.record.is_empty() {
                    self.core.sessions.flushed(&self.slot);
                }
                return;
            }
        }
        if self.log.is_some() {
            self.headers.extend(effect.header);
        }
        if effect.is_header && self.core.collections.has_queued() {
            self.core.notifier.notify_sweeper();
        }
        self.add_memory(effect.bytes);
        if effect.volatile != 0 && self.core.memory.add_volatile(effect.volatile) {
            self.core.notifier.notify_sweeper();
        }
        if self.log.is_none() {
            self.record.clear(self.core.options.batch_bytes_max);
        }
    }

    /// The result of a write as the contract defines it.
    pub(super) fn result_of(&self, outcome: Outcome) -> Result<u64> {
        let options = &self.core.options;
        match outcome {
            Outcome::Kept | Outcome::Removed(_) => Ok(0),
            Outcome::Written(version) => Ok(version),
            Outcome::RowTooLarge(bytes) => Err(Error::usage(format!(
                "a row has at most {} bytes (got {bytes})",
                options.row_bytes_max
            ))),
            Outcome::MemoryFull => Err(out_of_memory(options)),
        }
    }

    /// Reads, decides and writes one row.
    pub(super) fn write(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<Outcome> {
        self.make_room(0)?;
        self.prepare(key)?;
        let entry = self.begin(key);
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        let outcome = self.change(key, entry, None, |old, out| {
            let change = decide(old, &mut row);
            if change == Update::Put {
                row.encode_over(old.as_ref(), 0, out);
            }
            change
        });
        self.row = row;
        Ok(outcome)
    }

    /// Removes the row of `key` if `is_due` returns true. Returns whether it did.
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
                    if is_due(row) { Update::Remove } else { Update::Keep }
                },
            );
        Ok(matches!(outcome, Outcome::Removed(_)))
    }
}
