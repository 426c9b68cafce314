//! The store: what a caller sees, and which part does what.
//!
//! ```text
//!   writers        write controller, key locks, log, memtable         write.rs, append.rs
//!   transactions   key locks, check of what was read, batch           commit.rs
//!   readers        read state --> memtables --> level 0 --> levels    read.rs
//!   rotation       a full memtable is immutable, a new one is active  rotate.rs
//!   ahead          the next segment of the log, sorted tails         ahead.rs
//!   feed           readers of the log, woken by writers; time marks   feed.rs
//!   free           memtables and tables that no reader holds       garbage.rs
//!   flush thread   oldest immutable memtable --> table of level 0     flush.rs
//!   compaction     tables of two levels --> tables of the lower one   compact.rs
//!   ingestion      tables from outside --> the lowest level possible  ingest.rs
//!   installation   version edit in the manifest, then the read state  install.rs
//!   events         what the background does --> the listener          events.rs
//! ```
//!
//! All of them share [`Inner`], which is made of parts with one job each: the write path, the read
//! path, the table set, the state of compactions, and the errors of the background.
//!
//! **Visibility.** A sequence number is an LSN of the log. The log publishes LSNs in order, each
//! after its writes are in the memtable. So everything below [`Log::published`] can be read. A
//! reader takes a sequence number and a read state that holds everything up to it: see `read`.
//!
//! **Failures.** A failure before the log is returned to the caller of the write. A failed sync of
//! the log, a failed flush and a failed compaction are final: from then on the store only reads,
//! and every write returns the reason. A full disk is an exception: see `background_error`.
//!
//! **Locks.** [`LockRank`] has the order of the locks; debug builds assert it. The mutexes without
//! a rank are leaves: the write controller, the signal of the background, the rate limiter, the
//! snapshots, the row locks of transactions, the file numbers and the file deleter take no other
//! lock while they hold theirs. Three exceptions: a compaction that waits at the rate limiter asks
//! the signal whether the store closes, the file cache takes the lock of a file, and the queue of
//! events is below all others.
//!
//! [`Log::published`]: keyrack_wal::Log::published

mod ahead;
mod append;
mod background;
mod background_error;
mod blob_output;
mod build;
mod checkpoint;
mod commit;
mod compact;
mod compaction_state;
mod conditional;
mod events;
mod expire;
mod feed;
mod file_set;
mod filtered;
mod flush;
mod fold;
mod garbage;
mod ingest;
mod install;
mod key_locks;
mod merge;
mod metrics;
mod moment;
mod multi_get;
mod open;
mod pacing;
mod property;
mod range;
mod ranked_lock;
mod rate_limiter;
mod read;
mod read_only;
mod read_path;
mod rotate;
mod stats;
mod table_set;
#[cfg(test)]
mod tests;
mod throughput;
mod token_bucket;
mod write;
mod write_controller;
mod write_path;

pub(crate) use commit::Checks;
pub(crate) use events::Events;
pub(crate) use garbage::Garbage;
pub use ingest::{CheckedTables, IngestOptions, Transfer};
pub use metrics::{Metric, MetricKind};
pub(crate) use moment::Moment;
pub(crate) use open::take_lock;
pub(crate) use range::check_prefixes;
pub(crate) use read_only::{Seen, settled};

use crate::error::{Error, Result};
use crate::expiry::Expiries;
use crate::memory_budget::MemoryBudget;
use crate::memtable::MemtablePool;
use crate::options::Options;
use crate::read_state::ReadState;
use crate::snapshot::Pinned;
use crate::transaction::RowLocks;
use ahead::Ahead;
use background::{Background, Signal};
use background_error::{BackgroundErrors, Work};
use compaction_state::CompactionState;
use feed::Feeds;
use keyrack_concurrent::pin;
use keyrack_store::Durability;
use keyrack_vfs::{Fs, Lock};
use read_path::ReadPath;
use stats::Counters;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table_set::TableSet;
use write_path::WritePath;

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

/// The order of the locks: a thread takes only locks of a higher rank than those that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockRank {
    /// [`TableSet::ingest_lock`]: an ingestion holds it over everything below.
    Ingest,
    /// [`WritePath::key_locks`], in the order of their indexes. Writers hold theirs while they log;
    /// an ingestion holds all of them while it flushes and installs.
    Keys,
    /// [`WritePath::flush_lock`]: one flush at a time, from the choice to the installation.
    Flush,
    /// [`CompactionState::in_progress`], while a compaction is chosen or ended.
    Compactions,
    /// [`TableSet::manifest`], from the edit to the read state that it describes.
    Manifest,
    /// [`TableSet::orphaned_outputs`], for the end of an edit.
    OrphanedOutputs,
    /// The exchange lock of [`ReadPath`].
    ReadState,
    /// The reasons of [`BackgroundErrors`].
    BackgroundErrors,
}

