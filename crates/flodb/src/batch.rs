//! Writes that happen together, and how the log holds them.
//!
//! ```text
//!   payload of a record = count: varint | entries
//!   entry               = kind: u8 | key length: varint | key | value length: varint | value
//! ```
//!
//! The entry at index i has the sequence number of the record's LSN plus i; a record is longer
//! than its count, so no number comes twice. A tombstone has no value length and no value. The
//! value of a range tombstone is the first key that stays. A value that expires has its moment in
//! front, see `expiry`. An operand is as a value.

use crate::coding::{Reader, put_string, put_varint};
use crate::expiry;
use crate::key::{Comparator, Kind};
use std::cmp::Ordering;

/// Writes that are applied as one: all or none of them survive, and no reader sees a part.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    entries: Vec<u8>,
    count: u64,
    /// How many of them remove a range.
    ranges: u64,
    /// Whether some of them, or of those that were taken back, expire.
    has_expiring: bool,
    /// The same of operands.
    has_operands: bool,
}

/// One write of a [`Batch`], as [`Batch::iter`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchWrite<'a> {
    /// Stores a value.
    Put {
        /// Under this key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Stores a value that expires.
    PutUntil {
        /// Under this key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When, in milliseconds since 1970.
        expires_ms: u64,
    },
    /// Adds an operand to what the key has.
    Merge {
        /// This key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// Removes a key.
    Delete {
        /// This key.
        key: &'a [u8],
    },
    /// Removes the keys of a range.
    DeleteRange {
        /// The first key that goes.
        from: &'a [u8],
        /// The first key that stays.
        to: &'a [u8],
    },
}

/// One write of a batch. The value of a range tombstone is its end, and that of a value that
/// expires begins with the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Write<'_> {
    /// Whether it changes nothing: it removes the keys of an empty range.
    pub(crate) fn is_void(&self, order: &Comparator) -> bool {
        self.kind == Kind::DeleteRange && order.user(self.key, self.value) != Ordering::Less
    }
}

