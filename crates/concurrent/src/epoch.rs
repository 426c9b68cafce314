//! Pinning: the domain of the process, and the thread's place in it.
//!
//! ```text
//!   reader   pin ---- protect: load pointer, still linked? ---- use ---- unpin
//!   writer              unlink ---- retire        ... freed when nobody reserves its life
//! ```
//!
//! How memory is held back and when it is freed stands in `domain.rs`. Here is who takes part. No
//! thread registers: its first pin makes it a member of the one domain, and its end leaves what it
//! had retired to the others. The thread's membership is a plain thread-local word without a
//! destructor, so a pin is a load, a test and the publication. A second thread-local, touched once,
//! has the destructor.
//!
//! A thread that is being torn down may still pin (in the destructor of another thread-local) after
//! its membership has ended. It then becomes a temporary member, until its last guard. A guard that
//! outlives the destructor makes the membership temporary in the same way.

use crate::domain::{Domain, Pressure};
use crate::part::Part;
use crate::record::Member;
use crate::retired::{Era, Retired};
use std::cell::Cell;
use std::fmt;

/// The domain of the process.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
fn domain() -> &'static Domain {
    static DOMAIN: Domain = Domain::new();
    &DOMAIN
}

/// Loom's atomics have no constants. Its models use domains of their own.
#[cfg(loom)]
fn domain() -> &'static Domain {
    static DOMAIN: std::sync::LazyLock<Domain> = std::sync::LazyLock::new(Domain::new);
    &DOMAIN
}

/// Each schedule of shuttle has a domain of its own, so that one can be run again. It is not
/// dropped: that would be behind the schedule, where its atomics cannot be used.
#[cfg(shuttle)]
fn domain() -> &'static Domain {
    shuttle::lazy_static! {
        static ref DOMAIN: std::mem::ManuallyDrop<Domain> =
            std::mem::ManuallyDrop::new(Domain::new());
    }
    &DOMAIN
}

#[cfg(not(shuttle))]
use membership::{arrange_end, member, set_member};
#[cfg(shuttle)]
use shuttled::{arrange_end, member, set_member};

/// What a thread remembers of itself.
#[cfg(not(shuttle))]
mod membership {
    use super::{Cell, Member, end};

    thread_local! {
        static MEMBER: Cell<Option<Member>> = const { Cell::new(None) };
        static AT_EXIT: AtExit = const { AtExit };
    }

    struct AtExit;

    impl Drop for AtExit {
        fn drop(&mut self) {
            if let Some(member) = MEMBER.get() {
                end(member);
            }
        }
    }

    #[inline(always)]
    pub(super) fn member() -> Option<Member> {
        MEMBER.get()
    }

    pub(super) fn set_member(member: Option<Member>) {
        MEMBER.set(member);
    }

    /// Has the membership ended with the thread. Fails when the thread is being torn down.
    pub(super) fn arrange_end() -> bool {
        AT_EXIT.try_with(|_| ()).is_ok()
    }
}

/// The same for threads of shuttle, which share one of the machine.
#[cfg(shuttle)]
mod shuttled {
    use super::{Cell, Member, end};

    shuttle::thread_local! {
        static MEMBER: MemberCell = MemberCell(Cell::new(None));
    }

    struct MemberCell(Cell<Option<Member>>);

    impl Drop for MemberCell {
        fn drop(&mut self) {
            if let Some(member) = self.0.take() {
                end(member);
            }
        }
    }

    pub(super) fn member() -> Option<Member> {
        MEMBER.try_with(|place| place.0.get()).ok().flatten()
    }

    pub(super) fn set_member(member: Option<Member>) {
        // Where it fails, the thread is being torn down, and has forgotten it.
        let _ = MEMBER.try_with(|place| place.0.set(member));
    }

    pub(super) fn arrange_end() -> bool {
        MEMBER.try_with(|_| ()).is_ok()
    }
}

#[cold]
fn join() -> Member {
    let member = domain().join();
    // The first use arranges for the destructor; it fails when that has run already.
    let arranged = arrange_end();
    member.record().reserved.temporary.set(!arranged);
    set_member(Some(member));
    member
}

