//! Creates segments, mostly ahead of the writers that need them.
//!
//! ```text
//!   space, header, sync  ->  name, sync  ->  mark, sync  ->  prepared  ->  current, by a writer
//! ```
//!
//! The file gets its space, its header, and a sync. Then it gets its name, and the directory a
//! sync. So a file with the name of a segment has a whole header after any power loss. Then the
//! marker names it, with one more sync. The next segment is created ahead: by the writer whose
//! record crosses the middle of a segment, after it has published, or by a thread of the caller
//! ([`Options::prepared_by_caller`]), which is told earlier and several times. Where segments are
//! filled fast, the thread creates four: while a table is synced, the syncs of one segment may take
//! longer than two of them last.
//!
//! A writer that finds none prepared creates it itself. It waits for the thread if that is at it.
//!
//! The sync of a new file finds its header alone to write. That of a recycled one writes the page
//! of the header and nothing else: its other pages may hold records that were never written to
//! disk, and nobody reads them any more. If a close has cut that file, the sync is one of the whole
//! file: its length has to be durable, too.
//!
//! [`Options::prepared_by_caller`]: crate::Options::prepared_by_caller

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyrack_vfs::{File, Mapping, OpenOptions};

use super::Files;
use crate::error::{Error, Result};
use crate::format::{FRONT_BYTES, Header, Incarnation};
use crate::marker::Marker;
use crate::names::{NEW_NAME, path_of};
use crate::options::{LSN_MAX, Sync};
use crate::primitive::lock;
use crate::recovery::Unsynced;
use crate::segment::{PAGE_BYTES, Segment};

/// Bytes of records for which the first segment of a log has space when it is created, or a quarter
/// of the segment if that is less. The space grows whenever it is used up.
const SPACE_BYTES_MIN: u64 = 64 << 10;

/// If the segment before the current one was filled in this time, the pages of the next ones are
/// made ahead. The kernel writes pages to disk when they have been dirty for half a minute, so the
/// last of them should be used before that.
const FILLED_FAST_NS: u64 = 30_000_000_000 / (PREPARED_FAST as u64 + 1);

/// Segments that are prepared where segments are filled fast.
const PREPARED_FAST: usize = 4;

/// What the creation of segments needs. Its lock is held while a segment is created.
#[derive(Debug)]
pub(super) struct Creator {
    pub(super) marker: Marker,
    /// The number of the segment to create next.
    pub(super) next: u64,
    /// No segment of this number, or of a later one, has a file. One below may have one though its
    /// creation or its removal has failed.
    pub(super) files_end: u64,
    /// Where the recovered log ended. `None` once the first segment is created.
    pub(super) first: Option<u64>,
    /// Recovered bytes that may not be durable.
    pub(super) unsynced: Vec<Unsynced>,
    /// Files that leave the log once the first segment is created.
    pub(super) unused: Vec<PathBuf>,
}

impl Files {
    /// Creates the segment after segment `number` ahead, unless it exists. `None` is for the
    /// caller's thread: it creates as many as the current segment needs. An error is not reported:
    /// the thread that needs the segment gets it.
    pub(crate) fn prepare_next(&self, number: Option<u64>) {
        let filled_in_ns = self.allocator.lock().pool.filled_in_ns;
        let is_fast = number.is_none() && filled_in_ns.is_some_and(|ns| ns < FILLED_FAST_NS);
        let wanted = if is_fast { PREPARED_FAST } else { 1 };
        while let Some(segment) = self.prepare_one(number, wanted) {
            // Without a lock: writers may need the segment meanwhile.
            if is_fast && self.options.sync != Sync::Always {
                segment.touch_all();
            }
        }
        self.free_windows();
        self.free_left();
    }

    /// Creates one more segment, unless so many are prepared.
    fn prepare_one(&self, number: Option<u64>, wanted: usize) -> Option<Arc<Segment>> {
        let mut creator = lock(&self.creator);
        let is_next = number.is_none_or(|number| number + 1 == creator.next);
        // The first segment is made by the first record, which knows how much space it needs.
        let is_due = is_next && creator.first.is_none() && lock(&self.prepared).len() < wanted;
        if !is_due || self.check_poison().is_err() {
            return None;
        }
        let segment = self.create_next(&mut creator, 0).ok()?;
        lock(&self.prepared).push_back(Arc::clone(&segment));
        Some(segment)
    }

    /// Creates the next segment, whose first record has so many bytes, unless it is prepared. The
    /// lock of the allocator is held, so that nobody takes it.
    pub(super) fn ensure_prepared(&self, record_bytes: u64) -> Result<()> {
        if !lock(&self.prepared).is_empty() {
            return Ok(());
        }
        let mut creator = lock(&self.creator);
        // Somebody may have been at it.
        if lock(&self.prepared).is_empty() {
            let segment = self.create_next(&mut creator, record_bytes)?;
            lock(&self.prepared).push_back(segment);
        }
        Ok(())
    }

