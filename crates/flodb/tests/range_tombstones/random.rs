//! Random writes on tables of a few entries, beside a model, with the moments that snapshots hold.

use super::{Model, compare, open, rows_of, stats, tables, tiny};
use keyrack_flodb::{Batch, Change, Iter, Options, Snapshot, WriteOptions};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, MemFs};

const KEYS: usize = 120;

fn key(n: usize) -> Vec<u8> {
    // Some keys are beginnings of others.
    let digits = format!("{:02}", n / 3);
    [digits.as_bytes(), &b"xy"[..n % 3]].concat()
}

/// Random writes, mostly of ranges, on tables of a few entries; snapshots, walks that turn, and
/// crashes.
#[test]
fn nothing_removed_comes_back() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..6 * factor() {
            one_life(&mut draw);
        }
    }
}

fn one_life(draw: &mut Draw) {
    let options = |draw: &mut Draw| Options {
        table_bytes: [1, 150, 300, 2000][draw.below(4)],
        filter_bits_per_key: [0, 10][draw.below(2)],
        hash_level: draw.below(4) > 0,
        compaction_threads: draw.below(3),
        level_base_bytes: [300, 1000, 5000][draw.below(3)],
        ..tiny()
    };
    let mut fs = MemFs::new();
    let mut db = open(&fs, options(draw));
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    // Mostly few writes from one flush to the next.
    let flush_of = 4 + draw.below(40);
    let ranges_of_ten = 1 + draw.below(4);
    for round in 0..600 {
        if draw.below(flush_of) == 0 {
            db.flush().unwrap();
        }
        match draw.below(100) {
            0..60 if draw.below(10) < ranges_of_ten => {
                let from = draw.below(KEYS);
                let to = match draw.below(6) {
                    0 => draw.below(KEYS),
                    _ => from + draw.below(12),
                };
                let (from, to) = (key(from), key(to.min(KEYS)));
                db.delete_range(&from, &to).unwrap();
                model.retain(|key, _| !(from <= *key && *key < to));
            }
            0..60 => {
                let key = key(draw.below(KEYS));
                if draw.below(5) == 0 {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = format!("{round} {}", "v".repeat(draw.below(40))).into_bytes();
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            60..65 => {
                let mut batch = Batch::new();
                for _ in 0..draw.below(6) {
                    let (one, other) = (key(draw.below(KEYS)), key(draw.below(KEYS)));
                    if draw.below(3) == 0 {
                        batch.delete_range(&one, &other);
                        model.retain(|key, _| !(one <= *key && *key < other));
                    } else {
                        batch.put(&one, &other);
                        model.insert(one, other);
                    }
                }
                db.write(&batch, WriteOptions::default()).unwrap();
            }
            65..68 => {
                let key = key(draw.below(KEYS));
                db.update(&key, WriteOptions::default(), |old| {
                    assert_eq!(old, model.get(&key).map(Vec::as_slice));
                    Change::Put(b"updated".to_vec())
                })
                .unwrap();
                model.insert(key, b"updated".to_vec());
            }
            68..75 if snapshots.len() < 4 => snapshots.push((db.snapshot(), model.clone())),
            75..80 if !snapshots.is_empty() => {
                let (moment, then) = snapshots.swap_remove(draw.below(snapshots.len()));
                compare(&db, Some(&moment), &then, (0..KEYS).map(key));
            }
            80..84 => compare(&db, None, &model, (0..KEYS).map(key)),
            84..90 => {
                let (moment, then) = match snapshots.get(draw.below(8)) {
                    Some((moment, then)) => (Some(moment), then),
                    None => (None, &model),
                };
                let iter = moment.map_or_else(|| db.iter(), |moment| db.iter_at(moment));
                turns(iter.unwrap(), then, draw);
            }
            90..94 => {
                let (low, high) = (key(draw.below(KEYS)), key(draw.below(KEYS)));
                db.compact_range(Some(&low), Some(&high)).unwrap();
            }
            94 => db.compact_range(None, None).unwrap(),
            95 if draw.below(3) == 0 => {
                snapshots.clear();
                if draw.below(2) == 0 {
                    // The end of the process: what the page cache has is all there.
                    let after = fs.crash_image(draw.next(), CrashPolicy::KeepAll);
                    drop(db);
                    fs = after;
                } else {
                    db.close().unwrap();
                }
                db = open(&fs, options(draw));
                compare(&db, None, &model, (0..KEYS).map(key));
            }
            _ => {}
        }
    }
    for (moment, then) in &snapshots {
        compare(&db, Some(moment), then, (0..KEYS).map(key));
    }
    drop(snapshots);
    compare(&db, None, &model, (0..KEYS).map(key));
    // Removals go with what they hide: with nothing left, there is nothing on disk. Alone, since a
    // background that empties a level meanwhile leaves a removal above it for later.
    db.close().unwrap();
    let db = open(&fs, tiny());
    db.delete_range(b"", b"zz").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!((rows_of(db.iter().unwrap()), tables(&db)), (Vec::new(), 0), "{:?}", stats(&db));
}

/// Random moves of a walk beside the model.
fn turns(mut iter: Iter, model: &Model, draw: &mut Draw) {
    let mut place: Option<Vec<u8>> = None;
    for _ in 0..30 {
        let target = key(draw.below(KEYS));
        match (draw.below(6), place.take()) {
            (0, _) => {
                iter.seek(&target).unwrap();
                place = model.range(target..).next().map(|row| row.0.clone());
            }
            (1, _) => {
                iter.seek_back(&target).unwrap();
                place = model.range(..=target).next_back().map(|row| row.0.clone());
            }
            (2 | 3, Some(at)) => {
                iter.next().unwrap();
                place = model.range(at..).nth(1).map(|row| row.0.clone());
            }
            (_, Some(at)) => {
                iter.prev().unwrap();
                place = model.range(..at).next_back().map(|row| row.0.clone());
            }
            (_, None) => {}
        }
        let expected = place.as_ref().map(|key| (&key[..], &model[key][..]));
        assert_eq!(iter.entry(), expected);
    }
}
