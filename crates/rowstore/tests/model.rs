//! Random changes to rows of all kinds, beside the model, over every way of holding rows.

use crate::support::{Held, close, content, open, tiny, with_logs};
use keyrack_rowstore::{
    Eviction, Kind, ModelRows, Options, Row, RowBuf, RowSession, RowStore, Rows, StoreRows,
};
use keyrack_store::ModelStore;
use keyrack_store::Update;
use keyrack_testkit::random::{Announced, Draw, factor, is_brief, seeds};
use keyrack_vfs::MemFs;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// The largest version that each key has ever had.
type Versions = BTreeMap<Vec<u8>, u64>;

pub(crate) fn key(draw: &mut Draw) -> Vec<u8> {
    match draw.below(20) {
        0 => Vec::new(),
        1 => vec![0; draw.below(12)],
        2 => [&b"a common prefix of some length/"[..], &[draw.below(8) as u8]].concat(),
        _ => format!("k{:03}", draw.below(120)).into_bytes(),
    }
}

fn value(draw: &mut Draw) -> Vec<u8> {
    let len = [0, 1, 7, 8, 30, 200, 3000][draw.below(7)];
    vec![b'0' + draw.below(60) as u8; len]
}

/// What an update makes of a row, by a draw that both stores get.
fn transform(row: Option<Row<'_>>, new: &mut RowBuf, what: u64, value: &[u8]) -> Update {
    let mut draw = Draw::new(what);
    match (draw.below(8), row) {
        (0, _) => return Update::Keep,
        (1, _) => return Update::Remove,
        (2, Some(row)) if row.kind() == Kind::Value => {
            new.value_mut().extend_from_slice(row.value());
            new.value_mut().extend_from_slice(value);
            new.keep_attributes(&row);
        }
        (3, Some(row)) => {
            new.columns();
            for index in 0..row.columns().min(5) {
                new.push(row.column(index).unwrap());
            }
            new.push(value);
            new.keep_attributes(&row);
        }
        (4, _) => {
            new.fields();
            for n in 0..draw.below(5) {
                new.push_field(&[b'a' + n as u8], value);
            }
        }
        _ => {
            new.set_value(value);
            new.set_flags(draw.below(3) as u32);
            new.set_expires_ms([0, 0, 500, 1500, 2500][draw.below(5)]);
        }
    }
    Update::Put
}

fn range(
    session: &mut dyn RowSession,
    low: &[u8],
    high: Option<&[u8]>,
    is_reverse: bool,
    max: usize,
) -> (u64, Vec<(Vec<u8>, Held)>) {
    let mut rows = Vec::new();
    let mut visit = |key: &[u8], row: Row<'_>| {
        rows.push((key.to_vec(), Held::of(row)));
        if rows.len() == max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let visited = if is_reverse {
        session.scan_rev(low, high, &mut visit).unwrap()
    } else {
        session.scan(low, high, &mut visit).unwrap()
    };
    (visited, rows)
}

fn look(session: &mut dyn RowSession, key: &[u8]) -> Option<(u64, Held)> {
    let mut seen = None;
    let found = session.get(key, &mut |row| seen = Some((row.version(), Held::of(row)))).unwrap();
    assert_eq!(found, seen.is_some());
    seen
}

/// One operation on both.
pub(crate) fn step(
    ours: &mut dyn RowSession,
    model: &mut dyn RowSession,
    versions: &mut Versions,
    draw: &mut Draw,
) {
    let key = key(draw);
    match draw.below(41) {
        0..=9 => {
            let (found, expected) = (look(ours, &key), look(model, &key));
            assert_eq!(found.as_ref().map(|it| &it.1), expected.as_ref().map(|it| &it.1));
            if let Some((version, _)) = found {
                assert_eq!(versions.get(&key), Some(&version), "{key:?}");
            }
        }
        10..=24 => {
            let (what, value) = (draw.next(), value(draw));
            let update = |session: &mut dyn RowSession| {
                session.update(&key, &mut |row, new| transform(row, new, what, &value)).unwrap()
            };
            let (version, expected) = (update(ours), update(model));
            assert_eq!(version == 0, expected == 0);
            note(versions, &key, version);
        }
        25..=29 => {
            let (value, flags) = (value(draw), draw.below(4) as u32);
            let expires_ms = [0, 0, 0, 1200][draw.below(4)];
            let version = ours.put(&key, &value, flags, expires_ms).unwrap();
            assert!(model.put(&key, &value, flags, expires_ms).unwrap() > 0 && version > 0);
            note(versions, &key, version);
        }
        30..=32 => assert_eq!(ours.remove(&key).unwrap(), model.remove(&key).unwrap()),
        33..=34 => {
            let low = if draw.below(2) == 0 { Vec::new() } else { key };
            let high = (draw.below(2) == 0).then(|| self::key(draw));
            let (is_reverse, max) = (draw.below(2) == 0, 1 + draw.below(40));
            assert_eq!(
                range(ours, &low, high.as_deref(), is_reverse, max),
                range(model, &low, high.as_deref(), is_reverse, max)
            );
        }
        35..=36 => {
            let keys: Vec<Vec<u8>> = (0..draw.below(30)).map(|_| self::key(draw)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let all = |session: &mut dyn RowSession| {
                let mut rows = vec![None; keys.len()];
                let mut visits = 0;
                let mut visit = |index: usize, row: Option<Row<'_>>| {
                    rows[index] = row.map(Held::of);
                    visits += 1;
                };
                session.multi_get(&keys, &mut visit).unwrap();
                assert_eq!(visits, keys.len());
                rows
            };
            assert_eq!(all(ours), all(model));
        }
        37 => {
            let now_ms = draw.below(3000) as u64;
            ours.at(now_ms);
            model.at(now_ms);
        }
        38 => {
            ours.flush().unwrap();
            if draw.below(4) == 0 {
                ours.begin_group().unwrap();
            }
        }
        39 => {
            // What is announced is used at once, later, or not at all. A group ends before, or it
            // would outgrow its limit.
            ours.flush().unwrap();
            let keys: Vec<Vec<u8>> = (0..draw.below(6)).map(|_| self::key(draw)).collect();
            ours.prefetch(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for key in keys.iter().take(draw.below(6)) {
                let value = vec![b'e'; draw.below(40)];
                let version = ours.put(key, &value, 0, 0).unwrap();
                model.put(key, &value, 0, 0).unwrap();
                note(versions, key, version);
            }
        }
        _ if draw.below(20) == 0 => {
            ours.clear().unwrap();
            model.clear().unwrap();
        }
        _ => {}
    }
}

fn note(versions: &mut Versions, key: &[u8], version: u64) {
    if version > 0 {
        let last = versions.insert(key.to_vec(), version).unwrap_or(0);
        assert!(last < version, "{key:?}: version {version} after {last}");
    }
}

fn compare(rows: &dyn Rows, model: &ModelRows, versions: &mut Versions, draw: &mut Draw) {
    compare_for(3000 * factor(), rows, model, versions, draw);
}

fn compare_for(
    steps: usize,
    rows: &dyn Rows,
    model: &ModelRows,
    versions: &mut Versions,
    draw: &mut Draw,
) {
    let mut ours = rows.session().unwrap();
    let mut beside = model.session().unwrap();
    for _ in 0..steps {
        step(&mut *ours, &mut *beside, versions, draw);
    }
    ours.flush().unwrap();
    drop(ours);
    assert_eq!(rows.len(), model.len());
    assert!(content(rows) == content(model));
}

#[test]
fn rows_in_memory_are_those_of_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let limited = Options { memory_max: 1 << 40, eviction: Eviction::Clock, ..tiny() };
        for options in [tiny(), limited] {
            let rows = RowStore::in_memory(options).unwrap();
            compare(&rows, &ModelRows::new(), &mut Versions::new(), &mut draw);
        }
    }
}

