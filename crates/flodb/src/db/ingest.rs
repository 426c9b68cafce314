//! Taking tables in that were made outside.
//!
//! ```text
//!   check each file   whole, in this order of keys, not overlapping
//!   link or copy      under numbers of the store, synced
//!   flush             if memory has keys between theirs
//!   --- writers wait from here on ---
//!   flush             what came meanwhile, and sync the log
//!   reserve           a record of the log: its LSN is the sequence number of all entries
//!   install           each table in the lowest level that has nothing above or beside it, or in
//!                     level 0: those that the data do not need would be drained again at once
//!   publish           the record: now they are visible
//! ```
//!
//! The entries get one sequence number, which is in the manifest and not in the files. It is larger
//! than that of everything in the store. As a reader stops at the first place that has its key, a
//! table must not come to lie below anything that it is newer than: neither memory nor a level
//! above has keys between its first and its last.
//!
//! The record keeps the number from others, also after a crash: the segment that it lies in is
//! durable, and an opening goes on above the segment. Everything that was written before is synced
//! before, so that the tables do not survive a power loss that it does not survive.

use super::background_error::is_retryable;
use super::{Db, Inner, flush};
use crate::compaction::{InProgressCompactions, targets};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::expiry;
use crate::key::{self, Comparator, Kind, SEQUENCE_MAX};
use crate::manifest::FileNumber;
use crate::open_table::table_path;
use crate::table::{ReaderOptions, Table, TableMeta};
use crate::version::{FileMeta, LAST_LEVEL, LEVELS, Version, VersionEdit};
use keyrack_store::Durability;
use keyrack_vfs::{Fs, OpenOptions};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The payload of a record without writes.
const NO_WRITES: &[u8] = &[0];

/// How the files of tables come into a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transfer {
    /// Their bytes are copied.
    #[default]
    Copy,
    /// The store has them under a second name, so they must not be changed afterwards. They are
    /// copied where that is not possible, as on another file system.
    Link,
    /// As `Link`, and the first name is removed at the end.
    Move,
}

/// How [`Db::ingest`] works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestOptions {
    /// How the files come into the store.
    pub transfer: Transfer,
}

impl Db {
    /// Takes tables in that [`SstWriter`](crate::SstWriter) made. Their entries become visible
    /// together, as writes of this moment: they replace what the store has of their keys, and older
    /// snapshots do not see them. Afterwards, and after a power loss as well, all are there; if it
    /// fails or does not come to an end, none.
    ///
    /// Each file is read and checked as a whole first. A checkpoint may have to end its flush
    /// before the tables come in. Writers wait while the manifest is written,
    /// and if memory has keys between the first and the last of a file, for a flush of what was
    /// written while the rest was flushed. Files must not overlap.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, IngestOptions, Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), db.options())?;
    /// table.put(b"a", b"1")?;
    /// table.put(b"b", b"2")?;
    /// table.finish()?;
    /// db.ingest(&["/new.sst"], IngestOptions::default())?;
    /// assert_eq!(db.range(..).count(), 2);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`]: a file is no such table, or two overlap. [`Error::Corruption`]: a file is
    /// damaged. Nothing has changed then. As for [`Db::flush`]. With [`Transfer::Move`],
    /// [`Error::Io`] also if a file cannot be removed; the tables are in the store then.
    pub fn ingest(&self, paths: &[impl AsRef<Path>], options: IngestOptions) -> Result<()> {
        self.check_tables(paths, |_, _| Ok::<(), Error>(()))?.ingest(options)
    }

    /// Reads and checks tables as [`Db::ingest`] does, and shows each entry: its key, and its value
    /// unless it is a tombstone. File by file in the given order, by keys in each. Nothing is taken
    /// in before [`CheckedTables::ingest`].
    ///
    /// ```
    /// # use keyrack_flodb::{Db, IngestOptions, Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), db.options())?;
    /// table.put(b"a", b"1")?;
    /// table.put(b"b", b"2")?;
    /// table.finish()?;
    /// let mut keys = Vec::new();
    /// let checked = db.check_tables(&["/new.sst"], |key, _value| {
    ///     keys.push(key.to_vec());
    ///     Ok::<(), keyrack_flodb::Error>(())
    /// })?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// checked.ingest(IngestOptions::default())?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first of `visit`. As for [`Db::ingest`].
    pub fn check_tables<E: From<Error>>(
        &self,
        paths: &[impl AsRef<Path>],
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> std::result::Result<(), E>,
    ) -> std::result::Result<CheckedTables<'_>, E> {
        let inner = self.inner();
        inner.admit(0)?;
        let order = &inner.options.comparator;
        let mut taken = Vec::new();
        for path in paths {
            taken.push(Taken::check(&*inner.fs, path.as_ref(), order, &mut visit)?);
        }
        taken.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
        for pair in taken.windows(2) {
            if order.user(pair[0].last(), pair[1].first()) != Ordering::Less {
                let (one, other) = (pair[0].from.display(), pair[1].from.display());
                return Err(Error::Usage(format!("{one} and {other} overlap")).into());
            }
        }
        Ok(CheckedTables { inner, taken })
    }
}

