//! Which tables have an open file: as many as the options allow, those that are read most.
//!
//! Index and filter of a table are in memory as long as the table is; only its file may be closed
//! and opened again. The files of tables that are open are in a ring, and replaced by CLOCK: a read
//! marks its file, and the hand passes over a marked one once. A file that is being read is never
//! closed, so there are at most as many more as there are threads that read.
//!
//! A file that is opened again must be the same as before. As long as the store is open, it is: the
//! store removes a file with the last reader of its table. Iterators may outlive the store, and
//! then somebody else may remove files: what they need is opened when the store closes, and kept.

use crate::error::Result;
use keyrack_vfs::{File, Fs, OpenOptions};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError, Weak};

/// The files of the tables of one store. Its lock is taken before that of a file.
pub(crate) struct FileCache {
    fs: Arc<dyn Fs>,
    files_max: usize,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    /// Those that are open.
    open: Vec<Arc<Slot>>,
    hand: usize,
    /// All tables that there are, and some that there were.
    all: Vec<Weak<Slot>>,
    /// Whether nothing is closed any more.
    keeps_all: bool,
}

/// The file of a table, open or not.
pub(crate) struct Slot {
    path: PathBuf,
    /// Exchanged under the lock of the ring.
    file: RwLock<Option<Arc<dyn File>>>,
    /// Read since the hand came by.
    is_referenced: AtomicBool,
}

impl Slot {
    /// The file if it is open, which it stays while this is held.
    fn file(&self) -> RwLockReadGuard<'_, Option<Arc<dyn File>>> {
        self.file.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the hand pass once.
    fn mark(&self) {
        // Most often it is marked, and its line stays shared.
        if !self.is_referenced.load(Ordering::Relaxed) {
            self.is_referenced.store(true, Ordering::Relaxed);
        }
    }

    fn set(&self, file: Option<Arc<dyn File>>) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// Closes the file, unless somebody reads it.
    fn try_close(&self) -> bool {
        match self.file.try_write() {
            Ok(mut file) => *file = None,
            Err(TryLockError::Poisoned(file)) => *file.into_inner() = None,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

impl Ring {
    /// Closes files until fewer than `files_max` are open, or the others are being read.
    fn make_room(&mut self, files_max: usize) {
        // A mark that is set again and again does not keep the hand turning.
        let mut steps = 2 * self.open.len();
        while !self.keeps_all && self.open.len() >= files_max && steps > 0 {
            steps -= 1;
            self.hand = if self.hand < self.open.len() { self.hand } else { 0 };
            let slot = &self.open[self.hand];
            if slot.is_referenced.swap(false, Ordering::Relaxed) || !slot.try_close() {
                self.hand += 1;
            } else {
                self.open.swap_remove(self.hand);
            }
        }
    }

    /// Remembers a table.
    fn add(&mut self, slot: &Arc<Slot>) {
        if self.all.len() == self.all.capacity() {
            self.all.retain(|known| known.strong_count() > 0);
        }
        self.all.push(Arc::downgrade(slot));
    }
}

impl FileCache {
    /// At most `files_max` open files, and one for each thread that reads.
    pub(crate) fn new(fs: Arc<dyn Fs>, files_max: usize) -> Arc<Self> {
        Arc::new(FileCache { fs, files_max, ring: Mutex::default() })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // No panic leaves a ring half changed.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens files.
    pub(crate) fn open_files(&self) -> usize {
        self.ring().open.len()
    }

    /// Takes in a file that was just opened.
    fn insert(self: &Arc<Self>, path: &Path, file: Arc<dyn File>) -> TableFile {
        let slot = Arc::new(Slot {
            path: path.to_owned(),
            file: RwLock::new(Some(file)),
            is_referenced: AtomicBool::new(false),
        });
        let mut ring = self.ring();
        ring.make_room(self.files_max);
        ring.add(&slot);
        ring.open.push(Arc::clone(&slot));
        TableFile::Limited { slot, cache: Arc::clone(self) }
    }

    /// The file of a slot, which was closed a moment ago.
    #[cold]
    fn reopen(&self, slot: &Arc<Slot>) -> Result<Arc<dyn File>> {
        let mut ring = self.ring();
        if let Some(file) = &*slot.file() {
            return Ok(Arc::clone(file));
        }
        ring.make_room(self.files_max);
        let file = open(&*self.fs, &slot.path)?;
        slot.set(Some(Arc::clone(&file)));
        ring.open.push(Arc::clone(slot));
        Ok(file)
    }

    /// Opens the files of all tables that there are, and keeps them: the limit ends with the store.
    /// Those that cannot be opened are tried again when they are read.
    pub(crate) fn open_all(&self) {
        let mut ring = self.ring();
        ring.keeps_all = true;
        let all = std::mem::take(&mut ring.all);
        for slot in all.iter().filter_map(Weak::upgrade) {
            let is_closed = slot.file().is_none();
            if is_closed && let Ok(file) = open(&*self.fs, &slot.path) {
                slot.set(Some(file));
                ring.open.push(slot);
            }
        }
    }
}

fn open(fs: &dyn Fs, path: &Path) -> Result<Arc<dyn File>> {
    Ok(fs.open(path, &OpenOptions::new().read(true))?)
}

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCache").field("files_max", &self.files_max).finish_non_exhaustive()
    }
}

/// The file of a table.
pub(crate) enum TableFile {
    /// Open as long as the table is.
    Open(Arc<dyn File>),
    /// Closed for others, and opened again.
    Limited { slot: Arc<Slot>, cache: Arc<FileCache> },
}

impl TableFile {
    /// Opens the file at `path`, as one of `cache` if there is one.
    pub(crate) fn open(fs: &dyn Fs, path: &Path, cache: Option<&Arc<FileCache>>) -> Result<Self> {
        let file = open(fs, path)?;
        Ok(match cache {
            None => TableFile::Open(file),
            Some(cache) => cache.insert(path, file),
        })
    }

    /// Gives the file to `read`; opens it if it is closed.
    ///
    /// # Errors
    /// It cannot be opened; those of `read`.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&dyn File) -> Result<R>) -> Result<R> {
        match self {
            TableFile::Open(file) => read(&**file),
            TableFile::Limited { slot, cache } => {
                let held = slot.file();
                if let Some(file) = &*held {
                    slot.mark();
                    return read(&**file);
                }
                drop(held);
                read(&*cache.reopen(slot)?)
            }
        }
    }

    /// The path that it was opened at.
    pub(crate) fn path(&self) -> &Path {
        match self {
            TableFile::Open(file) => file.path(),
            TableFile::Limited { slot, .. } => &slot.path,
        }
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableFile").field(&self.path()).finish()
    }
}

impl Drop for TableFile {
    /// Closes the file. O(open files) if it is one of a cache.
    fn drop(&mut self) {
        if let TableFile::Limited { slot, cache } = self {
            let mut ring = cache.ring();
            if let Some(at) = ring.open.iter().position(|open| Arc::ptr_eq(open, slot)) {
                ring.open.swap_remove(at);
            }
        }
    }
}
