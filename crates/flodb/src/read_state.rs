//! What a reader looks through: the memtables and the tables on disk, at one moment.
//!
//! ```text
//!   memtables   newest first: [from 900 ..)  [500 .. 900)  [200 .. 500)     sequence numbers
//!   level 0       newest first, each older than the last memtable
//!   levels 1..    disjoint tables in the order of their keys
//! ```
//!
//! A read state never changes. Writers and background work put a new one in its place
//! (`db/install.rs`); whoever has the old one goes on with it, and the files that only it names are
//! removed with it.

use crate::db::Garbage;
use crate::memtable::Memtable;
use crate::open_blob::BlobFiles;
use crate::open_table::OpenTable;
use crate::range_tombstones::RangeTombstoneIndex;
use crate::version::{LEVELS, Version};
use std::sync::Arc;

/// Tables of level 0 whose filters are asked for at once.
const PREFETCHED_TABLES: usize = 4;

/// The tables of a level.
pub(crate) type Tables = Arc<[Arc<OpenTable>]>;

/// What there is at one moment.
pub(crate) struct ReadState {
    /// Newest first; there is at least one, the one that writers fill.
    pub(crate) memtables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
    pub(crate) levels: [Tables; LEVELS],
    /// What the tables refer to.
    pub(crate) blobs: Arc<BlobFiles>,
    /// The range tombstones of the tables of each level that have any, in their order.
    pub(crate) range_tombstones: [Arc<[Arc<RangeTombstoneIndex>]>; LEVELS],
    /// Who frees what only this read state holds.
    garbage: Arc<Garbage>,
}

impl Drop for ReadState {
    fn drop(&mut self) {
        // Taken, and not cloned: whoever drops the last reference frees.
        let memtables = std::mem::take(&mut self.memtables);
        let (levels, blobs) = (std::mem::take(&mut self.levels), std::mem::take(&mut self.blobs));
        self.garbage.leave((memtables, levels, blobs));
    }
}

impl ReadState {
    pub(crate) fn new(
        memtables: Vec<Arc<Memtable>>,
        version: Arc<Version>,
        levels: [Tables; LEVELS],
        blobs: Arc<BlobFiles>,
        garbage: &Arc<Garbage>,
    ) -> Self {
        let range_tombstones = levels.each_ref().map(|tables| {
            // Most tables have no range tombstones.
            let indexes = tables.iter().filter_map(|table| table.table().range_tombstones());
            indexes.cloned().collect()
        });
        let garbage = Arc::clone(garbage);
        ReadState { memtables, version, levels, blobs, range_tombstones, garbage }
    }

    /// Asks for the memory that a search begins with, of the memtables and of level 0: which of it
    /// is read depends on what is found in the first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.memtables.iter().for_each(|memtable| memtable.prefetch(hash));
        let asked = self.levels[0].iter().take(PREFETCHED_TABLES);
        asked.for_each(|table| table.table().prefetch_filter(hash));
    }

    /// The memtable that writers fill.
    pub(crate) fn active(&self) -> &Arc<Memtable> {
        &self.memtables[0]
    }

    /// The memtable that a write with this sequence number belongs to.
    pub(crate) fn memtable_of(&self, sequence: u64) -> Option<&Arc<Memtable>> {
        self.memtables.iter().find(|memtable| sequence >= memtable.first_sequence())
    }
}