/// What handles and background threads share.
pub(crate) struct Inner {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) write_path: WritePath,
    pub(crate) read_path: ReadPath,
    pub(crate) tables: TableSet,
    pub(crate) compaction: CompactionState,
    pub(crate) errors: BackgroundErrors,
    /// Where the listener hears of all this.
    pub(crate) events: Events,
    /// Wakes the threads of the background.
    pub(crate) signal: Signal,
    /// Wakes the threads that make ahead what writers need.
    pub(crate) ahead: Ahead,
    /// Wakes who waits for changes, and says when the time is to be marked.
    pub(crate) feeds: Feeds,
    /// What is left of read states, on its way to the thread that frees it.
    pub(crate) garbage: Arc<Garbage>,
    /// Makes memtables, from the memory of those that are gone.
    pub(crate) memtables: Arc<MemtablePool>,
    pub(crate) counters: Counters,
    /// Those that transactions ask for.
    pub(crate) row_locks: RowLocks,
    /// What time it is, and whether that matters.
    pub(crate) expiries: Expiries,
    /// Keeps others out of the directory. None for reading only.
    pub(crate) directory_lock: Option<Box<dyn Lock>>,
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
        Arc::clone(self.read_path.load(&pin()))
    }

    /// The memory budget of the store.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        self.tables.reader.cache.budget()
    }

    /// Bytes of the store without what its parts refer to.
    pub(crate) const fn own_bytes() -> usize {
        size_of::<Self>()
    }

    /// The last sequence number that readers see.
    pub(crate) fn visible(&self) -> u64 {
        self.write_path.log.published().saturating_sub(1)
    }

    /// What has expired by this time is not seen by a reader with the snapshot, or by one of now. 0
    /// where nothing can expire. Called after the sequence number of the reader was read.
    #[inline]
    pub(crate) fn time_ms(&self, snapshot: Option<&Snapshot>) -> u64 {
        match snapshot {
            Some(snapshot) => snapshot.pinned.time_ms(),
            None if self.expiries.is_used() => self.expiries.now_ms(),
            None => 0,
        }
    }

    /// What has expired by this time is seen by nobody, and never will be.
    pub(crate) fn expired_ms(&self) -> u64 {
        if !self.expiries.is_used() {
            return 0;
        }
        self.read_path.snapshots.oldest_ms(|| self.expiries.now_ms())
    }

    /// Whether it was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.directory_lock.is_none()
    }
}

impl Db {
    /// The directory.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// assert_eq!(db.dir(), std::path::Path::new("/store"));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.owner.inner.dir
    }

    /// What it was opened with.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// // Sizes that were not given are those that the store has chosen.
    /// assert!(db.options().memtable_bytes < Options::BY_BUDGET);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
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
    ///
    /// A value is judged with the operands of [`Db::merge`] that the compaction puts into it, and
    /// not at all if operands on it stay. Of operands in tables that take no part it knows nothing:
    /// then the value is judged without them.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// // Rows begin with the day on which they expire.
    /// let today = b'7';
    /// let is_over = move |_: &[u8], row: &[u8]| row.first().is_some_and(|day| *day < today);
    /// assert!(db.set_drop_filter(std::sync::Arc::new(is_over)));
    /// db.put(b"old", b"6 rest")?;
    /// db.put(b"new", b"8 rest")?;
    /// db.compact_range(None, None)?;
    /// assert!(!db.contains_key(b"old")? && db.contains_key(b"new")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn set_drop_filter(&self, filter: DropFilter) -> bool {
        self.owner.inner.compaction.drop_filter.set(filter).is_ok()
    }

    /// This moment, to read from later.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"then")?;
    /// let before = db.snapshot();
    /// db.put(b"key", b"now")?;
    /// assert_eq!(db.get_at(&before, b"key", <[u8]>::to_vec)?, Some(b"then".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let inner = &self.owner.inner;
        // Who sees a value that expires sees that there is one.
        let time_ms = || inner.expiries.is_used().then(|| inner.expiries.now_ms());
        Snapshot { pinned: inner.read_path.snapshots.pin(|| inner.visible(), time_ms) }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.owner.inner
    }

    /// Closes the store: the log is synced; what is without a log goes to a table first. The last
    /// handle does it as well, but cannot say what failed. Other handles are of no use afterwards:
    /// a write through one of them that begins meanwhile is made safe as well, or refused. A thread
    /// that waits for the row of another transaction, or for a change, is woken and refused.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Error, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let other = db.clone();
    /// db.close()?;
    /// assert!(matches!(other.put(b"key", b"value"), Err(Error::Closed)));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A failure of the sync or flush, or the one that has made the store read-only before.
    pub fn close(self) -> Result<()> {
        let inner = &self.owner.inner;
        // First: what other handles write from here on would be acknowledged, and not be safe.
        inner.end_writes();
        inner.row_locks.close();
        let flushed = if inner.is_read_only() {
            Ok(())
        } else if inner.options.durability == Durability::None {
            self.flush()
        } else {
            // The log syncs at its end in any case, but then there is nobody to be told.
            inner.check_poison().and_then(|()| {
                let synced = inner.write_path.log.sync_unreleased().map_err(Error::from);
                synced.inspect_err(|error| inner.poison(error))
            })
        };
        if let Some(background) = &self.owner.background {
            background.stop();
        }
        // Writes through other handles would wait for nobody.
        inner.poison(&Error::Closed);
        inner.events.end();
        flushed
    }

    /// Tries again what found the disk full: flushes what memory holds, and lets compactions begin
    /// again. The background does so by itself after a while; this is for who has just made space.
    /// Nothing to do in a store that takes writes.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Error, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// if let Err(Error::NoSpace(_)) = db.put(b"key", b"value") {
    ///     // ... make space ...
    ///     db.resume()?;
    /// }
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
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
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.inner.options.durability == Durability::None {
            // There is nobody to tell. `Db::close` tells.
            let _ = flush::flush_all(&self.inner);
        }
        drop(self.background.take());
        // Nobody is left to be told, and without it no edit is lost.
        let _ = self.inner.tables.manifest.lock().end();
        self.inner.tables.remove_obsolete(&*self.inner.fs);
        self.inner.events.end();
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.dir()).finish_non_exhaustive()
    }
}
