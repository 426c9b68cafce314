//! Power loss: of a writer's writes a beginning survives, with everything that was synced.

use keyrack_flodb::{Batch, Db, Durability, Options, WriteOptions};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DIR: &str = "/store";

fn options() -> Options {
    Options {
        durability: Durability::Os,
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 64 << 10,
        cache_bytes: 0,
        ..Options::default()
    }
}

fn open(fs: &MemFs) -> Db {
    Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options()).unwrap()
}

fn rows(db: &Db) -> Model {
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    let mut rows = Model::new();
    while let Some((key, value)) = iter.entry() {
        rows.insert(key.to_vec(), value.to_vec());
        iter.next().unwrap();
    }
    rows
}

/// One write of one writer; returns whether it was synced.
fn write(db: &Db, model: &mut Model, draw: &mut Draw, round: usize) -> bool {
    let options = WriteOptions { sync: draw.below(6) == 0 };
    let mut batch = Batch::new();
    for _ in 0..=draw.below(4) {
        let key = format!("key{:04}", draw.below(300)).into_bytes();
        let what = draw.below(32);
        if what == 0 {
            let to = format!("key{:04}", draw.below(300)).into_bytes();
            batch.delete_range(&key, &to);
            model.retain(|other, _| !(key <= *other && *other < to));
        } else if what < 8 {
            batch.delete(&key);
            model.remove(&key);
        } else {
            let value = format!("{round} {}", "v".repeat(draw.below(400))).into_bytes();
            batch.put(&key, &value);
            model.insert(key, value);
        }
    }
    db.write(&batch, options).unwrap();
    options.sync
}

#[test]
fn a_beginning_with_all_that_was_synced_survives_a_power_loss() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..4 * factor() {
            let disk = MemFs::new();
            let db = open(&disk);
            // The state after each write so far, from the last synced one on.
            let mut states = vec![Model::new()];
            let mut model = Model::new();
            let mut images = Vec::new();
            for round in 0..400 {
                let synced = write(&db, &mut model, &mut draw, round);
                if synced {
                    states.clear();
                }
                states.push(model.clone());
                if draw.below(30) == 0 {
                    db.flush().unwrap();
                }
                if draw.below(25) == 0 {
                    for policy in [
                        CrashPolicy::DropAll,
                        CrashPolicy::KeepAll,
                        CrashPolicy::Ordered,
                        CrashPolicy::Reordered,
                    ] {
                        let image = disk.crash_image(draw.next(), policy);
                        images.push((policy, round, image, states.clone()));
                    }
                }
            }
            drop(db);
            for (policy, round, image, states) in images {
                let survived = open(&image);
                let found = rows(&survived);
                if !states.contains(&found) {
                    let differ = |state: &Model| {
                        let keys = state.keys().chain(found.keys());
                        keys.filter(|key| state.get(*key) != found.get(*key)).count()
                    };
                    let counts: Vec<_> = states.iter().map(differ).collect();
                    panic!("{policy:?}, write {round}: keys that differ from states: {counts:?}");
                }
                // It goes on, and a second loss does not bring anything back.
                survived.put(b"after", b"the loss").unwrap();
                survived.flush().unwrap();
                drop(survived);
                let twice = image.crash_image(draw.next(), CrashPolicy::Ordered);
                let mut expected = found;
                expected.insert(b"after".to_vec(), b"the loss".to_vec());
                assert_eq!(rows(&open(&twice)), expected);
            }
        }
    }
}
