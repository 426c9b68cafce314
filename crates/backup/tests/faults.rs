//! Every single operation fails once: on the store's disk, the repository's and the restored one's.

use crate::support::*;
use keyrack_backup::{BackupId, Repository, Result};
use keyrack_flodb::Db;
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs};
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

const FAULTS: [Fault; 5] =
    [Fault::Io, Fault::NoSpace, Fault::Short, Fault::Interrupted, Fault::TooManyFiles];

/// A repository with a backup of round 99, and the store at round 149.
struct Scene {
    store_disk: FaultFs,
    repository_disk: FaultFs,
    db: Db,
    repository: Repository,
    first: BackupId,
}

impl Scene {
    fn new() -> Scene {
        let [store_disk, repository_disk] = [(); 2].map(|()| FaultFs::new(Arc::new(MemFs::new())));
        let fs: Arc<dyn Fs> = Arc::new(store_disk.clone());
        let db = Db::open_in(fs, Path::new(STORE), idle()).unwrap();
        let repository = create(&(Arc::new(repository_disk.clone()) as Arc<dyn Fs>)).unwrap();
        write(&db, 1..100);
        let first = save(&db, &repository).unwrap().info.id;
        write(&db, 100..150);
        db.flush().unwrap();
        Scene { store_disk, repository_disk, db, repository, first }
    }

    /// Everything that is listed can be restored, and the next backup can be made.
    fn check(&self, what: &str) {
        let report = self.repository.verify(None, |_| ()).unwrap();
        assert!(report.is_sound(), "{what}: {report:?}");
        for (id, info) in self.repository.backups().unwrap() {
            info.unwrap();
            let expected = if id == self.first { 99 } else { 149 };
            assert_eq!(restored_round(&self.repository, &id), expected, "{what}: {id}");
        }
        let saved = save(&self.db, &self.repository);
        let saved = saved.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(restored_round(&self.repository, &saved.info.id), 149, "{what}");
    }
}

/// Calls `act` with the n-th operation of a disk failing, for each n, until none is left.
fn each_fault(
    disk: fn(&Scene) -> &FaultFs,
    act: impl Fn(&Scene) -> Result<()>,
    check: impl Fn(&Scene, &Result<()>, &str),
) {
    for fault in FAULTS {
        for at in 1.. {
            let scene = Scene::new();
            disk(&scene).arm(FaultPlan::once(at, fault));
            let outcome = act(&scene);
            let has_failed = disk(&scene).injected() > 0;
            disk(&scene).disarm();
            if !has_failed {
                assert!(at > 5, "{fault:?}: {at}");
                outcome.unwrap();
                break;
            }
            let what = format!("{fault:?} at {at}: {outcome:?}");
            check(&scene, &outcome, &what);
            scene.check(&what);
        }
    }
}

fn backups(scene: &Scene) -> usize {
    scene.repository.backups().unwrap().len()
}

#[test]
fn a_backup_is_made_or_not_whatever_fails_at_the_repository() {
    each_fault(
        |scene| &scene.repository_disk,
        |scene| save(&scene.db, &scene.repository).map(drop),
        |scene, outcome, what| {
            // The failure may be of the last step, when the manifest has its name.
            let expected = if outcome.is_ok() { 2..=2 } else { 1..=2 };
            assert!(expected.contains(&backups(scene)), "{what}");
        },
    );
}

#[test]
fn a_backup_is_made_or_not_whatever_fails_at_the_store() {
    for fault in FAULTS {
        for at in 1.. {
            let scene = Scene::new();
            let set = scene.db.file_set().unwrap();
            scene.store_disk.arm(FaultPlan::once(at, fault));
            let outcome = keyrack_backup::Backup::of(set).save_to(&scene.repository);
            let has_failed = scene.store_disk.injected() > 0;
            scene.store_disk.disarm();
            let what = format!("{fault:?} at {at}: {outcome:?}");
            assert_eq!(backups(&scene), if outcome.is_ok() { 2 } else { 1 }, "{what}");
            scene.check(&what);
            if !has_failed {
                outcome.unwrap();
                break;
            }
        }
    }
}

#[test]
fn a_deletion_loses_nothing_whatever_fails() {
    each_fault(
        |scene| &scene.repository_disk,
        |scene| {
            save(&scene.db, &scene.repository)?;
            scene.repository.delete(from_ref(&scene.first)).map(drop)
        },
        |_, _, _| (),
    );
}

#[test]
fn a_restoration_is_whole_or_not_there_whatever_fails() {
    for fault in FAULTS {
        for at in 1.. {
            let scene = Scene::new();
            let fs = FaultFs::new(Arc::new(MemFs::new()));
            fs.arm(FaultPlan::once(at, fault));
            let outcome = scene.repository.restore(&scene.first, &fs, Path::new(RESTORED), |_| ());
            let has_failed = fs.injected() > 0;
            fs.disarm();
            let what = format!("{fault:?} at {at}: {outcome:?}");
            let fs: Arc<dyn Fs> = Arc::new(fs);
            if !fs.exists(Path::new(RESTORED)).unwrap() {
                assert!(outcome.is_err(), "{what}");
                let again =
                    scene.repository.restore(&scene.first, &*fs, Path::new(RESTORED), |_| ());
                again.unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            assert_eq!(newest_round(&open(&fs, RESTORED)), 99, "{what}");
            if !has_failed {
                outcome.unwrap();
                break;
            }
        }
    }
}

#[test]
fn a_restoration_notices_what_the_repository_cannot_read() {
    each_fault(
        |scene| &scene.repository_disk,
        |scene| {
            let fs = MemFs::new();
            let outcome = scene.repository.restore(&scene.first, &fs, Path::new(RESTORED), |_| ());
            assert_eq!(outcome.is_ok(), fs.exists(Path::new(RESTORED)).unwrap());
            if outcome.is_ok() {
                assert_eq!(newest_round(&open(&shared(&fs), RESTORED)), 99);
            }
            outcome.map(drop)
        },
        |_, _, _| (),
    );
}

/// What an interrupted backup has copied is used, after its bytes were compared.
#[test]
fn the_next_backup_uses_what_an_interrupted_one_has_copied() {
    let disk = MemFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    // Without compactions, which would replace the files between the two backups.
    let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), idle()).unwrap();
    write(&db, 1..300);
    let repository = create(&(Arc::new(faults.clone()) as Arc<dyn Fs>)).unwrap();
    let objects = || names(&disk, "/backups/objects");
    // The rename that gives the third object its name.
    let renames = [keyrack_vfs::Operation::Rename];
    faults.arm(FaultPlan::from_then_on(3, Fault::PowerOut).only(&renames));
    save(&db, &repository).unwrap_err();
    faults.disarm();
    assert_eq!(objects().len(), 2 + 1, "two objects, and an unfinished one");
    // One of them does not have the bytes that its name says.
    let damaged = objects().into_iter().find(|name| !name.contains('.')).unwrap();
    let path = Path::new("/backups/objects").join(damaged);
    let mut bytes = disk.read(&path).unwrap();
    bytes[7] ^= 1;
    disk.write_atomic(&path, &bytes).unwrap();
    let saved = save(&db, &repository).unwrap();
    assert_eq!(saved.found_files, 1, "{saved:?}");
    assert_eq!(saved.copied_files, saved.info.files - 1);
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    assert_eq!(restored_round(&repository, &saved.info.id), 299);
    assert_eq!(objects().len() as u64, saved.info.files);
}
