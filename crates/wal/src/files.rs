//! The segment files of a log: creates, maps, flushes, recycles and removes them.
//!
//! ```text
//!                   create                    rotate                flush       release
//!   nothing, spare -----> segment.new, or     ----------> current -------> live --------> spare,
//!                         the spare, renamed                                              nothing
//! ```
//!
//! **Creation.** The file gets its space, its header, and a sync. Then it gets its name, and the
//! directory a sync. So a file with the name of a segment has a whole header after any power loss.
//! Then the marker names it, with one more sync. The writer whose record crosses the middle of a
//! segment creates the next one ahead, after it has published.
//!
//! **After a recovery** nothing is written until the first record comes. The first sync also makes
//! the recovered tail durable, before any later record: it reads the tail, *writes it again*, and
//! syncs it. A sync alone is not enough: after a sync that failed in an earlier process, the page
//! cache may show bytes that the kernel never writes.
//!
//! **Recycling.** A released segment keeps its name until it is needed. It lies wholly below every
//! LSN from which the log will be opened. So no recovery reads it, and its header may be rewritten
//! under the old name. The newest segment is never released: a recovery begins there.
//!
//! **Locks.** The lock of `allocator` (held while a segment is created) comes before `directory`
//! (never held during a file system call).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use keyrack_concurrent::{Swap, pin};
use keyrack_vfs::{Fs, OpenOptions, Operation};

use crate::allocator::SegmentAllocator;
use crate::error::{Error, Result};
use crate::format::{FRONT_BYTES, Header, Incarnation, RECORD_BYTES};
use crate::group_commit::GroupCommit;
use crate::marker::Marker;
use crate::names::{NEW_NAME, path_of};
use crate::options::{LSN_MAX, Options, Sync};
use crate::primitive::{Mutex, MutexGuard, Ordering, lock};
use crate::recovery::{Found, Unsynced};
use crate::segment::Segment;

/// Bytes rewritten at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What the creation of segments needs. The lock of the segment allocator protects it.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    /// The segment that was created ahead.
    pub(crate) prepared: Option<Arc<Segment>>,
    marker: Marker,
    /// Where the recovered log ended. `None` once the first segment is created.
    first: Option<u64>,
    /// Recovered bytes that may not be durable.
    unsynced: Vec<Unsynced>,
    /// Files that leave the log once the first segment is created.
    unused: Vec<PathBuf>,
}

/// A segment in use.
#[derive(Debug)]
struct Entry {
    /// Bytes of records.
    bytes: u64,
    /// The mapping, while some of it may be unsynced.
    segment: Option<Arc<Segment>>,
}

/// The segments in use, by LSN, and the spare files.
#[derive(Debug, Default)]
struct Directory {
    live: BTreeMap<u64, Entry>,
    spare: Vec<PathBuf>,
}

/// The two newest segments, the newer one first. A writer that was very slow looks in the
/// directory.
#[derive(Debug)]
struct Window([Option<Arc<Segment>>; 2]);

/// Counts since the log was opened.
#[derive(Debug, Default)]
struct Counts {
    flushes: u64,
    made: u64,
    recycled: u64,
}

/// Sizes and counts of a log, for people and dashboards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Segments in use.
    pub segments: u64,
    /// Segments that are kept for reuse, or were created ahead.
    pub spare_segments: u64,
    /// Bytes of all these files.
    pub file_bytes: u64,
    /// Syncs of the log since it was opened.
    pub flushes: u64,
    /// Segments created since it was opened, from new or recycled files.
    pub made: u64,
    /// Segments created from recycled files.
    pub recycled: u64,
}

/// The segments of a log.
#[derive(Debug)]
pub(crate) struct Files {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: Options,
    epoch: u64,
    /// Where the first segment since the log was opened begins.
    first_start: u64,
    pub(crate) allocator: SegmentAllocator<SegmentPool>,
    pub(crate) group: GroupCommit<Arc<keyrack_vfs::Error>>,
    /// Whether a sync has failed. A hint for the fast path: `group` has the failure.
    poisoned: AtomicBool,
    /// Whether recovered bytes may not be durable. A hint as well.
    unsealed: AtomicBool,
    window: Swap<Window>,
    directory: Mutex<Directory>,
    counts: Mutex<Counts>,
}

