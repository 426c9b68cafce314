//! Random histories over several key spaces, for a checker of isolation. A list moves with each
//! append, so that deletes, range deletes and phantoms decide what a reader finds.
//!
//! ```text
//!   homes of list 2     space one:  list2/0  list2/1  list2/2     a list is at one home at most,
//!                       space two:  list2/0  list2/1  list2/2     small, or with so much behind it
//!                       space down: list2/2  list2/1  list2/0     that it is in a blob file
//!
//!   read      a get of every home, or a range of each space
//!   append    delete of the old home, or of its whole range; put at a new one
//!   beside    flushes, compactions, images of the disk
//! ```

use crate::support::{DIR, backwards, tiny};
use keyrack_flodb::{
    Comparator, Durability, Error, Isolation, KeySpace, Options, Result, Spaces, SpacesTransaction,
    TransactionOptions, WriteOptions,
};
use keyrack_testkit::isolation::{
    Event, Kind, Level, Outcome, Step, Transaction, check, draw_steps,
};
use keyrack_testkit::random::{Announced, Draw, factor, seeds_or};
use keyrack_vfs::{CrashPolicy, MemFs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const LISTS: u64 = 4;
const THREADS: u64 = 4;
const HOMES: usize = 3;

/// From here on a value is in a blob file.
const BLOB_BYTES: usize = 1 << 10;

fn options(durability: Durability) -> Options {
    Options { durability, blob_bytes_min: BLOB_BYTES, ..tiny() }
}

fn key_of(list: u64, home: usize) -> Vec<u8> {
    format!("list{list}/{home}").into_bytes()
}

/// The length of the list, its elements, and perhaps as much again as makes it large.
fn encode(list: &[u64], is_large: bool) -> Vec<u8> {
    let words = [&[list.len() as u64], list].concat();
    let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if is_large {
        value.resize(value.len() + BLOB_BYTES, 7);
    }
    value
}

fn decode(value: &[u8]) -> Vec<u64> {
    let words = value.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut words = words.collect::<Vec<u64>>().into_iter();
    let len = words.next().expect("a list has a length");
    let list: Vec<u64> = words.take(len as usize).collect();
    assert_eq!(list.len() as u64, len, "a list is whole");
    list
}

/// How lists are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    OfTransaction,
    /// On purpose, to see that it is found: each home as it is just then.
    Plain,
}

/// A history while it is made.
struct World {
    spaces: Spaces,
    parts: [KeySpace; 3],
    isolation: Isolation,
    is_synced: bool,
    reads: Reads,
    moments: AtomicU64,
    elements: AtomicU64,
    history: Mutex<Vec<Transaction>>,
}

/// Where a list is, and what is in it.
type Found = (Option<(usize, usize)>, Vec<u64>);

impl World {
    fn new(disk: &MemFs, options: Options, isolation: Isolation, is_synced: bool) -> World {
        let fs = Arc::new(disk.clone());
        let spaces = Spaces::open_in(fs, Path::new(DIR), options, &[backwards()]).unwrap();
        let part = |name, order| spaces.get_or_create(name, &order).unwrap();
        let parts = [
            part("one", Comparator::Bytewise),
            part("two", Comparator::Bytewise),
            part("down", backwards()),
        ];
        World {
            spaces,
            parts,
            isolation,
            is_synced,
            reads: Reads::OfTransaction,
            moments: AtomicU64::new(0),
            elements: AtomicU64::new(1),
            history: Mutex::default(),
        }
    }

    fn now(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// The first key of the range of a list in a space, and the first behind it.
    fn range_of(&self, list: u64, part: usize) -> (Vec<u8>, Vec<u8>) {
        let (low, high) =
            (format!("list{list}/").into_bytes(), format!("list{list}0").into_bytes());
        let is_down = self.parts[part].comparator().name() != Comparator::Bytewise.name();
        if is_down { (high, low) } else { (low, high) }
    }

    fn find(&self, transaction: &SpacesTransaction, list: u64, draw: &mut Draw) -> Result<Found> {
        let mut found = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            if self.reads == Reads::OfTransaction && draw.one_in(2) {
                let (from, _) = self.range_of(list, at);
                let mut iter = transaction.iter(part)?;
                iter.seek(&from)?;
                while let Some((key, value)) = iter.entry() {
                    let prefix = format!("list{list}/");
                    let Some(home) = key.strip_prefix(prefix.as_bytes()) else { break };
                    found.push(((at, usize::from(home[0] - b'0')), decode(value)));
                    iter.next()?;
                }
                continue;
            }
            for home in 0..HOMES {
                let key = key_of(list, home);
                let value = match self.reads {
                    Reads::OfTransaction => transaction.get(part, &key)?,
                    Reads::Plain => part.get(&key)?,
                };
                found.extend(value.map(|value| ((at, home), decode(&value))));
            }
        }
        assert!(found.len() <= 1 || self.reads == Reads::Plain, "list {list} is at {found:?}");
        let longest = found.into_iter().max_by_key(|(_, list)| list.len());
        Ok(longest.map_or((None, Vec::new()), |(place, list)| (Some(place), list)))
    }

