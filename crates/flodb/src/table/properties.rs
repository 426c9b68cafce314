//! What is known about a table without its entries, and the ranges that it deletes.
//!
//! The properties are fields: `tag: varint | length: varint | bytes`. A tag stands once. A reader
//! must know all tags below [`TAG_IGNORABLE`], and skips others that it does not know. So a later
//! version can add what an earlier one may miss, and what it must not miss.
//!
//! Ranges are listed apart from the entries. The first tables had them among the entries as well;
//! such a list has a tag of its own, which is still read.

use super::format::Handle;
use crate::blob::{BlobShare, put_shares, take_shares};
use crate::coding::{Reader, put_string, put_varint};
use crate::compress::CodecSet;
use crate::expiry::ExpiryCount;
use crate::key::{self, Comparator, Kind};
use crate::range_tombstones::RangeTombstone;
use std::cmp::Ordering;

const TAG_INDEX: u64 = 1;
const TAG_FILTER: u64 = 2;
const TAG_RANGES_AMONG_ENTRIES: u64 = 3;
const TAG_COMPARATOR: u64 = 4;
const TAG_DATA_BYTES: u64 = 5;
const TAG_ENTRIES: u64 = 6;
const TAG_DELETES: u64 = 7;
const TAG_SEQUENCE_MIN: u64 = 8;
const TAG_SEQUENCE_MAX: u64 = 9;
const TAG_RAW_BYTES: u64 = 10;
const TAG_SMALLEST: u64 = 11;
const TAG_LARGEST: u64 = 12;
const TAG_RANGE_DELETES: u64 = 13;
const TAG_BLOBS: u64 = 14;
const TAG_EXPIRIES: u64 = 15;
const TAG_OPERANDS: u64 = 16;
const TAG_LAST: u64 = TAG_OPERANDS;

/// Tags from here on may be unknown.
const TAG_IGNORABLE: u64 = 64;

const TAG_REPLACED: u64 = 64;
const TAG_FILTER_OF_RULE: u64 = 65;
const TAG_CODECS: u64 = 66;
const TAG_PREFIX_FILTER: u64 = 67;

const NOT_A_BLOCK: &str = "a property that is not a block";

/// What the levels need to know about a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableMeta {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Entries, of all kinds, and range deletes.
    pub(crate) entries: u64,
    /// Those that remove: a key, or a range.
    pub(crate) deletes: u64,
    pub(crate) range_deletes: u64,
    /// The first internal key, or the beginning of a range delete.
    pub(crate) smallest: Vec<u8>,
    /// The last internal key, or an open bound: see `version::FileMeta`.
    pub(crate) largest: Vec<u8>,
    /// The oldest and the newest sequence of an entry or a range delete.
    pub(crate) sequence_min: u64,
    /// See `sequence_min`.
    pub(crate) sequence_max: u64,
    /// Bytes of the internal keys and values, uncompressed.
    pub(crate) raw_bytes: u64,
    /// Entries of keys that have a newer one in the table; 0 also where nobody has counted them.
    pub(crate) replaced: u64,
    /// The blob files that entries refer to, ascending.
    pub(crate) blobs: Vec<BlobShare>,
    /// The values that expire.
    pub(crate) expiries: ExpiryCount,
    /// Operands of the store's merge operator.
    pub(crate) operands: u64,
    /// The checksum of the properties. These have the checksum of the index, which has those of all
    /// data blocks, so no two tables with different content share it.
    pub(crate) checksum: u64,
}

impl TableMeta {
    /// Counts a range delete.
    pub(super) fn count_range(&mut self, range: &RangeTombstone, order: &Comparator) {
        let RangeTombstone { begin, end, sequence } = range;
        let (mut low, mut high) = (Vec::new(), Vec::new());
        key::append(&mut low, begin, *sequence, Kind::DeleteRange);
        key::append(&mut high, end, key::SEQUENCE_MAX, Kind::BOUND);
        if self.entries == 0 || order.internal(&low, &self.smallest) == Ordering::Less {
            self.smallest = low;
        }
        if self.entries == 0 || order.internal(&high, &self.largest) == Ordering::Greater {
            self.largest = high;
        }
        self.entries += 1;
        self.deletes += 1;
        self.range_deletes += 1;
        self.sequence_min = self.sequence_min.min(*sequence);
        self.sequence_max = self.sequence_max.max(*sequence);
        self.raw_bytes += (begin.len() + key::TRAILER_BYTES + end.len()) as u64;
    }
}

