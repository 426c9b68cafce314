//! Compactions: what one is, which ones run, and where its outputs are cut. `pick` chooses them.
//!
//! ```text
//!   inputs[0]     level L          [ c..h ] [ i..m ]
//!   inputs[1]     output level     [ a..d ] [ f..k ] [ l..p ]     all that share keys with them
//!   grandparents  the level below  [ a..b ] [ c..g ]  [ o..z ]    not read: they bound outputs
//! ```
//!
//! A compaction merges its inputs into new tables of the output level. It may instead
//! - move a table down as it is, when nothing shares keys with it there;
//! - merge tables of level 0 into one of level 0, when the level below is busy;
//! - rewrite one table in its place, to be rid of tombstones that hide nothing any more, or of
//!   values that have expired.
//!
//! **In parts.** A compaction with many tables of the lower level is done in parts: some of these
//! tables, and what the upper ones have between the first key of a part and that of the next. Each
//! part is installed when it is written, so that at most the tables of one part are on disk twice.
//! The upper tables stay until the last part. Until then, what they have in common with the outputs
//! exists twice, with the same sequence numbers: readers find either, and a build keeps one.
//!
//! ```text
//!   inputs[0]       [ a ..................................... z ]
//!   inputs[1]       [ b..e ] [ f..h ] | [ k..m ] [ n..q ] | [ s..u ] [ v..z ]
//!   parts            ............... k ................. s ..................
//! ```
//!
//! **Several at once.** A table is read by one compaction at a time, and two never write to one
//! level in overlapping ranges of keys. [`InProgressCompactions`] knows both. A thread chooses
//! under one lock, with the newest version, from `pick` to [`InProgressCompactions::start`]. It
//! ends the compaction by its id once the version with the outputs is in place.
//!
//! **Newer above older.** Of two writes of a key the newer is never below the older. Therefore a
//! compaction takes, besides a table of level 0, all others there that share keys with its tables;
//! and the levels between the two that it works on hold nothing.

mod pick;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use pick::{Manual, debt, excess, pick, pick_expired, pick_range, pick_table, targets};

use crate::key::Comparator;
use crate::version::{FileMeta, LAST_LEVEL, Version, VersionEdit};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Lower tables of a part of a compaction, about. More of them make fewer small tables at the ends
/// of parts, and take more disk.
const PART_TABLES: u64 = 3;

/// What the choice of compactions depends on besides the version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompactionOptions {
    /// Tables of level 0 that start a compaction.
    pub(crate) level0_tables: usize,
    /// Bytes of as many full memtables.
    pub(crate) level0_bytes: u64,
    /// Bytes of the first level with a size, at most; of every level that has one, at least.
    pub(crate) level_base_bytes: u64,
    /// The level that level 0 is merged into grows to so many times `level_base_bytes` before
    /// another one comes between. As long as one merge of level 0 costs no more than a few times
    /// its bytes, a level between would cost more, and its bytes would be on disk twice.
    pub(crate) base_times: u64,
    /// How many times larger a level is than the one above it. At least 2.
    pub(crate) level_factor: u64,
    /// Bytes of a table that a compaction writes.
    pub(crate) table_bytes: u64,
}

impl CompactionOptions {
    /// An output may share keys with so many bytes of the level below: it has to be merged with
    /// them one day.
    pub(crate) fn grandparent_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(10)
    }

    /// So many bytes in the wrong level are normal, and writers go on.
    pub(crate) fn excess_bytes_slow(&self) -> u64 {
        self.level0_bytes / 2
    }

    /// At so many, writers are nearly stopped.
    pub(crate) fn excess_bytes_stop(&self) -> u64 {
        self.level0_bytes.saturating_add(self.level0_bytes / 2)
    }

    /// Bytes of lower tables after which the next part of a compaction begins.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.table_bytes.saturating_mul(PART_TABLES)
    }

    /// A compaction grows, without need, up to so many bytes.
    pub(crate) fn growth_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(25)
    }
}

/// Why a compaction is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Too many tables in level 0.
    Level0,
    /// The same, while the level below is busy.
    WithinLevel0,
    /// A level has more bytes than it should.
    Size,
    /// A level is not needed any more for so little data.
    Drain,
    /// A table is largely tombstones that hide nothing.
    Tombstones,
    /// Much of a table has expired.
    Expired,
    /// Somebody asked for it.
    Manual,
}

/// A compaction to run. See the module documentation.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// Where `inputs[0]` are.
    pub(crate) level: usize,
    /// Where `inputs[1]` are and the outputs go.
    pub(crate) output_level: usize,
    /// Level 0 newest first, others by key.
    pub(crate) inputs: [Vec<Arc<FileMeta>>; 2],
    /// The tables below the output level that share keys with the inputs.
    pub(crate) grandparents: Vec<Arc<FileMeta>>,
    /// The one input may be moved without being read.
    pub(crate) trivial_move: bool,
    /// Why it is made.
    #[cfg(test)]
    pub(crate) reason: Reason,
    /// The user key after which the next compaction of the level begins.
    pub(crate) pointer: Option<Vec<u8>>,
}

