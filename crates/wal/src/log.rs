//! The log as writers see it: reserve, write, publish; sync, release, close.

use std::path::Path;
use std::sync::Arc;

use keyrack_vfs::Fs;

use crate::allocator::Reserved;
use crate::error::{Error, Result};
use crate::files::{Files, Stats};
use crate::format::{ALIGN, TIME_BYTES, log_bytes_of};
use crate::options::{LSN_MAX, Options, Sync};
use crate::primitive::{AtomicU64, CachePadded, Ordering};
use crate::recovery::{Recovered, recover};
use crate::retention::{Around, Hold, TailFiles};
use crate::segment::reaches_window;
use crate::sequencer::CommitSequencer;
use crate::ticker::Ticker;

/// Where the records go.
#[derive(Debug)]
enum Backing {
    /// No files. The value is the next LSN.
    Nothing(CachePadded<AtomicU64>),
    Files(Box<Files>),
}

/// What the log shares with the thread that syncs it.
#[derive(Debug)]
pub(crate) struct Core {
    published: CommitSequencer,
    backing: Backing,
    options: Options,
}

/// A log of records that many threads append to. See the crate's documentation.
#[derive(Debug)]
pub struct Log {
    core: Arc<Core>,
    ticker: Option<Ticker>,
    is_closed: bool,
}

impl Log {
    /// Opens the log in the directory `dir`, or begins a new one there. Passes each whole record
    /// from LSN `from` on to `replay`, in LSN order. New records follow in a new segment. `from` is
    /// 0, or the LSN or the end of a record. If the records end below `from`, new records still
    /// get LSNs above it.
    ///
    /// Nothing is written before the first record is reserved, so a log opens on a full disk. With
    /// [`Sync::None`] the directory is not touched, and what is in it is not read.
    ///
    /// The first record creates the directory if it is missing; its parent has to exist. The caller
    /// makes sure that no other process has the directory open. O(bytes of the log from `from` on),
    /// plus the rest of the last segment unless the log was closed.
    ///
    /// # Errors
    /// `Usage` for impossible options and LSNs; `Corruption` if something that was synced is
    /// missing or damaged; `Io`; and the first error of `replay`.
    pub fn open<E: From<Error>>(
        fs: Arc<dyn Fs>,
        dir: &Path,
        from: u64,
        options: Options,
        replay: &mut dyn FnMut(u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(Log, Recovered), E> {
        options.check()?;
        let (core, recovered) = if options.sync == Sync::None {
            let start = from.max(options.first_lsn).max(1).next_multiple_of(ALIGN as u64);
            let backing = Backing::Nothing(CachePadded(AtomicU64::new(start)));
            let recovered = Recovered { end: from, ..Recovered::default() };
            (Core { published: CommitSequencer::new(start), backing, options }, recovered)
        } else {
            let found = recover(&*fs, dir, from, &options, replay)?;
            let (published, recovered) = (CommitSequencer::new(found.next), found.report);
            let backing = Backing::Files(Box::new(Files::new(fs, dir, options, found)));
            (Core { published, backing, options }, recovered)
        };
        let core = Arc::new(core);
        let ticker = match options.sync {
            Sync::Interval(interval) => Some(Ticker::start(Arc::clone(&core), interval)?),
            _ => None,
        };
        Ok((Log { core, ticker, is_closed: false }, recovered))
    }

    /// Creates the directory of the log and the file that marks its newest segment, durably. The
    /// first record does the same. A caller that records it in [`Options::begun`] calls this first.
    /// With [`Sync::None`] it does nothing. Three syncs the first time, one otherwise.
    ///
    /// # Errors
    /// `Io`, and then the next call tries again; `Poisoned`.
    pub fn begin(&self) -> Result<()> {
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => files.begin_log(),
        }
    }

    /// The identity of the log.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.core.options.id
    }