    /// Creates a segment, whose first record has so many bytes.
    fn create_next(&self, creator: &mut Creator, record_bytes: u64) -> Result<Arc<Segment>> {
        let start = creator.next.checked_mul(self.options.segment_bytes);
        let start = start.filter(|start| *start <= LSN_MAX - self.options.segment_bytes);
        let start = start.ok_or_else(|| Error::usage("the log has no LSNs left"))?;
        let bytes = self.options.segment_bytes;
        let Some(previous_end) = creator.first else {
            let segment = self.create(creator, start, start, bytes)?;
            creator.next += 1;
            return Ok(Arc::new(segment));
        };
        self.begin(&mut creator.marker)?;
        let space = record_bytes.max(SPACE_BYTES_MIN.min(bytes / 4)).next_power_of_two();
        let segment = self.create(creator, start, previous_end, space.min(bytes))?;
        creator.next += 1;
        // The new segment is durable, so no header leads to these files any more.
        creator.first = None;
        for path in std::mem::take(&mut creator.unused) {
            let metadata = self.fs.metadata(&path);
            let fits = metadata.is_ok_and(|found| found.len == self.file_bytes());
            // A file that cannot be removed is found again at the next recovery.
            let _ = self.retire(path, fits);
        }
        Ok(Arc::new(segment))
    }

    /// Creates the directory and the marker, durably, unless they exist.
    pub(crate) fn begin_log(&self) -> Result<()> {
        self.check_poison()?;
        self.begin(&mut lock(&self.creator).marker)
    }

    fn begin(&self, marker: &mut Marker) -> Result<()> {
        if marker.is_open() {
            return Ok(());
        }
        if !self.fs.exists(&self.dir)? {
            self.fs.create_dir(&self.dir)?;
        }
        // The directory may exist without being durable, if an earlier process was killed here.
        self.final_sync(self.fs.sync_parent(&self.dir))?;
        marker.open(&*self.fs, &self.dir).map_err(|error| self.failed(error))
    }

    pub(super) fn file_bytes(&self) -> u64 {
        FRONT_BYTES + self.options.segment_bytes
    }

    /// Creates a segment from a spare or a new file, durably, and marks it as the newest. If the
    /// mark fails, its file stays: the mark may be on disk.
    fn create(
        &self,
        creator: &mut Creator,
        start: u64,
        previous_end: u64,
        space: u64,
    ) -> Result<Segment> {
        creator.files_end = creator.files_end.max(creator.next + 1);
        let at = (start, previous_end);
        let spare = self.directory().spare.pop();
        let made = match &spare {
            Some(path) => self.create_from(path, true, at, space),
            None => self.create_from(&self.dir.join(NEW_NAME), false, at, space),
        };
        match (made, spare) {
            (Ok(segment), spare) => {
                let marked = creator.marker.set(start, self.options.segment_bytes, 0);
                marked.map_err(|error| self.failed(error))?;
                let mut counts = lock(&self.counts);
                counts.made += 1;
                counts.recycled += u64::from(spare.is_some());
                Ok(segment)
            }
            (Err(error), Some(path)) => {
                // If the file still exists, it is a spare as before: nobody reads it, whatever its
                // header says by now.
                if self.fs.exists(&path).unwrap_or(true) {
                    self.directory().spare.push(path);
                }
                Err(error)
            }
            (Err(error), None) => {
                // Frees the space. If that fails as well, the next creation uses the file.
                let _ = self.fs.remove_file(&self.dir.join(NEW_NAME));
                Err(error)
            }
        }
    }

    fn create_from(
        &self,
        old: &Path,
        recycled: bool,
        (start, previous_end): (u64, u64),
        space: u64,
    ) -> Result<Segment> {
        let (bytes, epoch) = (self.options.segment_bytes, self.epoch);
        let options = OpenOptions::new().read(true).write(true);
        let file = self.fs.open(old, &options.create(!recycled).truncate(!recycled))?;
        let has_its_length = recycled && file.len()? == self.file_bytes();
        file.set_len(self.file_bytes())?;
        let synced = self.group.synced().min(start);
        let id = self.options.id;
        let header =
            Header { start, segment_bytes: bytes, epoch, previous_end, synced, recycled, id };
        let header = header.encode();
        file.write_at(0, &header)?;
        let (mapping, is_direct) = self.map_new(&*file, &header, space)?;
        let synced =
            if has_its_length { mapping.flush(0, header.len() as u64) } else { file.sync_data() };
        self.final_sync(synced)?;
        let path = path_of(&self.dir, start);
        self.fs.rename(old, &path)?;
        self.final_sync(self.fs.sync_dir(&self.dir))?;
        let segment = Segment {
            start,
            bytes,
            incarnation: Incarnation::new(start, bytes, epoch),
            path,
            mapped_bytes: space,
            mapping,
            is_direct,
        };
        if self.options.sync != Sync::Always {
            segment.touch_start();
        }
        Ok(segment)
    }

    /// Maps a new segment with space for so many bytes of records, and reserves that.
    fn map_new(
        &self,
        file: &dyn File,
        header: &[u8],
        space: u64,
    ) -> Result<(Arc<dyn Mapping>, bool)> {
        if self.options.sync == Sync::Always
            && let Some(mapping) = file.map_direct(self.file_bytes())?
        {
            file.allocate(0, (FRONT_BYTES + space).next_multiple_of(PAGE_BYTES))?;
            // It does not begin with what the file has.
            mapping.write(0, header)?;
            return Ok((mapping.into(), true));
        }
        Ok((file.map(0, FRONT_BYTES + space)?.into(), false))
    }
}
