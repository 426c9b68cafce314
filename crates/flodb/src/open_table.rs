//! A table of the store that is open for reading, and the end of its file.
//!
//! A version names a table by a [`FileMeta`]; an [`OpenTable`] is that table, open. When no version
//! names the table any more, its file is removed with the last reader.

use crate::db::Events;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::manifest::table_name;
use crate::memory_budget::{Charge, Holder};
use crate::table::{ReaderOptions, Table};
use crate::version::FileMeta;
use keyrack_vfs::Fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Removes the files of tables and of blobs that no version names, as long as the store is open.
/// Readers and what they read may outlive it, and their names may be those of another store's files
/// then.
pub(crate) struct FileDeleter {
    fs: Arc<dyn Fs>,
    events: Events,
    is_open: Mutex<bool>,
}

impl FileDeleter {
    pub(crate) fn new(fs: Arc<dyn Fs>, events: Events) -> Arc<Self> {
        Arc::new(FileDeleter { fs, events, is_open: Mutex::new(true) })
    }

    fn state(&self) -> MutexGuard<'_, bool> {
        self.is_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remove(&self, path: &Path) {
        let is_open = self.state();
        // If it stays, the next opening removes it: no version names it.
        if *is_open && self.fs.remove_file(path).is_ok() {
            self.events.tell(|| Event::FileRemoved { path: path.to_owned() });
        }
    }

    /// Nothing is removed from now on.
    pub(crate) fn close(&self) {
        *self.state() = false;
    }
}

/// Bytes of the places of a table in a few versions and read states, and of its open file.
const PLACES_BYTES: usize = 512;

/// A table of the store, open.
pub(crate) struct OpenTable {
    table: Arc<Table>,
    file: Arc<FileMeta>,
    deleter: Arc<FileDeleter>,
    path: PathBuf,
    obsolete: AtomicBool,
    /// What is known of the table takes of the memory budget.
    _memory: Charge,
}

impl OpenTable {
    /// Opens the table that a version has as `file`, in the directory `dir` of the store.
    ///
    /// # Errors
    /// As for [`Table::open`]. Corruption: it is whole, but another table than `file` tells of.
    pub(crate) fn open(
        fs: &dyn Fs,
        deleter: &Arc<FileDeleter>,
        dir: &Path,
        file: Arc<FileMeta>,
        options: &ReaderOptions,
    ) -> Result<Arc<Self>> {
        let path = table_path(dir, file.number);
        let table = Table::open(fs, &path, file.number, options)?;
        if let Some(what) = file.difference(table.meta(), &options.comparator) {
            let what = format!("not the table that the manifest tells of: {what}");
            return Err(Error::corruption(&path, 0, what));
        }
        let table = Arc::new(table.with_sequence(file.sequence));
        let (deleter, obsolete) = (Arc::clone(deleter), AtomicBool::new(false));
        // The bounds are in the table, in what the version knows, and in fences.
        let bounds = 3 * (file.smallest.len() + file.largest.len());
        let parts = size_of::<Self>() + size_of::<Table>() + size_of::<FileMeta>();
        let bytes = parts + bounds + 2 * path.as_os_str().len() + PLACES_BYTES;
        let memory = Charge::new(&options.cache, Holder::TableStates, bytes);
        Ok(Arc::new(OpenTable { table, file, deleter, path, obsolete, _memory: memory }))
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn file(&self) -> &Arc<FileMeta> {
        &self.file
    }

    /// No version names it any more: its file goes when the last reader does.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for OpenTable {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.deleter.remove(&self.path);
        }
    }
}

/// The name of table `number`, beside the manifest.
pub(crate) fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(table_name(number))
}
