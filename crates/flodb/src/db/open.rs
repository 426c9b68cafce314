//! Opening a store: take the lock, read the manifest, replay the log, start the background.
//!
//! The records of the log from the manifest's position on go into generations of memory, as they
//! were before the store was closed or died; the background writes them into tables as always.
//! Nothing of what is on disk changes before all of it has been read.

use super::background::Background;
use super::flush::generation;
use super::gate::Gate;
use super::locks::KeyLocks;
use super::rotate::room_of;
use super::{Counters, Db, Inner, Owner};
use crate::batch::decode;
use crate::cache::BlockCache;
use crate::checksum::hash;
use crate::error::{Error, Result};
use crate::key::SEQUENCE_MAX;
use crate::manifest::{Edit, LOCK, LOG_DIR, Manifest};
use crate::options::{Durability, Options};
use crate::snapshot::Snapshots;
use crate::table::Table;
use crate::version::{FileMeta, LEVELS, Version};
use crate::view::{Generation, OpenTable, Tables, View, table_path};
use keyrack_concurrent::Swap;
use keyrack_vfs::{Fs, Lock, RealFs};
use keyrack_wal::{Log, Options as LogOptions, Sync};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

/// Released segments of the log that are kept for use again.
const RECYCLED_MAX: usize = 2;

impl Db {
    /// Opens the store in the directory `dir`, and makes it if the options say so.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open already, [`Error::Usage`] if the options do not fit it,
    /// [`Error::Corruption`] if a file is damaged, [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_in(Arc::new(RealFs), dir.as_ref(), options)
    }

    /// As [`Db::open`], on a file system of the caller's.
    ///
    /// # Errors
    /// As for [`Db::open`].
    pub fn open_in(fs: Arc<dyn Fs>, dir: &Path, options: Options) -> Result<Db> {
        options.check()?;
        if options.create_if_missing {
            create_dir(&*fs, dir)?;
        }
        let lock = take_lock(&*fs, dir)?;
        let order = options.comparator.clone();
        let mut manifest = match Manifest::exists(&*fs, dir)? {
            true if options.error_if_exists => {
                return Err(Error::Usage(format!("{}: there is a store already", dir.display())));
            }
            true => Manifest::open(Arc::clone(&fs), dir, order)?,
            false if options.create_if_missing => Manifest::create(Arc::clone(&fs), dir, order)?,
            false => {
                return Err(Error::Usage(format!(
                    "{}: there is no store; create it with create_if_missing",
                    dir.display()
                )));
            }
        };
        let state = manifest.state().clone();
        let mut replay = Replay::new(&options, state.log_from);
        let log = open_log(&fs, dir, &options, &state, &mut replay)?;

        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let levels = open_tables(&fs, dir, &state.version, &cache, &options)?;
        // From here on the directory is changed.
        manifest.log(&Edit::default())?;
        let live: HashSet<u64> = state.version.numbers().collect();
        for path in manifest.obsolete(|| live)? {
            fs.remove_file(&path)?;
        }

        let active = Arc::new(Generation::new(generation(&options, 0)));
        active.begin(log.reserved());
        let mut generations = vec![active];
        generations.extend(replay.generations.into_iter().rev());
        let view = View { generations, version: Arc::clone(&state.version), levels };
        let inner = Arc::new(Inner {
            fs,
            dir: dir.to_owned(),
            log,
            view: Swap::new(Arc::new(view)),
            exchange: Mutex::new(()),
            numbers: Arc::clone(manifest.numbers()),
            manifest: Mutex::new(manifest),
            flushing: Mutex::new(()),
            running: Mutex::default(),
            large: Default::default(),
            signal: Default::default(),
            cache,
            snapshots: Arc::new(Snapshots::default()),
            gate: Gate::new(),
            locks: KeyLocks::new(),
            counters: Counters::default(),
            poison: OnceLock::new(),
            _lock: lock,
            options,
        });
        inner.pace();
        let background = Some(Background::start(&inner)?);
        Ok(Db { owner: Arc::new(Owner { inner, background }) })
    }

    /// Removes the store in `dir`, and the directory if nothing else is in it.
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
            fs.remove_dir_all(&log)?;
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

impl Options {
    fn check(&self) -> Result<()> {
        let checks = [
            (self.memory_bytes < 64 << 10, "memory_bytes is less than 64 KiB"),
            (self.block_bytes == 0, "block_bytes is 0"),
            (self.restart_interval == 0, "restart_interval is 0"),
            (self.table_bytes == 0, "table_bytes is 0"),
            (self.level0_tables == 0, "level0_tables is 0"),
            (self.level0_slow > self.level0_stop, "level0_slow is more than level0_stop"),
            (self.level0_tables > self.level0_slow, "level0_tables is more than level0_slow"),
        ];
        match checks.iter().find(|(wrong, _)| *wrong) {
            Some((_, what)) => Err(Error::Usage((*what).to_owned())),
            None => Ok(()),
        }
    }
}

