//! Many threads on one tree. Every test knows something that holds however they interleave.

use crate::gaps::nested_key;
use keyrack_concurrent::pin;
use keyrack_masstree::{Bytes, Tree};
use keyrack_testkit::random::{Announced, Draw, factor, is_brief, mix, seeds};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const THREADS: u64 = 4;

fn key(prefix: &str, n: u64) -> Vec<u8> {
    format!("{prefix}{n:08}").into_bytes()
}

/// Prefixes that put the digits into one slice, over two, and some layers down.
const PREFIXES: [&str; 4] = ["", "abcd", "abcdefgh", "a prefix of more than three slices"];

/// Each thread inserts a range of its own, finds it, removes it, and finds it gone (wd3).
#[test]
fn threads_with_keys_of_their_own_do_not_disturb_each_other() {
    for prefix in PREFIXES {
        let mut tree = Tree::<u64>::new();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let tree = &tree;
                scope.spawn(move || {
                    for round in 0..150 * factor() as u64 {
                        // Neighbouring threads have neighbouring keys, so they share nodes.
                        let own = |n: u64| key(prefix, n * THREADS + thread);
                        let guard = pin();
                        for n in 0..70 {
                            assert_eq!(tree.insert(&own(n), round, &guard), None, "must insert");
                        }
                        for n in 0..70 {
                            assert_eq!(tree.get(&own(n), &guard), Some(round));
                        }
                        for n in 0..70 {
                            assert_eq!(tree.remove(&own(n), &guard), Some(round), "must remove");
                            assert_eq!(tree.get(&own(n), &guard), None);
                        }
                    }
                });
            }
        });
        assert_eq!(tree.check().unwrap().keys, 0);
    }
}

/// Runs `write` in threads until each has done its rounds, and `read` beside them.
fn beside(write: impl Fn(u64) + Sync, read: impl Fn() + Sync) {
    let writing = AtomicU64::new(THREADS - 1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS - 1 {
            let (write, writing) = (&write, &writing);
            scope.spawn(move || {
                // Counts down on a panic too, so that the readers end.
                struct Done<'a>(&'a AtomicU64);
                impl Drop for Done<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Ordering::Release);
                    }
                }
                let _done = Done(writing);
                write(thread);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while writing.load(Ordering::Acquire) > 0 {
                    read();
                }
                read();
            });
        }
    });
}

/// Every fourth key is always there, so that most nodes have one.
#[test]
fn keys_that_stay_are_always_found() {
    find_those_that_stay(4, 300, 40);
}

/// Few keys are always there, so that nodes merge at every level, and are cut again.
#[test]
fn keys_that_stay_are_found_while_nodes_merge() {
    find_those_that_stay(40, 1500, 8);
}

