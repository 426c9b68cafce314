//! Entries, one behind the other, in memory that is never moved and never freed piecemeal.
//!
//! ```text
//!   state: | immutable: 1 bit | entries: 31 bits | units: 32 bits |   one fetch_add takes both
//!                                |                   |
//!   index: [ h1 | h2 |  0 | h4 | v                   v
//!   units: [ 32 bytes of zero | entry | entry | .... | zero, or of an earlier use ]
//!
//!   entry, from a multiple of 8 bytes on:
//!     0  prev: u32          handle of the next older version of the key
//!     4  key_bytes: u32
//!     8  value_bytes: u32
//!    12  key | trailer, 8 bytes little-endian | value
//!        of a range tombstone, at the next multiple of 4: link: u32, to another range tombstone
//! ```
//!
//! A **handle** is the number of the entry's first unit of 8 bytes; zero is none. Key and trailer
//! lie together as one internal key, so that a cursor lends it without a copy.
//!
//! - An entry is written by the thread that reserved its room, and never again but for its links.
//!   After that its handle is stored with Release into a word (a slot of the table, a link, the
//!   index); whoever loads it from there with Acquire sees the whole entry. A [`Handle`] comes from
//!   [`Arena::write`] or out of such a word, hence names a written entry. It is used with the arena
//!   that it is from: those who keep handles keep the arena.
//! - A [`Reservation`] is a part of both, for all entries of one write. A write that has it cannot
//!   fail any more for lack of memory: [`Reservation::write`] panics where an entry would not fit.
//! - The index holds the handles in the order of reservation. A zero in it is an entry that is
//!   still being written. A number that found no room, or whose room was given up, holds the void
//!   entry at the start of the memory.
//! - A room of at most [`OVERSHOT_UNITS_MAX`] is added without looking. Where the sum passes the
//!   end, this reservation fails, and so does every later one. A thread does that once an arena, as
//!   it sees its own sum afterwards: 16 thousand threads can, above the largest arena. A larger
//!   room is taken by compare-and-exchange, which changes nothing where there is none.

use super::Full;
use super::mapping::{HUGE_BYTES, Mapping, Zeroed, prefetch};
use crate::key::{Kind, TRAILER_BYTES, trailer};
use crossbeam_utils::CachePadded;
#[cfg(test)]
use keyrack_concurrent::Backoff;
use keyrack_concurrent::atomic::{AtomicU32, AtomicU64, Ordering};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// The grain of handles.
const UNIT_BYTES: usize = 8;

/// Bytes before the key of an entry.
const HEADER_BYTES: usize = 12;

/// Bytes of the smallest entry.
const ENTRY_BYTES_MIN: usize = OVERHEAD_BYTES.next_multiple_of(UNIT_BYTES);

/// Bytes of an entry besides key and value, before rounding.
const OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;

/// The void entry: a key and a value of no bytes, a trailer of zero.
const VOID: Handle = Handle(NonZeroU32::MIN);

/// Units before the first entry.
const FIRST_UNIT: u32 = 4;

/// The largest arena: 16 GiB.
const UNITS_MAX: u64 = 1 << 31;

/// The most entries of an arena.
const ENTRIES_MAX: usize = 1 << 30;

/// Huge pages that are made when the middle of the one before is reached.
const HUGE_PAGES_AHEAD: u64 = 4;

/// Units of a huge page.
const HUGE_UNITS: u64 = (HUGE_BYTES / UNIT_BYTES) as u64;

/// Units that one thread may add beyond the end.
const OVERSHOT_UNITS_MAX: u64 = 1 << 17;

const IMMUTABLE: u64 = 1 << 63;
const ONE_ENTRY: u64 = 1 << 32;

/// Names a written entry of an arena.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub(super) struct Handle(NonZeroU32);

/// A word that names an entry or none.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct Link(AtomicU32);

// SAFETY: a word that is an atomic number; zero is one of its values.
unsafe impl Zeroed for Link {}

impl Link {
    /// What it names. The entry is seen whole: this Acquire pairs with the Releases of
    /// [`Self::set`] and [`Self::swap`], which come after the entry was written.
    #[inline]
    pub(super) fn get(&self) -> Option<Handle> {
        NonZeroU32::new(self.0.load(Ordering::Acquire)).map(Handle)
    }

    #[inline]
    pub(super) fn set(&self, handle: Option<Handle>) {
        self.0.store(bits(handle), Ordering::Release);
    }

