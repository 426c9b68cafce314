//! A record of the log: the changes of one batch of requests.
//!
//! ```text
//!   +--------+-------------------------------------------+-----
//!   | format |  what | key bytes | row bytes | key | row  |  ...
//!   |  u8    |  u8   |   u32     |    u32    |     |      |
//!   +--------+-------------------------------------------+-----
//!     what: 1 put, the row with its version; 2 remove, 3 clear: the version, 8 bytes, is the row
//! ```
//!
//! An entry contains the whole row and its version. So entries may be applied in any order, from
//! any number of logs, and more than once. The log replays a record whole or not at all, which
//! makes a batch atomic.
//!
//! A row is built in the record: the tree copies the bytes of the entry.
//!
//! The format is 2 if a key is reserved (see `keys`) or a row is a header, and 1 otherwise: an
//! earlier version refuses format 2. In a record of format 1 a key that begins like a reserved one
//! is a user key that was not escaped.

use crate::Row;
use crate::keys;
use crate::row::{COLLECTION, KIND_MASK, set_version};

/// The format of records without elements, headers and escaped keys.
const FORMAT: u8 = 1;
/// The format of records with them.
const FORMAT_OF_ELEMENTS: u8 = 2;
/// Bytes before the first entry.
pub(crate) const RECORD_HEAD_BYTES: usize = 1;
/// Bytes of an entry before its key.
pub(crate) const ENTRY_BYTES: usize = 9;
/// Bytes of a version, which takes the place of the row in a removal.
const VERSION_BYTES: usize = 8;

/// Bytes of an entry, from the bytes of its key and its row; a removal has no row. Limits are
/// checked with this before a record is built.
pub(crate) fn entry_bytes(key_bytes: usize, row_bytes: Option<usize>) -> usize {
    ENTRY_BYTES.saturating_add(key_bytes).saturating_add(row_bytes.unwrap_or(VERSION_BYTES))
}

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const CLEAR: u8 = 3;

/// One change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    /// The key has this row.
    Put { key: &'a [u8], row: Row<'a> },
    /// The key was removed.
    Remove { key: &'a [u8], version: u64 },
    /// All rows up to this version were removed.
    Clear { version: u64 },
}

/// The offsets of an entry that is being built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenEntry {
    start: usize,
    row: usize,
}

/// A record that is being built.
#[derive(Debug)]
pub(crate) struct Record {
    bytes: Vec<u8>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Record { bytes: vec![FORMAT] }
    }

    /// Whether the record has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == RECORD_HEAD_BYTES
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops all entries, and the whole buffer if it has more than `keep` bytes.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.truncate(RECORD_HEAD_BYTES);
        self.bytes[0] = FORMAT;
        // A buffer that is shrunk or grown again would be copied with all that it can hold.
        if self.bytes.capacity() > keep {
            *self = Record::new();
        }
    }

    /// Begins an entry about `key`. It ends with one of `put`, `remove`, `cancel`.
    pub(crate) fn begin(&mut self, key: &[u8]) -> OpenEntry {
        let start = self.bytes.len();
        let key_bytes = u32::try_from(key.len()).expect("a key is shorter than 4 GiB");
        self.bytes.reserve(ENTRY_BYTES + key.len());
        self.bytes.push(PUT);
        self.bytes.extend_from_slice(&key_bytes.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(key);
        OpenEntry { start, row: self.bytes.len() }
    }

    /// Where the row of the entry that was begun last is to be appended.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes of the row of the entry that was begun last.
    pub(crate) fn row_bytes(&self, entry: OpenEntry) -> usize {
        self.bytes.len() - entry.row
    }

    /// The row of the entry that was begun last.
    pub(crate) fn row(&self, entry: OpenEntry) -> &[u8] {
        &self.bytes[entry.row..]
    }

    /// Ends the entry as one that puts the row that was appended.
    pub(crate) fn put(&mut self, entry: OpenEntry, version: u64) {
        set_version(&mut self.bytes[entry.row..], version);
        self.end(entry, PUT);
    }

    /// Ends the entry as one that removes the key, whatever was appended.
    pub(crate) fn remove(&mut self, entry: OpenEntry, version: u64) {
        self.bytes.truncate(entry.row);
        self.bytes.extend_from_slice(&version.to_le_bytes());
        self.end(entry, REMOVE);
    }

    /// Removes the entry from the record.
    pub(crate) fn cancel(&mut self, entry: OpenEntry) {
        self.bytes.truncate(entry.start);
    }

    /// Adds an entry that clears everything up to `version`.
    pub(crate) fn push_clear(&mut self, version: u64) {
        let entry = self.begin(b"");
        self.bytes.extend_from_slice(&version.to_le_bytes());
        self.end(entry, CLEAR);
    }

    fn end(&mut self, entry: OpenEntry, what: u8) {
        let row_bytes = u32::try_from(self.bytes.len() - entry.row);
        let row_bytes = row_bytes.expect("a row is shorter than 4 GiB");
        self.bytes[entry.start] = what;
        let is_header = what == PUT && self.bytes[entry.row] & KIND_MASK == COLLECTION;
        if is_header || keys::is_reserved(&self.bytes[entry.start + ENTRY_BYTES..entry.row]) {
            self.bytes[0] = FORMAT_OF_ELEMENTS;
        }
        self.bytes[entry.start + 5..entry.start + ENTRY_BYTES]
            .copy_from_slice(&row_bytes.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |n| u32::from_le_bytes(*n))
}

/// The entries of a record.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    format: u8,
}

