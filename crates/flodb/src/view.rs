//! What a reader looks through: the generations in memory and the tables on disk, at one moment.
//!
//! ```text
//!   generations   newest first: [from 900 ..)  [500 .. 900)  [200 .. 500)     sequence numbers
//!   level 0       newest first, each older than the last generation
//!   levels 1..    disjoint tables in the order of their keys
//! ```
//!
//! A view never changes. Writers and background work put a new one in its place (`db/install.rs`);
//! whoever has the old one goes on with it, and the files that only it names are removed with it.

use crate::manifest::table_name;
use crate::memory::Memory;
use crate::table::{Table, TableMeta};
use crate::version::{FileMeta, LEVELS, Version};
use keyrack_concurrent::Backoff;
use keyrack_vfs::Fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The first sequence number of a generation is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// A part of the memory component: the writes of a range of sequence numbers.
pub(crate) struct Generation {
    pub(crate) memory: Arc<Memory>,
    /// The first sequence number of its writes.
    from: AtomicU64,
}

impl Generation {
    /// A generation whose beginning is set once it is in the view.
    pub(crate) fn new(memory: Memory) -> Self {
        Generation { memory: Arc::new(memory), from: AtomicU64::new(UNKNOWN) }
    }

    pub(crate) fn begin(&self, from: u64) {
        // Pairs with `from`.
        self.from.store(from, Ordering::Release);
    }

    /// The first sequence number. Waits for the thread that is about to set it.
    pub(crate) fn from(&self) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            match self.from.load(Ordering::Acquire) {
                UNKNOWN => backoff.wait(),
                from => return from,
            }
        }
    }
}

/// A table of the store, open.
pub(crate) struct OpenTable {
    table: Arc<Table>,
    file: Arc<FileMeta>,
    fs: Arc<dyn Fs>,
    path: PathBuf,
    obsolete: AtomicBool,
}

impl OpenTable {
    pub(crate) fn new(
        table: Table,
        file: Arc<FileMeta>,
        fs: Arc<dyn Fs>,
        path: PathBuf,
    ) -> Arc<Self> {
        let table = Arc::new(table);
        Arc::new(OpenTable { table, file, fs, path, obsolete: AtomicBool::new(false) })
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
            // If it stays, the next opening removes it: no version names it.
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

/// The tables of a level.
pub(crate) type Tables = Arc<[Arc<OpenTable>]>;

/// What there is at one moment.
pub(crate) struct View {
    /// Newest first; there is at least one, the one that writers fill.
    pub(crate) generations: Vec<Arc<Generation>>,
    pub(crate) version: Arc<Version>,
    pub(crate) levels: [Tables; LEVELS],
}

impl View {
    /// The generation that writers fill.
    pub(crate) fn active(&self) -> &Arc<Generation> {
        &self.generations[0]
    }

    /// The generation that a write with this sequence number belongs to.
    pub(crate) fn generation_of(&self, sequence: u64) -> Option<&Arc<Generation>> {
        self.generations.iter().find(|generation| sequence >= generation.from())
    }
}

/// The name of table `number`, beside the manifest.
pub(crate) fn table_path(dir: &std::path::Path, number: u64) -> PathBuf {
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
        sequence_min: meta.sequence_min,
        sequence_max: meta.sequence_max,
        ..FileMeta::default()
    }
}