    /// Replaces `expected`; else says what is there.
    #[inline]
    pub(super) fn swap(&self, expected: Option<Handle>, new: Handle) -> Result<(), Option<Handle>> {
        let (expected, new) = (bits(expected), new.0.get());
        let swapped = self.0.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
        swapped.map(|_| ()).map_err(|found| NonZeroU32::new(found).map(Handle))
    }
}

/// A word that names an entry and a tag of 32 bits with it, or nothing.
#[repr(transparent)]
pub(super) struct Slot(AtomicU64);

// SAFETY: a word that is an atomic number; zero is one of its values.
unsafe impl Zeroed for Slot {}

impl Slot {
    /// Tag and entry. Acquire as in [`Link::get`].
    #[inline]
    pub(super) fn get(&self) -> Option<(u32, Handle)> {
        let word = self.0.load(Ordering::Acquire);
        Some(((word >> 32) as u32, Handle(NonZeroU32::new(word as u32)?)))
    }

    /// Replaces `expected`. Whether that was there.
    #[inline]
    pub(super) fn swap(&self, expected: Option<(u32, Handle)>, new: (u32, Handle)) -> bool {
        let word = |(tag, handle): (u32, Handle)| u64::from(tag) << 32 | u64::from(handle.0.get());
        let (expected, new) = (expected.map_or(0, word), word(new));
        // Release: the entry was written before. Acquire is left to the next `get`.
        self.0.compare_exchange(expected, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self.0.as_ptr().cast());
    }
}

/// An entry that is written and not yet in the index. Exactly one [`Arena::announce`] is owed.
#[must_use]
pub(super) struct Written {
    pub(super) handle: Handle,
    /// Its number in the order of reservation.
    pub(super) index: u32,
}

/// The memory of one memtable.
pub(super) struct Arena {
    units: Mapping<AtomicU64>,
    index: Mapping<Link>,
    units_end: u64,
    entries_max: u64,
    state: CachePadded<AtomicU64>,
    /// The unit from which on huge pages are about to be needed; 0 when they are made.
    wanted: CachePadded<AtomicU64>,
}

impl Arena {
    /// Room for `bytes` of entries as [`Size`] counts them, 16 GiB at most, in huge pages if so.
    pub(super) fn new(bytes: usize, huge: bool) -> Self {
        Self::limited(bytes, bytes.div_ceil(ENTRY_BYTES_MIN), huge)
    }

