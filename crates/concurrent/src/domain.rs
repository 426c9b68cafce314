//! Intervals: when may memory be freed that a reader without a lock may still look at?
//!
//! ```text
//!   era       1        2        3        4        5        6        7
//!   thread A                      [lower ....... upper]
//!   object p  [birth ....... end]                                     freed: it ended before A
//!   object q           [birth ........... end]                        held: A may have it
//!   object r                                            [birth . end] freed: A never saw it
//! ```
//!
//! This is the variant 2GEIBR of Wen, Izraelevitz, Cai, Beadle and Scott, "Interval-Based Memory
//! Reclamation" (PPoPP 2018). There is one counter, the **era**. An object is stamped with the era
//! when it is made, and with the era when it is retired. A pinned thread **reserves** an interval
//! of eras: it begins with the era of the pin, and its upper end follows the era whenever the
//! thread reads pointers ([`Domain::protect`]). An object is freed when no thread reserves an era
//! of its life. So a thread that sleeps while it is pinned holds back what was alive then, and
//! nothing that was made later.
//!
//! **Rules.** A reader is pinned. It may use an object whose pointer it has read under `protect`,
//! if the object was *reachable at a moment during that call*. It is not enough to find a pointer
//! in a node that is held: the node may have left the structure since, and the object that it
//! points at with it, freed already. So the read looks at whether the node is still part of the
//! structure (its version) after it has read the pointer. A writer first makes an object
//! unreachable, then retires it.
//!
//! **Why it holds.** Let a reader use an object `x` that it found by a load that followed the
//! publication P of its reservation, a light fence, and after which it saw the era unchanged. Let a
//! scan have freed `x`. The unlinking of `x` happens before its stamp, and both before the heavy
//! fence F of that scan. What the two kinds of fences order stands in `fence.rs`; of two such, one
//! comes first.
//!
//! 1. *Birth <= upper.* The era of birth was read before `x` was linked, and the reader looked at
//!    the era, behind an Acquire fence, after it found `x`; so it saw that era or a later one, and
//!    that was its upper end.
//! 2. *Lower <= end.* The stamp is what `fetch_add` returned, after the unlinking. Every change of
//!    the era is such a read-modify-write. Had the reader loaded a larger era for its lower end,
//!    that Acquire load would synchronise with the stamp; it would have seen the unlinking, and not
//!    found `x`.
//! 3. *The scan sees it.* Either the fence of P comes before F: then the scan reads these ends or
//!    later ones. Or F comes before P: then what the reader loaded after P shows `x` unlinked.
//! 4. *Later ends are as good.* Upper only grows within a pin. Lower changes when the pin ends, by
//!    a Release store; the scan loads it by Acquire, so what the reader did with `x` happens before
//!    the free. A lower end of one pin with the upper end of the next is a longer interval than
//!    either; an upper end of one with the lower end of the next is read only by a scan whose F
//!    came before the P of the next.
//!
//! Differences from the paper: the end of a life is stamped for a batch of objects with the
//! `fetch_add` that ends the batch, so that retiring needs no fence; `protect` covers several loads
//! at once; and threads that end, or hand over, leave their objects to the others. What a thread
//! finds held of those it leaves again: no thread that goes idle keeps the objects of others.

use crate::part::Part;
use crate::record::{IDLE, Member, Record};
use crate::retired::{Era, Interval, Lent, Orphans, Retired};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(all(test, not(loom)))]
mod tests;

/// Objects without a thread that one scan looks through. More than a thread leaves as a rule, so
/// that they become fewer; not so many that one operation would notice.
const ORPHANS_LENT_MAX: usize = 1024;

/// What is retired and not yet freed, and who is pinned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Objects that wait.
    pub objects: u64,
    /// Bytes that freeing them would give back.
    pub bytes: u64,
    /// Threads that are pinned.
    pub pinned: u64,
    /// How many eras ago the thread pinned that has been pinned longest; 0 if none is.
    pub oldest_pin_eras: u64,
}

