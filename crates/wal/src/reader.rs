//! Reading one segment: its header, and records that are believed only when their checksum matches.
//!
//! The file is read through a window of bounded size. A length that a damaged record claims is
//! compared with the segment before anything is done with it; a long payload is summed up piece by
//! piece first, so that memory is taken only for payloads that are really there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{File, Fs, OpenOptions};

use crate::error::{Error, Result};
use crate::format::{
    ALIGN, FRONT_BYTES, HEADER_BYTES, Header, Kind, RECORD_BYTES, Record, RecordChecksum,
    SEAL_BYTES, SEAL_OFFSET, Seal,
};
use crate::options::{LSN_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

/// Bytes read at once.
const WINDOW_BYTES: usize = 256 << 10;

/// What the front of a segment says.
#[derive(Clone, Debug)]
pub(crate) struct SegmentInfo {
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    pub(crate) seal: Option<Seal>,
}

impl SegmentInfo {
    /// LSN of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.header.start
    }

    /// LSN behind the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.header.start + self.header.segment_bytes
    }

    /// Where an LSN of this segment lies in the file.
    pub(crate) fn place(&self, lsn: u64) -> u64 {
        FRONT_BYTES + (lsn - self.header.start)
    }

    /// Opens the segment to read its records.
    pub(crate) fn open(&self, fs: &dyn Fs) -> Result<Reader> {
        Reader::open(fs, &self.path, self.header.start)
    }
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Arc<dyn File>,
    pub(crate) front: SegmentInfo,
    window: Vec<u8>,
    /// Where in the file the window begins.
    window_offset: u64,
}