    fn limited(bytes: usize, entries_max: usize, huge: bool) -> Self {
        let units = (bytes.div_ceil(UNIT_BYTES) as u64).min(UNITS_MAX - u64::from(FIRST_UNIT));
        let units_end = units + u64::from(FIRST_UNIT);
        let entries_max = entries_max.clamp(1, ENTRIES_MAX);
        Arena {
            units: Mapping::new(units_end as usize, huge),
            index: Mapping::new(entries_max, huge),
            units_end,
            entries_max: entries_max as u64,
            state: CachePadded::new(AtomicU64::new(u64::from(FIRST_UNIT))),
            wanted: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// How many entries there may be: as many of the smallest as there is room for.
    pub(super) fn entries_max(&self) -> usize {
        self.entries_max as usize
    }

    /// Takes room for all entries of a write, or none of it.
    #[inline]
    pub(super) fn reserve(&self, size: Size) -> Result<Reservation<'_>, Full> {
        self.reserve_seeing(self.state.load(Ordering::Relaxed), size)
    }

    /// Puts a written entry into the index: from now on [`Self::get`] finds it.
    pub(super) fn announce(&self, written: Written) {
        self.index.items()[written.index as usize].set(Some(written.handle));
    }

    /// Reservations fail from now on.
    pub(super) fn make_immutable(&self) {
        self.state.fetch_or(IMMUTABLE, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn is_immutable(&self) -> bool {
        self.state.load(Ordering::Relaxed) & IMMUTABLE != 0
    }

    /// Waits until the entries reserved so far are in the index. O(entries).
    #[cfg(test)]
    pub(super) fn wait_for_inserts(&self) {
        for link in &self.index.items()[..self.count() as usize] {
            let mut backoff = Backoff::new();
            while link.get().is_none() {
                backoff.wait();
            }
        }
    }

    /// Entries reserved so far, those that found or used no room included.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        // Relaxed: whoever knows that an entry was inserted knows it from the thread that did it,
        // and so sees at least its reservation.
        let state = self.state.load(Ordering::Relaxed);
        entries(state).min(self.entries_max) as u32
    }

    /// The entry with this number in the order of reservation.
    pub(super) fn get(&self, index: u32) -> IndexSlot {
        match self.index.items()[index as usize].get() {
            None => IndexSlot::Unwritten,
            Some(VOID) => IndexSlot::Void,
            Some(handle) => IndexSlot::Entry(handle),
        }
    }

    /// Bytes of entries so far.
    pub(super) fn bytes(&self) -> usize {
        let units = units(self.state.load(Ordering::Relaxed)).min(self.units_end);
        (units - u64::from(FIRST_UNIT)) as usize * UNIT_BYTES
    }

    /// Bytes of memory that the entries and their index take, with the pages that were made ahead
    /// and those of an earlier use.
    pub(super) fn memory_bytes(&self) -> usize {
        self.units.touched_bytes(self.touched_units())
            + self.index.touched_bytes(self.count() as usize)
    }

    /// Units that were written to, or made ahead: from the middle of a huge page on those of the
    /// next ones.
    fn touched_units(&self) -> usize {
        let (units, half) = (self.bytes() / UNIT_BYTES + FIRST_UNIT as usize, HUGE_UNITS / 2);
        let has_ahead = self.units.is_huge() && units as u64 >= half;
        units + if has_ahead { ((2 * HUGE_PAGES_AHEAD - 1) * half) as usize } else { 0 }
    }

    /// The entry that a handle of this arena names.
    #[inline]
    pub(super) fn entry(&self, handle: Handle) -> Entry<'_> {
        let unit = handle.0.get();
        debug_assert!(u64::from(unit) < self.units_end);
        Entry { at: self.units.base().wrapping_add(unit as usize).cast(), arena: PhantomData }
    }

    /// Asks for the first lines of an entry: header, key, and the start of the value.
    #[inline]
    pub(super) fn prefetch(&self, handle: Handle) {
        let at = self.units.base().wrapping_add(handle.0.get() as usize).cast::<u8>();
        prefetch(at);
        prefetch(at.wrapping_add(64));
    }

    /// Whoever reaches the middle of a huge page asks for the next ones. To clear one takes as long
    /// as hundreds of inserts. Threads that met at its start would all do so, and all but one of
    /// them for nothing.
    #[inline]
    fn ask_ahead(&self, handle: Handle, units: u64) {
        let (from, to) = (u64::from(handle.0.get()), u64::from(handle.0.get()) + units);
        let half = HUGE_UNITS / 2;
        if (from + half) / HUGE_UNITS != (to + half) / HUGE_UNITS {
            // Relaxed: a hint.
            self.wanted.store((to + half) / HUGE_UNITS * HUGE_UNITS, Ordering::Relaxed);
        }
    }

    /// Whether somebody should call [`Self::make_ahead`]. One load.
    #[inline]
    pub(super) fn wants_ahead(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Makes the huge pages that were asked for. Where nobody calls it, a page is made by the first
    /// thread that writes to it.
    pub(super) fn make_ahead(&self) {
        let wanted = self.wanted.swap(0, Ordering::Relaxed);
        if wanted > 0 {
            (0..HUGE_PAGES_AHEAD).for_each(|page| self.units.populate(wanted + page * HUGE_UNITS));
        }
    }

    /// Makes the first huge pages, and that of the index.
    pub(super) fn populate_first(&mut self) {
        self.units.populate_first(HUGE_PAGES_AHEAD * HUGE_UNITS);
        self.index.populate_first(1);
    }

    /// Forgets the entries. Their bytes stay, and an entry in their place writes all of its own.
    pub(super) fn clear(&mut self) {
        let (units, count) = (self.touched_units(), self.count() as usize);
        self.units.note_touched(units);
        self.index.clear(count);
        self.state = CachePadded::new(AtomicU64::new(u64::from(FIRST_UNIT)));
        self.wanted = CachePadded::new(AtomicU64::new(0));
    }

    /// Reserves room from a state that was seen just now, and may have changed.
    #[inline]
    fn reserve_seeing(&self, mut seen: u64, size: Size) -> Result<Reservation<'_>, Full> {
        if size.entries == 0 {
            return Ok(self.room(u64::from(FIRST_UNIT), size));
        }
        if size.units() > OVERSHOT_UNITS_MAX {
            loop {
                if !self.fits(seen, size) {
                    return Err(Full);
                }
                let more = seen + size.word();
                let swapped = self.state.compare_exchange_weak(
                    seen,
                    more,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                match swapped {
                    Ok(was) => return Ok(self.room(was, size)),
                    Err(found) => seen = found,
                }
            }
        }
        if !self.fits(seen, size) {
            return Err(Full);
        }
        let was = self.state.fetch_add(size.word(), Ordering::Relaxed);
        if self.fits(was, size) {
            return Ok(self.room(was, size));
        }
        self.make_void(entries(was), entries(was) + size.entries as u64);
        Err(Full)
    }

    fn fits(&self, state: u64, size: Size) -> bool {
        state & IMMUTABLE == 0
            && size.entries as u64 <= self.entries_max - entries(state).min(self.entries_max)
            && size.units() <= self.units_end - units(state).min(self.units_end)
    }

    /// The room of a reservation that found this state. It fitted, so the numbers of its units are
    /// at most 2^31.
    #[inline]
    fn room(&self, was: u64, size: Size) -> Reservation<'_> {
        let (index, unit) = (entries(was), units(was));
        Reservation {
            arena: self,
            index: index as u32,
            index_end: (index + size.entries as u64) as u32,
            unit: unit as u32,
            unit_end: (unit + size.units()) as u32,
        }
    }

    /// Fills numbers of the index that name nothing.
    fn make_void(&self, from: u64, to: u64) {
        let links = &self.index.items()[..self.entries_max()];
        let (from, to) = (from.min(self.entries_max), to.min(self.entries_max));
        links[from as usize..to as usize].iter().for_each(|link| link.set(Some(VOID)));
    }
}

/// What the entries of a write take of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    entries: usize,
    bytes: usize,
}

