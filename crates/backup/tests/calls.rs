//! Every single call of a target fails once, or from then on: before, midway, or with its answer
//! lost.

use crate::failing::{Failing, WHENS, When};
use crate::support::*;
use keyrack_backup::{BackupId, Error, Repository, Result, Target};
use keyrack_flodb::Db;
use keyrack_vfs::{Fs, MemFs, RelativePath};
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

/// A repository with a backup of round 99, and the store at round 149.
struct Scene {
    db: Db,
    target: Arc<dyn Target>,
    first: BackupId,
}

impl Scene {
    fn new() -> Scene {
        let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), idle()).unwrap();
        let target: Arc<dyn Target> = target(&shared(&MemFs::new()));
        write(&db, 1..100);
        let repository = Repository::create(Arc::clone(&target)).unwrap();
        let first = save(&db, &repository).unwrap().info.id;
        write(&db, 100..150);
        db.flush().unwrap();
        Scene { db, target, first }
    }

    /// Everything that is listed can be restored, and the next backup copies what is missing.
    fn check(&self, what: &str) {
        let repository = Repository::open(Arc::clone(&self.target)).unwrap();
        let report = repository.verify(None, |_| ()).unwrap();
        assert!(report.is_sound(), "{what}: {report:?}");
        for (id, info) in repository.backups().unwrap() {
            info.unwrap();
            let expected = if id == self.first { 99 } else { 149 };
            assert_eq!(restored_round(&repository, &id), expected, "{what}: {id}");
        }
        let (_, before) = objects(&self.target);
        let saved = save(&self.db, &repository);
        let saved = saved.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(objects(&self.target).1 - before, saved.copied_bytes, "{what}: {saved:?}");
        assert_eq!(restored_round(&repository, &saved.info.id), 149, "{what}");
    }
}

/// How many objects there are, and their bytes.
fn objects(target: &Arc<dyn Target>) -> (u64, u64) {
    let listed = target.list(&RelativePath::new("objects").unwrap()).unwrap();
    (listed.len() as u64, listed.iter().map(|object| object.bytes).sum())
}

/// Calls `act` with the n-th call failing, for each n, until none is left.
fn each_call(act: impl Fn(&Scene, &Repository) -> Result<()>) {
    for (when, for_good) in WHENS.into_iter().flat_map(|when| [(when, false), (when, true)]) {
        for at in 1.. {
            let scene = Scene::new();
            let failing = Failing::new(Arc::clone(&scene.target), at, when, for_good);
            let outcome = Repository::create(Arc::clone(&failing) as Arc<dyn Target>)
                .and_then(|repository| act(&scene, &repository));
            let what = format!("{when:?} at {at}, for good {for_good}: {outcome:?}");
            if !failing.has_failed() {
                assert!(at > 5, "{what}");
                outcome.unwrap();
                break;
            }
            assert!(matches!(outcome, Err(Error::Remote(_))), "{what}");
            scene.check(&what);
        }
    }
}

#[test]
fn a_backup_is_made_or_not_whichever_call_fails() {
    each_call(|scene, repository| save(&scene.db, repository).map(drop));
}

#[test]
fn a_deletion_loses_nothing_whichever_call_fails() {
    each_call(|scene, repository| {
        save(&scene.db, repository)?;
        repository.delete(from_ref(&scene.first)).map(drop)
    });
}

#[test]
fn a_verification_takes_a_call_that_fails_for_no_damage() {
    each_call(|_, repository| {
        let report = repository.verify(None, |_| ())?;
        assert!(report.is_sound(), "{report:?}");
        Ok(())
    });
}

#[test]
fn a_restoration_leaves_nothing_whichever_call_fails() {
    each_call(|scene, repository| {
        let fs = MemFs::new();
        let restored = repository.restore(&scene.first, &fs, Path::new(RESTORED), |_| ());
        assert_eq!(restored.is_ok(), fs.exists(Path::new(RESTORED)).unwrap());
        assert_eq!(names(&fs, "/").is_empty(), restored.is_err());
        restored.map(drop)
    });
}

/// What an interrupted backup has copied is not copied again: objects are counted in bytes.
#[test]
fn a_backup_that_goes_on_copies_what_is_missing_alone() {
    let mut copied_early = 0;
    for at in 1.. {
        let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), idle()).unwrap();
        write(&db, 1..300);
        db.flush().unwrap();
        let target: Arc<dyn Target> = target(&shared(&MemFs::new()));
        Repository::create(Arc::clone(&target)).unwrap();
        let failing = Failing::new(Arc::clone(&target), at, When::Before, true);
        let first = Repository::open(Arc::clone(&failing) as Arc<dyn Target>)
            .and_then(|repository| save(&db, &repository));
        if !failing.has_failed() {
            first.unwrap();
            break;
        }
        let (count, there) = objects(&target);
        let again = save(&db, &Repository::open(target).unwrap()).unwrap();
        assert_eq!(again.copied_bytes + there, again.info.bytes, "{at}: {again:?}");
        assert_eq!(again.found_files, count, "{at}");
        copied_early += there;
    }
    assert!(copied_early > 0);
}
