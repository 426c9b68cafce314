//! Which compaction comes next: a function of the version, the options, what runs and the oldest
//! snapshot. Equal arguments, equal answer.
//!
//! **Sizes.** From the level with the most bytes up, each should have a tenth:
//!
//! ```text
//!   level      1     2     3       4        5        6
//!   bytes      0     0     0     180 M    2.9 G    31 G
//!   target     -     -   256 M   318 M    3.1 G      -       31 G / 10^(6 - level), 256 M at least
//!                        base
//! ```
//!
//! The *base* is the level that level 0 is merged into: the first that has tables, or the one above
//! it once its target has outgrown `level_base_bytes`. So the last level always holds nearly all,
//! and what is stored twice or was removed is a tenth of it. A new store has level 6 alone. (After
//! "Optimizing Space Amplification in RocksDB", CIDR 2017.)
//!
//! **Order.** Level 0 has as its score its tables over `level0_tables`, others their bytes over
//! their target; tables that are being compacted do not count. The largest score of 1 or more comes
//! first, the upper level if two are equal. A level that is above the base that its data need is
//! drained when nothing else is to do; last come tables that are largely tombstones, or remove a
//! range, which may hide much of its own table.
//!
//! **Inputs**, as in LevelDB. A level begins after the key where its last compaction ended, with
//! the first table that is free, and goes round. Level 0 begins with its oldest. To it come the
//! tables of the output level that share keys; then more of the upper level, if that costs none
//! more below.
//!
//! Costs: O(levels), and O(tables) of the level chosen; nothing here reads a file.

use super::{
    Compaction, CompactionOptions, InProgressCompactions, Reason, bytes_of, grandparents_of,
    key_bounds,
};
use crate::blob::DEAD_PERCENT_SLOW;
use crate::version::{FileMeta, LAST_LEVEL, LEVELS, Version};
use std::cmp::Reverse;
use std::sync::Arc;

/// A score of 1, in thousandths.
const FULL: u64 = 1_000;

/// Fewer tables of level 0 are not merged among themselves.
const WITHIN_LEVEL0_MIN: usize = 4;

/// As many tables of level 0 more than start a compaction have to be free before some are merged
/// among themselves.
const WITHIN_LEVEL0_PATIENCE: usize = 2;

/// How large the levels should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Targets {
    /// The level that level 0 is merged into, 1 to 6.
    pub(crate) base: usize,
    /// The base that the data need: levels from `base` up to it are drained.
    pub(crate) needed: usize,
    /// Bytes of each level from the base to the last but one; 0 for others.
    pub(crate) bytes: [u64; LEVELS],
}

/// How large the levels of a version should be. O(levels).
pub(crate) fn targets(version: &Version, options: &CompactionOptions) -> Targets {
    let factor = options.level_factor.max(2);
    let base_bytes = options.level_base_bytes.max(1);
    let largest = (1..LEVELS).map(|level| version.level_bytes(level)).max().unwrap_or(0);
    let share = |level: usize| largest / factor.saturating_pow((LAST_LEVEL - level) as u32);
    let above = |mut level: usize| {
        while level > 1 && share(level) > base_bytes.saturating_mul(options.base_times) {
            level -= 1;
        }
        level
    };
    let first = (1..LEVELS).find(|level| !version.files(*level).is_empty());
    let base = above(first.unwrap_or(LAST_LEVEL));
    let mut bytes = [0; LEVELS];
    for (level, bytes) in bytes.iter_mut().enumerate().take(LAST_LEVEL).skip(base) {
        *bytes = share(level).max(base_bytes);
    }
    Targets { base, needed: above(LAST_LEVEL), bytes }
}

/// Bytes that are not where they belong: those of level 0 when it is due, those above the targets
/// of levels, and garbage that the blob files should not have. Without them, most bytes of the
/// store are live. O(levels).
pub(crate) fn excess(version: &Version, options: &CompactionOptions) -> u64 {
    let Targets { base, bytes: target, .. } = targets(version, options);
    let above = |level: usize| version.level_bytes(level).saturating_sub(target[level]);
    let levels = (1..LAST_LEVEL).filter(|level| *level >= base).map(above);
    // Before, no compaction takes them, and to hold writers against them would be a wait for
    // nothing.
    let is_due = version.files(0).len() >= options.level0_tables.max(1);
    let level0 = if is_due { version.level_bytes(0) } else { 0 };
    levels.fold(level0, u64::saturating_add).saturating_add(excess_garbage(version))
}