impl Size {
    /// That of one entry. No arena has room for a key or a value of 4 GiB: lengths have 32 bits.
    #[inline]
    pub(crate) fn of(key_bytes: usize, value_bytes: usize, kind: Kind) -> Size {
        if key_bytes.max(value_bytes) > u32::MAX as usize {
            return Size { entries: 1, bytes: usize::MAX };
        }
        let plain = OVERHEAD_BYTES + key_bytes + value_bytes;
        let all = match kind {
            Kind::DeleteRange => link_offset(plain) + size_of::<Link>(),
            Kind::Put | Kind::Delete | Kind::Blob | Kind::PutExpiring | Kind::Merge => plain,
        };
        Size { entries: 1, bytes: all.next_multiple_of(UNIT_BYTES) }
    }

    /// Bytes of capacity.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    fn units(self) -> u64 {
        (self.bytes / UNIT_BYTES) as u64
    }

    /// What it adds to the state. Only of a size that fits into an arena.
    fn word(self) -> u64 {
        self.entries as u64 * ONE_ENTRY + self.units()
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Size>>(sizes: I) -> Size {
        sizes.fold(Size::default(), |sum, size| Size {
            entries: sum.entries + size.entries,
            bytes: sum.bytes.saturating_add(size.bytes),
        })
    }
}

/// Room for the entries of one write, one behind the other. What is left of it when it is dropped
/// is void.
#[must_use]
pub(super) struct Reservation<'a> {
    arena: &'a Arena,
    /// Where the next entry goes.
    index: u32,
    unit: u32,
    index_end: u32,
    unit_end: u32,
}

impl Reservation<'_> {
    /// Writes an entry that nobody knows yet.
    ///
    /// # Panics
    /// If the room was not taken for this entry.
    #[inline]
    pub(super) fn write(&mut self, sequence: u64, kind: Kind, key: &[u8], value: &[u8]) -> Written {
        let units = Size::of(key.len(), value.len(), kind).units();
        assert!(
            self.index < self.index_end && units <= u64::from(self.unit_end - self.unit),
            "a write takes room for all of its entries before it writes the first"
        );
        let (index, unit) = (self.index, self.unit);
        self.index += 1;
        self.unit += units as u32;
        let handle = Handle(NonZeroU32::new(unit).expect("the void entry lies before all others"));
        self.arena.ask_ahead(handle, units);
        let entry = self.arena.entry(handle);
        // Not always zero: another memtable may have had this memory.
        entry.prev().set(None);
        // An entry that fits into an arena has lengths of 32 bits, see `Size::of`.
        entry.put(4, &(key.len() as u32).to_le_bytes());
        entry.put(8, &(value.len() as u32).to_le_bytes());
        entry.put(HEADER_BYTES, key);
        entry.put(HEADER_BYTES + key.len(), &trailer(sequence, kind).to_le_bytes());
        entry.put(OVERHEAD_BYTES + key.len(), value);
        if kind == Kind::DeleteRange {
            entry.other_range().set(None);
        }
        Written { handle, index }
    }
}

