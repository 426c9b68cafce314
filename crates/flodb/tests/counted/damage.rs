//! Damage at rest: every byte of every file of a store, files cut at every length, sectors of
//! zeros, files that are missing or too many. Every read is right, or an error with the file;
//! bytes that the log lost at its end are counted; and no damage makes the store ask for much
//! memory.

use super::allocator::{bytes_in, turn};
use keyrack_flodb::{Batch, Compression, Db, Error, Options, WriteOptions};
use keyrack_testkit::random::is_brief;
use keyrack_vfs::{CrashPolicy, FileKind, Fs, MemFs, OpenOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DIR: &str = "/store";

/// More than an opening of so small a store asks for, and far less than a length that is read from
/// a damaged file could be.
const PIECE_BYTES_MAX: usize = 1 << 20;
const PEAK_BYTES_MAX: usize = 8 << 20;

/// One damage of so many is tried, fewer where everything takes many times as long.
fn stride() -> usize {
    if is_brief() { 11 } else { 1 }
}

fn options() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 4 << 10,
        block_bytes: 256,
        compression: vec![
            Compression::None,
            Compression::Lz4,
            Compression::Snappy,
            Compression::Zstd(1),
        ],
        table_bytes: 1500,
        cache_bytes: 1 << 16,
        compaction_threads: 0,
        ..Options::default()
    }
}

fn open(fs: &MemFs) -> Result<Db, Error> {
    Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options())
}

/// A store, and what may be in it.
struct Sample {
    disk: MemFs,
    /// Its content after each write that is perhaps lost, the first one without any of them.
    states: Vec<Model>,
    /// Whether it was closed: then nothing may be lost.
    closed: bool,
    /// Whether the end of the log may be missing without a trace.
    silent: bool,
}

/// A store with tables in the last level and in level 0, and with a log.
fn sample(closed: bool) -> Sample {
    let disk = MemFs::new();
    let db = open(&disk).unwrap();
    let mut model = Model::new();
    let mut put = |db: &Db, n: u32, round: u8, sync: bool| {
        let (key, value) = (format!("key{n:03}").into_bytes(), vec![round; 20 + n as usize % 50]);
        db.put_with(&key, &value, WriteOptions { sync }).unwrap();
        model.insert(key, value);
        model.clone()
    };
    (0..70).for_each(|n| drop(put(&db, n, 1, false)));
    db.compact_range(None, None).unwrap();
    (20..40).for_each(|n| drop(put(&db, n, 2, false)));
    db.flush().unwrap();
    (30..35).for_each(|n| drop(put(&db, n, 3, false)));
    db.flush().unwrap();
    let mut states = vec![put(&db, 100, 4, true)];
    (33..60).for_each(|n| states.push(put(&db, n, 5, false)));
    let mut batch = Batch::new();
    let mut last = states.last().unwrap().clone();
    for n in 0..8_u32 {
        let key = format!("key{:03}", 7 * n).into_bytes();
        batch.delete(&key);
        last.remove(&key);
    }
    db.write(&batch, WriteOptions::default()).unwrap();
    states.push(last);
    let disk = if closed {
        db.close().unwrap();
        disk
    } else {
        disk.process_crash_image()
    };
    if closed {
        states.drain(..states.len() - 1);
    }
    Sample { disk: disk.crash_image(0, CrashPolicy::KeepAll), states, closed, silent: false }
}

fn copy(disk: &MemFs) -> MemFs {
    disk.crash_image(0, CrashPolicy::KeepAll)
}

/// All files but the lock.
fn files(disk: &MemFs) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for dir in [Path::new(DIR).to_owned(), Path::new(DIR).join("log")] {
        for entry in disk.list(&dir).unwrap() {
            if entry.kind == FileKind::File && entry.name != "LOCK" {
                files.push(dir.join(entry.name));
            }
        }
    }
    files
}

fn replace(disk: &MemFs, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, &OpenOptions::new().write(true).create(true).truncate(true));
    file.unwrap().write_at(0, bytes).unwrap();
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It is all there.
    Whole,
    /// The end of the log is gone, and that is counted.
    Dropped,
    /// An error.
    Refused,
}

