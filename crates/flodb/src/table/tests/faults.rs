//! Failing disks: every operation fails once.

use super::*;
use crate::cursor::Cursor;
use keyrack_testkit::random::Draw;
use keyrack_vfs::{Fault, FaultFs, FaultPlan};

fn sample() -> Vec<Entry> {
    random_entries(&mut Draw::new(77), 600, &Comparator::Bytewise)
}

#[test]
fn a_write_that_fails_fails_the_table() {
    let entries = sample();
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let whole = FaultFs::new(Arc::new(MemFs::new()));
    try_write(&whole, &options, &entries).unwrap();
    for at in 1..=whole.operations() {
        for fault in [Fault::Io, Fault::NoSpace] {
            let fs = FaultFs::new(Arc::new(MemFs::new()));
            fs.arm(FaultPlan::once(at, fault));
            let failed = try_write(&fs, &options, &entries);
            assert!(matches!(failed, Err(Error::Io(_))), "{fault:?} at {at}: {failed:?}");
        }
    }
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    fs.arm(FaultPlan::from_then_on(1, Fault::Short));
    try_write(&fs, &options, &entries).unwrap();
    open(&fs).verify().unwrap();
}

#[test]
fn the_first_failure_of_a_writer_is_final() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let file = fs.open(path(), &OpenOptions::new().write(true).create(true)).unwrap();
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let mut writer = TableWriter::new(file, options).unwrap();
    fs.arm(FaultPlan::once(1, Fault::NoSpace));
    let mut number = 0_u32;
    let mut add = || {
        number += 1;
        writer.add(&internal(&number.to_be_bytes(), 1, Kind::Put), &[1; 1_000])
    };
    while add().is_ok() {}
    assert!(matches!(add(), Err(Error::Io(_))), "though the disk works again");
    assert!(matches!(writer.finish(), Err(Error::Io(_))));
}

#[test]
fn a_read_that_fails_is_an_error_and_the_next_one_is_not() {
    let entries = sample();
    let (disk, _) = written(&TableOptions::default(), &entries);
    let whole = FaultFs::new(Arc::new(disk.clone()));
    open(&whole);
    for at in 1..=whole.operations() {
        let fs = FaultFs::new(Arc::new(disk.clone()));
        fs.arm(FaultPlan::once(at, Fault::Io));
        let refused = try_open(&fs, 0, &Comparator::Bytewise);
        assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
    }
    let fs = FaultFs::new(Arc::new(disk));
    let table = open(&fs);
    let key = key::user_of(&entries[300].0);
    let wanted = expected(&Comparator::Bytewise, &entries, key, 500);
    fs.arm(FaultPlan::once(1, Fault::Io));
    assert!(matches!(get(&table, key, 500), Err(Error::Io(_))));
    assert_eq!(get(&table, key, 500).unwrap(), wanted);

    let mut cursor = table.cursor(ReadOptions::default());
    fs.arm(FaultPlan::once(1, Fault::Io));
    assert!(matches!(cursor.seek_last(), Err(Error::Io(_))));
    assert!(cursor.entry().is_none());
    cursor.seek_last().unwrap();
    assert_eq!(cursor.entry().map(|(key, _)| key), Some(&entries[entries.len() - 1].0[..]));
}

/// Reading ahead is a guess: when it fails, the walk goes on block by block.
#[test]
fn a_walk_meets_only_the_errors_of_its_own_blocks() {
    let entries = sample();
    let (disk, _) = written(&TableOptions::default(), &entries);
    let fs = FaultFs::new(Arc::new(disk));
    let table = try_open(&fs, 0, &Comparator::Bytewise).unwrap();
    let mut cursor = table.cursor(ReadOptions::default());
    cursor.seek_first().unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io));
    for (key, value) in &entries {
        assert!(cursor.entry() == Some((&key[..], &value[..])));
        cursor.next().unwrap();
    }
    assert!(cursor.entry().is_none());
    assert_eq!(fs.injected(), 1);
}
