//! Opening a store: take the lock, read the manifest, replay the log, start the background.
//!
//! The records of the log from the manifest's LSN on go into memtables, as they
//! were before the store was closed or died; the background writes them into tables as always.
//! Nothing of what is on disk changes before all of it has been read. Opening for reading only
//! ends there, see `read_only`.

use super::ahead::Ahead;
use super::append::size_of;
use super::background::{Background, Signal};
use super::background_error::BackgroundErrors;
use super::compaction_state::CompactionState;
use super::events::Events;
use super::feed::Feeds;
use super::garbage::Garbage;
use super::key_locks::KeyLocks;
use super::read_path::ReadPath;
use super::rotate::{memtable_pool, new_memtable};
use super::stats::Counters;
use super::table_set::TableSet;
use super::write_path::WritePath;
use super::{Db, Inner, Owner};
use crate::batch::decode;
use crate::blob::BlobUse;
use crate::cache::BlockCache;
use crate::checksum::hash;
use crate::error::{Error, Result};
use crate::expiry::Expiries;
use crate::file_cache::FileCache;
use crate::key::{Kind, SEQUENCE_MAX};
use crate::manifest::{CURRENT, LOCK, LOG_DIR, Manifest, State};
use crate::memory_budget::{Charge, Holder, MemoryBudget};
use crate::memtable::{Memtable, MemtablePool};
use crate::merge::Merges;
use crate::open_blob::{BlobFiles, OpenBlob};
use crate::open_table::{FileDeleter, OpenTable};
use crate::options::Options;
use crate::read_state::{ReadState, Tables};
use crate::table::ReaderOptions;
use crate::transaction::RowLocks;
use crate::version::{FileMeta, LEVELS, Version, VersionEdit};
use keyrack_store::Durability;
use keyrack_vfs::{Fs, Lock, RealFs};
use keyrack_wal::{Log, Options as LogOptions, Recovered, Retention, Sync};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Released segments of the log that are kept for use again.
const RECYCLED_MAX: usize = 3;

impl Db {
    /// Opens the store in the directory `dir`, and makes it if the options say so.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// let dir = std::env::temp_dir().join(format!("keyrack-open-{}", std::process::id()));
    /// let db = Db::open(&dir, Options::new().memory_budget(64 << 20))?;
    /// db.put(b"key", b"value")?;
    /// db.close()?;
    /// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open already, [`Error::Usage`] if the options do not fit it,
    /// [`Error::Corruption`] if a file is damaged, [`Error::UnsupportedCompression`] if it needs a
    /// codec that is not built in, [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_in(Arc::new(RealFs), dir.as_ref(), options)
    }

    /// As [`Db::open`], on a file system of the caller's.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// use keyrack_vfs::MemFs;
    /// use std::sync::Arc;
    ///
    /// // A disk in memory, for a test.
    /// let db = Db::open_in(Arc::new(MemFs::new()), "/store".as_ref(), Options::new())?;
    /// assert_eq!(db.get(b"key")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::open`].
    pub fn open_in(fs: Arc<dyn Fs>, dir: &Path, options: Options) -> Result<Db> {
        Db::open_accepted(fs, dir, options, &|_| Ok(()))
    }

    /// As [`Db::open_in`]. `accept` may refuse the store: it is called when all of it has been
    /// read, before anything of it changes.
    pub(crate) fn open_accepted(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: Options,
        accept: &dyn Fn(&Inner) -> Result<()>,
    ) -> Result<Db> {
        options.check()?;
        let options = options.divided()?;
        if options.create_if_missing {
            create_dir(&*fs, dir)?;
        }
        let directory_lock = take_lock(&*fs, dir)?;
        let order = options.comparator.clone();
        let manifest = if Manifest::exists(&*fs, dir)? {
            if options.error_if_exists {
                return Err(Error::Usage(format!("{}: there is a store already", dir.display())));
            }
            Manifest::open(Arc::clone(&fs), dir, order)?
        } else if options.create_if_missing {
            Manifest::create(Arc::clone(&fs), dir, order)?
        } else {
            return Err(Error::Usage(format!(
                "{}: there is no store; create it with create_if_missing",
                dir.display()
            )));
        };
        let access = Access::Write(directory_lock);
        let inner = Arc::new(assemble(fs, dir, options, manifest, access)?);
        accept(&inner)?;
        inner.take_over()?;
        inner.update_write_controller(&inner.read_path.lock_exchange());
        let background = Some(Background::start(&inner)?);
        inner.events.start()?;
        Ok(Db { owner: Arc::new(Owner { inner, background }) })
    }

    /// Removes the store in `dir`, and the directory if nothing else is in it. Files whose names
    /// are not those of a store stay, also in the directory of the log.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?.close()?;
    /// Db::destroy(&*fs, "/store".as_ref())?;
    /// let must_exist = Options::new().create_if_missing(false);
    /// assert!(Db::open_in(fs, "/store".as_ref(), must_exist).is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open; the machine's errors.
    pub fn destroy(fs: &dyn Fs, dir: &Path) -> Result<()> {
        if !fs.exists(dir)? {
            return Ok(());
        }
        let lock = take_lock(fs, dir)?;
        let log = dir.join(LOG_DIR);
        if fs.exists(&log)? {
            remove_log(fs, &log)?;
        }
        let files = fs.list(dir)?;
        let ours = files.iter().filter(|entry| crate::manifest::is_ours(&entry.name));
        for entry in ours {
            fs.remove_file(&dir.join(&entry.name))?;
        }
        fs.sync_dir(dir)?;
        drop(lock);
        fs.remove_file(&dir.join(LOCK))?;
        if fs.list(dir)?.is_empty() {
            fs.remove_dir(dir)?;
        }
        Ok(())
    }
}

