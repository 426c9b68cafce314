//! Random histories of the store, for a checker of isolation; and histories with bugs that are
//! planted here, which the checker must find.
//!
//! ```text
//!   threads      transactions over few keys, lists as values, row locks now and then
//!   beside       plain updates of the same lists, flushes, compactions, images of the disk
//!   afterwards   the history is checked; each image is opened, and its lists must be those of a
//!                moment of the history, with all that was acknowledged and synced
//! ```

use super::{Isolation, Transaction, TransactionOptions};
use crate::db::{Checks, Db};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::{Change, Comparator, Compression, Durability, Spaces, WriteOptions};
use keyrack_testkit::isolation::{
    self, Event, Kind, Level, Outcome, Step, Violation, check, draw_steps,
};
use keyrack_testkit::random::{Announced, Draw, factor, seeds_or};
use keyrack_vfs::{CrashPolicy, MemFs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const KEYS: u64 = 6;
const THREADS: u64 = 4;

/// What is done wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    UncheckedReads,
    LateSnapshot,
    SplitCommit,
}

fn options() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 32 << 10,
        cache_bytes: 0,
        compression: vec![Compression::None],
        ..Options::default()
    }
}

fn open(fs: &MemFs, options: Options) -> Db {
    Db::open_in(Arc::new(fs.clone()), Path::new("/store"), options).unwrap()
}

fn key_of(list: u64) -> Vec<u8> {
    format!("list{list}").into_bytes()
}

fn decode(value: &[u8]) -> Vec<u64> {
    let (words, rest) = value.as_chunks::<8>();
    assert!(rest.is_empty(), "a list is whole");
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn encode(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_le_bytes()).collect()
}

fn read_all(transaction: &Transaction, is_upward: bool) -> Result<Vec<Event>> {
    let mut lists = vec![Vec::new(); KEYS as usize];
    let mut iter = transaction.iter()?;
    if is_upward {
        iter.seek(b"list")?;
    } else {
        iter.seek_back(b"list~")?;
    };
    while let Some((key, value)) = iter.entry() {
        let Some(list) = key.strip_prefix(b"list") else { break };
        let list: usize = std::str::from_utf8(list).unwrap().parse().unwrap();
        lists[list] = decode(value);
        if is_upward {
            iter.next()?;
        } else {
            iter.prev()?;
        };
    }
    Ok((0..).zip(lists).map(|(key, elements)| Event::Read { key, elements }).collect())
}

/// A history while it is made.
struct Run {
    db: Db,
    isolation: Isolation,
    is_synced: bool,
    bug: Option<Bug>,
    moments: AtomicU64,
    elements: AtomicU64,
    history: Mutex<Vec<isolation::Transaction>>,
}

impl Run {
    fn new(db: Db, (isolation, bug): (Isolation, Option<Bug>), is_synced: bool) -> Self {
        Run {
            db,
            isolation,
            is_synced,
            bug,
            moments: AtomicU64::new(0),
            elements: AtomicU64::new(1),
            history: Mutex::default(),
        }
    }