/// Dead bytes of blob files, as far as they are more than collection should leave.
fn excess_garbage(version: &Version) -> u64 {
    let (all, dead) = version.blob_bytes();
    dead.saturating_sub(share(all, DEAD_PERCENT_SLOW, 100))
}

/// `of` times `part` divided by `whole`.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(of) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// About how many bytes have to be written before no level is too large, and no more of the blob
/// files is garbage than should be: what writers are held against. O(levels).
pub(crate) fn debt(version: &Version, options: &CompactionOptions) -> u64 {
    let Targets { base, bytes: target, .. } = targets(version, options);
    let mut debt = 0_u64;
    let mut carried = 0;
    if version.files(0).len() >= options.level0_tables.max(1) {
        carried = version.level_bytes(0);
        // All of level 0 is merged with all that it meets in the base: no more than is there.
        debt = carried.saturating_add(version.level_bytes(base));
    }
    for (level, target) in target.iter().enumerate().take(LAST_LEVEL).skip(base) {
        let bytes = version.level_bytes(level).saturating_add(carried);
        carried = bytes.saturating_sub(*target);
        if carried > 0 {
            // A byte that goes down is merged with as many of the level below as that has to each.
            let met = share(version.level_bytes(level + 1), carried, bytes);
            debt = debt.saturating_add(carried).saturating_add(met);
        }
    }
    // What is alive between the garbage is written again.
    let (all, dead) = version.blob_bytes();
    debt.saturating_add(share(all - dead, excess_garbage(version), dead))
}

/// The compaction that is needed most and can run beside those that do. Nobody looks at anything
/// older than `oldest_snapshot`, a sequence number.
pub(crate) fn pick(
    version: &Version,
    options: &CompactionOptions,
    in_progress: &InProgressCompactions,
    oldest_snapshot: u64,
) -> Option<Compaction> {
    let targets = targets(version, options);
    let choice = Choice { version, options, in_progress, oldest_snapshot, targets };
    let mut wanted: Vec<(u64, usize)> = (0..LAST_LEVEL)
        .map(|level| (choice.score(level), level))
        .filter(|(score, _)| *score >= FULL)
        .collect();
    wanted.sort_by_key(|(score, level)| (Reverse(*score), *level));
    let needed = wanted.into_iter().find_map(|(_, level)| match level {
        0 => choice.level0().or_else(|| choice.within_level0()),
        level => choice.next_table_of(level, Reason::Size),
    });
    let drained = || {
        let levels = choice.targets.base..choice.targets.needed;
        levels.into_iter().find_map(|level| choice.next_table_of(level, Reason::Drain))
    };
    needed.or_else(drained).or_else(|| choice.dense_tombstones())
}

/// The compaction of a table of which a quarter has expired by `expired_ms`, for everybody. The
/// last level comes first: what expires above it finds nothing below then, and needs no tombstones.
/// Such a table loses all that has expired, so it is not due again before more has.
pub(crate) fn pick_expired(
    version: &Version,
    options: &CompactionOptions,
    in_progress: &InProgressCompactions,
    expired_ms: u64,
) -> Option<Compaction> {
    let targets = targets(version, options);
    let choice = Choice { version, options, in_progress, oldest_snapshot: 0, targets };
    let is_due = |file: &&Arc<FileMeta>| {
        file.expiries.due_ms(file.entries).is_some_and(|due_ms| due_ms <= expired_ms)
    };
    (0..LEVELS).rev().find_map(|level| {
        let due = version.files(level).iter().filter(is_due);
        due.into_iter().find_map(|file| {
            let inputs = vec![Arc::clone(file)];
            match level {
                0 => {
                    let inputs = choice.connected(inputs);
                    choice.assemble(0, choice.targets.base, inputs, Reason::Expired)
                }
                level => choice.assemble(level, level, inputs, Reason::Expired),
            }
        })
    })
}

/// What a request for a range comes to.
#[derive(Debug)]
pub(crate) enum Manual {
    /// The level has nothing to give.
    Done,
    /// Something that runs is in the way: ask again when it is done.
    Busy,
    /// Run this, and ask again.
    Run(Box<Compaction>),
}