/// Removes the files of the log, and its directory if nothing else is in it.
fn remove_log(fs: &dyn Fs, log: &Path) -> Result<()> {
    let files = fs.list(log)?;
    for entry in files.iter().filter(|entry| keyrack_wal::is_ours(&entry.name)) {
        fs.remove_file(&log.join(&entry.name))?;
    }
    if fs.list(log)?.is_empty() {
        fs.remove_dir(log)?;
    }
    Ok(())
}

impl Inner {
    /// The first change of the directory: a manifest of this process, and what an earlier one left
    /// unfinished goes.
    fn take_over(&self) -> Result<()> {
        // From here on the manifest says that there is a log.
        self.write_path.log.begin()?;
        let log_id =
            (self.options.durability != Durability::None).then(|| self.write_path.log.id());
        let mut manifest = self.tables.manifest.lock();
        // And what the store is written with from here on.
        let mut options = self.options.to_store();
        if self.options.durability == Durability::None
            && let Some(kept) = &manifest.state().options
        {
            // There is no log to be kept now, but there may be one later.
            options.log_retention_bytes = kept.log_retention_bytes;
            options.log_retention_seconds = kept.log_retention_seconds;
        }
        let has_expiries = self.expiries.is_used();
        let merge_operator = self.merges().stored_name().map(str::to_owned);
        manifest.log(&VersionEdit {
            log_id,
            has_expiries,
            merge_operator,
            options: Some(options),
            ..VersionEdit::default()
        })?;
        let live: HashSet<u64> = manifest.state().version.numbers().collect();
        for path in manifest.obsolete(|| live)? {
            self.fs.remove_file(&path)?;
        }
        Ok(())
    }
}

/// What a store is opened for.
pub(crate) enum Access {
    /// Everything. The lock keeps others out of the directory.
    Write(Box<dyn Lock>),
    /// Reading only.
    Read,
}

impl Access {
    /// Where events are told: nowhere, if nothing happens in the store.
    fn events(&self, options: &Options) -> Events {
        Events::new(options.listener.clone().filter(|_| matches!(self, Access::Write(_))))
    }

    /// The lock of the directory; without one, no write is taken.
    fn into_lock(self, dir: &Path, errors: &BackgroundErrors) -> Option<Box<dyn Lock>> {
        match self {
            Access::Write(directory_lock) => Some(directory_lock),
            Access::Read => {
                let what = format!("{} is opened read-only", dir.display());
                let _ = errors.fatal.set(Error::Usage(what));
                None
            }
        }
    }
}

