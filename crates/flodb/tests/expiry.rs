//! Values that expire, under a clock that the test moves: who sees them and until when, what
//! compactions make of them, and what each file says.

use crate::disk::{copy, flip, options as on_disk, tables};
use crate::support::{DIR, Model, idle, of_levels, open, rows, stat, try_open, walk};
use keyrack_flodb::{
    Batch, Change, Clock, Comparator, Counter, Db, Durability, Error, Expiry, IngestOptions, Iter,
    Options, Snapshot, Spaces, SpacesBatch, SstWriter, WriteOptions, dump, repair, verify,
};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that the test moves.
#[derive(Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn new() -> Self {
        Time(Arc::new(AtomicU64::new(10_000)))
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let time = self.clone();
        Clock::Custom(Arc::new(move || time.now()))
    }
}

fn idle_by(time: &Time) -> Options {
    Options { clock: time.clock(), ..idle() }
}

/// Each key with its value and its expiry.
type Kept = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// What is there at a time.
fn living(kept: &Kept, now: u64) -> Model {
    let living = kept.iter().filter(|(_, (_, until))| until.is_none_or(|until| until > now));
    living.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
}

fn backward(mut iter: Iter) -> Model {
    let mut rows = Model::new();
    iter.seek_last().unwrap();
    while let Some((key, value)) = iter.entry() {
        let before = rows.insert(key.to_vec(), value.to_vec());
        assert!(before.is_none(), "a key comes twice");
        iter.prev().unwrap();
    }
    rows
}

fn forward(iter: Iter) -> Model {
    walk(iter).unwrap().into_iter().collect()
}

/// A store, what it should hold, and snapshots with what they should show.
struct Pair {
    disk: MemFs,
    db: Option<Db>,
    time: Time,
    kept: Kept,
    snapshots: Vec<(Snapshot, Model)>,
}

fn drawn(draw: &mut Draw, time: &Time) -> Options {
    Options {
        durability: [Durability::Os, Durability::None, Durability::Sync][draw.below(3)],
        memtable_bytes: 64 << 10,
        unordered_max: [1, 16, 1000][draw.below(3)],
        hash_level: draw.below(4) > 0,
        segment_bytes: 256 << 10,
        block_bytes: [64, 500, 4096][draw.below(3)],
        blob_bytes_min: [0, 1024][draw.below(2)],
        cache_bytes: [0, 1 << 20][draw.below(2)],
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 64 << 10,
        compaction_threads: draw.below(2),
        clock: time.clock(),
        ..Options::default()
    }
}

fn key(draw: &mut Draw) -> Vec<u8> {
    format!("key{:03}", draw.below(250)).into_bytes()
}

fn value(draw: &mut Draw, round: usize) -> Vec<u8> {
    let mut value = round.to_string().into_bytes();
    let len = [0, 20, 300, 2000][draw.below(4)];
    value.resize(len.max(value.len()), b'v');
    value
}

