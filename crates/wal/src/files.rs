//! The segment files of a log: maps, flushes, recycles and removes them. `creation` makes them, and
//! `closing` gives their space back.
//!
//! ```text
//!                   create                    rotate                flush       release
//!   nothing, spare -----> segment.new, or     ----------> current -------> live --------> spare,
//!                         the spare, renamed                                              nothing
//! ```
//!
//! **Space.** Most logs stay short. So the first segment since the log was opened has its length
//! from the beginning, but space for 64 KiB of records. When that is used up, its space doubles, or
//! grows by a quarter above 1 MiB, before anything is reserved there. Its file is mapped again,
//! unless it is memory; no sync is needed, since the length does not change. Later segments have
//! all their space at once.
//!
//! **Where every record is synced** a segment is memory that a flush writes past the page cache, if
//! the file system can do that ([`keyrack_vfs::File::map_direct`]). Nobody waits for the page fault
//! of a page that was just written. A record that is not synced is lost with the process then; it
//! was not acknowledged.
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
//! **Locks.** The lock of `allocator` comes before that of `creator`, which is held while a segment
//! is created. So a writer that finds the next segment prepared waits for no creation. `prepared`,
//! `left` and `directory` come last, and are never held during a file system call.
//!
//! **Freed mappings.** A segment that is in use no more is unmapped by the thread that prepares or
//! releases segments ([`Files::free_left`]). A writer only frees the window that held it.

mod closing;
mod creation;
mod reading;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use keyrack_concurrent::{Swap, pin};
use keyrack_measure::{Clock, wall};
use keyrack_vfs::{Fs, OpenOptions, Operation};

use crate::allocator::SegmentAllocator;
use crate::error::{Error, Result};
use crate::format::{FRONT_BYTES, Header, RECORD_BYTES};
use crate::group_commit::GroupCommit;
use crate::marker::Marker;
use crate::names::path_of;
use crate::options::{Options, Sync};
use crate::primitive::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::recovery::{Found, Unsynced};
use crate::retention::{Holds, Kept};
use crate::segment::{PAGE_BYTES, Segment};
use creation::Creator;

/// Log2 of how often in a segment a caller that prepares segments is told: a segment that was
/// created ahead may have been trimmed. The first segment has no need of a second one before its
/// middle.
const PREPARE_PARTS_LOG2: u32 = 5;

/// The space of the first segment doubles up to here, and grows by a quarter from here on.
const DOUBLED_BYTES_MAX: u64 = 1 << 20;

/// Bytes rewritten at once.
const CHUNK_BYTES: usize = 1 << 20;

/// When segments became the current one. The lock of the segment allocator protects it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// When the current segment became that, and how long the one before it was current.
    current_since_ns: u64,
    filled_in_ns: Option<u64>,
}

/// A segment in use.
#[derive(Debug)]
struct Entry {
    /// Bytes of records.
    bytes: u64,
    /// Where the log ended before it.
    previous_end: u64,
    /// When the next segment took its place; the opening, of one that was recovered.
    ended_ms: u64,
    /// The mapping, while some of it may be unsynced.
    segment: Option<Arc<Segment>>,
}

