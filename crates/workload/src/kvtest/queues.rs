//! `conflictscan1`: short scans over queues that others keep moving.
//!
//! ```text
//!   thread i > 0:  queue i, keys  i (prefixlen bytes) | n (rangelen bytes), big endian
//!                  inserts rangesize keys; then inserts at the tail or removes at the head, as it
//!                  draws, with scansize to 2 rangesize keys between them
//!   thread 0:      draws a queue and scans its first scansize keys, over and over
//! ```
//!
//! A scan that a concurrent change could have torn is a conflict: it is scanned again until it is
//! not, and counted as an abort. Here a change is seen by content: the scan and its repetition
//! differ; the repetition is then the scan that has to be repeated. Keys never come back, so equal
//! content means that nothing changed between. The original reads the versions of the nodes that it
//! walked instead, and counts every write to such a node.
//!
//! Inserts and removals are checked, and the order of each scan. Nobody seeds a generator. A value
//! is 8 bytes of the key: the first 8 of the initial keys, the last 8 of later ones; those of a
//! shorter key are filled up with NUL bytes.

use super::check::{self, shown};
use super::client::{Client, Halt};
use super::random::Lcg;
use super::row::{Row, Value};
use super::scale::number;

struct Shape {
    prefix_bytes: usize,
    range_bytes: usize,
    range_keys: u64,
    scan_keys: u64,
}

impl Shape {
    fn of(client: &dyn Client) -> Result<Shape, Halt> {
        let or = |name, default| Ok(number(client, name)?.unwrap_or(default));
        let (prefix, range) = (or("prefixlen", 4)?, or("rangelen", 4)?);
        let (range_keys, scan_keys) = (or("rangesize", 100)?, or("scansize", 20)?);
        for (name, bytes) in [("prefixlen", prefix), ("rangelen", range)] {
            if !(1..=8).contains(&bytes) {
                return Err(Halt::failed(format!("parameter {name}: {bytes} is not in 1..=8")));
            }
        }
        if range < 8 && range_keys >= 1 << (8 * range) {
            let why = format!("{range_keys} keys do not fit into {range} bytes of rangelen");
            return Err(Halt::failed(format!("parameter rangesize: {why}")));
        }
        if scan_keys >= range_keys {
            let why = format!("{scan_keys} is not below the rangesize of {range_keys}");
            return Err(Halt::failed(format!("parameter scansize: {why}")));
        }
        let (prefix_bytes, range_bytes) = (prefix as usize, range as usize);
        Ok(Shape { prefix_bytes, range_bytes, range_keys, scan_keys })
    }

    fn key_bytes(&self) -> usize {
        self.prefix_bytes + self.range_bytes
    }

    /// The first key that queue `id` can have.
    fn first_key(&self, id: u64) -> Vec<u8> {
        let mut key = id.to_be_bytes()[8 - self.prefix_bytes..].to_vec();
        key.resize(self.key_bytes(), 0);
        key
    }
}

pub(crate) fn conflictscan1(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let shape = Shape::of(client)?;
    if client.threads() < 2 {
        return Err(Halt::failed("needs two threads or more: one scans what the others move"));
    }
    match client.id() {
        0 => scan(client, random, &shape),
        _ => work(client, random, &shape),
    }
}

/// The keys of a scan, one after another; all have the same length.
fn scan_into(
    client: &mut dyn Client,
    first: &[u8],
    shape: &Shape,
    keys: &mut Vec<u8>,
) -> Result<(), Halt> {
    keys.clear();
    let mut disorder = None;
    let mut last: Vec<u8> = Vec::new();
    client.scan(first, shape.scan_keys, &mut |key, _| {
        if !last.is_empty() && *last >= *key && disorder.is_none() {
            disorder = Some(format!("scan: got {} behind {}", shown(key), shown(&last)));
        }
        last.clear();
        last.extend_from_slice(key);
        keys.extend_from_slice(key);
    })?;
    disorder.map_or(Ok(()), |text| Err(Halt::failed(text)))
}

fn scan(client: &mut dyn Client, random: &mut Lcg, shape: &Shape) -> Result<(), Halt> {
    let queues = u64::from(client.threads()) - 1;
    let (mut scans, mut aborts) = (0, 0);
    let (mut keys, mut again) = (Vec::new(), Vec::new());
    while !client.expired(0) {
        scans += 1;
        let first = shape.first_key(1 + random.below(queues));
        scan_into(client, &first, shape, &mut keys)?;
        while !client.expired(0) {
            scan_into(client, &first, shape, &mut again)?;
            if keys == again {
                break;
            }
            aborts += 1;
            std::mem::swap(&mut keys, &mut again);
        }
    }
    let mut row = Row::new();
    row.set("keylen", Value::Count(shape.key_bytes() as u64));
    row.set("prefixlen", Value::Count(shape.prefix_bytes as u64));
    row.set("scansize", Value::Count(shape.scan_keys));
    row.set("scans", Value::Count(scans));
    row.set("aborts", Value::Count(aborts));
    client.report(row);
    Ok(())
}

fn work(client: &mut dyn Client, random: &mut Lcg, shape: &Shape) -> Result<(), Halt> {
    let mut head = shape.first_key(client.id().into());
    let mut tail = head.clone();
    let own = head[shape.prefix_bytes - 1];
    for _ in 0..shape.range_keys {
        check::insert(client, &tail, &first_8(&tail))?;
        increment(&mut tail);
    }
    client.wait_all()?;
    let (mut inserts, mut removes, mut size) = (0, 0, shape.range_keys);
    while size > 0 && !client.expired(0) {
        // A tail that has counted over into the prefix stays where it is, and the queue runs empty.
        let grows = tail[shape.prefix_bytes - 1] == own
            && size < shape.range_keys * 2
            && (size == shape.scan_keys || random.below(65_536) < 32_768);
        if grows {
            check::insert(client, &tail, &last_8(&tail))?;
            increment(&mut tail);
            inserts += 1;
            size += 1;
        } else {
            check::remove(client, &head)?;
            increment(&mut head);
            removes += 1;
            size -= 1;
        }
    }
    let mut row = Row::new();
    row.set("rangesize", Value::Count(shape.range_keys));
    row.set("inserts", Value::Count(inserts));
    row.set("removes", Value::Count(removes));
    client.report(row);
    Ok(())
}

fn first_8(key: &[u8]) -> [u8; 8] {
    std::array::from_fn(|i| key.get(i).copied().unwrap_or_default())
}

fn last_8(key: &[u8]) -> [u8; 8] {
    first_8(&key[key.len().saturating_sub(8)..])
}

/// Counts the number that ends `key` up by one, with carry.
fn increment(key: &mut [u8]) {
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
}