/// Opens a damaged store and reads everything.
fn judge(sample: &Sample, disk: &MemFs, what: &str) -> Outcome {
    let mut outcome = Outcome::Refused;
    let (largest, peak) = bytes_in(|| outcome = read(sample, disk, what));
    assert!(largest <= PIECE_BYTES_MAX, "{what}: {largest} bytes at once");
    assert!(peak <= PEAK_BYTES_MAX, "{what}: {peak} bytes");
    outcome
}

fn clean(error: &Error, what: &str) {
    match error {
        Error::Corruption { path, .. } => {
            assert!(path.starts_with(DIR), "{what}: {error}");
        }
        // A file that is gone.
        Error::Io(cause) => assert!(cause.is_not_found(), "{what}: {error}"),
        error => panic!("{what}: {error}"),
    }
}

fn read(sample: &Sample, disk: &MemFs, what: &str) -> Outcome {
    let db = match open(disk) {
        Ok(db) => db,
        Err(error) => {
            clean(&error, what);
            return Outcome::Refused;
        }
    };
    let mut failed = false;
    let mut note = |error: Error| {
        clean(&error, what);
        failed = true;
    };
    let mut found = Model::new();
    let mut walk = || -> Result<(), Error> {
        let mut iter = db.iter()?;
        iter.seek_first()?;
        while let Some((key, value)) = iter.entry() {
            found.insert(key.to_vec(), value.to_vec());
            iter.next()?;
        }
        Ok(())
    };
    let walked = walk().map_err(&mut note).is_ok();
    let mut fitting: Vec<&Model> = sample.states.iter().collect();
    if walked {
        fitting.retain(|state| **state == found);
    } else {
        let begins = |state: &Model| found.iter().all(|(key, value)| state.get(key) == Some(value));
        fitting.retain(|state| begins(state));
    }
    assert!(!fitting.is_empty(), "{what}: a walk gives wrong data");
    for n in 0..110 {
        let key = format!("key{n:03}").into_bytes();
        match db.get(&key) {
            Ok(value) => fitting.retain(|state| state.get(&key) == value.as_ref()),
            Err(error) => note(error),
        }
    }
    assert!(!fitting.is_empty(), "{what}: gets give wrong data");
    let is_whole = std::ptr::eq(fitting[fitting.len() - 1], sample.states.last().unwrap());
    if failed {
        Outcome::Refused
    } else if is_whole {
        Outcome::Whole
    } else {
        let dropped = db.property("keyrack.log_dropped_bytes");
        // In a segment whose file had an earlier life, nothing tells the last record, once it is
        // damaged, from what that life has left.
        let only_last = sample.states.len().checked_sub(2).map(|at| &sample.states[at]);
        let is_only_last =
            only_last.is_some_and(|last| std::ptr::eq(fitting[fitting.len() - 1], last));
        assert!(
            dropped.is_some_and(|bytes| bytes != "0") || is_only_last || sample.silent,
            "{what}: dropped in silence"
        );
        assert!(!sample.closed, "{what}: dropped what was closed");
        Outcome::Dropped
    }
}

/// Judges each damage of each file; counts of whole, dropped and refused.
fn judge_all(
    sample: &Sample,
    damages: impl Fn(&Path, &[u8]) -> Vec<(String, Vec<u8>)>,
) -> [usize; 3] {
    let mut counts = [0; 3];
    for path in files(&sample.disk) {
        let bytes = sample.disk.read(&path).unwrap();
        for (index, (what, damaged)) in damages(&path, &bytes).into_iter().enumerate() {
            if index % stride() != 0 || damaged == bytes {
                continue;
            }
            let image = copy(&sample.disk);
            replace(&image, &path, &damaged);
            let outcome = judge(sample, &image, &format!("{}: {what}", path.display()));
            counts[outcome as usize] += 1;
        }
    }
    counts
}

/// Places in a file worth damaging: all, but few in the free space of the log.
fn places(path: &Path, bytes: &[u8]) -> Vec<usize> {
    let is_log = path.extension().is_some_and(|name| name == "wal");
    let is_free = |at: usize| {
        let near = &bytes[at.saturating_sub(40)..(at + 40).min(bytes.len())];
        near.iter().all(|byte| *byte == 0)
    };
    (0..bytes.len()).filter(|at| !is_log || at % 97 == 0 || !is_free(*at)).collect()
}

