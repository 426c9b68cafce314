//! Histories of a few threads on a few keys: is there an order of the operations, each somewhere
//! between its call and its return, in which one after the other would have answered the same?
//!
//! Keys are independent, so each is looked at for itself. The search goes through what each thread
//! has done so far and the value that results, and never twice through the same.

use keyrack_flodb::{Change, Db, Options, WriteOptions};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::MemFs;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

type Value = Option<u64>;

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Saw this.
    Get(Value),
    Put(u64),
    Delete,
    /// Saw the first and left the second.
    Update(Value, Value),
}

/// An operation on one key, with the moments of its call and its return.
#[derive(Clone, Copy, Debug)]
struct Done {
    act: Act,
    called: u64,
    returned: u64,
}

impl Act {
    /// The value afterwards, if it can have answered like that before.
    fn apply(self, value: Value) -> Option<Value> {
        match self {
            Act::Get(seen) => (seen == value).then_some(value),
            Act::Put(new) => Some(Some(new)),
            Act::Delete => Some(None),
            Act::Update(seen, new) => (seen == value).then_some(new),
        }
    }
}

/// Whether what the threads did on one key, each in its order, can have happened.
fn is_linearizable(threads: &[Vec<Done>]) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![(vec![0; threads.len()], None)];
    while let Some((places, value)) = open.pop() {
        if !seen.insert((places.clone(), value)) {
            continue;
        }
        let next = |thread: usize| threads[thread].get(places[thread]);
        if (0..threads.len()).all(|thread| next(thread).is_none()) {
            return true;
        }
        // What was called after something else had returned comes behind it.
        let first_return = (0..threads.len()).filter_map(next).map(|done| done.returned).min();
        for thread in 0..threads.len() {
            let Some(done) = next(thread) else { continue };
            if Some(done.called) > first_return {
                continue;
            }
            if let Some(value) = done.act.apply(value) {
                let mut places = places.clone();
                places[thread] += 1;
                open.push((places, value));
            }
        }
    }
    false
}

#[test]
fn the_checker_knows_what_cannot_have_happened() {
    let done = |act, called, returned| Done { act, called, returned };
    let put = done(Act::Put(1), 0, 1);
    assert!(is_linearizable(&[vec![put], vec![done(Act::Get(Some(1)), 2, 3)]]));
    assert!(!is_linearizable(&[vec![put], vec![done(Act::Get(None), 2, 3)]]), "a stale read");
    let during = [done(Act::Put(1), 0, 9)];
    for seen in [None, Some(1)] {
        assert!(is_linearizable(&[during.to_vec(), vec![done(Act::Get(seen), 2, 3)]]));
    }
    let back = vec![done(Act::Get(Some(1)), 1, 2), done(Act::Get(None), 3, 4)];
    assert!(!is_linearizable(&[during.to_vec(), back]), "back in time");
    let update = |called, returned| done(Act::Update(None, Some(called)), called, returned);
    assert!(!is_linearizable(&[vec![update(1, 5)], vec![update(2, 6)]]), "a lost update");
    let two = [vec![put, done(Act::Delete, 2, 3)], vec![done(Act::Get(Some(1)), 4, 5)]];
    assert!(!is_linearizable(&two), "a removal that was undone");
}

const KEYS: usize = 2;

/// What one thread does, by key.
fn run(db: &Db, clock: &AtomicU64, thread: u64, draw: &mut Draw) -> Vec<Vec<Done>> {
    let mut done = vec![Vec::new(); KEYS];
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    for round in 0..8 {
        let index = draw.below(KEYS);
        let key = [index as u8];
        let new = thread << 32 | round;
        let choice = draw.below(8);
        let called = tick();
        let act = match choice {
            0..=2 => Act::Get(db.get_with(&key, number).unwrap()),
            3..=4 => {
                db.put(&key, &new.to_le_bytes()).unwrap();
                Act::Put(new)
            }
            5 => {
                db.delete(&key).unwrap();
                Act::Delete
            }
            _ => {
                let mut act = Act::Get(None);
                db.update(&key, WriteOptions::default(), |old| {
                    let seen = old.map(number);
                    let (left, change) = match (choice, seen) {
                        (6, Some(_)) => (None, Change::Remove),
                        (6, None) => (None, Change::Keep),
                        _ => (Some(new), Change::Put(new.to_le_bytes().to_vec())),
                    };
                    act = Act::Update(seen, left);
                    change
                })
                .unwrap();
                act
            }
        };
        done[index].push(Done { act, called, returned: tick() });
    }
    done
}

#[test]
fn histories_of_puts_gets_deletes_and_updates_are_linearizable() {
    const THREADS: u64 = 3;
    for seed in seeds() {
        let _seed = Announced(seed);
        let options = Options { memtable_bytes: 64 << 10, unordered_max: 4, ..Options::default() };
        let fs = Arc::new(MemFs::new());
        let db = Db::open_in(fs, Path::new("/store"), options).unwrap();
        for history in 0..100 * factor() as u64 {
            (0..KEYS).for_each(|key| db.delete(&[key as u8]).unwrap());
            let clock = AtomicU64::new(0);
            let start = Barrier::new(THREADS as usize + 1);
            let threads: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let (db, clock, start) = (&db, &clock, &start);
                        let mut draw = Draw::new(seed ^ history << 8 ^ thread << 40);
                        scope.spawn(move || {
                            start.wait();
                            run(db, clock, thread, &mut draw)
                        })
                    })
                    .collect();
                start.wait();
                // Memtables change and tables come while they are at it.
                match history % 8 {
                    0 => db.flush().unwrap(),
                    1 => db.compact_range(None, None).unwrap(),
                    2 => drop(db.iter().unwrap()),
                    _ => {}
                }
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for key in 0..KEYS {
                let of_key: Vec<_> = threads.iter().map(|done| done[key].clone()).collect();
                assert!(is_linearizable(&of_key), "history {history}: {of_key:#?}");
            }
        }
    }
}
