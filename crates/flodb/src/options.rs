//! What a store is opened with.

mod check;
mod setters;

use crate::compaction_filter::CompactionFilter;
use crate::compress::Compression;
use crate::event::EventListener;
use crate::expiry::Clock;
use crate::filter_policy::FilterPolicy;
use crate::key::Comparator;
use crate::merge::MergeOperator;
use crate::prefix_extractor::PrefixExtractor;
use crate::version::LAST_LEVEL;
use keyrack_store::Durability;
use std::sync::Arc;

/// Bytes of a memtable, at least.
pub(crate) const MEMTABLE_BYTES_MIN: usize = 64 << 10;

/// Smaller values gain nothing in a blob file: its record, and the read of it, cost as much.
pub(crate) const BLOB_BYTES_MIN: usize = 1 << 10;

/// How a store is opened. Each option has a default that fits most stores, and a method of its name
/// that sets it; the fields are there to read, and for a literal with `..Options::new()`. A value
/// that no store can have is refused at opening, by the name of the option.
///
/// ```
/// use keyrack_flodb::{Compression, Durability, Options};
///
/// let options = Options::new()
///     .memory_budget(256 << 20)
///     .durability(Durability::Sync)
///     .compression([Compression::None, Compression::Lz4]);
/// assert_eq!(options.memory_budget, Some(256 << 20));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The order of keys: by unsigned bytes, a proper prefix first. Its name is stored; a store
    /// opens only with the same.
    pub comparator: Comparator,
    /// Whether the store is made if it is not there: yes. Otherwise that is an error.
    pub create_if_missing: bool,
    /// Whether a store that is there is refused: no.
    pub error_if_exists: bool,
    /// What an acknowledged write survives: [`Durability::Os`], the end of the process, however it
    /// comes. With [`Durability::None`] there is no log, and writes survive a clean close.
    pub durability: Durability,
    /// Bytes of memory that memtables, cached blocks, the indexes and filters of tables, and what
    /// cursors and compactions need, take together: `None`, a quarter of the memory that this
    /// process may use, and 1 GiB at most. At least 8 MiB. Each open store has its own.
    pub memory_budget: Option<usize>,
    /// Bytes of a memtable: [`Options::BY_BUDGET`], a sixteenth of the budget and at most 64 MiB.
    /// When it is full it becomes a table.
    pub memtable_bytes: usize,
    /// Full memtables that wait for their table before writers wait too: 2. Fewer, if they would
    /// not fit a budget that was given.
    pub immutable_memtables_max: usize,
    /// Entries of a memtable that may be without order: 65,536. If there are more, a thread sorts
    /// them.
    pub unordered_max: usize,
    /// Whether a memtable has a hash level: yes. Without, writes are cheaper, and each read first
    /// sorts what was written since the last.
    pub hash_level: bool,
    /// Bytes of a segment of the log, a power of two: 16 MiB. No batch is larger.
    pub segment_bytes: u64,
    /// Bytes of the log that are kept, at most, when the store needs them no more, so that
    /// [`Db::changes`](crate::Db::changes) can begin in the past: 0. With 0 here and in
    /// `log_retention_seconds` nothing is kept. If one of the two is set, the other at 0 is no
    /// limit. Whole segments are kept. Each flush then syncs the log first.
    pub log_retention_bytes: u64,
    /// How many seconds such a part of the log is kept, at most: 0, see `log_retention_bytes`.
    pub log_retention_seconds: u64,
    /// Bytes of the log that open feeds ([`Db::changes`](crate::Db::changes)) keep, at most, when
    /// the store needs them no more: 256 MiB. A feed that falls further behind gets
    /// [`Error::NotKept`](crate::Error::NotKept), so a slow reader cannot fill the disk.
    pub feed_hold_bytes: u64,
    /// Bytes of data in a block of a table: 4 KiB.
    pub block_bytes: usize,
    /// Entries from one whole key in a block to the next: 16.
    pub restart_interval: usize,
    /// Compression of the tables of level 0, of the level that it is merged into, of the one below
    /// that, and so on; the last one is that of the last level, and of all that are not named.
    /// None for the first two, LZ4 from there; none at all in a build without LZ4. A store is
    /// opened only with codecs that are built in, see [`Compression::is_built_in`].
    pub compression: Vec<Compression>,
    /// Bytes from which on a value goes to a blob file when tables are written, at least 1 KiB: 0,
    /// and then none does. Compactions move the place of such a value and not its bytes. Costs one
    /// read of a file for each such value that is read, and up to as much dead space as there is
    /// live, until compactions write the rest of a file anew. Values that are in blob files can be
    /// read whatever this says.
    pub blob_bytes_min: usize,
    /// Bits of a table's filter for each key: 10, one false answer in a hundred. 0 for no filter.
    pub filter_bits_per_key: u32,
    /// Which filters tables get: Bloom filters of `filter_bits_per_key` bits a key. Not stored:
    /// tables with filters by a rule that the store is opened without are read without a filter.
    pub filter_policy: FilterPolicy,
    /// By which prefixes of keys tables get a second filter: `None`, and there is none. With an
    /// extractor, a range of keys that have one prefix passes tables without that prefix: no block
    /// of theirs is read, and no index searched. [`Db::prefix`](crate::Db::prefix),
    /// [`Db::range`](crate::Db::range) and the same of a key space see it by the bounds; nothing
    /// needs to be said. Costs `filter_bits_per_key` bits for each prefix of a table,
    /// and a call of the extractor for each key that a flush or a compaction writes. Needs keys in
    /// the order of bytes. Not stored: tables that were written with another extractor, or with
    /// none, are read without such a filter until a compaction writes them anew.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// The most bytes of blocks kept in memory: [`Options::BY_BUDGET`], what the others leave of
    /// the budget. 0 for no cache.
    pub cache_bytes: usize,
    /// Files of tables that are open at once: 512. Others are opened when they are read, in place
    /// of those that are read least. Each thread that reads may have one more. 0 for no limit,
    /// which is also that of a store opened for reading only, and of the iterators that outlive
    /// theirs. Index and filter of each table stay in memory.
    pub table_files_max: usize,
    /// Bytes of a table that a compaction writes: 32 MiB.
    pub table_bytes: u64,
    /// Tables of level 0 that start a compaction: 4.
    pub level0_tables: usize,
    /// Tables of level 0 from which on writers are slowed down: 12.
    pub level0_slow: usize,
    /// Tables of level 0 at which writers wait: 24.
    pub level0_stop: usize,
    /// Bytes of the first level with a size: 256 MiB. Each level below has ten times as many. While
    /// the last level has at most four times as many, it is the only one below level 0.
    pub level_base_bytes: u64,
    /// Bytes of tables that flushes and compactions write in a second, at most: 0, which is no
    /// limit. A flush does not wait, since writers wait for it; the compactions pay for what it
    /// wrote.
    pub table_bytes_per_second: u64,
    /// Threads that compact: 1. With 0 only [`Db::compact_range`](crate::Db::compact_range) does,
    /// and level 0 holds up no writer.
    pub compaction_threads: usize,
    /// Whether tables are read as a whole and checked when the store is opened, before a compaction
    /// reads them, and after they were written: no. Blocks are checked whenever they are read in
    /// any case, so damage is an error and never a wrong answer; this finds it before it is needed.
    pub paranoid_checks: bool,
    /// Whether a full memtable is dropped instead of being written: no. What it held is lost. For
    /// measurements of the memory component alone, as FloDB's `DUMMY_PERSIST`; only with
    /// [`Durability::None`].
    pub discards_memtables: bool,
    /// What operands make of values, see [`Db::merge`](crate::Db::merge): none. Its name is stored
    /// with the first operand; from then on the store opens only with the same. The operators of
    /// this crate are found by that name.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// What compactions remove or change: nothing. See
    /// [`CompactionFilter`](crate::CompactionFilter). Not stored, and not for stores with key
    /// spaces: their own entries are among the others.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// What time it is, for values that expire: the clock of the system. Not stored.
    pub clock: Clock,
    /// Who hears of flushes, compactions, write stalls and errors of the background: nobody. See
    /// [`EventListener`](crate::EventListener). Not stored. A store that is open for reading only
    /// tells nothing.
    pub listener: Option<Arc<dyn EventListener>>,
    /// Whether point reads are counted by the level that answered them: no. [`Db::stats`] then has
    /// `reads_hash`, `reads_ordered`, `reads_tables` and `reads_nowhere`.
    ///
    /// [`Db::stats`]: crate::Db::stats
    pub counts_reads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            comparator: Comparator::Bytewise,
            create_if_missing: true,
            error_if_exists: false,
            durability: Durability::Os,
            memory_budget: None,
            memtable_bytes: Options::BY_BUDGET,
            immutable_memtables_max: 2,
            unordered_max: 64 << 10,
            hash_level: true,
            segment_bytes: 16 << 20,
            log_retention_bytes: 0,
            log_retention_seconds: 0,
            feed_hold_bytes: 256 << 20,
            block_bytes: 4 << 10,
            restart_interval: 16,
            compression: vec![Compression::None, Compression::None, Compression::default()],
            blob_bytes_min: 0,
            filter_bits_per_key: 10,
            filter_policy: FilterPolicy::Bloom,
            prefix_extractor: None,
            cache_bytes: Options::BY_BUDGET,
            table_files_max: 512,
            table_bytes: 32 << 20,
            level0_tables: 4,
            level0_slow: 12,
            level0_stop: 24,
            level_base_bytes: 256 << 20,
            table_bytes_per_second: 0,
            compaction_threads: 1,
            paranoid_checks: false,
            discards_memtables: false,
            merge_operator: None,
            compaction_filter: None,
            clock: Clock::System,
            listener: None,
            counts_reads: false,
        }
    }
}

