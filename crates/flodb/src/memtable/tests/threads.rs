//! Many threads on one memtable. Each test knows something that holds however they interleave.

use super::*;
use crate::key::SEQUENCE_MAX;
use keyrack_concurrent::Backoff;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

const WRITERS: usize = 3;

/// Sequences given out, and published in their order, as the log does it. Nobody waits for a turn:
/// who completes a row of inserts publishes all of it.
struct Log {
    next: AtomicU64,
    inserted: Vec<AtomicBool>,
    /// Everything below is inserted.
    published: AtomicU64,
}

impl Log {
    fn new(writes: u64) -> Self {
        let inserted = (0..writes).map(|_| AtomicBool::new(false)).collect();
        Log { next: AtomicU64::new(0), inserted, published: AtomicU64::new(0) }
    }

    fn write(&self, insert: impl FnOnce(u64)) {
        let sequence = self.next.fetch_add(1, Relaxed);
        insert(sequence);
        // SeqCst: of two that complete a row together, one sees the other's.
        self.inserted[sequence as usize].store(true, SeqCst);
        loop {
            let first = self.published.load(SeqCst);
            let next = self.inserted.get(first as usize);
            if !next.is_some_and(|inserted| inserted.load(SeqCst)) {
                break;
            }
            // Where this fails, somebody else has published it.
            let _ = self.published.compare_exchange(first, first + 1, SeqCst, SeqCst);
        }
    }

    /// The largest published sequence.
    fn newest(&self) -> Option<u64> {
        self.published.load(SeqCst).checked_sub(1)
    }
}

/// Runs `write` in some threads, and `read` again and again in another one until they are done and
/// once more afterwards.
fn beside(write: impl Fn(usize) + Sync, mut read: impl FnMut() + Send) {
    let writing = AtomicU64::new(WRITERS as u64);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (write, writing) = (&write, &writing);
            scope.spawn(move || {
                // Counts down on a panic too, so that the reader ends.
                struct Done<'a>(&'a AtomicU64);
                impl Drop for Done<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Release);
                    }
                }
                let _done = Done(writing);
                write(writer);
            });
        }
        scope.spawn(|| {
            while writing.load(Acquire) > 0 {
                read();
            }
            read();
        });
    });
}

#[test]
fn what_is_published_is_seen_and_never_goes_back() {
    const KEYS: usize = 16;
    const WRITES: u64 = 20_000;
    let memtable = memtable(8 << 20);
    let log = Log::new(WRITERS as u64 * WRITES);
    // The largest sequence of each key of which its writer knows that it is published.
    let done: [AtomicU64; KEYS] = Default::default();
    let key = |n: usize| format!("key{n}").into_bytes();
    let mut draw = Draw::new(1);
    let mut seen = [(0, 0); KEYS];
    beside(
        |writer| {
            let mut draw = Draw::new(writer as u64);
            for _ in 0..WRITES {
                // All writers write all keys.
                let n = draw.below(KEYS);
                let mut own = 0;
                log.write(|sequence| {
                    own = sequence + 1;
                    let kind = if sequence % 4 == 0 { Kind::Delete } else { Kind::Put };
                    let value = if kind == Kind::Put { vec![n as u8; n] } else { Vec::new() };
                    insert(&memtable, own, kind, &key(n), &value).unwrap();
                });
                if log.newest().is_some_and(|newest| own <= newest + 1) {
                    done[n].fetch_max(own, Release);
                }
            }
        },
        || {
            for _ in 0..64 {
                let n = draw.below(KEYS);
                let at_least = done[n].load(Acquire);
                let Some(newest) = log.newest() else { continue };
                let newest = newest + 1;
                let found =
                    memtable.get(&key(n), hash(&key(n)), newest, |kind, sequence, value| {
                        assert_eq!(
                            kind == Kind::Delete,
                            (sequence - 1) % 4 == 0,
                            "kind and sequence"
                        );
                        let expected =
                            if kind == Kind::Put { vec![n as u8; n] } else { Vec::new() };
                        assert_eq!(value, expected);
                        sequence
                    });
                let found = found.unwrap_or(0);
                assert!(found >= at_least && found <= newest, "{at_least} {found} {newest}");
                let (before, sequence) = seen[n];
                assert!(newest < before || found >= sequence, "a newer reader sees no less");
                seen[n] = (newest, found);
                // What was seen once is seen again at the same sequence, whatever came since.
                let again = memtable.get(&key(n), hash(&key(n)), before, |_, sequence, _| sequence);
                assert!(before == 0 || again.unwrap_or(0) == sequence);
            }
        },
    );
    assert_eq!(memtable.entries() as u64, WRITERS as u64 * WRITES);
}