    /// Reserves the LSN range of a record of `length` bytes. Write and publish it soon, because
    /// later records wait for it. A thread should hold one reservation at a time, and must publish
    /// several in LSN order.
    ///
    /// One atomic addition. At the end of a segment, the creation of the next one may cost a lock
    /// and file system calls.
    ///
    /// # Errors
    /// `Usage` if the record is longer than [`Log::record_bytes_max`]; `Io` if a segment could not
    /// be created, and then the next call tries again; `Poisoned`.
    #[inline]
    pub fn reserve(&self, length: usize) -> Result<Reservation<'_>> {
        if length > self.record_bytes_max() {
            return Err(self.too_long(length));
        }
        let core = &*self.core;
        let bytes = log_bytes_of(length) as u64;
        let files = match &core.backing {
            Backing::Files(files) => files,
            Backing::Nothing(next) => {
                // Acquire: see `reserved`. The order of publication is what others see.
                let lsn = next.0.fetch_add(bytes, Ordering::Acquire);
                let end = lsn + bytes;
                return Ok(Reservation {
                    core,
                    publish_from: lsn,
                    lsn,
                    end,
                    length,
                    written: false,
                    is_ahead_due: false,
                    is_over: false,
                });
            }
        };
        files.check_poison()?;
        let segment_bytes = core.options.segment_bytes;
        loop {
            let limit = files.limit();
            let reserved = if limit == segment_bytes {
                files.allocator.reserve(bytes)
            } else {
                files.allocator.reserve_below(bytes, limit)
            };
            let (publish_from, number, offset) = match reserved {
                Reserved::Range { number, offset } => {
                    (number * segment_bytes + offset, number, offset)
                }
                Reserved::Beyond { number, end } => {
                    files.grow(number, end)?;
                    continue;
                }
                Reserved::Crosses { .. } | Reserved::Full { .. } => {
                    let activate =
                        |turns: &mut _, end, number| files.activate(turns, end, (number, bytes));
                    match files.allocator.rotate(reserved, bytes, activate)? {
                        // The new segment's first record also publishes the unused end of the old
                        // one.
                        Some(rotated) => {
                            files.free_windows();
                            let before = (rotated.number - 1) * segment_bytes;
                            (before + rotated.end_offset, rotated.number, 0)
                        }
                        None => continue,
                    }
                }
            };
            let lsn = number * segment_bytes + offset;
            return Ok(Reservation {
                core,
                publish_from,
                lsn,
                end: lsn + bytes,
                length,
                written: false,
                is_ahead_due: files.is_ahead_due(number, offset, bytes),
                is_over: false,
            });
        }
    }

    #[cold]
    fn too_long(&self, length: usize) -> Error {
        let max = self.record_bytes_max();
        Error::usage(format!("a record has at most {max} bytes in this log (got {length})"))
    }

    /// Everything below this LSN is complete and may be read.
    #[inline]
    #[must_use]
    pub fn published(&self) -> u64 {
        self.core.published.end()
    }

    /// Where the published records end. That is [`Log::published`], but for a log that has got no
    /// record since it was opened: there, where the recovered records end.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position_of(self.published())
    }

    /// Where the records end that are below `lsn`, a result of [`Log::published`] or
    /// [`Log::synced`].
    #[must_use]
    pub fn position_of(&self, lsn: u64) -> u64 {
        match &self.core.backing {
            Backing::Nothing(_) => lsn,
            Backing::Files(files) => files.position_of(lsn),
        }
    }

    /// Writes the time into the log: every record that was published before is below the mark, and
    /// none below it was published after that time. `unix_ms` reads the clock, in milliseconds
    /// since 1970, once they are. Times do not decrease: if that of an earlier mark is later, it is
    /// written again. Marks of earlier openings count as far as the log has them: those that the
    /// opening has read, and with a [`Retention`](crate::Retention) those that are kept. A
    /// [`Tail`](crate::Tail) gives the time; a recovery passes over it. Returns the end of the
    /// mark, and what [`Reservation::publish_asking`] does. With [`Sync::None`] it does nothing.
    ///
    /// # Errors
    /// As for [`Log::reserve`].
    pub fn mark_time(&self, unix_ms: impl FnOnce() -> u64) -> Result<(u64, bool)> {
        let Backing::Files(files) = &self.core.backing else {
            return Ok((self.published(), false));
        };
        let mut place = self.reserve(TIME_BYTES)?;
        self.core.published.wait_for(place.publish_from);
        let unix_ms = files.later_of(unix_ms());
        let synced = files.group.synced();
        let write =
            |segment: &crate::segment::Segment| segment.write_time(place.lsn, synced, unix_ms);
        files.with_segment(place.segment_start(), write)?;
        place.written = true;
        Ok((place.end, place.publish_asking()))
    }

    /// What a tail needs, whose LSN is held from here on.
    pub(crate) fn tail_files(&self, from: u64) -> Option<(TailFiles, Hold)> {
        match &self.core.backing {
            Backing::Nothing(_) => None,
            Backing::Files(files) => Some(files.tail_files(from)),
        }
    }

    /// The segments around an LSN.
    pub(crate) fn around(&self, lsn: u64) -> Around {
        match &self.core.backing {
            Backing::Nothing(_) => Around::default(),
            Backing::Files(files) => files.around(lsn),
        }
    }

    /// Where the recovery began to read.
    pub(crate) fn read_from(&self) -> u64 {
        match &self.core.backing {
            Backing::Nothing(_) => 0,
            Backing::Files(files) => files.read_from(),
        }
    }

    /// Nothing below `first` can be read any more.
    pub(crate) fn keep_from(&self, first: u64) {
        match &self.core.backing {
            Backing::Nothing(_) => {}
            Backing::Files(files) => files.keep_from(first),
        }
    }

    /// The first LSN from which the log can be read. It grows when a [`Tail`](crate::Tail) finds a
    /// hole that a power loss left in what was released.
    #[must_use]
    pub fn kept_from(&self) -> u64 {
        match &self.core.backing {
            Backing::Nothing(_) => self.published(),
            Backing::Files(files) => files.kept_from(),
        }
    }

    /// The LSN at which the reserved records end. Records that were reserved before this call lie
    /// below it, later ones do not. The writers of later records see what this thread did before
    /// the call.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        match &self.core.backing {
            // Release, in the one order of all additions, pairs with their Acquire.
            Backing::Nothing(next) => next.0.fetch_add(0, Ordering::AcqRel),
            Backing::Files(files) => files.allocator.end_in_order(),
        }
    }

    /// Whether all records that were reserved below `lsn`, a result of [`Log::reserved`], are
    /// published. That holds up to [`Log::published`]. If a segment is full and the next one could
    /// not be created, it also holds up to the end of the full segment.
    #[must_use]
    pub fn is_complete(&self, lsn: u64) -> bool {
        let published = self.published();
        let full = || match &self.core.backing {
            Backing::Nothing(_) => None,
            Backing::Files(files) => files.allocator.end_of_full(),
        };
        published >= lsn || full().is_some_and(|end| published >= end)
    }

    /// Everything below this LSN is durable. With [`Sync::None`], where nothing is durable, the
    /// same as [`Log::published`].
    #[inline]
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.core.synced()
    }

    /// Returns once everything below `to` is durable, whatever the durability of the log.
    /// Concurrent callers share a flush. Waits for records below `to` that are not published yet:
    /// publish your own first. With [`Sync::None`] it does nothing.
    ///
    /// # Errors
    /// `Poisoned` if this flush or an earlier one failed; `Usage` if `to` lies above all reserved
    /// records; `Io` if recovered records could not be read or written again.
    pub fn sync(&self, to: u64) -> Result<()> {
        self.core.sync(to)
    }

    /// As [`Log::sync`] of all that is published, unless all of it was released: nobody will read
    /// it, so it need not be durable. For a caller that is about to close the log.
    ///
    /// # Errors
    /// As for [`Log::sync`].
    pub fn sync_unreleased(&self) -> Result<()> {
        let published = self.published();
        match &self.core.backing {
            Backing::Files(files) if files.is_released(published) => files.check_poison(),
            Backing::Files(_) | Backing::Nothing(_) => self.sync(published),
        }
    }

    /// Returns once the records below `to` are as durable as the log's [`Sync`] asks for: at once,
    /// or with [`Sync::Always`] after [`Log::sync`].
    ///
    /// # Errors
    /// As for [`Log::sync`].
    pub fn commit(&self, to: u64) -> Result<()> {
        match self.core.options.sync {
            Sync::Always => self.sync(to),
            Sync::None | Sync::Os | Sync::Interval(_) => Ok(()),
        }
    }

    /// Releases everything below `below`: the caller promises to open the log from there or above
    /// from now on. Segments wholly below are kept for recycling or removed, once the
    /// [`Retention`](crate::Retention) does not ask for them. The newest one stays.
    ///
    /// # Errors
    /// `Io` if a file could not be removed; the next call tries again.
    pub fn release(&self, below: u64) -> Result<()> {
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => files.release(below.min(self.published())),
        }
    }

    /// Drops segments that were released and that are not to be kept any more, since they are too
    /// old, or no [`Tail`](crate::Tail) holds them. [`Log::release`] does the same.
    ///
    /// # Errors
    /// As for [`Log::release`].
    pub fn expire(&self) -> Result<()> {
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => files.release(0),
        }
    }

    /// Creates the segment after the current one, unless it exists, so that no writer has to. Where
    /// segments have been filled within seconds, it creates four, and also makes their pages, which
    /// writers would otherwise do one by one. Failures are not reported: the writer that needs the
    /// segment tries again, and gets the error.
    ///
    /// For [`Options::prepared_by_caller`]. For each segment three syncs, and the time to clear it.
    pub fn prepare(&self) {
        if let Backing::Files(files) = &self.core.backing {
            files.prepare_next(None);
        }
    }

    /// Whether there are files that [`Log::trim`] removes.
    #[must_use]
    pub fn has_spares(&self) -> bool {
        match &self.core.backing {
            Backing::Nothing(_) => false,
            Backing::Files(files) => files.has_spares(),
        }
    }

    /// Frees the space of segments that are kept for recycling or were created ahead. That is
    /// useful while no thread writes. The writer that fills the current segment then creates the
    /// next one and waits for it.
    ///
    /// # Errors
    /// `Io` if a file could not be removed; the next call tries again.
    pub fn trim(&self) -> Result<()> {
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => files.trim(),
        }
    }

    /// Bytes of the longest record: one that fills a segment.
    #[inline]
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.core.options.record_bytes_max()
    }

    /// Sizes and counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        match &self.core.backing {
            Backing::Nothing(_) => Stats::default(),
            Backing::Files(files) => files.stats(),
        }
    }

    /// Syncs everything and marks the end, so that a log which is shorter later is known to be
    /// damaged. Then gives the space back that was reserved for more records. Dropping a log does
    /// the same if something was reserved, but cannot report a failure.
    ///
    /// # Errors
    /// As for [`Log::sync`].
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        // First, so that no other thread syncs meanwhile.
        drop(self.ticker.take());
        let end = self.core.published.end();
        let core = Arc::get_mut(&mut self.core).expect("the thread that syncs has ended");
        match &mut core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => {
                files.check_poison()?;
                files.close(end)?;
                files.give_back(end)
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.core.is_written() {
            // A drop has no caller that could handle the error.
            let _ = self.end();
        }
    }
}