/// A filter, and by which rule of a caller's it is one; without a rule, it is a Bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilterBlock {
    pub(super) rule: Option<String>,
    pub(super) stored: Handle,
}

impl FilterBlock {
    fn put(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        if let Some(rule) = &self.rule {
            put_string(&mut bytes, rule.as_bytes());
        }
        self.stored.put(&mut bytes);
        put_varint(out, if self.rule.is_some() { TAG_FILTER_OF_RULE } else { TAG_FILTER });
        put_string(out, &bytes);
    }

    fn take(field: &[u8], is_of_rule: bool) -> Result<Self, &'static str> {
        let mut reader = Reader::new(field);
        let rule = if is_of_rule {
            let name = reader.string().and_then(|name| std::str::from_utf8(name).ok());
            Some(name.ok_or("a filter whose rule has no name")?.to_owned())
        } else {
            None
        };
        let stored = Handle::take(&mut reader).filter(|_| reader.is_empty());
        stored.ok_or(NOT_A_BLOCK).map(|stored| FilterBlock { rule, stored })
    }
}

/// A filter over the prefixes of keys, and which extractor made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrefixFilterBlock {
    pub(super) extractor: String,
    pub(super) stored: Handle,
}

impl PrefixFilterBlock {
    fn put(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        put_string(&mut bytes, self.extractor.as_bytes());
        self.stored.put(&mut bytes);
        put_varint(out, TAG_PREFIX_FILTER);
        put_string(out, &bytes);
    }

    fn take(field: &[u8]) -> Result<Self, &'static str> {
        let mut reader = Reader::new(field);
        let name = reader.string().and_then(|name| std::str::from_utf8(name).ok());
        let extractor = name.ok_or("a prefix filter whose extractor has no name")?.to_owned();
        let stored = Handle::take(&mut reader).filter(|_| reader.is_empty());
        stored.ok_or(NOT_A_BLOCK).map(|stored| PrefixFilterBlock { extractor, stored })
    }
}

/// The properties as stored. `meta.bytes` and `meta.checksum` are not among them: the file has its
/// length, and its footer the checksum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) index: Handle,
    pub(super) filter: Option<FilterBlock>,
    pub(super) prefix_filter: Option<PrefixFilterBlock>,
    pub(super) range_deletes: Option<Handle>,
    /// Whether the range deletes are among the entries, too.
    pub(super) ranges_among_entries: bool,
    pub(super) comparator: String,
    /// Bytes of the data blocks, which begin the file.
    pub(super) data_bytes: u64,
    /// Those that made blocks. None also where nobody has said it: the first tables do not.
    pub(super) codecs: CodecSet,
    pub(super) meta: TableMeta,
}

/// The fields of stored properties, by tag.
#[derive(Default)]
struct Fields<'a> {
    fields: [Option<&'a [u8]>; TAG_LAST as usize + 1],
    replaced: Option<u64>,
    filter: Option<FilterBlock>,
    prefix_filter: Option<PrefixFilterBlock>,
    codecs: Option<CodecSet>,
}

