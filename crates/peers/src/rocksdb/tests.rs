//! What the engine promises beside the contract: durability, options, errors.

use super::*;
use keyrack_store::WriteOptions;
use keyrack_vfs::{Fs as _, RealFs};

fn options(directory: &Path, durability: Option<Durability>) -> OpenOptions {
    let mut options = OpenOptions::in_memory(Arc::new(RealFs));
    options.data_dir = Some(directory.to_owned());
    options.durability = durability;
    options
}

fn has(store: &dyn Store, key: &[u8]) -> bool {
    store.session().unwrap().get(key, &mut |_| {}).unwrap()
}

#[test]
fn every_durability_is_given_as_it_was_asked_for() {
    for (asked, given) in [
        (None, Durability::Os),
        (Some(Durability::None), Durability::None),
        (Some(Durability::Os), Durability::Os),
        (Some(Durability::Interval(5)), Durability::Interval(5)),
        (Some(Durability::Sync), Durability::Sync),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&options(directory.path(), asked)).unwrap();
        assert_eq!(store.info().durability, given);
        assert_eq!(store.data_dir(), Some(directory.path()));
        store.session().unwrap().put(b"kept", b"1").unwrap();
        let mut batch = Batch::new();
        batch.put(b"too", b"2");
        store.session().unwrap().apply(&batch).unwrap();
        let synced = store.session().unwrap().put_with(b"synced", b"3", WriteOptions::SYNC);
        assert_eq!(store.info().syncs_single_puts, given != Durability::None);
        assert_eq!(synced.is_ok(), store.info().syncs_single_puts);
        store.close().unwrap();
        let store = open(&options(directory.path(), asked)).unwrap();
        assert!(has(store.as_ref(), b"kept") && has(store.as_ref(), b"too"), "{given}");
        assert_eq!(has(store.as_ref(), b"synced"), store.info().syncs_single_puts, "{given}");
    }
}

/// Without a log, and without `close`, what is in memory is lost; with a log it is not.
#[test]
fn without_a_log_a_store_that_is_not_closed_forgets() {
    for (durability, is_there) in [(Durability::None, false), (Durability::Os, true)] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&options(directory.path(), Some(durability))).unwrap();
        store.session().unwrap().put(b"key", b"find-me-in-the-log").unwrap();
        let logs = RealFs.list(directory.path()).unwrap().into_iter();
        let mut logs = logs.filter(|entry| entry.name.to_string_lossy().ends_with(".log"));
        let log = RealFs.read(&directory.path().join(logs.next().unwrap().name)).unwrap();
        let found = log.windows(18).any(|window| window == b"find-me-in-the-log");
        assert_eq!(found, is_there, "{durability}");
    }
}

#[test]
fn options_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let with = |key: &str, value: &str| {
        let mut options = options(directory.path(), None);
        options.options = vec![(key.to_owned(), value.to_owned())];
        open(&options)
    };
    for (key, value) in [("compression", "best"), ("threads", "0"), ("filter_bits", "x")] {
        let error = with(key, value).err().unwrap().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
    for (key, value) in [
        ("compression", "none"),
        ("compression", "snappy"),
        ("compression", "zstd"),
        ("filter_bits", "0"),
        ("cache_bytes", "0"),
        ("memory_bytes", "1M"),
    ] {
        assert!(with(key, value).is_ok(), "{key}={value}");
    }
    let mut without = options(directory.path(), None);
    without.data_dir = None;
    let error = open(&without).err().unwrap().to_string();
    assert!(error.contains("needs a data directory"), "{error}");
}

#[test]
fn tables_come_into_being_and_are_read() {
    for compression in ["lz4", "snappy", "zstd", "none"] {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(directory.path(), Some(Durability::None));
        options.options = vec![
            ("memory_bytes".to_owned(), "64K".to_owned()),
            ("compression".to_owned(), compression.to_owned()),
        ];
        let store = open(&options).unwrap();
        let mut session = store.session().unwrap();
        let tables_bytes = || {
            let mut bytes = 0.0;
            store.stats(&mut |name, value| {
                if name == "tables_bytes" {
                    bytes = value;
                }
            });
            bytes
        };
        let mut count = 0u32;
        while tables_bytes() < 400_000.0 {
            // Values that no compression shrinks, by an odd multiplier.
            let value: Vec<u8> = (0..1000u32)
                .map(|n| ((n * 1000 + count).wrapping_mul(0x9e37_79b1) >> 24) as u8)
                .collect();
            session.put(&count.to_be_bytes(), &value).unwrap();
            count += 1;
        }
        let visit = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        assert_eq!(session.scan(b"", None, visit).unwrap(), u64::from(count));
        assert_eq!(session.scan_rev(b"", None, visit).unwrap(), u64::from(count));
    }
}

#[test]
fn errors_keep_their_kind() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), None)).unwrap();
    let again = open(&options(directory.path(), None)).err().unwrap();
    assert!(matches!(again, Error::Usage { .. }), "{again:?}");
    drop(store);
    RealFs.write_atomic(&directory.path().join("CURRENT"), b"nonsense").unwrap();
    let damaged = open(&options(directory.path(), None)).err().unwrap();
    assert!(matches!(damaged, Error::Corruption { .. }), "{damaged:?}");
}

#[test]
fn the_version_is_the_one_that_is_linked() {
    let lock = include_str!("../../../../Cargo.lock");
    assert!(lock.contains("name = \"rocksdb\"\nversion = \"0.25.0\"\n"), "{VERSION}");
    assert!(lock.contains("name = \"librocksdb-sys\"\nversion = \"0.19.0+11.8.1\"\n"), "{VERSION}");
}
