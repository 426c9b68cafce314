//! The marker: a small file that names the newest segment of a log, so that its loss is noticed.
//!
//! ```text
//!   NEWEST   | slot 0: 512 bytes | slot 1: 512 bytes |
//!   slot     | magic "KEYRMARK" | version u32 | 0 u32 | id u64 | sequence u64 |
//!            | start u64 | segment_bytes u64 | end u64 | zeros ... | checksum u32 |
//! ```
//!
//! The header of each segment refers to the segment before it. No header refers to the newest one,
//! so the marker contains its LSN before a record in it may be acknowledged. A close adds the end
//! of the records, so that an earlier copy of the segment is recognised:
//!
//! ```text
//!   create the segment, sync file and name  ->  mark it, sync  ->  use it
//!   mark the previous segment, sync         ->  remove a segment that was created ahead
//!   seal the segment, sync                  ->  mark its end, sync
//! ```
//!
//! A crash between two steps leaves a segment that is not needed. It never leaves a mark without
//! its segment. The slots are written alternately and the larger sequence counts, so a torn write
//! leaves the previous mark. The file is created, synced, and has a durable name, before the first
//! segment whose header contains the identity of the log. A directory with such a segment and
//! without the file is damaged. If the caller has recorded that the file was created, its absence
//! is always damage.
//!
//! The identity distinguishes the segments of two logs that have the same LSNs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{File, Fs, OpenOptions};

use crate::error::{Error, Result};
use crate::format::{MARK_BYTES, Mark};
use crate::names::{MARKER_NAME, path_of};
use crate::options::Options;

/// The offset of the log's identity in a mark.
pub(crate) const ID_AT: u64 = 16;

const SLOTS: u64 = 2;
const FILE_BYTES: u64 = SLOTS * MARK_BYTES as u64;

/// A new identity for a log, very probably unique.
#[must_use]
pub fn new_id(fs: &dyn Fs) -> u64 {
    (fs.unique_number() ^ keyrack_measure::wall::unix_ns()).max(1)
}

/// The marker file as it was found.
#[derive(Debug)]
pub(crate) enum MarkerFile {
    /// The file does not exist: the log has no segment yet, or an earlier version wrote it.
    Absent,
    /// The file contains no valid mark. That is damage if there are segments with an identity.
    /// Otherwise a crash interrupted the creation of the file.
    Bad(Error),
    Good(Mark),
}

/// The path of the marker.
pub(crate) fn path_in(dir: &Path) -> PathBuf {
    dir.join(MARKER_NAME)
}

/// Reads the marker in `dir`. List the segments afterwards: then they are complete, even if another
/// process writes meanwhile.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<MarkerFile> {
    let path = path_in(dir);
    let file = match fs.open(&path, &OpenOptions::new().read(true)) {
        Err(error) if error.is_not_found() => return Ok(MarkerFile::Absent),
        file => file?,
    };
    let bad =
        |offset: u64, what: String| Ok(MarkerFile::Bad(Error::corruption(&path, offset, what)));
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
        Some(mark) => Ok(MarkerFile::Good(mark)),
        None => bad(0, "neither slot holds a whole mark".to_owned()),
    }
}

/// Compares the marker with the newest segment, if there is one: its LSN and the identity in its
/// header. Returns the mark to continue from.
pub(crate) fn check(
    dir: &Path,
    seen: MarkerFile,
    options: &Options,
    newest: Option<(u64, u64)>,
) -> Result<Option<Mark>> {
    let id = options.id;
    let is_needed = options.begun || newest.is_some_and(|(_, newest_id)| newest_id != 0);
    let mark = match seen {
        MarkerFile::Good(mark) => mark,
        MarkerFile::Bad(error) if is_needed => return Err(error),
        MarkerFile::Absent if is_needed => {
            return Err(Error::corruption(&path_in(dir), 0, MARKER_MISSING));
        }
        MarkerFile::Bad(_) | MarkerFile::Absent => return Ok(None),
    };
    if mark.id != id && mark.start == 0 && !is_needed {
        // The caller crashed before it recorded that the log was begun.
        return Ok(None);
    }
    if mark.id != id {
        let what =
            format!("the marker is of another log: identity {:016x}, not {id:016x}", mark.id);
        return Err(Error::corruption(&path_in(dir), ID_AT, what));
    }
    match newest {
        Some((start, _)) if start >= mark.start => Ok(Some(mark)),
        None if mark.start == 0 => Ok(Some(mark)),
        _ => Err(Error::corruption(&path_of(dir, mark.start), 0, NEWEST_MISSING)),
    }
}

/// The error of a missing marker.
pub(crate) const MARKER_MISSING: &str = "the file is missing, but the log was begun";

/// The error of a missing newest segment.
pub(crate) const NEWEST_MISSING: &str = "the newest segment of the log is missing";

/// The marker of an open log. The lock of the segments' creator protects it.
#[derive(Debug)]
pub(crate) struct Marker {
    id: u64,
    /// The last mark, written or recovered.
    last: Option<Mark>,
    /// Open after [`Marker::open`].
    file: Option<Arc<dyn File>>,
}

impl Marker {
    pub(crate) fn new(id: u64, last: Option<Mark>) -> Self {
        Marker { id, last, file: None }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Opens the file, or creates it with a durable name. The first segment with an identity is
    /// created afterwards.
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

    /// Marks durably that the newest segment begins at `start`, 0 for none, and that the records
    /// end at `end`, 0 while the log is open. A failed write leaves the previous mark or this one,
    /// so the segments of both must stay.
    pub(crate) fn set(
        &mut self,
        start: u64,
        segment_bytes: u64,
        end: u64,
    ) -> keyrack_vfs::Result<()> {
        let (Some(file), Some(last)) = (&self.file, &self.last) else {
            panic!("the marker is opened before the first segment is created");
        };
        let sequence = last.sequence + 1;
        let mark = Mark { id: self.id, sequence, start, segment_bytes, end };
        file.write_at(sequence % SLOTS * MARK_BYTES as u64, &mark.encode())?;
        file.sync_data()?;
        self.last = Some(mark);
        Ok(())
    }
}
