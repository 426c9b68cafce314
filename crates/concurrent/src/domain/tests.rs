//! Domains of their own, so that no other test pins or retires in them.

use super::*;
use crate::retired::{BATCH_BYTES, BATCH_OBJECTS, SCAN_BYTES_MIN, SCAN_OBJECTS_MIN};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, mpsc};

/// Counts its drops at its index.
struct Counted {
    drops: Arc<[AtomicU32]>,
    index: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops[self.index].fetch_add(1, Ordering::Relaxed);
    }
}

fn drops_of(count: usize) -> Arc<[AtomicU32]> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}

fn dropped(drops: &[AtomicU32]) -> usize {
    assert!(drops.iter().all(|drops| drops.load(Ordering::Relaxed) <= 1), "dropped twice");
    drops.iter().filter(|drops| drops.load(Ordering::Relaxed) == 1).count()
}

fn boxed<T>(value: T, bytes: usize, birth: Era) -> Retired {
    /// # Safety
    /// The word is the address of a box that nobody uses any more.
    unsafe fn free<T>(word: u64) {
        let address = ptr::with_exposed_provenance_mut::<T>(word as usize);
        // SAFETY: the caller says so.
        drop(unsafe { Box::from_raw(address) });
    }
    let address = Box::into_raw(Box::new(value));
    Retired { word: address.expose_provenance() as u64, bytes, birth, free: free::<T> }
}

impl Domain {
    /// Retires a box that nobody has ever seen.
    fn retire_boxed<T>(&self, member: Member, value: T, bytes: usize, birth: Era) {
        // SAFETY: nobody else has the box.
        unsafe { self.retire(member, boxed(value, bytes, birth)) };
    }

    fn retire_counted(&self, member: Member, drops: &Arc<[AtomicU32]>, index: usize, birth: Era) {
        self.retire_boxed(member, Counted { drops: Arc::clone(drops), index }, 64, birth);
    }

    /// The era that a member has reserved up to.
    fn upper(&self, member: Member) -> u64 {
        member.record().reserved.upper.load(Ordering::Relaxed)
    }

    fn advance(&self) {
        self.era.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn what_was_alive_is_held_until_the_thread_unpins() {
    let domain = Domain::new();
    let (reader, writer) = (domain.join(), domain.join());
    let drops = drops_of(1);
    let birth = domain.birth();
    domain.advance();
    domain.pin(reader);
    domain.retire_counted(writer, &drops, 0, birth);
    for _ in 0..10 {
        domain.flush(writer);
        assert_eq!(dropped(&drops), 0, "freed while a thread was pinned");
        domain.advance();
    }
    assert_eq!(
        domain.pressure(),
        Pressure { objects: 1, bytes: 64, pinned: 1, oldest_pin_eras: 11 }
    );
    domain.unpin(reader);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 1);
    assert_eq!(domain.pressure(), Pressure::default());
}

#[test]
fn what_was_born_later_or_has_ended_before_is_not_held() {
    let domain = Domain::new();
    let (reader, writer) = (domain.join(), domain.join());
    let drops = drops_of(3);
    domain.retire_counted(writer, &drops, 0, domain.birth());
    domain.stamp(writer.record());
    domain.pin(reader);
    let reserved = domain.birth();
    domain.advance();
    domain.retire_counted(writer, &drops, 1, domain.birth());
    domain.flush(writer);
    assert_eq!(dropped(&drops), 2, "the pin lies between their lives");

    domain.retire_counted(writer, &drops, 2, reserved);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 2, "the reader may have seen the third");
    domain.unpin(reader);
}

#[test]
fn covering_holds_what_was_born_since_the_pin() {
    let domain = Domain::new();
    let (reader, writer) = (domain.join(), domain.join());
    let drops = drops_of(1);
    domain.pin(reader);
    domain.advance();
    let birth = domain.birth();
    domain.cover(reader);
    assert_eq!(domain.upper(reader), birth.bits());
    domain.retire_counted(writer, &drops, 0, birth);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 0);
    domain.unpin(reader);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 1);
}

#[test]
fn a_protected_read_is_repeated_until_the_era_rests() {
    let domain = Domain::new();
    let member = domain.join();
    domain.pin(member);
    let mut reads = 0;
    let era = domain.protect(member, || {
        reads += 1;
        if reads < 4 {
            domain.advance();
        }
        domain.birth()
    });
    assert_eq!((reads, era.bits()), (4, 4));
    assert_eq!(domain.upper(member), 4);
    domain.protect(member, || reads += 1);
    assert_eq!(reads, 5, "nothing changed");
    domain.unpin(member);
}

