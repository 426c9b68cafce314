//! The log as writers see it: reserve, write, publish; sync, release, close.

use std::path::Path;
use std::sync::Arc;

use keyrack_vfs::Fs;

use crate::error::{Error, Result};
use crate::files::{Files, Stats};
use crate::format::{ALIGN, room_of};
use crate::options::{Options, POSITION_MAX, Sync};
use crate::order::Order;
use crate::primitive::{AtomicU64, Line, Ordering};
use crate::recovery::{Recovered, recover};
use crate::rooms::Claim;
use crate::segment::reaches_window;
use crate::ticker::Ticker;

/// Where the records go.
#[derive(Debug)]
enum Backing {
    /// Nowhere: this is the next position.
    Nothing(Line<AtomicU64>),
    Files(Box<Files>),
}

/// What the log shares with the thread that syncs it.
#[derive(Debug)]
pub(crate) struct Core {
    published: Order,
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
    /// Opens the log in the directory `dir`, or begins a new one there. Gives each whole record
    /// from position `from` on to `replay`, in order of position. New records come behind, in a new
    /// segment. `from` is 0, or the position or the end of a record; if the records end below it,
    /// new ones come above it all the same.
    ///
    /// Nothing is written before the first record is reserved, so a log opens on a full disk. With
    /// [`Sync::None`] the directory is not touched, and what is in it is not read.
    ///
    /// The directory is made with the first record, if it is missing; the one that it lies in has
    /// to be there. The caller makes sure that nobody else has the directory open. O(bytes of the
    /// log from `from` on), and the rest of the last segment unless the log was closed.
    ///
    /// # Errors
    /// `Usage` for options and positions that cannot be; `Corruption` where something is missing or
    /// damaged that was once synced; `Io`; and the first error of `replay`.
    pub fn open<E: From<Error>>(
        fs: Arc<dyn Fs>,
        dir: &Path,
        from: u64,
        options: Options,
        replay: &mut dyn FnMut(u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(Log, Recovered), E> {
        options.check()?;
        let (core, recovered) = if options.sync == Sync::None {
            let start = from.max(options.first_position).max(1).next_multiple_of(ALIGN as u64);
            let backing = Backing::Nothing(Line(AtomicU64::new(start)));
            let recovered = Recovered { end: from, ..Recovered::default() };
            (Core { published: Order::new(start), backing, options }, recovered)
        } else {
            let found = recover(&*fs, dir, from, &options, replay)?;
            let (published, recovered) = (Order::new(found.next), found.report);
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

    /// Makes the directory of the log and the file that marks its newest segment, durably. The
    /// first record does the same; a caller who notes it down in [`Options::begun`] does it before.
    /// With [`Sync::None`] there is nothing to do. Three syncs the first time, one otherwise.
    ///
    /// # Errors
    /// `Io`, and then the next call tries again; `Poisoned`.
    pub fn begin(&self) -> Result<()> {
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => {
                files.check_poison()?;
                files.begin(&mut files.rooms.lock().shelf)
            }
        }
    }

    /// The identity of the log.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.core.options.id
    }

    /// Reserves room for a record of `length` bytes: its place in the order of all records. Write
    /// and publish it soon, because later records wait for it; a thread should have one at a time,
    /// and must publish several in the order of their positions.
    ///
    /// One atomic addition. Where a segment ends, making the next one may cost a lock and calls of
    /// the file system.
    ///
    /// # Errors
    /// `Usage` when it is longer than [`Log::record_bytes_max`]; `Io` when a segment could not be
    /// made, and then the next call tries again; `Poisoned`.
    #[inline]
    pub fn reserve(&self, length: usize) -> Result<Reservation<'_>> {
        if length > self.record_bytes_max() {
            return Err(self.too_long(length));
        }
        let core = &*self.core;
        let room = room_of(length) as u64;
        let files = match &core.backing {
            Backing::Files(files) => files,
            Backing::Nothing(next) => {
                // Acquire: see `reserved`. The order of publication is what others see.
                let position = next.0.fetch_add(room, Ordering::Acquire);
                let end = position + room;
                return Ok(Reservation {
                    core,
                    turn: position,
                    position,
                    end,
                    length,
                    written: false,
                    crosses_middle: false,
                    is_over: false,
                });
            }
        };
        files.check_poison()?;
        let segment_bytes = core.options.segment_bytes;
        loop {
            let claim = files.rooms.claim(room);
            let (turn, number, offset) = match claim {
                Claim::Room { number, offset } => (number * segment_bytes + offset, number, offset),
                Claim::Crosses { .. } | Claim::Full { .. } => {
                    let enter = |shelf: &mut _, end, number| files.enter(shelf, end, number);
                    match files.rooms.turn_over(claim, room, enter)? {
                        // With the new segment comes the room that nobody used in the old one.
                        Some(turned) => {
                            let before = (turned.number - 1) * segment_bytes;
                            (before + turned.end_offset, turned.number, 0)
                        }
                        None => continue,
                    }
                }
            };
            let position = number * segment_bytes + offset;
            let middle = segment_bytes / 2;
            return Ok(Reservation {
                core,
                turn,
                position,
                end: position + room,
                length,
                written: false,
                crosses_middle: offset < middle && middle <= offset + room,
                is_over: false,
            });
        }
    }

    #[cold]
    fn too_long(&self, length: usize) -> Error {
        let max = self.record_bytes_max();
        Error::usage(format!("a record of {length} bytes; the log takes at most {max}"))
    }

    /// Everything below is complete and may be seen.
    #[inline]
    #[must_use]
    pub fn published(&self) -> u64 {
        self.core.published.end()
    }

    /// A position that parts the records: those reserved before this call lie below it, and those
    /// reserved later do not, and their writers see what this thread did before the call.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        match &self.core.backing {
            // Release, in the one order of all additions, pairs with their Acquire.
            Backing::Nothing(next) => next.0.fetch_add(0, Ordering::AcqRel),
            Backing::Files(files) => files.rooms.end_in_order(),
        }
    }

    /// Whether all records that were reserved below `position`, which [`Log::reserved`] gave, are
    /// published. That is so below [`Log::published`]; and where a segment is full and the next one
    /// could not be made, nothing lies between its last record and its end.
    #[must_use]
    pub fn is_settled(&self, position: u64) -> bool {
        let published = self.published();
        let full = || match &self.core.backing {
            Backing::Nothing(_) => None,
            Backing::Files(files) => files.rooms.end_of_full(),
        };
        published >= position || full().is_some_and(|end| published >= end)
    }

    /// Everything below is durable. With [`Sync::None`], where nothing is, what is published.
    #[inline]
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.core.synced()
    }

    /// Returns once everything below `to` is durable, whatever the durability of the log. Those who
    /// call at the same time share a flush. Waits for records below `to` that are not published
    /// yet: publish your own first. With [`Sync::None`] there is nothing to do.
    ///
    /// # Errors
    /// `Poisoned` when this flush failed or an earlier one did; `Usage` when `to` lies beyond all
    /// reserved records; `Io` when recovered records could not be read or written again.
    pub fn sync(&self, to: u64) -> Result<()> {
        self.core.sync(to)
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

    /// Lets go of everything below `below`: the caller promises to start there or above from now
    /// on. Segments wholly below are kept for recycling or removed; the newest stays.
    ///
    /// # Errors
    /// `Io` when a file could not be removed; the next call tries again.
    pub fn release(&self, below: u64) -> Result<()> {
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => files.release(below.min(self.published())),
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

    /// Gives back the space of segments that are kept for recycling or were made ahead, as is
    /// good when nobody writes. Whoever fills the current segment then makes the next one, and
    /// waits for that.
    ///
    /// # Errors
    /// `Io` when a file could not be removed; the next call tries again.
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

    /// Syncs everything and marks the end, so that a log which is found shorter later is known to
    /// be damaged. Dropping a log does the same if something was reserved, and cannot tell whether
    /// it succeeded.
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
        // First, so that nobody syncs beside us.
        drop(self.ticker.take());
        match &self.core.backing {
            Backing::Nothing(_) => Ok(()),
            Backing::Files(files) => {
                files.check_poison()?;
                files.close(self.core.published.end())
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.core.is_written() {
            // Nobody is left to be told.
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
            if to > files.rooms.end().min(POSITION_MAX) {
                return Err(Error::usage(format!("nothing is reserved up to position {to}")));
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

/// Room for one record. Dropped without [`Reservation::publish`], it is made void and published, so
/// that nobody waits for it. A drop waits for the records before as well: variables are dropped in
/// reverse, so a thread with several reservations keeps them in one collection.
#[derive(Debug)]
#[must_use = "later records wait for this one"]
pub struct Reservation<'a> {
    core: &'a Core,
    /// Where the part of the log begins that is published with this record: at its position, or at
    /// the room before it that was left at the end of a segment.
    turn: u64,
    position: u64,
    end: u64,
    length: usize,
    written: bool,
    crosses_middle: bool,
    is_over: bool,
}

impl Reservation<'_> {
    /// The position of the record.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The position behind the record. Sync up to here to make it durable.
    #[inline]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Copies the payload in, the parts one behind the other, and its checksum. May be repeated.
    /// O(bytes).
    ///
    /// # Errors
    /// `Usage` when the parts are not of the length that was reserved.
    #[inline]
    pub fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length != self.length {
            let reserved = self.length;
            return Err(Error::usage(format!("{length} bytes for a record of {reserved}")));
        }
        if let Backing::Files(files) = &self.core.backing {
            let synced = files.group.synced();
            self.written = false;
            let write = |segment: &crate::segment::Segment| {
                segment.write(self.position, synced, parts, length)
            };
            files.with_segment(self.segment_start(), write)?;
        }
        self.written = true;
        Ok(())
    }

    /// Waits until all records before are published, then publishes this one. Without a write
    /// before, what is published is void.
    #[inline]
    pub fn publish(mut self) {
        self.finish();
    }

    fn segment_start(&self) -> u64 {
        self.position & !(self.core.options.segment_bytes - 1)
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let Backing::Files(files) = &self.core.backing else {
            self.core.published.publish(self.turn, self.end);
            return;
        };
        if !self.written {
            let (synced, room) = (files.group.synced(), self.end - self.position);
            let void =
                |segment: &crate::segment::Segment| segment.void(self.position, synced, room);
            let made_void = files.with_segment(self.segment_start(), void);
            debug_assert!(made_void.is_ok(), "the room lies in the mapping");
        }
        self.core.published.publish(self.turn, self.end);
        if reaches_window(self.position, self.end) {
            files.touch_ahead(self.segment_start(), self.position, self.end);
        }
        if self.crosses_middle {
            files.prepare_behind(self.position / self.core.options.segment_bytes);
        }
    }
}

impl Drop for Reservation<'_> {
    #[inline]
    fn drop(&mut self) {
        self.finish();
    }
}