impl Pair {
    fn new(draw: &mut Draw) -> Self {
        let (disk, time) = (MemFs::new(), Time::new());
        let db = Some(open(&disk, drawn(draw, &time)));
        Pair { disk, db, time, kept: Kept::new(), snapshots: Vec::new() }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// A write of one key; says whether it was one of those that are meant.
    fn write(&mut self, draw: &mut Draw, round: usize) {
        let (key, value, now) = (key(draw), value(draw, round), self.time.now());
        let until = now + draw.below(400) as u64;
        let is_there = living(&self.kept, now).contains_key(&key);
        match draw.below(12) {
            0..2 => {
                self.db().put(&key, &value).unwrap();
                self.kept.insert(key, (value, None));
            }
            2..5 => {
                self.db().put_until(&key, &value, until).unwrap();
                self.kept.insert(key, (value, Some(until)));
            }
            5 => {
                let ttl = Duration::from_millis(until - now);
                self.db().put_with_ttl(&key, &value, ttl).unwrap();
                self.kept.insert(key, (value, Some(until)));
            }
            6 => {
                let ttl = Duration::from_millis(until - now);
                assert_eq!(self.db().expire(&key, ttl).unwrap(), is_there, "{key:?}");
                if is_there {
                    self.kept.get_mut(&key).unwrap().1 = Some(until);
                }
            }
            7 => {
                let until = is_there.then(|| self.kept[&key].1).flatten();
                assert_eq!(self.db().persist(&key).unwrap(), until.is_some(), "{key:?}");
                if is_there {
                    self.kept.get_mut(&key).unwrap().1 = None;
                }
            }
            8 => {
                self.db().delete(&key).unwrap();
                self.kept.remove(&key);
            }
            9 => {
                let expected = is_there.then(|| self.kept[&key].0.clone());
                let decide = |found: Option<&[u8]>| {
                    assert_eq!(found, expected.as_deref(), "{key:?}");
                    Change::Put(b"updated".to_vec())
                };
                self.db().update(&key, WriteOptions::default(), decide).unwrap();
                self.kept.insert(key, (b"updated".to_vec(), None));
            }
            10 => {
                let mut to = key.clone();
                to.push(b'~');
                self.db().delete_range(&key, &to).unwrap();
                self.kept.retain(|other, _| !(*other >= key && *other < to));
            }
            _ => self.write_many(draw, round),
        }
    }

    /// A batch, or the same in a transaction, which sees what it writes.
    fn write_many(&mut self, draw: &mut Draw, round: usize) {
        let (mut batch, transaction) = (Batch::new(), self.db().transaction());
        let is_transaction = draw.below(2) == 0;
        let mut kept = self.kept.clone();
        for _ in 0..draw.below(20) {
            let (key, value) = (key(draw), value(draw, round));
            let until = self.time.now() + draw.below(300) as u64;
            if draw.below(4) == 0 {
                batch.put(&key, &value);
                transaction.put(&key, &value).unwrap();
                kept.insert(key, (value, None));
            } else {
                batch.put_until(&key, &value, until);
                transaction.put_until(&key, &value, until).unwrap();
                kept.insert(key, (value, Some(until)));
            }
        }
        let expected = living(&kept, self.time.now());
        let asked = key(draw);
        assert_eq!(transaction.get(&asked).unwrap().as_ref(), expected.get(&asked));
        let mut iter = transaction.iter().unwrap();
        iter.seek_last().unwrap();
        for (key, value) in expected.iter().rev() {
            assert_eq!(iter.entry(), Some((&key[..], &value[..])));
            iter.prev().unwrap();
        }
        assert!(!iter.is_valid());
        drop(iter);
        if is_transaction {
            transaction.commit().unwrap();
        } else {
            self.db().write(&batch, WriteOptions::default()).unwrap();
        }
        self.kept = kept;
    }

    fn read(&self, draw: &mut Draw) {
        let expected = living(&self.kept, self.time.now());
        let key = key(draw);
        assert_eq!(self.db().get(&key).unwrap().as_ref(), expected.get(&key), "{key:?}");
        assert_eq!(self.db().contains_key(&key).unwrap(), expected.contains_key(&key));
        let until = expected.contains_key(&key).then(|| match self.kept[&key].1 {
            Some(until) => Expiry::At(until),
            None => Expiry::Never,
        });
        assert_eq!(self.db().expiry(&key).unwrap(), until, "{key:?}");
        let keys: Vec<Vec<u8>> = (0..20).map(|_| self::key(draw)).collect();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut seen = 0;
        let shown = |at: usize, value: Option<&[u8]>| {
            assert_eq!(value, expected.get(&keys[at]).map(Vec::as_slice), "{:?}", keys[at]);
            seen += 1;
        };
        self.db().multi_get(&asked, shown).unwrap();
        assert_eq!(seen, keys.len());
    }

    fn step(&mut self, draw: &mut Draw, round: usize) {
        match draw.below(100) {
            0..50 => self.write(draw, round),
            50..70 => self.read(draw),
            70..80 => self.time.pass(draw.below(60) as u64),
            80..84 => {
                let expected = living(&self.kept, self.time.now());
                let (up, down) = (self.db().iter().unwrap(), self.db().iter().unwrap());
                // An iterator has the clock of its beginning.
                self.time.pass(draw.below(20) as u64);
                assert_eq!(forward(up), expected);
                assert_eq!(backward(down), expected);
                let keys = self.db().range(..).keys().count();
                assert_eq!(keys, living(&self.kept, self.time.now()).len());
            }
            84..87 if self.snapshots.len() < 4 => {
                let expected = living(&self.kept, self.time.now());
                self.snapshots.push((self.db().snapshot(), expected));
            }
            84..91 if !self.snapshots.is_empty() => {
                let at = draw.below(self.snapshots.len());
                let (snapshot, then) = &self.snapshots[at];
                let (key, copy) = (key(draw), snapshot.clone());
                let found = self.db().get_at(&copy, &key, <[u8]>::to_vec).unwrap();
                assert_eq!(found.as_ref(), then.get(&key), "{key:?}");
                assert_eq!(forward(self.db().iter_at(snapshot).unwrap()), *then);
                assert_eq!(backward(self.db().iter_at(snapshot).unwrap()), *then);
                if draw.below(3) == 0 {
                    self.snapshots.swap_remove(at);
                }
            }
            91..94 => self.db().flush().unwrap(),
            94..97 => self.db().compact_range(None, None).unwrap(),
            97 => self.ingest(draw, round),
            98 if draw.below(3) == 0 => self.reopen(draw),
            _ => {}
        }
    }

    fn ingest(&mut self, draw: &mut Draw, round: usize) {
        let mut taken = Kept::new();
        for _ in 0..=draw.below(40) {
            let until = self.time.now() + draw.below(200) as u64;
            taken.insert(key(draw), (value(draw, round), (draw.below(3) > 0).then_some(until)));
        }
        let path = Path::new("/taken").join(round.to_string());
        self.disk.create_dir_all(Path::new("/taken")).unwrap();
        let mut writer = SstWriter::create(&self.disk, &path, &on_disk()).unwrap();
        for (key, (value, until)) in &taken {
            match until {
                Some(until) => writer.put_until(key, value, *until).unwrap(),
                None => writer.put(key, value).unwrap(),
            }
        }
        writer.finish().unwrap();
        self.db().ingest(&[path], IngestOptions::default()).unwrap();
        self.kept.extend(taken);
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
        self.db = Some(open(&self.disk, drawn(draw, &self.time)));
        assert_eq!(rows(self.db()), living(&self.kept, self.time.now()));
    }
}

#[test]
fn every_answer_is_the_models_while_time_passes() {
    for seed in seeds() {
        let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
        let mut pair = Pair::new(&mut draw);
        for round in 0..2000 * factor() {
            pair.step(&mut draw, round);
        }
        assert_eq!(rows(pair.db()), living(&pair.kept, pair.time.now()));
    }
}

/// What is to be seen at the moment, and what was before and after it.
#[test]
fn a_value_is_there_until_the_moment_and_not_at_it() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    for stage in 0..3 {
        db.put(b"key", b"older").unwrap();
        db.put_with_ttl(b"key", b"value", Duration::from_millis(100)).unwrap();
        match stage {
            0 => {}
            1 => db.flush().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
        time.pass(99);
        assert_eq!(db.get(b"key").unwrap().unwrap(), b"value");
        assert_eq!(db.expiry(b"key").unwrap(), Some(Expiry::At(time.now() + 1)));
        time.pass(1);
        assert_eq!(db.get(b"key").unwrap(), None, "and nothing older comes back");
        assert_eq!((db.first().unwrap(), db.last().unwrap()), (None, None));
        assert!(db.is_empty().unwrap() && !db.contains_key(b"key").unwrap());
    }
    // Whatever its source says, the clock of a store does not go back.
    time.0.store(1, Ordering::SeqCst);
    assert_eq!(db.get(b"key").unwrap(), None);
}

#[test]
fn a_snapshot_keeps_what_had_not_expired_and_compactions_leave_it() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    let end = time.now() + 50;
    for n in 0..500_u32 {
        db.put_until(&n.to_be_bytes(), &[7; 50], end).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let (snapshot, iter, transaction) = (db.snapshot(), db.iter().unwrap(), db.transaction());
    time.pass(50);
    db.compact_range(None, None).unwrap();
    assert!(rows(&db).is_empty());
    assert_eq!(of_levels(&db, "entries"), 500, "a snapshot sees them");
    assert_eq!(forward(db.iter_at(&snapshot).unwrap()).len(), 500);
    assert!(transaction.get(&7_u32.to_be_bytes()).unwrap().is_some());
    drop((snapshot, transaction));
    db.compact_range(None, None).unwrap();
    assert_eq!((of_levels(&db, "entries"), of_levels(&db, "tables")), (0, 0));
    assert_eq!(stat(&db, "expired_entries"), 500);
    assert_eq!(forward(iter).len(), 500, "an open iterator keeps what it sees");
}

#[test]
fn a_transaction_sees_the_expiries_of_its_own_writes_and_of_its_moment() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time).merge_operator(Counter));
    let number = |n: i64| n.to_le_bytes();
    let end = time.now() + 100;
    db.put_until(b"until", &number(1), end).unwrap();
    db.put(b"stays", &number(2)).unwrap();
    let transaction = db.transaction();
    let expiry = |key: &[u8]| transaction.expiry(key).unwrap();
    db.put_until(b"until", &number(9), end + 7).unwrap();
    assert_eq!(expiry(b"until"), Some(Expiry::At(end)), "that of its moment");
    assert_eq!((expiry(b"stays"), expiry(b"none")), (Some(Expiry::Never), None));
    // An operand leaves the expiry, in the store and in the transaction.
    transaction.merge(b"until", &number(5)).unwrap();
    assert_eq!(expiry(b"until"), Some(Expiry::At(end)));
    transaction.put_until(b"own", &number(3), end + 1).unwrap();
    transaction.merge(b"own", &number(4)).unwrap();
    assert_eq!(expiry(b"own"), Some(Expiry::At(end + 1)));
    assert!(transaction.persist(b"own").unwrap() && !transaction.persist(b"own").unwrap());
    assert_eq!(expiry(b"own"), Some(Expiry::Never));
    assert_eq!(transaction.get(b"own").unwrap().unwrap(), number(7));
    transaction.delete_range(b"own", b"p").unwrap();
    assert_eq!(expiry(b"own"), None);
    transaction.merge(b"own", &number(6)).unwrap();
    assert_eq!(expiry(b"own"), Some(Expiry::Never), "an operand on nothing");
    assert!(transaction.expire(b"own", Duration::from_millis(3)).unwrap());
    assert_eq!(expiry(b"own"), Some(Expiry::At(time.now() + 3)));
    assert!(!transaction.expire(b"none", Duration::from_millis(3)).unwrap());
    assert!(!transaction.persist(b"none").unwrap() && !transaction.persist(b"stays").unwrap());
}

