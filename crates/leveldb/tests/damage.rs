//! Damaged directories: what is read is what was written, or it is said that it is not.
//!
//! Each kept directory is damaged in one place after another. Strict reading gives the right
//! entries, or an error that names a file. Lenient reading gives entries whose values were once
//! written, and lists what it left out if they are not the right ones. A cut of the newest log
//! between two records is the one damage that nobody can see.

use crate::support::{Entries, Files, fixture, read};
use keyrack_leveldb_reader::{Error, Mode};

const STORES: [&str; 3] = ["levels", "raw", "log"];

/// Bytes of a file that are damaged: each one of small files and of the ends, a few of the rest.
fn places(len: usize) -> impl Iterator<Item = usize> {
    let step = (len / 150).max(1) | 1;
    (0..len).filter(move |at| at % step == 0 || len - at < 50 || *at < 20)
}

#[derive(Default)]
struct Count {
    errors: usize,
    listed: usize,
    harmless: usize,
    silent: usize,
}

impl Count {
    /// Reads a damaged store in both ways.
    #[track_caller]
    fn check(&mut self, files: &Files, right: &Entries, what: &str) {
        match read(files, Mode::Strict) {
            Err(Error::Corruption { path, .. }) => {
                assert!(path.starts_with(crate::support::DIR), "{what}: {path:?}");
                self.errors += 1;
            }
            Err(error) => assert!(matches!(error, Error::Usage(_)), "{what}: {error}"),
            Ok(outcome) if outcome.entries == *right => self.harmless += 1,
            Ok(outcome) if !outcome.lost.is_empty() => {
                assert!(outcome.lost.iter().all(|lost| lost.is_cut_tail), "{what}");
                self.listed += 1;
            }
            Ok(_) => self.silent += 1,
        }
        match read(files, Mode::Lenient) {
            Err(Error::Io(error)) => panic!("{what}: {error}"),
            Err(_) => {}
            Ok(outcome) => {
                let is_right = outcome.entries == *right;
                let is_said = !outcome.lost.is_empty() || what.contains("cut");
                assert!(is_right || is_said, "{what}: silently wrong");
                for (key, value) in &outcome.entries {
                    assert!(was_written(key, value, right), "{what}: {key:?} = {value:?}");
                }
            }
        }
    }
}

/// Whether the value is one of those that the key had: they name their key.
fn was_written(key: &[u8], value: &[u8], right: &Entries) -> bool {
    let of_key = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix("key"));
    if let Some(number) = of_key.and_then(|number| number.parse::<u32>().ok()) {
        let name = format!(" of key {number} ");
        return String::from_utf8_lossy(value).contains(&name);
    }
    let versions: &[&[u8]] = &[b"the empty key", b"", b"value 1 of key 1 val"];
    versions.contains(&value) || right.iter().any(|(k, v)| k == key && v == value)
}

#[test]
fn a_flipped_bit_is_never_silent() {
    for name in STORES {
        let files = fixture(name);
        let right = read(&files, Mode::Strict).unwrap().entries;
        let mut count = Count::default();
        let mut places_tried = 0;
        for (index, (file, bytes)) in files.iter().enumerate() {
            for at in places(bytes.len()) {
                let mut damaged = files.clone();
                damaged[index].1[at] ^= 1 << (at % 8);
                count.check(&damaged, &right, &format!("{name}/{file}: a bit of byte {at}"));
                places_tried += 1;
            }
        }
        assert_eq!(count.silent, 0, "{name}");
        assert!(count.errors > places_tried / 2, "{name}: {} of {places_tried}", count.errors);
    }
}

