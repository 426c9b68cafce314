//! Puts and gets of random decimal keys, the tree and crossbeam's skip list in turn.
//!
//! ```text
//!   cargo run --release -p keyrack-masstree --example against_skiplist -- KEYS THREADS ROUNDS
//! ```
//!
//! Each round loads both afresh with the same keys (decimal text of 31-bit numbers; the value is
//! the text of the next number, as in rw1), then gets all of them in another order and checks each
//! value. Each thread has keys of its own. Prints millions of operations a second, all threads
//! together, and the time of the slowest thread counts.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use crossbeam_skiplist::SkipMap;
use keyrack_concurrent::pin;
use keyrack_masstree::{Bytes, Tree};
use keyrack_measure::Clock;
use std::sync::Barrier;

/// What is compared.
trait Map: Sync {
    fn put(&self, key: &[u8], value: &[u8]);
    fn holds(&self, key: &[u8], value: &[u8]) -> bool;
}

impl Map for Tree<Bytes> {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.insert(key, value, &pin());
    }

    fn holds(&self, key: &[u8], value: &[u8]) -> bool {
        self.get(key, &pin()).as_deref() == Some(value)
    }
}

impl Map for SkipMap<Box<[u8]>, Box<[u8]>> {
    fn put(&self, key: &[u8], value: &[u8]) {
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

/// Keys of one thread, no two alike among all threads.
fn keys(thread: u64, threads: u64, count: usize) -> Vec<u64> {
    let mut state = thread + 1;
    let mut keys: Vec<u64> =
        (0..count).map(|_| next(&mut state) / threads * threads + thread).collect();
    keys.sort_unstable();
    keys.dedup();
    shuffle(&mut keys, &mut state);
    keys
}

fn shuffle(keys: &mut [u64], state: &mut u64) {
    for at in (1..keys.len()).rev() {
        keys.swap(at, next(state) as usize % (at + 1));
    }
}

/// Decimal text in a buffer of the stack.
fn text(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

/// Runs `each` over every thread's keys. Millions of operations a second.
fn phase(clock: &Clock, keys: &[Vec<u64>], each: &(dyn Fn(&[u8], &[u8]) + Sync)) -> f64 {
    let barrier = Barrier::new(keys.len());
    let run = |keys: &[u64]| {
        let clock = clock.share();
        barrier.wait();
        let start = clock.ticks();
        for &number in keys {
            let (mut key, mut value) = ([0; 20], [0; 20]);
            each(text(number, &mut key), text(number + 1, &mut value));
        }
        clock.ns_between(start, clock.ticks())
    };
    let slowest_ns = std::thread::scope(|scope| {
        let threads: Vec<_> = keys.iter().map(|keys| scope.spawn(|| run(keys))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or(1)
    });
    let operations: usize = keys.iter().map(Vec::len).sum();
    operations as f64 * 1e3 / slowest_ns as f64
}

fn measure(clock: &Clock, name: &str, map: &dyn Map, loaded: &[Vec<u64>], asked: &[Vec<u64>]) {
    let puts = phase(clock, loaded, &|key, value| map.put(key, value));
    let gets = phase(clock, asked, &|key, value| assert!(map.holds(key, value)));
    println!("{name:10} {puts:8.3} M puts/s {gets:8.3} M gets/s");
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut argument = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (count, threads, rounds) = (argument(1_000_000) as usize, argument(1), argument(3));
    let clock = Clock::calibrated();
    let share = count / threads as usize;
    let loaded: Vec<_> = (0..threads).map(|thread| keys(thread, threads, share)).collect();
    let mut asked = loaded.clone();
    asked.iter_mut().for_each(|keys| shuffle(keys, &mut 99));
    for _ in 0..rounds {
        let tree = Tree::<Bytes>::new();
        measure(&clock, "masstree", &tree, &loaded, &asked);
        println!("masstree   {:8.3} M gets/s in batches of 64", batched(&clock, &tree, &asked));
        println!("{:?}", tree.stats());
        drop(tree);
        measure(&clock, "skiplist", &SkipMap::new(), &loaded, &asked);
    }
}

/// As the gets of [`phase`], 64 at a time.
fn batched(clock: &Clock, tree: &Tree<Bytes>, keys: &[Vec<u64>]) -> f64 {
    let get = |batch: &[u64]| {
        let mut texts = [[0; 20]; 64];
        let mut lengths = [0; 64];
        for (at, number) in batch.iter().enumerate() {
            lengths[at] = text(*number, &mut texts[at]).len();
        }
        let asked: Vec<&[u8]> =
            texts.iter().zip(lengths).map(|(text, len)| &text[20 - len..]).collect();
        tree.multi_get(&asked, &pin(), |index, found| {
            let mut buffer = [0; 20];
            assert_eq!(found.as_deref(), Some(text(batch[index] + 1, &mut buffer)));
        });
    };
    let barrier = Barrier::new(keys.len());
    let run = |keys: &[u64]| {
        let clock = clock.share();
        barrier.wait();
        let start = clock.ticks();
        keys.chunks_exact(64).for_each(get);
        clock.ns_between(start, clock.ticks())
    };
    let slowest_ns = std::thread::scope(|scope| {
        let threads: Vec<_> = keys.iter().map(|keys| scope.spawn(|| run(keys))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or(1)
    });
    let operations: usize = keys.iter().map(|keys| keys.len() / 64 * 64).sum();
    operations as f64 * 1e3 / slowest_ns as f64
}
