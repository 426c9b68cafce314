//! Recovery: loads the newest complete checkpoint, and replays the logs from where it began.
//!
//! ```text
//!   parts  --(a thread takes one after the other)--> tree            first all of them
//!   logs   --a reader each--> entries by hash of the key --a worker each--> tree       then these
//! ```
//!
//! One worker gets all entries of a key, from all logs, in any order, and the largest version wins.
//! A worker remembers the versions of removals until the end, because an older put may come later.
//! It also remembers the largest version of a clear.
//!
//! Collections are registered at the end, from the headers that were met on the way and a scan of
//! the elements. Ids go on above all that were met, in entries that were not applied, too.
//!
//! The result does not depend on the numbers of threads and logs, now or when the logs were
//! written.

use crate::Row;
use crate::collections::RowFacts;
use crate::core::Core;
use crate::error::{Failure, of_files, of_log};
use crate::keys;
use crate::manifest::{LogEntry, LogState, Manifest};
use crate::memory::cost;
use crate::part::PartReader;
use crate::record::{ENTRY_BYTES, Entries, Entry};
use crate::watermarks::hash;
use keyrack_concurrent::{Change, pin};
use keyrack_store::{Error, Result};
use keyrack_vfs::Fs;
use keyrack_wal::{Log, Options as LogOptions};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Bytes of entries that a reader collects for a worker.
const CHUNK_BYTES: usize = 64 << 10;
/// The maximum number of chunks in the queue of a worker.
const CHUNKS_MAX: usize = 16;
/// The number of rows between two reports of progress.
const REPORT_ROWS: u64 = 1 << 16;

/// The progress of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Rows loaded from the checkpoint, and changes replayed.
    pub rows: u64,
    /// Bytes read of checkpoint and logs.
    pub bytes: u64,
    /// Bytes to read; segments of logs count in full.
    pub bytes_total: u64,
}

impl Progress {
    /// The finished part, from 0 to 100.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let part = u128::from(self.bytes) * 100 / u128::from(self.bytes_total.max(1));
        part.min(100) as u64
    }
}

/// The report of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The generation of the checkpoint; 0 if there is none.
    pub generation: u64,
    /// Rows in it.
    pub checkpoint_rows: u64,
    /// Bytes of its files.
    pub checkpoint_bytes: u64,
    /// Records replayed.
    pub log_records: u64,
    /// Bytes of these.
    pub log_bytes: u64,
    /// Bytes of torn tails of logs, which were never synced.
    pub dropped_bytes: u64,
}

/// The state that all threads of a recovery share.
pub(crate) struct Recovery<'a> {
    core: &'a Core,
    manifest: &'a Manifest,
    report: &'a (dyn Fn(Progress) + Sync),
    bytes_total: u64,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// The largest version of a clear.
    cleared: AtomicU64,
    /// Stored keys at which a header was met.
    headers: Mutex<HashSet<Box<[u8]>>>,
    is_over: AtomicBool,
    first_error: Mutex<Option<Error>>,
}

impl<'a> Recovery<'a> {
    pub(crate) fn new(
        core: &'a Core,
        manifest: &'a Manifest,
        log_bytes: u64,
        report: &'a (dyn Fn(Progress) + Sync),
    ) -> Self {
        Recovery {
            core,
            manifest,
            report,
            bytes_total: manifest.bytes().saturating_add(log_bytes),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
            headers: Mutex::default(),
            is_over: AtomicBool::new(false),
            first_error: Mutex::default(),
        }
    }

    /// Loads the checkpoint, replays the logs, and returns them, ready for use.
    pub(crate) fn run(&self, fs: &Arc<dyn Fs>, dir: &Path) -> Result<(Vec<Log>, Recovered)> {
        self.load(&**fs, dir)?;
        let (logs, mut found) = self.replay(fs, dir)?;
        self.finish();
        // What was recovered must be as durable as later writes that depend on it. Otherwise one
        // log could lose a row from which a row in another log was derived.
        for log in &logs {
            log.sync(log.published()).map_err(of_log)?;
        }
        found.generation = self.manifest.generation;
        found.checkpoint_rows = self.manifest.parts.iter().map(|part| part.rows).sum();
        found.checkpoint_bytes = self.manifest.bytes();
        Ok((logs, found))
    }

