//! What cannot be seen from outside: where tables are cut, when memory is sorted, and the numbers
//! that depend on what runs.

mod codecs;
mod expiry;
mod memtables;
mod prefixes;

use super::build::{AnyLowerLevels, BuildOptions, Built, LowerLevels};
use super::rotate::rotate_nonempty;
use super::{Db, DropFilter, IngestOptions};
use crate::checksum::hash;
use crate::compaction::tests::by_hand;
use crate::compaction::{Compaction, CompactionOptions, pick};
use crate::cursor::Cursor;
use crate::key::{Comparator, Kind, SEQUENCE_MAX, parse, user_of};
use crate::memtable::{Memtable, MemtableOptions};
use crate::open_table::{OpenTable, table_path};
use crate::options::Options;
use crate::range_tombstones::RangeTombstone;
use crate::sst_writer::SstWriter;
use crate::table::ReadOptions;
use crate::version::tests::sized;
use crate::version::{FileMeta, VersionEdit};
use keyrack_concurrent::pin;
use keyrack_vfs::{Fs, MemFs};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

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
fn alphabet() -> Arc<Memtable> {
    let memtable =
        Arc::new(Memtable::new(1 << 16, Comparator::Bytewise, MemtableOptions::default()));
    for (sequence, letter) in (1..).zip(b'a'..=b'z') {
        let key = [letter];
        memtable.insert(sequence, Kind::Put, &key, &[0; 100], hash(&key)).unwrap();
    }
    memtable
}

/// Writes the alphabet into level 5 above these tables; first and last keys of what came of it.
fn cut_over(grandparents: Vec<Arc<FileMeta>>, table_bytes: u64) -> Vec<String> {
    let built = built_over(grandparents, table_bytes, alphabet(), &[], 0);
    let range = |file: &FileMeta| [file.first(), file.last()].concat();
    let ranges = built.tables.iter().map(|table| range(table.file()));
    ranges.map(|range| String::from_utf8(range).unwrap()).collect()
}

/// The same with other entries and with range tombstones, of which nothing up to `oldest` is seen.
fn built_over(
    grandparents: Vec<Arc<FileMeta>>,
    table_bytes: u64,
    entries: Arc<Memtable>,
    ranges: &[RangeTombstone],
    oldest: u64,
) -> Built {
    let db = open(Options::default());
    let compaction = Compaction { grandparents, ..by_hand(4, 5, [vec![], vec![]]) };
    // An output may pass ten times this.
    let options = CompactionOptions { table_bytes: 100, ..db.options().compaction() };
    let options = BuildOptions {
        dropped: None,
        filter: None,
        level: 5,
        base: 5,
        is_urgent: false,
        table_bytes,
        oldest,
        expired_ms: 0,
        splits: Some(compaction.splits(&options)),
        ranges: ranges.to_vec(),
        below: &AnyLowerLevels,
        values: None,
    };
    db.inner().build(&mut entries.cursor(SEQUENCE_MAX), options).unwrap()
}

/// A level with gaps, of tables with so many bytes.
fn below(bytes: u64) -> Vec<Arc<FileMeta>> {
    let bounds = [("b", "c"), ("d", "f"), ("m", "m"), ("p", "q"), ("y", "z")];
    (1..).zip(bounds).map(|(number, (first, last))| sized(number, first, last, bytes)).collect()
}

fn range(begin: &str, end: &str, sequence: u64) -> RangeTombstone {
    RangeTombstone { begin: begin.as_bytes().to_vec(), end: end.as_bytes().to_vec(), sequence }
}

/// A line for each table: its bounds, how many keys it has, and the ranges that it removes.
fn drawn(built: &Built) -> Vec<String> {
    let draw = |table: &Arc<OpenTable>| {
        let file = table.file();
        let keys = file.entries - file.range_deletes;
        let bounds = [file.first(), file.last()].map(|key| String::from_utf8_lossy(key));
        let end = if file.is_open() { ")" } else { "]" };
        let mut ranges: Vec<_> =
            table.table().range_tombstones().into_iter().flat_map(|index| index.ranges()).collect();
        ranges.sort_by(|a, b| a.begin.cmp(&b.begin).then(b.sequence.cmp(&a.sequence)));
        let ranges: String = ranges.iter().map(|range| format!(" {range:?}")).collect();
        format!("[{}..{}{end} {keys}{ranges}", bounds[0], bounds[1])
    };
    built.tables.iter().map(draw).collect()
}

