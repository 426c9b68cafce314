//! The check of a blob file while it is copied: every record against its checksum, and all of them
//! against the digest that the manifest has.
//!
//! A record is not held: its key and value go through the hash as they come.

use super::format::{
    BlobMeta, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, footer, headers, place,
};
use crate::checksum::Growing;
use keyrack_store::{ContentCheck, Unsound};

/// Takes the bytes of a blob file in order.
pub(crate) struct BlobCheck {
    meta: BlobMeta,
    /// Bytes that were taken.
    at: u64,
    /// Of what has come as a whole only: a header, the fixed part of a record, the footer.
    held: Vec<u8>,
    record: Option<Open>,
    digest: Growing,
    records: u64,
}

/// A record whose fixed part has come.
struct Open {
    header: RecordHeader,
    offset: u64,
    end: u64,
    sum: Growing,
}

impl BlobCheck {
    pub(crate) fn new(meta: BlobMeta) -> Self {
        let digest = Growing::new(0);
        BlobCheck { meta, at: 0, held: Vec::new(), record: None, digest, records: 0 }
    }

    /// Takes what fits of `bytes` until `wanted` are held. Whether they are, and how many it took.
    fn hold(&mut self, wanted: usize, bytes: &[u8]) -> (bool, usize) {
        let count = (wanted - self.held.len()).min(bytes.len());
        self.held.extend_from_slice(&bytes[..count]);
        self.at += count as u64;
        (self.held.len() == wanted, count)
    }

    /// Takes bytes of one thing. Returns how many.
    fn take_some(&mut self, bytes: &[u8]) -> Result<usize, Unsound> {
        let start = self.at - self.held.len() as u64;
        let wrong = |what: &str| Err(Unsound { offset: start, what: what.to_owned() });
        if let Some(record) = &mut self.record {
            let left = usize::try_from(record.end - self.at).unwrap_or(usize::MAX);
            let count = left.min(bytes.len());
            record.sum.add(&bytes[..count]);
            self.at += count as u64;
            return self.end_record().map(|()| count);
        }
        if start < HEADER_BYTES {
            let (is_whole, count) = self.hold(HEADER_BYTES as usize, bytes);
            if is_whole && !headers(self.meta.number).iter().any(|it| it[..] == self.held) {
                return wrong("a header with a wrong checksum");
            }
            self.held.truncate(if is_whole { 0 } else { self.held.len() });
            return Ok(count);
        }
        if start >= self.meta.end() {
            let (is_whole, count) = self.hold(FOOTER_BYTES as usize, bytes);
            if count == 0 || (is_whole && self.held != footer(&self.meta)) {
                return wrong("a footer with a wrong checksum");
            }
            return Ok(count);
        }
        let (is_whole, count) = self.hold(RECORD_HEADER_BYTES, bytes);
        if is_whole {
            let header = RecordHeader::read(&self.held);
            let end = header.and_then(|header| start.checked_add(header.record_bytes()));
            let (Some(header), Some(end)) = (header, end.filter(|end| *end <= self.meta.end()))
            else {
                return wrong("no sound record from here on");
            };
            let mut sum = Growing::new(place(self.meta.number, start));
            sum.add(&self.held[8..]);
            self.held.clear();
            self.record = Some(Open { header, offset: start, end, sum });
            self.end_record()?;
        }
        Ok(count)
    }

    /// Compares a record when all of it has come.
    fn end_record(&mut self) -> Result<(), Unsound> {
        let Some(record) = self.record.take_if(|record| record.end == self.at) else {
            return Ok(());
        };
        if record.sum.checksum() != record.header.checksum {
            let what = "a record with a wrong checksum".to_owned();
            return Err(Unsound { offset: record.offset, what });
        }
        self.digest.add(&record.header.checksum.to_le_bytes());
        self.records += 1;
        Ok(())
    }
}

impl ContentCheck for BlobCheck {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Unsound> {
        while !bytes.is_empty() {
            let count = self.take_some(bytes)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unsound> {
        let seen = (self.at, self.records, self.digest.checksum());
        if seen == (self.meta.file_bytes(), self.meta.records, self.meta.digest) {
            return Ok(());
        }
        let what = "a footer of other records than there are".to_owned();
        Err(Unsound { offset: self.at, what })
    }
}
