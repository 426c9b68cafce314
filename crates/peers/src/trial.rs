//! What the tests of several engines need.

use keyrack_store::{Batch, Durability, Engine, Error, OpenOptions, Session, Store, WriteOptions};
use keyrack_vfs::{Fs as _, RealFs};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Options of a store in a directory.
pub(crate) fn options(directory: &Path, durability: Option<Durability>) -> OpenOptions {
    let mut options = OpenOptions::in_memory(Arc::new(RealFs));
    options.data_dir = Some(directory.to_owned());
    options.durability = durability;
    options
}

/// The same with one option of the engine.
pub(crate) fn options_with(directory: &Path, key: &str, value: &str) -> OpenOptions {
    let mut options = options(directory, None);
    options.options = vec![(key.to_owned(), value.to_owned())];
    options
}

/// Each durability is given as it was asked for. What was put, applied or put synced is there when
/// a store that was closed is opened again; a synced put is refused where none is announced.
pub(crate) fn gives(engine: &Engine, durabilities: &[(Option<Durability>, Durability)]) {
    for (asked, given) in durabilities {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || (engine.open)(&options(directory.path(), *asked)).expect("a store");
        let store = open();
        let info = store.info();
        assert_eq!(info.durability, *given, "{}", engine.name);
        assert_eq!(store.data_dir(), Some(directory.path()), "{}", engine.name);
        let mut session = store.session().expect("a session");
        session.put(b"kept", b"1").expect("a put");
        let mut batch = Batch::new();
        batch.put(b"too", b"2");
        session.apply(&batch).expect("a batch");
        let synced = session.put_with(b"synced", b"3", WriteOptions::SYNC);
        assert_eq!(synced.is_ok(), info.syncs_single_puts, "{} {given}", engine.name);
        drop(session);
        store.close().expect("an end");
        let store = open();
        let value_of = |key| value_of(store.as_ref(), key);
        let synced = info.syncs_single_puts.then(|| b"3".to_vec());
        assert_eq!(value_of(b"kept").as_deref(), Some(&b"1"[..]), "{} {given}", engine.name);
        assert_eq!(value_of(b"too").as_deref(), Some(&b"2"[..]), "{} {given}", engine.name);
        assert_eq!(value_of(b"synced"), synced, "{} {given}", engine.name);
    }
}

/// The error of opening a store whose file `name` has been overwritten, which is of the kind for
/// damage. Before that nobody else could open the store while it was open.
pub(crate) fn damaged(engine: &Engine, name: &str, bytes: &[u8]) -> Error {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || (engine.open)(&options(directory.path(), None));
    let store = open().expect("a store");
    let again = open().err().expect("it is open already");
    assert!(matches!(again, Error::Usage { .. }), "{again:?}");
    drop(store);
    let path = directory.path().join(name);
    assert!(RealFs.exists(&path).expect("a look"), "{name}");
    RealFs.write_atomic(&path, bytes).expect("a write");
    let error = open().err().expect("it is damaged");
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
    error
}

/// Puts values that no compression shrinks until `is_enough`, and counts them in both directions.
pub(crate) fn fill(session: &mut dyn Session, mut is_enough: impl FnMut() -> bool) {
    let mut count = 0u32;
    while !is_enough() {
        // By an odd multiplier.
        let value: Vec<u8> = (0..1000u32)
            .map(|n| ((n * 1000 + count).wrapping_mul(0x9e37_79b1) >> 24) as u8)
            .collect();
        session.put(&count.to_be_bytes(), &value).expect("a put");
        count += 1;
    }
    let visit = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
    assert_eq!(session.scan(b"", None, visit).expect("a scan"), u64::from(count));
    assert_eq!(session.scan_rev(b"", None, visit).expect("a scan"), u64::from(count));
}

/// A copy of the value of a key.
pub(crate) fn value_of(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let visit = &mut |found: &[u8]| value = Some(found.to_vec());
    store.session().expect("a session").get(key, visit).expect("a lookup");
    value
}

/// A number of the statistics.
pub(crate) fn stat(store: &dyn Store, name: &str) -> Option<f64> {
    let mut found = None;
    store.stats(&mut |other, value| {
        if other == name {
            found = Some(value);
        }
    });
    found
}

/// An engine on disk is not opened without a directory, nor in one that is missing.
pub(crate) fn needs_a_directory(engine: &Engine) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = options(&directory.path().join("missing"), None);
    let error = (engine.open)(&options).err().expect("there is no directory");
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    options.data_dir = None;
    let error = (engine.open)(&options).err().expect("there is no directory").to_string();
    assert!(error.contains("needs a data directory"), "{error}");
}

/// The version that an engine tells is written by hand beside the one that is linked.
pub(crate) fn is_linked(package: &str, version: &str) {
    let lock = include_str!("../../../Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"{version}\"\n");
    assert!(lock.contains(&entry), "{package} is linked in another version than {version}");
}