/// Ends the thread's membership, or has its last guard do so.
#[cold]
fn end(member: Member) {
    let reserved = &member.record().reserved;
    // The freed objects may pin; their guards must not end what is ending here.
    reserved.temporary.set(false);
    domain().flush(member);
    if reserved.pins.get() > 0 {
        reserved.temporary.set(true);
    } else {
        set_member(None);
        domain().leave_for_good(member);
    }
}

/// Pins the calling thread. Pins nest; a nested one is cheaper.
#[inline]
#[must_use]
pub fn pin() -> Guard {
    let member = member().unwrap_or_else(join);
    domain().pin(member);
    Guard(member)
}

/// Frees what is due, as [`Guard::flush`] does, and leaves the rest of what this thread has retired
/// to the other threads: the next ones that look free it, a part each. For a thread that may retire
/// nothing for a long time. No guard of this call holds back what was retired just now.
pub fn free_or_hand_over() {
    let member = member().unwrap_or_else(join);
    if !member.record().reserved.temporary.get() {
        domain().flush(member);
        domain().hand_over(member);
    }
    // A temporary membership ends, which does the same.
    drop(pin());
}

/// The era now: stamp an object with it when it is made, before it is linked.
#[inline]
#[must_use]
pub fn birth() -> Era {
    domain().birth()
}

/// What is retired and not yet freed in the whole process, and who is pinned. Exact when no thread
/// pins or retires meanwhile. O(threads).
#[must_use]
pub fn pressure() -> Pressure {
    domain().pressure()
}

/// Where the data of the reclamation lies, for the whole process. O(threads).
#[must_use]
pub fn parts() -> Vec<Part> {
    domain().parts()
}

/// A pinned thread. What it has read under [`Guard::protect`] is not freed while this lives.
///
/// While it lives, it holds back what was alive at some time between the pin and the last
/// [`Guard::cover`] or `protect` of the thread; nothing that was made later.
pub struct Guard(Member);

impl Guard {
    /// Extends what this guard protects to objects that have been made until now. What is read from
    /// the structure before the era changes again is protected until the thread unpins. One
    /// load and one comparison when the era is the same.
    #[inline]
    pub fn cover(&self) {
        domain().cover(self.0);
    }

    /// Reads pointers so that what they point at is protected until the thread unpins: repeats
    /// `read` until the era stayed the same, and covered, from its beginning to its end.
    ///
    /// This protects objects that were reachable in the structure **during the last call** of
    /// `read`. A pointer in a node that is itself protected is not enough: the node may have been
    /// unlinked, and what it points at freed, long ago. So after loading the pointer, `read` has to
    /// see that the node is still linked, for example by its version, and otherwise to return that
    /// it is not. `read` must not follow the pointer, unless to memory that is readable in any
    /// case.
    #[inline(always)]
    pub fn protect<T>(&self, read: impl FnMut() -> T) -> T {
        domain().protect(self.0, read)
    }

    /// Whether all that was reachable in the structure at some time since the last call of this, of
    /// [`Guard::cover`] or of `protect`, or since the pin, is protected until the thread unpins. If
    /// not, it covers what has been made until now, and what was read meanwhile has to be read
    /// again. [`Guard::protect`] is a loop of this.
    #[inline(always)]
    #[must_use]
    pub fn covers(&self) -> bool {
        domain().covers(self.0)
    }

    /// Has `object` freed once no thread can hold it. Freeing may run in any thread, in this one
    /// even before this returns, though not while this thread itself protects it. Constant on
    /// average.
    ///
    /// # Safety
    /// - The object is unreachable for who looks for it from now on, and is retired once.
    /// - Its `birth` is not later than [`birth`] was before it became reachable.
    /// - `free`, called once with `word`, is sound in any thread and at any later time, when
    ///   nobody uses the object any more.
    #[inline]
    pub unsafe fn retire(&self, object: Retired) {
        // SAFETY: the caller promises the same.
        unsafe { domain().retire(self.0, object) };
    }