impl Core {
    pub(crate) fn synced(&self) -> u64 {
        match &self.backing {
            Backing::Nothing(_) => self.published.end(),
            Backing::Files(files) => files.group.synced(),
        }
    }

    pub(crate) fn sync(&self, to: u64) -> Result<()> {
        // Without files there is nothing to sync.
        let Backing::Files(files) = &self.backing else { return Ok(()) };
        if to > self.published.end() {
            if to > files.allocator.end().min(LSN_MAX) {
                return Err(Error::usage(format!("no record is reserved up to LSN {to}")));
            }
            self.published.wait_for(to);
        }
        files.sync(to, &|| self.published.end())
    }

    fn is_written(&self) -> bool {
        match &self.backing {
            Backing::Nothing(_) => false,
            Backing::Files(files) => files.is_written(),
        }
    }

    pub(crate) fn sync_published(&self) -> Result<()> {
        self.sync(self.published.end())
    }
}

/// The reserved LSN range of one record. Dropped without [`Reservation::publish`], it is made void
/// and published, so that no thread waits for it. A drop waits for the records before it, too:
/// variables are dropped in reverse order, so a thread with several reservations keeps them in one
/// collection.
#[derive(Debug)]
#[must_use = "later records wait for this one"]
pub struct Reservation<'a> {
    core: &'a Core,
    /// Where the range begins that is published with this record: at its LSN, or at the unused end
    /// of the segment before it.
    publish_from: u64,
    lsn: u64,
    end: u64,
    length: usize,
    written: bool,
    is_ahead_due: bool,
    is_over: bool,
}

