//! Recovery: finds the segments that belong to the log, replays their records, and finds the end of
//! the log. It writes nothing.
//!
//! ```text
//!   name      ...010000.wal   ...020000.wal    ...030000.wal     ...040000.wal
//!   records   |##############|######|   dropped|  dropped  |     |####|  free   |
//!                                   ^                             previous_end
//!                                   +-----------------------------'
//! ```
//!
//! **Which segments.** The name of a file is the LSN of its first byte, and LSNs are never used
//! twice, so the segment with the highest name is the newest. Its header contains the LSN at which
//! the log ended before it. That LSN lies in the previous segment, whose header contains the same,
//! and so on down to the segment with the LSN to start from. A segment that no header leads to was
//! dropped by an earlier recovery (above) or released (below). Recovery does not open it.
//!
//! **The newest segment** is named by the marker, so its loss is noticed. Marker and headers also
//! contain the identity of the log. A segment of another log is damage, even at the right LSN.
//!
//! **Where the records end.** At the first LSN without a whole record. Records are published in
//! order, so every acknowledged record lies before it, unless a disk lost or damaged one. To
//! distinguish the two, every segment header, every record and the seal of a close contain a synced
//! LSN. If the end is below the highest synced LSN, the log is damaged: an error. To find the
//! highest one, recovery searches the bytes after the end for whole records. Otherwise the bytes
//! after the end are what a crash left. They were not synced, and are dropped and reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use keyrack_vfs::Fs;

use crate::error::{Error, Result};
use crate::format::{ALIGN, Header, Kind, Mark, RECORD_BYTES};
use crate::marker;
use crate::names::{is_ours, path_of, start_of};
use crate::options::{LSN_MAX, Options};
use crate::reader::{Reader, SegmentInfo};
use crate::retention::{Kept, kept_below};

/// Bytes of zeros that the search for records skips at once. Segment sizes are multiples of it.
const ZEROS_BYTES: u64 = 1 << 10;
/// The offset of the log's identity in a segment header.
pub(crate) const ID_AT: u64 = 56;

/// The report of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Where the records end. Without records, where reading began.
    pub end: u64,
    /// Records replayed.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Bytes after the end that were dropped: a torn tail that was never synced. In a recycled file
    /// only the bytes that differ recognisably from its earlier content are counted.
    pub dropped_bytes: u64,
    /// Whole records among them, which followed a torn one.
    pub dropped_records: u64,
}

/// Bytes that were read from a file and may not be durable.
#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The state from which the log continues.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) report: Recovered,
    /// Where reading began.
    pub(crate) from: u64,
    /// Where the next segment begins.
    pub(crate) next: u64,
    /// The `previous_end` of its header.
    pub(crate) previous_end: u64,
    /// Everything below is durable.
    pub(crate) synced: u64,
    /// Larger than the epoch of every segment.
    pub(crate) epoch: u64,
    /// The mark in the marker file.
    pub(crate) mark: Option<Mark>,
    /// The segments in use, by the LSNs of their first bytes.
    pub(crate) live: BTreeMap<u64, Header>,
    /// The segments below that are kept.
    pub(crate) kept: Vec<(u64, Kept)>,
    /// The time of the last mark that is kept, in milliseconds since 1970. 0 if there is none.
    pub(crate) last_mark_ms: u64,
    /// The other segments.
    pub(crate) unused: Vec<PathBuf>,
    pub(crate) unsynced: Vec<Unsynced>,
}

/// Receives the LSN and the payload of each record.
pub(crate) type Replay<'a, E> = dyn FnMut(u64, &[u8]) -> std::result::Result<(), E> + 'a;

