//! Writing operands, and reading what they make of a value. `crate::merge` has the rule.
//!
//! A merge writes an operand and reads nothing but the newest entry that the active memtable has of
//! its key: one slot of the hash table, which the insert touches in any case. If that is a short
//! value or a tombstone, the merge writes the new value in place of an operand. So counters that
//! are in memory are read as fast as others. If it is the last of [`OPERANDS_MAX`] operands, the
//! whole value is read and written: so no reader folds many more. A value that expires is written
//! as it was, with one operand for all on it, which outlives it. All of that happens under the lock
//! of the key, and the log has what the memtable has.

use super::background_error::is_retryable;
use super::read::{ExpiryQuestion, ReadPoint, Target, visit_blob};
use super::write::RECORD_BYTES;
use super::{Db, Inner};
use crate::batch::{Batch, Write};
use crate::checksum::hash;
use crate::error::Result;
use crate::key::{Kind, SEQUENCE_MAX};
use crate::memtable::Memtable;
use crate::merge::Merges;
use crate::read_state::ReadState;
use crate::table::ReadOptions;
use crate::version::{LEVELS, VersionEdit};
use keyrack_concurrent::pin;
use keyrack_store::WriteOptions;

/// So many operands of a key are in a memtable before its value is written.
const OPERANDS_MAX: usize = 16;

/// A longer value is not written for the sake of one operand.
const SHORT_BYTES: usize = 64;

impl Db {
    /// Adds an operand to what `key` has, by the [`merge_operator`] of the options. Nothing is
    /// read: readers put value and operands together, and compactions do.
    ///
    /// A value that operands make long is written as a whole with every sixteenth operand of a
    /// memtable, so it should have some KiB at most.
    ///
    /// [`merge_operator`]: field@crate::Options::merge_operator
    ///
    /// ```
    /// use keyrack_flodb::{Counter, Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new().merge_operator(Counter))?;
    /// for _ in 0..3 {
    ///     db.merge(b"visits", &1_i64.to_le_bytes())?;
    /// }
    /// assert_eq!(db.get(b"visits")?, Some(3_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if the store has no merge operator, or if the operand
    /// does not fit a value that is at hand; if it is not, reads of the key fail later. As for
    /// [`Db::put`], and those of reading.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// As [`Db::merge`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Append, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let options = Options::new().merge_operator(Append::new(b","));
    /// # let db = Db::open_in(fs, "/store".as_ref(), options)?;
    /// db.merge_with(b"names", b"ada", WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::merge`].
    pub fn merge_with(&self, key: &[u8], operand: &[u8], options: WriteOptions) -> Result<()> {
        let inner = self.inner();
        inner.use_operands()?;
        inner.admit(RECORD_BYTES + key.len() + operand.len())?;
        let hash = hash(key);
        let held = inner.write_path.key_locks.lock(hash);
        let end = match inner.merged_ahead(key, hash, operand)? {
            Ahead::Operand => {
                inner.log_one(Write { kind: Kind::Merge, key, value: operand }, hash)?
            }
            Ahead::Value(value) => {
                inner.log_one(Write { kind: Kind::Put, key, value: &value }, hash)?
            }
            Ahead::Expiring(batch) => inner.log_batch(&batch)?,
        };
        drop(held);
        inner.sync_if_asked(end, options)
    }
}

/// What an entry of a key is to those that fold.
pub(super) enum Below {
    /// There is no value, or it was removed, or has expired.
    Nothing,
    Value(Vec<u8>),
    /// A value that may still expire.
    Expiring(Vec<u8>),
}

/// What a merge writes.
enum Ahead {
    Operand,
    /// The value, in place of its operand.
    Value(Vec<u8>),
    /// The value below, which expires, and one operand for all on it.
    Expiring(Batch),
}

impl Inner {
    /// The merge operator.
    pub(crate) fn merges(&self) -> &Merges {
        &self.tables.iterators
    }

    /// Sees to it that the manifest has the name of the merge operator. No lock of a key is held.
    pub(super) fn use_operands(&self) -> Result<()> {
        // It has the name.
        let Some(name) = self.merges().name_to_store()? else { return Ok(()) };
        self.check_poison()?;
        let merge_operator = Some(name.to_owned());
        let edit = VersionEdit { merge_operator, ..VersionEdit::default() };
        self.install(&edit, (&[], &[]), None).inspect_err(|error| {
            if !is_retryable(error) {
                self.poison(error);
            }
        })?;
        self.merges().set_used();
        Ok(())
    }