    fn fail(&self, error: Error) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }

    fn outcome(&self) -> Result<()> {
        let first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map_or(Ok(()), Err)
    }

    fn note(&self, rows: u64, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let before = self.rows.fetch_add(rows, Ordering::Relaxed);
        if before / REPORT_ROWS != (before + rows) / REPORT_ROWS {
            let bytes_total = self.bytes_total;
            (self.report)(Progress { rows: before + rows, bytes, bytes_total });
        }
    }

    fn load(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let next = AtomicUsize::new(0);
        let count = self.manifest.parts.len();
        let work = || {
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= count || self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(error) = self.load_part(fs, dir, part) {
                    self.fail(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.core.options.thread_count().min(count) {
                // If a thread does not start, the others do its share.
                let _ = Builder::new().name("recovery".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        self.outcome()
    }

    fn load_part(&self, fs: &dyn Fs, dir: &Path, part: usize) -> Result<()> {
        let core = self.core;
        let entry = &self.manifest.parts[part];
        let dir = &dir.join(&entry.dir);
        let mut reader = PartReader::open(fs, dir, self.manifest.generation, part, entry)?;
        let (mut bytes, mut volatile) = (0, 0);
        while let Some(rows) = reader.next()? {
            let mut read = 0;
            let is_plain = self.manifest.has_plain_keys;
            let rows: Vec<_> =
                rows.into_iter().map(|(key, row)| (stored(key, is_plain), row)).collect();
            let pairs = rows.iter().map(|(key, row)| {
                self.meet(key, Some(row));
                bytes += cost(key.len(), row.bytes().len());
                volatile += i64::from(row.expires_ms() != 0);
                read += (key.len() + row.bytes().len()) as u64;
                core.sample.offer(key, hash(key));
                (&**key, row.bytes())
            });
            let loaded = core.tree.bulk_load(pairs, &mut pin());
            let count = rows.len() as u64;
            if loaded.is_err() {
                let path = crate::part::path_of(dir, self.manifest.generation, part);
                return Err(Error::corruption(&path, 0, "keys that do not ascend"));
            }
            self.note(count, read);
        }
        core.memory.add(bytes);
        core.memory.add_volatile(volatile);
        Ok(())
    }

    /// Notes what a stored key and a row tell of collections.
    fn meet(&self, key: &[u8], row: Option<&Row<'_>>) {
        if keys::is_reserved(key) {
            // Escaped in an earlier life, too: the next checkpoint must not take it for plain.
            self.core.collections.set_used();
        }
        if let Some((id, _)) = keys::element(key) {
            self.core.collections.note_id(id);
        } else if let Some(id) = row.and_then(Row::collection) {
            self.core.collections.note_id(id);
            let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
            headers.insert(key.into());
        }
    }

    fn replay(&self, fs: &Arc<dyn Fs>, dir: &Path) -> Result<(Vec<Log>, Recovered)> {
        let workers = self.core.options.thread_count();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| sync_channel(CHUNKS_MAX)).unzip();
        let mut logs = Vec::new();
        let mut found = Recovered::default();
        std::thread::scope(|scope| -> Result<()> {
            for receiver in receivers {
                start(scope, move || self.apply_all(&receiver))?;
            }
            let readers: Vec<_> = self
                .manifest
                .logs
                .iter()
                .map(|log| {
                    let senders = senders.clone();
                    start(scope, move || self.read_log(fs, dir, log, senders))
                })
                .collect();
            drop(senders);
            for reader in readers {
                let read = reader?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                let (log, part) = read?;
                logs.push(log);
                found.log_records += part.records;
                found.log_bytes += part.payload_bytes;
                found.dropped_bytes += part.dropped_bytes;
            }
            Ok(())
        })?;
        self.outcome()?;
        Ok((logs, found))
    }

    /// Reads one log, and routes its entries to the workers.
    fn read_log(
        &self,
        fs: &Arc<dyn Fs>,
        dir: &Path,
        log: &LogEntry,
        senders: Vec<SyncSender<Vec<u8>>>,
    ) -> Result<(Log, keyrack_wal::Recovered)> {
        let log_dir = dir.join(&log.path);
        let options = log_options(self.core, log.id);
        if log.state == LogState::Begun && !has_segments(&**fs, &log_dir)? {
            return Err(Error::corruption(&log_dir, 0, "the log is missing"));
        }
        let mut router = EntryRouter { chunks: vec![Vec::new(); senders.len()], senders };
        let mut replay = |lsn: u64, payload: &[u8]| -> std::result::Result<(), Failure> {
            let damage = |(at, what): (usize, &str)| {
                let at = lsn + at as u64;
                Failure(Error::corruption(&log_dir, at, format!("in a record: {what}")))
            };
            let mut rows = 0;
            let mut entries = Entries::of(payload).map_err(damage)?;
            let is_plain = entries.has_plain_keys();
            while let Some((entry, bytes)) = entries.next().map_err(damage)? {
                rows += 1;
                match entry {
                    Entry::Put { key, .. } | Entry::Remove { key, .. } => {
                        let row =
                            if let Entry::Put { row, .. } = &entry { Some(row) } else { None };
                        let stored = stored(key, is_plain);
                        self.meet(&stored, row);
                        match stored {
                            Cow::Borrowed(key) => router.route(key, bytes)?,
                            Cow::Owned(key) => router.route(&key, &with_key(bytes, &key))?,
                        }
                    }
                    Entry::Clear { version } => {
                        self.cleared.fetch_max(version, Ordering::Relaxed);
                    }
                }
            }
            self.note(rows, payload.len() as u64);
            Ok(())
        };
        let opened = Log::open(Arc::clone(fs), &log_dir, log.start, options, &mut replay);
        let (log, found) = opened.map_err(|failure: Failure| failure.0)?;
        router.finish()?;
        Ok((log, found))
    }

    /// Runs a worker: applies the entries of its queue.
    fn apply_all(&self, receiver: &Receiver<Vec<u8>>) {
        let mut worker = Worker { recovery: self, removed: HashMap::new(), bytes: 0, volatile: 0 };
        let mut clock = 0;
        while let Ok(chunk) = receiver.recv() {
            let mut entries = Entries::bare(&chunk);
            loop {
                match entries.next() {
                    Ok(None) => break,
                    Ok(Some((entry, _))) => clock = clock.max(worker.apply(entry)),
                    Err((_, what)) => {
                        // The reader has checked the chunk, so this is a bug.
                        self.fail(Error::corruption(Path::new("log"), 0, what));
                        break;
                    }
                }
            }
        }
        self.core.memory.add(worker.bytes);
        self.core.memory.add_volatile(worker.volatile);
        self.core.clock.fetch_max(clock, Ordering::AcqRel);
    }

    /// Removes cleared rows, and sets the versions to continue from.
    fn finish(&self) {
        let core = self.core;
        let cleared = self.cleared.load(Ordering::Relaxed);
        if cleared > 0 {
            core.clear(cleared);
            while core.sweep_dead() {}
        }
        let clock = core.clock.load(Ordering::Acquire).max(self.manifest.clock).max(cleared);
        core.clock.store(clock, Ordering::Release);
        core.watermarks.raise_all(clock);
        self.register_collections();
        let bytes = self.bytes_total;
        (self.report)(Progress {
            rows: self.rows.load(Ordering::Relaxed),
            bytes,
            bytes_total: bytes,
        });
    }
}

impl Recovery<'_> {
    /// Registers the collections of the rows that are left.
    fn register_collections(&self) {
        let core = self.core;
        let guard = pin();
        for key in self.headers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(bytes) = core.tree.get(key, &guard) {
                core.collections.load(key, &Row::of(&bytes));
            }
        }
        let (start, end) = (keys::RESERVED_START, keys::RESERVED_END);
        core.tree.scan(start, Some(end), |key, bytes| {
            core.collections.load(key, &Row::of(&bytes));
            ControlFlow::Continue(())
        });
        // A crash came between the removal of the last element and that of the header.
        for (id, key) in core.collections.loaded() {
            core.tree.update(&key, &guard, |old| {
                let Some(row) = old.as_deref().map(Row::of) else { return Change::Keep };
                if row.collection() != Some(id) {
                    return Change::Keep;
                }
                let facts = RowFacts::of(&key, Some(&row));
                core.memory.add(-facts.bytes);
                core.memory.add_volatile(-facts.volatile);
                core.collections.note(&key, facts, RowFacts::default());
                Change::Remove
            });
        }
    }
}

/// The stored key of a key in a file.
fn stored(key: &[u8], is_plain: bool) -> Cow<'_, [u8]> {
    if is_plain { keys::stored(key) } else { Cow::Borrowed(key) }
}

