//! Moments that somebody still looks at: what compactions must not drop. A moment is a sequence
//! number and, where values may expire, a time.
//!
//! ```text
//!   pin      claim a slot with a number read before | fence | read the number again: that is it
//!   oldest   read the number that is visible        | fence | look at all slots, and at the list
//! ```
//!
//! A pin takes no lock, so that a transaction can begin with one. It writes its slot, a cache line
//! that is mostly the thread's own, and the reference count of the slots, which all threads share.
//! If `oldest` misses a slot, its fence came before that of the pin. Then the pin reads its
//! number after `oldest` has read one, and numbers only grow: what is pinned is not older than the
//! result. Pins beyond the slots, and copies of a pin, are in the list. A copy is made while its
//! original lives, and `oldest` looks at the slots while it holds the lock of the list: so it sees
//! one of the two.
//!
//! Somebody may close the moments: if none is in use, none is pinned until they are open again. The
//! list is locked meanwhile. A pin that has its slot looks whether they are closed, after its
//! fence, and waits for the lock of the list if so; `close` says so before its fence, and looks at
//! the slots after it. So one of the two sees the other.
//!
//! The time of a pin is read after its number, and written into the slot after that. `oldest_ms`
//! reads the time of now first. A pin that it misses reads its time later, and the clock does not
//! go back. Of a pin whose time it does not see yet it knows nothing, and gives 0.

use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SLOTS: usize = 32;

/// Slots that a thread tries before it uses the list.
const TRIES: usize = 4;

/// In a slot: nobody has it. Else the pinned number and one.
const FREE: u64 = 0;

/// As the time of a slot: it is not known yet.
const UNKNOWN: u64 = 0;

/// As the time of a pin: nothing that it sees expires, so no time is too late for it.
const TIMELESS: u64 = u64::MAX;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The slot that the thread tries first.
    static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS;
}

/// The moments in use.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    slots: [CachePadded<Slot>; SLOTS],
    /// The moments that are in no slot, number and time, each with how often.
    listed: Mutex<BTreeMap<(u64, u64), usize>>,
    /// Whether pins wait for the lock of the list.
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    /// [`FREE`], or the pinned number and one.
    number: AtomicU64,
    /// The time of the pin, or [`UNKNOWN`]. In the line of the number, so that it costs none.
    time_ms: AtomicU64,
}

impl Snapshots {
    /// Pins the moment that `now` gives, which never gives an earlier one than before. Later calls
    /// for the oldest moment see it. `time_ms` is called after `now`: the time, if anything that
    /// is seen may expire.
    pub(crate) fn pin(
        self: &Arc<Self>,
        now: impl Fn() -> u64,
        time_ms: impl FnOnce() -> Option<u64>,
    ) -> Pinned {
        let (early, first) = (now(), FIRST.with(|first| *first));
        for slot in (first..first + TRIES).map(|slot| slot % SLOTS) {
            let Slot { number: word, time_ms: time } = &*self.slots[slot];
            // Acquire: whoever had the slot before is done with it.
            let claimed =
                word.compare_exchange(FREE, early + 1, Ordering::Acquire, Ordering::Relaxed);
            if claimed.is_ok() {
                // Pairs with the fence of `look`.
                fence(Ordering::SeqCst);
                // Acquire, pairs with the Release of `Closed`: what it has installed is seen.
                if self.is_closed.load(Ordering::Acquire) {
                    drop(self.listed());
                }
                let sequence = now();
                if sequence != early {
                    // Release: `look` may see this in place of what was claimed.
                    word.store(sequence + 1, Ordering::Release);
                }
                let time_ms = time_ms().unwrap_or(TIMELESS);
                // Whoever sees an earlier value takes it for a pin that has none yet.
                time.store(time_ms, Ordering::Release);
                let snapshots = Arc::clone(self);
                return Pinned { sequence, time_ms, slot: Some(slot), snapshots };
            }
        }
        let mut listed = self.listed();
        let sequence = now();
        let time_ms = time_ms().unwrap_or(TIMELESS);
        *listed.entry((sequence, time_ms)).or_insert(0) += 1;
        Pinned { sequence, time_ms, slot: None, snapshots: Arc::clone(self) }
    }

    /// The oldest moment in use, `now` if there is none. Of each key, the newest version up to
    /// there and all later ones must stay.
    pub(crate) fn oldest(&self, now: impl FnOnce() -> u64) -> u64 {
        let listed = self.listed();
        let now = now();
        let listed_first = listed.first_key_value().map(|((oldest, _), _)| *oldest);
        self.look().map(|(number, _)| number).chain(listed_first).fold(now, u64::min)
    }