    fn step(
        &self,
        transaction: &SpacesTransaction,
        step: Step,
        draw: &mut Draw,
        events: &mut Vec<Event>,
    ) -> Result<()> {
        match step {
            Step::Read(key) => {
                let (_, elements) = self.find(transaction, key, draw)?;
                events.push(Event::Read { key, elements });
            }
            Step::Scan => {
                for key in 0..LISTS {
                    let (_, elements) = self.find(transaction, key, draw)?;
                    events.push(Event::Read { key, elements });
                }
            }
            Step::Append(key) => {
                let (place, mut elements) = self.find(transaction, key, draw)?;
                events.push(Event::Read { key, elements: elements.clone() });
                if let Some((part, home)) = place {
                    let (from, to) = self.range_of(key, part);
                    if draw.one_in(2) {
                        transaction.delete_range(&self.parts[part], &from, &to)?;
                    } else {
                        transaction.delete(&self.parts[part], &key_of(key, home))?;
                    }
                }
                let element = self.elements.fetch_add(1, Ordering::Relaxed);
                elements.push(element);
                let (part, home) = (draw.below(self.parts.len()), draw.below(HOMES));
                let value = encode(&elements, draw.one_in(3));
                transaction.put(&self.parts[part], &key_of(key, home), &value)?;
                events.push(Event::Append { key, element });
            }
        }
        Ok(())
    }

    fn transact(&self, draw: &mut Draw) {
        let (steps, begun) = (draw_steps(draw, LISTS), self.now());
        let write = WriteOptions { sync: self.is_synced };
        let options = TransactionOptions { isolation: self.isolation, write };
        let transaction = self.spaces.transaction_with(options);
        let mut events = Vec::new();
        let done =
            steps.into_iter().try_for_each(|step| self.step(&transaction, step, draw, &mut events));
        let outcome = match done.and_then(|()| transaction.commit()) {
            Ok(()) => Outcome::Committed,
            Err(Error::Conflict { .. }) => Outcome::Aborted,
            Err(error) => panic!("{error}"),
        };
        self.push(events, outcome, begun);
    }

    fn push(&self, events: Vec<Event>, outcome: Outcome, begun: u64) {
        let transaction = Transaction { events, outcome, begun, ended: self.now() };
        self.history.lock().unwrap().push(transaction);
    }

    /// Gives each list a home. Without one, two transactions could each give it another without
    /// writing a key of each other, which snapshot isolation admits.
    fn settle(&self) {
        for list in 0..LISTS {
            let options = WriteOptions { sync: true };
            self.parts[0].put_with(&key_of(list, 0), &encode(&[], false), options).unwrap();
        }
    }

    /// All lists as they are now.
    fn all(&self) -> Vec<Event> {
        let (transaction, mut events) = (self.spaces.transaction(), Vec::new());
        self.step(&transaction, Step::Scan, &mut Draw::new(1), &mut events).unwrap();
        events
    }
}

/// An image of the disk, and the moment before which everything returned that it must have.
struct Image {
    disk: MemFs,
    taken: u64,
    is_kill: bool,
}

fn run(
    seed: u64,
    isolation: Isolation,
    durability: Durability,
    is_synced: bool,
) -> (Vec<Transaction>, Vec<Image>) {
    let disk = MemFs::new();
    let world = World::new(&disk, options(durability), isolation, is_synced);
    world.settle();
    let mut images = Vec::new();
    thread::scope(|scope| {
        let world = &world;
        let begin = |thread: u64| {
            scope.spawn(move || {
                let mut draw = Draw::new(seed ^ thread << 40);
                (0..40).for_each(|_| world.transact(&mut draw));
            })
        };
        let threads: Vec<_> = (0..THREADS).map(begin).collect();
        let mut draw = Draw::new(seed);
        while threads.iter().any(|thread| !thread.is_finished()) {
            match draw.below(3) {
                0 => world.spaces.flush().unwrap(),
                1 => world.spaces.compact().unwrap(),
                _ if images.len() < 4 => {
                    let (taken, is_kill) = (world.now(), draw.one_in(2));
                    let policies =
                        [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered];
                    let policy = *draw.one_of(&policies);
                    let disk = if is_kill {
                        disk.process_crash_image()
                    } else {
                        disk.crash_image(draw.next(), policy)
                    };
                    images.push(Image { disk, taken, is_kill });
                }
                _ => thread::yield_now(),
            }
        }
    });
    let begun = world.now();
    world.push(world.all(), Outcome::Committed, begun);
    (world.history.into_inner().unwrap(), images)
}