    /// What a merge writes. The lock of the key is held, so what is found is the newest.
    fn merged_ahead(&self, key: &[u8], hash: u64, operand: &[u8]) -> Result<Ahead> {
        let guard = pin();
        let ReadPoint { read_state, sequence } = self.read_point(&guard, None);
        let memtable = read_state.active();
        // A look at the ranges would be dearer than an operand.
        if memtable.has_range_tombstones() {
            return Ok(Ahead::Operand);
        }
        let merges = self.merges();
        let merged = |below: Option<&[u8]>, operands: &[&[u8]]| {
            merges.merge(key, below, operands).map(Ahead::Value)
        };
        match memtable.find(key, hash, SEQUENCE_MAX) {
            Some((Kind::Put, _, value)) if value.len() <= SHORT_BYTES => {
                merged(Some(value), &[operand])
            }
            Some((Kind::Delete, ..)) => merged(None, &[operand]),
            Some((Kind::Merge, newest, _)) if is_long(memtable, key, hash, newest) => {
                let question = ExpiryQuestion::new(None);
                let target = Target::new((key, hash), sequence, ReadOptions::default());
                let target = Target { expiry: Some(&question), ..target };
                let (below, mut operands) = self.gather(read_state, target)?;
                operands.push(operand.to_vec());
                let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
                match (below, question.expires_ms()) {
                    (Below::Expiring(value), Some(expires_ms)) => {
                        let Some(all) = merges.combine_all(key, &operands) else {
                            return Ok(Ahead::Operand);
                        };
                        let mut batch = Batch::new();
                        batch.put_until(key, &value, expires_ms);
                        batch.merge(key, &all);
                        Ok(Ahead::Expiring(batch))
                    }
                    (Below::Value(value), _) => merged(Some(&value), &operands),
                    (Below::Nothing | Below::Expiring(_), _) => merged(None, &operands),
                }
            }
            _ => Ok(Ahead::Operand),
        }
    }

    /// The value of a key whose newest entry is an operand.
    #[cold]
    #[inline(never)]
    pub(super) fn get_merged<R>(
        &self,
        read_state: &ReadState,
        target: &Target<'_>,
        visit: Option<impl FnOnce(&[u8]) -> R>,
    ) -> Result<Option<R>> {
        let (below, operands) = self.gather(read_state, *target)?;
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let below = match &below {
            Below::Nothing => None,
            Below::Value(value) | Below::Expiring(value) => Some(&value[..]),
        };
        let value = self.merges().merge(target.key, below, &operands)?;
        Ok(visit.map(|visit| visit(&value)))
    }

    /// The operands that a reader sees above the newest other entry of a key, the oldest first, and
    /// that entry. One search for each.
    fn gather(
        &self,
        read_state: &ReadState,
        mut target: Target<'_>,
    ) -> Result<(Below, Vec<Vec<u8>>)> {
        let mut operands = Vec::new();
        // An operand is newer than every range tombstone of its key that this reader sees.
        let below = loop {
            // Nothing of the key is left.
            let Some((kind, sequence, stored)) = self.newest(read_state, target)? else {
                break Below::Nothing;
            };
            match kind {
                Kind::Merge => operands.push(stored),
                Kind::Put => break Below::Value(stored),
                Kind::Delete | Kind::DeleteRange => break Below::Nothing,
                Kind::PutExpiring => {
                    let value = self.unless_expired(&target, &stored)?;
                    let value = value.map(|value| Below::Expiring(value.to_vec()));
                    break value.unwrap_or(Below::Nothing);
                }
                Kind::Blob => {
                    let verify = target.options.verify_checksums;
                    let (key, copy) = ((target.key, sequence), Some(<[u8]>::to_vec));
                    let value = visit_blob(read_state, &stored, key, verify, copy)?;
                    break Below::Value(value.expect("a visitor was given, and called"));
                }
            }
            // Nothing is older than the first number.
            let Some(before) = sequence.checked_sub(1) else { break Below::Nothing };
            target.sequence = before;
        };
        operands.reverse();
        Ok((below, operands))
    }

    /// The newest entry of a key that a reader sees: its kind, its number, and what is stored. None
    /// if a range tombstone hides it.
    fn newest(
        &self,
        read_state: &ReadState,
        target: Target<'_>,
    ) -> Result<Option<(Kind, u64, Vec<u8>)>> {
        let Target { key, hash, sequence, options, .. } = target;
        let take = |kind, written, stored: &[u8]| (kind, written, stored.to_vec());
        for memtable in read_state.memtables_at(sequence) {
            let floor = memtable.floor(key, sequence);
            let found = memtable.get(key, hash, sequence, take);
            if found.is_some() || floor > 0 {
                return Ok(found.filter(|(_, written, _)| *written >= floor));
            }
        }
        let order = &self.options.comparator;
        let of_level0 = read_state.levels[0].iter().filter(|table| table.file().spans(key, order));
        let below = (1..LEVELS).filter_map(|level| {
            let at = read_state.version.find(level, key)?;
            Some(&read_state.levels[level][at])
        });
        for table in of_level0.chain(below) {
            let table = table.table();
            let floor = table.floor(key, sequence);
            let found = table.get(key, hash, sequence, &options, None, take)?;
            if found.is_some() || floor > 0 {
                return Ok(found.filter(|(_, written, _)| *written >= floor));
            }
        }
        Ok(None)
    }
}

/// Whether the newest entries of a key in a memtable are [`OPERANDS_MAX`] operands, the newest of
/// them at this number.
fn is_long(memtable: &Memtable, key: &[u8], hash: u64, newest: u64) -> bool {
    let mut sequence = newest;
    for _ in 1..OPERANDS_MAX {
        let before = sequence.checked_sub(1).and_then(|it| memtable.find(key, hash, it));
        match before {
            Some((Kind::Merge, older, _)) => sequence = older,
            _ => return false,
        }
    }
    true
}
