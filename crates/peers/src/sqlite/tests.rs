//! What the engine promises beside the contract: durability, options, snapshots, errors.

use super::*;
use crate::trial::{is_linked, needs_a_directory, options, value_of};
use keyrack_vfs::RealFs;
use std::ops::ControlFlow;

fn pragma(connection: &Connection, name: &str) -> i64 {
    connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn every_durability_is_given_in_the_words_of_sqlite() {
    // 0 is OFF, 1 NORMAL, 2 FULL.
    for (asked, given, synchronous) in [
        (None, Durability::Sync, 2),
        (Some(Durability::Sync), Durability::Sync, 2),
        (Some(Durability::Os), Durability::Os, 1),
        (Some(Durability::Interval(5)), Durability::Interval(5), 1),
        (Some(Durability::None), Durability::None, 0),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path(), asked);
        let settings = Settings::read(&options).unwrap();
        let store = open(&options).unwrap();
        assert_eq!(store.info().durability, given);
        assert_eq!(store.data_dir(), Some(directory.path()));
        let path = directory.path().join(FILE_NAME);
        let connection = settings.connect(&path, given).unwrap();
        assert_eq!(pragma(&connection, "synchronous"), synchronous, "{given}");
        drop(connection);
        let mut session = store.session().unwrap();
        session.put(b"kept", b"1").unwrap();
        assert_eq!(
            session.put_with(b"synced", b"2", WriteOptions::SYNC).is_ok(),
            store.info().syncs_single_puts,
            "{given}"
        );
        assert_eq!(
            session.put_with(b"synced", b"3", WriteOptions::SYNC).is_ok(),
            given != Durability::None
        );
        drop(session);
        store.close().unwrap();
        assert!(!directory.path().join(LOG_NAME).exists(), "{given}: the log was not emptied");
        let store = open(&options).unwrap();
        assert_eq!(value_of(store.as_ref(), b"kept").as_deref(), Some(&b"1"[..]), "{given}");
        let synced = (given != Durability::None).then(|| b"3".to_vec());
        assert_eq!(value_of(store.as_ref(), b"synced"), synced, "{given}");
    }
}

/// What an acknowledged write survives with `os` is the end of the process: a copy of the files as
/// they are while the store is open holds it.
#[test]
fn an_acknowledged_write_is_in_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), Some(Durability::Os))).unwrap();
    store.session().unwrap().put(b"key", b"value").unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE_NAME, LOG_NAME] {
        let bytes = RealFs.read(&directory.path().join(name)).unwrap();
        RealFs.write_atomic(&copy.path().join(name), &bytes).unwrap();
    }
    let store = open(&options(copy.path(), None)).unwrap();
    assert_eq!(value_of(store.as_ref(), b"key").as_deref(), Some(&b"value"[..]));
}

#[test]
fn options_become_those_of_sqlite_and_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), Some(Durability::Os));
    let set = |options: &mut OpenOptions, key: &str, value: &str| {
        options.options = vec![(key.to_owned(), value.to_owned())];
    };
    for (key, value, name, given) in [
        ("cache_bytes", "3M", "cache_size", -3072),
        ("page_bytes", "8K", "page_size", 8192),
        ("map_bytes", "1M", "mmap_size", 1 << 20),
        ("checkpoint_pages", "7", "wal_autocheckpoint", 7),
    ] {
        set(&mut options, key, value);
        let path = directory.path().join(format!("{key}.db"));
        let connection = Settings::read(&options).unwrap().connect(&path, Durability::Os).unwrap();
        assert_eq!(pragma(&connection, name), given, "{key}");
    }
    for (key, value) in [
        ("cache_bytes", "lots"),
        ("cache_bytes", "4096G"),
        ("page_bytes", "5000"),
        ("page_bytes", "128K"),
        ("map_bytes", "-1"),
        ("checkpoint_pages", "4G"),
    ] {
        set(&mut options, key, value);
        let error = open(&options).err().unwrap();
        assert!(matches!(error, Error::Usage { .. }), "{error:?}");
        assert!(error.to_string().starts_with(key), "{error}");
    }
    // The defaults of the table are those that are taken.
    options.options.clear();
    let plain = format!("{:?}", Settings::read(&options).unwrap());
    let rows = ENGINE.options.iter().map(|row| (row.key.to_owned(), row.default.to_owned()));
    options.options = rows.collect();
    assert_eq!(format!("{:?}", Settings::read(&options).unwrap()), plain);
    needs_a_directory(&ENGINE);
}

