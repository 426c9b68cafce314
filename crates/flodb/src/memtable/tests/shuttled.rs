//! A memtable as a whole under shuttle: puts of all threads, gets, cursors while runs are made,
//! the end of inserts and the flush, in random schedules.

use super::*;
use crate::key::SEQUENCE_MAX;
use keyrack_concurrent::schedules::explore;
use shuttle::thread;

const SCHEDULES: usize = 10_000;

/// Small, so that a schedule is; with room for all entries of a test.
fn small() -> Arc<Memtable> {
    let options = MemtableOptions { tail_entries_max: 1, ..MemtableOptions::default() };
    Arc::new(Memtable::new(16 << 10, Comparator::Bytewise, options))
}

/// The sequences of what a cursor shows.
fn shown(memtable: &Arc<Memtable>, upto: u64) -> Vec<u64> {
    let entries = scan(&mut memtable.cursor(upto));
    assert!(
        entries.is_sorted_by(|a, b| Comparator::Bytewise.internal(&a.0, &b.0).is_lt()),
        "each once and in order"
    );
    let mut sequences: Vec<u64> =
        entries.iter().map(|(key, _)| key::parse(key).unwrap().sequence).collect();
    sequences.sort_unstable();
    sequences
}

/// Two threads put versions of the same keys, whose hashes lie together; each sees its own at once,
/// and nobody sees less than was there before the threads began.
#[test]
fn versions_of_one_key_come_from_all_sides() {
    explore(SCHEDULES, || {
        let memtable = small();
        put(&memtable, 1, b"a", b"old");
        put(&memtable, 2, b"b", b"old");
        let writers: Vec<_> = [[6, 3], [4, 5]]
            .into_iter()
            .map(|sequences| {
                let memtable = Arc::clone(&memtable);
                thread::spawn(move || {
                    for sequence in sequences {
                        put(&memtable, sequence, b"a", &[sequence as u8]);
                        let newest = get(&memtable, b"a", SEQUENCE_MAX).unwrap().1;
                        assert!(newest >= sequence, "{newest} and not my own {sequence}");
                        if memtable.needs_sort() {
                            memtable.sort_tail();
                        }
                    }
                })
            })
            .collect();
        let reader = {
            let memtable = Arc::clone(&memtable);
            thread::spawn(move || {
                let mut last = 0;
                for _ in 0..3 {
                    let (_, sequence, value) = get(&memtable, b"a", SEQUENCE_MAX).unwrap();
                    let right = if sequence == 1 { b"old".to_vec() } else { vec![sequence as u8] };
                    assert_eq!(value, right, "the value of its sequence");
                    assert!(sequence >= last, "{sequence} behind {last}");
                    last = sequence;
                    assert_eq!(get(&memtable, b"a", 2), Some((Kind::Put, 1, b"old".to_vec())));
                }
                let early = shown(&memtable, SEQUENCE_MAX);
                assert!(early.starts_with(&[1, 2]), "{early:?}");
                let later = shown(&memtable, SEQUENCE_MAX);
                assert!(early.iter().all(|it| later.contains(it)), "{early:?} {later:?}");
            })
        };
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
        assert_eq!(shown(&memtable, SEQUENCE_MAX), [1, 2, 3, 4, 5, 6]);
        for sequence in [1, 3, 4, 5, 6] {
            assert_eq!(get(&memtable, b"a", sequence).unwrap().1, sequence);
        }
    });
}

/// A memtable is made immutable under its writers: what was accepted is in what is drained, and
/// what was refused is not.
#[test]
fn what_was_accepted_is_what_is_drained() {
    explore(SCHEDULES, || {
        let memtable = small();
        let writers: Vec<_> = [[1, 2, 3], [4, 5, 6]]
            .into_iter()
            .map(|sequences| {
                let memtable = Arc::clone(&memtable);
                thread::spawn(move || {
                    let accepted = |sequence: &u64| {
                        let key = [b'k', *sequence as u8];
                        insert(&memtable, *sequence, Kind::Put, &key, b"value").is_ok()
                    };
                    sequences.into_iter().filter(accepted).collect::<Vec<u64>>()
                })
            })
            .collect();
        memtable.make_immutable();
        memtable.wait_for_inserts();
        let drained = shown(&memtable, SEQUENCE_MAX);
        let mut accepted: Vec<u64> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        accepted.sort_unstable();
        assert_eq!(drained, accepted);
        assert_eq!(shown(&memtable, SEQUENCE_MAX), accepted, "and nothing came behind it");
    });
}

/// Range tombstones from two sides, while a third asks for them.
#[test]
fn no_range_deletion_is_lost() {
    explore(SCHEDULES / 2, || {
        let memtable = small();
        let writers: Vec<_> = [[1, 3], [2, 4]]
            .into_iter()
            .map(|sequences| {
                let memtable = Arc::clone(&memtable);
                thread::spawn(move || {
                    for sequence in sequences {
                        insert(&memtable, sequence, Kind::DeleteRange, b"a", b"c").unwrap();
                        assert_eq!(memtable.newest_range_tombstone(b"b", sequence), Some(sequence));
                    }
                })
            })
            .collect();
        let before = memtable.floor(b"b", SEQUENCE_MAX);
        assert!(memtable.floor(b"b", SEQUENCE_MAX) >= before);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut listed: Vec<u64> =
            memtable.range_tombstones().iter().map(|it| it.sequence).collect();
        listed.sort_unstable();
        assert_eq!(listed, [1, 2, 3, 4]);
        assert_eq!(memtable.newest_range_tombstone(b"bb", SEQUENCE_MAX), Some(4));
    });
}
