//! Inserting into slots and chains under loom: every interleaving of two or three threads up to a
//! number of preemptions, with the weak memory model.
//!
//! The words are loom's, ordered as those of the arena. What an entry holds is written and read
//! Relaxed, so that a thread that came to it without an Acquire may find it empty.

use super::super::hash_table::{Words, insert};
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use loom::thread;
use std::panic::{UnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

const SLOTS: usize = 3;
const ENTRIES: usize = 4;

/// Where the search for any key begins: at the last slot.
const HOME: usize = 2;
const HASH: u64 = u64::MAX << 32;

/// A handle is a number from 1 on; in a slot, the tag stands above it.
type Handle = usize;

struct Cells {
    slots: [AtomicUsize; SLOTS],
    prevs: [AtomicUsize; ENTRIES],
    /// Key and trailer in one number; zero is an entry that is not written.
    entries: [AtomicUsize; ENTRIES],
}

impl Cells {
    fn new() -> Arc<Self> {
        Arc::new(Cells {
            slots: std::array::from_fn(|_| AtomicUsize::new(0)),
            prevs: std::array::from_fn(|_| AtomicUsize::new(0)),
            entries: std::array::from_fn(|_| AtomicUsize::new(0)),
        })
    }

    fn entry(&self, handle: Handle) -> (u8, u64) {
        let entry = self.entries[handle - 1].load(Relaxed);
        assert_ne!(entry, 0, "an entry that can be found is written");
        (entry as u8, entry as u64 >> 8)
    }

    /// Writes an entry and inserts it. All keys have the same home; odd ones the same tag.
    fn put(&self, handle: Handle, key: u8, trailer: u64) {
        self.entries[handle - 1].store((trailer as usize) << 8 | usize::from(key), Relaxed);
        let words = Inserting { cells: self, key };
        assert!(insert(&words, HASH | u64::from(key & 1), handle, true));
    }

    /// The trailers of a key's versions, as a reader finds them.
    fn versions(&self, key: u8) -> Vec<u64> {
        let mut at = HOME;
        let mut next = loop {
            match self.slots[at % SLOTS].load(Acquire) {
                0 => return Vec::new(),
                word if self.entry(word & 0xFF).0 == key => break word & 0xFF,
                _ => at += 1,
            }
        };
        let mut versions = Vec::new();
        while next != 0 {
            let (found, trailer) = self.entry(next);
            assert_eq!(found, key, "a chain is of one key");
            versions.push(trailer);
            next = self.prevs[next - 1].load(Acquire);
        }
        versions
    }
}

struct Inserting<'a> {
    cells: &'a Cells,
    key: u8,
}

fn word(slot: Option<(u32, Handle)>) -> usize {
    slot.map_or(0, |(tag, handle)| (tag as usize) << 8 | handle)
}

fn handle(word: usize) -> Option<Handle> {
    (word != 0).then_some(word)
}

impl Words for Inserting<'_> {
    type Handle = Handle;

    fn slots(&self) -> usize {
        SLOTS
    }

    fn slot(&self, at: usize) -> Option<(u32, Handle)> {
        let word = self.cells.slots[at].load(Acquire);
        (word != 0).then_some(((word >> 8) as u32, word & 0xFF))
    }

    fn swap_slot(&self, at: usize, expected: Option<(u32, Handle)>, new: (u32, Handle)) -> bool {
        let (expected, new) = (word(expected), word(Some(new)));
        self.cells.slots[at].compare_exchange(expected, new, Release, Relaxed).is_ok()
    }

    fn prev(&self, entry: Handle) -> Option<Handle> {
        handle(self.cells.prevs[entry - 1].load(Acquire))
    }

    fn set_prev(&self, entry: Handle, prev: Option<Handle>) {
        self.cells.prevs[entry - 1].store(prev.unwrap_or(0), Release);
    }

    fn swap_prev(
        &self,
        entry: Handle,
        expected: Option<Handle>,
        new: Handle,
    ) -> Result<(), Option<Handle>> {
        let prev = &self.cells.prevs[entry - 1];
        let swapped = prev.compare_exchange(expected.unwrap_or(0), new, AcqRel, Acquire);
        swapped.map(|_| ()).map_err(handle)
    }

    fn trailer(&self, entry: Handle) -> u64 {
        self.cells.entry(entry).1
    }

    fn is_version(&self, entry: Handle) -> bool {
        self.cells.entry(entry).0 == self.key
    }
}

