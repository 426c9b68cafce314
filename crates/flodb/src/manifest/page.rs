//! Records in pages of 512 bytes, so that a crash and damage do not look alike.
//!
//! ```text
//!   page 0        header: magic, versions, the file's number, checksum
//!   page 1        record 0, first part
//!   page 2        record 0, last part
//!   page 3        record 1, first and last part
//!   ...
//!   one page:  checksum u64 | record u32 | used u16 | flags u8 | 0 u8 | content, zeros behind it
//! ```
//!
//! A record begins on a page and has as many as it needs; all but its last are full. A disk writes
//! 512 bytes whole or not at all, and a manifest is written once from front to back, each record
//! synced before the next one begins. So after a crash every page is
//! - *good*: its checksum, which covers the file's number and the page's place, is right; or
//! - *blank*: it reads as zeros, or lies behind the end of the file; the last one may be cut.
//!
//! Blank pages can only be those of the one record that was not acknowledged. A record that lacks
//! pages, with nothing but parts of itself around and behind them, is therefore torn, and dropped.
//! Everything else, a page that is neither good nor blank, or a record behind a blank page, is
//! damage of what was acknowledged. LevelDB's log format cannot tell a flipped bit in its last
//! record from a crash, and drops both.
//!
//! **Room.** A file that is cut where a record ends must not look whole. So a manifest has its
//! length from the beginning, with blank pages as room for edits, and its header says the length.
//! Another length is damage. An edit that finds no room begins a new manifest.

use crate::checksum::checksum;
use crate::error::{Error, Result};
use keyrack_vfs::File;
use std::sync::Arc;

/// Bytes that a disk writes whole or not at all.
pub(crate) const PAGE_BYTES: usize = 512;

/// Bytes of a page in front of its content.
const HEAD_BYTES: usize = 16;

pub(crate) const CONTENT_BYTES: usize = PAGE_BYTES - HEAD_BYTES;

/// Pages read at once.
const CHUNK_PAGES: usize = 128;

/// No manifest is longer: it would be replaced long before.
const FILE_BYTES_MAX: u64 = 1 << 32;

const FIRST: u8 = 1;
const LAST: u8 = 2;

/// Pages of a record with so much content.
pub(crate) fn pages_of(content_bytes: usize) -> usize {
    content_bytes.div_ceil(CONTENT_BYTES).max(1)
}

/// What the checksum of a page covers besides its bytes: the file and the place.
pub(super) fn place(file: u64, page: u64) -> u64 {
    file.rotate_left(32) ^ page
}

/// Appends the pages of a record to `out`. `page` is the index of the first of them, `record` the
/// number of records before it.
pub(crate) fn put_record(out: &mut Vec<u8>, file: u64, page: u64, record: u32, content: &[u8]) {
    let count = pages_of(content.len());
    for index in 0..count {
        let start = index * CONTENT_BYTES;
        let part = &content[start..content.len().min(start + CONTENT_BYTES)];
        let first = if index == 0 { FIRST } else { 0 };
        let last = if index == count - 1 { LAST } else { 0 };
        let mut bytes = [0; PAGE_BYTES];
        bytes[8..12].copy_from_slice(&record.to_le_bytes());
        bytes[12..14].copy_from_slice(&(part.len() as u16).to_le_bytes());
        bytes[14] = first | last;
        bytes[HEAD_BYTES..HEAD_BYTES + part.len()].copy_from_slice(part);
        let sum = checksum(&bytes[8..], place(file, page + index as u64));
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// A good page of a record.
struct Part<'a> {
    record: u32,
    is_first: bool,
    is_last: bool,
    content: &'a [u8],
}

/// What is in the place of a page.
enum Page<'a> {
    Good(Part<'a>),
    /// Never written, or cut.
    Blank,
    /// Neither.
    Damaged,
}

fn parse(bytes: &[u8], file: u64, index: u64) -> Page<'_> {
    let Some((head, content)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Page::Blank };
    if bytes.len() < PAGE_BYTES || bytes.iter().all(|byte| *byte == 0) {
        return Page::Blank;
    }
    let (sum, head) = head.split_first_chunk::<8>().expect("a head has more bytes than a checksum");
    if u64::from_le_bytes(*sum) != checksum(&bytes[8..], place(file, index)) {
        return Page::Damaged;
    }
    let &[r0, r1, r2, r3, u0, u1, flags, zero] = head else { return Page::Damaged };
    let used = usize::from(u16::from_le_bytes([u0, u1]));
    let is_last = flags & LAST != 0;
    let fills = if is_last { used <= CONTENT_BYTES } else { used == CONTENT_BYTES };
    if !fills || zero != 0 || flags & !(FIRST | LAST) != 0 {
        return Page::Damaged;
    }
    Page::Good(Part {
        record: u32::from_le_bytes([r0, r1, r2, r3]),
        is_first: flags & FIRST != 0,
        is_last,
        content: &content[..used],
    })
}

/// How a record ends.
enum Outcome {
    Whole,
    /// Nothing but blank pages is left.
    End,
    /// It was not finished. So many of its pages are there or were passed over.
    Torn {
        pages: u64,
    },
}

