//! The bytes of files that are too large for their records: a file each, named by its number.
//!
//! ```text
//!   DIR/contents/         begun by the first such file
//!     5f/..a35f           32 digits: the number of the file; its last two are the directory
//!     unfinished          there from the first write to the end of the use of the log
//! ```
//!
//! Of several logs the first that has the number is right: a file of a lower log is copied up
//! before it is written to. A record says how long a file is, and its bytes are written before the
//! record. So a crash leaves bytes that no record counts, and never a count without bytes; when
//! `unfinished` is there at the next opening, files that no record names are removed.
//!
//! A file that nobody writes to is *sealed*: the log has its checksums (see `sums`), a read holds
//! the bytes against them, and a sealed file that is missing or short is damage. The first change
//! of a use takes the seal off, durably; the end of the use and a publication put it on again.
//! After a crash some files have no seal; the next use of the log seals them at its end.

use crate::error::{Error, Result, if_found};
use crate::id::Inode;
use crate::large_file::LargeFile;
use crate::sums::{self, Sums, blocks_of};
use keyrack_flodb::{Batch, Db, WriteOptions};
use keyrack_vfs::{File, FileKind, Fs, OpenOptions, RelativePath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The directory in that of a log.
pub(crate) const DIRECTORY: &str = "contents";
const UNFINISHED: &str = "unfinished";
/// Files that are remembered as written and not synced, at most; then they are synced.
const UNSYNCED_MAX: usize = 1 << 14;
/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;
/// Bytes of checksums that are written to the log at once.
const BATCH_BYTES: usize = 8 << 10;
/// Files of more bytes of which nothing is known are sealed by a publication only: it reads them.
const UNKNOWN_BYTES_MAX: u64 = 1 << 30;

/// The bytes of the large files of some logs.
#[derive(Debug)]
pub(crate) struct Contents {
    fs: Arc<dyn Fs>,
    /// The directories, that of the highest log first, with whether it is there.
    dirs: Vec<(PathBuf, bool)>,
    /// The logs, in the same order.
    logs: Vec<Db>,
    /// Whether the directory of the highest log and its mark were made by this handle.
    is_begun: AtomicBool,
    state: Mutex<State>,
    /// The checksums of the files of the highest log that are not sealed. Never held with another
    /// lock.
    unsealed: Mutex<BTreeMap<Inode, Arc<Mutex<Sums>>>>,
}

/// The state of the directory of the log that is written to. A thread that changes the bytes or
/// the length of a file holds its lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    unsynced: BTreeSet<Inode>,
    /// Files that no record names yet.
    guests: BTreeSet<Inode>,
}

impl Contents {
    /// Those of the logs, the highest first.
    pub(crate) fn of(fs: &Arc<dyn Fs>, logs: &[Db]) -> Result<Contents> {
        let mut dirs = Vec::new();
        for log in logs {
            let dir = log.dir().join(DIRECTORY);
            let is_there = fs.exists(&dir)?;
            dirs.push((dir, is_there));
        }
        Ok(Contents {
            fs: Arc::clone(fs),
            dirs,
            logs: logs.to_vec(),
            is_begun: AtomicBool::new(false),
            state: Mutex::default(),
            unsealed: Mutex::default(),
        })
    }

    /// The file system of the logs.
    pub(crate) fn fs(&self) -> &dyn Fs {
        &*self.fs
    }

    fn is_begun(&self) -> bool {
        // Relaxed: who is told of a file by its record is told of this by the same.
        self.is_begun.load(Ordering::Relaxed)
    }

    /// The right to change bytes or lengths. Its holder may lock a directory; a thread that has
    /// locked one never asks for it.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last writer ended without saying so.
    pub(crate) fn is_unfinished(&self) -> Result<bool> {
        Ok(self.fs.exists(&self.dirs[0].0.join(UNFINISHED))?)
    }

    fn unsealed(&self) -> MutexGuard<'_, BTreeMap<Inode, Arc<Mutex<Sums>>>> {
        self.unsealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the bytes of a file, to be read.
    pub(crate) fn open(&self, inode: Inode) -> Result<Option<LargeFile>> {
        self.open_part(inode, (0, u64::MAX))
    }