impl Files {
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: &Path, options: Options, found: Found) -> Self {
        let entry = |(start, bytes): (u64, u64)| (start, Entry { bytes, segment: None });
        let live = found.live.into_iter().map(entry).collect();
        let unsealed = !found.unsynced.is_empty();
        let pool = SegmentPool {
            prepared: None,
            marker: Marker::new(options.id, found.mark),
            first: Some(found.previous_end),
            unsynced: found.unsynced,
            unused: found.unused,
        };
        let number = found.next / options.segment_bytes;
        Files {
            fs,
            dir: dir.to_owned(),
            options,
            epoch: found.epoch,
            first_start: found.next,
            allocator: SegmentAllocator::new(number, options.segment_bytes, pool),
            group: GroupCommit::new(found.synced),
            poisoned: AtomicBool::new(false),
            unsealed: AtomicBool::new(unsealed),
            window: Swap::new(Window([None, None])),
            directory: Mutex::new(Directory { live, spare: Vec::new() }),
            counts: Mutex::default(),
        }
    }

    fn directory(&self) -> MutexGuard<'_, Directory> {
        lock(&self.directory)
    }

    /// Fails when a sync has failed.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result<()> {
        // Relaxed: who does not see it yet came before it.
        if self.poisoned.load(Ordering::Relaxed) { self.poison_error() } else { Ok(()) }
    }

    #[cold]
    fn poison_error(&self) -> Result<()> {
        self.group.failure().map_or(Ok(()), |failure| Err(Error::Poisoned(failure)))
    }

    /// Makes a failed sync final.
    fn poison(&self, error: keyrack_vfs::Error) -> Arc<keyrack_vfs::Error> {
        let failure = self.group.fail(Arc::new(error));
        self.poisoned.store(true, Ordering::Relaxed);
        failure
    }

    /// What a failure of several calls is: that of a sync is final.
    fn failed(&self, error: keyrack_vfs::Error) -> Error {
        match error.operation() {
            Operation::Sync | Operation::SyncDir => Error::Poisoned(self.poison(error)),
            _ => Error::Io(error),
        }
    }

    fn final_sync(&self, done: std::result::Result<(), keyrack_vfs::Error>) -> Result<()> {
        done.map_err(|error| Error::Poisoned(self.poison(error)))
    }

    /// Lets `act` use the segment that begins at `start` and holds an unpublished range.
    pub(crate) fn with_segment<T>(&self, start: u64, act: impl FnOnce(&Segment) -> T) -> T {
        let guard = pin();
        let window = self.window.load(&guard);
        let cached = window.0.iter().flatten().find(|segment| segment.start == start);
        match cached {
            Some(segment) => act(segment),
            None => act(&self.lookup(start)),
        }
    }

    /// Has pages touched that the records behind this one are about to need, if its segment is
    /// still near. Where every record is synced, the page is not what is waited for.
    #[inline]
    pub(crate) fn touch_ahead(&self, start: u64, lsn: u64, end: u64) {
        if self.options.sync == Sync::Always {
            return;
        }
        let guard = pin();
        let window = self.window.load(&guard);
        if let Some(segment) = window.0.iter().flatten().find(|segment| segment.start == start) {
            segment.touch_ahead(lsn, end);
        }
    }

    #[cold]
    fn lookup(&self, start: u64) -> Arc<Segment> {
        let directory = self.directory();
        let segment = directory.live.get(&start).and_then(|entry| entry.segment.clone());
        segment.expect("a segment with an unpublished range is neither synced nor released")
    }

    /// Makes `number` the current segment. The records of the previous one end at `end_offset`.
    pub(crate) fn activate(
        &self,
        pool: &mut SegmentPool,
        end_offset: u64,
        number: u64,
    ) -> Result<()> {
        self.check_poison()?;
        let bytes = self.options.segment_bytes;
        if pool.prepared.is_none() {
            pool.prepared = Some(self.create_next(pool, number)?);
        }
        let start = number * bytes;
        if end_offset < bytes {
            let old = self.lookup(start - bytes);
            let pad = old.start + end_offset;
            old.void(pad, self.group.synced(), bytes - end_offset)?;
        }
        let segment = pool.prepared.take().expect("it was created above");
        let entry = Entry { bytes, segment: Some(Arc::clone(&segment)) };
        self.directory().live.insert(start, entry);
        let guard = pin();
        let before = self.window.load(&guard).0[0].clone();
        self.window.store(Window([Some(segment), before]), &guard);
        Ok(())
    }

    /// Creates the segment after `number` ahead, unless it exists. An error is not reported: the
    /// thread that needs the segment gets it.
    pub(crate) fn prepare_next(&self, number: u64) {
        let mut state = self.allocator.lock();
        let is_current = state.number == number && state.end_offset.is_none();
        if is_current && state.pool.prepared.is_none() && self.check_poison().is_ok() {
            state.pool.prepared = self.create_next(&mut state.pool, number + 1).ok();
        }
        drop(state);
        // Frees the mapping of the segment that left the window.
        pin().flush();
    }

    fn create_next(&self, pool: &mut SegmentPool, number: u64) -> Result<Arc<Segment>> {
        let start = number.checked_mul(self.options.segment_bytes);
        let start = start.filter(|start| *start <= LSN_MAX - self.options.segment_bytes);
        let start = start.ok_or_else(|| Error::usage("the log has no LSNs left"))?;
        let Some(previous_end) = pool.first else {
            return Ok(Arc::new(self.create(&mut pool.marker, start, start)?));
        };
        self.begin(pool)?;
        let segment = self.create(&mut pool.marker, start, previous_end)?;
        // The new segment is durable, so no header leads to these files any more.
        pool.first = None;
        for path in std::mem::take(&mut pool.unused) {
            let metadata = self.fs.metadata(&path);
            let fits = metadata.is_ok_and(|found| found.len == self.file_bytes());
            // A file that cannot be removed is found again at the next recovery.
            let _ = self.retire(path, fits);
        }
        Ok(Arc::new(segment))
    }

    /// Creates the directory and the marker, durably, unless they exist.
    pub(crate) fn begin(&self, pool: &mut SegmentPool) -> Result<()> {
        if pool.marker.is_open() {
            return Ok(());
        }
        if !self.fs.exists(&self.dir)? {
            self.fs.create_dir(&self.dir)?;
        }
        // The directory may exist without being durable, if an earlier process was killed here.
        self.final_sync(self.fs.sync_parent(&self.dir))?;
        pool.marker.open(&*self.fs, &self.dir).map_err(|error| self.failed(error))
    }

    fn file_bytes(&self) -> u64 {
        FRONT_BYTES + self.options.segment_bytes
    }

    /// Creates a segment from a spare or a new file, durably, and marks it as the newest. If the
    /// mark fails, its file stays: the mark may be on disk.
    fn create(&self, marker: &mut Marker, start: u64, previous_end: u64) -> Result<Segment> {
        let spare = self.directory().spare.pop();
        let made = match &spare {
            Some(path) => self.create_from(path, true, start, previous_end),
            None => self.create_from(&self.dir.join(NEW_NAME), false, start, previous_end),
        };
        match (made, spare) {
            (Ok(segment), spare) => {
                let marked = marker.set(start, self.options.segment_bytes, 0);
                marked.map_err(|error| self.failed(error))?;
                let mut counts = lock(&self.counts);
                counts.made += 1;
                counts.recycled += u64::from(spare.is_some());
                Ok(segment)
            }
            (Err(error), Some(path)) => {
                // The spare file is unchanged, if it still exists.
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
        start: u64,
        previous_end: u64,
    ) -> Result<Segment> {
        let (bytes, epoch) = (self.options.segment_bytes, self.epoch);
        let options = OpenOptions::new().read(true).write(true);
        let file = self.fs.open(old, &options.create(!recycled).truncate(!recycled))?;
        file.allocate(0, self.file_bytes())?;
        let synced = self.group.synced().min(start);
        let id = self.options.id;
        let header =
            Header { start, segment_bytes: bytes, epoch, previous_end, synced, recycled, id };
        file.write_at(0, &header.encode())?;
        let mapping = file.map(0, self.file_bytes())?;
        self.final_sync(file.sync_data())?;
        let path = path_of(&self.dir, start);
        self.fs.rename(old, &path)?;
        self.final_sync(self.fs.sync_dir(&self.dir))?;
        let segment = Segment {
            start,
            bytes,
            incarnation: Incarnation::new(start, bytes, epoch),
            path,
            mapping,
        };
        if self.options.sync != Sync::Always {
            segment.touch_start();
        }
        Ok(segment)
    }

    /// Makes the recovered records durable.
    fn seal_recovered(&self, pool: &mut SegmentPool) -> Result<()> {
        while let Some(unsynced) = pool.unsynced.last() {
            self.rewrite(unsynced)?;
            pool.unsynced.pop();
        }
        self.unsealed.store(false, Ordering::Relaxed);
        // There are no records between the recovered end and the first segment.
        self.group.advance(self.first_start);
        Ok(())
    }

    /// Writes recovered bytes back to their file, and syncs them.
    fn rewrite(&self, unsynced: &Unsynced) -> Result<()> {
        let options = OpenOptions::new().read(true).write(true);
        let file = match self.fs.open(&unsynced.path, &options) {
            // The segment was released before the first sync.
            Err(error) if error.is_not_found() => return Ok(()),
            file => file?,
        };
        let end = unsynced.offset + unsynced.bytes;
        let mut chunk = vec![0; CHUNK_BYTES.min(unsynced.bytes as usize)];
        let mut offset = unsynced.offset;
        while offset < end {
            let count = (end - offset).min(chunk.len() as u64) as usize;
            file.read_exact_at(offset, &mut chunk[..count])?;
            file.write_at(offset, &chunk[..count])?;
            offset += count as u64;
        }
        self.final_sync(file.sync_data())
    }

    /// Makes everything below `to` durable, which is published, and everything up to the result of
    /// `published` with it.
    pub(crate) fn sync(&self, to: u64, published: &dyn Fn() -> u64) -> Result<()> {
        if self.group.synced() < to && self.unsealed.load(Ordering::Relaxed) {
            self.check_poison()?;
            self.seal_recovered(&mut self.allocator.lock().pool)?;
        }
        let flush = |from: u64| self.flush(from, published());
        self.group.sync(to, &flush).map_err(Error::Poisoned)
    }

    fn flush(&self, from: u64, to: u64) -> std::result::Result<u64, Arc<keyrack_vfs::Error>> {
        let segments: Vec<_> = {
            let directory = self.directory();
            let entries = directory.live.range(..to).map(|(_, entry)| entry);
            entries.filter_map(|entry| entry.segment.clone()).collect()
        };
        for segment in segments.iter().filter(|segment| segment.end() > from) {
            segment.flush(from, to).map_err(|error| self.poison(error))?;
        }
        lock(&self.counts).flushes += 1;
        // Segments that are wholly durable are not written or flushed any more.
        let mut directory = self.directory();
        for (start, entry) in directory.live.range_mut(..to) {
            if start + entry.bytes <= to {
                entry.segment = None;
            }
        }
        Ok(to)
    }

    /// Releases the segments that lie wholly below `below`, except the newest.
    pub(crate) fn release(&self, below: u64) -> Result<()> {
        let mut outcome = Ok(());
        loop {
            let victim = {
                let mut directory = self.directory();
                let first = directory.live.first_key_value();
                let victim = first.map(|(start, entry)| (*start, entry.bytes));
                let Some((start, bytes)) = victim else { return outcome };
                if directory.live.len() == 1 || start + bytes > below {
                    return outcome;
                }
                directory.live.remove(&start);
                (start, bytes)
            };
            let (start, bytes) = victim;
            let path = path_of(&self.dir, start);
            if let Err(error) = self.retire(path, bytes == self.options.segment_bytes) {
                // The segment is kept for the next release.
                outcome = Err(error);
                self.directory().live.insert(start, Entry { bytes, segment: None });
                return outcome;
            }
        }
    }

    /// Keeps a file as a spare if its size fits and there are few spares, or removes it.
    fn retire(&self, path: PathBuf, fits: bool) -> Result<()> {
        {
            let mut directory = self.directory();
            if fits && directory.spare.len() < self.options.recycled_max {
                directory.spare.push(path);
                return Ok(());
            }
        }
        match self.fs.remove_file(&path) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether there are files that [`Files::trim`] removes.
    pub(crate) fn has_spares(&self) -> bool {
        self.allocator.lock().pool.prepared.is_some() || !self.directory().spare.is_empty()
    }

    /// Removes the spare files and the segment that was created ahead. The next segment is created
    /// when the current one is full.
    pub(crate) fn trim(&self) -> Result<()> {
        self.drop_prepared(&mut self.allocator.lock().pool, 0)?;
        loop {
            // All spare files are removed.
            let Some(path) = self.directory().spare.pop() else { return Ok(()) };
            match self.fs.remove_file(&path) {
                Err(error) if !error.is_not_found() => {
                    self.directory().spare.push(path);
                    return Err(error.into());
                }
                _ => {}
            }
        }
    }

    /// Closes the log: makes everything durable and records the end, so that later losses are known
    /// to be damage.
    pub(crate) fn close(&self, end: u64) -> Result<()> {
        self.sync(end, &|| end)?;
        let mut state = self.allocator.lock();
        let current = self.window.load(&pin()).0[0].clone();
        let written = current.filter(|segment| segment.start <= end);
        if let Some(segment) = &written {
            self.final_sync(segment.seal(end))?;
        }
        self.drop_prepared(&mut state.pool, if written.is_some() { end } else { 0 })
    }

    /// Gives space back after a close: cuts the newest segment behind the records, which end at
    /// `end`, and removes the spare files.
    pub(crate) fn give_back(&mut self, end: u64) -> Result<()> {
        // Its mapping has to go before the file is cut. No reader is left that could have it.
        drop(self.window.replace(Window([None, None])));
        self.trim()?;
        let newest = {
            let mut directory = self.directory();
            let newest = directory.live.last_entry();
            newest.and_then(|mut entry| entry.get_mut().segment.take())
        };
        // The newest segment may have been removed as no longer needed, or begin behind the end.
        let Some(segment) = newest.filter(|segment| segment.start <= end) else { return Ok(()) };
        let (path, left) = (segment.path.clone(), segment.end() - end);
        drop(segment);
        // Where no record fits behind the last one, there is nothing to give back.
        if left < RECORD_BYTES as u64 { Ok(()) } else { self.cut(&path, self.file_bytes() - left) }
    }

    /// Cuts a segment that is closed.
    fn cut(&self, path: &Path, len: u64) -> Result<()> {
        let file = self.fs.open(path, &OpenOptions::new().read(true).write(true))?;
        match file.set_len(len) {
            // Its file was another segment's, whose mapping is not freed yet.
            Err(keyrack_vfs::Error::Mapped { .. }) => {}
            done => return Ok(done?),
        }
        let new = self.dir.join(NEW_NAME);
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let copy = self.fs.open(&new, &options)?;
        let mut chunk = vec![0; CHUNK_BYTES.min(len as usize)];
        let mut offset = 0;
        while offset < len {
            let count = (len - offset).min(chunk.len() as u64) as usize;
            file.read_exact_at(offset, &mut chunk[..count])?;
            copy.write_at(offset, &chunk[..count])?;
            offset += count as u64;
        }
        self.final_sync(copy.sync_data())?;
        self.fs.rename(&new, path)?;
        self.final_sync(self.fs.sync_dir(&self.dir))
    }

    /// Marks the previous segment as the newest, then removes the segment that was created ahead.
    /// The mark contains the end of the records, unless that is 0.
    fn drop_prepared(&self, pool: &mut SegmentPool, end: u64) -> Result<()> {
        if pool.prepared.is_none() && end == 0 {
            return Ok(());
        }
        let newest = self.directory().live.last_key_value().map(|(start, it)| (*start, it.bytes));
        let (start, bytes) = newest.unwrap_or((0, 0));
        pool.marker.set(start, bytes, end).map_err(|error| self.failed(error))?;
        if let Some(prepared) = pool.prepared.take() {
            // If the file stays, the next recovery finds it and leaves it unused.
            let _ = self.fs.remove_file(&prepared.path);
        }
        Ok(())
    }

    /// Whether a segment was created since the log was opened.
    pub(crate) fn is_written(&self) -> bool {
        self.allocator.lock().pool.first.is_none()
    }

    pub(crate) fn stats(&self) -> Stats {
        let prepared = u64::from(self.allocator.lock().pool.prepared.is_some());
        let directory = self.directory();
        let counts = lock(&self.counts);
        let spare_segments = directory.spare.len() as u64 + prepared;
        let live_bytes = directory.live.values().map(|entry| FRONT_BYTES + entry.bytes);
        Stats {
            segments: directory.live.len() as u64,
            spare_segments,
            file_bytes: live_bytes.sum::<u64>() + spare_segments * self.file_bytes(),
            flushes: counts.flushes,
            made: counts.made,
            recycled: counts.recycled,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Frees the mappings of segments that left the window.
        pin().flush();
    }
}
