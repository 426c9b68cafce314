//! The tables of the store on disk: the manifest that names them, the numbers of new files, and the
//! removal of files that no version names.

use super::LockRank;
use super::ranked_lock::RankedMutex;
use crate::manifest::{FileNumbers, Manifest};
use crate::memory_budget::Charge;
use crate::merge::Merges;
use crate::open_blob::OpenBlob;
use crate::open_table::{FileDeleter, OpenTable};
use crate::table::ReaderOptions;
use keyrack_vfs::Fs;
use std::collections::HashSet;
use std::sync::Arc;

/// What failed edits were to add.
#[derive(Default)]
pub(crate) struct Orphans {
    pub(crate) tables: Vec<Arc<OpenTable>>,
    pub(crate) blobs: Vec<Arc<OpenBlob>>,
}

impl Orphans {
    /// Their files go with their last readers.
    pub(crate) fn set_obsolete(&mut self) {
        self.tables.drain(..).for_each(|table| table.set_obsolete());
        self.blobs.drain(..).for_each(|blob| blob.set_obsolete());
    }
}

/// The tables of a store.
pub(crate) struct TableSet {
    /// Held while tables from outside come in, and while a checkpoint takes its state: see
    /// `checkpoint`.
    pub(crate) ingest_lock: RankedMutex<()>,
    pub(crate) manifest: RankedMutex<Manifest>,
    /// Tables and blob files of edits that failed. The manifest may name them until an edit has
    /// succeeded, so their files stay until then.
    pub(crate) orphaned_outputs: RankedMutex<Orphans>,
    pub(crate) numbers: Arc<FileNumbers>,
    pub(crate) deleter: Arc<FileDeleter>,
    /// What they are opened with; their caches of blocks and of files.
    pub(crate) reader: ReaderOptions,
    /// What does not change of the memory of the store.
    _fixed: Charge,
    /// What iterators need of the store. Each has a reference, and that is how they are counted.
    pub(crate) iterators: Arc<Merges>,
}

impl TableSet {
    /// The tables that `manifest` names.
    pub(crate) fn new(
        manifest: Manifest,
        deleter: Arc<FileDeleter>,
        reader: ReaderOptions,
        fixed: Charge,
        merges: Merges,
    ) -> Self {
        TableSet {
            ingest_lock: RankedMutex::new(LockRank::Ingest, ()),
            numbers: Arc::clone(manifest.numbers()),
            manifest: RankedMutex::new(LockRank::Manifest, manifest),
            orphaned_outputs: RankedMutex::new(LockRank::OrphanedOutputs, Orphans::default()),
            deleter,
            reader,
            _fixed: fixed,
            iterators: Arc::new(merges),
        }
    }

    /// Removes the files that no version names, when the store closes. Readers may still hold some
    /// of them open.
    pub(crate) fn remove_obsolete(&self, fs: &dyn Fs) {
        if let Some(files) = &self.reader.files
            && Arc::strong_count(&self.iterators) > 1
        {
            files.open_all();
        }
        self.deleter.close();
        let obsolete = self.manifest.lock().obsolete(HashSet::new);
        // The next opening removes what cannot be listed or removed now.
        for path in obsolete.unwrap_or_default() {
            let _ = fs.remove_file(&path);
        }
    }
}
