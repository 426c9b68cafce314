//! The segment files of a log: creates, maps, flushes, recycles and removes them. `closing` gives
//! their space back.
//!
//! ```text
//!                   create                    rotate                flush       release
//!   nothing, spare -----> segment.new, or     ----------> current -------> live --------> spare,
//!                         the spare, renamed                                              nothing
//! ```
//!
//! **Creation.** The file gets its space, its header, and a sync. Then it gets its name, and the
//! directory a sync. So a file with the name of a segment has a whole header after any power loss.
//! Then the marker names it, with one more sync. The next segment is created ahead: by the writer
//! whose record crosses the middle of a segment, after it has published, or by a thread of the
//! caller ([`Options::prepared_by_caller`]), which is told earlier and several times.
//!
//! The sync of a new file finds its header alone to write. That of a recycled one writes the page
//! of the header and nothing else: its other pages may hold records that were never written to
//! disk, and nobody reads them any more.
//!
//! **Space.** Most logs stay short. So the first segment since the log was opened has its length
//! from the beginning, but space for 64 KiB of records. When that is used up, its space doubles
//! before anything is reserved there, and its file is mapped again; no sync is needed, since the
//! length does not change. Later segments have all their space at once.
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

mod closing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use keyrack_concurrent::{Swap, pin};
use keyrack_measure::Clock;
use keyrack_vfs::{Fs, OpenOptions, Operation};

use crate::allocator::SegmentAllocator;
use crate::error::{Error, Result};
use crate::format::{FRONT_BYTES, Header, Incarnation, RECORD_BYTES};
use crate::group_commit::GroupCommit;
use crate::marker::Marker;
use crate::names::{NEW_NAME, path_of};
use crate::options::{LSN_MAX, Options, Sync};
use crate::primitive::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::recovery::{Found, Unsynced};
use crate::segment::Segment;

/// Bytes of records for which the first segment of a log has space when it is created, or a quarter
/// of the segment if that is less. The space doubles whenever it is used up.
const SPACE_BYTES_MIN: u64 = 64 << 10;

/// Log2 of how often in a segment a caller that prepares segments is told: a segment that was
/// created ahead may have been trimmed. The first segment has no need of a second one before its
/// middle.
const PREPARE_PARTS_LOG2: u32 = 5;

