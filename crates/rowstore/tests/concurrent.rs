//! Several threads: versions, groups, and everything at once, with crashes.

use crate::support::{close, content, get, open, tiny, version, with_logs};
use keyrack_rowstore::{Options, RowStore, Rows};
use keyrack_store::Update;
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::MemFs;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const THREADS: usize = 4;

#[test]
fn versions_grow_over_removals_and_new_rows_whoever_writes_them() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let store = RowStore::in_memory(tiny()).unwrap();
        let running = AtomicUsize::new(THREADS);
        let given: Vec<Vec<(u8, u64)>> = std::thread::scope(|scope| {
            let (store, running) = (&store, &running);
            let writers: Vec<_> = (0..THREADS as u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut draw = Draw::new(seed ^ thread << 32);
                        let (mut session, mut given) = (store.session().unwrap(), Vec::new());
                        for _ in 0..3000 * factor() {
                            let key = draw.below(8) as u8;
                            if draw.below(3) == 0 {
                                session.remove(&[key]).unwrap();
                            } else {
                                given.push((key, session.put(&[key], b"v", 0, 0).unwrap()));
                            }
                        }
                        running.fetch_sub(1, Ordering::Relaxed);
                        given
                    })
                })
                .collect();
            scope.spawn(move || {
                let (mut session, mut last) = (store.session().unwrap(), [0; 8]);
                while running.load(Ordering::Relaxed) > 0 {
                    for (key, last) in last.iter_mut().enumerate() {
                        if let Some(version) = version(&mut *session, &[key as u8]) {
                            assert!(*last <= version, "{key}: {version} after {last}");
                            *last = version;
                        }
                    }
                }
            });
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let mut seen: BTreeMap<(u8, u64), usize> = BTreeMap::new();
        for (thread, given) in given.iter().enumerate() {
            let mut last = [0; 8];
            for (key, version) in given {
                assert!(last[usize::from(*key)] < *version);
                last[usize::from(*key)] = *version;
                assert_eq!(seen.insert((*key, *version), thread), None, "given twice");
            }
        }
    }
}

#[test]
fn increments_of_many_threads_add_up() {
    let store = RowStore::in_memory(tiny()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut session = store.session().unwrap();
                for _ in 0..2000 {
                    let add =
                        &mut |row: Option<keyrack_rowstore::Row<'_>>,
                              new: &mut keyrack_rowstore::RowBuf| {
                            let old = row.map_or(0, |row| {
                                u64::from_le_bytes(row.value().try_into().unwrap())
                            });
                            new.set_value(&(old + 1).to_le_bytes());
                            Update::Put
                        };
                    session.update(b"counter", add).unwrap();
                }
            });
        }
    });
    let sum = get(&mut *store.session().unwrap(), b"counter").unwrap();
    assert_eq!(u64::from_le_bytes(sum.try_into().unwrap()), 2000 * THREADS as u64);
}

/// Each thread moves two keys at once; checkpoints run all the time; a crash may come anywhere.
#[test]
fn a_group_is_there_whole_or_not_at_all_whatever_checkpoint_was_under_way() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let disk = MemFs::new();
        let store = open(&disk, with_logs(2));
        let running = AtomicUsize::new(THREADS);
        let mut images = Vec::new();
        std::thread::scope(|scope| {
            let (store, running) = (&store, &running);
            for thread in 0..THREADS as u8 {
                scope.spawn(move || {
                    let mut session = store.session().unwrap();
                    for n in 0..400_u32 {
                        session.begin_group().unwrap();
                        session.put(&[b'a', thread], &n.to_le_bytes(), 0, 0).unwrap();
                        session.put(&[b'z', thread], &n.to_le_bytes(), 0, 0).unwrap();
                        session.flush().unwrap();
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            scope.spawn(move || {
                while running.load(Ordering::Relaxed) > 0 {
                    store.checkpoint().unwrap();
                }
            });
            let mut draw = Draw::new(seed);
            while running.load(Ordering::Relaxed) > 0 && images.len() < 60 {
                images.push(match draw.below(2) {
                    0 => disk.process_crash_image(),
                    _ => disk.crash_image(draw.next(), keyrack_vfs::CrashPolicy::Reordered),
                });
            }
        });
        for (number, image) in images.iter().enumerate() {
            let found = open(image, tiny());
            let mut session = found.session().unwrap();
            for thread in 0..THREADS as u8 {
                let pair = [b'a', b'z'].map(|letter| get(&mut *session, &[letter, thread]));
                assert_eq!(pair[0], pair[1], "image {number}, thread {thread}");
            }
        }
    }
}

/// Writers, removals of everything in every other round, and checkpoints: in the end the files have
/// what memory has.
#[test]
fn what_is_in_memory_is_what_comes_back_even_when_everything_is_removed_meanwhile() {
    for seed in seeds() {
        for round in 0..6 * factor() as u64 {
            let seed = seed.wrapping_add(round);
            let _seed = Announced(seed);
            let disk = MemFs::new();
            let store = open(&disk, Options { threads: 1, ..with_logs(3) });
            let (is_over, is_cleared) = (AtomicBool::new(false), round.is_multiple_of(2));
            std::thread::scope(|scope| {
                let (store, is_over) = (&store, &is_over);
                let writers: Vec<_> = (0..3_u64)
                    .map(|thread| {
                        scope.spawn(move || {
                            let mut draw = Draw::new(seed ^ thread << 32);
                            let mut session = store.session().unwrap();
                            for n in 0..500_u32 {
                                let key = [draw.below(30) as u8];
                                match draw.below(60) {
                                    0 if is_cleared => session.clear().unwrap(),
                                    1..=15 => drop(session.remove(&key).unwrap()),
                                    _ => {
                                        session.put(&key, &n.to_le_bytes(), 0, 0).unwrap();
                                    }
                                }
                                if draw.below(5) == 0 {
                                    session.flush().unwrap();
                                }
                            }
                        })
                    })
                    .collect();
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        store.checkpoint().unwrap();
                    }
                });
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                is_over.store(true, Ordering::Relaxed);
            });
            let expected = content(&store);
            // Clears beside writers leave counts that are right after the next sweep.
            store.sweep(0).unwrap();
            assert_eq!(store.len(), expected.len() as u64);
            let image = disk.process_crash_image();
            drop(store);
            assert!(content(&open(&image, tiny())) == expected, "round {round}");
            // And from the files of another checkpoint alone.
            let store = open(&image, with_logs(3));
            store.checkpoint().unwrap();
            close(store);
            assert!(content(&open(&image, with_logs(3))) == expected, "round {round}");
        }
    }
}
