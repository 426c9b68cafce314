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
use crate::table::{Candidate, Table};
use crate::version::{LEVELS, Version};
use std::sync::Arc;

/// Tables of level 0 whose filters are asked for at once.
const PREFETCHED_TABLES: usize = 4;

/// Of four sources with more than a quarter of the entries there are three at most.
const LIKELY_MAX: usize = 3;

/// Where a key is, in the sources that most likely have it.
pub(crate) type Located<'a> = [Option<Candidate<'a>>; LIKELY_MAX];

/// A source of a point read on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A table of level 0.
    Table(usize),
    Level(usize),
}

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
    /// The newest sequence number in the tables of each level; 0 if it has none.
    pub(crate) sequence_max: [u64; LEVELS],
    /// The sources with more than a quarter of all entries.
    likely: Vec<Source>,
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
        let sequence_max = levels
            .each_ref()
            .map(|tables| tables.iter().map(|table| table.file().sequence_max).max().unwrap_or(0));
        let in_memory = memtables.iter().map(|memtable| memtable.entries() as u64).sum();
        let likely = likely(in_memory, &levels);
        let garbage = Arc::clone(garbage);
        ReadState {
            memtables,
            version,
            levels,
            blobs,
            range_tombstones,
            sequence_max,
            likely,
            garbage,
        }
    }

    /// The memtables that have what a reader at `sequence` may see. It was published before this
    /// was looked up.
    #[inline]
    pub(crate) fn memtables_at(&self, sequence: u64) -> impl Iterator<Item = &Arc<Memtable>> {
        self.memtables.iter().filter(move |memtable| !memtable.begins_after(sequence))
    }

    /// Asks for the memory that a search begins with, of the memtables and of level 0: which of it
    /// is read depends on what is found in the first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, sequence: u64) {
        self.memtables_at(sequence).for_each(|memtable| memtable.prefetch(hash));
        let asked = self.levels[0].iter().take(PREFETCHED_TABLES);
        asked.for_each(|table| table.table().prefetch_filter(hash));
    }

    /// Finds the key in the indexes of the sources that most likely have it, and asks for what
    /// says where its blocks are. The lines of an index are mostly in the processor's caches, where
    /// those of memtables and filters are not: so this is done while the search waits for them.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8], hash: u64, sequence: u64) -> Located<'_> {
        let mut located = [None; LIKELY_MAX];
        for (place, source) in located.iter_mut().zip(&self.likely) {
            let table: &Table = match *source {
                Source::Table(at) => self.levels[0][at].table(),
                Source::Level(level) => {
                    let Some(at) = self.version.find(level, key) else { continue };
                    let table = self.levels[level][at].table();
                    table.prefetch_filter(hash);
                    table
                }
            };
            *place = table.locate(key, sequence);
            place.iter().for_each(Candidate::prefetch);
        }
        located
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

/// The sources on disk with more than a quarter of all entries, newest first.
fn likely(in_memory: u64, levels: &[Tables; LEVELS]) -> Vec<Source> {
    let entries = |tables: &[Arc<OpenTable>]| -> u64 {
        tables.iter().map(|table| table.file().entries).sum()
    };
    let [level0, below @ ..] = levels;
    let of_level0 = level0.chunks(1).enumerate().map(|(at, one)| (Source::Table(at), entries(one)));
    let below =
        below.iter().zip(1..).map(|(tables, level)| (Source::Level(level), entries(tables)));
    let counts: Vec<_> = of_level0.chain(below).collect();
    large(&counts, in_memory)
}

/// Those of `counts` with more than a quarter of the sum of all and of `others`.
fn large(counts: &[(Source, u64)], others: u64) -> Vec<Source> {
    let all = counts.iter().fold(others, |sum, (_, entries)| sum.saturating_add(*entries));
    let is_large = |entries: u64| entries > all / 4;
    counts.iter().filter(|(_, entries)| is_large(*entries)).map(|(source, _)| *source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_with_more_than_a_quarter_of_the_entries_are_likely() {
        use Source::{Level, Table};
        let counts = |tables: &[u64], levels: &[u64]| -> Vec<(Source, u64)> {
            let tables = tables.iter().enumerate().map(|(at, entries)| (Table(at), *entries));
            let levels = levels.iter().zip(1..).map(|(entries, level)| (Level(level), *entries));
            tables.chain(levels).collect()
        };
        assert_eq!(large(&counts(&[470, 470], &[0, 0]), 0), [Table(0), Table(1)]);
        assert_eq!(large(&counts(&[470, 470], &[0, 9_000]), 0), [Level(2)]);
        assert_eq!(large(&counts(&[], &[1, 0]), 0), [Level(1)]);
        assert_eq!(large(&counts(&[10, 11], &[5, 14]), 0), [Table(1), Level(2)]);
        assert_eq!(large(&counts(&[10, 11], &[5, 14]), 10), [Level(2)], "entries in memory count");
        assert_eq!(large(&counts(&[10, 10], &[10, 10]), 0), [], "a quarter is not more than one");
        assert_eq!(large(&counts(&[26, 26, 26], &[22, 0]), 0).len(), LIKELY_MAX);
        assert_eq!(large(&counts(&[], &[0, 0]), 0), []);
    }
}
