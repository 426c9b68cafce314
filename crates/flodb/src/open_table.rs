//! A table of the store that is open for reading, and the end of its file.
//!
//! A version names a table by a [`FileMeta`]; an [`OpenTable`] is that table, open. When no version
//! names the table any more, its file is removed with the last reader.

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::key::Comparator;
use crate::manifest::table_name;
use crate::table::{Table, TableMeta};
use crate::version::FileMeta;
use keyrack_vfs::Fs;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Removes the files of tables that no version names, as long as the store is open. Readers and
/// what they read may outlive it, and their names may be those of another store's files then.
pub(crate) struct FileDeleter {
    fs: Arc<dyn Fs>,
    is_open: Mutex<bool>,
}

impl FileDeleter {
    pub(crate) fn new(fs: Arc<dyn Fs>) -> Arc<Self> {
        Arc::new(FileDeleter { fs, is_open: Mutex::new(true) })
    }

    fn state(&self) -> MutexGuard<'_, bool> {
        self.is_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, path: &Path) {
        let is_open = self.state();
        if *is_open {
            // If it stays, the next opening removes it: no version names it.
            let _ = self.fs.remove_file(path);
        }
    }

    /// Nothing is removed from now on.
    pub(crate) fn close(&self) {
        *self.state() = false;
    }
}

/// A table of the store, open.
pub(crate) struct OpenTable {
    table: Arc<Table>,
    file: Arc<FileMeta>,
    deleter: Arc<FileDeleter>,
    path: PathBuf,
    obsolete: AtomicBool,
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
        cache: &Arc<BlockCache>,
        order: &Comparator,
    ) -> Result<Arc<Self>> {
        let path = table_path(dir, file.number);
        let table = Table::open(fs, &path, file.number, Arc::clone(cache), order.clone())?;
        if !file.describes(table.meta(), order) {
            let what = difference(&file, table.meta(), order).unwrap_or("its entries".to_owned());
            let what = format!("not the table that the manifest tells of: {what}");
            return Err(Error::corruption(&path, 0, what));
        }
        let table = Arc::new(table.with_sequence(file.sequence));
        let (deleter, obsolete) = (Arc::clone(deleter), AtomicBool::new(false));
        Ok(Arc::new(OpenTable { table, file, deleter, path, obsolete }))
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn file(&self) -> &Arc<FileMeta> {
        &self.file
    }

    /// No version names it any more: its file goes when the last reader does.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, AtomicOrdering::Relaxed);
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

/// What the manifest holds of a new table.
pub(crate) fn file_meta(number: u64, meta: TableMeta) -> FileMeta {
    FileMeta {
        number,
        bytes: meta.bytes,
        smallest: meta.smallest,
        largest: meta.largest,
        entries: meta.entries,
        deletes: meta.deletes,
        range_deletes: meta.range_deletes,
        sequence_min: meta.sequence_min,
        sequence_max: meta.sequence_max,
        checksum: meta.checksum,
        ..FileMeta::default()
    }
}

/// What a table says of itself that the manifest does not say of it: the two are written together,
/// so one of them belongs to another table. `None` if they agree.
fn difference(file: &FileMeta, table: &TableMeta, order: &Comparator) -> Option<String> {
    let numbers = [
        ("bytes", file.bytes, table.bytes),
        ("entries", file.entries, table.entries),
        ("removals", file.deletes, table.deletes),
        ("removed ranges", file.range_deletes, table.range_deletes),
        ("as its first sequence number", file.sequence_min, table.sequence_min),
        ("as its last sequence number", file.sequence_max, table.sequence_max),
    ];
    if let Some((what, there, here)) = numbers.iter().find(|(_, there, here)| there != here) {
        return Some(format!("it has {here} {what}, not {there}"));
    }
    if file.smallest != table.smallest {
        return Some("it begins with another key".to_owned());
    }
    // An open bound is where a range tombstone ends, behind the last entry.
    let reaches = || order.internal(&table.largest, &file.largest) == Ordering::Less;
    if file.largest != table.largest && !(file.is_open() && reaches()) {
        return Some("it ends with another key".to_owned());
    }
    let same = file.checksum == 0 || file.checksum == table.checksum;
    (!same).then(|| "its checksum is another".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, SEQUENCE_MAX, append};

    fn internal(user: &[u8], sequence: u64, kind: Kind) -> Vec<u8> {
        let mut key = Vec::new();
        append(&mut key, user, sequence, kind);
        key
    }

    #[test]
    fn every_difference_to_the_manifest_is_seen() {
        let order = Comparator::Bytewise;
        let table = TableMeta {
            bytes: 1000,
            entries: 10,
            deletes: 3,
            range_deletes: 1,
            smallest: internal(b"b", 5, Kind::Put),
            largest: internal(b"y", 9, Kind::Delete),
            sequence_min: 5,
            sequence_max: 20,
            raw_bytes: 500,
            replaced: 0,
            checksum: 77,
        };
        let seen = |change: fn(&mut FileMeta)| {
            let mut file = file_meta(7, table.clone());
            change(&mut file);
            difference(&file, &table, &order)
        };
        assert_eq!(seen(|_| {}), None);
        let found = |change| seen(change).expect("a difference");
        assert_eq!(found(|file| file.bytes += 1), "it has 1000 bytes, not 1001");
        assert!(found(|file| file.entries -= 1).contains("entries"));
        assert!(found(|file| file.deletes = 1).contains("removals"));
        assert!(found(|file| file.range_deletes = 0).contains("ranges"));
        assert!(found(|file| file.sequence_min = 4).contains("first sequence"));
        assert!(found(|file| file.sequence_max = 21).contains("last sequence"));
        assert!(found(|file| file.smallest = internal(b"b", 6, Kind::Put)).contains("begins"));
        assert!(found(|file| file.largest = internal(b"y", 9, Kind::Put)).contains("ends"));
        assert!(found(|file| file.largest = internal(b"z", 1, Kind::Put)).contains("ends"));
        assert!(found(|file| file.checksum = 78).contains("checksum"));
        assert_eq!(seen(|file| file.checksum = 0), None, "an earlier program has not written it");
        // An open bound may lie behind the entries, but not before them.
        let open = |user| internal(user, SEQUENCE_MAX, Kind::DeleteRange);
        let mut file = file_meta(7, table.clone());
        file.largest = open(b"z");
        assert_eq!(difference(&file, &table, &order), None);
        file.largest = open(b"x");
        assert!(difference(&file, &table, &order).is_some());
    }
}