impl Batch {
    /// An empty batch.
    ///
    /// ```
    /// # use keyrack_flodb::Batch;
    /// assert!(Batch::new().is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Batch::default()
    }

    /// Stores `value` under `key`.
    ///
    /// ```
    /// # use keyrack_flodb::{Batch, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut batch = Batch::new();
    /// batch.put(b"key", b"value");
    /// db.write(&batch, WriteOptions::default())?;
    /// assert!(db.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(Write { kind: Kind::Put, key, value });
    }

    /// Stores `value` under `key` until a moment, in milliseconds since 1970: see
    /// [`Db::put_until`](crate::Db::put_until). A batch knows no clock; that of the store is
    /// [`Db::now_ms`](crate::Db::now_ms).
    ///
    /// ```
    /// # use keyrack_flodb::{Batch, Db, Expiry, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let soon_ms = db.now_ms() + 60_000;
    /// let mut batch = Batch::new();
    /// batch.put_until(b"session", b"ada", soon_ms);
    /// db.write(&batch, WriteOptions::default())?;
    /// assert_eq!(db.expiry(b"session")?, Some(Expiry::At(soon_ms)));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn put_until(&mut self, key: &[u8], value: &[u8], expires_ms: u64) {
        let value = expiry::stored(expires_ms, value);
        self.push(Write { kind: Kind::PutExpiring, key, value: &value });
    }

    /// Adds an operand to what `key` has: see [`Db::merge`](crate::Db::merge).
    ///
    /// ```
    /// # use keyrack_flodb::{Batch, Counter, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let options = Options::new().merge_operator(Counter);
    /// # let db = Db::open_in(fs, "/store".as_ref(), options)?;
    /// let mut batch = Batch::new();
    /// batch.put(b"page/1", b"text");
    /// batch.merge(b"pages", &1_i64.to_le_bytes());
    /// db.write(&batch, WriteOptions::default())?;
    /// assert_eq!(db.get(b"pages")?, Some(1_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        self.push(Write { kind: Kind::Merge, key, value: operand });
    }

    /// Removes `key`.
    ///
    /// ```
    /// # use keyrack_flodb::{Batch, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// let mut batch = Batch::new();
    /// batch.delete(b"key");
    /// db.write(&batch, WriteOptions::default())?;
    /// assert!(!db.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn delete(&mut self, key: &[u8]) {
        self.push(Write { kind: Kind::Delete, key, value: &[] });
    }

    /// Removes the keys from `from` on and before `to`, those that earlier writes of the batch have
    /// stored as well. If `to` is not behind `from`, that is none.
    ///
    /// ```
    /// # use keyrack_flodb::{Batch, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut batch = Batch::new();
    /// batch.put(b"a", b"1");
    /// batch.delete_range(b"a", b"c");
    /// batch.put(b"b", b"2");
    /// db.write(&batch, WriteOptions::default())?;
    /// assert_eq!(db.first()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.push(Write { kind: Kind::DeleteRange, key: from, value: to });
    }

    /// Appends the writes of `other`.
    ///
    /// ```
    /// # use keyrack_flodb::Batch;
    /// let (mut all, mut more) = (Batch::new(), Batch::new());
    /// all.put(b"a", b"1");
    /// more.put(b"b", b"2");
    /// all.append(&more);
    /// assert_eq!(all.len(), 2);
    /// ```
    pub fn append(&mut self, other: &Batch) {
        self.entries.extend_from_slice(&other.entries);
        self.count += other.count;
        self.ranges += other.ranges;
        self.has_expiring |= other.has_expiring;
        self.has_operands |= other.has_operands;
    }

    /// Removes all writes, and keeps the memory.
    ///
    /// ```
    /// # use keyrack_flodb::Batch;
    /// let mut batch = Batch::new();
    /// batch.put(b"key", b"value");
    /// batch.clear();
    /// assert!(batch.is_empty());
    /// ```
    pub fn clear(&mut self) {
        self.entries.clear();
        self.count = 0;
        self.ranges = 0;
        (self.has_expiring, self.has_operands) = (false, false);
    }

    /// How many writes there are.
    ///
    /// ```
    /// # use keyrack_flodb::Batch;
    /// let mut batch = Batch::new();
    /// batch.put(b"key", b"value");
    /// batch.delete(b"key");
    /// assert_eq!(batch.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use keyrack_flodb::Batch;
    /// let mut batch = Batch::new();
    /// assert!(batch.is_empty());
    /// batch.delete(b"key");
    /// assert!(!batch.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The writes, in the order in which they were added.
    ///
    /// ```
    /// use keyrack_flodb::{Batch, BatchWrite};
    /// let mut batch = Batch::new();
    /// batch.put(b"key", b"value");
    /// batch.delete(b"old");
    /// let keys: Vec<&[u8]> = batch
    ///     .iter()
    ///     .map(|write| match write {
    ///         BatchWrite::Put { key, .. } | BatchWrite::PutUntil { key, .. } => key,
    ///         BatchWrite::Delete { key } | BatchWrite::Merge { key, .. } => key,
    ///         BatchWrite::DeleteRange { from, .. } => from,
    ///         _ => unreachable!("there are five kinds"),
    ///     })
    ///     .collect();
    /// assert_eq!(keys, [&b"key"[..], b"old"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = BatchWrite<'_>> {
        self.writes().map(|Write { kind, key, value }| match kind {
            Kind::Put => BatchWrite::Put { key, value },
            Kind::Delete => BatchWrite::Delete { key },
            Kind::DeleteRange => BatchWrite::DeleteRange { from: key, to: value },
            Kind::PutExpiring => {
                let (expires_ms, value) = expiry::split_whole(value);
                BatchWrite::PutUntil { key, value, expires_ms }
            }
            Kind::Merge => BatchWrite::Merge { key, operand: value },
            Kind::Blob => unreachable!("values leave a batch only when tables are written"),
        })
    }

    /// Bytes that the log will hold for it, but for a few.
    ///
    /// ```
    /// # use keyrack_flodb::Batch;
    /// let mut batch = Batch::new();
    /// batch.put(b"key", b"value");
    /// assert!(batch.bytes() >= 8);
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The batch of a record's payload. `None` if it is not one.
    pub(crate) fn from_payload(mut payload: Vec<u8>) -> Option<Batch> {
        let writes = decode(&payload)?;
        let count = writes.len() as u64;
        let of_kind = |kind| writes.iter().filter(|write| write.kind == kind).count() as u64;
        let ranges = of_kind(Kind::DeleteRange);
        let (has_expiring, has_operands) =
            (of_kind(Kind::PutExpiring) > 0, of_kind(Kind::Merge) > 0);
        drop(writes);
        payload.drain(..varint_len(&payload));
        Some(Batch { entries: payload, count, ranges, has_expiring, has_operands })
    }

    pub(crate) fn push(&mut self, write: Write<'_>) {
        append_entry(&mut self.entries, write);
        self.count += 1;
        self.ranges += u64::from(write.kind == Kind::DeleteRange);
        self.has_expiring |= write.kind == Kind::PutExpiring;
        self.has_operands |= write.kind == Kind::Merge;
    }

    /// Takes room for so many bytes of writes.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.entries.reserve(bytes);
    }

    /// Bytes of writes that it has memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Removes all writes but those that are in the first `bytes`: the first `count`, of which
    /// `ranges` remove ranges.
    pub(crate) fn truncate(&mut self, bytes: usize, count: u64, ranges: u64) {
        self.entries.truncate(bytes);
        (self.count, self.ranges) = (count, ranges);
    }

    /// Whether some of them remove ranges.
    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges > 0
    }

    /// Whether some of them may expire.
    pub(crate) fn has_expiring(&self) -> bool {
        self.has_expiring
    }

    /// Whether some of them may be operands.
    pub(crate) fn has_operands(&self) -> bool {
        self.has_operands
    }

    /// The count, as the payload begins.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(10);
        put_varint(&mut head, self.count);
        head
    }

    /// The entries, as the payload goes on.
    pub(crate) fn entries(&self) -> &[u8] {
        &self.entries
    }

    /// The writes, in order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        let mut rest = Reader::new(&self.entries);
        std::iter::from_fn(move || take_entry(&mut rest))
    }
}