/// The bytes of an entry with another key.
fn with_key(entry: &[u8], key: &[u8]) -> Vec<u8> {
    let old_bytes = u32::from_le_bytes(*entry[1..].first_chunk().expect("a whole entry"));
    let key_bytes = u32::try_from(key.len()).expect("a key is shorter than 4 GiB");
    let mut bytes = entry[..ENTRY_BYTES].to_vec();
    bytes[1..5].copy_from_slice(&key_bytes.to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&entry[ENTRY_BYTES + old_bytes as usize..]);
    bytes
}

/// Starts a thread of a recovery.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let started = Builder::new().name("recovery".to_owned()).spawn_scoped(scope, run);
    started.map_err(|error| Error::io("starting a thread", error))
}

/// How the logs of a store are opened.
pub(crate) fn log_options(core: &Core, id: u64) -> LogOptions {
    use keyrack_store::Durability;
    use keyrack_wal::Sync;
    let sync = match core.options.durability {
        Durability::None => Sync::None,
        Durability::Os => Sync::Os,
        Durability::Interval(ms) => Sync::Interval(std::time::Duration::from_millis(ms.into())),
        Durability::Sync => Sync::Always,
    };
    LogOptions { segment_bytes: core.options.segment_bytes, sync, id, ..LogOptions::default() }
}

