//! Reading the log while it is written: from an LSN on, record by record, up to what is published.
//!
//! ```text
//!   kept | kept | live | newest: # # # # . . .
//!          ^ tail                       ^ the bound: published, or synced
//! ```
//!
//! A tail reads the files, not the mappings: what is published is in the page cache, and where
//! every record is synced, what is synced is on the disk. It reads nothing at or above the bound,
//! where a writer may be at work. Below it the records follow each other without a gap, so an LSN
//! without a whole record is damage.
//!
//! **Segments that go.** A tail holds the segments from its LSN on (`retention`), up to a limit.
//! Beyond it a segment may be used again while the tail reads it. So what was read counts if the
//! log still had the segment afterwards. Otherwise it is not kept any more, whatever the bytes
//! were.
//!
//! **What an opening has not read.** Below the LSN from which it read, nobody may have synced the
//! log: a log without retention releases records that were never durable, and a power loss takes
//! them. If a later opening has retention, it keeps the files with such holes. So a record that is
//! missing there is no damage. A tail that meets a hole reads on to the last one, and the log is
//! kept from behind that.
//!
//! **Where a tail may begin.** At the end of a record, at the beginning of a segment, and at the
//! end of the log. A power loss takes the end of the log, and the next record goes to a new segment
//! above all LSNs that were used. So an LSN that lies between the two is one of a record that was
//! lost: an error, and never the LSN of another record.

use crate::error::{Error, Result};
use crate::format::{Kind, RECORD_BYTES, Record};
use crate::log::Log;
use crate::names::path_of;
use crate::reader::Reader;
use crate::recovery::check_id;
use crate::retention::{Hold, TailFiles};

/// A record, as a [`Tail`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it begins.
    pub lsn: u64,
    /// Where it ends: a tail from here goes on behind it.
    pub end: u64,
    /// What was written.
    pub payload: Vec<u8>,
}

/// A mark of the wall clock in the log: see [`Log::mark_time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMark {
    /// Where it ends. Every record below was published by that time.
    pub end: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

/// A reader of the records of an open log, from an LSN on. It holds the segments that it has not
/// read, see [`Retention`](crate::Retention).
#[derive(Debug)]
pub struct Tail {
    files: TailFiles,
    hold: Hold,
    lsn: u64,
    /// The segment that `lsn` is in, and where its records end, once there is one behind it.
    reader: Option<(Reader, Option<u64>)>,
    time: Option<TimeMark>,
}

/// What a step has found.
enum Step {
    /// Nothing below the bound.
    End,
    Record(Record),
    /// The tail is elsewhere now.
    Moved,
}

impl Log {
    /// Reads the records from `from` on: 0 for the first of the log, or the LSN or the end of a
    /// record, or [`Log::position`]. O(bytes of a segment).
    ///
    /// # Errors
    /// `NotKept`, `NotWritten`; `Usage` with [`Sync::None`](crate::Sync::None), where there is no
    /// log; `Corruption` and `Io` as for [`Tail::next`].
    pub fn tail(&self, from: u64) -> Result<Tail> {
        let Some((files, hold)) = self.tail_files(from) else {
            return Err(Error::usage("a log without files cannot be read"));
        };
        let mut tail = Tail { files, hold, lsn: from, reader: None, time: None };
        tail.seek(self, from)?;
        Ok(tail)
    }
}

impl Tail {
    /// Where it reads on.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The last time mark that it has passed.
    #[must_use]
    pub fn time(&self) -> Option<TimeMark> {
        self.time
    }

    /// The next record that ends at `bound` or below. `bound` is at most [`Log::position`], or
    /// [`Log::synced`] where every record is synced. `log` is the one that the tail was made of.
    ///
    /// # Errors
    /// `NotKept` if the log has dropped the segment, or has lost records that no opening needed.
    /// `Corruption` if another record is damaged. `Io`: the next call tries again.
    pub fn next(&mut self, log: &Log, bound: u64) -> Result<Option<Entry>> {
        loop {
            let record = match self.step(log, bound)? {
                Step::End => return Ok(None),
                Step::Moved => continue,
                Step::Record(record) => record,
            };
            let lsn = self.lsn;
            let payload = match record.kind {
                Kind::Data => Some(self.payload(log, &record)?),
                Kind::Void => None,
            };
            self.pass(&record);
            if let Some(payload) = payload {
                return Ok(Some(Entry { lsn, end: self.lsn, payload }));
            }
        }
    }

