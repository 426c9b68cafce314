//! Removed ranges: beside a model on many small tables, and each hazard by itself.
//!
//! What can go wrong with a removed range is that a key comes back: because the removal was cut off
//! with a table, moved below what it hides, dropped before it, or not asked. Tables here have a few
//! entries, so that every range spans some, and ends at, before and behind their bounds.

mod random;

use crate::support::{Model, Rows, backwards, of_levels, open, stat, walk};
use keyrack_flodb::{
    Batch, Change, Compression, Db, Durability, Iter, Options, Snapshot, WriteOptions,
};
use keyrack_vfs::{CrashPolicy, FaultFs, MemFs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};

/// Tables of a few entries, levels of a few tables, and compactions only on demand.
fn tiny() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        block_bytes: 64,
        table_bytes: 300,
        level0_tables: 2,
        level_base_bytes: 1000,
        compaction_threads: 0,
        ..Options::default()
    }
}

fn tables(db: &Db) -> u64 {
    of_levels(db, "tables")
}

fn rows_of(mut iter: Iter) -> Rows {
    let mut down = Rows::new();
    iter.seek_last().unwrap();
    while let Some((key, value)) = iter.entry() {
        down.push((key.to_vec(), value.to_vec()));
        iter.prev().unwrap();
    }
    down.reverse();
    let up = walk(iter).unwrap();
    assert_eq!(up, down, "the same both ways");
    up
}

fn keys_of(iter: Iter) -> String {
    let rows = rows_of(iter).into_iter();
    let keys = rows.map(|(key, _)| String::from_utf8(key).unwrap());
    keys.collect::<Vec<_>>().join(" ")
}

/// Everything that a reader can ask at a moment.
fn compare(db: &Db, moment: Option<&Snapshot>, model: &Model, keys: impl Iterator<Item = Vec<u8>>) {
    for key in keys {
        let found = match moment {
            None => db.get(&key).unwrap(),
            Some(moment) => db.get_at(moment, &key, <[u8]>::to_vec).unwrap(),
        };
        assert_eq!(found.as_ref(), model.get(&key), "{key:?}");
    }
    let iter = match moment {
        None => db.iter().unwrap(),
        Some(moment) => db.iter_at(moment).unwrap(),
    };
    assert!(rows_of(iter).into_iter().eq(model.clone()));
}

fn put_all(db: &Db, keys: &str) {
    keys.split_whitespace().for_each(|key| db.put(key.as_bytes(), &[b'v'; 50]).unwrap());
}

/// Puts a table of these keys to the bottom.
fn settle(db: &Db, keys: &str) {
    put_all(db, keys);
    db.compact_range(None, None).unwrap();
}

#[test]
fn a_range_is_half_open_and_may_be_empty() {
    let db = open(&MemFs::new(), tiny());
    put_all(&db, "a b ba c d");
    for (from, to) in [("b", "b"), ("c", "a"), ("", ""), ("z", "")] {
        let before = stat(&db, "memory_bytes");
        db.delete_range(from.as_bytes(), to.as_bytes()).unwrap();
        let mut batch = Batch::new();
        batch.delete_range(from.as_bytes(), to.as_bytes());
        db.write(&batch, WriteOptions::default()).unwrap();
        assert_eq!(keys_of(db.iter().unwrap()), "a b ba c d");
        assert_eq!(db.get(b"b").unwrap().as_deref(), Some(&[b'v'; 50][..]));
        assert_eq!(stat(&db, "memory_bytes"), before);
    }
    db.delete_range(b"b", b"c").unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "a c d");
    db.delete_range(b"", b"a\0").unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "c d");
}

/// An empty range in a record of the log is as empty after the log is read.
#[test]
fn an_empty_range_in_a_batch_stays_empty_after_recovery() {
    let fs = MemFs::new();
    let db = open(&fs, tiny());
    put_all(&db, "a b");
    let mut batch = Batch::new();
    batch.delete_range(b"a", b"a");
    batch.delete_range(b"b", b"a");
    db.write(&batch, WriteOptions::default()).unwrap();
    let again = open(&fs.crash_image(1, CrashPolicy::KeepAll), tiny());
    assert_eq!(keys_of(again.iter().unwrap()), "a b");
}

