//! A change of the store's state, as a record of the manifest.
//!
//! ```text
//!   record = field*          field = tag: varint | length: varint | body
//!
//!   tag   body                          tag in a table     body
//!     2   comparator: its name            2  level           varint
//!     4   log_from: varint                4  number          varint
//!     6   next_file: varint               6  bytes           varint
//!     8   last_sequence: varint           8  smallest        internal key
//!    10   added: field* of a table       10  largest         internal key
//!    12   deleted: level, number         12  entries         varint
//!    15   pointer: level, key            14  deletes         varint
//!                                        16  sequence_min    varint
//!                                        18  sequence_max    varint
//!                                        20  sequence        varint, may be absent
//!    16   log_id: varint                 22  range_deletes   varint, if there are any
//!    17   options: field* of options     25  checksum        varint, may be absent
//!    18   blob: field* of a blob file    26  blobs           shares, if there are any
//!    24   has_expiries: nothing          28  expiries        count, first, last, if there are any
//!    26   merge_operator: its name
//! ```
//!
//! The fields of options and of blob files have the tags of their constants below.
//!
//! An odd tag may be passed over by a program that does not know it; an even one may not, and such
//! a program refuses the manifest. So a later version adds what it needs without a new format, as
//! long as older programs either need not know or must not go on. `deleted` and `pointer` use the
//! tags of a table as far as they need them, the key of a pointer being `smallest`.
//!
//! A field that is there once at most, and twice in a record, is damage; so is a number that does
//! not fill its body. Every length is held against what is left.

use crate::blob::{BlobMeta, BlobShare, put_shares, take_shares};
use crate::coding::{Reader, put_string, put_varint};
use crate::compress::Compression;
use crate::error::Error;
use crate::expiry::ExpiryCount;
use crate::version::{FileMeta, StoredOptions, VersionEdit};
use std::path::Path;
use std::sync::Arc;

const COMPARATOR: u64 = 2;
const LOG_FROM: u64 = 4;
const NEXT_FILE: u64 = 6;
const LAST_SEQUENCE: u64 = 8;
const ADDED: u64 = 10;
const DELETED: u64 = 12;
const POINTER: u64 = 15;
const LOG_ID: u64 = 16;
const OPTIONS: u64 = 17;
const BLOB: u64 = 18;
const HAS_EXPIRIES: u64 = 24;
const MERGE_OPERATOR: u64 = 26;

const LEVEL: u64 = 2;
const NUMBER: u64 = 4;
const BYTES: u64 = 6;
const SMALLEST: u64 = 8;
const LARGEST: u64 = 10;
const ENTRIES: u64 = 12;
const DELETES: u64 = 14;
const SEQUENCE_MIN: u64 = 16;
const SEQUENCE_MAX: u64 = 18;
const SEQUENCE: u64 = 20;
const RANGE_DELETES: u64 = 22;
const CHECKSUM: u64 = 25;
const BLOBS: u64 = 26;
const EXPIRIES: u64 = 28;

const BLOB_NUMBER: u64 = 2;
const BLOB_RECORDS: u64 = 4;
const BLOB_RECORD_BYTES: u64 = 6;
const BLOB_DIGEST: u64 = 8;

const BLOCK_BYTES: u64 = 2;
const RESTART_INTERVAL: u64 = 4;
const FILTER_BITS: u64 = 6;
const TABLE_BYTES: u64 = 8;
const LEVEL0_TABLES: u64 = 10;
const LEVEL_BASE_BYTES: u64 = 12;
const COMPRESSION: u64 = 14;
const BLOB_BYTES_MIN: u64 = 15;
const LOG_RETENTION_BYTES: u64 = 17;
const LOG_RETENTION_SECONDS: u64 = 19;

/// Why bytes are no edit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// They are not what was written.
    Damaged(&'static str),
    /// A later program wrote them.
    Unknown {
        /// The field that has to be known.
        tag: u64,
    },
}

