//! Salvage: reads what is left of a damaged log. It writes nothing.
//!
//! ```text
//!   records   |####|hole|#######|###|torn, or never acknowledged
//!                               ^   ^ the end: the first break above the highest synced LSN
//!                               the highest synced LSN
//! ```
//!
//! [`crate::Log::open`] fails at the first break below the highest synced LSN. Salvage continues
//! after the break:
//!
//! * A **break** below the highest synced LSN is a *hole*. Whole records after it belong to the
//!   log, since their checksums cover epoch and LSN. Salvage returns them.
//! * A break above the highest synced LSN is the end, as in a recovery. The bytes after it were
//!   never synced, and an earlier recovery may have dropped them. They do not come back.
//! * A segment with a damaged header is read with its name, its length and its records.
//! * A missing segment is a hole. That includes the newest one, which the marker names.
//! * A segment with the identity of another log is not read, and is a hole.

use std::path::{Path, PathBuf};

use keyrack_vfs::Fs;

use crate::error::{Error, Result};
use crate::format::{ALIGN, FRONT_BYTES, Header, Kind, RECORD_BYTES};
use crate::marker::{self, ID_AT as ID_AT_MARK, MARKER_MISSING, MarkerFile, NEWEST_MISSING};
use crate::names::path_of;
use crate::options::{LSN_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::reader::{Reader, SegmentInfo};
use crate::recovery::{ID_AT, Replay, list, next_record, search};

/// Offsets of the fields that tell that a later version wrote a header.
const VERSION_AT: u64 = 8;
const FLAGS_AT: u64 = 12;
/// The number of epochs that are tried for a segment whose header is lost.
const EPOCHS_MAX: u64 = 4_096;

/// A part of a log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hole {
    /// Which file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// The first LSN that is missing.
    pub from: u64,
    /// The first LSN after the hole. If only the header of a segment is lost, that is `from`.
    pub to: u64,
    /// What is wrong.
    pub what: String,
}

/// What was found in a damaged log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Where the log begins: except for the holes, everything from here on was found. Without
    /// a `from`, this is above missing older segments.
    pub begin: u64,
    /// Where the records end.
    pub end: u64,
    /// No segment and no used LSN is above this one.
    pub top: u64,
    /// Records replayed.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// The missing parts, ascending.
    pub holes: Vec<Hole>,
    /// Bytes after the end that were dropped, see [`crate::Recovered::dropped_bytes`].
    pub dropped_bytes: u64,
    /// Whole records among them.
    pub dropped_records: u64,
    /// All files of the log: those with the name of a segment, and the marker.
    pub segments: Vec<PathBuf>,
}

