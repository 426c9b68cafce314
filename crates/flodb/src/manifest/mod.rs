//! The manifest: the store's memory of its own shape.
//!
//! ```text
//!   CURRENT -> MANIFEST-000007 = header | snapshot | edit | edit | edit | room
//!                                         state of the moment it was begun, as one edit
//! ```
//!
//! A state ([`State`]) is the set of tables, and from where the log is replayed. It changes by
//! edits ([`VersionEdit`]), and an edit counts once it is in the manifest and synced. To open a
//! store is to read the manifest that `CURRENT` names and apply its edits in order. `page` tells
//! how a torn edit is told from a damaged one; `docs/formats/manifest.md` has the bytes.
//!
//! **Replacing.** A manifest without room for the next edit, or that an earlier process wrote, is
//! replaced before that edit. An orderly end replaces one that has edits, so that a store at rest
//! has a snapshot alone, of which nothing can go missing unseen:
//!
//! ```text
//!   write the new manifest: the state with the edit as its snapshot    sync it
//!   sync the directory                                                 its name is durable
//!   write a temporary CURRENT, sync it, rename it, sync the directory  now the new one counts
//! ```
//!
//! A crash before the rename leaves the old one, which has the state without the edit. An edit is
//! never appended to a manifest of an earlier process: of its last record nobody knows whether it
//! was synced, only that it can be read.
//!
//! **Failures.** If an edit cannot be written, the state stays as it was and the next edit begins a
//! new manifest, because pages that may hold parts of an older record are never written again. A
//! failed sync is final: nobody knows which state a power loss would leave, so no more edits are
//! taken. In both cases the failed edit may yet turn out to be there when the store is opened
//! again; hence nothing counts as obsolete until an edit has succeeded.
//!
//! One thread at a time logs edits; whoever else needs the state keeps a clone of it.

mod current;
mod dump;
mod edit;
mod header;
mod names;
mod page;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use current::read as named;
pub(crate) use dump::edits;
pub(crate) use names::{
    CURRENT, FileName, FileNumber, FileNumbers, LOCK, LOG_DIR, blob_name, is_ours, manifest_name,
    next_above, table_name,
};
pub(crate) use state::State;
#[cfg(test)]
pub(crate) use tests::fuzzed;

use crate::error::{Error, Result};
use crate::key::{Comparator, SPACES_ORDER};
use crate::version::{FileMeta, VersionEdit};
use edit::decode_at;
use keyrack_vfs::{DirEntry, File, FileKind, Fs, OpenOptions, Operation};
use page::{PAGE_BYTES, Records, pages_of, put_record};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of edits for which a manifest has room: about 32 edits.
const EDIT_BYTES_MAX: u64 = 16 << 10;

/// The manifest of a store that is open for writing or reading. See the module documentation.
#[derive(Debug)]
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    state: State,
    numbers: Arc<FileNumbers>,
    /// The manifest that counts.
    number: u64,
    /// The same, if edits may be appended to it.
    output: Option<Output>,
    /// Why no more edits are taken.
    poison: Option<String>,
    dropped: Range<u64>,
    edit_bytes_max: u64,
    /// Whether the next manifest is the last of this process, and needs no room.
    is_ending: bool,
}

/// A manifest that this process began.
#[derive(Debug)]
struct Output {
    file: Arc<dyn File>,
    /// Pages written and synced.
    pages: u64,
    /// Those of the file.
    file_pages: u64,
    records: u32,
}

impl Manifest {
    /// Whether there is a store in `dir`. What an interrupted [`Manifest::create`] left is none.
    ///
    /// # Errors
    /// There are tables or a log, but no `CURRENT`: corruption. The machine's errors.
    pub(crate) fn exists(fs: &dyn Fs, dir: &Path) -> Result<bool> {
        let path = dir.join(CURRENT);
        if fs.exists(&path)? {
            return Ok(true);
        }
        let is_table = |entry: &DirEntry| {
            let name = FileName::parse(&entry.name);
            matches!(name, Some(FileName::Table(_) | FileName::Blob(_)))
        };
        if list(fs, dir)?.iter().any(is_table) || !list(fs, &dir.join(LOG_DIR))?.is_empty() {
            return Err(Error::corruption(&path, 0, "the file is missing, but the store is not"));
        }
        Ok(false)
    }

