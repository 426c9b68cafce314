//! Stores to damage, and what was in them.

use crate::support::{DIR, Model, idle, is_table};
use keyrack_flodb::{Compression, Db, Options};
use keyrack_testkit::damage::{self, Directory};
use keyrack_testkit::random::Draw;
use keyrack_vfs::{CrashPolicy, Fs, MemFs, OpenOptions, Operation};
use std::path::{Path, PathBuf};

/// The operations that change a disk.
pub(crate) const CHANGES: [Operation; 8] = [
    Operation::Write,
    Operation::Sync,
    Operation::SyncDir,
    Operation::Flush,
    Operation::Rename,
    Operation::Link,
    Operation::RemoveFile,
    Operation::CreateDir,
];

pub(crate) fn options() -> Options {
    Options {
        table_bytes: 4 << 10,
        block_bytes: 512,
        level0_tables: 4,
        level_base_bytes: 16 << 10,
        compression: vec![Compression::None, Compression::Lz4],
        ..idle()
    }
}

pub(crate) fn open(fs: &MemFs) -> Db {
    crate::support::open(fs, options())
}

/// Some puts and removals.
pub(crate) fn scribble(db: &Db, model: &mut Model, draw: &mut Draw, writes: usize) {
    for _ in 0..writes {
        let key = format!("key{:04}", draw.below(400)).into_bytes();
        if draw.below(5) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = format!("{} {}", draw.next(), "v".repeat(draw.below(60))).into_bytes();
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// A closed store with tables of three levels and a log, and what is in it.
pub(crate) fn sample(seed: u64) -> (MemFs, Model) {
    let (disk, model, db) = open_sample(seed, options());
    db.close().unwrap();
    (disk, model)
}

/// The same store without a close, whose log still has all records.
pub(crate) fn killed_sample(seed: u64) -> (MemFs, Model) {
    let (disk, model, _db) = open_sample(seed, Options { segment_bytes: 1 << 20, ..options() });
    (copy(&disk), model)
}

fn open_sample(seed: u64, options: Options) -> (MemFs, Model, Db) {
    let (disk, mut model, mut draw) = (MemFs::new(), Model::new(), Draw::new(seed));
    let db = crate::support::open(&disk, options);
    scribble(&db, &mut model, &mut draw, 700);
    db.compact_range(None, None).unwrap();
    scribble(&db, &mut model, &mut draw, 200);
    db.flush().unwrap();
    scribble(&db, &mut model, &mut draw, 100);
    db.flush().unwrap();
    scribble(&db, &mut model, &mut draw, 100);
    (disk, model, db)
}

/// Another disk with the same on it.
pub(crate) fn copy(disk: &MemFs) -> MemFs {
    disk.crash_image(0, CrashPolicy::KeepAll)
}

/// All files of the store but its lock, with their contents.
pub(crate) fn files(disk: &MemFs) -> Directory {
    let mut files = damage::directory(disk, Path::new(DIR));
    files.retain(|path, _| !path.ends_with("LOCK"));
    files
}

/// The tables, oldest number first.
pub(crate) fn tables(disk: &MemFs) -> Vec<PathBuf> {
    let of_table = |path: &PathBuf| is_table(path) && path.parent() == Some(Path::new(DIR));
    files(disk).into_keys().filter(of_table).collect()
}

/// The segments of the log, by position.
pub(crate) fn segments(disk: &MemFs) -> Vec<PathBuf> {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|it| it == "wal");
    files(disk).into_keys().filter(is_segment).collect()
}

pub(crate) fn replace(disk: &MemFs, path: &Path, bytes: &[u8]) {
    let fresh = OpenOptions::new().write(true).create(true).truncate(true);
    disk.open(path, &fresh).unwrap().write_at(0, bytes).unwrap();
}

pub(crate) fn flip(disk: &MemFs, path: &Path, at: usize) {
    let mut bytes = disk.read(path).unwrap();
    bytes[at] ^= 0x41;
    replace(disk, path, &bytes);
}