/// The value is written again, so a change of it by somebody else must not be lost.
#[test]
fn a_new_expiry_in_a_transaction_conflicts_with_a_change_of_the_value() {
    use keyrack_flodb::{Isolation, Transaction, TransactionOptions};
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    type Act = fn(&Transaction) -> bool;
    let acts: [Act; 2] = [
        |transaction| transaction.expire(b"key", Duration::from_secs(9)).unwrap(),
        |transaction| transaction.persist(b"key").unwrap(),
    ];
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let options = TransactionOptions { isolation, ..TransactionOptions::default() };
        for act in acts {
            db.put_with_ttl(b"key", b"old", Duration::from_secs(5)).unwrap();
            let transaction = db.transaction_with(options);
            assert!(act(&transaction));
            db.put_with_ttl(b"key", b"new", Duration::from_secs(5)).unwrap();
            let committed = transaction.commit();
            assert!(matches!(committed, Err(Error::Conflict { .. })), "{committed:?}");
            assert_eq!(db.get(b"key").unwrap().unwrap(), b"new");
            let transaction = db.transaction_with(options);
            assert!(act(&transaction));
            transaction.commit().unwrap();
            assert_eq!(db.get(b"key").unwrap().unwrap(), b"new");
        }
    }
    // The answer "it stays" has to be true at the commit.
    db.put(b"key", b"stays").unwrap();
    let transaction = db.transaction();
    assert!(!transaction.persist(b"key").unwrap());
    transaction.put(b"other", b"1").unwrap();
    db.put_with_ttl(b"key", b"stays", Duration::from_secs(5)).unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
}

