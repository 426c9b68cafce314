//! What is known of a table without opening it.
//!
//! The bounds are internal keys. No two tables of a level from 1 on share a user key, with one
//! exception: a range tombstone ends *before* a key, and a table that holds one may have that
//! key as its largest, with the sequence number [`SEQUENCE_MAX`] that no write has. Such a bound is
//! *open*: the table says nothing about the key itself, and the next table may begin with it.

use super::Invalid;
use crate::blob::BlobShare;
use crate::expiry::ExpiryCount;
use crate::key::{Comparator, SEQUENCE_MAX, append, parse, user_of};
use crate::table::TableMeta;
use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};

/// A table is rewritten for its tombstones alone if at least one entry in this many is a tombstone.
const DENSE_SHARE: u64 = 4;

/// A table of a version. The numbers never change.
#[derive(Clone, Default, PartialEq)]
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
    /// The blob files that the table refers to, ascending.
    pub(crate) blobs: Vec<BlobShare>,
    /// Its values that expire.
    pub(crate) expiries: ExpiryCount,
    /// Whether a compaction reads it now. Written by `compaction::InProgressCompactions` alone,
    /// under the lock that guards the choice of compactions, and read under it.
    pub(crate) being_compacted: BeingCompacted,
}

/// A claim is of the moment: it belongs to no copy, and tells no two tables apart.
#[derive(Default)]
pub(crate) struct BeingCompacted(AtomicBool);

impl Clone for BeingCompacted {
    fn clone(&self) -> Self {
        BeingCompacted::default()
    }
}

impl PartialEq for BeingCompacted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
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
        self.being_compacted.0.load(AtomicOrdering::Relaxed)
    }

    pub(crate) fn set_being_compacted(&self, claimed: bool) {
        self.being_compacted.0.store(claimed, AtomicOrdering::Relaxed);
    }

    /// What the manifest holds of a new table.
    pub(crate) fn new(number: u64, meta: TableMeta) -> Self {
        FileMeta {
            number,
            bytes: meta.bytes,
            smallest: meta.smallest,
            largest: meta.largest,
            entries: meta.entries,
            deletes: meta.deletes,
            range_deletes: meta.range_deletes,
            sequence_min: meta.sequence_min,
            sequence_max: meta.sequence_max,
            checksum: meta.checksum,
            blobs: meta.blobs,
            expiries: meta.expiries,
            ..FileMeta::default()
        }
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
            smallest: bound(&meta.smallest),
            largest: bound(&meta.largest),
            sequence_min: sequence,
            sequence_max: sequence,
            sequence: Some(sequence),
            ..FileMeta::new(number, meta.clone())
        }
    }

    /// Whether this is said of the table that has `meta`.
    pub(crate) fn describes(&self, meta: &TableMeta, order: &Comparator) -> bool {
        self.difference(meta, order).is_none()
    }

    /// What a table says of itself that this does not say of it: the two are written together, so
    /// one of them belongs to another table. `None` if they agree.
    pub(crate) fn difference(&self, meta: &TableMeta, order: &Comparator) -> Option<String> {
        let same_bound = |bound: &[u8], stored: &[u8]| match (self.sequence, parse(bound)) {
            (Some(_), Some(bound)) => parse(stored).is_some_and(|stored| {
                (bound.user, bound.kind, 0) == (stored.user, stored.kind, stored.sequence)
            }),
            _ => bound == stored,
        };
        let (sequence_min, sequence_max) = match self.sequence {
            Some(_) => (0, 0),
            None => (self.sequence_min, self.sequence_max),
        };
        let numbers = [
            ("bytes", self.bytes, meta.bytes),
            ("entries", self.entries, meta.entries),
            ("removals", self.deletes, meta.deletes),
            ("removed ranges", self.range_deletes, meta.range_deletes),
            ("as its first sequence number", sequence_min, meta.sequence_min),
            ("as its last sequence number", sequence_max, meta.sequence_max),
        ];
        if let Some((what, there, here)) = numbers.iter().find(|(_, there, here)| there != here) {
            return Some(format!("it has {here} {what}, not {there}"));
        }
        if self.blobs != meta.blobs {
            return Some("it refers to other blob files".to_owned());
        }
        if self.expiries != meta.expiries {
            return Some("it has other expiries".to_owned());
        }
        if !same_bound(&self.smallest, &meta.smallest) {
            return Some("it begins with another key".to_owned());
        }
        // An open bound is where a range tombstone ends, behind the last entry.
        let reaches = self.is_open() && order.internal(&meta.largest, &self.largest).is_lt();
        if !reaches && !same_bound(&self.largest, &meta.largest) {
            return Some("it ends with another key".to_owned());
        }
        let same = self.checksum == 0 || self.checksum == meta.checksum;
        (!same).then(|| "its checksum is another".to_owned())
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
        let referred = self.blobs.iter().map(|share| share.records).fold(0, u64::saturating_add);
        if referred > self.entries - self.deletes {
            return wrong("it refers to more blob records than it has values");
        }
        if !self.expiries.fits(self.entries - self.deletes) {
            return wrong("its counts of values that expire contradict each other");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;
    use crate::key::tests::internal;

    #[test]
    fn every_difference_to_the_manifest_is_seen() {
        let order = Comparator::Bytewise;
        let table = TableMeta {
            bytes: 1000,
            entries: 10,
            deletes: 3,
            range_deletes: 1,
            smallest: internal(b"b", 5, Kind::Put),
            largest: internal(b"y", 9, Kind::Delete),
            sequence_min: 5,
            sequence_max: 20,
            raw_bytes: 500,
            replaced: 0,
            blobs: vec![BlobShare { file: 3, records: 2, bytes: 200 }],
            expiries: ExpiryCount { count: 2, first_ms: 7, last_ms: 9 },
            operands: 0,
            checksum: 77,
        };
        let seen = |change: fn(&mut FileMeta)| {
            let mut file = FileMeta::new(7, table.clone());
            change(&mut file);
            file.difference(&table, &order)
        };
        assert_eq!(seen(|_| {}), None);
        let found = |change| seen(change).expect("a difference");
        assert_eq!(found(|file| file.bytes += 1), "it has 1000 bytes, not 1001");
        assert!(found(|file| file.entries -= 1).contains("entries"));
        assert!(found(|file| file.deletes = 1).contains("removals"));
        assert!(found(|file| file.range_deletes = 0).contains("ranges"));
        assert!(found(|file| file.sequence_min = 4).contains("first sequence"));
        assert!(found(|file| file.sequence_max = 21).contains("last sequence"));
        assert!(found(|file| file.smallest = internal(b"b", 6, Kind::Put)).contains("begins"));
        assert!(found(|file| file.largest = internal(b"y", 9, Kind::Put)).contains("ends"));
        assert!(found(|file| file.largest = internal(b"z", 1, Kind::Put)).contains("ends"));
        assert!(found(|file| file.blobs[0].bytes = 201).contains("blob files"));
        assert!(found(|file| file.expiries.last_ms = 8).contains("expiries"));
        assert!(found(|file| file.checksum = 78).contains("checksum"));
        assert_eq!(seen(|file| file.checksum = 0), None, "an earlier program has not written it");
        // An open bound may lie behind the entries, but not before them.
        let open = |user| internal(user, SEQUENCE_MAX, Kind::DeleteRange);
        let mut file = FileMeta::new(7, table.clone());
        file.largest = open(b"z");
        assert_eq!(file.difference(&table, &order), None);
        file.largest = open(b"x");
        assert!(file.difference(&table, &order).is_some());
    }
}
