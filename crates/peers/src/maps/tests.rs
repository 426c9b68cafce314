//! Tests of the maps beside those of every engine: what threads see, and congee against the model.

use super::arctic::ENGINE as ARCTIC;
use super::congee::ENGINE as CONGEE;
use super::scc::ENGINE as SCC;
use crate::race::race;
use keyrack_store::{Batch, Error, ModelStore, OpenOptions, Removed, Session, Store, Update};
use keyrack_vfs::RealFs;
use keyrack_workload::Rng;
use std::ops::ControlFlow;
use std::sync::Arc;

const SEED: u64 = 0x5EED_0002;

fn opened(engine: &keyrack_store::Engine) -> Box<dyn Store> {
    (engine.open)(&OpenOptions::in_memory(Arc::new(RealFs))).unwrap()
}

#[test]
fn an_overwrite_is_never_seen_as_a_removal() {
    for engine in [ARCTIC, SCC, CONGEE] {
        let store = opened(&engine);
        let values = [b"short".as_slice(), b"other", b"a value that needs an allocation"];
        store.session().unwrap().put(b"the key!", values[0]).unwrap();
        race(
            || {
                let mut session = store.session().unwrap();
                for round in 0..20_000 {
                    session.put(b"the key!", values[round % values.len()]).unwrap();
                }
            },
            || {
                let mut session = store.session().unwrap();
                let hit = session.get(b"the key!", &mut |value| assert!(values.contains(&value)));
                assert!(hit.unwrap(), "{}: a get missed an overwritten key", engine.name);
                let mut rows = 0;
                let mut count = |_: &[u8], value: &[u8]| {
                    assert!(values.contains(&value));
                    rows += 1;
                    ControlFlow::Continue(())
                };
                session.scan(b"", None, &mut count).unwrap();
                session.scan_rev(b"", None, &mut count).unwrap();
                assert_eq!(rows, 2, "{}: a scan missed an overwritten key", engine.name);
            },
        );
    }
}

/// Keys that are there all along are in every scan, in order, whatever comes and goes between.
#[test]
fn scans_see_what_stays_while_neighbours_come_and_go() {
    let key = |n: u64| (n.wrapping_mul(0x0101_0101_0101_0101)).to_be_bytes();
    for engine in [ARCTIC, SCC, CONGEE] {
        let store = opened(&engine);
        let mut session = store.session().unwrap();
        (0..200).step_by(2).for_each(|n| session.put(&key(n), b"stays").unwrap());
        race(
            || {
                let mut session = store.session().unwrap();
                for round in 0..200 {
                    for n in (1..200).step_by(2) {
                        match round % 2 {
                            0 => session.put(&key(n), b"comes").unwrap(),
                            _ => assert_eq!(session.remove(&key(n)).unwrap(), Removed::Existed),
                        }
                    }
                }
            },
            || {
                for reverse in [false, true] {
                    let mut session = store.session().unwrap();
                    let (mut keys, mut staying) = (Vec::new(), 0);
                    let mut row = |key: &[u8], value: &[u8]| {
                        keys.push(key.to_vec());
                        staying += u32::from(value == b"stays");
                        ControlFlow::Continue(())
                    };
                    if reverse {
                        session.scan_rev(b"", None, &mut row).unwrap();
                        keys.reverse();
                    } else {
                        session.scan(b"", None, &mut row).unwrap();
                    }
                    assert_eq!(staying, 100, "{}, reverse {reverse}", engine.name);
                    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{}", engine.name);
                }
            },
        );
    }
}

#[test]
fn congee_refuses_keys_of_other_lengths_and_writes_nothing() {
    let store = opened(&CONGEE);
    let mut session = store.session().unwrap();
    for key in [&b""[..], b"seven..", b"nine....."] {
        let mut batch = Batch::new();
        batch.put(b"eight...", b"1");
        batch.put(key, b"2");
        let refused = [
            session.get(key, &mut |_| {}).unwrap_err(),
            session.put(key, b"1").unwrap_err(),
            session.remove(key).unwrap_err(),
            session.update(key, &mut |_, _| Update::Keep).unwrap_err(),
            session.apply(&batch).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, Error::Usage { .. }), "{error:?}");
            let text = error.to_string();
            let length = format!("keys of exactly 8 bytes (got {})", key.len());
            assert!(text.contains(&length) && text.lines().count() == 1, "{text}");
        }
    }
    assert_eq!(session.scan(b"", None, &mut |_, _| ControlFlow::Continue(())).unwrap(), 0);
    assert_eq!(CONGEE.fixed_key_bytes(), Some(8));
    let mut options = OpenOptions::in_memory(Arc::new(RealFs));
    options.options = vec![("key_bytes".to_owned(), "16".to_owned())];
    let error = (CONGEE.open)(&options).err().unwrap().to_string();
    assert!(error.contains("key_bytes: 16 is not 8"), "{error}");
}

