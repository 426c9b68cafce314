//! Transactions of flodb beside those of RocksDB and fjall, in turns.
//!
//! ```text
//!   transactions one [ROUNDS] [OPERATIONS]          a plain put, and a transaction of one put
//!   transactions mixed [ROUNDS] [SECONDS] [THREADS] transactions of ten reads and two writes
//!   transactions loop ENGINE plain|txn OPERATIONS   one side of the first, for a profiler
//! ```
//!
//! Stores are made below the directory that `TRANSACTIONS_DIR` names, or that of temporary files.
//! `TRANSACTIONS_ENGINES=flodb,fjall` picks engines. Every round of `mixed` checks three things:
//! the sum of all balances, that each commit counts exactly once, and that there was no write skew.

mod engines;
#[cfg(feature = "rocks")]
mod rocks;

use engines::{Conflict, Engine, Fjall, Flodb, Txn};
#[cfg(feature = "rocks")]
use rocks::Rocks;
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

const KEYS: u64 = 1_000_000;
const READS: usize = 10;
const BEGIN_BALANCE: u64 = 1_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).map_or(default, |n| n.parse().unwrap());
    match args.first().map(String::as_str) {
        Some("one") => one(number(1, 5), number(2, 500_000)),
        Some("mixed") => mixed(number(1, 3), number(2, 5), number(3, 8)),
        Some("loop") => {
            let (is_txn, operations) = (args[2] == "txn", number(3, 1_000_000));
            let (name, sample) = match &*args[1] {
                "flodb" => (Flodb::NAME, write_alone::<Flodb>(is_txn, operations, 0)),
                #[cfg(feature = "rocks")]
                "rocksdb" => (Rocks::NAME, write_alone::<Rocks>(is_txn, operations, 0)),
                "fjall" => (Fjall::NAME, write_alone::<Fjall>(is_txn, operations, 0)),
                other => panic!("no engine {other}"),
            };
            println!("{name} {} {:.0?}", args[2], sample);
        }
        _ => panic!("transactions one|mixed|loop: see the head of main.rs"),
    }
}

fn is_wanted(engine: &str) -> bool {
    std::env::var("TRANSACTIONS_ENGINES")
        .map_or(true, |names| names.split(',').any(|name| name == engine))
}

/// A directory of its own, gone when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new(engine: &str) -> Dir {
        let base =
            std::env::var_os("TRANSACTIONS_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = base.join(format!("{engine}-{}", std::process::id()));
        assert!(!dir.exists(), "{} is there", dir.display());
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Keys in an order without pattern: bits mixed one to one.
fn key(number: u64) -> [u8; 16] {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&x.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// CPU time of the thread or of the process in nanoseconds.
fn cpu_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Of one operation.
#[derive(Clone, Copy, Debug)]
struct Sample {
    wall_ns: f64,
    thread_cpu_ns: f64,
    process_cpu_ns: f64,
}

/// `operations` plain puts, or transactions of one put, by one thread into an empty store.
fn write_alone<E: Engine>(is_txn: bool, operations: u64, seed: u64) -> Sample {
    let dir = Dir::new(E::NAME);
    let engine = E::open(&dir.0);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut value = [0u8; 100];
    rng.fill(&mut value);
    let mut run = |operations: u64| {
        for _ in 0..operations {
            let key = key(rng.u64(..KEYS));
            value[..8].copy_from_slice(&rng.u64(..).to_le_bytes());
            if is_txn {
                let mut txn = engine.begin();
                txn.put(&key, &value);
                assert!(txn.commit().is_ok(), "a blind write conflicts with nothing");
            } else {
                engine.put(&key, &value);
            }
        }
    };
    run(operations / 10);
    let before = (cpu_ns(ClockId::ThreadCPUTime), cpu_ns(ClockId::ProcessCPUTime));
    let begin = Instant::now();
    run(operations);
    let n = operations as f64;
    let sample = Sample {
        wall_ns: begin.elapsed().as_nanos() as f64 / n,
        thread_cpu_ns: (cpu_ns(ClockId::ThreadCPUTime) - before.0) / n,
        process_cpu_ns: (cpu_ns(ClockId::ProcessCPUTime) - before.1) / n,
    };
    // All of it is there.
    let mut check = fastrand::Rng::with_seed(seed);
    let mut filled = [0u8; 100];
    check.fill(&mut filled);
    let txn = engine.begin();
    for _ in 0..1_000 {
        let key = key(check.u64(..KEYS));
        check.u64(..);
        assert_eq!(txn.get(&key, |value| value[8..] == filled[8..]), Some(true));
    }
    sample
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], *values.last().unwrap())
}