/// Small caches and pages, so that writers checkpoint while readers read.
#[test]
fn a_snapshot_stays_while_the_log_is_moved_into_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), Some(Durability::None));
    let small = [("cache_bytes", "64K"), ("checkpoint_pages", "4"), ("page_bytes", "512")];
    options.options = small.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let store = open(&options).unwrap();
    let mut session = store.session().unwrap();
    for n in 0..300u32 {
        session.put(&n.to_be_bytes(), b"old").unwrap();
    }
    let snapshot = store.snapshot().unwrap().unwrap();
    for n in 0..600u32 {
        session.put(&n.to_be_bytes(), b"new").unwrap();
    }
    let mut rows = 0;
    let visited = snapshot.scan(b"", None, &mut |_, value| {
        assert_eq!(value, b"old");
        rows += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((visited.unwrap(), rows), (300, 300));
    let mut stats = Vec::new();
    store.stats(&mut |name, value| stats.push((name.to_owned(), value)));
    for name in ["pages", "free_pages", "file_bytes", "wal_bytes"] {
        let (_, value) = stats.iter().find(|(known, _)| known == name).unwrap();
        assert_eq!(*value > 0.0, name != "free_pages", "{name}: {value}");
    }
}

#[test]
fn errors_keep_their_kind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    RealFs.write_atomic(&path, &[0x5a; 1 << 16]).unwrap();
    let damaged = open(&options(directory.path(), None)).err().unwrap();
    assert!(matches!(damaged, Error::Corruption { .. }), "{damaged:?}");
    assert!(damaged.to_string().contains(FILE_NAME), "{damaged}");

    let failure = |code| RusqliteError::SqliteFailure(ffi::Error::new(code), None);
    assert!(convert(&path, "put", failure(ffi::SQLITE_FULL)).is_no_space());
    for code in [
        ffi::SQLITE_BUSY,
        ffi::SQLITE_READONLY,
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_NOMEM,
        ffi::SQLITE_PROTOCOL,
        ffi::SQLITE_INTERRUPT,
    ] {
        assert!(matches!(convert(&path, "put", failure(code)), Error::Io { .. }), "{code}");
    }
    let large = convert(&path, "put", failure(ffi::SQLITE_TOOBIG));
    assert!(matches!(large, Error::Usage { .. }), "{large:?}");
}

#[test]
fn a_failed_sync_ends_all_writing() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings::read(&options(directory.path(), None)).unwrap();
    let path = directory.path().join(FILE_NAME);
    let connection = settings.connect(&path, Durability::Sync).unwrap();
    let store = SqliteStore {
        ticker: None,
        keeper: Mutex::new(connection),
        writers: Mutex::new(()),
        failure: OnceLock::new(),
        settings,
        data_dir: directory.path().to_owned(),
        path,
        fs: Arc::new(RealFs),
    };
    let failed = RusqliteError::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None);
    let first = store.write("put", || Err::<(), _>(failed)).unwrap_err();
    let later = store.write("put", || Ok(())).unwrap_err();
    for error in [first, later, Box::new(store).close().unwrap_err()] {
        assert!(matches!(error, Error::Poisoned { .. }), "{error:?}");
    }
}

#[test]
fn the_version_is_the_one_that_is_linked() {
    is_linked("rusqlite", "0.41.1");
    let directory = tempfile::tempdir().unwrap();
    let version = open(&options(directory.path(), None)).unwrap().info().version;
    assert!(version.starts_with("sqlite 3."), "{version}");
    assert!(version.ends_with("(rusqlite 0.41.1)"), "{version}");
}