impl Options {
    /// In place of a size: what fits [`Options::memory_budget`]. [`Options::divided`] and
    /// [`Db::options`](crate::Db::options) have the size.
    pub const BY_BUDGET: usize = usize::MAX;

    /// The defaults, as [`Options::default`].
    ///
    /// ```
    /// use keyrack_flodb::{Durability, Options};
    ///
    /// assert_eq!(Options::new().durability, Durability::Os);
    /// ```
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// The compression of the tables of `level`, while level 0 is merged into `base`. The last
    /// level holds nearly everything, and is rewritten least: it is compressed best.
    pub(crate) fn compression_of(&self, level: usize, base: usize) -> Compression {
        let last = self.compression.last();
        let kept = match level {
            0 => self.compression.first(),
            LAST_LEVEL => last,
            _ => self.compression.get((level + 1).saturating_sub(base)).or(last),
        };
        kept.copied().unwrap_or(Compression::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Compression::{Lz4, None, Snappy};

    #[test]
    fn compression_is_counted_from_the_level_that_level_0_goes_into() {
        let options = Options { compression: vec![None, Snappy, Lz4], ..Options::default() };
        let of = |base| [0, 1, 2, 3, 4, 5, 6].map(|level| options.compression_of(level, base));
        assert_eq!(of(4)[0], None);
        assert_eq!(of(4)[4..], [Snappy, Lz4, Lz4]);
        assert_eq!(of(1)[1..], [Snappy, Lz4, Lz4, Lz4, Lz4, Lz4]);
        assert_eq!(of(LAST_LEVEL)[6], Lz4, "the last level is the last, even as the first");

        let options = Options { compression: Vec::new(), ..Options::default() };
        assert_eq!(options.compression_of(3, 3), None);
    }
}