    fn now(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn element(&self) -> u64 {
        self.elements.fetch_add(1, Ordering::Relaxed)
    }

    fn push(&self, events: Vec<Event>, outcome: Outcome, begun: u64) {
        let transaction = isolation::Transaction { events, outcome, begun, ended: self.now() };
        self.history.lock().unwrap().push(transaction);
    }

    fn transact(&self, draw: &mut Draw) {
        let steps = draw_steps(draw, KEYS);
        let begun = self.now();
        let write = WriteOptions { sync: self.is_synced };
        let transaction =
            self.db.transaction_with(TransactionOptions { isolation: self.isolation, write });
        let mut events = Vec::new();
        let done = steps.into_iter().try_for_each(|step| {
            if self.bug == Some(Bug::LateSnapshot) {
                transaction.state.borrow_mut().snapshot = self.db.snapshot();
            }
            if self.bug.is_some() {
                thread::yield_now();
            }
            self.step(&transaction, step, draw, &mut events)
        });
        let done = done.and_then(|()| self.commit(transaction));
        let outcome = match done {
            Ok(()) => Outcome::Committed,
            Err(Error::Conflict { .. } | Error::Deadlock { .. }) => Outcome::Aborted,
            Err(error) => panic!("{error}"),
        };
        self.push(events, outcome, begun);
    }

    fn step(
        &self,
        transaction: &Transaction,
        step: Step,
        draw: &mut Draw,
        events: &mut Vec<Event>,
    ) -> Result<()> {
        let list = |value: Option<Vec<u8>>| value.map_or_else(Vec::new, |value| decode(&value));
        match step {
            Step::Read(key) => {
                let elements = list(transaction.get(&key_of(key))?);
                events.push(Event::Read { key, elements });
            }
            Step::Scan => events.extend(read_all(transaction, draw.one_in(2))?),
            Step::Append(key) => {
                let is_locked = self.bug.is_none() && draw.one_in(4);
                let found = if is_locked {
                    transaction.get_for_update(&key_of(key))?
                } else {
                    transaction.get(&key_of(key))?
                };
                let mut elements = list(found);
                events.push(Event::Read { key, elements: elements.clone() });
                let element = self.element();
                elements.push(element);
                transaction.save_point();
                transaction.put(&key_of(key), b"given up")?;
                transaction.roll_back_to_save_point()?;
                transaction.put(&key_of(key), &encode(&elements))?;
                events.push(Event::Append { key, element });
            }
        }
        Ok(())
    }

    fn commit(&self, transaction: Transaction) -> Result<()> {
        if self.bug.is_some() {
            thread::yield_now();
        }
        match self.bug {
            None => transaction.commit(),
            Some(Bug::LateSnapshot) => {
                transaction.state.borrow_mut().snapshot = self.db.snapshot();
                transaction.commit()
            }
            Some(Bug::UncheckedReads) => {
                let state = transaction.state.borrow();
                self.db.write(state.sets.writes.batch(), WriteOptions::default())
            }
            Some(Bug::SplitCommit) => {
                let mut state = transaction.state.borrow_mut();
                let rest: Vec<(Vec<u8>, Vec<u8>)> = state
                    .sets
                    .writes
                    .batch()
                    .writes()
                    .skip(1)
                    .map(|write| (write.key.to_vec(), write.value.to_vec()))
                    .collect();
                state.sets.writes.truncate(1, &Comparator::Bytewise);
                let are_writes_checked = !transaction.keeps_reads();
                let checks = Checks::of(&state.sets.reads, &state.sets.writes, are_writes_checked);
                let since = state.snapshot.pinned.sequence();
                self.db.inner().commit(&checks, since, WriteOptions::default())?;
                for (key, value) in rest {
                    thread::yield_now();
                    self.db.put(&key, &value)?;
                }
                Ok(())
            }
        }
    }

    /// A write without a transaction, which is one of a single step all the same.
    fn update(&self, draw: &mut Draw) {
        let (key, element, begun) = (draw.below(KEYS), self.element(), self.now());
        let options = WriteOptions { sync: self.is_synced };
        let append = |found: Option<&[u8]>| {
            let mut list = found.map_or_else(Vec::new, decode);
            list.push(element);
            Change::Put(encode(&list))
        };
        self.db.update(&key_of(key), options, append).unwrap();
        self.push(vec![Event::Append { key, element }], Outcome::Committed, begun);
    }

    /// All lists as they are now, as the last transaction of the history.
    fn finish(self) -> (Vec<isolation::Transaction>, Db) {
        let begun = self.now();
        let events = read_all(&self.db.transaction(), true).unwrap();
        self.push(events, Outcome::Committed, begun);
        (self.history.into_inner().unwrap(), self.db)
    }
}

/// An image of the disk, and the moment before which everything returned that it must have.
struct Image {
    disk: MemFs,
    taken: u64,
    is_kill: bool,
    what: String,
}

fn run(
    seed: u64,
    (isolation, bug): (Isolation, Option<Bug>),
    options: Options,
    is_synced: bool,
) -> (Vec<isolation::Transaction>, Vec<Image>) {
    let disk = MemFs::new();
    let db = open(&disk, options);
    let run = Run::new(db, (isolation, bug), is_synced);
    let mut images = Vec::new();
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut draw = Draw::new(seed ^ thread << 40);
                    for _ in 0..60 {
                        match draw.below(12) {
                            0 if bug.is_none() => run.update(&mut draw),
                            1 => run.db.put(&draw.bytes(6), &draw.bytes(300)).unwrap(),
                            _ => run.transact(&mut draw),
                        }
                    }
                })
            })
            .collect();
        let mut draw = Draw::new(seed);
        while threads.iter().any(|thread| !thread.is_finished()) {
            match draw.below(3) {
                0 => run.db.flush().unwrap(),
                1 => run.db.compact_range(None, None).unwrap(),
                _ if images.len() < 4 && bug.is_none() => {
                    let taken = run.now();
                    let policy = *draw.one_of(&[
                        CrashPolicy::DropAll,
                        CrashPolicy::Ordered,
                        CrashPolicy::Reordered,
                    ]);
                    let is_kill = draw.one_in(2);
                    let disk = if is_kill {
                        disk.process_crash_image()
                    } else {
                        disk.crash_image(draw.next(), policy)
                    };
                    let what = format!("{policy:?}, kill: {is_kill}, at {taken}");
                    images.push(Image { disk, taken, is_kill, what });
                }
                _ => thread::yield_now(),
            }
        }
    });
    let (history, db) = run.finish();
    db.close().unwrap();
    (history, images)
}

