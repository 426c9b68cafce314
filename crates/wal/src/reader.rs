//! Reads one segment: its header, and the records whose checksum matches.
//!
//! The file is read through a window of bounded size. The length in a record may be damaged, so it
//! is compared with the segment's size before it is used. The checksum of a long payload is
//! computed piece by piece first, so that memory is allocated only for payloads that exist.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{File, Fs, OpenOptions};

use crate::error::{Error, Result};
use crate::format::{
    ALIGN, FRONT_BYTES, HEADER_BYTES, Header, Kind, RECORD_BYTES, Record, RecordChecksum,
    SEAL_BYTES, SEAL_OFFSET, Seal, TIME_BYTES, decode_time,
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

    /// LSN after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.header.start + self.header.segment_bytes
    }

    /// The highest synced LSN in the header and the seal.
    pub(crate) fn synced(&self) -> u64 {
        self.header.synced.max(self.seal.map_or(0, |seal| seal.end))
    }

    /// The offset of an LSN of this segment in its file.
    pub(crate) fn file_offset(&self, lsn: u64) -> u64 {
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
    pub(crate) info: SegmentInfo,
    window: Vec<u8>,
    /// Where in the file the window begins.
    window_offset: u64,
    /// Nothing from this LSN on is read: a writer may be changing it.
    pub(crate) limit: u64,
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
        let seal = seal.first_chunk().and_then(Seal::decode).filter(|seal| {
            let inside = header.start..=header.start + header.segment_bytes;
            seal.start == header.start && seal.epoch == header.epoch && inside.contains(&seal.end)
        });
        // A close cuts the file behind its records.
        let whole = FRONT_BYTES + header.segment_bytes;
        let least = seal.as_ref().map_or(whole, |seal| FRONT_BYTES + (seal.end - header.start));
        let len = file.len()?;
        if !(least..=whole).contains(&len) {
            let wanted = if len < least { least } else { whole };
            let what = format!("the file has {len} bytes, its header says {wanted}");
            return Err(Error::corruption(path, len.min(wanted), what));
        }
        let info = SegmentInfo { path: path.to_owned(), header, seal };
        Ok(Reader { file, info, window: Vec::new(), window_offset: 0, limit: u64::MAX })
    }

    /// Opens a segment without reading its header again.
    pub(crate) fn from_info(fs: &dyn Fs, info: SegmentInfo) -> Result<Self> {
        let file = fs.open(&info.path, &OpenOptions::new().read(true))?;
        Ok(Reader { file, info, window: Vec::new(), window_offset: 0, limit: u64::MAX })
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
        let offset = self.info.file_offset(lsn);
        let within = |window: &Vec<u8>, window_offset: u64| {
            let skip = usize::try_from(offset.checked_sub(window_offset)?).ok()?;
            (skip.checked_add(count)? <= window.len()).then_some(skip)
        };
        if within(&self.window, self.window_offset).is_none() {
            // The file of a closed segment is shorter than what its header says.
            let there = self.file.len()?.saturating_sub(offset);
            let end = self.info.end().min(self.limit);
            let left = end.saturating_sub(lsn).min(there).min(WINDOW_BYTES as u64);
            self.window.resize(left as usize, 0);
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

    /// The header of the record at an LSN, if the bytes can be one. Does not check the checksum.
    pub(crate) fn head(&mut self, lsn: u64) -> Result<Option<Record>> {
        let (bytes_left, incarnation) = (self.info.end() - lsn, self.info.header.incarnation());
        let bytes = self.peek(lsn, RECORD_BYTES)?;
        Ok(bytes.first_chunk().and_then(|bytes| Record::parse(bytes, incarnation, lsn, bytes_left)))
    }

    /// Whether the checksum of a record header matches its payload. O(payload).
    pub(crate) fn matches(&mut self, lsn: u64, record: &Record) -> Result<bool> {
        let mut checksum = RecordChecksum::new(lsn, record);
        if record.kind == Kind::Data {
            let length = record.length as usize;
            let mut done = 0;
            while done < length {
                // Reads from the record header on, so that a whole record of common size stays in
                // the window.
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

    /// The time of the record at an LSN, if it is a time mark: milliseconds since 1970.
    pub(crate) fn time_of(&mut self, lsn: u64, record: &Record) -> Result<Option<u64>> {
        if record.kind != Kind::Void || record.length as usize != TIME_BYTES {
            return Ok(None);
        }
        let body = self.peek(lsn + RECORD_BYTES as u64, TIME_BYTES)?;
        Ok(decode_time(body, record.incarnation, lsn))
    }

    /// Passes the payload of a record that matched to `visit`.
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
        let place = self.info.file_offset(at);
        self.file.read_exact_at(place, &mut payload).map_err(Error::from)?;
        // The payload was read a second time, so its checksum is computed a second time.
        let mut checksum = RecordChecksum::new(lsn, record);
        checksum.add(&payload);
        if checksum.sum() != record.checksum {
            let what = "the record changed between two reads";
            return Err(Error::corruption(&self.info.path, self.info.file_offset(lsn), what).into());
        }
        visit(lsn, &payload)
    }
}

/// Whether a log can have written the header into a file of this name.
fn check(path: &Path, header: &Header, start: u64) -> Result<()> {
    let refuse = |offset, what| Err(Error::corruption(path, offset, what));
    if header.start != start {
        return refuse(16, "the name and the header contain different LSNs");
    }
    let bytes = header.segment_bytes;
    if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
        return refuse(24, "the segment size is not a power of two between 4 KiB and 1 GiB");
    }
    if !start.is_multiple_of(ALIGN as u64) || start > LSN_MAX - bytes {
        return refuse(16, "the start LSN is not aligned or too large");
    }
    if header.previous_end > start || !header.previous_end.is_multiple_of(ALIGN as u64) {
        return refuse(40, "the end of the previous segment is above the start, or not aligned");
    }
    if header.synced > start {
        return refuse(48, "the synced LSN is above the start");
    }
    Ok(())
}