impl<'a> Fields<'a> {
    fn read(stored: &'a [u8]) -> Result<Self, &'static str> {
        let mut reader = Reader::new(stored);
        let mut found = Fields::default();
        while !reader.is_empty() {
            let (tag, value) =
                reader.varint().zip(reader.string()).ok_or("properties that end within a field")?;
            let stands_twice = match tag {
                TAG_FILTER => found.filter.replace(FilterBlock::take(value, false)?).is_some(),
                1..=TAG_LAST => found.fields[tag as usize].replace(value).is_some(),
                TAG_REPLACED => {
                    let value = <[u8; 8]>::try_from(value).map_err(|_| "a number of other size")?;
                    found.replaced.replace(u64::from_le_bytes(value)).is_some()
                }
                TAG_FILTER_OF_RULE => {
                    found.filter.replace(FilterBlock::take(value, true)?).is_some()
                }
                TAG_CODECS => {
                    let [byte] = <[u8; 1]>::try_from(value).map_err(|_| "codecs of other size")?;
                    found.codecs.replace(CodecSet::from_byte(byte)).is_some()
                }
                TAG_PREFIX_FILTER => {
                    found.prefix_filter.replace(PrefixFilterBlock::take(value)?).is_some()
                }
                tag if tag >= TAG_IGNORABLE => false,
                _ => return Err("a property that this program must know and does not"),
            };
            if stands_twice {
                return Err("a property that stands twice");
            }
        }
        Ok(found)
    }
}

impl Properties {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let handle = |out: &mut Vec<u8>, tag, handle: Handle| {
            let mut bytes = Vec::new();
            handle.put(&mut bytes);
            put_varint(out, tag);
            put_string(out, &bytes);
        };
        handle(&mut out, TAG_INDEX, self.index);
        self.filter.iter().for_each(|filter| filter.put(&mut out));
        self.prefix_filter.iter().for_each(|filter| filter.put(&mut out));
        let ranges_tag =
            if self.ranges_among_entries { TAG_RANGES_AMONG_ENTRIES } else { TAG_RANGE_DELETES };
        self.range_deletes.into_iter().for_each(|all| handle(&mut out, ranges_tag, all));
        for (tag, number) in [
            (TAG_DATA_BYTES, self.data_bytes),
            (TAG_ENTRIES, self.meta.entries),
            (TAG_DELETES, self.meta.deletes),
            (TAG_SEQUENCE_MIN, self.meta.sequence_min),
            (TAG_SEQUENCE_MAX, self.meta.sequence_max),
            (TAG_RAW_BYTES, self.meta.raw_bytes),
        ] {
            put_varint(&mut out, tag);
            put_string(&mut out, &number.to_le_bytes());
        }
        for (tag, bytes) in [
            (TAG_COMPARATOR, self.comparator.as_bytes()),
            (TAG_SMALLEST, &self.meta.smallest),
            (TAG_LARGEST, &self.meta.largest),
        ] {
            put_varint(&mut out, tag);
            put_string(&mut out, bytes);
        }
        if !self.meta.blobs.is_empty() {
            let mut shares = Vec::new();
            put_shares(&mut shares, &self.meta.blobs);
            put_varint(&mut out, TAG_BLOBS);
            put_string(&mut out, &shares);
        }
        if !self.meta.expiries.is_empty() {
            let mut count = Vec::new();
            self.meta.expiries.put(&mut count);
            put_varint(&mut out, TAG_EXPIRIES);
            put_string(&mut out, &count);
        }
        if self.meta.operands > 0 {
            put_varint(&mut out, TAG_OPERANDS);
            put_string(&mut out, &self.meta.operands.to_le_bytes());
        }
        if self.meta.replaced > 0 {
            put_varint(&mut out, TAG_REPLACED);
            put_string(&mut out, &self.meta.replaced.to_le_bytes());
        }
        if self.codecs != CodecSet::default() {
            put_varint(&mut out, TAG_CODECS);
            put_string(&mut out, &[self.codecs.byte()]);
        }
        out
    }

