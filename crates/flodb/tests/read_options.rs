//! Reads with options: what goes into the cache, and which damage is found.

use crate::disk::{flip, tables};
use crate::support::{DIR, idle, open};
use keyrack_flodb::{Comparator, Compression, Db, Error, Options, ReadOptions, Spaces};
use keyrack_vfs::{FaultFs, MemFs};
use std::path::Path;
use std::sync::Arc;

const KEYS: u32 = 400;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// One table of raw blocks, in a store with room for all of them in its cache.
fn store_of_one_table() -> (MemFs, Db) {
    let fs = MemFs::new();
    let db = open(&fs, roomy());
    for n in 0..KEYS {
        db.put(&key(n), &[n as u8; 64]).unwrap();
    }
    db.flush().unwrap();
    (fs, db)
}

fn roomy() -> Options {
    Options { cache_bytes: 1 << 20, compression: vec![Compression::None], ..idle() }
}

fn cached_blocks(db: &Db) -> f64 {
    let mut blocks = None;
    db.stats(&mut |name, value| blocks = if name == "cache_blocks" { Some(value) } else { blocks });
    blocks.expect("the store counts the blocks of its cache")
}

#[test]
fn a_read_that_does_not_fill_the_cache_leaves_it_empty_and_takes_what_is_there() {
    let (fs, db) = store_of_one_table();
    drop(db);
    let counted = FaultFs::new(Arc::new(fs));
    let db = open(&counted, roomy());
    let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    let read = |options| db.read_with(None, &key(7), options, <[u8]>::to_vec).unwrap();
    for _ in 0..2 {
        let before = counted.operations();
        assert_eq!(read(once), Some(vec![7; 64]));
        assert_eq!(counted.operations() - before, 1, "each such read reads its block");
    }
    assert_eq!(cached_blocks(&db), 0.0);
    assert_eq!(read(ReadOptions::default()), Some(vec![7; 64]));
    assert_eq!(cached_blocks(&db), 1.0);
    let before = counted.operations();
    assert_eq!(read(once), Some(vec![7; 64]));
    assert_eq!(counted.operations(), before, "the block is in the cache");
}

#[test]
fn a_read_of_a_moment_with_options_sees_that_moment() {
    let (_, db) = store_of_one_table();
    let snapshot = db.snapshot();
    db.put(&key(7), b"new").unwrap();
    db.flush().unwrap();
    let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    let read = |snapshot| db.read_with(snapshot, &key(7), once, <[u8]>::to_vec).unwrap();
    assert_eq!(read(Some(&snapshot)), Some(vec![7; 64]));
    assert_eq!(read(None), Some(b"new".to_vec()));
}

#[test]
fn an_unchecked_read_of_a_damaged_block_is_no_error_and_nobody_else_meets_it() {
    let (fs, db) = store_of_one_table();
    drop(db);
    // In the value of the first entry.
    flip(&fs, &tables(&fs)[0], 40);
    let db = open(&fs, roomy());
    let unchecked = ReadOptions { verify_checksums: false, ..ReadOptions::default() };
    let found = db.read_with(None, &key(0), unchecked, <[u8]>::to_vec).unwrap().unwrap();
    assert_eq!(found.len(), 64);
    assert_ne!(found, [0; 64], "the damage is in this value");
    let mut iter = db.iter_with(None, unchecked).unwrap();
    iter.seek_first().unwrap();
    assert_eq!(iter.entry(), Some((&key(0)[..], &found[..])));
    while iter.entry().is_some() {
        iter.next().unwrap();
    }
    assert_eq!(cached_blocks(&db), 0.0, "what was not checked is in no cache");
    let error = db.get(&key(0)).unwrap_err();
    assert!(matches!(error, Error::Corruption { offset: 0, .. }), "{error}");
    let error = db.iter().unwrap().seek_first().unwrap_err();
    assert!(matches!(error, Error::Corruption { offset: 0, .. }), "{error}");
    assert_eq!(db.get(&key(KEYS - 1)).unwrap(), Some(vec![(KEYS - 1) as u8; 64]));
}

#[test]
fn a_key_space_reads_with_options_as_the_store_does() {
    let spaces =
        Spaces::open_in(Arc::new(MemFs::new()), Path::new(DIR), roomy(), &[Comparator::Bytewise])
            .unwrap();
    let space = spaces.create("one", &Comparator::Bytewise).unwrap();
    space.put(b"key", b"value").unwrap();
    let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    assert_eq!(space.read_with(None, b"key", once, <[u8]>::len).unwrap(), Some(5));
    let mut iter = space.iter_with(None, once).unwrap();
    iter.seek_first().unwrap();
    assert_eq!(iter.entry(), Some((&b"key"[..], &b"value"[..])));
}
