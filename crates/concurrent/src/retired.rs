//! Objects that wait to be freed, each with the interval of eras in which it was alive.
//!
//! ```text
//!   waiting   | stamped: birth and end known | fresh: end not known yet |
//!             0                              stamped                     len
//! ```
//!
//! The end of an object's life is the era in which it was stamped, up to a batch after it was
//! retired: later than the truth is safe, it only makes the interval longer. A batch is stamped at
//! once, so that the era is touched once in [`BATCH_OBJECTS`].
//!
//! The list is looked through when it has reached a bound, which is twice what the last time kept
//! and has a floor. So the work for each retired object is constant on average, whatever is held
//! back.

use std::collections::VecDeque;
use std::fmt;

/// Objects retired by one thread until the era advances.
///
/// Each pin reads the era. With 64 threads that retire an object in each operation, one pin in nine
/// fetches its line again; with batches of 64 it would be six in ten.
pub(crate) const BATCH_OBJECTS: usize = 256;
/// And bytes: a few large objects are a batch too.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// Waiting objects and bytes below which looking through them is not worth while: the heavy fence
/// before the look interrupts the other processors, which is to be a few nanoseconds an object.
pub(crate) const SCAN_OBJECTS_MIN: usize = 4 * BATCH_OBJECTS;
pub(crate) const SCAN_BYTES_MIN: usize = 4 * BATCH_BYTES;

/// A point of the process's logical time. Starts at 1 and uses 48 bits: at a billion retired
/// objects a second they last for two years, at ten million for two centuries.
///
/// An object may store its birth in 48 bits. Should the era ever need more, the stored birth is too
/// small, and the object is merely held back by more threads than necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Era(u64);

impl Era {
    /// The number.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The era with this number, or a part of it that an object has stored.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Era(bits)
    }
}

/// An object that readers may still hold, and how to free it.
#[derive(Clone, Copy)]
pub struct Retired {
    /// What `free` is called with: an address, a handle, whatever it understands.
    pub word: u64,
    /// Bytes that freeing it gives back, for [`Pressure`](crate::Pressure) and for when to look.
    pub bytes: usize,
    /// The era when it was made, or an earlier one.
    pub birth: Era,
    /// Frees it. Called once, in any thread, with no lock held; it may pin and retire itself.
    pub free: unsafe fn(u64),
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retired")
            .field("word", &format_args!("{:#x}", self.word))
            .field("bytes", &self.bytes)
            .field("birth", &self.birth)
            .finish_non_exhaustive()
    }
}

/// What one thread has reserved: everything that was alive at some time from `lower` to `upper`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) lower: u64,
    pub(crate) upper: u64,
}

/// An object, and the last era in which a reader may have found it.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    object: Retired,
    end: u64,
}

impl Ended {
    fn is_held_by(&self, interval: &Interval) -> bool {
        self.object.birth.0 <= interval.upper && interval.lower <= self.end
    }
}

/// Objects of one owner that nobody has found to be free yet.
pub(crate) struct Waiting {
    list: Vec<Ended>,
    stamped: usize,
    bytes: usize,
    fresh_bytes: usize,
    objects_bound: usize,
    bytes_bound: usize,
    /// Room for what all threads have reserved.
    intervals: Vec<Interval>,
}

impl Waiting {
    pub(crate) const fn new() -> Self {
        Waiting {
            list: Vec::new(),
            stamped: 0,
            bytes: 0,
            fresh_bytes: 0,
            objects_bound: SCAN_OBJECTS_MIN,
            bytes_bound: SCAN_BYTES_MIN,
            intervals: Vec::new(),
        }
    }