    /// Reads the properties of a table of `bytes` bytes.
    pub(super) fn decode(stored: &[u8], bytes: u64) -> Result<Self, &'static str> {
        let Fields { fields, replaced, filter, prefix_filter, codecs } = Fields::read(stored)?;
        let bytes_of = |tag: u64| fields[tag as usize].ok_or("a property is missing");
        let number = |tag| {
            let value =
                <[u8; 8]>::try_from(bytes_of(tag)?).map_err(|_| "a number of other size")?;
            Ok::<_, &'static str>(u64::from_le_bytes(value))
        };
        let handle = |value| {
            let mut reader = Reader::new(value);
            let handle = Handle::take(&mut reader).filter(|_| reader.is_empty());
            handle.ok_or(NOT_A_BLOCK)
        };
        let key = |tag| {
            let key = bytes_of(tag)?;
            key::parse(key).ok_or("a bound that is not a key").map(|_| key.to_vec())
        };
        let (apart, among) = (TAG_RANGE_DELETES as usize, TAG_RANGES_AMONG_ENTRIES as usize);
        if fields[apart].is_some() && fields[among].is_some() {
            return Err("two lists of range deletes");
        }
        let blobs = fields[TAG_BLOBS as usize].map(|shares| {
            let shares = take_shares(shares).filter(|shares| !shares.is_empty());
            shares.ok_or("a list of blob files that is none")
        });
        let expiries = fields[TAG_EXPIRIES as usize]
            .map(|count| ExpiryCount::take(count).ok_or("a count of expiries that is none"));
        let properties = Properties {
            index: handle(bytes_of(TAG_INDEX)?)?,
            filter,
            prefix_filter,
            range_deletes: fields[apart].or(fields[among]).map(handle).transpose()?,
            ranges_among_entries: fields[among].is_some(),
            comparator: String::from_utf8(bytes_of(TAG_COMPARATOR)?.to_vec())
                .map_err(|_| "a comparator whose name is not text")?,
            data_bytes: number(TAG_DATA_BYTES)?,
            // A table that does not list its codecs is refused where a block is read.
            codecs: codecs.unwrap_or_default(),
            meta: TableMeta {
                bytes,
                entries: number(TAG_ENTRIES)?,
                deletes: number(TAG_DELETES)?,
                // The list says how many.
                range_deletes: 0,
                smallest: key(TAG_SMALLEST)?,
                largest: key(TAG_LARGEST)?,
                sequence_min: number(TAG_SEQUENCE_MIN)?,
                sequence_max: number(TAG_SEQUENCE_MAX)?,
                raw_bytes: number(TAG_RAW_BYTES)?,
                replaced: replaced.unwrap_or(0),
                // Most tables refer to none.
                blobs: blobs.transpose()?.unwrap_or_default(),
                expiries: expiries.transpose()?.unwrap_or_default(),
                operands: fields[TAG_OPERANDS as usize].map_or(Ok(0), |_| number(TAG_OPERANDS))?,
                checksum: 0,
            },
        };
        Ok(properties)
    }
}

