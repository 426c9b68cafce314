//! A shipper that is killed at each call of the target, and a power loss of the repository.

use crate::failing::{Failing, WHENS};
use crate::support::*;
use keyrack_backup::{Moment, Repository, Shipper, Target};
use keyrack_flodb::Db;
use keyrack_vfs::{CrashPolicy, FaultFs, Fs, MemFs};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A store at round 10 with a backup.
fn scene() -> (Db, Arc<dyn Target>) {
    let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), idle()).unwrap();
    let target: Arc<dyn Target> = target(&shared(&MemFs::new()));
    let repository = Repository::create(Arc::clone(&target)).unwrap();
    write(&db, 1..11);
    save(&db, &repository).unwrap();
    (db, target)
}

/// Ships three times, with a round before each. The positions of the rounds.
fn live(
    db: &Db,
    round: &mut u64,
    mut ship: impl FnMut() -> keyrack_backup::Result<()>,
) -> Vec<(u64, u64)> {
    (0..3)
        .map(|_| {
            *round += 1;
            write(db, *round..*round + 1);
            let known = (position(db), *round);
            // The next time it goes on.
            let _ = ship();
            known
        })
        .collect()
}

#[test]
fn a_shipper_goes_on_whichever_call_fails() {
    for (when, for_good) in WHENS.into_iter().flat_map(|when| [(when, false), (when, true)]) {
        for at in 1.. {
            let (db, target) = scene();
            let failing = Failing::new(Arc::clone(&target), at, when, for_good);
            let what = format!("{when:?} at {at}, for good {for_good}");
            let shipper = Repository::open(Arc::clone(&failing) as Arc<dyn Target>)
                .and_then(|repository| Shipper::begin(&repository, &db));
            let mut round = 10;
            let mut known = Vec::new();
            if let Ok(mut shipper) = shipper {
                known = live(&db, &mut round, || shipper.ship().map(drop));
                if !for_good {
                    // The same one goes on, too.
                    let shipped = shipper.ship().unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(shipped.position >= position(&db), "{what}");
                }
            }
            let is_over = !failing.has_failed();
            // It was killed; another one goes on.
            let repository = Repository::open(target).unwrap();
            let mut shipper = Shipper::begin(&repository, &db).unwrap();
            known.extend(live(&db, &mut round, || {
                shipper.ship().unwrap_or_else(|error| panic!("{what}: {error}"));
                Ok(())
            }));
            let report = repository.verify(None, |_| ()).unwrap();
            assert!(report.is_sound() && report.log_objects >= 3, "{what}: {report:?}");
            for (position, round) in known {
                let restored = round_at(&repository, Moment::Position(position));
                assert_eq!(restored.unwrap(), round, "{what}");
            }
            if is_over {
                assert!(at > 8, "{what}");
                break;
            }
        }
    }
}

/// What a call has said is shipped is on the disk after a power loss at any operation.
#[test]
fn what_was_shipped_survives_a_power_loss_of_the_repository() {
    let disk = MemFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let repository = create(&(Arc::new(faults.clone()) as Arc<dyn Fs>)).unwrap();
    let db = open(&shared(&MemFs::new()), STORE);
    save(&db, &repository).unwrap();
    let shipped = Arc::new(Mutex::new((0, 0)));
    let images = Arc::new(Mutex::new(Vec::new()));
    let (now, taken) = (Arc::clone(&shipped), Arc::clone(&images));
    faults.watch(move |_, _| {
        let mut taken = taken.lock().unwrap();
        let policy = [CrashPolicy::DropAll, CrashPolicy::KeepAll][taken.len() % 2];
        let image = disk.crash_image(taken.len() as u64, policy);
        taken.push((image, *now.lock().unwrap()));
    });
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    for round in 1..8 {
        write(&db, round..round + 1);
        shipper.ship().unwrap();
        *shipped.lock().unwrap() = (position(&db), round);
    }
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 30, "{}", images.len());
    for (image, (position, round)) in images {
        let repository = Repository::open(target(&shared(&image))).unwrap();
        assert!(repository.verify(None, |_| ()).unwrap().is_sound());
        if round > 0 {
            assert_eq!(round_at(&repository, Moment::Position(position)).unwrap(), round);
        }
    }
}

/// A restoration to a moment is durable when it says so.
#[test]
fn a_restored_moment_survives_a_power_loss() {
    let (db, target) = scene();
    let repository = Repository::open(target).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    write(&db, 11..300);
    shipper.ship().unwrap();
    let disk = MemFs::new();
    let fs = shared(&disk);
    let mut replay = |dir: &Path| Ok(Box::new(open(&fs, dir.to_str().unwrap())) as _);
    let (moment, place) = (Moment::Position(position(&db)), (&*fs, Path::new(RESTORED)));
    let restored = repository.restore_at(moment, None, place, &mut replay, |_| ()).unwrap();
    assert_eq!(restored.batches, 289);
    let image = disk.crash_image(1, CrashPolicy::DropAll);
    assert_eq!(newest_round(&open(&shared(&image), RESTORED)), 299);
}
