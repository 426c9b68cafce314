//! What FloDB's switches would do to the memory component: with and without the hash level, with
//! 0, 1 and 2 threads that bring entries into order all the time.
//!
//! ```text
//!   cargo run --release -p keyrack-flodb --example drainers -- WORKERS SECONDS ROUNDS
//! ```
//!
//! A store without a log whose memtable never fills, as FloDB's `DUMMY_PERSIST` with much memory:
//! keys of 8 bytes, values of 256, 262,144 of 524,288 keys there before. Each thread that drains
//! makes iterators one after the other: each sorts what no run has, and merges runs. Prints
//! millions of operations a second of all workers together, the median of the rounds, in which the
//! settings take turns.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use keyrack_flodb::{Db, Durability, Options};
use keyrack_measure::Clock;
use keyrack_vfs::MemFs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 1 << 19;
const VALUE: [u8; 256] = [b'v'; 256];
const SCAN_KEYS: u64 = 100;

/// A load, and how many of a hundred operations are puts. The others are gets, or scans.
const LOADS: [(&str, u64, bool); 5] = [
    ("puts", 100, false),
    ("half puts, half gets", 50, false),
    ("gets", 0, false),
    ("95 puts, 5 scans", 95, true),
    ("scans", 0, true),
];
const DRAINERS: [usize; 3] = [0, 1, 2];

/// A generator of Marsaglia's xorshift family, one for each thread.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(bound)) >> 64) as u64
    }
}

fn open(hash_level: bool) -> Db {
    let options = Options {
        durability: Durability::None,
        discards_memtables: true,
        memtable_bytes: 4 << 30,
        hash_level,
        ..Options::default()
    };
    let db = Db::open_in(Arc::new(MemFs::new()), Path::new("/db"), options);
    let db = db.expect("a store in memory");
    for number in (0..KEYS).step_by(2) {
        db.put(&number.to_be_bytes(), &VALUE).expect("there is room");
    }
    db
}

/// One operation. Answers how many it counts.
fn step(db: &Db, draws: &mut Draws, puts: u64, scans: bool) -> u64 {
    let number = draws.below(KEYS);
    let key = number.to_be_bytes();
    if draws.below(100) < puts {
        db.put(&key, &VALUE).expect("there is room");
        return 1;
    }
    if !scans {
        black_box(db.get(&key).expect("memory can be read"));
        return 1;
    }
    let mut iter = db.iter().expect("memory can be read");
    iter.seek(&key).expect("memory can be read");
    let end = (number + SCAN_KEYS).to_be_bytes();
    while let Some((key, value)) = iter.entry().filter(|(key, _)| *key < &end[..]) {
        black_box((key, value));
        iter.next().expect("memory can be read");
    }
    SCAN_KEYS
}

/// Millions of operations a second.
fn measure(load: (&str, u64, bool), hash: bool, drainers: usize, of: (usize, f64)) -> f64 {
    let (_, puts, scans) = load;
    let (workers, seconds) = of;
    let (db, clock) = (open(hash), Clock::calibrated());
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = clock.ticks();
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (db, stop, done) = (&db, &stop, &done);
            scope.spawn(move || {
                let mut draws = Draws(worker as u64 + 1);
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += step(db, &mut draws, puts, scans);
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        for _ in 0..drainers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(db.iter().expect("memory can be read"));
                    std::thread::yield_now();
                }
            });
        }
        clock.wait_until(begun + clock.ticks_of_ns((seconds * 1e9) as u64));
        stop.store(true, Ordering::Relaxed);
    });
    let ns = clock.ns_between(begun, clock.ticks());
    done.load(Ordering::Relaxed) as f64 * 1e3 / ns as f64
}

fn main() {
    let number = |at: usize, default: f64| -> f64 {
        let given = std::env::args().nth(at).map(|text| text.parse());
        given.map_or(default, |number| number.expect("WORKERS SECONDS ROUNDS are numbers"))
    };
    let (workers, seconds, rounds) = (number(1, 1.0), number(2, 1.0), number(3, 3.0) as usize);
    println!("| load | hash level | no drainer | 1 drainer | 2 drainers |\n|---|---|---|---|---|");
    for load in LOADS {
        let settings = [true, false].map(|hash| DRAINERS.map(|drainers| (hash, drainers)));
        let mut found = [(); 2].map(|()| DRAINERS.map(|_| Vec::new()));
        for _ in 0..rounds.max(1) {
            for (row, places) in settings.iter().zip(&mut found) {
                for ((hash, drainers), place) in row.iter().zip(places) {
                    let of = (workers as usize, seconds);
                    place.push(measure(load, *hash, *drainers, of));
                }
            }
        }
        for (row, hash) in found.iter_mut().zip(["yes", "no"]) {
            print!("| {} | {hash} |", load.0);
            for rates in row {
                rates.sort_by(f64::total_cmp);
                print!(" {:.2} |", rates[rates.len() / 2]);
            }
            println!();
        }
    }
}