/// Replays the log in `dir` from the record at `from` on.
pub(crate) fn recover<E: From<Error>>(
    fs: &dyn Fs,
    dir: &Path,
    from: u64,
    options: &Options,
    replay: &mut Replay<'_, E>,
) -> std::result::Result<Found, E> {
    if !from.is_multiple_of(ALIGN as u64) || from >= LSN_MAX {
        return Err(Error::usage(format!("a record cannot begin at LSN {from}")).into());
    }
    // The marker is read before the segments are listed, see `marker::read`.
    let seen = marker::read(fs, dir)?;
    let starts = list(fs, dir)?;
    let newest = match starts.last() {
        Some(start) => Some((*start, read_info(fs, dir, *start, options.id)?.header.id)),
        None => None,
    };
    let mark = marker::check(dir, seen, options, newest)?;
    let mut chain = chain(fs, dir, &starts, from, options.id)?;
    let epoch = 1 + chain.iter().map(|info| info.header.epoch).max().unwrap_or(0);
    let top = chain.last().map_or(0, SegmentInfo::end);
    let mut end = EndOfLog::new(from, &chain, mark);
    if let Some(broken) = end.replay_chain(fs, &chain, replay)? {
        end.drop_tail(fs, &chain[broken..])?;
        chain.truncate(broken + 1);
    }
    let EndOfLog { lsn, synced, mut last_mark_ms, report } = end;

    // A last segment without records may have been created ahead. It is skipped, and the next
    // segment takes over its `previous_end`.
    let lowest = chain.first().cloned();
    let is_closed = chain.last().is_some_and(|info| info.seal.is_some_and(|it| it.end == lsn));
    let mut previous_end = lsn;
    if let Some(empty) = chain.pop_if(|last| last.start() == lsn) {
        previous_end = empty.header.previous_end;
    }
    // What lies behind the end may have been used to its last byte, and the end of a record that
    // was lost is not to become the beginning of a segment.
    let used = if lsn < top && !is_closed { top + 1 } else { top.max(lsn) };
    let next = next_start(used, options)?;
    let unsynced = unsynced(&chain, synced.max(from), previous_end);
    let live: BTreeMap<_, _> = chain.iter().map(|info| (info.start(), info.header)).collect();
    let lowest = lowest.filter(|_| options.retention.keeps());
    let kept = lowest.as_ref().map(|lowest| kept_below(fs, dir, &starts, lowest, options.id));
    // Without retention nothing is kept.
    let kept = kept.unwrap_or_default();
    if last_mark_ms == 0
        && let Some(lowest) = &lowest
    {
        last_mark_ms = last_mark_below(fs, dir, &kept, (lowest, from))?;
    }
    let kept_starts: BTreeSet<_> = kept.iter().map(|(start, _)| *start).collect();
    let is_used = |start: &u64| live.contains_key(start) || kept_starts.contains(start);
    let unused = starts.iter().filter(|start| !is_used(start));
    Ok(Found {
        report,
        from,
        next,
        previous_end,
        synced: if unsynced.is_empty() { next } else { synced.clamp(from, lsn) },
        epoch,
        mark,
        unused: unused.map(|start| path_of(dir, *start)).collect(),
        live,
        kept,
        last_mark_ms,
        unsynced,
    })
}

/// The time of the last mark below `from`, in the segment `lowest` or in those that are kept below
/// it. 0 if there is none. Marks are about a second apart, so it reads one segment as a rule.
fn last_mark_below(
    fs: &dyn Fs,
    dir: &Path,
    kept: &[(u64, Kept)],
    (lowest, from): (&SegmentInfo, u64),
) -> Result<u64> {
    let below = kept.iter().rev().map(|(start, _)| (path_of(dir, *start), *start));
    let mut limit = from;
    for (path, start) in std::iter::once((lowest.path.clone(), lowest.start())).chain(below) {
        let mut reader = Reader::open(fs, &path, start)?;
        let (mut lsn, mut last_mark_ms) = (start, 0);
        while lsn < limit.min(reader.info.end() - RECORD_BYTES as u64) {
            // What was not synced may be missing: nothing depends on it.
            let Some(record) = reader.record(lsn)? else { break };
            last_mark_ms = reader.time_of(lsn, &record)?.unwrap_or(0).max(last_mark_ms);
            lsn += record.log_bytes();
        }
        if last_mark_ms > 0 {
            return Ok(last_mark_ms);
        }
        limit = reader.info.header.previous_end;
    }
    Ok(0)
}

/// Where the next segment begins, above everything below `used`.
fn next_start(used: u64, options: &Options) -> Result<u64> {
    let segment = options.segment_bytes;
    // No record begins at LSN 0.
    let next = used.max(options.first_lsn).max(1).checked_next_multiple_of(segment);
    let next = next.filter(|next| *next <= LSN_MAX - segment);
    next.ok_or_else(|| Error::usage("the log has no LSNs left"))
}

/// The end of the log, while the records are replayed.
#[derive(Debug)]
struct EndOfLog {
    /// The end of what was replayed.
    lsn: u64,
    /// The highest synced LSN that was read.
    synced: u64,
    /// The time of the last time mark that was read.
    last_mark_ms: u64,
    report: Recovered,
}

impl EndOfLog {
    /// Before any record is read.
    fn new(from: u64, chain: &[SegmentInfo], mark: Option<Mark>) -> Self {
        let synced = chain.iter().map(SegmentInfo::synced).chain(mark.map(|mark| mark.end));
        EndOfLog {
            lsn: from,
            synced: synced.max().unwrap_or(0),
            last_mark_ms: 0,
            report: Recovered { segments: chain.len() as u64, ..Recovered::default() },
        }
    }

