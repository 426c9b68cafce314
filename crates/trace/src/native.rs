//! Reading a trace of our own.

use crate::bytes::{Bytes, Input};
use crate::codec::{Context, decode};
use crate::error::{Error, Result};
use crate::layout::{self, BlockHead, End, Head};
use crate::record::{Phase, Record};
use crate::recorder::Origin;
use crate::which::Which;

/// A reader of blocks.
#[derive(Debug)]
pub(crate) struct Native {
    bytes: Bytes,
    origin: Origin,
    which: Which,
    /// The block at hand, and how much of it was taken.
    block: Vec<u8>,
    taken: usize,
    left: u32,
    head_at: u64,
    stored: Vec<u8>,
    context: Context,
    phase: Phase,
    thread: u32,
    blocks: u64,
    records: u64,
    end: Option<End>,
}

impl Native {
    pub(crate) fn open(input: &Input, which: Which) -> Result<Native> {
        let mut bytes = Bytes::new(input);
        let mut header = vec![0; layout::HEADER_BYTES];
        bytes.fill(&mut header, "its header")?;
        if header[..8] != layout::MAGIC {
            let why = "it is no trace of keyrack; say --format rocksdb or --format cachelib, if it \
                       is one of those";
            return Err(Error::unusable(&input.path, why));
        }
        let version = layout::number4(&header, 8);
        if version != layout::VERSION {
            let known = layout::VERSION;
            let why = format!("version {version} of the format, this program reads {known}");
            return Err(Error::unusable(&input.path, why));
        }
        let text_bytes = layout::number4(&header, 12);
        if text_bytes > layout::TEXT_BYTES_MAX {
            return Err(bytes.fault(12, "the header is longer than any"));
        }
        let end = header.len() + text_bytes as usize;
        header.resize(end + 4, 0);
        bytes.fill(&mut header[layout::HEADER_BYTES..], "its header")?;
        if layout::number4(&header, end) != layout::crc(&header[..end]) {
            return Err(bytes.fault(0, "the checksum of the header does not match"));
        }
        let text = String::from_utf8_lossy(&header[layout::HEADER_BYTES..end]);
        Ok(Native {
            origin: Origin::parse(&text),
            bytes,
            which,
            block: Vec::new(),
            taken: 0,
            left: 0,
            head_at: 0,
            stored: Vec::new(),
            context: Context::default(),
            phase: Phase::Load,
            thread: 0,
            blocks: 0,
            records: 0,
            end: None,
        })
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Phase and thread of the record that was read last.
    pub(crate) fn place(&self) -> (Phase, u32) {
        (self.phase, self.thread)
    }

    /// The share of values that compresses away, once the end was read; nothing where no value was
    /// looked at.
    pub(crate) fn compress(&self) -> Option<f64> {
        let End { sample_bytes, sample_stored_bytes, .. } = self.end?;
        let stored = sample_stored_bytes as f64 / sample_bytes as f64;
        (sample_bytes > 0).then(|| (1.0 - stored).clamp(0.0, 1.0))
    }

    pub(crate) fn next(&mut self, record: &mut Record) -> Result<bool> {
        while self.left == 0 {
            if !self.next_block()? {
                return Ok(false);
            }
        }
        let mut rest = &self.block[self.taken..];
        let decoded = decode(&mut rest, &mut self.context, record);
        self.taken = self.block.len() - rest.len();
        self.left -= 1;
        if decoded.is_none() || (self.left == 0 && self.taken < self.block.len()) {
            return Err(self.bytes.fault(self.head_at, "a block whose records do not add up"));
        }
        Ok(true)
    }

    /// Takes the next block that is wanted; false at the end.
    fn next_block(&mut self) -> Result<bool> {
        loop {
            if self.end.is_some() {
                return Ok(false);
            }
            self.head_at = self.bytes.offset();
            let mut head = [0; layout::HEAD_BYTES];
            if self.bytes.take(&mut head)? < head.len() {
                let why = format!(
                    "it has no end, so it was cut short behind byte {}; record it again",
                    self.head_at
                );
                return Err(Error::unusable(self.bytes.path(), why));
            }
            let head = Head::decode(&head).map_err(|why| self.bytes.fault(self.head_at, why))?;
            match head {
                Head::End(end) => {
                    if (end.blocks, end.records) != (self.blocks, self.records) {
                        let why = "its end counts other blocks than there are";
                        return Err(Error::unusable(self.bytes.path(), why));
                    }
                    self.end = Some(end);
                }
                Head::Block(head) => {
                    self.blocks += 1;
                    self.records += u64::from(head.records);
                    let phase = Phase::ALL[usize::from(head.phase)];
                    if self.which.takes(phase, head.thread) {
                        (self.phase, self.thread) = (phase, head.thread);
                        self.load(&head)?;
                        return Ok(true);
                    }
                    self.bytes.skip(u64::from(head.stored_bytes), "a block")?;
                }
            }
        }
    }

    fn load(&mut self, head: &BlockHead) -> Result<()> {
        self.stored.resize(head.stored_bytes as usize, 0);
        self.bytes.fill(&mut self.stored, "a block")?;
        if layout::crc(&self.stored) != head.body_crc {
            return Err(self.bytes.fault(self.head_at, "the checksum of a block does not match"));
        }
        let raw_bytes = head.raw_bytes as usize;
        if head.is_compressed {
            self.block = zstd::bulk::decompress(&self.stored, raw_bytes)
                .map_err(|cause| self.bytes.fault(self.head_at, format!("a block: {cause}")))?;
        } else {
            std::mem::swap(&mut self.block, &mut self.stored);
        }
        if self.block.len() != raw_bytes || head.records == 0 {
            return Err(self.bytes.fault(self.head_at, "a block of another length than it says"));
        }
        (self.taken, self.left) = (0, head.records);
        self.context.reset(head.first_ns);
        Ok(())
    }
}