#[test]
fn a_cursor_holds_all_that_was_published_and_nothing_twice() {
    const WRITES: u64 = 5_000;
    for comparator in [Comparator::Bytewise, backwards()] {
        let memtable =
            Arc::new(Memtable::new(8 << 20, comparator.clone(), MemtableOptions::default()));
        let log = Log::new(WRITERS as u64 * WRITES);
        let mut cursors: Vec<(u64, MemtableCursor)> = Vec::new();
        let check = |published: u64, cursor: &mut MemtableCursor| {
            let entries = scan(cursor);
            let is_sorted = |pair: &[(Vec<u8>, _)]| {
                comparator.internal(&pair[0].0, &pair[1].0) == Ordering::Less
            };
            assert!(entries.windows(2).all(is_sorted));
            let mut sequences: Vec<u64> =
                entries.iter().map(|(key, _)| key::parse(key).unwrap().sequence).collect();
            sequences.sort_unstable();
            sequences.truncate(published as usize + 1);
            assert!(sequences.into_iter().eq(0..=published), "up to {published}");
            for (key, value) in entries {
                let Parsed { user, sequence, .. } = key::parse(&key).unwrap();
                assert_eq!(user, name(sequence));
                assert_eq!(value, mix(sequence).to_le_bytes());
            }
        };
        beside(
            |_| {
                for _ in 0..WRITES {
                    log.write(|sequence| {
                        let value = mix(sequence).to_le_bytes();
                        put(&memtable, sequence, &name(sequence), &value);
                    });
                }
            },
            || {
                let Some(published) = log.newest() else { return };
                let mut cursor = memtable.cursor(published);
                check(published, &mut cursor);
                if cursors.len() < 20 {
                    cursors.push((published, cursor));
                }
            },
        );
        for (published, cursor) in &mut cursors {
            check(*published, cursor);
        }
    }
}

/// The key of a sequence in the test above: few keys, so that many have several versions.
fn name(sequence: u64) -> Vec<u8> {
    (mix(sequence) % 997).to_string().into_bytes()
}

