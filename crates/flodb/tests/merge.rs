//! Merge operators: whatever is written, flushed, compacted and looked at in between, a key has its
//! value with its operands on it, in their order.

use crate::disk::{CHANGES, copy, flip, options as on_disk, tables};
use crate::support::{DIR, Model, idle, of_levels, open, rows, stat, try_open, walk};
use keyrack_flodb::{
    Append, Batch, Change, Clock, Comparator, Counter, Db, Durability, Error, IngestOptions, Iter,
    MergeOperator, Options, SetUnion, Snapshot, Spaces, SpacesBatch, WriteOptions, repair, verify,
};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a key has: a value, which may expire, and operands on it.
#[derive(Clone, Default)]
struct Kept {
    value: Option<(Vec<u8>, Option<u64>)>,
    operands: Vec<Vec<u8>>,
}

impl Kept {
    fn at(&self, now: u64) -> Option<Vec<u8>> {
        let living = self.value.iter().filter(|(_, until)| until.is_none_or(|until| until > now));
        let parts: Vec<&[u8]> = living
            .map(|(value, _)| &value[..])
            .chain(self.operands.iter().map(|it| &it[..]))
            .collect();
        (!parts.is_empty()).then(|| parts.join(&b","[..]))
    }
}

type Keys = BTreeMap<Vec<u8>, Kept>;

fn shown(keys: &Keys, now: u64) -> Model {
    keys.iter().filter_map(|(key, kept)| Some((key.clone(), kept.at(now)?))).collect()
}

fn backward(mut iter: Iter) -> Model {
    let mut rows = Model::new();
    iter.seek_last().unwrap();
    while let Some((key, value)) = iter.entry() {
        assert!(rows.insert(key.to_vec(), value.to_vec()).is_none(), "a key comes twice");
        iter.prev().unwrap();
    }
    rows
}

fn forward(iter: Iter) -> Model {
    walk(iter).unwrap().into_iter().collect()
}

struct Pair {
    disk: MemFs,
    db: Option<Db>,
    now: Arc<AtomicU64>,
    keys: Keys,
    snapshots: Vec<(Snapshot, Model)>,
}

fn drawn(draw: &mut Draw, now: &Arc<AtomicU64>) -> Options {
    let now = Arc::clone(now);
    Options {
        durability: [Durability::Os, Durability::None, Durability::Sync][draw.below(3)],
        memtable_bytes: 64 << 10,
        unordered_max: [1, 16, 1000][draw.below(3)],
        hash_level: draw.below(4) > 0,
        segment_bytes: 256 << 10,
        block_bytes: [64, 500, 4096][draw.below(3)],
        blob_bytes_min: [0, 1024][draw.below(2)],
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 64 << 10,
        compaction_threads: draw.below(2),
        clock: Clock::Custom(Arc::new(move || now.load(Ordering::SeqCst))),
        ..Options::default()
    }
    .merge_operator(Append::new(b","))
}

fn key(draw: &mut Draw) -> Vec<u8> {
    format!("key{:02}", draw.below(60)).into_bytes()
}

fn value(draw: &mut Draw, round: usize) -> Vec<u8> {
    let mut value = round.to_string().into_bytes();
    let len = [0, 0, 10, 70, 1500][draw.below(5)];
    value.resize(len.max(value.len()), b'v');
    value
}