/// Reads the store that the manifest describes: opens its tables, and replays its log into memory.
/// Changes nothing in the directory, and starts no thread but that of the log.
pub(crate) fn assemble(
    fs: Arc<dyn Fs>,
    dir: &Path,
    options: Options,
    manifest: Manifest,
    access: Access,
) -> Result<Inner> {
    let state = manifest.state().clone();
    if let Some(kept) = &state.options {
        kept.check_built_in(&manifest.path())?;
    }
    let pool = memtable_pool(&options);
    let budget = options.memory_budget.unwrap_or(usize::MAX);
    let budget = Arc::new(MemoryBudget::new(budget, options.memtable_bytes).with_spare_of(&pool));
    let cache = Arc::new(BlockCache::within(options.cache_bytes, Arc::clone(&budget)));
    let fixed_bytes = KeyLocks::memory_bytes() + cache.own_bytes() + Inner::own_bytes();
    let fixed = Charge::new(&cache, Holder::Fixed, fixed_bytes);
    let mut replay = Replay::new(&options, (dir, &pool), state.log_from);
    let (log, recovered) = match &access {
        Access::Write(_) => open_log(&fs, dir, &options, &state, &mut replay)?,
        Access::Read => read_log(&fs, dir, &options, &state, &mut replay)?,
    };
    let last_replayed = replay.last;
    let has_operands = replay.has_operands;
    // Without it a repair or an earlier failure has left a log.
    let has_expiries = state.has_expiries || replay.has_expiries;
    replay.memtables.iter().for_each(|memtable| budget.add_memtable(memtable));
    cache.settle();
    let mut reader = options.reader(Arc::clone(&cache));
    // Beside a reader, a writer removes files: what it has open stays readable.
    if options.table_files_max > 0 && matches!(access, Access::Write(_)) {
        reader.files = Some(FileCache::new(Arc::clone(&fs), options.table_files_max));
    }
    let events = access.events(&options);
    let deleter = FileDeleter::new(Arc::clone(&fs), events.clone());
    let levels = open_tables(&deleter, &*fs, dir, &state.version, &reader, &options)?;
    let blobs = open_blobs(&deleter, &*fs, dir, &state.version, &reader, &options)?;
    let active = new_memtable(&pool, 0);
    active.set_first_sequence(log.reserved());
    budget.add_memtable(&active);
    cache.settle();
    let mut memtables = vec![active];
    memtables.extend(replay.memtables.into_iter().rev());
    let garbage = Arc::new(Garbage::default());
    let (version, blobs) = (Arc::clone(&state.version), Arc::new(blobs));
    let read_state = ReadState::new(memtables, version, levels, blobs, &garbage);
    let merges = merges_of(&options, &state, &read_state, has_operands, dir)?;
    let errors = BackgroundErrors::new();
    let directory_lock = access.into_lock(dir, &errors);
    Ok(Inner {
        fs,
        dir: dir.to_owned(),
        write_path: WritePath::new(log, recovered, last_replayed, events.clone()),
        read_path: ReadPath::new(read_state),
        tables: TableSet::new(manifest, deleter, reader, fixed, merges),
        compaction: CompactionState::new(options.table_bytes_per_second),
        errors,
        events,
        signal: Signal::default(),
        ahead: Ahead::default(),
        feeds: Feeds::default(),
        garbage,
        memtables: pool,
        counters: Counters::new(options.counts_reads),
        row_locks: RowLocks::default(),
        expiries: Expiries::new(options.clock.clone(), has_expiries),
        directory_lock,
        options,
    })
}

/// The merge operator of a store, whose log has operands if `has_operands`.
fn merges_of(
    options: &Options,
    state: &State,
    read_state: &ReadState,
    has_operands: bool,
    dir: &Path,
) -> Result<Merges> {
    let mut tables = read_state.levels.iter().flat_map(|tables| tables.iter());
    let has_operands = has_operands || tables.any(|table| table.table().meta().operands > 0);
    let given = options.merge_operator.clone();
    Merges::new(given, state.merge_operator.as_deref(), has_operands, dir)
}