impl Compaction {
    /// All tables that it takes.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.inputs.iter().flatten()
    }

    /// Bytes of all tables that it takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.files())
    }

    /// The edit that puts `outputs` in the place of the inputs. For a trivial move the output is
    /// the input itself: see [`Compaction::move_edit`].
    #[cfg(test)]
    pub(crate) fn edit(&self, outputs: impl IntoIterator<Item = Arc<FileMeta>>) -> VersionEdit {
        self.part_edit(&(0..self.inputs[1].len()), outputs)
    }

    /// The parts, as ranges of the lower tables: at least one. See the module documentation.
    ///
    /// There is one where upper tables refer to blob files: between two parts, an upper table and
    /// an output would both refer to the same values, and tables refer to each value once.
    pub(crate) fn parts(&self, options: &CompactionOptions) -> Vec<Range<usize>> {
        let [upper, lower] = &self.inputs;
        let mut parts = Vec::new();
        if upper.iter().any(|file| !file.blobs.is_empty()) {
            parts.push(0..lower.len());
            return parts;
        }
        let (mut start, mut bytes) = (0, 0_u64);
        for (at, file) in lower.iter().enumerate() {
            if bytes >= options.part_bytes() {
                parts.push(start..at);
                (start, bytes) = (at, 0);
            }
            bytes = bytes.saturating_add(file.bytes);
        }
        parts.push(start..lower.len());
        parts
    }

    /// The user keys of a part: from the first one, up to but not with the second; nothing is an
    /// open end.
    pub(crate) fn part_bounds(&self, part: &Range<usize>) -> (Option<&[u8]>, Option<&[u8]>) {
        let [_, lower] = &self.inputs;
        let first = |at: usize| lower.get(at).map(|file| file.first());
        (if part.start == 0 { None } else { first(part.start) }, first(part.end))
    }

    /// The edit that puts `outputs` in the place of a part. The last part removes the upper tables.
    pub(crate) fn part_edit(
        &self,
        part: &Range<usize>,
        outputs: impl IntoIterator<Item = Arc<FileMeta>>,
    ) -> VersionEdit {
        let [upper, lower] = &self.inputs;
        let is_last = part.end == lower.len();
        let upper: &[Arc<FileMeta>] = if is_last { upper } else { &[] };
        let gone = lower[part.clone()].iter().map(|file| (self.output_level, file.number));
        let upper = upper.iter().map(|file| (self.level, file.number));
        let pointer = self.pointer.iter().filter(|_| is_last);
        VersionEdit {
            deleted: upper.chain(gone).collect(),
            added: outputs.into_iter().map(|file| (self.output_level, file)).collect(),
            pointers: pointer.map(|key| (self.level, key.clone())).collect(),
            ..VersionEdit::default()
        }
    }

    /// The edit that moves the input of a trivial move to the output level.
    pub(crate) fn move_edit(&self) -> VersionEdit {
        debug_assert!(self.trivial_move, "the inputs have to be merged");
        self.part_edit(&(0..0), self.inputs[0].iter().cloned())
    }

    /// Whether something older of `key` may lie outside the inputs, so that a tombstone of it still
    /// has something to hide. `version` is the one that the compaction was chosen in, or any later.
    pub(crate) fn may_hide(&self, version: &Version, key: &[u8]) -> bool {
        // Within level 0 older tables stay beside the output.
        self.output_level == 0 || version.holds_below(self.output_level, key)
    }

    /// The same for a range tombstone from `low` to `high`.
    pub(crate) fn may_hide_range(&self, version: &Version, low: &[u8], high: &[u8]) -> bool {
        self.output_level == 0 || version.overlaps_below(self.output_level, Some(low), Some(high))
    }

    /// Where to cut outputs. Those within level 0 are not cut: one table is the point of it.
    pub(crate) fn splits(&self, options: &CompactionOptions) -> OutputSplits<'_> {
        OutputSplits {
            grandparents: &self.grandparents,
            at: 0,
            next: 0,
            bytes: 0,
            bytes_max: options.grandparent_bytes_max(),
        }
    }
}

/// Where the outputs of a compaction are cut so that none shares keys with too much of the level
/// below.
#[derive(Debug)]
pub(crate) struct OutputSplits<'a> {
    grandparents: &'a [Arc<FileMeta>],
    /// The first grandparent that is not wholly before the last key.
    at: usize,
    /// The first that begins behind the last key.
    next: usize,
    /// Those of the grandparents that the output has passed.
    bytes: u64,
    bytes_max: u64,
}