/// Whether a directory contains segments of a log.
pub(crate) fn has_segments(fs: &dyn Fs, dir: &Path) -> Result<bool> {
    match fs.list(dir) {
        Err(error) if error.is_not_found() => Ok(false),
        entries => {
            let entries = entries.map_err(|error| of_files(&error))?;
            Ok(entries.iter().any(|entry| {
                let is_segment = entry.name.to_str().is_some_and(|name| name.ends_with(".wal"));
                is_segment && keyrack_wal::is_ours(&entry.name)
            }))
        }
    }
}

/// Routes entries from a reader to the workers, in chunks.
struct EntryRouter {
    chunks: Vec<Vec<u8>>,
    senders: Vec<SyncSender<Vec<u8>>>,
}

impl EntryRouter {
    fn route(&mut self, key: &[u8], bytes: &[u8]) -> Result<()> {
        // Uses other bits than the stripes, so that the keys of a stripe go to different workers.
        let index = (hash(key) >> 16) as u32 as usize % self.chunks.len();
        let chunk = &mut self.chunks[index];
        if chunk.len() + bytes.len() > CHUNK_BYTES && !chunk.is_empty() {
            let full = std::mem::take(chunk);
            self.send(index, full)?;
        }
        let chunk = &mut self.chunks[index];
        if chunk.capacity() == 0 {
            chunk.reserve(CHUNK_BYTES);
        }
        chunk.extend_from_slice(bytes);
        Ok(())
    }

    fn send(&self, index: usize, chunk: Vec<u8>) -> Result<()> {
        self.senders[index].send(chunk).map_err(|_| {
            Error::io("replaying a log", std::io::Error::other("a thread of the recovery ended"))
        })
    }

    fn finish(mut self) -> Result<()> {
        let chunks = std::mem::take(&mut self.chunks);
        let mut chunks = chunks.into_iter().enumerate().filter(|(_, chunk)| !chunk.is_empty());
        chunks.try_for_each(|(index, chunk)| self.send(index, chunk))
    }
}

/// A worker, which applies entries to the tree.
struct Worker<'a> {
    recovery: &'a Recovery<'a>,
    /// The versions of removals, for keys without a row.
    removed: HashMap<Box<[u8]>, u64>,
    bytes: i64,
    volatile: i64,
}

impl Worker<'_> {
    /// Applies an entry, unless there is a newer row or removal. Returns its version.
    fn apply(&mut self, entry: Entry<'_>) -> u64 {
        let (key, version, row) = match entry {
            Entry::Put { key, row } => (key, row.version(), Some(row)),
            Entry::Remove { key, version } => (key, version, None),
            Entry::Clear { version } => return version,
        };
        let manifest = self.recovery.manifest;
        // The watermarks of an earlier version are those of user keys.
        let hashed = if manifest.has_plain_keys { keys::user(key) } else { Cow::Borrowed(key) };
        let mut watermark = manifest.delete_watermark(hash(&hashed));
        watermark = watermark.max(self.recovery.cleared.load(Ordering::Relaxed));
        if !self.removed.is_empty() {
            watermark = watermark.max(self.removed.get(key).copied().unwrap_or(0));
        }
        if version <= watermark {
            return version;
        }
        let (bytes, volatile) = (&mut self.bytes, &mut self.volatile);
        let (mut is_applied, mut is_new) = (false, false);
        self.recovery.core.tree.update(key, &pin(), |old| {
            let old = old.as_deref().map(Row::of);
            if old.is_some_and(|old| old.version() >= version) {
                return Change::Keep;
            }
            (is_applied, is_new) = (true, old.is_none());
            let cost =
                |row: Option<Row<'_>>| row.map_or(0, |row| cost(key.len(), row.bytes().len()));
            let expires =
                |row: Option<Row<'_>>| i64::from(row.is_some_and(|row| row.expires_ms() != 0));
            *bytes += cost(row) - cost(old);
            *volatile += expires(row) - expires(old);
            match row {
                Some(row) => Change::Put(row.bytes()),
                None => Change::Remove,
            }
        });
        if is_applied && row.is_none() {
            self.removed.insert(key.into(), version);
        } else if is_new {
            self.recovery.core.sample.offer(key, hash(key));
        }
        version
    }
}

#[cfg(test)]
mod tests;