/// Makes the directory if it is missing, and sees to it that its name lasts. Nothing to do where
/// there is a store: who made it has seen to it.
fn create_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if fs.exists(&dir.join(CURRENT))? {
        return Ok(());
    }
    let named = |path: &&Path| !path.as_os_str().is_empty();
    let mut missing = Vec::new();
    for path in dir.ancestors().filter(named) {
        if fs.exists(path)? {
            // An earlier attempt may have ended between making it and syncing its name. If that is
            // not ours to do, it was not ours to make.
            match fs.sync_parent(path) {
                Err(error) if !error.is_permission_denied() => return Err(error.into()),
                _ => break,
            }
        }
        missing.push(path);
    }
    // From the top, so that at most the last one that is there is not durable.
    for path in missing.into_iter().rev() {
        fs.create_dir_all(path)?;
        fs.sync_parent(path)?;
    }
    Ok(())
}

/// Keeps others out of the directory.
pub(crate) fn take_lock(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn Lock>> {
    fs.lock(&dir.join(LOCK)).map_err(|error| {
        if error.is_locked() { Error::Locked(dir.to_owned()) } else { error.into() }
    })
}

/// What the log gives back.
struct Replay<'a> {
    options: &'a Options,
    dir: &'a Path,
    pool: &'a Arc<MemtablePool>,
    /// Oldest first.
    memtables: Vec<Arc<Memtable>>,
    /// Where the next memtable begins.
    next: u64,
    /// The sequence number of the last write; 0 without any.
    last: u64,
    /// Whether some of the writes expire.
    has_expiries: bool,
    /// The same of operands.
    has_operands: bool,
}

impl<'a> Replay<'a> {
    fn new(
        options: &'a Options,
        (dir, pool): (&'a Path, &'a Arc<MemtablePool>),
        from: u64,
    ) -> Self {
        Replay {
            options,
            dir,
            pool,
            memtables: Vec::new(),
            next: from,
            last: 0,
            has_expiries: false,
            has_operands: false,
        }
    }

    fn record(&mut self, position: u64, payload: &[u8]) -> Result<()> {
        if position > SEQUENCE_MAX {
            return Err(Error::corruption(
                &self.dir.join(LOG_DIR),
                0,
                format!("a record at position {position}, beyond the last that there is"),
            ));
        }
        let Some(writes) = decode(payload) else {
            return Err(Error::corruption(
                &self.dir.join(LOG_DIR),
                0,
                format!("the whole record at position {position} does not hold a batch"),
            ));
        };
        let size = size_of(writes.iter().copied(), &self.options.comparator);
        self.last = self.last.max((position + writes.len() as u64).saturating_sub(1));
        let full = self
            .memtables
            .last()
            .is_none_or(|last| last.bytes() + size.bytes() > self.options.memtable_bytes);
        if full {
            let new = new_memtable(self.pool, size.bytes());
            new.set_first_sequence(if self.memtables.is_empty() { self.next } else { position });
            self.memtables.push(new);
        }
        let memtable = self.memtables.last().expect("one was made if there was none");
        let room = memtable.reserve(size);
        let mut room = room.expect("it is laid out for the record, or has room up to its size");
        for (sequence, write) in (position..).zip(writes) {
            self.has_expiries |= write.kind == Kind::PutExpiring;
            self.has_operands |= write.kind == Kind::Merge;
            if !write.is_void(&self.options.comparator) {
                room.insert(sequence, write.kind, write.key, write.value, hash(write.key));
            }
        }
        Ok(())
    }
}