/// Some keys are always there; the others come and go. Gets and scans see all of the former, once
/// and in order, both ways; values belong to their keys.
fn find_those_that_stay(every: u64, longest: u64, rounds: usize) {
    const KEYS: u64 = 2000;
    let stays = |n: u64| n.is_multiple_of(every);
    for seed in seeds() {
        for prefix in PREFIXES {
            let _seed = Announced(seed);
            let mut tree = Tree::<Bytes>::new();
            let value = |n: u64| format!("value {n}").into_bytes();
            for n in (0..KEYS).filter(|n| stays(*n)) {
                tree.insert(&key(prefix, n), &value(n), &pin());
            }
            let write = |thread: u64| {
                let mut draw = Draw::new(seed ^ thread << 32);
                for _ in 0..rounds * factor() {
                    // A wave over a part of the keys, so that nodes fill and empty.
                    let start = draw.next() % KEYS;
                    let length = 1 + draw.next() % longest;
                    let insert = draw.below(2) == 0;
                    for n in (start..start + length).map(|n| n % KEYS) {
                        let guard = pin();
                        if stays(n) {
                            assert!(tree.insert(&key(prefix, n), &value(n), &guard).is_some());
                        } else if insert {
                            tree.insert(&key(prefix, n), &value(n), &guard);
                        } else {
                            tree.remove(&key(prefix, n), &guard);
                        }
                    }
                }
            };
            let expected: Vec<_> = (0..KEYS).filter(|n| stays(*n)).collect();
            let check_row = |key: &[u8], found: &[u8]| -> u64 {
                let digits = std::str::from_utf8(&key[key.len() - 8..]).unwrap();
                let n = digits.parse().unwrap();
                assert_eq!(found, value(n));
                n
            };
            let read = || {
                let guard = pin();
                for &n in &expected {
                    let found = tree.get(&key(prefix, n), &guard);
                    assert_eq!(found.as_deref(), Some(&*value(n)), "a key that stays");
                }
                let keys: Vec<_> = expected.iter().map(|n| key(prefix, *n)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                tree.multi_get(&keys, &guard, |index, found| {
                    assert_eq!(found.as_deref(), Some(&*value(expected[index])), "one of many");
                });
                drop(guard);
                let mut seen = Vec::new();
                tree.scan(b"", None, |key, found| {
                    seen.push(check_row(key, &found));
                    ControlFlow::Continue(())
                });
                assert!(seen.is_sorted_by(|a, b| a < b), "ascending, each once");
                seen.retain(|n| stays(*n));
                assert_eq!(seen, expected, "a scan sees all that stay");
                let mut seen = Vec::new();
                tree.scan_rev(b"", None, |key, found| {
                    seen.push(check_row(key, &found));
                    ControlFlow::Continue(())
                });
                assert!(seen.is_sorted_by(|a, b| a > b), "descending, each once");
                seen.retain(|n| stays(*n));
                seen.reverse();
                assert_eq!(seen, expected, "a reverse scan sees all that stay");
            };
            beside(write, read);
            tree.check().unwrap();
        }
    }
}

/// Keys of a few slices, in layers of their own where many share a tail, so that layers are made
/// and go, and move into layers of their slices and vanish with them. Scans stay in order, both
/// ways.
#[test]
fn scans_stay_in_order_while_layers_come_and_go() {
    const KEYS: u64 = 6 * 80;
    let key = |n: u64| format!("{:08}{:08}{:02}", n / 80, n % 80 / 40, n % 40).into_bytes();
    let stays = |n: u64| n / 80 % 3 == 2 && n.is_multiple_of(7);
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut tree = Tree::<Bytes>::new();
        for n in (0..KEYS).filter(|n| stays(*n)) {
            tree.insert(&key(n), &key(n), &pin());
        }
        let write = |thread: u64| {
            let mut draw = Draw::new(seed ^ thread << 32);
            for _ in 0..400 * factor() {
                // Whole groups, so that they become empty.
                let (group, insert) = (draw.next() % 6, draw.below(2) == 0);
                for n in (group * 80..group * 80 + 80).filter(|n| !stays(*n)) {
                    if insert && draw.below(3) > 0 {
                        tree.insert(&key(n), &key(n), &pin());
                    } else {
                        tree.remove(&key(n), &pin());
                    }
                }
            }
        };
        let expected: Vec<_> = (0..KEYS).filter(|n| stays(*n)).map(key).collect();
        let read = || {
            for backwards in [false, true] {
                let mut seen = Vec::new();
                let visit = |seen: &mut Vec<Vec<u8>>, key: &[u8], value: &[u8]| {
                    assert_eq!(key, value);
                    seen.push(key.to_vec());
                    ControlFlow::Continue(())
                };
                if backwards {
                    tree.scan_rev(b"", None, |key, value| visit(&mut seen, key, &value));
                    seen.reverse();
                } else {
                    tree.scan(b"", None, |key, value| visit(&mut seen, key, &value));
                }
                assert!(seen.is_sorted_by(|a, b| a < b), "in order, each once");
                seen.retain(|key| expected.contains(key));
                assert_eq!(seen, expected, "all that stay");
            }
        };
        beside(write, read);
        tree.check().unwrap();
        for n in 0..KEYS {
            tree.remove(&key(n), &pin());
        }
        let stats = tree.check().unwrap();
        assert_eq!((stats.layers, stats.borders), (1, 1));
    }
}

/// One node's worth of keys, all threads, again and again: slots are used again, and the node
/// splits, empties and is unlinked under the readers' eyes. A get never returns another key's
/// value.
#[test]
fn slots_that_are_used_again_never_show_another_keys_value() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut tree = Tree::<u64>::new();
        let number = |n: u64| (n << 56).to_be_bytes();
        let write = |thread: u64| {
            let mut draw = Draw::new(seed ^ thread << 32);
            for _ in 0..60_000 * factor() {
                let n = draw.next() % 24;
                let guard = pin();
                let old = if draw.below(2) == 0 {
                    tree.insert(&number(n), n, &guard)
                } else {
                    tree.remove(&number(n), &guard)
                };
                assert!(old.is_none_or(|old| old == n));
            }
        };
        let read = || {
            let guard = pin();
            for n in 0..24 {
                let found = tree.get(&number(n), &guard);
                assert!(found.is_none_or(|found| found == n), "{n} shows {found:?}");
            }
        };
        beside(write, read);
        tree.check().unwrap();
    }
}

