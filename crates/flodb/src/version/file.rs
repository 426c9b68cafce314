//! What is known of a table without opening it.
//!
//! The bounds are internal keys. No two tables of a level from 1 on share a user key, with one
//! exception: a range tombstone ends *before* a key, and a table that holds one may have that
//! key as its largest, with the sequence number [`SEQUENCE_MAX`] that no write has. Such a bound is
//! *open*: the table says nothing about the key itself, and the next table may begin with it.

use super::Invalid;
use crate::key::{Comparator, SEQUENCE_MAX, append, parse, user_of};
use crate::table::TableMeta;
use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};

/// A table is rewritten for its tombstones alone if at least one entry in this many is a tombstone.
const DENSE_SHARE: u64 = 4;

/// A table of a version. The numbers never change.
#[derive(Default)]
pub(crate) struct FileMeta {
    /// Of the file's name.
    pub(crate) number: u64,
    /// Of the file.
    pub(crate) bytes: u64,
    /// The first internal key; where ranges are removed, the beginning of the first.
    pub(crate) smallest: Vec<u8>,
    /// The last internal key, or an open bound.
    pub(crate) largest: Vec<u8>,
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    /// Tombstones of keys and of ranges.
    pub(crate) deletes: u64,
    /// Tombstones of ranges.
    pub(crate) range_deletes: u64,
    /// The smallest sequence number of an entry.
    pub(crate) sequence_min: u64,
    /// The largest sequence number of an entry.
    pub(crate) sequence_max: u64,
    /// The sequence number of all entries, if the file has 0 in its place: it was made outside of
    /// the store, and taken in at this moment.
    pub(crate) sequence: Option<u64>,
    /// That of the table, see [`TableMeta::checksum`]; 0 if an earlier program added it.
    pub(crate) checksum: u64,
    /// Whether a compaction reads it now. Written by `compaction::InProgressCompactions` alone,
    /// under the lock that guards the choice of compactions, and read under it.
    pub(crate) being_compacted: AtomicBool,
}

impl FileMeta {
    /// The user key of the first entry.
    pub(crate) fn first(&self) -> &[u8] {
        user_of(&self.smallest)
    }

    /// The user key of the last entry, or the one that an open bound stops before.
    pub(crate) fn last(&self) -> &[u8] {
        user_of(&self.largest)
    }

    /// Whether the table holds nothing of its last user key.
    pub(crate) fn is_open(&self) -> bool {
        parse(&self.largest).is_some_and(|largest| largest.sequence == SEQUENCE_MAX)
    }

    /// Whether all user keys of the table are before `key`.
    #[inline]
    pub(crate) fn ends_before(&self, key: &[u8], order: &Comparator) -> bool {
        match order.user(self.last(), key) {
            Ordering::Less => true,
            Ordering::Equal => self.is_open(),
            Ordering::Greater => false,
        }
    }

    /// Whether the table may hold `key`.
    #[inline]
    pub(crate) fn spans(&self, key: &[u8], order: &Comparator) -> bool {
        order.user(self.first(), key) != Ordering::Greater && !self.ends_before(key, order)
    }

    /// Whether tombstones are a large part of the table, or hide one perhaps: those of ranges.
    pub(crate) fn is_dense(&self) -> bool {
        self.range_deletes > 0
            || self.deletes > 0 && self.deletes >= self.entries.div_ceil(DENSE_SHARE)
    }

    /// Whether a compaction reads it now.
    pub(crate) fn is_being_compacted(&self) -> bool {
        // Relaxed: the lock that guards the choice of compactions orders it.
        self.being_compacted.load(AtomicOrdering::Relaxed)
    }

    pub(crate) fn set_being_compacted(&self, claimed: bool) {
        self.being_compacted.store(claimed, AtomicOrdering::Relaxed);
    }