/// An offset in a record, and what is wrong there.
pub(crate) type Damage = (usize, &'static str);

impl<'a> Entries<'a> {
    /// The entries of a record from a log.
    pub(crate) fn of(record: &'a [u8]) -> Result<Self, Damage> {
        match record.first() {
            Some(&format @ (FORMAT | FORMAT_OF_ELEMENTS)) => {
                Ok(Entries { bytes: record, at: RECORD_HEAD_BYTES, format })
            }
            Some(_) => Err((0, "a record of an unknown format")),
            None => Err((0, "a record without a format")),
        }
    }

    /// Entries that follow each other without the head of a record.
    pub(crate) fn bare(bytes: &'a [u8]) -> Self {
        Entries { bytes, at: 0, format: FORMAT_OF_ELEMENTS }
    }

    /// Whether keys that begin like reserved ones are user keys.
    pub(crate) fn has_plain_keys(&self) -> bool {
        self.format == FORMAT
    }

    /// The next entry, with its bytes. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Entry<'a>, &'a [u8])>, Damage> {
        let start = self.at;
        if start == self.bytes.len() {
            return Ok(None);
        }
        let rest = &self.bytes[start..];
        let Some(head) = rest.first_chunk::<ENTRY_BYTES>() else {
            return Err((start, "an entry ends in its head"));
        };
        let (key_bytes, row_bytes) = (number(head, 1) as u64, number(head, 5) as u64);
        let end = ENTRY_BYTES as u64 + key_bytes + row_bytes;
        if end > rest.len() as u64 {
            return Err((start, "an entry ends after its record"));
        }
        let bytes = &rest[..end as usize];
        let (key, row) = bytes[ENTRY_BYTES..].split_at(key_bytes as usize);
        let version = row.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let version = version.filter(|_| row.len() == 8);
        let entry = match (head[0], version) {
            (PUT, _) => Row::check(row).map(|row| Entry::Put { key, row }),
            (REMOVE, Some(version)) => Some(Entry::Remove { key, version }),
            (CLEAR, Some(version)) if key.is_empty() => Some(Entry::Clear { version }),
            _ => None,
        };
        self.at += bytes.len();
        match entry {
            Some(entry) => Ok(Some((entry, bytes))),
            None => Err((start, "an entry of an unknown kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::encode_value;

    fn sample() -> Record {
        let mut record = Record::new();
        let entry = record.begin(b"key");
        encode_value(b"value", 0, 0, record.tail());
        record.put(entry, 7);
        let entry = record.begin(b"");
        encode_value(b"dropped", 0, 0, record.tail());
        record.remove(entry, 8);
        let entry = record.begin(b"cancelled");
        record.cancel(entry);
        record.push_clear(9);
        record
    }

    #[test]
    fn entries_come_back_with_their_versions() {
        let record = sample();
        let mut entries = Entries::of(record.bytes()).unwrap();
        let mut seen = Vec::new();
        while let Some((entry, _)) = entries.next().unwrap() {
            seen.push(match entry {
                Entry::Put { key, row } => (key, row.version(), row.value()),
                Entry::Remove { key, version } => (key, version, &b"removed"[..]),
                Entry::Clear { version } => (&b"*"[..], version, &b"cleared"[..]),
            });
        }
        let expected: [(&[u8], u64, &[u8]); 3] =
            [(b"key", 7, b"value"), (b"", 8, b"removed"), (b"*", 9, b"cleared")];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_format_tells_whether_there_are_elements() {
        let mut record = sample();
        assert_eq!(record.bytes()[0], FORMAT);
        let entry = record.begin(&keys::ElementKey::new(1, b"name"));
        encode_value(b"value", 0, 0, record.tail());
        record.put(entry, 10);
        assert_eq!(record.bytes()[0], FORMAT_OF_ELEMENTS);
        assert!(!Entries::of(record.bytes()).unwrap().has_plain_keys());
        record.clear(usize::MAX);
        let (mut buf, entry) = (crate::RowBuf::new(), record.begin(b"key"));
        buf.collection(1);
        buf.encode(0, record.tail());
        assert_eq!(record.bytes()[0], FORMAT, "it is not known yet");
        record.put(entry, 11);
        assert_eq!(record.bytes()[0], FORMAT_OF_ELEMENTS);
    }

    #[test]
    fn a_record_cut_anywhere_or_of_any_other_byte_is_damage_or_other_entries() {
        let whole = sample();
        for cut in 0..whole.bytes().len() {
            let Ok(mut entries) = Entries::of(&whole.bytes()[..cut]) else { continue };
            while let Ok(Some(_)) = entries.next() {}
        }
        for at in 0..whole.bytes().len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.bytes().to_vec();
                bytes[at] = byte;
                let Ok(mut entries) = Entries::of(&bytes) else { continue };
                while let Ok(Some(_)) = entries.next() {}
            }
        }
    }
}
