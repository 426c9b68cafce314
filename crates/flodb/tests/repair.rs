//! What a repair makes of damaged stores: everything that is left, and nothing that was not.

use crate::disk::{
    CHANGES, copy, files, flip, killed_sample, open, options, replace, sample, scribble, segments,
    tables,
};
use crate::support::{DIR, Model, backwards, rows, try_open};
use keyrack_flodb::{
    Db, Error, IngestOptions, Options, RepairReport, Snapshot, SstWriter, repair, verify,
};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Repairs the store. Afterwards it is sound, opens, and a second repair has nothing to do; and
/// everything that was there before is there, if not in its place then in `lost`.
fn mend(disk: &MemFs) -> (RepairReport, Model) {
    let before = files(disk);
    let report = repair(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    let after: BTreeSet<Vec<u8>> = files(disk).into_values().collect();
    for (path, bytes) in &before {
        // A `CURRENT` that is whole is replaced as ever, and what was to replace it is nothing.
        if !path.to_string_lossy().contains("CURRENT") {
            assert!(after.contains(bytes), "{} is nowhere any more: {report:?}", path.display());
        }
    }
    if !report.changed {
        assert!(before == files(disk));
    }
    for moved in &report.moved {
        assert!(disk.exists(moved).unwrap());
    }
    let sound = verify(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    assert!(sound.is_sound(), "{:?} after {report:?}", sound.findings);
    assert_eq!((sound.tables, sound.entries), (report.tables, report.entries));
    let again = repair(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    assert!(!again.changed && again.losses.is_empty(), "{again:?} after {report:?}");
    let opened = copy(disk);
    let db = open(&opened);
    let found = rows(&db);
    for (key, value) in &found {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value), "walks and reads differ");
    }
    // It goes on above everything that was there.
    for key in found.keys() {
        db.put(key, b"later").unwrap();
    }
    db.compact_range(None, None).unwrap();
    drop(db);
    assert!(rows(&open(&opened)).values().all(|value| value == b"later"));
    (report, found)
}

/// How many keys have another value than in the model; each has one that it has had before.
fn losses(found: &Model, model: &Model) -> usize {
    let keys: BTreeSet<_> = found.keys().chain(model.keys()).collect();
    keys.into_iter().filter(|key| found.get(*key) != model.get(*key)).count()
}

fn newest_segment(disk: &MemFs) -> PathBuf {
    segments(disk).pop().unwrap()
}

fn manifest(disk: &MemFs) -> PathBuf {
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST");
    files(disk).into_keys().rfind(is_manifest).unwrap()
}

fn disk_of(damage: &dyn Fn(&MemFs), disk: &MemFs) -> MemFs {
    let damaged = copy(disk);
    damage(&damaged);
    damaged
}

#[test]
fn a_sound_store_is_left_alone() {
    let (disk, model) = sample(1);
    let (report, found) = mend(&disk);
    assert!(!report.changed && report.moved.is_empty() && report.losses.is_empty());
    assert_eq!(report.log_records, 100);
    assert!(found == model);
    assert!(!disk.exists(&Path::new(DIR).join("lost")).unwrap());
}

#[test]
fn a_store_without_its_manifest_is_whole_again() {
    for seed in 0..6 {
        let (disk, model) = sample(seed);
        let (current, manifest) = (Path::new(DIR).join("CURRENT"), manifest(&disk));
        let breaks: [(&str, &dyn Fn(&MemFs)); 7] = [
            ("no CURRENT", &|disk| disk.remove_file(&current).unwrap()),
            ("an empty CURRENT", &|disk| replace(disk, &current, b"")),
            ("a damaged CURRENT", &|disk| flip(disk, &current, 20)),
            ("no manifest", &|disk| disk.remove_file(&manifest).unwrap()),
            ("an empty manifest", &|disk| replace(disk, &manifest, b"")),
            ("a damaged manifest", &|disk| flip(disk, &manifest, 600)),
            ("neither", &|disk| {
                disk.remove_file(&current).unwrap();
                disk.remove_file(&manifest).unwrap();
            }),
        ];
        for (what, damage) in breaks {
            let damaged = disk_of(damage, &disk);
            let (report, found) = mend(&damaged);
            assert_eq!(losses(&found, &model), 0, "seed {seed}, {what}: {report:?}");
            assert!(report.changed && !report.losses.is_empty());
            assert_eq!(report.log_records, 100, "{what}");
            let kept = damaged.read(&current.with_file_name("lost").join("CURRENT")).ok();
            assert_eq!(kept, disk_of(damage, &disk).read(&current).ok(), "{what}");
        }
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// Three hundred keys in the last level, of which fifty are removed later. The snapshot keeps both.
fn with_a_removed_range() -> (MemFs, Db, Snapshot) {
    let disk = MemFs::new();
    let db = open(&disk);
    (0..300).for_each(|n| db.put(&key(n), b"first").unwrap());
    db.compact_range(None, None).unwrap();
    let held = db.snapshot();
    db.delete_range(&key(50), &key(100)).unwrap();
    (disk, db, held)
}

/// Removed ranges lie apart from the entries of a table, and of a log's record.
#[test]
fn a_range_that_was_removed_stays_removed() {
    let (disk, db, held) = with_a_removed_range();
    db.put(&key(60), b"again").unwrap();
    db.flush().unwrap();
    db.delete_range(&key(200), &key(250)).unwrap();
    db.delete_range(b"b", b"a").unwrap();
    drop((held, db));
    let expected = rows(&open(&copy(&disk)));
    assert_eq!(expected.len(), 300 - 49 - 50);
    let damaged = copy(&disk);
    damaged.remove_file(&manifest(&disk)).unwrap();
    let (report, found) = mend(&damaged);
    assert!(found == expected, "{report:?}");

    // Without the log the last range comes back, and without its block the one key within the
    // first range does not.
    let damaged = copy(&disk);
    damaged.remove_file(&manifest(&disk)).unwrap();
    damaged.remove_dir_all(&Path::new(DIR).join("log")).unwrap();
    flip(&damaged, tables(&damaged).last().unwrap(), 8);
    let (report, found) = mend(&damaged);
    let left = (0..300).filter(|n| !(50..100).contains(n));
    let expected: Model = left.map(|n| (key(n), b"first".to_vec())).collect();
    assert!(found == expected, "{report:?}");
}

/// The repaired manifest said that a renamed table has no removed ranges, and was refused.
#[test]
fn a_renamed_table_keeps_its_count_of_removed_ranges() {
    let (disk, db, held) = with_a_removed_range();
    db.flush().unwrap();
    drop((held, db));
    let expected = rows(&open(&copy(&disk)));
    assert_eq!(expected.len(), 250);
    let newest = tables(&disk).pop().unwrap();
    for without_manifest in [false, true] {
        let damaged = copy(&disk);
        damaged.rename(&newest, &newest.with_file_name("004711.table")).unwrap();
        if without_manifest {
            damaged.remove_file(&manifest(&damaged)).unwrap();
        }
        let (report, found) = mend(&damaged);
        assert!(report.changed && found == expected, "{without_manifest}: {report:?}");
    }
}

/// The log of another store was read as if it were ours.
#[test]
fn the_whole_log_of_another_store_is_moved_away() {
    let ((disk, model), (other, _)) = (sample(1), sample(1));
    let log = Path::new(DIR).join("log");
    disk.remove_dir_all(&log).unwrap();
    disk.create_dir(&log).unwrap();
    let theirs: Vec<_> =
        files(&other).into_iter().filter(|(path, _)| path.starts_with(&log)).collect();
    theirs.iter().for_each(|(path, bytes)| replace(&disk, path, bytes));
    let refused = try_open(&disk, options()).unwrap_err().to_string();
    assert!(refused.starts_with("/store/log/") && refused.contains("another log"), "{refused}");
    let (report, found) = mend(&disk);
    assert!(losses(&found, &model) <= 100, "what was in the log alone: {report:?}");
    assert_eq!((report.log_records, report.moved.len()), (0, theirs.len()));
}

/// The list of removed ranges was passed over when a table's end was damaged, and what had been
/// removed came back.
#[test]
fn the_ranges_of_a_table_that_does_not_open_stay_removed() {
    let (disk, db, held) = with_a_removed_range();
    db.put(&key(60), b"again").unwrap();
    db.flush().unwrap();
    drop((held, db));
    let expected = rows(&open(&copy(&disk)));
    assert_eq!(expected.len(), 300 - 49);
    let damaged = copy(&disk);
    damaged.remove_dir_all(&Path::new(DIR).join("log")).unwrap();
    let table = tables(&damaged).pop().unwrap();
    let bytes = damaged.read(&table).unwrap();
    replace(&damaged, &table, &bytes[..bytes.len() - 1]);
    let (report, found) = mend(&damaged);
    assert!(found == expected, "{report:?}");
    assert!(!report.losses.is_empty(), "the cut is not told of");
}

#[test]
fn a_flipped_byte_costs_a_block_or_a_record() {
    let (disk, model) = sample(2);
    let newest = newest_segment(&disk);
    for (path, bytes) in files(&disk) {
        let places: Vec<usize> = if path == newest {
            (0..512).step_by(73).chain((4096..8192).step_by(631)).collect()
        } else if path.extension().is_some_and(|it| it == "wal") {
            continue;
        } else {
            (0..bytes.len()).step_by(239).collect()
        };
        for at in places {
            let damaged = copy(&disk);
            flip(&damaged, &path, at);
            let (report, found) = mend(&damaged);
            let lost = losses(&found, &model);
            // Blocks have 512 bytes, of which a key takes some.
            let most = match path.extension() {
                Some(table) if table == "table" => 40,
                Some(_) if at >= 4096 => 1,
                _ => 0,
            };
            assert!(lost <= most, "{}: {at}: {lost} lost, {report:?}", path.display());
            assert!(lost == 0 || !report.losses.is_empty());
        }
    }
}

#[test]
fn a_cut_table_gives_what_is_in_front_of_the_cut() {
    let (disk, model) = sample(3);
    for path in tables(&disk) {
        let bytes = disk.read(&path).unwrap();
        let mut before = usize::MAX;
        for len in [0, 1, bytes.len() / 4, bytes.len() / 2, bytes.len() - 60, bytes.len() - 1] {
            let damaged = copy(&disk);
            replace(&damaged, &path, &bytes[..len]);
            let (report, found) = mend(&damaged);
            let lost = losses(&found, &model);
            assert!(lost <= before, "{}: cut at {len}: {lost}", path.display());
            before = lost;
            assert!(report.changed);
        }
        assert_eq!(before, 0, "{}: the data is whole", path.display());
    }
}

#[test]
fn what_was_flushed_last_comes_back_from_the_log() {
    for seed in 0..4 {
        let (disk, model) = killed_sample(seed);
        // The segment that it was in is still there.
        let newest = tables(&disk).pop().unwrap();
        for damage in 0..3 {
            let damaged = copy(&disk);
            match damage {
                0 => replace(&damaged, &newest, b""),
                1 => damaged.remove_file(&newest).unwrap(),
                _ => (0..1000).step_by(100).for_each(|at| flip(&damaged, &newest, at)),
            }
            let (report, found) = mend(&damaged);
            assert_eq!(losses(&found, &model), 0, "{report:?}");
        }
    }
}

#[test]
fn tables_are_known_by_what_is_in_them() {
    let (disk, model) = sample(4);
    let all = tables(&disk);
    let (one, other) = (disk.read(&all[0]).unwrap(), disk.read(&all[1]).unwrap());
    let name = |name: &str| Path::new(DIR).join(name);
    let changes: [(&str, &dyn Fn(&MemFs)); 4] = [
        ("swapped", &|disk| {
            replace(disk, &all[0], &other);
            replace(disk, &all[1], &one);
        }),
        ("renamed", &|disk| disk.rename(&all[0], &name("table.old")).unwrap()),
        ("another number", &|disk| disk.rename(&all[0], &name("004711.table")).unwrap()),
        ("twice", &|disk| replace(disk, &name("004711.table"), &one)),
    ];
    for (what, change) in changes {
        for without_manifest in [false, true] {
            let damaged = copy(&disk);
            change(&damaged);
            if without_manifest {
                damaged.remove_file(&manifest(&damaged)).unwrap();
            }
            let (report, found) = mend(&damaged);
            assert_eq!(losses(&found, &model), 0, "{what}, {without_manifest}: {report:?}");
        }
    }
}

/// The log has only a part of an older table: that part must not take the place of the rest.
#[test]
fn a_table_whose_log_is_gone_gives_its_sound_blocks() {
    let disk = MemFs::new();
    let options = || Options { segment_bytes: 4096, ..options() };
    let mut model = Model::new();
    let mut draw = Draw::new(10);
    let db = crate::support::open(&disk, options());
    scribble(&db, &mut model, &mut draw, 300);
    db.flush().unwrap();
    scribble(&db, &mut model, &mut draw, 300);
    db.close().unwrap();
    let oldest = tables(&disk).remove(0);
    for at in [10, 2000] {
        let damaged = copy(&disk);
        flip(&damaged, &oldest, at);
        let (report, found) = mend(&damaged);
        let lost = losses(&found, &model);
        assert!((1..20).contains(&lost), "{lost}: {report:?}");
    }
}

/// An older manifest that is still there says what was so before.
#[test]
fn an_older_manifest_does_not_count() {
    let (disk, mut model) = sample(9);
    let older = (manifest(&disk), disk.read(&manifest(&disk)).unwrap());
    let db = open(&disk);
    scribble(&db, &mut model, &mut Draw::new(9), 300);
    db.compact_range(None, None).unwrap();
    drop(db);
    assert!(manifest(&disk) > older.0);
    disk.remove_file(&manifest(&disk)).unwrap();
    replace(&disk, &older.0, &older.1);
    for without_current in [false, true] {
        let damaged = copy(&disk);
        if without_current {
            damaged.remove_file(&Path::new(DIR).join("CURRENT")).unwrap();
        }
        let (report, found) = mend(&damaged);
        assert_eq!(losses(&found, &model), 0, "{without_current}: {report:?}");
    }
}

#[test]
fn foreign_files_are_left_where_they_are() {
    let (disk, model) = sample(5);
    let notes = Path::new(DIR).join("notes.txt");
    replace(&disk, &notes, b"mine");
    replace(&disk, &Path::new(DIR).join("000999.table"), b"no table");
    disk.remove_file(&manifest(&disk)).unwrap();
    let (report, found) = mend(&disk);
    assert!(found == model);
    assert_eq!(disk.read(&notes).unwrap(), b"mine");
    assert!(report.moved.iter().any(|path| path.ends_with("lost/000999.table")), "{report:?}");
}

/// What every key has ever had, oldest first; nothing is a removal.
type History = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// Whatever is damaged: a key has a value that it once had. Without damage to tables and log, and
/// only the manifest lost, it is the last one.
#[test]
fn an_older_value_never_hides_a_later_one() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..6 * factor() {
            let disk = MemFs::new();
            let mut db = open(&disk);
            let (mut model, mut history) = (Model::new(), History::new());
            for round in 0..10 + draw.below(30) {
                let before = model.clone();
                match draw.below(8) {
                    0..5 => {
                        let writes = 1 + draw.below(60);
                        scribble(&db, &mut model, &mut draw, writes);
                    }
                    5 => db.flush().unwrap(),
                    6 => {
                        let key = |draw: &mut Draw| format!("key{:04}", draw.below(400));
                        let (low, high) = (key(&mut draw), key(&mut draw));
                        db.compact_range(Some(low.as_bytes()), Some(high.as_bytes())).unwrap();
                    }
                    _ => {
                        // A table from outside replaces some keys.
                        let path = PathBuf::from(format!("/bulk{round}"));
                        let mut writer = SstWriter::create(&disk, &path, &options()).unwrap();
                        let from = draw.below(380);
                        for n in from..from + 1 + draw.below(20) {
                            let key = format!("key{n:04}").into_bytes();
                            let value = format!("table {round}").into_bytes();
                            writer.put(&key, &value).unwrap();
                            model.insert(key, value);
                        }
                        writer.finish().unwrap();
                        db.ingest(&[&path], IngestOptions::default()).unwrap();
                    }
                }
                let keys: BTreeSet<_> = before.keys().chain(model.keys()).collect();
                for key in keys.into_iter().filter(|key| before.get(*key) != model.get(*key)) {
                    history.entry(key.clone()).or_default().push(model.get(key).cloned());
                }
                if draw.below(8) == 0 {
                    drop(db);
                    db = open(&disk);
                }
            }
            drop(db);
            let damaged = copy(&disk);
            let current = Path::new(DIR).join("CURRENT");
            flip(&damaged, &current, draw.below(48));
            let (report, found) = mend(&damaged);
            assert_eq!(losses(&found, &model), 0, "CURRENT: {report:?}");

            let damaged = copy(&disk);
            for _ in 0..1 + draw.below(3) {
                let all: Vec<_> = files(&damaged).into_keys().collect();
                let path = &all[draw.below(all.len())];
                let bytes = damaged.read(path).unwrap();
                match draw.below(4) {
                    0 => damaged.remove_file(path).unwrap(),
                    1 => replace(&damaged, path, &bytes[..draw.below(bytes.len() + 1)]),
                    _ if bytes.is_empty() => {}
                    _ => flip(&damaged, path, draw.below(bytes.len())),
                }
            }
            if files(&damaged).is_empty() {
                continue;
            }
            let (report, found) = mend(&damaged);
            for (key, value) in &found {
                let had = history.get(key).is_some_and(|all| all.contains(&Some(value.clone())));
                assert!(had, "{}: {report:?}", key.escape_ascii());
            }
        }
    }
}

/// Without a manifest nobody knows which table lies above which, and numbers of files and sequences
/// do not tell.
#[test]
fn overlapping_tables_are_merged_when_the_manifest_is_lost() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..8 * factor() {
            let disk = MemFs::new();
            let db = open(&disk);
            let mut model = Model::new();
            for _ in 0..20 {
                let writes = 1 + draw.below(50);
                scribble(&db, &mut model, &mut draw, writes);
                match draw.below(4) {
                    0 => {
                        let key = |draw: &mut Draw| format!("key{:04}", draw.below(400));
                        let (low, high) = (key(&mut draw), key(&mut draw));
                        db.compact_range(Some(low.as_bytes()), Some(high.as_bytes())).unwrap();
                    }
                    1 => db.flush().unwrap(),
                    _ => {}
                }
            }
            drop(db);
            disk.remove_file(&Path::new(DIR).join("CURRENT")).unwrap();
            disk.remove_file(&manifest(&disk)).unwrap();
            let (report, found) = mend(&disk);
            assert_eq!(losses(&found, &model), 0, "{report:?}");
        }
    }
}