/// Makes the directory if it is missing, and sees to it that its name lasts.
fn create_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if fs.exists(dir)? {
        return Ok(());
    }
    let parents = dir.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let missing: Vec<&Path> =
        parents.take_while(|parent| !fs.exists(parent).unwrap_or(true)).collect();
    fs.create_dir_all(dir)?;
    fs.sync_parent(dir)?;
    for parent in missing {
        fs.sync_parent(parent)?;
    }
    Ok(())
}

fn take_lock(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn Lock>> {
    fs.lock(&dir.join(LOCK)).map_err(|error| {
        if error.is_locked() { Error::Locked(dir.to_owned()) } else { error.into() }
    })
}

/// What the log gives back.
struct Replay<'a> {
    options: &'a Options,
    /// Oldest first.
    generations: Vec<Arc<Generation>>,
    /// Where the next generation begins.
    next: u64,
}

impl<'a> Replay<'a> {
    fn new(options: &'a Options, from: u64) -> Self {
        Replay { options, generations: Vec::new(), next: from }
    }

    fn record(&mut self, position: u64, payload: &[u8]) -> Result<()> {
        let Some(writes) = decode(payload) else {
            return Err(Error::corruption(
                Path::new(LOG_DIR),
                position,
                "a whole record does not hold a batch",
            ));
        };
        let room = room_of(payload.len(), writes.len() as u64);
        let full = self
            .generations
            .last()
            .is_none_or(|last| last.memory.bytes() + room > self.options.memory_bytes);
        if full {
            let new = Generation::new(generation(self.options, room));
            new.begin(if self.generations.is_empty() { self.next } else { position });
            self.generations.push(Arc::new(new));
        }
        let Some(generation) = self.generations.last() else { return Ok(()) };
        for (sequence, write) in (position..).zip(writes) {
            let inserted = generation.memory.insert(
                sequence,
                write.kind,
                write.key,
                write.value,
                hash(write.key),
            );
            if inserted.is_err() {
                return Err(Error::Usage("a record of the log is too large for memory".to_owned()));
            }
        }
        Ok(())
    }
}

fn open_log(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    options: &Options,
    state: &crate::manifest::State,
    replay: &mut Replay<'_>,
) -> Result<Log> {
    let log_dir = dir.join(LOG_DIR);
    let with = |sync: Sync| LogOptions {
        segment_bytes: options.segment_bytes,
        sync,
        recycled_max: RECYCLED_MAX,
        first_position: (state.last_sequence + 1).max(state.log_from),
    };
    let mut record = |position: u64, payload: &[u8]| -> Result<()> {
        if position > SEQUENCE_MAX {
            return Err(Error::Usage("the log is beyond its last position".to_owned()));
        }
        replay.record(position, payload)
    };
    let sync = match options.durability {
        Durability::None if fs.exists(&log_dir)? => {
            // An earlier opening has left a log: it is read, and not written any more.
            let (old, _) =
                Log::open(Arc::clone(fs), &log_dir, state.log_from, with(Sync::Os), &mut record)?;
            let first_position = old.published();
            drop(old);
            let options = LogOptions { first_position, ..with(Sync::None) };
            let nothing = &mut |_: u64, _: &[u8]| Ok::<(), Error>(());
            return Ok(Log::open(Arc::clone(fs), &log_dir, 0, options, nothing)?.0);
        }
        Durability::None => Sync::None,
        Durability::Os => Sync::Os,
        Durability::Interval(interval) => Sync::Interval(interval),
        Durability::Sync => Sync::Always,
    };
    let (log, _) = Log::open(Arc::clone(fs), &log_dir, state.log_from, with(sync), &mut record)?;
    Ok(log)
}

fn open_tables(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    version: &Version,
    cache: &Arc<BlockCache>,
    options: &Options,
) -> Result<[Tables; LEVELS]> {
    let open = |file: &Arc<FileMeta>| -> Result<Arc<OpenTable>> {
        let path = table_path(dir, file.number);
        let order = options.comparator.clone();
        let table = Table::open(&**fs, &path, file.number, Arc::clone(cache), order)?;
        Ok(OpenTable::new(table, Arc::clone(file), Arc::clone(fs), path))
    };
    let mut levels: [Tables; LEVELS] = std::array::from_fn(|_| Tables::from([]));
    for (level, tables) in levels.iter_mut().enumerate() {
        *tables = version.files(level).iter().map(open).collect::<Result<_>>()?;
    }
    Ok(levels)
}