use Malformed::Damaged;

type Decoded<T> = Result<T, Malformed>;

/// The edit in the record `content`, which lies at `offset` of the manifest at `path`.
///
/// # Errors
/// Corruption; [`Error::Usage`] if a later program wrote the record.
pub(super) fn decode_at(
    path: &Path,
    offset: u64,
    content: &[u8],
) -> crate::error::Result<VersionEdit> {
    VersionEdit::decode(content).map_err(|malformed| match malformed {
        Damaged(what) => Error::corruption(path, offset, what),
        Malformed::Unknown { tag } => Error::Usage(format!(
            "{}: byte {offset}: field {tag} was written by a later version of this program",
            path.display()
        )),
    })
}

impl VersionEdit {
    /// Appends the record's bytes to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(name) = &self.comparator {
            put_bytes(out, COMPARATOR, name.as_bytes());
        }
        let numbers = [
            (LOG_FROM, self.log_from),
            (NEXT_FILE, self.next_file),
            (LAST_SEQUENCE, self.last_sequence),
            (LOG_ID, self.log_id),
        ];
        for (tag, value) in numbers {
            if let Some(value) = value {
                put_number(out, tag, value);
            }
        }
        if let Some(name) = &self.merge_operator {
            put_bytes(out, MERGE_OPERATOR, name.as_bytes());
        }
        if self.has_expiries {
            put_bytes(out, HAS_EXPIRIES, &[]);
        }
        let mut body = Vec::new();
        if let Some(options) = &self.options {
            put_options(&mut body, options);
            put_bytes(out, OPTIONS, &body);
        }
        for (level, number) in &self.deleted {
            body.clear();
            put_number(&mut body, LEVEL, *level as u64);
            put_number(&mut body, NUMBER, *number);
            put_bytes(out, DELETED, &body);
        }
        for blob in &self.blobs {
            body.clear();
            put_blob(&mut body, blob);
            put_bytes(out, BLOB, &body);
        }
        for (level, file) in &self.added {
            body.clear();
            put_file(&mut body, *level, file);
            put_bytes(out, ADDED, &body);
        }
        for (level, key) in &self.pointers {
            body.clear();
            put_number(&mut body, LEVEL, *level as u64);
            put_bytes(&mut body, SMALLEST, key);
            put_bytes(out, POINTER, &body);
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are damaged, or need a later program.
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<VersionEdit> {
        let mut edit = VersionEdit::default();
        let mut has_expiries = None;
        let mut fields = Reader::new(bytes);
        while let Some((tag, body)) = field(&mut fields)? {
            match tag {
                COMPARATOR => {
                    let name = String::from_utf8(body.to_vec());
                    let name = name.map_err(|_| Damaged("the comparator's name is not text"))?;
                    once(&mut edit.comparator, name)?;
                }
                MERGE_OPERATOR => {
                    let name = String::from_utf8(body.to_vec());
                    let name =
                        name.map_err(|_| Damaged("the merge operator's name is not text"))?;
                    once(&mut edit.merge_operator, name)?;
                }
                LOG_FROM => once(&mut edit.log_from, number(body)?)?,
                NEXT_FILE => once(&mut edit.next_file, number(body)?)?,
                LAST_SEQUENCE => once(&mut edit.last_sequence, number(body)?)?,
                LOG_ID => once(&mut edit.log_id, number(body)?)?,
                OPTIONS => once(&mut edit.options, read_options(body)?)?,
                ADDED => {
                    let table = Described::read(body)?;
                    let level = table.level()?;
                    edit.added.push((level, Arc::new(table.into_file()?)));
                }
                DELETED => {
                    let table = Described::read(body)?;
                    let number = table.numbers[index(NUMBER)];
                    let number = number.ok_or(Damaged("a removed table has no number"))?;
                    edit.deleted.push((table.level()?, number));
                }
                HAS_EXPIRIES if body.is_empty() => once(&mut has_expiries, true)?,
                HAS_EXPIRIES => return Err(Damaged("a field that says yes says more")),
                BLOB => edit.blobs.push(read_blob(body)?),
                POINTER => {
                    let pointer = Described::read(body)?;
                    let level = pointer.level()?;
                    let key = pointer.smallest.ok_or(Damaged("a pointer has no key"))?;
                    edit.pointers.push((level, key));
                }
                tag => pass_over(tag)?,
            }
        }
        edit.has_expiries = has_expiries.is_some();
        Ok(edit)
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u64, body: &[u8]) {
    put_varint(out, tag);
    put_string(out, body);
}

fn put_number(out: &mut Vec<u8>, tag: u64, value: u64) {
    put_varint(out, tag);
    let len_at = out.len();
    out.push(0);
    put_varint(out, value);
    // A varint has ten bytes at most, so its length has one.
    out[len_at] = (out.len() - len_at - 1) as u8;
}

fn put_file(out: &mut Vec<u8>, level: usize, file: &FileMeta) {
    put_number(out, LEVEL, level as u64);
    put_number(out, NUMBER, file.number);
    put_number(out, BYTES, file.bytes);
    put_bytes(out, SMALLEST, &file.smallest);
    put_bytes(out, LARGEST, &file.largest);
    put_number(out, ENTRIES, file.entries);
    put_number(out, DELETES, file.deletes);
    put_number(out, SEQUENCE_MIN, file.sequence_min);
    put_number(out, SEQUENCE_MAX, file.sequence_max);
    if let Some(sequence) = file.sequence {
        put_number(out, SEQUENCE, sequence);
    }
    if file.range_deletes > 0 {
        put_number(out, RANGE_DELETES, file.range_deletes);
    }
    if file.checksum > 0 {
        put_number(out, CHECKSUM, file.checksum);
    }
    if !file.blobs.is_empty() {
        let mut shares = Vec::new();
        put_shares(&mut shares, &file.blobs);
        put_bytes(out, BLOBS, &shares);
    }
    if !file.expiries.is_empty() {
        let mut count = Vec::new();
        file.expiries.put(&mut count);
        put_bytes(out, EXPIRIES, &count);
    }
}

fn put_blob(out: &mut Vec<u8>, blob: &BlobMeta) {
    put_number(out, BLOB_NUMBER, blob.number);
    put_number(out, BLOB_RECORDS, blob.records);
    put_number(out, BLOB_RECORD_BYTES, blob.record_bytes);
    put_number(out, BLOB_DIGEST, blob.digest);
}

fn read_blob(body: &[u8]) -> Decoded<BlobMeta> {
    let mut numbers = [None; index(BLOB_DIGEST) + 1];
    let mut fields = Reader::new(body);
    while let Some((tag, body)) = field(&mut fields)? {
        match tag {
            BLOB_NUMBER | BLOB_RECORDS | BLOB_RECORD_BYTES | BLOB_DIGEST => {
                once(&mut numbers[index(tag)], number(body)?)?;
            }
            tag => pass_over(tag)?,
        }
    }
    let of = |tag| numbers[index(tag)].ok_or(Damaged("a blob file lacks a number"));
    Ok(BlobMeta {
        number: of(BLOB_NUMBER)?,
        records: of(BLOB_RECORDS)?,
        record_bytes: of(BLOB_RECORD_BYTES)?,
        digest: of(BLOB_DIGEST)?,
    })
}

fn put_options(out: &mut Vec<u8>, options: &StoredOptions) {
    put_number(out, BLOCK_BYTES, options.block_bytes);
    put_number(out, RESTART_INTERVAL, options.restart_interval);
    put_number(out, FILTER_BITS, options.filter_bits_per_key);
    put_number(out, TABLE_BYTES, options.table_bytes);
    put_number(out, LEVEL0_TABLES, options.level0_tables);
    put_number(out, LEVEL_BASE_BYTES, options.level_base_bytes);
    put_bytes(out, COMPRESSION, Compression::show_list(&options.compression).as_bytes());
    for (tag, number) in [
        (BLOB_BYTES_MIN, options.blob_bytes_min),
        (LOG_RETENTION_BYTES, options.log_retention_bytes),
        (LOG_RETENTION_SECONDS, options.log_retention_seconds),
    ] {
        if number > 0 {
            put_number(out, tag, number);
        }
    }
}

fn read_options(body: &[u8]) -> Decoded<StoredOptions> {
    let mut numbers = [None; index(COMPRESSION)];
    let (mut compression, mut blob_bytes_min) = (None, None);
    let (mut retention_bytes, mut retention_seconds) = (None, None);
    let mut fields = Reader::new(body);
    while let Some((tag, body)) = field(&mut fields)? {
        match tag {
            BLOCK_BYTES | RESTART_INTERVAL | FILTER_BITS | TABLE_BYTES | LEVEL0_TABLES
            | LEVEL_BASE_BYTES => once(&mut numbers[index(tag)], number(body)?)?,
            COMPRESSION => {
                let list = std::str::from_utf8(body).ok().and_then(Compression::parse_list);
                once(
                    &mut compression,
                    list.ok_or(Damaged("a compression is none that is known"))?,
                )?;
            }
            BLOB_BYTES_MIN => once(&mut blob_bytes_min, number(body)?)?,
            LOG_RETENTION_BYTES => once(&mut retention_bytes, number(body)?)?,
            LOG_RETENTION_SECONDS => once(&mut retention_seconds, number(body)?)?,
            tag => pass_over(tag)?,
        }
    }
    let of = |tag| numbers[index(tag)].ok_or(Damaged("an option is not there"));
    Ok(StoredOptions {
        block_bytes: of(BLOCK_BYTES)?,
        restart_interval: of(RESTART_INTERVAL)?,
        filter_bits_per_key: of(FILTER_BITS)?,
        table_bytes: of(TABLE_BYTES)?,
        level0_tables: of(LEVEL0_TABLES)?,
        level_base_bytes: of(LEVEL_BASE_BYTES)?,
        compression: compression.ok_or(Damaged("an option is not there"))?,
        blob_bytes_min: blob_bytes_min.unwrap_or(0),
        log_retention_bytes: retention_bytes.unwrap_or(0),
        log_retention_seconds: retention_seconds.unwrap_or(0),
    })
}

/// The next field, or nothing at the end.
fn field<'a>(fields: &mut Reader<'a>) -> Decoded<Option<(u64, &'a [u8])>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let tag = fields.varint().ok_or(Damaged("a field has no tag"))?;
    let body = fields.string().ok_or(Damaged("a field is longer than its record"))?;
    Ok(Some((tag, body)))
}