/// A key of eight bytes that shares beginnings with many others and meets both ends of the order.
fn key(rng: &mut Rng) -> Vec<u8> {
    const BYTES: [u8; 5] = [0, 1, 0x7f, 0x80, 0xff];
    let mut key: Vec<u8> =
        vec![BYTES[rng.below(5) as usize]; if rng.below(2) == 0 { 8 } else { 6 }];
    while key.len() < 8 {
        // A byte of any value makes wide nodes.
        key.push(if rng.below(2) == 0 {
            rng.below(256) as u8
        } else {
            BYTES[rng.below(5) as usize]
        });
    }
    key
}

/// A bound of any length.
fn bound(rng: &mut Rng) -> Vec<u8> {
    let mut bound = key(rng);
    match rng.below(4) {
        0 => bound.truncate(rng.below(8) as usize),
        1 => bound.push(rng.below(2) as u8),
        _ => {}
    }
    bound
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The rows of one scan, of at most `stop`.
fn rows(
    session: &mut dyn Session,
    range: (&[u8], Option<&[u8]>),
    reverse: bool,
    stop: usize,
) -> Rows {
    let mut rows = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        if rows.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let visited = match reverse {
        false => session.scan(range.0, range.1, &mut visit),
        true => session.scan_rev(range.0, range.1, &mut visit),
    };
    assert_eq!(visited.unwrap(), rows.len() as u64);
    rows
}

/// One random operation on a store and the model, which must answer alike.
fn step(rng: &mut Rng, name: &str, both: [&mut dyn Session; 2]) {
    let key = key(rng);
    let value = vec![rng.below(256) as u8; rng.below(40) as usize];
    match rng.below(10) {
        0..4 => both.into_iter().for_each(|s| s.put(&key, &value).unwrap()),
        4 => {
            let [one, other] = both.map(|session| session.remove(&key).unwrap());
            assert_eq!(one, other, "{name}: {key:?}");
        }
        5 => {
            let [one, other] = both.map(|session| {
                let mut found = None;
                session.get(&key, &mut |value| found = Some(value.to_vec())).unwrap();
                found
            });
            assert_eq!(one, other, "{name}: {key:?}");
        }
        6 => {
            let choice = rng.below(3);
            let [one, other] = both.map(|session| {
                let mut saw = None;
                let update = session.update(&key, &mut |current, new| {
                    saw = current.map(<[u8]>::to_vec);
                    new.extend_from_slice(&value);
                    [Update::Keep, Update::Put, Update::Remove][choice as usize]
                });
                update.unwrap();
                saw
            });
            assert_eq!(one, other, "{name}: {key:?}");
        }
        7 => {
            let mut batch = Batch::new();
            for _ in 0..rng.below(6) {
                match rng.below(2) {
                    0 => batch.remove(&self::key(rng)),
                    _ => batch.put(&self::key(rng), &value),
                }
            }
            both.into_iter().for_each(|session| session.apply(&batch).unwrap());
        }
        _ => {
            let (low, high) = (bound(rng), bound(rng));
            let low = if rng.below(4) == 0 { &[][..] } else { &low };
            let high = (rng.below(4) > 0).then_some(high.as_slice());
            let reverse = rng.below(2) == 0;
            let stop = if rng.below(2) == 0 { usize::MAX } else { 1 + rng.below(80) as usize };
            let [one, other] = both.map(|session| rows(session, (low, high), reverse, stop));
            assert!(
                one == other,
                "{name}: {low:?} .. {high:?}, reverse {reverse}: {} rows, expected {}",
                one.len(),
                other.len()
            );
        }
    }
}

#[test]
fn all_answer_as_the_model_on_keys_of_eight_bytes() {
    for engine in [ARCTIC, SCC, CONGEE] {
        for seed in SEED..SEED + 4 {
            let (store, model) = (opened(&engine), ModelStore::new());
            let (mut tested, mut model) = (store.session().unwrap(), model.session().unwrap());
            let mut rng = Rng::from_seed(seed);
            for _ in 0..5000 {
                step(&mut rng, engine.name, [tested.as_mut(), model.as_mut()]);
            }
        }
    }
}

/// What leaves the store and what is left at its end is freed; a sanitizer or a count of
/// allocations would see the difference, and a use after it is a crash here.
#[test]
fn readers_hold_values_while_writers_replace_and_remove_them() {
    for engine in [ARCTIC, SCC, CONGEE] {
        let store = opened(&engine);
        let long = [0x55u8; 64];
        race(
            || {
                let mut session = store.session().unwrap();
                for round in 0..20_000u64 {
                    session.put(&(round % 4).to_be_bytes(), &long).unwrap();
                    session.remove(&((round + 2) % 4).to_be_bytes()).unwrap();
                }
            },
            || {
                let mut session = store.session().unwrap();
                for n in 0..4u64 {
                    session.get(&n.to_be_bytes(), &mut |value| assert_eq!(value, long)).unwrap();
                }
                let mut row = |_: &[u8], value: &[u8]| {
                    assert_eq!(value, long);
                    ControlFlow::Continue(())
                };
                session.scan(b"", None, &mut row).unwrap();
            },
        );
    }
}
