//! Where to cut sorted logs so that the parts have about as many bytes.
//!
//! The tables' indexes say about how many bytes lie before a key. A key with a share of them is
//! found byte by byte, by halving: some hundred looks at the indexes, and no block is read. What is
//! in memory alone (a log that nobody has flushed) has no index; then every key is looked at once,
//! and some are remembered.

use crate::error::Result;
use crate::id::DirId;
use crate::layers::Merged;
use crate::record::Key;
use keyrack_flodb::Db;

/// Bytes of a cut, at most: a directory, and enough of a name to tell neighbours apart.
const CUT_BYTES_MAX: usize = 64;
/// It is not worth looking closer: about a block.
const CLOSE_BYTES: u64 = 8 << 10;
/// Of the keys in memory, one in so many is remembered.
const SAMPLE: u64 = 64;

pub(super) fn cuts(logs: &[Db], parts: u32) -> Result<Vec<Vec<u8>>> {
    let first = Key::node(DirId::ROOT).to_vec();
    let before =
        |key: &[u8]| -> u64 { logs.iter().map(|log| log.approximate_size(&first, key)).sum() };
    let total = before(&[0xff; CUT_BYTES_MAX]);
    if total < u64::from(parts) * CLOSE_BYTES || has_memory(logs) {
        return by_sample(logs, &first, parts);
    }
    let share = |part: u32| total / u64::from(parts) * u64::from(part);
    Ok((1..parts).map(|part| key_at(&before, share(part))).collect())
}

/// A key with about so many bytes before it.
fn key_at(before: &dyn Fn(&[u8]) -> u64, bytes: u64) -> Vec<u8> {
    let mut key = Vec::new();
    while key.len() < CUT_BYTES_MAX {
        // The last byte with which no more than that lies before.
        let (mut low, mut high) = (0_u8, 0xff_u8);
        key.push(0);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            *key.last_mut().unwrap_or(&mut 0) = middle;
            if before(&key) <= bytes { low = middle } else { high = middle - 1 }
        }
        *key.last_mut().unwrap_or(&mut 0) = low;
        if bytes.saturating_sub(before(&key)) < CLOSE_BYTES {
            break;
        }
    }
    key
}

/// Whether much of a log is in memory.
fn has_memory(logs: &[Db]) -> bool {
    logs.iter().any(|log| {
        let mut entries = 0.0;
        log.stats(&mut |name, value| {
            if name == "memory_entries" {
                entries = value;
            }
        });
        entries > 1000.0
    })
}

fn by_sample(logs: &[Db], first: &[u8], parts: u32) -> Result<Vec<Vec<u8>>> {
    let mut walk = Merged::new(logs, first, None)?;
    let mut sample: Vec<Vec<u8>> = Vec::new();
    let mut count = 0_u64;
    while walk.next()? {
        if count.is_multiple_of(SAMPLE) {
            sample.push(walk.key().to_vec());
        }
        count += 1;
    }
    let at = |part: u32| (sample.len() as u64 * u64::from(part) / u64::from(parts)) as usize;
    let last = vec![0xff; CUT_BYTES_MAX];
    Ok((1..parts)
        .map(|part| sample.get(at(part)).cloned().unwrap_or_else(|| last.clone()))
        .collect())
}
