//! Tests of tables: everything is compared with the sorted list that a table was made of.

mod cursors;
mod damage;
mod faults;
mod fixtures;
mod fuzz;
mod lookups;
mod salvage;
mod threads;
mod writing;

use super::{ReadOptions, ReaderOptions, Table, TableMeta, TableOptions, TableWriter};
use crate::cache::BlockCache;
use crate::compress::Compression;
use crate::error::{Error, Result};
use crate::key::tests::{backwards, internal};
use crate::key::{self, Comparator, Compare, Kind};
use crate::range_tombstones::RangeTombstone;
use keyrack_testkit::random::Draw;
use keyrack_vfs::{Fs, MemFs, OpenOptions};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// An internal key and a value.
type Entry = (Vec<u8>, Vec<u8>);

const PATH: &str = "/000007.table";
const NUMBER: u64 = 7;

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd(1)];

fn path() -> &'static Path {
    Path::new(PATH)
}

fn range_delete(begin: &[u8], end: &[u8], sequence: u64) -> RangeTombstone {
    RangeTombstone { begin: begin.to_vec(), end: end.to_vec(), sequence }
}

/// Writes a table. Range deletes may stand among the entries here, not in the table.
fn try_write(fs: &dyn Fs, options: &TableOptions, entries: &[Entry]) -> Result<TableMeta> {
    let file = fs.open(path(), &OpenOptions::new().write(true).create(true))?;
    let mut writer = TableWriter::new(file, options.clone())?;
    for (key, value) in entries {
        match key::parse(key) {
            Some(key) if key.kind == Kind::DeleteRange => {
                writer.add_range(range_delete(key.user, value, key.sequence))?;
            }
            _ => writer.add(key, value)?,
        }
    }
    assert_eq!(writer.entries(), entries.len() as u64);
    writer.finish()
}

/// A file system with a table of these entries.
fn written(options: &TableOptions, entries: &[Entry]) -> (MemFs, TableMeta) {
    let fs = MemFs::new();
    let meta = try_write(&fs, options, entries).unwrap();
    (fs, meta)
}

/// A file system with these bytes as the table.
fn file_of(bytes: &[u8]) -> MemFs {
    let fs = MemFs::new();
    let file = fs.open(path(), &OpenOptions::new().write(true).create(true)).unwrap();
    file.write_at(0, bytes).unwrap();
    fs
}

fn try_open(fs: &dyn Fs, cache_bytes: usize, order: &Comparator) -> Result<Arc<Table>> {
    let cache = Arc::new(BlockCache::new(cache_bytes));
    Table::open(fs, path(), NUMBER, &reading(&cache, order)).map(Arc::new)
}

fn reading(cache: &Arc<BlockCache>, order: &Comparator) -> ReaderOptions {
    ReaderOptions { cache: Arc::clone(cache), ..ReaderOptions::alone(order.clone()) }
}

fn open(fs: &dyn Fs) -> Arc<Table> {
    try_open(fs, 1 << 20, &Comparator::Bytewise).unwrap()
}

fn get(table: &Table, user: &[u8], sequence: u64) -> Result<Option<(Kind, u64, Vec<u8>)>> {
    let hash = crate::checksum::hash(user);
    let options = ReadOptions::default();
    let visit = |kind, sequence, value: &[u8]| (kind, sequence, value.to_vec());
    table.get(user, hash, sequence, &options, None, visit)
}

/// What a lookup in a sorted list finds.
fn expected(
    order: &Comparator,
    entries: &[Entry],
    user: &[u8],
    sequence: u64,
) -> Option<(Kind, u64, Vec<u8>)> {
    let target = internal(user, sequence, Kind::LAST);
    let at = entries.partition_point(|(key, _)| order.internal(key, &target) == Ordering::Less);
    let (key, value) = entries.get(at)?;
    let parsed = key::parse(key).unwrap();
    (parsed.user == user).then(|| (parsed.kind, parsed.sequence, value.clone()))
}

fn sort(entries: &mut Vec<Entry>, order: &Comparator) {
    entries.sort_by(|a, b| order.internal(&a.0, &b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
}

/// User keys of all sorts: empty, short, with much in common, ending in zeros and in 0xff.
fn random_user(draw: &mut Draw) -> Vec<u8> {
    match draw.below(8) {
        0 => (0..draw.below(4)).map(|_| *draw.one_of(&[0, 1, b'a', 0xff])).collect(),
        1 => [vec![b'p'; 1024], draw.bytes(2)].concat(),
        2..5 => format!("user{:06}", draw.below(300)).into_bytes(),
        _ => {
            let len = draw.below(20);
            (0..len).map(|_| *draw.one_of(b"abc")).collect()
        }
    }
}

fn random_value(draw: &mut Draw) -> Vec<u8> {
    match draw.below(10) {
        0 => Vec::new(),
        1 => vec![0xff; draw.below(3000)],
        2..5 => b"some words ".repeat(draw.below(12)),
        _ => {
            let len = draw.below(150);
            draw.bytes(len)
        }
    }
}

/// About `count` entries, some users with many versions.
fn random_entries(draw: &mut Draw, count: usize, order: &Comparator) -> Vec<Entry> {
    let mut entries = Vec::new();
    while entries.len() < count {
        let user = random_user(draw);
        let versions = if draw.below(10) == 0 { draw.below(60) } else { 1 + draw.below(2) };
        for _ in 0..versions {
            let sequence = 1 + draw.below(1_000) as u64;
            let (kind, value) = match draw.below(12) {
                0 | 1 => (Kind::Delete, Vec::new()),
                _ => (Kind::Put, random_value(draw)),
            };
            entries.push((internal(&user, sequence, kind), value));
        }
    }
    sort(&mut entries, order);
    entries
}

fn random_options(draw: &mut Draw) -> TableOptions {
    TableOptions {
        block_bytes: *draw.one_of(&[1, 200, 1_000, 4_096, 65_536]),
        restart_interval: *draw.one_of(&[1, 2, 7, 16, 1_000]),
        compression: *draw.one_of(&COMPRESSIONS),
        filter_bits_per_key: *draw.one_of(&[0, 4, 10, 20]),
        ..TableOptions::default()
    }
}

fn random_read_options(draw: &mut Draw) -> ReadOptions {
    ReadOptions {
        fill_cache: draw.below(2) == 0,
        verify_checksums: draw.below(2) == 0,
        readahead_bytes_max: *draw.one_of(&[0, 100, 10_000, 256 << 10]),
    }
}

/// By length first: neighbours need not have anything in common.
struct ByLength;

impl Compare for ByLength {
    fn name(&self) -> &str {
        "test.by-length"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

fn orders() -> [Comparator; 3] {
    [Comparator::Bytewise, backwards(), Comparator::Custom(Arc::new(ByLength))]
}

fn is_corruption<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Corruption { path: found, .. }) if found == path())
}