/// What has expired hides what is below it, until nothing is.
#[test]
fn an_expired_value_over_an_older_one_becomes_a_tombstone() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    for n in 0..300_u32 {
        db.put(&n.to_be_bytes(), b"old").unwrap();
    }
    db.compact_range(None, None).unwrap();
    for n in (0..300_u32).step_by(3) {
        db.put_with_ttl(&n.to_be_bytes(), b"new", Duration::from_millis(5)).unwrap();
    }
    time.pass(5);
    db.flush().unwrap();
    assert_eq!(stat(&db, "level0_entries"), 100);
    assert_eq!(rows(&db).len(), 200);
    db.compact_range(None, None).unwrap();
    assert_eq!((rows(&db).len(), of_levels(&db, "entries")), (200, 200));
    drop(db);
    assert_eq!(rows(&open(&disk, idle_by(&time))).len(), 200);
}

#[test]
fn the_clock_of_a_transaction_stands_still_when_it_moves_to_now() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    db.put_until(b"key", b"value", time.now() + 10).unwrap();
    let transaction = db.transaction();
    assert_eq!(transaction.get(b"key").unwrap().unwrap(), b"value");
    db.put(b"other", b"new").unwrap();
    time.pass(20);
    assert_eq!(transaction.get_for_update(b"other").unwrap().unwrap(), b"new");
    assert_eq!(transaction.get(b"key").unwrap().unwrap(), b"value");
    db.compact_range(None, None).unwrap();
    assert_eq!(transaction.get(b"key").unwrap().unwrap(), b"value", "no build has dropped it");
    transaction.put(b"mine", b"").unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.get(b"key").unwrap(), None);
}