fn level(isolation: Isolation) -> Level {
    match isolation {
        Isolation::Serializable => Level::Serializable,
        Isolation::Snapshot => Level::Snapshot,
    }
}

/// The history that an image must be the end of: what had returned has happened, what had not is
/// unknown, and the last transaction reads all that is there.
fn with_image(
    history: &[isolation::Transaction],
    image: &Image,
    is_kept: bool,
) -> Vec<isolation::Transaction> {
    let mut history = history.to_vec();
    for transaction in &mut history {
        if transaction.outcome == Outcome::Committed
            && (transaction.ended > image.taken || !is_kept)
        {
            transaction.outcome = Outcome::Unknown;
            transaction.ended = u64::MAX;
        }
    }
    let db = open(&image.disk, options());
    let events = read_all(&db.transaction(), true).unwrap();
    let (outcome, begun, ended) = (Outcome::Committed, image.taken, u64::MAX);
    history.push(isolation::Transaction { events, outcome, begun, ended });
    history
}

fn conflicts(history: &[isolation::Transaction]) -> usize {
    history.iter().filter(|transaction| transaction.outcome == Outcome::Aborted).count()
}

fn assert_sound(history: &[isolation::Transaction], isolation: Isolation, what: &str) {
    let found: Vec<Violation> = check(history, level(isolation));
    for violation in &found {
        for at in &violation.transactions {
            println!("T{at} {:?}", history[*at]);
        }
    }
    assert!(found.is_empty(), "{what}: {found:?}");
}

/// With kills and power losses.
#[test]
fn histories_are_as_isolated_as_promised() {
    let mut aborted = [0, 0];
    for seed in seeds_or(1..=30 * factor() as u64) {
        let _announced = Announced(seed);
        for isolation in [Isolation::Serializable, Isolation::Snapshot] {
            let (durability, is_synced) = match seed % 3 {
                0 => (Durability::Sync, false),
                1 => (Durability::Os, true),
                _ => (Durability::Os, false),
            };
            let unordered_max = if seed % 2 == 0 { 4 } else { 1000 };
            let hash_level = seed % 5 != 0;
            let options = Options { durability, unordered_max, hash_level, ..options() };
            let (history, images) = run(seed, (isolation, None), options, is_synced);
            assert_sound(&history, isolation, "at the end");
            aborted[usize::from(isolation == Isolation::Snapshot)] += conflicts(&history);
            for image in &images {
                let is_kept = image.is_kill || is_synced || durability == Durability::Sync;
                let history = with_image(&history, image, is_kept);
                assert_sound(&history, isolation, &image.what);
            }
        }
    }
    assert!(aborted.iter().all(|aborted| *aborted > 0), "nobody met anybody: {aborted:?}");
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::UncheckedReads, Bug::LateSnapshot, Bug::SplitCommit] {
        for isolation in [Isolation::Serializable, Isolation::Snapshot] {
            let is_found = |seed: u64| {
                let (history, _) = run(seed, (isolation, Some(bug)), options(), false);
                !check(&history, level(isolation)).is_empty()
            };
            assert!((1..=20).any(is_found), "{bug:?} {isolation:?}");
        }
    }
}