/// Reads the records of a manifest one after the other.
pub(crate) struct Records {
    file: Arc<dyn File>,
    number: u64,
    /// Bytes of the file, and those that its header says, 0 for none.
    len: u64,
    file_bytes: u64,
    /// The page that is read next.
    at: u64,
    record: u32,
    /// Bytes of the record at the end that is torn.
    torn_bytes: u64,
    chunk: Vec<u8>,
    /// The first page in `chunk`.
    chunk_at: u64,
}

impl Records {
    /// Of the manifest `number`, from its first record on. The header says that the file has
    /// `file_bytes`; 0 if it says nothing.
    ///
    /// # Errors
    /// The file is longer than any manifest, or the machine fails.
    pub(crate) fn new(file: Arc<dyn File>, number: u64, file_bytes: u64) -> Result<Self> {
        let len = file.len()?;
        if len > FILE_BYTES_MAX {
            return Err(Error::corruption(file.path(), len, "longer than any manifest"));
        }
        let (chunk, torn_bytes) = (Vec::new(), 0);
        Ok(Records {
            file,
            number,
            len,
            file_bytes,
            at: 1,
            record: 0,
            torn_bytes,
            chunk,
            chunk_at: 0,
        })
    }

    /// Where the next record begins, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.at * PAGE_BYTES as u64
    }

    /// The number of records read.
    pub(crate) fn count(&self) -> u32 {
        self.record
    }

    /// Behind the last record: bytes of one that is torn.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Reads the next record into `content`. `false` where there is none: the records end, or the
    /// next one is torn.
    ///
    /// # Errors
    /// What follows is damaged, or the records end in a file of another length than its header
    /// says; the machine fails.
    pub(crate) fn read(&mut self, content: &mut Vec<u8>) -> Result<bool> {
        content.clear();
        let start = self.at;
        match self.assemble(content)? {
            Outcome::Whole => {
                self.record += 1;
                return Ok(true);
            }
            Outcome::End => self.torn_bytes = 0,
            Outcome::Torn { pages } => self.torn_bytes = pages * PAGE_BYTES as u64,
        }
        self.at = start;
        if ![0, self.len].contains(&self.file_bytes) {
            let (len, wanted) = (self.len, self.file_bytes);
            let what = format!("the file has {len} bytes, its header says {wanted}");
            return Err(Error::corruption(self.file.path(), len.min(wanted), what));
        }
        Ok(false)
    }

    /// Follows the pages of a record to its last; having met a blank one, follows them to the end
    /// of the file, where nothing but parts of this record may be.
    fn assemble(&mut self, content: &mut Vec<u8>) -> Result<Outcome> {
        let start = self.at;
        let mut blank_at = None;
        let mut is_over = false;
        // Behind the last page that is not blank.
        let mut end = start;
        while self.at * (PAGE_BYTES as u64) < self.len {
            let (index, number, record) = (self.at, self.number, self.record);
            self.load(index)?;
            let part = match parse(self.bytes_of(index), number, index) {
                Page::Damaged => {
                    return Err(self.damage(index, "the page does not match its checksum"));
                }
                Page::Blank => {
                    blank_at.get_or_insert(index);
                    self.at += 1;
                    continue;
                }
                Page::Good(part) => part,
            };
            if part.record != record || part.is_first != (index == start) || is_over {
                // What is here was written after the record was complete: the blank page was lost.
                let (at, what) = match blank_at {
                    Some(at) => (at, "a page is missing"),
                    None => (index, "the page belongs to another record"),
                };
                return Err(self.damage(at, what));
            }
            is_over = part.is_last;
            let is_whole = is_over && blank_at.is_none();
            if blank_at.is_none() {
                content.extend_from_slice(part.content);
            }
            self.at += 1;
            end = self.at;
            if is_whole {
                return Ok(Outcome::Whole);
            }
        }
        Ok(if end == start { Outcome::End } else { Outcome::Torn { pages: end - start } })
    }

    fn damage(&self, page: u64, what: &str) -> Error {
        Error::corruption(self.file.path(), page * PAGE_BYTES as u64, what)
    }

    /// The bytes of a loaded page; fewer where the file ends.
    fn bytes_of(&self, page: u64) -> &[u8] {
        let start = (page - self.chunk_at) as usize * PAGE_BYTES;
        // Behind the end there is no page.
        let rest = self.chunk.get(start..).unwrap_or_default();
        &rest[..rest.len().min(PAGE_BYTES)]
    }

    fn load(&mut self, page: u64) -> Result<()> {
        let loaded = self.chunk_at..self.chunk_at + CHUNK_PAGES as u64;
        if self.chunk.is_empty() || !loaded.contains(&page) {
            self.chunk.resize(CHUNK_PAGES * PAGE_BYTES, 0);
            self.chunk_at = page;
            let found = self.file.read_at(page * PAGE_BYTES as u64, &mut self.chunk);
            let found = found.inspect_err(|_| self.chunk.clear())?;
            self.chunk.truncate(found);
        }
        Ok(())
    }
}