#[test]
fn a_removed_range_is_cut_by_size_and_by_the_level_below() {
    let nothing =
        || Arc::new(Memtable::new(1 << 12, Comparator::Bytewise, MemtableOptions::default()));
    let all = [range("a", "zz", 99)];
    // Of a range alone; a table of the level below is passed when the next one begins.
    let built = built_over(below(100), u64::MAX, nothing(), &all, 0);
    assert_eq!(drawn(&built), ["[a..zz) 0 [a, zz)@99"]);
    let built = built_over(below(600), u64::MAX, nothing(), &all, 0);
    assert_eq!(drawn(&built), ["[a..m) 0 [a, m)@99", "[m..y) 0 [m, y)@99", "[y..zz) 0 [y, zz)@99"]);
    // Where the range is not, it is not cut.
    let built = built_over(below(2000), u64::MAX, nothing(), &[range("e", "n", 99)], 0);
    assert_eq!(drawn(&built), ["[e..m) 0 [e, m)@99", "[m..n) 0 [m, n)@99"]);
    // Between entries, none of which it hides from a snapshot.
    let built = built_over(below(600), u64::MAX, alphabet(), &[range("c", "o", 99)], 0);
    assert_eq!(
        drawn(&built),
        ["[a..f] 6 [c, g)@99".replace("f]", "g)"), "[g..q] 11 [g, o)@99".into(), "[r..z] 9".into()]
    );
    // By size: each of the ranges takes 18 bytes.
    let many: Vec<_> =
        (0..20).map(|n| range(&format!("{n:02}"), &format!("{n:02}x"), n + 1)).collect();
    let built = built_over(Vec::new(), 100, nothing(), &many, 0);
    let counts: Vec<u64> = built.tables.iter().map(|table| table.file().range_deletes).collect();
    assert_eq!(counts, [5, 5, 5, 5]);
    // Those that are cut do not fill the next table before it has begun.
    let wide: Vec<_> = (0..20).map(|n| range("a", &format!("z{n}"), 100 + n)).collect();
    let built = built_over(Vec::new(), 300, alphabet(), &wide, 0);
    assert!((6..13).contains(&built.tables.len()), "{:?}", drawn(&built));
    assert!(built.tables.iter().all(|table| table.file().range_deletes == 20));
}

#[test]
fn what_is_removed_for_everybody_is_dropped_and_ranges_are_made_disjoint() {
    // The alphabet has the sequence numbers 1 to 26.
    let ranges =
        [range("c", "k", 20), range("a", "e", 2), range("h", "p", 30), range("d", "f", 40)];
    let built = |oldest| drawn(&built_over(Vec::new(), u64::MAX, alphabet(), &ranges, oldest));
    assert_eq!(
        built(0),
        ["[a..z] 26 [a, e)@2 [c, k)@20 [d, f)@40 [h, p)@30"],
        "everything may be seen"
    );
    // `a` is older than its tombstone, `b` is as new: what remains of it are c to j at 20.
    assert_eq!(built(20), ["[a..z] 17 [a, c)@2 [c, k)@20 [d, f)@40 [h, p)@30"]);
    assert_eq!(built(40), ["[a..z] 12 [a, c)@2 [c, d)@20 [d, f)@40 [f, h)@20 [h, p)@30"]);
}