/// The next compaction that takes the keys from `low` to `high`, both included, out of `level`, as
/// long as a level below has some of the range; nothing is an open end. To compact a range, ask for
/// each level from 0 on until it is done.
pub(crate) fn pick_range(
    version: &Version,
    options: &CompactionOptions,
    in_progress: &InProgressCompactions,
    level: usize,
    (low, high): (Option<&[u8]>, Option<&[u8]>),
) -> Manual {
    let targets = targets(version, options);
    let choice = Choice { version, options, in_progress, oldest_snapshot: 0, targets };
    if level >= LAST_LEVEL || level > 0 && !version.overlaps_below(level, low, high) {
        return Manual::Done;
    }
    let mut inputs: Vec<_> = version.overlapping(level, low, high).cloned().collect();
    if inputs.is_empty() {
        return Manual::Done;
    }
    let output = if level == 0 {
        inputs = choice.connected(inputs);
        choice.targets.base
    } else {
        // In portions: each is out of the level when it is done.
        let mut bytes = 0_u64;
        let fits = |file: &&Arc<FileMeta>| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(file.bytes);
            is_first || bytes <= options.growth_bytes_max()
        };
        let count = inputs.iter().take_while(fits).count();
        inputs.truncate(count);
        level + 1
    };
    match choice.assemble(level, output, inputs, Reason::Manual) {
        Some(compaction) => Manual::Run(Box::new(compaction)),
        None => Manual::Busy,
    }
}

/// The compaction that writes table `number` of `level`, from 1 on, anew in its place.
pub(crate) fn pick_table(
    version: &Version,
    options: &CompactionOptions,
    in_progress: &InProgressCompactions,
    level: usize,
    number: u64,
) -> Manual {
    let Some(file) = version.files(level).iter().find(|file| file.number == number) else {
        return Manual::Done;
    };
    let targets = targets(version, options);
    let choice = Choice { version, options, in_progress, oldest_snapshot: 0, targets };
    match choice.assemble(level, level, vec![Arc::clone(file)], Reason::Tombstones) {
        Some(compaction) => Manual::Run(Box::new(compaction)),
        None => Manual::Busy,
    }
}

/// What a choice is made from.
struct Choice<'a> {
    version: &'a Version,
    options: &'a CompactionOptions,
    in_progress: &'a InProgressCompactions,
    oldest_snapshot: u64,
    targets: Targets,
}

type Files = Vec<Arc<FileMeta>>;

fn is_free(files: &[Arc<FileMeta>]) -> bool {
    files.iter().all(|file| !file.is_being_compacted())
}

