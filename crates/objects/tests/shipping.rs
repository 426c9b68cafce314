//! The log of a store that is shipped to an object store: in memory with calls that fail, and on a
//! server whose wire is cut and whose clients are killed.

use crate::backups::{at, brief, memory, newest_round, save, try_at, write};
use crate::failing::{Failing, WHENS};
use crate::proxy::Cut;
use crate::server::{Server, cut_access};
use keyrack_backup::{Error, LogReplay, LogShipped, Moment, Repository, Result, Shipper, Target};
use keyrack_flodb::{BatchWrite, Db, Options};
use keyrack_objects::Access;
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{Fs, MemFs, RealFs};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Places where the wire is cut, in each direction.
const CUTS: u64 = 4;
/// Processes that are killed, for a seed.
const KILLS: u64 = 3;
/// Rounds that a process writes and ships one by one.
const ROUNDS: u64 = 12;
const PREFIX_VARIABLE: &str = "KEYRACK_TEST_SHIPPING_PREFIX";
const ENDPOINT_VARIABLE: &str = "KEYRACK_TEST_SHIPPING_ENDPOINT";
const DIR_VARIABLE: &str = "KEYRACK_TEST_SHIPPING_DIR";

fn open_store(fs: Arc<dyn Fs>, dir: &Path) -> Db {
    let options =
        Options { segment_bytes: 64 << 10, log_retention_bytes: 1 << 30, ..Options::default() };
    Db::open_in(fs, dir, options).unwrap()
}

fn position(db: &Db) -> u64 {
    db.position().into()
}

/// Writes the rounds and ships after each, as far as it gets. Where each of them ends.
fn live(
    db: &Db,
    rounds: std::ops::Range<u64>,
    mut ship: impl FnMut() -> Result<LogShipped>,
) -> Vec<(u64, u64)> {
    let mut known = Vec::new();
    for round in rounds {
        write(db, round..round + 1);
        known.push((position(db), round));
        // The next time it goes on.
        let _ = ship();
    }
    known
}

/// The round of the store of a position, which has exactly what was written up to it.
fn round_at(repository: &Repository, position: u64) -> u64 {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let mut open = |dir: &Path| {
        let db = Db::open_in(Arc::clone(&fs), dir, Options::default())?;
        Ok(Box::new(db) as Box<dyn LogReplay>)
    };
    let (moment, place) = (Moment::Position(position), (&*fs, Path::new("/restored")));
    repository.restore_at(moment, None, place, &mut open, |_| ()).unwrap();
    newest_round(&fs)
}

/// Ships as soon as the lease of a dead holder is over.
fn ship_when_free(shipper: &mut Shipper) -> LogShipped {
    loop {
        match shipper.ship() {
            Err(Error::Locked(line)) => assert!(line.contains("try again in"), "{line}"),
            shipped => return shipped.unwrap(),
        }
    }
}

/// Everything is there, and a new shipper goes on to the end.
#[track_caller]
fn goes_on(db: &Db, target: &Arc<dyn Target>, known: &[(u64, u64)], what: &str) {
    let repository = Repository::open(Arc::clone(target)).unwrap();
    let report = repository.verify(None, |_| ()).unwrap();
    assert!(report.is_sound(), "{what}: {report:?}");
    let mut shipper = Shipper::begin(&repository, db).unwrap();
    let shipped = ship_when_free(&mut shipper);
    assert!(shipped.position >= position(db), "{what}: {shipped:?}");
    assert!(repository.verify(None, |_| ()).unwrap().is_sound(), "{what}");
    for (position, round) in known {
        assert_eq!(round_at(&repository, *position), *round, "{what}: position {position}");
    }
}

fn scene() -> Db {
    let db = open_store(Arc::new(MemFs::new()), Path::new("/store"));
    write(&db, 1..10);
    db
}

#[test]
fn each_position_comes_back_from_a_server() {
    let Some(server) = Server::start("each_position_comes_back_from_a_server") else { return };
    let db = scene();
    let target = at(&server.access(), "ship a/ü");
    save(&db, &target).unwrap();
    let repository = Repository::open(Arc::clone(&target)).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    let mut known = live(&db, 10..14, || Ok(shipper.ship().unwrap()));
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    known.extend(live(&db, 14..16, || Ok(shipper.ship().unwrap())));
    goes_on(&db, &target, &known, "a server");
    // A deletion removes what no backup needs.
    save(&db, &target).unwrap();
    repository.keep_newest(1).unwrap();
    assert_eq!(repository.verify(None, |_| ()).unwrap().log_objects, 0);
}

/// The one that comes second is told so, and nothing of the first one is lost.
#[test]
fn of_two_shippers_one_is_told() {
    let Some(server) = Server::start("of_two_shippers_one_is_told") else { return };
    for target in [memory(), at(&server.access(), "two")] {
        let db = scene();
        save(&db, &target).unwrap();
        let repository = Repository::open(Arc::clone(&target)).unwrap();
        let mut one = Shipper::begin(&repository, &db).unwrap();
        let mut other = Shipper::begin(&repository, &db).unwrap();
        let mut known = live(&db, 10..12, || Ok(one.ship().unwrap()));
        // It has other parts than those that are there.
        write(&db, 12..13);
        known.push((position(&db), 12));
        let Err(Error::Usage(line)) = other.ship() else { panic!("there is another one") };
        assert!(line.contains("another shipper of this store wrote it"), "{line}");
        // One that holds the lock meanwhile is named.
        let guard = target.lock().unwrap();
        assert!(matches!(one.ship(), Err(Error::Locked(_))));
        drop(guard);
        one.ship().unwrap();
        goes_on(&db, &target, &known, "two shippers");
    }
}

