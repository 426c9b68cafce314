//! Records of a file of blocks, as logs and manifests are.
//!
//! ```text
//!   file   = blocks of 32 KiB, the last one shorter
//!   block  = fragments, then fewer than 7 bytes of zeros
//!   fragment = masked checksum of what follows the length: u32 | length: u16 | type: u8 | bytes
//!   type     1 whole record, 2 first, 3 middle, 4 last part of one
//! ```
//!
//! A fragment that is not sound ends its block, since its length is not to be believed; reading
//! goes on with the next block, and with the next fragment there that begins a record.
//!
//! A file that was cut while it was written ends within a fragment or a record, or in zeros, and
//! nothing sound follows. That is a [`Lost`] with `is_cut_tail`. Everything else that is not sound
//! is damage, also a fragment whose length reaches beyond the end while others stand within it.

use crate::coding::{Bytes, masked_crc};
use crate::error::{Lost, Result};
use keyrack_vfs::{Fs, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;

/// Part of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole = 1,
    First = 2,
    Middle = 3,
    Last = 4,
}

impl Part {
    fn from_byte(byte: u8) -> Option<Self> {
        [Part::Whole, Part::First, Part::Middle, Part::Last]
            .into_iter()
            .find(|part| *part as u8 == byte)
    }
}

/// What stands at the beginning of some bytes.
enum Fragment<'a> {
    Sound(Part, &'a [u8]),
    /// Reaches beyond the bytes.
    Cut(&'static str),
    Damaged(&'static str),
}

fn fragment(bytes: &[u8]) -> Fragment<'_> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Fragment::Cut("a fragment without its header");
    };
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    if header[6] == 0 && length == 0 && bytes.iter().all(|byte| *byte == 0) {
        return Fragment::Cut("zeros in place of records");
    }
    let Some(content) = rest.get(..length) else {
        return Fragment::Cut("a fragment that is longer than what is there");
    };
    let mut header = Bytes::new(header);
    if header.u32() != Some(masked_crc(&bytes[HEADER_BYTES - 1..HEADER_BYTES + length])) {
        return Fragment::Damaged("a fragment with a wrong checksum");
    }
    match Part::from_byte(bytes[HEADER_BYTES - 1]) {
        Some(part) => Fragment::Sound(part, content),
        None => Fragment::Damaged("a fragment of an unknown type"),
    }
}

/// Whether a sound fragment stands anywhere behind the first byte.
fn holds_sound(bytes: &[u8]) -> bool {
    let places = (1..bytes.len().saturating_sub(HEADER_BYTES - 1))
        .filter(|at| Part::from_byte(bytes[at + HEADER_BYTES - 1]).is_some());
    places.map(|at| fragment(&bytes[at..])).any(|found| matches!(found, Fragment::Sound(..)))
}

/// Reads the records of one file.
pub(crate) struct LogReader {
    path: PathBuf,
    file: Arc<dyn keyrack_vfs::File>,
    /// Bytes of the file.
    end: u64,
    block: Vec<u8>,
    /// Where the block begins in the file.
    block_at: u64,
    /// Where in the block the next fragment begins.
    at: usize,
    /// The record, or the parts of it met so far.
    record: Vec<u8>,
    /// Where its first part begins, if one was met.
    record_at: Option<u64>,
    /// Whether the record was given out.
    given: bool,
    /// Lost parts, of which it is open whether something sound follows.
    pending: Vec<Lost>,
    lost: Vec<Lost>,
}

impl LogReader {
    pub(crate) fn open(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let end = file.len()?;
        Ok(LogReader {
            path: path.to_owned(),
            file,
            end,
            block: Vec::new(),
            block_at: 0,
            at: 0,
            record: Vec::new(),
            record_at: None,
            given: false,
            pending: Vec::new(),
            lost: Vec::new(),
        })
    }