impl Reservation<'_> {
    /// The LSN of the record.
    #[inline]
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The LSN after the record. Sync up to here to make it durable.
    #[inline]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Copies the payload, which is the concatenation of `parts`, and its checksum. May be
    /// repeated. O(bytes).
    ///
    /// # Errors
    /// `Usage` if the parts do not have the reserved length.
    #[inline]
    pub fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length != self.length {
            let reserved = self.length;
            return Err(Error::usage(format!(
                "the record was reserved with {reserved} bytes (got {length})"
            )));
        }
        if let Backing::Files(files) = &self.core.backing {
            let synced = files.group.synced();
            self.written = false;
            let write =
                |segment: &crate::segment::Segment| segment.write(self.lsn, synced, parts, length);
            files.with_segment(self.segment_start(), write)?;
        }
        self.written = true;
        Ok(())
    }

    /// Waits until all records before it are published, then publishes this one. Without a
    /// [`Reservation::write`] the record is void.
    #[inline]
    pub fn publish(self) {
        self.publish_asking();
    }

    /// As [`Reservation::publish`]. Returns whether the next segment should be created now: then
    /// call [`Log::prepare`], on a thread that no writer waits for. Always `false` unless
    /// [`Options::prepared_by_caller`].
    #[inline]
    pub fn publish_asking(mut self) -> bool {
        self.finish()
    }

    fn segment_start(&self) -> u64 {
        self.lsn & !(self.core.options.segment_bytes - 1)
    }

    fn finish(&mut self) -> bool {
        if std::mem::replace(&mut self.is_over, true) {
            return false;
        }
        let Backing::Files(files) = &self.core.backing else {
            self.core.published.publish(self.publish_from, self.end);
            return false;
        };
        if !self.written {
            let (synced, bytes) = (files.group.synced(), self.end - self.lsn);
            let void = |segment: &crate::segment::Segment| segment.void(self.lsn, synced, bytes);
            let made_void = files.with_segment(self.segment_start(), void);
            debug_assert!(made_void.is_ok(), "the range lies in the mapping");
        }
        self.core.published.publish(self.publish_from, self.end);
        if reaches_window(self.lsn, self.end) {
            files.touch_ahead(self.segment_start(), self.lsn, self.end);
        }
        if self.is_ahead_due && !self.core.options.prepared_by_caller {
            files.prepare_next(Some(self.lsn / self.core.options.segment_bytes));
            return false;
        }
        self.is_ahead_due
    }
}

impl Drop for Reservation<'_> {
    #[inline]
    fn drop(&mut self) {
        self.finish();
    }
}