/// The last moment of all is a moment.
#[test]
fn a_value_until_the_last_moment_has_an_expiry() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    db.put_with_ttl(b"key", b"value", Duration::MAX).unwrap();
    assert_eq!(db.expiry(b"key").unwrap(), Some(Expiry::At(u64::MAX)));
    assert!(db.persist(b"key").unwrap());
    assert_eq!(db.expiry(b"key").unwrap(), Some(Expiry::Never));
}

#[test]
fn operands_on_a_value_that_expires_leave_its_expiry() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time).merge_operator(Counter));
    let (ten, one) = (10_i64.to_le_bytes(), 1_i64.to_le_bytes());
    for is_flushed in [false, true] {
        let end = time.now() + 50;
        for key in [&b"persists"[..], b"expires"] {
            db.put_until(key, &ten, end).unwrap();
            db.merge(key, &one).unwrap();
        }
        if is_flushed {
            db.flush().unwrap();
        }
        assert_eq!(db.expiry(b"persists").unwrap(), Some(Expiry::At(end)));
        assert!(db.persist(b"persists").unwrap());
        assert_eq!(db.expiry(b"persists").unwrap(), Some(Expiry::Never));
        assert!(!db.persist(b"persists").unwrap());
        time.pass(50);
        assert_eq!(db.get(b"persists").unwrap().unwrap(), 11_i64.to_le_bytes());
        assert_eq!(db.get(b"expires").unwrap().unwrap(), one, "operands stay");
        assert_eq!(db.expiry(b"expires").unwrap(), Some(Expiry::Never));
    }
}

#[test]
fn key_spaces_have_values_that_expire() {
    let (disk, time) = (Arc::new(MemFs::new()), Time::new());
    let spaces = Spaces::open_in(disk, Path::new(DIR), idle_by(&time), &[]).unwrap();
    let users = spaces.create("users", &Comparator::Bytewise).unwrap();
    let others = spaces.create("others", &Comparator::Bytewise).unwrap();
    users.put_with_ttl(b"a", b"1", Duration::from_millis(10)).unwrap();
    others.put_until(b"a", b"2", time.now() + 20).unwrap();
    let mut batch = SpacesBatch::new();
    batch.put_until(&users, b"b", b"3", time.now() + 30);
    spaces.write(&batch, WriteOptions::default()).unwrap();
    let transaction = spaces.transaction();
    transaction.put_until(&others, b"c", b"4", time.now() + 10).unwrap();
    transaction.commit().unwrap();
    time.pass(10);
    assert_eq!((users.get(b"a").unwrap(), others.get(b"c").unwrap()), (None, None));
    assert_eq!(others.get(b"a").unwrap().unwrap(), b"2");
    assert_eq!(users.expiry(b"b").unwrap(), Some(Expiry::At(spaces.now_ms() + 20)));
    assert!(users.persist(b"b").unwrap() && !users.persist(b"b").unwrap());
    assert!(others.expire(b"a", Duration::from_millis(5)).unwrap());
    time.pass(5);
    assert_eq!((users.range(..).count(), others.range(..).count()), (1, 0));
}

