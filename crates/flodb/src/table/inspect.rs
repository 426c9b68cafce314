//! The check of a whole table: every block, every entry, every number of the properties.
//!
//! A block counts as a whole. It is sound if its bytes pass their checksum, its entries ascend and
//! lie between the separators around it; only then are its entries given to anybody. So what comes
//! out of a damaged table is in order, and was written.

use super::format::{BlockType, read_block};
use super::properties::TableMeta;
use super::reader::Table;
use crate::blob::{BlobIndex, add_share};
use crate::block::{Block, Damage};
use crate::checksum::hash;
use crate::error::{Error, Result};
use crate::expiry;
use crate::key::{self, Kind};
use crate::range_tombstones::RangeTombstone;
use std::cmp::Ordering;

/// What is wrong with an entry whose value is in a blob file that it does not name.
const NO_BLOB_INDEX: &str = "a value in a blob file without its place";

/// What is wrong with a value that expires, and is too short to say when.
pub(super) const NO_EXPIRY: &str = "a value that expires without its expiry";

/// Something that is wrong in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsound {
    /// Where, in bytes of the file.
    pub(crate) offset: u64,
    pub(crate) what: String,
    /// Where the entries are that cannot be read; `None` if all can.
    pub(crate) lost: Option<Lost>,
}

/// The internal keys between which entries are lost. `None` is an open end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The last that is before them.
    pub(crate) after: Option<Vec<u8>>,
    /// They do not go beyond this one.
    pub(crate) until: Option<Vec<u8>>,
}

/// Receives the entries of a table: internal keys as the file has them, and values.
pub(crate) type Entries<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

impl Table {
    /// Checks everything. O(bytes).
    ///
    /// # Errors
    /// [`Error::Corruption`] with the first thing that is wrong; errors of the file system.
    pub(crate) fn verify(&self) -> Result<()> {
        self.verify_each(&mut |_, _| Ok(()))
    }

    /// As [`Table::verify`], and shows the entries of sound blocks.
    ///
    /// # Errors
    /// As for [`Table::verify`], and those of `entry`.
    pub(crate) fn verify_each(&self, entry: &mut Entries<'_>) -> Result<()> {
        let mut first = None;
        self.inspect(entry, &mut |unsound| {
            first.get_or_insert(unsound);
        })?;
        match first {
            None => Ok(()),
            Some(Unsound { offset, what, .. }) => Err(Error::corruption(self.path(), offset, what)),
        }
    }

    /// Reads every block, past the cache. Gives the entries of the sound ones to `entry`, in order,
    /// and all that is wrong to `unsound`. O(bytes).
    ///
    /// # Errors
    /// Those of the file system, and of `entry`. Damage is none.
    pub(crate) fn inspect(
        &self,
        entry: &mut Entries<'_>,
        unsound: &mut dyn FnMut(Unsound),
    ) -> Result<()> {
        let mut seen = Seen::default();
        let mut is_whole = true;
        for index in 0..self.index.len() {
            let before = index.checked_sub(1).map(|before| self.index.separator(before));
            let offset = self.index.block(index).offset;
            let sound = match self.read(index, true) {
                Ok(block) => self.check_block(&block, index).map(|()| block),
                Err(error) => Err(error.into_damage()?.1),
            };
            match sound {
                Ok(block) => {
                    let given = block.verify(&self.comparator, |key, value| {
                        seen.add(self, key, value);
                        entry(key, value).map_err(Stop::Asked)
                    });
                    given.map_err(|stop| match stop {
                        Stop::Asked(error) => error,
                        Stop::Block(damage) => self.damage(index, damage),
                    })?;
                }
                Err(what) => {
                    is_whole = false;
                    let until = Some(self.index.separator(index).to_vec());
                    let lost = Some(Lost { after: before.map(<[u8]>::to_vec), until });
                    unsound(Unsound { offset, what, lost });
                }
            }
        }
        let end = |what: &str| Unsound { offset: self.data_bytes, what: what.into(), lost: None };
        if seen.missed_by_filter {
            unsound(end("a filter without a key that is there"));
        }
        if seen.missed_by_prefixes {
            unsound(end("a prefix filter without the prefix of a key that is there"));
        }
        for stored in self.unused_filters.iter().copied() {
            if let Err(error) = self.file.with(|file| read_block(file, stored, BlockType::Filter)) {
                let what = error.into_damage()?.1;
                unsound(Unsound { offset: stored.offset, what, lost: None });
            }
        }
        (seen.meta.bytes, seen.meta.checksum) = (self.meta.bytes, self.meta.checksum);
        // Early tables do not say it.
        seen.meta.replaced = if self.meta.replaced > 0 { seen.replaced } else { 0 };
        let mut listed: Vec<RangeTombstone> =
            self.range_tombstones.iter().flat_map(|index| index.ranges()).collect();
        if self.ranges_among_entries {
            seen.meta.range_deletes = listed.len() as u64;
        } else {
            listed.iter().for_each(|range| seen.meta.count_range(range, &self.comparator));
        }
        if is_whole && seen.meta != self.meta {
            unsound(end("properties of other entries than there are"));
        }
        let among = |ranges: &mut Vec<RangeTombstone>| ranges.sort_by_key(|range| range.sequence);
        among(&mut listed);
        among(&mut seen.ranges);
        if is_whole && self.ranges_among_entries && seen.ranges != listed {
            unsound(end("a list of other range deletes than there are"));
        }
        Ok(())
    }