fn number(body: &[u8]) -> Decoded<u64> {
    let mut reader = Reader::new(body);
    let value = reader.varint().filter(|_| reader.is_empty());
    value.ok_or(Damaged("a number does not fill its field"))
}

fn once<T>(slot: &mut Option<T>, value: T) -> Decoded<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Damaged("a field is there twice")),
    }
}

/// Fields with odd tags need not be known.
fn pass_over(tag: u64) -> Decoded<()> {
    if tag % 2 == 1 { Ok(()) } else { Err(Malformed::Unknown { tag }) }
}

/// Where [`Described::numbers`] has the number of a tag.
const fn index(tag: u64) -> usize {
    tag as usize / 2
}

/// The fields of a table that were there.
#[derive(Debug, Default)]
struct Described {
    numbers: [Option<u64>; index(CHECKSUM) + 1],
    smallest: Option<Vec<u8>>,
    largest: Option<Vec<u8>>,
    blobs: Option<Vec<BlobShare>>,
    expiries: Option<ExpiryCount>,
}

impl Described {
    fn read(body: &[u8]) -> Decoded<Described> {
        let mut table = Described::default();
        let mut fields = Reader::new(body);
        while let Some((tag, body)) = field(&mut fields)? {
            match tag {
                SMALLEST => once(&mut table.smallest, body.to_vec())?,
                LARGEST => once(&mut table.largest, body.to_vec())?,
                BLOBS => {
                    let shares = take_shares(body).filter(|shares| !shares.is_empty());
                    let what = "a table refers to blob files in no known way";
                    once(&mut table.blobs, shares.ok_or(Damaged(what))?)?;
                }
                EXPIRIES => {
                    let count = ExpiryCount::take(body);
                    let what = "a table counts its expiries in no known way";
                    once(&mut table.expiries, count.ok_or(Damaged(what))?)?;
                }
                LEVEL | NUMBER | BYTES | ENTRIES | DELETES | SEQUENCE_MIN | SEQUENCE_MAX
                | SEQUENCE | RANGE_DELETES | CHECKSUM => {
                    once(&mut table.numbers[index(tag)], number(body)?)?;
                }
                tag => pass_over(tag)?,
            }
        }
        Ok(table)
    }