impl Reader {
    /// Opens the segment that its name says begins at `start`.
    pub(crate) fn open(fs: &dyn Fs, path: &Path, start: u64) -> Result<Self> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let mut front = [0; SEAL_OFFSET as usize + SEAL_BYTES];
        let found = file.read_at(0, &mut front)?;
        if found < front.len() {
            return Err(Error::corruption(path, found as u64, "the file ends in its header"));
        }
        let (sector, seal) = front.split_first_chunk::<HEADER_BYTES>().expect("as long as both");
        let header = Header::decode(sector)
            .map_err(|(offset, what)| Error::corruption(path, offset, what))?;
        check(path, &header, start)?;
        let (wanted, len) = (FRONT_BYTES + header.segment_bytes, file.len()?);
        if len != wanted {
            let what = format!("the file has {len} bytes, its header says {wanted}");
            return Err(Error::corruption(path, len.min(wanted), what));
        }
        let seal = seal.first_chunk().and_then(Seal::decode).filter(|seal| {
            let inside = header.start..=header.start + header.segment_bytes;
            seal.start == header.start && seal.epoch == header.epoch && inside.contains(&seal.end)
        });
        let info = SegmentInfo { path: path.to_owned(), header, seal };
        Ok(Reader { file, front, window: Vec::new(), window_offset: 0 })
    }

    /// Opens a segment of which no more is believed than `front` says.
    pub(crate) fn with_front(fs: &dyn Fs, front: SegmentInfo) -> Result<Self> {
        let file = fs.open(&front.path, &OpenOptions::new().read(true))?;
        Ok(Reader { file, front, window: Vec::new(), window_offset: 0 })
    }

    /// The header of the segment that its name says begins at `start`, if it is whole and fits;
    /// whatever the rest of the file is.
    pub(crate) fn header(fs: &dyn Fs, path: &Path, start: u64) -> Result<Option<Header>> {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let mut sector = [0; HEADER_BYTES];
        file.read_at(0, &mut sector)?;
        let header = Header::decode(&sector).ok();
        Ok(header.filter(|header| check(path, header, start).is_ok()))
    }

    /// `count` bytes at an LSN, at most [`WINDOW_BYTES`], or fewer at the end of the file.
    pub(crate) fn peek(&mut self, lsn: u64, count: usize) -> Result<&[u8]> {
        debug_assert!(count <= WINDOW_BYTES);
        let offset = self.front.place(lsn);
        let within = |window: &Vec<u8>, window_offset: u64| {
            let skip = usize::try_from(offset.checked_sub(window_offset)?).ok()?;
            (skip.checked_add(count)? <= window.len()).then_some(skip)
        };
        if within(&self.window, self.window_offset).is_none() {
            let left = (self.front.end() - lsn).min(WINDOW_BYTES as u64) as usize;
            self.window.resize(left, 0);
            self.window_offset = offset;
            let found = match self.file.read_at(offset, &mut self.window) {
                Ok(found) => found,
                Err(error) => {
                    self.window.clear();
                    return Err(error.into());
                }
            };
            self.window.truncate(found);
        }
        let skip = (offset - self.window_offset) as usize;
        Ok(&self.window[skip..self.window.len().min(skip + count)])
    }

    /// What could be the head of a record at an LSN. Its checksum is not looked at.
    pub(crate) fn head(&mut self, lsn: u64) -> Result<Option<Record>> {
        let (bytes_left, incarnation) = (self.front.end() - lsn, self.front.header.incarnation());
        let bytes = self.peek(lsn, RECORD_BYTES)?;
        Ok(bytes.first_chunk().and_then(|bytes| Record::parse(bytes, incarnation, lsn, bytes_left)))
    }

    /// Does the checksum of a head match what is behind it? O(payload).
    pub(crate) fn matches(&mut self, lsn: u64, record: &Record) -> Result<bool> {
        let mut checksum = RecordChecksum::new(lsn, record);
        if record.kind == Kind::Data {
            let length = record.length as usize;
            let mut done = 0;
            while done < length {
                // From the head on, so that a record of common size stays in the window as a whole.
                let (skip, at) =
                    if done == 0 { (RECORD_BYTES, 0) } else { (0, RECORD_BYTES + done) };
                let count = (skip + length - done).min(WINDOW_BYTES);
                let bytes = self.peek(lsn + at as u64, count)?;
                if bytes.len() < count {
                    return Ok(false);
                }
                checksum.add(&bytes[skip..]);
                done += count - skip;
            }
        }
        Ok(checksum.sum() == record.checksum)
    }

    /// The record at an LSN, if there is a whole one.
    pub(crate) fn record(&mut self, lsn: u64) -> Result<Option<Record>> {
        let Some(record) = self.head(lsn)? else { return Ok(None) };
        Ok(self.matches(lsn, &record)?.then_some(record))
    }

    /// Gives the payload of a record that matched to `visit`.
    pub(crate) fn payload<E: From<Error>>(
        &mut self,
        lsn: u64,
        record: &Record,
        visit: &mut dyn FnMut(u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (length, at) = (record.length as usize, lsn + RECORD_BYTES as u64);
        if length <= WINDOW_BYTES - RECORD_BYTES {
            return visit(lsn, self.peek(at, length)?);
        }
        let mut payload = vec![0; length];
        let place = self.front.place(at);
        self.file.read_exact_at(place, &mut payload).map_err(Error::from)?;
        // It was read a second time, so it is summed up a second time.
        let mut checksum = RecordChecksum::new(lsn, record);
        checksum.add(&payload);
        if checksum.sum() != record.checksum {
            let what = "a record reads differently the second time";
            return Err(Error::corruption(&self.front.path, self.front.place(lsn), what).into());
        }
        visit(lsn, &payload)
    }
}

/// Is the header one that a log can have written, into a file of this name?
fn check(path: &Path, header: &Header, start: u64) -> Result<()> {
    let refuse = |offset, what| Err(Error::corruption(path, offset, what));
    if header.start != start {
        return refuse(16, "the name and the header say different LSNs");
    }
    let bytes = header.segment_bytes;
    if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
        return refuse(24, "a segment of impossible size");
    }
    if !start.is_multiple_of(ALIGN as u64) || start > LSN_MAX - bytes {
        return refuse(16, "an impossible LSN");
    }
    if header.previous_end > start || !header.previous_end.is_multiple_of(ALIGN as u64) {
        return refuse(40, "an impossible end of the segment before");
    }
    if header.synced > start {
        return refuse(48, "an impossible mark of what was synced");
    }
    Ok(())
}