fn one(rounds: u64, operations: u64) {
    println!("one thread, 16-byte keys of {KEYS}, 100-byte values, nothing synced");
    println!("{rounds} rounds of {operations} operations, engines and kinds in turn");
    let mut samples: Vec<(&str, [Vec<Sample>; 2])> = Vec::new();
    fn round<E: Engine>(samples: &mut Vec<(&str, [Vec<Sample>; 2])>, round: u64, operations: u64) {
        if !is_wanted(E::NAME) {
            return;
        }
        if round == 0 {
            println!("{}: {}", E::NAME, E::VERSION);
            samples.push((E::NAME, Default::default()));
        }
        let of_engine = samples.iter_mut().find(|(name, _)| *name == E::NAME).unwrap();
        // The first one alternates.
        for kind in [round % 2, 1 - round % 2] {
            let sample = write_alone::<E>(kind == 1, operations, round);
            eprintln!("round {round} {} {} {sample:.0?}", E::NAME, ["plain", "txn"][kind as usize]);
            of_engine.1[kind as usize].push(sample);
        }
    }
    for at in 0..rounds {
        round::<Flodb>(&mut samples, at, operations);
        #[cfg(feature = "rocks")]
        round::<Rocks>(&mut samples, at, operations);
        round::<Fjall>(&mut samples, at, operations);
    }
    println!("per operation: median (least - most)");
    println!("| engine | measure | plain put | transaction of one put | ratio, of pairs |");
    println!("|---|---|---|---|---|");
    type Measure = fn(&Sample) -> f64;
    let measures: [(&str, Measure); 3] = [
        ("wall ns", |sample| sample.wall_ns),
        ("CPU ns of the thread", |sample| sample.thread_cpu_ns),
        ("CPU ns of the process", |sample| sample.process_cpu_ns),
    ];
    for (name, [plain, txn]) in &samples {
        for (what, of) in measures {
            let show = |(median, least, most): (f64, f64, f64), digits: usize| {
                format!("{median:.digits$} ({least:.digits$} - {most:.digits$})")
            };
            let ratios = plain.iter().zip(txn).map(|(plain, txn)| of(txn) / of(plain)).collect();
            println!(
                "| {name} | {what} | {} | {} | {} |",
                show(spread(plain.iter().map(of).collect()), 0),
                show(spread(txn.iter().map(of).collect()), 0),
                show(spread(ratios), 2),
            );
        }
    }
}

/// Balance, and how often it was written.
fn account(value: &[u8]) -> (u64, u64) {
    let number = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap());
    (number(0), number(8))
}

