//! The marker: a small file that says how far the segments of a log go, so that the newest one
//! cannot vanish unseen.
//!
//! ```text
//!   NEWEST   | slot 0: 512 bytes | slot 1: 512 bytes |
//!   slot     | magic "KEYRMARK" | version u32 | 0 u32 | id u64 | sequence u64 |
//!            | start u64 | segment_bytes u64 | end u64 | zeros ... | checksum u32 |
//! ```
//!
//! Every other segment is witnessed by the header of the one after it. The newest has no such
//! witness, so its LSN stands here before a record in it may be acknowledged. A close adds
//! where the records end, so that an earlier copy of the segment is not taken for the segment:
//!
//! ```text
//!   make the segment, sync file and name  ->  mark it, sync  ->  use it
//!   mark the one before, sync             ->  remove a segment that was made ahead
//!   seal the segment, sync                ->  mark its end, sync
//! ```
//!
//! A crash between two steps leaves a segment that nobody needs, never one that is missed. The
//! slots are written in turns and the larger sequence counts, so a torn write leaves the mark
//! before. The file is made, synced, and has a durable name, before the first segment whose header
//! carries the identity of the log; a directory with such a segment and without the file is
//! damaged. A caller may note that the file was made, and then its absence is always damage.
//!
//! The identity tells the segments of one log from those of another that have the same LSNs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{File, Fs, OpenOptions};

use crate::error::{Error, Result};
use crate::format::{MARK_BYTES, Mark};
use crate::options::Options;
use crate::recovery::path_of;

/// The name of the marker in the directory of a log.
pub(crate) const MARKER_NAME: &str = "NEWEST";

/// Where a mark has the identity of the log.
pub(crate) const ID_AT: u64 = 16;

const SLOTS: u64 = 2;
const FILE_BYTES: u64 = SLOTS * MARK_BYTES as u64;

/// An identity for a new log: no other log has it, as far as one can tell.
#[must_use]
pub fn new_id(fs: &dyn Fs) -> u64 {
    (fs.unique_number() ^ keyrack_measure::wall::unix_ns()).max(1)
}

/// What was found in the place of the marker.
#[derive(Debug)]
pub(crate) enum Seen {
    /// There is no file: the log has no segment yet, or an earlier program wrote it.
    Absent,
    /// The file holds no mark. That is damage if there are segments with an identity; else the
    /// file was being made.
    Bad(Error),
    Good(Mark),
}

/// The path of the marker.
pub(crate) fn path_in(dir: &Path) -> PathBuf {
    dir.join(MARKER_NAME)
}

/// Reads the marker in `dir`. Who lists the segments as well does so afterwards: then they are all
/// there, even if somebody writes meanwhile.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<Seen> {
    let path = path_in(dir);
    let file = match fs.open(&path, &OpenOptions::new().read(true)) {
        Err(error) if error.is_not_found() => return Ok(Seen::Absent),
        file => file?,
    };
    let bad = |offset: u64, what: String| Ok(Seen::Bad(Error::corruption(&path, offset, what)));
    let len = file.len()?;
    if len != FILE_BYTES {
        return bad(len.min(FILE_BYTES), format!("the file has {len} bytes, not {FILE_BYTES}"));
    }
    let mut best: Option<Mark> = None;
    for slot in 0..SLOTS {
        let mut bytes = [0; MARK_BYTES];
        file.read_exact_at(slot * MARK_BYTES as u64, &mut bytes)?;
        if let Some(mark) = Mark::decode(&bytes)
            && best.is_none_or(|best| best.sequence < mark.sequence)
        {
            best = Some(mark);
        }
    }
    match best {
        Some(mark) => Ok(Seen::Good(mark)),
        None => bad(0, "neither slot holds a whole mark".to_owned()),
    }
}

/// Holds the marker against the newest segment: its LSN and the identity in its header, if
/// there is one. Returns the mark to go on from.
pub(crate) fn check(
    dir: &Path,
    seen: Seen,
    options: &Options,
    newest: Option<(u64, u64)>,
) -> Result<Option<Mark>> {
    let id = options.id;
    let is_needed = options.begun || newest.is_some_and(|(_, newest_id)| newest_id != 0);
    let mark = match seen {
        Seen::Good(mark) => mark,
        Seen::Bad(error) if is_needed => return Err(error),
        Seen::Absent if is_needed => {
            return Err(Error::corruption(&path_in(dir), 0, GONE));
        }
        Seen::Bad(_) | Seen::Absent => return Ok(None),
    };
    if mark.id != id && mark.start == 0 && !is_needed {
        // Whoever was to know of it did not live to note it down.
        return Ok(None);
    }
    if mark.id != id {
        let what = format!("the marker of another log: identity {:016x}, not {id:016x}", mark.id);
        return Err(Error::corruption(&path_in(dir), ID_AT, what));
    }
    match newest {
        Some((start, _)) if start >= mark.start => Ok(Some(mark)),
        None if mark.start == 0 => Ok(Some(mark)),
        _ => Err(Error::corruption(&path_of(dir, mark.start), 0, MISSING)),
    }
}

/// What is said of the marker when it is not there.
pub(crate) const GONE: &str = "the file is missing, but the log was begun";

/// What is said of the newest segment when it is not there.
pub(crate) const MISSING: &str = "the newest segment of the log is missing";

/// The marker of a log that is written. Its lock is that of the segment allocator.
#[derive(Debug)]
pub(crate) struct Marker {
    id: u64,
    /// The last mark, here or found at the opening.
    last: Option<Mark>,
    /// Open since the first mark of this opening.
    file: Option<Arc<dyn File>>,
}

impl Marker {
    pub(crate) fn new(id: u64, last: Option<Mark>) -> Self {
        Marker { id, last, file: None }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Opens the file, and makes it with a durable name if there is none. The first segment with
    /// an identity is made afterwards.
    pub(crate) fn open(&mut self, fs: &dyn Fs, dir: &Path) -> keyrack_vfs::Result<()> {
        let path = path_in(dir);
        let is_new = self.last.is_none();
        let options = OpenOptions::new().read(true).write(true);
        let file = fs.open(&path, &options.create(is_new).truncate(is_new))?;
        if is_new {
            let mark = Mark { id: self.id, sequence: 1, start: 0, segment_bytes: 0, end: 0 };
            let bytes = mark.encode();
            file.write_at(0, &bytes)?;
            file.write_at(MARK_BYTES as u64, &bytes)?;
            file.sync_all()?;
            fs.sync_dir(dir)?;
            self.last = Some(mark);
        }
        self.file = Some(file);
        Ok(())
    }

    /// Says durably that the newest segment begins at `start`, 0 for none, and that the records
    /// end at `end`, 0 if the log goes on. A failed write leaves the mark before or this one, so
    /// the segment of neither may go.
    pub(crate) fn set(
        &mut self,
        start: u64,
        segment_bytes: u64,
        end: u64,
    ) -> keyrack_vfs::Result<()> {
        let (Some(file), Some(last)) = (&self.file, &self.last) else {
            panic!("the marker is opened before the first segment is made");
        };
        let sequence = last.sequence + 1;
        let mark = Mark { id: self.id, sequence, start, segment_bytes, end };
        file.write_at(sequence % SLOTS * MARK_BYTES as u64, &mark.encode())?;
        file.sync_data()?;
        self.last = Some(mark);
        Ok(())
    }
}