/// Tables that were read as a whole, and can be taken in. The files must stay as they are until
/// then.
pub struct CheckedTables<'a> {
    inner: &'a Arc<Inner>,
    taken: Vec<Taken>,
}

impl std::fmt::Debug for CheckedTables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.taken.iter().map(|table| &table.from)).finish()
    }
}

impl CheckedTables<'_> {
    /// Entries of all of them.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), db.options())?;
    /// table.put(b"a", b"1")?;
    /// table.put(b"b", b"2")?;
    /// table.finish()?;
    /// let checked = db.check_tables(&["/new.sst"], |_, _| Ok::<(), keyrack_flodb::Error>(()))?;
    /// assert_eq!(checked.entries(), 2);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.taken.iter().map(|table| table.meta.entries).sum()
    }

    /// Takes them in.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, IngestOptions, Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), db.options())?;
    /// table.put(b"a", b"1")?;
    /// table.put(b"b", b"2")?;
    /// table.finish()?;
    /// let checked = db.check_tables(&["/new.sst"], |_, _| Ok::<(), keyrack_flodb::Error>(()))?;
    /// checked.ingest(IngestOptions::default())?;
    /// assert!(db.contains_key(b"a")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::ingest`].
    pub fn ingest(self, options: IngestOptions) -> Result<()> {
        let CheckedTables { inner, taken } = self;
        if taken.is_empty() {
            return Ok(());
        }
        let mut placed = Placed { inner, numbers: Vec::new(), is_done: false };
        for table in &taken {
            placed.place(&table.from, options.transfer)?;
        }
        inner.fs.sync_dir(&inner.dir)?;
        take_in(inner, &taken, &mut placed)?;
        if options.transfer == Transfer::Move {
            for table in &taken {
                inner.fs.remove_file(&table.from)?;
            }
        }
        Ok(())
    }
}

/// A file to be taken in.
struct Taken {
    from: PathBuf,
    /// As the file has it.
    meta: TableMeta,
}

impl Taken {
    fn check<E: From<Error>>(
        fs: &dyn Fs,
        path: &Path,
        order: &Comparator,
        visit: &mut dyn FnMut(&[u8], Option<&[u8]>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let table = Table::open(fs, path, 0, &ReaderOptions::alone(order.clone()))?;
        let meta = table.meta();
        // A writer of tables makes neither.
        let is_of_store =
            table.range_tombstones().is_some() || !meta.blobs.is_empty() || meta.operands > 0;
        if meta.sequence_max > 0 || is_of_store {
            let path = path.display();
            let what = format!("{path}: a table of a store, not one to take in");
            return Err(Error::Usage(what).into());
        }
        let mut refusal = None;
        let checked = table.verify_each(&mut |key, value| {
            let shown = match key::parse(key).map(|parsed| parsed.kind) {
                Some(Kind::Put) => Some(value),
                Some(Kind::PutExpiring) => expiry::split(value).map(|(_, value)| value),
                _ => None,
            };
            visit(key::user_of(key), shown).map_err(|error| {
                refusal = Some(error);
                Error::Usage("refused".to_owned())
            })
        });
        match (refusal, checked) {
            (Some(error), _) => Err(error),
            (None, checked) => checked.map_err(E::from),
        }?;
        Ok(Taken { from: path.to_owned(), meta: meta.clone() })
    }

    fn first(&self) -> &[u8] {
        key::user_of(&self.meta.smallest)
    }

    fn last(&self) -> &[u8] {
        key::user_of(&self.meta.largest)
    }
}

/// Files that are in the directory, and in no version yet.
struct Placed<'a> {
    inner: &'a Inner,
    numbers: Vec<FileNumber>,
    is_done: bool,
}

impl Placed<'_> {
    fn place(&mut self, from: &Path, transfer: Transfer) -> Result<()> {
        let number = self.inner.tables.numbers.issue();
        let (fs, to) = (&*self.inner.fs, table_path(&self.inner.dir, number.get()));
        self.numbers.push(number);
        if transfer != Transfer::Copy {
            match fs.hard_link(from, &to) {
                // Whoever made it may not have synced it.
                Ok(()) => return Ok(fs.open(&to, &OpenOptions::new().read(true))?.sync_data()?),
                Err(error) if cannot_link(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        copy(fs, from, &to)
    }
}

impl Drop for Placed<'_> {
    /// Removes what is not taken in. If that fails, the next opening does it.
    fn drop(&mut self) {
        if !self.is_done {
            for number in &self.numbers {
                let _ = self.inner.fs.remove_file(&table_path(&self.inner.dir, number.get()));
            }
        }
    }
}

fn cannot_link(error: &keyrack_vfs::Error) -> bool {
    let reasons = [Errno::XDEV, Errno::PERM, Errno::MLINK, Errno::OPNOTSUPP, Errno::NOSYS];
    reasons.iter().any(|reason| error.raw_os_error() == Some(reason.raw_os_error()))
}

/// Copies a file, and syncs the copy.
pub(crate) fn copy(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    let source = fs.open(from, &OpenOptions::new().read(true))?;
    let target = fs.open(to, &OpenOptions::new().write(true).create_new(true))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let found = source.read_at(offset, &mut chunk)?;
        target.write_at(offset, &chunk[..found])?;
        offset += found as u64;
        if found < chunk.len() {
            return Ok(target.sync_data()?);
        }
    }
}

