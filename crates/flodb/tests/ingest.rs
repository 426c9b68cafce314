//! Tables from outside: what they replace, who sees them, and what a crash leaves of them.

use crate::disk::{CHANGES, copy, files, flip, open, options, sample, tables};
use crate::model::{Pair, Script};
use crate::support::{DIR, Model, backwards, rows, stat, try_open};
use keyrack_flodb::{Db, Durability, Error, IngestOptions, Options, SstWriter, Transfer, verify};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

/// What a table says of keys: a value, or that they are gone.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(crate) fn write(disk: &MemFs, name: &str, changes: &Changes) -> PathBuf {
    disk.create_dir_all(Path::new("/bulk")).unwrap();
    let path = Path::new("/bulk").join(name);
    let mut writer = SstWriter::create(disk, &path, &options()).unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => writer.put(key, value).unwrap(),
            None => writer.delete(key).unwrap(),
        }
    }
    assert_eq!(writer.entries(), changes.len() as u64);
    writer.finish().unwrap();
    path
}

fn puts(keys: &[&str], value: &str) -> Changes {
    keys.iter().map(|key| (key.as_bytes().to_vec(), Some(value.into()))).collect()
}

pub(crate) fn apply(model: &mut Model, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

fn with(transfer: Transfer) -> IngestOptions {
    IngestOptions { transfer }
}

pub(crate) fn sound(disk: &MemFs) {
    let report = verify(Arc::new(copy(disk)), Path::new(DIR), &options());
    match report {
        Ok(report) => assert!(report.is_sound(), "{:?}", report.findings),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_table_replaces_what_is_in_memory_and_on_every_level() {
    for stage in 0..3 {
        let disk = MemFs::new();
        let db = open(&disk);
        for key in ["a", "b", "c", "d"] {
            db.put(key.as_bytes(), b"old").unwrap();
        }
        match stage {
            0 => {}
            1 => db.flush().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
        let before = db.snapshot();
        let mut changes = puts(&["b", "bb"], "new");
        changes.insert(b"c".to_vec(), None);
        db.ingest(&[write(&disk, "t", &changes)], IngestOptions::default()).unwrap();
        let shown = |db: &Db| -> String {
            let shown = rows(db)
                .into_iter()
                .map(|(key, value)| [key, b"=".to_vec(), value, b" ".to_vec()].concat());
            String::from_utf8(shown.collect::<Vec<_>>().concat()).unwrap()
        };
        let expected = "a=old b=new bb=new d=old ";
        assert_eq!(shown(&db), expected, "stage {stage}");
        assert_eq!(db.get(b"c").unwrap(), None);
        // An older snapshot sees none of it.
        assert_eq!(db.get_at(&before, b"b", <[u8]>::to_vec).unwrap().unwrap(), b"old");
        assert_eq!(db.get_at(&before, b"bb", <[u8]>::to_vec).unwrap(), None);
        assert!(db.get_at(&before, b"c", <[u8]>::to_vec).unwrap().is_some());
        let mut walk = db.iter_at(&before).unwrap();
        walk.seek_first().unwrap();
        assert!((0..3).all(|_| walk.next().is_ok()) && walk.entry().unwrap().0 == b"d");
        drop(walk);
        db.put(b"b", b"newer").unwrap();
        assert_eq!(db.get(b"b").unwrap().unwrap(), b"newer");
        db.delete(b"bb").unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get_at(&before, b"b", <[u8]>::to_vec).unwrap().unwrap(), b"old");
        drop(before);
        drop(db);
        sound(&disk);
        assert_eq!(shown(&open(&disk)), "a=old b=newer d=old ");
    }
}

#[test]
fn walks_and_seeks_meet_the_entries_of_a_table_as_any_others() {
    let disk = MemFs::new();
    let db = open(&disk);
    let mut changes = puts(&["b", "d", "f"], "new");
    changes.insert(b"c".to_vec(), None);
    changes.insert(b"a".to_vec(), None);
    db.put(b"c", b"old").unwrap();
    db.put(b"e", b"old").unwrap();
    let before = db.snapshot();
    db.ingest(&[write(&disk, "t", &changes)], IngestOptions::default()).unwrap();
    let show = |iter: &keyrack_flodb::Iter| {
        iter.entry().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
    };
    let mut walk = db.iter().unwrap();
    let mut then = db.iter_at(&before).unwrap();
    for (target, now, back, earlier) in [
        ("", "b", "", "c"),
        ("a", "b", "", "c"),
        ("b", "b", "b", "c"),
        ("c", "d", "b", "c"),
        ("d", "d", "d", "e"),
        ("e", "e", "e", "e"),
        ("f", "f", "f", ""),
        ("g", "", "f", ""),
    ] {
        walk.seek(target.as_bytes()).unwrap();
        assert_eq!(show(&walk).unwrap_or_default(), now, "{target}");
        walk.seek_back(target.as_bytes()).unwrap();
        assert_eq!(show(&walk).unwrap_or_default(), back, "{target}");
        then.seek(target.as_bytes()).unwrap();
        assert_eq!(show(&then).unwrap_or_default(), earlier, "{target}");
    }
    walk.seek_last().unwrap();
    let mut keys = Vec::new();
    while let Some(key) = show(&walk) {
        keys.push(key);
        walk.prev().unwrap();
    }
    assert_eq!(keys.concat(), "fedb");
}

#[test]
fn tables_come_as_low_as_nothing_overlaps() {
    let disk = MemFs::new();
    let db = open(&disk);
    let level = |level: usize| stat(&db, &format!("level{level}_tables"));
    let take = |name: &str, keys: &[&str]| {
        db.ingest(&[write(&disk, name, &puts(keys, name))], IngestOptions::default()).unwrap();
    };
    take("1", &["d", "f"]);
    assert_eq!(level(6), 1);
    take("2", &["a", "b"]);
    take("3", &["g", "h"]);
    assert_eq!(level(6), 3);
    take("4", &["e", "ee"]);
    assert_eq!((level(6), level(0)), (3, 1), "between two keys of another");
    db.put(b"m", b"memory").unwrap();
    take("7", &["k"]);
    assert_eq!((level(6), level(0)), (4, 1), "memory has no such key, and stays");
    take("8", &["l", "n"]);
    assert_eq!(level(0), 3, "above the table of what was in memory");
    take("9", &["l", "o"]);
    db.compact_range(None, None).unwrap();
    take("5", &["d"]);
    take("6", &["a", "z"]);
    assert_eq!(level(0), 2);
    assert!((1..6).all(|between| level(between) == 0), "so little does not need them");
    assert_eq!(db.get(b"l").unwrap().unwrap(), b"9");
    assert_eq!(db.get(b"n").unwrap().unwrap(), b"8");
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get(b"l").unwrap().unwrap(), b"9");
    assert_eq!(db.get(b"m").unwrap().unwrap(), b"memory");
    assert_eq!(db.get(b"d").unwrap().unwrap(), b"5");
    assert_eq!(db.get(b"a").unwrap().unwrap(), b"6");
}

#[test]
fn files_are_copied_linked_or_moved() {
    for transfer in [Transfer::Copy, Transfer::Link, Transfer::Move] {
        let disk = MemFs::new();
        let db = open(&disk);
        let path = write(&disk, "t", &puts(&["a", "b"], "value"));
        let bytes = disk.read(&path).unwrap();
        db.ingest(&[&path], with(transfer)).unwrap();
        assert_eq!(disk.exists(&path).unwrap(), transfer != Transfer::Move);
        // Only a second name would show the change.
        if transfer != Transfer::Move {
            flip(&disk, &path, 0);
        }
        let stored = disk.read(&tables(&disk)[0]).unwrap();
        assert_eq!(stored == bytes, transfer != Transfer::Link, "{transfer:?}");
    }
}

#[test]
fn what_is_no_whole_table_of_this_order_is_refused() {
    let (disk, model) = sample(1);
    let db = open(&disk);
    // What was in the log, so that the background has nothing to do.
    db.flush().unwrap();
    let good = write(&disk, "good", &puts(&["x", "y"], "good"));
    let before = files(&disk);
    let refused = |paths: &[&Path]| {
        let error = db.ingest(paths, IngestOptions::default()).unwrap_err();
        assert!(before == files(&disk), "{error}");
        error
    };
    for at in 0..disk.read(&good).unwrap().len() {
        flip(&disk, &good, at);
        let error = refused(&[&good]);
        let is_named = matches!(&error, Error::Corruption { path, .. } if *path == good);
        assert!(is_named || matches!(error, Error::Usage(_)), "{at}: {error}");
        flip(&disk, &good, at);
    }
    assert!(matches!(refused(&[Path::new("/bulk/none")]), Error::Io(_)));
    let overlapping = write(&disk, "overlapping", &puts(&["w", "xx"], "other"));
    let error = refused(&[&overlapping, &good]).to_string();
    assert!(error.contains("overlap"), "{error}");
    let error = refused(&[&good, &good]).to_string();
    assert!(error.contains("overlap"), "{error}");
    let error = refused(&[&good, &tables(&disk)[0]]).to_string();
    assert!(error.contains("a table of a store"), "{error}");

    let other = Options { comparator: backwards(), ..options() };
    let path = Path::new("/bulk/backwards");
    let mut writer = SstWriter::create(&disk, path, &other).unwrap();
    writer.put(b"b", b"").unwrap();
    assert!(writer.put(b"c", b"").is_err());
    writer.put(b"a", b"").unwrap();
    writer.finish().unwrap();
    assert!(matches!(refused(&[path]), Error::Usage(_)));
    // No half: the good one was not taken in.
    assert_eq!(rows(&db), model);
    db.ingest(&[&good], IngestOptions::default()).unwrap();
    assert_eq!(db.get(b"x").unwrap().unwrap(), b"good");
    let none: [&Path; 0] = [];
    db.ingest(&none, IngestOptions::default()).unwrap();
}

#[test]
fn a_writer_of_tables_takes_ascending_keys_once_and_makes_new_files() {
    let disk = MemFs::new();
    let path = write(&disk, "t", &puts(&["a"], "value"));
    assert!(SstWriter::create(&disk, &path, &options()).is_err(), "the file is there");
    let mut writer = SstWriter::create(&disk, Path::new("/bulk/u"), &options()).unwrap();
    writer.put(b"", b"empty").unwrap();
    writer.put(b"b", b"value").unwrap();
    assert!(matches!(writer.put(b"b", b"again"), Err(Error::Usage(_))));
    assert!(matches!(writer.delete(b"b"), Err(Error::Usage(_))));
    assert!(matches!(writer.delete(b"a"), Err(Error::Usage(_))));
    writer.delete(b"c").unwrap();
    assert!(writer.bytes() > 0);
    writer.finish().unwrap();
    let none = SstWriter::create(&disk, Path::new("/bulk/v"), &options()).unwrap();
    assert!(matches!(none.finish(), Err(Error::Usage(_))));
    let db = open(&disk);
    db.ingest(&[Path::new("/bulk/u")], IngestOptions::default()).unwrap();
    assert_eq!(db.get(b"").unwrap().unwrap(), b"empty");
}

/// Random changes of some of the keys from one to another.
fn random_changes(draw: &mut Draw, from: usize, to: usize, round: usize) -> Changes {
    let mut changes = Changes::new();
    for _ in 0..=draw.below(40) {
        let key = format!("key{:04}", from + draw.below(to - from)).into_bytes();
        let value = format!("{round} {}", "t".repeat(draw.below(50))).into_bytes();
        changes.insert(key, (draw.below(5) > 0).then_some(value));
    }
    changes
}

/// Beside a model, with many ingestions.
#[test]
fn every_answer_is_the_models() {
    let key = |draw: &mut Draw| format!("key{:04}", draw.below(400)).into_bytes();
    let script = Script {
        options: |draw| Options {
            durability: [Durability::Os, Durability::None][draw.below(2)],
            compaction_threads: 1,
            paranoid_checks: draw.below(2) == 0,
            ..options()
        },
        key,
        range: |draw| {
            let from = draw.below(400);
            let to = from + draw.below(20);
            (format!("key{from:04}").into_bytes(), format!("key{to:04}").into_bytes())
        },
        ranges: 1,
        rarely: 1,
    };
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut pair = Pair::new(&script, &mut draw);
        for round in 0..600 * factor() {
            pair.step(&mut draw, 2 * round);
            if draw.below(10) == 0 {
                pair.ingest(&mut draw, 2 * round + 1);
            }
            assert!(rows(pair.db()) == pair.model, "round {round}");
        }
    }
}

/// A crash, at any moment of an ingestion, leaves all of it or nothing, and nothing of it without
/// what was written before.
#[test]
fn a_crash_leaves_all_of_it_or_nothing() {
    for (seed, is_flushed) in seeds().into_iter().flat_map(|seed| [(seed, false), (seed, true)]) {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (before, mut model) = sample(seed);
        let mut changes = random_changes(&mut draw, 0, 200, 1);
        // What is in memory at that moment is replaced, so that a flush comes first; or it is not.
        let in_memory: &[u8] = if is_flushed { b"key0100" } else { b"aa" };
        changes.insert(b"key0100".to_vec(), Some(b"taken in".to_vec()));
        let more = random_changes(&mut draw, 200, 400, 2);
        let paths = [write(&before, "1", &changes), write(&before, "2", &more)];
        before.sync_dir(Path::new("/")).unwrap();
        before.sync_dir(Path::new("/bulk")).unwrap();
        let mut states = vec![model.clone()];
        model.insert(in_memory.to_vec(), b"before".to_vec());
        states.push(model.clone());
        model.insert(b"zz".to_vec(), b"before".to_vec());
        states.push(model.clone());
        apply(&mut model, &changes);
        apply(&mut model, &more);
        let mut survived = [0, 0];
        for at in 1.. {
            let disk = copy(&before);
            let fs = FaultFs::new(Arc::new(disk.clone()));
            let db = Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options()).unwrap();
            // What was in the log, so that the background has nothing to do.
            db.flush().unwrap();
            db.put(in_memory, b"before").unwrap();
            db.put(b"zz", b"before").unwrap();
            fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut).only(&CHANGES));
            let done = db.ingest(&paths, IngestOptions::default());
            let is_over = fs.injected() == 0;
            assert!(done.is_ok() || !is_over, "{done:?}");
            for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
                let image = disk.crash_image(draw.next(), policy);
                let again = open(&image);
                let found = rows(&again);
                let is_in = found == model;
                assert!(is_in || done.is_err() && states.contains(&found), "{at}, {policy:?}");
                survived[usize::from(is_in)] += 1;
                // It goes on, above all numbers that were used.
                again.put(b"key0100", b"after").unwrap();
                again.compact_range(None, None).unwrap();
                assert_eq!(again.get(b"key0100").unwrap().unwrap(), b"after");
                drop(again);
                sound(&image);
            }
            if is_over {
                break;
            }
        }
        assert!(survived[0] > 10 && survived[1] > 3, "{survived:?}");
    }
}