impl Drop for Reservation<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.index < self.index_end {
            self.arena.make_void(self.index.into(), self.index_end.into());
        }
    }
}

/// What the index has at a number.
pub(super) enum IndexSlot {
    /// Somebody is about to write it.
    Unwritten,
    /// Nobody writes it: there was no room, or it was given up.
    Void,
    Entry(Handle),
}

/// A written entry, borrowed from its arena. Its own writer has it a moment earlier.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    at: *mut u8,
    arena: PhantomData<&'a Arena>,
}

impl<'a> Entry<'a> {
    /// The next older version of the key.
    #[inline]
    pub(super) fn prev(self) -> &'a Link {
        self.link(0)
    }

    /// Another range tombstone. Only in an entry that is one.
    pub(super) fn other_range(self) -> &'a Link {
        assert_eq!(self.kind(), Kind::DeleteRange, "only range deletions have this link");
        self.link(link_offset(OVERHEAD_BYTES + self.key_bytes() + self.value_bytes()))
    }

    /// The user key.
    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(HEADER_BYTES, self.key_bytes())
    }

    /// The user key with the trailer behind it.
    #[inline]
    pub(super) fn internal(self) -> &'a [u8] {
        self.bytes(HEADER_BYTES, self.key_bytes() + TRAILER_BYTES)
    }

    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        self.bytes(OVERHEAD_BYTES + self.key_bytes(), self.value_bytes())
    }

    /// Sequence and kind.
    #[inline]
    pub(super) fn trailer(self) -> u64 {
        let at = self.at.wrapping_add(HEADER_BYTES + self.key_bytes()).cast::<u64>();
        // SAFETY: the eight bytes behind the key belong to the entry, which is written.
        u64::from_le(unsafe { at.read_unaligned() })
    }

    #[inline]
    pub(super) fn sequence(self) -> u64 {
        self.trailer() >> 8
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        Kind::from_byte(self.trailer() as u8).expect("a trailer is made of a kind")
    }

    #[inline]
    fn key_bytes(self) -> usize {
        self.length(4)
    }

    #[inline]
    fn value_bytes(self) -> usize {
        self.length(8)
    }

    #[inline]
    fn length(self, offset: usize) -> usize {
        // SAFETY: the word belongs to the header of the entry, which is aligned and written.
        u32::from_le(unsafe { self.at.wrapping_add(offset).cast::<u32>().read() }) as usize
    }

    #[inline]
    fn bytes(self, offset: usize, len: usize) -> &'a [u8] {
        // SAFETY: the callers stay within the lengths of the entry, whose bytes are written and do
        // not change for as long as the arena lives.
        unsafe { std::slice::from_raw_parts(self.at.wrapping_add(offset), len) }
    }

    #[inline]
    fn link(self, offset: usize) -> &'a Link {
        let link = self.at.wrapping_add(offset).cast::<Link>().cast_const();
        // SAFETY: the callers name a link of the entry; it is aligned, any bytes are a link, and it
        // is only ever used as one.
        unsafe { &*link }
    }

    /// Writes bytes of the entry. Only for the thread that has reserved it, before anybody else
    /// knows it, within the length reserved.
    #[inline]
    fn put(self, offset: usize, bytes: &[u8]) {
        let to = self.at.wrapping_add(offset);
        // SAFETY: the room belongs to the calling thread alone, and `bytes` lies elsewhere.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

/// Where the link of a range tombstone lies, behind so many bytes.
fn link_offset(plain: usize) -> usize {
    plain.saturating_add(size_of::<Link>() - 1) / size_of::<Link>() * size_of::<Link>()
}

#[inline]
fn bits(handle: Option<Handle>) -> u32 {
    handle.map_or(0, |handle| handle.0.get())
}

#[inline]
fn units(state: u64) -> u64 {
    u64::from(state as u32)
}

#[inline]
fn entries(state: u64) -> u64 {
    (state & !IMMUTABLE) >> 32
}

#[cfg(test)]
mod tests;