/// The failure of epochs that this module exists for: one thread sleeps in an operation while
/// others go on for a long time.
#[test]
fn a_pinned_thread_that_sleeps_does_not_hold_back_what_is_made_later() {
    const ALIVE: usize = 1_000;
    const LATER: usize = 1_000_000;
    let domain = Domain::new();
    let writer = domain.join();
    let drops = drops_of(ALIVE + LATER);
    let birth = domain.birth();
    let (pinned, is_pinned) = mpsc::channel();
    let (wake, is_woken) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let domain = &domain;
        scope.spawn(move || {
            let member = domain.join();
            domain.pin(member);
            pinned.send(()).unwrap();
            is_woken.recv().unwrap();
            domain.unpin(member);
            domain.leave_for_good(member);
        });
        is_pinned.recv().unwrap();
        (0..ALIVE).for_each(|index| domain.retire_counted(writer, &drops, index, birth));
        let mut most = 0;
        for index in 0..LATER {
            domain.pin(writer);
            domain.retire_counted(writer, &drops, ALIVE + index, domain.birth());
            domain.unpin(writer);
            if index % 1_000 == 0 {
                most = most.max(domain.pressure().objects);
            }
        }
        domain.flush(writer);
        let pressure = domain.pressure();
        // What was alive, what has the same era of birth as the pin, and the floor of a scan.
        let bound = (2 * (ALIVE + BATCH_OBJECTS) + SCAN_OBJECTS_MIN) as u64;
        assert!(most <= bound, "{most} objects waited");
        assert!(pressure.objects >= ALIVE as u64, "{pressure:?}");
        assert!(pressure.objects <= (ALIVE + 2 * BATCH_OBJECTS) as u64, "{pressure:?}");
        assert_eq!(pressure.pinned, 1);
        assert!(pressure.oldest_pin_eras >= (LATER / BATCH_OBJECTS) as u64);
        assert_eq!(dropped(&drops) as u64 + pressure.objects, (ALIVE + LATER) as u64);
        assert_eq!(dropped(&drops[..ALIVE]), 0, "what was alive may be in use");
        wake.send(()).unwrap();
    });
    domain.flush(writer);
    assert_eq!(dropped(&drops), ALIVE + LATER);
    assert_eq!(domain.pressure(), Pressure::default());
}

#[test]
fn pins_nest_and_repin_works_for_the_outermost_alone() {
    let domain = Domain::new();
    let (reader, writer) = (domain.join(), domain.join());
    let drops = drops_of(2);
    domain.pin(reader);
    domain.pin(reader);
    domain.retire_counted(writer, &drops, 0, Era::from_bits(1));
    domain.flush(writer);
    domain.repin(reader);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 0, "the outer guard still protects");
    domain.unpin(reader);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 0, "it is pinned once");
    domain.repin(reader);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 1);
    domain.retire_counted(writer, &drops, 1, Era::from_bits(1));
    domain.flush(writer);
    assert_eq!(dropped(&drops), 1, "a repinned thread is pinned");
    domain.unpin(reader);
    domain.flush(writer);
    assert_eq!(dropped(&drops), 2);
}

#[test]
fn a_thread_that_ends_leaves_what_it_retired_to_the_others() {
    let domain = Domain::new();
    let (reader, heir) = (domain.join(), domain.join());
    let count = 2 * ORPHANS_LENT_MAX + 10;
    let drops = drops_of(count);
    domain.pin(reader);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let member = domain.join();
            let birth = Era::from_bits(1);
            (0..count).for_each(|index| domain.retire_counted(member, &drops, index, birth));
            domain.flush(member);
            domain.leave_for_good(member);
        });
    });
    assert_eq!(domain.pressure().objects, count as u64);
    assert_eq!(domain.pressure().bytes, 64 * count as u64);
    domain.unpin(reader);
    domain.flush(heir);
    assert_eq!(dropped(&drops), ORPHANS_LENT_MAX, "bounded work");
    domain.flush(heir);
    domain.flush(heir);
    assert_eq!(dropped(&drops), count);
    assert_eq!(domain.pressure(), Pressure::default());
}

#[test]
fn records_are_used_again() {
    let domain = Domain::new();
    let stays = domain.join();
    for _ in 0..100 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let member = domain.join();
                domain.pin(member);
                domain.retire_boxed(member, 7u64, 8, domain.birth());
                domain.unpin(member);
                domain.leave_for_good(member);
            });
        });
    }
    assert_eq!(domain.records().count(), 2);
    domain.leave_for_good(stays);
}

#[test]
fn a_few_large_objects_do_not_wait_for_many() {
    let domain = Domain::new();
    let member = domain.join();
    let drops = drops_of(100);
    for index in 0..100 {
        let object = Counted { drops: Arc::clone(&drops), index };
        domain.retire_boxed(member, object, BATCH_BYTES, domain.birth());
        assert!(domain.pressure().bytes <= SCAN_BYTES_MIN as u64);
    }
    assert!(dropped(&drops) > 90);
}

