//! What pinning, protecting, retiring and allocating cost, beside `crossbeam-epoch` and the global
//! allocator.
//!
//! ```text
//!   cargo run --release -p keyrack-concurrent --example costs -- THREADS ROUNDS
//! ```
//!
//! Each thread repeats each operation a million times, all at once; a round's figure is the mean
//! time of one, over all threads. Printed are the median and the least of the rounds, in
//! nanoseconds. An object is a box of 64 bytes: `retire` makes, retires and in time frees it, under
//! a pin of its own.
#![expect(clippy::print_stdout, reason = "an example is its own program")]
#![expect(clippy::disallowed_methods, reason = "no crate of this layer may use the clocks' crate")]

use keyrack_concurrent::{Arena, Guard, Retired, birth, pin};
use std::hint::black_box;
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Instant;

const REPEATS: u32 = 1_000_000;

type Object = [u64; 8];

fn retire(guard: &Guard) {
    /// # Safety
    /// The word is the address of a box that nobody uses any more.
    unsafe fn free(word: u64) {
        let address = ptr::with_exposed_provenance_mut::<Object>(word as usize);
        // SAFETY: the caller says so.
        drop(unsafe { Box::from_raw(address) });
    }
    let address = Box::into_raw(Box::new([1; 8]));
    let word = address.expose_provenance() as u64;
    let object = Retired { word, bytes: size_of::<Object>(), birth: birth(), free };
    // SAFETY: nobody else has ever seen the box.
    unsafe { guard.retire(object) };
}

fn retire_with_epochs(guard: &crossbeam_epoch::Guard) {
    let object = crossbeam_epoch::Owned::<Object>::new([1; 8]).into_shared(guard);
    // SAFETY: nobody else has ever seen the object.
    unsafe { guard.defer_destroy(object) };
}

/// Mean nanoseconds of one call, over threads that begin together.
fn mean_ns(threads: usize, operation: &(dyn Fn(u32) + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let run = || {
        barrier.wait();
        let start = Instant::now();
        operation(REPEATS);
        start.elapsed().as_nanos() as f64 / f64::from(REPEATS)
    };
    let total: f64 = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(f64::NAN)).sum()
    });
    total / threads as f64
}

/// What is measured: a name, and a function that repeats it.
type Operation<'a> = (&'static str, Box<dyn Fn(u32) + Sync + 'a>);

/// All operations. `word` is what is protected, and `arena` is what blocks come from.
fn operations<'a>(word: &'a AtomicPtr<u8>, arena: &'a Arena<1>) -> [Operation<'a>; 11] {
    [
        ("pin, unpin", Box::new(|n| (0..n).for_each(|_| drop(black_box(pin()))))),
        (
            "pin, unpin: crossbeam-epoch",
            Box::new(|n| (0..n).for_each(|_| drop(black_box(crossbeam_epoch::pin())))),
        ),
        (
            "nested pin, unpin",
            Box::new(|n| {
                let _outer = pin();
                (0..n).for_each(|_| drop(black_box(pin())));
            }),
        ),
        (
            "nested pin, unpin: crossbeam-epoch",
            Box::new(|n| {
                let _outer = crossbeam_epoch::pin();
                (0..n).for_each(|_| drop(black_box(crossbeam_epoch::pin())));
            }),
        ),
        (
            "protect a load",
            Box::new(|n| {
                let guard = pin();
                let load = || word.load(Ordering::Relaxed);
                for _ in 0..n {
                    black_box(guard.protect(load));
                }
            }),
        ),
        (
            "repin",
            Box::new(|n| {
                let mut guard = pin();
                (0..n).for_each(|_| black_box(&mut guard).repin());
            }),
        ),
        ("box, retire, free", Box::new(|n| (0..n).for_each(|_| retire(&pin())))),
        (
            "box, retire, free: crossbeam-epoch",
            Box::new(|n| (0..n).for_each(|_| retire_with_epochs(&crossbeam_epoch::pin()))),
        ),
        ("box, drop", Box::new(|n| (0..n).for_each(|_| drop(black_box(Box::new([1u64; 8])))))),
        (
            "allocate, free: arena",
            Box::new(|n| (0..n).for_each(|_| arena.free(0, black_box(arena.allocate(0))))),
        ),
        (
            "allocate 320 new bytes: arena",
            Box::new(|n| {
                let arena = Arena::new([5]);
                for _ in 0..n {
                    black_box(arena.allocate(0));
                }
            }),
        ),
    ]
}

fn main() {
    let mut arguments = std::env::args().skip(1).map_while(|argument| argument.parse().ok());
    let threads: usize = arguments.next().unwrap_or(1).max(1);
    let rounds: usize = arguments.next().unwrap_or(7).max(1);

    let word = AtomicPtr::new(ptr::null_mut());
    let arena = Arena::new([5]);
    println!("{threads} threads, {rounds} rounds; ns: median, least");
    for (name, operation) in &operations(&word, &arena) {
        let mut rounds: Vec<f64> = (0..rounds).map(|_| mean_ns(threads, operation)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{name:36} {:8.2} {:8.2}", rounds[rounds.len() / 2], rounds[0]);
    }
}
