//! From a write that was let in to one that can be seen: a reservation in the log, room in memory,
//! both filled, and the record published.
//!
//! ```text
//!   mostly     number --> memtable of that number --> room in it --> fill --> publish
//!   no room    the record stays void, and the write waits for its turn:
//!              write controller --> exchange lock --> room in the active memtable, or in a new
//!              one in front of it --> number --> unlock --> fill --> publish
//! ```
//!
//! A write takes room for all of its entries before it fills any part of its record. So one that
//! has room cannot fail any more for lack of memory, and one that gets none leaves a void record,
//! which nobody sees, and a place in the log. However many threads write, and however large their
//! writes are, a full memtable is a wait.
//!
//! **Invariant:** a write's room is in the memtable that its sequence number belongs to.
//!
//! *Mostly:* the number decides. The memtable is still there: it is flushed when all records below
//! the beginning of the next one are published, and this one is not.
//! *In turn:* memtables begin under the exchange lock only. The active one began at an LSN that
//! was reserved before this writer took the lock, or before it looked at the log; so the number is
//! not below it. The next memtable begins after the lock is given back, at an LSN that is
//! reserved then, and the number is below that (`Log::reserved`).
//!
//! **Progress.** A write takes its turn at most once: there, room comes first, and a number is to
//! be had for every room. It gets room, or a memtable with room for it that nobody else has seen,
//! or finds that too many memtables wait for their flush. Then it waits at the write controller, as
//! it did before it came in, and needs nothing but a flush to go on: it holds no reservation, which
//! a flush would wait for, and no lock but those of its keys, which no flush takes.
//!
//! A record of the log has at most 1 GiB, and its entries take at most 12 times that in memory
//! (tombstones of the empty key, 24 bytes for 2): less than the 16 GiB of the largest memtable.

use super::Inner;
use super::rotate::{may_rotate, new_memtable, replace_active, rotate};
use crate::batch::Write;
use crate::error::{Error, Result};
use crate::key::Comparator;
use crate::memtable::{Memtable, MemtableReservation, Size};
use keyrack_concurrent::pin;
use keyrack_wal::Reservation;
use std::sync::Arc;

/// How a memtable is after writes to it.
struct Inserted {
    full: bool,
    /// Whether too much of it is without order.
    needs_sort: bool,
    /// Whether memory is about to be needed.
    wants_ahead: bool,
}

/// What goes into the log and into memory as one: the parts of the record, and the writes in it,
/// each with the hash of its key.
pub(super) struct Record<'a, W> {
    pub(super) parts: &'a [&'a [u8]],
    /// [`size_of`] them.
    pub(super) size: Size,
    pub(super) writes: W,
}

/// What those of the writes that change anything take of a memtable.
pub(super) fn size_of<'w>(writes: impl Iterator<Item = Write<'w>>, order: &Comparator) -> Size {
    let kept = writes.filter(|write| !write.is_void(order));
    kept.map(|write| Size::of(write.key.len(), write.value.len(), write.kind)).sum()
}

impl Inner {
    /// Logs a record, puts its writes into memory and publishes it. Returns its end in the log.
    pub(super) fn append<'w>(
        &self,
        record: Record<'_, impl Iterator<Item = (Write<'w>, u64)>>,
    ) -> Result<u64> {
        self.check_closing()?;
        let len: usize = record.parts.iter().map(|part| part.len()).sum();
        let most = self.write_path.log.record_bytes_max();
        if len > most {
            let (kib, most) = (len.div_ceil(1024), most / 1024);
            return Err(Error::Usage(format!(
                "a write of {kib} KiB is larger than a record of the log may be, {most} KiB; \
                 use larger segments, or smaller batches"
            )));
        }
        let mut place = self.reserve(len)?;
        let inserted = {
            let guard = pin();
            let read_state = self.read_path.load(&guard);
            let memtable = read_state.memtable_of(place.lsn());
            let memtable =
                memtable.expect("a memtable stays until all of its records are published");
            match memtable.reserve(record.size) {
                Ok(room) => Ok(self.fill(&mut place, room, memtable, record)?),
                Err(full) => Err((full, record)),
            }
        };
        let (place, inserted) = match inserted {
            Ok(inserted) => (place, inserted),
            Err((_, record)) => {
                drop(place);
                self.fill_in_turn(len, record)?
            }
        };
        let end = place.end();
        let is_segment_due = place.publish_asking();
        self.feeds.published(self);
        if inserted.full {
            rotate(self);
        }
        if is_segment_due {
            self.ahead.segment.make();
        }
        if inserted.wants_ahead {
            self.ahead.memory.make();
        }
        if inserted.needs_sort {
            self.ahead.order.make();
        }
        Ok(end)
    }

    /// A place in the log.
    #[inline]
    fn reserve(&self, len: usize) -> Result<Reservation<'_>> {
        self.write_path.log.reserve(len).map_err(|error| self.log_failed(error))
    }

    /// Takes room first and the number then, see the header.
    #[cold]
    fn fill_in_turn<'w>(
        &self,
        len: usize,
        record: Record<'_, impl Iterator<Item = (Write<'w>, u64)>>,
    ) -> Result<(Reservation<'_>, Inserted)> {
        loop {
            // Waits while too many memtables are immutable.
            self.admit(0)?;
            self.check_closing()?;
            let exchange = self.read_path.lock_exchange();
            let active = Arc::clone(self.read_state().active());
            if let Ok(room) = active.reserve(record.size) {
                let mut place = self.reserve(len)?;
                drop(exchange);
                let inserted = self.fill(&mut place, room, &active, record)?;
                return Ok((place, inserted));
            }
            if may_rotate(self) {
                let new = new_memtable(&self.memtables, record.size.bytes());
                let room = new.reserve(record.size);
                let room = room.expect("an empty memtable that was laid out for it has room");
                replace_active(self, Arc::clone(&new), &exchange);
                let mut place = self.reserve(len)?;
                drop(exchange);
                let inserted = self.fill(&mut place, room, &new, record)?;
                return Ok((place, inserted));
            }
        }
    }

    /// Writes the record into its place in the log, and its writes into their room.
    fn fill<'w>(
        &self,
        place: &mut Reservation<'_>,
        mut room: MemtableReservation<'_>,
        memtable: &Arc<Memtable>,
        record: Record<'_, impl Iterator<Item = (Write<'w>, u64)>>,
    ) -> Result<Inserted> {
        let mut writes = record.writes.peekable();
        // Its line comes while the record is copied, and each further one while an entry is.
        let prefetch = |next: Option<&(Write<'w>, u64)>| {
            if let Some((_, hash)) = next {
                memtable.prefetch(*hash);
            }
        };
        prefetch(writes.peek());
        place.write(record.parts)?;
        let mut sequence = place.lsn();
        while let Some((write, hash)) = writes.next() {
            prefetch(writes.peek());
            let Write { kind, key, value } = write;
            if !write.is_void(&self.options.comparator) {
                room.insert(sequence, kind, key, value, hash);
            }
            sequence += 1;
        }
        let full = memtable.bytes() >= self.options.memtable_bytes;
        let (needs_sort, wants_ahead) = (memtable.needs_sort(), memtable.wants_ahead());
        Ok(Inserted { full, needs_sort, wants_ahead })
    }
}
