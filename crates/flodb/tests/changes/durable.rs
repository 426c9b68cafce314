//! What a feed has given survives what it says, and the store never contradicts it.

use super::{apply, drain, keeping};
use crate::support::{Model, open, rows, try_open};
use keyrack_flodb::{
    Batch, Db, Durability, Error, IngestOptions, Options, Position, Result, SstWriter, WriteOptions,
};
use keyrack_testkit::camera::POLICIES;
use keyrack_testkit::random::{Announced, Draw, successive_seeds};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

fn commit(db: &Db, draw: &mut Draw) -> Result<()> {
    let mut batch = Batch::new();
    for _ in 0..1 + draw.below(3) {
        let key = format!("key{:03}", draw.below(60));
        if draw.below(4) == 0 {
            batch.delete(key.as_bytes());
        } else {
            let bytes = draw.below(600);
            batch.put(key.as_bytes(), &draw.bytes(bytes));
        }
    }
    db.write(&batch, WriteOptions { sync: draw.below(24) == 0 })
}

/// The store on this disk: what the feed has given is in it as the feed gave it, or was lost and is
/// said to be.
fn check(image: &MemFs, options: Options, given: &[(Position, Model)], is_durable: bool) {
    let db = open(image, options);
    let (position, model) = given.last().unwrap();
    match db.changes(*position) {
        Ok(changes) => {
            let mut now = model.clone();
            changes.for_each(|change| apply(&change.unwrap(), &mut now));
            assert!(rows(&db) == now);
        }
        Err(Error::NotWritten { position: asked, end }) => {
            assert!(!is_durable, "{asked} is lost, of what a power loss must not take");
            // A beginning of what the feed gave is there, up to that position.
            assert_eq!(asked, *position);
            let known = given.iter().rev().find(|(position, _)| *position <= end).unwrap();
            assert!(rows(&db) == known.1);
        }
        Err(error) => panic!("{error}"),
    }
    // New changes have new positions.
    db.put(b"new", b"1").unwrap();
    let mut from_start = db.changes(Position::START).unwrap();
    let all = drain(&mut from_start);
    let last = all.last().unwrap();
    assert!(last.position() > *position, "a position is used twice");
    let mut model = Model::new();
    all.iter().for_each(|change| apply(change, &mut model));
    assert!(rows(&db) == model);
    if !is_durable {
        // Also after that, what is lost is not found.
        match db.changes(*position) {
            Ok(_) | Err(Error::NotWritten { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_power_loss_takes_nothing_of_a_durable_feed_and_contradicts_no_other() {
    for seed in successive_seeds(9) {
        let _seed = Announced(seed);
        let draw = &mut Draw::new(seed);
        let durability = [Durability::Sync, Durability::Os, Durability::Interval(1)];
        let durability = durability[seed as usize % 3];
        let is_synced = draw.below(2) == 0;
        let is_durable = is_synced || durability == Durability::Sync;
        let options = || Options { durability, segment_bytes: 16 << 10, ..keeping() };
        let disk = MemFs::new();
        disk.set_map_direct(draw.below(2) == 0);
        let db = open(&disk, options());
        let changes = db.changes(Position::START).unwrap();
        let mut changes = if is_synced { changes.synced() } else { changes };
        let mut given = vec![(Position::START, Model::new())];
        for round in 0..250 {
            commit(&db, draw).unwrap();
            if draw.below(40) == 0 {
                db.flush().unwrap();
            }
            if draw.below(3) == 0 {
                for change in drain(&mut changes) {
                    let mut model = given.last().unwrap().1.clone();
                    apply(&change, &mut model);
                    given.push((change.position(), model));
                }
            }
            if round % 5 == 0 {
                let policy = POLICIES[draw.below(POLICIES.len())];
                check(&disk.crash_image(draw.next(), policy), options(), &given, is_durable);
                if durability != Durability::Sync {
                    check(&disk.process_crash_image(), options(), &given, true);
                }
            }
        }
        assert!(given.len() > 50, "{}", given.len());
    }
}

/// Fails each operation of the disk in turn, with a feed that is read all the time.
#[test]
fn a_failing_disk_makes_a_feed_stop_and_never_lie() {
    let durabilities = [Durability::Os, Durability::Sync];
    for (durability, fault) in durabilities.into_iter().zip([Fault::Io, Fault::NoSpace]) {
        let mut at = 1;
        while fail_at(durability, fault, at) {
            at += 1 + at / 12;
        }
        assert!(at > 60, "{at}");
    }
}

/// `false` if there are fewer operations.
fn fail_at(durability: Durability, fault: Fault, at: u64) -> bool {
    let disk = MemFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let options =
        || Options { durability, segment_bytes: 16 << 10, compaction_threads: 0, ..keeping() };
    let draw = &mut Draw::new(at);
    let Ok(db) = try_open(&fs, options()) else { panic!("nothing fails yet") };
    let mut given = vec![(Position::START, Model::new())];
    let mut changes = db.changes(Position::START).unwrap();
    fs.arm(FaultPlan::once(at, fault));
    let read = |changes: &mut keyrack_flodb::Changes, given: &mut Vec<(Position, Model)>| {
        // After an error the next call goes on.
        for change in changes.by_ref().take(10_000).flatten() {
            let (last, mut model) = given.last().unwrap().clone();
            assert!(change.position() > last);
            apply(&change, &mut model);
            given.push((change.position(), model));
        }
    };
    for round in 0..150 {
        let _ = commit(&db, draw);
        if round % 4 == 0 {
            read(&mut changes, &mut given);
        }
        if round % 50 == 49 {
            let _ = db.flush();
        }
    }
    fs.disarm();
    let is_met = fs.injected() > 0;
    read(&mut changes, &mut given);
    // It is what the store has. After a failed sync readers see what was not synced, and nobody can
    // tell what the file has of it.
    let is_poisoned = !db.property("keyrack.background-error").unwrap().is_empty();
    if is_poisoned {
        let told = changes.next().map(|it| it.map(|it| it.position()));
        assert!(matches!(told, None | Some(Err(Error::Poisoned(_)))), "operation {at}: {told:?}");
    } else {
        assert!(rows(&db) == given.last().unwrap().1, "operation {at}");
    }
    drop((changes, db));
    let is_durable = durability == Durability::Sync || !is_poisoned;
    check(&disk.process_crash_image(), options(), &given, is_durable);
    is_met
}

#[test]
fn the_log_that_is_kept_has_no_hole_after_a_power_loss() {
    for seed in successive_seeds(6) {
        let _seed = Announced(seed);
        let draw = &mut Draw::new(seed);
        let mut disk = MemFs::new();
        let mut model = Model::new();
        for _ in 0..4 {
            let db = open(&disk, keeping());
            for _ in 0..400 {
                commit(&db, draw).unwrap();
            }
            db.flush().unwrap();
            let image = disk.crash_image(draw.next(), POLICIES[draw.below(POLICIES.len())]);
            drop(db);
            let db = open(&image, keeping());
            let mut again = Model::new();
            for change in db.changes(Position::START).unwrap() {
                apply(&change.unwrap(), &mut again);
            }
            assert!(rows(&db) == again);
            model = again;
            drop(db);
            disk = image;
        }
        assert!(!model.is_empty());
        assert!(disk.exists(Path::new("/store/log")).unwrap());
    }
}

#[test]
fn an_ingestion_is_given_at_once_and_survives_a_power_loss() {
    for durability in [Durability::Sync, Durability::Os] {
        let options = || Options { durability, ..keeping() };
        let disk = MemFs::new();
        let db = open(&disk, options());
        db.put(b"before", b"1").unwrap();
        let mut changes = db.changes(db.position()).unwrap();
        let begin = changes.reached();
        let mut table = SstWriter::create(&disk, Path::new("/new.sst"), db.options()).unwrap();
        table.put(b"taken in", b"2").unwrap();
        table.finish().unwrap();
        db.ingest(&["/new.sst"], IngestOptions::default()).unwrap();
        assert!(changes.next().expect("nothing else comes").unwrap().is_ingestion());
        for policy in POLICIES {
            let db = open(&disk.crash_image(7, policy), options());
            assert!(db.contains_key(b"taken in").unwrap());
            let found = drain(&mut db.changes(begin).unwrap());
            assert_eq!(found.iter().filter(|it| it.is_ingestion()).count(), 1, "{policy:?}");
        }
    }
}
