//! Many threads on one tree. Every test knows something that holds however they interleave.

use keyrack_concurrent::pin;
use keyrack_masstree::{Bytes, Tree};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use std::collections::BTreeSet;
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

/// Every fourth key is always there; the others come and go. Gets and scans see all of the former,
/// once and in order, both ways; values belong to their keys.
#[test]
fn keys_that_stay_are_always_found() {
    const KEYS: u64 = 2000;
    let stays = |n: u64| n.is_multiple_of(4);
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
                for _ in 0..40 * factor() {
                    // A wave over a part of the keys, so that nodes fill and empty.
                    let start = draw.next() % KEYS;
                    let length = 1 + draw.next() % 300;
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
                tree.range(b"", None, |key, found| {
                    seen.push(check_row(key, &found));
                    ControlFlow::Continue(())
                });
                assert!(seen.is_sorted_by(|a, b| a < b), "ascending, each once");
                seen.retain(|n| stays(*n));
                assert_eq!(seen, expected, "a scan sees all that stay");
                let mut seen = Vec::new();
                tree.range_rev(b"", None, |key, found| {
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

/// Keys of a few slices, in layers of their own where two share a tail, so that layers are made and
/// go, and move into layers of their slices and vanish with them. Scans stay in order, both ways.
#[test]
fn scans_stay_in_order_while_layers_come_and_go() {
    const KEYS: u64 = 6 * 40;
    let key = |n: u64| format!("{:08}{:08}{}", n / 40, n % 40 / 2, n % 2).into_bytes();
    let stays = |n: u64| n / 40 % 3 == 2 && n.is_multiple_of(7);
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
                for n in (group * 40..group * 40 + 40).filter(|n| !stays(*n)) {
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
                    tree.range_rev(b"", None, |key, value| visit(&mut seen, key, &value));
                    seen.reverse();
                } else {
                    tree.range(b"", None, |key, value| visit(&mut seen, key, &value));
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

/// Long keys of one slice: entries become layers while others read and remove them.
#[test]
fn keys_that_move_into_a_layer_are_found_all_the_time() {
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
            tree.insert(&name(round, thread), thread, &guard);
            latest.fetch_max(round, Ordering::Relaxed);
            assert_eq!(tree.get(&name(round, thread), &guard), Some(thread));
            assert_eq!(tree.remove(&name(round - 1, thread + 100), &guard), None);
        }
    };
    let read = || {
        let guard = pin();
        for n in 0..2 {
            assert_eq!(tree.get(&name(0, n), &guard), Some(n));
        }
        let latest = latest.load(Ordering::Relaxed);
        for thread in 0..THREADS {
            let found = tree.get(&name(latest, thread), &guard);
            assert!(found.is_none_or(|found| found == thread));
        }
    };
    beside(write, read);
    assert_eq!(tree.check().unwrap().keys, 2 + (rounds - 1) * (THREADS - 1));
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
                let visited = tree.range_rev(b"", None, |key, _| {
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
