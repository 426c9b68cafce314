//! The files of a store, held for whoever copies them.

use crate::support::{DIR, idle, is_table, newest_round, open, round, rows, tiny, try_open};
use keyrack_flodb::{Db, Error, FileSet, Options, WriteOptions};
use keyrack_store::FileContent;
use keyrack_testkit::damage::directory;
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

const COPY: &str = "/copy";

fn write(db: &Db, rounds: std::ops::Range<u64>) {
    rounds.for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
}

/// What somebody does who copies files and knows nothing of stores.
fn copy(set: FileSet, to: &MemFs, dir: &str) {
    to.create_dir(Path::new(dir)).unwrap();
    for file in set.files {
        let content = match &file.content {
            FileContent::File(path) => set.fs.read(path).unwrap(),
            FileContent::Memory(content) => content.clone(),
        };
        assert_eq!(content.len() as u64, file.bytes, "{file:?}");
        to.write_atomic(&file.name.under(Path::new(dir)), &content).unwrap();
    }
}

fn with_blobs() -> Options {
    Options { blob_bytes_min: 1024, ..tiny() }
}

fn tables(disk: &MemFs) -> usize {
    directory(disk, Path::new(DIR)).keys().filter(|path| is_table(path)).count()
}

#[test]
fn the_files_are_the_store_of_that_moment() {
    let disk = MemFs::new();
    let db = open(&disk, with_blobs());
    db.put(b"large", &[9; 5000]).unwrap();
    write(&db, 1..2000);
    let set = db.file_set().unwrap();
    write(&db, 2000..3000);
    db.compact_range(None, None).unwrap();
    copy(set, &disk, COPY);
    let copied = Db::open_in(Arc::new(disk.clone()), Path::new(COPY), with_blobs()).unwrap();
    assert_eq!(copied.get(b"large").unwrap().as_deref(), Some(&[9; 5000][..]));
    copied.delete(b"large").unwrap();
    db.delete(b"large").unwrap();
    assert_eq!((newest_round(&copied), newest_round(&db)), (1999, 2999));
    // It goes on by itself.
    write(&copied, 2000..2500);
    copied.compact_range(None, None).unwrap();
    copied.close().unwrap();
    let copied = Db::open_in(Arc::new(disk.clone()), Path::new(COPY), with_blobs()).unwrap();
    assert_eq!(newest_round(&copied), 2499);
    let with = Options::default();
    drop(copied);
    let report = keyrack_flodb::verify(Arc::new(disk), Path::new(COPY), &with).unwrap();
    assert!(report.is_sound() && report.findings.is_empty(), "{report:?}");
}

#[test]
fn an_empty_store_has_files_too() {
    let disk = MemFs::new();
    let db = open(&disk, tiny());
    copy(db.file_set().unwrap(), &disk, COPY);
    let existing = Options { create_if_missing: false, ..tiny() };
    let copied = Db::open_in(Arc::new(disk), Path::new(COPY), existing).unwrap();
    assert!(rows(&copied).is_empty());
}

/// `CURRENT` makes a store of a directory. Without it, a half copy is not taken for a new store.
#[test]
fn a_copy_without_its_last_file_does_not_open() {
    let disk = MemFs::new();
    let db = open(&disk, tiny());
    write(&db, 1..100);
    let mut set = db.file_set().unwrap();
    let last = set.files.pop().unwrap();
    assert_eq!(last.name.as_str(), "CURRENT");
    copy(set, &disk, COPY);
    let opened = Db::open_in(Arc::new(disk), Path::new(COPY), tiny());
    assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
}

#[test]
fn a_file_goes_when_its_hold_does() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    for rounds in [1..200, 200..400, 400..600] {
        write(&db, rounds);
        db.flush().unwrap();
    }
    let mut set = db.file_set().unwrap();
    let before = tables(&disk);
    write(&db, 600..700);
    db.compact_range(None, None).unwrap();
    let is_there = |path: &Path| disk.exists(path).unwrap();
    let held: Vec<_> = set.files.iter().map(|file| file.content.clone()).collect();
    for content in &held {
        if let FileContent::File(path) = content {
            assert!(is_there(path), "{content:?}");
        }
    }
    assert!(tables(&disk) > before);
    // Nothing of the store keeps them any more.
    while !set.files.is_empty() {
        let FileContent::File(path) = set.files.remove(0).content else { continue };
        db.flush().unwrap();
        (0..10).for_each(|_| keyrack_concurrent::pin().flush());
        db.flush().unwrap();
        assert!(!is_there(&path), "{} is kept", path.display());
    }
    assert_eq!(newest_round(&db), 699);
}

/// A second process would remove the files that it does not know to be held.
#[test]
fn the_directory_stays_locked_while_files_are_held() {
    let disk = MemFs::new();
    let db = open(&disk, tiny());
    write(&db, 1..500);
    let set = db.file_set().unwrap();
    db.close().unwrap();
    assert!(matches!(try_open(&disk, tiny()), Err(Error::Locked(_))));
    copy(set, &disk, COPY);
    assert_eq!(newest_round(&open(&disk, tiny())), 499);
    let copied = Db::open_in(Arc::new(disk), Path::new(COPY), tiny()).unwrap();
    assert_eq!(newest_round(&copied), 499);
}

#[test]
fn one_identity_is_one_content() {
    let disk = MemFs::new();
    let db = open(&disk, Options { compaction_threads: 0, ..with_blobs() });
    let identities = |db: &Db| {
        let set = db.file_set().unwrap();
        let read = |content: &FileContent| match content {
            FileContent::File(path) => set.fs.read(path).unwrap(),
            FileContent::Memory(content) => content.clone(),
        };
        let known =
            set.files.iter().filter_map(|file| Some((file.identity.clone()?, read(&file.content))));
        known.collect::<std::collections::BTreeMap<_, _>>()
    };
    db.put(b"large", &[9; 5000]).unwrap();
    write(&db, 1..500);
    let first = identities(&db);
    write(&db, 500..1000);
    let second = identities(&db);
    assert!(first.len() >= 2 && second.len() > first.len());
    for (identity, content) in &first {
        assert_eq!(second.get(identity), Some(content), "{identity}");
    }
    // A copy gives the same numbers to other files.
    copy(db.file_set().unwrap(), &disk, COPY);
    let copied = Db::open_in(Arc::new(disk.clone()), Path::new(COPY), idle()).unwrap();
    write(&copied, 2000..2300);
    write(&db, 3000..3300);
    let (ours, copys) = (identities(&db), identities(&copied));
    for (identity, content) in &ours {
        assert!(copys.get(identity).is_none_or(|other| other == content), "{identity}");
    }
}

#[test]
fn a_store_that_is_only_read_has_none() {
    let disk = MemFs::new();
    write(&open(&disk, tiny()), 1..100);
    let reader = Db::open_read_only_in(Arc::new(disk), Path::new(DIR), tiny()).unwrap();
    let error = reader.file_set().unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("reading only")), "{error}");
}