impl Pair {
    fn new(draw: &mut Draw) -> Self {
        let (disk, now) = (MemFs::new(), Arc::new(AtomicU64::new(1_000)));
        let db = Some(open(&disk, drawn(draw, &now)));
        Pair { disk, db, now, keys: Keys::new(), snapshots: Vec::new() }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn time(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn write(&mut self, draw: &mut Draw, round: usize) {
        let (key, value) = (key(draw), value(draw, round));
        match draw.below(20) {
            0..3 => {
                self.db().put(&key, &value).unwrap();
                self.keys.insert(key, Kept { value: Some((value, None)), operands: vec![] });
            }
            3 | 4 => {
                let until = self.time() + draw.below(200) as u64;
                self.db().put_until(&key, &value, until).unwrap();
                self.keys.insert(key, Kept { value: Some((value, Some(until))), operands: vec![] });
            }
            5 => {
                self.db().delete(&key).unwrap();
                self.keys.remove(&key);
            }
            6 => {
                let to = [&key[..], b"~"].concat();
                self.db().delete_range(&key, &to).unwrap();
                self.keys.remove(&key);
            }
            7 => {
                let expected = shown(&self.keys, self.time()).remove(&key);
                let decide = |found: Option<&[u8]>| {
                    assert_eq!(found, expected.as_deref());
                    Change::Put(value.clone())
                };
                self.db().update(&key, WriteOptions::default(), decide).unwrap();
                self.keys.insert(key, Kept { value: Some((value, None)), operands: vec![] });
            }
            8 => self.write_many(draw, round),
            9 => {
                // Many at once, so that some are put together when they are written.
                for n in 0..draw.below(40) {
                    let operand = n.to_string().into_bytes();
                    self.db().merge(&key, &operand).unwrap();
                    self.keys.entry(key.clone()).or_default().operands.push(operand);
                }
            }
            _ => {
                self.db().merge(&key, &value).unwrap();
                self.keys.entry(key).or_default().operands.push(value);
            }
        }
    }

    fn write_many(&mut self, draw: &mut Draw, round: usize) {
        let (mut batch, transaction) = (Batch::new(), self.db().transaction());
        let mut keys = self.keys.clone();
        for _ in 0..draw.below(30) {
            let (key, value) = (key(draw), value(draw, round));
            match draw.below(6) {
                0 => {
                    batch.put(&key, &value);
                    transaction.put(&key, &value).unwrap();
                    keys.insert(key, Kept { value: Some((value, None)), operands: vec![] });
                }
                1 => {
                    batch.delete(&key);
                    transaction.delete(&key).unwrap();
                    keys.remove(&key);
                }
                _ => {
                    batch.merge(&key, &value);
                    transaction.merge(&key, &value).unwrap();
                    keys.entry(key).or_default().operands.push(value);
                }
            }
        }
        let expected = shown(&keys, self.time());
        let asked = key(draw);
        assert_eq!(transaction.get(&asked).unwrap().as_ref(), expected.get(&asked));
        let mut iter = transaction.iter().unwrap();
        iter.seek_first().unwrap();
        for (key, value) in &expected {
            assert_eq!(iter.entry(), Some((&key[..], &value[..])));
            iter.next().unwrap();
        }
        assert!(!iter.is_valid());
        drop(iter);
        if draw.below(2) == 0 {
            transaction.commit().unwrap();
        } else {
            self.db().write(&batch, WriteOptions::default()).unwrap();
        }
        self.keys = keys;
    }

    fn read(&self, draw: &mut Draw) {
        let expected = shown(&self.keys, self.time());
        let key = key(draw);
        assert_eq!(self.db().get(&key).unwrap().as_ref(), expected.get(&key), "{key:?}");
        assert_eq!(self.db().contains_key(&key).unwrap(), expected.contains_key(&key));
        let keys: Vec<Vec<u8>> = (0..20).map(|_| self::key(draw)).collect();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let shown = |at: usize, value: Option<&[u8]>| {
            assert_eq!(value, expected.get(&keys[at]).map(Vec::as_slice), "{:?}", keys[at]);
        };
        self.db().multi_get(&asked, shown).unwrap();
    }

    /// Random moves of a cursor, with turns.
    fn walk(&self, mut iter: Iter, model: &Model, draw: &mut Draw) {
        let own = |row: Option<(&Vec<u8>, &Vec<u8>)>| row.map(|(k, v)| (k.clone(), v.clone()));
        iter.seek(b"key30").unwrap();
        let mut place = own(model.range(b"key30".to_vec()..).next());
        for _ in 0..60 {
            let found = iter.entry().map(|(key, value)| (key.to_vec(), value.to_vec()));
            assert_eq!(found, place);
            let Some((at, _)) = place else { break };
            place = if draw.below(2) == 0 {
                iter.next().unwrap();
                own(model.range(at..).nth(1))
            } else {
                iter.prev().unwrap();
                own(model.range(..at).next_back())
            };
        }
    }

    fn step(&mut self, draw: &mut Draw, round: usize) {
        match draw.below(100) {
            0..50 => self.write(draw, round),
            50..68 => self.read(draw),
            68..72 => drop(self.now.fetch_add(draw.below(60) as u64, Ordering::SeqCst)),
            72..80 => {
                let expected = shown(&self.keys, self.time());
                assert_eq!(forward(self.db().iter().unwrap()), expected);
                assert_eq!(backward(self.db().iter().unwrap()), expected);
                self.walk(self.db().iter().unwrap(), &expected, draw);
                let keys: Vec<_> = self.db().range(..).keys().rev().map(Result::unwrap).collect();
                assert!(keys.iter().rev().eq(expected.keys()));
            }
            80..84 if self.snapshots.len() < 4 => {
                let expected = shown(&self.keys, self.time());
                self.snapshots.push((self.db().snapshot(), expected));
            }
            80..88 if !self.snapshots.is_empty() => {
                let at = draw.below(self.snapshots.len());
                let (snapshot, then) = &self.snapshots[at];
                let key = key(draw);
                let found = self.db().get_at(snapshot, &key, <[u8]>::to_vec).unwrap();
                assert_eq!(found.as_ref(), then.get(&key), "{key:?}");
                assert_eq!(forward(self.db().iter_at(snapshot).unwrap()), *then);
                assert_eq!(backward(self.db().iter_at(snapshot).unwrap()), *then);
                if draw.below(3) == 0 {
                    self.snapshots.swap_remove(at);
                }
            }
            88..93 => self.db().flush().unwrap(),
            93..97 => self.db().compact_range(None, None).unwrap(),
            97 => self.reopen(draw),
            _ => {}
        }
    }

    fn reopen(&mut self, draw: &mut Draw) {
        self.snapshots.clear();
        let db = self.db.take().unwrap();
        if db.options().durability != Durability::None && draw.below(2) == 0 {
            let after = self.disk.crash_image(draw.next(), CrashPolicy::KeepAll);
            drop(db);
            self.disk = after;
        } else {
            db.close().unwrap();
            let report = verify(Arc::new(copy(&self.disk)), Path::new(DIR), &on_disk()).unwrap();
            assert!(report.is_sound(), "{:?}", report.findings);
        }
        self.db = Some(open(&self.disk, drawn(draw, &self.now)));
        assert_eq!(rows(self.db()), shown(&self.keys, self.time()));
    }
}

#[test]
fn every_answer_is_the_models_with_operands() {
    for seed in seeds() {
        let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
        let mut pair = Pair::new(&mut draw);
        for round in 0..1500 * factor() {
            pair.step(&mut draw, round);
        }
        assert_eq!(rows(pair.db()), shown(&pair.keys, pair.time()));
    }
}

fn one() -> [u8; 8] {
    1_i64.to_le_bytes()
}

fn number(value: Option<Vec<u8>>) -> i64 {
    i64::from_le_bytes(value.unwrap().try_into().unwrap())
}

/// A compaction makes one value of all operands, and keeps the moments that a snapshot sees.
#[test]
fn operands_become_a_value_but_for_a_snapshot() {
    let disk = MemFs::new();
    let db = open(&disk, idle().merge_operator(Counter));
    db.put(b"sum", &100_i64.to_le_bytes()).unwrap();
    db.compact_range(None, None).unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..5 {
        db.merge(b"sum", &one()).unwrap();
        db.flush().unwrap();
        snapshots.push(db.snapshot());
    }
    assert_eq!((number(db.get(b"sum").unwrap()), of_levels(&db, "entries")), (105, 6));
    db.compact_range(None, None).unwrap();
    for (snapshot, expected) in snapshots.iter().zip(101..) {
        let found = db.get_at(snapshot, b"sum", <[u8]>::to_vec).unwrap();
        assert_eq!(number(found), expected);
    }
    assert_eq!(of_levels(&db, "entries"), 5, "the first operand is in the value");
    snapshots.clear();
    db.compact_range(None, None).unwrap();
    assert_eq!((number(db.get(b"sum").unwrap()), of_levels(&db, "entries")), (105, 1));
}

/// A flush combines operands without their value.
#[test]
fn a_flush_combines_operands() {
    let db = open(&MemFs::new(), idle().merge_operator(Counter));
    for _ in 0..10 {
        db.merge(b"sum", &one()).unwrap();
    }
    assert_eq!(stat(&db, "memory_entries"), 10);
    db.flush().unwrap();
    assert_eq!((of_levels(&db, "entries"), number(db.get(b"sum").unwrap())), (1, 10));
}

#[test]
fn a_counter_in_memory_is_a_value_after_sixteen_operands() {
    let db = open(&MemFs::new(), idle().merge_operator(Counter));
    let snapshot = db.snapshot();
    for n in 1..=100 {
        db.merge(b"sum", &one()).unwrap();
        assert_eq!(number(db.get(b"sum").unwrap()), n);
    }
    assert_eq!(db.get_at(&snapshot, b"sum", <[u8]>::to_vec).unwrap(), None);
}

/// A counter that tells how many operands it was given at once, at most.
struct Counted(Arc<AtomicU64>);

impl MergeOperator for Counted {
    fn name(&self) -> &str {
        Counter.name()
    }

    fn merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.fetch_max(operands.len() as u64, Ordering::Relaxed);
        Counter.merge(key, existing, operands)
    }

    fn combine(&self, key: &[u8], first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        Counter.combine(key, first, second)
    }
}

#[test]
fn operands_on_a_value_that_expires_become_one() {
    let (most, now) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(1_000)));
    let time = Arc::clone(&now);
    let clock = Clock::Custom(Arc::new(move || time.load(Ordering::Relaxed)));
    let options = Options { clock, ..idle() }.merge_operator(Counted(Arc::clone(&most)));
    let db = open(&MemFs::new(), options);
    db.put_until(b"sum", &one(), 2_000).unwrap();
    for n in 2..=200 {
        db.merge(b"sum", &one()).unwrap();
        assert_eq!(number(db.get(b"sum").unwrap()), n);
    }
    assert!(most.load(Ordering::Relaxed) <= 17, "{most:?} operands at once");
    now.store(2_000, Ordering::Relaxed);
    assert_eq!(number(db.get(b"sum").unwrap()), 199, "they outlive the value");
}

