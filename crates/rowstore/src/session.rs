//! A session: one thread's access to the rows.
//!
//! ```text
//!   write   limits -> entry begun in the record -> under the lock of the node:      (`write`)
//!                       decide, version, row ends in the record, tree copies it
//!   flush   record -> one append -> log position
//!   group   writes are pending beside the tree; the commit applies all of them, or none  (`group`)
//! ```
//!
//! A write is in the tree first, and in the log after the flush. It must not be acknowledged before
//! the flush: if the process ends earlier, the write is lost. Other sessions may read it meanwhile.
//! That is correct because every entry contains a whole row: what they derive from it is logged
//! with their own rows. The sweep derives nothing, and waits until a row is logged.
//!
//! **Invariant:** an entry is in the record if and only if its change is in the tree, or was there
//! and was overwritten. A record that cannot be logged stays, and goes with the next flush.
//!
//! `rows` is the contract's side of a session.

mod group;
mod rows;
mod write;

use crate::core::{Core, Disk};
use crate::evict::EvictionPass;
use crate::group::Group;
use crate::memory::UNREPORTED_BYTES_MAX;
use crate::record::{OpenEntry, Record};
use crate::sessions::WriterSlot;
use crate::{Position, RowBuf};
use keyrack_masstree::Hint;
use keyrack_store::{Error, Result};
use keyrack_wal::Log;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The log that a session writes, and the files that it belongs to.
#[derive(Clone, Copy)]
struct LogHandle<'a> {
    disk: &'a Disk,
    log: &'a Log,
}

pub(crate) struct Session<'a> {
    core: &'a Core,
    hint: Hint<'a>,
    /// Where the prefetched rows were found, in the order in which they are to be used.
    prefetched: Vec<Hint<'a>>,
    /// How many of them were used.
    prefetched_used: usize,
    /// `None` in a store without files.
    log: Option<LogHandle<'a>>,
    slot: Arc<WriterSlot>,
    /// The largest version that the session has assigned.
    clock: u64,
    now_ms: u64,
    /// Changes that are in the tree and not in the log.
    record: Record,
    row: RowBuf,
    /// Writes that are pending until the group commits.
    group: Option<Group>,
    /// Whether the record must stay one record, however long it gets.
    is_atomic: bool,
    /// Changes of memory that are not in the sum of the store yet.
    unreported_bytes: i64,
    position: Position,
    /// The collections that have got a header since the last flush.
    headers: Vec<u64>,
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
            slot: core.sessions.register(),
            clock: 0,
            now_ms: 0,
            record: Record::new(),
            row: RowBuf::new(),
            group: None,
            is_atomic: false,
            unreported_bytes: 0,
            position,
            headers: Vec::new(),
        }
    }

    /// Checks the limits before a write, and flushes a record that is long enough.
    fn prepare(&mut self, key: &[u8]) -> Result<()> {
        self.check(key)?;
        let is_long = self.record.bytes().len() >= self.core.options.batch_bytes_max;
        if self.log.is_some() && !self.is_atomic && is_long {
            self.append_record()?;
        }
        Ok(())
    }

    /// Checks whether the store accepts a write of this key.
    fn check(&self, key: &[u8]) -> Result<()> {
        let max = self.core.options.key_bytes_max;
        if key.len() > max {
            return Err(Error::usage(format!("a key has at most {max} bytes (got {})", key.len())));
        }
        self.log.map_or(Ok(()), |log| log.disk.check())
    }

    /// Begins an entry, and a record if it is the first.
    fn begin(&mut self, key: &[u8]) -> OpenEntry {
        self.begin_record();
        self.record.begin(key)
    }

    /// Marks the session as one with unlogged changes, before the first change of a record.
    fn begin_record(&mut self) {
        if self.log.is_some() && self.record.is_empty() {
            self.slot.begin();
        }
    }

    /// Records that the session has assigned `version`.
    fn note(&mut self, version: u64) {
        self.clock = self.clock.max(version);
        self.slot.note(self.clock);
    }

    /// Sets the time for this session alone.
    pub(crate) fn set_own_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Counts a change of memory. The sum of the store gets it later, with others.
    fn add_memory(&mut self, bytes: i64) {
        self.unreported_bytes += bytes;
        if self.unreported_bytes.abs() > UNREPORTED_BYTES_MAX {
            self.report_memory();
        }
    }

    /// Adds the unreported changes of memory to the sum of the store.
    fn report_memory(&mut self) {
        self.core.memory.add(std::mem::take(&mut self.unreported_bytes));
    }

    /// Makes room in memory, also for `pending` bytes: removes dead rows, then evicts. Call it
    /// before [`Session::prepare`], since evictions add to the record.
    #[inline]
    fn make_room(&mut self, pending: i64) -> Result<()> {
        let memory = &self.core.memory;
        // The room for an atomic record was made before its first write.
        if self.is_atomic || memory.max() == i64::MAX {
            return Ok(());
        }
        let own = self.unreported_bytes.saturating_add(pending);
        let is_over = || memory.used().saturating_add(own) > memory.max();
        while is_over() && self.core.sweep_garbage() {}
        if memory.evicts() && is_over() {
            // While it evicts, the pending bytes count as used.
            self.unreported_bytes += pending;
            self.report_memory();
            let outcome = self.evict();
            self.unreported_bytes -= pending;
            self.report_memory();
            outcome?;
        }
        Ok(())
    }

    /// Evicts rows until memory is within its limit, or there are none.
    fn evict(&mut self) -> Result<()> {
        let core = self.core;
        // Another session evicts at the moment, and memory is over the limit by little.
        let Some(mut pass) = EvictionPass::begin(core) else { return Ok(()) };
        while let Some(victims) = pass.step() {
            for key in victims {
                let is_removed = self.remove_if(key, |_| true)?;
                // Relaxed: a statistic.
                core.counts.evicted.fetch_add(u64::from(is_removed), Ordering::Relaxed);
            }
            self.report_memory();
        }
        Ok(())
    }

    /// Removes everything up to `version`, and adds that to the record.
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
            Ok(end) => self.position.lsn = end,
            Err(error) => {
                self.core.sessions.failed(&self.slot);
                self.core.collections.set_unlogged(&self.headers, true);
                return Err(error);
            }
        }
        // Relaxed: a statistic.
        self.core.counts.flushes.fetch_add(1, Ordering::Relaxed);
        if disk.note_logged(bytes.len() as u64) {
            self.core.notifier.notify_checkpointer();
        }
        self.record.clear(4 * self.core.options.batch_bytes_max);
        self.core.sessions.flushed(&self.slot);
        Ok(self.position)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // A group that was not committed has no effect.
        self.group = None;
        // A drop has no caller that could handle an error. The record is in the tree, and others
        // may have read it, so it is kept for the next checkpoint or the close.
        if self.append_record().is_err()
            && let Some(LogHandle { disk, .. }) = self.log
        {
            disk.keep_unlogged(self.record.bytes().to_vec());
        }
        self.core.clock.fetch_max(self.clock, Ordering::AcqRel);
        self.core.sessions.unregister(&self.slot);
    }
}