#[test]
fn a_zeroed_stretch_is_never_silent() {
    for name in STORES {
        let files = fixture(name);
        let right = read(&files, Mode::Strict).unwrap().entries;
        let mut count = Count::default();
        for (index, (file, bytes)) in files.iter().enumerate() {
            for at in places(bytes.len()).step_by(5) {
                let mut damaged = files.clone();
                let end = (at + 64).min(bytes.len());
                damaged[index].1[at..end].fill(0);
                count.check(&damaged, &right, &format!("{name}/{file}: zeros from {at}"));
            }
        }
        assert_eq!(count.silent, 0, "{name}");
    }
}

#[test]
fn a_cut_is_silent_between_records_of_the_newest_log_only() {
    for name in STORES {
        let files = fixture(name);
        let whole = read(&files, Mode::Strict).unwrap();
        for (index, (file, bytes)) in files.iter().enumerate() {
            let is_log = file.ends_with(".log");
            let mut count = Count::default();
            for len in places(bytes.len()) {
                let mut damaged = files.clone();
                damaged[index].1.truncate(len);
                count.check(&damaged, &whole.entries, &format!("{name}/{file}: cut to {len}"));
            }
            let most = if is_log { whole.stats.log_records as usize } else { 0 };
            assert!(count.silent <= most, "{name}/{file}: {} silent cuts", count.silent);
            assert!(is_log || count.listed <= bytes.len(), "{name}/{file}");
            assert!(!is_log || count.listed > 10, "{name}/{file}: a cut log is listed");
        }
    }
}

#[test]
fn a_missing_file_is_never_silent() {
    for name in STORES {
        let files = fixture(name);
        let right = read(&files, Mode::Strict).unwrap().entries;
        for (index, (file, _)) in files.iter().enumerate() {
            let mut damaged = files.clone();
            damaged.remove(index);
            let strict = read(&damaged, Mode::Strict);
            assert!(strict.is_err(), "{name} without {file}");
            if let Ok(outcome) = read(&damaged, Mode::Lenient) {
                assert!(!outcome.lost.is_empty(), "{name} without {file}");
                assert_ne!(outcome.entries, right, "{name} without {file}");
            }
        }
    }
}

#[test]
fn swapped_files_are_never_silent() {
    let files = fixture("raw");
    let right = read(&files, Mode::Strict).unwrap().entries;
    for a in 0..files.len() {
        for b in 0..a {
            let mut swapped = files.clone();
            (swapped[a].1, swapped[b].1) = (files[b].1.clone(), files[a].1.clone());
            let (first, second) = (&files[a].0, &files[b].0);
            assert!(read(&swapped, Mode::Strict).is_err(), "{first} and {second}");
            if let Ok(outcome) = read(&swapped, Mode::Lenient) {
                assert!(!outcome.lost.is_empty(), "{first} and {second}");
                assert_ne!(outcome.entries, right, "{first} and {second}");
            }
        }
    }
}

/// The operations of the file system fail one after another: an error each, and no panic.
#[test]
fn a_failing_disk_is_an_error() {
    use keyrack_vfs::{Fault, FaultFs, FaultPlan};
    let files = fixture("raw");
    let right = read(&files, Mode::Strict).unwrap().entries;
    let walk = |fs: std::sync::Arc<FaultFs>| -> Result<Entries, Error> {
        let dir = std::path::Path::new(crate::support::DIR);
        let mut reader = keyrack_leveldb_reader::Reader::open(fs, dir, Mode::Lenient)?;
        let mut entries = Entries::new();
        while let Some((key, value)) = reader.next()? {
            entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(entries)
    };
    let counting = std::sync::Arc::new(FaultFs::new(crate::support::disk(&files)));
    assert_eq!(walk(counting.clone()).unwrap(), right);
    let operations = counting.operations();
    assert!(operations > 20);
    for n in 1..=operations {
        let fs = FaultFs::new(crate::support::disk(&files));
        fs.arm(FaultPlan::once(n, Fault::Io));
        match walk(std::sync::Arc::new(fs)) {
            Err(Error::Io(_)) => {}
            other => panic!("operation {n} of {operations}: {:?}", other.map(|e| e.len())),
        }
    }
}
