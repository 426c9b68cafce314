//! The limit of open files of tables, as the kernel counts them.

use crate::support::{idle, rows, walk};
use keyrack_flodb::{Db, Error, Options};
use keyrack_vfs::{Fs, RealFs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TABLES: u32 = 40;
const LIMIT: usize = 5;

fn options(table_files_max: usize) -> Options {
    Options { table_files_max, level0_slow: 1000, level0_stop: 1000, ..idle() }
}

fn key(table: u32, n: u32) -> Vec<u8> {
    format!("key{n:02}-{table:02}").into_bytes()
}

/// A store of tables of level 0 that have keys of the same range.
fn fill(dir: &Path, options: Options) -> Db {
    let db = Db::open(dir, options).unwrap();
    for table in 0..TABLES {
        for n in 0..20 {
            db.put(&key(table, n), &table.to_be_bytes()).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

fn read(db: &Db, table: u32, n: u32) {
    assert_eq!(db.get(&key(table, n)).unwrap(), Some(table.to_be_bytes().to_vec()));
}

/// The open files that the store counts.
fn counted(db: &Db) -> Option<f64> {
    let mut found = None;
    db.stats(&mut |name, value| {
        found = if name == "table_files_open" { Some(value) } else { found }
    });
    found
}

/// The tables in `dir` that this process has open.
fn open_tables(dir: &Path) -> Vec<PathBuf> {
    let dir = dir.canonicalize().unwrap();
    let fds = Path::new("/proc/self/fd");
    let open = RealFs.list(fds).unwrap().into_iter();
    open.filter_map(|fd| std::fs::read_link(fds.join(fd.name)).ok())
        // One that was removed is called `NAME (deleted)`.
        .filter(|path| path.starts_with(&dir) && path.to_string_lossy().contains(".table"))
        .collect()
}

#[test]
fn no_more_files_are_open_than_the_limit_says() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let open = || open_tables(dir).len();
    let db = fill(dir, options(LIMIT));
    assert_eq!(open(), LIMIT, "after the flushes");
    for n in 0..3 {
        for table in 0..TABLES {
            read(&db, table, n);
            assert_eq!(open(), LIMIT);
        }
    }
    let before = rows(&db);
    assert_eq!(before.len() as u32, 20 * TABLES);
    assert_eq!(open(), LIMIT, "after an iterator over all tables");
    assert_eq!(counted(&db), Some(LIMIT as f64));
    db.compact_range(None, None).unwrap();
    assert!(open() <= LIMIT, "after a compaction of all");
    assert_eq!(rows(&db), before);
}

#[test]
fn a_store_opens_with_more_tables_than_it_may_have_open() {
    let temp = tempfile::tempdir().unwrap();
    fill(temp.path(), options(LIMIT)).close().unwrap();
    let db = Db::open(temp.path(), options(LIMIT)).unwrap();
    // Not by the kernel: what the first one had goes when no thread can look at it any more.
    assert_eq!(counted(&db), Some(LIMIT as f64));
    (0..TABLES).for_each(|table| read(&db, table, 0));
    assert_eq!(counted(&db), Some(LIMIT as f64));
}

#[test]
fn without_a_limit_all_files_stay_open() {
    let temp = tempfile::tempdir().unwrap();
    let db = fill(temp.path(), options(0));
    assert_eq!(open_tables(temp.path()).len(), TABLES as usize);
    assert_eq!(counted(&db), None, "nothing is counted");
}

#[test]
fn a_file_that_is_read_often_stays_open() {
    let temp = tempfile::tempdir().unwrap();
    let db = fill(temp.path(), Options { cache_bytes: 0, ..options(3) });
    let open = || open_tables(temp.path());
    let before = open();
    read(&db, 7, 0);
    let often = open().into_iter().find(|path| !before.contains(path)).unwrap();
    for table in 10..TABLES {
        read(&db, table, 1);
        read(&db, 7, 1);
        assert!(open().contains(&often), "after the read of table {table}");
    }
}

#[test]
fn threads_that_read_have_one_more_each_at_most() {
    const THREADS: u32 = 4;
    let temp = tempfile::tempdir().unwrap();
    let db = fill(temp.path(), Options { cache_bytes: 0, ..options(LIMIT) });
    let is_over = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let read_all = |reader: u32| {
            for step in 0..20 * TABLES {
                read(&db, (step * 7 + reader * 11) % TABLES, step % 20);
            }
        };
        let readers: Vec<_> = (0..THREADS).map(|it| scope.spawn(move || read_all(it))).collect();
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(open_tables(temp.path()).len());
            }
            most
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert!(most <= LIMIT + THREADS as usize, "{most} files");
    assert!(open_tables(temp.path()).len() <= LIMIT);
}

#[test]
fn an_iterator_outlives_the_store_and_its_files() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let db = fill(&dir, options(2));
    let before = rows(&db);
    let iter = db.iter().unwrap();
    // What the iterator needs is in no version any more.
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    Db::destroy(&RealFs, &dir).unwrap();
    assert_eq!(walk(iter).unwrap(), before.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_store_that_is_only_read_keeps_its_files_beside_a_writer() {
    let temp = tempfile::tempdir().unwrap();
    let db = fill(temp.path(), options(2));
    let before = rows(&db);
    let reader = Db::open_read_only(temp.path(), options(2)).unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(rows(&reader), before);
}

#[test]
fn a_file_that_is_gone_is_an_error_with_its_name() {
    let temp = tempfile::tempdir().unwrap();
    let db = fill(temp.path(), Options { cache_bytes: 0, ..options(1) });
    let files = RealFs.list(temp.path()).unwrap();
    let paths = files.into_iter().map(|file| temp.path().join(file.name));
    let tables = paths.filter(|path| path.extension().is_some_and(|it| it == "table"));
    tables.for_each(|path| RealFs.remove_file(&path).unwrap());
    // The file of the newest is open.
    let results = (0..TABLES).rev().map(|table| db.get(&key(table, 0)));
    let errors: Vec<Error> = results.filter_map(Result::err).collect();
    assert_eq!(errors.len(), TABLES as usize - 1, "one file was open");
    for error in errors {
        assert!(matches!(error, Error::Io(_)), "{error}");
        assert!(error.to_string().contains(".table"), "{error}");
    }
}