/// Only what a range may show is put together, and read.
#[test]
fn a_range_reads_no_operands_outside_of_it() {
    let db = open(&MemFs::new(), idle().merge_operator(Counter));
    db.put(b"name", b"ada").unwrap();
    let transaction = db.transaction();
    transaction.merge(b"name", &one()).unwrap();
    transaction.merge(b"sum", &one()).unwrap();
    transaction.merge(b"total", &one()).unwrap();
    let shown: Vec<_> = transaction.range("s".."t").map(Result::unwrap).collect();
    assert_eq!(shown, [(b"sum".to_vec(), one().to_vec())]);
    assert!(transaction.range("a".."t").next().unwrap().is_err(), "the operand does not fit");
    drop(transaction);

    let transaction = db.transaction();
    transaction.merge(b"total", &one()).unwrap();
    assert_eq!(transaction.range("s".."t").count(), 0);
    db.merge(b"total", &one()).unwrap();
    transaction.commit().unwrap();
    assert_eq!(number(db.get(b"total").unwrap()), 2);
}

#[test]
fn a_table_with_operands_is_not_taken_in() {
    let disk = MemFs::new();
    let db = open(&disk, idle().merge_operator(Counter));
    // The first number of all, which tables from outside have as well.
    db.merge(b"sum", &one()).unwrap();
    db.flush().unwrap();
    let table = tables(&disk).pop().unwrap();
    let refused = db.ingest(&[table], IngestOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("a table of a store"), "{refused}");
}