#[test]
fn a_sample_is_whole_and_has_every_kind_of_file() {
    let _turn = turn();
    for closed in [false, true] {
        let sample = sample(closed);
        assert_eq!(judge(&sample, &copy(&sample.disk), "nothing"), Outcome::Whole);
        let names: Vec<_> = files(&sample.disk);
        let with =
            |end: &str| names.iter().filter(|path| path.to_string_lossy().ends_with(end)).count();
        assert!(with(".table") >= 3 && with(".wal") >= 2, "{names:?}");
        assert!(with("CURRENT") == 1, "{names:?}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_or_a_counted_drop_and_never_wrong_data() {
    let _turn = turn();
    for closed in [false, true] {
        let sample = sample(closed);
        let counts = judge_all(&sample, |path, bytes| {
            let flip = |at: usize| {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1 << (at % 8);
                (format!("byte {at}"), damaged)
            };
            places(path, bytes).into_iter().map(flip).collect()
        });
        assert!(counts[Outcome::Refused as usize] > 5000 / stride(), "{counts:?}");
        assert_eq!(counts[Outcome::Dropped as usize] > 0, !closed, "{counts:?}");
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_a_counted_drop_and_never_wrong_data() {
    let _turn = turn();
    let sample = sample(false);
    let counts = judge_all(&sample, |path, bytes| {
        let cut = |len: usize| (format!("cut to {len} bytes"), bytes[..len].to_vec());
        let mut cuts: Vec<_> = places(path, bytes).into_iter().map(cut).collect();
        cuts.insert(0, ("cut to nothing".to_owned(), Vec::new()));
        cuts.push(("one byte more".to_owned(), [bytes, b"x"].concat()));
        cuts
    });
    assert!(counts[Outcome::Refused as usize] > 5000 / stride(), "{counts:?}");
}

#[test]
fn sectors_of_zeros_or_of_another_file_are_never_wrong_data() {
    let _turn = turn();
    let sample = sample(false);
    let other = sample.disk.read(&files(&sample.disk)[0]).unwrap();
    judge_all(&sample, |_, bytes| {
        let mut damages = Vec::new();
        for (at, from) in (0..bytes.len()).step_by(512).enumerate() {
            let to = (from + 512).min(bytes.len());
            let mut zeros = bytes.to_vec();
            zeros[from..to].fill(0);
            damages.push((format!("sector {at} of zeros"), zeros));
            let mut strange = bytes.to_vec();
            strange[from..to]
                .iter_mut()
                .zip(other.iter().cycle())
                .for_each(|(to, from)| *to = *from);
            damages.push((format!("sector {at} of another file"), strange));
            // Every length in it becomes huge.
            let mut ones = bytes.to_vec();
            ones[from..to].fill(0xFF);
            damages.push((format!("sector {at} of ones"), ones));
        }
        damages
    });
}

#[test]
fn a_missing_file_is_an_error_or_a_counted_drop() {
    let _turn = turn();
    let mut sample = sample(false);
    let mut refused = 0;
    for path in files(&sample.disk) {
        // What was synced stands in the files before the newest; no mark tells of later writes.
        sample.silent = path.extension().is_some_and(|name| name == "wal");
        let image = copy(&sample.disk);
        image.remove_file(&path).unwrap();
        let outcome = judge(&sample, &image, &format!("without {}", path.display()));
        refused += usize::from(outcome == Outcome::Refused);
    }
    // Two tables, the manifest, and what names it. A table may be one that is merged already.
    assert!(refused >= 4, "{refused}");
}

#[test]
fn extra_files_change_nothing() {
    let _turn = turn();
    let sample = sample(false);
    let table = files(&sample.disk).into_iter().find(|path| path.extension().is_some()).unwrap();
    let table = sample.disk.read(&table).unwrap();
    for name in ["000999.table", "MANIFEST-000999", "CURRENT.tmp", "notes.txt", "log/segment.new"] {
        for bytes in [&b""[..], b"garbage", &table] {
            let image = copy(&sample.disk);
            replace(&image, &Path::new(DIR).join(name), bytes);
            assert_eq!(judge(&sample, &image, name), Outcome::Whole, "{name}");
        }
    }
}