    /// The earliest time of a moment in use, `now_ms` if there is none. What is expired at that
    /// time is expired for everybody. Less while a pin is being made.
    pub(crate) fn oldest_ms(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        let listed = self.listed();
        let now_ms = now_ms();
        let of_listed = listed.keys().map(|(_, time_ms)| *time_ms);
        self.look().map(|(_, time_ms)| time_ms).chain(of_listed).fold(now_ms, u64::min)
    }

    /// How many moments are in use.
    pub(crate) fn len(&self) -> usize {
        let listed = self.listed();
        listed.values().sum::<usize>() + self.look().count()
    }

    /// Keeps others from pinning a moment for as long as the result lives. `None` if one is in use.
    /// The thread must not ask for moments meanwhile.
    pub(crate) fn close(&self) -> Option<Closed<'_>> {
        let listed = self.listed();
        // Relaxed: the fence of `look` orders it before the look at the slots.
        self.is_closed.store(true, Ordering::Relaxed);
        let is_used = !listed.is_empty() || self.look().next().is_some();
        let closed = Closed { is_closed: &self.is_closed, _listed: listed };
        (!is_used).then_some(closed)
    }

    /// What is in the slots: numbers and times. The lock of the list is held.
    fn look(&self) -> impl Iterator<Item = (u64, u64)> {
        fence(Ordering::SeqCst);
        // Acquire, pairs with the Release of who gives it up: its reads are over.
        let words = self.slots.iter().map(|slot| {
            let number = slot.number.load(Ordering::Acquire);
            (number, slot.time_ms.load(Ordering::Acquire))
        });
        words.filter(|(number, _)| *number != FREE).map(|(number, time_ms)| (number - 1, time_ms))
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), usize>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No moment is in use, and none is pinned. Dropping it lets pins go on.
pub(crate) struct Closed<'a> {
    is_closed: &'a AtomicBool,
    _listed: MutexGuard<'a, BTreeMap<(u64, u64), usize>>,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // Release: whoever pins a moment after this sees what was done before.
        self.is_closed.store(false, Ordering::Release);
    }
}

/// A moment in use. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Pinned {
    sequence: u64,
    time_ms: u64,
    /// Where it is, if not in the list.
    slot: Option<usize>,
    snapshots: Arc<Snapshots>,
}

impl Pinned {
    /// Everything up to this sequence number is seen.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// What has expired by this time is not seen: 0 where nothing can.
    pub(crate) fn time_ms(&self) -> u64 {
        if self.time_ms == TIMELESS { 0 } else { self.time_ms }
    }
}

impl Pinned {
    /// Another pin of this number with the time of `other`, which is still held against builds. If
    /// nothing could expire for that, it has no time, and this one has its own.
    pub(crate) fn with_time_of(&self, other: &Pinned) -> Pinned {
        let time_ms = if other.time_ms == TIMELESS { self.time_ms } else { other.time_ms };
        self.listed_at(time_ms)
    }