/// The history that an image must be the end of: what had returned has happened if it `is_kept`,
/// and the rest is unknown.
fn with_image(history: &[Transaction], image: &Image, is_kept: bool) -> Vec<Transaction> {
    let mut history = history.to_vec();
    for transaction in &mut history {
        let is_certain = is_kept && transaction.ended <= image.taken;
        if transaction.outcome == Outcome::Committed && !is_certain {
            (transaction.outcome, transaction.ended) = (Outcome::Unknown, u64::MAX);
        }
    }
    let options = options(Durability::Os);
    let world = World::new(&image.disk, options, Isolation::Serializable, false);
    let (outcome, begun, ended) = (Outcome::Committed, image.taken, u64::MAX);
    history.push(Transaction { events: world.all(), outcome, begun, ended });
    history
}

fn assert_sound(history: &[Transaction], level: Level, what: &str) {
    let found = check(history, level);
    assert!(found.is_empty(), "{what}: {found:?}");
}

#[test]
fn lists_that_move_between_key_spaces_are_as_isolated_as_promised() {
    let mut aborted = 0;
    for seed in seeds_or(1..=8 * factor() as u64) {
        let _announced = Announced(seed);
        for (isolation, level) in
            [(Isolation::Serializable, Level::Serializable), (Isolation::Snapshot, Level::Snapshot)]
        {
            let (durability, is_synced) = match seed % 3 {
                0 => (Durability::Sync, false),
                1 => (Durability::Os, true),
                _ => (Durability::Os, false),
            };
            let (history, images) = run(seed, isolation, durability, is_synced);
            assert_sound(&history, level, "at the end");
            aborted += history.iter().filter(|it| it.outcome == Outcome::Aborted).count();
            for image in &images {
                let is_kept = image.is_kill || is_synced || durability == Durability::Sync;
                assert_sound(&with_image(&history, image, is_kept), level, "after a crash");
            }
        }
    }
    assert!(aborted > 0, "nobody met anybody");
}

/// The history of two transactions that run side by side, step by step.
fn side_by_side((isolation, reads): (Isolation, Reads), steps: [&[Step]; 2]) -> Vec<Transaction> {
    let mut world = World::new(&MemFs::new(), options(Durability::Os), isolation, false);
    world.reads = reads;
    world.settle();
    let options = TransactionOptions { isolation, ..TransactionOptions::default() };
    let (mut draw, begun) = (Draw::new(1), [world.now(), world.now()]);
    let transactions = [0, 1].map(|_| world.spaces.transaction_with(options));
    let mut events = [Vec::new(), Vec::new()];
    for ((transaction, steps), events) in transactions.iter().zip(steps).zip(&mut events) {
        for step in steps {
            world.step(transaction, *step, &mut draw, events).unwrap();
        }
    }
    for ((transaction, events), begun) in transactions.into_iter().zip(events).zip(begun) {
        transaction.commit().unwrap();
        world.push(events, Outcome::Committed, begun);
    }
    let begun = world.now();
    world.push(world.all(), Outcome::Committed, begun);
    world.history.into_inner().unwrap()
}

/// What the checker must find: write skew, which snapshot isolation admits, and reads past the
/// transaction.
#[test]
fn what_is_wrong_on_purpose_is_found_in_moving_lists() {
    let kinds = |history: &[Transaction], level| {
        check(history, level).into_iter().map(|found| found.kind).collect::<Vec<_>>()
    };
    let across: [&[Step]; 2] =
        [&[Step::Read(0), Step::Append(1)], &[Step::Read(1), Step::Append(0)]];
    let skewed = side_by_side((Isolation::Snapshot, Reads::OfTransaction), across);
    assert_eq!(kinds(&skewed, Level::Serializable), [Kind::WriteSkew]);
    assert_eq!(kinds(&skewed, Level::Snapshot), []);
    let same: [&[Step]; 2] = [&[Step::Append(0)], &[Step::Append(0)]];
    let lost = side_by_side((Isolation::Serializable, Reads::Plain), same);
    assert!(kinds(&lost, Level::Snapshot).contains(&Kind::LostWrite));
}
