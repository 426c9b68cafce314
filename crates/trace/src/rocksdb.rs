//! Traces that RocksDB writes by `DB::StartTrace`.
//!
//! ```text
//!   record    time u64 (microseconds)  type u8  length u32  payload          little-endian
//!   type 1    the first: "feedcafedeadbeef\tTrace Version: 0.2\t..."         2  the last
//!   type 3    a write batch            type 4  a get
//!   type 5    a seek                   type 6  a seek to the one before      13  a multi-get
//!   payload   from 0.2 on a u64 first, whose bits say which fields follow in their order;
//!             in 0.1 the batch, or family u32 and key
//!   batch     sequence u64  count u32  then  tag u8  [family]  key  [value]   lengths as varints
//! ```
//!
//! A batch of one put or removal is a put or a removal; of more, a batch. Where column families
//! change within a batch it becomes several. A merge is a read, modify and write that stores as
//! many bytes as its operand has. A seek reads one row, since the trace does not say how many
//! followed; a seek to the one before reads one row downwards. What stores do not have (removals of
//! ranges, wide columns, marks of transactions) is counted by name and passed over.

use crate::bytes::{Bytes, Input};
use crate::codec::varint;
use crate::error::{Error, Result};
use crate::layout::{number4, number8};
use crate::record::{Record, Verb, Write};
use crate::skipped::Skipped;

/// What the first record's payload begins with.
pub(crate) const MAGIC: &[u8] = b"feedcafedeadbeef";
/// Time, type and length.
pub(crate) const HEAD_BYTES: usize = 13;
/// Bytes of a payload at most: RocksDB has batches below 4 GiB, sound ones are far smaller.
const PAYLOAD_BYTES_MAX: u32 = 1 << 30;
/// Sequence number and count in front of a batch.
const BATCH_HEAD_BYTES: usize = 12;

/// A reader.
#[derive(Debug)]
pub(crate) struct RocksDb {
    bytes: Bytes,
    /// 1 or 2, for 0.1 and 0.2.
    version: u32,
    payload: Vec<u8>,
    /// Where the record at hand begins, and its time.
    head_at: u64,
    at_us: u64,
    /// What is left of a batch in `payload`.
    batch: Option<usize>,
    start_us: u64,
    skipped: Skipped,
}

impl RocksDb {
    pub(crate) fn open(input: &Input) -> Result<RocksDb> {
        let mut reader = RocksDb {
            bytes: Bytes::new(input),
            version: 0,
            payload: Vec::new(),
            head_at: 0,
            at_us: 0,
            batch: None,
            start_us: 0,
            skipped: Skipped::default(),
        };
        let kind = reader.next_payload()?;
        if kind != Some(1) || !reader.payload.starts_with(MAGIC) {
            let why = "no trace of RocksDB: it does not begin with feedcafedeadbeef";
            return Err(Error::unusable(&input.path, why));
        }
        reader.start_us = reader.at_us;
        let text = String::from_utf8_lossy(&reader.payload).into_owned();
        let version = text.split('\t').find_map(|part| part.strip_prefix("Trace Version: "));
        reader.version = match version {
            Some("0.1") => 1,
            Some("0.2") => 2,
            other => {
                // It is whatever stands there: without signs that would end the line.
                let other = other.unwrap_or("none").escape_debug();
                let why = format!("its version is {other}, this program reads 0.1 and 0.2");
                return Err(Error::unusable(&input.path, why));
            }
        };
        Ok(reader)
    }

    pub(crate) fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    pub(crate) fn next(&mut self, record: &mut Record) -> Result<bool> {
        loop {
            if let Some(at) = self.batch.take() {
                if self.next_of_batch(at, record)? {
                    return Ok(true);
                }
                continue;
            }
            let Some(kind) = self.next_payload()? else {
                let why = format!(
                    "it has no end, so it was cut short behind byte {}; end it by DB::EndTrace",
                    self.bytes.offset()
                );
                return Err(Error::unusable(self.bytes.path(), why));
            };
            match kind {
                2 => return Ok(false),
                3 => {
                    let start = self.batch_start()?;
                    if self.payload.len() < start + BATCH_HEAD_BYTES {
                        return Err(self.fault("a write batch without its head"));
                    }
                    self.batch = Some(start + BATCH_HEAD_BYTES);
                }
                4..=6 => {
                    self.one_key(kind, record)?;
                    return Ok(true);
                }
                13 => {
                    self.many_keys(record)?;
                    return Ok(true);
                }
                other => return Err(self.fault(format!("unknown type {other} of a record"))),
            }
        }
    }

