//! Followers: a second handle of the directory that keeps up with the writer, and never shows a
//! mixture.

use crate::faults::bounded;
use crate::support::{DIR, backwards, idle, newest_round, open, round, rows, tiny};
use keyrack_flodb::{Comparator, Db, Durability, Follower, Options, Spaces, WriteOptions};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn follow(fs: impl Fs + 'static) -> Follower {
    Db::follow_in(Arc::new(fs), Path::new(DIR), tiny()).unwrap()
}

fn write(db: &Db, number: u64) {
    db.write(&round(number), WriteOptions::default()).unwrap();
}

#[test]
fn it_keeps_up_over_flushes_compactions_and_openings() {
    for durability in [Durability::Os, Durability::Sync] {
        let disk = MemFs::new();
        disk.set_map_direct(durability == Durability::Sync);
        let options = || Options { durability, ..idle() };
        let mut db = open(&disk, options());
        let mut follower = follow(disk.clone());
        assert!(!follower.catch_up().unwrap());
        let mut number = 0;
        for life in 0..4 {
            for step in 0..12 {
                for _ in 0..37 {
                    number += 1;
                    write(&db, number);
                }
                match step % 4 {
                    1 => db.flush().unwrap(),
                    2 => db.compact_range(None, None).unwrap(),
                    _ => {}
                }
                assert!(follower.catch_up().unwrap(), "life {life}, step {step}");
                assert_eq!(newest_round(follower.db()), number);
                assert_eq!(follower.position(), db.position());
                // A flush of the background may be new, and shows the same.
                follower.catch_up().unwrap();
                assert_eq!(follower.position(), db.position());
            }
            db.close().unwrap();
            db = open(&disk, options());
            follower.catch_up().unwrap();
            assert_eq!(rows(follower.db()), rows(&db));
        }
        assert!(follower.db().put(b"key", b"value").is_err());
    }
}

#[test]
fn beside_a_writer_it_sees_whole_rounds_that_only_grow() {
    for durability in [Durability::Os, Durability::Sync] {
        bounded("a follower beside a writer", move || {
            let disk = MemFs::new();
            let db = open(&disk, Options { durability, ..tiny() });
            write(&db, 1);
            let mut follower = follow(disk.clone());
            let acknowledged = AtomicU64::new(1);
            const ROUNDS: u64 = 4_000;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 2..=ROUNDS {
                        write(&db, number);
                        acknowledged.store(number, Ordering::Release);
                    }
                });
                let (mut last, mut position) = (0, follower.position());
                while last < ROUNDS {
                    let at_least = acknowledged.load(Ordering::Acquire);
                    // An opening gives up when the store changes too fast. The next call goes on.
                    if follower.catch_up().is_err() {
                        continue;
                    }
                    let newest = newest_round(follower.db());
                    assert!(newest >= at_least && newest >= last, "{last} {at_least} {newest}");
                    assert!(follower.position() >= position);
                    (last, position) = (newest, follower.position());
                }
            });
        });
    }
}

/// A handle that was taken before stays at its moment, whatever the writer removes.
#[test]
fn an_earlier_moment_stays_readable() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    for number in 1..=300 {
        write(&db, number);
    }
    db.flush().unwrap();
    let mut follower = follow(disk.clone());
    let before = follower.db().clone();
    for number in 301..=900 {
        write(&db, number);
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert!(follower.catch_up().unwrap());
    assert_eq!((newest_round(&before), newest_round(follower.db())), (300, 900));
}

#[test]
fn a_writer_that_is_killed_leaves_what_was_acknowledged() {
    let mut disk = MemFs::new();
    for life in 1..=5 {
        let db = open(&disk, tiny());
        for number in (life - 1) * 100 + 1..=life * 100 {
            write(&db, number);
        }
        let killed = disk.process_crash_image();
        let mut follower = follow(killed.clone());
        assert_eq!(newest_round(follower.db()), life * 100);
        drop(open(&killed, tiny()));
        follower.catch_up().unwrap();
        assert_eq!(newest_round(follower.db()), life * 100);
        disk = killed;
    }
}

#[test]
fn a_failure_leaves_it_as_it_was() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    write(&db, 1);
    db.flush().unwrap();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let mut follower = follow(fs.clone());
    let mut number = 1;
    for at in 1.. {
        number += 1;
        write(&db, number);
        let before = newest_round(follower.db());
        fs.arm(FaultPlan::from_then_on(at, Fault::Io).only(&[Operation::Open, Operation::Read]));
        let outcome = follower.catch_up();
        fs.disarm();
        assert_eq!(outcome.is_ok(), fs.injected() == 0, "operation {at}: {outcome:?}");
        if outcome.is_err() {
            assert_eq!(newest_round(follower.db()), before, "operation {at}");
            assert!(follower.catch_up().unwrap());
        }
        assert_eq!(newest_round(follower.db()), number, "operation {at}");
        if outcome.is_ok() {
            assert!(at > 8, "{at}");
            return;
        }
    }
}

/// Spaces come and go, and the follower has those of its moment with their keys.
#[test]
fn a_follower_of_key_spaces_sees_creations_drops_and_keys() {
    let disk = MemFs::new();
    let fs = || Arc::new(disk.clone());
    let orders = [backwards()];
    let open = || Spaces::open_in(fs(), Path::new(DIR), idle(), &orders).unwrap();
    let told = |spaces: &Spaces| -> Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)> {
        let keys = |name: &str| {
            spaces.get(name).unwrap().range(..).map(Result::unwrap).collect::<Vec<_>>()
        };
        spaces.list().into_iter().map(|(name, _)| (name.clone(), keys(&name))).collect()
    };
    let mut writer = open();
    assert!(Spaces::follow_in(fs(), Path::new(DIR), idle(), &[]).is_ok(), "no order is used yet");
    let mut follower = Spaces::follow_in(fs(), Path::new(DIR), idle(), &orders).unwrap();
    assert!(!follower.catch_up().unwrap());
    for life in 0..3_u8 {
        for step in 0..6_u8 {
            let order = if step % 2 == 0 { backwards() } else { Comparator::Bytewise };
            let name = format!("space{step}");
            let space = writer.get_or_create(&name, &order).unwrap();
            for key in 0..50_u8 {
                space.put(&[key], &[life, step, key]).unwrap();
            }
            match step {
                1 => writer.flush().unwrap(),
                3 => writer.compact().unwrap(),
                4 => assert!(writer.drop_space(&name).unwrap()),
                _ => {}
            }
            let before = follower.spaces().clone();
            let shown = told(&before);
            assert!(follower.catch_up().unwrap(), "life {life}, step {step}");
            assert_eq!(told(follower.spaces()), told(&writer), "life {life}, step {step}");
            assert_eq!(follower.position(), writer.position());
            assert_eq!(told(&before), shown, "an earlier moment stays");
            assert!(follower.spaces().create("new", &Comparator::Bytewise).is_err());
        }
        writer.close().unwrap();
        writer = open();
        follower.catch_up().unwrap();
        assert_eq!(told(follower.spaces()), told(&writer));
    }
    let refused = Spaces::follow_in(fs(), Path::new(DIR), idle(), &[]).unwrap_err();
    assert!(refused.to_string().contains("test.backwards"), "{refused}");
}