/// Threads that share objects, and the objects that these have retired.
pub(crate) struct Domain {
    /// Read by every pin. Alone in its line: nothing else that is written is to take it away.
    era: CachePadded<AtomicU64>,
    /// First of the records of all threads, past and present.
    records: AtomicPtr<Record>,
    orphans: Mutex<Orphans>,
    /// The number of orphans that can be lent, changed under the lock. A reader without the lock
    /// may see an old one.
    orphans_count: AtomicUsize,
}

impl Domain {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Domain {
            era: CachePadded::new(AtomicU64::new(1)),
            records: AtomicPtr::new(ptr::null_mut()),
            orphans: Mutex::new(Orphans::new()),
            orphans_count: AtomicUsize::new(0),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Domain {
            era: CachePadded::new(AtomicU64::new(1)),
            records: AtomicPtr::new(ptr::null_mut()),
            orphans: Mutex::new(Orphans::new()),
            orphans_count: AtomicUsize::new(0),
        }
    }

    /// The era now, to stamp an object with before it is linked.
    #[inline]
    pub(crate) fn birth(&self) -> Era {
        // Relaxed: who finds the object later sees this era or a later one.
        Era::from_bits(self.era.load(Ordering::Relaxed))
    }

    /// Makes the calling thread a member: in the place of one that has left, or in a new one.
    /// O(records).
    pub(crate) fn join(&self) -> Member {
        let free = self.records().find(|record| record.try_own());
        let record = match free {
            Some(record) => NonNull::from(record),
            None => self.enlist(),
        };
        // SAFETY: this thread has just become the owner, and records live as long as the domain.
        unsafe { Member::new(record) }
    }

    fn enlist(&self) -> NonNull<Record> {
        let record = NonNull::from(Box::leak(Box::new(Record::new())));
        let mut first = self.records.load(Ordering::Relaxed);
        loop {
            // SAFETY: nobody frees a record while the domain lives.
            unsafe { record.as_ref() }.reserved.next.store(first, Ordering::Relaxed);
            // Release pairs with the Acquire of `records`: who finds the record finds it whole.
            let swapped = self.records.compare_exchange_weak(
                first,
                record.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => return record,
                Err(now) => first = now,
            }
        }
    }

    /// Ends a membership. What the member has retired and nobody freed is left to the others.
    /// Call [`Domain::flush`] before; nothing is freed here.
    pub(crate) fn leave_for_good(&self, member: Member) {
        let record = member.record();
        debug_assert_eq!(record.reserved.pins.get(), 0, "a pinned thread stays a member");
        self.hand_over(member);
        record.disown();
    }

    /// Leaves what the member has retired and nobody freed to whoever looks next.
    pub(crate) fn hand_over(&self, member: Member) {
        let record = member.record();
        self.stamp(record);
        let left = record.private.waiting.borrow_mut().drain_all();
        if !left.is_empty() {
            self.change_orphans(|orphans| orphans.extend(left));
        }
        self.count(record);
    }

    /// Some of the objects that have no thread, to look through and to give back.
    fn lend_orphans(&self) -> Lent {
        if self.orphans_count.load(Ordering::Relaxed) == 0 {
            return Lent::none();
        }
        self.change_orphans(|orphans| orphans.lend(ORPHANS_LENT_MAX))
    }

    /// Gives back those that are still held. The others count elsewhere already.
    fn give_back_orphans(&self, lent: Lent) {
        if !lent.is_none() {
            self.change_orphans(|orphans| orphans.take_back(lent));
        }
    }