    /// Reads the next payload and gives its type; nothing where the file ends.
    fn next_payload(&mut self) -> Result<Option<u8>> {
        self.head_at = self.bytes.offset();
        let mut head = [0; HEAD_BYTES];
        match self.bytes.take(&mut head)? {
            0 => return Ok(None),
            HEAD_BYTES => {}
            _ => return Err(self.fault("the file ends within a record")),
        }
        let length = number4(&head, 9);
        if length > PAYLOAD_BYTES_MAX {
            return Err(self.fault(format!("a record of {length} bytes; the limit is 1 GiB")));
        }
        // Taken piece by piece, so that a wrong length costs no memory.
        self.payload.clear();
        while self.payload.len() < length as usize {
            let start = self.payload.len();
            let part = (length as usize - start).min(1 << 20);
            self.payload.resize(start + part, 0);
            self.bytes.fill(&mut self.payload[start..], "a record")?;
        }
        self.at_us = number8(&head, 0);
        Ok(Some(head[8]))
    }

    fn at_ns(&self) -> u64 {
        self.at_us.saturating_sub(self.start_us).saturating_mul(1000)
    }

    fn fault(&self, why: impl Into<String>) -> Error {
        self.bytes.fault(self.head_at, why)
    }

    /// The fields that a payload has, and where they begin.
    fn fields(&self) -> Result<(u64, &[u8])> {
        match self.payload.get(8..) {
            Some(rest) => Ok((number8(&self.payload, 0), rest)),
            None => Err(self.fault("a payload without its fields")),
        }
    }

    /// Where the batch begins in the payload.
    fn batch_start(&self) -> Result<usize> {
        if self.version == 1 {
            return Ok(0);
        }
        let (map, mut rest) = self.fields()?;
        if map != 1 << 1 {
            return Err(self.fault(format!("a write with fields {map:#x}, where 0x2 is known")));
        }
        let length = varint(&mut rest);
        match length {
            Some(length) if length == rest.len() as u64 => Ok(self.payload.len() - rest.len()),
            _ => Err(self.fault("a write batch of another length than it says")),
        }
    }

    /// A get or a seek.
    fn one_key(&self, kind: u8, record: &mut Record) -> Result<()> {
        let cut = || self.fault("a get or a seek that is cut");
        let (verb, first) = match kind {
            4 => (Verb::Get, 2),
            5 => (Verb::Range, 4),
            _ => (Verb::RangeDown, 4),
        };
        record.clear(verb, self.at_ns());
        let (mut family, mut key, mut low, mut high) = (0, None, None, None);
        if self.version == 1 {
            let mut rest = self.payload.get(4..).ok_or_else(cut)?;
            family = number4(&self.payload, 0);
            key = Some(slice(&mut rest).ok_or_else(cut)?);
        } else {
            let (map, mut rest) = self.fields()?;
            for bit in (0..64).filter(|bit| map >> bit & 1 == 1) {
                match bit {
                    _ if bit == first => {
                        family = number4(rest.get(..4).ok_or_else(cut)?, 0);
                        rest = &rest[4..];
                    }
                    _ if bit == first + 1 => key = Some(slice(&mut rest).ok_or_else(cut)?),
                    6 if kind > 4 => low = Some(slice(&mut rest).ok_or_else(cut)?),
                    7 if kind > 4 => high = Some(slice(&mut rest).ok_or_else(cut)?),
                    other => return Err(self.fault(format!("unknown field {other} of a payload"))),
                }
            }
        }
        let Some(key) = key else { return Err(self.fault("a get or a seek without a key")) };
        record.space = family;
        match verb {
            Verb::Get => record.push(key, Write::Nothing),
            Verb::Range => {
                record.push(key.max(low.unwrap_or(&[])), Write::Nothing);
                if let Some(high) = high {
                    record.push(high, Write::Nothing);
                }
                record.limit = 1;
            }
            _ => {
                // The row at the key belongs to what is looked for, our upper bound does not.
                record.push(low.unwrap_or(&[]), Write::Nothing);
                let behind = [key, &[0]].concat();
                let high = high.map_or(&behind[..], |high| high.min(&behind));
                record.push(high, Write::Nothing);
                record.limit = 1;
            }
        }
        Ok(())
    }

