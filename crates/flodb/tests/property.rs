//! What a store says of itself by name.

use crate::support::{idle, rows, tiny};
use keyrack_flodb::{Db, Error, Options, ReadOptions};
use keyrack_vfs::MemFs;
use std::path::Path;
use std::sync::Arc;

fn open(disk: &MemFs) -> Db {
    crate::support::open(disk, Options { memtable_bytes: 4 << 20, ..idle() })
}

fn tables(db: &Db) -> Vec<u64> {
    let level = |level| db.property(&format!("leveldb.num-files-at-level{level}"));
    (0..7).map(|number| level(number).unwrap().parse().unwrap()).collect()
}

fn number(db: &Db, name: &str) -> u64 {
    db.property(name).unwrap().parse().unwrap()
}

fn number_of(db: &Db, name: &str) -> f64 {
    db.property(&format!("keyrack.{name}")).unwrap().parse().unwrap()
}

#[test]
fn tables_are_counted_and_listed_by_level() {
    let db = open(&MemFs::new());
    assert_eq!(tables(&db), [0; 7]);
    for round in 0..3_u8 {
        db.put(b"apple", &[round]).unwrap();
        db.delete(b"zebra\0\xff").unwrap();
        db.flush().unwrap();
    }
    assert_eq!(tables(&db), [3, 0, 0, 0, 0, 0, 0]);
    let listed = db.property("leveldb.sstables").unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 7 + 3, "{listed}");
    assert_eq!((lines[0], lines[4]), ("--- level 0 ---", "--- level 1 ---"));
    for line in &lines[1..4] {
        assert!(line.contains("['apple' @ ") && line.contains(" : 1 .. "), "{line}");
        assert!(line.contains(r"'zebra\x00\xff' @ ") && line.ends_with(" : 0]"), "{line}");
    }
    assert_eq!(number(&db, "keyrack.estimate-num-keys"), 0);
    db.compact_range(None, None).unwrap();
    assert_eq!(tables(&db), [0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(number(&db, "keyrack.estimate-num-keys"), 1);
}

#[test]
fn compactions_are_told_of_by_level() {
    let db = open(&MemFs::new());
    let lines = |db: &Db| -> Vec<Vec<String>> {
        let table = db.property("leveldb.stats").unwrap();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        table.lines().skip(3).map(words).collect()
    };
    assert!(lines(&db).is_empty());
    for round in 0..3_u8 {
        (0..20_u8).for_each(|n| db.put(&[n], &[round ^ n; 50_000]).unwrap());
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    let head = db.property("leveldb.stats").unwrap();
    let head = head.lines().nth(1).unwrap().to_owned();
    assert_eq!(head, "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)");
    let seconds = number_of(&db, "into_level0_seconds");
    assert!(seconds > 0.0 && number_of(&db, "into_level6_seconds") > 0.0);
    let lines = lines(&db);
    let shown: f64 = lines[0][3].parse().unwrap();
    assert!((shown - seconds).abs() < 0.001, "{lines:?} {seconds}");
    let megabytes = |level: usize, column: usize| -> f64 {
        let line = lines.iter().find(|line| line[0] == level.to_string()).unwrap();
        line[column].parse().unwrap()
    };
    // Three tables of a megabyte were flushed, and became one.
    assert!((2.8..3.1).contains(&megabytes(0, 5)), "{lines:?}");
    let (read, written): (f64, f64) = (1..7)
        .filter(|level| lines.iter().any(|line| line[0] == level.to_string()))
        .fold((0.0, 0.0), |(read, written), level| {
            (read + megabytes(level, 4), written + megabytes(level, 5))
        });
    assert!((2.8..3.1).contains(&read) && (0.9..1.1).contains(&written), "{lines:?}");
}

#[test]
fn memory_is_counted() {
    let cached = Options { cache_bytes: 4 << 20, memtable_bytes: 1 << 20, ..tiny() };
    let db = crate::support::open(&MemFs::new(), cached);
    let empty = number(&db, "leveldb.approximate-memory-usage");
    (0..100_u8).for_each(|n| db.put(&[n], &[n; 1000]).unwrap());
    let filled = number(&db, "leveldb.approximate-memory-usage");
    assert!(filled >= empty + 100_000, "{empty} {filled}");
    db.flush().unwrap();
    let flushed = number(&db, "leveldb.approximate-memory-usage");
    assert!(flushed < filled, "{filled} {flushed}");
    assert_eq!(number(&db, "keyrack.cache-bytes"), 0);
    assert_eq!(rows(&db).len(), 100);
    assert!(number(&db, "keyrack.cache-bytes") > 100_000);
    assert!(number(&db, "leveldb.approximate-memory-usage") >= flushed + 100_000);
}

#[test]
fn a_store_tells_what_it_is() {
    let disk = MemFs::new();
    let db = open(&disk);
    assert_eq!(db.property("keyrack.comparator").unwrap(), "keyrack.bytewise");
    assert_eq!(db.property("keyrack.read-only").unwrap(), "0");
    assert_eq!(db.property("keyrack.background-error").unwrap(), "");
    let before = number(&db, "keyrack.last-sequence");
    db.put(b"key", b"value").unwrap();
    assert!(number(&db, "keyrack.last-sequence") > before);
    db.flush().unwrap();
    let mut names = 0;
    db.stats(&mut |name, number| {
        let found = db.property(&format!("keyrack.{name}"));
        assert_eq!(found, Some(number.to_string()), "{name}");
        names += 1;
    });
    assert!(names > 10);
    let other = db.clone();
    db.close().unwrap();
    assert!(other.property("keyrack.background-error").unwrap().contains("it is closed"));
    let late = other.put(b"late", b"").unwrap_err();
    assert!(matches!(late, Error::Closed), "{late:?}");
    drop(other);
    let seen = Db::open_read_only_in(Arc::new(disk), Path::new("/store"), tiny()).unwrap();
    assert_eq!(seen.property("keyrack.read-only").unwrap(), "1");
    assert_eq!(seen.property("keyrack.background-error").unwrap(), "");
}

#[test]
fn unknown_names_have_no_answer() {
    let db = open(&MemFs::new());
    for name in [
        "",
        "stats",
        "leveldb.",
        "leveldb.num-files-at-level",
        "leveldb.num-files-at-level7",
        "leveldb.num-files-at-level-1",
        "leveldb.num-files-at-level+1",
        "leveldb.num-files-at-level99999999999999999999",
        "leveldb.flushes",
        "keyrack.",
        "keyrack.stats",
        "rocksdb.stats",
    ] {
        assert_eq!(db.property(name), None, "{name}");
    }
}

#[test]
fn point_reads_are_counted_by_the_level_that_answered() {
    let counted = |hash_level: bool| {
        let options = Options { hash_level, counts_reads: true, ..idle() };
        let db = crate::support::open(&MemFs::new(), options);
        db.put(b"flushed", b"1").unwrap();
        db.flush().unwrap();
        db.put(b"kept", b"2").unwrap();
        db.delete(b"gone").unwrap();
        for key in ["kept", "kept", "kept", "flushed", "flushed", "gone", "never"] {
            let _ = db.get(key.as_bytes()).unwrap();
        }
        db.multi_get(&[b"kept", b"never"], |_, _| {}).unwrap();
        ["hash", "ordered", "tables", "nowhere"]
            .map(|level| number_of(&db, &format!("reads_{level}")) as u64)
    };
    // A tombstone is an answer.
    assert_eq!(counted(true), [5, 0, 2, 2]);
    assert_eq!(counted(false), [0, 5, 2, 2]);
    let db = open(&MemFs::new());
    assert_eq!(db.property("keyrack.reads_hash"), None, "nobody has asked for it");
}

/// The calls that read and write the files of tables, as the store counts them.
#[test]
fn reads_and_writes_of_tables_are_counted() {
    let (memtable_bytes, compaction_threads) = (4 << 20, 0);
    let options = Options { memtable_bytes, compaction_threads, ..Options::default() };
    let db = crate::support::open(&MemFs::new(), options);
    let counts = || {
        ["table_writes", "table_reads", "table_reads_ahead"].map(|name| number_of(&db, name) as u64)
    };
    assert_eq!(counts(), [0; 3]);
    let value = [7; 1000];
    for n in 0..1000_u32 {
        db.put(&n.to_be_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    let bytes = number_of(&db, "flush_bytes");
    let [writes, opened, ahead] = counts();
    assert_eq!(writes, (bytes / f64::from(256 << 10)).ceil() as u64, "pieces of 256 KiB");
    // The footer, the properties, the index and the filter.
    assert_eq!((opened, ahead), (4, 0));
    let before = number_of(&db, "table_bytes_read");
    for _ in 0..2 {
        db.get(&500_u32.to_be_bytes()).unwrap().unwrap();
    }
    assert_eq!(counts(), [writes, 5, 0], "the second one finds the block in the cache");
    let block = number_of(&db, "table_bytes_read") - before;
    assert!((4096.0..6000.0).contains(&block), "{block}");
    let options = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    let mut iter = db.iter_with(None, options).unwrap();
    iter.seek_first().unwrap();
    while iter.entry().is_some() {
        iter.next().unwrap();
    }
    let [_, random, ahead] = counts();
    let read = number_of(&db, "table_bytes_read_ahead");
    assert_eq!(random, 6, "the first block alone");
    assert!((4..20).contains(&ahead), "{ahead} reads of {read} bytes");
    assert!(read > 0.9 * bytes && read < 1.1 * bytes, "{read} of {bytes}");
}

#[test]
fn memtables_are_dropped_where_nothing_is_promised() {
    let fs = MemFs::new();
    let options = Options {
        durability: keyrack_flodb::Durability::None,
        discards_memtables: true,
        memtable_bytes: 1 << 20,
        ..Options::default()
    };
    let db = crate::support::open(&fs, options.clone());
    for n in 0..40_u8 {
        db.put(&[n], &[n; 100_000]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.get(&[39]).unwrap(), None);
    assert!(number_of(&db, "flushes") > 3.0 && number_of(&db, "flush_bytes") == 0.0);
    assert_eq!(tables(&db), [0; 7]);
    db.put(b"x", b"y").unwrap();
    assert_eq!(db.get(b"x").unwrap().as_deref(), Some(&b"y"[..]));
    db.close().unwrap();
    let refused = Options { durability: keyrack_flodb::Durability::Os, ..options };
    let refused = Db::open_in(Arc::new(fs), Path::new("/db"), refused);
    let Err(Error::Usage(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("discards_memtables") && why.contains("durability none"), "{why}");
}

#[test]
fn an_iterator_may_leave_the_cache_as_it_is() {
    let fs = MemFs::new();
    let db = crate::support::open(&fs, Options { cache_bytes: 1 << 20, ..idle() });
    for n in 0..2000_u32 {
        db.put(&n.to_be_bytes(), &[7; 50]).unwrap();
    }
    db.flush().unwrap();
    let cached = || number(&db, "keyrack.cache-bytes");
    let few = |options: ReadOptions, snapshot: Option<&keyrack_flodb::Snapshot>| {
        let mut iter = db.iter_with(snapshot, options).unwrap();
        iter.seek(&1000_u32.to_be_bytes()).unwrap();
        for n in 1000..1020_u32 {
            assert_eq!(iter.entry().unwrap().0, n.to_be_bytes());
            iter.next().unwrap();
        }
    };
    let before = cached();
    let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    few(once, None);
    few(ReadOptions { readahead_bytes_max: 0, ..once }, Some(&db.snapshot()));
    // No buffer is made of what nobody has memory for.
    few(ReadOptions { readahead_bytes_max: usize::MAX, ..once }, None);
    let all = db.iter_with(None, ReadOptions { readahead_bytes_max: usize::MAX, ..once });
    assert_eq!(crate::support::walk(all.unwrap()).unwrap().len(), 2000);
    assert_eq!(cached(), before);
    few(ReadOptions::default(), None);
    assert!(cached() > before, "{} {before}", cached());
}
