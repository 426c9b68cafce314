//! The store: opening, closing, and the operations on all rows.

use crate::checkpoint::{checkpoint, publish, remove_dropped, remove_unfinished};
use crate::core::{Core, Disk};
use crate::error::{Failure, of_files, of_log};
use crate::maintenance::Maintenance;
use crate::manifest::{LogEntry, LogState, MANIFEST_NAME, Manifest};
use crate::options::Options;
use crate::part::is_part;
use crate::part_dirs;
use crate::record::Record;
use crate::recovery::{Progress, Recovered, Recovery, has_segments};
use crate::session::Session;
use crate::sweep::Sweep;
use crate::user_keys::UserKeys;
use crate::{Position, RowSession, Rows};
use keyrack_store::{Durability, Error, Result};
use keyrack_vfs::Fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// The file that is locked while a process has the store open.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// Rows over the index in memory, with logs and checkpoints. See the crate's documentation.
#[derive(Debug)]
pub struct RowStore {
    maintenance: Option<Maintenance>,
    core: Arc<Core>,
    recovered: Recovered,
}

impl RowStore {
    /// A store without files: [`Durability::None`], whatever the options say.
    ///
    /// # Errors
    /// [`Error::Usage`] for inconsistent options; [`Error::Io`] if a thread does not start.
    pub fn in_memory(options: Options) -> Result<Self> {
        options.check()?;
        let options = Options { durability: Durability::None, ..options };
        Self::start(Core::new(options, None), Recovered::default())
    }

    /// Opens the store in the directory `dir`, or creates one there. Several threads load its
    /// files, and each may call `report`.
    ///
    /// # Errors
    /// [`Error::Usage`] for inconsistent options, and if another process has the store open;
    /// [`Error::Corruption`] if durable data is missing or damaged; [`Error::Io`].
    pub fn open(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: Options,
        report: &(dyn Fn(Progress) + Sync),
    ) -> Result<Self> {
        options.check()?;
        if options.durability == Durability::None {
            return Self::in_memory(options);
        }
        let files = |error: keyrack_vfs::Error| of_files(&error);
        if !fs.exists(dir).map_err(files)? {
            fs.create_dir_all(dir).map_err(files)?;
            fs.sync_parent(dir).map_err(files)?;
        }
        let lock = fs.lock(&dir.join(LOCK_NAME)).map_err(files)?;
        let manifest = prepare(&*fs, dir, &options)?;
        let mut core = Core::new(options, None);
        let log_bytes = log_bytes(&*fs, dir, &manifest)?;
        let recovery = Recovery::new(&core, &manifest, log_bytes, report);
        let (mut logs, recovered) = recovery.run(&fs, dir)?;
        // The other logs were read, and no session writes them any more.
        logs.truncate(core.options.log_dirs.len());
        let has_others = manifest.logs.len() > logs.len();
        let mut disk = Disk::new(fs, dir.to_owned(), lock, manifest, logs);
        begin_logs(&mut disk)?;
        disk.log_bytes.store(recovered.log_bytes, Ordering::Relaxed);
        let is_due = disk.set_log_bytes_max(&core.options, recovered.checkpoint_bytes);
        core.counts.checkpoint_bytes.store(recovered.checkpoint_bytes, Ordering::Relaxed);
        core.counts.checkpoint_rows.store(recovered.checkpoint_rows, Ordering::Relaxed);
        core.disk = Some(disk);
        let store = Self::start(core, recovered)?;
        if has_others || is_due {
            store.core.notifier.notify_checkpointer();
        }
        Ok(store)
    }

    fn start(core: Core, recovered: Recovered) -> Result<Self> {
        let core = Arc::new(core);
        let maintenance = Maintenance::start(&core)?;
        Ok(RowStore { maintenance: Some(maintenance), core, recovered })
    }

