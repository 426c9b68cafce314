//! An immutable memtable becomes a table of level 0.

use super::background_error::Work;
use super::build::{AnyLowerLevels, BuildOptions, Built};
use super::rotate::rotate_nonempty;
use super::stats::Counters;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::event::{Event, Outputs};
use crate::memory_budget::MEMTABLES_RESERVED;
use crate::memtable::Memtable;
use crate::version::{LAST_LEVEL, VersionEdit};
use keyrack_concurrent::Backoff;
use std::sync::Arc;

impl Db {
    /// Writes everything that is in memory into tables.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// assert_eq!(db.property("leveldb.num-files-at-level0"), Some("1".to_owned()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table or the manifest cannot be written. The store only reads then, but for a full disk:
    /// what was to be written stays in memory, and is written by the next attempt.
    pub fn flush(&self) -> Result<()> {
        let inner = self.inner();
        flush_all(inner)?;
        inner.garbage.wait();
        Ok(())
    }
}

/// Makes the active memtable immutable, and writes all immutable memtables.
pub(crate) fn flush_all(inner: &Inner) -> Result<()> {
    inner.check_poison()?;
    {
        let exchange = inner.read_path.lock_exchange();
        rotate_nonempty(inner, &exchange);
    }
    while flush_oldest(inner)? {}
    Ok(())
}

/// As [`flush_oldest`], for the thread that flushes. When memory is short it also frees what nobody
/// needs any more, while it has no lock and no memtable.
pub(super) fn flush_and_make_room(inner: &Inner) -> Result<bool> {
    let is_flushed = flush_oldest(inner)?;
    if is_flushed {
        // Until the next flush writers may begin so many beyond those that are reserved.
        let most = inner.options.immutable_memtables_max.saturating_add(2);
        let live = inner.read_state().memtables.len().max(MEMTABLES_RESERVED);
        let to_come = most.saturating_sub(live);
        inner.tables.reader.cache.settle();
        if inner.memory().is_short_of(to_come) {
            inner.garbage.free_now();
            inner.tables.reader.cache.settle();
        }
    }
    Ok(is_flushed)
}

/// Writes the oldest immutable memtable. `false` if there is none.
pub(crate) fn flush_oldest(inner: &Inner) -> Result<bool> {
    let _alone = inner.write_path.flush_lock.lock();
    // Somebody else may have met a failure that is final meanwhile.
    inner.check_poison()?;
    // The memtable alone: a whole read state would keep the files that compactions replace.
    let oldest = match inner.read_state().memtables.as_slice() {
        [.., above, oldest] => Some((Arc::clone(oldest), above.first_sequence())),
        _ => None,
    };
    let Some((oldest, end)) = oldest else {
        inner.background_succeeded(Work::Flush);
        return Ok(false);
    };
    let throughput = &inner.compaction.throughput;
    let (job, begin_ns) = (inner.events.begin_job(), throughput.now_ns());
    let memtable_bytes = oldest.bytes() as u64;
    inner.events.tell(|| Event::FlushBegun { job, memtable_bytes });
    let result = write(inner, &oldest, end);
    let duration = throughput.since(begin_ns);
    inner.events.tell(|| Event::FlushEnded { job, duration, result: result.clone() });
    result.inspect_err(|error| inner.background_failed(Work::Flush, error))?;
    inner.background_succeeded(Work::Flush);
    Ok(true)
}

/// Writes `memtable`, whose sequence numbers end before `end`.
fn write(inner: &Inner, memtable: &Arc<Memtable>, end: u64) -> Result<Outputs> {
    // Writes with a smaller number may still be on their way into it.
    let mut backoff = Backoff::new();
    while !inner.write_path.log.is_complete(end) {
        inner.check_poison()?;
        backoff.wait();
    }
    // Where a segment is full and there is no next one, the end of what was reserved is beyond that
    // of the records. Nothing lies in between, not even a void record.
    let log = &inner.write_path.log;
    let log_from = log.position_of(log.published().min(end));
    if inner.keeps_log() {
        // What is released stays in the log for readers, and a power loss must not make a hole.
        let synced = log.sync(log_from).map_err(Error::from);
        synced.inspect_err(|error| inner.poison(error))?;
    }
    let begin_ns = inner.compaction.throughput.now_ns();
    inner.compaction.throughput.set_flush_written(0);
    memtable.make_immutable();
    let oldest = inner.read_path.snapshots.oldest(|| inner.visible());
    let options = BuildOptions {
        level: 0,
        base: LAST_LEVEL,
        is_urgent: true,
        // Tables of level 0 may overlap, but one memtable gives one.
        table_bytes: u64::MAX,
        oldest,
        expired_ms: inner.expired_ms(),
        splits: None,
        ranges: memtable.range_tombstones(),
        below: &AnyLowerLevels,
        dropped: None,
        filter: None,
        values: None,
    };
    let built = if inner.options.discards_memtables {
        Built::default()
    } else {
        inner.build(&mut memtable.cursor(u64::MAX), options)?
    };
    inner.compaction.throughput.record_flush(
        begin_ns,
        end.saturating_sub(memtable.first_sequence()),
        built.bytes,
    );
    let edit = VersionEdit {
        log_from: Some(log_from),
        last_sequence: Some(end.saturating_sub(1)),
        blobs: built.blobs.iter().map(|blob| *blob.meta()).collect(),
        added: built.tables.iter().map(|table| (0, Arc::clone(table.file()))).collect(),
        ..VersionEdit::default()
    };
    inner.install(&edit, (&built.tables, &built.blobs), Some(memtable))?;
    Counters::add(&inner.counters.flushes, 1);
    Counters::add(&inner.counters.flush_bytes, built.bytes);
    Counters::add(&inner.counters.blob_bytes_written, built.blob_bytes);
    Counters::add(&inner.counters.table_writes, built.writes);
    let level = &inner.counters.levels[0];
    Counters::add(&level.runs, 1);
    Counters::add(&level.written_tables, built.tables.len() as u64);
    Counters::add(&level.written_bytes, built.bytes);
    Counters::add(&level.ns, inner.compaction.throughput.now_ns().saturating_sub(begin_ns));
    inner.write_path.log.release(end).map_err(Error::from)?;
    inner.wake_background();
    Ok(built.outputs())
}
