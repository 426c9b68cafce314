//! Backups beside writers, flushes, compactions and ingestions.

use crate::support::*;
use keyrack_flodb::{Db, IngestOptions, SstWriter, WriteOptions};
use keyrack_testkit::random::factor;
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Writes a round, some of them as a table from outside.
fn round(db: &Db, fs: &dyn Fs, n: u64) {
    // What a table can say: puts, in the order of keys.
    if n % 50 == 49 {
        let puts: Model = model_of_round(n);
        let path = format!("/outside {n}");
        let mut table = SstWriter::create(fs, Path::new(&path), &tiny()).unwrap();
        for (key, value) in &puts {
            table.put(key, value).unwrap();
        }
        table.finish().unwrap();
        db.ingest(&[path], IngestOptions::default()).unwrap();
    } else {
        db.write(&batch(n), WriteOptions::default()).unwrap();
    }
}

/// A round of puts alone: neither a multiple of 5 nor of 50.
fn model_of_round(n: u64) -> Model {
    let (before, after) = (model(n - 1), model(n));
    after.into_iter().filter(|(key, value)| before.get(key) != Some(value)).collect()
}

#[test]
fn a_backup_has_all_that_was_acknowledged_and_a_beginning_of_the_rest() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    let repository = create(&shared(&MemFs::new())).unwrap();
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let backups: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                round(&db, &*disk, n);
                written.store(n, Ordering::Release);
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                db.compact_range(None, None).unwrap();
            }
        });
        let backups = (0..8 * factor())
            .map(|_| {
                let before = written.load(Ordering::Acquire);
                (before, save(&db, &repository))
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        backups
    });
    let last = newest_round(&db);
    let mut newest = 0;
    for (before, saved) in backups {
        let round = restored_round(&repository, &saved.unwrap().info.id);
        assert!((before..=last).contains(&round), "{round}, but {before} were acknowledged");
        assert!(newest <= round, "{round} after {newest}");
        newest = round;
    }
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
}

/// At every operation on the repository, all tables and blob files of the store are replaced.
#[test]
fn files_are_held_until_they_are_copied() {
    let mut at = 0;
    loop {
        let disk = shared(&MemFs::new());
        let db = Db::open_in(Arc::clone(&disk), Path::new(STORE), idle()).unwrap();
        for rounds in [1..60, 60..120, 120..180] {
            write(&db, rounds);
            db.flush().unwrap();
        }
        let faults = keyrack_vfs::FaultFs::new(Arc::new(MemFs::new()));
        let repository = create(&(Arc::new(faults.clone()) as Arc<dyn Fs>)).unwrap();
        let set = db.file_set().unwrap();
        let (left, of_watcher) = (Arc::new(AtomicU64::new(at)), db.clone());
        let counter = Arc::clone(&left);
        faults.watch(move |_, _| {
            if counter.fetch_sub(1, Ordering::Relaxed) == 0 {
                write(&of_watcher, 180..240);
                of_watcher.compact_range(None, None).unwrap();
            }
        });
        let saved = keyrack_backup::Backup::of(set).save_to(&repository).unwrap();
        let has_run = left.load(Ordering::Relaxed) > u64::MAX / 2;
        assert_eq!(restored_round(&repository, &saved.info.id), 179, "operation {at}");
        if !has_run {
            break;
        }
        assert_eq!(newest_round(&db), 239);
        at += 1;
    }
    assert!(at > 20, "{at}");
}