    /// Replays the records of all segments. Returns the index of the segment in which a record is
    /// missing, if there is one.
    fn replay_chain<E: From<Error>>(
        &mut self,
        fs: &dyn Fs,
        chain: &[SegmentInfo],
        replay: &mut Replay<'_, E>,
    ) -> std::result::Result<Option<usize>, E> {
        let mut broken = None;
        for (index, info) in chain.iter().enumerate() {
            let next = chain.get(index + 1).map(|next| next.header.previous_end);
            let limit = next.unwrap_or(LSN_MAX).min(info.end());
            self.lsn = self.lsn.max(info.start());
            if self.lsn >= limit {
                continue;
            }
            let mut reader = info.open(fs)?;
            if !self.replay_segment(&mut reader, limit, replay)? {
                broken = Some(index);
                break;
            }
        }
        self.report.end = self.lsn;
        // A log that was closed has no records after its end.
        let closed = |info: &SegmentInfo| info.seal.is_some_and(|seal| seal.end == self.lsn);
        Ok(broken.filter(|index| index + 1 < chain.len() || !closed(&chain[*index])))
    }

    /// Replays records up to `limit`. Returns false at the first LSN without a record.
    fn replay_segment<E: From<Error>>(
        &mut self,
        reader: &mut Reader,
        limit: u64,
        replay: &mut Replay<'_, E>,
    ) -> std::result::Result<bool, E> {
        while self.lsn < limit {
            if reader.info.end() - self.lsn < RECORD_BYTES as u64 {
                self.lsn = reader.info.end();
                break;
            }
            let Some(record) = reader.record(self.lsn)? else { return Ok(false) };
            if record.log_bytes() > limit - self.lsn {
                return Ok(false);
            }
            self.synced = record.synced.max(self.synced);
            if record.kind == Kind::Data {
                reader.payload(self.lsn, &record, replay)?;
                self.report.records += 1;
                self.report.payload_bytes += u64::from(record.length);
            }
            let time_ms = reader.time_of(self.lsn, &record).map_err(E::from)?;
            self.last_mark_ms = time_ms.unwrap_or(0).max(self.last_mark_ms);
            self.lsn += record.log_bytes();
        }
        Ok(true)
    }

    /// Reports what lies after the end, which is in the first of these segments. Fails if a synced
    /// record is missing.
    fn drop_tail(&mut self, fs: &dyn Fs, chain: &[SegmentInfo]) -> Result<()> {
        let rest = search(fs, chain, self.lsn)?;
        self.synced = self.synced.max(rest.synced);
        (self.report.dropped_bytes, self.report.dropped_records) = (rest.bytes, rest.records);
        let (info, synced) = (&chain[0], self.synced);
        if self.lsn < synced {
            let what = format!("no whole record, but everything below LSN {synced} was synced");
            return Err(Error::corruption(&info.path, info.file_offset(self.lsn), what));
        }
        Ok(())
    }
}

/// Removes the files of the log `id` in `dir`, which must not be open. Other files stay. If a
/// segment belongs to another log, every file stays.
///
/// # Errors
/// `Corruption` for a segment of another log; `Io`.
pub fn remove(fs: &dyn Fs, dir: &Path, id: u64) -> Result<()> {
    for start in list(fs, dir)? {
        // A segment without a valid header belongs to no log.
        let header = Reader::header(fs, &path_of(dir, start), start)?;
        if let Some(found) = header.map(|header| header.id).filter(|found| *found != 0)
            && found != id
        {
            return Err(foreign(&path_of(dir, start), found, id));
        }
    }
    let entries = match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(()),
        entries => entries?,
    };
    for entry in entries.iter().filter(|entry| is_ours(&entry.name)) {
        match fs.remove_file(&dir.join(&entry.name)) {
            Err(error) if error.is_not_found() => {}
            removed => removed?,
        }
    }
    Ok(fs.sync_dir(dir)?)
}

/// The error of a segment that belongs to another log.
fn foreign(path: &Path, found: u64, id: u64) -> Error {
    let what = format!("a segment of another log: identity {found:016x}, not {id:016x}");
    Error::corruption(path, ID_AT, what)
}

/// The segments in a directory by the LSNs in their names, ascending.
pub(crate) fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>> {
    let entries = match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut starts: Vec<_> = entries.iter().filter_map(|entry| start_of(&entry.name)).collect();
    starts.sort_unstable();
    Ok(starts)
}

/// The segments that are needed, ascending. Found from the last one backwards.
fn chain(fs: &dyn Fs, dir: &Path, starts: &[u64], from: u64, id: u64) -> Result<Vec<SegmentInfo>> {
    let mut chain = Vec::new();
    let mut candidate = starts.last().copied();
    while let Some(start) = candidate {
        let info = read_info(fs, dir, start, id)?;
        let previous_end = info.header.previous_end;
        chain.push(info);
        if start <= from || previous_end <= from {
            break;
        }
        let before = starts[..starts.partition_point(|start| *start < previous_end)].last();
        let Some(before) = before else {
            return Err(missing(dir, previous_end, from));
        };
        candidate = Some(*before);
    }
    chain.reverse();
    for pair in chain.windows(2) {
        let wanted = pair[1].header.previous_end;
        if pair[0].end() < wanted {
            return Err(missing(dir, wanted, from));
        }
    }
    Ok(chain)
}

