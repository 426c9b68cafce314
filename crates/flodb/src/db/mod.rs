//! The store itself: what a caller sees, and who does what.
//!
//! ```text
//!   writers        log, memory, published                                write.rs, append.rs
//!   readers        read state --> memtables --> level 0 --> levels           read.rs
//!   rotation       a full memtable is immutable, a new one in front      rotate.rs
//!   flush thread   the oldest immutable memtable --> table of level 0     flush.rs
//!   compaction     tables of two levels --> tables of the lower one      compact.rs
//!   ingestion      tables from outside --> the lowest level that will do      ingest.rs
//!   installation   manifest edit, then the read state that it describes        install.rs
//! ```
//!
//! **What is seen.** A sequence number is a position in the log. The log publishes positions in
//! order, each after its writes are in memory, so everything below [`Log::published`] is there. A
//! reader takes a position and a read state that has all of it, by one rule: see `read`.
//!
//! **Failures.** What fails in a writer before the log is given to its caller. What fails in the
//! log's sync, in a flush, or in a compaction is final: the store only reads from then on, and
//! every write says why. A full disk is another matter, see `halt`.

mod append;
mod background;
mod background_error;
mod build;
mod checkpoint;
mod compact;
mod flush;
mod ingest;
mod install;
mod key_locks;
mod open;
mod property;
mod rate_limiter;
mod read;
mod read_only;
mod rotate;
#[cfg(test)]
mod tests;
mod throughput;
mod token_bucket;
mod write;
mod write_controller;

pub use ingest::{CheckedTables, IngestOptions, Transfer};
pub use write::{Change, WriteOptions};

use crate::cache::BlockCache;
use crate::compaction::{InProgressCompactions, debt};
use crate::error::{Error, Result};
use crate::manifest::{FileNumbers, Manifest};
use crate::open_table::{FileDeleter, OpenTable};
use crate::options::Options;
use crate::read_state::ReadState;
use crate::snapshot::{Pinned, Snapshots};
use crate::version::LEVELS;
use background::{Background, Signal};
use background_error::{BackgroundErrors, Work};
use key_locks::KeyLocks;
use keyrack_concurrent::{Swap, pin};
use keyrack_vfs::{Fs, Lock};
use keyrack_wal::{Log, Recovered};
use rate_limiter::RateLimiter;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use throughput::Throughput;
use write_controller::WriteController;

pub(crate) const NS_PER_SECOND: f64 = 1e9;

/// A store in a directory. Cloning the handle is cheap; the store closes with the last one.
#[derive(Clone)]
pub struct Db {
    owner: Arc<Owner>,
}

/// Ends the background work when the last handle goes.
struct Owner {
    inner: Arc<Inner>,
    background: Option<Background>,
}

/// What handles and background threads share.
pub(crate) struct Inner {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) deleter: Arc<FileDeleter>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) read_state: Swap<Arc<ReadState>>,
    /// Held while the read state is exchanged.
    pub(crate) exchange: Mutex<()>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) numbers: Arc<FileNumbers>,
    /// Held while tables from outside come in, and while a checkpoint is at a moment: see
    /// `checkpoint`. Taken before all others.
    pub(crate) ingesting: Mutex<()>,
    /// Held while a memtable is written.
    pub(crate) flushing: Mutex<()>,
    /// Held while a compaction is chosen.
    pub(crate) in_progress: Mutex<InProgressCompactions>,
    pub(crate) signal: Signal,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) write_controller: WriteController,
    pub(crate) background_errors: BackgroundErrors,
    /// Tables of edits that have failed: the manifest may name them until an edit has succeeded.
    pub(crate) orphaned_outputs: Mutex<Vec<Arc<OpenTable>>>,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) throughput: Throughput,
    pub(crate) key_locks: KeyLocks,
    /// Set once, see [`Db::set_drop_filter`].
    pub(crate) drop_filter: OnceLock<DropFilter>,
    pub(crate) counters: Counters,
    /// What the log had when the store was opened, and what it had lost.
    pub(crate) recovered: Recovered,
    /// The last sequence number in the log when the store was opened.
    pub(crate) last_replayed: u64,
    /// Why the store only reads, as every write says.
    pub(crate) poison: OnceLock<Error>,
    /// Keeps others out of the directory. None for reading only.
    pub(crate) directory_lock: Option<Box<dyn Lock>>,
}