/// Where it was the manifest that found no space, the store only read from then on.
#[test]
fn a_table_that_a_full_disk_refused_is_taken_in_when_there_is_space() {
    let needs_space = [Operation::Open, Operation::Write, Operation::Rename, Operation::Allocate];
    let mut refused = 0;
    for at in 1.. {
        let disk = MemFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options()).unwrap();
        db.put(b"b", b"before").unwrap();
        let changes = puts(&["a", "b", "c"], "taken in");
        let path = write(&disk, "1", &changes);
        fs.arm(FaultPlan::once(at, Fault::NoSpace).only(&needs_space));
        let done = db.ingest(&[&path], IngestOptions::default());
        let is_over = fs.injected() == 0;
        fs.disarm();
        if let Err(error) = done {
            refused += 1;
            assert!(error.to_string().contains("No space"), "at {at}: {error}");
            // It may be there after a power loss, whole.
            let found = rows(&open(&disk.crash_image(at, CrashPolicy::Ordered)));
            assert!(found.len() <= 1 || found.len() == 3, "at {at}: {found:?}");
            db.resume().unwrap_or_else(|error| panic!("at {at}: {error}"));
            db.put(b"d", b"goes on").unwrap_or_else(|error| panic!("at {at}: {error}"));
            assert_eq!(db.get(b"b").unwrap().unwrap(), b"before", "at {at}");
            db.ingest(&[&path], IngestOptions::default()).unwrap();
        }
        assert_eq!(db.get(b"b").unwrap().unwrap(), b"taken in", "at {at}");
        db.close().unwrap();
        sound(&disk);
        assert_eq!(open(&disk).get(b"c").unwrap().unwrap(), b"taken in", "at {at}");
        if is_over {
            break;
        }
    }
    assert!(refused > 3, "{refused}");
}