/// If the segment before the current one was filled in this time, the pages of the next one are
/// made ahead. The kernel writes pages to disk when they have been dirty for half a minute, so they
/// should be used before that.
const FILLED_FAST_NS: u64 = 10_000_000_000;

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
    /// When the current segment became that, and how long the one before it was current.
    current_since_ns: u64,
    filled_in_ns: Option<u64>,
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
    /// Nothing below this LSN will be read again.
    released: u64,
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
    /// Bytes for which all these files have space.
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
    /// Where the space of the current segment ends. Below `segment_bytes` only in the first one.
    limit: AtomicU64,
    directory: Mutex<Directory>,
    counts: Mutex<Counts>,
    clock: Clock,
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
            current_since_ns: 0,
            filled_in_ns: None,
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
            // The first segment is still to come.
            limit: AtomicU64::new(0),
            directory: Mutex::new(Directory { live, ..Directory::default() }),
            counts: Mutex::default(),
            clock: Clock::vdso(),
        }
    }

    /// Whether a record of so many bytes, at this offset of segment `number`, comes to a place
    /// where the next segment should be created, unless it exists.
    #[inline]
    pub(crate) fn is_ahead_due(&self, number: u64, offset: u64, bytes: u64) -> bool {
        let segment_bytes = self.options.segment_bytes;
        let part_log2 = segment_bytes.ilog2() - PREPARE_PARTS_LOG2;
        let (from, to) = (offset >> part_log2, (offset + bytes) >> part_log2);
        let middle = 1 << (PREPARE_PARTS_LOG2 - 1);
        let is_first = number * segment_bytes == self.first_start;
        if self.options.prepared_by_caller && !is_first {
            from != to
        } else if self.options.prepared_by_caller {
            from != to && to >= middle
        } else {
            from < middle && middle <= to
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
        (number, record_bytes): (u64, u64),
    ) -> Result<()> {
        self.check_poison()?;
        let bytes = self.options.segment_bytes;
        if pool.prepared.is_none() {
            pool.prepared = Some(self.create_next(pool, number, record_bytes)?);
        }
        let start = number * bytes;
        if end_offset < bytes {
            self.grow_to(number - 1, bytes.min(end_offset + RECORD_BYTES as u64))?;
            let old = self.lookup(start - bytes);
            let pad = old.start + end_offset;
            old.void(pad, self.group.synced(), bytes - end_offset)?;
        }
        let segment = pool.prepared.take().expect("it was created above");
        let now_ns = self.clock.ticks();
        let filled_in_ns = now_ns.saturating_sub(pool.current_since_ns);
        pool.filled_in_ns = (pool.current_since_ns > 0).then_some(filled_in_ns);
        pool.current_since_ns = now_ns;
        let limit = segment.mapped_bytes;
        let entry = Entry { bytes, segment: Some(Arc::clone(&segment)) };
        self.directory().live.insert(start, entry);
        let guard = pin();
        let before = self.window.load(&guard).0[0].clone();
        self.window.store(Window([Some(segment), before]), &guard);
        // Release pairs with the Acquire in `limit`: the segment is there.
        self.limit.store(limit, Ordering::Release);
        drop(guard);
        // The old window goes while the log still has its segments. Later, it would be the last to
        // hold files that were removed, and this thread would wait for their end.
        pin().flush();
        pin().flush();
        Ok(())
    }

    /// Where the space of the current segment ends, in bytes of records. A thread that sees the
    /// limit of an earlier one finds its range beyond it, or may have it.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Gives the current segment, if it still is `number`, space up to `end` at least.
    #[cold]
    pub(crate) fn grow(&self, number: u64, end: u64) -> Result<()> {
        self.check_poison()?;
        let state = self.allocator.lock();
        if state.number == number { self.grow_to(number, end) } else { Ok(()) }
    }

    /// As [`Files::grow`]. The lock of the allocator is held, and `number` is the current segment.
    fn grow_to(&self, number: u64, end: u64) -> Result<()> {
        let limit = self.limit();
        if end <= limit {
            return Ok(());
        }
        let guard = pin();
        let [current, before] = self.window.load(&guard).0.clone();
        let old = current.expect("a segment with records is in the window");
        debug_assert_eq!(old.start, number * self.options.segment_bytes);
        let space = end.max(2 * limit).next_power_of_two().min(old.bytes);
        let file = self.fs.open(&old.path, &OpenOptions::new().read(true).write(true))?;
        let mapping = file.map(0, FRONT_BYTES + space)?;
        let segment = Arc::new(Segment {
            start: old.start,
            bytes: old.bytes,
            incarnation: old.incarnation,
            path: old.path.clone(),
            mapped_bytes: space,
            mapping,
        });
        let entry = Entry { bytes: old.bytes, segment: Some(Arc::clone(&segment)) };
        self.directory().live.insert(old.start, entry);
        self.window.store(Window([Some(segment), before]), &guard);
        // As in `activate`.
        self.limit.store(space, Ordering::Release);
        Ok(())
    }

    /// Creates the segment after the current one ahead, unless it exists, or the current one is not
    /// `number`. An error is not reported: the thread that needs the segment gets it.
    pub(crate) fn prepare_next(&self, number: Option<u64>) {
        let mut state = self.allocator.lock();
        let next = state.number + 1;
        let is_current =
            number.is_none_or(|number| number + 1 == next) && state.end_offset.is_none();
        let mut touched = None;
        if is_current && state.pool.prepared.is_none() && self.check_poison().is_ok() {
            state.pool.prepared = self.create_next(&mut state.pool, next, 0).ok();
            let is_fast = state.pool.filled_in_ns.is_some_and(|ns| ns < FILLED_FAST_NS);
            let is_waited_for = !self.options.prepared_by_caller;
            if is_fast && !is_waited_for && self.options.sync != Sync::Always {
                touched.clone_from(&state.pool.prepared);
            }
        }
        drop(state);
        // Without the lock: writers may need the segment meanwhile.
        if let Some(segment) = touched {
            segment.touch_all();
        }
        // Frees the mapping of the segment that left the window.
        pin().flush();
    }

    /// Creates segment `number`, whose first record has so many bytes.
    fn create_next(
        &self,
        pool: &mut SegmentPool,
        number: u64,
        record_bytes: u64,
    ) -> Result<Arc<Segment>> {
        let start = number.checked_mul(self.options.segment_bytes);
        let start = start.filter(|start| *start <= LSN_MAX - self.options.segment_bytes);
        let start = start.ok_or_else(|| Error::usage("the log has no LSNs left"))?;
        let Some(previous_end) = pool.first else {
            let space = self.options.segment_bytes;
            return Ok(Arc::new(self.create(&mut pool.marker, start, start, space)?));
        };
        self.begin(pool)?;
        let bytes = self.options.segment_bytes;
        let space = record_bytes.max(SPACE_BYTES_MIN.min(bytes / 4)).next_power_of_two();
        let segment = self.create(&mut pool.marker, start, previous_end, space.min(bytes))?;
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
    fn create(
        &self,
        marker: &mut Marker,
        start: u64,
        previous_end: u64,
        space: u64,
    ) -> Result<Segment> {
        let at = (start, previous_end);
        let spare = self.directory().spare.pop();
        let made = match &spare {
            Some(path) => self.create_from(path, true, at, space),
            None => self.create_from(&self.dir.join(NEW_NAME), false, at, space),
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
        (start, previous_end): (u64, u64),
        space: u64,
    ) -> Result<Segment> {
        let (bytes, epoch) = (self.options.segment_bytes, self.epoch);
        let options = OpenOptions::new().read(true).write(true);
        let file = self.fs.open(old, &options.create(!recycled).truncate(!recycled))?;
        file.set_len(self.file_bytes())?;
        let synced = self.group.synced().min(start);
        let id = self.options.id;
        let header =
            Header { start, segment_bytes: bytes, epoch, previous_end, synced, recycled, id };
        let header = header.encode();
        file.write_at(0, &header)?;
        // Reserves the space, too.
        let mapping = file.map(0, FRONT_BYTES + space)?;
        let synced =
            if recycled { mapping.flush(0, header.len() as u64) } else { file.sync_data() };
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
        {
            let mut directory = self.directory();
            directory.released = directory.released.max(below);
        }
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

    /// Whether a segment was created since the log was opened.
    pub(crate) fn is_written(&self) -> bool {
        self.allocator.lock().pool.first.is_none()
    }

    pub(crate) fn stats(&self) -> Stats {
        let prepared = u64::from(self.allocator.lock().pool.prepared.is_some());
        let directory = self.directory();
        let counts = lock(&self.counts);
        let spare_segments = directory.spare.len() as u64 + prepared;
        let space = |entry: &Entry| match &entry.segment {
            Some(segment) => FRONT_BYTES + segment.mapped_bytes,
            None => FRONT_BYTES + entry.bytes,
        };
        let live_bytes = directory.live.values().map(space);
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