impl Choice<'_> {
    /// How full a level is, in thousandths of what it may be.
    fn score(&self, level: usize) -> u64 {
        let free = || self.version.files(level).iter().filter(|file| !file.is_being_compacted());
        let (is, may) = match level {
            0 => (free().count() as u64, self.options.level0_tables as u64),
            _ if level < self.targets.base => return 0,
            _ => (bytes_of(free()), self.targets.bytes[level]),
        };
        let score = u128::from(is) * u128::from(FULL) / u128::from(may.max(1));
        u64::try_from(score).unwrap_or(u64::MAX)
    }

    /// Level 0 into the base, from the oldest table that is free and can go.
    fn level0(&self) -> Option<Compaction> {
        let free = self.version.files(0).iter().rev().filter(|file| !file.is_being_compacted());
        free.into_iter().find_map(|file| {
            let inputs = self.connected(vec![Arc::clone(file)]);
            self.assemble(0, self.targets.base, inputs, Reason::Level0)
        })
    }

    /// Some tables of level 0 into one, newest first, as long as each one more makes a table less
    /// cheaper. They are neighbours in age, so that the output has their place.
    fn within_level0(&self) -> Option<Compaction> {
        let files = self.version.files(0);
        let free = files.iter().filter(|file| !file.is_being_compacted()).count();
        if free < self.options.level0_tables + WITHIN_LEVEL0_PATIENCE {
            return None;
        }
        let runs = files.split(|file| file.is_being_compacted());
        let inputs = runs.into_iter().map(|run| &run[..self.cheap_count(run)]);
        let inputs = inputs.into_iter().find(|run| run.len() >= WITHIN_LEVEL0_MIN)?;
        self.assemble(0, 0, inputs.to_vec(), Reason::WithinLevel0)
    }

    /// How many tables of a run to merge: `total / (count - 1)` bytes for each table less must not
    /// rise.
    fn cheap_count(&self, run: &[Arc<FileMeta>]) -> usize {
        let mut total = 0_u64;
        let mut count = 0_u64;
        for file in run {
            let next = total.saturating_add(file.bytes);
            // next / count > total / (count - 1), without division.
            let rises = count > 1
                && u128::from(next) * u128::from(count - 1) > u128::from(total) * u128::from(count);
            if rises || next > self.options.growth_bytes_max() {
                break;
            }
            total = next;
            count += 1;
        }
        count as usize
    }

    /// The next table of a level from 1 on, round robin, into the level below.
    fn next_table_of(&self, level: usize, reason: Reason) -> Option<Compaction> {
        let files = self.version.files(level);
        let pointer = self.version.pointer(level);
        let is_behind =
            |file: &Arc<FileMeta>| self.version.order().user(file.last(), pointer).is_gt();
        let start =
            if pointer.is_empty() { 0 } else { files.partition_point(|file| !is_behind(file)) };
        let round = files[start..].iter().chain(&files[..start]);
        round
            .into_iter()
            .find_map(|file| self.assemble(level, level + 1, vec![Arc::clone(file)], reason))
    }

    /// A table that is largely tombstones, none of which hides anything from anybody.
    fn dense_tombstones(&self) -> Option<Compaction> {
        let levels = (1..LEVELS).filter(|level| self.version.dense_files(*level) > 0);
        levels.into_iter().find_map(|level| {
            let files = self.version.files(level).iter();
            let idle = files.filter(|file| self.is_idle(level, file));
            idle.into_iter().find_map(|file| {
                self.assemble(level, level, vec![Arc::clone(file)], Reason::Tombstones)
            })
        })
    }

    /// Whether a table would lose its tombstones, and much of its size, if it were rewritten to
    /// `level`.
    fn is_idle(&self, level: usize, file: &FileMeta) -> bool {
        file.is_dense()
            && file.sequence_max <= self.oldest_snapshot
            && !self.version.overlaps_below(level, Some(file.first()), Some(file.last()))
    }

    /// Some tables of level 0, with all others there that share keys with the range that they and
    /// these cover.
    fn connected(&self, mut files: Files) -> Files {
        let order = self.version.order();
        while let Some((low, high)) = key_bounds(&files, order) {
            let more: Files = self.version.overlapping(0, Some(low), Some(high)).cloned().collect();
            if more.len() == files.len() {
                return more;
            }
            files = more;
        }
        files
    }

    /// The tables of `level` that share keys with `files`.
    fn sharing(&self, level: usize, files: &[Arc<FileMeta>]) -> Files {
        let Some((low, high)) = key_bounds(files, self.version.order()) else {
            return Files::new();
        };
        self.version.overlapping(level, Some(low), Some(high)).cloned().collect()
    }

    /// The compaction of these tables, if all that it needs is free.
    fn assemble(
        &self,
        level: usize,
        output_level: usize,
        inputs: Files,
        reason: Reason,
    ) -> Option<Compaction> {
        if !is_free(&inputs) {
            return None;
        }
        let below = if output_level > level { self.sharing(output_level, &inputs) } else { vec![] };
        if !is_free(&below) {
            return None;
        }
        let grown = self.grown(level, output_level, &inputs, &below);
        let choices = grown.into_iter().chain([[inputs, below]]);
        choices.into_iter().find_map(|inputs| self.finished(level, output_level, inputs, reason))
    }

    /// More tables of the upper level, if they cost none more of the lower one.
    fn grown(
        &self,
        level: usize,
        output_level: usize,
        inputs: &[Arc<FileMeta>],
        below: &[Arc<FileMeta>],
    ) -> Option<[Files; 2]> {
        if below.is_empty() {
            return None;
        }
        let all: Files = inputs.iter().chain(below).cloned().collect();
        let mut more = self.sharing(level, &all);
        if level == 0 {
            more = self.connected(more);
        }
        let bytes = bytes_of(more.iter().chain(below));
        if more.len() <= inputs.len() || bytes > self.options.growth_bytes_max() || !is_free(&more)
        {
            return None;
        }
        let still = self.sharing(output_level, &more);
        (still.len() == below.len()).then_some([more, still])
    }

    fn finished(
        &self,
        level: usize,
        output_level: usize,
        inputs: [Files; 2],
        reason: Reason,
    ) -> Option<Compaction> {
        let order = self.version.order();
        let (low, high) = key_bounds(inputs.iter().flatten(), order)?;
        if self.in_progress.conflicts(level, output_level, (low, high), order) {
            return None;
        }
        let grandparents = grandparents_of(self.version, output_level, low, high);
        let trivial_move = output_level > level
            && reason != Reason::Manual
            && matches!(&inputs, [one, none] if one.len() == 1 && none.is_empty())
            && bytes_of(&grandparents) <= self.options.grandparent_bytes_max()
            && !self.is_idle(output_level, &inputs[0][0]);
        let pointer = (level > 0 && output_level > level)
            .then(|| key_bounds(&inputs[0], order).map(|(_, last)| last.to_vec()))
            .flatten();
        Some(Compaction {
            level,
            output_level,
            inputs,
            grandparents,
            trivial_move,
            #[cfg(test)]
            reason,
            pointer,
        })
    }
}