/// A node with one free slot, which two keys use in turn. Without a mark, a reader that found one
/// of them under an older permutation would return the value of the other.
#[test]
fn one_slot_for_two_keys_does_not_mix_them() {
    let number = |n: u64| (n << 56).to_be_bytes();
    let mut tree = Tree::<u64>::new();
    for n in 2..16 {
        tree.insert(&number(n), n, &pin());
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tree, done) = (&tree, &done);
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                scope.spawn(move || {
                    let mut hits = 0;
                    while !done.load(Ordering::Relaxed) {
                        let found = tree.get(&number(reader), &pin());
                        assert!(found.is_none_or(|n| n == reader), "{reader} shows {found:?}");
                        hits += u64::from(found.is_some());
                    }
                    hits
                })
            })
            .collect();
        for round in 0..1_000_000 * factor() as u64 {
            let (n, guard) = (round % 2, pin());
            assert_eq!(tree.insert(&number(n), n, &guard), None);
            assert_eq!(tree.remove(&number(n), &guard), Some(n));
        }
        done.store(true, Ordering::Relaxed);
        let outcomes: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        assert!(outcomes.iter().all(Result::is_ok), "a key showed the value of another");
    });
    let stats = tree.check().unwrap();
    assert_eq!((stats.keys, stats.borders), (14, 1), "it was one node all the time");
}

/// Long keys of one slice and tail: they become a layer while others read and remove them.
#[test]
fn keys_that_move_into_a_layer_are_found_all_the_time() {
    /// More than a node holds, of all threads together.
    const OWN: u64 = 6;
    let rounds = 400 * factor() as u64;
    let mut tree = Tree::<u64>::new();
    let name = |round: u64, n: u64| format!("{round:08}12345678{n:08}tail {n}").into_bytes();
    let latest = AtomicU64::new(0);
    for n in 0..2 {
        tree.insert(&name(0, n), n, &pin());
    }
    let write = |thread: u64| {
        for round in 1..rounds {
            let guard = pin();
            for n in thread * OWN..(thread + 1) * OWN {
                tree.insert(&name(round, n), n, &guard);
                latest.fetch_max(round, Ordering::Relaxed);
                assert_eq!(tree.get(&name(round, n), &guard), Some(n));
                assert_eq!(tree.remove(&name(round - 1, n + 100), &guard), None);
            }
            for n in thread * OWN..(thread + 1) * OWN {
                assert_eq!(tree.get(&name(round, n), &guard), Some(n));
            }
        }
    };
    let read = || {
        let guard = pin();
        for n in 0..2 {
            assert_eq!(tree.get(&name(0, n), &guard), Some(n));
        }
        let latest = latest.load(Ordering::Relaxed);
        for n in 0..THREADS * OWN {
            let found = tree.get(&name(latest, n), &guard);
            assert!(found.is_none_or(|found| found == n));
        }
    };
    beside(write, read);
    let stats = tree.check().unwrap();
    assert_eq!(stats.keys, 2 + (rounds - 1) * (THREADS - 1) * OWN);
    // The last round may not have filled its node.
    assert!(stats.layers >= rounds - 1, "{stats:?}");
}

/// All threads insert the same keys at once; each key has one winner, and nothing is lost.
#[test]
fn each_key_is_inserted_by_one_thread() {
    for prefix in PREFIXES {
        for round in 0..4 * factor() as u64 {
            let mut tree = Tree::<u64>::new();
            let barrier = Barrier::new(THREADS as usize);
            let wins = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (tree, barrier, wins) = (&tree, &barrier, &wins);
                    scope.spawn(move || {
                        barrier.wait();
                        for n in 0..5000 {
                            let n = if round.is_multiple_of(2) { n } else { n * 7919 % 5000 };
                            if tree.insert_if_absent(&key(prefix, n), thread, &pin()).is_none() {
                                wins.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(wins.into_inner(), 5000);
            assert_eq!(tree.check().unwrap().keys, 5000);
        }
    }
}

/// Threads insert ahead and remove behind (wd1), so that nodes go at one end while they come at the
/// other, and separators move.
#[test]
fn queues_beside_each_other_lose_nothing() {
    let mut tree = Tree::<u64>::new();
    let length = 20_000 * factor() as u64;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let queues: Vec<_> = (0..THREADS - 1)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    let own = |n: u64| (n * THREADS + thread).to_be_bytes();
                    for n in 0..length {
                        let guard = pin();
                        assert_eq!(tree.insert(&own(n), n, &guard), None);
                        if n >= 100 {
                            assert_eq!(tree.remove(&own(n - 100), &guard), Some(n - 100));
                        }
                    }
                })
            })
            .collect();
        let (tree, stop) = (&tree, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let mut seen = BTreeSet::new();
                let visited = tree.scan_rev(b"", None, |key, _| {
                    seen.insert(key.to_vec());
                    ControlFlow::Continue(())
                });
                assert_eq!(visited, seen.len() as u64);
            }
        });
        let outcomes: Vec<_> = queues.into_iter().map(|queue| queue.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert_eq!(tree.check().unwrap().keys, 100 * (THREADS - 1));
}