/// Explores what happens when each of these entries, (key, trailer), is put by a thread of its own,
/// after those of `before`. Meanwhile somebody reads key 1.
fn explore(before: &'static [(u8, u64)], racing: &'static [(u8, u64)]) {
    on_one_thread(move || {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.check(move || race(before, racing));
    });
}

/// Loom leaves something behind on each thread that has run a model, which a leak checker finds
/// once the thread has ended. So all models run on one that never ends.
fn on_one_thread(model: impl FnOnce() + Send + UnwindSafe + 'static) {
    type Job = Box<dyn FnOnce() + Send>;
    static JOBS: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (jobs, received) = channel::<Job>();
        std::thread::spawn(move || received.into_iter().for_each(|job| job()));
        Mutex::new(jobs)
    });
    let (done, outcome) = channel();
    let job = Box::new(move || {
        // The test waits for it.
        let _ = done.send(catch_unwind(model));
    });
    jobs.lock().expect("no sender panics").send(job).expect("the thread never ends");
    if let Err(panic) = outcome.recv().expect("each job answers") {
        resume_unwind(panic);
    }
}

fn race(before: &[(u8, u64)], racing: &'static [(u8, u64)]) {
    let cells = Cells::new();
    for ((key, trailer), handle) in before.iter().zip(1..) {
        cells.put(handle, *key, *trailer);
    }
    let put = |((key, trailer), handle): (&'static (u8, u64), Handle)| {
        let cells = Arc::clone(&cells);
        thread::spawn(move || {
            cells.put(handle, *key, *trailer);
            assert!(cells.versions(*key).contains(trailer), "a thread finds what it put");
        })
    };
    let threads: Vec<_> = racing.iter().zip(before.len() + 1..).map(put).collect();
    let of = |key: u8, all: &[(u8, u64)]| {
        let mut trailers: Vec<u64> =
            all.iter().filter(|entry| entry.0 == key).map(|entry| entry.1).collect();
        trailers.sort_unstable_by(|a, b| b.cmp(a));
        trailers
    };
    // At any moment a chain is sorted and holds what was there before.
    let seen = cells.versions(1);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
    assert!(of(1, before).iter().all(|trailer| seen.contains(trailer)), "{seen:?}");
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    let all = [before, racing].concat();
    for key in 1..=3 {
        assert_eq!(cells.versions(key), of(key, &all));
    }
}

#[test]
fn two_versions_of_a_new_key_meet_in_its_slot() {
    explore(&[], &[(1, 10), (1, 20)]);
}

#[test]
fn two_new_keys_want_the_same_slot() {
    explore(&[], &[(1, 10), (2, 20)]);
    // With the same tag.
    explore(&[], &[(1, 10), (3, 20)]);
}

#[test]
fn two_versions_go_to_the_same_place_of_a_chain() {
    explore(&[(1, 5), (1, 50)], &[(1, 10), (1, 20)]);
    explore(&[(1, 50)], &[(1, 10), (1, 20)]);
}

#[test]
fn a_version_goes_behind_one_that_comes_meanwhile() {
    explore(&[(1, 5)], &[(1, 50), (1, 20)]);
    explore(&[(1, 5), (1, 30)], &[(1, 50), (1, 20)]);
}

#[test]
fn three_threads_race_for_a_slot() {
    explore(&[], &[(1, 20), (3, 10), (1, 30)]);
}
