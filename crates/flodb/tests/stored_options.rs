//! A store keeps the options that decide what is in its tables.

use crate::disk::flip;
use crate::support::{idle, rows};
use keyrack_flodb::{Compression, Db, Durability, Error, Options};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn other() -> Options {
    Options {
        block_bytes: 1000,
        restart_interval: 3,
        filter_bits_per_key: 7,
        table_bytes: 1 << 20,
        level0_tables: 30,
        level0_slow: 40,
        level0_stop: 50,
        level_base_bytes: 5 << 20,
        compression: vec![Compression::Snappy, Compression::Zstd(-3)],
        log_retention_bytes: 3 << 20,
        log_retention_seconds: 70,
        ..idle()
    }
}

fn open(fs: &MemFs, options: Options) -> Db {
    Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options).unwrap()
}

fn stored(fs: &MemFs) -> Result<Options, Error> {
    Options::default().with_stored(fs, Path::new(DIR))
}

/// What is kept, to be compared.
fn shown(options: &Options) -> String {
    let Options { block_bytes, restart_interval, filter_bits_per_key, table_bytes, .. } = options;
    let Options { level0_tables, level_base_bytes, compression, .. } = options;
    let Options { log_retention_bytes, log_retention_seconds, .. } = options;
    format!(
        "{block_bytes} {restart_interval} {filter_bits_per_key} {table_bytes} {level0_tables} \
         {level_base_bytes} {compression:?} {log_retention_bytes} {log_retention_seconds}"
    )
}

#[test]
fn a_store_keeps_what_it_was_last_opened_for_writing_with() {
    let fs = MemFs::new();
    assert_eq!(shown(&stored(&fs).unwrap()), shown(&Options::default()), "there is no store");
    open(&fs, other()).close().unwrap();
    let found = stored(&fs).unwrap();
    assert_eq!(shown(&found), shown(&other()));
    assert!(found.level0_slow >= 30 && found.level0_stop >= found.level0_slow);
    // To read changes nothing, and so does a program that opens it with what it keeps.
    let reader = Db::open_read_only_in(Arc::new(fs.clone()), Path::new(DIR), Options::default());
    drop(reader.unwrap());
    open(&fs, found).close().unwrap();
    assert_eq!(shown(&stored(&fs).unwrap()), shown(&other()));
    // A killed process has kept them as well.
    let db = open(&fs, idle());
    assert_eq!(shown(&stored(&fs).unwrap()), shown(&idle()));
    drop(db);
}

/// A store without a log keeps none of it, and an opening with a log keeps it again.
#[test]
fn a_store_that_keeps_its_log_opens_without_one() {
    let fs = MemFs::new();
    open(&fs, other()).close().unwrap();
    let none = Options { durability: Durability::None, ..Options::default() };
    let options = none.with_stored(&fs, Path::new(DIR)).unwrap();
    assert_eq!((options.log_retention_bytes, options.log_retention_seconds), (0, 0));
    open(&fs, options).close().unwrap();
    assert_eq!(shown(&stored(&fs).unwrap()), shown(&other()));
}

#[test]
fn they_survive_flushes_checkpoints_and_many_edits() {
    let fs = MemFs::new();
    let db = open(&fs, other());
    for round in 0..300_u32 {
        db.put(&round.to_be_bytes(), &[7; 100]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(shown(&stored(&fs).unwrap()), shown(&other()));
    db.checkpoint("/copy").unwrap();
    let copy = Options::default().with_stored(&fs, Path::new("/copy")).unwrap();
    assert_eq!(shown(&copy), shown(&other()));
    db.close().unwrap();
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let fs = MemFs::new();
    let wild = Options { compression: vec![Compression::Zstd(23)], ..idle() };
    let refused = Db::open_in(Arc::new(fs.clone()), Path::new(DIR), wild);
    assert!(matches!(&refused, Err(Error::Usage(why)) if why.contains("zstd")), "{refused:?}");
    let empty = Options { compression: Vec::new(), ..idle() };
    open(&fs, empty).close().unwrap();
    assert_eq!(stored(&fs).unwrap().compression, [Compression::None]);
}

#[test]
fn a_damaged_manifest_keeps_no_options() {
    let fs = MemFs::new();
    open(&fs, other()).close().unwrap();
    let names = fs.list(Path::new(DIR)).unwrap();
    let manifest = names.iter().find(|entry| entry.name.to_string_lossy().starts_with("MANIFEST"));
    let path = Path::new(DIR).join(&manifest.unwrap().name);
    flip(&fs, &path, 600);
    let found = stored(&fs);
    assert!(matches!(&found, Err(Error::Corruption { path: at, .. }) if *at == path), "{found:?}");
}

fn bytes_of_tables(db: &Db) -> f64 {
    let mut bytes = 0.0;
    db.stats(&mut |name, value| {
        bytes += if name.starts_with("level") && name.ends_with("_bytes") { value } else { 0.0 };
    });
    bytes
}

#[test]
fn a_rewrite_leaves_no_table_as_it_was() {
    let fs = MemFs::new();
    let plain = Options { compression: vec![Compression::None], table_bytes: 64 << 10, ..idle() };
    let db = open(&fs, plain.clone());
    for n in 0..3000_u32 {
        db.put(&n.to_be_bytes(), &[b'v'; 200]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let before = (bytes_of_tables(&db), rows(&db));
    db.close().unwrap();
    let db = open(&fs, Options { compression: vec![Compression::Zstd(1)], ..plain });
    db.compact_range(None, None).unwrap();
    assert_eq!(bytes_of_tables(&db), before.0, "a compaction leaves sound tables alone");
    let snapshot = db.snapshot();
    db.rewrite().unwrap();
    assert!(bytes_of_tables(&db) < before.0 / 5.0, "{} {}", bytes_of_tables(&db), before.0);
    assert_eq!(rows(&db), before.1);
    drop(snapshot);
    db.close().unwrap();
}

#[test]
fn a_store_says_what_it_is_written_with() {
    let fs = MemFs::new();
    let db = open(&fs, other());
    let expected = "block_bytes=1000 restart_interval=3 filter_bits=7 table_bytes=1048576 \
                    level0_tables=30 level_base_bytes=5242880 compression=snappy,zstd:-3 \
                    log_retention_bytes=3145728 log_retention_seconds=70";
    assert_eq!(db.property("keyrack.options").as_deref(), Some(expected));
}