#[test]
fn threads_that_merge_lose_no_operand() {
    let db = open(&MemFs::new(), idle().merge_operator(Counter));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| db.merge(b"sum", &one()).unwrap()));
        }
        scope.spawn(|| (0..5).for_each(|_| db.flush().unwrap()));
    });
    assert_eq!(number(db.get(b"sum").unwrap()), 2_000);
}

#[test]
fn transactions_that_merge_into_one_key_do_not_conflict_unless_they_read_it() {
    let db = open(&MemFs::new(), idle().merge_operator(Counter));
    let (blind, reader) = (db.transaction(), db.transaction());
    blind.merge(b"sum", &one()).unwrap();
    reader.merge(b"sum", &one()).unwrap();
    assert_eq!(number(reader.get(b"sum").unwrap()), 1);
    db.merge(b"sum", &one()).unwrap();
    blind.commit().unwrap();
    assert!(matches!(reader.commit(), Err(Error::Conflict { key, .. }) if key == b"sum"));
    assert_eq!(number(db.get(b"sum").unwrap()), 2);
    let locked = db.transaction();
    locked.merge(b"sum", &one()).unwrap();
    assert_eq!(number(locked.get_for_update(b"sum").unwrap()), 3);
    locked.commit().unwrap();
    assert_eq!(number(db.get(b"sum").unwrap()), 3);
}