#[test]
fn a_batch_is_applied_in_order() {
    let db = open(&MemFs::new(), tiny());
    put_all(&db, "a b c");
    let mut batch = Batch::new();
    batch.put(b"b1", b"");
    batch.delete_range(b"b", b"c");
    batch.put(b"b2", b"");
    db.write(&batch, WriteOptions::default()).unwrap();
    for _ in 0..2 {
        assert_eq!(keys_of(db.iter().unwrap()), "a b2 c");
        db.flush().unwrap();
    }
}

/// The removal lies above what it hides, in each place that it can come to: memory, level 0, and
/// the levels below; seen by now and by moments before and behind it.
#[test]
fn a_removal_hides_from_every_level_what_lies_below() {
    for depth in 0..4 {
        let db = open(&MemFs::new(), tiny());
        settle(&db, "a b c d e f g h");
        let before = db.snapshot();
        db.delete_range(b"c", b"g").unwrap();
        let behind = db.snapshot();
        put_all(&db, "d");
        match depth {
            0 => {}
            1 => db.flush().unwrap(),
            2 => {
                db.flush().unwrap();
                db.compact_range(Some(b"x"), Some(b"y")).unwrap();
                db.compact_range(Some(b"d"), Some(b"d")).unwrap();
            }
            _ => db.compact_range(None, None).unwrap(),
        }
        assert_eq!(keys_of(db.iter_at(&before).unwrap()), "a b c d e f g h", "{depth}");
        assert_eq!(keys_of(db.iter_at(&behind).unwrap()), "a b g h", "{depth}");
        assert_eq!(keys_of(db.iter().unwrap()), "a b d g h", "{depth}");
        for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let key = key.as_bytes();
            assert!(db.get_at(&before, key, |_| ()).unwrap().is_some());
            let hidden = (b"c"..=b"f").contains(&key[..1].try_into().as_ref().unwrap());
            assert_eq!(db.get_at(&behind, key, |_| ()).unwrap().is_none(), hidden);
            assert_eq!(db.get(key).unwrap().is_none(), hidden && key != b"d");
        }
        let keys: Vec<&[u8]> = vec![b"a", b"c", b"d", b"f", b"g"];
        let mut found = Vec::new();
        db.multi_get(&keys, |_, value| found.push(value.is_some())).unwrap();
        assert_eq!(found, [true, false, true, false, true]);
    }
}

/// A table of removals alone, above tables that lie wholly within and across its ends.
#[test]
fn a_removal_without_any_entry_becomes_a_table() {
    let fs = MemFs::new();
    let db = open(&fs, tiny());
    settle(&db, "a b c d e f g h i j k l");
    db.delete_range(b"c", b"k").unwrap();
    db.flush().unwrap();
    assert_eq!(stat(&db, "level0_tables"), 1);
    drop(db);
    let db = open(&fs, tiny());
    assert_eq!(keys_of(db.iter().unwrap()), "a b k l");
    assert!(db.get(b"c").unwrap().is_none() && db.get(b"j").unwrap().is_none());
    db.compact_range(None, None).unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "a b k l");
    assert!(stat(&db, "level0_tables") == 0);
}

/// A compaction asked for keys in the middle of a removed range must take its table, though none
/// of its entries is there; and one asked for the end of the range, which is not removed, too.
#[test]
fn a_compaction_takes_removals_by_their_reach() {
    let db = open(&MemFs::new(), tiny());
    settle(&db, "m n");
    db.delete_range(b"c", b"x").unwrap();
    put_all(&db, "a");
    db.flush().unwrap();
    // Were the bounds those of the entries, this would find the table of level 0 elsewhere.
    db.compact_range(Some(b"n"), Some(b"n")).unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "a");
    assert!(db.get(b"m").unwrap().is_none());
    assert!(stat(&db, "level0_tables") == 0);
}

/// An older put must not go below a newer removal's reach, nor the removal below the put.
#[test]
fn tables_of_level_0_that_share_a_removed_range_go_together() {
    let db = open(&MemFs::new(), tiny());
    settle(&db, "p");
    put_all(&db, "p");
    db.flush().unwrap();
    db.delete_range(b"a", b"z").unwrap();
    put_all(&db, "b");
    db.flush().unwrap();
    put_all(&db, "y");
    db.flush().unwrap();
    for (low, high) in [("p", "p"), ("b", "b"), ("y", "y")] {
        db.compact_range(Some(low.as_bytes()), Some(high.as_bytes())).unwrap();
        assert_eq!(keys_of(db.iter().unwrap()), "b y");
        assert!(db.get(b"p").unwrap().is_none());
    }
}

