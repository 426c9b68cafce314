//! Random operations on a store, beside a model that keeps every version: gets, snapshots, walks
//! with turns, batches, updates, removed ranges, flushes, compactions and reopenings.

use keyrack_flodb::WriteOptions;
use keyrack_flodb::{Batch, Change, Compression, Db, Durability, Iter, Options, Snapshot};
use keyrack_testkit::random::{Announced, Draw, factor, is_brief, seeds};
use keyrack_vfs::{Fs, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/store";
/// Of a hundred kinds of operations those below this are quick.
const QUICK: usize = 86;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn small(draw: &mut Draw) -> Options {
    Options {
        durability: [Durability::Os, Durability::None, Durability::Sync][draw.below(3)],
        memtable_bytes: 64 << 10,
        unordered_max: [1, 16, 1000][draw.below(3)],
        hash_level: draw.below(4) > 0,
        segment_bytes: 256 << 10,
        block_bytes: [64, 500, 4096][draw.below(3)],
        restart_interval: [1, 4, 16][draw.below(3)],
        compression: vec![[Compression::None, Compression::Lz4][draw.below(2)]],
        filter_bits_per_key: [0, 10][draw.below(2)],
        cache_bytes: [0, 1 << 20][draw.below(2)],
        table_bytes: 32 << 10,
        level0_tables: 2,
        level_base_bytes: 128 << 10,
        ..Options::default()
    }
}

fn key(draw: &mut Draw) -> Vec<u8> {
    let n = draw.below(800);
    match draw.below(6) {
        0 => Vec::new(),
        1 => vec![n as u8],
        2 => [&[b'p'; 200][..], n.to_string().as_bytes()].concat(),
        _ => format!("key{n:05}").into_bytes(),
    }
}

/// Removes a range of any width, most of them narrow.
fn range(draw: &mut Draw) -> (Vec<u8>, Vec<u8>) {
    let from = draw.below(800);
    match draw.below(8) {
        // Any two keys, in this order or the other, or twice the same.
        0 => (key(draw), key(draw)),
        1 => (format!("key{from:05}").into_bytes(), b"l".to_vec()),
        2 => (Vec::new(), format!("key{from:05}").into_bytes()),
        3 => (vec![from as u8], vec![from as u8, 0]),
        _ => {
            let to = from + [1, 5, 50][draw.below(3)];
            (format!("key{from:05}").into_bytes(), format!("key{to:05}").into_bytes())
        }
    }
}

fn remove_range(model: &mut Model, (from, to): &(Vec<u8>, Vec<u8>)) {
    model.retain(|key, _| !(from <= key && key < to));
}

fn value(draw: &mut Draw, round: usize) -> Vec<u8> {
    let len = [0, 8, 100, 100, 3000][draw.below(5)];
    let mut value = format!("{round}").into_bytes();
    value.resize(len.max(value.len()), b'v');
    value
}

fn entry(iter: &Iter) -> Option<(Vec<u8>, Vec<u8>)> {
    iter.entry().map(|(key, value)| (key.to_vec(), value.to_vec()))
}

fn own<'a>(row: Option<(&'a Vec<u8>, &'a Vec<u8>)>) -> Option<(Vec<u8>, Vec<u8>)> {
    row.map(|(key, value)| (key.clone(), value.clone()))
}

/// A random walk of `iter` beside the model.
fn compare_walk(iter: &mut Iter, model: &Model, draw: &mut Draw) {
    let mut place = None;
    for _ in 0..40 {
        match (draw.below(8), place.clone()) {
            (0, _) => {
                iter.seek_first().unwrap();
                place = own(model.first_key_value());
            }
            (1, _) => {
                iter.seek_last().unwrap();
                place = own(model.last_key_value());
            }
            (2, _) => {
                let target = key(draw);
                iter.seek(&target).unwrap();
                place = own(model.range(target..).next());
            }
            (3, _) => {
                let target = key(draw);
                iter.seek_back(&target).unwrap();
                place = own(model.range(..=target).next_back());
            }
            (4 | 5, Some((at, _))) => {
                iter.next().unwrap();
                let behind = (std::ops::Bound::Excluded(at), std::ops::Bound::Unbounded);
                place = own(model.range(behind).next());
            }
            (_, Some((at, _))) => {
                iter.prev().unwrap();
                place = own(model.range(..at).next_back());
            }
            (_, None) => {}
        }
        assert_eq!(entry(iter), place);
    }
}

fn compare_all(db: &Db, model: &Model) {
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    let mut rows = Vec::new();
    while let Some(row) = entry(&iter) {
        rows.push(row);
        iter.next().unwrap();
    }
    assert_eq!(rows, model.clone().into_iter().collect::<Vec<_>>());
}