    fn change_orphans<R>(&self, change: impl FnOnce(&mut Orphans) -> R) -> R {
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut orphans);
        self.orphans_count.store(orphans.lendable(), Ordering::Relaxed);
        result
    }

    /// Pins once more.
    #[inline]
    pub(crate) fn pin(&self, member: Member) {
        let reserved = &member.record().reserved;
        let pins = reserved.pins.get();
        reserved.pins.set(pins + 1);
        if pins == 0 {
            self.reserve_anew(member);
        }
    }

    /// Unpins once. Whether this was the last guard of a temporary member.
    #[inline]
    pub(crate) fn unpin(&self, member: Member) -> bool {
        let reserved = &member.record().reserved;
        let pins = reserved.pins.get() - 1;
        reserved.pins.set(pins);
        if pins > 0 {
            return false;
        }
        // Release pairs with the Acquire of a scan: what was read is read before it is freed.
        reserved.lower.store(IDLE, Ordering::Release);
        reserved.temporary.get()
    }

    /// Gives up what was reserved and reserves the era of now. No effect under several guards.
    #[inline]
    pub(crate) fn repin(&self, member: Member) {
        let reserved = &member.record().reserved;
        if reserved.pins.get() == 1
            && self.era.load(Ordering::Relaxed) != reserved.lower.load(Ordering::Relaxed)
        {
            self.reserve_anew(member);
        }
    }

    #[inline(always)]
    fn reserve_anew(&self, member: Member) {
        let reserved = &member.record().reserved;
        // Acquire: step 2 of the header.
        let era = self.era.load(Ordering::Acquire);
        reserved.upper.store(era, Ordering::Relaxed);
        // Release as in `unpin`, for a scan that sees this pin and not the end of the last one.
        reserved.lower.store(era, Ordering::Release);
        // P of the header. Pairs with the fence of a scan.
        reserved.fences.light();
    }

    /// Raises the upper end of what is reserved to the era of now.
    #[inline]
    pub(crate) fn cover(&self, member: Member) {
        let era = self.era.load(Ordering::Relaxed);
        if era != member.record().reserved.upper.load(Ordering::Relaxed) {
            raise(member, era);
        }
    }

    /// Repeats `read` until the era was reserved before it began and had not changed when it was
    /// done.
    #[inline(always)]
    pub(crate) fn protect<T>(&self, member: Member, mut read: impl FnMut() -> T) -> T {
        loop {
            let value = read();
            if self.covers(member) {
                return value;
            }
        }
    }

    /// Whether the era was reserved all the time since this was asked last. If not, it is now.
    #[inline(always)]
    pub(crate) fn covers(&self, member: Member) -> bool {
        // Step 1 of the header: the era is looked at after what was found.
        fence(Ordering::Acquire);
        let era = self.era.load(Ordering::Relaxed);
        let covers = era == member.record().reserved.upper.load(Ordering::Relaxed);
        if !covers {
            raise(member, era);
        }
        covers
    }

    /// Takes an object that is to be freed when nobody holds it. Constant on average.
    ///
    /// # Safety
    /// As [`Guard::retire`](crate::Guard::retire).
    #[inline]
    pub(crate) unsafe fn retire(&self, member: Member, object: Retired) {
        let record = member.record();
        let full = record.private.waiting.borrow_mut().push(object);
        record.shared.count_retired(object.bytes);
        if full {
            self.end_batch(record);
        }
    }

    #[cold]
    fn end_batch(&self, record: &Record) {
        self.stamp(record);
        let is_long = record.private.waiting.borrow().is_long();
        if is_long {
            self.scan(record);
        }
    }

    /// Stamps what is fresh, and frees what nobody holds: of this member, and of ended threads.
    pub(crate) fn flush(&self, member: Member) {
        let record = member.record();
        self.stamp(record);
        self.scan(record);
    }

    /// Advances the era and stamps what is fresh with the one that ends.
    fn stamp(&self, record: &Record) {
        let mut waiting = record.private.waiting.borrow_mut();
        if waiting.has_fresh() {
            // Release: step 2 of the header. Acquire, so that a chain of stamps stays one.
            waiting.stamp(self.era.fetch_add(1, Ordering::AcqRel));
        }
    }

    /// Finds out what nobody holds any more and frees it. What is freed may itself pin and retire;
    /// that does not scan again, so the stack stays as it is.
    fn scan(&self, record: &Record) {
        let private = &record.private;
        if private.freeing.replace(true) {
            return;
        }
        // Also when a destructor panics. What was due after it then waits for the next scan.
        let _done = Done(record);
        let lent = {
            let mut waiting = private.waiting.borrow_mut();
            let mut lent = self.lend_orphans();
            if waiting.objects() == 0 && lent.is_none() && private.due.borrow().objects() == 0 {
                return;
            }
            // F of the header. Pairs with the fence of whoever reserves.
            if !record.reserved.fences.heavy() {
                self.give_back_orphans(lent);
                return;
            }
            let intervals = waiting.intervals();
            for other in self.records() {
                // Acquire pairs with the Release of `unpin`.
                let lower = other.reserved.lower.load(Ordering::Acquire);
                if lower != IDLE {
                    let upper = other.reserved.upper.load(Ordering::Relaxed);
                    intervals.push(Interval { lower, upper });
                }
            }
            let mut due = private.due.borrow_mut();
            waiting.sort_out(&mut due);
            waiting.sort_out_others(&mut lent.list, &mut due);
            lent
        };
        self.count(record);
        self.give_back_orphans(lent);
        loop {
            // No borrow lasts while the object is freed.
            let next = private.due.borrow_mut().pop();
            let Some(object) = next else { break };
            private.in_free.set(Some(object.bytes));
            // SAFETY: whoever retired it said how to free it; the header shows that nobody holds
            // it.
            unsafe { (object.free)(object.word) };
            record.count_freed();
        }
    }

    /// Publishes how much waits in a record.
    fn count(&self, record: &Record) {
        let waiting = record.private.waiting.borrow();
        let due = record.private.due.borrow();
        let in_free = record.private.in_free.get();
        let objects = waiting.objects() + due.objects() + usize::from(in_free.is_some());
        let bytes = waiting.bytes() + due.bytes() + in_free.unwrap_or(0);
        record.shared.set_waiting(objects, bytes);
    }

    /// What waits and who is pinned. An estimate while threads are at work. O(records).
    ///
    /// What was retired before counts until it is freed. It may move between threads and orphans
    /// meanwhile. Then it counts at both places for a moment, and the orphans change under the lock
    /// that is held here.
    pub(crate) fn pressure(&self) -> Pressure {
        let orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pressure = Pressure::default();
        let mut lowest = IDLE;
        for record in self.records() {
            let (objects, bytes) = record.shared.waiting();
            pressure.objects += objects;
            pressure.bytes += bytes;
            let lower = record.reserved.lower.load(Ordering::Relaxed);
            pressure.pinned += u64::from(lower != IDLE);
            lowest = lowest.min(lower);
        }
        pressure.oldest_pin_eras = self.era.load(Ordering::Relaxed).saturating_sub(lowest);
        let (objects, bytes) = orphans.waiting();
        pressure.objects += objects as u64;
        pressure.bytes += bytes as u64;
        pressure
    }

    /// Where its data lies. O(records).
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = vec![
            Part::of("era", &self.era),
            Part::of("list of threads", &self.records),
            Part::of("orphans", &self.orphans),
            Part::of("orphans", &self.orphans_count),
        ];
        for record in self.records() {
            parts.push(Part::of("thread: reservation", &record.reserved));
            parts.push(Part::of("thread: counts", &record.shared));
            parts.push(Part::of("thread: retired objects", &record.private));
        }
        parts
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        // Acquire pairs with the Release of `enlist`.
        let mut next = self.records.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: it is null or a record, and records live as long as the domain.
            let record = unsafe { next.as_ref() }?;
            // It was written before the record was published, and never since.
            next = record.reserved.next.load(Ordering::Relaxed);
            Some(record)
        })
    }
}

impl Drop for Domain {
    /// Frees everything. Only tests have domains that end.
    fn drop(&mut self) {
        for record in self.records() {
            // Members that nobody will use again.
            record.reserved.pins.set(0);
            record.reserved.lower.store(IDLE, Ordering::Relaxed);
            record.disown();
        }
        // Nothing is reserved any more: a few passes free all, whatever retires what.
        while self.pressure().objects > 0 {
            let member = self.join();
            self.flush(member);
            self.leave_for_good(member);
        }
        let mut next = self.records.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: `enlist` leaked this box, and the domain is its last user.
            let record = unsafe { Box::from_raw(next) };
            next = record.reserved.next.load(Ordering::Relaxed);
        }
    }
}

/// Publishes a later upper end.
#[cold]
fn raise(member: Member, era: u64) {
    let reserved = &member.record().reserved;
    reserved.upper.store(era, Ordering::Relaxed);
    // P of the header. Pairs with the fence of a scan.
    reserved.fences.light();
}

/// Ends the freeing of a scan.
struct Done<'a>(&'a Record);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.count_freed();
        self.0.private.freeing.set(false);
    }
}