    /// Whether a block is sound, and in its place.
    fn check_block(&self, block: &Block, index: usize) -> std::result::Result<(), String> {
        let before = index.checked_sub(1).map(|before| self.index.separator(before));
        let separator = self.index.separator(index);
        let mut is_first = true;
        let checked = block.verify(&self.comparator, |key, value| {
            match key::parse(key) {
                None => return Err(Wrong::Entry("an entry of an unknown kind")),
                Some(parsed) if parsed.kind == Kind::DeleteRange && !self.ranges_among_entries => {
                    return Err(Wrong::Entry("a range delete among the entries"));
                }
                Some(parsed) if parsed.kind == Kind::Blob && BlobIndex::take(value).is_none() => {
                    return Err(Wrong::Entry(NO_BLOB_INDEX));
                }
                Some(parsed)
                    if parsed.kind == Kind::PutExpiring && expiry::split(value).is_none() =>
                {
                    return Err(Wrong::Entry(NO_EXPIRY));
                }
                Some(_) => {}
            }
            let begins = |before| self.comparator.internal(before, key) == Ordering::Less;
            if std::mem::take(&mut is_first) && !before.is_none_or(begins) {
                return Err(Wrong::Entry("a block that begins before the separator before it"));
            }
            if self.comparator.internal(key, separator) == Ordering::Greater {
                return Err(Wrong::Entry("a block that ends behind its separator"));
            }
            Ok(())
        });
        checked.map_err(|wrong| match wrong {
            Wrong::Entry(what) => what.to_owned(),
            Wrong::Block(damage) => format!("{} at its byte {}", damage.what, damage.at),
        })
    }
}

/// What can be wrong with a block.
enum Wrong {
    Block(Damage),
    Entry(&'static str),
}

impl From<Damage> for Wrong {
    fn from(damage: Damage) -> Self {
        Wrong::Block(damage)
    }
}

/// Why the entries of a block are not given to the end.
enum Stop {
    Block(Damage),
    Asked(Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Stop::Block(damage)
    }
}

/// The entries so far, counted as the writer does.
struct Seen {
    meta: TableMeta,
    ranges: Vec<RangeTombstone>,
    replaced: u64,
    missed_by_filter: bool,
    missed_by_prefixes: bool,
}

impl Default for Seen {
    fn default() -> Self {
        let meta = TableMeta { sequence_min: u64::MAX, ..TableMeta::default() };
        Seen {
            meta,
            ranges: Vec::new(),
            replaced: 0,
            missed_by_filter: false,
            missed_by_prefixes: false,
        }
    }
}

impl Seen {
    fn add(&mut self, table: &Table, internal_key: &[u8], value: &[u8]) {
        let parsed = key::parse(internal_key).expect("the kinds of the block were checked");
        let meta = &mut self.meta;
        let may_contain =
            |user| table.filter.as_ref().is_none_or(|it| it.may_contain(user, hash(user)));
        self.missed_by_filter |= !may_contain(parsed.user);
        self.missed_by_prefixes |=
            table.prefix_filter.as_ref().is_some_and(|it| it.misses(parsed.user));
        if meta.entries == 0 {
            meta.smallest = internal_key.to_vec();
        } else {
            self.replaced += u64::from(key::user_of(&meta.largest) == parsed.user);
        }
        meta.largest.clear();
        meta.largest.extend_from_slice(internal_key);
        meta.entries += 1;
        meta.deletes += u64::from(parsed.kind.is_removal());
        meta.operands += u64::from(parsed.kind == Kind::Merge);
        if let Some(index) = BlobIndex::take(value).filter(|_| parsed.kind == Kind::Blob) {
            add_share(&mut meta.blobs, index, parsed.user);
        }
        let expiry = expiry::split(value).filter(|_| parsed.kind == Kind::PutExpiring);
        if let Some((expires_ms, _)) = expiry {
            meta.expiries.add(expires_ms);
        }
        meta.sequence_min = meta.sequence_min.min(parsed.sequence);
        meta.sequence_max = meta.sequence_max.max(parsed.sequence);
        meta.raw_bytes += (internal_key.len() + value.len()) as u64;
        if parsed.kind == Kind::DeleteRange {
            let (begin, end) = (parsed.user.to_vec(), value.to_vec());
            self.ranges.push(RangeTombstone { begin, end, sequence: parsed.sequence });
        }
    }
}