    /// A pin of this number in the list.
    fn listed_at(&self, time_ms: u64) -> Pinned {
        let (sequence, snapshots) = (self.sequence, Arc::clone(&self.snapshots));
        *snapshots.listed().entry((sequence, time_ms)).or_insert(0) += 1;
        Pinned { sequence, time_ms, slot: None, snapshots }
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        self.listed_at(self.time_ms)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            let slot = &self.snapshots.slots[slot];
            // Before the number: the next owner of the slot begins without a time.
            slot.time_ms.store(UNKNOWN, Ordering::Relaxed);
            slot.number.store(FREE, Ordering::Release);
            return;
        }
        let mut listed = self.snapshots.listed();
        let moment = (self.sequence, self.time_ms);
        if let Some(count) = listed.get_mut(&moment) {
            *count -= 1;
            if *count == 0 {
                listed.remove(&moment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_oldest_moment_in_use_counts() {
        let snapshots = Arc::new(Snapshots::default());
        assert_eq!(snapshots.oldest(|| 9), 9);
        let first = snapshots.pin(|| 5, || None);
        let second = snapshots.pin(|| 7, || None);
        let again = first.clone();
        assert_eq!((snapshots.oldest(|| 9), snapshots.len()), (5, 3));
        drop(first);
        assert_eq!(snapshots.oldest(|| 9), 5);
        drop(again);
        assert_eq!(snapshots.oldest(|| 9), 7);
        drop(second);
        assert_eq!((snapshots.oldest(|| 9), snapshots.len()), (9, 0));
    }

    #[test]
    fn the_earliest_time_in_use_counts() {
        let snapshots = Arc::new(Snapshots::default());
        assert_eq!(snapshots.oldest_ms(|| 900), 900);
        let early = snapshots.pin(|| 5, || Some(700));
        let timeless = snapshots.pin(|| 4, || None);
        assert_eq!((early.time_ms(), timeless.time_ms()), (700, 0));
        let copy = early.clone();
        assert_eq!(snapshots.oldest_ms(|| 900), 700);
        drop(early);
        assert_eq!((snapshots.oldest_ms(|| 900), snapshots.oldest(|| 9)), (700, 4));
        drop(copy);
        assert_eq!(snapshots.oldest_ms(|| 900), 900, "what sees nothing that expires");
        drop(timeless);
        let many: Vec<Pinned> = (0..100).map(|at| snapshots.pin(|| 5, || Some(800 - at))).collect();
        assert_eq!(snapshots.oldest_ms(|| 900), 701);
        drop(many);
        assert_eq!((snapshots.oldest_ms(|| 900), snapshots.len()), (900, 0));
    }

    #[test]
    fn more_moments_than_slots_are_all_known() {
        let snapshots = Arc::new(Snapshots::default());
        let pins: Vec<Pinned> = (1..=100).map(|moment| snapshots.pin(|| moment, || None)).collect();
        assert_eq!(snapshots.len(), 100);
        for (pin, moment) in pins.into_iter().zip(1..) {
            assert_eq!(snapshots.oldest(|| 200), moment);
            drop(pin);
        }
        assert_eq!((snapshots.oldest(|| 200), snapshots.len()), (200, 0));
    }

    #[test]
    fn moments_are_closed_only_while_none_is_in_use() {
        let snapshots = Arc::new(Snapshots::default());
        let pin = snapshots.pin(|| 5, || None);
        assert!(snapshots.close().is_none());
        let copy = pin.clone();
        drop(pin);
        assert!(snapshots.close().is_none(), "a copy is in the list");
        drop(copy);
        drop(snapshots.close().unwrap());
        assert_eq!(snapshots.pin(|| 6, || None).sequence(), 6);
    }

    /// What is changed while the moments are closed, nobody sees change who has pinned one.
    #[test]
    fn nothing_changes_for_a_pin_while_the_moments_are_closed() {
        let (snapshots, changed) = (Arc::new(Snapshots::default()), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let pin = snapshots.pin(|| 5, || None);
                        // Relaxed: it is the pin that orders it.
                        let before = changed.load(Ordering::Relaxed);
                        thread::yield_now();
                        assert_eq!(changed.load(Ordering::Relaxed), before);
                        drop(pin);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20_000 {
                    // Somebody is nearly always there.
                    if let Some(closed) = snapshots.close() {
                        changed.fetch_add(1, Ordering::Relaxed);
                        drop(closed);
                    }
                }
            });
        });
        drop(snapshots.close().unwrap());
    }

    /// A pin that begins after a call of `oldest` is not older than its result, and one that lives
    /// throughout a call is not newer.
    #[test]
    fn nobody_pins_what_was_given_up() {
        let (snapshots, clock) = (Arc::new(Snapshots::default()), AtomicU64::new(1));
        let (given_up, given_up_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        let now = || clock.load(Ordering::Acquire);
        // Another clock, so that neither stands for the other.
        let time = || 1_000_000 + clock.load(Ordering::Acquire);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for turn in 0..20_000 {
                        let before = given_up.load(Ordering::SeqCst);
                        let before_ms = given_up_ms.load(Ordering::SeqCst);
                        let pin = snapshots.pin(now, || Some(time()));
                        assert!(pin.sequence() >= before);
                        assert!(pin.time_ms() >= before_ms);
                        let copy = (turn % 7 == 0).then(|| pin.clone());
                        drop((pin, copy));
                        clock.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let pin = snapshots.pin(now, || Some(time()));
                    let oldest = snapshots.oldest(now);
                    assert!(oldest <= pin.sequence());
                    given_up.fetch_max(oldest, Ordering::SeqCst);
                    let oldest_ms = snapshots.oldest_ms(time);
                    assert!(oldest_ms <= pin.time_ms());
                    given_up_ms.fetch_max(oldest_ms, Ordering::SeqCst);
                }
            });
        });
        assert_eq!(snapshots.len(), 0);
    }
}
