//! What the engine promises beside the contract: durability, snapshots over tables, errors.

use super::*;
use crate::trial::{gives, is_linked, options, stat};
use std::ops::ControlFlow;

#[test]
fn every_durability_is_given_as_it_was_asked_for() {
    gives(
        &ENGINE,
        &[
            (None, Durability::Os),
            (Some(Durability::None), Durability::None),
            (Some(Durability::Interval(5)), Durability::Interval(5)),
            (Some(Durability::Sync), Durability::Sync),
        ],
    );
}

/// Small memory tables, so that what the snapshot sees is written out and merged under it, with
/// values on both sides of the size from which they are kept apart.
#[test]
fn a_snapshot_stays_while_tables_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), Some(Durability::None));
    options.options = vec![("memory_bytes".to_owned(), "256K".to_owned())];
    let store = open(&options).unwrap();
    let mut session = store.session().unwrap();
    let value = |n: u32, letter: u8| vec![letter; if n.is_multiple_of(3) { 3000 } else { 300 }];
    for n in 0..400u32 {
        session.put(&n.to_be_bytes(), &value(n, b'o')).unwrap();
    }
    let snapshot = store.snapshot().unwrap().unwrap();
    let tables = || stat(store.as_ref(), "sstables").unwrap();
    let mut rounds = 0;
    while tables() < 2.0 || rounds < 3 {
        for n in 0..400u32 {
            session.put(&n.to_be_bytes(), &value(n, b'n')).unwrap();
        }
        rounds += 1;
    }
    let mut rows = 0;
    let visited = snapshot.scan(b"", None, &mut |key, found| {
        let n = u32::from_be_bytes(key.try_into().unwrap());
        assert_eq!(found, value(n, b'o'));
        rows += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((visited.unwrap(), rows), (400, 400));
    let visit = &mut |_: &[u8], found: &[u8]| {
        assert_eq!(found[0], b'n');
        ControlFlow::Continue(())
    };
    assert_eq!(session.scan_rev(b"", None, visit).unwrap(), 400);
}

#[test]
fn errors_keep_their_kind() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), None)).unwrap();
    let again = open(&options(directory.path(), None)).err().unwrap();
    assert!(matches!(again, Error::Io { .. }), "{again:?}");
    assert!(again.to_string().contains("tidesdb cannot open"), "{again}");
    drop(store);
    let error = |code: ErrorCode| TidesError::TidesDB { code, context: "test" };
    let sorted = |code| convert(directory.path(), "put", &error(code));
    assert!(sorted(ErrorCode::NoSpace).is_no_space());
    assert!(matches!(sorted(ErrorCode::Corruption), Error::Corruption { .. }));
    assert!(matches!(sorted(ErrorCode::TooLarge), Error::Usage { .. }));
    assert!(matches!(sorted(ErrorCode::InvalidDb), Error::Closed));
    for code in [ErrorCode::TxnExpired, ErrorCode::Unknown, ErrorCode::Io] {
        assert!(matches!(sorted(code), Error::Io { .. }), "{code:?}");
    }
    let mut without = options(directory.path(), None);
    without.data_dir = None;
    assert!(open(&without).err().unwrap().to_string().contains("needs a data directory"));
}

#[test]
fn what_is_refused_for_the_moment_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), None);
    options.options = vec![("isolation".to_owned(), "snapshot".to_owned())];
    let database = settings::read(&options, Durability::Os, directory.path()).unwrap();
    let store = TidesStore {
        ticker: None,
        database: Arc::new(TidesDB::open(database.0).unwrap()),
        failure: OnceLock::new(),
        durability: Durability::Os,
        isolation: database.2,
        data_dir: directory.path().to_owned(),
        stripes: Stripes::new(),
        retries_max: 9,
    };
    let refused = || TidesError::TidesDB { code: ErrorCode::Conflict, context: "test" };
    let mut tries = 0;
    let done = store.retried("put", || {
        tries += 1;
        if tries < 5 { Err(refused()) } else { Ok(tries) }
    });
    assert_eq!(done.unwrap(), 5);
    let error = store.retried("put", || Err::<(), _>(refused())).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    // A sync that failed ends all writing.
    store.failure.set("the disk is gone".to_owned()).unwrap();
    let error = store.write("put", |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error:?}");
    assert!(Box::new(store).close().is_err());
}

#[test]
fn the_version_is_the_one_that_is_linked() {
    is_linked("tidesdb", CRATE_VERSION.trim_start_matches("tidesdb "));
    let directory = tempfile::tempdir().unwrap();
    let version = open(&options(directory.path(), None)).unwrap().info().version;
    assert!(version.starts_with("tidesdb 10."), "{version}");
}
