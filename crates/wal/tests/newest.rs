//! The newest segment, which no other file but the marker knows of; and files of other logs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc_fast::crc32_iscsi;
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use keyrack_wal::{Error, Options};

use crate::tool::{
    DIR, append, copy, file, new_disk, open, open_from, salvaged, segments, small, start_of,
};

fn marker() -> PathBuf {
    Path::new(DIR).join("NEWEST")
}

/// A log with so many synced records, after a kill or a close.
fn sample(options: Options, records: u8, is_closed: bool) -> MemFs {
    let disk = new_disk();
    let (log, _) = open(&disk, options);
    for number in 0..records {
        let (_, end) = append(&log, &[number; 60]).unwrap();
        log.sync(end).unwrap();
    }
    if is_closed {
        log.close().unwrap();
        return disk;
    }
    copy(&disk.process_crash_image())
}

/// The file and the reason of the refusal.
fn refusal(disk: &MemFs, options: Options) -> (PathBuf, String) {
    match open_from(disk, 0, options) {
        Err(Error::Corruption { path, what, .. }) => (path, what),
        other => panic!("not refused as damaged: {other:?}"),
    }
}

/// Fifty synced records vanished without a word.
#[test]
fn a_removed_newest_segment_is_corruption_with_its_name() {
    // 20 records: one segment. 40: a second one made ahead. 50 and 200: in use.
    for records in [1, 20, 40, 50, 200] {
        for is_closed in [false, true] {
            let disk = sample(small(), records, is_closed);
            let newest = segments(&disk).pop().unwrap();
            disk.remove_file(&newest).unwrap();
            let (path, what) = refusal(&disk, small());
            assert_eq!(path, newest, "{records} records, closed: {is_closed}");
            assert!(what.contains("newest segment of the log is missing"), "{what}");
        }
    }
}

#[test]
fn a_salvage_reports_the_newest_segment_as_a_hole() {
    for records in [20, 200] {
        let disk = sample(small(), records, true);
        let newest = segments(&disk).pop().unwrap();
        let start = start_of(&newest);
        disk.remove_file(&newest).unwrap();
        let (salvaged, _) = salvaged(&disk, Some(0), None);
        let hole = salvaged.holes.iter().find(|hole| hole.path == newest).unwrap();
        assert!(hole.from <= start && hole.to == start + 4_096, "{hole:?}");
        assert!(salvaged.top >= hole.to);
    }
}

#[test]
fn a_marker_that_is_removed_cut_or_overwritten_is_an_error() {
    let disk = sample(small(), 50, false);
    let bytes = disk.read(&marker()).unwrap();
    let broken = [vec![], bytes[..512].to_vec(), bytes[..1_023].to_vec(), vec![0; 1_024]];
    for content in broken {
        let image = copy(&disk);
        image.write_atomic(&marker(), &content).unwrap();
        assert_eq!(refusal(&image, small()).0, marker(), "{} bytes", content.len());
    }
    disk.remove_file(&marker()).unwrap();
    assert_eq!(refusal(&disk, small()).0, marker());
}

/// A mark that is torn by a crash leaves the one before.
#[test]
fn one_torn_slot_of_the_marker_does_no_harm() {
    let disk = sample(small(), 50, false);
    let (_, records) = open(&disk, small());
    for slot in 0..2 {
        let image = copy(&disk);
        file(&image, &marker()).write_at(slot * 512 + 30, &[0xff; 100]).unwrap();
        let (log, same) = open(&image, small());
        assert_eq!(same, records);
        append(&log, b"more").unwrap();
        log.close().unwrap();
        assert_eq!(open(&image, small()).1.len(), records.len() + 1);
    }
}

/// The same LSNs and the same epoch, but another log.
#[test]
fn files_of_another_log_are_refused_by_its_identity() {
    let (ours, theirs) = (Options { id: 7, ..small() }, Options { id: 8, ..small() });
    let (disk, other) = (sample(ours, 100, true), sample(theirs, 100, true));
    assert_eq!(segments(&disk), segments(&other));
    for path in segments(&disk).into_iter().chain([marker()]) {
        let image = copy(&disk);
        image.write_atomic(&path, &other.read(&path).unwrap()).unwrap();
        let (found, what) = refusal(&image, ours);
        assert_eq!(found, path, "{what}");
        assert!(what.contains("of another log"), "{what}");
        let (salvaged, _) = salvaged(&image, Some(0), None);
        assert!(salvaged.holes.iter().any(|hole| hole.path == path), "{path:?}");
    }
    let (_, what) = refusal(&disk, theirs);
    assert!(what.contains("of another log"), "{what}");
    for (id, records) in [(7, 100), (8, 0), (0, 0)] {
        let (salvaged, _) = salvaged(&disk, Some(0), Some(id));
        assert_eq!((salvaged.holes.is_empty(), salvaged.records), (id == 7, records), "{id}");
    }
}