fn append_entry(out: &mut Vec<u8>, write: Write<'_>) {
    out.push(write.kind as u8);
    put_string(out, write.key);
    if write.kind != Kind::Delete {
        put_string(out, write.value);
    }
}

/// Bytes of the varint at the beginning.
fn varint_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1
}

fn take_entry<'a>(rest: &mut Reader<'a>) -> Option<Write<'a>> {
    let &[kind] = rest.bytes(1)? else { return None };
    // Values leave the entries later, when tables are written.
    let kind = Kind::from_byte(kind).filter(|kind| *kind != Kind::Blob)?;
    let key = rest.string()?;
    let value = if kind == Kind::Delete { &[] } else { rest.string()? };
    if kind == Kind::PutExpiring {
        expiry::split(value)?;
    }
    Some(Write { kind, key, value })
}

/// The writes of a record's payload. `None` if it is not one.
pub(crate) fn decode(payload: &[u8]) -> Option<Vec<Write<'_>>> {
    let mut rest = Reader::new(payload);
    let count = rest.count()?;
    let writes: Option<Vec<_>> = (0..count).map(|_| take_entry(&mut rest)).collect();
    writes.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(batch: &Batch) -> Vec<u8> {
        [batch.head().as_slice(), batch.entries()].concat()
    }

    #[test]
    fn a_batch_comes_back_from_its_payload() {
        let mut batch = Batch::new();
        batch.put(b"", b"");
        batch.put(b"key", &[7; 300]);
        batch.delete(b"gone");
        let mut other = Batch::new();
        other.put(b"more", b"of it");
        other.delete_range(b"from", b"to");
        batch.append(&other);
        assert_eq!(batch.len(), 5);
        assert!(batch.has_ranges());
        let bytes = payload(&batch);
        let decoded = decode(&bytes).unwrap();
        assert_eq!(decoded, batch.writes().collect::<Vec<_>>());
        assert_eq!(decoded[1].value, [7; 300]);
        assert_eq!(decoded[2].kind, Kind::Delete);
        let again = Batch::from_payload(bytes.clone()).unwrap();
        assert_eq!(again.writes().collect::<Vec<_>>(), decoded);
        assert_eq!((again.len(), again.has_ranges()), (5, true));
        assert_eq!(decoded[4], Write { kind: Kind::DeleteRange, key: b"from", value: b"to" });
        batch.clear();
        assert!(!batch.has_ranges());
        assert!(batch.is_empty() && decode(&payload(&batch)).unwrap().is_empty());
    }

    #[test]
    fn the_writes_of_a_batch_are_shown_in_their_order() {
        let mut batch = Batch::new();
        batch.put(b"", b"value");
        batch.delete(b"gone");
        batch.delete_range(b"from", b"to");
        batch.put_until(b"until", b"then", 1 << 40);
        batch.merge(b"sum", b"1");
        let shown: Vec<_> = batch.iter().collect();
        let expected = [
            BatchWrite::Put { key: b"", value: b"value" },
            BatchWrite::Delete { key: b"gone" },
            BatchWrite::DeleteRange { from: b"from", to: b"to" },
            BatchWrite::PutUntil { key: b"until", value: b"then", expires_ms: 1 << 40 },
            BatchWrite::Merge { key: b"sum", operand: b"1" },
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn only_ranges_can_be_void() {
        let order = Comparator::Bytewise;
        for (from, to, is_void) in [("a", "b", false), ("a", "a", true), ("b", "a", true)] {
            let (key, value) = (from.as_bytes(), to.as_bytes());
            assert_eq!(Write { kind: Kind::DeleteRange, key, value }.is_void(&order), is_void);
            assert!(!Write { kind: Kind::Put, key, value }.is_void(&order));
        }
    }

    #[test]
    fn what_is_cut_or_goes_on_is_no_batch() {
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        batch.delete(b"gone");
        batch.delete_range(b"", b"to");
        batch.put_until(b"until", b"", 7);
        let bytes = payload(&batch);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_none(), "{len} bytes");
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_none());
        assert!(decode(&[0xFF; 9]).is_none());
        let mut short = Batch::new();
        short.push(Write { kind: Kind::PutExpiring, key: b"k", value: &[0; 7] });
        assert!(decode(&payload(&short)).is_none(), "an expiry of seven bytes");
    }
}