    /// Makes an empty store in the directory `dir`, which is there and whose own name is durable.
    ///
    /// # Errors
    /// There is a store already; those of [`Manifest::exists`].
    pub(crate) fn create(fs: Arc<dyn Fs>, dir: &Path, order: Comparator) -> Result<Manifest> {
        Self::create_from(fs, dir, State::new(order))
    }

    /// Makes a store with the given state, whose tables are in `dir` already.
    ///
    /// # Errors
    /// There is a store already, judged by `CURRENT`; the machine's errors.
    pub(crate) fn create_from(fs: Arc<dyn Fs>, dir: &Path, state: State) -> Result<Manifest> {
        if state.version.numbers().next().is_none() {
            if Self::exists(&*fs, dir)? {
                return Err(usage(dir, "holds a store already"));
            }
        } else if fs.exists(&dir.join(CURRENT))? {
            return Err(usage(dir, "holds a store already"));
        }
        // It has no log, and that of a store whose tables it shares is not its own.
        let mut manifest = Manifest::of(fs, dir, State { log_id: 0, ..state }, 0)?;
        manifest.log(&VersionEdit::default())?;
        Ok(manifest)
    }

    /// Reads the manifest of the store in `dir`. Writes nothing: before anything is removed because
    /// the state does not name it, an edit must be logged, be it an empty one.
    ///
    /// # Errors
    /// [`Error::Usage`]: there is no store, its keys have another order, or a later program wrote
    /// it. Corruption: a file of it is damaged or missing. The machine's errors.
    pub(crate) fn open(fs: Arc<dyn Fs>, dir: &Path, order: Comparator) -> Result<Manifest> {
        let Some(number) = current::read(&*fs, dir)? else {
            Self::exists(&*fs, dir)?;
            return Err(usage(dir, "holds no store"));
        };
        let (state, dropped) = replay(&*fs, dir, number, order)?;
        let mut manifest = Manifest::of(fs, dir, state, number)?;
        manifest.dropped = dropped;
        Ok(manifest)
    }

    /// Makes a manifest with the given state the one that counts, whatever there was before. The
    /// tables are in `dir` already, and durable.
    ///
    /// # Errors
    /// The machine's.
    pub(crate) fn rewrite(fs: Arc<dyn Fs>, dir: &Path, state: State) -> Result<()> {
        Manifest::of(fs, dir, state, 0)?.log(&VersionEdit::default())
    }