/// What has been done, in bytes and times.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes_read: AtomicU64,
    pub(crate) compaction_bytes_written: AtomicU64,
    pub(crate) trivial_moves: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) filtered: AtomicU64,
    pub(crate) levels: [LevelCounters; LEVELS],
}

/// What flushes and compactions into a level have moved, and how long they took.
#[derive(Default)]
pub(crate) struct LevelCounters {
    pub(crate) ns: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Says of a key and its value whether a compaction may drop the entry: see
/// [`Db::set_drop_filter`].
pub type DropFilter = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// A moment of the store that reads can be taken from.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) pinned: Pinned,
}

/// The lock, also after a panic of another holder: what it guards is exchanged as a whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// The read state of now, to keep.
    pub(crate) fn read_state(&self) -> Arc<ReadState> {
        Arc::clone(self.read_state.load(&pin()))
    }

    /// The last sequence number that readers see.
    pub(crate) fn visible(&self) -> u64 {
        self.log.published().saturating_sub(1)
    }

    /// No writes from now on, for this reason. The first one stays.
    pub(crate) fn poison(&self, error: &Error) {
        let _ = self.poison.set(error.clone().into_final());
        self.write_controller.disable();
    }

    /// Removes what no version names, and whose last reader may come to an end only later. What
    /// cannot be removed is left to the next opening.
    fn remove_obsolete(&self) {
        self.deleter.close();
        let obsolete = lock(&self.manifest).obsolete(HashSet::new);
        // What cannot be listed or removed now, the next opening removes.
        for path in obsolete.unwrap_or_default() {
            let _ = self.fs.remove_file(&path);
        }
    }

    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }

    /// Whether it was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.directory_lock.is_none()
    }
}