    /// The report of the recovery.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// The directory of the store, if it has files.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.core.disk.as_ref().map(|disk| disk.dir.as_path())
    }

    /// The options that the store was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Removes cleared rows from memory, and then all rows that have expired at `now_ms`. Returns
    /// how many expired. O(rows). Waits until the sessions of other threads have logged them.
    ///
    /// # Errors
    /// As [`RowSession::remove`]; [`Error::Usage`](keyrack_store::Error::Usage) if the calling
    /// thread has a session with unflushed writes; [`Error::Io`](keyrack_store::Error::Io) if a
    /// session cannot log its writes.
    pub fn sweep(&self, now_ms: u64) -> Result<u64> {
        while self.core.sweep_garbage() {}
        let mut session = Session::new(&self.core);
        let (mut sweep, mut removed) = (Sweep::default(), 0);
        loop {
            let slice = sweep.slice(&self.core, &mut session, now_ms)?;
            removed += slice.removed;
            if slice.is_end {
                return Ok(removed);
            }
        }
    }

    /// A session under stored keys.
    pub(crate) fn own_session(&self) -> Session<'_> {
        Session::new(&self.core)
    }

    /// Whether rows of `bytes` fit into memory, if need be after evictions.
    pub(crate) fn has_room(&self, bytes: i64) -> bool {
        let memory = &self.core.memory;
        memory.evicts() || self.core.live_bytes().saturating_add(bytes) <= memory.max()
    }

    /// Ends the threads, and closes the logs.
    fn end(mut self) -> Result<()> {
        drop(self.maintenance.take());
        if self.core.options.checkpoint_on_close {
            checkpoint(&self.core)?;
        }
        let core =
            Arc::into_inner(self.core).expect("the threads have ended, and no session is left");
        // A store in memory has nothing to close.
        let Some(disk) = core.disk else { return Ok(()) };
        let mut outcome = disk.check().and_then(|()| disk.append_unlogged());
        for log in disk.logs {
            outcome = outcome.and(log.close().map_err(of_log));
        }
        drop(disk.lock);
        outcome
    }
}

impl Rows for RowStore {
    fn session(&self) -> Result<Box<dyn RowSession + '_>> {
        Ok(Box::new(UserKeys { rows: self.own_session() }))
    }

    fn durability(&self) -> Durability {
        self.core.options.durability
    }

    fn version(&self) -> String {
        concat!("rowstore ", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn len(&self) -> u64 {
        self.core.count()
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let core = &*self.core;
        let counts = &core.counts;
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed) as f64;
        let tree = core.tree.stats();
        visit("rows", core.count() as f64);
        visit("dead_rows", core.dead_rows() as f64);
        visit("elements", core.collections.rows() as f64);
        visit("volatile_rows", core.live_volatile().max(0) as f64);
        visit("memory_bytes", core.memory.used().max(0) as f64);
        visit("memory_max_bytes", core.options.memory_max as f64);
        visit("node_bytes", tree.node_bytes as f64);
        visit("evicted", count(&counts.evicted));
        visit("expired", count(&counts.expired));
        // A store in memory has none of these.
        let Some(disk) = &core.disk else { return };
        let mut file_bytes = 0;
        let (mut segments, mut syncs) = (0, 0);
        for log in &disk.logs {
            let stats = log.stats();
            file_bytes += stats.file_bytes;
            segments += stats.segments;
            syncs += stats.flushes;
        }
        visit("logs", disk.logs.len() as f64);
        visit("log_bytes", count(&disk.log_bytes));
        visit("log_file_bytes", file_bytes as f64);
        visit("log_segments", segments as f64);
        visit("log_appends", count(&counts.flushes));
        visit("log_syncs", syncs as f64);
        visit("checkpoints", count(&counts.checkpoints));
        visit("checkpoint_failures", count(&counts.checkpoint_failures));
        visit("checkpoint_rows", count(&counts.checkpoint_rows));
        visit("checkpoint_bytes", count(&counts.checkpoint_bytes));
        visit("poisoned", f64::from(u8::from(disk.check().is_err())));
    }

    fn sync(&self, to: Position) -> Result<()> {
        // A store in memory has nothing to sync.
        let Some(disk) = &self.core.disk else { return Ok(()) };
        let Some(log) = disk.logs.get(to.log as usize) else {
            return Err(Error::usage(format!("there is no log {}", to.log)));
        };
        disk.sync(log, to.lsn)
    }

    fn checkpoint(&self) -> Result<bool> {
        checkpoint(&self.core)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.end()
    }
}