/// Reads the front of a segment of the log `id`, or of one that was written without an identity.
pub(crate) fn read_info(fs: &dyn Fs, dir: &Path, start: u64, id: u64) -> Result<SegmentInfo> {
    let info = Reader::open(fs, &path_of(dir, start), start)?.info;
    check_id(&info, id)?;
    Ok(info)
}

/// Refuses a segment of another log than `id`.
pub(crate) fn check_id(info: &SegmentInfo, id: u64) -> Result<()> {
    match info.header.id {
        found if found == 0 || found == id => Ok(()),
        found => Err(foreign(&info.path, found, id)),
    }
}

fn missing(dir: &Path, end: u64, from: u64) -> Error {
    let what = format!("the segment that contains LSN {end} is missing; needed from LSN {from}");
    Error::corruption(dir, 0, what)
}

/// What lies after the end.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The highest synced LSN.
    pub(crate) synced: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

/// Searches the segments for whole records after `end`, which lies in the first of them. Bytes that
/// look like the header of a long record cost a checksum each, and there may be many. So the work
/// is bounded: 8 times the bytes of the segment.
pub(crate) fn search(fs: &dyn Fs, chain: &[SegmentInfo], end: u64) -> Result<Rest> {
    let mut rest = Rest::default();
    let mut dropped_end = end;
    for info in chain {
        let mut reader = Reader::from_info(fs, info.clone())?;
        let mut lsn = end.max(info.start());
        let mut budget = 8 * info.header.segment_bytes;
        while info.end().saturating_sub(lsn) >= RECORD_BYTES as u64 {
            if lsn.is_multiple_of(ZEROS_BYTES)
                && reader.peek(lsn, ZEROS_BYTES as usize)?.iter().all(|byte| *byte == 0)
            {
                lsn += ZEROS_BYTES;
                continue;
            }
            if !info.header.recycled && reader.peek(lsn, ALIGN)?.iter().any(|b| *b != 0) {
                dropped_end = lsn + ALIGN as u64;
            }
            let Some(record) = reader.head(lsn)? else {
                lsn += ALIGN as u64;
                continue;
            };
            // At the end there is no whole record, but this may be the header of a torn one.
            if lsn == end {
                dropped_end = end + record.log_bytes();
            }
            let cost =
                if record.kind == Kind::Data { record.log_bytes() } else { RECORD_BYTES as u64 };
            if cost > budget {
                break;
            }
            budget -= cost;
            if !reader.matches(lsn, &record)? {
                lsn += ALIGN as u64;
                continue;
            }
            rest.synced = rest.synced.max(record.synced);
            rest.records += u64::from(record.kind == Kind::Data);
            lsn += record.log_bytes();
            dropped_end = lsn;
        }
    }
    rest.bytes = dropped_end - end;
    Ok(rest)
}

/// The first whole record at or after `from` that ends at or before `limit`. The work is bounded as
/// in [`search`].
pub(crate) fn next_record(reader: &mut Reader, from: u64, limit: u64) -> Result<Option<u64>> {
    let mut lsn = from;
    let mut budget = 8 * reader.info.header.segment_bytes;
    while limit.saturating_sub(lsn) >= RECORD_BYTES as u64 {
        if lsn.is_multiple_of(ZEROS_BYTES)
            && limit - lsn >= ZEROS_BYTES
            && reader.peek(lsn, ZEROS_BYTES as usize)?.iter().all(|byte| *byte == 0)
        {
            lsn += ZEROS_BYTES;
            continue;
        }
        if let Some(record) = reader.head(lsn)?.filter(|it| it.log_bytes() <= limit - lsn) {
            let cost =
                if record.kind == Kind::Data { record.log_bytes() } else { RECORD_BYTES as u64 };
            if cost > budget {
                return Ok(None);
            }
            budget -= cost;
            if reader.matches(lsn, &record)? {
                return Ok(Some(lsn));
            }
        }
        lsn += ALIGN as u64;
    }
    Ok(None)
}

/// The bytes of records from one LSN to another.
fn unsynced(chain: &[SegmentInfo], from: u64, to: u64) -> Vec<Unsynced> {
    let ranges = chain.iter().map(|info| (info, from.max(info.start()), to.min(info.end())));
    ranges
        .filter(|(_, from, to)| from < to)
        .map(|(info, from, to)| Unsynced {
            path: info.path.clone(),
            offset: info.file_offset(from),
            bytes: to - from,
        })
        .collect()
}