/// How often what takes long is done: walks, snapshots, flushes, compactions, reopenings.
#[derive(Clone, Copy)]
enum Pace {
    Often,
    /// One time in so many.
    Rarely(usize),
}

/// A store and what it should hold.
struct Pair {
    fs: Arc<dyn Fs>,
    /// There between any two steps.
    db: Option<Db>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl Pair {
    fn new(draw: &mut Draw) -> Pair {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = Db::open_in(Arc::clone(&fs), Path::new(DIR), small(draw)).unwrap();
        Pair { fs, db: Some(db), model: Model::new(), snapshots: Vec::new() }
    }

    fn step(&mut self, draw: &mut Draw, round: usize, pace: Pace) {
        let Pair { fs, db: held, model, snapshots } = self;
        let db = held.as_ref().unwrap();
        let mut what = draw.below(100);
        if let Pace::Rarely(times) = pace
            && what >= QUICK
            && draw.below(times) > 0
        {
            what %= QUICK;
        }
        match what {
            0..40 => {
                let (key, value) = (key(draw), value(draw, round));
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            40..52 => {
                let key = key(draw);
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            52..55 => {
                let range = range(draw);
                db.delete_range(&range.0, &range.1).unwrap();
                remove_range(model, &range);
            }
            55..62 => {
                let mut batch = Batch::new();
                for _ in 0..draw.below(30) {
                    let (key, value) = (key(draw), value(draw, round));
                    match draw.below(30) {
                        0..10 => {
                            batch.delete(&key);
                            model.remove(&key);
                        }
                        10 => {
                            let range = range(draw);
                            batch.delete_range(&range.0, &range.1);
                            remove_range(model, &range);
                        }
                        _ => {
                            batch.put(&key, &value);
                            model.insert(key, value);
                        }
                    }
                }
                db.write(&batch, WriteOptions::default()).unwrap();
            }
            62..66 => {
                let (key, suffix) = (key(draw), round.to_string());
                db.update(&key, WriteOptions::default(), |old| {
                    assert_eq!(old, model.get(&key).map(Vec::as_slice));
                    Change::Put([old.unwrap_or(b""), suffix.as_bytes()].concat())
                })
                .unwrap();
                model.entry(key).or_default().extend_from_slice(suffix.as_bytes());
            }
            66..QUICK => {
                let key = key(draw);
                assert_eq!(db.get(&key).unwrap(), model.get(&key).cloned(), "{key:?}");
            }
            QUICK..90 => compare_walk(&mut db.iter().unwrap(), model, draw),
            90..93 if snapshots.len() < 4 => snapshots.push((db.snapshot(), model.clone())),
            90..96 if !snapshots.is_empty() => {
                let (snapshot, then) = &snapshots[draw.below(snapshots.len())];
                let key = key(draw);
                let found = db.get_at(snapshot, &key, <[u8]>::to_vec).unwrap();
                assert_eq!(found, then.get(&key).cloned(), "{key:?}");
                compare_walk(&mut db.iter_at(snapshot).unwrap(), then, draw);
                if draw.below(3) == 0 {
                    let at = draw.below(snapshots.len());
                    snapshots.swap_remove(at);
                }
            }
            96 => db.flush().unwrap(),
            97 => db.compact_range(None, None).unwrap(),
            98 => {
                let (low, high) = (key(draw), key(draw));
                db.compact_range(Some(&low), Some(&high)).unwrap();
            }
            99 if draw.below(4) == 0 => {
                snapshots.clear();
                held.take().unwrap().close().unwrap();
                let db = Db::open_in(Arc::clone(fs), Path::new(DIR), small(draw)).unwrap();
                compare_all(&db, model);
                *held = Some(db);
            }
            _ => {}
        }
    }
}

#[test]
fn every_answer_is_the_models() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut pair = Pair::new(&mut draw);
        for round in 0..2500 * factor() {
            pair.step(&mut draw, round, Pace::Often);
        }
        compare_all(pair.db.as_ref().unwrap(), &pair.model);
    }
}

/// A million operations. What takes long is rare, so that the store lives long between.
#[test]
fn a_million_answers_over_64_seeds_are_the_models() {
    const SEEDS: u64 = 64;
    let (first, rounds) =
        if is_brief() { (seeds()[0], 500) } else { (1, 1_000_000 / SEEDS as usize) };
    for seed in (first..).take(if is_brief() { 2 } else { SEEDS as usize }) {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut pair = Pair::new(&mut draw);
        for round in 0..rounds {
            pair.step(&mut draw, round, Pace::Rarely(100));
        }
        compare_all(pair.db.as_ref().unwrap(), &pair.model);
    }
}
