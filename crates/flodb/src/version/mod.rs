//! Which tables make up the store at one moment.
//!
//! ```text
//!   level 0     [ 19: b..y ] [ 17: a..z ] [ 14: c..m ]     newest first, keys overlap
//!   level 1     [ 12: a..f ] [ 13: g..k ] [ 15: n..z ]     by key, no user key in two of them
//!     ...
//!   level 6     [ 3: a..c ] [ 4: c..e ] ...
//! ```
//!
//! A version never changes. An edit makes the next one of it, which shares all levels that the edit
//! does not touch, and all tables that it keeps.
//!
//! **Invariants**, held against every edit, also those that come from a file:
//! - a number names one table of one level;
//! - from level 1 on tables are sorted, and a user key lies in one table (but see `file` for open
//!   bounds);
//! - a table refers to blob files of the version, to no more of them than there is; a blob file
//!   that no table refers to is not in the version;
//! - level 0 is sorted by sequence numbers, the largest first. Two of its tables that share a user
//!   key hold disjoint ranges of sequence numbers. That is owed by whoever writes the tables, and
//!   not checked: tables of one flush may share sequence numbers if they do not share keys.
//!
//! LevelDB's versions count their readers; ours are in an `Arc`. A pointer, the place where the
//! next compaction of a level begins, is part of the version, so that the choice of a compaction is
//! a function of it.

mod edit;
mod fence;
mod file;
mod stored_options;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use edit::VersionEdit;
pub(crate) use file::FileMeta;
pub(crate) use stored_options::StoredOptions;

use crate::blob::BlobUse;
use crate::iterator::Bounds;
use crate::key::Comparator;
use fence::Fences;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Levels of a store.
pub(crate) const LEVELS: usize = 7;

/// The level that nothing lies below.
pub(crate) const LAST_LEVEL: usize = LEVELS - 1;

/// An edit that does not fit a version, or a version that cannot be, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tables of a level.
#[derive(Default)]
struct Level {
    files: Vec<Arc<FileMeta>>,
    bytes: u64,
    /// Tables with many tombstones.
    dense: usize,
    /// Where the order is that of bytes, from level 1 on.
    fences: Option<Fences>,
}

/// A set of tables. See the module documentation.
#[derive(Clone)]
pub(crate) struct Version {
    order: Comparator,
    levels: [Arc<Level>; LEVELS],
    /// The last user key that a compaction of the level took, empty at first.
    pointers: [Arc<[u8]>; LEVELS],
    /// The blob files that its tables refer to, by number.
    blobs: Arc<BTreeMap<u64, BlobUse>>,
    /// Bytes of the records in them, and of those that no table refers to.
    blob_bytes: (u64, u64),
}

impl Version {
    /// No tables.
    pub(crate) fn new(order: Comparator) -> Self {
        Version {
            order,
            levels: Default::default(),
            pointers: Default::default(),
            blobs: Arc::default(),
            blob_bytes: (0, 0),
        }
    }

    /// The order of the keys.
    pub(crate) fn order(&self) -> &Comparator {
        &self.order
    }

    /// The tables of a level: level 0 newest first, others by key.
    pub(crate) fn files(&self, level: usize) -> &[Arc<FileMeta>] {
        &self.levels[level].files
    }

