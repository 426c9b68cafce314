//! One segment that is being written: a mapped file, and the copying of records into it.
//!
//! The copies of different threads go to different bytes. Each piece that is copied begins at a
//! multiple of 8 and has a multiple of 8 bytes, the zeros behind the payload included, so that the
//! mapping stores whole words.

use std::path::PathBuf;
use std::sync::Arc;

use keyrack_vfs::Mapping;

use crate::format::{
    self, ALIGN, FRONT_BYTES, Incarnation, Kind, RECORD_BYTES, Record, RecordChecksum, SEAL_BYTES,
    SEAL_OFFSET, SMALL_BYTES_MAX, Seal, SmallBuffer, TIME_BYTES, log_bytes_of,
};

/// The smallest page.
pub(crate) const PAGE_BYTES: u64 = 4_096;
/// A flush past the page cache writes whole pages. The header of a segment that is recycled
/// meanwhile must not be in one of them.
const _: () = assert!(FRONT_BYTES.is_multiple_of(PAGE_BYTES));
/// Pages are touched so many bytes at a time.
const WINDOW_BYTES: u64 = 32 * PAGE_BYTES;

/// Bytes copied at once from the parts of a large record.
const PIECE_BYTES: usize = 4_096;
const _: () = assert!(PIECE_BYTES.is_multiple_of(ALIGN));

type Result<T> = std::result::Result<T, keyrack_vfs::Error>;

/// Whether a record holds the first byte of a window. Segments begin with one.
#[inline]
pub(crate) fn reaches_window(lsn: u64, end: u64) -> bool {
    lsn.div_ceil(WINDOW_BYTES) <= (end - 1) / WINDOW_BYTES
}

/// A mapped segment.
#[derive(Debug)]
pub(crate) struct Segment {
    /// LSN of the first byte.
    pub(crate) start: u64,
    /// Bytes of records.
    pub(crate) bytes: u64,
    pub(crate) incarnation: Incarnation,
    pub(crate) path: PathBuf,
    /// Bytes of records that have their space, from the first on: the others have none yet.
    pub(crate) mapped_bytes: u64,
    /// The file as far as its space goes, or all of it if it is direct.
    pub(crate) mapping: Arc<dyn Mapping>,
    /// Whether bytes reach the file when they are flushed, and not before.
    pub(crate) is_direct: bool,
}

impl Segment {
    /// LSN after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// The offset of an LSN of this segment in its file.
    fn file_offset(&self, lsn: u64) -> u64 {
        debug_assert!((self.start..self.end()).contains(&lsn));
        FRONT_BYTES + (lsn - self.start)
    }

    /// Writes a record at an LSN that the caller has reserved. `length` is the sum of the parts.
    pub(crate) fn write(
        &self,
        lsn: u64,
        synced: u64,
        parts: &[&[u8]],
        length: usize,
    ) -> Result<()> {
        let place = self.file_offset(lsn);
        if length <= SMALL_BYTES_MAX {
            let mut buffer: SmallBuffer = [0; _];
            let bytes = format::small(&mut buffer, self.incarnation, lsn, synced, parts);
            return self.mapping.write(place, bytes);
        }
        let (incarnation, length_u32) = (self.incarnation, length as u32);
        let mut record =
            Record { incarnation, kind: Kind::Data, length: length_u32, synced, checksum: 0 };
        let mut checksum = RecordChecksum::new(lsn, &record);
        let mut piece = [0; PIECE_BYTES];
        let (mut filled, mut at) = (0, place + RECORD_BYTES as u64);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let count = rest.len().min(PIECE_BYTES - filled);
                piece[filled..filled + count].copy_from_slice(&rest[..count]);
                (rest, filled) = (&rest[count..], filled + count);
                if filled == PIECE_BYTES {
                    checksum.add(&piece);
                    self.mapping.write(at, &piece)?;
                    (filled, at) = (0, at + PIECE_BYTES as u64);
                }
            }
        }
        checksum.add(&piece[..filled]);
        let padded = filled.next_multiple_of(ALIGN);
        piece[filled..padded].fill(0);
        self.mapping.write(at, &piece[..padded])?;
        debug_assert_eq!(at + padded as u64, place + log_bytes_of(length) as u64);
        record.checksum = checksum.sum();
        self.mapping.write(place, &format::head(&record))
    }

    /// Touches the first window, where nobody comes from before.
    pub(crate) fn touch_start(&self) {
        self.touch(self.start);
    }

    /// Touches all pages, for a segment that writers are about to fill.
    pub(crate) fn touch_all(&self) {
        for start in (self.start..self.start + self.mapped_bytes).step_by(WINDOW_BYTES as usize) {
            self.touch(start);
        }
    }

    /// Touches the window behind each whose first byte a record holds. That is one record alone, so
    /// of threads that write side by side one takes the page faults, and the others find the pages
    /// made. Page by page would not do: pages that lie together may share a lock in the kernel, and
    /// to wait for it and be woken costs more than the fault.
    pub(crate) fn touch_ahead(&self, lsn: u64, end: u64) {
        for window in lsn.div_ceil(WINDOW_BYTES)..=(end - 1) / WINDOW_BYTES {
            self.touch((window + 1) * WINDOW_BYTES);
        }
    }

    /// Touches the pages of the window from `lsn` on, as far as the segment has space.
    fn touch(&self, lsn: u64) {
        let end = self.start + self.mapped_bytes;
        for at in (lsn..end.min(lsn + WINDOW_BYTES)).step_by(PAGE_BYTES as usize) {
            self.mapping.touch(self.file_offset(at));
        }
    }

    /// Makes `log_bytes` void. Less than a record's head is void by itself: it only occurs at the
    /// end of a segment.
    pub(crate) fn void(&self, lsn: u64, synced: u64, log_bytes: u64) -> Result<()> {
        if log_bytes < RECORD_BYTES as u64 {
            return Ok(());
        }
        let bytes = format::void(self.incarnation, lsn, synced, log_bytes);
        self.mapping.write(self.file_offset(lsn), &bytes)
    }

    /// Writes a time mark at an LSN that the caller has reserved.
    pub(crate) fn write_time(&self, lsn: u64, synced: u64, unix_ms: u64) -> Result<()> {
        let body = format::encode_time(self.incarnation, lsn, unix_ms);
        self.mapping.write(self.file_offset(lsn) + RECORD_BYTES as u64, &body)?;
        self.void(lsn, synced, log_bytes_of(TIME_BYTES) as u64)
    }

    /// Makes the bytes from one LSN to another durable, as far as they lie in this segment.
    pub(crate) fn flush(&self, from: u64, to: u64) -> Result<()> {
        // There are no records where the segment has no space.
        let (from, to) = (from.max(self.start), to.min(self.start + self.mapped_bytes));
        if from >= to {
            return Ok(());
        }
        self.mapping.flush(FRONT_BYTES + (from - self.start), to - from)
    }

    /// Writes durably that the log ends here, and that everything before it is durable.
    pub(crate) fn seal(&self, end: u64) -> Result<()> {
        let seal = Seal { start: self.start, epoch: self.incarnation.epoch, end };
        self.mapping.write(SEAL_OFFSET, &seal.encode())?;
        self.mapping.flush(SEAL_OFFSET, SEAL_BYTES as u64)
    }
}
