//! What the engine promises beside the contract: durability, long keys, the map, errors.

use super::*;
use crate::trial::{damaged, gives, is_linked, needs_a_directory, options, options_with, stat};

#[test]
fn a_durability_that_lmdb_lacks_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let error = open(&options(directory.path(), Some(Durability::Interval(50)))).err().unwrap();
    assert!(matches!(error, Error::Usage { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("'interval:50'") && error.contains("sync, os and none"), "{error}");
    gives(
        &ENGINE,
        &[
            (None, Durability::Sync),
            (Some(Durability::Sync), Durability::Sync),
            (Some(Durability::Os), Durability::Os),
            (Some(Durability::None), Durability::None),
        ],
    );
    for (given, is_synced) in [(Durability::Sync, true), (Durability::Os, false)] {
        let store = open(&options(directory.path(), Some(given))).unwrap();
        assert_eq!(store.info().syncs_single_puts, is_synced);
    }
}

/// Keys on both sides of the length from which on they share records, which agree in most of their
/// bytes, against a sorted vector.
#[test]
fn long_keys_are_in_order_among_short_ones() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), Some(Durability::None))).unwrap();
    let mut session = store.session().unwrap();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for first in [0, b'k', 0xff] {
        for length in [1, LONG - 2, LONG - 1, LONG, LONG + 1, 4 * LONG] {
            for last in [0, 1, 0xff] {
                let mut key = vec![first; length];
                key.push(last);
                keys.push(key);
            }
        }
    }
    for key in &keys {
        session.put(key, &(key.len() as u32).to_le_bytes()).unwrap();
    }
    keys.sort();
    let mut bounds: Vec<Option<&[u8]>> = keys.iter().map(|key| Some(key.as_slice())).collect();
    bounds.push(None);
    for low in &keys {
        for high in &bounds {
            let expected: Vec<&[u8]> = keys
                .iter()
                .map(Vec::as_slice)
                .filter(|key| *key >= low.as_slice() && high.is_none_or(|high| *key < high))
                .collect();
            let mut seen = Vec::new();
            let visit = &mut |key: &[u8], _: &[u8]| {
                seen.push(key.to_vec());
                ControlFlow::Continue(())
            };
            session.scan(low, *high, visit).unwrap();
            assert_eq!(seen, expected);
            seen.clear();
            let visit = &mut |key: &[u8], _: &[u8]| {
                seen.push(key.to_vec());
                ControlFlow::Continue(())
            };
            session.scan_rev(low, *high, visit).unwrap();
            seen.reverse();
            assert_eq!(seen, expected);
        }
    }
    for key in &keys {
        assert_eq!(session.remove(key).unwrap(), Removed::Existed);
        assert_eq!(session.remove(key).unwrap(), Removed::Absent);
    }
    let visit = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
    assert_eq!(session.scan(b"", None, visit).unwrap(), 0);
}

#[test]
fn the_longest_direct_key_is_one_that_lmdb_takes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), None)).unwrap();
    drop(store);
    let mut builder = EnvOpenOptions::new().read_txn_without_tls();
    builder.map_size(1 << 20);
    // SAFETY: the directory is the test's own.
    let env = unsafe { builder.open(directory.path()) }.unwrap();
    assert_eq!(env.max_key_size(), LONG);
}

#[test]
fn a_full_map_is_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), Some(Durability::None));
    options.options = vec![("map_bytes".to_owned(), "200000".to_owned())];
    let store = open(&options).unwrap();
    let mut session = store.session().unwrap();
    let errors = (0u32..).find_map(|n| session.put(&n.to_be_bytes(), &[1; 4000]).err());
    let error = errors.unwrap();
    assert!(error.is_no_space(), "{error:?}");
    assert!(error.to_string().contains("map_bytes"), "{error}");
    // What was there is there, and what is removed makes room.
    assert!(session.get(&0u32.to_be_bytes(), &mut |_| {}).unwrap());
}

#[test]
fn options_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |value: &str| {
        let options = options_with(directory.path(), "map_bytes", value);
        open(&options).err().unwrap().to_string()
    };
    let error = refused("lots");
    assert!(error.contains("map_bytes") && error.contains("'lots'"), "{error}");
    let error = refused(&u64::MAX.to_string());
    assert!(error.contains("more than memory"), "{error}");
    needs_a_directory(&ENGINE);
}

#[test]
fn errors_keep_their_kind() {
    let damaged = damaged(&ENGINE, FILE_NAME, &[0x5a; 1 << 16]);
    assert!(damaged.to_string().contains(FILE_NAME), "{damaged}");
    let path = Path::new(FILE_NAME);
    let bucket = convert(path, "get", Trouble::Bucket(Damage));
    assert!(matches!(bucket, Error::Corruption { .. }), "{bucket:?}");
    let poisoned = convert(path, "put", MdbError::Panic.into());
    assert!(matches!(poisoned, Error::Poisoned { .. }), "{poisoned:?}");
}

#[test]
fn statistics_name_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), None)).unwrap();
    assert!(stat(store.as_ref(), "file_bytes").unwrap() > 0.0);
}

#[test]
fn the_version_is_the_one_that_is_linked() {
    is_linked("heed", "0.22.1");
    let directory = tempfile::tempdir().unwrap();
    let version = open(&options(directory.path(), None)).unwrap().info().version;
    assert!(version.starts_with("lmdb 0.9."), "{version}");
    assert!(version.ends_with("(heed 0.22.1)"), "{version}");
}