#[test]
fn key_spaces_have_operands() {
    let fs = Arc::new(MemFs::new());
    let options = idle().merge_operator(SetUnion);
    let spaces = Spaces::open_in(fs, Path::new(DIR), options, &[]).unwrap();
    let users = spaces.create("users", &Comparator::Bytewise).unwrap();
    let others = spaces.create("others", &Comparator::Bytewise).unwrap();
    users.merge(b"tags", &SetUnion::encode(["b"])).unwrap();
    let mut batch = SpacesBatch::new();
    batch.merge(&users, b"tags", &SetUnion::encode(["a"]));
    batch.merge(&others, b"tags", &SetUnion::encode(["c"]));
    spaces.write(&batch, WriteOptions::default()).unwrap();
    let transaction = spaces.transaction();
    transaction.merge(&users, b"tags", &SetUnion::encode(["b", "d"])).unwrap();
    transaction.commit().unwrap();
    assert_eq!(users.get(b"tags").unwrap().unwrap(), SetUnion::encode(["a", "b", "d"]));
    assert_eq!(others.get(b"tags").unwrap().unwrap(), SetUnion::encode(["c"]));
}

/// The largest operand wins. Combines nothing, and panics on request.
struct Largest;

impl MergeOperator for Largest {
    fn name(&self) -> &str {
        "test.largest"
    }

    fn merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        assert!(!operands.contains(&&b"panic"[..]), "as it was told");
        existing.into_iter().chain(operands.iter().copied()).max().map(<[u8]>::to_vec)
    }
}

#[test]
fn a_store_with_operands_opens_with_their_operator_alone() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    let refused = db.merge(b"key", b"5").unwrap_err().to_string();
    assert!(refused.contains("merge_operator"), "{refused}");
    let mut batch = Batch::new();
    batch.merge(b"key", b"5");
    assert!(matches!(db.write(&batch, WriteOptions::default()), Err(Error::Usage(_))));
    assert!(matches!(db.transaction().merge(b"key", b"5"), Err(Error::Usage(_))));
    assert!(rows(&db).is_empty());
    drop(db);
    // An operator that nobody has used is not kept.
    drop(open(&disk, idle().merge_operator(Counter)));
    let db = open(&disk, idle().merge_operator(Largest));
    for operand in ["5", "7", "6"] {
        db.merge(b"key", operand.as_bytes()).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(of_levels(&db, "entries"), 3, "nothing was combined");
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"7");
    drop(db);
    for options in [idle(), idle().merge_operator(Counter)] {
        let refused = try_open(&disk, options).unwrap_err().to_string();
        assert!(refused.contains("'test.largest'"), "{refused}");
    }
    let report = verify(Arc::new(copy(&disk)), Path::new(DIR), &idle()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(rows(&open(&disk, idle().merge_operator(Largest))).len(), 1);
}

