//! Feeds that are read while others write: nothing is missed, and who waits is woken.

use super::{apply, drain, keeping};
use crate::faults::bounded;
use crate::support::{Model, open, rows, tiny};
use keyrack_flodb::{Batch, Db, Durability, Error, Options, Position, WriteOptions};
use keyrack_testkit::random::{Announced, Draw, successive_seeds};
use keyrack_vfs::MemFs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Far more than any wait takes: a wake that is lost shows as this.
const FOR_EVER: Duration = Duration::from_secs(250);

/// Each thread of writers has keys of its own, and numbers that ascend.
fn write(db: &Db, thread: u64, count: u64, draw: &mut Draw) {
    for number in 1..=count {
        let mut batch = Batch::new();
        batch.put(&[b'a' + thread as u8], &number.to_be_bytes());
        if draw.below(3) == 0 {
            let bytes = draw.below(200);
            batch.put(&draw.bytes(4), &draw.bytes(bytes));
        }
        db.write(&batch, WriteOptions { sync: draw.below(32) == 0 }).unwrap();
    }
}

#[test]
fn waiting_readers_see_all_of_concurrent_writers_in_order() {
    for seed in successive_seeds(6) {
        bounded("a feed beside writers", move || {
            let _seed = Announced(seed);
            let durability = [Durability::Os, Durability::Sync][seed as usize % 2];
            let disk = MemFs::new();
            disk.set_map_direct(seed % 4 == 1);
            let db = open(&disk, Options { durability, ..keeping() });
            let (threads, count) = (3, if durability == Durability::Sync { 150 } else { 1_500 });
            let model = std::thread::scope(|scope| {
                let readers = [false, true].map(|is_synced| {
                    let changes = db.changes(Position::START).unwrap();
                    let mut changes = if is_synced { changes.synced() } else { changes };
                    scope.spawn(move || {
                        let (mut model, mut seen) = (Model::new(), 0);
                        let mut last = Position::START;
                        while seen < threads * count {
                            assert!(changes.wait(FOR_EVER).unwrap(), "nobody woke the reader");
                            let change = changes.next().expect("a wait says so").unwrap();
                            assert!(change.position() > last);
                            last = change.position();
                            let (writer, number) = number_of(&change);
                            let before = model.get(&writer).map_or(0, |it: &Vec<u8>| of(it));
                            assert_eq!(number, before + 1, "of writer {writer:?}");
                            apply(&change, &mut model);
                            seen += 1;
                        }
                        assert!(changes.next().is_none());
                        model
                    })
                });
                for thread in 0..threads {
                    let db = &db;
                    let draw = Draw::new(seed ^ thread << 40);
                    scope.spawn(move || write(db, thread, count, &mut { draw }));
                }
                let [one, other] = readers.map(|reader| reader.join().unwrap());
                assert_eq!(one, other);
                one
            });
            assert_eq!(rows(&db), model);
        });
    }
}

fn of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

fn number_of(change: &keyrack_flodb::CommittedBatch) -> (Vec<u8>, u64) {
    match change.writes().next() {
        Some(keyrack_flodb::BatchWrite::Put { key, value }) => (key.to_vec(), of(value)),
        write => panic!("{write:?}"),
    }
}

/// One writer, which writes only when the reader has seen the last write: a lost wake stops both.
#[test]
fn every_single_write_wakes_who_waits() {
    bounded("ping and pong", || {
        let db = open(&MemFs::new(), tiny());
        let mut changes = db.changes(Position::START).unwrap();
        let seen = AtomicUsize::new(0);
        const ROUNDS: usize = 3_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    while seen.load(Ordering::Acquire) < round {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                    db.put(b"ping", &round.to_be_bytes()).unwrap();
                }
            });
            for round in 0..ROUNDS {
                assert!(changes.wait(FOR_EVER).unwrap());
                assert_eq!(changes.next().unwrap().unwrap().len(), 1);
                seen.store(round + 1, Ordering::Release);
            }
        });
    });
}

#[test]
fn a_wait_ends_with_its_time_and_with_the_store() {
    bounded("a wait", || {
        let db = open(&MemFs::new(), tiny());
        let mut changes = db.changes(Position::START).unwrap();
        assert!(!changes.wait(Duration::ZERO).unwrap());
        assert!(!changes.wait(Duration::from_millis(2)).unwrap());
        db.put(b"key", b"value").unwrap();
        assert!(changes.wait(Duration::ZERO).unwrap());
        assert!(changes.wait(Duration::ZERO).unwrap(), "nothing was taken");
        assert_eq!(changes.reached(), Position::START);
        assert_eq!(drain(&mut changes).len(), 1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || changes.wait(FOR_EVER));
            db.clone().close().unwrap();
            assert!(matches!(waits.join().unwrap(), Err(Error::Closed)));
        });
    });
}

/// The first write after a pause is followed by a mark at once.
#[test]
fn time_marks_come_with_the_writes() {
    bounded("time marks", || {
        let begin = keyrack_measure::wall::unix_ms();
        let disk = MemFs::new();
        let db = open(&disk, keeping());
        let mut changes = db.changes(Position::START).unwrap();
        let mut writes = 0;
        while changes.time().is_none() {
            db.put(b"key", b"value").unwrap();
            writes += 1;
            drain(&mut changes);
        }
        let mark = changes.time().unwrap();
        let now = keyrack_measure::wall::unix_ms();
        assert!((begin..=now).contains(&mark.unix_ms), "{begin} {mark:?} {now}");
        assert!(mark.position <= db.position());
        // They are no changes, and stay where they are.
        drop(changes);
        db.close().unwrap();
        let db = open(&disk, keeping());
        let mut changes = db.changes(Position::START).unwrap();
        let found = drain(&mut changes);
        assert_eq!(found.len(), writes);
        assert!(
            found
                .iter()
                .all(|it| it.time().is_none_or(|it| it.position < mark.position || it == mark))
        );
        assert_eq!(changes.time().unwrap().unix_ms, mark.unix_ms);
    });
}
