//! What cannot be seen from outside: where tables are cut, when memory is sorted, and the numbers
//! that depend on what runs.

use super::build::Recipe;
use super::rotate::Room;
use super::{Db, lock};
use crate::checksum::hash;
use crate::compaction::{Compaction, CompactionOptions, Reason, pick};
use crate::cursor::Cursor;
use crate::key::{Comparator, Kind, SEQUENCE_MAX, user_of};
use crate::memory::{Memory, MemoryOptions};
use crate::options::Options;
use crate::version::FileMeta;
use crate::version::tests::sized;
use keyrack_vfs::{Fs, MemFs};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A store in memory that compacts only when it is told to.
fn open(options: Options) -> Db {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/store")).unwrap();
    let options = Options { compaction_threads: 0, ..options };
    Db::open_in(Arc::new(fs), Path::new("/store"), options).unwrap()
}

fn stats(db: &Db) -> HashMap<String, f64> {
    let mut stats = HashMap::new();
    db.stats(&mut |name, number| {
        assert!(stats.insert(name.to_owned(), number).is_none(), "{name} comes twice");
    });
    stats
}

/// One entry for each key from `a` to `z`, of a bit more than 100 bytes.
fn alphabet() -> Arc<Memory> {
    let memory = Arc::new(Memory::new(1 << 16, Comparator::Bytewise, MemoryOptions::default()));
    for (sequence, letter) in (1..).zip(b'a'..=b'z') {
        let key = [letter];
        memory.insert(sequence, Kind::Put, &key, &[0; 100], hash(&key)).unwrap();
    }
    memory
}

/// Writes the alphabet into level 5 above these tables; first and last keys of what came of it.
fn cut_over(grandparents: Vec<Arc<FileMeta>>, table_bytes: u64) -> Vec<String> {
    let db = open(Options::default());
    let compaction = Compaction {
        level: 4,
        output_level: 5,
        inputs: [Vec::new(), Vec::new()],
        grandparents,
        trivial_move: false,
        reason: Reason::Size,
        pointer: None,
    };
    // An output may pass ten times this.
    let options = CompactionOptions { table_bytes: 100, ..db.options().compaction() };
    let recipe = Recipe {
        level: 5,
        table_bytes,
        oldest: 0,
        cuts: Some(compaction.cuts(&options)),
        is_below: &|_| true,
    };
    let built = db.inner().build(&mut alphabet().cursor(SEQUENCE_MAX), recipe).unwrap();
    let range = |file: &FileMeta| [file.first(), file.last()].concat();
    let ranges = built.tables.iter().map(|table| range(table.file()));
    ranges.map(|range| String::from_utf8(range).unwrap()).collect()
}

#[test]
fn tables_end_where_they_share_too_much_with_the_level_below() {
    assert_eq!(cut_over(Vec::new(), u64::MAX), ["az"]);
    let below = |bytes: u64| {
        vec![
            sized(1, "b", "c", bytes),
            sized(2, "d", "f", bytes),
            sized(3, "m", "m", bytes),
            sized(4, "p", "q", bytes),
            sized(5, "y", "z", bytes),
        ]
    };
    assert_eq!(cut_over(below(100), u64::MAX), ["az"]);
    assert_eq!(cut_over(below(600), u64::MAX), ["af", "gq", "rz"]);
    assert_eq!(cut_over(below(2000), u64::MAX), ["ac", "df", "gm", "nq", "rz"]);
}

#[test]
fn a_table_that_ends_by_its_size_does_not_count_for_the_next() {
    let by_size = cut_over(Vec::new(), 1000);
    assert!(by_size.len() > 1 && by_size[0].as_str() > "ac", "{by_size:?}");
    // 900 bytes lie below the first table, and 900 below the first key of the second: neither
    // passes the limit of 1000.
    let (last, next) = (&by_size[0][1..], &by_size[1][..1]);
    let below = vec![sized(1, "a", last, 900), sized(2, next, next, 900)];
    assert_eq!(cut_over(below, 1000), by_size);
}

#[test]
fn writers_keep_the_unordered_tail_short() {
    for hash_level in [true, false] {
        let db = open(Options { unordered_max: 10, hash_level, ..Options::default() });
        for n in 0..100_u32 {
            db.put(&n.to_be_bytes(), b"value").unwrap();
            // Nobody reads in order, so it was the writer who sorted.
            assert!(!db.inner().view().active().memory.wants_seal(), "{hash_level} {n}");
        }
        let mut cursor = db.inner().view().active().memory.cursor(SEQUENCE_MAX);
        cursor.seek_first().unwrap();
        for n in 0..100_u32 {
            assert_eq!(
                cursor.entry().map(|(key, _)| user_of(key).to_vec()),
                Some(n.to_be_bytes().into())
            );
            cursor.next().unwrap();
        }
    }
}

#[test]
fn debt_and_running_compactions_are_reported() {
    let db = open(Options { level0_tables: 3, ..Options::default() });
    for round in 0..3 {
        assert_eq!(stats(&db)["compaction_debt_bytes"], 0.0, "round {round}");
        db.put(b"a", b"first").unwrap();
        db.put(b"z", b"last").unwrap();
        db.flush().unwrap();
    }
    let full = stats(&db);
    assert_eq!(full["level0_tables"], 3.0);
    assert_eq!(full["compaction_debt_bytes"], full["level0_bytes"]);
    assert_eq!(full["compactions_running"], 0.0);

    let inner = db.inner();
    let ticket = {
        let mut running = lock(&inner.running);
        let (view, options) = (inner.view(), inner.options.compaction());
        let compaction = pick(&view.version, &options, &running, SEQUENCE_MAX).unwrap();
        running.start(&compaction, &inner.options.comparator)
    };
    assert_eq!(stats(&db)["compactions_running"], 1.0);
    lock(&inner.running).finish(ticket);
    db.compact_range(None, None).unwrap();
    let empty = stats(&db);
    assert_eq!((empty["compaction_debt_bytes"], empty["compactions_running"]), (0.0, 0.0));
    assert_eq!(empty["level6_tables"], 1.0);
}

/// A flush comes between the making of room for a large write and the write.
#[test]
fn a_large_write_has_room_in_whatever_generation_it_comes_to() {
    let db = open(Options { memory_bytes: 64 << 10, ..Options::default() });
    let inner = db.inner();
    let value = vec![7; 12 << 20];
    let fits = || {
        let view = inner.view();
        let key = b"large";
        view.active().memory.insert(SEQUENCE_MAX, Kind::Put, key, &value, hash(key)).is_ok()
    };
    assert!(!fits(), "the usual room is not enough");
    let room = Room::make(inner, value.len() + 100).unwrap();
    db.put(b"small", b"value").unwrap();
    db.flush().unwrap();
    assert!(fits());
    drop(room);
}