/// A repair that is interrupted, anywhere, is repeated, and comes to the same.
#[test]
fn an_interrupted_repair_is_repeated() {
    for seed in seeds().into_iter().take(factor()) {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (whole, _) = sample(seed);
        let victim = tables(&whole).remove(0);
        let current = Path::new(DIR).join("CURRENT");
        for kind in 0..3 {
            let before = copy(&whole);
            if kind > 0 {
                flip(&before, &victim, 40);
            }
            if kind != 1 {
                flip(&before, &current, 20);
                flip(&before, &manifest(&before), 700);
            }
            let expected = {
                let once = copy(&before);
                mend(&once).1
            };
            for at in 1.. {
                let disk = copy(&before);
                let fs = FaultFs::new(Arc::new(disk.clone()));
                fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut).only(&CHANGES));
                let done = repair(Arc::new(fs.clone()), Path::new(DIR), &options());
                let is_over = fs.injected() == 0;
                assert!(done.is_ok() || !is_over, "{done:?}");
                if is_over || draw.below(3) == 0 {
                    for policy in [CrashPolicy::DropAll, CrashPolicy::Reordered] {
                        let image = disk.crash_image(draw.next(), policy);
                        let (report, found) = mend(&image);
                        let lost = losses(&found, &expected);
                        assert_eq!(lost, 0, "{kind}, {at}, {policy:?}: {report:?}");
                    }
                }
                if is_over {
                    break;
                }
            }
        }
    }
}