    /// Bytes of the tables of a level.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.levels[level].bytes
    }

    /// Bytes of all tables.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).fold(0, u64::saturating_add)
    }

    /// Tables of a level of which a large part is tombstones.
    pub(crate) fn dense_files(&self, level: usize) -> usize {
        self.levels[level].dense
    }

    /// The last user key that a compaction of the level took; empty if there was none.
    pub(crate) fn pointer(&self, level: usize) -> &[u8] {
        &self.pointers[level]
    }

    /// The numbers of all tables and blob files.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let tables = self.levels.iter().flat_map(|level| &level.files).map(|file| file.number);
        tables.chain(self.blobs.keys().copied())
    }

    /// The blob files that its tables refer to, by number.
    pub(crate) fn blobs(&self) -> &BTreeMap<u64, BlobUse> {
        &self.blobs
    }

    /// Bytes of the records in its blob files, and of those of them that no table refers to.
    pub(crate) fn blob_bytes(&self) -> (u64, u64) {
        self.blob_bytes
    }

    /// How many tables of a level from 1 on are wholly before `key`: the index of the one that
    /// holds it, if any does. O(log n), without allocation.
    #[inline]
    pub(crate) fn position(&self, level: usize, key: &[u8]) -> usize {
        debug_assert!(level > 0, "level 0 has no order of keys");
        let Level { files, fences, .. } = &*self.levels[level];
        let open = fences.as_ref().map_or(0..files.len(), |fences| fences.search(key));
        open.start + files[open].partition_point(|file| file.ends_before(key, &self.order))
    }

    /// The index of the one table of a level from 1 on that may hold `key`. O(log n), without
    /// allocation.
    #[inline]
    pub(crate) fn find(&self, level: usize, key: &[u8]) -> Option<usize> {
        let at = self.position(level, key);
        let file = self.files(level).get(at)?;
        (self.order.user(file.first(), key) != Ordering::Greater).then_some(at)
    }

    /// The tables of a level that may hold `key`: newest first of level 0, at most one of others.
    /// O(n) in level 0, O(log n) elsewhere, without allocation.
    #[cfg(test)]
    pub(crate) fn files_for_key<'a>(
        &'a self,
        level: usize,
        key: &'a [u8],
    ) -> impl Iterator<Item = &'a Arc<FileMeta>> {
        let files = self.files(level);
        let near = match level {
            0 => files,
            _ => self.find(level, key).map_or(&[][..], |at| &files[at..=at]),
        };
        near.iter().filter(move |file| level > 0 || file.spans(key, &self.order))
    }

    /// The tables of a level with keys from `low` to `high`, both included; nothing is an open end.
    /// O(n) in level 0, O(log n + tables) elsewhere, without allocation.
    pub(crate) fn overlapping<'a>(
        &'a self,
        level: usize,
        low: Option<&'a [u8]>,
        high: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<FileMeta>> {
        let files = self.files(level);
        let begins = move |file: &FileMeta| {
            high.is_none_or(|high| self.order.user(file.first(), high) != Ordering::Greater)
        };
        let near = if level == 0 {
            files
        } else {
            let files = &files[low.map_or(0, |low| self.position(level, low))..];
            &files[..files.partition_point(|file| begins(file))]
        };
        let ends = move |file: &FileMeta| low.is_none_or(|low| !file.ends_before(low, &self.order));
        near.iter().filter(move |file| level > 0 || (begins(file) && ends(file)))
    }

    /// Which tables of a level from 1 on may hold a key within `bounds`. O(log n), without
    /// allocation.
    pub(crate) fn within(&self, level: usize, bounds: &Bounds) -> Range<usize> {
        let from = bounds.low_key().map_or(0, |low| self.position(level, low));
        let files = &self.files(level)[from..];
        let begins = |file: &Arc<FileMeta>| !bounds.end_before(file.first(), &self.order);
        from..from + files.partition_point(begins)
    }

    /// Whether a level below `level` may hold `key`: if none does, a tombstone of it that nobody
    /// older looks at has nothing left to hide. O(levels x log n), without allocation.
    pub(crate) fn holds_below(&self, level: usize, key: &[u8]) -> bool {
        (level + 1..LEVELS).any(|below| self.find(below, key).is_some())
    }

    /// Whether a level below `level` has tables with keys from `low` to `high`, both included.
    pub(crate) fn overlaps_below(
        &self,
        level: usize,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
    ) -> bool {
        (level + 1..LEVELS).any(|below| self.overlapping(below, low, high).next().is_some())
    }

    /// The version after an edit. O(tables of the levels that it touches + numbers of all).
    ///
    /// # Errors
    /// The edit removes what is not there, adds what is there, or breaks an invariant.
    pub(crate) fn apply(&self, edit: &VersionEdit) -> Result<Version, Invalid> {
        let mut touched: [Option<Vec<Arc<FileMeta>>>; LEVELS] = Default::default();
        for &(level, number) in &edit.deleted {
            let files = self.touch(&mut touched, level)?;
            let at = files.iter().position(|file| file.number == number);
            let at = at.ok_or_else(|| {
                Invalid(format!("table {number} is removed from level {level}, where it is not"))
            })?;
            files.remove(at);
        }
        let mut added = HashSet::new();
        for (level, file) in &edit.added {
            file.check(&self.order)?;
            self.touch(&mut touched, *level)?;
            if !added.insert(file.number) {
                return Err(Invalid(format!("table {} is added twice", file.number)));
            }
        }
        let kept = |level: usize| touched[level].as_deref().unwrap_or(self.files(level));
        let twice = |file: &&Arc<FileMeta>| added.contains(&file.number);
        if let Some(file) = (0..LEVELS).flat_map(kept).find(twice) {
            return Err(Invalid(format!("table {} is added, and there already", file.number)));
        }
        for (level, file) in &edit.added {
            self.touch(&mut touched, *level)?.push(Arc::clone(file));
        }
        let mut next = self.clone();
        for (level, files) in touched.into_iter().enumerate() {
            if let Some(files) = files {
                next.levels[level] = Arc::new(Level::new(level, files, &self.order)?);
            }
        }
        for (level, key) in &edit.pointers {
            let pointer = next.pointers.get_mut(*level).ok_or_else(|| no_level(*level))?;
            *pointer = key.as_slice().into();
        }
        let refers = edit.added.iter().any(|(_, file)| !file.blobs.is_empty());
        if refers || !edit.blobs.is_empty() || !self.blobs.is_empty() {
            next.blobs = Arc::new(self.count_blobs(edit, &next)?);
            let add = |(all, dead): (u64, u64), blob: &BlobUse| {
                let all = all.saturating_add(blob.meta.record_bytes);
                (all, dead.saturating_add(blob.dead_bytes()))
            };
            next.blob_bytes = next.blobs.values().fold((0, 0), add);
        }
        Ok(next)
    }

    /// What the tables of `next` refer to of the blob files of this version and of the edit.
    fn count_blobs(
        &self,
        edit: &VersionEdit,
        next: &Version,
    ) -> Result<BTreeMap<u64, BlobUse>, Invalid> {
        let known = self.blobs.values().map(|blob| (blob.meta.number, BlobUse::new(blob.meta)));
        let mut blobs: BTreeMap<u64, BlobUse> = known.collect();
        for meta in &edit.blobs {
            if blobs.insert(meta.number, BlobUse::new(*meta)).is_some() {
                return Err(Invalid(format!("blob file {} is added twice", meta.number)));
            }
        }
        for file in next.levels.iter().flat_map(|level| &level.files) {
            for share in &file.blobs {
                let blob = blobs.get_mut(&share.file).ok_or_else(|| {
                    let (table, blob) = (file.number, share.file);
                    Invalid(format!("table {table} refers to blob file {blob}, which is not there"))
                })?;
                blob.live_records = blob.live_records.saturating_add(share.records);
                blob.live_bytes = blob.live_bytes.saturating_add(share.bytes);
                let BlobUse { meta, live_records, live_bytes } = blob;
                if *live_records > meta.records || *live_bytes > meta.record_bytes {
                    let number = meta.number;
                    return Err(Invalid(format!(
                        "tables refer to more than blob file {number} has"
                    )));
                }
            }
        }
        blobs.retain(|_, blob| blob.live_records > 0);
        Ok(blobs)
    }

    /// The tables of a level that an edit changes.
    fn touch<'a>(
        &self,
        touched: &'a mut [Option<Vec<Arc<FileMeta>>>; LEVELS],
        level: usize,
    ) -> Result<&'a mut Vec<Arc<FileMeta>>, Invalid> {
        let files = touched.get_mut(level).ok_or_else(|| no_level(level))?;
        Ok(files.get_or_insert_with(|| self.levels[level].files.clone()))
    }
}