    /// The payload of the record that a step has found.
    fn payload(&mut self, log: &Log, record: &Record) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        let mut copy = |_: u64, bytes: &[u8]| {
            payload.extend_from_slice(bytes);
            Ok::<(), Error>(())
        };
        let (reader, _) = self.reader.as_mut().expect("a step that finds a record has it");
        let read = reader.payload(self.lsn, record, &mut copy);
        self.check_kept(log)?;
        read.map(|()| payload)
    }

    /// Goes on behind a record.
    fn pass(&mut self, record: &Record) {
        self.lsn += record.log_bytes();
        self.hold.advance(self.lsn);
    }

    /// Finds the record at the LSN.
    fn step(&mut self, log: &Log, bound: u64) -> Result<Step> {
        let found = self.look(log, bound)?;
        if found.is_err() && self.lsn < log.read_from() {
            let (lsn, time) = (self.lsn, self.time);
            let first = self.end_of_holes(log);
            (self.lsn, self.time, self.reader) = (lsn, time, None);
            log.keep_from(first?);
            self.check_kept(log)?;
        }
        found
    }

    /// Behind a hole: from where on there is none below the LSN from which the recovery read.
    fn end_of_holes(&mut self, log: &Log) -> Result<u64> {
        let read_from = log.read_from();
        let mut first = self.lsn;
        while self.lsn < read_from {
            match self.look(log, read_from)? {
                Ok(Step::Record(record)) => self.pass(&record),
                Ok(Step::Moved) => {}
                Ok(Step::End) => break,
                Err(_) => {
                    let next = log.around(self.lsn).next;
                    // Between that and the next segment there is nothing.
                    first = next.map_or(read_from, |(_, previous_end)| previous_end.min(read_from));
                    (self.lsn, self.reader) = (first, None);
                }
            }
        }
        Ok(first)
    }

    /// Finds what is at the LSN. The inner error is that of a hole.
    fn look(&mut self, log: &Log, bound: u64) -> Result<Result<Step>> {
        if self.lsn >= bound {
            return Ok(Ok(Step::End));
        }
        if self.reader.is_none() && !self.open(log)? {
            return Ok(Ok(Step::End));
        }
        let (reader, known_end) = self.reader.as_mut().expect("it was opened above");
        let (start, segment_end) = (reader.info.start(), reader.info.end());
        // In a segment of an earlier opening the records may end before it does.
        let next = if known_end.is_none() { log.around(start).next } else { None };
        *known_end = known_end.or(next.map(|(_, previous_end)| previous_end.min(segment_end)));
        let end = known_end.unwrap_or(segment_end).min(bound);
        if self.lsn >= end || segment_end - self.lsn < RECORD_BYTES as u64 {
            let Some((next, previous_end)) = log.around(start).next else {
                return Ok(Ok(Step::End));
            };
            // What ended there was never in these files.
            if previous_end > segment_end && self.lsn < previous_end {
                let (path, offset) = (reader.info.path.clone(), reader.info.file_offset(self.lsn));
                self.check_kept(log)?;
                let what = format!("the log goes on at LSN {previous_end}, and has nothing below");
                return Ok(Err(Error::corruption(&path, offset, what)));
            }
            self.reader = None;
            self.lsn = next;
            self.hold.advance(next);
            return Ok(Ok(Step::Moved));
        }
        reader.limit = end;
        let found = reader.record(self.lsn);
        if let Ok(Some(record)) = &found
            && record.log_bytes() <= end - self.lsn
        {
            let unix_ms = reader.time_of(self.lsn, record)?;
            let end = self.lsn + record.log_bytes();
            self.time = unix_ms.map(|unix_ms| TimeMark { end, unix_ms }).or(self.time);
        }
        let (path, offset) = (reader.info.path.clone(), reader.info.file_offset(self.lsn));
        self.check_kept(log)?;
        match found? {
            Some(record) if record.log_bytes() <= end - self.lsn => Ok(Ok(Step::Record(record))),
            _ => {
                let what = format!("no whole record, but everything below LSN {end} was published");
                Ok(Err(Error::corruption(&path, offset, what)))
            }
        }
    }

    /// Opens the segment that the LSN is in, or the next one. `false` if there is none.
    fn open(&mut self, log: &Log) -> Result<bool> {
        let around = log.around(self.lsn);
        let Some(start) = around.at.or(around.next.map(|(start, _)| start)) else {
            return Ok(false);
        };
        let TailFiles { fs, dir, id } = &self.files;
        let opened = Reader::open(&**fs, &path_of(dir, start), start)
            .and_then(|reader| check_id(&reader.info, *id).map(|()| reader));
        // An error of a segment that is gone says nothing.
        self.check_kept(log)?;
        self.reader = Some((opened?, None));
        self.lsn = self.lsn.max(start);
        Ok(true)
    }

    /// Refuses what the log does not keep any more.
    fn check_kept(&self, log: &Log) -> Result<()> {
        let first = log.kept_from();
        if self.lsn < first { Err(Error::NotKept { lsn: self.lsn, first }) } else { Ok(()) }
    }

    /// Goes to `from`, which has to be an LSN that the log has given.
    fn seek(&mut self, log: &Log, from: u64) -> Result<()> {
        self.check_kept(log)?;
        let end = log.position();
        if from > end {
            return Err(Error::NotWritten { lsn: from, end });
        }
        let around = log.around(from);
        let is_end = |(_, previous_end): (u64, u64)| from == previous_end;
        if from == end || around.at == Some(from) || around.next.is_some_and(is_end) {
            self.hold.advance(from);
            return Ok(());
        }
        let Some(start) = around.at else {
            // Below the lowest segment there is the end of the log before it.
            let end = around.next.map_or(end, |(_, previous_end)| previous_end);
            return Err(Error::NotWritten { lsn: from, end });
        };
        // From the first record of the segment on, so that it is known where they end. A recovery
        // that began within it knows nothing of those below.
        let read_from = log.read_from();
        self.lsn = if read_from <= from { start.max(read_from) } else { start };
        while self.lsn < from {
            let before = self.lsn;
            let found = match self.step(log, end) {
                Err(Error::NotKept { first, .. }) => Err(Error::NotKept { lsn: from, first }),
                found => found,
            }?;
            if let Step::Record(record) = &found {
                self.pass(record);
            }
            if self.lsn > from || matches!(found, Step::End) {
                return Err(Error::NotWritten { lsn: from, end: before });
            }
        }
        self.hold.advance(from);
        Ok(())
    }
}
