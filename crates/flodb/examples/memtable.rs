//! The cost of a memtable, and that of crossbeam's skip list beside it.
//!
//! ```text
//!   cargo run --release -p keyrack-flodb --example memtable -- ENTRIES THREADS ROUNDS
//! ```
//!
//! Each round loads both afresh with the same keys: 16 decimal digits of random numbers, values of
//! 100 bytes. Then it gets all of them in another order and checks each value, gets as many that
//! are not there, makes order, and walks and seeks in it. Each thread has a share of the keys, and
//! the time of the slowest thread counts: nanoseconds an operation of that thread.
//!
//! The modules of the engine that are measured are private, so they are built into this program.
#![expect(clippy::print_stdout, reason = "an example is its own program")]
#![expect(dead_code, unreachable_pub, reason = "the program uses parts of the modules")]

#[path = "../src/cursor.rs"]
mod cursor;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/key.rs"]
mod key;
#[path = "../src/memtable/mod.rs"]
mod memtable;
#[path = "../src/position.rs"]
mod position;
#[path = "../src/range_tombstones.rs"]
mod range_tombstones;

use crossbeam_skiplist::SkipMap;
use cursor::Cursor;
use key::{Comparator, Kind};
use keyrack_measure::Clock;
use memtable::{Memtable, MemtableOptions};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use xxhash_rust::xxh3::xxh3_64;

const VALUE: [u8; 100] = [b'v'; 100];
const SEEKS: usize = 100_000;
const STEPS: usize = 10;

/// What is compared.
trait Map: Sync {
    fn put(&self, sequence: u64, key: &[u8], value: &[u8]);
    fn holds(&self, key: &[u8], value: &[u8]) -> bool;
}

impl Map for Memtable {
    fn put(&self, sequence: u64, key: &[u8], value: &[u8]) {
        let inserted = self.insert(sequence, Kind::Put, key, value, xxh3_64(key));
        assert!(inserted.is_ok(), "the memtable is laid out for all entries");
    }

    fn holds(&self, key: &[u8], value: &[u8]) -> bool {
        self.get(key, xxh3_64(key), key::SEQUENCE_MAX, |_, _, found| found == value) == Some(true)
    }
}

impl Map for SkipMap<Box<[u8]>, Box<[u8]>> {
    fn put(&self, _: u64, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }

    fn holds(&self, key: &[u8], value: &[u8]) -> bool {
        self.get(key).is_some_and(|entry| **entry.value() == *value)
    }
}

/// One step of a 64-bit generator; the upper bits are good enough for keys.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn text(number: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

fn shuffle(keys: &mut [[u8; 16]], state: &mut u64) {
    for at in (1..keys.len()).rev() {
        keys.swap(at, next(state) as usize % (at + 1));
    }
}

/// Runs `each` over every thread's keys. Nanoseconds an operation of a thread.
fn phase(clock: &Clock, keys: &[Vec<[u8; 16]>], each: &(dyn Fn(u64, &[u8]) + Sync)) -> f64 {
    let barrier = Barrier::new(keys.len());
    let run = |thread: usize| {
        let clock = clock.share();
        barrier.wait();
        let start = clock.ticks();
        for (key, n) in keys[thread].iter().zip(0..) {
            each(n * keys.len() as u64 + thread as u64, key);
        }
        clock.ns_between(start, clock.ticks())
    };
    let slowest_ns = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            (0..keys.len()).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or(1)
    });
    slowest_ns as f64 / keys[0].len() as f64
}

fn points(clock: &Clock, map: &dyn Map, keys: &Keys) -> String {
    let put = phase(clock, &keys.loaded, &|n, key| map.put(n, key, &VALUE));
    let hit = phase(clock, &keys.asked, &|_, key| assert!(map.holds(key, &VALUE)));
    let miss = phase(clock, &keys.missing, &|_, key| assert!(!map.holds(key, &VALUE)));
    format!("insert {put:6.1} get {hit:6.1} miss {miss:6.1}")
}

