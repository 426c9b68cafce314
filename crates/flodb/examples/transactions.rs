//! The cost of transactions, and that of plain puts beside them.
//!
//! ```text
//!   cargo run --release -p keyrack-flodb --example transactions -- DIRECTORY THREADS ROUNDS
//! ```
//!
//! A store of a million keys of 16 decimal digits with values of 100 bytes, in a new directory
//! under the given one. Each round has four parts: plain puts and transactions of one put, of one
//! thread; then transactions of ten gets and two puts of random keys, of all threads, serializable
//! and with snapshot isolation, which begin again after a conflict. Each part takes a second.
//! Printed are operations a second and microseconds of processor time for each.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use keyrack_flodb::{Db, Error, Isolation, Options, Result, Transaction, TransactionOptions};
use keyrack_measure::{Clock, usage};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const KEYS: u64 = 1_000_000;
const VALUE: [u8; 100] = [b'v'; 100];
const PART_NS: u64 = 1_000_000_000;

/// A sequence of random numbers, splitmix64.
struct Draw(u64);

impl Draw {
    fn key(&mut self) -> [u8; 16] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        key((mixed ^ mixed >> 27) % KEYS)
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn ten_and_two(transaction: &Transaction, draw: &mut Draw) -> Result<()> {
    for _ in 0..10 {
        transaction.get_with(&draw.key(), <[u8]>::len)?;
    }
    transaction.put(&draw.key(), &VALUE)?;
    transaction.put(&draw.key(), &VALUE)
}

/// Processor time of the process.
fn cpu_ns() -> u64 {
    let usage = usage::process();
    usage.user_ns + usage.system_ns
}

/// Runs an operation over and over in so many threads, for a second.
fn measure(name: &str, threads: u64, operation: impl Fn(&mut Draw) -> Result<()> + Sync) {
    let clock = Clock::calibrated();
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (begin, cpu) = (clock.ticks(), cpu_ns());
    thread::scope(|scope| {
        for thread in 0..threads {
            let (operation, is_over, count) = (&operation, &is_over, &count);
            scope.spawn(move || {
                let (mut draw, mut done) = (Draw(thread << 40 | begin), 0);
                while !is_over.load(Ordering::Relaxed) {
                    operation(&mut draw).expect("the store works");
                    done += 1;
                }
                count.fetch_add(done, Ordering::Relaxed);
            });
        }
        clock.wait_until(begin + clock.ticks_of_ns(PART_NS));
        is_over.store(true, Ordering::Relaxed);
    });
    let seconds = clock.ns_between(begin, clock.ticks()) as f64 / 1e9;
    let cpu_us = (cpu_ns() - cpu) as f64 / 1e3;
    let count = count.into_inner() as f64;
    println!("{name:32} {:10.0} /s {:8.3} us", count / seconds, cpu_us / count);
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or_else(|| Error::Usage("see the header".to_owned()));
    let (dir, threads, rounds) = (PathBuf::from(next()?), next()?, next()?);
    let number =
        |text: &str| text.parse::<u64>().map_err(|error| Error::Usage(format!("{text}: {error}")));
    let (threads, rounds) = (number(&threads)?, number(&rounds)?);
    let dir = dir.join("transactions-example");
    let db = Db::open(&dir, Options::default())?;
    (0..KEYS).try_for_each(|number| db.put(&key(number), &VALUE))?;
    db.flush()?;
    let options = |isolation| TransactionOptions { isolation, ..TransactionOptions::default() };
    for _ in 0..rounds {
        measure("put", 1, |draw| db.put(&draw.key(), &VALUE));
        measure("transaction of one put", 1, |draw| {
            let transaction = db.transaction();
            transaction.put(&draw.key(), &VALUE)?;
            transaction.commit()
        });
        for isolation in [Isolation::Serializable, Isolation::Snapshot] {
            measure(&format!("10 gets, 2 puts, {isolation:?}"), threads, |draw| {
                db.retry_with(options(isolation), usize::MAX, |it| ten_and_two(it, draw))
            });
        }
    }
    db.close()?;
    Db::destroy(&keyrack_vfs::RealFs, &dir)
}