/// A removal is cut where an output ends; each part hides what is its own, and a put of the key at
/// the cut belongs to the part behind it.
#[test]
fn a_removal_is_cut_where_tables_end() {
    let fs = MemFs::new();
    let keys = "a b c d e f g h i j k l m n o p q r s t";
    let db = open(&fs, Options { table_bytes: 1, ..tiny() });
    settle(&db, keys);
    let before = db.snapshot();
    db.delete_range(b"c", b"r").unwrap();
    put_all(&db, "e h k");
    db.flush().unwrap();
    let after = db.snapshot();
    db.compact_range(None, None).unwrap();
    // A table a key, and removals that the snapshot before holds: each is in the table of its key.
    assert!(tables(&db) >= 20, "{}", tables(&db));
    assert_eq!(keys_of(db.iter_at(&before).unwrap()), keys);
    assert_eq!(keys_of(db.iter_at(&after).unwrap()), "a b e h k r s t");
    assert_eq!(keys_of(db.iter().unwrap()), "a b e h k r s t");
    // One part at a time is compacted anew when nobody holds it any more.
    drop(before);
    for key in ["d", "e", "q", "r"] {
        put_all(&db, key);
        db.compact_range(Some(key.as_bytes()), Some(key.as_bytes())).unwrap();
        db.delete(key.as_bytes()).unwrap();
        db.compact_range(Some(key.as_bytes()), Some(key.as_bytes())).unwrap();
    }
    assert_eq!(keys_of(db.iter().unwrap()), "a b h k s t");
    drop(db);
    let db = open(&fs, tiny());
    assert_eq!(keys_of(db.iter().unwrap()), "a b h k s t");
}

