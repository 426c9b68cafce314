//! Tools on stores with key spaces: what sort of store it is, checks and repairs of all spaces.

use crate::support::{DIR, backwards, is_table, open, tiny};
use keyrack_flodb::{
    Comparator, Error, Options, Spaces, SpacesBatch, WriteOptions, dump, repair, verify,
};
use keyrack_testkit::damage::directory;
use keyrack_vfs::{Fs, MemFs};
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;

/// What tools read the files of such a store with.
fn with_spaces() -> Options {
    Options { comparator: Spaces::comparator(&[]).unwrap(), ..tiny() }
}

fn shared(disk: &MemFs) -> Arc<dyn Fs> {
    Arc::new(disk.clone())
}

/// Two spaces, in tables and in the log.
fn filled(disk: &MemFs, order: &Comparator) {
    let spaces = Spaces::open_in(shared(disk), Path::new(DIR), tiny(), from_ref(order)).unwrap();
    let one = spaces.get_or_create("one", order).unwrap();
    let two = spaces.get_or_create("two", &Comparator::Bytewise).unwrap();
    for n in 0..1500_u32 {
        let mut batch = SpacesBatch::new();
        batch.put(&one, &n.to_be_bytes(), &[1; 60]);
        batch.put(&two, &n.to_be_bytes(), &[2; 60]);
        spaces.write(&batch, WriteOptions { sync: n == 1499 }).unwrap();
    }
    spaces.flush().unwrap();
    two.put(b"last", b"in the log").unwrap();
}

/// How many keys each of the two spaces has.
fn count(disk: &MemFs) -> [usize; 2] {
    let spaces = Spaces::open_in(shared(disk), Path::new(DIR), tiny(), &[]).unwrap();
    ["one", "two"].map(|name| {
        let mut iter = spaces.get(name).unwrap().iter().unwrap();
        iter.seek_first().unwrap();
        let mut count = 0;
        while iter.is_valid() {
            count += 1;
            iter.next().unwrap();
        }
        count
    })
}

fn named(disk: &MemFs, begins: &str) -> PathBuf {
    let entries = disk.list(Path::new(DIR)).unwrap();
    let mut names = entries.iter().map(|entry| entry.name.to_string_lossy());
    let name = names.find(|name| name.starts_with(begins) || name.ends_with(begins)).unwrap();
    Path::new(DIR).join(&*name)
}

fn spoil(disk: &MemFs, path: &Path) {
    let mut bytes = disk.read(path).unwrap();
    bytes[3] ^= 1;
    disk.write_atomic(path, &bytes).unwrap();
}

/// Each file says it that can, one after another.
#[test]
fn a_store_says_whether_it_has_spaces_as_long_as_anything_of_it_can() {
    let disk = MemFs::new();
    let says = |disk: &MemFs| Spaces::are_in(disk, Path::new(DIR)).unwrap();
    let plain = MemFs::new();
    open(&plain, tiny()).put(b"key", b"value").unwrap();
    assert_eq!(says(&plain), Some(false));
    filled(&disk, &Comparator::Bytewise);
    assert_eq!(says(&disk), Some(true));
    spoil(&disk, &named(&disk, "CURRENT"));
    assert_eq!(says(&disk), Some(true), "the manifest says it");
    spoil(&disk, &named(&disk, "MANIFEST-"));
    assert_eq!(says(&disk), Some(true), "tables say it");
    for table in directory(&disk, Path::new(DIR)).into_keys().filter(|path| is_table(path)) {
        assert_eq!(says(&disk), Some(true));
        disk.remove_file(&table).unwrap();
    }
    assert_eq!(says(&disk), None);
    disk.create_dir_all(Path::new("/empty")).unwrap();
    assert_eq!(Spaces::are_in(&disk, Path::new("/empty")).unwrap(), None);
    assert!(Spaces::are_in(&disk, Path::new("/absent")).is_err());
}

#[test]
fn all_spaces_are_checked_and_repaired() {
    let disk = MemFs::new();
    filled(&disk, &Comparator::Bytewise);
    let check = |disk: &MemFs| verify(shared(disk), Path::new(DIR), &with_spaces()).unwrap();
    let sound = check(&disk);
    assert!(sound.is_sound() && sound.log_records >= 1, "{sound:?}");
    let unchanged = directory(&disk, Path::new(DIR));
    assert!(!repair(shared(&disk), Path::new(DIR), &with_spaces()).unwrap().changed);
    assert_eq!(directory(&disk, Path::new(DIR)), unchanged);
    // Without a manifest everything that is in tables and in the log comes back.
    spoil(&disk, &named(&disk, "MANIFEST-"));
    assert!(!check(&disk).is_sound());
    let report = repair(shared(&disk), Path::new(DIR), &with_spaces()).unwrap();
    assert!(report.changed, "{report:?}");
    assert!(check(&disk).is_sound());
    assert_eq!(count(&disk), [1500, 1501]);
    // Of a damaged table, at least the other blocks.
    spoil(&disk, &named(&disk, ".table"));
    assert!(!check(&disk).is_sound());
    let report = repair(shared(&disk), Path::new(DIR), &with_spaces()).unwrap();
    assert!(!report.losses.is_empty());
    assert!(check(&disk).is_sound());
    let spaces = Spaces::open_in(shared(&disk), Path::new(DIR), tiny(), &[]);
    // The catalog itself may have been in the block.
    assert!(spaces.is_ok(), "{spaces:?}");
}

/// Keys whose order nobody gave cannot be held against it: that is said, and nothing is changed.
#[test]
fn a_tool_that_does_not_know_an_order_says_so() {
    let disk = MemFs::new();
    filled(&disk, &backwards());
    spoil(&disk, &named(&disk, "MANIFEST-"));
    let before = directory(&disk, Path::new(DIR));
    let refused = |error: Error| {
        let what = error.to_string();
        assert!(
            matches!(error, Error::Usage(_)) && what.contains("an order that was not"),
            "{what}"
        );
    };
    refused(verify(shared(&disk), Path::new(DIR), &with_spaces()).unwrap_err());
    refused(repair(shared(&disk), Path::new(DIR), &with_spaces()).unwrap_err());
    let mut after = directory(&disk, Path::new(DIR));
    // The lock's file holds who had it last.
    let lock = Path::new(DIR).join("LOCK");
    after.insert(lock.clone(), before[&lock].clone());
    assert_eq!(after, before);
    // Who knows it can do both.
    let known = Options { comparator: Spaces::comparator(&[backwards()]).unwrap(), ..tiny() };
    assert!(repair(shared(&disk), Path::new(DIR), &known).unwrap().changed);
    assert!(verify(shared(&disk), Path::new(DIR), &known).unwrap().is_sound());
}

#[test]
fn tables_of_key_spaces_can_be_dumped() {
    let disk = MemFs::new();
    filled(&disk, &Comparator::Bytewise);
    let mut prefixes = [0; 256];
    dump(&disk, &named(&disk, ".table"), &mut |item| {
        if let keyrack_flodb::Item::Write { key, .. } = item {
            prefixes[usize::from(key[0])] += 1;
        }
        true
    })
    .unwrap();
    assert!(prefixes.iter().filter(|count| **count > 0).count() >= 1, "{prefixes:?}");
}
