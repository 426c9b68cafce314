//! The engine goes through the same checks as every other, with memory so small that it flushes and
//! compacts all the while.

use crate::rng::{Announced, factor, seeds};
use keyrack_flodb::engine;
use keyrack_store::{Durability, OpenOptions, Result, Store};
use keyrack_testkit::{check_scripts, compare_concurrent, compare_random};
use keyrack_vfs::{Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options(durability: Option<Durability>) -> OpenOptions {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/store")).unwrap();
    OpenOptions {
        data_dir: Some(PathBuf::from("/store")),
        durability,
        options: vec![
            ("memory_bytes".to_owned(), "64k".to_owned()),
            ("cache_bytes".to_owned(), "256k".to_owned()),
        ],
        ..OpenOptions::in_memory(Arc::new(fs))
    }
}

fn open() -> Result<Box<dyn Store>> {
    (engine().open)(&options(None))
}

#[test]
fn it_answers_the_golden_scripts() {
    let report = check_scripts(&open);
    for failure in &report.failed {
        eprintln!("{}\n{}", failure.script, failure.diff);
    }
    assert!(report.failed.is_empty());
    assert_eq!(report.passed, keyrack_testkit::scripts().len());
}

#[test]
fn it_answers_as_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let store = open().unwrap();
        if let Err(mismatch) = compare_random(store.as_ref(), seed, 6000) {
            panic!("{mismatch}");
        }
        store.close().unwrap();
    }
}

#[test]
fn it_keeps_its_promises_to_many_threads() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let operations = 1000 * factor() as u64;
        if let Err(mismatch) = compare_concurrent(open().unwrap().as_ref(), seed, 4, operations) {
            panic!("{mismatch}");
        }
    }
}

#[test]
fn every_durability_is_offered() {
    for durability in [Durability::None, Durability::Os, Durability::Interval(5), Durability::Sync]
    {
        let store = (engine().open)(&options(Some(durability))).unwrap();
        assert_eq!(store.durability(), durability);
        let mut session = store.session().unwrap();
        session.put(b"key", b"value").unwrap();
        let mut seen = Vec::new();
        assert!(session.get(b"key", &mut |value| seen.extend_from_slice(value)).unwrap());
        assert_eq!(seen, b"value");
        drop(session);
        store.close().unwrap();
    }
}
