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

use crate::error::{Error, Result};
use crate::id::Inode;
use keyrack_vfs::{File, FileKind, Fs, OpenOptions, RelativePath};
use std::collections::BTreeSet;
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

/// The bytes of the large files of some logs.
#[derive(Debug)]
pub(crate) struct Contents {
    fs: Arc<dyn Fs>,
    /// The directories, that of the highest log first, with whether it is there.
    dirs: Vec<(PathBuf, bool)>,
    /// Whether the directory of the highest log and its mark were made by this handle.
    is_begun: AtomicBool,
    state: Mutex<State>,
}

/// What is known about the directory of the log that is written to. Whoever changes the bytes or
/// the length of a file holds it.
#[derive(Debug, Default)]
pub(crate) struct State {
    unsynced: BTreeSet<Inode>,
    /// Files that no record names yet.
    guests: BTreeSet<Inode>,
}

impl Contents {
    /// Those of the logs in `logs`, the highest first.
    pub(crate) fn of<'p>(
        fs: &Arc<dyn Fs>,
        logs: impl IntoIterator<Item = &'p Path>,
    ) -> Result<Contents> {
        let mut dirs = Vec::new();
        for log in logs {
            let dir = log.join(DIRECTORY);
            let is_there = fs.exists(&dir)?;
            dirs.push((dir, is_there));
        }
        Ok(Contents {
            fs: Arc::clone(fs),
            dirs,
            is_begun: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    fn is_begun(&self) -> bool {
        // Relaxed: who is told of a file by its record is told of this by the same.
        self.is_begun.load(Ordering::Relaxed)
    }

    /// The right to change bytes or lengths.
    pub(crate) fn turn(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last writer ended without saying so.
    pub(crate) fn is_unfinished(&self) -> Result<bool> {
        Ok(self.fs.exists(&self.dirs[0].0.join(UNFINISHED))?)
    }

    /// Opens the bytes of a file, to be read.
    pub(crate) fn open(&self, inode: Inode) -> Result<Option<Arc<dyn File>>> {
        for (index, (dir, is_there)) in self.dirs.iter().enumerate() {
            if !is_there && (index > 0 || !self.is_begun()) {
                continue;
            }
            match self.fs.open(&path(dir, inode), &OpenOptions::new().read(true)) {
                Err(error) if error.is_not_found() => {}
                opened => return Ok(Some(opened?)),
            }
        }
        Ok(None)
    }

    /// Up to `count` bytes from `offset` on of a file of `size` bytes; `None` if no log has them.
    /// What the file lacks reads as zeros.
    pub(crate) fn read(
        &self,
        inode: Inode,
        size: u64,
        offset: u64,
        count: usize,
    ) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.open(inode)? else { return Ok(None) };
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; count.min(left)];
        file.read_at(offset, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Makes the file of a number, with these bytes and nothing else.
    pub(crate) fn create(
        &self,
        state: &mut State,
        inode: Inode,
        bytes: &[u8],
    ) -> Result<Arc<dyn File>> {
        let (path, file) = self.make(state, inode)?;
        if let Err(error) = file.write_at(0, bytes) {
            // Nobody names it; the first error is the one to report.
            let _ = self.fs.remove_file(&path);
            return Err(error.into());
        }
        Ok(file)
    }

    /// Begins the bytes of a number whose record comes later. Until [`Contents::settle`] says that
    /// it has come they are nobody's: a crash, and the end of the use, leave them to be swept.
    pub(crate) fn begin(&self, inode: Inode) -> Result<Arc<dyn File>> {
        let mut state = self.turn();
        let (_, file) = self.make(&mut state, inode)?;
        state.guests.insert(inode);
        Ok(file)
    }

    /// Bytes of a file that comes from elsewhere, in the order of their offsets.
    pub(crate) fn receive(&self, inode: Inode, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = match offset {
            0 => self.begin(inode)?,
            _ => {
                let own = path(&self.dirs[0].0, inode);
                self.fs.open(&own, &OpenOptions::new().read(true).write(true))?
            }
        };
        Ok(file.write_at(offset, bytes)?)
    }

    /// The record of what was begun is written, or is about to be.
    pub(crate) fn settle(&self, inode: Inode) -> Result<()> {
        let mut state = self.turn();
        // What was written since it began may have missed a sync.
        self.note(&mut state, inode)?;
        state.guests.remove(&inode);
        Ok(())
    }

    /// As [`Contents::settle`] for what another server has sent, and makes it last: the other
    /// removes its own. Where nothing was sent there is nothing to do.
    pub(crate) fn settle_received(&self, inode: Inode) -> Result<()> {
        match self.own(inode)? {
            None => Ok(()),
            Some(_) => {
                self.settle(inode)?;
                self.sync()
            }
        }
    }

    /// The bytes of a file that the highest log itself has.
    pub(crate) fn own(&self, inode: Inode) -> Result<Option<Arc<dyn File>>> {
        let (dir, is_there) = &self.dirs[0];
        if !is_there && !self.is_begun() {
            return Ok(None);
        }
        match self.fs.open(&path(dir, inode), &OpenOptions::new().read(true)) {
            Err(error) if error.is_not_found() => Ok(None),
            opened => Ok(Some(opened?)),
        }
    }

    /// Files are about to lose their records: what a crash leaves of them is to be swept.
    pub(crate) fn mark(&self) -> Result<()> {
        match self.dirs[0].1 || self.is_begun() {
            true => self.set_mark(),
            false => Ok(()),
        }
    }

    fn set_mark(&self) -> Result<()> {
        let dir = &self.dirs[0].0;
        if !self.is_begun() {
            self.make_dir(dir)?;
            let mark = OpenOptions::new().write(true).create(true);
            self.fs.open(&dir.join(UNFINISHED), &mark)?;
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
    ) -> Result<Option<Arc<dyn File>>> {
        let own = path(&self.dirs[0].0, inode);
        let file = match self.fs.open(&own, &OpenOptions::new().read(true).write(true)) {
            Err(error) if error.is_not_found() => None,
            opened => Some(opened?),
        };
        let file = match file {
            Some(file) => {
                self.note(state, inode)?;
                file
            }
            None => {
                let Some(below) = self.open(inode)? else { return Ok(None) };
                let (own, file) = self.make(state, inode)?;
                if let Err(error) = copy(&*below, &*file, size) {
                    let _ = self.fs.remove_file(&own);
                    return Err(error);
                }
                file
            }
        };
        // What a crash left behind the end is nobody's, and must not come back when the file grows.
        if file.len()? != size {
            file.set_len(size)?;
        }
        Ok(Some(file))
    }

    /// The empty file of a number, in directories that are there.
    fn make(&self, state: &mut State, inode: Inode) -> Result<(PathBuf, Arc<dyn File>)> {
        self.note(state, inode)?;
        let path = path(&self.dirs[0].0, inode);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let file = match self.fs.open(&path, &options) {
            Err(error) if error.is_not_found() => {
                let shard = path.parent().unwrap_or(&self.dirs[0].0);
                self.make_dir(shard)?;
                self.fs.open(&path, &options)?
            }
            opened => opened?,
        };
        Ok((path, file))
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
        }
        state.unsynced.insert(inode);
        Ok(())
    }

    /// Removes the bytes of a file of the highest log, if it has them.
    pub(crate) fn remove(&self, inode: Inode) -> Result<()> {
        let mut state = self.turn();
        self.remove_in(&mut state, inode)
    }

    /// As [`Contents::remove`], for who has the turn.
    pub(crate) fn remove_in(&self, state: &mut State, inode: Inode) -> Result<()> {
        let (dir, is_there) = &self.dirs[0];
        if !is_there && !self.is_begun() {
            return Ok(());
        }
        state.unsynced.remove(&inode);
        state.guests.remove(&inode);
        match self.fs.remove_file(&path(dir, inode)) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Makes everything that was written durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_all(&mut self.turn())
    }

    fn sync_all(&self, state: &mut State) -> Result<()> {
        let dir = &self.dirs[0].0;
        let mut shards = BTreeSet::new();
        for inode in &state.unsynced {
            let path = path(dir, *inode);
            match self.fs.open(&path, &OpenOptions::new().read(true).write(true)) {
                Err(error) if error.is_not_found() => continue,
                opened => opened?.sync_all()?,
            }
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
        let mut state = self.turn();
        self.sync_all(&mut state)?;
        if self.is_begun.swap(false, Ordering::Relaxed) && state.guests.is_empty() {
            self.fs.remove_file(&self.dirs[0].0.join(UNFINISHED))?;
        }
        Ok(())
    }

    /// Removes the files of the highest log that are not in `named`, and the mark.
    pub(crate) fn sweep(&self, named: &BTreeSet<Inode>) -> Result<()> {
        let dir = &self.dirs[0].0;
        for (path, inode) in files(&*self.fs, dir)? {
            if !named.contains(&inode) {
                self.fs.remove_file(&path)?;
            }
        }
        Ok(self.fs.remove_file(&dir.join(UNFINISHED))?)
    }
}

/// Copies the bytes of one number from the first of `logs` that has them into the log in `to`, and
/// syncs them. Whether there were any.
pub(crate) fn carry(
    fs: &dyn Fs,
    logs: &[PathBuf],
    to: &Path,
    inode: Inode,
    size: u64,
) -> Result<bool> {
    for log in logs {
        let opened = fs.open(&path(&log.join(DIRECTORY), inode), &OpenOptions::new().read(true));
        let below = match opened {
            Err(error) if error.is_not_found() => continue,
            opened => opened?,
        };
        let target = path(&to.join(DIRECTORY), inode);
        fs.create_dir_all(target.parent().unwrap_or(to))?;
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let copied = fs.open(&target, &options)?;
        copy(&*below, &*copied, size)?;
        copied.sync_all()?;
        return Ok(true);
    }
    Ok(false)
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

/// Copies the files of the log in `from` into the copy of the log in `to`. Returns their paths in
/// it. They are copied byte by byte: a log that goes on is written to in place.
pub(crate) fn publish(fs: &dyn Fs, from: &Path, to: &Path) -> Result<Vec<RelativePath>> {
    let source = from.join(DIRECTORY);
    let mut names = Vec::new();
    if !fs.exists(&source)? {
        return Ok(names);
    }
    let mut shards = BTreeSet::new();
    for (file, inode) in files(fs, &source)? {
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

/// The error of bytes that a record promises and no log has.
pub(crate) fn missing(name: &[u8]) -> Error {
    Error::NoData(crate::error::shown(name))
}