/// Until it is full, from all sides: exactly what was accepted is there.
#[test]
fn a_race_for_the_last_room_loses_nothing() {
    for seed in seeds() {
        let _seed = Announced(seed);
        for round in 0..20 {
            let memtable = memtable(40_000);
            let accepted: Vec<Vec<u64>> = std::thread::scope(|scope| {
                let run = |writer: u64| {
                    let memtable = &memtable;
                    move || {
                        let mut draw = Draw::new(seed ^ round << 8 ^ writer);
                        let mut accepted = Vec::new();
                        let mut refused = 0;
                        for sequence in (writer..).step_by(WRITERS) {
                            let value = vec![
                                sequence as u8;
                                draw.below(if round % 2 == 0 { 200 } else { 4 })
                            ];
                            let key = sequence.to_string();
                            match insert(memtable, sequence, Kind::Put, key.as_bytes(), &value) {
                                Ok(()) => accepted.push(sequence),
                                Err(Full) => refused += 1,
                            }
                            if refused == 10 {
                                break;
                            }
                        }
                        accepted
                    }
                };
                let threads: Vec<_> =
                    (0..WRITERS as u64).map(|writer| scope.spawn(run(writer))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            check_exactly(&memtable, accepted.concat());
        }
    }
}

/// Immutable at any moment: what was accepted is there after it has settled.
#[test]
fn a_quiet_memtable_holds_all_that_was_accepted() {
    for round in 0..30 {
        let memtable = memtable(4 << 20);
        let accepted: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let run = |writer: u64| {
                let memtable = &memtable;
                move || {
                    let sequences = (writer..).step_by(WRITERS);
                    sequences
                        .take_while(|sequence| {
                            let (key, value) = (sequence.to_string(), vec![0; 300]);
                            insert(memtable, *sequence, Kind::Put, key.as_bytes(), &value).is_ok()
                        })
                        .collect()
                }
            };
            let threads: Vec<_> =
                (0..WRITERS as u64).map(|writer| scope.spawn(run(writer))).collect();
            while memtable.entries() < round * 100 {
                std::hint::spin_loop();
            }
            memtable.make_immutable();
            memtable.wait_for_inserts();
            let kept = scan(&mut memtable.cursor(SEQUENCE_MAX)).len();
            let accepted: Vec<Vec<u64>> =
                threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(kept, accepted.iter().map(Vec::len).sum::<usize>());
            accepted
        });
        check_exactly(&memtable, accepted.concat());
    }
}

/// The memtable holds these sequences, each under its number as key, and no others.
fn check_exactly(memtable: &Arc<Memtable>, mut accepted: Vec<u64>) {
    accepted.sort_unstable();
    memtable.wait_for_inserts();
    let entries = scan(&mut memtable.cursor(SEQUENCE_MAX));
    let mut found: Vec<u64> =
        entries.iter().map(|(key, _)| key::parse(key).unwrap().sequence).collect();
    found.sort_unstable();
    assert_eq!(found, accepted);
    for sequence in accepted {
        let key = sequence.to_string();
        assert_eq!(get(memtable, key.as_bytes(), SEQUENCE_MAX).unwrap().1, sequence);
    }
}

/// All threads insert versions of the same few new keys, so that they race for slots and within
/// chains, with sequences that are far out of order.
#[test]
fn races_for_slots_and_chains_keep_every_version() {
    const VERSIONS: u64 = 400;
    for seed in seeds() {
        let _seed = Announced(seed);
        for round in 0..10 {
            let memtable = memtable(1 << 20);
            let start = AtomicBool::new(false);
            let all = VERSIONS * WRITERS as u64;
            std::thread::scope(|scope| {
                for writer in 0..WRITERS as u64 {
                    let (memtable, start) = (&memtable, &start);
                    scope.spawn(move || {
                        let mut own: Vec<u64> =
                            (0..VERSIONS).map(|n| n * WRITERS as u64 + writer).collect();
                        let mut draw = Draw::new(seed ^ writer << 32 ^ round);
                        let mut backoff = Backoff::new();
                        while !start.load(Acquire) {
                            backoff.wait();
                        }
                        while !own.is_empty() {
                            let sequence = own.swap_remove(draw.below(own.len()));
                            // All hashes end alike: the slots lie together, too.
                            let key = [sequence as u8 % 5];
                            memtable.insert(sequence, Kind::Put, &key, b"", 77).unwrap();
                            let newest =
                                memtable.get(&key, 77, SEQUENCE_MAX, |_, newest, _| newest);
                            assert!(newest >= Some(sequence), "at least its own write");
                        }
                    });
                }
                start.store(true, Release);
            });
            for sequence in 0..all {
                let key = [sequence as u8 % 5];
                let found = memtable.get(&key, 77, sequence, |_, sequence, _| sequence);
                assert_eq!(found, Some(sequence));
            }
            let entries = scan(&mut memtable.cursor(SEQUENCE_MAX));
            assert_eq!(entries.len() as u64, all);
        }
    }
}

/// Range tombstones from all sides: none is lost from the list.
#[test]
fn racing_range_deletions_are_all_listed() {
    let memtable = memtable(1 << 20);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS as u64 {
            let memtable = &memtable;
            scope.spawn(move || {
                for n in 0..1000 {
                    let sequence = n * WRITERS as u64 + writer;
                    insert(memtable, sequence, Kind::DeleteRange, b"a", b"b").unwrap();
                    assert!(memtable.newest_range_tombstone(b"aa", sequence) == Some(sequence));
                }
            });
        }
    });
    let mut listed: Vec<u64> = memtable.range_tombstones().iter().map(|it| it.sequence).collect();
    listed.sort_unstable();
    assert!(listed.into_iter().eq(0..1000 * WRITERS as u64));
    let indexes = memtable.range_indexes();
    let mut indexed: Vec<u64> =
        indexes.iter().flat_map(|index| index.ranges()).map(|range| range.sequence).collect();
    indexed.sort_unstable();
    assert!(indexed.into_iter().eq(0..1000 * WRITERS as u64), "each is in one index");
}