#[test]
fn the_manifest_says_so_before_the_first_value_that_expires() {
    let (disk, time) = (MemFs::new(), Time::new());
    let says = |disk: &MemFs| {
        let edits = disk.list(Path::new(DIR)).unwrap().into_iter().find_map(|entry| {
            let name = entry.name.to_string_lossy().into_owned();
            name.starts_with("MANIFEST").then(|| Path::new(DIR).join(name))
        });
        let mut found = false;
        dump(disk, &edits.unwrap(), &mut |item| {
            found |= format!("{item:?}").contains("may expire");
            true
        })
        .unwrap();
        found
    };
    let db = open(&disk, idle_by(&time));
    db.put(b"key", b"value").unwrap();
    assert!(!says(&disk), "earlier programs go on with the store");
    db.put_until(b"key", b"value", u64::MAX).unwrap();
    let after = disk.crash_image(1, CrashPolicy::KeepAll);
    assert!(says(&disk) && says(&after));
    drop(db);
    drop(open(&after, idle_by(&time)));
    assert!(says(&after), "and the next manifest, too");
}

#[test]
fn a_read_only_opening_a_checkpoint_and_a_repair_have_the_expiries() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    db.put(b"stays", b"1").unwrap();
    db.put_until(b"goes", b"2", time.now() + 10).unwrap();
    db.checkpoint(Path::new("/copy")).unwrap();
    db.flush().unwrap();
    db.put_until(b"in the log", b"3", time.now() + 10).unwrap();
    db.close().unwrap();
    let read = || {
        let fs = Arc::new(disk.clone());
        rows(&Db::open_read_only_in(fs, Path::new(DIR), idle_by(&time)).unwrap())
    };
    assert_eq!(read().len(), 3);
    let fs = Arc::new(disk.clone());
    let copied = Db::open_in(fs, Path::new("/copy"), idle_by(&time)).unwrap();
    assert_eq!(copied.expiry(b"goes").unwrap(), Some(Expiry::At(time.now() + 10)));
    // Without manifests.
    for entry in disk.list(Path::new(DIR)).unwrap() {
        if entry.name.to_string_lossy().starts_with("MANIFEST") || entry.name == "CURRENT" {
            disk.remove_file(&Path::new(DIR).join(&entry.name)).unwrap();
        }
    }
    repair(Arc::new(disk.clone()), Path::new(DIR), &idle_by(&time)).unwrap();
    assert_eq!(read().len(), 3);
    time.pass(10);
    assert_eq!(read().len(), 1);
    let db = open(&disk, idle_by(&time));
    db.compact_range(None, None).unwrap();
    assert_eq!((rows(&db).len(), of_levels(&db, "entries")), (1, 1));
    assert_eq!(rows(&copied).len(), 1);
}

/// Any byte of a table is damaged: an error or the right answer, never another expiry.
#[test]
fn damage_is_no_other_expiry() {
    let (disk, time) = (MemFs::new(), Time::new());
    let db = open(&disk, idle_by(&time));
    for n in 0..20_u8 {
        db.put_until(&[n], b"value", time.now() + 10 * u64::from(n)).unwrap();
    }
    db.flush().unwrap();
    let expected = rows(&db);
    db.close().unwrap();
    let table = tables(&disk).remove(0);
    for at in 0..disk.read(&table).unwrap().len() {
        let damaged = copy(&disk);
        flip(&damaged, &table, at);
        let found = try_open(&damaged, idle_by(&time)).and_then(|db| walk(db.iter()?));
        match found {
            Ok(found) => assert_eq!(found.into_iter().collect::<Model>(), expected, "{at}"),
            Err(Error::Corruption { .. } | Error::Usage(_)) => {}
            Err(error) => panic!("{at}: {error}"),
        }
    }
}