/// A removal over everything is no one table: it would have to be merged with all of the level
/// below at once.
#[test]
fn a_wide_removal_is_cut_by_the_level_below() {
    let db = open(&MemFs::new(), Options { table_bytes: 200, level_base_bytes: 2000, ..tiny() });
    for round in 0..4 {
        for n in 0..100 {
            db.put(format!("{n:03}{round}").as_bytes(), &[round; 60]).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
    }
    let below = tables(&db);
    assert!(below > 40, "{below}");
    let held = db.snapshot();
    db.delete_range(b"", b"999").unwrap();
    db.compact_range(Some(b""), Some(b"")).unwrap();
    assert!(rows_of(db.iter().unwrap()).is_empty());
    assert_eq!(rows_of(db.iter_at(&held).unwrap()).len(), 400);
    drop(held);
    db.compact_range(None, None).unwrap();
    assert_eq!(tables(&db), 0);
}

/// Tables that hold nothing but what is removed go without being read.
#[test]
fn what_is_wholly_removed_is_dropped_unread() {
    let compression = vec![Compression::None];
    let db = open(&MemFs::new(), Options { table_bytes: 2000, compression, ..tiny() });
    for n in 0..500 {
        db.put(format!("{n:03}").as_bytes(), &[7; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let (bytes, count) = (stat(&db, "level6_bytes"), stat(&db, "level6_tables"));
    assert!(bytes > 50_000 && count > 20, "{bytes} {count}");
    let before = stat(&db, "compaction_bytes_read");
    let moment = db.snapshot();
    db.delete_range(b"", b"499").unwrap();
    db.flush().unwrap();
    drop(moment);
    db.compact_range(None, None).unwrap();
    let read = stat(&db, "compaction_bytes_read") - before;
    // The table across the end, and the removal itself.
    assert!(read < 5000, "{read} bytes");
    assert_eq!(keys_of(db.iter().unwrap()), "499");
    assert_eq!(tables(&db), 1);
}

/// A snapshot between two removals, and between a put and its removal, is kept by all that
/// compactions do.
#[test]
fn snapshots_see_across_compactions_what_was_removed_later() {
    let db = open(&MemFs::new(), tiny());
    let mut moments = Vec::new();
    put_all(&db, "a b c d e");
    moments.push((db.snapshot(), "a b c d e"));
    db.delete_range(b"a", b"c").unwrap();
    moments.push((db.snapshot(), "c d e"));
    put_all(&db, "b");
    moments.push((db.snapshot(), "b c d e"));
    db.delete_range(b"b", b"e").unwrap();
    moments.push((db.snapshot(), "e"));
    put_all(&db, "d");
    moments.push((db.snapshot(), "d e"));
    while !moments.is_empty() {
        for settled in [false, true] {
            for (moment, keys) in &moments {
                assert_eq!(keys_of(db.iter_at(moment).unwrap()), *keys);
                for key in ["a", "b", "c", "d", "e"] {
                    let found = db.get_at(moment, key.as_bytes(), |_| ()).unwrap();
                    assert_eq!(found.is_some(), keys.contains(key), "{key} of {keys}");
                }
            }
            if !settled {
                db.compact_range(None, None).unwrap();
            }
        }
        // From the middle: moments on both sides stay.
        moments.remove(moments.len() / 2);
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "d e");
}

/// A walk that has been made sees no removal that comes later, also when it becomes a table and
/// the tables under the walk are gone.
#[test]
fn a_walk_sees_no_later_removal() {
    let db = open(&MemFs::new(), tiny());
    settle(&db, "a b c d");
    put_all(&db, "e f");
    let mut walk = db.iter().unwrap();
    walk.seek(b"b").unwrap();
    db.delete_range(b"", b"z").unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "");
    db.compact_range(None, None).unwrap();
    assert_eq!(walk.entry().map(|(key, _)| key.to_vec()), Some(b"b".to_vec()));
    assert_eq!(keys_of(walk), "a b c d e f");
}

/// Removals of all kinds of places from a walk that turns at each key.
#[test]
fn a_walk_turns_within_and_at_the_ends_of_removed_runs() {
    let db = open(&MemFs::new(), tiny());
    let name = |n: usize| format!("{n:04}").into_bytes();
    for n in 0..400 {
        db.put(&name(n), b"old").unwrap();
    }
    db.compact_range(None, None).unwrap();
    // Runs of 60, 1 and 99, the long ones with new keys within; in a table, and in memory.
    db.delete_range(&name(20), &name(80)).unwrap();
    db.put(&name(50), b"new").unwrap();
    db.delete_range(&name(100), &name(101)).unwrap();
    db.flush().unwrap();
    db.delete_range(&name(201), &name(300)).unwrap();
    for n in [201, 250, 251, 299] {
        db.put(&name(n), b"new").unwrap();
    }
    let there = |n: &usize| {
        let removed = (20..80).contains(n) || *n == 100 || (201..300).contains(n);
        !removed || [50, 201, 250, 251, 299].contains(n)
    };
    let model: Vec<Vec<u8>> = (0..400).filter(there).map(name).collect();
    assert!(rows_of(db.iter().unwrap()).into_iter().map(|row| row.0).eq(model.clone()));
    let mut walk = db.iter().unwrap();
    let key = |walk: &Iter| walk.entry().map(|(key, _)| key.to_vec());
    for at in 1..model.len() - 1 {
        walk.seek(&model[at]).unwrap();
        for step in [-1_isize, 1, 1, -1, -1] {
            if step > 0 { walk.next().unwrap() } else { walk.prev().unwrap() }
        }
        assert_eq!(key(&walk).as_ref(), Some(&model[at - 1]), "turns at {at}");
        walk.next().unwrap();
        walk.next().unwrap();
        assert_eq!(key(&walk).as_ref(), Some(&model[at + 1]));
    }
    for n in 0..400 {
        walk.seek(&name(n)).unwrap();
        assert_eq!(key(&walk).as_ref(), model.iter().find(|key| **key >= name(n)));
        walk.seek_back(&name(n)).unwrap();
        assert_eq!(key(&walk).as_ref(), model.iter().rfind(|key| **key <= name(n)));
    }
}

/// A walk over a long removed run reads the ends of it, not the middle.
#[test]
fn a_walk_skips_what_is_removed_below() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let db = open(&fs, Options { cache_bytes: 0, memtable_bytes: 1 << 20, ..tiny() });
    let name = |n: usize| format!("{n:05}").into_bytes();
    for n in 0..3000 {
        db.put(&name(n), b"value").unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.delete_range(&name(1), &name(2999)).unwrap();
    let mut walk = db.iter().unwrap();
    let before = fs.operations();
    walk.seek_first().unwrap();
    walk.next().unwrap();
    assert_eq!(walk.entry().map(|(key, _)| key.to_vec()), Some(name(2999)));
    walk.prev().unwrap();
    assert_eq!(walk.entry().map(|(key, _)| key.to_vec()), Some(name(0)));
    walk.next().unwrap();
    assert_eq!(walk.entry().map(|(key, _)| key.to_vec()), Some(name(2999)));
    let reads = fs.operations() - before;
    assert!(reads < 100, "{reads} reads");
}

/// A batch that removes all and stores all anew is seen as a whole, while tables come and go.
#[test]
fn readers_see_all_of_a_batch_that_removes_and_stores() {
    let db = open(&MemFs::new(), Options { compaction_threads: 1, ..tiny() });
    let keys: Vec<Vec<u8>> = (0..20).map(|n| format!("{n:02}").into_bytes()).collect();
    let write = |round: u32| {
        let mut batch = Batch::new();
        batch.delete_range(b"", b"99");
        keys.iter().for_each(|key| batch.put(key, &round.to_le_bytes()));
        db.write(&batch, WriteOptions::default()).unwrap();
    };
    write(0);
    let done = AtomicU64::new(0);
    let round_of = |values: &[Vec<u8>]| {
        assert_eq!(values.len(), keys.len());
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        u32::from_le_bytes(values[0][..].try_into().unwrap())
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=400 {
                write(round);
                if round % 10 == 0 {
                    db.flush().unwrap();
                }
            }
            done.store(1, AtomicOrdering::SeqCst);
        });
        scope.spawn(|| {
            let mut last = 0;
            while done.load(AtomicOrdering::SeqCst) == 0 {
                let rows = rows_of(db.iter().unwrap());
                let round = round_of(&rows.into_iter().map(|row| row.1).collect::<Vec<_>>());
                let mut values = Vec::new();
                let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                db.multi_get(&wanted, |_, value| values.extend(value.map(<[u8]>::to_vec))).unwrap();
                let later = round_of(&values);
                assert!(last <= round && round <= later, "{last} {round} {later}");
                last = later;
            }
        });
    });
    db.compact_range(None, None).unwrap();
    assert_eq!(rows_of(db.iter().unwrap()).len(), keys.len());
}