#[test]
fn the_sequence_number_of_a_table_from_outside_is_found_or_guessed() {
    let disk = MemFs::new();
    let db = open(&disk);
    db.put(b"a", b"old").unwrap();
    db.put(b"b", b"old").unwrap();
    db.flush().unwrap();
    let path = Path::new("/bulk");
    let mut writer = SstWriter::create(&disk, path, &options()).unwrap();
    writer.put(b"b", b"table").unwrap();
    writer.put(b"c", b"table").unwrap();
    writer.finish().unwrap();
    db.ingest(&[path], IngestOptions::default()).unwrap();
    db.put(b"c", b"new").unwrap();
    db.flush().unwrap();
    let model = rows(&db);
    drop(db);
    let current = Path::new(DIR).join("CURRENT");
    for cut in [None, Some(4096), Some(0)] {
        let damaged = copy(&disk);
        let manifest = manifest(&damaged);
        replace(&damaged, &current, b"");
        let bytes = damaged.read(&manifest).unwrap();
        match cut {
            None => flip(&damaged, &manifest, bytes.len() - 100),
            Some(len) => replace(&damaged, &manifest, &bytes[..len.min(bytes.len())]),
        }
        let (report, found) = mend(&damaged);
        assert_eq!(losses(&found, &model), 0, "{cut:?}: {report:?}");
    }
}