impl Db {
    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.owner.inner.dir
    }

    /// What it was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.owner.inner.options
    }

    /// Lets compactions drop the entries that `filter` names, such as rows that have expired. Set
    /// once: `false` if there is a filter already.
    ///
    /// `filter` is called by the threads that compact, with a key and its value; it must be quick,
    /// and must not use the store. It may name only what no reader of now finds or misses. A
    /// compaction asks it only when no snapshot was taken before it began, and of a key only about
    /// the newest entry that it sees. Where something older of the key may lie below, a tombstone
    /// takes the place of the entry, so that nothing older comes back. Iterators keep what they
    /// see.
    pub fn set_drop_filter(&self, filter: DropFilter) -> bool {
        self.owner.inner.drop_filter.set(filter).is_ok()
    }

    /// This moment, to read from later.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let inner = &self.owner.inner;
        Snapshot { pinned: inner.snapshots.pin(|| inner.visible()) }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.owner.inner
    }

    /// Closes the store: the log is synced; what is without a log goes to a table first. The last
    /// handle does it as well, but cannot say what failed. Other handles are of no use afterwards.
    ///
    /// # Errors
    /// A failure of the sync or flush, or the one that has made the store read-only before.
    pub fn close(self) -> Result<()> {
        let inner = &self.owner.inner;
        let flushed = if inner.is_read_only() {
            Ok(())
        } else if inner.options.durability == crate::options::Durability::None {
            self.flush()
        } else {
            // The log syncs at its end in any case, but then there is nobody to be told.
            inner.check_poison().and_then(|()| {
                let synced = inner.log.sync(inner.log.published()).map_err(Error::from);
                synced.inspect_err(|error| inner.poison(error))
            })
        };
        if let Some(background) = &self.owner.background {
            background.stop();
        }
        // Writes through other handles would wait for nobody.
        inner.poison(&Error::Closed);
        flushed
    }

    /// Tries again what found the disk full: flushes what memory holds, and lets compactions begin
    /// again. The background does so by itself after a while; this is for who has just made space.
    /// Nothing to do in a store that takes writes.
    ///
    /// # Errors
    /// The disk is still full, and writes stay refused; or a flush fails for good. What has made
    /// the store read-only before.
    pub fn resume(&self) -> Result<()> {
        let inner = self.inner();
        inner.check_poison()?;
        while flush::flush_oldest(inner)? {}
        inner.background_succeeded(Work::Compaction);
        inner.signal.retry();
        Ok(())
    }

    /// Numbers of the store, by name.
    pub fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let inner = &self.owner.inner;
        let read_state = inner.read_state();
        let memory: usize = read_state.memtables.iter().map(|g| g.bytes()).sum();
        visit("memory_bytes", memory as f64);
        let entries: usize = read_state.memtables.iter().map(|g| g.entries()).sum();
        visit("memory_entries", entries as f64);
        visit("generations", read_state.memtables.len() as f64);
        for (level, tables) in read_state.levels.iter().enumerate() {
            if !tables.is_empty() {
                let bytes: u64 = tables.iter().map(|table| table.file().bytes).sum();
                visit(&format!("level{level}_tables"), tables.len() as f64);
                visit(&format!("level{level}_bytes"), bytes as f64);
                let entries: u64 = tables.iter().map(|table| table.file().entries).sum();
                visit(&format!("level{level}_entries"), entries as f64);
            }
        }
        for (level, counters) in inner.counters.levels.iter().enumerate() {
            let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
            let seconds = counted(&counters.ns) / NS_PER_SECOND;
            if seconds > 0.0 {
                visit(&format!("into_level{level}_seconds"), seconds);
                visit(&format!("into_level{level}_read_bytes"), counted(&counters.read_bytes));
                visit(
                    &format!("into_level{level}_written_bytes"),
                    counted(&counters.written_bytes),
                );
            }
        }
        let debt_bytes = debt(&read_state.version, &inner.options.compaction());
        visit("compaction_debt_bytes", debt_bytes as f64);
        // Not within the call: whoever is called may ask the store for more.
        let in_progress = lock(&inner.in_progress).count();
        visit("compactions_running", in_progress as f64);
        // Immutable memtables: each is flushed, or will be next.
        visit("flushes_running", (read_state.memtables.len() - 1) as f64);
        let counters = &inner.counters;
        for (name, counter) in [
            ("flushes", &counters.flushes),
            ("flush_bytes", &counters.flush_bytes),
            ("compactions", &counters.compactions),
            ("compaction_bytes_read", &counters.compaction_bytes_read),
            ("compaction_bytes_written", &counters.compaction_bytes_written),
            ("trivial_moves", &counters.trivial_moves),
            ("writer_waits", &counters.waits),
            ("filtered_entries", &counters.filtered),
        ] {
            visit(name, counter.load(Ordering::Relaxed) as f64);
        }
        visit("snapshots", inner.snapshots.len() as f64);
        visit("log_recovered_records", inner.recovered.records as f64);
        // The end that a crash tore off, or that somebody has damaged: it was never synced.
        visit("log_dropped_bytes", inner.recovered.dropped_bytes as f64);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.inner.options.durability == crate::options::Durability::None {
            // There is nobody to tell. `Db::close` tells.
            let _ = flush::flush_all(&self.inner);
        }
        drop(self.background.take());
        // Nobody is left to be told, and without it no edit is lost.
        let _ = lock(&self.inner.manifest).end();
        self.inner.remove_obsolete();
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.dir()).finish_non_exhaustive()
    }
}