#[test]
fn ranges_are_of_the_stores_order() {
    let db = open(&MemFs::new(), Options { comparator: backwards(), ..tiny() });
    settle(&db, "a b c d e f");
    db.delete_range(b"b", b"d").unwrap();
    assert_eq!(keys_of(db.iter().unwrap()), "f e d c b a", "that range is empty here");
    db.delete_range(b"e", b"c").unwrap();
    for _ in 0..3 {
        assert_eq!(keys_of(db.iter().unwrap()), "f c b a");
        db.compact_range(None, None).unwrap();
    }
}

/// An update that has read must not write behind a removal that it has not seen: a counter begins
/// anew after each removal, and no step of it is lost or brought back.
#[test]
fn updates_come_before_a_removal_or_behind_it() {
    let db = open(&MemFs::new(), Options { durability: Durability::Os, ..tiny() });
    let (steps, done) = (2000, AtomicU64::new(0));
    let key = b"counter";
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..steps {
                    db.update(key, WriteOptions::default(), |old| {
                        let step = done.fetch_add(1, AtomicOrdering::SeqCst) + 1;
                        // A range tombstone before this update may have reset the count.
                        let count = old.map_or(0, number) + 1;
                        assert!(count <= step);
                        Change::Put(count.to_le_bytes().to_vec())
                    })
                    .unwrap();
                }
            });
        }
        scope.spawn(|| {
            let mut batch = Batch::new();
            batch.put(b"other", b"");
            batch.delete_range(b"c", b"d");
            while done.load(AtomicOrdering::SeqCst) < 2 * steps {
                let before = done.load(AtomicOrdering::SeqCst);
                if before % 2 == 0 {
                    db.delete_range(b"a", b"z").unwrap();
                } else {
                    db.write(&batch, WriteOptions::default()).unwrap();
                }
                // What is there now was counted from nothing since: two steps may have been under
                // way when the number was read.
                let count = db.get(key).unwrap().as_deref().map_or(0, number);
                let since = done.load(AtomicOrdering::SeqCst) - before;
                assert!(count <= since, "{count} steps where {since} were made");
            }
        });
    });
}