fn no_level(level: usize) -> Invalid {
    Invalid(format!("there is no level {level}"))
}

impl Level {
    /// Sorts and checks.
    fn new(
        level: usize,
        mut files: Vec<Arc<FileMeta>>,
        order: &Comparator,
    ) -> Result<Level, Invalid> {
        if level == 0 {
            files.sort_by_key(|file| Reverse((file.sequence_max, file.sequence_min, file.number)));
        } else {
            files.sort_by(|a, b| order.internal(&a.smallest, &b.smallest));
            for pair in files.windows(2) {
                if !pair[0].ends_before(pair[1].first(), order) {
                    let (one, other) = (pair[0].number, pair[1].number);
                    let what = format!("tables {one} and {other} of level {level} share keys");
                    return Err(Invalid(what));
                }
            }
        }
        let fences = (level > 0 && order.is_bytewise())
            .then(|| Fences::new(files.iter().map(|file| file.last())));
        let bytes = files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        let dense = files.iter().filter(|file| file.is_dense()).count();
        Ok(Level { files, bytes, dense, fences })
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.order.name() == other.order.name()
            && self.pointers == other.pointers
            && self.blobs == other.blobs
            && (0..LEVELS).all(|level| self.files(level) == other.files(level))
    }
}

impl fmt::Debug for Version {
    /// A line for each table, under its level.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for level in (0..LEVELS).filter(|level| !self.files(*level).is_empty()) {
            writeln!(f, "level {level}")?;
            for file in self.files(level) {
                writeln!(f, "  {file:?}")?;
            }
        }
        for BlobUse { meta, live_records, live_bytes } in self.blobs.values() {
            let (number, records, bytes) = (meta.number, meta.records, meta.record_bytes);
            writeln!(
                f,
                "blob {number}: {live_records} of {records} records, {live_bytes} of {bytes} bytes"
            )?;
        }
        Ok(())
    }
}
