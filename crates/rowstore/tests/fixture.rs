//! Stores that each version wrote. They open for ever.
//!
//! Each has a checkpoint, a log with rows of all kinds, removals and a removal of everything, and a
//! second log that is not used any more. They are never written again: when a format changes, its
//! version goes up, and another store joins them.

use crate::support::{Content, DIR, close, content, open, set_element, tiny, with_logs};
use keyrack_rowstore::{Options, Rows};
use keyrack_store::Update;
use keyrack_testkit::damage::directory;
use keyrack_vfs::{Fs, MemFs, RealFs};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The store on a disk in memory, and what is in it.
fn build() -> (MemFs, Content) {
    let disk = MemFs::new();
    let options = |logs| Options { threads: 1, ..with_logs(logs) }.with_segment_bytes(16 << 10);
    let store = open(&disk, options(2));
    let mut session = store.session().unwrap();
    session.put(b"gone", b"with the rest", 0, 0).unwrap();
    session.clear().unwrap();
    for n in 0..50_u8 {
        session.put(&[b'c', n], &[n; 20], u32::from(n % 3), u64::from(n % 2) * 9000).unwrap();
    }
    session.flush().unwrap();
    drop(session);
    store.checkpoint().unwrap();
    // Into the other log.
    let mut session = store.session().unwrap();
    session.put(b"", b"of the empty key", 0, 0).unwrap();
    for n in 0..10_u8 {
        session.remove(&[b'c', n]).unwrap();
    }
    session.begin_group().unwrap();
    session
        .update(b"columns", &mut |_, new| {
            new.columns();
            new.push(b"first");
            new.push(b"");
            new.push(b"third");
            Update::Put
        })
        .unwrap();
    session
        .update(b"fields", &mut |_, new| {
            new.fields();
            new.push_field(b"name", b"value");
            new.push_field(b"other", b"");
            new.set_expires_ms(1 << 50);
            Update::Put
        })
        .unwrap();
    session.flush().unwrap();
    drop(session);
    let expected = content(&store);
    close(store);
    (disk, expected)
}

/// A fixture on a disk in memory.
fn load(name: &str) -> MemFs {
    let disk = MemFs::new();
    let root = fixture(name);
    for (path, bytes) in directory(&RealFs, &root) {
        let to = Path::new(DIR).join(path.strip_prefix(&root).unwrap());
        disk.create_dir_all(to.parent().unwrap()).unwrap();
        disk.write_atomic(&to, &bytes).unwrap();
    }
    disk
}

#[test]
fn a_store_of_version_1_opens_and_goes_on() {
    opens_and_goes_on("store-1");
}

#[test]
fn a_store_of_version_2_opens_and_goes_on() {
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        for (path, bytes) in directory(&build().0, Path::new(DIR)) {
            let to = fixture("store-2").join(path.strip_prefix(DIR).unwrap());
            RealFs.create_dir_all(to.parent().unwrap()).unwrap();
            RealFs.write_atomic(&to, &bytes).unwrap();
        }
    }
    opens_and_goes_on("store-2");
}

/// As [`build`], with a collection in the checkpoint and in the log, and with escaped keys.
fn build_with_elements() -> (MemFs, Content) {
    let (disk, _) = build();
    let store = open(&disk, Options { threads: 1, ..with_logs(2) }.with_segment_bytes(16 << 10));
    for round in 0..2_u8 {
        let mut session = store.session().unwrap();
        for n in 0..20_u8 {
            let value = (n % 4 != round).then_some([n; 9]);
            let value = value.as_ref().map(|value| &value[..]);
            set_element(&mut *session, b"large", &[b'f', n], value, u64::from(n % 2) << 50);
        }
        session.put(&[0xff, 0xfe, round, 1], b"escaped", 0, 0).unwrap();
        session.flush().unwrap();
        drop(session);
        if round == 0 {
            store.checkpoint().unwrap();
        }
    }
    let expected = content(&store);
    close(store);
    (disk, expected)
}

#[test]
fn a_store_with_elements_opens_and_goes_on() {
    let (disk, expected) = build_with_elements();
    assert_eq!(expected[&b"large"[..]].parts.len(), 2 * 15);
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        for (path, bytes) in directory(&disk, Path::new(DIR)) {
            let to = fixture("store-4").join(path.strip_prefix(DIR).unwrap());
            RealFs.create_dir_all(to.parent().unwrap()).unwrap();
            RealFs.write_atomic(&to, &bytes).unwrap();
        }
    }
    let disk = load("store-4");
    for logs in [2, 1, 3] {
        let store = open(&disk, with_logs(logs));
        assert!(content(&store) == expected, "{logs} logs");
        store.checkpoint().unwrap();
        close(store);
    }
    assert!(content(&open(&disk, tiny())) == expected);
}

fn opens_and_goes_on(name: &str) {
    let (_, expected) = build();
    assert_eq!(expected.len(), 43);
    let disk = load(name);
    for logs in [2, 1, 3] {
        let store = open(&disk, with_logs(logs));
        assert!(content(&store) == expected, "{logs} logs");
        store.checkpoint().unwrap();
        close(store);
    }
    assert!(content(&open(&disk, tiny())) == expected);
}
