//! Power losses at every operation on the disk of a repository, and on that of a restoration.
//!
//! ```text
//!   life       create, save, save, delete, save, keep one
//!      v  at every operation
//!   image      a disk that a power loss at that moment could leave
//!              every backup that was made is there, none is in part, and work goes on
//! ```

use crate::support::*;
use keyrack_backup::{BackupId, Error, Repository};
use keyrack_flodb::Db;
use keyrack_testkit::camera::POLICIES;
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{CrashPolicy, FaultFs, Fs, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};

/// What has to be on a disk, and what may be.
#[derive(Clone, Debug, Default)]
struct Journal {
    /// Backups that were made and not deleted, with their rounds.
    made: BTreeMap<BackupId, u64>,
    /// Those whose deletion has begun.
    going: BTreeMap<BackupId, u64>,
    /// The round of the backup that is being made.
    making: Option<u64>,
}

struct Shot {
    image: MemFs,
    policy: CrashPolicy,
    journal: Journal,
    what: String,
}

/// A disk that is pictured at every operation.
fn watched(disk: &MemFs, journal: &Arc<Mutex<Journal>>, seed: u64) -> (FaultFs, Shots) {
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let shots: Shots = Arc::default();
    let (taken, journal, disk) = (Arc::clone(&shots), Arc::clone(journal), disk.clone());
    let draw = Mutex::new(Draw::new(seed));
    faults.watch(move |operation, path| {
        let (policy, seed) = {
            let mut draw = draw.lock().unwrap();
            (POLICIES[draw.below(4)], draw.next())
        };
        let image = disk.crash_image(seed, policy);
        let journal = journal.lock().unwrap().clone();
        let what = format!("{operation} {path:?}");
        taken.lock().unwrap().push(Shot { image, policy, journal, what });
    });
    (faults, shots)
}

type Shots = Arc<Mutex<Vec<Shot>>>;

/// The life of a repository; returns the store.
fn live(repository_fs: &Arc<dyn Fs>, journal: &Mutex<Journal>) -> Db {
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(repository_fs).unwrap();
    let mut round = 0;
    let mut save_next = |rounds: u64| {
        write(&db, round + 1..round + rounds + 1);
        round += rounds;
        journal.lock().unwrap().making = Some(round);
        let id = save(&db, &repository).unwrap().info.id;
        let mut journal = journal.lock().unwrap();
        journal.making = None;
        journal.made.insert(id.clone(), round);
        id
    };
    let delete = |ids: &[BackupId], delete: &dyn Fn() -> keyrack_backup::Deleted| {
        let mut now = journal.lock().unwrap();
        for id in ids {
            let round = now.made.remove(id).unwrap();
            now.going.insert(id.clone(), round);
        }
        drop(now);
        assert_eq!(delete().backups as usize, ids.len());
        journal.lock().unwrap().going.clear();
    };
    let first = save_next(100);
    let second = save_next(60);
    delete(from_ref(&first), &|| repository.delete(from_ref(&first)).unwrap());
    let third = save_next(60);
    save_next(1);
    delete(&[second, third], &|| repository.keep_newest(1).unwrap());
    db
}

/// Everything that must be on the disk is there and whole, and work goes on.
fn examine(shot: Shot, db: &Db, draw: &mut Draw) {
    let Shot { image, policy, journal, what } = shot;
    let what = format!("{policy:?} at {what}, {journal:?}");
    let fs = shared(&image);
    match Repository::open(target(&fs)) {
        Err(Error::Usage(_) | Error::Io(_)) => assert!(journal.made.is_empty(), "{what}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(repository) => check(&repository, &journal, draw, &what),
    }
    if draw.below(4) > 0 {
        return;
    }
    let repository = create(&fs).unwrap_or_else(|error| panic!("{what}: {error}"));
    let saved = save(db, &repository).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(restored_round(&repository, &saved.info.id), 221, "{what}");
    assert!(repository.verify(None, |_| ()).unwrap().is_sound(), "{what}");
    repository.keep_newest(1).unwrap();
    let report = repository.verify(None, |_| ()).unwrap();
    assert!(report.is_sound() && report.unused_objects == 0, "{what}: {report:?}");
    let left = names(&*fs, BACKUPS).len() + names(&*fs, "/backups/backups").len();
    assert_eq!(left, 5 + 1, "{what}: no unfinished file stays: {:?}", names(&*fs, BACKUPS));
}

fn check(repository: &Repository, journal: &Journal, draw: &mut Draw, what: &str) {
    let backups = repository.backups().unwrap();
    let ids: Vec<&BackupId> = backups.iter().map(|(id, _)| id).collect();
    for id in journal.made.keys() {
        assert!(ids.contains(&id), "{what}: {id} is lost");
    }
    let report = repository.verify(None, |_| ()).unwrap();
    assert!(report.is_sound(), "{what}: {report:?}");
    if ids.is_empty() {
        return;
    }
    let id = ids[draw.below(ids.len())];
    let round = restored_round(repository, id);
    let known = journal.made.get(id).or_else(|| journal.going.get(id)).copied();
    assert_eq!(Some(round), known.or(journal.making), "{what}: {id}");
}

#[test]
fn power_losses_lose_no_backup_and_leave_none_in_part() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let disk = MemFs::new();
        let journal = Arc::default();
        let (faults, shots) = watched(&disk, &journal, seed);
        let db = live(&(Arc::new(faults) as Arc<dyn Fs>), &journal);
        let shots = std::mem::take(&mut *shots.lock().unwrap());
        assert!(shots.len() > 200, "{}", shots.len());
        let mut draw = Draw::new(seed);
        shots.into_iter().for_each(|shot| examine(shot, &db, &mut draw));
    }
}

#[test]
fn power_losses_while_restoring_leave_a_whole_store_or_none() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let repository = create(&shared(&MemFs::new())).unwrap();
        let db = open(&shared(&MemFs::new()), STORE);
        write(&db, 1..200);
        let id = save(&db, &repository).unwrap().info.id;
        let disk = MemFs::new();
        let (faults, shots) = watched(&disk, &Arc::default(), seed);
        repository.restore(&id, &faults, Path::new(RESTORED), |_| ()).unwrap();
        let last = disk.crash_image(seed, CrashPolicy::DropAll);
        assert_eq!(newest_round(&open(&shared(&last), RESTORED)), 199, "it is durable");
        let shots = std::mem::take(&mut *shots.lock().unwrap());
        assert!(shots.len() > 30, "{}", shots.len());
        for Shot { image, policy, what, .. } in shots {
            let fs = shared(&image);
            let what = format!("{policy:?} at {what}");
            if !fs.exists(Path::new(RESTORED)).unwrap() {
                let restored = repository.restore(&id, &*fs, Path::new(RESTORED), |_| ());
                restored.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(names(&*fs, "/"), ["restored"], "{what}");
            }
            assert_eq!(newest_round(&open(&fs, RESTORED)), 199, "{what}");
        }
    }
}
