//! The check of a part of a checkpoint while it is copied: every block against its checksum and its
//! place, and all of them against the checksum that the manifest has.
//!
//! A block goes through the checksum as it comes; only its head is held.

use crate::manifest::PartEntry;
use crate::part::{HEAD_BYTES, chained, u32_at};
use crc_fast::{CrcAlgorithm, Digest};
use keyrack_store::{ContentCheck, Unsound};

/// Takes the bytes of a part in order.
pub(crate) struct PartCheck {
    generation: u64,
    part: usize,
    entry: PartEntry,
    /// Bytes that were taken.
    at: u64,
    head: Vec<u8>,
    /// Where the block begins whose head is held, and where it ends.
    start: u64,
    end: u64,
    sum: Digest,
    rows: u64,
    checksum: u32,
}

impl PartCheck {
    pub(crate) fn new(generation: u64, part: usize, entry: PartEntry) -> Self {
        let sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let (head, rows, checksum) = (Vec::with_capacity(HEAD_BYTES), 0, 0);
        PartCheck { generation, part, entry, at: 0, head, start: 0, end: 0, sum, rows, checksum }
    }

    /// Takes bytes of one block. Returns how many.
    fn take_some(&mut self, bytes: &[u8]) -> Result<usize, Unsound> {
        let count = if self.head.len() < HEAD_BYTES {
            let count = (HEAD_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..count]);
            self.at += count as u64;
            if self.head.len() == HEAD_BYTES {
                self.end = self.at + u64::from(u32_at(&self.head, 4));
                self.sum.update(&self.head[4..]);
            }
            count
        } else {
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let count = left.min(bytes.len());
            self.sum.update(&bytes[..count]);
            self.at += count as u64;
            count
        };
        if self.head.len() == HEAD_BYTES && self.at == self.end {
            self.end_block()?;
        }
        Ok(count)
    }

    fn end_block(&mut self) -> Result<(), Unsound> {
        let wrong = |what: &str| Err(Unsound { offset: self.start, what: what.to_owned() });
        let stated = u32_at(&self.head, 0);
        if self.sum.finalize() != u64::from(stated) {
            return wrong("a block with a wrong checksum");
        }
        let is_here = u32_at(&self.head, 12) as usize == self.part
            && self.head[16..24] == self.generation.to_le_bytes()
            && self.head[24..32] == self.start.to_le_bytes();
        if !is_here {
            return wrong("a block that belongs elsewhere");
        }
        self.rows += u64::from(u32_at(&self.head, 8));
        self.checksum = chained(self.checksum, stated);
        self.head.clear();
        self.start = self.at;
        self.sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
        Ok(())
    }
}

impl ContentCheck for PartCheck {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Unsound> {
        while !bytes.is_empty() {
            let count = self.take_some(bytes)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unsound> {
        let wrong = |what: &str| Err(Unsound { offset: self.start, what: what.to_owned() });
        if !self.head.is_empty() {
            return wrong("the file ends in a block");
        }
        // Earlier versions kept no checksum of a part.
        let is_known = [0, self.checksum].contains(&self.entry.checksum);
        if (self.at, self.rows) == (self.entry.bytes, self.entry.rows) && is_known {
            return Ok(());
        }
        wrong("whole blocks, but not those that the manifest tells of")
    }
}