/// Retires another one when it is freed, so often.
struct Chain<'a> {
    domain: &'a Domain,
    member: Member,
    freed: &'a Cell<usize>,
    left: usize,
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        self.freed.set(self.freed.get() + 1);
        if self.left > 0 {
            let (domain, member) = (self.domain, self.member);
            domain.pin(member);
            let next = Chain { left: self.left - 1, ..*self };
            domain.retire_boxed(member, next, 64, domain.birth());
            domain.unpin(member);
        }
    }
}

#[test]
fn what_is_freed_may_pin_and_retire() {
    const CHAINS: usize = 500;
    const LENGTH: usize = 20;
    let domain = Domain::new();
    let member = domain.join();
    let freed = Cell::new(0);
    for _ in 0..CHAINS {
        let chain = Chain { domain: &domain, member, freed: &freed, left: LENGTH - 1 };
        domain.retire_boxed(member, chain, 64, domain.birth());
    }
    for _ in 0..LENGTH {
        domain.flush(member);
    }
    assert_eq!(freed.get(), CHAINS * LENGTH);
    assert_eq!(domain.pressure(), Pressure::default());
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor that fails");
    }
}

#[test]
fn a_destructor_that_panics_delays_the_others_and_no_more() {
    let domain = Domain::new();
    let member = domain.join();
    let drops = drops_of(20);
    for index in 0..20 {
        domain.retire_counted(member, &drops, index, domain.birth());
        if index == 9 {
            domain.retire_boxed(member, Bomb, 1, domain.birth());
        }
    }
    assert!(catch_unwind(AssertUnwindSafe(|| domain.flush(member))).is_err());
    assert_eq!(domain.pressure().objects as usize, 20 - dropped(&drops));
    domain.flush(member);
    assert_eq!(dropped(&drops), 20);
    assert_eq!(domain.pressure(), Pressure::default());
}

#[test]
fn a_domain_that_ends_frees_what_is_left() {
    let drops = drops_of(3);
    let domain = Domain::new();
    let (ended, pinned) = (domain.join(), domain.join());
    domain.pin(pinned);
    domain.retire_counted(ended, &drops, 0, domain.birth());
    domain.retire_counted(pinned, &drops, 1, domain.birth());
    domain.flush(pinned);
    domain.retire_counted(pinned, &drops, 2, domain.birth());
    domain.leave_for_good(ended);
    assert_eq!(dropped(&drops), 0);
    drop(domain);
    assert_eq!(dropped(&drops), 3);
}

/// It left the count before it was freed.
#[test]
fn what_is_being_freed_still_waits() {
    struct Looks<'a> {
        domain: &'a Domain,
        found: &'a Cell<Pressure>,
    }
    impl Drop for Looks<'_> {
        fn drop(&mut self) {
            let member = self.domain.join();
            self.domain.retire_boxed(member, (), 30, self.domain.birth());
            self.domain.hand_over(member);
            self.found.set(self.domain.pressure());
            self.domain.flush(member);
            self.domain.leave_for_good(member);
        }
    }
    let (domain, found) = (Domain::new(), Cell::new(Pressure::default()));
    let member = domain.join();
    domain.retire_boxed(member, (), 20, domain.birth());
    let looks = Looks { domain: &domain, found: &found };
    domain.retire_boxed(member, looks, 10, domain.birth());
    domain.flush(member);
    let Pressure { objects, bytes, .. } = found.get();
    assert_eq!((objects, bytes), (3, 60), "this one, the next one, and the one that it retires");
    assert_eq!(domain.pressure(), Pressure::default());
    domain.leave_for_good(member);
}

/// What a thread looks through that no thread has retired was nowhere in the count meanwhile.
#[test]
fn nothing_waits_means_that_everything_is_freed() {
    const ROUNDS: usize = 20_000;
    let (domain, drops, is_done) = (Domain::new(), drops_of(ROUNDS), AtomicU32::new(0));
    let missed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let member = domain.join();
            while is_done.load(Ordering::Relaxed) == 0 {
                domain.flush(member);
            }
            domain.leave_for_good(member);
        });
        let member = domain.join();
        let missed = (0..ROUNDS).find(|&round| {
            domain.retire_counted(member, &drops, round, domain.birth());
            domain.hand_over(member);
            while domain.pressure().objects > 0 {
                std::hint::spin_loop();
            }
            drops[round].load(Ordering::Relaxed) == 0
        });
        is_done.store(1, Ordering::Relaxed);
        domain.leave_for_good(member);
        missed
    });
    assert_eq!(missed, None);
}