fn take_in(inner: &Arc<Inner>, taken: &[Taken], placed: &mut Placed<'_>) -> Result<()> {
    let _ingesting = inner.tables.ingest_lock.lock();
    if taken.iter().any(|table| !table.meta.expiries.is_empty()) {
        inner.use_expiries()?;
    }
    // Without a log a feed or a restore from before must not go past the tables as if nothing had
    // happened. So the log begins anew behind them, and memory has nothing that is still in it.
    let is_unlogged = inner.options.durability == Durability::None;
    if is_unlogged || is_in_memory(inner, taken)? {
        flush::flush_all(inner)?;
    }
    // Nobody writes until these are given back.
    let _writers = inner.write_path.key_locks.lock_every();
    if is_unlogged || is_in_memory(inner, taken)? {
        flush::flush_all(inner)?;
    }
    inner.check_poison()?;
    let synced = inner.write_path.log.sync(inner.write_path.log.published()).map_err(Error::from);
    synced.inspect_err(|error| inner.poison(error))?;
    let mut record = inner.write_path.log.reserve(NO_WRITES.len())?;
    record.write(&[NO_WRITES])?;
    let (sequence, end) = (record.lsn(), record.end());

    let mut tables = Vec::new();
    for (table, number) in taken.iter().zip(&placed.numbers) {
        let file = Arc::new(FileMeta::stamped(number.get(), &table.meta, sequence));
        let open = inner.open_table(file)?;
        if inner.options.paranoid_checks {
            open.table().verify()?;
        }
        tables.push(open);
    }
    // Whatever compaction is chosen from now on knows of the tables.
    let in_progress = inner.compaction.in_progress.lock();
    let version = Arc::clone(&inner.read_state().version);
    let order = &inner.options.comparator;
    let needed = targets(&version, &inner.options.compaction()).needed;
    let place = |file: &Arc<FileMeta>| {
        (level_for(&version, &in_progress, file, (order, needed)), file.clone())
    };
    let added = tables.iter().map(|table| place(table.file())).collect();
    // An edit that fails may be in the manifest all the same.
    placed.is_done = true;
    let log_from = is_unlogged.then_some(end);
    let edit = VersionEdit { added, log_from, ..VersionEdit::default() };
    let installed = inner.install(&edit, (&tables, &[]), None);
    // A full disk is no end: the tables stay on disk until another edit counts, and their number is
    // used up by the record.
    installed.inspect_err(|error| {
        if !is_retryable(error) {
            inner.poison(error);
        }
    })?;
    drop(in_progress);
    record.publish();
    inner.feeds.published(inner);
    inner.wake_background();
    // The tables are durable, so their place in the feed has to be.
    let synced = inner.write_path.log.sync(end).map_err(Error::from);
    synced.inspect_err(|error| inner.poison(error))?;
    inner.feeds.synced();
    inner.events.tell(|| Event::Ingested {
        tables: tables.iter().map(|table| table.file().number).collect(),
        table_bytes: tables.iter().map(|table| table.file().bytes).sum(),
        entries: tables.iter().map(|table| table.file().entries).sum(),
    });
    Ok(())
}

/// Whether memory has anything between the first and the last key of a table.
fn is_in_memory(inner: &Inner, taken: &[Taken]) -> Result<bool> {
    let order = &inner.options.comparator;
    let mut target = Vec::new();
    for memtable in inner.read_state().memtables.iter().filter(|it| !it.is_empty()) {
        // These may reach anywhere.
        if memtable.has_range_tombstones() {
            return Ok(true);
        }
        let mut cursor = memtable.cursor(u64::MAX);
        for table in taken {
            target.clear();
            key::append(&mut target, table.first(), SEQUENCE_MAX, Kind::LAST);
            cursor.seek(&target)?;
            let is_within = |(key, _): (&[u8], &[u8])| {
                order.user(key::user_of(key), table.last()) != Ordering::Greater
            };
            if cursor.entry().is_some_and(is_within) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The lowest level where nothing beside the table, or above it, has keys between its first and its
/// last, and nothing will; level 0 if that is above the first that is `needed`.
fn level_for(
    version: &Version,
    in_progress: &InProgressCompactions,
    file: &FileMeta,
    (order, needed): (&Comparator, usize),
) -> usize {
    let (low, high) = (file.first(), file.last());
    let is_taken =
        |level: &usize| version.overlapping(*level, Some(low), Some(high)).next().is_some();
    let mut level = (0..LEVELS).find(is_taken).map_or(LAST_LEVEL, |taken| taken.saturating_sub(1));
    while level > 0 && in_progress.writes_to(level, (low, high), order) {
        level -= 1;
    }
    if level < needed { 0 } else { level }
}
