//! Stores that earlier versions wrote. They open for ever.
//!
//! Each has tables with each compression, on several levels, one of them from outside; removals;
//! and a log with records that are in no table. They are never written again: when a format
//! changes, another store joins them.
//!
//! | store | log | manifest |
//! |---|---|---|
//! | `store-1` | without identity and marker | without room, without checksums of tables |
//! | `store-2` | with them | with them |

use crate::disk::{CHANGES, copy, files, replace, tables};
use crate::support::{DIR, Model, open, rows};
use keyrack_flodb::{
    Compression, Db, IngestOptions, Options, SstWriter, WriteOptions, repair, verify,
};
use keyrack_testkit::damage::directory;
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, RealFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn options(compression: Compression) -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 8 << 10,
        compaction_threads: 0,
        compression: vec![compression],
        ..Options::default()
    }
}

/// Of the openings that make it, each of which flushes a table; the second merges what there is.
const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd(3),
    Compression::None,
];

fn key(n: usize) -> Vec<u8> {
    format!("key/{n:05}").into_bytes()
}

fn value(n: usize, round: usize) -> Vec<u8> {
    format!("{n} in round {round}, ").repeat(n % 4).into_bytes()
}

/// The writes of a round, and the same in the model.
fn round(model: &mut Model, round: usize, mut put: impl FnMut(&[u8], Option<&[u8]>)) {
    for n in (round * 60..round * 60 + 100).step_by(1 + round % 2) {
        let (key, value) = (key(n), value(n, round));
        if (n + round).is_multiple_of(9) {
            put(&key, None);
            model.remove(&key);
        } else {
            put(&key, Some(&value));
            model.insert(key, value);
        }
    }
}

fn write(db: &Db, model: &mut Model, number: usize) {
    round(model, number, |key, value| match value {
        Some(value) => db.put(key, value).unwrap(),
        None => db.delete(key).unwrap(),
    });
}

/// What is in the store; written to a disk as well, if there is one.
fn build(disk: Option<&MemFs>) -> Model {
    let mut model = Model::new();
    let scratch = MemFs::new();
    let disk = disk.unwrap_or(&scratch);
    for (number, compression) in COMPRESSIONS.into_iter().enumerate() {
        let db = open(disk, options(compression));
        write(&db, &mut model, number);
        db.flush().unwrap();
        if number == 1 {
            db.compact_range(None, Some(b"key/00070")).unwrap();
        }
    }
    let db = open(disk, options(COMPRESSIONS[2]));
    let path = Path::new("/bulk");
    let mut writer = SstWriter::create(disk, path, db.options()).unwrap();
    round(&mut model, 6, |key, value| match value {
        Some(value) => writer.put(key, value).unwrap(),
        None => writer.delete(key).unwrap(),
    });
    writer.finish().unwrap();
    db.ingest(&[path], IngestOptions::default()).unwrap();
    write(&db, &mut model, 5);
    db.put_with(b"", b"of the empty key", WriteOptions { sync: true }).unwrap();
    model.insert(Vec::new(), b"of the empty key".to_vec());
    db.close().unwrap();
    model
}

/// A fixture on a disk in memory.
fn load(name: &str) -> MemFs {
    let disk = MemFs::new();
    let root = fixture(name);
    for (path, bytes) in directory(&RealFs, &root) {
        let to = Path::new(DIR).join(path.strip_prefix(&root).unwrap());
        disk.create_dir_all(to.parent().unwrap()).unwrap();
        replace(&disk, &to, &bytes);
    }
    disk
}

#[test]
fn a_store_of_version_1_is_sound_opens_and_goes_on() {
    is_sound_opens_and_goes_on("store-1");
}

#[test]
fn a_store_with_a_marked_log_is_sound_opens_and_goes_on() {
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        let disk = MemFs::new();
        build(Some(&disk));
        for (path, bytes) in files(&disk) {
            let to = fixture("store-2").join(path.strip_prefix(DIR).unwrap());
            RealFs.create_dir_all(to.parent().unwrap()).unwrap();
            RealFs.write_atomic(&to, &bytes).unwrap();
        }
    }
    is_sound_opens_and_goes_on("store-2");
}

fn is_sound_opens_and_goes_on(name: &str) {
    let model = build(None);
    let disk = load(name);
    let options = options(Compression::Lz4);
    let report = verify(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap();
    assert!(report.is_sound() && report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.tables, report.log_records), (5, 52));
    assert!(!repair(Arc::new(disk.clone()), Path::new(DIR), &options).unwrap().changed);
    for paranoid_checks in [false, true] {
        let options = Options { paranoid_checks, ..options.clone() };
        let db = open(&disk, options);
        assert!(rows(&db) == model);
        for n in 0..600 {
            assert_eq!(db.get(&key(n)).unwrap().as_ref(), model.get(&key(n)), "{n}");
        }
        db.compact_range(None, None).unwrap();
        assert!(rows(&db) == model);
    }
    assert_eq!(tables(&disk).len(), 1);
}

/// The first opening gives the log an identity and a marker. Half of that is no damage.
#[test]
fn the_first_opening_of_a_store_of_version_1_may_end_anywhere() {
    let (old, model) = (copy(&load("store-1")), build(None));
    for at in 1.. {
        let disk = copy(&old);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut).only(&CHANGES));
        let opened = Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options(COMPRESSIONS[0]));
        let is_over = fs.injected() == 0;
        drop(opened);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = disk.crash_image(at, policy);
            let options = options(COMPRESSIONS[0]);
            let report = verify(Arc::new(image.clone()), Path::new(DIR), &options).unwrap();
            assert!(report.is_sound(), "{at}, {policy:?}: {:?}", report.findings);
            let db = open(&image, options);
            assert!(rows(&db) == model, "{at}, {policy:?}");
            db.put(b"more", b"").unwrap();
            db.close().unwrap();
            let image = copy(&image);
            assert_eq!(rows(&crate::disk::open(&image)).len(), model.len() + 1);
        }
        if is_over {
            break;
        }
    }
}