fn value_of((balance, version): (u64, u64)) -> [u8; 100] {
    let mut value = [0x5a; 100];
    value[..8].copy_from_slice(&balance.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u64,
    conflicts: u64,
}

/// Reads ten accounts, and moves one from the first to the second.
fn transfer(txn: &mut impl Txn, numbers: &[u64; READS]) {
    let mut accounts = [(0, 0); READS];
    for (account_of, number) in accounts.iter_mut().zip(numbers) {
        *account_of = txn.get(&key(*number), account).expect("each key is there");
    }
    let (from, to) = (accounts[0], accounts[1]);
    let amount = from.0.min(1);
    txn.put(&key(numbers[0]), &value_of((from.0 - amount, from.1 + 1)));
    txn.put(&key(numbers[1]), &value_of((to.0 + amount, to.1 + 1)));
}

fn distinct(rng: &mut fastrand::Rng) -> [u64; READS] {
    loop {
        let numbers: [u64; READS] = std::array::from_fn(|_| rng.u64(..KEYS));
        let mut sorted = numbers;
        sorted.sort_unstable();
        if sorted.windows(2).all(|pair| pair[0] != pair[1]) {
            return numbers;
        }
    }
}

/// Runs `step` in `threads` threads for `time`. Returns the time that it took, and the counts.
fn in_threads(
    threads: u64,
    time: Duration,
    seed: u64,
    step: impl Fn(&mut fastrand::Rng, &mut Counts) + Sync,
) -> (f64, Counts) {
    let (barrier, is_over) = (Barrier::new(threads as usize + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, is_over, step) = (&barrier, &is_over, &step);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed << 8 | thread);
                    let mut counts = Counts::default();
                    barrier.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        step(&mut rng, &mut counts);
                    }
                    counts
                })
            })
            .collect();
        barrier.wait();
        let begin = Instant::now();
        // Nobody sends: it waits for the time alone.
        let (_sender, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(time);
        is_over.store(true, Ordering::Relaxed);
        let mut total = Counts::default();
        for handle in handles {
            let counts = handle.join().unwrap();
            total.commits += counts.commits;
            total.conflicts += counts.conflicts;
        }
        (begin.elapsed().as_secs_f64(), total)
    })
}

/// The result of a mixed round of an engine.
#[derive(Clone, Copy, Debug)]
struct Mixed {
    commits_per_s: f64,
    cpu_us: f64,
    conflicts: u64,
    commits: u64,
}

fn mixed_round<E: Engine>(round: u64, seconds: u64, threads: u64) -> Mixed {
    let dir = Dir::new(E::NAME);
    let engine = E::open(&dir.0);
    let entries: Vec<_> =
        (0..KEYS).map(|number| (key(number), value_of((BEGIN_BALANCE, 0)))).collect();
    for part in entries.chunks(1_000) {
        engine.put_all(part);
    }
    engine.settle();
    let step = |rng: &mut fastrand::Rng, counts: &mut Counts| {
        let numbers = distinct(rng);
        let mut txn = engine.begin();
        transfer(&mut txn, &numbers);
        match txn.commit() {
            Ok(()) => counts.commits += 1,
            Err(Conflict) => counts.conflicts += 1,
        }
    };
    let (_, warm) = in_threads(threads, Duration::from_secs(1), round * 2, step);
    let cpu = cpu_ns(ClockId::ProcessCPUTime);
    let (took, counts) = in_threads(threads, Duration::from_secs(seconds), round * 2 + 1, step);
    let cpu_us = (cpu_ns(ClockId::ProcessCPUTime) - cpu) / 1e3 / counts.commits as f64;
    // Nothing is lost or made, and each commit has written two accounts once.
    let (mut balance, mut versions) = (0, 0);
    let txn = engine.begin();
    for number in 0..KEYS {
        let (of_key, version) = txn.get(&key(number), account).expect("each key is there");
        balance += of_key;
        versions += version;
    }
    drop(txn);
    assert_eq!(balance, KEYS * BEGIN_BALANCE, "{}: the sum has changed", E::NAME);
    assert_eq!(versions, 2 * (warm.commits + counts.commits), "{}: lost updates", E::NAME);
    check_write_skew(&engine, round, threads);
    let Counts { commits, conflicts } = counts;
    Mixed { commits_per_s: commits as f64 / took, cpu_us, conflicts, commits }
}

