//! The writes of a transaction that is not committed: a batch, and where in it each key is.
//!
//! ```text
//!   batch     put a 1 | put b 1 | put a 2 | delete [b, c) | put d 1
//!   entries      0         1         2            3            4       a: 2, 0   b: 1   d: 4
//! ```
//!
//! The batch is what the log gets, so a commit copies nothing. Of a key, the last write counts; a
//! range delete counts for all keys of its range, against the writes before it: see `own_ranges`. A
//! return to a save point cuts the end off.

use super::hash_index::HashIndex;
use super::own_ranges::OwnRanges;
use super::read_set::{High, KeyRange};
use crate::batch::{Batch, Write};
use crate::expiry::{self, Expiry};
use crate::key::{Comparator, Kind};
use std::ops::Range;

/// Bytes of a write beside its key and its value, at most: kind and two lengths.
const WRITE_BYTES_MAX: usize = 21;

#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    batch: Batch,
    entries: Vec<Entry>,
    index: HashIndex,
    /// Those of the entries that delete ranges.
    ranges: OwnRanges,
}

/// A write, in the bytes of the batch.
#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    begin: usize,
    key: Range<usize>,
    value: Range<usize>,
}

/// What the buffer says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own<'a> {
    /// Nothing: the store has to be asked.
    Unknown,
    Deleted,
    Value(&'a [u8]),
    /// Operands, see [`WriteBuffer::operands`].
    Operands,
}