    /// The state in the manifest with the highest number, if that one is whole and nothing is there
    /// that is newer: an older one says what was so before. For when `CURRENT` is lost.
    ///
    /// # Errors
    /// Those of [`Manifest::open`], but for corruption.
    pub(crate) fn newest_whole(
        fs: &dyn Fs,
        dir: &Path,
        order: Comparator,
    ) -> Result<Option<State>> {
        let Some(&number) = manifests(fs, dir)?.last() else { return Ok(None) };
        match current::read(fs, dir) {
            Ok(Some(named)) if named > number => return Ok(None),
            Ok(_) | Err(Error::Corruption { .. }) => {}
            Err(error) => return Err(error),
        }
        // A table that it knows nothing of was made after its last edit.
        let numbers = list(fs, dir)?.into_iter().filter_map(|entry| FileName::parse(&entry.name));
        let tables = numbers.filter_map(|name| match name {
            FileName::Table(number) | FileName::Blob(number) => Some(number),
            FileName::Manifest(_) | FileName::Unfinished => None,
        });
        let newest = tables.max().unwrap_or(0);
        match replay(fs, dir, number, order) {
            Ok((state, _)) => Ok(Some(state).filter(|state| newest < state.next_file)),
            Err(Error::Corruption { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What can be read of all manifests in `dir`, up to what is damaged in each.
    ///
    /// # Errors
    /// Those of [`Manifest::open`], but for corruption.
    pub(crate) fn salvage(fs: &dyn Fs, dir: &Path, order: Comparator) -> Result<Salvaged> {
        let mut salvaged = Salvaged::default();
        for number in manifests(fs, dir)? {
            let mut see = |edit: &VersionEdit| salvaged.see(edit);
            match replay_each(fs, dir, number, order.clone(), &mut see) {
                Ok(_) | Err(Error::Corruption { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(salvaged)
    }

    fn of(fs: Arc<dyn Fs>, dir: &Path, mut state: State, number: u64) -> Result<Manifest> {
        let entries = list(&*fs, dir)?;
        let names = entries.iter().map(|entry| entry.name.as_os_str());
        state.next_file = next_above(state.next_file, names);
        Ok(Manifest {
            numbers: FileNumbers::new(state.next_file),
            dir: dir.to_owned(),
            output: None,
            poison: None,
            dropped: 0..0,
            edit_bytes_max: EDIT_BYTES_MAX,
            is_ending: false,
            fs,
            state,
            number,
        })
    }

    /// The state after the last edit.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Where the numbers of new files come from.
    pub(crate) fn numbers(&self) -> &Arc<FileNumbers> {
        &self.numbers
    }

    /// The file that `CURRENT` names.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(manifest_name(self.number))
    }

    /// Where an edit lies that was not finished when the store was last closed, and is dropped.
    pub(crate) fn dropped(&self) -> Range<u64> {
        self.dropped.clone()
    }

    /// Manifests that are begun from now on have room for so many bytes of edits, or for as many
    /// as their snapshot has, if that is more.
    #[cfg(test)]
    pub(crate) fn set_edit_bytes_max(&mut self, bytes: u64) {
        self.edit_bytes_max = bytes;
    }

    /// Applies an edit. When this returns, it survives a power loss. The tables that it adds must
    /// be durable before, their names included. The number of the next file is filled in. Two
    /// syncs of a file at most, and two of the directory, where the manifest is replaced; one of a
    /// file otherwise.
    ///
    /// # Errors
    /// The state is unchanged after any. Corruption: the edit does not fit the state.
    /// [`Error::Io`]: it could not be written, and the next edit may. [`Error::Poisoned`]: a sync
    /// failed, now or before; the state on disk is this one or the one with the edit.
    pub(crate) fn log(&mut self, edit: &VersionEdit) -> Result<()> {
        if let Some(why) = &self.poison {
            return Err(Error::Poisoned(why.clone()));
        }
        let mut edit = VersionEdit { next_file: Some(self.numbers.next()), ..edit.clone() };
        let mut content = Vec::new();
        edit.encode(&mut content);
        let has_room = |output: &Output| output.has_room(content.len());
        let is_due = !self.output.as_ref().is_some_and(has_room);
        let fresh = is_due.then(|| self.numbers.issue());
        if fresh.is_some() {
            // Its own number is one of those that were given out.
            edit.next_file = Some(self.numbers.next());
        }
        let state = self.state.apply(&edit).map_err(|invalid| {
            let end = self.output.as_ref().map_or(0, |output| output.pages * PAGE_BYTES as u64);
            Error::corruption(&self.path(), end, invalid.to_string())
        })?;
        let written = match &fresh {
            Some(number) => self.replace(number.get(), &state),
            None => self.append(&content),
        };
        written.map_err(|error| self.failed(error))?;
        self.state = state;
        Ok(())
    }

    /// Replaces the manifest, if edits were logged since it was begun, by one without room. Neither
    /// a lost page nor an earlier copy of a manifest that is nothing but a snapshot passes for a
    /// sound one.
    ///
    /// # Errors
    /// As for [`Manifest::log`].
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.output.as_ref().is_some_and(|output| output.records > 1) {
            self.output = None;
            self.is_ending = true;
            let ended = self.log(&VersionEdit::default());
            self.is_ending = false;
            ended?;
        }
        Ok(())
    }

    /// The files of the directory that nobody needs: tables and blob files that are in none of the
    /// versions that `live` lists the numbers of, nor in the newest one, nor about to be; manifests
    /// but for the one that counts; what an interrupted replacement left. None at all as long as
    /// the last edit, or since the store was opened any edit, has not succeeded.
    ///
    /// `live` is called after the directory was listed and after the numbers of unfinished files
    /// were read, so that a file cannot pass from one to the other unseen.
    ///
    /// # Errors
    /// The machine's.
    pub(crate) fn obsolete(&self, live: impl FnOnce() -> HashSet<u64>) -> Result<Vec<PathBuf>> {
        if self.output.is_none() || self.poison.is_some() {
            return Ok(Vec::new());
        }
        let entries = list(&*self.fs, &self.dir)?;
        let unfinished = self.numbers.unfinished();
        let mut needed = live();
        needed.extend(self.state.version.numbers());
        let is_obsolete = |entry: &&DirEntry| match FileName::parse(&entry.name) {
            _ if entry.kind != FileKind::File => false,
            Some(FileName::Table(number) | FileName::Blob(number)) => {
                !needed.contains(&number) && !unfinished.contains(&number)
            }
            Some(FileName::Manifest(number)) => number != self.number,
            Some(FileName::Unfinished) => true,
            None => false,
        };
        let path = |entry: &DirEntry| self.dir.join(&entry.name);
        Ok(entries.iter().filter(is_obsolete).map(path).collect())
    }

    /// Writes an edit behind the last one. A failure leaves no manifest to append to.
    fn append(&mut self, content: &[u8]) -> keyrack_vfs::Result<()> {
        let mut output = self.output.take().expect("the manifest is replaced if none is open");
        let mut pages = Vec::new();
        put_record(&mut pages, self.number, output.pages, output.records, content);
        output.file.write_at(output.pages * PAGE_BYTES as u64, &pages)?;
        output.file.sync_data()?;
        output.pages += (pages.len() / PAGE_BYTES) as u64;
        output.records += 1;
        self.output = Some(output);
        Ok(())
    }

    /// Writes a manifest that begins with `state`, and makes it the one that counts. A failure
    /// leaves no manifest to append to.
    fn replace(&mut self, number: u64, state: &State) -> keyrack_vfs::Result<()> {
        self.output = None;
        let path = self.dir.join(manifest_name(number));
        let room = (!self.is_ending).then_some(self.edit_bytes_max);
        let output = begin(&*self.fs, &path, number, state, room).inspect_err(|_| {
            // Nobody refers to it. If it stays, it is obsolete.
            let _ = self.fs.remove_file(&path);
        })?;
        self.fs.sync_dir(&self.dir)?;
        current::write(&*self.fs, &self.dir, number)?;
        self.output = Some(output);
        self.number = number;
        Ok(())
    }

    /// Decides whether a failure is final.
    fn failed(&mut self, error: keyrack_vfs::Error) -> Error {
        match error.operation() {
            Operation::Sync | Operation::SyncDir => {
                let why = error.to_string();
                self.poison = Some(why.clone());
                Error::Poisoned(why)
            }
            _ => error.into(),
        }
    }
}

impl Output {
    /// Whether an edit with so much content fits behind the last one.
    fn has_room(&self, content_bytes: usize) -> bool {
        self.pages + pages_of(content_bytes) as u64 <= self.file_pages
    }
}

/// Writes and syncs a header and a snapshot, with room for as many bytes of edits as the snapshot
/// has, and for `edit_bytes_max` at least; without a number, with no room.
fn begin(
    fs: &dyn Fs,
    path: &Path,
    number: u64,
    state: &State,
    edit_bytes_max: Option<u64>,
) -> keyrack_vfs::Result<Output> {
    let mut content = Vec::new();
    state.snapshot().encode(&mut content);
    let pages = 1 + pages_of(content.len()) as u64;
    let room = edit_bytes_max.map_or(0, |bytes| pages.max(bytes.div_ceil(PAGE_BYTES as u64)));
    let file_pages = pages + room;
    let file_bytes = file_pages * PAGE_BYTES as u64;
    let mut bytes = header::header(number, file_bytes).to_vec();
    put_record(&mut bytes, number, 1, 0, &content);
    let file = fs.open(path, &OpenOptions::new().write(true).create_new(true))?;
    file.write_at(0, &bytes)?;
    file.set_len(file_bytes)?;
    file.sync_all()?;
    Ok(Output { file, pages, file_pages, records: 1 })
}

/// What manifests say that cannot be read to the end.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    /// Tables that are in no version any more.
    pub(crate) deleted: HashSet<u64>,
    /// What was said of the others.
    pub(crate) files: HashMap<u64, Arc<FileMeta>>,
    /// See [`State`]; these only grow, so it is at least this.
    pub(crate) log_from: u64,
    /// See `log_from`.
    pub(crate) next_file: u64,
    /// See `log_from`.
    pub(crate) last_sequence: u64,
}

impl Salvaged {
    fn see(&mut self, edit: &VersionEdit) {
        self.deleted.extend(edit.deleted.iter().map(|(_, number)| number));
        for (_, file) in &edit.added {
            // Some are moved.
            self.deleted.remove(&file.number);
            self.files.insert(file.number, Arc::clone(file));
            self.last_sequence = self.last_sequence.max(file.sequence_max);
        }
        self.log_from = self.log_from.max(edit.log_from.unwrap_or(0));
        self.next_file = self.next_file.max(edit.next_file.unwrap_or(0));
        self.last_sequence = self.last_sequence.max(edit.last_sequence.unwrap_or(0));
    }
}

/// The numbers of the manifests in a directory, ascending.
fn manifests(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>> {
    let of = |entry: &DirEntry| match FileName::parse(&entry.name) {
        Some(FileName::Manifest(number)) if entry.kind == FileKind::File => Some(number),
        _ => None,
    };
    let mut numbers: Vec<u64> = list(fs, dir)?.iter().filter_map(of).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads manifest `number`. Returns the state, and where a torn edit lies.
fn replay(fs: &dyn Fs, dir: &Path, number: u64, order: Comparator) -> Result<(State, Range<u64>)> {
    replay_each(fs, dir, number, order, &mut |_| ())
}

/// As [`replay`], and shows each edit that fits to `see`.
fn replay_each(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    order: Comparator,
    see: &mut dyn FnMut(&VersionEdit),
) -> Result<(State, Range<u64>)> {
    let path = dir.join(manifest_name(number));
    let file = match fs.open(&path, &OpenOptions::new().read(true)) {
        Err(error) if error.is_not_found() => {
            let what = format!("names {}, which is missing", manifest_name(number));
            return Err(Error::corruption(&dir.join(CURRENT), 0, what));
        }
        other => other?,
    };
    let file_bytes = header::read(&*file, number)?;
    let name = order.name().to_owned();
    let mut state = State::new(order);
    let mut records = Records::new(file, number, file_bytes)?;
    let mut content = Vec::new();
    loop {
        let offset = records.offset();
        if !records.read(&mut content)? {
            break;
        }
        let edit = decode_at(&path, offset, &content)?;
        match &edit.comparator {
            Some(stored) if *stored != name => {
                return Err(other_order(dir, stored, &name));
            }
            None if records.count() == 1 => {
                return Err(Error::corruption(
                    &path,
                    offset,
                    "the snapshot names no order of keys",
                ));
            }
            _ => {}
        }
        state = state
            .apply(&edit)
            .map_err(|invalid| Error::corruption(&path, offset, invalid.to_string()))?;
        see(&edit);
    }
    if records.count() == 0 {
        return Err(Error::corruption(&path, records.offset(), "the snapshot is not complete"));
    }
    let torn_at = records.offset();
    Ok((state, torn_at..torn_at + records.torn_bytes()))
}

/// The store has another order of keys than is wanted.
fn other_order(dir: &Path, stored: &str, wanted: &str) -> Error {
    let dir = dir.display();
    Error::Usage(if stored == SPACES_ORDER {
        format!("{dir} holds key spaces: open it with Spaces::open")
    } else if wanted == SPACES_ORDER {
        format!("{dir} holds no key spaces but plain keys in the order {stored:?}: use Db::open")
    } else {
        format!("the keys of {dir} are in the order {stored:?}, and cannot be read in {wanted:?}")
    })
}

/// The names in a directory, none if it is missing.
fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<DirEntry>> {
    match fs.list(dir) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        other => Ok(other?),
    }
}

fn usage(dir: &Path, what: &str) -> Error {
    Error::Usage(format!("{} {what}", dir.display()))
}