/// The stored list of range deletes.
pub(super) fn encode_ranges(ranges: &[RangeTombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    for range in ranges {
        put_string(&mut out, &range.begin);
        put_string(&mut out, &range.end);
        put_varint(&mut out, range.sequence);
    }
    out
}

pub(super) fn decode_ranges(stored: &[u8]) -> Option<Vec<RangeTombstone>> {
    let mut reader = Reader::new(stored);
    let mut ranges = Vec::new();
    while !reader.is_empty() {
        let (begin, end) = (reader.string()?.to_vec(), reader.string()?.to_vec());
        let sequence = reader.varint().filter(|sequence| *sequence <= key::SEQUENCE_MAX)?;
        ranges.push(RangeTombstone { begin, end, sequence });
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::append;

    fn sample() -> Properties {
        let handle = |offset| Handle { offset, bytes: 300, checksum: 0x0123_4567_89ab_cdef };
        let mut meta = TableMeta {
            bytes: 9_999,
            entries: 70,
            deletes: 3,
            sequence_min: 5,
            sequence_max: 1 << 50,
            raw_bytes: 12_345,
            ..TableMeta::default()
        };
        append(&mut meta.smallest, b"a", 5, Kind::Put);
        append(&mut meta.largest, b"zz", 6, Kind::Delete);
        Properties {
            index: handle(5_000),
            filter: Some(FilterBlock { rule: None, stored: handle(4_000) }),
            prefix_filter: None,
            range_deletes: None,
            ranges_among_entries: false,
            comparator: "keyrack.bytewise".into(),
            data_bytes: 4_000,
            codecs: CodecSet::default(),
            meta,
        }
    }

    #[test]
    fn properties_come_back_and_unknown_ones_are_skipped() {
        let mut sample = sample();
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        sample.codecs = CodecSet::from_byte(0b1100);
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        sample.meta.replaced = 7;
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        let share = |file| BlobShare { file, records: 3, bytes: 1 << 33 };
        sample.meta.blobs = vec![share(2), share(1 << 40)];
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        for wrong in [vec![share(2), share(2)], vec![BlobShare { records: 0, ..share(2) }]] {
            let mut other = sample.clone();
            other.meta.blobs = wrong;
            assert!(Properties::decode(&other.encode(), 9_999).is_err());
        }
        sample.meta.expiries = ExpiryCount { count: 3, first_ms: 5, last_ms: 1 << 40 };
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        sample.meta.operands = 9;
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        let mut other = sample.clone();
        other.meta.expiries.last_ms = 4;
        assert!(Properties::decode(&other.encode(), 9_999).is_err());
        let of_rule =
            FilterBlock { rule: Some("test.rule".into()), ..sample.filter.clone().unwrap() };
        let ruled = Properties { filter: Some(of_rule), ..sample.clone() };
        assert_eq!(Properties::decode(&ruled.encode(), 9_999), Ok(ruled));
        let stored = sample.filter.as_ref().unwrap().stored;
        let prefixes = PrefixFilterBlock { extractor: "test.prefixes".into(), stored };
        let both = Properties { prefix_filter: Some(prefixes), ..sample.clone() };
        assert_eq!(Properties::decode(&both.encode(), 9_999), Ok(both.clone()));
        let mut twice = both.encode();
        both.prefix_filter.unwrap().put(&mut twice);
        assert!(Properties::decode(&twice, 9_999).is_err());
        sample.range_deletes = sample.filter.take().map(|filter| filter.stored);
        assert_eq!(Properties::decode(&sample.encode(), 9_999), Ok(sample.clone()));
        let apart = sample.encode();
        sample.ranges_among_entries = true;
        let both = [apart, sample.encode()].concat();
        assert!(Properties::decode(&both, 9_999).is_err());
        let mut stored = sample.encode();
        put_varint(&mut stored, TAG_IGNORABLE + 500);
        put_string(&mut stored, b"from a later version");
        assert_eq!(Properties::decode(&stored, 9_999), Ok(sample.clone()));
        put_varint(&mut stored, TAG_LAST + 1);
        put_string(&mut stored, b"that must not be missed");
        assert!(Properties::decode(&stored, 9_999).is_err());
        let twice = sample.encode().repeat(2);
        assert_eq!(Properties::decode(&twice, 9_999), Err("a property that stands twice"));
    }

    #[test]
    fn properties_that_are_cut_or_damaged_are_refused_or_read() {
        let stored = sample().encode();
        for end in 0..stored.len() {
            assert!(Properties::decode(&stored[..end], 9_999).is_err(), "cut at {end}");
        }
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] = !damaged[at];
            let _ = Properties::decode(&damaged, 9_999);
        }
    }

    #[test]
    fn range_deletes_come_back() {
        let range = |begin: &[u8], end: &[u8], sequence| RangeTombstone {
            begin: begin.to_vec(),
            end: end.to_vec(),
            sequence,
        };
        let ranges = [range(b"", b"b", 7), range(b"x", b"xyz", key::SEQUENCE_MAX)];
        let mut stored = encode_ranges(&ranges);
        assert_eq!(decode_ranges(&stored).as_deref(), Some(&ranges[..]));
        assert_eq!(decode_ranges(&stored[..stored.len() - 1]), None);
        assert_eq!(decode_ranges(&[]), Some(Vec::new()));
        stored = encode_ranges(&[range(b"", b"", key::SEQUENCE_MAX + 1)]);
        assert_eq!(decode_ranges(&stored), None);
    }
}