/// Nanoseconds of one run of `once`, for each of `operations`.
fn timed(clock: &Clock, operations: usize, once: impl FnOnce()) -> f64 {
    let start = clock.ticks();
    once();
    clock.ns_between(start, clock.ticks()) as f64 / operations as f64
}

/// Order of a memtable: made at once, or bit by bit while it was loaded.
fn ordered(clock: &Clock, memtable: &Arc<Memtable>, keys: &[[u8; 16]]) -> String {
    let seal = timed(clock, memtable.entries(), || memtable.sort_tail());
    let mut cursor = memtable.cursor(key::SEQUENCE_MAX);
    let walk = timed(clock, memtable.entries(), || {
        let mut found = 0;
        assert!(cursor.seek_first().is_ok());
        while let Some((_, value)) = cursor.entry() {
            found += usize::from(value[0] == b'v');
            assert!(cursor.next().is_ok());
        }
        assert_eq!(found, memtable.entries());
    });
    let mut internal = Vec::new();
    let seek = timed(clock, SEEKS, || {
        for key in keys.iter().cycle().take(SEEKS) {
            internal.clear();
            key::append(&mut internal, key, key::SEQUENCE_MAX, Kind::LAST);
            assert!(cursor.seek(&internal).is_ok());
            for _ in 0..STEPS {
                black_box(cursor.entry());
                assert!(cursor.next().is_ok());
            }
        }
    });
    format!("seal {seal:6.1} next {walk:6.1} seek+{STEPS} {seek:6.1}")
}

struct Keys {
    loaded: Vec<Vec<[u8; 16]>>,
    asked: Vec<Vec<[u8; 16]>>,
    missing: Vec<Vec<[u8; 16]>>,
}

impl Keys {
    fn new(entries: usize, threads: usize) -> Self {
        let mut state = 1;
        let mut all: Vec<_> = (0..2 * entries).map(|_| text(next(&mut state))).collect();
        all.sort_unstable();
        all.dedup();
        shuffle(&mut all, &mut state);
        let share = all.len() / 2 / threads;
        let mut shares = all.chunks_exact(share).map(<[_]>::to_vec);
        let loaded: Vec<_> = shares.by_ref().take(threads).collect();
        let missing = shares.take(threads).collect();
        let mut asked = loaded.clone();
        asked.iter_mut().for_each(|keys| shuffle(keys, &mut 99));
        Keys { loaded, asked, missing }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut argument = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (entries, threads, rounds) = (argument(480_000), argument(1), argument(3));
    let clock = Clock::calibrated();
    let keys = Keys::new(entries, threads);
    // Keys of sixteen bytes, and what stands before each entry.
    let capacity_bytes = entries * (VALUE.len() + 16 + 48);
    println!("nanoseconds an operation; {entries} entries, {threads} threads");
    for _ in 0..rounds {
        let new = || {
            let options = MemtableOptions::default();
            Memtable::new(capacity_bytes, Comparator::Bytewise, options)
        };
        let memtable = Arc::new(new());
        let points_of_memory = points(&clock, &*memtable, &keys);
        let order = ordered(&clock, &memtable, &keys.asked[0]);
        println!("memory     {points_of_memory} {order}");
        drop(memtable);

        // Sealed 20 times on the way, so that there are several runs.
        let memtable = Arc::new(new());
        let mut sealing = 0.0;
        for (part, n) in keys.loaded[0].chunks(entries / threads / 20).zip(0..) {
            for (key, at) in part.iter().zip(0..) {
                memtable.put(n << 32 | at, key, &VALUE);
            }
            sealing += timed(&clock, 1, || memtable.sort_tail());
        }
        let order = ordered(&clock, &memtable, &keys.asked[0]);
        println!("in 20 runs merged: {:6.1} {order}", sealing / memtable.entries() as f64);
        drop(memtable);

        let map = SkipMap::new();
        let points_of_map = points(&clock, &map, &keys);
        let walk = timed(&clock, entries / threads * threads, || {
            assert!(map.iter().all(|entry| entry.value()[0] == b'v'));
        });
        println!("skip list  {points_of_map} {:11} next {walk:6.1}", "");
    }
}