impl WriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Removes everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.entries.clear();
        self.index.truncate(0);
        self.ranges.clear();
    }

    /// Bytes of memory that it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        self.batch.capacity() + size_of::<Entry>() * self.entries.capacity()
    }

    /// The write and the hash of its key, if there is a single one, and of a key.
    pub(crate) fn single(&self) -> Option<(Write<'_>, u64)> {
        let [entry] = &self.entries[..] else { return None };
        let (key, value) = (self.bytes(&entry.key), self.bytes(&entry.value));
        let write = Write { kind: entry.kind, key, value };
        (entry.kind != Kind::DeleteRange).then_some((write, self.hashes()[0]))
    }

    /// How many writes there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the batch with one more write, at most.
    pub(super) fn bytes_with(&self, key: &[u8], value: &[u8]) -> usize {
        self.batch.bytes() + WRITE_BYTES_MAX + key.len() + value.len()
    }

    /// Adds a write. `hash` is that of its key.
    pub(super) fn push(&mut self, write: Write<'_>, hash: u64, order: &Comparator) {
        let Write { kind, key, value } = write;
        let begin = self.batch.bytes();
        self.batch.reserve(WRITE_BYTES_MAX + key.len() + value.len());
        self.batch.push(write);
        let end = self.batch.bytes();
        let value_at = end - value.len();
        // A delete has no value, nor the length of one.
        let value_head = if kind == Kind::Delete { 0 } else { varint_bytes(value.len()) };
        let key_end = value_at - value_head;
        let key = key_end - key.len()..key_end;
        self.entries.push(Entry { kind, begin, key, value: value_at..end });
        if kind == Kind::DeleteRange {
            let WriteBuffer { batch, entries, ranges, .. } = self;
            ranges.push(entries.len() - 1, order, |at| range_of(batch, &entries[at]));
        }
        self.index.push(hash);
    }

    /// Forgets all writes but the first `len`.
    pub(super) fn truncate(&mut self, len: usize, order: &Comparator) {
        // There are no more than that.
        let Some(first) = self.entries.get(len) else { return };
        let bytes = first.begin;
        let WriteBuffer { batch, entries, ranges, index } = self;
        ranges.truncate(len, order, |at| range_of(batch, &entries[at]));
        entries.truncate(len);
        index.truncate(len);
        batch.truncate(bytes, len as u64, ranges.numbers().len() as u64);
    }

    /// What the key would hold after a commit, as far as that is known here.
    ///
    /// What has expired by `time_ms` is not there.
    pub(super) fn get(&self, key: &[u8], hash: u64, order: &Comparator, time_ms: u64) -> Own<'_> {
        let is_it = |at: usize| {
            let entry = &self.entries[at];
            entry.kind != Kind::DeleteRange && self.bytes(&entry.key) == key
        };
        let found = self.index.find(hash, is_it);
        if self.is_deleted_after(found, key, order) {
            return Own::Deleted;
        }
        match found.map(|at| &self.entries[at]) {
            None => Own::Unknown,
            Some(entry) if entry.kind == Kind::Merge => Own::Operands,
            Some(entry) => self.value_of(entry, time_ms).map_or(Own::Deleted, Own::Value),
        }
    }

    /// When the value expires that the writes leave of a key, below its operands if there are some.
    /// `None` if the store has to be asked. What is not there by `time_ms` never expires.
    pub(super) fn expiry_of(&self, key: &[u8], order: &Comparator, time_ms: u64) -> Option<Expiry> {
        for (at, entry) in self.entries.iter().enumerate().rev() {
            let is_range = entry.kind == Kind::DeleteRange;
            if is_range && self.covers(at, key, order) {
                return Some(Expiry::Never);
            }
            if is_range || entry.kind == Kind::Merge || self.bytes(&entry.key) != key {
                continue;
            }
            let is_there = self.value_of(entry, time_ms).is_some();
            return Some(match entry.kind {
                Kind::PutExpiring if is_there => {
                    Expiry::At(expiry::split_whole(self.bytes(&entry.value)).0)
                }
                _ => Expiry::Never,
            });
        }
        None
    }

    /// The operands that were written last of a key, the oldest first, and what is below them:
    /// nothing if the store has to be asked, else the value, if there is one.
    pub(super) fn operands(
        &self,
        key: &[u8],
        order: &Comparator,
        time_ms: u64,
    ) -> (Option<Option<Vec<u8>>>, Vec<Vec<u8>>) {
        let (mut below, mut operands) = (None, Vec::new());
        for (at, entry) in self.entries.iter().enumerate().rev() {
            let is_range = entry.kind == Kind::DeleteRange;
            if is_range && self.covers(at, key, order) {
                below = Some(None);
                break;
            }
            if is_range || self.bytes(&entry.key) != key {
                continue;
            }
            if entry.kind != Kind::Merge {
                below = Some(self.value_of(entry, time_ms).map(<[u8]>::to_vec));
                break;
            }
            operands.push(self.bytes(&entry.value).to_vec());
        }
        operands.reverse();
        (below, operands)
    }

    /// Whether the range delete at `at` has the key in its range.
    fn covers(&self, at: usize, key: &[u8], order: &Comparator) -> bool {
        let (from, to) = range_of(&self.batch, &self.entries[at]);
        order.user(from, key).is_le() && order.user(key, to).is_lt()
    }

    /// The keys whose last write is an operand.
    pub(super) fn keys_with_operands(&self, order: &Comparator) -> Vec<Vec<u8>> {
        let merged = self.entries.iter().zip(self.index.hashes());
        let merged = merged.filter(|(entry, _)| entry.kind == Kind::Merge);
        let mut keys: Vec<Vec<u8>> = merged
            .filter(|(entry, hash)| {
                self.get(self.bytes(&entry.key), **hash, order, 0) == Own::Operands
            })
            .map(|(entry, _)| self.bytes(&entry.key).to_vec())
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The value that a write leaves; of an operand the operand; none if it deletes, or has
    /// expired.
    fn value_of(&self, entry: &Entry, time_ms: u64) -> Option<&[u8]> {
        let value = self.bytes(&entry.value);
        match entry.kind {
            Kind::Put | Kind::Merge => Some(value),
            Kind::PutExpiring => {
                let (expires_ms, value) = expiry::split_whole(value);
                (expires_ms > time_ms).then_some(value)
            }
            Kind::Delete | Kind::DeleteRange | Kind::Blob => None,
        }
    }

    /// The keys that were written one by one, with their hashes; some of them several times.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let entries = self.entries.iter().zip(self.index.hashes());
        let of_keys = entries.filter(|(entry, _)| entry.kind != Kind::DeleteRange);
        of_keys.map(|(entry, hash)| (self.bytes(&entry.key), *hash))
    }

    /// The hash of the key of each write, in the order of the batch.
    pub(crate) fn hashes(&self) -> &[u64] {
        self.index.hashes()
    }

    /// The ranges that are deleted.
    pub(crate) fn ranges(&self) -> Vec<KeyRange> {
        let range = |at: &usize| {
            let entry = &self.entries[*at];
            let bytes = |part| self.bytes(part).to_vec();
            let high = High::Before(bytes(&entry.value));
            KeyRange { low: Some(bytes(&entry.key)), high }
        };
        self.ranges.numbers().iter().map(range).collect()
    }

    /// The last write of each key, in order: its value, or that it is deleted. Keys of which a
    /// range delete is the last write are not among them.
    ///
    /// What has expired by `time_ms` counts as deleted.
    pub(super) fn sorted(
        &self,
        order: &Comparator,
        time_ms: u64,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let is_of_key = |at: &usize| self.entries[*at].kind != Kind::DeleteRange;
        let mut entries: Vec<usize> = (0..self.entries.len()).filter(is_of_key).collect();
        let key = |at: usize| self.bytes(&self.entries[at].key);
        entries.sort_by(|a, b| order.user(key(*a), key(*b)).then(b.cmp(a)));
        entries.dedup_by(|later, kept| key(*later) == key(*kept));
        entries.retain(|at| !self.is_deleted_after(Some(*at), key(*at), order));
        let copy = |at: usize| {
            let entry = &self.entries[at];
            let value = self.value_of(entry, time_ms).map(<[u8]>::to_vec);
            (key(at).to_vec(), value)
        };
        entries.into_iter().map(copy).collect()
    }

    /// Whether a range delete has the key in its range that came after the write at `at`.
    fn is_deleted_after(&self, at: Option<usize>, key: &[u8], order: &Comparator) -> bool {
        let range = |at: usize| range_of(&self.batch, &self.entries[at]);
        self.ranges.newest(key, at, order, range).is_some()
    }

    fn bytes(&self, part: &Range<usize>) -> &[u8] {
        &self.batch.entries()[part.clone()]
    }
}