impl OutputSplits<'_> {
    /// Whether the output should end before `key`, the next user key that is added to it. Keys must
    /// ascend. O(grandparents) for all keys together.
    pub(crate) fn is_due(&mut self, key: &[u8], order: &Comparator) -> bool {
        while let Some(file) = self.grandparents.get(self.at)
            && file.ends_before(key, order)
        {
            self.bytes = self.bytes.saturating_add(file.bytes);
            self.at += 1;
        }
        while let Some(file) = self.grandparents.get(self.next)
            && order.user(file.first(), key) != Ordering::Greater
        {
            self.next += 1;
        }
        self.bytes > self.bytes_max
    }

    /// Where the next grandparent begins, behind the last key: an output without keys there, but
    /// with a range tombstone over them, may end.
    pub(crate) fn next_table(&self) -> Option<&[u8]> {
        self.grandparents.get(self.next).map(|file| file.first())
    }

    /// An output begins with the next key, for whatever reason.
    pub(crate) fn restart(&mut self) {
        self.bytes = 0;
    }
}

/// The compactions that run now.
#[derive(Debug, Default)]
pub(crate) struct InProgressCompactions {
    active: Vec<InProgressCompaction>,
    next_id: u64,
}

#[derive(Debug)]
struct InProgressCompaction {
    id: u64,
    level: usize,
    output_level: usize,
    /// The user keys that the outputs may have.
    low: Vec<u8>,
    high: Vec<u8>,
    files: Vec<Arc<FileMeta>>,
}

/// Proof that a compaction was started.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "give it back, or its tables are never compacted again"]
pub(crate) struct CompactionId(u64);

impl InProgressCompactions {
    /// How many run.
    pub(crate) fn count(&self) -> usize {
        self.active.len()
    }

    /// Takes the inputs of a compaction out of the choice.
    pub(crate) fn start(&mut self, compaction: &Compaction, order: &Comparator) -> CompactionId {
        let files: Vec<Arc<FileMeta>> = compaction.files().cloned().collect();
        debug_assert!(
            files.iter().all(|file| !file.is_being_compacted()),
            "a table is compacted twice"
        );
        files.iter().for_each(|file| file.set_being_compacted(true));
        let (low, high) = key_bounds(&files, order).expect("a compaction has inputs");
        let (low, high) = (low.to_vec(), high.to_vec());
        let Compaction { level, output_level, .. } = *compaction;
        let id = self.next_id;
        self.next_id += 1;
        self.active.push(InProgressCompaction { id, level, output_level, low, high, files });
        CompactionId(id)
    }

    /// Puts them back: the compaction is done, and the newest version knows it, or it failed.
    pub(crate) fn finish(&mut self, id: CompactionId) {
        let at = self.active.iter().position(|active| active.id == id.0);
        let active = self.active.swap_remove(at.expect("an id is given back once"));
        active.files.iter().for_each(|file| file.set_being_compacted(false));
    }

    /// Whether a compaction that runs may put tables into `level` that lie around the keys from
    /// `low` to `high`.
    pub(crate) fn writes_to(
        &self,
        level: usize,
        (low, high): (&[u8], &[u8]),
        order: &Comparator,
    ) -> bool {
        self.active.iter().any(|active| {
            written(active.level, active.output_level).contains(&level)
                && order.user(low, &active.high) != Ordering::Greater
                && order.user(&active.low, high) != Ordering::Greater
        })
    }

    /// Whether outputs from `level` to `output_level` with keys from `low` to `high` would meet
    /// those of a compaction that runs.
    fn conflicts(
        &self,
        level: usize,
        output_level: usize,
        (low, high): (&[u8], &[u8]),
        order: &Comparator,
    ) -> bool {
        self.active.iter().any(|active| {
            written(level, output_level)
                .any(|l| written(active.level, active.output_level).any(|m| l == m))
                && order.user(low, &active.high) != Ordering::Greater
                && order.user(&active.low, high) != Ordering::Greater
        })
    }
}

/// The levels that keys come to, or pass, in a compaction; level 0 is no matter, where tables may
/// share keys.
fn written(level: usize, output_level: usize) -> std::ops::RangeInclusive<usize> {
    (level + 1).min(output_level).max(1)..=output_level
}

/// The user keys from the first to the last of some tables.
fn key_bounds<'a>(
    files: impl IntoIterator<Item = &'a Arc<FileMeta>>,
    order: &Comparator,
) -> Option<(&'a [u8], &'a [u8])> {
    let mut files = files.into_iter();
    let first = files.next()?;
    let bounds = (first.first(), first.last());
    Some(files.fold(bounds, |(low, high), file| {
        let low = if order.user(file.first(), low).is_lt() { file.first() } else { low };
        let high = if order.user(file.last(), high).is_gt() { file.last() } else { high };
        (low, high)
    }))
}

fn bytes_of<'a>(files: impl IntoIterator<Item = &'a Arc<FileMeta>>) -> u64 {
    files.into_iter().map(|file| file.bytes).fold(0, u64::saturating_add)
}

/// The tables below `level` that share keys with the range: those of the level below it.
fn grandparents_of(version: &Version, level: usize, low: &[u8], high: &[u8]) -> Vec<Arc<FileMeta>> {
    match level {
        0 | LAST_LEVEL => Vec::new(),
        level => version.overlapping(level + 1, Some(low), Some(high)).cloned().collect(),
    }
}