/// The segments in use, by LSN, and the spare files.
#[derive(Debug, Default)]
struct Directory {
    live: BTreeMap<u64, Entry>,
    /// Segments that were released and are kept. They are all below the others.
    kept: BTreeMap<u64, Kept>,
    spare: Vec<PathBuf>,
    /// No recovery begins below this LSN.
    released: u64,
    /// The log can be read from this LSN on.
    kept_from: u64,
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
    /// Released segments that are kept for readers.
    pub kept_segments: u64,
    /// Bytes of the files of those.
    pub kept_bytes: u64,
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
    /// Where the first segment since the log was opened begins, and where the log ended before it.
    first_start: u64,
    recovered_end: u64,
    /// Where the recovery began to read. What is below in its segment may never have been synced.
    read_from: u64,
    pub(crate) allocator: SegmentAllocator<Turns>,
    creator: Mutex<Creator>,
    /// The segments after the current one that were created ahead, in order. Pushed under the lock
    /// of `creator`, popped under that of `allocator`.
    prepared: Mutex<VecDeque<Arc<Segment>>>,
    /// Segments that left the window.
    left: Mutex<Vec<Arc<Segment>>>,
    pub(crate) group: GroupCommit<Arc<keyrack_vfs::Error>>,
    /// Whether a sync has failed. A hint for the fast path: `group` has the failure.
    poisoned: AtomicBool,
    /// Whether recovered bytes may not be durable. A hint as well.
    unsealed: AtomicBool,
    window: Swap<Window>,
    /// Where the space of the current segment ends. Below `segment_bytes` only in the first one.
    limit: AtomicU64,
    directory: Mutex<Directory>,
    holds: Arc<Holds>,
    /// The time of the last time mark.
    last_mark_ms: AtomicU64,
    counts: Mutex<Counts>,
    clock: Clock,
}