    /// What was left out so far, taken away. After the last record, all of it.
    pub(crate) fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// The next whole record, and where it begins.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.given {
            self.record.clear();
            self.record_at = None;
            self.given = false;
        }
        loop {
            let rest = self.block.len() - self.at;
            if rest < HEADER_BYTES && !self.load(rest)? {
                return Ok(None);
            }
            if self.fragment() {
                self.given = true;
                let at = self.record_at.unwrap_or_default();
                return Ok(Some((at, &self.record)));
            }
        }
    }

    /// Reads the next block. `rest` bytes of this one are left over. False at the end of the file.
    fn load(&mut self, rest: usize) -> Result<bool> {
        let next = self.block_at + self.block.len() as u64;
        if next >= self.end {
            let at = self.block_at + self.at as u64;
            self.at = self.block.len();
            // Behind a block's last fragment there may be too little room for another header.
            let is_trailer = self.block.len() == BLOCK_BYTES;
            if rest > 0 && !is_trailer {
                self.leave_out(at, rest, "a fragment without its header", true);
            }
            if let Some(start) = self.record_at.take() {
                let parts = self.record.len();
                self.leave_out(start, parts, "a record that goes on beyond the end", true);
            }
            self.lost.append(&mut self.pending);
            return Ok(false);
        }
        let len = (self.end - next).min(BLOCK_BYTES as u64) as usize;
        self.block.resize(len, 0);
        self.file.read_exact_at(next, &mut self.block)?;
        (self.block_at, self.at) = (next, 0);
        Ok(true)
    }

    /// Takes the next fragment of the block. True when it completes a record.
    fn fragment(&mut self) -> bool {
        let at = self.block_at + self.at as u64;
        let is_last_block = self.block_at + self.block.len() as u64 >= self.end;
        let bytes = &self.block[self.at..];
        let (part, content) = match fragment(bytes) {
            Fragment::Sound(part, content) => (part, content),
            Fragment::Cut(what) => {
                // Zeros may go on in the blocks that follow; a length may not.
                let may_be_tail = is_last_block || what.starts_with("zeros");
                let is_cut = may_be_tail && !holds_sound(bytes);
                self.drop_block(at, what, is_cut);
                return false;
            }
            Fragment::Damaged(what) => {
                self.drop_block(at, what, false);
                return false;
            }
        };
        // Something sound: what was lost before it was no tail.
        for lost in self.pending.drain(..) {
            self.lost.push(Lost { is_cut_tail: false, ..lost });
        }
        let mut orphan = None;
        match (part, self.record_at) {
            (Part::Whole | Part::First, before) => {
                // A writer of old left empty first parts at the ends of blocks.
                if let Some(start) = before.filter(|_| !self.record.is_empty()) {
                    orphan = Some((start, self.record.len(), "a record without its end"));
                }
                self.record.clear();
                self.record.extend_from_slice(content);
                self.record_at = Some(at);
            }
            (Part::Middle | Part::Last, Some(_)) => self.record.extend_from_slice(content),
            (Part::Middle | Part::Last, None) => {
                orphan = Some((at, content.len(), "a part of a record without its beginning"));
            }
        }
        self.at += HEADER_BYTES + content.len();
        if let Some((at, len, what)) = orphan {
            self.leave_out(at, len, what, false);
        }
        self.record_at.is_some() && matches!(part, Part::Whole | Part::Last)
    }

    /// Leaves out what remains of the block, and the record that was under way.
    fn drop_block(&mut self, at: u64, what: &str, is_cut: bool) {
        let rest = self.block.len() - self.at;
        self.at = self.block.len();
        if let Some(start) = self.record_at.take() {
            let parts = self.record.len();
            self.leave_out(start, parts, "a record without its end", is_cut);
        }
        self.record.clear();
        self.leave_out(at, rest, what, is_cut);
    }

    fn leave_out(&mut self, offset: u64, bytes: usize, what: &str, is_cut_tail: bool) {
        let path = self.path.clone();
        let bytes = bytes as u64;
        self.pending.push(Lost { path, offset, bytes, what: what.to_owned(), is_cut_tail });
    }
}

#[cfg(test)]
mod tests;