/// Reads the log in `dir` and passes each whole record from `from` on to `replay`, in LSN order.
/// Without `from`, it reads all segments that are connected with the newest one. Older ones may be
/// left over from a release. `id` is the identity that the log must have, 0 if it was never begun.
/// Without `id`, the files decide. O(bytes of the log).
///
/// # Errors
/// `Usage` if `from` is too large, or a later version wrote the log; `Io`; and the first error of
/// `replay`. Damage is not an error here.
pub fn salvage<E: From<Error>>(
    fs: &dyn Fs,
    dir: &Path,
    from: Option<u64>,
    id: Option<u64>,
    replay: &mut dyn FnMut(u64, &[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<Salvaged, E> {
    if from.is_some_and(|from| from >= LSN_MAX) {
        return Err(Error::usage("the LSN to read from is too large").into());
    }
    let seen = marker::read(fs, dir)?;
    let mut starts = list(fs, dir)?;
    let mut salvaged = Salvaged {
        segments: starts.iter().map(|start| path_of(dir, *start)).collect(),
        ..Salvaged::default()
    };
    if !matches!(seen, MarkerFile::Absent) {
        salvaged.segments.push(marker::path_in(dir));
    }
    salvaged.top = starts.last().copied().unwrap_or(0);
    let id = exclude_foreign(fs, dir, id, &seen, &mut starts, &mut salvaged)?;
    let newest = starts.last().copied();
    let chain = chain(fs, dir, &starts, from, &mut salvaged)?;
    SalvageScan { fs, chain, out: &mut salvaged, mark: None }.run(replay)?;
    check_marker(dir, seen, id, newest, &mut salvaged);
    salvaged.holes.sort_by_key(|hole| hole.from);
    salvaged.top = salvaged.top.max(salvaged.end);
    Ok(salvaged)
}

/// Removes the segments of other logs from `starts`. Returns the identity of this log, 0 if it has
/// none: the wanted one, or that of the marker, unless all segments contradict it.
fn exclude_foreign(
    fs: &dyn Fs,
    dir: &Path,
    wanted: Option<u64>,
    seen: &MarkerFile,
    starts: &mut Vec<u64>,
    out: &mut Salvaged,
) -> Result<u64> {
    let mut ids = Vec::new();
    for start in starts.iter() {
        let header = Reader::header(fs, &path_of(dir, *start), *start)?;
        ids.push(header.map_or(0, |header| header.id));
    }
    let last = ids.iter().rev().find(|id| **id != 0).copied().unwrap_or(0);
    let found = match seen {
        MarkerFile::Good(mark) if last == 0 || ids.contains(&mark.id) => mark.id,
        _ => last,
    };
    let id = wanted.unwrap_or(found);
    let is_foreign = |index: usize| ids[index] != 0 && ids[index] != id;
    for index in (0..starts.len()).filter(|index| is_foreign(*index)) {
        let (from, to) = (starts[index], starts.get(index + 1).copied().unwrap_or(starts[index]));
        let what = "a segment of another log".to_owned();
        out.holes.push(Hole { path: path_of(dir, from), offset: ID_AT, from, to, what });
    }
    let mut index = 0;
    starts.retain(|_| {
        index += 1;
        !is_foreign(index - 1)
    });
    Ok(id)
}

/// Reports what is missing according to the marker, or that the marker itself is damaged.
fn check_marker(dir: &Path, seen: MarkerFile, id: u64, newest: Option<u64>, out: &mut Salvaged) {
    let (begin, path) = (out.begin, marker::path_in(dir));
    let of_marker = |offset, what| Hole { path, offset, from: begin, to: begin, what };
    match seen {
        // A log that was never begun may have a marker that names no segment.
        MarkerFile::Good(mark) if mark.id != id && (id != 0 || mark.start != 0) => {
            out.holes.push(of_marker(ID_AT_MARK, "the marker of another log".to_owned()));
        }
        MarkerFile::Good(mark) if newest.unwrap_or(0) < mark.start => {
            let end = (mark.start.saturating_add(mark.segment_bytes)).min(LSN_MAX);
            let (path, what) = (path_of(dir, mark.start), NEWEST_MISSING.to_owned());
            out.holes.push(Hole { path, offset: 0, from: out.end.min(end), to: end, what });
            out.top = out.top.max(end);
        }
        MarkerFile::Good(mark) if out.end < mark.end => {
            let what = format!("the log was closed at {}, but its records end before", mark.end);
            let (path, from, to) = (path_of(dir, mark.start), out.end, mark.end);
            out.holes.push(Hole { path, offset: 0, from, to, what });
        }
        MarkerFile::Bad(Error::Corruption { offset, what, .. }) if id != 0 => {
            out.holes.push(of_marker(offset, what));
        }
        MarkerFile::Absent if id != 0 => {
            out.holes.push(of_marker(0, MARKER_MISSING.to_owned()));
        }
        MarkerFile::Good(_) | MarkerFile::Bad(_) | MarkerFile::Absent => {}
    }
}

/// A segment to read.
#[derive(Clone, Debug)]
struct SegmentLink {
    info: SegmentInfo,
    /// Whether its `previous_end` is known.
    is_sure: bool,
}

/// The segments to read, ascending. Found from the last one backwards.
fn chain(
    fs: &dyn Fs,
    dir: &Path,
    starts: &[u64],
    from: Option<u64>,
    out: &mut Salvaged,
) -> Result<Vec<SegmentLink>> {
    let lowest = from.unwrap_or(0);
    let mut chain: Vec<SegmentLink> = Vec::new();
    let mut at = starts.len();
    out.begin = lowest;
    // Where the log continues above the segments seen so far. The next lower one has to reach it.
    let mut wanted = None;
    while let Some(index) = at.checked_sub(1) {
        let (start, above) = (starts[index], chain.last().map(|link| link.info.header.epoch));
        let link = open(fs, dir, starts, index, above, out)?;
        at = index;
        let Some(link) = link else { continue };
        let info = &link.info;
        if let Some(wanted) = wanted
            && info.end() < wanted
        {
            if from.is_none() {
                out.begin = wanted;
                break;
            }
            push_missing(dir, info.end().max(lowest), wanted, out);
        }
        let previous_end = info.header.previous_end;
        out.top = out.top.max(info.end());
        chain.push(link);
        wanted = Some(previous_end);
        if start <= lowest || previous_end <= lowest {
            wanted = None;
            break;
        }
        at = starts.partition_point(|start| *start < previous_end);
    }
    if let (0, Some(wanted)) = (at, wanted) {
        match from {
            Some(from) => push_missing(dir, from, wanted, out),
            None => out.begin = wanted,
        }
    }
    chain.reverse();
    Ok(chain)
}

fn push_missing(dir: &Path, from: u64, to: u64, out: &mut Salvaged) {
    // A segment whose file exists but cannot be read is already reported.
    if out.holes.iter().any(|hole| hole.from <= from && to <= hole.to) {
        return;
    }
    let what = "a segment is missing".to_owned();
    out.holes.push(Hole { path: dir.to_owned(), offset: 0, from, to, what });
}

/// What the front of a segment says, or what can be told without it. `None` if nothing can.
fn open(
    fs: &dyn Fs,
    dir: &Path,
    starts: &[u64],
    index: usize,
    epoch_above: Option<u64>,
    out: &mut Salvaged,
) -> Result<Option<SegmentLink>> {
    let (start, path) = (starts[index], path_of(dir, starts[index]));
    let (offset, what) = match Reader::open(fs, &path, start) {
        Ok(reader) => return Ok(Some(SegmentLink { info: reader.info, is_sure: true })),
        // The segment is intact, but a later version has to read it.
        Err(Error::Corruption { offset: VERSION_AT | FLAGS_AT, what, .. }) => {
            return Err(Error::usage(format!("{}: {what}", path.display())));
        }
        Err(Error::Corruption { offset, what, .. }) => (offset, what),
        Err(error) => return Err(error),
    };
    let mut hole = Hole { path: path.clone(), offset, from: start, to: start, what };
    let link = match Reader::header(fs, &path, start)? {
        Some(header) => {
            Some(SegmentLink { info: SegmentInfo { path, header, seal: None }, is_sure: true })
        }
        None => {
            let below = index.checked_sub(1).map(|below| starts[below]);
            let below = below
                .and_then(|below| Reader::header(fs, &path_of(dir, below), below).ok().flatten());
            let below = below.map_or(1, |header| header.epoch);
            let info = reconstruct(fs, &path, start, below, epoch_above)?;
            info.map(|info| SegmentLink { is_sure: info.header.epoch == below, info })
        }
    };
    if link.is_none() {
        hole.to = starts.get(index + 1).copied().unwrap_or(start);
        // The end of the segment is unknown.
        out.top = out.top.max(start.saturating_add(SEGMENT_BYTES_MAX).min(LSN_MAX));
    }
    out.holes.push(hole);
    Ok(link)
}

/// Reconstructs the header of a segment that has lost it. The epoch is one under which a record
/// matches.
fn reconstruct(
    fs: &dyn Fs,
    path: &Path,
    start: u64,
    epoch_below: u64,
    epoch_above: Option<u64>,
) -> Result<Option<SegmentInfo>> {
    let bytes = fs.metadata(path)?.len.saturating_sub(FRONT_BYTES);
    if bytes > SEGMENT_BYTES_MAX {
        return Ok(None);
    }
    // A file that a close has cut is shorter than its segment was.
    let least = bytes.next_power_of_two().max(SEGMENT_BYTES_MIN);
    let sizes = (least.ilog2()..=SEGMENT_BYTES_MAX.ilog2()).map(|log2| 1 << log2);
    for segment_bytes in sizes.take_while(|size| start.is_multiple_of(*size)) {
        if start > LSN_MAX - segment_bytes {
            break;
        }
        let found = reconstruct_of(fs, path, (start, segment_bytes), (epoch_below, epoch_above))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// As [`reconstruct`], where the segment had so many bytes.
fn reconstruct_of(
    fs: &dyn Fs,
    path: &Path,
    (start, segment_bytes): (u64, u64),
    (epoch_below, epoch_above): (u64, Option<u64>),
) -> Result<Option<SegmentInfo>> {
    let last = epoch_above.unwrap_or(u64::MAX).min(epoch_below.saturating_add(EPOCHS_MAX));
    for epoch in epoch_below..=last {
        // Except after a reopening, the log ended where this segment begins.
        let header = Header {
            start,
            segment_bytes,
            epoch,
            previous_end: start,
            synced: 0,
            recycled: true,
            id: 0,
        };
        let info = SegmentInfo { path: path.to_owned(), header, seal: None };
        if Reader::from_info(fs, info.clone())?.record(start)?.is_some() {
            return Ok(Some(info));
        }
    }
    Ok(None)
}

/// Reads the records of the chain.
struct SalvageScan<'a> {
    fs: &'a dyn Fs,
    chain: Vec<SegmentLink>,
    out: &'a mut Salvaged,
    /// The highest synced LSN in the segments up to one, once there was a break.
    mark: Option<(usize, u64)>,
}

impl SalvageScan<'_> {
    fn run<E: From<Error>>(&mut self, replay: &mut Replay<'_, E>) -> std::result::Result<(), E> {
        let (mut index, mut lsn) = (0, self.out.begin);
        while let Some(link) = self.chain.get(index) {
            lsn = lsn.max(link.info.start());
            let limit = self.limit(index);
            let mut reader = Reader::from_info(self.fs, link.info.clone())?;
            let mut following = index + 1;
            while lsn < limit {
                self.read(&mut reader, &mut lsn, limit, replay)?;
                if lsn >= limit {
                    break;
                }
                let (over, mark) = self.mark(index, lsn)?;
                let to;
                if lsn < mark {
                    let next = next_record(&mut reader, lsn + ALIGN as u64, limit)?;
                    to = next.unwrap_or(if following < over { limit } else { mark });
                } else if let Some(unsure) = self.chain.get(over) {
                    // The `previous_end` of the next segment is unknown, so the log may have
                    // ended here before it. The bytes between may have been dropped.
                    (to, following) = (unsure.info.start(), over);
                } else {
                    // The torn tail.
                    let rest = search(self.fs, &self.infos(index, over), lsn)?;
                    (self.out.dropped_bytes, self.out.dropped_records) = (rest.bytes, rest.records);
                    self.out.end = lsn;
                    return Ok(());
                }
                self.out.holes.push(Hole {
                    path: reader.info.path.clone(),
                    offset: reader.info.file_offset(lsn),
                    from: lsn,
                    to,
                    what: format!("no whole record, but the log went on at {to}"),
                });
                lsn = to;
            }
            index = following;
        }
        self.out.end = lsn;
        Ok(())
    }

    /// Where the log continues in the next segment.
    fn limit(&self, index: usize) -> u64 {
        let next = self.chain.get(index + 1).map(|next| next.info.header.previous_end);
        next.unwrap_or(LSN_MAX).min(self.chain[index].info.end())
    }

    /// Replays records from `lsn` on, up to the first LSN without one.
    fn read<E: From<Error>>(
        &mut self,
        reader: &mut Reader,
        lsn: &mut u64,
        limit: u64,
        replay: &mut Replay<'_, E>,
    ) -> std::result::Result<(), E> {
        while *lsn < limit {
            if reader.info.end() - *lsn < RECORD_BYTES as u64 {
                *lsn = reader.info.end();
                return Ok(());
            }
            let record = reader.record(*lsn)?;
            let Some(record) = record.filter(|record| record.log_bytes() <= limit - *lsn) else {
                return Ok(());
            };
            if record.kind == Kind::Data {
                reader.payload(*lsn, &record, replay)?;
                self.out.records += 1;
                self.out.payload_bytes += u64::from(record.length);
            }
            *lsn += record.log_bytes();
        }
        Ok(())
    }

    fn infos(&self, from: usize, to: usize) -> Vec<SegmentInfo> {
        self.chain[from..to].iter().map(|link| link.info.clone()).collect()
    }

    /// The first later segment with an unknown `previous_end`, or the number of segments, and the
    /// highest synced LSN before that segment: in headers, seals and records.
    fn mark(&mut self, index: usize, lsn: u64) -> Result<(usize, u64)> {
        let links = self.chain.iter().enumerate().skip(index + 1);
        let unsure = links.into_iter().find(|(_, link)| !link.is_sure);
        let over = unsure.map_or(self.chain.len(), |(unsure, _)| unsure);
        if let Some((known_over, mark)) = self.mark
            && known_over == over
        {
            return Ok((over, mark));
        }
        let known = self.chain[..over].iter().map(|link| link.info.synced()).max().unwrap_or(0);
        let behind = search(self.fs, &self.infos(index, over), lsn)?.synced;
        Ok(*self.mark.insert((over, known.max(behind))))
    }
}