#[test]
fn what_is_open_or_no_store_or_of_another_order_is_refused() {
    let (disk, _) = sample(6);
    let run = |disk: &MemFs, options: &Options| {
        repair(Arc::new(disk.clone()), Path::new(DIR), options).map(|_| ())
    };
    let db = open(&disk);
    assert!(matches!(run(&disk, &options()), Err(Error::Locked(_))));
    drop(db);
    assert!(matches!(run(&MemFs::new(), &options()), Err(Error::Io(_))));
    let empty = MemFs::new();
    empty.create_dir(Path::new(DIR)).unwrap();
    replace(&empty, &Path::new(DIR).join("notes.txt"), b"mine");
    assert!(matches!(run(&empty, &options()), Err(Error::Usage(_))));
    let other = Options { comparator: backwards(), ..options() };
    let before = files(&disk);
    assert!(matches!(run(&disk, &other), Err(Error::Usage(_))));
    disk.remove_file(&Path::new(DIR).join("CURRENT")).unwrap();
    assert!(matches!(run(&disk, &other), Err(Error::Usage(_))));
    assert!(before.len() == files(&disk).len() + 1);
}

/// A failed sync or a full disk ends a repair with an error, and the store as it was.
#[test]
fn a_full_disk_changes_nothing() {
    let (disk, model) = sample(7);
    flip(&disk, &tables(&disk)[0], 10);
    let before = files(&disk);
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.arm(FaultPlan::from_then_on(1, Fault::NoSpace).only(&[Operation::Write]));
    let refused = repair(Arc::new(fs.clone()), Path::new(DIR), &options());
    assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
    assert!(before == files(&disk));
    fs.disarm();
    let (_, found) = mend(&disk);
    assert!(losses(&found, &model) < 40);
    let _: Db = open(&disk);
}