#[test]
fn tables_end_where_they_share_too_much_with_the_level_below() {
    assert_eq!(cut_over(Vec::new(), u64::MAX), ["az"]);
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

/// Writers sorted the tail themselves, and waited for it.
#[test]
fn the_unordered_tail_is_sorted_beside_the_writers() {
    for hash_level in [true, false] {
        let db = open(Options { unordered_max: 10, hash_level, ..Options::default() });
        for n in 0..100_u32 {
            db.put(&n.to_be_bytes(), b"value").unwrap();
        }
        // Nobody reads in order, so it is the thread that sorts.
        while db.inner().read_state().active().needs_sort() {
            thread::yield_now();
        }
        let mut cursor = db.inner().read_state().active().cursor(SEQUENCE_MAX);
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

/// Only who had exchanged the read state noticed that nobody was pinned any more, and it rested.
#[test]
fn files_go_although_nobody_uses_the_store_any_more() {
    let db = open(Options::default());
    db.put(b"key", b"old").unwrap();
    db.flush().unwrap();
    let inner = db.inner();
    let old = inner.read_state().levels[0].first().map(|table| table.file().number);
    let old = table_path(Path::new("/store"), old.expect("a table was flushed"));
    db.put(b"key", b"new").unwrap();
    db.flush().unwrap();
    let ((pinned, is_pinned), (unpin, is_over)) = (mpsc::channel(), mpsc::channel());
    thread::scope(|scope| {
        scope.spawn(move || {
            let guard = pin();
            let read_state = inner.read_path.load(&guard);
            pinned.send(read_state.levels[0].len()).unwrap();
            is_over.recv().unwrap();
        });
        assert_eq!(is_pinned.recv().unwrap(), 2);
        db.compact_range(None, None).unwrap();
        assert!(inner.fs.exists(&old).unwrap(), "somebody looks at it");
        unpin.send(()).unwrap();
    });
    while inner.fs.exists(&old).unwrap() {
        thread::yield_now();
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
    let id = {
        let mut in_progress = inner.compaction.in_progress.lock();
        let (read_state, options) = (inner.read_state(), inner.options.compaction());
        let compaction = pick(&read_state.version, &options, &in_progress, SEQUENCE_MAX).unwrap();
        in_progress.start(&compaction, &inner.options.comparator)
    };
    assert_eq!(stats(&db)["compactions_running"], 1.0);
    inner.compaction.in_progress.lock().finish(id);
    db.compact_range(None, None).unwrap();
    let empty = stats(&db);
    assert_eq!((empty["compaction_debt_bytes"], empty["compactions_running"]), (0.0, 0.0));
    assert_eq!(empty["level6_tables"], 1.0);
}

/// A table from outside with one value for these keys.
fn external(db: &Db, path: &str, keys: &[&str]) -> PathBuf {
    let path = PathBuf::from(path);
    let mut writer = SstWriter::create(&*db.inner().fs, &path, db.options()).unwrap();
    keys.iter().for_each(|key| writer.put(key.as_bytes(), b"from outside").unwrap());
    writer.finish().unwrap();
    path
}

/// A store whose memtables waited for their flush passed for one at rest: what it held on disk was
/// read before they were in it.
#[test]
fn a_memtable_that_waits_for_its_flush_is_a_flush_that_runs() {
    let db = open(Options::default());
    let inner = db.inner();
    db.put(b"a", b"value").unwrap();
    assert_eq!(stats(&db)["flushes_running"], 0.0);
    let held = inner.write_path.flush_lock.lock_unranked();
    rotate_nonempty(inner, &inner.read_path.lock_exchange());
    assert_eq!(stats(&db)["flushes_running"], 1.0);
    drop(held);
    db.flush().unwrap();
    assert_eq!(stats(&db)["flushes_running"], 0.0);
}

/// A memtable is made immutable and its table not written yet, when a table with a larger number
/// comes.
#[test]
fn what_was_frozen_before_an_ingestion_is_flushed_after_it() {
    let db = open(Options::default());
    let inner = db.inner();
    db.put(b"a", b"frozen").unwrap();
    let held = inner.write_path.flush_lock.lock_unranked();
    rotate_nonempty(inner, &inner.read_path.lock_exchange());
    let path = external(&db, "/bulk", &["b", "c"]);
    db.ingest(&[path], IngestOptions::default()).unwrap();
    assert_eq!(stats(&db)["level6_tables"], 1.0);
    drop(held);
    db.flush().unwrap();
    db.put(b"b", b"later").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get(b"a").unwrap().unwrap(), b"frozen");
    assert_eq!(db.get(b"b").unwrap().unwrap(), b"later");
    assert_eq!(db.get(b"c").unwrap().unwrap(), b"from outside");
}

/// A compaction that runs may make a table out of two that reaches over what lies between them.
#[test]
fn a_table_stays_above_the_outputs_of_compactions_that_run() {
    let db = open(Options::default());
    let inner = db.inner();
    for (path, keys) in [("/1", ["a", "b"]), ("/2", ["e", "f"])] {
        db.ingest(&[external(&db, path, &keys)], IngestOptions::default()).unwrap();
    }
    let inputs = inner.read_state().version.files(6).to_vec();
    assert_eq!(inputs.len(), 2);
    let compaction = by_hand(5, 6, [Vec::new(), inputs]);
    let id = inner.compaction.in_progress.lock().start(&compaction, &inner.options.comparator);
    db.ingest(&[external(&db, "/3", &["c", "d"])], IngestOptions::default()).unwrap();
    db.ingest(&[external(&db, "/4", &["x", "y"])], IngestOptions::default()).unwrap();
    inner.compaction.in_progress.lock().finish(id);
    let shown = stats(&db);
    assert_eq!((shown["level0_tables"], shown["level6_tables"]), (1.0, 3.0));
}

#[test]
#[should_panic(expected = "an edit adds only tables that are open")]
fn a_table_that_is_not_open_does_not_vanish_from_the_store() {
    let db = open(Options::default());
    let number = db.inner().tables.numbers.issue();
    let file = sized(number.get(), "a", "b", 100);
    let edit = VersionEdit { added: vec![(3, file)], ..VersionEdit::default() };
    db.inner().install(&edit, (&[], &[]), None).unwrap();
}

#[test]
#[should_panic(expected = "a compaction is chosen among the open tables")]
fn an_input_that_is_not_open_is_not_left_out_of_a_compaction() {
    let db = open(Options::default());
    let compaction = by_hand(3, 4, [vec![sized(99, "a", "b", 100)], vec![]]);
    let _ = super::compact::run_chosen(db.inner(), compaction);
}

/// What is written of these entries when the filter drops those whose value is `expired`.
fn filtered(
    entries: &[(u64, Kind, &[u8])],
    oldest: u64,
    below: &dyn LowerLevels,
) -> Vec<(u64, Kind)> {
    filtered_at(entries, oldest, 0, below)
}

/// The same at a time.
fn filtered_at(
    entries: &[(u64, Kind, &[u8])],
    oldest: u64,
    expired_ms: u64,
    below: &dyn LowerLevels,
) -> Vec<(u64, Kind)> {
    let db = open(Options::default());
    let memtable =
        Arc::new(Memtable::new(1 << 16, Comparator::Bytewise, MemtableOptions::default()));
    for (sequence, kind, value) in entries {
        memtable.insert(*sequence, *kind, b"key", value, hash(b"key")).unwrap();
    }
    let filter: DropFilter = Arc::new(|key, value| key == b"key" && value == b"expired");
    let options = BuildOptions {
        level: 5,
        base: 5,
        is_urgent: false,
        table_bytes: u64::MAX,
        oldest,
        expired_ms,
        splits: None,
        ranges: Vec::new(),
        below,
        dropped: Some(&filter),
        filter: None,
        values: None,
    };
    memtable.make_immutable();
    let built = db.inner().build(&mut memtable.cursor(u64::MAX), options).unwrap();
    let mut left = Vec::new();
    for table in &built.tables {
        let mut cursor = table.table().cursor(ReadOptions::default());
        cursor.seek_first().unwrap();
        while let Some((key, value)) = cursor.entry() {
            let entry = parse(key).unwrap();
            assert!(value.is_empty() || entry.kind != Kind::Delete);
            left.push((entry.sequence, entry.kind));
            cursor.next().unwrap();
        }
    }
    left
}

struct Nothing;

impl LowerLevels for Nothing {
    fn has(&self, _key: &[u8]) -> bool {
        false
    }

    fn has_any(&self, _low: &[u8], _high: &[u8]) -> bool {
        false
    }
}

#[test]
fn an_expired_entry_goes_or_becomes_a_tombstone_and_nothing_older_comes_back() {
    use Kind::{Delete, Put};
    let expired = [(3, Put, &b"old"[..]), (7, Put, &b"expired"[..])];
    assert!(filtered(&expired, 9, &Nothing).is_empty(), "and the older one with it");
    assert_eq!(filtered(&expired, 9, &AnyLowerLevels), [(7, Delete)]);
    // A moment before it is in use.
    assert_eq!(filtered(&expired, 5, &Nothing), [(7, Put), (3, Put)]);
    let replaced = [(3, Put, &b"expired"[..]), (7, Put, &b"new"[..])];
    assert_eq!(filtered(&replaced, 9, &Nothing), [(7, Put)]);
    assert_eq!(filtered(&replaced, 5, &Nothing), [(7, Put)], "the newest up to the moment goes");
    assert_eq!(filtered(&replaced, 5, &AnyLowerLevels), [(7, Put), (3, Delete)]);
}
