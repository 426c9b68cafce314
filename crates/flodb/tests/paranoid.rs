//! With and without paranoid checks: when damage is found, and that it never becomes an answer.

use crate::disk::{copy, flip, open, options, replace, sample, tables};
use crate::support::{DIR, Model, rows, try_open};
use keyrack_flodb::{Error, Options, verify};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

fn paranoid() -> Options {
    Options { paranoid_checks: true, ..options() }
}

/// Every key has the value of the model, or its reading is an error; some of them are.
fn no_wrong_answers(disk: &MemFs, model: &Model) {
    let db = open(disk);
    let mut errors = 0;
    for n in 0..400 {
        let key = format!("key{n:04}").into_bytes();
        match db.get(&key) {
            Ok(found) => assert_eq!(found.as_ref(), model.get(&key), "{n}"),
            Err(Error::Corruption { .. }) => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((1..300).contains(&errors), "{errors}");
}

#[test]
fn damage_of_a_block_is_found_at_once_or_when_it_is_read() {
    let (disk, model) = sample(11);
    for path in tables(&disk) {
        let damaged = copy(&disk);
        flip(&damaged, &path, 30);
        let error = try_open(&damaged, paranoid()).unwrap_err();
        let found = matches!(&error, Error::Corruption { path: at, offset: 0, .. } if *at == path);
        assert!(found, "{error}");
        no_wrong_answers(&damaged, &model);
    }
    drop(try_open(&disk, paranoid()).unwrap());
    assert_eq!(rows(&open(&disk)), model);
}

#[test]
fn another_table_in_the_place_of_one_is_found() {
    let (disk, _) = sample(12);
    let all = tables(&disk);
    replace(&disk, &all[0], &disk.read(&all[1]).unwrap());
    let error = try_open(&disk, paranoid()).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path, .. } if *path == all[0]), "{error}");
}

/// A compaction meets a damaged table: it fails, the store only reads, and nothing on disk is less
/// than it was.
#[test]
fn a_damaged_table_stops_a_compaction_and_stays() {
    for options in [paranoid(), options()] {
        let (disk, model) = sample(13);
        let db = try_open(&disk, options).unwrap();
        db.flush().unwrap();
        let path = tables(&disk).remove(0);
        flip(&disk, &path, 30);
        let error = db.compact_range(None, None).unwrap_err();
        assert!(matches!(&error, Error::Corruption { path: at, .. } if *at == path), "{error}");
        assert!(matches!(db.put(b"key", b"value"), Err(Error::Poisoned(_))));
        drop(db);
        flip(&disk, &path, 30);
        let store = Arc::new(disk.clone());
        assert!(verify(store, Path::new(DIR), &crate::disk::options()).unwrap().is_sound());
        assert_eq!(rows(&open(&disk)), model);
    }
}

/// All writing goes on with the checks, and finds nothing.
#[test]
fn sound_stores_pass_all_checks() {
    let disk = MemFs::new();
    let mut model = Model::new();
    let mut draw = keyrack_testkit::random::Draw::new(14);
    for _ in 0..3 {
        let db = try_open(&disk, Options { compaction_threads: 1, ..paranoid() }).unwrap();
        crate::disk::scribble(&db, &mut model, &mut draw, 2000);
        db.compact_range(None, None).unwrap();
        crate::disk::scribble(&db, &mut model, &mut draw, 100);
        assert_eq!(rows(&db), model);
    }
}