/// Whoever is done, or fails, stops the others.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, atomic::Ordering::Relaxed);
    }
}

/// Writers of the same keys go on meanwhile: none of their writes is lost, and what was written
/// before the table came is replaced.
#[test]
fn writers_beside_it_lose_nothing() {
    let disk = MemFs::new();
    let db = try_open(&disk, Options { compaction_threads: 1, ..options() }).unwrap();
    let key = |n: u32| format!("key{n:04}").into_bytes();
    let stop = AtomicBool::new(false);
    let relaxed = atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let _stop = Stop(stop);
                let mut round = 0_u32;
                while !stop.load(relaxed) {
                    round += 1;
                    // Nobody but this thread and the tables write these keys.
                    let key = key(2 * (round % 100) + writer);
                    let own = format!("written {round}").into_bytes();
                    db.put(&key, &own).unwrap();
                    let found = db.get(&key).unwrap().unwrap();
                    assert!(found == own || found.starts_with(b"table"), "{round}");
                }
            });
        }
        let _stop = Stop(&stop);
        for round in 0..30 {
            let keys: Vec<String> = (0..200).map(|n| format!("key{n:04}")).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let value = format!("table {round}");
            let path = write(&disk, &value, &puts(&keys, &value));
            let before = db.snapshot();
            let seen = |n: u32| db.get_at(&before, &key(n), <[u8]>::to_vec).unwrap();
            let then: Vec<_> = (0..200).map(seen).collect();
            db.ingest(&[path], with(Transfer::Move)).unwrap();
            let shown = rows(&db);
            assert_eq!(shown.len(), 200);
            let older = format!("table {}", round - 1).into_bytes();
            assert!(shown.values().all(|value| *value != older), "round {round}");
            assert_eq!((0..200).map(seen).collect::<Vec<_>>(), then, "a snapshot stays as it is");
        }
    });
    let shown = rows(&db);
    drop(db);
    sound(&disk);
    assert_eq!(rows(&open(&disk)), shown);
}