#[test]
fn rows_of_any_store_are_those_of_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        // The time of the steps goes back and forth, so a sweeper would remove rows too early.
        let store = Box::new(ModelStore::new());
        let rows = StoreRows::with_sweep_interval(store, Duration::ZERO).unwrap();
        compare(&rows, &ModelRows::new(), &mut Versions::new(), &mut draw);
    }
}

#[test]
fn rows_on_disk_are_those_of_the_model_over_restarts_checkpoints_and_other_numbers_of_logs() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (disk, model, mut versions) = (MemFs::new(), ModelRows::new(), Versions::new());
        for life in 0..6 {
            let options = Options {
                threads: 1 + draw.below(4),
                checkpoint_log_bytes: [0, 20_000][draw.below(2)],
                checkpoint_on_close: draw.below(3) == 0,
                ..with_logs(1 + draw.below(3))
            };
            let store = open(&disk, options);
            assert!(content(&store) == content(&model), "life {life}");
            compare(&store, &model, &mut versions, &mut draw);
            if draw.below(2) == 0 {
                assert!(store.checkpoint().unwrap());
                compare(&store, &model, &mut versions, &mut draw);
            }
            if draw.below(2) == 0 {
                close(store);
            }
        }
    }
}

/// A million operations, in stores that are opened again after each 4,000.
#[test]
fn a_million_answers_over_64_seeds_are_those_of_the_model() {
    const SEEDS: u64 = 64;
    const STEPS: usize = 4_000;
    let (first, count, lives) = if is_brief() {
        (seeds()[0], 1, 1)
    } else {
        (1, SEEDS, 1_000_000 / STEPS / SEEDS as usize + 1)
    };
    for seed in (first..).take(count as usize) {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (disk, model, mut versions) = (MemFs::new(), ModelRows::new(), Versions::new());
        for _ in 0..lives {
            let options = Options {
                threads: 1 + draw.below(4),
                checkpoint_log_bytes: [0, 200_000][draw.below(2)],
                // So that no group outgrows its limit.
                segment_bytes: 1 << 20,
                group_bytes_max: 900 << 10,
                ..with_logs(1 + draw.below(3))
            };
            let store = open(&disk, options);
            compare_for(STEPS, &store, &model, &mut versions, &mut draw);
            if draw.below(2) == 0 {
                close(store);
            }
        }
    }
}

#[test]
fn a_version_read_back_after_a_restart_is_the_one_that_was_given() {
    let disk = MemFs::new();
    let mut versions = Vec::new();
    for life in 0..4_u64 {
        let store = open(&disk, tiny());
        let mut session = store.session().unwrap();
        for (n, version) in versions.iter().enumerate() {
            assert_eq!(look(&mut *session, &[n as u8]).unwrap().0, *version, "life {life}");
        }
        // Removed rows leave their versions behind, over a checkpoint and a restart.
        let before = session.put(b"removed", b"", 0, 0).unwrap();
        assert!(versions.iter().all(|version| *version < before));
        session.remove(b"removed").unwrap();
        versions.push(session.put(&[life as u8], b"x", 0, 0).unwrap());
        session.flush().unwrap();
        drop(session);
        if life % 2 == 0 {
            store.checkpoint().unwrap();
        }
        close(store);
    }
}
