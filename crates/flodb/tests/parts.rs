//! Compactions that end between two of their parts: a power loss, or an iterator that begins there.
//! What the parts so far have written is then in two levels.

use crate::disk::{CHANGES, copy, tables};
use crate::support::{DIR, Model, Rows, idle, open, rows, stat, walk};
use keyrack_flodb::{Db, Iter, Options, ReadOptions, verify};
use keyrack_testkit::random::{Announced, Draw, seeds_or};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn options() -> Options {
    Options { table_bytes: 2 << 10, block_bytes: 256, ..idle() }
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// A last level of some twenty tables, and newer writes of all kinds in tables above it.
fn filled(draw: &mut Draw) -> (MemFs, Model) {
    let disk = MemFs::new();
    disk.create_dir_all(Path::new("/")).unwrap();
    let db = open(&disk, options());
    let mut model = Model::new();
    for n in 0..400 {
        let value = vec![b'a' + (n % 7) as u8; 90];
        db.put(&key(n), &value).unwrap();
        model.insert(key(n), value);
    }
    db.compact_range(None, None).unwrap();
    assert!(stat(&db, "level6_tables") > 15);
    for round in 0..2_u64 {
        for _ in 0..150 {
            let n = draw.below(500);
            if draw.below(4) == 0 {
                db.delete(&key(n)).unwrap();
                model.remove(&key(n));
            } else {
                let value = vec![b'A' + round as u8; 30 + draw.below(60) as usize];
                db.put(&key(n), &value).unwrap();
                model.insert(key(n), value);
            }
        }
        let from = draw.below(450);
        db.delete_range(&key(from), &key(from + 40)).unwrap();
        model.retain(|at, _| !(*at >= key(from) && *at < key(from + 40)));
        let n = from + draw.below(40);
        db.put(&key(n), b"within the range").unwrap();
        model.insert(key(n), b"within the range".to_vec());
        db.flush().unwrap();
    }
    drop(db);
    (disk, model)
}

fn walk_back(mut iter: Iter) -> Rows {
    let mut rows = Rows::new();
    iter.seek_last().unwrap();
    while let Some((key, value)) = iter.entry() {
        rows.push((key.to_vec(), value.to_vec()));
        iter.prev().unwrap();
    }
    rows.reverse();
    rows
}

/// Everything that can be read is as in the model, in both directions and key by key.
fn check(db: &Db, model: &Model) {
    let expected: Rows = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(walk(db.iter().unwrap()).unwrap(), expected);
    assert_eq!(walk_back(db.iter().unwrap()), expected);
    for n in 0..510 {
        assert_eq!(db.get(&key(n)).unwrap().as_ref(), model.get(&key(n)), "key {n}");
        // One on, one back: the cursors turn.
        let mut iter = db.iter().unwrap();
        iter.seek(&key(n)).unwrap();
        let here = iter.entry().map(|(key, _)| key.to_vec());
        iter.next().unwrap();
        if here.is_some() && iter.is_valid() {
            iter.prev().unwrap();
            assert_eq!(iter.entry().map(|(key, _)| key.to_vec()), here);
        }
    }
}

fn a_power_loss_in_a_compaction(seed: u64) {
    let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
    let (before, model) = filled(&mut draw);
    let mut halfway = 0;
    for at in (1..).step_by(3) {
        let disk = copy(&before);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(&fs, options());
        fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut).only(&CHANGES));
        let done = db.compact_range(None, None);
        let is_over = fs.injected() == 0;
        assert!(done.is_ok() || !is_over, "{done:?}");
        drop(db);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = disk.crash_image(draw.next(), policy);
            let report = verify(Arc::new(copy(&image)), Path::new(DIR), &options()).unwrap();
            assert!(report.is_sound(), "{:?}", report.findings);
            let again = open(&image, options());
            let is_begun = tables(&image) != tables(&before);
            halfway += usize::from(is_begun && stat(&again, "level0_tables") > 0);
            check(&again, &model);
            // A snapshot needs all versions: none of them is written twice.
            let snapshot = again.snapshot();
            again.put(&key(0), b"after").unwrap();
            again.compact_range(None, None).unwrap();
            drop(snapshot);
            again.put(&key(0), model.get(&key(0)).map_or(b"none", |value| value)).unwrap();
            if !model.contains_key(&key(0)) {
                again.delete(&key(0)).unwrap();
            }
            again.compact_range(None, None).unwrap();
            check(&again, &model);
            assert_eq!(stat(&again, "level0_tables"), 0);
        }
        if is_over {
            break;
        }
    }
    assert!(halfway > 3, "{halfway} images between two parts");
}

#[test]
fn a_compaction_may_end_between_its_parts() {
    seeds_or([3]).into_iter().for_each(a_power_loss_in_a_compaction);
}

/// Readers that begin between two parts, and a snapshot from before them.
#[test]
fn readers_see_one_moment_between_parts() {
    let (before, model) = filled(&mut Draw::new(5));
    let fs = FaultFs::new(Arc::new(before));
    let db = open(&fs, options());
    let snapshot = db.snapshot();
    let seen = Arc::new(AtomicUsize::new(0));
    let reader = Arc::new(Mutex::new(Some(db.clone())));
    let (count, from, expected) = (Arc::clone(&seen), Arc::clone(&reader), model.clone());
    fs.watch(move |operation, path| {
        let is_table = path.extension().is_some_and(|end| end == "table");
        if operation == Operation::Sync
            && is_table
            && let Ok(db) = from.try_lock()
            && let Some(db) = &*db
        {
            assert_eq!(rows(db), expected);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    db.compact_range(None, None).unwrap();
    fs.watch(|_, _| ());
    drop(reader.lock().unwrap().take());
    assert!(seen.load(Ordering::Relaxed) > 10);
    check(&db, &model);
    let at_first = walk(db.iter_with(Some(&snapshot), ReadOptions::default()).unwrap()).unwrap();
    assert_eq!(at_first.into_iter().collect::<Model>(), model);
}