/// Beginnings of keys, of 0 to 400 bytes, many of which are beginnings of others.
fn beginnings(draw: &mut Draw) -> Vec<Vec<u8>> {
    let roots: Vec<Vec<u8>> = (0..4).map(|_| draw.bytes(400)).collect();
    (0..60)
        .map(|_| {
            let root = draw.one_of(&roots);
            let kept = draw.below(root.len() + 1);
            let mut beginning = root[..kept].to_vec();
            // One in two leaves its root there, for as long as that is.
            if draw.one_in(2) {
                let rest = draw.below(root.len() + 1 - kept);
                beginning.extend(draw.bytes(rest));
            }
            beginning
        })
        .collect()
}

/// A value that says which key it belongs to.
fn value_for(key: &[u8]) -> Vec<u8> {
    let sum = key.iter().fold(key.len() as u64, |sum, byte| mix(sum ^ u64::from(*byte)));
    format!("value {sum:016x}").into_bytes()
}

/// What one thread does to keys that end with its number, beside a model.
fn change_own(
    tree: &Tree<Bytes>,
    beginnings: &[Vec<u8>],
    thread: u64,
    draw: &mut Draw,
    operations: usize,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for _ in 0..operations {
        let mut key = draw.one_of(beginnings).clone();
        // Few ends, so that keys come again, and some that leave a slice.
        let end = draw.below(1 << 8);
        key.extend(&mix(end).to_be_bytes()[..(end % 5) as usize]);
        key.push(thread as u8);
        let guard = pin();
        match draw.below(8) {
            0..4 => {
                let value = value_for(&key);
                let old = tree.insert(&key, &value, &guard);
                assert_eq!(old.as_deref(), model.get(&key).map(Vec::as_slice), "put {key:?}");
                model.insert(key, value);
            }
            4..6 => {
                let old = tree.remove(&key, &guard);
                assert_eq!(old.as_deref(), model.remove(&key).as_deref(), "remove {key:?}");
            }
            _ => {
                let found = tree.get(&key, &guard);
                assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice), "get {key:?}");
            }
        }
    }
    model
}

/// Layers of long prefixes come, are divided and go: each thread knows its keys, and scans in both
/// directions stay in order and within their bounds.
#[test]
fn keys_of_long_beginnings_are_those_of_their_threads() {
    let operations = if is_brief() { 20_000 } else { 250_000 } * factor();
    let seed = seeds()[0];
    let _seed = Announced(seed);
    let mut draw = Draw::new(seed);
    let beginnings = beginnings(&mut draw);
    let mut tree = Tree::<Bytes>::new();
    let done = AtomicBool::new(false);
    let scan = |tree: &Tree<Bytes>, draw: &mut Draw| {
        let low = draw.one_of(&beginnings);
        let low = &low[..draw.below(low.len() + 1)];
        let high = (!draw.one_in(3)).then(|| draw.one_of(&beginnings).as_slice());
        let backwards = draw.one_in(2);
        let (mut last, mut left): (Option<Vec<u8>>, _) = (None, draw.below(2000));
        let visit = |key: &[u8], value: &[u8]| {
            assert!(key >= low && high.is_none_or(|high| key < high), "{key:?} is outside");
            let ordered = last.as_deref().is_none_or(|last| (last < key) != backwards);
            assert!(ordered && last.as_deref() != Some(key), "{key:?} after {last:?}");
            assert_eq!(value, value_for(key));
            last = Some(key.to_vec());
            left -= 1;
            if left <= 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut visit = visit;
        if backwards {
            tree.scan_rev(low, high, |key, value| visit(key, &value));
        } else {
            tree.scan(low, high, |key, value| visit(key, &value));
        }
    };
    let models = std::thread::scope(|scope| {
        let (tree, beginnings, done, scan) = (&tree, &beginnings, &done, &scan);
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut draw = Draw::new(seed ^ (thread + 1) << 32);
                scope.spawn(move || change_own(tree, beginnings, thread, &mut draw, operations))
            })
            .collect();
        scope.spawn(move || {
            let mut draw = Draw::new(seed ^ 1 << 60);
            while !done.load(Ordering::Relaxed) {
                scan(tree, &mut draw);
            }
        });
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().map(|model| model.expect("a thread failed")).collect::<Vec<_>>()
    });
    let stats = tree.check().unwrap();
    assert!(stats.prefixes > 10, "{stats:?}");
    let expected: BTreeMap<_, _> = models.iter().flatten().collect();
    let mut left = expected.iter();
    tree.scan(b"", None, |key, value| {
        let (expected, of_it) = left.next().expect("no more keys than the threads have");
        assert_eq!((key, &*value), (expected.as_slice(), of_it.as_slice()));
        ControlFlow::Continue(())
    });
    assert_eq!(left.next(), None);
    std::thread::scope(|scope| {
        for model in &models {
            let tree = &tree;
            scope.spawn(move || {
                model.keys().for_each(|key| assert!(tree.remove(key, &pin()).is_some()));
            });
        }
    });
    let stats = tree.check().unwrap();
    assert_eq!((stats.keys, stats.borders, stats.layers, stats.prefixes), (0, 1, 1, 0));
}

