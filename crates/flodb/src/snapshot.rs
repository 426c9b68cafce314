//! Moments that somebody still looks at: what compactions must not drop.
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

use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SLOTS: usize = 32;

/// Slots that a thread tries before it uses the list.
const TRIES: usize = 4;

/// In a slot: nobody has it. Else the pinned number and one.
const FREE: u64 = 0;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The slot that the thread tries first.
    static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS;
}

/// The moments in use.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    slots: [CachePadded<AtomicU64>; SLOTS],
    /// The moments that are in no slot, each with how often.
    listed: Mutex<BTreeMap<u64, usize>>,
}

impl Snapshots {
    /// Pins the moment that `now` gives, which never gives an earlier one than before. Later calls
    /// for the oldest moment see it.
    pub(crate) fn pin(self: &Arc<Self>, now: impl Fn() -> u64) -> Pinned {
        let (early, first) = (now(), FIRST.with(|first| *first));
        for slot in (first..first + TRIES).map(|slot| slot % SLOTS) {
            let word = &self.slots[slot];
            // Acquire: whoever had the slot before is done with it.
            let claimed =
                word.compare_exchange(FREE, early + 1, Ordering::Acquire, Ordering::Relaxed);
            if claimed.is_ok() {
                // Pairs with the fence of `look`.
                fence(Ordering::SeqCst);
                let sequence = now();
                if sequence != early {
                    // Release: `look` may see this in place of what was claimed.
                    word.store(sequence + 1, Ordering::Release);
                }
                return Pinned { sequence, slot: Some(slot), snapshots: Arc::clone(self) };
            }
        }
        let mut listed = self.listed();
        let sequence = now();
        *listed.entry(sequence).or_insert(0) += 1;
        Pinned { sequence, slot: None, snapshots: Arc::clone(self) }
    }

    /// The oldest moment in use, `now` if there is none. Of each key, the newest version up to
    /// there and all later ones must stay.
    pub(crate) fn oldest(&self, now: impl FnOnce() -> u64) -> u64 {
        let listed = self.listed();
        let now = now();
        let listed_first = listed.first_key_value().map(|(&oldest, _)| oldest);
        self.look().chain(listed_first).fold(now, u64::min)
    }

    /// How many moments are in use.
    pub(crate) fn len(&self) -> usize {
        let listed = self.listed();
        listed.values().sum::<usize>() + self.look().count()
    }

    /// What is in the slots. The lock of the list is held.
    fn look(&self) -> impl Iterator<Item = u64> {
        fence(Ordering::SeqCst);
        // Acquire, pairs with the Release of who gives it up: its reads are over.
        let words = self.slots.iter().map(|slot| slot.load(Ordering::Acquire));
        words.filter(|word| *word != FREE).map(|word| word - 1)
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A moment in use. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Pinned {
    sequence: u64,
    /// Where it is, if not in the list.
    slot: Option<usize>,
    snapshots: Arc<Snapshots>,
}

impl Pinned {
    /// Everything up to this sequence number is seen.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        let (sequence, snapshots) = (self.sequence, Arc::clone(&self.snapshots));
        *snapshots.listed().entry(sequence).or_insert(0) += 1;
        Pinned { sequence, slot: None, snapshots }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.snapshots.slots[slot].store(FREE, Ordering::Release);
            return;
        }
        let mut listed = self.snapshots.listed();
        if let Some(count) = listed.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                listed.remove(&self.sequence);
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
        let first = snapshots.pin(|| 5);
        let second = snapshots.pin(|| 7);
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
    fn more_moments_than_slots_are_all_known() {
        let snapshots = Arc::new(Snapshots::default());
        let pins: Vec<Pinned> = (1..=100).map(|moment| snapshots.pin(|| moment)).collect();
        assert_eq!(snapshots.len(), 100);
        for (pin, moment) in pins.into_iter().zip(1..) {
            assert_eq!(snapshots.oldest(|| 200), moment);
            drop(pin);
        }
        assert_eq!((snapshots.oldest(|| 200), snapshots.len()), (200, 0));
    }

    /// A pin that begins after a call of `oldest` is not older than its result, and one that lives
    /// throughout a call is not newer.
    #[test]
    fn nobody_pins_what_was_given_up() {
        let (snapshots, clock) = (Arc::new(Snapshots::default()), AtomicU64::new(1));
        let given_up = AtomicU64::new(0);
        let now = || clock.load(Ordering::Acquire);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for turn in 0..20_000 {
                        let before = given_up.load(Ordering::SeqCst);
                        let pin = snapshots.pin(now);
                        assert!(pin.sequence() >= before);
                        let copy = (turn % 7 == 0).then(|| pin.clone());
                        drop((pin, copy));
                        clock.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let pin = snapshots.pin(now);
                    let oldest = snapshots.oldest(now);
                    assert!(oldest <= pin.sequence());
                    given_up.fetch_max(oldest, Ordering::SeqCst);
                }
            });
        });
        assert_eq!(snapshots.len(), 0);
    }
}
