//! A domain under loom: every interleaving of a reader, who uses what it found, and a writer, who
//! replaces, retires, scans and frees it. Loom's cells notice an access to an object that was
//! freed, and also one that merely is not ordered before the free.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize as LoomAtomicUsize;
use loom::thread;

/// The era in which a domain begins.
const FIRST: Era = Era::from_bits(1);

/// Objects that are never really freed, so that a mistake can be seen.
struct World {
    domain: Domain,
    /// Index of the object that can be found.
    head: LoomAtomicUsize,
    freed: [UnsafeCell<bool>; 3],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            domain: Domain::new(),
            head: LoomAtomicUsize::new(0),
            freed: std::array::from_fn(|_| UnsafeCell::new(false)),
        })
    }

    fn retired(&self, index: usize, birth: Era) -> Retired {
        let cell: *const UnsafeCell<bool> = &self.freed[index];
        Retired { word: cell.expose_provenance() as u64, bytes: 1, birth, free: mark_freed }
    }

    /// Puts an object in the place of the one before. Has that freed, which was made in era
    /// `birth`.
    fn replace(&self, member: Member, index: usize, birth: Era) {
        // Release: the object is whole before it can be found.
        let old = self.head.swap(index, Ordering::Release);
        // SAFETY: the object cannot be found any more, and this thread alone replaces.
        unsafe { self.domain.retire(member, self.retired(old, birth)) };
        self.domain.flush(member);
    }

    /// Whether the object that is found now, under protection, was freed.
    fn look(&self, member: Member) {
        // Relaxed: the fence of `protect` is behind it.
        let index = self.domain.protect(member, || self.head.load(Ordering::Relaxed));
        // SAFETY: loom fails when somebody writes meanwhile, which is what is tested.
        let freed = self.freed[index].with(|freed| unsafe { *freed });
        assert!(!freed, "used after it was freed");
    }
}

/// # Safety
/// The word is the address of a live loom cell.
unsafe fn mark_freed(word: u64) {
    let cell = ptr::with_exposed_provenance::<UnsafeCell<bool>>(word as usize);
    // SAFETY: the world outlives the models' threads and, as the first field, its domain.
    let cell = unsafe { &*cell };
    // SAFETY: loom fails when somebody reads meanwhile, which is what is tested.
    cell.with_mut(|freed| unsafe { *freed = true });
}

/// Explores all interleavings, or those with so many preemptions at most.
fn explore(preemptions_max: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions_max);
    builder.check(model);
}

#[test]
fn what_a_reader_protects_is_not_freed() {
    explore(None, || {
        let world = World::new();
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.domain.join();
                world.replace(member, 1, FIRST);
                world.domain.leave_for_good(member);
            })
        };
        let member = world.domain.join();
        world.domain.pin(member);
        world.look(member);
        world.domain.unpin(member);
        writer.join().unwrap();
        world.domain.leave_for_good(member);
    });
}

/// The object is made after the reader has pinned, in a later era, so only the raised upper end of
/// the reader protects it.
#[test]
fn what_is_made_after_a_pin_is_covered_before_it_is_used() {
    explore(None, || {
        let world = World::new();
        let member = world.domain.join();
        world.domain.pin(member);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.domain.join();
                // Something that nobody could find, so that the era advances.
                // SAFETY: this thread alone has object 2.
                unsafe { world.domain.retire(member, world.retired(2, FIRST)) };
                world.domain.stamp(member.record());
                let birth = world.domain.birth();
                world.head.store(1, Ordering::Release);
                world.replace(member, 0, birth);
                world.domain.leave_for_good(member);
            })
        };
        world.look(member);
        world.domain.unpin(member);
        writer.join().unwrap();
        world.domain.leave_for_good(member);
    });
}

/// A pin right after an unpin: the scan may meet an end of each.
#[test]
fn a_reader_that_pins_again_is_protected_again() {
    explore(Some(5), || {
        let world = World::new();
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.domain.join();
                world.replace(member, 1, FIRST);
                world.domain.leave_for_good(member);
            })
        };
        let member = world.domain.join();
        for _ in 0..2 {
            world.domain.pin(member);
            world.look(member);
            world.domain.unpin(member);
        }
        writer.join().unwrap();
        world.domain.leave_for_good(member);
    });
}

/// What one thread has left behind, another one frees.
#[test]
fn what_an_ended_thread_left_is_not_freed_under_a_reader() {
    explore(Some(3), || {
        let world = World::new();
        let member = world.domain.join();
        world.domain.pin(member);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.domain.join();
                let old = world.head.swap(1, Ordering::Release);
                // SAFETY: as in `replace`.
                unsafe { world.domain.retire(member, world.retired(old, FIRST)) };
                world.domain.leave_for_good(member);
            })
        };
        let heir = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let member = world.domain.join();
                world.domain.flush(member);
                world.domain.leave_for_good(member);
            })
        };
        world.look(member);
        world.domain.unpin(member);
        writer.join().unwrap();
        heir.join().unwrap();
        world.domain.leave_for_good(member);
    });
}