    pub(crate) fn objects(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has_fresh(&self) -> bool {
        self.stamped < self.list.len()
    }

    /// Adds an object, fresh. Whether the batch is full.
    pub(crate) fn push(&mut self, object: Retired) -> bool {
        self.list.push(Ended { object, end: u64::MAX });
        self.bytes += object.bytes;
        self.fresh_bytes += object.bytes;
        self.list.len() - self.stamped >= BATCH_OBJECTS || self.fresh_bytes >= BATCH_BYTES
    }

    /// Stamps the fresh ones.
    pub(crate) fn stamp(&mut self, end: u64) {
        for fresh in &mut self.list[self.stamped..] {
            fresh.end = end;
        }
        self.stamped = self.list.len();
        self.fresh_bytes = 0;
    }

    /// Whether it is time to look through them.
    pub(crate) fn is_long(&self) -> bool {
        self.list.len() >= self.objects_bound || self.bytes >= self.bytes_bound
    }

    /// Room for what the threads have reserved, empty.
    pub(crate) fn intervals(&mut self) -> &mut Vec<Interval> {
        self.intervals.clear();
        &mut self.intervals
    }

    /// Moves to `due` what none of the intervals holds. Only while nothing is fresh.
    pub(crate) fn sort_out(&mut self, due: &mut Due) {
        debug_assert!(!self.has_fresh(), "stamp first");
        self.bytes -= due.take_from(&mut self.list, &self.intervals);
        self.stamped = self.list.len();
        self.objects_bound = SCAN_OBJECTS_MIN.max(2 * self.list.len());
        self.bytes_bound = SCAN_BYTES_MIN.max(2 * self.bytes);
        if self.list.capacity() > 4 * self.objects_bound {
            self.list.shrink_to(self.objects_bound);
        }
    }

    /// Moves to `due` what none of the intervals holds of objects that are not this owner's.
    pub(crate) fn sort_out_others(&self, others: &mut Vec<Ended>, due: &mut Due) {
        due.take_from(others, &self.intervals);
    }

    /// Removes all objects. Only while none is fresh.
    pub(crate) fn drain_all(&mut self) -> Vec<Ended> {
        debug_assert!(!self.has_fresh(), "stamp first");
        std::mem::replace(self, Waiting::new()).list
    }
}

/// Objects that nobody can hold any more.
pub(crate) struct Due {
    list: Vec<Retired>,
    bytes: usize,
}

impl Due {
    pub(crate) const fn new() -> Self {
        Due { list: Vec::new(), bytes: 0 }
    }

    pub(crate) fn objects(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes from a list what none of the intervals holds. Returns the bytes of it.
    fn take_from(&mut self, list: &mut Vec<Ended>, intervals: &[Interval]) -> usize {
        let before = self.bytes;
        let is_free = |ended: &mut Ended| !intervals.iter().any(|held| ended.is_held_by(held));
        for ended in list.extract_if(.., is_free) {
            self.list.push(ended.object);
            self.bytes += ended.object.bytes;
        }
        self.bytes - before
    }

    pub(crate) fn pop(&mut self) -> Option<Retired> {
        let object = self.list.pop();
        match &object {
            Some(object) => self.bytes -= object.bytes,
            None => self.list.shrink_to(4 * SCAN_OBJECTS_MIN),
        }
        object
    }
}

/// What threads have left behind that ended, or that handed it over. It belongs to no thread, so
/// none that goes idle keeps it.
pub(crate) struct Orphans {
    list: VecDeque<Ended>,
    /// All that wait, with those that are lent.
    objects: usize,
    bytes: usize,
}

/// Orphans that a thread looks through. Those that it takes out of the list are its own, and count
/// there before the others come back by [`Orphans::take_back`].
pub(crate) struct Lent {
    pub(crate) list: Vec<Ended>,
    objects: usize,
    bytes: usize,
}

impl Lent {
    pub(crate) const fn none() -> Self {
        Lent { list: Vec::new(), objects: 0, bytes: 0 }
    }

    /// Whether nothing was lent.
    pub(crate) fn is_none(&self) -> bool {
        self.objects == 0
    }
}

impl Orphans {
    pub(crate) const fn new() -> Self {
        Orphans { list: VecDeque::new(), objects: 0, bytes: 0 }
    }

    /// Those that can be lent.
    pub(crate) fn lendable(&self) -> usize {
        self.list.len()
    }

    /// Objects and bytes of all.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.objects, self.bytes)
    }

    pub(crate) fn extend(&mut self, list: Vec<Ended>) {
        self.objects += list.len();
        self.bytes += bytes_of(&list);
        self.list.extend(list);
    }

    /// Lends those that nobody has looked at for longest, and at most `objects_max`.
    pub(crate) fn lend(&mut self, objects_max: usize) -> Lent {
        let list: Vec<Ended> = self.list.drain(..self.list.len().min(objects_max)).collect();
        if self.list.is_empty() {
            self.list = VecDeque::new();
        }
        Lent { objects: list.len(), bytes: bytes_of(&list), list }
    }

    /// Takes what is left of it, which is still held.
    pub(crate) fn take_back(&mut self, lent: Lent) {
        self.objects -= lent.objects;
        self.bytes -= lent.bytes;
        self.extend(lent.list);
    }
}

fn bytes_of(list: &[Ended]) -> usize {
    list.iter().map(|ended| ended.object.bytes).sum()
}