#[test]
fn operands_that_do_not_fit_are_an_error_of_their_key_alone() {
    let disk = MemFs::new();
    let db = open(&disk, idle().merge_operator(Counter));
    db.put(b"name", b"ada").unwrap();
    assert!(matches!(db.merge(b"name", &one()), Err(Error::Usage(_))), "the value is at hand");
    db.flush().unwrap();
    db.merge(b"name", &one()).unwrap();
    db.merge(b"sum", &one()).unwrap();
    db.compact_range(None, None).unwrap();
    let refused = db.get(b"name").unwrap_err().to_string();
    assert!(refused.contains("'keyrack.counter'") && refused.contains("'name'"), "{refused}");
    assert_eq!(number(db.get(b"sum").unwrap()), 1);
    assert!(walk(db.iter().unwrap()).is_err());
    db.put(b"name", &one()).unwrap();
    assert_eq!(rows(&db).len(), 2);
}

#[test]
fn a_panic_of_the_operator_in_a_compaction_makes_the_store_read_only_with_its_name() {
    let db = open(&MemFs::new(), idle().merge_operator(Largest));
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    db.merge(b"key", b"panic").unwrap();
    let failed = db.compact_range(None, None).unwrap_err().to_string();
    assert!(failed.contains("'test.largest' has panicked"), "{failed}");
    assert!(db.put(b"other", b"").unwrap_err().to_string().contains("'test.largest'"));
}

#[test]
fn a_repair_without_a_manifest_keeps_operands() {
    let disk = MemFs::new();
    let db = open(&disk, idle().merge_operator(Counter));
    db.put(b"sum", &one()).unwrap();
    db.flush().unwrap();
    db.merge(b"sum", &one()).unwrap();
    db.flush().unwrap();
    db.merge(b"sum", &one()).unwrap();
    db.close().unwrap();
    for entry in disk.list(Path::new(DIR)).unwrap() {
        if entry.name.to_string_lossy().starts_with("MANIFEST") || entry.name == "CURRENT" {
            disk.remove_file(&Path::new(DIR).join(&entry.name)).unwrap();
        }
    }
    repair(Arc::new(disk.clone()), Path::new(DIR), &idle()).unwrap();
    let refused = try_open(&disk, idle()).unwrap_err().to_string();
    assert!(refused.contains("holds operands"), "{refused}");
    let db = open(&disk, idle().merge_operator(Counter));
    assert_eq!(number(db.get(b"sum").unwrap()), 3);
    drop(db);
    assert_eq!(number(open(&disk, idle()).get(b"sum").unwrap()), 3, "the name is kept again");
}

/// A flush writes operands under the number of the newest one. The log has the older ones.
#[test]
fn a_table_that_comes_back_from_the_log_has_all_operands() {
    let disk = MemFs::new();
    let db = open(&disk, idle().merge_operator(Counter));
    db.put(b"other", b"").unwrap();
    db.merge(b"sum", &one()).unwrap();
    db.flush().unwrap();
    let before = tables(&disk);
    for _ in 0..3 {
        db.merge(b"sum", &one()).unwrap();
    }
    db.put(b"total", &one()).unwrap();
    db.merge(b"total", &one()).unwrap();
    db.flush().unwrap();
    let newest: Vec<_> = tables(&disk).into_iter().filter(|it| !before.contains(it)).collect();
    assert_eq!(newest.len(), 1);
    let killed = copy(&disk);
    drop(db);
    killed.remove_file(&newest[0]).unwrap();
    let report = repair(Arc::new(killed.clone()), Path::new(DIR), &idle()).unwrap();
    let is_from_log = report.losses.iter().any(|it| it.to_string().contains("from the log"));
    let db = open(&killed, idle().merge_operator(Counter));
    assert!(is_from_log, "{report:?}");
    assert_eq!(number(db.get(b"sum").unwrap()), 4, "{report:?}");
    assert_eq!(number(db.get(b"total").unwrap()), 2);
}