    /// As [`Contents::open`], with the checksums of these blocks.
    fn open_part(&self, inode: Inode, blocks: (u64, u64)) -> Result<Option<LargeFile>> {
        for log in 0..self.dirs.len() {
            if let Some(file) = self.open_in(log, inode, blocks)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// The file of a number that one log has.
    fn open_in(&self, log: usize, inode: Inode, blocks: (u64, u64)) -> Result<Option<LargeFile>> {
        let known = match log {
            0 => self.unsealed().get(&inode).cloned(),
            _ => None,
        };
        let sealed = match &known {
            Some(_) => None,
            None => Sums::load(&self.logs[log], inode, blocks)?,
        };
        let (dir, is_there) = &self.dirs[log];
        let may_be = *is_there || (log == 0 && self.is_begun());
        if !may_be && sealed.is_none() {
            return Ok(None);
        }
        let path = path(dir, inode);
        let Some(file) = if_found(self.fs.open(&path, &OpenOptions::new().read(true)))? else {
            if sealed.is_none() && known.is_none() {
                return Ok(None);
            }
            let what = "it is missing, and the log has its checksums".to_owned();
            return Err(Error::Corruption { path, what });
        };
        let sums = match (known, sealed) {
            (Some(sums), _) => sums,
            (None, Some(sums)) => Arc::new(Mutex::new(sums)),
            (None, None) => Arc::new(Mutex::new(Sums::unknown(file.len()?))),
        };
        Ok(Some(LargeFile::new(file, sums)))
    }

    /// Up to `count` bytes from `offset` on of a file of `size` bytes; `None` if no log has them.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is not what was written. While somebody changes it this
    /// may be said of a file that is sound: only who has the [`Contents::guard`] can tell.
    pub(crate) fn read(
        &self,
        inode: Inode,
        size: u64,
        offset: u64,
        count: usize,
    ) -> Result<Option<Vec<u8>>> {
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = count.min(left);
        let blocks = blocks_of(offset.min(size), count as u64);
        let Some(file) = self.open_part(inode, blocks)? else { return Ok(None) };
        file.check_len(size)?;
        let mut bytes = Vec::new();
        // A file of holes may be far larger than the memory.
        bytes
            .try_reserve_exact(count)
            .map_err(|_| Error::NoMemory { path: file.path().to_owned(), bytes: count as u64 })?;
        bytes.resize(count, 0);
        file.read_at(offset, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Reads all bytes of a file of `size` bytes, if a log has them.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is not what was written; the machine's.
    pub(crate) fn verify(&self, inode: Inode, size: u64) -> Result<()> {
        // Nobody changes it meanwhile.
        let _guard = self.lock_state();
        match self.open(inode)? {
            Some(file) => file.each_chunk(size, &mut |_, _| Ok(())),
            // Only its size is known.
            None => Ok(()),
        }
    }

    /// Makes the file of a number, with these bytes and nothing else.
    pub(crate) fn create(
        &self,
        state: &mut State,
        inode: Inode,
        bytes: &[u8],
    ) -> Result<LargeFile> {
        let file = self.make(state, inode)?;
        if let Err(error) = file.write_at(0, bytes) {
            self.discard(inode, &file);
            return Err(error);
        }
        Ok(file)
    }

    /// Removes a file that no record names, after an error. That one is to be reported.
    fn discard(&self, inode: Inode, file: &LargeFile) {
        self.unsealed().remove(&inode);
        // What stays is swept after the next crash.
        let _ = self.fs.remove_file(file.path());
    }

    /// Begins the bytes of a number whose record comes later. Until [`Contents::keep`] says that
    /// it has come they are nobody's: a crash, and the end of the use, leave them to be swept.
    pub(crate) fn begin(&self, inode: Inode) -> Result<LargeFile> {
        let mut state = self.lock_state();
        let file = self.make(&mut state, inode)?;
        state.guests.insert(inode);
        Ok(file)
    }

    /// Bytes of a file that comes from elsewhere, in the order of their offsets.
    pub(crate) fn receive(&self, inode: Inode, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = match offset {
            0 => self.begin(inode)?,
            _ => {
                let own = path(&self.dirs[0].0, inode);
                let options = OpenOptions::new().read(true).write(true);
                let file = self.fs.open(&own, &options)?;
                let sums = self.unsealed().get(&inode).cloned();
                let unknown = || Error::Corruption {
                    path: own,
                    what: "bytes come for a file that was not begun".to_owned(),
                };
                LargeFile::new(file, sums.ok_or_else(unknown)?)
            }
        };
        file.write_at(offset, bytes)
    }

    /// The record of what was begun is written, or is about to be.
    pub(crate) fn keep(&self, inode: Inode) -> Result<()> {
        let mut state = self.lock_state();
        // What was written since it began may have missed a sync.
        self.note(&mut state, inode)?;
        state.guests.remove(&inode);
        Ok(())
    }

    /// As [`Contents::keep`] for what another server has sent, and makes it last: the other
    /// removes its own. Where nothing was sent there is nothing to do.
    pub(crate) fn keep_received(&self, inode: Inode) -> Result<()> {
        match self.own(inode)? {
            None => Ok(()),
            Some(_) => {
                self.keep(inode)?;
                self.sync()
            }
        }
    }

    /// The bytes of a file that the highest log itself has.
    pub(crate) fn own(&self, inode: Inode) -> Result<Option<LargeFile>> {
        self.open_in(0, inode, (0, u64::MAX))
    }

    /// Files are about to lose their records: what a crash leaves of them is to be swept.
    pub(crate) fn mark(&self) -> Result<()> {
        if self.dirs[0].1 || self.is_begun() { self.set_mark() } else { Ok(()) }
    }

    fn set_mark(&self) -> Result<()> {
        let dir = &self.dirs[0].0;
        if !self.is_begun() {
            self.make_dir(dir)?;
            let mark = OpenOptions::new().write(true).create(true);
            self.fs.open(&dir.join(UNFINISHED), &mark)?;
            self.fs.sync_dir(dir)?;
            self.is_begun.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Opens the bytes of a file of `size` bytes to be written to: a copy of them if a lower log
    /// has them. `None` if no log has them.
    pub(crate) fn open_to_write(
        &self,
        state: &mut State,
        inode: Inode,
        size: u64,
    ) -> Result<Option<LargeFile>> {
        let own = path(&self.dirs[0].0, inode);
        let options = OpenOptions::new().read(true).write(true);
        let file = match if_found(self.fs.open(&own, &options))? {
            Some(file) => {
                let sums = self.unseal(state, inode, &*file)?;
                LargeFile::new(file, sums)
            }
            None => {
                let Some(below) = self.open(inode)? else { return Ok(None) };
                let file = self.make(state, inode)?;
                if let Err(error) = below.copy_to(&file, size) {
                    self.discard(inode, &file);
                    return Err(error);
                }
                file
            }
        };
        file.check_len(size)?;
        // What a crash left behind the end is nobody's, and must not come back when the file grows.
        if file.len()? != size {
            file.set_len(size)?;
        }
        Ok(Some(file))
    }

    /// The checksums of a file of the highest log that is about to change: from here on they are
    /// in memory.
    fn unseal(&self, state: &mut State, inode: Inode, file: &dyn File) -> Result<Arc<Mutex<Sums>>> {
        self.note(state, inode)?;
        if let Some(sums) = self.unsealed().get(&inode) {
            return Ok(Arc::clone(sums));
        }
        let sums = match Sums::load(&self.logs[0], inode, (0, u64::MAX))? {
            Some(sums) => sums,
            None => Sums::unknown(file.len()?),
        };
        // First: if this fails, the seal is still on.
        self.drop_seal(inode, true)?;
        let sums = Arc::new(Mutex::new(sums));
        self.unsealed().insert(inode, Arc::clone(&sums));
        Ok(sums)
    }

    /// Takes the seal off a file of the highest log. With `lasts` no crash brings it back.
    fn drop_seal(&self, inode: Inode, lasts: bool) -> Result<()> {
        if self.logs[0].get_with(&sums::header_key(inode), |_| ())?.is_some() {
            let mut batch = Batch::new();
            sums::delete(inode, &mut batch);
            self.logs[0].write(&batch, WriteOptions { sync: lasts })?;
        }
        Ok(())
    }

    /// The empty file of a number, in directories that are there.
    fn make(&self, state: &mut State, inode: Inode) -> Result<LargeFile> {
        self.note(state, inode)?;
        self.drop_seal(inode, true)?;
        let path = path(&self.dirs[0].0, inode);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let file = match if_found(self.fs.open(&path, &options))? {
            Some(file) => file,
            None => {
                self.make_dir(path.parent().unwrap_or(&self.dirs[0].0))?;
                self.fs.open(&path, &options)?
            }
        };
        let sums = Arc::new(Mutex::new(Sums::empty()));
        self.unsealed().insert(inode, Arc::clone(&sums));
        Ok(LargeFile::new(file, sums))
    }

    fn make_dir(&self, dir: &Path) -> Result<()> {
        match self.fs.create_dir(dir) {
            Err(error) if error.io_kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => {
                made?;
                Ok(self.fs.sync_parent(dir)?)
            }
        }
    }

    /// Notes that a file is about to change.
    fn note(&self, state: &mut State, inode: Inode) -> Result<()> {
        self.set_mark()?;
        if state.unsynced.len() >= UNSYNCED_MAX {
            self.sync_all(state)?;
            self.seal(state)?;
        }
        state.unsynced.insert(inode);
        Ok(())
    }

    /// Removes the bytes of a file of the highest log, if it has them.
    pub(crate) fn remove(&self, inode: Inode) -> Result<()> {
        let mut state = self.lock_state();
        self.remove_in(&mut state, inode)
    }

    /// As [`Contents::remove`], with the state locked.
    pub(crate) fn remove_in(&self, state: &mut State, inode: Inode) -> Result<()> {
        let (dir, is_there) = &self.dirs[0];
        if !is_there && !self.is_begun() {
            return Ok(());
        }
        state.unsynced.remove(&inode);
        state.guests.remove(&inode);
        self.unsealed().remove(&inode);
        if_found(self.fs.remove_file(&path(dir, inode)))?;
        self.drop_seal(inode, false)
    }

    /// Makes everything that was written durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_all(&mut self.lock_state())
    }

    fn sync_all(&self, state: &mut State) -> Result<()> {
        let dir = &self.dirs[0].0;
        let mut shards = BTreeSet::new();
        for inode in &state.unsynced {
            let path = path(dir, *inode);
            let opened = self.fs.open(&path, &OpenOptions::new().read(true).write(true));
            // One that is not there was discarded after an error.
            let Some(file) = if_found(opened)? else { continue };
            file.sync_all()?;
            shards.extend(path.parent().map(Path::to_path_buf));
        }
        for shard in shards {
            self.fs.sync_dir(&shard)?;
        }
        state.unsynced.clear();
        Ok(())
    }

    /// Ends the use: all is synced, and says so.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut state = self.lock_state();
        self.sync_all(&mut state)?;
        self.seal(&mut state)?;
        if self.is_begun.swap(false, Ordering::Relaxed) && state.guests.is_empty() {
            self.fs.remove_file(&self.dirs[0].0.join(UNFINISHED))?;
        }
        Ok(())
    }

    /// Seals the files that were written to. They are synced: no seal lasts longer than its bytes.
    fn seal(&self, state: &mut State) -> Result<()> {
        let unsealed = self.unsealed().clone();
        let mut batch = Batch::new();
        for (inode, sums) in unsealed {
            // Another thread writes these without the lock.
            if state.guests.contains(&inode) {
                continue;
            }
            let file = self.fs.open(&path(&self.dirs[0].0, inode), &OpenOptions::new().read(true));
            let file = LargeFile::new(file?, sums);
            let is_unknown = file.is_unknown();
            if is_unknown {
                // What a crash left may never have been synced.
                file.sync()?;
            }
            if !is_unknown || file.len()? <= UNKNOWN_BYTES_MAX {
                self.seal_file(inode, &file, &mut batch)?;
            }
            self.unsealed().remove(&inode);
        }
        self.write_seals(&mut batch, 0)
    }

    fn seal_file(&self, inode: Inode, file: &LargeFile, batch: &mut Batch) -> Result<()> {
        let sums = file.seal()?;
        sums.store(inode, batch, |batch| self.write_seals(batch, BATCH_BYTES))
    }

    /// Writes a batch that has grown beyond `limit`.
    fn write_seals(&self, batch: &mut Batch, limit: usize) -> Result<()> {
        if batch.bytes() > limit {
            self.logs[0].write(batch, WriteOptions::default())?;
            batch.clear();
        }
        Ok(())
    }

    /// Seals every file of the highest log, those too that an older program has written.
    pub(crate) fn seal_all(&self, state: &mut State) -> Result<()> {
        self.sync_all(state)?;
        self.seal(state)?;
        let dir = &self.dirs[0].0;
        if !self.fs.exists(dir)? {
            return Ok(());
        }
        let mut batch = Batch::new();
        for (path, inode) in files(&*self.fs, dir)? {
            let is_sealed = self.logs[0].get_with(&sums::header_key(inode), |_| ())?.is_some();
            if is_sealed || state.guests.contains(&inode) {
                continue;
            }
            let file = self.fs.open(&path, &OpenOptions::new().read(true))?;
            let sums = Arc::new(Mutex::new(Sums::unknown(file.len()?)));
            let file = LargeFile::new(file, sums);
            file.sync()?;
            self.seal_file(inode, &file, &mut batch)?;
        }
        self.write_seals(&mut batch, 0)
    }

    /// After a crash: removes the files of the highest log that are not in `named`, with their
    /// seals. The others are sealed at the end of this use; until then the mark stays.
    pub(crate) fn sweep(&self, named: &BTreeSet<Inode>) -> Result<()> {
        let dir = &self.dirs[0].0;
        for (path, inode) in files(&*self.fs, dir)? {
            if !named.contains(&inode) {
                self.fs.remove_file(&path)?;
                self.drop_seal(inode, false)?;
            } else if self.logs[0].get_with(&sums::header_key(inode), |_| ())?.is_none() {
                let sums = Sums::unknown(self.fs.metadata(&path)?.len);
                self.unsealed().insert(inode, Arc::new(Mutex::new(sums)));
            }
        }
        if self.unsealed().is_empty() {
            return Ok(self.fs.remove_file(&dir.join(UNFINISHED))?);
        }
        // Relaxed: the handle is given out later.
        self.is_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Copies the log that is written to into `to`. Returns the paths of the files of contents
    /// there. They are sealed and copied byte by byte: a log that goes on is written to in place.
    /// Writers of large files wait.
    pub(crate) fn publish(&self, log: &Db, to: &Path) -> Result<Vec<RelativePath>> {
        let mut state = self.lock_state();
        self.seal_all(&mut state)?;
        log.checkpoint(to)?;
        let (fs, source) = (&*self.fs, &self.dirs[0].0);
        let mut names = Vec::new();
        if !fs.exists(source)? {
            return Ok(names);
        }
        let mut shards = BTreeSet::new();
        for (file, inode) in files(fs, source)? {
            let target = path(&to.join(DIRECTORY), inode);
            let shard = target.parent().unwrap_or(to).to_owned();
            fs.create_dir_all(&shard)?;
            let below = fs.open(&file, &OpenOptions::new().read(true))?;
            let copied = fs.open(&target, &OpenOptions::new().write(true).create_new(true))?;
            copy(&*below, &*copied, below.len()?)?;
            copied.sync_all()?;
            shards.insert(shard);
            names.push(relative(inode));
        }
        for shard in &shards {
            fs.sync_dir(shard)?;
        }
        if !shards.is_empty() {
            fs.sync_dir(&to.join(DIRECTORY))?;
            fs.sync_dir(to)?;
        }
        Ok(names)
    }

    /// Copies the bytes of one number from the first of the logs that has them into the log `to`,
    /// seals and syncs them. Whether there were any.
    pub(crate) fn carry(&self, to: &Db, inode: Inode, size: u64) -> Result<bool> {
        let Some(below) = self.open(inode)? else { return Ok(false) };
        let target = path(&to.dir().join(DIRECTORY), inode);
        self.fs.create_dir_all(target.parent().expect("a number lies in a directory"))?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let file = self.fs.open(&target, &options)?;
        let file = LargeFile::new(file, Arc::new(Mutex::new(Sums::empty())));
        below.copy_to(&file, size)?;
        file.sync()?;
        file.seal()?.store(inode, &mut Batch::new(), |batch| {
            to.write(batch, WriteOptions::default())?;
            batch.clear();
            Ok(())
        })?;
        Ok(true)
    }
}

/// Makes the names of what was carried into the log in `to` durable.
pub(crate) fn carried(fs: &dyn Fs, to: &Path) -> Result<()> {
    let dir = to.join(DIRECTORY);
    for shard in fs.list(&dir)?.into_iter().filter(|entry| entry.kind == FileKind::Dir) {
        fs.sync_dir(&dir.join(shard.name))?;
    }
    fs.sync_dir(&dir)?;
    Ok(fs.sync_dir(to)?)
}

/// The files in a directory of contents. Whatever else is there is none of ours.
fn files(fs: &dyn Fs, dir: &Path) -> Result<Vec<(PathBuf, Inode)>> {
    let mut found = Vec::new();
    for shard in fs.list(dir)? {
        if shard.kind != FileKind::Dir {
            continue;
        }
        let shard = dir.join(shard.name);
        for entry in fs.list(&shard)? {
            let file = shard.join(&entry.name);
            let number = entry.name.to_str().filter(|name| name.len() == 32);
            let number = number.and_then(|name| u128::from_str_radix(name, 16).ok());
            let Some(inode) = number.map(Inode) else { continue };
            if entry.kind == FileKind::File && file == path(dir, inode) {
                found.push((file, inode));
            }
        }
    }
    Ok(found)
}

fn copy(from: &dyn File, to: &dyn File, size: u64) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < size {
        let wanted = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
        let count = from.read_at(at, &mut chunk[..wanted])?;
        if count == 0 {
            break;
        }
        to.write_at(at, &chunk[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// The path of a file in the directory of its log, with slashes.
fn relative(inode: Inode) -> RelativePath {
    let path = format!("{DIRECTORY}/{:02x}/{inode}", inode.to_u128() as u8);
    RelativePath::new(&path).expect("two names of digits below a constant")
}

fn path(dir: &Path, inode: Inode) -> PathBuf {
    dir.join(format!("{:02x}", inode.to_u128() as u8)).join(inode.to_string())
}