    /// A multi-get; the first key's family counts for all, as families are not told apart in a
    /// batch.
    fn many_keys(&mut self, record: &mut Record) -> Result<()> {
        record.clear(Verb::Mget, self.at_ns());
        let cut = || self.fault("a multi-get that is cut");
        let (map, mut rest) = self.fields()?;
        if map != 1 << 8 | 1 << 9 | 1 << 10 {
            return Err(
                self.fault(format!("a multi-get with fields {map:#x}, where 0x700 is known"))
            );
        }
        let count = number4(rest.get(..4).ok_or_else(cut)?, 0) as usize;
        rest = &rest[4..];
        let families = slice(&mut rest).ok_or_else(cut)?;
        let mut keys = slice(&mut rest).ok_or_else(cut)?;
        if families.len() != 4 * count {
            return Err(cut());
        }
        let family = if count > 0 { number4(families, 0) } else { 0 };
        let mut others = 0;
        for index in 0..count {
            let key = slice(&mut keys).ok_or_else(cut)?;
            if number4(families, 4 * index) == family {
                record.push(key, Write::Nothing);
            } else {
                others += 1;
            }
        }
        record.space = family;
        if others > 0 {
            self.skipped.add("keys of other column families in a multi-get", others);
        }
        Ok(())
    }

    /// Takes the operations of a batch from `at` on that go together; false where none is left.
    fn next_of_batch(&mut self, at: usize, record: &mut Record) -> Result<bool> {
        record.clear(Verb::Put, self.at_ns());
        let mut rest = &self.payload[at..];
        let mut skipped = None;
        while !rest.is_empty() {
            let before = rest;
            let Some(change) = Change::read(&mut rest) else {
                return Err(self.fault("a write batch with a tag that is unknown, or cut"));
            };
            let (family, key, write, is_merge) = match change {
                Change::Write { family, key, write } => (family, key, write, false),
                Change::Merge { family, key, bytes } => (family, key, Write::Put(bytes), true),
                Change::None => continue,
                Change::Foreign(what) => {
                    if record.is_empty() {
                        skipped = Some(what);
                    } else {
                        rest = before;
                    }
                    break;
                }
            };
            if !record.is_empty() && (is_merge || record.space != family) {
                rest = before;
                break;
            }
            record.space = family;
            if is_merge {
                record.verb = Verb::Rmw;
            } else if record.is_empty() {
                record.verb = if write == Write::Remove { Verb::Del } else { Verb::Put };
            } else if record.len() == 1 {
                record.verb = if record.verb == Verb::Del { Verb::Mdel } else { Verb::Mput };
            }
            record.push(key, write);
            if is_merge {
                break;
            }
        }
        let left = rest.len();
        self.batch = (left > 0).then(|| self.payload.len() - left);
        if let Some(what) = skipped {
            self.skipped.add(what, 1);
        }
        Ok(!record.is_empty())
    }
}

/// A change of a batch.
enum Change<'a> {
    Write {
        family: u32,
        key: &'a [u8],
        write: Write,
    },
    Merge {
        family: u32,
        key: &'a [u8],
        bytes: u32,
    },
    /// Nothing that changes a key.
    None,
    /// What stores do not have.
    Foreign(&'static str),
}

impl<'a> Change<'a> {
    fn read(rest: &mut &'a [u8]) -> Option<Change<'a>> {
        let (&tag, behind) = rest.split_first()?;
        *rest = behind;
        // With the column family in front: 4, 5, 6, 8, 14, 16, 23.
        let has_family = matches!(tag, 0x4 | 0x5 | 0x6 | 0x8 | 0xe | 0x10 | 0x17);
        let family = if has_family { u32::try_from(varint(rest)?).ok()? } else { 0 };
        Some(match tag {
            0x0 | 0x4 | 0x7 | 0x8 => {
                Change::Write { family, key: slice(rest)?, write: Write::Remove }
            }
            0x1 | 0x5 => {
                let key = slice(rest)?;
                let bytes = u32::try_from(slice(rest)?.len()).ok()?;
                Change::Write { family, key, write: Write::Put(bytes) }
            }
            0x2 | 0x6 => {
                let key = slice(rest)?;
                Change::Merge { family, key, bytes: u32::try_from(slice(rest)?.len()).ok()? }
            }
            // Data for the log, marks of transactions: one text, or nothing.
            0x3 | 0xa | 0xb | 0xc => {
                slice(rest)?;
                Change::None
            }
            0x9 | 0xd | 0x12 | 0x13 => Change::None,
            0xe | 0xf => {
                slice(rest)?;
                slice(rest)?;
                Change::Foreign("removals of ranges")
            }
            0x10 | 0x11 => {
                slice(rest)?;
                slice(rest)?;
                Change::Foreign("references to blobs")
            }
            0x16 | 0x17 => {
                slice(rest)?;
                slice(rest)?;
                Change::Foreign("wide columns")
            }
            _ => return None,
        })
    }
}

/// Bytes with their length in front.
fn slice<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint(rest)?).ok()?;
    rest.split_off(..length)
}