/// With a table damaged and no manifest, the log comes back over tables that have its operands.
#[test]
fn operands_of_the_log_do_not_hide_the_value_that_they_are_in() {
    let disk = MemFs::new();
    let options = || Options { segment_bytes: 64 << 10, ..idle() }.merge_operator(Counter);
    let db = open(&disk, options());
    db.put(b"sum", &100_i64.to_le_bytes()).unwrap();
    (0..300_u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 1000]).unwrap());
    db.compact_range(None, None).unwrap();
    for _ in 0..2 {
        db.merge(b"sum", &one()).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let before = tables(&disk);
    db.put(b"zz", b"last").unwrap();
    db.flush().unwrap();
    let newest: Vec<_> = tables(&disk).into_iter().filter(|it| !before.contains(it)).collect();
    assert_eq!(newest.len(), 1);
    let killed = copy(&disk);
    drop(db);
    for entry in killed.list(Path::new(DIR)).unwrap() {
        if entry.name.to_string_lossy().starts_with("MANIFEST") || entry.name == "CURRENT" {
            killed.remove_file(&Path::new(DIR).join(&entry.name)).unwrap();
        }
    }
    (0..200).step_by(20).for_each(|at| flip(&killed, &newest[0], at));
    let report = repair(Arc::new(killed.clone()), Path::new(DIR), &idle()).unwrap();
    let is_said = report.losses.iter().any(|it| it.to_string().contains("operands"));
    assert!(is_said, "{report:?}");
    let db = open(&killed, options());
    assert_eq!(db.get(b"zz").unwrap().unwrap(), b"last");
    assert_eq!(number(db.get(b"sum").unwrap()), 102, "{report:?}");
}

/// A compaction with many tables below is done in parts, which readers and crashes see one by one.
/// Between two of them an operand would lie above a value that it is part of already.
#[test]
fn a_crash_in_a_compaction_counts_no_operand_twice() {
    let options =
        || Options { table_bytes: 2 << 10, block_bytes: 256, ..idle() }.merge_operator(Counter);
    let name = |n: i64| format!("key{n:04}").into_bytes();
    let before = MemFs::new();
    let db = open(&before, options());
    let mut model = Model::new();
    for n in 0..600 {
        db.put(&name(n), &n.to_le_bytes()).unwrap();
        model.insert(name(n), n.to_le_bytes().to_vec());
    }
    db.compact_range(None, None).unwrap();
    assert!(stat(&db, "level6_tables") > 6);
    for n in (0..600).step_by(3) {
        db.merge(&name(n), &7_i64.to_le_bytes()).unwrap();
        model.insert(name(n), (n + 7).to_le_bytes().to_vec());
    }
    db.flush().unwrap();
    drop(db);
    let mut draw = Draw::new(9);
    // The entries of the tables after each crash: before the compaction each operand is one.
    let mut seen = BTreeSet::new();
    for at in (1..).step_by(2) {
        let disk = copy(&before);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(&fs, options());
        fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut).only(&CHANGES));
        let done = db.compact_range(None, None);
        let is_over = fs.injected() == 0;
        assert!(done.is_ok() || !is_over, "{done:?}");
        drop(db);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let again = open(&disk.crash_image(draw.next(), policy), options());
            assert_eq!(rows(&again), model, "{at}");
            assert_eq!(backward(again.iter().unwrap()), model, "{at}");
            seen.extend((!is_over).then(|| of_levels(&again, "entries")));
            again.compact_range(None, None).unwrap();
            assert_eq!((rows(&again).len(), of_levels(&again, "entries")), (600, 600), "{at}");
        }
        if is_over {
            break;
        }
    }
    // Crashes came before the first edit of the compaction and after the last one. How many changes
    // of the disk lie between them is up to the threads.
    assert!(seen.contains(&800) && seen.contains(&600), "{seen:?}");
}