/// Each thread puts and removes keys of its own, which it knows to the value, among layers that
/// nest and the gaps beside them. Keys that stay are in every scan.
#[test]
fn layers_and_gaps_come_and_go_between_threads() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let keys: BTreeSet<Vec<u8>> = (0..1200).map(|_| nested_key(&mut draw)).collect();
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        // Every eighth stays; neighbours are of different threads.
        let stays = |at: usize| at.is_multiple_of(8);
        let stay: BTreeSet<&[u8]> = keys.iter().step_by(8).map(Vec::as_slice).collect();
        let mut tree = Tree::<Bytes>::new();
        for key in &stay {
            assert!(tree.insert(key, key, &pin()).is_none());
        }
        let write = |thread: u64| {
            let mut draw = Draw::new(seed ^ mix(thread));
            let owns = |at: &usize| !stays(*at) && *at as u64 % (THREADS - 1) == thread;
            let own: Vec<&Vec<u8>> = (0..keys.len()).filter(owns).map(|at| &keys[at]).collect();
            let mut there = vec![false; own.len()];
            for _ in 0..200 * factor() {
                // All keys of a part come or go.
                let (start, length) = (draw.below(own.len()), 1 + draw.below(own.len()));
                let put = draw.below(2) == 0;
                for at in (start..start + length).map(|at| at % own.len()) {
                    let guard = pin();
                    let key = own[at];
                    let old = if put {
                        tree.insert(key, key, &guard).is_some()
                    } else {
                        tree.remove(key, &guard).is_some()
                    };
                    assert_eq!(old, there[at], "{key:?}");
                    there[at] = put;
                    assert_eq!(tree.get(key, &guard).is_some(), put, "{key:?}");
                }
            }
            for (key, there) in own.iter().zip(there) {
                assert_eq!(tree.remove(key, &pin()).is_some(), there, "{key:?}");
            }
        };
        let read = || {
            for down in [false, true] {
                let mut seen: Vec<Vec<u8>> = Vec::new();
                let mut visit = |key: &[u8], value: &[u8]| {
                    assert_eq!(key, value);
                    seen.push(key.to_vec());
                    ControlFlow::Continue(())
                };
                if down {
                    tree.scan_rev(b"", None, |key, value| visit(key, &value));
                    seen.reverse();
                } else {
                    tree.scan(b"", None, |key, value| visit(key, &value));
                }
                assert!(seen.is_sorted_by(|a, b| a < b), "each once and in order");
                let found = seen.iter().filter(|key| stay.contains(key.as_slice())).count();
                assert_eq!(found, stay.len(), "keys that stay, down: {down}");
            }
            let guard = pin();
            for key in &stay {
                assert_eq!(tree.get(key, &guard).as_deref(), Some(*key));
            }
        };
        beside(write, read);
        assert_eq!(tree.check().unwrap().keys, stay.len() as u64);
        for key in &stay {
            assert!(tree.remove(key, &pin()).is_some());
        }
        let stats = tree.check().unwrap();
        let left = (stats.keys, stats.borders, stats.interiors, stats.layers, stats.prefixes);
        assert_eq!(left, (0, 1, 0, 1, 0));
    }
}