#[test]
fn a_shipper_goes_on_whichever_call_fails() {
    for when in WHENS {
        for at in 1.. {
            let (db, target) = (scene(), memory());
            save(&db, &target).unwrap();
            let failing = Failing::new(Arc::clone(&target), at, when, false);
            let what = format!("{when:?} at {at}");
            let mut known = Vec::new();
            let repository = Repository::open(Arc::clone(&failing) as Arc<dyn Target>);
            if let Ok(mut shipper) =
                repository.and_then(|repository| Shipper::begin(&repository, &db))
            {
                known = live(&db, 10..13, || shipper.ship());
            }
            let is_over = !failing.has_failed();
            goes_on(&db, &target, &known, &what);
            if is_over {
                assert!(at > 8, "{what}");
                break;
            }
        }
    }
}

/// What is in the repository stays whole, and what a call has said is shipped is there.
#[test]
fn a_cut_loses_nothing_that_was_shipped() {
    let Some(server) = Server::start("a_cut_loses_nothing_that_was_shipped") else { return };
    let db = scene();
    let ship_through =
        |access: &Access, prefix: &str, known: &mut Vec<(u64, u64)>, round: &mut u64| {
            let repository = Repository::open(try_at(access, prefix)?)?;
            let mut shipper = Shipper::begin(&repository, &db)?;
            let mut last = None;
            known.extend(live(&db, *round..*round + 3, || {
                last = Some(shipper.ship()?.position);
                Ok(LogShipped::default())
            }));
            *round += 3;
            Ok::<_, Error>(last)
        };
    let mut round = 10;
    save(&db, &at(&server.access(), "measured")).unwrap();
    let wire = server.wire(Cut::Never);
    ship_through(&cut_access(&wire), "measured", &mut Vec::new(), &mut round).unwrap();
    let (requests, answers) = wire.bytes();
    drop(wire);
    let place = |bytes: u64, index: u64| bytes * index / CUTS;
    let cuts = (1..=CUTS).flat_map(|index| {
        [Cut::Requests(place(requests, index) - 60), Cut::Answers(place(answers, index) - 60)]
    });
    for (index, cut) in cuts.enumerate() {
        let prefix = format!("ship-cut{index}");
        let whole = at(&server.access(), &prefix);
        save(&db, &whole).unwrap();
        let mut known = Vec::new();
        let wire = server.wire(cut);
        let outcome = ship_through(&brief(cut_access(&wire)), &prefix, &mut known, &mut round);
        drop(wire);
        let what = format!("{cut:?}: {outcome:?}");
        assert!(matches!(outcome, Ok(_) | Err(Error::Remote(_))), "{what}");
        if let Ok(Some(last)) = outcome {
            let repository = Repository::open(Arc::clone(&whole)).unwrap();
            let to = repository.moments().unwrap().last().map(|moments| moments.to);
            assert!(to >= Some(last), "{what}: {to:?}");
        }
        goes_on(&db, &whole, &known, &what);
    }
}

/// The process that is killed; nothing in other runs.
#[test]
fn child_that_ships() {
    let Ok(prefix) = std::env::var(PREFIX_VARIABLE) else { return };
    let endpoint = std::env::var(ENDPOINT_VARIABLE).unwrap();
    let dir = std::env::var(DIR_VARIABLE).unwrap();
    let mut access = crate::server::access(&endpoint, crate::server::SECRET);
    access.lease = Duration::from_secs(2);
    let db = open_store(Arc::new(RealFs), Path::new(&dir));
    let repository = Repository::open(at(&access, &prefix)).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    live(&db, 10..10 + ROUNDS, || Ok(shipper.ship().unwrap()));
}

/// Killed at random moments, a shipper leaves whole parts, and the next one goes on.
#[test]
fn a_killed_shipper_leaves_whole_parts() {
    let Some(server) = Server::start("a_killed_shipper_leaves_whole_parts") else { return };
    for seed in seeds().into_iter().take(1) {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        // The first child ends by itself, and says how many bytes there are.
        let mut total = u64::MAX;
        for kill in 0..=KILLS {
            let prefix = format!("ship-kill{seed}-{kill}");
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path().join("store");
            let target = at(&server.access(), &prefix);
            let db = open_store(Arc::new(RealFs), &dir);
            write(&db, 1..10);
            save(&db, &target).unwrap();
            let from = position(&db);
            db.close().unwrap();
            let wire = server.wire(Cut::Never);
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "shipping::child_that_ships"])
                .env(PREFIX_VARIABLE, &prefix)
                .env(ENDPOINT_VARIABLE, wire.endpoint())
                .env(DIR_VARIABLE, &dir)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let moment = if kill == 0 { u64::MAX } else { draw.next() % total };
            while wire.bytes().0 < moment && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            // It may have ended by itself.
            let _ = child.kill();
            child.wait().unwrap();
            total = total.min(wire.bytes().0);
            drop(wire);
            let db = open_store(Arc::new(RealFs), &dir);
            let mut known: Vec<(u64, u64)> = Vec::new();
            for change in db.changes(from.into()).unwrap() {
                let change = change.unwrap();
                // The last put of a round, whose value begins with the number.
                if let Some(BatchWrite::Put { key: [b'k', _], value }) = change.writes().next() {
                    let round = u64::from_be_bytes(*value.first_chunk().unwrap());
                    known.push((change.position().into(), round));
                }
            }
            assert!(kill > 0 || known.len() == ROUNDS as usize, "{known:?}");
            goes_on(&db, &target, &known, &format!("killed at {moment} of {total} bytes"));
        }
    }
}