    /// What is to be said of a table from outside, whose entries get this sequence number.
    pub(crate) fn stamped(number: u64, meta: &TableMeta, sequence: u64) -> Self {
        let bound = |stored: &[u8]| {
            let mut bound = Vec::new();
            if let Some(parsed) = parse(stored) {
                append(&mut bound, parsed.user, sequence, parsed.kind);
            }
            bound
        };
        FileMeta {
            number,
            bytes: meta.bytes,
            smallest: bound(&meta.smallest),
            largest: bound(&meta.largest),
            entries: meta.entries,
            deletes: meta.deletes,
            sequence_min: sequence,
            sequence_max: sequence,
            sequence: Some(sequence),
            checksum: meta.checksum,
            ..FileMeta::default()
        }
    }

    /// Whether this is said of the table that has `meta`. An open bound may lie behind its entries.
    pub(crate) fn describes(&self, meta: &TableMeta, order: &Comparator) -> bool {
        let same_bound = |bound: &[u8], stored: &[u8]| match (self.sequence, parse(bound)) {
            (Some(_), Some(bound)) => parse(stored).is_some_and(|stored| {
                (bound.user, bound.kind, 0) == (stored.user, stored.kind, stored.sequence)
            }),
            _ => bound == stored,
        };
        let sequences = match self.sequence {
            Some(_) => (0, 0),
            None => (self.sequence_min, self.sequence_max),
        };
        let reaches = self.is_open() && order.internal(&meta.largest, &self.largest).is_lt();
        let same_checksum = self.checksum == 0 || self.checksum == meta.checksum;
        same_checksum
            && (self.bytes, self.entries, self.deletes) == (meta.bytes, meta.entries, meta.deletes)
            && self.range_deletes == meta.range_deletes
            && sequences == (meta.sequence_min, meta.sequence_max)
            && same_bound(&self.smallest, &meta.smallest)
            && (reaches || same_bound(&self.largest, &meta.largest))
    }

    /// Holds the numbers against each other.
    pub(crate) fn check(&self, order: &Comparator) -> Result<(), Invalid> {
        let wrong = |what: &str| Err(Invalid(format!("table {}: {what}", self.number)));
        if parse(&self.smallest).is_none() || parse(&self.largest).is_none() {
            return wrong("a bound is no internal key");
        }
        if order.internal(&self.smallest, &self.largest) == Ordering::Greater {
            return wrong("its first key is after its last");
        }
        if self.entries == 0 || self.deletes > self.entries || self.range_deletes > self.deletes {
            return wrong("its counts of entries contradict each other");
        }
        if self.sequence_min > self.sequence_max || self.sequence_max >= SEQUENCE_MAX {
            return wrong("its sequence numbers contradict each other");
        }
        if self.sequence.is_some_and(|own| own != self.sequence_min || own != self.sequence_max) {
            return wrong("it has sequence numbers beside the one of all its entries");
        }
        Ok(())
    }
}

impl PartialEq for FileMeta {
    /// By what is written down; a claim is of the moment.
    fn eq(&self, other: &Self) -> bool {
        let numbers = |file: &FileMeta| {
            let sequences = (file.sequence_min, file.sequence_max, file.sequence);
            let removals = (file.deletes, file.range_deletes);
            (file.number, file.bytes, file.entries, removals, sequences, file.checksum)
        };
        numbers(self) == numbers(other)
            && self.smallest == other.smallest
            && self.largest == other.largest
    }
}

impl fmt::Debug for FileMeta {
    /// `7: 4096 bytes, a@3 .. c@1, 3 entries, 1 removal, sequences 1 to 3`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |key: &[u8]| match parse(key) {
            Some(key) if key.sequence == SEQUENCE_MAX => {
                format!("before {}", key.user.escape_ascii())
            }
            Some(key) => format!("{}@{}", key.user.escape_ascii(), key.sequence),
            None => "?".to_owned(),
        };
        let Self { number, bytes, entries, deletes, range_deletes, .. } = self;
        let Self { sequence_min, sequence_max, .. } = self;
        write!(
            f,
            "{number}: {bytes} bytes, {} .. {}, ",
            bound(&self.smallest),
            bound(&self.largest)
        )?;
        write!(f, "{entries} entries, {deletes} removals, ")?;
        if *range_deletes > 0 {
            write!(f, "{range_deletes} of ranges, ")?;
        }
        write!(f, "sequences {sequence_min} to {sequence_max}")
    }
}