/// Reads the manifest of the store in `dir`, and updates it for the options: the logs in use come
/// first, in the order of the options.
fn prepare(fs: &dyn Fs, dir: &Path, options: &Options) -> Result<Manifest> {
    let found = read_manifest(fs, dir)?;
    let mut manifest = found.clone().unwrap_or_else(Manifest::empty);
    if found.is_none() {
        refuse_existing_files(fs, dir, options)?;
    }
    part_dirs::remove_unnamed(fs, dir, &part_dirs::all(options, &manifest), &manifest)?;
    remove_unfinished(fs, dir)?;
    remove_dropped(fs, dir, &mut manifest)?;
    let mut others = std::mem::take(&mut manifest.logs);
    for path in &options.log_dirs {
        if manifest.logs.iter().any(|log| log.path == *path) {
            return Err(Error::usage(format!("two logs in '{}'", path.display())));
        }
        let known = others.iter().position(|log| log.path == *path);
        let log = known.map(|index| others.remove(index));
        manifest.logs.push(match log {
            Some(log) => log,
            None if has_segments(fs, &dir.join(path))? => {
                return Err(Error::usage(format!(
                    "'{}' contains a log of another store",
                    dir.join(path).display()
                )));
            }
            None => LogEntry { path: path.clone(), start: 0, state: LogState::New, id: 0 },
        });
    }
    manifest.logs.append(&mut others);
    // Logs of an earlier version get an identity now. It is durable before the log is written.
    for log in manifest.logs.iter_mut().filter(|log| log.id == 0) {
        log.id = keyrack_wal::new_id(fs);
    }
    if manifest.id == 0 && !options.checkpoint_dirs.is_empty() {
        manifest.id = keyrack_wal::new_id(fs);
    }
    if found.as_ref() != Some(&manifest) {
        publish(fs, dir, &manifest)?;
    }
    // The identity in their names is durable.
    part_dirs::create(fs, dir, options, manifest.id)?;
    Ok(manifest)
}

pub(crate) fn read_manifest(fs: &dyn Fs, dir: &Path) -> Result<Option<Manifest>> {
    let path = dir.join(MANIFEST_NAME);
    match fs.read(&path) {
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(of_files(&error)),
        Ok(bytes) => Manifest::decode(&path, &bytes).map(Some),
    }
}

/// Fails if there is no manifest, but files that one would name.
fn refuse_existing_files(fs: &dyn Fs, dir: &Path, options: &Options) -> Result<()> {
    let missing = || {
        let path = dir.join(MANIFEST_NAME);
        Error::corruption(&path, 0, "the manifest is missing, but there is data")
    };
    let entries = fs.list(dir).map_err(|error| of_files(&error))?;
    if entries.iter().any(|entry| is_part(&entry.name)) {
        return Err(missing());
    }
    for path in &options.log_dirs {
        if has_segments(fs, &dir.join(path))? {
            return Err(missing());
        }
    }
    Ok(())
}

/// The bytes of all segments.
fn log_bytes(fs: &dyn Fs, dir: &Path, manifest: &Manifest) -> Result<u64> {
    let mut bytes = 0_u64;
    for log in &manifest.logs {
        match fs.size_recursive(&dir.join(&log.path)) {
            Err(error) if error.is_not_found() => {}
            found => bytes = bytes.saturating_add(found.map_err(|error| of_files(&error))?),
        }
    }
    Ok(bytes)
}

/// Appends the first record to each new log, so that its absence is noticed from then on.
fn begin_logs(disk: &mut Disk) -> Result<()> {
    let mut manifest = disk.checkpointing.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut is_changed = false;
    for (log, entry) in disk.logs.iter().zip(&mut manifest.logs) {
        if entry.state == LogState::New {
            let end = disk.append(log, Record::new().bytes())?;
            log.sync(end).map_err(|error| Failure::from(error).0)?;
            entry.state = LogState::Begun;
            is_changed = true;
        }
    }
    if is_changed {
        publish(&*disk.fs, &disk.dir, &manifest)?;
        *disk.checkpointing.get_mut().unwrap_or_else(PoisonError::into_inner) = manifest;
    }
    Ok(())
}
