//! Many keys at once, beside the same keys one by one.

use crate::disk::{flip, tables};
use crate::support::{Model, backwards, idle, open, stat, try_open};
use keyrack_flodb::{Comparator, Compression, Db, Error, Options};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::MemFs;

const KEYS: usize = 600;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

/// What a call gives, in the order in which it gives it.
fn many(db: &Db, keys: &[Vec<u8>]) -> (Vec<(usize, Option<Vec<u8>>)>, Result<(), Error>) {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut given = Vec::new();
    let ended = db.multi_get(&keys, |at, value| given.push((at, value.map(<[u8]>::to_vec))));
    (given, ended)
}

/// Keys in memtables, in several tables of level 0 and in the levels below, some of them deleted.
fn fill(db: &Db, draw: &mut Draw) -> Model {
    let mut model = Model::new();
    for round in 0..6 {
        for _ in 0..150 {
            let key = key(draw.below(KEYS));
            if draw.below(6) == 0 {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = vec![round; draw.below(200)];
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        match round {
            0 | 1 => db.compact_range(None, None).unwrap(),
            2..5 => db.flush().unwrap(),
            _ => {}
        }
    }
    model
}

fn random_options(draw: &mut Draw) -> Options {
    Options {
        comparator: [Comparator::Bytewise, backwards()][draw.below(2)].clone(),
        hash_level: draw.below(4) > 0,
        block_bytes: *draw.one_of(&[100, 1_000, 4_096]),
        cache_bytes: *draw.one_of(&[0, 20_000, 1 << 20]),
        compression: vec![*draw.one_of(&[Compression::None, Compression::Lz4])],
        filter_bits_per_key: *draw.one_of(&[0, 3, 10]),
        level0_tables: 10,
        ..idle()
    }
}

#[test]
fn many_keys_at_once_have_the_values_of_each() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..12 {
            let options = random_options(&mut draw);
            let is_ascending = options.comparator.name() == Comparator::Bytewise.name();
            let db = open(&MemFs::new(), options);
            let mut model = fill(&db, &mut draw);
            if is_ascending && draw.below(3) == 0 {
                db.delete_range(&key(100), &key(150)).unwrap();
                model.retain(|it, _| !(key(100)..key(150)).contains(it));
                if draw.below(2) == 0 {
                    db.flush().unwrap();
                }
            }
            for _ in 0..40 {
                let count = *draw.one_of(&[0, 1, 2, 15, 16, 17, 32, 50]);
                let keys: Vec<Vec<u8>> = (0..count)
                    .map(|_| match draw.below(4) {
                        0 => [key(draw.below(KEYS)), vec![b'.']].concat(),
                        _ => key(draw.below(KEYS)),
                    })
                    .collect();
                let (given, ended) = many(&db, &keys);
                ended.unwrap();
                assert_eq!(given.len(), keys.len());
                for ((expected_at, key), (at, value)) in keys.iter().enumerate().zip(given) {
                    assert_eq!((at, value.as_ref()), (expected_at, model.get(key)));
                }
            }
        }
    }
}

#[test]
fn values_before_a_failure_are_given() {
    let fs = MemFs::new();
    let options = || Options { compression: vec![Compression::None], ..idle() };
    let db = open(&fs, options());
    (0..KEYS).for_each(|n| db.put(&key(n), &[7; 100]).unwrap());
    db.flush().unwrap();
    drop(db);
    // The first block has the first keys.
    flip(&fs, &tables(&fs)[0], 40);
    let db = open(&fs, options());
    db.put(&key(1), b"in memory").unwrap();
    let wanted = [500, 1, 599, 300, 2, 400].map(key);
    let (given, ended) = many(&db, &wanted);
    let value = Some(vec![7; 100]);
    let expected =
        [(0, value.clone()), (1, Some(b"in memory".to_vec())), (2, value.clone()), (3, value)];
    assert_eq!(given, expected);
    assert!(matches!(ended, Err(Error::Corruption { offset: 0, .. })), "{ended:?}");
}

#[test]
fn reads_are_counted_as_they_are_one_by_one() {
    let options = Options { counts_reads: true, ..idle() };
    let db = try_open(&MemFs::new(), options).unwrap();
    (0..20).for_each(|n| db.put(&key(n), b"value").unwrap());
    db.flush().unwrap();
    (10..15).for_each(|n| db.put(&key(n), b"newer").unwrap());
    let keys: Vec<Vec<u8>> = (0..30).map(key).collect();
    many(&db, &keys).1.unwrap();
    let counted = ["reads_hash", "reads_tables", "reads_nowhere"].map(|name| stat(&db, name));
    assert_eq!(counted, [5, 15, 10]);
}