/// The first key that a range delete of the batch deletes, and the first behind it.
fn range_of<'b>(batch: &'b Batch, entry: &Entry) -> (&'b [u8], &'b [u8]) {
    (&batch.entries()[entry.key.clone()], &batch.entries()[entry.value.clone()])
}

/// Bytes of a varint.
fn varint_bytes(value: usize) -> usize {
    (usize::BITS - value.leading_zeros()).div_ceil(7).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::hash;
    use crate::key::Compare;
    use keyrack_testkit::random::{Announced, Draw, seeds};
    use std::cmp::Ordering;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering as AtomicOrdering};

    const NOW_MS: u64 = 1_000;

    fn key(draw: &mut Draw) -> Vec<u8> {
        vec![b'k'; draw.below(3)].into_iter().chain([draw.below(20) as u8]).collect()
    }

    /// What a list of writes says of a key: nothing, deleted, or a value.
    fn expected(list: &[(Kind, Vec<u8>, Vec<u8>)], key: &[u8]) -> Option<Option<Vec<u8>>> {
        let mut writes = list.iter().rev();
        let found = writes.find(|(kind, from, to)| match kind {
            Kind::DeleteRange => &**from <= key && key < &**to,
            _ => from == key,
        });
        found.map(|(kind, _, value)| match kind {
            Kind::Put => Some(value.clone()),
            Kind::PutExpiring => {
                let (expires_ms, value) = expiry::split(value).unwrap();
                (expires_ms > NOW_MS).then(|| value.to_vec())
            }
            _ => None,
        })
    }

    #[test]
    fn a_buffer_answers_as_the_list_of_its_writes() {
        let order = Comparator::Bytewise;
        for seed in seeds() {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            let (mut buffer, mut list) = (WriteBuffer::default(), Vec::new());
            // Of few range deletes, and of many.
            let share = if seed % 2 == 0 { 24 } else { 7 };
            for _ in 0..1_500 {
                let (one, other) = (key(&mut draw), key(&mut draw));
                let (kind, value) = match draw.below(share) {
                    0 => (Kind::DeleteRange, other),
                    1..6 => (Kind::Delete, Vec::new()),
                    6..9 => {
                        let expires_ms = NOW_MS - 1 + draw.below(3) as u64;
                        (Kind::PutExpiring, expiry::stored(expires_ms, b"for a while"))
                    }
                    _ => (Kind::Put, vec![b'v'; [0, 5, 127, 128, 20_000][draw.below(5)]]),
                };
                buffer.push(Write { kind, key: &one, value: &value }, hash(&one), &order);
                list.push((kind, one, value));
                if draw.one_in(30) {
                    let len = list.len() - draw.below(list.len().min(40));
                    buffer.truncate(len, &order);
                    list.truncate(len);
                }
                let asked = key(&mut draw);
                let got = buffer.get(&asked, hash(&asked), &order, NOW_MS);
                let got = match got {
                    Own::Unknown => None,
                    Own::Deleted => Some(None),
                    Own::Value(value) => Some(Some(value.to_vec())),
                    Own::Operands => panic!("there are none"),
                };
                assert_eq!(got, expected(&list, &asked), "{asked:?}");
                assert_eq!((buffer.len(), buffer.batch().len()), (list.len(), list.len() as u64));
            }
            let sorted = buffer.sorted(&order, NOW_MS);
            let shown: BTreeMap<_, _> = sorted.iter().cloned().collect();
            assert_eq!(shown.len(), sorted.len(), "a key comes twice");
            assert!(sorted.is_sorted_by(|a, b| a.0 < b.0));
            for (key, value) in &sorted {
                assert_eq!(expected(&list, key).as_ref(), Some(value));
            }
            let writes: Vec<_> = buffer.batch().writes().collect();
            assert_eq!(writes.len(), list.len());
            for (write, (kind, key, value)) in writes.iter().zip(&list) {
                assert_eq!((write.kind, write.key, write.value), (*kind, &key[..], &value[..]));
            }
        }
    }

    /// The order of bytes, which counts how often it is asked.
    struct Counted(AtomicUsize);

    impl Compare for Counted {
        fn name(&self) -> &str {
            "test.counted"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            self.0.fetch_add(1, AtomicOrdering::Relaxed);
            a.cmp(b)
        }
    }

    /// Comparisons that `act` makes with a buffer of `ranges` range deletes.
    fn comparisons(ranges: u32, act: impl Fn(&mut WriteBuffer, &Comparator, u32)) -> f64 {
        let counted = Arc::new(Counted(AtomicUsize::new(0)));
        let order = Comparator::Custom(Arc::clone(&counted) as Arc<_>);
        act(&mut WriteBuffer::default(), &order, ranges);
        counted.0.load(AtomicOrdering::Relaxed) as f64
    }

    fn delete_range(buffer: &mut WriteBuffer, order: &Comparator, n: u32) {
        let from = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        let to = n.wrapping_mul(0x9e37_79b9).saturating_add(1 << 16).to_be_bytes();
        let write = Write { kind: Kind::DeleteRange, key: &from, value: &to };
        buffer.push(write, hash(&from), order);
    }

    fn put_and_get(buffer: &mut WriteBuffer, order: &Comparator, n: u32) {
        let key = n.wrapping_mul(0x85eb_ca6b).to_be_bytes();
        buffer.get(&key, hash(&key), order, 0);
        buffer.push(Write { kind: Kind::Put, key: &key, value: b"" }, hash(&key), order);
    }

    /// Four times as many range deletes cost little more than four times as much, in whatever order
    /// they, reads, and returns to save points come.
    #[test]
    fn range_deletes_do_not_cost_their_square() {
        let deletes_and_gets = |buffer: &mut WriteBuffer, order: &Comparator, ranges| {
            for n in 0..ranges {
                delete_range(buffer, order, n);
                put_and_get(buffer, order, n);
            }
            buffer.sorted(order, 0);
        };
        // Each fourth delete is taken back, one by one.
        let returns = |buffer: &mut WriteBuffer, order: &Comparator, ranges| {
            for n in 0..ranges {
                let len = buffer.len();
                delete_range(buffer, order, n);
                put_and_get(buffer, order, n);
                if n % 4 == 0 {
                    buffer.truncate(len, order);
                }
            }
        };
        // All of them are taken back, the last one first.
        let unwinding = |buffer: &mut WriteBuffer, order: &Comparator, ranges| {
            (0..ranges).for_each(|n| delete_range(buffer, order, n));
            for len in (0..ranges as usize).rev() {
                buffer.truncate(len, order);
                buffer.get(b"k", hash(b"k"), order, 0);
            }
        };
        type Act = fn(&mut WriteBuffer, &Comparator, u32);
        let acts: [(&str, Act); 3] =
            [("gets", deletes_and_gets), ("returns", returns), ("unwinding", unwinding)];
        for (what, act) in acts {
            let [few, many] = [1_000, 16_000].map(|ranges| comparisons(ranges, act));
            assert!(few > 1_000.0, "{what}: {few} comparisons are counted");
            // 16 ranges times as many, and logarithms of at most twice the size, squared: 16 x 2.
            assert!(many / few < 40.0, "{what}: {few} and {many} comparisons");
        }
    }
}