impl Files {
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: &Path, options: Options, found: Found) -> Self {
        let ended_ms = wall::unix_ms();
        let entry = |(start, header): (u64, Header)| {
            let (bytes, previous_end) = (header.segment_bytes, header.previous_end);
            (start, Entry { bytes, previous_end, ended_ms, segment: None })
        };
        let live: BTreeMap<_, _> = found.live.into_iter().map(entry).collect();
        let kept: BTreeMap<_, _> = found.kept.into_iter().collect();
        let lowest = kept.first_key_value().map(|(_, kept)| kept.previous_end);
        let lowest = lowest.or(live.first_key_value().map(|(_, entry)| entry.previous_end));
        let kept_from = lowest.unwrap_or(found.previous_end);
        // Nobody synced what is below for readers of the past.
        let is_kept = options.retention.keeps();
        let kept_from = if is_kept { kept_from } else { kept_from.max(found.from) };
        let unsealed = !found.unsynced.is_empty();
        let number = found.next / options.segment_bytes;
        let creator = Creator {
            marker: Marker::new(options.id, found.mark),
            next: number,
            files_end: number,
            first: Some(found.previous_end),
            unsynced: found.unsynced,
            unused: found.unused,
        };
        Files {
            fs,
            dir: dir.to_owned(),
            options,
            epoch: found.epoch,
            first_start: found.next,
            recovered_end: found.previous_end,
            read_from: found.from,
            allocator: SegmentAllocator::new(number, options.segment_bytes, Turns::default()),
            creator: Mutex::new(creator),
            prepared: Mutex::default(),
            left: Mutex::default(),
            group: GroupCommit::new(found.synced),
            poisoned: AtomicBool::new(false),
            unsealed: AtomicBool::new(unsealed),
            window: Swap::new(Window([None, None])),
            // The first segment is still to come.
            limit: AtomicU64::new(0),
            directory: Mutex::new(Directory { live, kept, kept_from, ..Directory::default() }),
            holds: Arc::default(),
            last_mark_ms: AtomicU64::new(found.last_mark_ms),
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
        turns: &mut Turns,
        end_offset: u64,
        (number, record_bytes): (u64, u64),
    ) -> Result<()> {
        self.check_poison()?;
        let bytes = self.options.segment_bytes;
        self.ensure_prepared(record_bytes)?;
        let start = number * bytes;
        if end_offset < bytes {
            self.grow_to(number - 1, bytes.min(end_offset + RECORD_BYTES as u64))?;
            let old = self.lookup(start - bytes);
            let pad = old.start + end_offset;
            old.void(pad, self.group.synced(), bytes - end_offset)?;
        }
        let segment = lock(&self.prepared).pop_front().expect("it was created above");
        debug_assert_eq!(segment.start, start, "segments are created in order");
        let now_ns = self.clock.ticks();
        let filled_in_ns = now_ns.saturating_sub(turns.current_since_ns);
        turns.filled_in_ns = (turns.current_since_ns > 0).then_some(filled_in_ns);
        turns.current_since_ns = now_ns;
        let limit = segment.mapped_bytes;
        self.enter(start, &segment);
        let guard = pin();
        let [before, leaves] = self.window.load(&guard).0.clone();
        lock(&self.left).extend(leaves);
        self.window.store(Window([Some(segment), before]), &guard);
        // Release pairs with the Acquire in `limit`: the segment is there.
        self.limit.store(limit, Ordering::Release);
        Ok(())
    }

    /// Adds the segment that is the current one from now on.
    fn enter(&self, start: u64, segment: &Arc<Segment>) {
        let ended_ms = wall::unix_ms();
        let is_first = start == self.first_start;
        let previous_end = if is_first { self.recovered_end } else { start };
        let (bytes, segment) = (segment.bytes, Some(Arc::clone(segment)));
        let mut directory = self.directory();
        if let Some(mut before) = directory.live.last_entry()
            && !is_first
        {
            before.get_mut().ended_ms = ended_ms;
        }
        directory.live.insert(start, Entry { bytes, previous_end, ended_ms, segment });
    }

    /// Frees the windows that this thread has replaced, but for the segments that only they hold
    /// (`left`). Without a lock: what else is freed here may take its time. Later, they would hold
    /// the files of segments that were removed.
    #[cold]
    pub(crate) fn free_windows(&self) {
        pin().flush();
        pin().flush();
    }

    /// Frees the segments that left the window and are not used any more.
    fn free_left(&self) {
        let mut unused = Vec::new();
        {
            let mut left = lock(&self.left);
            // Whoever is the only one that has a segment stays that: nobody finds it any more.
            unused.extend(left.extract_if(.., |segment| Arc::strong_count(segment) == 1));
        }
        drop(unused);
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
        let mut space = limit.max(PAGE_BYTES);
        while space < end {
            space += if space < DOUBLED_BYTES_MAX { space } else { space / 4 };
        }
        let space = space.next_multiple_of(PAGE_BYTES).min(old.bytes);
        let file = self.fs.open(&old.path, &OpenOptions::new().read(true).write(true))?;
        let mapping = if old.is_direct {
            // Only what nobody writes yet: where space cannot be reserved, zeros are written.
            let [from, to] =
                [limit, space].map(|end| (FRONT_BYTES + end).next_multiple_of(PAGE_BYTES));
            file.allocate(from, to - from)?;
            Arc::clone(&old.mapping)
        } else {
            file.map(0, FRONT_BYTES + space)?.into()
        };
        let segment = Arc::new(Segment {
            start: old.start,
            bytes: old.bytes,
            incarnation: old.incarnation,
            path: old.path.clone(),
            mapped_bytes: space,
            mapping,
            is_direct: old.is_direct,
        });
        if let Some(entry) = self.directory().live.get_mut(&old.start) {
            entry.segment = Some(Arc::clone(&segment));
        }
        self.window.store(Window([Some(segment), before]), &guard);
        // As in `activate`.
        self.limit.store(space, Ordering::Release);
        Ok(())
    }

    /// Makes the recovered records durable.
    fn seal_recovered(&self) -> Result<()> {
        let mut creator = lock(&self.creator);
        while let Some(unsynced) = creator.unsynced.last() {
            self.rewrite(unsynced)?;
            creator.unsynced.pop();
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
            self.seal_recovered()?;
        }
        let flush = |from: u64| self.flush(from, published());
        self.group.sync(to, &flush).map_err(Error::Poisoned)
    }

    fn flush(&self, from: u64, to: u64) -> std::result::Result<u64, Arc<keyrack_vfs::Error>> {
        let segments: Vec<_> = {
            let directory = self.directory();
            // From the newest down: what is behind the last flush is not looked at.
            let kept = directory.kept.iter().rev();
            let kept = kept.take_while(|(start, kept)| *start + kept.bytes > from);
            let kept: Vec<_> = kept.map(|(_, kept)| &kept.segment).collect();
            let live = directory.live.range(..to).map(|(_, entry)| &entry.segment);
            kept.into_iter().rev().chain(live).flatten().cloned().collect()
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
        let kept = directory.kept.iter_mut().rev();
        for (start, kept) in kept.take_while(|(start, kept)| *start + kept.bytes > from) {
            if start + kept.bytes <= to {
                kept.segment = None;
            }
        }
        Ok(to)
    }

    /// Releases the segments that lie wholly below `below`, except the newest.
    pub(crate) fn release(&self, below: u64) -> Result<()> {
        let outcome = self.release_files(below);
        self.free_left();
        outcome
    }

    fn release_files(&self, below: u64) -> Result<()> {
        self.directory().release(below);
        loop {
            // The rest is wanted.
            let Some((start, kept)) = self.take_unwanted() else { return Ok(()) };
            let path = path_of(&self.dir, start);
            if let Err(error) = self.retire(path, kept.bytes == self.options.segment_bytes) {
                // The next release tries again. Nobody reads it.
                self.directory().kept.insert(start, kept);
                return Err(error);
            }
        }
    }

    /// Takes the oldest segment that was released, if it is not to be kept.
    fn take_unwanted(&self) -> Option<(u64, Kept)> {
        let retention = self.options.retention;
        let mut directory = self.directory();
        let released = directory.released;
        let held = if retention.held_bytes > 0 { self.holds.lowest() } else { None };
        let now_ms = wall::unix_ms();
        if directory.kept.first_key_value()?.1.ended_ms > now_ms {
            directory.kept.values_mut().for_each(|kept| kept.ended_by(now_ms));
        }
        let oldest = directory.kept.first_entry()?;
        let start = *oldest.key();
        if retention.wants((start, oldest.get()), released, held, now_ms) {
            return None;
        }
        let kept = oldest.remove();
        let next = directory.kept.first_key_value().map(|(_, kept)| kept.previous_end);
        let next = next.or(directory.live.first_key_value().map(|(_, it)| it.previous_end));
        // The newest segment is never released.
        directory.kept_from = directory.kept_from.max(next.unwrap_or(start + kept.bytes));
        Some((start, kept))
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
        lock(&self.creator).first.is_none()
    }

    pub(crate) fn stats(&self) -> Stats {
        let prepared = lock(&self.prepared).len() as u64;
        let directory = self.directory();
        let counts = lock(&self.counts);
        let spare_segments = directory.spare.len() as u64 + prepared;
        let space = |entry: &Entry| match &entry.segment {
            Some(segment) => FRONT_BYTES + segment.mapped_bytes,
            None => FRONT_BYTES + entry.bytes,
        };
        let live_bytes = directory.live.values().map(space);
        let kept_bytes = directory.kept.values().map(|kept| FRONT_BYTES + kept.bytes).sum();
        let spare_bytes = spare_segments * self.file_bytes();
        Stats {
            segments: directory.live.len() as u64,
            kept_segments: directory.kept.len() as u64,
            kept_bytes,
            spare_segments,
            file_bytes: live_bytes.sum::<u64>() + kept_bytes + spare_bytes,
            flushes: counts.flushes,
            made: counts.made,
            recycled: counts.recycled,
        }
    }
}

impl Directory {
    /// Moves the segments that lie wholly below `below` to those that may be kept, except the
    /// newest.
    fn release(&mut self, below: u64) {
        self.released = self.released.max(below);
        while self.live.len() > 1
            && let Some(oldest) = self.live.first_entry()
            && oldest.key() + oldest.get().bytes <= self.released
        {
            let (start, Entry { bytes, previous_end, ended_ms, segment }) = oldest.remove_entry();
            self.kept.insert(start, Kept { bytes, previous_end, ended_ms, segment });
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Frees the mappings of segments that left the window.
        pin().flush();
    }
}