    /// Unpins and pins again, so that a long scan does not hold back what was unlinked meanwhile.
    /// No effect while the thread has another guard. It takes the guard exclusively: nothing
    /// borrowed from it is left.
    #[inline]
    pub fn repin(&mut self) {
        domain().repin(self.0);
    }

    /// Frees what is due, of this thread and of ended ones, without waiting until it is worth
    /// while. O(what waits here).
    pub fn flush(&self) {
        domain().flush(self.0);
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if domain().unpin(self.0) {
            end(self.0);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// # Safety
    /// The word is what `Arc::into_raw` of a counter returned, once.
    unsafe fn count(word: u64) {
        let counter = std::ptr::with_exposed_provenance::<AtomicUsize>(word as usize);
        // SAFETY: the caller says so.
        unsafe { Arc::from_raw(counter) }.fetch_add(1, Ordering::Relaxed);
    }

    fn retire_count(guard: &Guard, counter: &Arc<AtomicUsize>) {
        retire_born(guard, counter, birth());
    }

    fn retire_born(guard: &Guard, counter: &Arc<AtomicUsize>, birth: Era) {
        let word = Arc::into_raw(Arc::clone(counter)).expose_provenance() as u64;
        // SAFETY: nobody else has this reference, and a counter may be dropped anywhere.
        unsafe { guard.retire(Retired { word, bytes: 64, birth, free: count }) };
    }

    /// Frees until so many were counted. Other tests pin too, so it may take a while.
    fn flush_until(counter: &AtomicUsize, expected: usize) {
        for _ in 0..10_000_000 {
            pin().flush();
            if counter.load(Ordering::Relaxed) == expected {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{counter:?} instead of {expected}: {:?}", pressure());
    }

    #[test]
    fn a_guard_holds_back_what_another_thread_retires_until_it_repins() {
        let (counter, others) = (Arc::default(), Arc::default());
        let mut guard = pin();
        // What is born after the guard has looked last is not what it can have found.
        let born = birth();
        guard.protect(|| ());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..1000).for_each(|_| retire_count(&pin(), &others));
                assert!(birth().bits() > born.bits());
                retire_born(&pin(), &counter, born);
                (0..10).for_each(|_| pin().flush());
            });
        });
        let nested = pin();
        for _ in 0..10 {
            nested.flush();
        }
        assert_eq!(counter.load(Ordering::Relaxed), 0);
        assert!(pressure().objects > 0 && pressure().pinned > 0);
        drop(nested);
        guard.repin();
        drop(guard);
        flush_until(&counter, 1);
    }

    /// One thread hands over what is held, another one looks at it, and both go on living without
    /// a pin. They kept it.
    #[test]
    fn what_is_handed_over_stays_with_no_thread() {
        let counter: Arc<AtomicUsize> = Arc::default();
        let (has_looked, looked) = std::sync::mpsc::channel();
        let guard = pin();
        let born = birth();
        guard.protect(|| ());
        std::thread::scope(|scope| {
            let mut idle = Vec::new();
            for retired in [500, 0] {
                let (to_stay, stays) = std::sync::mpsc::channel::<()>();
                let (counted, has_looked) = (&counter, has_looked.clone());
                scope.spawn(move || {
                    (0..retired).for_each(|_| retire_born(&pin(), counted, born));
                    free_or_hand_over();
                    (0..10).for_each(|_| pin().flush());
                    has_looked.send(()).unwrap();
                    let _ = stays.recv();
                });
                looked.recv().unwrap();
                idle.push(to_stay);
            }
            assert_eq!(counter.load(Ordering::Relaxed), 0);
            drop(guard);
            flush_until(&counter, 500);
            drop(idle);
        });
    }

    /// A guard of the caller would have held it back until the next time.
    #[test]
    fn what_was_retired_just_now_is_freed() {
        let counter: Arc<AtomicUsize> = Arc::default();
        for retired in 1..1_000_000 {
            retire_count(&pin(), &counter);
            free_or_hand_over();
            // Other tests pin as well, so it may be held.
            if counter.load(Ordering::Relaxed) == retired {
                return;
            }
        }
        panic!("{counter:?} of a million were freed: {:?}", pressure());
    }

    /// Frees in a thread that is torn down.
    struct LateFree(Arc<AtomicUsize>);

    impl Drop for LateFree {
        fn drop(&mut self) {
            retire_count(&pin(), &self.0);
            free_or_hand_over();
            retire_count(&pin(), &self.0);
            free_or_hand_over();
        }
    }

    thread_local! {
        static EARLY_FREE: Cell<Option<LateFree>> = const { Cell::new(None) };
        static LATE_FREE: Cell<Option<LateFree>> = const { Cell::new(None) };
    }

    #[test]
    fn a_thread_may_hand_over_while_it_is_torn_down() {
        let counter = Arc::default();
        let run = {
            let counter = Arc::clone(&counter);
            move || {
                EARLY_FREE.set(Some(LateFree(Arc::clone(&counter))));
                retire_count(&pin(), &counter);
                LATE_FREE.set(Some(LateFree(counter)));
            }
        };
        std::thread::spawn(run).join().unwrap();
        flush_until(&counter, 5);
    }

    #[test]
    fn a_thread_that_ends_loses_nothing() {
        let counter = Arc::default();
        for _ in 0..50 {
            let counter = Arc::clone(&counter);
            let run = move || {
                let guard = pin();
                (0..10).for_each(|_| retire_count(&guard, &counter));
            };
            std::thread::spawn(run).join().unwrap();
        }
        flush_until(&counter, 500);
    }

    /// Pins and retires when its thread is torn down.
    struct Late(Arc<AtomicUsize>);

    impl Drop for Late {
        fn drop(&mut self) {
            let guard = pin();
            (0..200).for_each(|_| retire_count(&guard, &self.0));
            let _nested = pin();
        }
    }

    thread_local! {
        static EARLY_LATE: Cell<Option<Late>> = const { Cell::new(None) };
        static LATE: Cell<Option<Late>> = const { Cell::new(None) };
        static KEPT: Cell<Option<Guard>> = const { Cell::new(None) };
    }

    /// Destructors run in some order: one thread-local is used before the first pin, one after.
    #[test]
    fn a_thread_may_pin_and_retire_while_it_is_torn_down() {
        let counter = Arc::default();
        for _ in 0..5 {
            let counter = Arc::clone(&counter);
            let run = move || {
                EARLY_LATE.set(Some(Late(Arc::clone(&counter))));
                retire_count(&pin(), &counter);
                LATE.set(Some(Late(counter)));
            };
            std::thread::spawn(run).join().unwrap();
        }
        flush_until(&counter, 5 * 401);
    }

    #[test]
    fn a_guard_may_outlive_the_membership_of_its_thread() {
        let counter = Arc::default();
        for keeps_first in [true, false] {
            let counter = Arc::clone(&counter);
            let run = move || {
                if keeps_first {
                    KEPT.set(None);
                }
                let guard = pin();
                retire_count(&guard, &counter);
                KEPT.set(Some(guard));
            };
            std::thread::spawn(run).join().unwrap();
        }
        flush_until(&counter, 2);
    }

    /// # Safety
    /// As [`count`].
    unsafe fn count_twice(word: u64) {
        let guard = pin();
        // SAFETY: the word is used once more, by `count`.
        unsafe { guard.retire(Retired { word, bytes: 64, birth: birth(), free: count }) };
    }

    #[test]
    fn what_is_freed_may_pin_and_retire() {
        let counter: Arc<AtomicUsize> = Arc::default();
        for _ in 0..1_000 {
            let word = Arc::into_raw(Arc::clone(&counter)).expose_provenance() as u64;
            let object = Retired { word, bytes: 64, birth: birth(), free: count_twice };
            // SAFETY: nobody else has this reference.
            unsafe { pin().retire(object) };
        }
        flush_until(&counter, 1_000);
    }
}