fn kinds(history: &[isolation::Transaction], isolation: Isolation) -> Vec<Kind> {
    check(history, level(isolation)).into_iter().map(|found| found.kind).collect()
}

/// Two transactions append to a list as it was before both, and the last one wins.
#[test]
fn a_planted_lost_update_is_found() {
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let db = open(&MemFs::new(), options());
        let run = Run::new(db, (isolation, Some(Bug::UncheckedReads)), false);
        let mut draw = Draw::new(1);
        let mut start = || {
            let begun = run.now();
            let options = TransactionOptions { isolation, ..TransactionOptions::default() };
            let (transaction, mut events) = (run.db.transaction_with(options), Vec::new());
            run.step(&transaction, Step::Append(1), &mut draw, &mut events).unwrap();
            (transaction, events, begun)
        };
        for (transaction, events, begun) in [start(), start()] {
            run.commit(transaction).unwrap();
            run.push(events, Outcome::Committed, begun);
        }
        let (history, _) = run.finish();
        assert_eq!(kinds(&history, isolation), [Kind::LostWrite]);
    }
}

/// A commit that counts as durable, and was never synced, is not in the image of a power loss.
#[test]
fn a_planted_lost_commit_is_found() {
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        for is_synced in [true, false] {
            let disk = MemFs::new();
            let db = open(&disk, Options { durability: Durability::Os, ..options() });
            let run = Run::new(db, (isolation, None), is_synced);
            for seed in 0..4 {
                run.update(&mut Draw::new(seed));
            }
            let taken = run.now();
            let disk = disk.crash_image(1, CrashPolicy::DropAll);
            let image = Image { disk, taken, is_kill: false, what: String::new() };
            let (history, _) = run.finish();
            let history = with_image(&history, &image, true);
            let lost = if is_synced { 0 } else { 4 };
            assert_eq!(kinds(&history, isolation), vec![Kind::LostWrite; lost]);
        }
    }
}

/// The lists of a value, in a store whose keys have prefixes, and with a scan of one of its spaces.
#[test]
fn the_ranges_of_a_space_end_at_its_borders() {
    let fs = Arc::new(MemFs::new());
    let spaces = Spaces::open_in(fs, Path::new("/store"), Options::default(), &[]).unwrap();
    let [a, b, c] =
        ["a", "b", "c"].map(|name| spaces.get_or_create(name, &Comparator::Bytewise).unwrap());
    let scanned = |is_upward: bool| {
        let transaction = spaces.transaction();
        let mut iter = transaction.iter(&b).unwrap();
        if is_upward {
            iter.seek_first().unwrap();
        } else {
            iter.seek_last().unwrap();
        };
        assert!(!iter.is_valid());
        drop(iter);
        transaction.put(&b, b"mine", b"").unwrap();
        transaction
    };
    for is_upward in [true, false] {
        let transaction = scanned(is_upward);
        a.put(b"\xff", b"1").unwrap();
        c.put(b"", b"1").unwrap();
        transaction.commit().unwrap();
        b.delete(b"mine").unwrap();
        let transaction = scanned(is_upward);
        b.put(b"\xff", b"1").unwrap();
        let conflict = transaction.commit().unwrap_err();
        let Error::Conflict { key, space } = conflict else { panic!("{conflict}") };
        assert_eq!((&key[..], space.as_deref()), (&b"\xff"[..], Some("b")));
        b.delete(b"\xff").unwrap();
    }
}
