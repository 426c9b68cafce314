//! What the engine promises beside the contract: durability, options, limits, errors.

use super::*;
use crate::trial::{damaged, fill, gives, is_linked, options, options_with, stat, value_of};
use keyrack_vfs::{Fs as _, RealFs};
use std::ops::ControlFlow;

#[test]
fn every_durability_is_given_as_it_was_asked_for() {
    for asked in [None, Some(Durability::None), Some(Durability::Interval(5))] {
        let directory = tempfile::tempdir().unwrap();
        assert!(open(&options(directory.path(), asked)).unwrap().info().syncs_single_puts);
    }
    gives(
        &ENGINE,
        &[
            (None, Durability::Os),
            (Some(Durability::None), Durability::None),
            (Some(Durability::Os), Durability::Os),
            (Some(Durability::Interval(5)), Durability::Interval(5)),
            (Some(Durability::Sync), Durability::Sync),
        ],
    );
}

/// What an acknowledged write survives with `os` is the end of the process: a copy of the files as
/// they are while the store is open holds it. With `none` it need not.
#[test]
fn an_acknowledged_write_is_in_the_journal() {
    for (durability, is_there) in [(Durability::None, false), (Durability::Os, true)] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&options(directory.path(), Some(durability))).unwrap();
        store.session().unwrap().put(b"key", b"find-me-in-the-journal").unwrap();
        let journals = RealFs.list(directory.path()).unwrap().into_iter();
        let mut journals = journals.filter(|entry| entry.name.to_string_lossy().ends_with(".jnl"));
        let path = directory.path().join(journals.next().unwrap().name);
        let file = RealFs.open(&path, &keyrack_vfs::OpenOptions::new().read(true)).unwrap();
        let mut head = [0; 4096];
        file.read_at(0, &mut head).unwrap();
        let found = head.windows(22).any(|window| window == b"find-me-in-the-journal");
        assert_eq!(found, is_there, "{durability}");
    }
}

#[test]
fn keys_and_bounds_beyond_the_limit_of_fjall() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&options(directory.path(), None)).unwrap();
    let mut session = store.session().unwrap();
    let longest = vec![b'k'; KEY_BYTES_MAX];
    let longer = vec![b'k'; KEY_BYTES_MAX + 1];
    // The escape takes a byte.
    let escaped = vec![0; KEY_BYTES_MAX];
    session.put(&longest, b"1").unwrap();
    session.put(&escaped[1..], b"0").unwrap();
    let mut batch = Batch::new();
    batch.put(b"a", b"1");
    batch.put(&longer, b"1");
    let keep = &mut |_: Option<&[u8]>, _: &mut Vec<u8>| Update::Keep;
    for error in [
        session.get(&longer, &mut |_| {}).unwrap_err(),
        session.put(&longer, b"").unwrap_err(),
        session.put(&escaped, b"").unwrap_err(),
        session.remove(&longer).unwrap_err(),
        session.update(&longer, keep).unwrap_err(),
        session.apply(&batch).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Usage { .. }), "{error:?}");
        assert!(error.to_string().contains("65535"), "{error}");
    }
    assert_eq!(value_of(store.as_ref(), b"a"), None, "nothing of a refused batch is applied");
    let mut rows = |low: &[u8], high: Option<&[u8]>| {
        let mut seen = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            seen.push(key.len());
            ControlFlow::Continue(())
        };
        session.scan(low, high, visit).unwrap();
        seen
    };
    assert_eq!(rows(b"", Some(&longer)), [KEY_BYTES_MAX - 1, KEY_BYTES_MAX]);
    assert_eq!(rows(&longer, None), [0; 0]);
    assert_eq!(rows(&escaped, None), [KEY_BYTES_MAX]);
    assert_eq!(rows(&longer, Some(&[&longer[..], b"x"].concat())), [0; 0]);
}

#[test]
fn options_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let with = |key, value| open(&options_with(directory.path(), key, value));
    for (key, value) in [("compression", "zstd"), ("threads", "0"), ("filter_bits", "x")] {
        let error = with(key, value).err().unwrap().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
    for (key, value) in [("compression", "none"), ("filter_bits", "0"), ("memory_bytes", "1M")] {
        assert!(with(key, value).is_ok(), "{key}");
    }
}

#[test]
fn tables_come_into_being_and_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path(), Some(Durability::None));
    options.options = vec![("memory_bytes".to_owned(), "64K".to_owned())];
    let store = open(&options).unwrap();
    let mut session = store.session().unwrap();
    fill(session.as_mut(), || stat(store.as_ref(), "tables").unwrap() >= 2.0);
}

#[test]
fn errors_keep_their_kind() {
    damaged(&ENGINE, "version", b"no version of fjall");
    let place = Path::new("/data");
    let poisoned = convert(place, "put", FjallError::Poisoned);
    assert!(matches!(poisoned, Error::Poisoned { .. }), "{poisoned:?}");
    let full = FjallError::Storage(LsmError::Io(std::io::ErrorKind::StorageFull.into()));
    assert!(convert(place, "put", full).is_no_space());
}

#[test]
fn the_version_is_the_one_that_is_linked() {
    is_linked("fjall", VERSION.trim_start_matches("fjall "));
}
