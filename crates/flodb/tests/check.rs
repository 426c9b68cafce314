//! The check of a whole store finds what is wrong, and changes nothing.

use crate::disk::{copy, files, flip, open, options, replace, sample, segments, tables};
use crate::support::{self, DIR, backwards, rows};
use keyrack_flodb::{Error, FindingKind, Options, Report, verify};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

fn check(disk: &MemFs) -> Report {
    let before = files(disk);
    let report = verify(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    assert!(before == files(disk), "the check has changed a file");
    report
}

/// The check finds damage, and says that it is in the file at `path`.
#[track_caller]
fn finds(disk: &MemFs, path: &Path) -> Report {
    let report = check(disk);
    let is_here = |finding: &keyrack_flodb::Finding| {
        finding.kind == FindingKind::Damage && finding.path == path
    };
    assert!(report.findings.iter().any(is_here), "{}: {:?}", path.display(), report.findings);
    assert!(!report.is_sound());
    report
}

#[test]
fn a_sound_store_has_nothing_to_report() {
    let (disk, model) = sample(1);
    let report = check(&disk);
    assert_eq!(report.findings, []);
    assert_eq!(report.tables, tables(&disk).len() as u64);
    assert!(report.tables > 4 && report.log_records == 100, "{report:?}");
    assert!(report.entries as usize > model.len() - 100);
    let bytes = tables(&disk).into_iter().map(|path| disk.read(&path).unwrap().len() as u64);
    assert_eq!(report.bytes, bytes.sum::<u64>());
    // The next opening still takes it as it is.
    assert_eq!(rows(&open(&disk)), model);
}

#[test]
fn each_damaged_byte_is_found_where_it_is() {
    let (disk, _) = sample(2);
    let newest = segments(&disk).pop().unwrap();
    for (path, bytes) in files(&disk) {
        // Segments below the newest have been released. Of that one, the header is in use. The log
        // does without one of the slots that mark it.
        let places: Vec<usize> = if path == newest {
            vec![0, 61, 8 * 61]
        } else if path.starts_with(LOG) {
            continue;
        } else {
            (0..bytes.len()).collect()
        };
        for at in places.into_iter().filter(|at| at % 61 == 0) {
            let damaged = copy(&disk);
            flip(&damaged, &path, at);
            finds(&damaged, &path);
        }
    }
}

#[test]
fn damage_in_the_log_is_counted_by_record() {
    let (disk, _) = sample(3);
    let path = segments(&disk).pop().unwrap();
    let bytes = disk.read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    flip(&disk, &path, used - 1);
    flip(&disk, &path, used - 400);
    let report = finds(&disk, &path);
    assert_eq!((report.findings.len(), report.log_records), (2, 98));
}

const LOG: &str = "/store/log";

#[test]
fn every_damaged_block_is_reported() {
    let (disk, _) = sample(4);
    let entries = check(&disk).entries;
    let path = tables(&disk).remove(0);
    flip(&disk, &path, 10);
    flip(&disk, &path, 2000);
    let report = finds(&disk, &path);
    assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
    assert_eq!(report.findings[0].offset, 0);
    assert!(report.findings[1].offset > 0 && report.findings[1].offset <= 2000);
    assert!(report.entries < entries && report.entries > entries / 2);
}

#[test]
fn missing_cut_and_swapped_files_are_found() {
    let (disk, _) = sample(5);
    for path in files(&disk).into_keys().filter(|path| !path.starts_with(LOG)) {
        let without = copy(&disk);
        without.remove_file(&path).unwrap();
        let report = check(&without);
        assert!(!report.is_sound(), "{}", path.display());
        for len in [0, 1, 47, 300] {
            let cut = copy(&disk);
            let bytes = cut.read(&path).unwrap();
            replace(&cut, &path, &bytes[..len.min(bytes.len() - 1)]);
            finds(&cut, &path);
        }
    }
    let all = tables(&disk);
    let (one, other) = (disk.read(&all[0]).unwrap(), disk.read(&all[1]).unwrap());
    replace(&disk, &all[0], &other);
    replace(&disk, &all[1], &one);
    finds(&disk, &all[0]);
    finds(&disk, &all[1]);
}

#[test]
fn files_that_nobody_names_are_no_damage() {
    let (disk, _) = sample(6);
    for name in ["000999.table", "notes.txt", "MANIFEST-000999", "log/stray", ".CURRENT.12.tmp"] {
        replace(&disk, &Path::new(DIR).join(name), b"anything");
    }
    let report = check(&disk);
    assert!(report.is_sound());
    let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::Extra; 5]);
}

#[test]
fn the_torn_end_of_a_log_is_no_damage() {
    let (disk, _) = sample(7);
    // A flush or a compaction would leave a table in work.
    let db = support::open(&disk, Options { compaction_threads: 0, ..options() });
    db.flush().unwrap();
    (0..50_u32).for_each(|n| db.put(&n.to_be_bytes(), b"not synced").unwrap());
    let image = disk.crash_image(3, keyrack_vfs::CrashPolicy::Reordered);
    let report = check(&image);
    assert!(report.is_sound(), "{:?}", report.findings);
    let are_tails = report.findings.iter().all(|finding| finding.kind == FindingKind::Tail);
    assert!(are_tails, "{:?}", report.findings);
}

#[test]
fn an_open_store_and_none_at_all_are_refused() {
    let (disk, _) = sample(8);
    let run = |disk: &MemFs, options: &Options| {
        verify(Arc::new(disk.clone()), Path::new(DIR), options).map(|_| ())
    };
    let db = open(&disk);
    assert!(matches!(run(&disk, &options()), Err(Error::Locked(_))));
    drop(db);
    run(&disk, &options()).unwrap();
    assert!(matches!(run(&MemFs::new(), &options()), Err(Error::Io(_))));
    let empty = MemFs::new();
    empty.create_dir(Path::new(DIR)).unwrap();
    assert!(matches!(run(&empty, &options()), Err(Error::Usage(_))));
    let other = Options { comparator: backwards(), ..options() };
    assert!(matches!(run(&disk, &other), Err(Error::Usage(_))));
}