    fn level(&self) -> Decoded<usize> {
        let level = self.numbers[index(LEVEL)].ok_or(Damaged("a table has no level"))?;
        usize::try_from(level).map_err(|_| Damaged("a table has a level beyond all"))
    }

    fn into_file(self) -> Decoded<FileMeta> {
        let of = |tag| self.numbers[index(tag)].ok_or(Damaged("a table lacks a number"));
        Ok(FileMeta {
            number: of(NUMBER)?,
            bytes: of(BYTES)?,
            entries: of(ENTRIES)?,
            deletes: of(DELETES)?,
            range_deletes: self.numbers[index(RANGE_DELETES)].unwrap_or(0),
            sequence_min: of(SEQUENCE_MIN)?,
            sequence_max: of(SEQUENCE_MAX)?,
            sequence: self.numbers[index(SEQUENCE)],
            checksum: self.numbers[index(CHECKSUM)].unwrap_or(0),
            smallest: self.smallest.ok_or(Damaged("a table lacks its first key"))?,
            largest: self.largest.ok_or(Damaged("a table lacks its last key"))?,
            // Most tables refer to none.
            blobs: self.blobs.unwrap_or_default(),
            expiries: self.expiries.unwrap_or_default(),
            ..FileMeta::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::version::tests::{file, plain};

    fn sample() -> VersionEdit {
        VersionEdit {
            comparator: Some("order \u{2264}".to_owned()),
            log_from: Some(u64::MAX),
            next_file: Some(0),
            last_sequence: Some(300),
            log_id: Some(1 << 63),
            has_expiries: true,
            merge_operator: Some("sum \u{2264}".to_owned()),
            options: Some(StoredOptions {
                restart_interval: u64::MAX,
                blob_bytes_min: 1024,
                log_retention_bytes: u64::MAX,
                log_retention_seconds: 86_400,
                compression: vec![Compression::Zstd(-7), Compression::Snappy],
                ..Options::default().to_store()
            }),
            added: vec![
                (0, file(7, "a", "q")),
                (6, file(1 << 40, "", "\u{ff}")),
                (
                    1,
                    Arc::new(FileMeta {
                        deletes: 3,
                        range_deletes: 2,
                        checksum: 8,
                        blobs: vec![
                            BlobShare { file: 3, records: 1, bytes: 4_096 },
                            BlobShare { file: 5, records: u64::MAX, bytes: 0 },
                        ],
                        expiries: ExpiryCount { count: 3, first_ms: 0, last_ms: u64::MAX },
                        ..plain(9, "b", "c", 1)
                    }),
                ),
            ],
            deleted: vec![(3, 2), (1, u64::MAX)],
            blobs: vec![
                BlobMeta { number: 3, records: 7, record_bytes: 1 << 40, digest: u64::MAX },
                BlobMeta { number: 5, ..BlobMeta::default() },
            ],
            pointers: vec![(1, b"key".to_vec()), (2, Vec::new())],
        }
    }

    fn encoded(edit: &VersionEdit) -> Vec<u8> {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        bytes
    }

    #[test]
    fn edits_come_back() {
        for edit in [VersionEdit::default(), sample()] {
            assert_eq!(VersionEdit::decode(&encoded(&edit)), Ok(edit));
        }
        assert!(encoded(&VersionEdit::default()).is_empty());
    }

    #[test]
    fn the_sequence_number_of_a_whole_table_comes_back() {
        let mut taken_in = plain(7, "a", "q", 100);
        (taken_in.sequence_min, taken_in.sequence_max) = (50, 50);
        taken_in.sequence = Some(50);
        let edit = VersionEdit { added: vec![(6, Arc::new(taken_in))], ..VersionEdit::default() };
        let decoded = VersionEdit::decode(&encoded(&edit)).unwrap();
        assert_eq!(decoded, edit);
        assert_eq!(decoded.added[0].1.sequence, Some(50));
    }

    #[test]
    fn an_edit_cut_short_is_damaged_or_lacks_whole_fields() {
        let bytes = encoded(&sample());
        let mut whole = 0;
        for len in 0..bytes.len() {
            match VersionEdit::decode(&bytes[..len]) {
                Ok(edit) => {
                    assert_ne!(edit, sample());
                    whole += 1;
                }
                Err(error) => assert!(matches!(error, Damaged(_)), "{len}: {error:?}"),
            }
        }
        assert_eq!(whole, 17, "as many as there are fields, none of them included");
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let bytes = encoded(&sample());
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let _ = VersionEdit::decode(&bytes);
            }
        }
    }

    #[test]
    fn unknown_fields_are_passed_over_if_their_tag_is_odd() {
        let mut bytes = encoded(&sample());
        put_bytes(&mut bytes, 1_001, b"of a later version");
        assert_eq!(VersionEdit::decode(&bytes), Ok(sample()));
        put_bytes(&mut bytes, 1_002, b"");
        assert_eq!(VersionEdit::decode(&bytes), Err(Malformed::Unknown { tag: 1_002 }));

        let mut body = Vec::new();
        put_file(&mut body, 2, &file(9, "a", "b"));
        put_bytes(&mut body, 101, b"of a later version");
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, ADDED, &body);
        let added = vec![(2, file(9, "a", "b"))];
        assert_eq!(
            VersionEdit::decode(&bytes),
            Ok(VersionEdit { added, ..VersionEdit::default() })
        );
        put_number(&mut body, 100, 5);
        put_bytes(&mut bytes, ADDED, &body);
        assert_eq!(VersionEdit::decode(&bytes), Err(Malformed::Unknown { tag: 100 }));
    }

    #[test]
    fn what_contradicts_itself_is_damaged() {
        let of = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            VersionEdit::decode(&bytes)
        };
        let twice = of(&|out| {
            put_number(out, LOG_FROM, 1);
            put_number(out, LOG_FROM, 1);
        });
        assert_eq!(twice, Err(Damaged("a field is there twice")));
        let unfilled = Err(Damaged("a number does not fill its field"));
        assert_eq!(of(&|out| put_bytes(out, LOG_FROM, &[1, 0])), unfilled);
        assert_eq!(of(&|out| put_bytes(out, LOG_FROM, &[])), unfilled);
        let name = of(&|out| put_bytes(out, COMPARATOR, b"\xff"));
        assert_eq!(name, Err(Damaged("the comparator's name is not text")));
        let nothing = of(&|out| put_bytes(out, ADDED, b""));
        assert_eq!(nothing, Err(Damaged("a table has no level")));
        let beyond = of(&|out| put_bytes(out, ADDED, &[4, 200, 1]));
        assert_eq!(beyond, Err(Damaged("a field is longer than its record")));
    }
}