fn log_options(fs: &dyn Fs, options: &Options, state: &State, sync: Sync) -> LogOptions {
    let begun = state.log_id != 0;
    LogOptions {
        segment_bytes: options.segment_bytes,
        sync,
        recycled_max: RECYCLED_MAX,
        first_lsn: (state.last_sequence + 1).max(state.log_from),
        id: if begun { state.log_id } else { keyrack_wal::new_id(fs) },
        begun,
        prepared_by_caller: true,
        retention: Retention {
            bytes: options.log_retention_bytes,
            seconds: options.log_retention_seconds,
            held_bytes: options.feed_hold_bytes,
        },
    }
}

fn open_log(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    state: &State,
    replay: &mut Replay<'_>,
) -> Result<(Log, Recovered)> {
    let log_dir = dir.join(LOG_DIR);
    let sync = match options.durability {
        // An earlier opening has left a log: it is read, and not written any more.
        Durability::None if state.log_id != 0 || fs.exists(&log_dir)? => {
            return read_log(fs, dir, options, state, replay);
        }
        Durability::None => Sync::None,
        Durability::Os => Sync::Os,
        Durability::Interval(ms) => Sync::Interval(Duration::from_millis(ms.into())),
        Durability::Sync => Sync::Always,
    };
    let with = log_options(&**fs, options, state, sync);
    let mut record = |position: u64, payload: &[u8]| replay.record(position, payload);
    Log::open(Arc::clone(fs), &log_dir, state.log_from, with, &mut record)
}

/// Replays the log, and gives one without files that goes on behind it. Changes nothing.
fn read_log(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    state: &State,
    replay: &mut Replay<'_>,
) -> Result<(Log, Recovered)> {
    let log_dir = dir.join(LOG_DIR);
    let with = log_options(&**fs, options, state, Sync::Os);
    let mut record = |position: u64, payload: &[u8]| replay.record(position, payload);
    let (old, recovered) = Log::open(Arc::clone(fs), &log_dir, state.log_from, with, &mut record)?;
    let with = LogOptions { sync: Sync::None, first_lsn: old.published(), ..with };
    drop(old);
    let nothing = &mut |_: u64, _: &[u8]| Ok::<(), Error>(());
    let (log, _) = Log::open(Arc::clone(fs), &log_dir, 0, with, nothing)?;
    Ok((log, recovered))
}

/// Whether the log has no record behind `end`, where its records ended before.
pub(crate) fn log_ends_at(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    state: &State,
    end: u64,
) -> bool {
    let with = log_options(&**fs, options, state, Sync::Os);
    let mut record = |_: u64, _: &[u8]| Err::<(), Error>(Error::Closed);
    let read = Log::open(Arc::clone(fs), &dir.join(LOG_DIR), end, with, &mut record);
    read.is_ok_and(|(_, recovered)| recovered.end == end)
}

fn open_tables(
    deleter: &Arc<FileDeleter>,
    fs: &dyn Fs,
    dir: &Path,
    version: &Version,
    reader: &ReaderOptions,
    options: &Options,
) -> Result<[Tables; LEVELS]> {
    let open = |file: &Arc<FileMeta>| -> Result<Arc<OpenTable>> {
        let table = OpenTable::open(fs, deleter, dir, Arc::clone(file), reader)?;
        if options.paranoid_checks {
            table.table().verify()?;
        }
        Ok(table)
    };
    let mut levels: [Tables; LEVELS] = std::array::from_fn(|_| Tables::from([]));
    for (level, tables) in levels.iter_mut().enumerate() {
        *tables = version.files(level).iter().map(open).collect::<Result<_>>()?;
    }
    Ok(levels)
}

fn open_blobs(
    deleter: &Arc<FileDeleter>,
    fs: &dyn Fs,
    dir: &Path,
    version: &Version,
    reader: &ReaderOptions,
    options: &Options,
) -> Result<BlobFiles> {
    let used = version.blobs().values();
    let open = |used: &BlobUse| -> Result<Arc<OpenBlob>> {
        let blob = OpenBlob::open(fs, deleter, dir, used.meta, reader.files.as_ref())?;
        if options.paranoid_checks {
            blob.verify()?;
        }
        Ok(blob)
    };
    let open = used.clone().map(open).collect::<Result<Vec<_>>>()?;
    Ok(BlobFiles::of_version(used, open.into_iter()))
}
