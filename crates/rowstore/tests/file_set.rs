//! The files of a store that nobody has open: a copy of them is the store, after a power loss too.

use crate::support::*;
use keyrack_rowstore::{Options, RowStore, Rows};
use keyrack_store::{Error, FileContent, FileSet};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn set(disk: &MemFs) -> keyrack_store::Result<FileSet> {
    RowStore::file_set_of(Arc::new(disk.clone()), Path::new(DIR))
}

/// A disk with a copy of the first `count` files.
fn copy(set: &FileSet, count: usize) -> MemFs {
    let disk = MemFs::new();
    for file in &set.files[..count] {
        let FileContent::File(path) = &file.content else { panic!("{file:?} is in memory") };
        let to = file.name.under(Path::new(DIR));
        disk.create_dir_all(to.parent().unwrap()).unwrap();
        let bytes = set.fs.read(path).unwrap();
        assert_eq!(bytes.len() as u64, file.bytes, "{file:?}");
        disk.write_atomic(&to, &bytes).unwrap();
    }
    disk
}

fn write(store: &RowStore, draw: &mut Draw, count: u64) {
    let mut session = store.session().unwrap();
    for _ in 0..count {
        let key = format!("key{:03}", draw.below(300_u64));
        if draw.one_in(7) {
            session.remove(key.as_bytes()).unwrap();
        } else {
            let value = vec![draw.next() as u8; draw.below(900)];
            session.put(key.as_bytes(), &value, 0, 0).unwrap();
        }
    }
    session.flush().unwrap();
}

#[test]
fn a_copy_of_a_closed_store_is_that_store() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let disk = MemFs::new();
        let logs = 1 + draw.below(3);
        for round in 0..6 {
            let store = open(&disk, with_logs(logs));
            write(&store, &mut draw, 400);
            if draw.one_in(2) {
                store.checkpoint().unwrap();
                write(&store, &mut draw, 50);
            }
            let expected = content(&store);
            close(store);
            let set = set(&disk).unwrap();
            assert_eq!(set.engine, "rowstore");
            let restored = open(&copy(&set, set.files.len()), with_logs(logs));
            assert!(content(&restored) == expected, "round {round}");
            // What was copied without its last file is no store.
            let part = copy(&set, set.files.len() - 1);
            let opened = open_with(Arc::new(part), with_logs(logs));
            assert!(matches!(opened, Err(Error::Corruption { .. } | Error::Usage { .. })));
        }
    }
}

#[test]
fn a_copy_after_a_power_loss_recovers_as_the_store_does() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let disk = MemFs::new();
        let store = open(&disk, tiny());
        for _ in 0..4 {
            write(&store, &mut draw, 200);
            if draw.one_in(3) {
                store.checkpoint().unwrap();
            }
            let image = disk.crash_image(draw.next(), CrashPolicy::Ordered);
            let set = set(&image).unwrap();
            let copied = copy(&set, set.files.len());
            drop(set);
            assert!(content(&open(&copied, tiny())) == content(&open(&image, tiny())));
        }
    }
}

#[test]
fn the_directory_is_locked_until_the_last_file_is_dropped() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let error = set(&disk).unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    close(store);
    let mut set = set(&disk).unwrap();
    let last = set.files.pop().unwrap();
    drop(set);
    assert!(open_with(Arc::new(disk.clone()), tiny()).is_err());
    drop(last);
    close(open(&disk, tiny()));
}

#[test]
fn what_lies_elsewhere_is_refused_with_the_remedy() {
    let disk = MemFs::new();
    let error = set(&disk).unwrap_err().to_string();
    assert_eq!(error, "/store: there is no row store in it");
    let elsewhere = Options { log_dirs: vec![PathBuf::from("../elsewhere")], ..tiny() };
    close(open(&disk, elsewhere));
    let error = set(&disk).unwrap_err();
    assert!(matches!(error, Error::Usage { .. }), "{error:?}");
    let line = error.to_string();
    assert!(
        line.contains("/store/../elsewhere/") && line.contains("all logs and checkpoints in it"),
        "{line}"
    );
}

/// What a check says of a file, given in pieces of so many bytes.
fn unsound(set: &FileSet, name: &str, bytes: &[u8], piece: usize) -> Option<u64> {
    let file = set.files.iter().find(|file| file.name.as_str() == name).unwrap();
    let mut check = file.check.as_ref().unwrap()();
    let taken = bytes.chunks(piece).try_for_each(|piece| check.take(piece));
    taken.and_then(|()| check.end()).err().map(|unsound| unsound.offset)
}

#[test]
fn parts_of_a_checkpoint_are_checked_to_the_last_byte() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    write(&store, &mut Draw::new(1), 1500);
    store.checkpoint().unwrap();
    close(store);
    let set = set(&disk).unwrap();
    let parts = set.files.iter().filter(|file| file.check.is_some());
    let names: Vec<&str> = parts.map(|file| file.name.as_str()).collect();
    assert!(!names.is_empty(), "{set:?}");
    for name in names {
        let whole = disk.read(&Path::new(DIR).join(name)).unwrap();
        for piece in [1, 7, 4096, usize::MAX] {
            assert_eq!(unsound(&set, name, &whole, piece), None, "{name} by {piece}");
        }
        assert!(unsound(&set, name, &whole[..whole.len() - 1], 4096).is_some());
        assert!(unsound(&set, name, &[&whole[..], &[0]].concat(), 4096).is_some());
        assert!(unsound(&set, name, b"", 4096).is_some());
        let mut damaged = whole.clone();
        for at in (0..whole.len()).filter(|at| *at < 64 || at % 101 == 0) {
            damaged[at] ^= 4;
            assert!(unsound(&set, name, &damaged, 4096).is_some(), "{name} at {at}");
            damaged[at] ^= 4;
        }
    }
}
