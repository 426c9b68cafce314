//! What the tests of several engines need.

use keyrack_store::{Durability, Engine, Error, OpenOptions, Store};
use keyrack_vfs::RealFs;
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
