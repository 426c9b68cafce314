//! Random writes on tables of a few entries, beside a model, with the moments that snapshots hold.

use super::{compare, rows_of, tiny};
use crate::model::{Pair, Script};
use crate::support::{of_levels, open};
use keyrack_flodb::Options;
use keyrack_testkit::random::{Announced, Draw, factor, seeds};

const KEYS: usize = 120;

fn key(n: usize) -> Vec<u8> {
    // Some keys are beginnings of others.
    let digits = format!("{:02}", n / 3);
    [digits.as_bytes(), &b"xy"[..n % 3]].concat()
}

fn range(draw: &mut Draw) -> (Vec<u8>, Vec<u8>) {
    let from = draw.below(KEYS);
    let to = if draw.below(6) == 0 { draw.below(KEYS) } else { from + draw.below(12) };
    (key(from), key(to.min(KEYS)))
}

fn options(draw: &mut Draw) -> Options {
    Options {
        table_bytes: [1, 150, 300, 2000][draw.below(4)],
        filter_bits_per_key: [0, 10][draw.below(2)],
        prefix_extractor: crate::model::extractor(draw),
        hash_level: draw.below(4) > 0,
        compaction_threads: draw.below(3),
        level_base_bytes: [300, 1000, 5000][draw.below(3)],
        ..tiny()
    }
}

/// Random writes, many of them of ranges, on tables of a few entries.
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
    let ranges = 10 * (1 + draw.below(4));
    let any_key = |draw: &mut Draw| key(draw.below(KEYS));
    let script = Script { options, key: any_key, range, ranges, rarely: 1 };
    let mut pair = Pair::new(&script, draw);
    // Mostly few writes from one flush to the next.
    let flush_of = 4 + draw.below(40);
    for round in 0..600 {
        if draw.below(flush_of) == 0 {
            pair.db().flush().unwrap();
        }
        pair.step(draw, round);
        match draw.below(50) {
            0 => compare(pair.db(), None, &pair.model, (0..KEYS).map(key)),
            1 => pair.db().compact_range(Some(&any_key(draw)), Some(&any_key(draw))).unwrap(),
            2 if !pair.snapshots.is_empty() => {
                let (moment, then) = pair.snapshots.swap_remove(draw.below(pair.snapshots.len()));
                compare(pair.db(), Some(&moment), &then, (0..KEYS).map(key));
            }
            _ => {}
        }
    }
    for (moment, then) in &pair.snapshots {
        compare(pair.db(), Some(moment), then, (0..KEYS).map(key));
    }
    compare(pair.db(), None, &pair.model, (0..KEYS).map(key));
    // Removals go with what they hide: with nothing left, there is nothing on disk. Alone, since a
    // background that empties a level meanwhile leaves a removal above it for later.
    let db = open(&pair.close(), tiny());
    db.delete_range(b"", b"zz").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!((rows_of(db.iter().unwrap()), of_levels(&db, "tables")), (Vec::new(), 0));
}