/// One key of each pair is always 1: a transaction that sets a key to 0 has read 1 in the other.
/// Only an engine that validates reads keeps this.
fn check_write_skew<E: Engine>(engine: &E, seed: u64, threads: u64) {
    const PAIRS: u64 = 16;
    let pair = |number: u64| [key(KEYS + 2 * number), key(KEYS + 2 * number + 1)];
    for number in 0..PAIRS {
        for key in pair(number) {
            engine.put(&key, &[1]);
        }
    }
    let step = |rng: &mut fastrand::Rng, counts: &mut Counts| {
        let keys = pair(rng.u64(..PAIRS));
        let mut txn = engine.begin();
        // A transaction that sees a broken pair must not commit.
        let values = keys.map(|key| txn.get(&key, |value| value[0]).unwrap());
        std::thread::yield_now();
        match values {
            [1, 1] => txn.put(&keys[rng.usize(..2)], &[0]),
            _ => keys.iter().zip(values).filter(|(_, value)| *value == 0).for_each(|(key, _)| {
                txn.put(key, &[1]);
            }),
        }
        if txn.commit().is_err() {
            counts.conflicts += 1;
            return;
        }
        assert_ne!(values, [0, 0], "{}: write skew", E::NAME);
        counts.commits += 1;
    };
    let (_, counts) = in_threads(threads, Duration::from_millis(500), !seed, step);
    assert!(counts.commits > 0 && counts.conflicts > 0, "they never met: {counts:?}");
    let txn = engine.begin();
    for number in 0..PAIRS {
        let values = pair(number).map(|key| txn.get(&key, |value| value[0]).unwrap());
        assert_ne!(values, [0, 0], "{}: write skew", E::NAME);
    }
}

fn mixed(rounds: u64, seconds: u64, threads: u64) {
    println!(
        "{threads} threads, transactions of {READS} reads and 2 writes over {KEYS} keys, uniform, \
         serializable, nothing synced"
    );
    println!("{rounds} rounds of {seconds} s, engines in turn");
    let mut all: Vec<(&str, Vec<Mixed>)> = Vec::new();
    fn round<E: Engine>(all: &mut Vec<(&str, Vec<Mixed>)>, at: u64, seconds: u64, threads: u64) {
        if !is_wanted(E::NAME) {
            return;
        }
        if at == 0 {
            println!("{}: {}", E::NAME, E::VERSION);
            all.push((E::NAME, Vec::new()));
        }
        let mixed = mixed_round::<E>(at, seconds, threads);
        eprintln!("round {at} {} {mixed:.1?}", E::NAME);
        all.iter_mut().find(|(name, _)| *name == E::NAME).unwrap().1.push(mixed);
    }
    for at in 0..rounds {
        round::<Flodb>(&mut all, at, seconds, threads);
        #[cfg(feature = "rocks")]
        round::<Rocks>(&mut all, at, seconds, threads);
        round::<Fjall>(&mut all, at, seconds, threads);
    }
    println!("sums, versions and pairs were right after each round");
    println!(
        "| engine | commits/s: median (least - most) | flodb / it | CPU us of the process per \
         commit | conflicts / commits of all rounds |"
    );
    println!("|---|---|---|---|---|");
    let rates = |of: &[Mixed]| spread(of.iter().map(|mixed| mixed.commits_per_s).collect());
    let own = all.iter().find(|(name, _)| *name == Flodb::NAME).map(|(_, of)| rates(of).0);
    for (name, of) in &all {
        let (median, least, most) = rates(of);
        let (cpu, cpu_least, cpu_most) = spread(of.iter().map(|mixed| mixed.cpu_us).collect());
        let conflicts: u64 = of.iter().map(|mixed| mixed.conflicts).sum();
        let commits: u64 = of.iter().map(|mixed| mixed.commits).sum();
        let ratio = own.map_or("-".to_owned(), |own| format!("{:.2}", own / median));
        println!(
            "| {name} | {median:.0} ({least:.0} - {most:.0}) | {ratio} | {cpu:.1} \
             ({cpu_least:.1} - {cpu_most:.1}) | {conflicts} / {commits} |"
        );
    }
}