/// Makes the header of a segment what an earlier program would have written.
fn remove_identity(disk: &MemFs, path: &Path) {
    let mut header = disk.read(path).unwrap()[..512].to_vec();
    header[56..64].fill(0);
    let sum = crc32_iscsi(&header[..508]).rotate_right(15).wrapping_add(0xa282_ead8);
    header[508..].copy_from_slice(&sum.to_le_bytes());
    let file = file(disk, path);
    file.write_at(0, &header).unwrap();
    file.sync_all().unwrap();
}

/// A log that an earlier program wrote gets an identity. Until it is noted down, each opening gives
/// another one.
#[test]
fn a_crash_while_an_old_log_gets_its_identity_is_no_damage() {
    let old = sample(small(), 100, true);
    old.remove_file(&marker()).unwrap();
    segments(&old).iter().for_each(|path| remove_identity(&old, path));
    for at in 1.. {
        let disk = copy(&old);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let (log, records) = open(&fs, Options { id: 5, ..small() });
        fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut));
        let done = log.begin();
        let is_over = fs.injected() == 0;
        assert_eq!(done.is_ok(), is_over, "{at}");
        drop(log);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = disk.crash_image(at, policy);
            let (salvaged, _) = salvaged(&image, Some(0), Some(0));
            assert_eq!(salvaged.holes, []);
            let (log, same) = open(&image, Options { id: 6, ..small() });
            assert_eq!(same, records, "{at}, {policy:?}");
            append(&log, b"more").unwrap();
            log.close().unwrap();
            let again = open(&image, Options { id: 6, begun: true, ..small() }).1;
            assert_eq!(again.len(), records.len() + 1);
        }
        if is_over {
            break;
        }
    }
}

/// An earlier copy of the newest segment looked like what a power loss leaves.
#[test]
fn after_a_close_an_earlier_copy_of_the_newest_segment_is_damage() {
    for records in [5, 50] {
        let disk = new_disk();
        let (log, _) = open(&disk, small());
        let mut copies = Vec::new();
        for number in 0..records {
            let (_, end) = append(&log, &[number; 60]).unwrap();
            log.sync(end).unwrap();
            copies.push(disk.process_crash_image());
        }
        log.close().unwrap();
        let newest = segments(&disk).pop().unwrap();
        let earlier: Vec<_> = copies.iter().filter_map(|copy| copy.read(&newest).ok()).collect();
        assert!(earlier.len() > 3);
        for (age, content) in earlier[..earlier.len() - 1].iter().enumerate() {
            let image = copy(&disk);
            image.write_atomic(&newest, content).unwrap();
            assert_eq!(refusal(&image, small()).0, newest, "copy {age}");
            let (salvaged, _) = salvaged(&image, Some(0), None);
            assert!(salvaged.holes.iter().any(|hole| hole.path == newest), "copy {age}");
        }
        // The end that is marked counts until there is a record behind it.
        let (log, found) = open(&disk, small());
        log.close().unwrap();
        assert_eq!((found.len(), open(&disk, small()).1.len()), (records.into(), records.into()));
        let (log, _) = open(&disk, small());
        append(&log, b"more").unwrap();
        drop(log);
        assert_eq!(open(&disk, small()).1.len(), usize::from(records) + 1);
    }
}

/// What the marker costs: a sync more for each segment, beside those of the file and its name.
#[test]
fn a_segment_costs_three_syncs() {
    let fs = FaultFs::new(Arc::new(new_disk()));
    let (log, _) = open(&fs, small());
    for number in 0..200_u8 {
        append(&log, &[number; 60]).unwrap();
    }
    let made = log.stats().made;
    assert!(made >= 4);
    let syncs = fs.operations_of(Operation::Sync) + fs.operations_of(Operation::SyncDir);
    // Once: the directory's name, the marker, and the marker's name.
    assert_eq!(syncs, 3 * made + 3);
}
