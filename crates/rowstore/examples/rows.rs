//! How fast rows are put and read, what they take, and how long a recovery lasts.
//!
//! `cargo run --release -p keyrack-rowstore --example rows -- DIR [ROWS]` writes ROWS rows (10
//! million unless said otherwise) of 10 decimal digits under as long a key, in random order and in
//! batches of 16 with durability `os`; reads them in another random order; ends without a
//! checkpoint of the last of them, and opens the store again. It verifies what it reads.

use keyrack_measure::{Clock, usage};
use keyrack_rowstore::{Options, RowStore, Rows};
use keyrack_vfs::{Fs, RealFs};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes between two flushes.
const BATCH_ROWS: u64 = 16;

/// A permutation of the numbers below a power of two.
fn mix(n: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let n = (n ^ n >> (bits / 2)).wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    n ^ n >> (bits / 2)
}

fn key(n: u64) -> [u8; 10] {
    let mut key = [b'0'; 10];
    let mut rest = n;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Calls `work` for `0..rows` in a random order. Returns the seconds that it took.
fn each(clock: &Clock, rows: u64, seed: u64, mut work: impl FnMut(u64)) -> f64 {
    let bits = rows.next_power_of_two().ilog2().max(2);
    let start = clock.ticks();
    let all = (0..1 << bits).map(|n| mix(n ^ seed, bits)).filter(|n| *n < rows);
    all.for_each(&mut work);
    clock.ns_between(start, clock.ticks()) as f64 / 1e9
}

/// Bytes of memory of this process.
fn resident_bytes() -> u64 {
    let status = RealFs.read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map(PathBuf::from).ok_or("which directory?")?;
    let rows: u64 = arguments.next().map_or(Ok(10_000_000), |rows| rows.parse())?;
    let clock = Clock::calibrated();
    let mut out = std::io::stdout().lock();
    let open = || RowStore::open(Arc::new(RealFs), &dir, Options::default(), &|_| {});
    let store = open()?;
    let mut session = store.session()?;
    for round in ["insert", "overwrite"] {
        let (mut written, cpu) = (0, usage::thread_cpu_ns());
        let seconds = each(&clock, rows, 0, |n| {
            let put = session.put(&key(n), &key(n), 0, 0);
            written += u64::from(put.is_ok());
            if written % BATCH_ROWS == 0 {
                written -= u64::from(session.flush().is_err());
            }
        });
        assert_eq!(written, rows);
        let cpu = (usage::thread_cpu_ns() - cpu) as f64 / 1e9;
        let rate = rows as f64 / seconds / 1e6;
        writeln!(out, "{round}: {rate:.3} M/s, {:.0} ns CPU each", cpu / rows as f64 * 1e9)?;
    }
    session.flush()?;
    let mut good = 0;
    let seconds = each(&clock, rows, 0x5555, |n| {
        let found = session.get(&key(n), &mut |row| good += u64::from(row.value() == key(n)));
        debug_assert!(found.is_ok());
    });
    assert_eq!(good, rows);
    writeln!(out, "get: {:.3} M/s", rows as f64 / seconds / 1e6)?;
    writeln!(out, "memory: {} bytes a row", resident_bytes() / rows)?;
    store.stats(&mut |name, value| {
        let _ = writeln!(out, "  {name} {value}");
    });
    drop(session);
    Box::new(store).close()?;

    let start = clock.ticks();
    let store = open()?;
    let seconds = clock.ns_between(start, clock.ticks()) as f64 / 1e9;
    assert_eq!(store.len(), rows);
    writeln!(out, "recovery: {seconds:.2} s, {:?}", store.recovered())?;
    let start = clock.ticks();
    store.checkpoint()?;
    let seconds = clock.ns_between(start, clock.ticks()) as f64 / 1e9;
    writeln!(out, "checkpoint: {seconds:.2} s")?;
    Box::new(store).close()?;
    let start = clock.ticks();
    let store = open()?;
    let seconds = clock.ns_between(start, clock.ticks()) as f64 / 1e9;
    assert_eq!(store.len(), rows);
    writeln!(out, "recovery from the checkpoint alone: {seconds:.2} s")?;
    Ok(())
}
